"""Broken models raise a one-line error with exit status 2; weights are never left random."""

# ruff: noqa: E402  (the imports below need torch, and the tests are skipped without it)
from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from itertools import repeat
from pathlib import Path
from typing import Any

import pytest
from marks import sampled, spread

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
gguf = pytest.importorskip("gguf")

import numpy as np
from faulty_server import serving
from forced_lms import saved
from lms import tiny
from safetensors.torch import load_file, save_file

WEIGHTS, CONFIG, WORDS = "model.safetensors", "config.json", "tokenizer.json"
LFS = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 548118077\n"
Break = Callable[[Path], Any]


# How a folder is broken -----------------------------------------------------------------------


def tensors(change: Callable[[dict[str, Any]], Any]) -> Break:
    """Return a function that changes the weights of a folder."""

    def apply(folder: Path) -> None:
        held = load_file(folder / WEIGHTS)
        change(held)
        save_file(held, folder / WEIGHTS, {"format": "pt"})

    return apply


def drop(*parts: str) -> Break:
    return tensors(
        lambda held: [held.pop(name) for name in list(held) if any(part in name for part in parts)]
    )


def value(part: str, number: float) -> Break:
    """Put a value into the weights whose names hold `part`."""
    return tensors(
        lambda held: [held[n].view(-1)[:1].fill_(number) for n in held if part in n] or 1 / 0
    )


def retyped(kind: Any) -> Break:
    return tensors(lambda held: held.update({n: w.to(kind) for n, w in held.items()}))


def renamed(old: str, new: str) -> Break:
    return tensors(lambda held: [held.update({n.replace(old, new): held.pop(n)}) for n in [*held]])


def reshaped(part: str) -> Break:
    """Leave out the last row of the weights whose names hold `part`."""
    return tensors(
        lambda held: held.update({n: w[:-1].clone() for n, w in held.items() if part in n})
    )


def settings(name: str = CONFIG, **changes: Any) -> Break:
    """Change a JSON file; `None` removes a key."""

    def apply(folder: Path) -> None:
        held = json.loads((folder / name).read_text()) | changes
        kept = {key: own for key, own in held.items() if own is not None}
        (folder / name).write_text(json.dumps(kept))

    return apply


def text(name: str, content: str) -> Break:
    return lambda folder: (folder / name).write_text(content)


def cut(name: str, keep: float) -> Break:
    def apply(path: Path) -> None:
        held = (path / name).read_bytes()
        (path / name).write_bytes(held[: int(len(held) * keep)])

    return apply


def removed(*names: str) -> Break:
    return lambda folder: [(folder / name).unlink() for name in names]


def as_folder(name: str) -> Break:
    def apply(folder: Path) -> None:
        (folder / name).unlink()
        (folder / name).mkdir()

    return apply


def linked(name: str) -> Break:
    """A dangling link, as left by an incomplete copy of a cache."""

    def apply(folder: Path) -> None:
        (folder / name).unlink()
        (folder / name).symlink_to(folder / "blobs" / "gone")

    return apply


def sharded(change: Callable[[Path, dict[str, Any]], Any]) -> Break:
    """The weights in two files with an index, broken afterwards."""

    def apply(folder: Path) -> None:
        held = load_file(folder / WEIGHTS)
        (folder / WEIGHTS).unlink()
        places = {n: f"model-0000{1 + i % 2}-of-00002.safetensors" for i, n in enumerate(held)}
        for file in set(places.values()):
            own = {name: held[name] for name in held if places[name] == file}
            save_file(own, folder / file, {"format": "pt"})
        index = {"metadata": {"total_size": 1}, "weight_map": places}
        change(folder, index)
        (folder / f"{WEIGHTS}.index.json").write_text(json.dumps(index))

    return apply


def larger_tokenizer(folder: Path) -> None:
    held = json.loads((folder / WORDS).read_text())
    held["model"]["vocab"]["zebra"] = 9999
    (folder / WORDS).write_text(json.dumps(held))


