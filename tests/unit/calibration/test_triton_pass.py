"""Triton kernels compared with the naive implementation, on a GPU or in Triton's interpreter."""

from __future__ import annotations

import os

import numpy as np
import pytest
import torch

if not torch.cuda.is_available():
    # Read when triton is first imported.
    os.environ["TRITON_INTERPRET"] = "1"
pytest.importorskip("triton")

from aleatoric.calibration.kernels import naive, triton_pass
from aleatoric.calibration.kernels.triton_pass import Tuning
from aleatoric.calibration.statistics import Scheme

NAMES = ("ancestral", "greedy", "top_p=0.8", "top_k=5", "top_k=100", "temperature=0.5,top_k=3")
SMALL = Tuning(lanes=8, warps=1, flush=False)


def made(kind: str, width: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    rng = torch.Generator().manual_seed(width)
    logits = torch.randn(3, width, generator=rng) * (60 if kind == "wide" else 2.5)
    if kind == "ties":
        logits = logits.round()
    if kind == "excluded":
        logits[torch.rand(3, width, generator=rng) < 0.4] = -torch.inf
        logits[:, width // 2] = 1.0
    if kind == "offset":
        logits += 100
    return logits.to(dtype), logits.argmax(-1).roll(1)


@pytest.mark.parametrize("kind", ["normal", "ties", "excluded", "wide", "offset"])
@pytest.mark.parametrize("width", [3, 101])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_triton_kernels_match_naive(
    kind: str, width: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not torch.cuda.is_available():
        monkeypatch.setattr(triton_pass.plain, "__defaults__", (SMALL,))
        monkeypatch.setattr(triton_pass, "TOP_P", SMALL)
        monkeypatch.setattr(triton_pass, "TOP_K", SMALL)
    logits, targets = made(kind, width, dtype)
    asked = [(Scheme.parse(name), None) for name in NAMES]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    own = triton_pass.columns(logits.to(device), targets.to(device), asked)
    true = naive.columns(logits.double().numpy(), targets.numpy(), asked)
    for name in ("confidence", "correct", "predicted", "brier", "nll", "entropy"):
        assert np.allclose(getattr(own, name), getattr(true, name), rtol=1e-6, atol=1e-5), name
    pairs = [*own.expected.values()], [*true.expected.values()]
    assert np.allclose(*pairs, rtol=0, atol=1e-5)
