"""Lengths of inputs and texts in words, tokens and sentences, as in the paper's Table 1."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from aleatoric.levels.text_inputs import StudyOptions, TextCase
from aleatoric.models.base import pages
from aleatoric.result_types import Study, Table

UNITS = ("words", "tokens", "sentences", "words per sentence", "tokens per sentence")
CHUNK = 512
"""Texts that are read at once."""
Cut = Callable[[Sequence[str]], Sequence[Sequence[str]]]
"""Cuts each text into words, tokens or sentences."""
_SENTENCE_END = re.compile(r"([.!?…][\"'”’)\]]*)\s+|([。！？][”’」』）]*)\s*")


@dataclass(frozen=True)
class LengthSummary:
    """A distribution of lengths; the standard deviation is that of the population."""

    n: int
    mean: float
    std: float
    median: float
    low: int
    high: int

    @classmethod
    def of(cls, counts: Mapping[int, int]) -> LengthSummary | None:
        """Summarize length -> number of texts; `None` without a text."""
        if not counts:
            return None
        lengths, weights = np.array(sorted(counts.items())).T
        n = int(weights.sum())
        mean = np.average(lengths, weights=weights)
        variance = np.average((lengths - mean) ** 2, weights=weights)
        middle = np.searchsorted(weights.cumsum(), [(n - 1) // 2, n // 2], side="right")
        median = float(lengths[middle].mean())
        return cls(n, float(mean), float(variance**0.5), median, min(counts), max(counts))


def lengths_by_unit(
    texts: Iterable[str], sentences: Cut, words: Cut, tokens: Cut | None = None
) -> dict[str, LengthSummary]:
    """Return unit -> the summary of the texts' lengths; without `tokens` these are left out.

    Memory grows with distinct lengths.
    """
    counts: dict[str, Counter[int]] = defaultdict(Counter)
    for chunk in pages(texts, CHUNK):
        by_text = sentences(chunk)
        counts["sentences"].update(map(len, by_text))
        parts = [sentence for of_text in by_text for sentence in of_text]
        for unit, cut in (("words", words), ("tokens", tokens)):
            if cut is not None:
                counts[unit].update(map(len, cut(chunk)))
                counts[f"{unit} per sentence"].update(map(len, cut(parts)))
    summaries = {unit: LengthSummary.of(counts.get(unit, {})) for unit in UNITS}
    return {unit: summary for unit, summary in summaries.items() if summary}


def sentence_splitter(language: str) -> tuple[Cut, str]:
    """Return a rule-based splitter into sentences, and its name.

    Without spaCy, or its rules for the language, texts are split after . ! ? and at line breaks.
    """
    try:
        import spacy

        pipeline = spacy.blank(language)
    except ImportError:
        return _by_punctuation, "split after . ! ? (spaCy's rules need the extra nlp)"
    pipeline.add_pipe("sentencizer")
    pipeline.max_length = 10**9  # of the tagger and parser, which this pipeline lacks

    def split(texts: Sequence[str]) -> list[list[str]]:
        with pipeline.memory_zone():
            documents = (pipeline(text) for text in texts)
            return [[sentence.text for sentence in d.sents] for d in documents]

    return split, f"spaCy's sentencizer for {language}"


def _by_punctuation(texts: Sequence[str]) -> list[list[str]]:
    lines = (_SENTENCE_END.sub(r"\1\2\n", text).splitlines() for text in texts)
    return [[line for line in parts if line.strip()] for parts in lines]


def _without_punctuation(tokens: Sequence[Sequence[str]]) -> list[list[str]]:
    return [[token for token in own if any(map(str.isalnum, token))] for own in tokens]


def run(cases: Sequence[TextCase], seed: int, options: StudyOptions) -> Study:
    """Summarize the lengths of inputs, people's texts and a system's texts."""
    tools = options.tools
    reader = tools.length_reader()
    split, rule = sentence_splitter(tools.language)

    def tokens(texts: Sequence[str]) -> list[Sequence[str]]:
        by_text = reader.tokens(texts)
        return [by_text[text] for text in texts]

    def words(texts: Sequence[str]) -> list[list[str]]:
        return _without_punctuation(tokens(texts))

    sides: dict[str, Callable[[TextCase], Iterable[str]]] = {
        "inputs": lambda case: (" ".join(case.item.input),),
        "people's texts": lambda case: case.item.references,
        "generator's texts": lambda case: case.texts,
    }
    rows: list[tuple[str, ...]] = []
    for side, texts_of in sides.items():
        texts = (text for case in cases for text in texts_of(case))
        by_unit = lengths_by_unit(texts, split, words, tokens)
        n = by_unit["sentences"].n if by_unit else 0
        rows += [(side, str(n), unit, *_cells(summary)) for unit, summary in by_unit.items()]
    columns = ("of", "texts", "unit", "mean", "std", "median", "range")
    return Study(
        "lengths",
        (Table("Lengths of texts", columns, tuple(rows), _notes(cases, reader.label, rule)),),
    )


def _cells(summary: LengthSummary) -> Iterator[str]:
    yield from (f"{summary.mean:.2f}", f"{summary.std:.2f}", f"{summary.median:g}")
    yield f"{summary.low}–{summary.high}"


def _notes(cases: Sequence[TextCase], tokenizer: str, rule: str) -> tuple[str, ...]:
    sides = {
        "people": Counter(len(case.item.references) for case in cases),
        "the generator": Counter(len(case.texts) for case in cases),
    }
    per_input = ", ".join(
        f"{n.mean:.1f} ({n.low} to {n.high}) of {whose}"
        for whose, counts in sides.items()
        if (n := LengthSummary.of(counts))
    )
    return (
        f"{len(cases)} inputs; texts per input: {per_input}.",
        f"Tokens: {tokenizer}. Words: tokens with a letter or digit. Sentences: {rule}.",
        "Whole texts, before any cut to a maximum length. std: between texts.",
    )
