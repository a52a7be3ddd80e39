"""Decoders, and reproducible draws from next-token distributions.

The functions work on torch tensors whose last dimension is the vocabulary, and take and return
logits or log-probabilities, never probabilities. Draws are a function of 64-bit keys.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import partial
from operator import truediv
from typing import TYPE_CHECKING, Any

import numpy as np

from aleatoric.errors import UsageError, quoted
from aleatoric.types import Ints

if TYPE_CHECKING:
    from torch import Tensor


LEAST_TEMPERATURE = 1e-30
"""Logits divided by less could exceed the range of float32."""


@dataclass(frozen=True, slots=True)
class Decoder:
    """A named way to draw tokens. The default, ancestral, is the model's own distribution.

    Steps are applied in the order of the fields, as in transformers.

    >>> str(Decoder.parse("top_p=0.90, temperature=.5")), str(Decoder.parse("temperature=1"))
    ('temperature=0.5,top_p=0.9', 'ancestral')
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    typical: float = 1.0
    epsilon: float = 0.0
    eta: float = 0.0
    greedy: bool = False

    def __post_init__(self) -> None:
        share = "above 0 and at most 1"
        rules = {
            f"temperature must be at least {LEAST_TEMPERATURE:g}, or use greedy": (
                LEAST_TEMPERATURE <= self.temperature < math.inf
            ),
            "top_k must be at least 1": self.top_k >= 0,
            f"top_p must be {share}": 0 < self.top_p <= 1,
            f"typical must be {share}": 0 < self.typical <= 1,
            "min_p, epsilon and eta must be at least 0 and below 1": all(
                0 <= least < 1 for least in (self.min_p, self.epsilon, self.eta)
            ),
        }
        for rule, is_met in rules.items():
            if not is_met:
                raise UsageError(f"decoder: {rule}.")

    @classmethod
    def parse(cls, text: str, others: str = "") -> Decoder:
        """Parse a decoder such as `temperature=0.5,top_p=0.9`; an error also lists `others`."""
        values: dict[str, float | int | bool] = {}
        for part in text.split(","):
            name, value = _parse_part(part.strip(), others)
            if name in values:
                raise UsageError(f"decoder {text!r} names {name} twice.")
            values[name] = value
        values.pop("ancestral", None)
        if values.get("top_k") == 0:
            raise UsageError(f"decoder {text!r}: top_k must be at least 1; leave it out for all.")
        if values.get("greedy") and len(values) > 1:
            raise UsageError(f"decoder {text!r}: greedy cannot be combined.")
        return cls(**values)  # type: ignore[arg-type]

    def __str__(self) -> str:
        if self.greedy:
            return "greedy"
        # The shortest form that parses to the same number.
        steps = [(name, int(v) if v == int(v) else v) for name, v in self.changes()]
        return ",".join(f"{name}={value!r}" for name, value in steps) or "ancestral"

    def changes(self) -> list[tuple[str, float]]:
        """Return the steps that change the model's own distribution, with their values."""
        steps = [(f.name, getattr(self, f.name), f.default) for f in fields(self)]
        return [(name, value) for name, value, off in steps if value != off and name != "greedy"]

    @property
    def truncates(self) -> bool:
        """Whether some tokens lose all their probability."""
        return self.greedy or any(name != "temperature" for name, _ in self.changes())

    def log_probs(self, logits: Tensor) -> Tensor:
        """Return the log-probabilities from which the next token is drawn."""
        return self._changed(logits).log_softmax(-1)

    def probs(self, logits: Tensor) -> Tensor:
        """Return the probabilities from which the next token is drawn."""
        return self._changed(logits).softmax(-1)

    def weights_between(self, logits: Tensor, slack: float) -> tuple[Tensor, Tensor]:
        """Return the least and the largest weight of each token if logits are off by `slack`.

        Weights are relative and do not sum to 1. The two differ only for tokens that the decoder
        keeps or drops by a margin below `slack`.
        """
        if not slack:
            return (self.probs(logits),) * 2
        if self.greedy:
            near = logits >= logits.amax(-1, keepdim=True) - 2 * slack
            high = near.to(logits.dtype)
            return high * (near.sum(-1, keepdim=True) == 1), high
        logits = logits / self.temperature
        slack = slack / self.temperature
        weights = logits.softmax(-1)
        kept, unsure = self._kept(logits, weights, slack)
        high = weights.masked_fill(~(kept | unsure), 0.0)
        return (high.masked_fill(unsure, 0.0), high) if bool(unsure.any()) else (high, high)

    def _kept(self, logits: Tensor, weights: Tensor, slack: float) -> tuple[Tensor, Tensor]:
        """Which tokens stay, and for which this is in doubt."""
        unsure = logits.new_zeros(logits.shape).bool()
        for name, limit in self.changes():
            if name == "temperature":
                continue
            # Tokens in doubt change the sums of a later step by their mass.
            off = slack + (weights * unsure).sum(-1, keepdim=True)
            kept, doubtful = _SIDES[name](logits, limit, slack, off)
            logits, unsure = logits.masked_fill(~kept, -math.inf), unsure | doubtful
        return logits > -math.inf, unsure

    def _changed(self, logits: Tensor) -> Tensor:
        if self.greedy:
            return greedy(logits)
        for name, value in self.changes():
            logits = _STEPS[name](logits, value)
        return logits


