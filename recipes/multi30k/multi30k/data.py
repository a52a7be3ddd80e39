"""Parallel text as a translation model reads it: prepared as fairseq prepares IWSLT14.

Moses words, training pairs of very unequal length left out, lower case, 10,000 joint byte-pair
merges, one dictionary per language.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aleatoric.errors import DataError
from aleatoric.types import SentencePair
from multi30k.subwords import (
    Dictionary,
    Language,
    PairOfPieces,
    Segmenter,
    learn_merges,
    tokenise,
)

MOST_PIECES = 1000
_MOST_WORDS = 175
_MOST_RATIO = 1.5

Words = list[str]


@dataclass(frozen=True)
class Example:
    """A sentence pair as piece numbers, each side with its end of sentence."""

    id: str
    source: tuple[int, ...]
    target: tuple[int, ...]


@dataclass(frozen=True)
class TranslationData:
    """Everything that training and scoring read."""

    encoder: Encoder
    train: tuple[Example, ...]
    validation: tuple[Example, ...]
    test: tuple[Example, ...]

    @property
    def source(self) -> Dictionary:
        """The pieces of the source language."""
        return self.encoder.source

    @property
    def target(self) -> Dictionary:
        """The pieces of the target language."""
        return self.encoder.target

    def sizes(self) -> dict[str, int]:
        """The counts that a report states."""
        return {
            "train_pairs": len(self.train),
            "validation_pairs": len(self.validation),
            "test_pairs": len(self.test),
            "source_vocabulary": len(self.source),
            "target_vocabulary": len(self.target),
            "train_target_tokens": sum(len(one.target) for one in self.train),
            "test_target_tokens": sum(len(one.target) for one in self.test),
        }


@dataclass(frozen=True)
class _Tokenised:
    id: str
    source: Words
    target: Words

    def is_clean(self) -> bool:
        short, long = sorted((len(self.source), len(self.target)))
        return short >= 1 and long <= _MOST_WORDS and long <= _MOST_RATIO * short


def prepare(
    train: Iterable[SentencePair],
    validation: Iterable[SentencePair],
    test: Iterable[SentencePair],
    languages: tuple[Language, Language] = ("de", "en"),
    merges: int = 10_000,
) -> TranslationData:
    """Learn merges and dictionaries on the training pairs and encode everything.

    Training pairs are left out where a side has over 175 words or 1.5 times the words of the
    other; validation and test pairs all stay.
    """
    words = [one for one in _tokenised(train, languages) if one.is_clean()]
    counts = Counter(word for one in words for word in (*one.source, *one.target))
    if not counts:
        raise DataError("no training pair is left after cleaning; check the two files.")
    learned = learn_merges(counts, merges)
    segmenter = Segmenter(learned)
    source = Dictionary.of(segmenter.pieces(one.source) for one in words)
    target = Dictionary.of(segmenter.pieces(one.target) for one in words)
    encoder = Encoder(segmenter, source, target, languages, tuple(learned))
    held_out = (encoder.encode_pairs(pairs) for pairs in (validation, test))
    return TranslationData(encoder, encoder.encode(words), *held_out)


def _tokenised(
    pairs: Iterable[SentencePair], languages: tuple[Language, Language]
) -> list[_Tokenised]:
    return [
        _Tokenised(pair.id, _lower(pair.source, languages[0]), _lower(pair.target, languages[1]))
        for pair in pairs
    ]


def _lower(text: str, language: Language) -> Words:
    # Only after the words are cut: the next capital decides whether a dot ends a sentence.
    return [word.lower() for word in tokenise(text, language)]


@dataclass(frozen=True)
class SavedEncoder:
    """All that an encoder is made of, as plain data."""

    languages: tuple[Language, Language]
    merges: tuple[PairOfPieces, ...]
    source: tuple[str, ...]
    target: tuple[str, ...]


@dataclass(frozen=True)
class Encoder:
    """Sentence pairs to piece numbers, as the training pairs taught it."""

    segmenter: Segmenter
    source: Dictionary
    target: Dictionary
    languages: tuple[Language, Language]
    merges: tuple[PairOfPieces, ...]

    @classmethod
    def restored(cls, saved: Mapping[str, Any]) -> Encoder:
        """The encoder that `saved` describes, read from JSON."""
        merges = tuple((left, right) for left, right in saved["merges"])
        source, target = (Dictionary(tuple(saved[side])) for side in ("source", "target"))
        first, second = saved["languages"]
        return cls(Segmenter(merges), source, target, (first, second), merges)

    def saved(self) -> SavedEncoder:
        """Return the plain data that `restored` takes."""
        return SavedEncoder(self.languages, self.merges, self.source.pieces, self.target.pieces)

    def encode_pairs(self, pairs: Iterable[SentencePair]) -> tuple[Example, ...]:
        """Whole sentence pairs in pieces."""
        return self.encode(_tokenised(pairs, self.languages))

    def encode(self, pairs: Sequence[_Tokenised]) -> tuple[Example, ...]:
        """Pairs cut into words already."""
        return tuple(_checked(self._example(one)) for one in pairs)

    def _example(self, pair: _Tokenised) -> Example:
        source = self.source.ids(self.segmenter.pieces(pair.source))
        target = self.target.ids(self.segmenter.pieces(pair.target))
        return Example(pair.id, tuple(source), tuple(target))


def _checked(example: Example) -> Example:
    length = max(len(example.source), len(example.target))
    if length > MOST_PIECES:
        problem = f"sentence {example.id} has {length} subword pieces"
        raise DataError(f"{problem}; split it into sentences of at most {MOST_PIECES}.")
    return example
