"""The recipe's models on any sentence pairs: weights with what cuts a text into their pieces."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aleatoric.data import files
from aleatoric.errors import DataError, UsageError
from aleatoric.models.base import Forcing, Reads, Strip
from aleatoric.models.loading import device_of, dtype_of
from aleatoric.types import SentencePair
from multi30k.data import Encoder, TranslationData
from multi30k.subwords import EOS, PAD

if TYPE_CHECKING:
    from torch import Tensor

    from multi30k.model import Shape, TranslationModel

VOCABULARY = "vocabulary.json"


@dataclass(frozen=True, eq=False)
class TranslationForced:
    """A model of the recipe as a reader of sentence pairs; the end of a sentence counts."""

    label: str
    version: str
    encoder: Encoder = field(repr=False)
    model: TranslationModel = field(repr=False)
    reads: Reads = "pairs"

    @property
    def vocabulary_size(self) -> int:
        """The width of its logits."""
        return len(self.encoder.target)

    @property
    def conventions(self) -> Mapping[str, str]:
        """How words are cut, and what is scored."""
        return {"words": "moses-lower-case-bpe", "eos": "scored"}

    def strips(self, items: Sequence[SentencePair]) -> list[list[Strip]]:
        """One strip per sentence pair."""
        return [
            [Strip(e.id, (EOS, *e.target[:-1]), e.target, tuple(range(len(e.target))), 0, e.source)]
            for e in self.encoder.encode_pairs(items)
        ]

    def logits(self, strips: Sequence[Strip]) -> Tensor:
        """What the model expects after each given target token."""
        import torch

        device = next(self.model.parameters()).device
        source = _padded([strip.source for strip in strips]).to(device)
        given = _padded([strip.given for strip in strips]).to(device)
        with torch.inference_mode():
            found: Tensor = self.model(source, given)
        return found


def save_vocabulary(folder: Path, data: TranslationData, shape: Shape | None) -> None:
    """Write what the weights in `folder` need beside them to be used on other text."""
    from multi30k.model import Shape

    saved = asdict(data.encoder.saved()) | {"shape": asdict(shape or Shape())}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / VOCABULARY).write_text(json.dumps(saved, ensure_ascii=False), encoding="utf-8")


def load_forced(argument: str, forcing: Forcing) -> TranslationForced:
    """The model of `DIR[@loss|bleu|last]`, or of any other weights file as `DIR@STEM`."""
    if forcing.window is not None or forcing.stride is not None or forcing.bos == "add":
        raise UsageError(
            f"translation:{argument} reads whole sentence pairs; leave --window, --stride and "
            "--bos out."
        )
    folder, _, kept = argument.partition("@")
    saved = _read_vocabulary(Path(folder))
    weights = _weights(Path(folder), kept or "loss")
    model = _model(weights, saved, forcing)
    version = f"{files.sha256_of(weights)[:12]},{forcing.dtype}"
    return TranslationForced(weights.stem, version, Encoder.restored(saved), model)


def _model(weights: Path, saved: Mapping[str, Any], forcing: Forcing) -> TranslationModel:
    import torch
    from safetensors.torch import load_file

    from multi30k.model import Shape, TranslationModel

    source, target = len(saved["source"]), len(saved["target"])
    model = TranslationModel(source, target, Shape(**saved["shape"]))
    model.load_state_dict(load_file(weights))
    kind = dtype_of(torch, forcing.dtype)
    return model.to(device=device_of(torch, forcing.device), dtype=kind).eval()


def _read_vocabulary(folder: Path) -> dict[str, Any]:
    path = folder / VOCABULARY
    fix = "name a folder of weights that python -m multi30k wrote"
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise DataError.at(path, None, "is not there or no vocabulary", fix) from None
    return found


def _weights(folder: Path, kept: str) -> Path:
    for stem in (f"translation-{kept}", kept):
        path = folder / f"{stem}.safetensors"
        if path.is_file():
            return path
    known = ", ".join(sorted(path.stem for path in folder.glob("*.safetensors"))) or "none"
    raise UsageError(f"{folder}: has no weights {kept!r}; it has: {known}.")


def _padded(rows: Sequence[Sequence[int]]) -> Tensor:
    import torch

    width = max(map(len, rows))
    return torch.tensor([[*row, *[PAD] * (width - len(row))] for row in rows])