WHOLE = ("beam", "mbr")
"""Decoders that choose among whole texts."""
_MOST = 1000


@dataclass(frozen=True, slots=True)
class TextDecoder:
    """A way to choose whole texts: draws of tokens, a beam search, or minimum Bayes risk.

    `beam` is the number of beams and of texts; `mbr` the number of ancestral samples from which
    each text is chosen.

    >>> str(TextDecoder.parse("beam=4")), str(TextDecoder.parse("top_p=.9"))
    ('beam=4', 'top_p=0.9')
    """

    tokens: Decoder = Decoder()
    beam: int = 0
    mbr: int = 0

    @classmethod
    def parse(cls, text: str) -> TextDecoder:
        """Parse a decoder of tokens, `beam=N` or `mbr=N`."""
        name, _, value = (part.strip() for part in text.partition("="))
        if name not in WHOLE:
            return cls(Decoder.parse(text, "; or, alone, beam=4 or mbr=20"))
        is_number = value.isdecimal() and len(value) < 5
        if not is_number or not 2 <= int(value) <= _MOST:
            problem = f"{name} stands alone, with a whole number from 2 to {_MOST}"
            raise UsageError(f"decoder {quoted(text, 80)}: {problem}; write {name}=10.")
        return cls(beam=int(value)) if name == "beam" else cls(mbr=int(value))

    @property
    def has_log_probs(self) -> bool:
        """Whether texts are drawn token by token, and every token can be drawn.

        Where tokens are excluded, rounding decides about those at the limit, and the probability
        of a text is not known.
        """
        return not (self.beam or self.mbr or self.tokens.truncates)

    def __str__(self) -> str:
        chosen = [f"{name}={getattr(self, name)}" for name in WHOLE if getattr(self, name)]
        return chosen[0] if chosen else str(self.tokens)


def canonical(decoders: Iterable[str]) -> tuple[str, ...]:
    """Return the names of decoders as `str` writes them, each once; unknown ones are kept.

    >>> canonical(["top_p=0.90,temperature=.5", "temperature=0.5,top_p=0.9", "greedily"])
    ('temperature=0.5,top_p=0.9', 'greedily')
    """
    return tuple(dict.fromkeys(map(_canonical, decoders)))


def _canonical(decoder: str) -> str:
    try:
        return str(TextDecoder.parse(decoder))
    except UsageError:
        return decoder


def top_k(logits: Tensor, k: int) -> Tensor:
    """Keep the k largest logits (and those equal to the k-th); the others become -inf."""
    least = logits.topk(min(k, logits.shape[-1]), -1).values[..., -1:]
    return logits.masked_fill(logits < least, -math.inf)


