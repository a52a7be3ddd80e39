"""Which model class a checkpoint is loaded as for scoring references."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from forced_lms import TEXT, WINDOW, saved, words
from transformers import Gemma3ForCausalLM, Gemma3TextConfig, MistralConfig, MistralForCausalLM

from aleatoric.errors import UsageError
from aleatoric.models import gguf, hf
from aleatoric.models.base import Forcing, LoadOptions
from aleatoric.models.forced import causal_forced
from aleatoric.models.gguf import model_sha256
from aleatoric.runs.engine import open_forced
from aleatoric.types import Document


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    for kind in ("gpt2", "t5", "bart"):
        saved(kind, folder)
    return folder


def test_config_selects_causal_or_encoder_decoder(models: Path) -> None:
    causal = open_forced(f"hf:{models / 'gpt2'}", Forcing())
    assert (causal.reads, causal.label) == ("text", "gpt2")
    assert causal.conventions["window"] == str(WINDOW)
    pairs = open_forced(f"hf:{models / 't5'}/", Forcing(dtype="bfloat16"))
    assert (pairs.reads, pairs.label) == ("pairs", "t5")
    assert pairs.version == f"{model_sha256(models / 't5')[:12]},bfloat16"


def test_gguf_file_is_loaded_through_conversion(
    models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def convert(path: str) -> Path:
        asked.append(path)
        return models / "gpt2"

    monkeypatch.setattr(gguf, "convert", convert)
    reader = open_forced("gguf:some/model.gguf", Forcing(bos="add"))
    assert asked == ["some/model.gguf"]
    assert reader.label == "model.gguf"
    assert reader.conventions["bos"] == "add"


def test_document_options_are_rejected_before_loading_weights(models: Path) -> None:
    with pytest.raises(UsageError, match="leave --window"):
        open_forced(f"hf:{models / 't5'}", Forcing(window=8))


@pytest.mark.parametrize("kind", ["mistral", "gemma3"])
def test_documents_longer_than_a_sliding_window_are_read_as_the_model_reads_them(kind: str) -> None:
    """Windows of all positions give the model's own pass, also in a padded batch."""
    torch.manual_seed(0)
    tokenizer = words()
    shape: dict[str, Any] = {"vocab_size": len(tokenizer), "hidden_size": 32, "head_dim": 8}
    shape |= {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 1}
    shape |= {"intermediate_size": 48, "max_position_embeddings": 128, "sliding_window": 8}
    shape |= {"initializer_range": 0.4, "bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2}
    if kind == "gemma3":
        shape["layer_types"] = ["sliding_attention", "full_attention"]
        network: Any = Gemma3ForCausalLM(Gemma3TextConfig(**shape)).eval()
    else:
        network = MistralForCausalLM(MistralConfig(**shape)).eval()
    model = causal_forced(network, tokenizer, label=kind, version="local")
    assert model.conventions["window"] == "128"
    items = [Document("long", TEXT[:160]), Document("short", TEXT[40:120])]
    (long,), (short,) = model.strips(items)
    assert len(short.given) > 8
    found = model.logits([long, short]).log_softmax(-1)
    for row, strip in zip(found, (long, short), strict=True):
        ids = torch.tensor([[*strip.given, strip.wanted[-1]]])
        with torch.inference_mode():
            own = network(ids).logits[0, :-1].log_softmax(-1)
        wanted = own.gather(1, ids[0, 1:, None])
        nll = row[: len(wanted)].gather(1, ids[0, 1:, None])
        assert torch.allclose(nll, wanted, atol=1e-4)
    assert causal_forced(
        network, tokenizer, label=kind, version="local", forcing=Forcing(window=64)
    )


def test_words_of_an_encoder_decoder_are_refused(models: Path) -> None:
    for kind in ("t5", "bart"):
        with pytest.raises(UsageError, match="words need a causal language model; use it at the"):
            hf.load_hf(str(models / kind), LoadOptions())
