"""Byte-pair encoding as in fairseq's preparation: joint merges, one dictionary a language.

The merges are learned here, because their order must not depend on the run: the pair seen most
often, and of equal ones the last in order. The `tokenizers` package applies them.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

from aleatoric.errors import MissingExtraError

END_OF_WORD = "</w>"
BOS, PAD, EOS, UNK = range(4)
SPECIALS = ("<s>", "<pad>", "</s>", "<unk>")
_LEAST_COUNT = 2

PairOfPieces = tuple[str, str]


def learn_merges(words: Mapping[str, int], merges: int) -> list[PairOfPieces]:
    """The first `merges` byte-pair merges of counted words, fewer where no pair is seen twice.

    >>> learn_merges({"low": 5, "lower": 2}, 3)
    [('l', 'o'), ('lo', 'w</w>'), ('w', 'e')]
    """
    learner = _Learner(words)
    found: list[PairOfPieces] = []
    while len(found) < merges and (pair := learner.most_frequent()) is not None:
        learner.merge(pair)
        found.append(pair)
    return found


class _Descending(tuple[str, str]):
    """A pair that a heap gives from the last to the first."""

    __slots__ = ()

    def __lt__(self, other: tuple[str, ...]) -> bool:
        return tuple.__gt__(self, other)


class _Learner:
    """Words in pieces, with the counts of adjacent pairs kept up to date."""

    def __init__(self, words: Mapping[str, int]) -> None:
        self._weights = list(words.values())
        self._words = [_letters(word) for word in words]
        self._counts: defaultdict[PairOfPieces, int] = defaultdict(int)
        self._places: defaultdict[PairOfPieces, set[int]] = defaultdict(set)
        self._heap: list[tuple[int, _Descending]] = []
        for number, (word, weight) in enumerate(zip(self._words, self._weights, strict=True)):
            for pair in pairwise(word):
                self._counts[pair] += weight
                self._places[pair].add(number)
        self._push(self._counts)

    def most_frequent(self) -> PairOfPieces | None:
        """The next pair to merge."""
        while self._heap:
            count, pair = heapq.heappop(self._heap)
            # An entry is stale where the count has changed since it was put.
            if self._counts[pair] == -count >= _LEAST_COUNT:
                return pair[0], pair[1]
        return None

    def merge(self, pair: PairOfPieces) -> None:
        """Join `pair` wherever it stands."""
        changes: defaultdict[PairOfPieces, int] = defaultdict(int)
        for number in self._places.pop(pair):
            before, weight = self._words[number], self._weights[number]
            after = self._words[number] = _joined(before, pair)
            for one in pairwise(before):
                changes[one] -= weight
            for one in pairwise(after):
                changes[one] += weight
                self._places[one].add(number)
        changed = [one for one, change in changes.items() if change]
        for one in changed:
            self._counts[one] += changes[one]
        self._push(changed)

    def _push(self, pairs: Iterable[PairOfPieces]) -> None:
        for pair in pairs:
            heapq.heappush(self._heap, (-self._counts[pair], _Descending(pair)))


def _letters(word: str) -> list[str]:
    return [*word[:-1], word[-1] + END_OF_WORD]


def _joined(word: Sequence[str], pair: PairOfPieces) -> list[str]:
    out: list[str] = []
    for piece in word:
        # A piece made here is never the first half again: the next occurrence starts afresh.
        if out and out[-1] == pair[0] and piece == pair[1]:
            out[-1] += piece
        else:
            out.append(piece)
    return out


class Segmenter:
    """Cuts words into the pieces that learned merges make; a letter never seen is `<unk>`.

    >>> Segmenter([("l", "o"), ("lo", "w</w>")], "lower").pieces([["low", "lower"]])
    [['low</w>', 'lo', 'w', 'e', 'r</w>']]
    """

    def __init__(self, merges: Sequence[PairOfPieces], letters: Iterable[str]) -> None:
        try:
            from tokenizers import Tokenizer, models, pre_tokenizers
        except ModuleNotFoundError:
            raise MissingExtraError("tokenizers", "hf") from None
        pieces = dict.fromkeys([SPECIALS[UNK], *_alphabet(letters), *map("".join, merges)])
        vocabulary = {piece: number for number, piece in enumerate(pieces)}
        options: dict[str, Any] = {"unk_token": SPECIALS[UNK], "end_of_word_suffix": END_OF_WORD}
        self._tokenizer = Tokenizer(models.BPE(vocabulary, list(merges), **options))
        self._tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()

    def pieces(self, sentences: Iterable[Sequence[str]]) -> list[list[str]]:
        """The pieces of each sentence, given as words without white space."""
        texts = [" ".join(words) for words in sentences]
        return [encoding.tokens for encoding in self._tokenizer.encode_batch(texts)]


def _alphabet(letters: Iterable[str]) -> Iterator[str]:
    for letter in sorted(set("".join(letters))):
        yield letter
        yield letter + END_OF_WORD


@dataclass(frozen=True)
class Dictionary:
    """The pieces of one language by number; the first four are special.

    >>> Dictionary.of([["a", "b"], ["b"]]).ids(["b", "?"])
    [4, 3, 2]
    """

    pieces: tuple[str, ...]

    @classmethod
    def of(cls, sentences: Iterable[Sequence[str]]) -> Dictionary:
        """The dictionary of the pieces in `sentences`, most frequent first, a multiple of 8."""
        counts = Counter(piece for sentence in sentences for piece in sentence)
        counts.pop(SPECIALS[UNK], None)
        known = sorted(counts, key=lambda piece: (-counts[piece], piece))
        # Numbers that no piece has: fairseq fills up to a multiple of 8 too.
        unused = [f"<unused{n}>" for n in range(-(len(SPECIALS) + len(known)) % 8)]
        return cls((*SPECIALS, *known, *unused))

    def __len__(self) -> int:
        return len(self.pieces)

    def ids(self, pieces: Iterable[str]) -> list[int]:
        """The numbers of the pieces, and of the end of the sentence."""
        return [*(self._numbers.get(piece, UNK) for piece in pieces), EOS]

    def words(self, ids: Iterable[int]) -> list[str]:
        """The words of a sentence's numbers, up to its end.

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
