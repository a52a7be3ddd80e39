"""Wall time and peak memory of a command, measured from outside it."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from dataclasses import dataclass


@dataclass(frozen=True)
class Cost:
    """What a command took."""

    seconds: float
    peak_mb: float
    cpu_seconds: float


def cost_of(arguments: list[str]) -> Cost:
    """Run `aleatoric ARGUMENTS` in a process of its own; raises if it fails."""
    program = (
        "import resource, sys; from aleatoric.cli import main\n"
        "try: main()\n"
        "finally:\n"
        "    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "    print(f'peak {peak}', file=sys.stderr)\n"
    )
    command = [sys.executable, "-c", program, *arguments]
    start, used = time.perf_counter(), _used_by_children()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    seconds, used = time.perf_counter() - start, _used_by_children() - used
    if done.returncode:
        raise RuntimeError(done.stderr)
    peak = float(done.stderr.rsplit("peak ", 1)[1])
    return Cost(seconds, peak * _UNIT / 2**20, used)


def _used_by_children() -> float:
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


_UNIT = 1 if sys.platform == "darwin" else 1024
"""ru_maxrss is in bytes on a Mac and in KiB elsewhere."""