SHARD = "model-00002-of-00002.safetensors"
NO_WORDS = ("tokenizer.json", "tokenizer_config.json")
BREAKS: dict[str, Break] = {
    "a missing layer": drop("h.1.", "layers.1."),
    "a missing tensor": drop("mlp.c_fc.weight", "mlp.up_proj.weight"),
    "a missing norm": drop("ln_f", "model.norm"),
    "no embeddings": drop("wte", "embed_tokens"),
    "no tensor at all": tensors(dict.clear),
    "an unexpected tensor": tensors(lambda held: held.update(extra=torch.zeros(2))),
    "other names": renamed("mlp", "ffn"),
    "one row too few": reshaped("c_fc.weight"),
    "too few embeddings": reshaped("wte"),
    "NaN in a weight": value("c_fc.weight", float("nan")),
    "infinity in a weight": value("ln_f.weight", float("inf")),
    "NaN in the embeddings": value("wte", float("nan")),
    "weights of whole numbers": retyped(torch.int64),
    "weights of bytes": retyped(torch.uint8),
    "weights in eight bits without scales": retyped(torch.float8_e4m3fn),
    "float64 weights beyond float32": tensors(
        lambda held: held.update({n: w.double() * 1e300 for n, w in held.items()})
    ),
    "weights are a git-LFS pointer": text(WEIGHTS, LFS),
    "empty weights": text(WEIGHTS, ""),
    "weights cut in the header": cut(WEIGHTS, 0.01),
    "weights cut in the middle": cut(WEIGHTS, 0.5),
    "weights without their last byte": cut(WEIGHTS, 0.99999),
    "weights are an error page": text(WEIGHTS, "<html>404 Not Found</html>"),
    "a header of 2**60 bytes": lambda f: (f / WEIGHTS).write_bytes(b"\0" * 7 + b"\x10{}"),
    "weights are a pickle": lambda f: torch.save({}, f / WEIGHTS),
    "no weights": removed(WEIGHTS),
    "weights are a folder": as_folder(WEIGHTS),
    "weights are a broken link": linked(WEIGHTS),
    "pickled weights alone": lambda f: (f / WEIGHTS).rename(f / "pytorch_model.bin"),
    "an index of a missing shard": sharded(lambda f, index: (f / SHARD).unlink()),
    "an index that leaves a tensor out": sharded(lambda f, index: index["weight_map"].popitem()),
    "an index without a map": sharded(lambda f, index: index.pop("weight_map")),
    "an index whose map is a list": sharded(lambda f, index: index.update(weight_map=["a"])),
    "an index that names a number": sharded(lambda f, index: index["weight_map"].update(wte=3)),
    "a shard is a git-LFS pointer": sharded(lambda f, index: text(SHARD, LFS)(f)),
    "a shard is cut": sharded(lambda f, index: cut(SHARD, 0.5)(f)),
    "a shard outside the folder": sharded(
        lambda f, index: index["weight_map"].update(extra="../../else.safetensors")
    ),
    "an index that is no JSON": lambda f: (
        (f / WEIGHTS).unlink(),
        (f / f"{WEIGHTS}.index.json").write_text("{"),
    ),
    "no configuration": removed(CONFIG),
    "an empty configuration": text(CONFIG, ""),
    "a configuration that is no JSON": text(CONFIG, "{,}"),
    "a configuration that is a list": text(CONFIG, "[1]"),
    "a configuration with nothing in it": text(CONFIG, "{}"),
    "a configuration in other bytes": lambda f: (f / CONFIG).write_bytes(b"\xff\xfe{\x80"),
    "the configuration is a folder": as_folder(CONFIG),
    "the configuration is a git-LFS pointer": text(CONFIG, LFS),
    "an unknown type of model": settings(model_type="gpt9"),
    "a type that is a number": settings(model_type=7),
    "an encoder without a head": settings(model_type="bert"),
    "more layers than weights": settings(n_layer=3),
    "millions of layers": settings(n_layer=5_000_000),
    "fewer layers than weights": settings(n_layer=1),
    "another width": settings(n_embd=64),
    "a width that is text": settings(n_embd="wide"),
    "a negative width": settings(n_embd=-32),
    "a width of 0": settings(n_embd=0),
    "heads that do not divide the width": settings(n_head=5),
    "another vocabulary": settings(vocab_size=50257),
    "no vocabulary": settings(vocab_size=0),
    "positions that are not there": settings(n_positions=4096),
    "an unknown activation": settings(activation_function="banana"),
    "no tokenizer": removed(*NO_WORDS),
    "an empty tokenizer": text(WORDS, ""),
    "a tokenizer that is no JSON": text(WORDS, "{"),
    "a tokenizer of nothing": text(WORDS, "{}"),
    "a tokenizer cut off": cut(WORDS, 0.5),
    "the tokenizer is a git-LFS pointer": text(WORDS, LFS),
    "the tokenizer is a folder": as_folder(WORDS),
    "a tokenizer without its vocabulary": removed(WORDS),
    "settings of a tokenizer that are no JSON": text("tokenizer_config.json", "{"),
    "a tokenizer of another model": larger_tokenizer,
    "generation settings that are no JSON": text("generation_config.json", "{"),
}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    for kind in ("gpt2", "llama"):
        lm = tiny(kind, torch.float32)
        lm.model.save_pretrained(folder / kind)
        lm.tokenizer.save_pretrained(folder / kind)
    saved("t5", folder)
    return folder


