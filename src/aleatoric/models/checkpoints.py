"""Model files on disk: content hashes, integrity checks, and cached conversions."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from aleatoric.data import files
from aleatoric.data.files import cache_dir
from aleatoric.errors import DataError, MissingExtraError, UsageError

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
