"""Networks for the tests of the sampling loop, and counting of their samples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from enumerable_lm import EnumerableLM
from scipy.stats import chi2_contingency, chisquare

from aleatoric.models.base import Writing
from aleatoric.models.decoding import Decoder
from aleatoric.models.sampling import (
    Ids,
    TextPrompt,
    TextSampler,
    Written,
    key_of,
    packs_of,
    write_all,
)
from aleatoric.types import TextItem


class ToyNetwork:
    """The enumerable toy as a network; its batch is a list of rows."""

    device, vocabulary_size = "cpu", 1

    def __init__(self, toy: EnumerableLM) -> None:
        self.toy = toy
        self.ends = (len(toy.tokens),)

    def begin(self, prompts: Sequence[Ids]) -> tuple[Any, torch.Tensor]:
        batch = ToyBatch(self, list(prompts))
        return batch, batch.logits()

    def alone(self, prompt: Ids, written: Ids) -> torch.Tensor:
        return torch.as_tensor(self.toy.next_log_probs((*prompt, *written)))[None]


class ToyBatch:
    def __init__(self, network: ToyNetwork, rows: list[Ids]) -> None:
        self.network, self.rows = network, rows

    def logits(self) -> torch.Tensor:
        return torch.cat([self.network.alone(row, ()) for row in self.rows])

    def advance(self, parents: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        pairs = zip(parents.tolist(), tokens.tolist(), strict=True)
        self.rows = [(*self.rows[parent], token) for parent, token in pairs]
        return self.logits()


def items(*inputs: str) -> list[TextItem]:
    return [TextItem(str(i), "1", (text,), ()) for i, text in enumerate(inputs)]


def written(
    network: Any, prompts: Sequence[Ids], samples: int, room: int, decoder: str = "ancestral",
    rows: int = 1000, seed: int = 0,
) -> dict[tuple[str, int], Written]:  # fmt: skip
    """The samples of prompts by prompt and number."""
    how = Decoder.parse(decoder)
    asked = [
        TextPrompt(str(i), ids, key_of(seed, str(i), how), room) for i, ids in enumerate(prompts)
    ]
    found = write_all(TextSampler(network, how), packs_of(asked, samples, rows))
    return {(sample.item_id, sample.number): sample for sample in found}


def first_tokens(network: Any, prompt: Ids, samples: int, decoder: str = "ancestral") -> Counter:
    """Counts of the first token, or of the end (-1)."""
    found = written(network, [prompt], samples, 1, decoder)
    return Counter(sample.ids[0] if sample.ids else -1 for sample in found.values())


def fits(counts: Counter, probabilities: dict[Any, float]) -> bool:
    """Whether counts fit probabilities; counts with probability 0 are rejected."""
    assert all(probabilities.get(outcome, 0) > 0 for outcome in counts)
    total = counts.total()
    common = [outcome for outcome, p in probabilities.items() if p * total >= 5]
    seen = [counts[outcome] for outcome in common]
    wanted = [probabilities[outcome] * total for outcome in common]
    rest = total - sum(wanted)
    if rest >= 5:
        seen, wanted = [*seen, total - sum(seen)], [*wanted, rest]
    scale = sum(seen) / sum(wanted)
    return len(seen) < 2 or chisquare(seen, np.array(wanted) * scale).pvalue > 1e-3


def alike(one: Counter, other: Counter) -> bool:
    """Whether two sets of counts fit one distribution."""
    common = [outcome for outcome in one | other if one[outcome] + other[outcome] >= 10]
    table = [[*(c[o] for o in common), c.total() - sum(c[o] for o in common)] for c in (one, other)]
    kept = np.array(table)[:, np.sum(table, axis=0) > 0]
    return chi2_contingency(kept).pvalue > 1e-3


def ask(**options: Any) -> Writing:
    return Writing(**({"samples": 4, "max_new_tokens": 8} | options))
