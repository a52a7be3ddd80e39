"""A model that is split over devices, or whose weights are on disk, gives the same numbers."""

# ruff: noqa: E402  (the imports below need torch, and the tests are skipped without it)
from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("accelerate", reason='needs pip install "aleatoric[hf]"')

import fake_devices
from accelerate import dispatch_model
from fake_devices import DEVICES, FakeDevices
from lms import tokenizer
from marks import sampled
from prompts import prompt
from test_architectures import ALL, network
from torch import nn

from aleatoric.models import loading
from aleatoric.models.base import Forcing, Writing
from aleatoric.models.forced import causal_forced, chunks
from aleatoric.models.generate_hf import text_model
from aleatoric.models.gguf import check_weights
from aleatoric.models.hf import HFModel, in_tiles, wrap
from aleatoric.nextword.exact import Question, Search, exact
from aleatoric.nextword.sampled import mc
from aleatoric.types import Document, TextItem

CONTEXTS = ("There are many things, some of them", "There are many", "It's well-known that the cat")
QUESTIONS = [Question(context, ("many", "new", "so"), (0.5, 0.3, 0.2)) for context in CONTEXTS]
PROMPTS = [prompt(str(place), context) for place, context in enumerate(CONTEXTS)]


def halves(model: Any, first: Any, second: Any) -> dict[str, Any]:
    """Map the beginning of a model to one device, and its second half to another."""
    places: dict[str, Any] = {}
    for name, module in model.named_modules():
        if isinstance(module, nn.ModuleList) and len(module) == 2 and not _inside(name, places):
            places |= {f"{name}.0": first, f"{name}.1": second}
    assert len(places) == 2
    above = {name.rpartition(".")[0] for name in places}
    for name, _ in model.named_modules():
        is_part = not _inside(name, places) and not any(
            f"{x}.".startswith(f"{name}.") for x in above
        )
        if name and is_part and name not in above:
            places[name] = first if "emb" in name or "wte" in name or "wpe" in name else second
    return places


def _inside(name: str, places: dict[str, Any]) -> bool:
    return any(f"{name}.".startswith(f"{place}.") for place in places)


def untied(model: Any) -> Any:
    """A copy of a model whose output layer has its own weights, which can lie elsewhere."""
    copied = deepcopy(model)
    head = copied.get_output_embeddings()
    head.weight = nn.Parameter(head.weight.detach().clone())
    copied.config.tie_word_embeddings = False
    return copied


def split(model: Any) -> Any:
    """A copy of a model on two devices, as accelerate splits a large model."""
    copied = untied(model)
    places = halves(copied, *DEVICES)
    keys = copied._skip_keys_device_placement
    dispatch_model(copied, places, main_device=DEVICES[0], skip_keys=keys)
    fake_devices.settle(copied)
    return copied


def wrapped(model: Any) -> HFModel:
    return wrap(model, tokenizer(), name="m", bos="none")


def answers(lm: HFModel) -> dict[str, Any]:
    """Exact and sampled words, and the logits of reference tokens."""
    found = exact(lm, QUESTIONS, search=Search(0.3, 30))
    drawn = mc(lm, PROMPTS, samples=50)
    forced = causal_forced(
        lm.model, lm.tokenizer, label="m", version="0", forcing=Forcing(window=8, bos="none")
    )
    (strips,) = forced.strips([Document("1", "There are many things.")])
    logits = torch.cat([chunk.logits.cpu() for chunk in chunks(forced, strips, 32)])
    return {"exact": found, "mc": drawn, "token": logits.numpy()}


def check_same(wanted: dict[str, Any], found: dict[str, Any]) -> None:
    for one, other in zip(wanted["exact"], found["exact"], strict=True):
        assert one.words == other.words
        assert one.nodes == other.nodes
        for name in ("low", "value", "high", "open", "failed"):
            assert getattr(other, name) == pytest.approx(getattr(one, name), abs=1e-6)
    assert found["mc"] == wanted["mc"]
    assert found["token"] == pytest.approx(wanted["token"], abs=1e-4)