def top_p(logits: Tensor, p: float) -> Tensor:
    """Keep the smallest set of most likely tokens with at least mass p; ties prefer higher ids."""
    ordered, order = logits.sort(dim=-1, stable=True)
    dropped = ordered.softmax(-1).cumsum(-1) <= 1 - p
    dropped[..., -1] = False
    return logits.masked_fill(dropped.scatter(-1, order, dropped), -math.inf)


def typical(logits: Tensor, mass: float) -> Tensor:
    """Keep tokens with surprisal nearest to the entropy, up to the mass; ties prefer lower ids."""
    _, order = _atypicality(logits).sort(dim=-1, stable=True)
    cumulative = logits.gather(-1, order).softmax(-1).cumsum(-1)
    last = (cumulative < mass).sum(-1, keepdim=True).clamp_max(logits.shape[-1] - 1)
    ranks = order.argsort(-1)
    return logits.masked_fill(ranks > last, -math.inf)


def _atypicality(logits: Tensor) -> Tensor:
    """How far the surprisal of each token is from the entropy."""
    logp = logits.log_softmax(-1)
    return (-logp + (logp * logp.exp()).nansum(-1, keepdim=True)).abs()


def _at_least(smallest: Smallest, logits: Tensor, limit: float) -> Tensor:
    return logits.masked_fill(logits < smallest(logits, limit), -math.inf)


def _least_min_p(logits: Tensor, share: float) -> Tensor:
    """Keep tokens with at least `share` of the largest probability."""
    return logits.amax(-1, keepdim=True) + math.log(share)


def _least_epsilon(logits: Tensor, least: float) -> Tensor:
    """Keep tokens with at least the probability `least`, and the likeliest ones."""
    smallest = logits.logsumexp(-1, keepdim=True) + math.log(least)
    return smallest.minimum(logits.amax(-1, keepdim=True))


def _least_eta(logits: Tensor, least: float) -> Tensor:
    """Like `epsilon`, with a smaller least probability where the entropy is large."""
    logp = logits.log_softmax(-1)
    entropy = -(logp * logp.exp()).nansum(-1, keepdim=True)
    smallest = (math.log(least) / 2 - entropy).clamp_max(math.log(least))
    smallest = smallest + logits.logsumexp(-1, keepdim=True)
    return smallest.minimum(logits.amax(-1, keepdim=True))


def greedy(logits: Tensor) -> Tensor:
    """Put all mass on the most likely token, the first of several."""
    best = logits.argmax(-1, keepdim=True)
    return logits.new_full(logits.shape, -math.inf).scatter(-1, best, 0.0)


Smallest = Callable[["Tensor", float], "Tensor"]
"""Logits and a limit -> the smallest logit that is kept, per row; the largest always is."""
_LEAST: dict[str, Smallest] = {
    "min_p": _least_min_p,
    "epsilon": _least_epsilon,
    "eta": _least_eta,
}
_STEPS: dict[str, Callable[..., Tensor]] = {
    "temperature": truediv,
    "top_k": top_k,
    "top_p": top_p,
    "typical": typical,
    **{name: partial(_at_least, smallest) for name, smallest in _LEAST.items()},
}
Sides = tuple["Tensor", "Tensor"]
"""Which tokens a step keeps, and for which this is in doubt (ties at the border are)."""


def _sides_top_k(logits: Tensor, k: float, slack: float, off: Tensor) -> Sides:
    least = logits.topk(min(int(k), logits.shape[-1]), -1).values[..., -1:]
    near = (logits - least).abs() <= 2 * slack
    above = (logits > least + 2 * slack).sum(-1, keepdim=True)
    return logits >= least, near & (above + near.sum(-1, keepdim=True) > k)


