"""Processor time of looking at a finished Provo run with four systems, the first and second time.

    python -m benchmarks.looking_twice --data provo/ [--against OLDER_CHECKOUT]

DATA holds provo_cloze.jsonl.gz and recorded systems. With `--against`, the code of another checkout
is measured in the same way, alternating with this one. Bytecode is cached beforehand.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.provo_scoring import CORPUS, record

ROOT = Path(__file__).resolve().parent.parent
SYSTEMS = ("gpt2", "gpt2_temp05", "bloom", "chatgpt_diverse")
TARGETS = {"show": 1.0, "compare": 3.0, "report": 6.0, "score": 1.5, "help": 0.4}
REPEATS = 3


class Checkout:
    """One version of the code, with its own copies of the runs."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self._environment = os.environ | {
            "PYTHONPATH": str(root / "src"),
            "PYTHONPYCACHEPREFIX": str(folder / "bytecode"),
            "PYTHONDONTWRITEBYTECODE": "",
            "OMP_NUM_THREADS": "1",
        }

    def seconds(self, *arguments: object) -> float:
        """Run `aleatoric ARGUMENTS`; return the processor time, user and system."""
        command = [sys.executable, "-m", "aleatoric", *map(str, arguments)]
        before = _used_by_children()
        done = subprocess.run(
            command, env=self._environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr}")
        return _used_by_children() - before

    def takes(self, option: str, *command: str) -> bool:
        """Whether a command of this version has an option."""
        asked = [sys.executable, "-m", "aleatoric", *command, "--help"]
        done = subprocess.run(asked, env=self._environment, capture_output=True, check=True)
        return option in done.stdout.decode()

    def looks(self, provo: Path, thousand: Path) -> Iterator[tuple[str, float, float]]:
        """Yield what is looked at, and the cost of the first and of the second look."""
        run, page = self.folder / "provo", self.folder / "report.html"
        commands: dict[str, tuple[object, ...]] = {
            "show": ("score", run),
            "compare": ("compare", run),
            "report": ("report", run, "--html", page),
        }
        for name, command in commands.items():
            shutil.rmtree(run, ignore_errors=True)
            shutil.copytree(provo, run)
            yield name, self.seconds(*command), self.seconds(*command)
        again = ("--again",) if self.takes("--again", "score") else ()
        scoring = ("score", thousand, *again, "--json")
        yield "score", self.seconds(*scoring), self.seconds(*scoring)
        yield "help", self.seconds("--help"), self.seconds("--help")


def make_runs(checkout: Checkout, data: Path) -> tuple[Path, Path]:
    """Make the run of all of Provo, and one with 1000 samples per context."""
    models = [f"recorded:{data / name}.jsonl.gz" for name in SYSTEMS]
    asked = [part for model in models for part in ("--model", model)]
    provo, thousand = checkout.folder / "whole", checkout.folder / "thousand"
    corpus = data / "provo_cloze.jsonl.gz"
    # Without intervals, so that none is cached.
    checkout.seconds("word", "--corpus", corpus, *asked, "--interval", "none", "--out", provo)
    samples = checkout.folder / "samples.jsonl"
    record(samples)
    asked = ["--model", f"recorded:{samples}", "--interval", "none"]
    checkout.seconds("word", "--corpus", CORPUS, *asked, "--out", thousand)
    checkout.seconds("report", provo, "--html", checkout.folder / "page.html")  # caches bytecode
    for name in ("results.json", "figures.json"):
        (provo / name).unlink(missing_ok=True)
    return provo, thousand


def main() -> None:
    """Print a row per look: the smallest of some repetitions."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data" / "provo")
    parser.add_argument("--against", type=Path, help="a checkout of another version")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    options = parser.parse_args()
    if not options.data.is_dir():
        print(f"{options.data}: is no folder; give that of Provo with --data.")
        return
    with tempfile.TemporaryDirectory() as folder:
        checkouts = {"here": Checkout(ROOT, Path(folder) / "here")}
        if options.against:
            checkouts["before"] = Checkout(options.against, Path(folder) / "before")
        runs = {name: make_runs(checkout, options.data) for name, checkout in checkouts.items()}
        least: dict[tuple[str, str], tuple[float, float]] = {}
        for _ in range(options.repeats):
            for version, checkout in checkouts.items():
                for name, first, second in checkout.looks(*runs[version]):
                    known = least.get((name, version), (first, second))
                    least[name, version] = min(known[0], first), min(known[1], second)
    _print(least, list(checkouts))


def _print(least: dict[tuple[str, str], tuple[float, float]], versions: list[str]) -> None:
    headings = [f"{version}: {look}" for version in versions for look in ("first", "second")]
    print("processor seconds", *(f"{heading:>15}" for heading in headings), "target", sep="  ")
    for name, target in TARGETS.items():
        cells = [f"{seconds:15.2f}" for version in versions for seconds in least[name, version]]
        print(f"{name:17}", *cells, f"{target:6.1f}", sep="  ")


def _used_by_children() -> float:
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


if __name__ == "__main__":
    main()
