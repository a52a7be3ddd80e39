"""GGUF files in llama.cpp against the same file in transformers."""

# ruff: noqa: E402  (the imports below need torch and llama.cpp; without them tests are skipped)
from __future__ import annotations

import ctypes
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
llama_cpp = pytest.importorskip("llama_cpp", reason='needs pip install "aleatoric[llamacpp]"')

from prompts import prompt

import aleatoric as al
from aleatoric.errors import DataError, UsageError
from aleatoric.models import gguf
from aleatoric.models.base import LoadOptions
from aleatoric.models.llamacpp import LlamaPass, load_gguf, load_smollm2
from aleatoric.models.plain import Limits
from aleatoric.nextword.live import LiveModel
from aleatoric.nextword.sampled import mc

CONTEXTS = (
    "The cat sat on the",
    "The cat sat on the floor and looked at the",
    "In 1987 there were 345 people in the",
    "There are now rumblings that Apple might soon invade the smart watch space, though the",
)
WORDS = ("mat", "floor", "dog", "company", "market", "world", "house", "city")


@pytest.fixture(scope="module")
def live() -> LiveModel:
    if not gguf.smollm2_is_cached():
        pytest.skip("SmolLM2 is not cached; run a command with --model smollm2 first")
    return al.load("smollm2", runtime="llama.cpp")


@pytest.fixture(scope="module")
def passes(live: LiveModel) -> LlamaPass:
    assert isinstance(live.lm.plain, LlamaPass)
    live.lm.plain.check(100, live.lm.positions)
    return live.lm.plain


@pytest.fixture(scope="module")
def converted() -> LiveModel:
    return al.load("smollm2", device="cpu")