@pytest.fixture
def ask(cli: Callable, tmp_path: Path) -> Callable[..., Any]:
    """Run a small command of a level with a model."""
    held = {
        "c.jsonl": '{"id": "x1", "context": "The cat", "responses": ["said", "is"]}\n',
        "t.jsonl": '{"id": "x1", "input": "The cat", "references": ["a", "b"]}\n',
        "src": "A dog runs.\n",
        "tgt": "Ein Hund.\n",
    }
    for name, content in held.items():
        (tmp_path / name).write_text(content)
    probe = ("--probe", "lexical-1", "--tokeniser", "whitespace", "--max-new-tokens", 2)
    commands: dict[str, tuple[Any, ...]] = {
        "word": ("word", "--corpus", tmp_path / "c.jsonl", "--splits", 1),
        "token": ("token", "--corpus", tmp_path / "src", "--classwise", "none"),
        "pairs": ("token", "--corpus", f"parallel:{tmp_path}/src,{tmp_path}/tgt"),
        "text": ("text", "--corpus", tmp_path / "t.jsonl", "--samples", 2, *probe),
    }

    def run(level: str, model: str, context: str = "The cat") -> Any:
        for name in ("c.jsonl", "t.jsonl"):
            (tmp_path / name).write_text(held[name].replace("The cat", context))
        return cli(*commands[level], "--model", model, "--device", "cpu")

    return run


def broken(models: Path, kind: str, folder: Path, apply: Break) -> Path:
    shutil.copytree(models / kind, folder / "broken")
    apply(folder / "broken")
    return folder / "broken"


def check_refused(ran: Any) -> None:
    message = [line for line in ran.err.splitlines() if line.startswith("error:")]
    assert ran.status == 2, ran.err
    assert "Traceback" not in ran.err
    assert ran.out == ""
    assert ran.err.splitlines()[-1:] == message[:1]  # nothing follows the one sentence
    assert message[0].endswith(".")
    assert "broken" in message[0]


@pytest.mark.parametrize("what", spread(BREAKS, 8))
def test_broken_folder_is_rejected(ask: Callable, models: Path, tmp_path: Path, what: str) -> None:
    check_refused(ask("word", f"hf:{broken(models, 'gpt2', tmp_path, BREAKS[what])}"))


REASONS = {
    "no configuration": "it has no config.json; name a folder",
    "a configuration with nothing in it": "its config.json names no model_type; name a folder",
    "an unknown type of model": "transformers has no model type `gpt9`; update it with pip",
    "no tokenizer": "it has no files of a tokenizer, such as tokenizer.json and tokenizer_config",
}


@pytest.mark.parametrize("what", REASONS)
def test_what_a_folder_lacks_is_named(
    ask: Callable, models: Path, tmp_path: Path, what: str
) -> None:
    ran = ask("word", f"hf:{broken(models, 'gpt2', tmp_path, BREAKS[what])}")
    check_refused(ran)
    assert REASONS[what] in ran.err
    assert ". " not in ran.err


def no_start(folder: Path) -> None:
    for name in (CONFIG, "generation_config.json"):
        settings(name, decoder_start_token_id=None)(folder)


PAIR_BREAKS = {
    "a missing layer": drop("decoder.block.1."),
    "a missing norm": drop("encoder.final_layer_norm"),
    "an unexpected tensor": tensors(lambda held: held.update(extra=torch.zeros(2))),
    "NaN in a weight": value("decoder.block.0", float("nan")),
    "no start of the decoder": no_start,
    "an empty file": text(WEIGHTS, ""),
}