def _sides_top_p(logits: Tensor, p: float, slack: float, off: Tensor) -> Sides:
    ordered = logits.sort(dim=-1).values
    sums = ordered.softmax(-1).cumsum(-1)
    first = (sums <= 1 - p).sum(-1, keepdim=True).clamp_max(logits.shape[-1] - 1)
    unsure = _unsure_around(logits, ordered, (sums - (1 - p)).abs() <= off, first, 2 * slack)
    return logits >= ordered.gather(-1, first), unsure


def _sides_typical(logits: Tensor, mass: float, slack: float, off: Tensor) -> Sides:
    distance = _atypicality(logits)
    probs = logits.log_softmax(-1).exp()
    ordered, order = distance.sort(dim=-1)
    sums = probs.gather(-1, order).cumsum(-1)
    last = (sums < mass).sum(-1, keepdim=True).clamp_max(logits.shape[-1] - 1)
    doubtful = (sums - mass).abs() <= off  # whether the one after it stays
    doubtful = doubtful | doubtful.roll(1, -1)
    # The error of an entropy is up to 32 times that of its probabilities.
    unsure = _unsure_around(distance, ordered, doubtful, last, 32 * off)
    return distance <= ordered.gather(-1, last), unsure


def _sides_least(
    smallest: Smallest, logits: Tensor, limit: float, slack: float, off: Tensor
) -> Sides:
    """The sides of a step that drops logits below a limit of the row."""
    least = smallest(logits, limit)
    # The error of an entropy is up to 32 times that of its probabilities.
    return logits >= least, (logits - least).abs() <= 32 * off


_SIDES: dict[str, Callable[..., Sides]] = {
    "top_k": _sides_top_k,
    "top_p": _sides_top_p,
    "typical": _sides_typical,
    **{name: partial(_sides_least, smallest) for name, smallest in _LEAST.items()},
}


def _unsure_around(
    values: Tensor, ordered: Tensor, doubtful: Tensor, border: Tensor, slack: Tensor | float
) -> Tensor:
    """Mark tokens whose value could swap with that of a token in doubt.

    In doubt are the marked ones, and the one at the border if others are within `slack` of it.
    """
    near = (ordered - ordered.gather(-1, border)).abs() <= slack
    doubtful = doubtful | (near & (near.sum(-1, keepdim=True) > 1))
    low = ordered.masked_fill(~doubtful, math.inf).amin(-1, keepdim=True)
    high = ordered.masked_fill(~doubtful, -math.inf).amax(-1, keepdim=True)
    return (values >= low - slack) & (values <= high + slack) & values.isfinite()


def _parse_part(part: str, others: str) -> tuple[str, float | int | bool]:
    name, equals, value = part.partition("=")
    name = name.strip()
    if name in ("ancestral", "greedy") and not equals:
        return name, True
    if name in _STEPS:
        with suppress(ValueError):
            return name, int(value) if name == "top_k" else float(value)
    if name in WHOLE:
        fix = "use it alone, at the text level and with a local model"
        raise UsageError(f"decoder {part!r} chooses among whole texts; {fix}.")
    forms = "ancestral, greedy, temperature=0.5, top_k=40, top_p=0.9, min_p=0.05, typical=0.2"
    forms += ", epsilon=0.0003, eta=0.0003"
    raise UsageError(f"unknown decoder {part!r}; use {forms}, or several by commas{others}.")


_GOLDEN = -7046029254386353131  # 0x9E3779B97F4A7C15 as a signed number


def levels(size: int) -> int:
    """Return how many uniform numbers one draw from `size` tokens needs."""
    return max(1, (size - 1).bit_length())


