"""The torch implementation compared with the naive one, and both with the decoders."""

from __future__ import annotations

import math
from importlib.util import find_spec

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import entr, log_softmax
from token_rows import token_rows

from aleatoric.calibration.kernels import naive, torch_pass
from aleatoric.calibration.statistics import EXPECTED, Scheme, TokenRows
from aleatoric.errors import DataError, UsageError
from aleatoric.models.decoding import Decoder

DECODERS = (
    "ancestral",
    "greedy",
    "temperature=0.5",
    "temperature=3",
    "top_k=1",
    "top_k=3",
    "top_k=100",
    "top_p=0.3",
    "top_p=0.8",
    "typical=0.4",
    "temperature=0.7,top_p=0.9",
    "top_k=5,top_p=0.5",
    "min_p=0.03",
    "epsilon=0.07",
    "eta=0.03",
)
ENGINES = ["naive", "torch", *(["numba"] if find_spec("numba") else [])]
PLAIN = ("confidence", "correct", "predicted", "brier", "nll", "entropy", "log_normalizer")


@st.composite
def chunks(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Logits with ties, excluded tokens, spikes and offsets, and targets."""
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    rows, width = draw(st.integers(1, 4)), draw(st.integers(1, 700))
    logits = rng.normal(size=(rows, width)) * draw(st.sampled_from([0.1, 1.0, 5.0, 60.0]))
    if draw(st.booleans()):
        logits = logits.round()
    if draw(st.booleans()):
        logits[rng.random(logits.shape) < 0.3] = -np.inf
        logits[:, rng.integers(width)] = 0.5
    logits += draw(st.sampled_from([0.0, -80.0, 12.5]))
    return logits.astype(np.float32), rng.integers(0, width, size=rows)


def both(logits: np.ndarray, targets: np.ndarray, names: tuple[str, ...]) -> tuple[TokenRows, ...]:
    asked = [(Scheme.parse(name), None) for name in names]
    fast = torch_pass.columns(torch.tensor(logits), torch.tensor(targets), asked)
    return naive.columns(logits.astype(np.float64), targets, asked), fast


def near(limit: float, decoder: str, logits: np.ndarray, targets: np.ndarray) -> list[np.ndarray]:
    """Naive results for a slightly lower and higher limit, where rounding may go either way."""
    name, value = decoder.split("=")
    own = float(value)
    moved = (own - limit, own, min(1.0, own + limit))
    asked = [(Scheme.parse(f"{name}={v:.12f}"), None) for v in moved]
    found = naive.columns(logits.astype(np.float64), targets, asked)
    return [np.stack(pair) for pair in found.expected.values()]


@settings(deadline=None, max_examples=200)
@given(chunks())
def test_eager_columns_match_naive(chunk: tuple[np.ndarray, np.ndarray]) -> None:
    slow, fast = both(
        *chunk, ("ancestral", "greedy", "temperature=0.5", "temperature=3", "top_k=3")
    )
    for name in PLAIN:
        assert np.allclose(getattr(fast, name), getattr(slow, name), rtol=1e-6, atol=1e-5), name
    for own, other in zip(fast.expected.values(), slow.expected.values(), strict=True):
        assert np.allclose(own, other, rtol=0, atol=1e-5)


@settings(deadline=None, max_examples=200)
@given(chunks())
def test_compiled_columns_match_naive(chunk: tuple[np.ndarray, np.ndarray]) -> None:
    pytest.importorskip("numba")
    logits, targets = chunk
    asked = [(Scheme.parse(name), None) for name in ("ancestral", "greedy")]
    slow = naive.columns(logits.astype(np.float64), targets, asked)
    fast = torch_pass.compiled_columns(torch.tensor(logits), torch.tensor(targets), asked)
    for name in PLAIN:
        assert np.allclose(getattr(fast, name), getattr(slow, name), rtol=1e-6, atol=1e-5), name
    for own, other in zip(fast.expected.values(), slow.expected.values(), strict=True):
        assert np.allclose(own, other, rtol=0, atol=1e-5)


def test_large_maximum_after_first_block_does_not_overflow() -> None:
    logits = torch.full((2, 9000), -50.0)
    logits[0, 8000], logits[1, 5000] = 300.0, 20.0
    rows = token_rows(logits, torch.tensor([8000, 0]), ["ancestral"], units="logits")
    assert rows.predicted.tolist() == [8000, 5000]
    assert np.allclose(rows.confidence, [1.0, 1.0], atol=1e-5)
    assert np.allclose(rows.nll, [0.0, 70.0], atol=1e-4)


def has_close_distances(logits: np.ndarray) -> bool:
    """Whether single precision cannot order the distances of two tokens to the row's entropy."""
    logprobs = log_softmax(logits.astype(np.float64), axis=-1)
    entropy = entr(np.exp(logprobs)).sum(axis=-1, keepdims=True)
    with np.errstate(invalid="ignore"):  # between tokens without probability
        gaps = np.diff(np.sort(np.abs(logprobs + entropy), axis=-1), axis=-1)
    return bool((gaps < 4 * np.spacing(np.float32(np.abs(logits).max() + 1))).any())


@settings(deadline=None, max_examples=200)
@given(chunks(), st.sampled_from(["top_p=0.3", "top_p=0.8", "typical=0.4"]))
def test_columns_with_probability_mass_limit_match_naive(
    chunk: tuple[np.ndarray, np.ndarray], decoder: str
) -> None:
    """Each row matches the naive one, or an adjacent cut-off where rounding decides."""
    _, fast = both(*chunk, (decoder,))
    if decoder.startswith("typical") and has_close_distances(chunk[0]):
        # Equal distances to the entropy are ordered by rounding: only tie-free rows are comparable.
        return
    answers = near(2e-6, decoder, *chunk)
    own = np.stack(next(iter(fast.expected.values())))
    gaps = np.stack([np.abs(own - answer).max(axis=0) for answer in answers])
    assert (gaps.min(axis=0) < 1e-5).all()


@settings(deadline=None, max_examples=100)
@given(chunks(), st.sampled_from(DECODERS))
def test_naive_decoding_matches_decoders(
    chunk: tuple[np.ndarray, np.ndarray], decoder: str
) -> None:
    """In double precision, ties included, all of P̃."""
    logits = chunk[0].astype(np.float64)
    if "typical" in decoder and len(np.unique(logits)) < logits.size:
        return
    own = naive.decoded(logits, Decoder.parse(decoder))
    theirs = Decoder.parse(decoder).log_probs(torch.tensor(logits)).exp().numpy()
    kept = (own > 0) == (theirs > 0)
    steps = np.sort(naive.softmax(logits), axis=1).cumsum(axis=1)
    limit = 1 - Decoder.parse(decoder).top_p
    on_a_step = (np.abs(steps - limit) < 1e-12).any(axis=1)
    agree = kept.all(axis=1) & (np.abs(own - theirs) < 1e-12).all(axis=1)
    assert (agree | on_a_step).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_half_precision_input_is_computed_in_single_precision(dtype: torch.dtype) -> None:
    logits = (torch.randn(6, 900, generator=torch.Generator().manual_seed(1)) * 4).to(dtype)
    targets = torch.arange(6)
    asked = [(Scheme.parse(name), None) for name in ("ancestral", "top_p=0.8", "top_k=100")]
    fast = torch_pass.columns(logits, targets, asked)
    slow = naive.columns(logits.double().numpy(), targets.numpy(), asked)
    assert np.allclose(fast.nll, slow.nll, atol=1e-5)
    assert np.allclose([*fast.expected.values()], [*slow.expected.values()], atol=1e-5)


def test_large_logits_do_not_lose_precision() -> None:
    logits = torch.randn(4, 300, generator=torch.Generator().manual_seed(2)) * 3
    shifted = logits.bfloat16().float() + 1024
    for own, base in ((shifted, shifted - 1024),):
        fast = token_rows(own, torch.arange(4), ["ancestral"], units="logits")
        slow = token_rows(base, torch.arange(4), ["ancestral"], units="logits", engine="naive")
        assert np.allclose(fast.entropy, slow.entropy, atol=1e-5)
        assert np.allclose(fast.nll, slow.nll, atol=1e-5)


@pytest.mark.parametrize("engine", ENGINES)
def test_e_ece_converges_to_ece_as_temperature_falls(engine: str) -> None:
    """Exactly equal once all mass is on the mode."""
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(500, 80)).astype(np.float32) * 2
    targets = logits.argmax(axis=1)
    targets[::2] = rng.integers(0, 80, size=250)
    names = [f"temperature={t}" for t in (1, 0.1, 0.01, 1e-7)]
    rows = token_rows(logits, targets, [*names, "greedy"], units="logits", engine=engine)
    distance = [
        np.abs(rows.expected[str(Scheme.parse(n))].confidence - rows.confidence).max()
        for n in names
    ]
    assert distance == sorted(distance, reverse=True)
    for name in (names[-1], "greedy"):
        assert (rows.expected[name].confidence == rows.confidence).all()
        assert (rows.expected[name].accuracy == rows.correct).all()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("decoder", ["ancestral", "top_p=0.8", "top_k=3"])