@pytest.mark.parametrize("what", spread(PAIR_BREAKS, 3))
@pytest.mark.parametrize("level", ["pairs", "text"])
def test_broken_encoder_decoder_is_rejected(
    ask: Callable, models: Path, tmp_path: Path, what: str, level: str
) -> None:
    check_refused(ask(level, f"hf:{broken(models, 't5', tmp_path, PAIR_BREAKS[what])}"))


@pytest.mark.parametrize("level", ["token", "text"])
@pytest.mark.parametrize(
    "what",
    spread(["a missing layer", "NaN in a weight", "an empty configuration"], 3),
)
def test_every_level_rejects_broken_models(
    ask: Callable, models: Path, tmp_path: Path, level: str, what: str
) -> None:
    check_refused(ask(level, f"hf:{broken(models, 'gpt2', tmp_path, BREAKS[what])}"))


def untied(folder: Path) -> None:
    """Declare an untied output head whose weights are missing."""
    settings(tie_word_embeddings=False)(folder)
    drop("lm_head")(folder)


def tied(folder: Path) -> None:
    settings(tie_word_embeddings=True)(folder)
    drop("lm_head")(folder)


def test_missing_untied_output_head_is_rejected(
    ask: Callable, models: Path, tmp_path: Path
) -> None:
    check_refused(ask("word", f"hf:{broken(models, 'llama', tmp_path, untied)}"))


FINE: dict[str, tuple[str, Break]] = {
    "gpt2": ("gpt2", lambda folder: None),
    "tied head": ("llama", tied),
    "shards": ("llama", sharded(lambda folder, index: None)),
    "ignorable buffer": (
        "llama",
        tensors(
            lambda held: held.update(
                {
                    "model.layers.0.self_attn.rotary_emb.inv_freq": held["model.norm.weight"][
                        :4
                    ].clone()
                }
            )
        ),
    ),
    "other files": ("gpt2", text("README.md", "mine")),
}


@pytest.mark.parametrize("what", spread(FINE, 3))
def test_complete_folder_is_loaded(ask: Callable, models: Path, tmp_path: Path, what: str) -> None:
    ran = ask("word", f"hf:{broken(models, FINE[what][0], tmp_path, FINE[what][1])}")
    assert ran.status == 0
    assert "error" not in ran.err


# GGUF -----------------------------------------------------------------------------------------

LAYER = {
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}  # fmt: skip


