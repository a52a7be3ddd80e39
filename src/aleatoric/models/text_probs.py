"""Log-probabilities of sampled texts, from teacher-forced passes over the texts of one input.

The texts of an input are run together and apart from all others, so that numbers do not depend on
how inputs were batched while texts were sampled.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from aleatoric.models.base import pages
from aleatoric.models.decoding import Decoder

if TYPE_CHECKING:
    from aleatoric.models.generate_hf import TextNetwork

Ids = tuple[int, ...]
SampledText = tuple[Ids, bool]
"""The tokens of a text without its end, and whether it ended by itself."""
_LOGITS = 1 << 28
"""Logits that are computed at once."""


def log_probs(
    network: TextNetwork, prompt: Ids, texts: Sequence[SampledText], decoder: Decoder
) -> tuple[float, ...]:
    """Return the log-probability of each text under a decoder that excludes no token.

    All tokens that end a text are one outcome. A text that did not end by itself has the
    probability of all texts that begin with it.
    """
    distinct = list(dict.fromkeys(texts))
    longest = len(prompt) + max(len(ids) for ids, _ in distinct) + 1
    rows = max(1, _LOGITS // (longest * _width(network)))
    values = [v for part in pages(distinct, rows) for v in _part(network, prompt, part, decoder)]
    by_text = dict(zip(distinct, values, strict=True))
    return tuple(by_text[text] for text in texts)


def _width(network: TextNetwork) -> int:
    return int(getattr(network, "width", 1))


def _part(
    network: TextNetwork, prompt: Ids, texts: Sequence[SampledText], decoder: Decoder
) -> list[float]:
    ends = sorted(network.ends)
    targets = [(*ids, *islice(ends, is_ended)) for ids, is_ended in texts]
    with torch.inference_mode():
        logits = network.forced([(prompt, target) for target in targets])
        rows = zip(logits, texts, strict=True)
        return [_total(own, *text, ends, decoder) for own, text in rows]


def _total(
    logits: Tensor, ids: Ids, is_ended: bool, ends: Sequence[int], decoder: Decoder
) -> float:
    logp = decoder.log_probs(logits.double())
    total = logp[torch.arange(len(ids)), list(ids)].sum()
    return float(total + logp[-1, list(ends)].logsumexp(-1) if is_ended else total)
