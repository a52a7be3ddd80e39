"""Which reader of references a checkpoint becomes."""

from __future__ import annotations

from pathlib import Path

import pytest
from forced_lms import WINDOW, saved

from aleatoric.errors import UsageError
from aleatoric.models import gguf
from aleatoric.models.base import Forcing
from aleatoric.models.checkpoints import model_sha256
from aleatoric.runs.engine import open_forced


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    for kind in ("gpt2", "t5"):
        saved(kind, folder)
    return folder


def test_the_configuration_tells_causal_from_encoder_decoder(models: Path) -> None:
    causal = open_forced(f"hf:{models / 'gpt2'}", Forcing())
    assert (causal.reads, causal.label) == ("text", "gpt2")
    assert causal.conventions["window"] == str(WINDOW)
    pairs = open_forced(f"hf:{models / 't5'}/", Forcing(dtype="bfloat16"))
    assert (pairs.reads, pairs.label) == ("pairs", "t5")
    assert pairs.version == f"{model_sha256(models / 't5')[:12]},bfloat16"


def test_a_gguf_file_is_read_through_its_conversion(
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


def test_options_of_documents_are_refused_before_the_weights_are_read(models: Path) -> None:
    with pytest.raises(UsageError, match="leave --window"):
        open_forced(f"hf:{models / 't5'}", Forcing(window=8))