def draw(probabilities: Tensor, rows: Tensor, keys: Tensor, rounding: float = 0.0) -> Tensor:
    """Draw, per key i, a token from the distribution `probabilities[rows[i]]`.

    Tokens without mass are never drawn. A draw that relative errors of `rounding` could change is
    returned as -1 - token.
    """
    import torch

    sums = _pyramid(probabilities)
    numbers = uniforms(keys, len(sums) - 1)
    # Few, large steps: on a GPU each costs more to launch than to run. At every level the nodes
    # of all rows are numbered together: the halves of node i are the i-th pair of the level below.
    node, margins, masses = rows, [], []
    for number, floor in zip(numbers, reversed(sums[:-1]), strict=True):
        left, right = floor.reshape(-1, 2).index_select(0, node).unbind(1)
        total = left + right
        margin = number * total - left
        node = torch.add(margin >= 0, node, alpha=2)
        margins.append(margin)
        masses.append(total)
    place = node - rows * sums[0].shape[1]
    close = torch.stack(margins).abs() < rounding * torch.stack(masses)
    return torch.where(close.any(0), -1 - place, place)


def draw_between(low: Tensor, high: Tensor, rows: Tensor, keys: Tensor, rounding: float) -> Tensor:
    """Like `draw`, for weights between `low` and `high`, up to relative errors of `rounding`.

    The weights need not sum to 1. A draw that other weights in between could change is returned
    as -1 - token.
    """
    least = _pyramid(low)
    most = least if high is low else _pyramid(high)
    numbers = uniforms(keys, len(least) - 1)
    place = rows.new_zeros(rows.shape)
    close = place.bool()
    for level, (floor, roof) in enumerate(zip(least[-2::-1], most[-2::-1], strict=True)):
        left, right = (rows, 2 * place), (rows, 2 * place + 1)
        # A draw goes to the right where number * right >= (1 - number) * left.
        up, down = numbers[level], 1 - numbers[level]
        goes_right = up * (floor[right] + roof[right]) >= down * (floor[left] + roof[left])
        surely_right = up * floor[right] * (1 - rounding) >= down * roof[left] * (1 + rounding)
        surely_left = up * roof[right] * (1 + rounding) < down * floor[left] * (1 - rounding)
        close |= ~surely_right.where(goes_right, surely_left)
        place = 2 * place + goes_right.long()
    return place.where(~close, -1 - place)


def widened(logits: Tensor) -> Tensor:
    """Return logits in float32 at least."""
    return logits if logits.dtype.itemsize == 8 else logits.float()


def rounding_of(logits: Any) -> float:
    """Relative rounding error of a probability; 0 if the precision is too low to tell.

    In float32 the logits of a small language model change by 7e-6 on average from one batch shape
    to another.
    """
    return {4: 2.0**-16, 8: 2.0**-40}.get(logits.dtype.itemsize, 0.0)


def child(keys: Ints, number: Ints | int) -> Ints:
    """Return the keys of the `number`-th children of `keys`."""
    steps = np.atleast_1d(np.asarray(number, dtype=np.int64)) + 1
    children: Ints = mix(keys + steps * _GOLDEN)  # integer arrays wrap around silently
    return children


def uniforms(keys: Tensor, count: int) -> Tensor:
    """Return the first `count` 24-bit uniform numbers in [0, 1) of each key: [count, keys]."""
    import torch

    steps = torch.arange(1, count + 1, device=keys.device) * _GOLDEN
    numbers: Tensor = _shift(mix(keys + steps[:, None]), 40).float() * 2.0**-24
    return numbers


def mix(values: Any) -> Any:
    """Apply SplitMix64's finalizer to signed 64-bit numbers, of numpy or torch.

    >>> int(mix(np.array([1]))[0])
    6238072747940578789
    """
    values = (values ^ _shift(values, 30)) * -4658895280553007687
    values = (values ^ _shift(values, 27)) * -7723592293110705685
    return values ^ _shift(values, 31)


def _shift(values: Any, bits: int) -> Any:
    return (values >> bits) & ((1 << (64 - bits)) - 1)


def _pyramid(probabilities: Tensor) -> list[Tensor]:
    """Sums of neighbors, of neighbors' sums, and so on up to one number per row."""
    from torch.nn.functional import pad

    width = probabilities.shape[-1]
    sums = [pad(probabilities, (0, (1 << levels(width)) - width))]
    while sums[-1].shape[-1] > 1:
        sums.append(sums[-1][:, 0::2] + sums[-1][:, 1::2])
    return sums
