"""Words and subword pieces as in fairseq's preparation of IWSLT14, and one dictionary per language.

sacremoses splits sentences into words, subword-nmt learns and applies the merges.
"""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module
from typing import Any, Literal

from aleatoric.errors import UsageError

Language = Literal["de", "en"]
PairOfPieces = tuple[str, str]

END_OF_WORD = "</w>"
BOS, PAD, EOS, UNK = range(4)
SPECIALS = ("<s>", "<pad>", "</s>", "<unk>")
_VERSION = "#version: 0.2"
_OUTER_APOSTROPHE = re.compile(r"^'|'$")
"""Stands alone by the Moses script, which surrounds a sentence with spaces; not by sacremoses."""


def tokenise(text: str, language: Language) -> list[str]:
    """Split a sentence into Moses words; special characters are escaped."""
    words: list[str] = _moses(language).tokenize(_OUTER_APOSTROPHE.sub(" ' ", text.strip()))
    return words


@cache
def _moses(language: Language) -> Any:
    return _required("sacremoses").MosesTokenizer(lang=language)


def learn_merges(words: Mapping[str, int], merges: int) -> list[PairOfPieces]:
    """Learn at most `merges` byte-pair merges from word counts; a pair must occur twice."""
    learn = _required("subword_nmt.learn_bpe").learn_bpe
    lines = [f"{word} {count}" for word, count in words.items()]
    written = io.StringIO()
    # subword-nmt shows progress, and says that no pair is left, on standard error.
    with redirect_stderr(io.StringIO()):
        learn(lines, written, merges, is_dict=True)
    pairs = (line.split(" ") for line in written.getvalue().splitlines()[1:])
    return [(left, right) for left, right in pairs]


class Segmenter:
    """Cuts words into the pieces that learned merges make; the last piece of a word is marked."""

    def __init__(self, merges: Sequence[PairOfPieces]) -> None:
        lines = "\n".join([_VERSION, *map(" ".join, merges)])
        # Words hold no spaces, so a space can mark the pieces that do not end a word.
        codes, bpe = io.StringIO(lines), _required("subword_nmt.apply_bpe").BPE
        self._bpe = bpe(codes, len(merges), separator=" ")

    def pieces(self, words: Sequence[str]) -> list[str]:
        """Return the pieces of a sentence, given as words."""
        found = self._bpe.segment_tokens(words)
        return [piece[:-1] if piece[-1] == " " else piece + END_OF_WORD for piece in found]


def _required(module: str) -> Any:
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise UsageError(
            f"this needs the package {error.name}: run pip install -r "
            "recipes/multi30k/requirements.txt."
        ) from None


@dataclass(frozen=True)
class Dictionary:
    """The pieces of one language by number; the first four are special.

    >>> Dictionary.of([["a", "b"], ["b"]]).ids(["b", "?"])
    [4, 3, 2]
    """

    pieces: tuple[str, ...]

    @classmethod
    def of(cls, sentences: Iterable[Sequence[str]]) -> Dictionary:
        """Number the pieces in `sentences`, most frequent first, filled to a multiple of 8."""
        counts = Counter(piece for sentence in sentences for piece in sentence)
        known = sorted(counts, key=lambda piece: (-counts[piece], piece))
        # Numbers without a piece: fairseq fills up to a multiple of 8 too.
        unused = [f"<unused{n}>" for n in range(-(len(SPECIALS) + len(known)) % 8)]
        return cls((*SPECIALS, *known, *unused))

    def __len__(self) -> int:
        return len(self.pieces)

    def ids(self, pieces: Iterable[str]) -> list[int]:
        """Return the numbers of the pieces, then that of the end of the sentence."""
        return [*(self._numbers.get(piece, UNK) for piece in pieces), EOS]

    def words(self, ids: Iterable[int]) -> list[str]:
        """Return the words of a sentence's numbers, up to its end.

        >>> Dictionary.of([["lo", "w</w>"]]).words([4, 5, 2, 4])
        ['low']
        """
        pieces: list[str] = []
        for number in ids:
            if number == EOS:
                break
            pieces.append(self.pieces[number])
        return "".join(pieces).replace(END_OF_WORD, " ").split()

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {piece: number for number, piece in enumerate(self.pieces)}
