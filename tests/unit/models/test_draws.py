"""Draws that rounding could change are marked."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from aleatoric.models.decoding import (  # noqa: E402
    Decoder,
    child,
    draw,
    draw_between,
    uniforms,
)

DECODERS = [
    "ancestral", "greedy", "temperature=0.5", "top_k=5", "top_p=0.9", "top_p=0.3", "typical=0.2",
    "typical=0.95", "top_k=8,top_p=0.8", "temperature=0.7,top_p=0.9,typical=0.5",
    "min_p=0.1", "epsilon=0.02", "eta=0.05", "top_k=20,min_p=0.03,typical=0.9,eta=0.01",
]  # fmt: skip
SLACK = 1e-3


def logits_of(seed: int, rows: int = 200, size: int = 37) -> torch.Tensor:
    """Rows of logits, many of them with near and exact ties."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(rows, size)) * 2
    values[::3] = values[::3].round(1)
    values[1::3] += np.where(rng.random((len(values[1::3]), size)) < 0.5, 0, SLACK)
    return torch.as_tensor(values)


@pytest.mark.parametrize(
    ("key", "outputs"),
    [
        (0, [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]),
        (1234567, [6457827717110365317, 3203168211198807973, 9817491932198370423]),
    ],
)
def test_uniforms_are_the_high_bits_of_splitmix64(key: int, outputs: list[int]) -> None:
    """First outputs of the published generator: a key gives the same draw in any version."""
    found = uniforms(torch.tensor([key, 5]), 3)
    assert found.shape == (3, 2)
    assert found[:, 0].tolist() == [(output >> 40) / 2**24 for output in outputs]
    children = [int(child(np.array([key]), i)[0]) % 2**64 for i in range(3)]
    assert children == outputs


@pytest.mark.parametrize("name", DECODERS)
def test_unmarked_draw_is_robust_to_rounding(name: str) -> None:
    decoder, rng = Decoder.parse(name), np.random.default_rng(1)
    for seed in range(20):
        logits = logits_of(seed)
        keys = torch.as_tensor(child(np.arange(len(logits)), seed))
        rows = torch.arange(len(logits))
        low, high = decoder.weights_between(logits, SLACK)
        found = draw_between(low, high, rows, keys, 2 * SLACK / decoder.temperature)
        sure = found >= 0
        assert sure.any()
        for _ in range(5):
            noise = torch.as_tensor(rng.uniform(-SLACK, SLACK, logits.shape))
            other = draw(decoder.probs(logits + noise), rows, keys)
            assert torch.equal(other[sure], found[sure])


@pytest.mark.parametrize("name", DECODERS)
def test_draws_agree_without_rounding_error(name: str) -> None:
    decoder, logits = Decoder.parse(name), logits_of(3)
    keys = torch.as_tensor(child(np.arange(len(logits)), 0))
    rows = torch.arange(len(logits))
    low, high = decoder.weights_between(logits, 1e-14)
    found = draw_between(low, high, rows, keys, 1e-14)
    nominal = torch.where(found < 0, -1 - found, found)
    exact = draw(decoder.probs(logits), rows, keys)
    assert torch.equal(exact[found >= 0], nominal[found >= 0])
    assert (found[2::3] >= 0).double().mean() > 0.9  # rows without ties are hardly ever in doubt
