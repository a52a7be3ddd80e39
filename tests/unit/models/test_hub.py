"""Models by name: what a misspelt one may mean, and hub names without a network."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from aleatoric import hub
from aleatoric.data.opening import open_corpus
from aleatoric.errors import ModelError, UsageError
from aleatoric.levels.base import run_job
from aleatoric.levels.text import Text, TextJob
from aleatoric.models import loading
from aleatoric.runs.engine import check_specs

pytest.importorskip("huggingface_hub", reason='needs pip install "aleatoric[hf]"')


@pytest.mark.parametrize(
    ("spec", "meant"),
    [
        ("gpt2", "hf:gpt2"),
        ("openai-community/gpt2", "hf:openai-community/gpt2"),
        ("SmolLM2", "smollm2"),
        ("smolm2", "smollm2"),
        ("HF:gpt2", "hf:gpt2"),
        ("record:m.jsonl", "recorded:m.jsonl"),
        ("m.jsonl", "recorded:m.jsonl"),
        ("m.gguf", "gguf:m.gguf"),
        ("folder", "hf:folder"),
    ],
)
def test_what_a_misspelt_model_may_mean(
    spec: str, meant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    for name in ("m.jsonl", "m.gguf"):
        (tmp_path / name).touch()
    with pytest.raises(UsageError) as refused:
        check_specs([spec], "models", "language_models")
    assert f"there is no model '{spec}' (did you mean {meant}?); known kinds: " in str(
        refused.value
    )


@pytest.mark.parametrize("spec", ["magic:wand", "a b", "", "x/y/z", "\x1b[31m"])
def test_nothing_is_suggested_for_what_is_like_nothing(spec: str) -> None:
    with pytest.raises(UsageError, match=r"there is no model '[^']*'; known kinds"):
        check_specs([spec], "models", "language_models")


@pytest.mark.parametrize(
    ("spec", "meant"), [("Provo", "provo"), ("coze:c.csv", "cloze:c.csv"), ("people", "people.csv")]
)
def test_what_a_misspelt_corpus_may_mean(
    spec: str, meant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.csv").touch()
    with pytest.raises(UsageError) as refused:
        open_corpus(spec)
    assert f"no corpus or file '{spec}' (did you mean {meant}?); known" in str(refused.value)


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A hub that nothing listens at, and an empty cache; gives the cache."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    return tmp_path


def test_a_hub_name_without_a_network_is_refused_at_once(
    offline: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: pytest.fail("a request was repeated"))
    with pytest.raises(ModelError, match=r"'no/such': it is not in the cache, and http://127\."):
        loading.load_parts("no/such")
    with pytest.raises(ModelError, match="cannot be reached; check the name and the network"):
        loading.load_config("no/such")


def test_a_hub_name_is_refused_before_taggers_and_encoders_are_loaded(
    offline: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Text, "prepare", lambda *_: pytest.fail("probes were loaded"))
    corpus = tmp_path / "c.jsonl"
    corpus.write_text('{"id": "1", "input": "a", "references": ["x", "y"]}\n')
    with pytest.raises(ModelError, match="'no/such': it is not in the cache"):
        run_job(TextJob(str(corpus), ("hf:no/such",)), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_server_that_never_answers_is_not_waited_for(
    offline: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from threading import Event

    class Silent:
        def head(self, *_: object, **__: object) -> None:
            Event().wait()

    monkeypatch.setattr("huggingface_hub.utils.get_session", Silent)
    monkeypatch.setattr(hub, "PATIENCE", 0.01)
    with pytest.raises(ModelError, match="cannot be reached"):
        loading.hub_options("no/such", None)


def test_what_is_in_the_cache_is_used_without_a_network(offline: Path) -> None:
    snapshot = offline / "models--no--such" / "snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")
    refs = offline / "models--no--such" / "refs"
    refs.mkdir()
    (refs / "main").write_text("0" * 40)
    assert loading.hub_options("no/such", None) == {"local_files_only": True}
    assert loading.hub_options(str(offline), None) == {}


def test_a_bad_hub_name_is_one_sentence(cli: Callable, offline: Path, tmp_path: Path) -> None:
    corpus = tmp_path / "c.jsonl"
    corpus.write_text('{"context": "a", "responses": ["x"]}\n')
    ran = cli("word", "--corpus", corpus, "--model", "hf:a b/c")
    assert ran.status in (1, 2)
    assert ran.err.count("\n") == 1