def write_gguf(
    path: Path, change: Callable[[dict[str, Any]], Any] = lambda held: None, **facts: Any
) -> None:
    """A tiny Llama as a GGUF file, with changed tensors, layers, architecture or tokenizer."""
    lm = tiny("llama", torch.float32)
    names = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
    for layer in range(2):
        names |= {f"model.layers.{layer}.{a}": f"blk.{layer}.{b}" for a, b in LAYER.items()}
    held = {
        names[name.removesuffix(".weight")] + ".weight": weight.numpy().copy()
        for name, weight in lm.model.state_dict().items()
    }
    change(held)
    config, writer = lm.model.config, gguf.GGUFWriter(str(path), facts.get("kind", "llama"))
    writer.add_context_length(128)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(facts.get("layers", 2))
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_vocab_size(config.vocab_size)
    words = json.loads(lm.tokenizer.backend_tokenizer.to_str())["model"]
    if facts.get("words", True):
        writer.add_tokenizer_model("gpt2")
        writer.add_token_list(sorted(words["vocab"], key=words["vocab"].get))
        writer.add_token_types([1] * len(words["vocab"]))
        writer.add_token_merges([" ".join(pair) for pair in words["merges"]])
        writer.add_bos_token_id(0)
        writer.add_eos_token_id(0)
    for name, array in held.items():
        writer.add_tensor(name, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def gguf_nan(held: dict[str, Any]) -> None:
    held["blk.1.ffn_up.weight"][0, 0] = np.nan


def cut_file(keep: float) -> Break:
    return lambda path: (write_gguf(path), cut(path.name, keep)(path.parent))


GGUF_BREAKS: dict[str, Break] = {
    "a missing tensor": lambda p: write_gguf(p, lambda held: held.pop("blk.1.ffn_up.weight")),
    "a missing norm": lambda p: write_gguf(p, lambda held: held.pop("output_norm.weight")),
    "an unexpected tensor": lambda p: write_gguf(
        p, lambda held: held.update({"strange.weight": np.zeros(4, np.float32)})
    ),
    "NaN in a weight": lambda p: write_gguf(p, gguf_nan),
    "another shape": lambda p: write_gguf(
        p, lambda held: held.update({"output_norm.weight": np.ones(31, np.float32)})
    ),
    "fewer layers than weights": lambda p: write_gguf(p, layers=1),
    "more layers than weights": lambda p: write_gguf(p, layers=3),
    "an unknown architecture": lambda p: write_gguf(p, kind="banana"),
    "no tokenizer": lambda p: write_gguf(p, words=False),
    "cut in the header": cut_file(0.02),
    "cut in the tensors": cut_file(0.7),
    "without its end": cut_file(0.9999),
    "an empty file": Path.touch,
    "a git-LFS pointer": lambda p: p.write_text(LFS),
    "the magic alone": lambda p: p.write_bytes(b"GGUF"),
    "another version": lambda p: p.write_bytes(b"GGUF" + b"\x63" * 60),
    "a folder": Path.mkdir,
}


@pytest.mark.parametrize("what", spread(GGUF_BREAKS, 4))
def test_broken_gguf_is_rejected(
    ask: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setenv("ALEATORIC_CACHE", str(tmp_path / "cache"))
    GGUF_BREAKS[what](tmp_path / "broken.gguf")
    check_refused(ask("word", f"gguf:{tmp_path / 'broken.gguf'}"))
    assert not [*tmp_path.glob("cache/gguf/*")]


def test_gguf_is_identified_by_hash_and_changed_conversion_rejected(
    ask: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALEATORIC_CACHE", str(tmp_path / "cache"))
    write_gguf(tmp_path / "m.gguf")
    ran = ask("word", f"gguf:{tmp_path / 'm.gguf'}")
    assert ran.status == 0, ran.err
    (made,) = tmp_path.glob("cache/gguf/m-*")
    value("norm", 2.0)(made)
    ran = ask("word", f"gguf:{tmp_path / 'm.gguf'}")
    assert ran.status == 2
    assert ran.err.endswith(
        "have changed since they were made; delete the folder, and it is made again.\n"
    )


# Contexts that a model cannot continue --------------------------------------------------------

TOO_LONG = (
    "This model's maximum context length is 2048 tokens. However, you requested 4000 tokens.",
    "the request exceeds the available context size (4096 tokens)",
    "The decoder prompt (length 5000) is longer than the maximum model length of 2048.",
    "`inputs` tokens + `max_new_tokens` must be <= 2048",
)


@pytest.mark.parametrize("context", ["", "cat " * 200], ids=["empty", "long"])
@pytest.mark.parametrize("kind", sampled(["hf", "gguf", "openai", "openai chat"], ["hf", "openai"]))
@pytest.mark.parametrize("level", ["word", "text"])
def test_empty_and_long_contexts_are_rejected_with_item_id(
    ask: Callable,
    models: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    level: str,
    kind: str,
    context: str,
) -> None:
    monkeypatch.setenv("ALEATORIC_CACHE", str(tmp_path / "cache"))
    with serving() as server:
        server.faults, server.complaint = repeat("status:400"), TOO_LONG[0]
        model = f"hf:{models / 'gpt2'}"
        if kind == "gguf":
            write_gguf(tmp_path / "m.gguf")
            model = f"gguf:{tmp_path / 'm.gguf'}"
        elif kind != "hf":
            mode = kind.partition(" ")[2] or "completions"
            model = f"openai:m@{server.url}?server=vllm&mode={mode}"
        ran = ask(level, model, context)
    (message,) = [line for line in ran.err.splitlines() if line.startswith("error:")]
    assert ran.status == 2, ran.err
    assert "'x1'" in message or "t.jsonl, line 1" in message
    assert ("empty" if not context else "shorten") in message


@pytest.mark.parametrize("complaint", spread(TOO_LONG, 4))
def test_server_errors_about_long_contexts_are_recognised(ask: Callable, complaint: str) -> None:
    with serving() as server:
        server.faults, server.complaint = repeat("status:400"), complaint
        ran = ask("word", f"openai:m@{server.url}?server=vllm")
        server.complaint = "there is no model m"
        other = ask("word", f"openai:m@{server.url}?server=vllm")
    assert (ran.status, other.status) == (2, 1)
    assert "item 'x1': " in ran.err
