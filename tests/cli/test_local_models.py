"""Tiny local models through the command line."""

# ruff: noqa: E402  (the imports below need torch, and the tests are skipped without it)
from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from marks import sampled

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import forced_lms
from lms import tokenizer
from safetensors.torch import load_file, save_file
from tokenizers import decoders, processors
from transformers import AutoConfig, AutoModelForCausalLM
from tuned_lms import population, save_corpus, words_lm

from aleatoric.models import gguf
from aleatoric.models.gguf import model_sha256
from aleatoric.runs.run import Store


@pytest.fixture
def people(tmp_path: Path) -> Path:
    return save_corpus(tmp_path / "people.jsonl", list(population(passages=2, length=3)))


def saved_lm(folder: Path, template: str | None = None) -> str:
    """Save a model whose tokenizer adds special tokens by `template`."""
    lm = words_lm(layers=1, width=16)
    if template:
        lm.tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
            template, special_tokens=[("<end>", 0)]
        )
    lm.model.save_pretrained(folder)
    lm.tokenizer.save_pretrained(folder)
    return f"hf:{folder}"


def test_bos_policy_is_resolved_per_model_and_in_signature(
    cli: Callable, people: Path, tmp_path: Path
) -> None:
    plain, marked = saved_lm(tmp_path / "plain"), saved_lm(tmp_path / "marked", "<end> $A")
    asked = ("word", "--corpus", people, "--model", plain, "--model", marked, "--device", "cpu")
    found = {bos: cli(*asked, *bos, "--json") for bos in ((), ("--bos", "none"), ("--bos", "add"))}
    expected = {
        (): ("none", "add"),
        ("--bos", "none"): ("none",) * 2,
        ("--bos", "add"): ("add",) * 2,
    }
    for bos, ran in found.items():
        assert ran.status == 0, ran.err
        signatures = [ran.results[name, "tvd"]["signature"] for name in ("plain", "marked")]
        for signature, policy in zip(signatures, expected[bos], strict=True):
            assert f"bos={policy}|" in signature
    values = {
        (bos, name): ran.results[name, "tvd"]["estimate"]["value"]
        for bos, ran in found.items()
        for name in ("plain", "marked")
    }
    without, with_bos = values[("--bos", "none"), "marked"], values[("--bos", "add"), "plain"]
    assert without != with_bos
    assert values[(), "plain"] == without  # the same weights
    assert values[(), "marked"] == with_bos


def test_chat_template_replaces_bos_policy(cli: Callable, tmp_path: Path) -> None:
    model, words = forced_lms.tiny("gpt2")
    words = forced_lms.words("<s> $A")
    words.backend_tokenizer.decoder = decoders.ByteLevel()
    words.chat_template = "{% for m in messages %}{{ m['content'] }}{% endfor %}"
    model.save_pretrained(tmp_path / "m")
    words.save_pretrained(tmp_path / "m")
    texts = tmp_path / "texts.jsonl"
    texts.write_text('{"input": "A dog", "references": ["runs.", "sleeps."]}\n')
    asked = ("text", "--corpus", texts, "--model", f"hf:{tmp_path / 'm'}", "--device", "cpu")
    asked = (*asked, "--samples", 2, "--max-new-tokens", 3, "--probe", "lexical-1", "--json")
    asked = (*asked, "--tokeniser", "whitespace", "--splits", 2)
    for more, policy in (((), "add"), (("--bos", "none"), "none"), (("--chat",), "template")):
        ran = cli(*asked, *more)
        assert ran.status == 0, ran.err
        signature = ran.results["m", "mean_M/lexical-1"]["signature"]
        assert f"bos={policy}," in signature


def save_random(kind: str, folder: Path, **settings: Any) -> str:
    words = tokenizer()
    config = AutoConfig.for_model(kind, vocab_size=len(words), **settings)
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    words.save_pretrained(folder)
    return f"hf:{folder}"


@pytest.mark.parametrize("estimator", ["exact", "mc"])
def test_model_without_a_tree_pass_is_run_in_plain_passes(
    cli: Callable, people: Path, tmp_path: Path, estimator: str
) -> None:
    model = save_random("mpt", tmp_path / "mpt", d_model=32, n_layers=2, n_heads=4, max_seq_len=64)
    asked = ("--estimator", estimator, "--samples", 50, "--device", "cpu")
    ran = cli("word", "--corpus", people, "--model", model, *asked)
    assert ran.status == 0, ran.err
    assert "mpt: run in plain forward passes" in ran.err


