"""Which versions made a run."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version

import aleatoric


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Ours, Python's and those of the packages that are installed.

    >>> sorted(versions(["numpy", "no-such-package"]))
    ['aleatoric', 'numpy', 'python']
    """
    found = {"aleatoric": aleatoric.__version__, "python": platform.python_version()}
    for name in packages:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
