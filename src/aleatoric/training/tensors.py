"""Tensors in a safetensors file, written whole or not at all; nothing is ever unpickled."""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aleatoric.errors import AleatoricError, DataError, StorageError, UsageError

if TYPE_CHECKING:
    from torch import Tensor

_FACTS = "facts"
_FULL_DISKS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_OS_ERROR = re.compile(r"\(os error (\d+)\)")


@dataclass(frozen=True, eq=False)
class Saved:
    """Named tensors, and what is to be known of them."""

    tensors: dict[str, Tensor]
    facts: dict[str, Any]

    def part(self, prefix: str) -> dict[str, Tensor]:
        """The tensors whose names begin with `prefix/`, without it."""
        start = f"{prefix}/"
        return {
            name.removeprefix(start): value
            for name, value in self.tensors.items()
            if name.startswith(start)
        }


def save_tensors(
    path: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any] | None = None
) -> None:
    """Write tensors beside their place and move them there, so that no half file is ever seen."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    beside = path.with_name(f".{path.name}.part")
    plain = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        save_file(plain, beside, {_FACTS: json.dumps(dict(facts or {}))})
        _sync(beside)
        os.replace(beside, path)
    except (OSError, SafetensorError) as error:
        raise unwritten(path, error) from None
    finally:
        with suppress(OSError):  # gone where all went well
            beside.unlink()


def unwritten(path: Path, error: Exception) -> AleatoricError:
    """What the disk said while weights were written, as one sentence.

    >>> print(unwritten(Path("w"), ValueError("No space left on device (os error 28)")))
    w: the disk is full; make room and repeat the command.
    """
    told = _OS_ERROR.search(str(error))  # safetensors tells the number in its sentence alone
    number = error.errno if isinstance(error, OSError) else told and int(told[1])
    if number in _FULL_DISKS:
        return StorageError(f"{path}: the disk is full", "make room and repeat the command")
    return UsageError(f"{path}: cannot be written ({error}); choose another place.")


def load_tensors(path: Path, device: str = "cpu") -> Saved:
    """What `save_tensors` wrote; a damaged file is refused."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt", device=device) as file:
            facts = json.loads((file.metadata() or {}).get(_FACTS, "{}"))
            return Saved({name: file.get_tensor(name) for name in file.keys()}, facts)  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        fix = "remove it, and what it holds is made again"
        raise DataError.at(path, None, f"is damaged ({error})", fix) from None


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
