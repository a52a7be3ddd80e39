"""Statistics of one text (length, perplexity, a score of one's own), compared as |s(a) - s(b)|.

The energy distance of these distances is 0 only for two equal distributions of the statistic.
`values` are the statistic itself, whose distributions are shown besides.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from aleatoric.errors import UsageError, quoted, refuse_argument
from aleatoric.probes.base import ANY, Block, NegativeType, numbers
from aleatoric.probes.encoders import encode_once
from aleatoric.probes.tools import TextReader, Tools
from aleatoric.registry import called, function_at
from aleatoric.types import Floats

Statistic = Callable[[Sequence[str]], Floats]
"""Distinct texts -> one number per text; NaN is undefined."""


@dataclass(frozen=True)
class Difference:
    """The absolute difference between a statistic of two texts."""

    name: str
    statistic: Statistic
    facts: Mapping[str, str]
    bounds: tuple[float, float] = ANY
    negative_type: NegativeType = "strict"

    def values(self, texts: Sequence[str]) -> Floats:
        """The statistic of each text; that of each distinct text is computed once."""
        distinct = list(dict.fromkeys(texts))
        by_text = dict(zip(distinct, self.statistic(distinct).tolist(), strict=True))
        return np.array([by_text[text] for text in texts], dtype=np.float64)

    def matrices(self, blocks: Sequence[Block]) -> list[Floats]:
        """Distances per block; NaN if the statistic of one of the texts is undefined."""
        values = self.values([text for block in blocks for text in block.texts])
        parts = np.split(values, np.cumsum([len(block.texts) for block in blocks])[:-1])
        return [np.abs(np.subtract.outer(part, part)) for part in parts[: len(blocks)]]


def open_length(argument: str, tools: Tools) -> Difference:
    """`length`: the number of tokens of the run's tokenizer."""
    refuse_argument("probe", "length", argument)
    reader = tools.length_reader()
    facts = {"tokeniser": reader.label}
    return Difference("length", lambda texts: lengths(reader, texts), facts)


def lengths(reader: TextReader, texts: Sequence[str]) -> Floats:
    """The number of tokens of each text."""
    tokens = reader.tokens(texts)
    return np.array([len(tokens[text]) for text in texts], dtype=np.float64)


def open_perplexity(argument: str, tools: Tools) -> Difference:
    """`perplexity:MODEL`: exp of the mean negative log-probability of a text's tokens."""
    return _likelihood("perplexity", argument, tools, lambda log_prob, n: np.exp(-log_prob / n))


def open_log_probability(argument: str, tools: Tools) -> Difference:
    """`log_probability:MODEL`: mean log-probability of a text's tokens in nats."""
    return _likelihood("log_probability", argument, tools, lambda log_prob, n: log_prob / n)


def _likelihood(
    kind: str, argument: str, tools: Tools, of: Callable[[Floats, Floats], Floats]
) -> Difference:
    """The model reads the text alone, without the input."""
    spec, opener = argument.removeprefix(":"), tools.open_likelihood
    if not spec:
        raise UsageError(f"the probe {kind} needs a model; write {kind}:smollm2 or {kind}:hf:NAME.")
    if opener is None:
        raise UsageError(f"the probe {kind} needs a run; use it with aleatoric text.")
    model = tools.shared(f"likelihood:{spec}", lambda: opener(spec))

    def statistic(texts: Sequence[str]) -> Floats:
        sums = encode_once(model, texts, tools.cache).astype(np.float64).reshape(-1, 2)
        with np.errstate(invalid="ignore", divide="ignore"):
            return of(sums[:, 0], np.where(sums[:, 1] > 0, sums[:, 1], np.nan))

    return Difference(f"{kind}:{spec}", statistic, {"likelihood": model.label})


def open_score(argument: str, tools: Tools) -> Difference:
    """`score:module:function`: a number that your function gives to a text."""
    place = argument.removeprefix(":")
    function = function_at(place, "score")

    def score(text: str) -> float:
        value = called(function, place, "score", text)
        try:
            number = float(numbers([value])[0])
        except (TypeError, ValueError):
            number = math.inf
        if math.isinf(number):
            problem = f"the score {place} returned {quoted(value)} for {quoted(text)}"
            raise UsageError(f"{problem}; return a number, or NaN where it is undefined.")
        return number

    facts = {"function": place}
    return Difference(f"score:{place}", lambda texts: np.array([*map(score, texts)], float), facts)
