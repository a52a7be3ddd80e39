from __future__ import annotations

import math

import pytest

from aleatoric.errors import UsageError
from aleatoric.models.decoding import Decoder, greedy

torch = pytest.importorskip("torch")
generation = pytest.importorskip("transformers.generation")


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("ancestral", "ancestral"),
        ("greedy", "greedy"),
        ("temperature=0.50", "temperature=0.5"),
        ("top_k=40", "top_k=40"),
        (" typical=.2 , top_p=0.9", "top_p=0.9,typical=0.2"),
        ("temperature=1.0,top_p=1", "ancestral"),
        ("eta=3e-4, min_p=.1,epsilon=0", "min_p=0.1,eta=0.0003"),
    ],
)
def test_canonical_form_parses_to_itself(text, canonical):
    decoder = Decoder.parse(text)
    assert str(decoder) == canonical
    assert Decoder.parse(canonical) == decoder


@pytest.mark.parametrize(
    "text",
    ["", "warm", "temperature=0", "temperature=hot", "top_k=-1", "top_k=1.5", "top_p=0", "top_p=2",
     "typical=0", "greedy,top_k=3", "top_k=3,top_k=4", "greedy=1", "temperature=inf", "top_p=nan",
     "min_p=1", "epsilon=-1", "eta=nan", "top_k=0", "temperature=1e-31"],
)  # fmt: skip
def test_invalid_decoder_is_rejected(text):
    with pytest.raises(UsageError, match="decoder"):
        Decoder.parse(text)


def logits(seed: int = 0) -> object:
    return torch.randn(7, 500, generator=torch.Generator().manual_seed(seed)) * 3


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("temperature=0.5", [("TemperatureLogitsWarper", 0.5)]),
        ("top_k=40", [("TopKLogitsWarper", 40)]),
        ("top_k=4000", [("TopKLogitsWarper", 4000)]),
        ("top_p=0.9", [("TopPLogitsWarper", 0.9)]),
        ("top_p=0.01", [("TopPLogitsWarper", 0.01)]),
        ("typical=0.2", [("TypicalLogitsWarper", 0.2)]),
        ("typical=0.95", [("TypicalLogitsWarper", 0.95)]),
        ("min_p=0.05", [("MinPLogitsWarper", 0.05)]),
        ("min_p=0.9", [("MinPLogitsWarper", 0.9)]),
        ("epsilon=0.003", [("EpsilonLogitsWarper", 0.003)]),
        ("epsilon=0.9", [("EpsilonLogitsWarper", 0.9)]),
        ("eta=0.003", [("EtaLogitsWarper", 0.003)]),
        ("eta=0.3", [("EtaLogitsWarper", 0.3)]),
        (
            "top_p=0.95,min_p=0.02,typical=0.9,epsilon=0.01,eta=0.02",
            [("TopPLogitsWarper", 0.95), ("MinPLogitsWarper", 0.02), ("TypicalLogitsWarper", 0.9),
             ("EpsilonLogitsWarper", 0.01), ("EtaLogitsWarper", 0.02)],
        ),
        (
            "temperature=1.5,top_k=50,top_p=0.8,typical=0.5",
            [("TemperatureLogitsWarper", 1.5), ("TopKLogitsWarper", 50),
             ("TopPLogitsWarper", 0.8), ("TypicalLogitsWarper", 0.5)],
        ),
    ],
)  # fmt: skip
def test_decoders_match_transformers(text, names):
    from transformers.generation import logits_process

    for seed in range(5):
        scores = expected = logits(seed)
        for name, value in names:
            expected = getattr(logits_process, name)(value)(None, expected)
        got = Decoder.parse(text).log_probs(scores)
        torch.testing.assert_close(got, expected.log_softmax(-1))


def test_ancestral_does_not_change_distribution():
    torch.testing.assert_close(Decoder().log_probs(logits()), logits().log_softmax(-1))


def test_greedy_puts_all_mass_on_first_maximum():
    got = Decoder(greedy=True).log_probs(torch.tensor([[0.0, 2.0, 2.0]]))
    assert got.tolist() == [[-math.inf, 0.0, -math.inf]]


@pytest.mark.parametrize("text", ["top_k=3", "top_p=0.5", "typical=0.3", "temperature=0.01"])
def test_log_probabilities_sum_to_one(text):
    total = Decoder.parse(text).log_probs(logits()).exp().sum(-1)
    torch.testing.assert_close(total, torch.ones(7))


def test_decoder_string_round_trip():
    for text in ("top_k=1000000", "temperature=0.70710678", "top_p=0.9", "temperature=2"):
        assert Decoder.parse(str(Decoder.parse(text))) == Decoder.parse(text)
        assert str(Decoder.parse(text)) == text


DECODERS = ["ancestral", "greedy", "temperature=0.5", "top_k=3", "top_p=0.6", "typical=0.5",
            "temperature=1.5,top_k=6,top_p=0.9,typical=0.8"]  # fmt: skip


@pytest.mark.parametrize("text", DECODERS)
@pytest.mark.parametrize("slack", [0.0, 0.01, 0.3])
def test_rows_are_decoded_independently_in_any_shape(text, slack):
    decoder, stacked = Decoder.parse(text), logits()[:6, :9].reshape(2, 3, 9) / 3

    def found(given):
        return (
            decoder.log_probs(given),
            decoder.probs(given),
            *decoder.weights_between(given, slack),
        )

    alone = [[found(row) for row in rows] for rows in stacked]
    for i, whole in enumerate(found(stacked)):
        rows = torch.stack([torch.stack([one[i] for one in own]) for own in alone])
        torch.testing.assert_close(whole, rows)