def test_sampling_works_with_few_positions(cli: Callable, people: Path, tmp_path: Path) -> None:
    shape = {"n_embd": 16, "n_layer": 1, "n_head": 2}
    asked = ("word", "--corpus", people, "--estimator", "mc", "--samples", 50, "--device", "cpu")
    enough = save_random("gpt2", tmp_path / "enough", n_positions=40, **shape)
    ran = cli(*asked, "--model", enough, "--json")
    assert ran.status == 0, ran.err
    few = save_random("gpt2", tmp_path / "few", n_positions=10, **shape)
    ran = cli(*asked, "--model", few)
    assert ran.status == 2
    assert "does not fit the model's window of 10; shorten it." in ran.err
    assert "Traceback" not in ran.err


# The content of a model identifies it ---------------------------------------------------------


def changed_weights(folder: Path) -> None:
    held = load_file(folder / "model.safetensors")
    held["transformer.wte.weight"][0, 0] += 1.0
    save_file(held, folder / "model.safetensors", {"format": "pt"})


def changed_words(folder: Path) -> None:
    held = json.loads((folder / "tokenizer.json").read_text())
    held["model"]["vocab"] |= {"birch": 12, "alder": 13}
    (folder / "tokenizer.json").write_text(json.dumps(held))


def changed_settings(folder: Path) -> None:
    held = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(held | {"scale_attn_weights": False}))


def few_texts(folder: Path) -> dict[str, tuple[Any, ...]]:
    """Return a fast command for each level."""
    (folder / "t.jsonl").write_text('{"input": "alder birch", "references": ["cedar", "elder"]}\n')
    (folder / "t.txt").write_text("alder birch cedar elder\n")
    people = save_corpus(folder / "people.jsonl", list(population(passages=2, length=3)))
    probe = ("--probe", "lexical-1", "--tokeniser", "whitespace", "--max-new-tokens", 2)
    return {
        "word": ("word", "--corpus", people, "--splits", 2),
        "token": ("token", "--corpus", folder / "t.txt", "--classwise", "none"),
        "text": ("text", "--corpus", folder / "t.jsonl", "--samples", 2, "--splits", 2, *probe),
    }


@pytest.mark.parametrize(
    "change", sampled([changed_weights, changed_words, changed_settings], [changed_weights])
)
@pytest.mark.parametrize("level", ["word", "token", "text"])
def test_resume_with_modified_model_is_rejected(
    cli: Callable, tmp_path: Path, level: str, change: Callable[[Path], None]
) -> None:
    folder, out = tmp_path / "m", tmp_path / "run"
    model = saved_lm(folder)
    asked = (*few_texts(tmp_path)[level], "--model", model, "--device", "cpu", "--out", out)
    ran = cli(*asked, "--json")
    assert ran.status == 0, ran.err
    content = model_sha256(folder)[:12]
    signatures = [own["signature"] for own in ran.results.values() if own["system"] == "m"]
    assert signatures
    assert all(f"{model}@{content}," in signature for signature in signatures)
    change(folder)
    again = cli(*asked)
    assert again.status == 2
    assert f"(the files of --model {model} have changed since); choose another --out." in again.err
    with Store.resume(out) as store:  # as one that died at its last item
        store.db.execute("DELETE FROM meta WHERE key IN ('complete', 'finished models', 'done m')")
    resumed = cli("resume", out)
    assert resumed.status == 2
    assert resumed.err == (
        f"error: {model}: its files have changed since the run started; restore them, or start "
        "another run.\n"
    )
    with Store.resume(out) as store:  # as one whose manifest knows no contents
        store.set_meta("manifest", {**store.manifest, "contents": {}})
    resumed = cli("resume", out)
    assert resumed.status == 2
    assert "is not the model that the run began with" in resumed.err
    assert len(resumed.err.splitlines()) == 1


def test_changes_to_unused_model_files_are_allowed(cli: Callable, tmp_path: Path) -> None:
    model, out = saved_lm(tmp_path / "m"), tmp_path / "run"
    asked = (*few_texts(tmp_path)["word"], "--model", model, "--device", "cpu", "--out", out)
    assert cli(*asked).status == 0
    (tmp_path / "m" / "README.md").write_text("mine")
    assert cli(*asked).status == 0
    assert cli("resume", out).status == 0


