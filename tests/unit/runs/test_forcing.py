"""Batches with padding and windows compared with one sequence at a time."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from forced_lms import WINDOW, tiny
from hypothesis import given
from hypothesis import strategies as st

from aleatoric.errors import DataError, UsageError
from aleatoric.models.base import Forcing, Strip
from aleatoric.models.forced import (
    batches,
    causal_forced,
    chunks,
    load_smollm2,
    parts,
    seq2seq_forced,
    windows_of,
)
from aleatoric.models.gguf import smollm2_is_cached
from aleatoric.types import Document, SentencePair

DOCUMENTS = [
    Document("a", "The ferry left at seven and nobody waved. Bread is made of flour and time."),
    Document("b", "A dog runs."),
    Document("c", "When the lights went out the old man kept reading, page by page, all night."),
    Document("d", "x"),
]
PAIRS = [
    SentencePair("1", "Ein Hund läuft.", "A dog runs."),
    SentencePair("2", "Zwei Hunde laufen im Regen.", "Two dogs run, and it rains and rains."),
    SentencePair("3", "Brot.", "Bread is made of flour."),
]


def scored(model: Any, items: list[Any], batch_tokens: int) -> dict[tuple[str, int], tuple]:
    """(group, position) -> (target, logits) of every scored token."""
    strips = [strip for own in model.strips(items) for strip in own]
    found: dict[tuple[str, int], tuple] = {}
    for chunk in chunks(model, strips, batch_tokens):
        for i, (group, position) in enumerate(zip(chunk.groups, chunk.positions, strict=True)):
            assert (group, int(position)) not in found
            found[group, int(position)] = (int(chunk.targets[i]), chunk.logits[i])
    return found


def naive_causal(model: Any, ids: list[int], length: int, stride: int) -> dict[int, torch.Tensor]:
    """Logits of each token from the earliest window with it and a preceding token."""
    found = {}
    for target in range(1, len(ids)):
        start = next(s for s in range(0, len(ids), stride) if target < s + length)
        with torch.inference_mode():
            found[target] = model(torch.tensor([ids[start:target]])).logits[0, -1]
    return found


@pytest.mark.parametrize("stride", [1, 5, WINDOW - 1])
@pytest.mark.parametrize("batch_tokens", [1, 60, 10_000])
@pytest.mark.parametrize("bos", ["none", "add"])
def test_causal_logits_match_one_sequence_at_a_time(
    stride: int, batch_tokens: int, bos: str
) -> None:
    model, tokenizer = tiny("gpt2")
    reader = causal_forced(
        model,
        tokenizer,
        label="m",
        version="v",
        forcing=Forcing(window=WINDOW, stride=stride, bos=bos),
    )
    found = scored(reader, DOCUMENTS, batch_tokens)
    start = [tokenizer.bos_token_id] if bos == "add" else []
    count = 0
    for document in DOCUMENTS:
        ids = [*start, *tokenizer(document.text, add_special_tokens=False)["input_ids"]]
        for place, logits in naive_causal(model, ids, WINDOW, stride).items():
            target, own = found[document.id, place - len(start)]
            assert target == ids[place]
            torch.testing.assert_close(own, logits, atol=1e-4, rtol=1e-4)
            count += 1
    assert count == len(found)


@pytest.mark.parametrize("kind", ["t5", "bart", "marian"])
@pytest.mark.parametrize("batch_tokens", [1, 10_000])
def test_seq2seq_logits_match_one_sentence_at_a_time(kind: str, batch_tokens: int) -> None:
    model, tokenizer = tiny(kind)
    found = scored(seq2seq_forced(model, tokenizer, label="m", version="v"), PAIRS, batch_tokens)
    count = 0
    for pair in PAIRS:
        source = torch.tensor([tokenizer(pair.source)["input_ids"]])
        labels = torch.tensor([tokenizer(text_target=pair.target)["input_ids"]])
        with torch.inference_mode():
            logits = model(input_ids=source, labels=labels).logits[0]
        for place, target in enumerate(labels[0].tolist()):
            # BART's own beginning is special; the end of a sentence is not.
            if target == tokenizer.bos_token_id:
                assert (pair.id, place) not in found
                continue
            own_target, own = found[pair.id, place]
            assert own_target == target
            torch.testing.assert_close(own, logits[place], atol=1e-4, rtol=1e-4)
            count += 1
    assert count == len(found)


@given(st.integers(0, 60), st.integers(2, 20), st.data())
def test_windows_score_every_token_but_the_first_once(n: int, length: int, data: Any) -> None:
    stride = data.draw(st.integers(1, length - 1))
    counts: Counter[int] = Counter()
    for start, stop, first in windows_of(length, stride, n):
        assert start < first <= stop <= start + length
        counts.update(range(first, stop))
    assert counts == Counter(range(1, n))


@given(st.lists(st.integers(1, 30), max_size=30), st.integers(1, 100))
def test_batches_contain_each_window_once_within_token_limit(lengths: list[int], room: int) -> None:
    strips = [Strip(str(i), (0,) * n, (0,) * n, tuple(range(n))) for i, n in enumerate(lengths)]
    found = list(batches(strips, room))
    assert sorted(s.group for batch in found for s in batch) == sorted(s.group for s in strips)
    for batch in found:
        assert len(batch) == 1 or len(batch) * max(len(s.given) for s in batch) <= room


def test_parts_contain_whole_items_and_count_empty_ones() -> None:
    model, tokenizer = tiny("gpt2")
    reader = causal_forced(model, tokenizer, label="m", version="v")
    found = list(parts(reader, DOCUMENTS, 10))
    assert sum(part.n_items for part in found) == len(DOCUMENTS)
    assert sum(part.n_unscored for part in found) == 1
    groups = [{strip.group for strip in part.strips} for part in found]
    assert sum(map(len, groups)) == len(set().union(*groups)) == 3


def test_windows_longer_than_the_model_allows_are_rejected() -> None:
    model, tokenizer = tiny("gpt2")
    with pytest.raises(UsageError, match=f"2 to {WINDOW} tokens"):
        causal_forced(model, tokenizer, label="m", version="v", forcing=Forcing(window=WINDOW + 1))
    with pytest.raises(UsageError, match="below --window"):
        causal_forced(model, tokenizer, label="m", version="v", forcing=Forcing(window=8, stride=8))


def test_sentence_longer_than_the_model_allows_is_named() -> None:
    model, tokenizer = tiny("bart")
    reader = seq2seq_forced(model, tokenizer, label="m", version="v")
    with pytest.raises(DataError, match="sentence 9 has"):
        reader.strips([SentencePair("9", "no " * 200, "nein")])


@pytest.mark.long
@pytest.mark.skipif(not smollm2_is_cached(), reason="the embedded model is not cached")
def test_smollm2_batched_matches_unbatched() -> None:
    reader: Any = load_smollm2("", Forcing(window=12, stride=6))
    texts = [DOCUMENTS[0], DOCUMENTS[2]]
    found = scored(reader, texts, 64)
    for document in texts:
        ids = reader.tokenizer(document.text, add_special_tokens=False)["input_ids"]
        for place, logits in naive_causal(reader.model, ids, 12, 6).items():
            target, own = found[document.id, place]
            assert target == ids[place]
            assert float(abs(own.softmax(-1) - logits.softmax(-1)).max()) < 1e-4
    assert np.isfinite([float(own.max()) for _, own in found.values()]).all()