@pytest.fixture(scope="module")
def float32_file(live: LiveModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same file with its weights dequantized, written by llama.cpp."""
    path = tmp_path_factory.mktemp("float32") / "smollm2-f32.gguf"
    options = llama_cpp.llama_model_quantize_default_params()
    options.ftype, options.allow_requantize = 0, True
    source, target = str(gguf.smollm2_file()).encode(), str(path).encode()
    assert llama_cpp.llama_model_quantize(source, target, ctypes.byref(options)) == 0
    return path


def probabilities(model: LiveModel, context: str, **options: Any) -> dict[str, float]:
    rows = al.word_probabilities(model, context, WORDS, **options).records()
    return {row["word"]: row["probability"] or 0.0 for row in rows}


def test_tokenizer_and_pieces_are_those_of_transformers(
    live: LiveModel, converted: LiveModel
) -> None:
    assert live.lm.pieces == converted.lm.pieces
    assert live.lm.positions == converted.lm.positions
    assert live.lm.encode_all(CONTEXTS) == converted.lm.encode_all(CONTEXTS)


def test_llama_cpp_tokenizes_alike(live: LiveModel, passes: LlamaPass) -> None:
    for text in (*CONTEXTS, "It's 12,345.67 — naïve\n\n  isn't it?"):
        ids, encoded = (ctypes.c_int * 200)(), text.encode()
        size = llama_cpp.llama_tokenize(passes._words, encoded, len(encoded), ids, 200, False, True)
        assert tuple(ids[:size]) == live.lm.encode(text)


@pytest.mark.long
def test_dequantized_weights_give_the_numbers_of_transformers(
    float32_file: Path, converted: LiveModel
) -> None:
    lm = load_gguf(str(float32_file), LoadOptions())
    for tokens in lm.encode_all(CONTEXTS):
        found, expected = (model.plain.alone([tokens])[0] for model in (lm, converted.lm))
        torch.testing.assert_close(
            found.softmax(-1), expected.float().softmax(-1), rtol=1e-3, atol=1e-5
        )


@pytest.mark.long
def test_quantized_weights_agree_with_transformers(live: LiveModel, converted: LiveModel) -> None:
    # llama.cpp rounds activations to 8 bits: 0.057 at most on 30 contexts of Provo.
    for context in CONTEXTS:
        found, expected = (probabilities(model, context) for model in (live, converted))
        assert found == pytest.approx(expected, abs=0.06)


def test_logits_depend_on_the_text_alone_bit_by_bit(live: LiveModel, passes: LlamaPass) -> None:
    tokens = live.lm.encode(CONTEXTS[-1])
    stops = [3, 8, len(tokens)]
    logits, states = zip(*passes.contexts(tokens, stops), strict=True)
    rng = np.random.default_rng(0)
    rows = [tuple(rng.integers(100, 5000, 1 + i % 3).tolist()) for i in range(20)]
    pairs = [(states[i % 3], row) for i, row in enumerate(rows)]
    together = passes.after(pairs)
    assert torch.equal(passes.after(pairs[::-1]).flip(0), together)
    texts = [state.tokens + row for state, row in pairs]
    fresh = LlamaPass(gguf.smollm2_file())
    fresh._open(300, 1)
    long = tuple(rng.integers(100, 5000, 270).tolist())
    alone = fresh.alone([long, *texts[:6], *(tokens[:stop] for stop in stops)])
    assert torch.equal(alone[1:7], together[:6])
    assert torch.equal(alone[7:], torch.stack(logits))
    # States of a time with another number of slots are run anew.
    assert torch.equal(fresh.after(pairs[:3]), together[:3])


@pytest.mark.long
def test_samples_do_not_depend_on_batches_or_order(live: LiveModel) -> None:
    prompts = [prompt(str(i), context) for i, context in enumerate(CONTEXTS)]
    options: dict[str, Any] = {"samples": 60, "seed": 5}
    expected = mc(live.lm, prompts, **options)
    few_at_once = replace(live.lm, limits=Limits(nodes=3, pack=1))
    few = mc(few_at_once, prompts[::-1], **options)
    assert few[::-1] == expected
    assert mc(live.lm, prompts[1:2], **options) == expected[1:2]


@pytest.mark.long
def test_exact_probabilities_agree_with_samples(live: LiveModel) -> None:
    count, context = 1000, CONTEXTS[0]
    (drawn,) = mc(live.lm, [prompt("1", context)], samples=count)
    table = al.word_probabilities(live, context, WORDS, tolerance=0.01).records()
    assert sum(row["probability_low"] for row in table) <= 1
    for row in table:
        share, high = drawn.counts.get(row["word"], 0) / count, row["probability_high"]
        error = 4 * np.sqrt(max(high, 1 / count) / count)
        assert row["probability_low"] - error <= share <= high + error


@pytest.mark.long
def test_beginning_of_text_and_chat_are_as_for_other_local_models(live: LiveModel) -> None:
    for options in ({"bos": "add"}, {"chat": True, "template": "paper"}):
        model, other = (al.load("smollm2", **options, **which) for which in _BOTH)
        assert model.lm.encode_all(CONTEXTS) == other.lm.encode_all(CONTEXTS)
        assert model.version.split("bos=")[1] == other.version.split("bos=")[1]


_BOTH: tuple[dict[str, Any], ...] = ({"runtime": "llama.cpp"}, {"device": "cpu"})


def test_the_signature_names_weights_and_runtime(live: LiveModel) -> None:
    assert ",Q4_1,llama.cpp,bos=none" in live.version


def test_a_context_beyond_the_window_is_refused(live: LiveModel) -> None:
    with pytest.raises(UsageError, match=r"does not fit the model's window of 8192"):
        al.word_probabilities(live, "word " * 8200, ["mat"])


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"device": "cuda"}, "runs on the CPU"),
        ({"dtype": "bfloat16"}, "leave --dtype and --quantize out"),
        ({"quantize": "4bit"}, "leave --dtype and --quantize out"),
    ],
)
def test_options_that_do_not_apply_are_refused(options: dict[str, str], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        load_smollm2("", LoadOptions(**options))


def test_files_that_are_no_models_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a file"):
        load_gguf(str(tmp_path / "none.gguf"), LoadOptions())
    for content, problem in ((b"text", "is no GGUF file"), (b"GGUF", "is no whole GGUF model")):
        path = tmp_path / "model.gguf"
        path.write_bytes(content)
        with pytest.raises(DataError, match=problem):
            load_gguf(str(path), LoadOptions())
    with pytest.raises(DataError, match=r"is no model that llama\.cpp can load"):
        LlamaPass(path)


def test_other_vocabularies_are_refused(
    live: LiveModel, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    live.lm.tokenizer.save_pretrained(tmp_path)
    file = tmp_path / "tokenizer.json"
    settings = json.loads(file.read_bytes())
    tokens = settings["model"]["vocab"]
    tokens["Ġthe"], tokens["Ġa"] = tokens["Ġa"], tokens["Ġthe"]
    file.write_text(json.dumps(settings))
    monkeypatch.setattr(gguf, "tokenizer_directory", lambda path: tmp_path)
    with pytest.raises(DataError, match="different vocabularies"):
        load_gguf(str(gguf.smollm2_file()), LoadOptions())


@pytest.mark.long
def test_a_run_through_the_command_line(cli: Callable, tmp_path: Path) -> None:
    corpus = tmp_path / "people.jsonl"
    corpus.write_text('{"id": "1", "context": "The cat sat on the", "responses": {"mat": 3}}\n')
    asked = ("--model", "smollm2", "--runtime", "llama.cpp", "--json")
    ran = cli("word", "--corpus", corpus, *asked)
    assert ran.status == 0, ran.err
    signatures = [result["signature"] for result in json.loads(ran.out)["results"]]
    assert any(",Q4_1,llama.cpp," in signature for signature in signatures)
