"""Tiny models in folders, from the command line."""

# ruff: noqa: E402  (the imports below need torch, and the tests are skipped without it)
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import forced_lms
from lms import tokenizer
from tokenizers import decoders, processors
from transformers import AutoConfig, AutoModelForCausalLM
from tuned_lms import population, save_corpus, words_lm


@pytest.fixture
def people(tmp_path: Path) -> Path:
    return save_corpus(tmp_path / "people.jsonl", list(population(passages=2, length=3)))


def saved_lm(folder: Path, template: str | None = None) -> str:
    """A model whose tokenizer starts texts as `template` says."""
    lm = words_lm(layers=1, width=16)
    if template:
        lm.tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
            template, special_tokens=[("<end>", 0)]
        )
    lm.model.save_pretrained(folder)
    lm.tokenizer.save_pretrained(folder)
    return f"hf:{folder}"


def test_how_a_text_begins_is_resolved_for_each_model_and_in_its_signature(
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


def test_a_chat_template_begins_the_text_itself(cli: Callable, tmp_path: Path) -> None:
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
def test_a_model_that_the_tree_pass_gets_wrong_ends_in_one_sentence(
    cli: Callable, people: Path, tmp_path: Path, estimator: str
) -> None:
    model = save_random("mpt", tmp_path / "mpt", d_model=32, n_layers=2, n_heads=4, max_seq_len=32)
    ran = cli("word", "--corpus", people, "--model", model, "--estimator", estimator)
    assert ran.status == 2
    assert "mpt: models of type 'mpt' are not supported at the word level" in ran.err
    assert "Traceback" not in ran.err


def test_sampling_works_with_few_positions(cli: Callable, people: Path, tmp_path: Path) -> None:
    shape = {"n_embd": 16, "n_layer": 1, "n_head": 2}
    asked = ("word", "--corpus", people, "--estimator", "mc", "--samples", 50, "--device", "cpu")
    enough = save_random("gpt2", tmp_path / "enough", n_positions=40, **shape)
    ran = cli(*asked, "--model", enough, "--json")
    assert ran.status == 0, ran.err
    few = save_random("gpt2", tmp_path / "few", n_positions=10, **shape)
    ran = cli(*asked, "--model", few)
    assert ran.status == 1
    assert "does not fit the model's window of 10; shorten it." in ran.err
    assert "Traceback" not in ran.err
