"""Runs a target for a time: under atheris where it is installed, else under Hypothesis."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tempfile
import time
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

    def __str__(self) -> str:
        end = f"FAILED on {self.finding}" if self.finding else "no finding"
        return f"{self.target}: {self.inputs} inputs in {self.seconds:.0f} s ({self.engine}), {end}"


def run(name: str, seconds: float, engine: str | None = None) -> Outcome:
    """Try a target for so many seconds; an input that fails is kept in `fuzz/found/`."""
    engine = engine or ("atheris" if find_spec("atheris") else "hypothesis")
    tried = _with_atheris if engine == "atheris" else _with_hypothesis
    return tried(target_named(name), seconds)


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

    tried, last, start = 0, b"", time.monotonic()

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
    except Exception:
        path = keep(target.name, last)
        return Outcome(target.name, "hypothesis", time.monotonic() - start, tried, path)
    return Outcome(target.name, "hypothesis", time.monotonic() - start, tried)


def _with_atheris(target: Target, seconds: float) -> Outcome:
    """In a process of its own, which libFuzzer ends as it likes."""
    with tempfile.TemporaryDirectory() as folder:
        corpus, findings = Path(folder, "corpus"), Path(folder, "findings")
        corpus.mkdir()
        findings.mkdir()
        for number, data in enumerate(target.seeds):
            (corpus / f"seed-{number}").write_bytes(data)
        words = Path(folder, "words")
        words.write_text("".join(f'"{_escaped(token)}"\n' for token in target.tokens if token))
        options = [f"-max_total_time={int(seconds)}", f"-artifact_prefix={findings}/"]
        options += [f"-max_len={LONGEST}", f"-timeout={SLOWEST}", "-rss_limit_mb=4096"]
        options += [f"-dict={words}", "-print_final_stats=1", "-verbosity=0", str(corpus)]
        command = [sys.executable, "-m", "fuzz.under_atheris", target.name, *options]
        start = time.monotonic()
        ended = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=seconds + 300
        )
        return _read(target, ended, findings, time.monotonic() - start)


def _read(
    target: Target, ended: subprocess.CompletedProcess[str], findings: Path, seconds: float
) -> Outcome:
    counted = re.search(r"number_of_executed_units: *(\d+)", ended.stderr)
    # A "slow unit" is no finding: libFuzzer notes the slowest of all, however fast.
    named = [own for own in sorted(findings.iterdir()) if not own.name.startswith("slow-unit")]
    found = next(iter(named), None)
    path = keep(target.name, found.read_bytes()) if found else None
    if found or counted is None:
        sys.stderr.write(ended.stderr[-3000:])
    inputs = int(counted[1]) if counted else 0
    return Outcome(target.name, "atheris", seconds, inputs, path)


def _escaped(token: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in token)
