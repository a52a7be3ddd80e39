"""GGUF files: converted once to a safetensors directory, because loading one takes long."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from aleatoric.data.files import cache_dir
from aleatoric.errors import DataError, MissingExtraError, UsageError
from aleatoric.models.checkpoints import build_once, file_sha256, listed
from aleatoric.models.hf import HFModel, check_weights, load, quiet, whole_model
from aleatoric.models.pieces import Bos, set_bos

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
    digest = file_sha256(path)
    target = (cache or cache_dir()) / "gguf" / f"{path.stem}-{digest[:12]}-v{_FORMAT}"
    return build_once(target, lambda directory: _convert(path, directory), digest)


def _check_magic(path: Path) -> None:
    try:
        with path.open("rb") as file:
            begins = file.read(len(_MAGIC))
    except OSError as error:
        raise DataError.at(path, None, f"cannot be read ({error.strerror})", "check it") from None
    if begins != _MAGIC:
        raise DataError.at(path, None, "is no GGUF file", "name a .gguf file")


def _convert(path: Path, directory: Path) -> None:
    torch, transformers = _import_heavy()
    folder, name = str(path.parent), path.name
    with quiet(transformers):
        try:
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder, gguf_file=name)
            kind = transformers.AutoModelForCausalLM
            model = whole_model(kind, folder, gguf_file=name, dtype=torch.float32)
            check_weights(model)
            _check_tensors(path, model.config.num_hidden_layers)
            _fix_pre_tokenizer(tokenizer, path)
            _fix_start(tokenizer, path)
            plain = _plain_copy(model)
        except Exception as error:  # a broken file fails in many ways inside the reader
            reason = f"{error}".strip().partition("\n")[0].rstrip(" .") or type(error).__name__
            problem = f"is no whole GGUF model ({reason})"
            raise DataError.at(path, None, problem, "download or convert it again") from error
        plain.save_pretrained(directory)
        tokenizer.save_pretrained(directory)


def _check_tensors(path: Path, n_layers: int) -> None:
    """Refuse tensors that the architecture does not have: transformers leaves them out."""
    import gguf

    kinds = {name: kind for kind, name in gguf.MODEL_ARCH_NAMES.items()}
    own = gguf.MODEL_TENSORS[kinds[metadata(path, "general.architecture")]]
    known = {gguf.TENSOR_NAMES[one].format(bid=layer) for one in own for layer in range(n_layers)}
    found = [tensor.name for tensor in gguf.GGUFReader(str(path)).tensors]
    if unknown := [name for name in found if name.rpartition(".")[0] not in known]:
        raise ValueError(f"unexpected tensors: {listed(unknown)}")


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
