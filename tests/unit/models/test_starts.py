"""How texts start: as the model's tokenizer does, with a BOS token, or without."""

# ruff: noqa: E402  (the imports below need torch, and the tests are skipped without it)
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from marks import sampled

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from forced_lms import tiny, words
from published_tokenizers import WITH_BOS, WITHOUT_BOS, fetched
from tokenizers import decoders

from aleatoric.errors import UsageError
from aleatoric.models import gguf
from aleatoric.models.base import Forcing
from aleatoric.models.forced import causal_forced
from aleatoric.models.generate_hf import causal_network
from aleatoric.models.hf import wrap
from aleatoric.models.pieces import load_tokenizer, own_start, policy_of, start_tokens
from aleatoric.types import Document


@pytest.mark.parametrize("name", sampled([*WITH_BOS, *WITHOUT_BOS], ["llama2", "gpt2", "qwen2_5"]))
def test_bos_policy_of_published_tokenizers(name):
    tokenizer = load_tokenizer(str(fetched(name)))
    start = start_tokens(tokenizer, "auto", name)
    assert start == ((tokenizer.bos_token_id,) if name in WITH_BOS else ())
    assert policy_of(tokenizer, start) == ("add" if name in WITH_BOS else "none")
    whole = tokenizer("There are")["input_ids"]
    assert whole[: len(start)] == list(start)
    bare = tokenizer("There are", add_special_tokens=False)["input_ids"]
    assert whole[len(start) :][: len(bare)] == bare  # Command R+ goes on with two more tokens


TEMPLATES = {
    None: ((), "none"),
    "$A </s>": ((), "none"),
    "<s> $A": ((0,), "add"),
    "<s> $A </s>": ((0,), "add"),
    "<pad> <s> $A": ((1, 0), "<pad><s>"),
    "<unk> $A": ((3,), "<unk>"),
}


@pytest.mark.parametrize("template", TEMPLATES)
def test_auto_bos_follows_tokenizer(template):
    tokenizer = words(template)
    start, policy = TEMPLATES[template]
    assert start_tokens(tokenizer, "auto", "m") == start
    assert policy_of(tokenizer, start) == policy
    assert start_tokens(tokenizer, "none", "m") == ()
    assert start_tokens(tokenizer, "add", "m") == (0,)


def test_unknown_bos_policy_is_rejected():
    with pytest.raises(UsageError, match="--bos maybe is not known; use auto, none or add"):
        start_tokens(words(), "maybe", "m")


@pytest.mark.parametrize(
    ("processor", "expected"),
    [
        (None, (0,)),
        # The file says what stands around a text: nothing. DeepSeek V3 is published so.
        ({"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}, ()),
    ],
)
def test_add_bos_token_applies_if_tokenizer_file_is_silent(tmp_path, processor, expected):
    words().save_pretrained(tmp_path)
    _change(tmp_path / "tokenizer.json", post_processor=processor)
    assert own_start(load_tokenizer(str(tmp_path))) == ()
    _change(tmp_path / "tokenizer_config.json", add_bos_token=True)
    assert own_start(load_tokenizer(str(tmp_path))) == expected


def _change(path: Path, **settings: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | settings))


@pytest.mark.parametrize("add", [True, False, None])
def test_bos_policy_from_gguf_metadata(add, monkeypatch):
    monkeypatch.setattr(gguf, "metadata", lambda path, key: add)
    for template in (None, "<s> $A"):
        tokenizer = words(template)
        gguf._fix_tokenizer(tokenizer, Path("m.gguf"))
        assert bool(own_start(tokenizer)) == (template is not None if add is None else add)


def test_every_level_uses_and_records_same_bos_policy():
    model, _ = tiny("gpt2")
    tokenizer = words("<s> $A </s>")
    tokenizer.backend_tokenizer.decoder = decoders.ByteLevel()
    (row,) = tokenizer(["A dog runs."], add_special_tokens=False)["input_ids"]
    lm = wrap(model, tokenizer, name="m")
    assert lm.encode("A dog runs.") == (0, *row)
    assert lm.continuation(" runs.") == wrap(model, tokenizer, name="m", bos="none").encode(
        " runs."
    )
    assert lm.identity["bos"] == "add"
    network = causal_network(model, tokenizer, label="m")
    assert network.start == (0,)
    assert network.conventions["bos"] == "add"
    reader = causal_forced(model, tokenizer, label="m", version="v")
    assert reader.conventions["bos"] == "add"
    [[strip]] = reader.strips([Document("d", "A dog runs.")])
    assert strip.given == (0, *row[:-1])
    assert strip.wanted == tuple(row)


def test_start_tokens_are_given_but_not_scored():
    model, _ = tiny("gpt2")
    tokenizer = words("<pad> <s> $A")
    (row,) = tokenizer(["A dog runs. A dog runs."], add_special_tokens=False)["input_ids"]
    reader = causal_forced(
        model, tokenizer, label="m", version="v", forcing=Forcing(window=6, stride=3)
    )
    assert reader.conventions["bos"] == "<pad><s>"
    [strips] = reader.strips([Document("d", "A dog runs. A dog runs.")])
    scored = [
        (strip.offset + place, strip.wanted[place]) for strip in strips for place in strip.scored
    ]
    assert scored == list(enumerate(row))
    with pytest.raises(UsageError, match="--window 2 holds no more than what begins a text"):
        causal_forced(model, tokenizer, label="m", version="v", forcing=Forcing(window=2))