@pytest.mark.parametrize(
    ("text", "values", "slack", "low", "high"),
    [
        # Kept for certain (low) and kept perhaps (high); logits may be off by `slack` each.
        ("greedy", [1.0, 0.5, 0.0], 0.125, "100", "100"),
        ("greedy", [1.0, 0.5, 0.0], 0.25, "000", "110"),  # 2 · slack apart can change places
        ("top_k=2", [3.0, 2.0, 1.0, 0.0], 0.25, "1100", "1100"),
        ("top_k=2", [3.0, 2.0, 1.0, 0.0], 0.5, "0000", "1110"),
        ("top_k=2", [5.0, 2.0, 1.0, 0.0], 0.5, "1000", "1110"),
        ("top_k=3", [5.0, 2.0, 2.0, 0.0], 0.5, "1110", "1110"),  # both equals are kept
        ("top_k=9", [5.0, 2.0, 2.0, 0.0], 0.5, "1111", "1111"),
        # Probabilities .6, .3 and .1: the last is dropped if the others reach p.
        ("top_p=0.8", [math.log(6), math.log(3), 0.0], 0.001, "110", "110"),
        ("top_p=0.9", [math.log(6), math.log(3), 0.0], 0.001, "110", "111"),
        ("top_p=0.6", [math.log(6), math.log(3), 0.0], 0.001, "100", "110"),
        ("top_p=0.05", [math.log(6), math.log(3), 0.0], 0.001, "100", "100"),
        ("top_p=0.5", [0.0, 0.0, -9.0], 0.001, "000", "110"),  # either of two equals
        ("top_p=0.4", [1.0, 0.975, -9.0], 0.01, "100", "100"),  # more than 2 · slack apart
        ("top_p=0.4", [1.0, 0.985, -9.0], 0.01, "000", "110"),
        ("top_p=1e-20", [math.log(6), math.log(3), 0.0], 0.001, "000", "100"),
        # The entropy is .898; surprises .511, 1.204 and 2.303 lie .387, .306 and 1.405 away.
        ("typical=0.2", [math.log(6), math.log(3), 0.0], 0.0001, "010", "010"),
        ("typical=0.5", [math.log(6), math.log(3), 0.0], 0.0001, "110", "110"),
        ("typical=0.3", [math.log(6), math.log(3), 0.0], 0.0001, "000", "110"),  # marked widely
        ("typical=0.95", [math.log(6), math.log(3), 0.0], 0.0001, "111", "111"),
        # At a temperature of one half, differences count double, and so does the slack.
        ("temperature=0.5,top_k=1", [1.0, 0.5], 0.25, "00", "11"),
        ("temperature=2,top_k=1", [1.0, 0.5], 0.2, "10", "10"),
    ],
)  # fmt: skip
def test_kept_tokens_under_bounded_logit_error(text, values, slack, low, high):
    decoder, given = Decoder.parse(text), torch.tensor(values, dtype=torch.float64)
    weights = decoder.weights_between(given, slack)
    kept = ["".join(str(int(w > 0)) for w in side) for side in weights]
    assert kept == [low, high]
    if not decoder.greedy:
        own = (given / decoder.temperature).softmax(-1)
        for side, shown in zip(weights, kept, strict=True):
            mask = torch.tensor([digit == "1" for digit in shown])
            torch.testing.assert_close(side, own * mask)


def test_rounding_never_drops_all_tokens():
    """Equal probabilities whose sum in single precision stays below 1: all of them are kept."""
    for size in range(2, 60):
        for text in ("typical=0.9999999999999999", "top_p=0.9999999999999999"):
            _, high = Decoder.parse(text).weights_between(torch.zeros(size), 1e-9)
            assert (high > 0).all()


@pytest.mark.parametrize(
    ("text", "truncates"),
    [("ancestral", False), ("temperature=2", False), ("greedy", True), ("top_k=3", True),
     ("top_p=0.9", True), ("typical=0.5", True), ("temperature=2,top_p=0.9", True)],
)  # fmt: skip
def test_truncates_tells_whether_tokens_are_dropped(text, truncates):
    assert Decoder.parse(text).truncates is truncates


@pytest.mark.parametrize(
    ("text", "probs"),
    [("top_p=0.5", [0, 0, 0.5, 0.5]), ("typical=0.5", [0.5, 0.5, 0, 0]), ("top_k=2", [0.25] * 4)],
)
def test_truncation_of_equally_likely_tokens(text, probs):
    assert Decoder.parse(text).probs(torch.zeros(4)).tolist() == probs


def test_lowest_temperature_is_greedy():
    rows = logits()
    assert Decoder.parse("temperature=1e-30").probs(rows).equal(Decoder(greedy=True).probs(rows))


def test_greedy_logits_are_log_probabilities():
    assert greedy(torch.tensor([0.0, 2.0, 2.0])).tolist() == [-math.inf, 0.0, -math.inf]


@pytest.mark.parametrize("text", ["top_p=1", "typical=1", "top_k=1", "temperature=1e-9"])
def test_boundary_values_are_valid_decoders(text):
    assert str(Decoder.parse(text)) in ("ancestral", "top_k=1", "temperature=1e-09")
