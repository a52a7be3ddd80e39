"""Preparation of parallel text, and batching."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest
from multi30k.batches import by_length, make_batch, make_batches, shuffled
from multi30k.data import Encoder, Example, TranslationData, prepare
from multi30k.subwords import EOS, PAD, UNK

from aleatoric.errors import DataError
from aleatoric.rng import stream
from aleatoric.types import SentencePair

GOOD = [SentencePair(str(n), "Ein Hund läuft", "A dog runs") for n in range(4)]


def test_length_filter_applies_only_to_training_pairs(
    toy_data: TranslationData,
) -> None:
    unequal = [SentencePair("x", "eins", "one two"), SentencePair("y", "a b", "a b c")]
    data = prepare([*GOOD, *unequal], unequal, unequal, merges=5)
    assert [one.id for one in data.train] == ["0", "1", "2", "3", "y"]
    assert [one.id for one in data.test] == ["x", "y"]
    assert UNK not in {token for one in toy_data.test for token in one.target}


@pytest.mark.usefixtures("recipe_packages")
def test_text_is_lowercased_and_eos_is_appended() -> None:
    data = prepare(GOOD, [SentencePair("1", "EIN HUND", "A DOG")], GOOD, merges=50)
    (one,) = data.validation
    assert one.target == (*data.test[0].target[:2], EOS)
    assert one.source[-1] == EOS


@pytest.mark.usefixtures("recipe_packages")
def test_empty_training_set_is_reported() -> None:
    with pytest.raises(DataError, match="no training pair is left"):
        prepare([SentencePair("1", "a", "a b c")], GOOD, GOOD)


@pytest.mark.usefixtures("recipe_packages")
def test_too_long_test_sentence_is_rejected() -> None:
    with pytest.raises(DataError, match="sentence 7 has 1101 subword pieces; split"):
        prepare(GOOD, [SentencePair("7", "ein " * 1100, "a")], GOOD, merges=50)


def test_saved_encoder_round_trip(toy_data: TranslationData) -> None:
    saved = json.loads(json.dumps(asdict(toy_data.encoder.saved())))
    assert Encoder.restored(saved).encode_pairs(GOOD) == toy_data.encoder.encode_pairs(GOOD)


def random_examples(count: int) -> list[Example]:
    rng = stream(0, "examples")
    sides = rng.integers(1, 40, (count, 2))
    return [Example(str(n), (5,) * s + (2,), (6,) * t + (2,)) for n, (s, t) in enumerate(sides)]


@pytest.mark.parametrize("max_tokens", [40, 100, 1000, 100_000])
def test_batches_contain_every_pair_once_within_limit(max_tokens: int) -> None:
    examples = random_examples(200)
    groups = by_length(examples, max_tokens)
    assert sorted(number for group in groups for number in group) == list(range(200))
    for group in groups:
        longest = max(max(len(examples[n].source), len(examples[n].target)) for n in group)
        assert longest * len(group) <= max_tokens
    assert all(len(group) % 8 == 0 or len(group) < 8 for group in groups[:-1])


def test_sentence_longer_than_a_batch_is_rejected() -> None:
    with pytest.raises(DataError, match="sentence 0 has 31 tokens; raise the limit of 30"):
        by_length([Example("0", (5,) * 30 + (2,), (2,))], 30)


def test_batch_is_right_padded_to_a_multiple_of_8() -> None:
    batch = make_batch(
        [Example("a", (5, 6, 2), (7, 2)), Example("b", (5, 2), (8, 9, 2))], [1, 0], "cpu"
    )
    pads = [PAD] * 5
    assert batch.source.tolist() == [[5, 2, PAD, *pads], [5, 6, 2, *pads]]
    assert batch.given.tolist() == [[2, 8, 9, *pads], [2, 7, PAD, *pads]]
    assert batch.wanted.tolist() == [[8, 9, 2, *pads], [7, 2, PAD, *pads]]


def test_epoch_order_depends_only_on_seed_and_epoch() -> None:
    batches = make_batches(random_examples(100), 100, "cpu")
    order = [batch.numbers for batch in shuffled(batches, 1, 2)]
    assert order == [batch.numbers for batch in shuffled(batches, 1, 2)]
    assert sorted(order) == sorted(batch.numbers for batch in batches)
    assert order != [batch.numbers for batch in shuffled(batches, 1, 3)]
    assert order != [batch.numbers for batch in shuffled(batches, 2, 2)]
