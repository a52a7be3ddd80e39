"""GGUF files: converted once to a safetensors directory, because loading one takes long."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

from aleatoric.cache import cache_dir
from aleatoric.errors import DataError, MissingExtraError, ModelError, UsageError
from aleatoric.models.build import build_once
from aleatoric.models.hf import HFModel, load, quiet
from aleatoric.models.starts import Bos, set_bos

_MAGIC = b"GGUF"
_FORMAT = 2  # raise it when the conversion changes, so that old caches are not used


def load_gguf(
    path: str | Path, *, dtype: str = "float32", device: str | None = None, bos: Bos = "auto"
) -> HFModel:
    """The model in a GGUF file, through the cached conversion."""
    return load(str(convert(path)), dtype=dtype, device=device, bos=bos)


def convert(path: str | Path, cache: Path | None = None) -> Path:
    """The safetensors directory of a GGUF file, made on first use.

    The directory is named by the file's content: another file of the same name is another model.
    """
    path = Path(path)
    if not os.path.isfile(path):
        raise UsageError(f"{path} is not a file; give the path of a .gguf file.")
    _check_magic(path)
    digest = sha256_of(path)
    target = (cache or cache_dir()) / "gguf" / f"{path.stem}-{digest[:12]}-v{_FORMAT}"
    return build_once(target, lambda directory: _convert(path, directory))


def _check_magic(path: Path) -> None:
    try:
        with path.open("rb") as file:
            begins = file.read(len(_MAGIC))
    except OSError as error:
        raise DataError.at(path, None, f"cannot be read ({error.strerror})", "check it") from None
    if begins != _MAGIC:
        raise DataError.at(path, None, "is no GGUF file", "name a .gguf file")


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file's content, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _convert(path: Path, directory: Path) -> None:
    torch, transformers = _import_heavy()
    place = {"pretrained_model_name_or_path": str(path.parent), "gguf_file": path.name}
    with quiet(transformers):
        try:
            tokenizer = transformers.AutoTokenizer.from_pretrained(**place)
            model = transformers.AutoModelForCausalLM.from_pretrained(**place, dtype=torch.float32)
        except Exception as error:  # a broken file fails in many ways inside the reader
            reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
            raise ModelError(
                f"cannot read {path.name} as GGUF: {reason}; download or convert it again."
            ) from error
        _fix_pre_tokenizer(tokenizer, path)
        _fix_start(tokenizer, path)
        _plain_copy(model).save_pretrained(directory)
        tokenizer.save_pretrained(directory)


def _plain_copy(model: Any) -> Any:
    """The same weights in a model that can be saved (a quantised one refuses)."""
    config = type(model.config).from_dict(
        {k: v for k, v in model.config.to_dict().items() if k != "quantization_config"}
    )
    plain = type(model)(config)
    plain.load_state_dict(model.state_dict())
    plain.generation_config = model.generation_config
    return plain.to(model.dtype)


def _fix_pre_tokenizer(tokenizer: Any, path: Path) -> None:
    """SmolLM splits numbers into digits, which the conversion forgets."""
    if metadata(path, "tokenizer.ggml.pre") != "smollm":
        return
    from tokenizers import pre_tokenizers

    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(False)]
    )


def _fix_start(tokenizer: Any, path: Path) -> None:
    """Whether texts begin with the beginning-of-text token, which the conversion forgets."""
    add = metadata(path, "tokenizer.ggml.add_bos_token")
    if add is not None:
        set_bos(tokenizer, bool(add))


def metadata(path: Path, key: str) -> Any:
    """The value of a key in a GGUF file's metadata, `None` where it is not there."""
    from gguf import GGUFReader

    field = GGUFReader(str(path)).get_field(key)
    return None if field is None else field.contents()


def _import_heavy() -> tuple[Any, Any]:
    try:
        import accelerate  # type: ignore[import-untyped]  # noqa: F401
        import gguf  # noqa: F401
        import torch
        import transformers
    except ImportError as error:
        raise MissingExtraError(error.name or "gguf", "hf") from error
    return torch, transformers