def test_large_file_is_hashed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALEATORIC_CACHE", str(tmp_path / "cache"))
    file, calls = tmp_path / "weights", []
    file.write_bytes(b"a" * 2**21)
    sha256_of = gguf.files.sha256_of
    monkeypatch.setattr(
        gguf.files, "sha256_of", lambda path: (calls.append(path), sha256_of(path))[1]
    )
    first = [gguf.file_sha256(file) for _ in range(2)]
    assert len(calls) == 2  # changed a moment ago: its times may not show another change
    monkeypatch.setattr(gguf, "_SETTLED", 0.0)
    assert {*first, *(gguf.file_sha256(file) for _ in range(3))} == {sha256_of(file)}
    assert len(calls) == 3
    before = file.stat()
    time.sleep(0.02)
    file.write_bytes(b"b" * 2**21)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert gguf.file_sha256(file) == sha256_of(file) != first[0]


SHAPE = {"n_embd": 128, "n_layer": 2, "n_head": 2, "n_positions": 64}


@pytest.mark.parametrize("level", ["word", "text"])
def test_device_auto_gives_the_same_numbers(
    cli: Callable, people: Path, tmp_path: Path, level: str
) -> None:
    pytest.importorskip("accelerate", reason='needs pip install "aleatoric[hf]"')
    model = save_random("gpt2", tmp_path / "m", **SHAPE)
    corpus = people
    if level == "text":
        corpus = tmp_path / "texts.jsonl"
        corpus.write_text('{"id": "1", "input": "many", "references": ["so many", "the man"]}\n')
    probes = ("--probe", "lexical-1", "--samples", 3) if level == "text" else ()
    ran = [
        cli(level, "--corpus", corpus, "--model", model, "--device", device, *probes, "--json")
        for device in ("cpu", "auto")
    ]
    assert [run.status for run in ran] == [0, 0], ran[1].err
    results = [json.loads(run.out)["results"] for run in ran]
    assert results[0] == results[1]


def test_unknown_quantization_is_one_sentence(cli: Callable, people: Path, tmp_path: Path) -> None:
    model = save_random("gpt2", tmp_path / "m", **SHAPE)
    ran = cli("word", "--corpus", people, "--model", model, "--quantize", "3bit")
    assert ran.status == 2
    assert ran.err.splitlines()[-1].endswith("--quantize 3bit is not known; use 4bit or 8bit.")


@pytest.mark.parametrize("kind", ["4bit", "8bit"])
def test_quantized_weights_are_named_in_the_signature(
    cli: Callable, people: Path, tmp_path: Path, kind: str
) -> None:
    pytest.importorskip("bitsandbytes", reason='needs pip install "aleatoric[quantize]"')
    model = save_random("gpt2", tmp_path / "m", **SHAPE)
    asked = ("--quantize", kind, "--device", "cpu", "--json")
    ran = cli("word", "--corpus", people, "--model", model, *asked)
    assert ran.status == 0, ran.err
    signatures = [result["signature"] for result in json.loads(ran.out)["results"]]
    assert any(f",float32,{kind}," in signature for signature in signatures)


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        (("--model", "hf:gpt2"), "--runtime llama.cpp runs GGUF files, and hf:gpt2 is none"),
        (("--model", "toy"), "--runtime llama.cpp runs GGUF files, and toy is none"),
        (("--model", "smollm2", "--runtime", "vllm"), "there is no runtime 'vllm'"),
    ],
)
def test_models_that_a_runtime_does_not_run_are_refused(
    cli: Callable, people: Path, asked: tuple[str, ...], problem: str
) -> None:
    ran = cli("word", "--corpus", people, "--runtime", "llama.cpp", *asked)
    assert ran.status == 2
    assert problem in ran.err.splitlines()[-1]


def test_llama_cpp_that_is_not_installed_is_one_sentence(
    cli: Callable, people: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "llama_cpp", None)
    (tmp_path / "m.gguf").write_bytes(b"GGUF")
    model = f"gguf:{tmp_path / 'm.gguf'}"
    ran = cli("word", "--corpus", people, "--model", model, "--runtime", "llama.cpp")
    assert ran.status == 2
    assert 'pip install "aleatoric[llamacpp]"' in ran.err.splitlines()[-1]