def test_sampled_columns_match_full_distribution_in_expectation(engine: str, decoder: str) -> None:
    rng = np.random.default_rng(3)
    logits, targets = rng.normal(size=(8, 12)) * 1.5, rng.integers(0, 12, size=8)
    many = f"{decoder},samples=20000"
    uniforms = {many: rng.random((8, 20000))}
    rows = token_rows(
        logits, targets, [decoder, many], units="logits", uniforms=uniforms, engine=engine
    )
    whole, drawn = rows.expected[decoder], rows.expected[many]
    # Five standard errors of a mean of numbers in [0, 1].
    assert np.abs(whole.confidence - drawn.confidence).max() < 5 * 0.5 / math.sqrt(20000)
    assert np.abs(whole.accuracy - drawn.accuracy).max() < 5 * 0.5 / math.sqrt(20000)


def test_zero_probability_token_is_never_drawn() -> None:
    probs = np.array([[0.0, 1.0, 0.0], [0.0, 0.5, 0.5]])
    assert naive.drawn(probs, np.array([[0.0, 1 - 2**-53]] * 2)).tolist() == [[1, 1], [1, 2]]


def test_schemes_use_names_of_the_paper() -> None:
    assert [s.metric for s in EXPECTED] == ["e_ece", "e_ece_p", "e_ece_k"]
    for decoder in ("ancestral", "top_k=100", "top_p=0.8"):
        assert Scheme.parse(f"{decoder},samples=1").metric == f"ece[{decoder}]"
    for text in ("samples=0", "samples=x", "ancestral,samples=2,samples=3"):
        with pytest.raises(UsageError):
            Scheme.parse(text)


def test_sampled_scheme_requires_uniforms() -> None:
    with pytest.raises(UsageError, match="uniform"):
        token_rows(np.zeros((1, 2)), np.array([0]), ["ancestral,samples=1"], units="logits")


def test_excluded_reference_has_an_infinite_log_score() -> None:
    rows = token_rows(np.array([[0.0, -np.inf]]), np.array([1]), ["ancestral"], units="logits")
    assert rows.nll.tolist() == [math.inf]
    assert rows.entropy.tolist() == [0.0]
    assert rows.expected["ancestral"].accuracy.tolist() == [0.0]


@pytest.mark.parametrize("engine", ENGINES)
def test_rows_without_a_distribution_are_rejected(engine: str) -> None:
    for bad in (np.nan, np.inf):
        with pytest.raises(DataError, match="token 1 of the chunk"):
            token_rows(
                np.array([[0.0, 1.0], [0.0, bad]]), np.array([0, 0]), units="logits", engine=engine
            )
    with pytest.raises(DataError, match="token 0"):
        token_rows(np.full((1, 3), -np.inf), np.array([0]), units="logits", engine=engine)
