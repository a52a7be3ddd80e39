"""Runs a target for a time: under atheris where it is installed, else under Hypothesis."""

from __future__ import annotations

import hashlib
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import nullcontext
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from fuzz.trial import Target, target_named

FOUND = Path(__file__).parent / "found"
LONGEST = 4096
SLOWEST = 25
"""Seconds that one input may take: more is a finding too."""


@dataclass(frozen=True)
class Outcome:
    """What a run of a target came to."""

    target: str
    engine: str
    seconds: float
    inputs: int
    finding: Path | None = None
    cpu_seconds: float = 0.0

    def __str__(self) -> str:
        end = f"FAILED on {self.finding}" if self.finding else "no finding"
        took = f"{self.seconds:.0f} s, {self.cpu_seconds:.0f} s of the processor"
        return f"{self.target}: {self.inputs} inputs in {took} ({self.engine}), {end}"


def run(
    name: str, seconds: float, engine: str | None = None, corpora: Path | None = None
) -> Outcome:
    """Try a target for so many seconds; an input that fails is kept in `fuzz/found/`.

    Inputs that reached new code stay in `corpora`, where one is named, and atheris goes on from
    them the next time.
    """
    engine = engine or ("atheris" if find_spec("atheris") else "hypothesis")
    if engine == "atheris":
        return _with_atheris(target_named(name), seconds, corpora)
    return _with_hypothesis(target_named(name), seconds)


def keep(target: str, data: bytes) -> Path:
    """Save an input that failed; the tests replay it from then on."""
    folder = FOUND / target
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / hashlib.sha256(data).hexdigest()[:16]
    path.write_bytes(data)
    return path


def _with_hypothesis(target: Target, seconds: float) -> Outcome:
    from hypothesis import HealthCheck, given, seed, settings

    from fuzz.strategies import inputs

    tried, last, start, used = 0, b"", time.monotonic(), time.process_time()

    def one(data: bytes) -> None:
        nonlocal tried, last
        if time.monotonic() - start < seconds:
            tried, last = tried + 1, data
            target.trial(data)

    batch = 0
    try:
        while time.monotonic() - start < seconds:
            batch += 1
            rules = settings(max_examples=1000, deadline=None, database=None,
                             suppress_health_check=list(HealthCheck))  # fmt: skip
            seed(batch)(rules(given(inputs(target))(one)))()
        path = None
    except Exception:
        path = keep(target.name, last)
    took, used = time.monotonic() - start, time.process_time() - used
    return Outcome(target.name, "hypothesis", took, tried, path, used)


def _with_atheris(target: Target, seconds: float, corpora: Path | None) -> Outcome:
    """In a process of its own, which libFuzzer ends as it likes."""
    kept = nullcontext(corpora) if corpora else tempfile.TemporaryDirectory()
    with tempfile.TemporaryDirectory() as folder, kept as home:
        corpus, findings = Path(home, target.name), Path(folder, "findings")
        corpus.mkdir(parents=True, exist_ok=True)
        findings.mkdir()
        for number, data in enumerate(target.seeds):
            (corpus / f"seed-{number}").write_bytes(data)
        words = Path(folder, "words")
        words.write_text("".join(f'"{_escaped(token)}"\n' for token in target.tokens if token))
        options = [f"-max_total_time={int(seconds)}", f"-artifact_prefix={findings}/"]
        options += [f"-max_len={LONGEST}", f"-timeout={SLOWEST}", "-rss_limit_mb=4096"]
        options += [f"-dict={words}", "-print_final_stats=1", "-verbosity=0", str(corpus)]
        command = [sys.executable, "-m", "fuzz.under_atheris", target.name, *options]
        start, used = time.monotonic(), _used_by_children()
        own = {**os.environ, "TMPDIR": folder}  # libFuzzer leaves without tidying up
        ended = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=seconds + 300, env=own
        )
        took, used = time.monotonic() - start, _used_by_children() - used
        inputs, path = _read(target, ended, findings)
        return Outcome(target.name, "atheris", took, inputs, path, used)


def _used_by_children() -> float:
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def _read(
    target: Target, ended: subprocess.CompletedProcess[str], findings: Path
) -> tuple[int, Path | None]:
    """How many inputs were tried, and the one that failed, kept."""
    counted = re.search(r"number_of_executed_units: *(\d+)", ended.stderr)
    # A "slow unit" is no finding: libFuzzer notes the slowest of all, however fast.
    named = [own for own in sorted(findings.iterdir()) if not own.name.startswith("slow-unit")]
    found = next(iter(named), None)
    path = keep(target.name, found.read_bytes()) if found else None
    if found or counted is None:
        sys.stderr.write(ended.stderr[-3000:])
    return int(counted[1]) if counted else 0, path


def _escaped(token: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in token)