@pytest.mark.parametrize("kind", sampled(ALL, ("gpt2", "mamba")))
def test_model_on_two_devices_has_the_numbers_of_the_whole_model(kind: str) -> None:
    whole = wrapped(network(kind, ALL[kind]))
    with FakeDevices() as devices:
        lm = wrapped(split(whole.model))
        moved = devices.moves
        found = answers(lm)
        assert devices.moves > moved
    assert bool(lm.window) == bool(whole.window)
    check_same(answers(whole), found)


@pytest.mark.parametrize("kind", ["llama", "gpt2", "bloom"])
def test_split_model_gives_the_same_texts_and_tiles(kind: str) -> None:
    whole = wrapped(network(kind, ALL[kind]))
    asked, items = (
        Writing(samples=3, max_new_tokens=6),
        [TextItem("1", "g", ("There are many",), ("a",))],
    )
    wanted = [*text_model(whole.model, tokenizer(), label="m").write(items, asked)]
    with FakeDevices():
        model = split(whole.model)
        assert [*text_model(model, tokenizer(), label="m").write(items, asked)] == wanted
        tiled = in_tiles(wrapped(model)) if whole.window else None
        assert tiled is None or tiled.tiled
        found = exact(tiled, QUESTIONS, search=Search(0.3, 30)) if tiled else ()
    for one, other in zip(found, exact(whole, QUESTIONS, search=Search(0.3, 30)), strict=False):
        assert one.value == pytest.approx(other.value, abs=1e-6)


@pytest.mark.parametrize("kind", sampled(["llama", "gpt2", "bloom", "mamba"], ["gpt2"]))
@pytest.mark.parametrize("places", [("cpu", "disk"), ("disk", "cpu"), ("disk", "disk")])
def test_weights_on_disk_give_the_numbers_of_the_whole_model(
    kind: str, places: tuple[str, str], tmp_path: Path
) -> None:
    whole = wrapped(network(kind, ALL[kind]))
    model = untied(whole.model)
    dispatch_model(model, halves(model, *places), offload_dir=str(tmp_path))
    assert any(weight.device.type == "meta" for weight in model.parameters())
    check_weights(model)
    check_same(answers(whole), answers(wrapped(model)))


def test_weights_on_disk_that_are_not_finite_are_noticed(tmp_path: Path) -> None:
    model = untied(network("llama", ALL["llama"]))
    with torch.no_grad():
        model.model.layers[1].mlp.up_proj.weight[0, 0] = torch.nan
    dispatch_model(model, halves(model, "cpu", "disk"), offload_dir=str(tmp_path))
    with pytest.raises(ValueError, match=r"layers\.1\.mlp\.up_proj\.weight holds values that are"):
        check_weights(model)


@pytest.mark.parametrize("level", ["word", "token", "text"])
def test_commands_run_models_that_are_partly_on_disk(
    cli: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, level: str
) -> None:
    model = untied(network("llama", ALL["llama"]))
    model.save_pretrained(tmp_path / "m")
    tokenizer().save_pretrained(tmp_path / "m")
    corpora = {
        "word": '{"context": "There are many", "responses": ["things", "men", "men"]}\n',
        "token": "There are many things, some of them new.\n",
        "text": '{"id": "1", "input": "many", "references": ["so many", "the man"]}\n',
    }
    corpus = tmp_path / f"c.{'txt' if level == 'token' else 'jsonl'}"
    corpus.write_text(corpora[level])
    more = ("--probe", "lexical-1", "--samples", 3) if level == "text" else ()
    asked = (level, "--corpus", corpus, "--model", f"hf:{tmp_path / 'm'}", *more, "--json")
    whole = cli(*asked, "--device", "cpu")
    assert whole.status == 0, whole.err
    # What accelerate chooses where the memory does not suffice.
    placed = {"device_map": halves(model, "cpu", "disk"), "offload_folder": str(tmp_path / "o")}
    monkeypatch.setattr(loading, "_placed", lambda *_: placed)
    parts = cli(*asked, "--device", "auto")
    assert parts.status == 0, parts.err
    assert json.loads(parts.out)["results"] == json.loads(whole.out)["results"]
