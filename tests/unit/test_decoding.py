from __future__ import annotations

import math

import pytest

from aleatoric.decoding import Decoder
from aleatoric.errors import UsageError

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
    ],
)
def test_canonical_form_parses_to_itself(text, canonical):
    decoder = Decoder.parse(text)
    assert str(decoder) == canonical
    assert Decoder.parse(canonical) == decoder


@pytest.mark.parametrize(
    "text",
    ["", "warm", "temperature=0", "temperature=hot", "top_k=-1", "top_k=1.5", "top_p=0", "top_p=2",
     "typical=0", "greedy,top_k=3", "top_k=3,top_k=4", "greedy=1", "temperature=inf", "top_p=nan"],
)  # fmt: skip
def test_what_is_no_decoder_is_refused(text):
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
        (
            "temperature=1.5,top_k=50,top_p=0.8,typical=0.5",
            [("TemperatureLogitsWarper", 1.5), ("TopKLogitsWarper", 50),
             ("TopPLogitsWarper", 0.8), ("TypicalLogitsWarper", 0.5)],
        ),
    ],
)  # fmt: skip
def test_same_as_transformers(text, names):
    from transformers.generation import logits_process

    for seed in range(5):
        scores = expected = logits(seed)
        for name, value in names:
            expected = getattr(logits_process, name)(value)(None, expected)
        got = Decoder.parse(text).log_probs(scores)
        torch.testing.assert_close(got, expected.log_softmax(-1))


def test_ancestral_is_the_models_own_distribution():
    torch.testing.assert_close(Decoder().log_probs(logits()), logits().log_softmax(-1))


def test_greedy_puts_all_mass_on_the_first_maximum():
    got = Decoder(greedy=True).log_probs(torch.tensor([[0.0, 2.0, 2.0]]))
    assert got.tolist() == [[-math.inf, 0.0, -math.inf]]


@pytest.mark.parametrize("text", ["top_k=3", "top_p=0.5", "typical=0.3", "temperature=0.01"])
def test_log_probabilities_sum_to_one(text):
    total = Decoder.parse(text).log_probs(logits()).exp().sum(-1)
    torch.testing.assert_close(total, torch.ones(7))


def test_a_decoder_reads_back_as_itself():
    for text in ("top_k=1000000", "temperature=0.70710678", "top_p=0.9", "temperature=2"):
        assert Decoder.parse(str(Decoder.parse(text))) == Decoder.parse(text)
        assert str(Decoder.parse(text)) == text
