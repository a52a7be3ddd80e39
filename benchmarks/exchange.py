"""Exchange format between the benchmark and the scripts of other tools: two JSON files.

Each tool runs in its own environment, so this module and the tools' scripts import nothing from
the package.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Request:
    """The work: a model's directory, contexts, the words asked for each, and how."""

    model: str
    contexts: list[str]
    words: list[list[str]]
    samples: int
    threads: int


@dataclass(frozen=True)
class Answer:
    """What a tool did: its name and settings, its cost without loading, one result a context.

    A result maps a word to its probability, or a sampled text to how often it was drawn.
    """

    tool: str
    wall: float
    cpu: float
    results: list[dict[str, float]]


@dataclass(frozen=True)
class Clock:
    """Wall-clock and processor seconds since it was made."""

    wall: float = field(default_factory=time.perf_counter)
    cpu: float = field(default_factory=time.process_time)

    def answer(self, tool: str, results: list[dict[str, float]]) -> Answer:
        """An answer that took the time since then."""
        return Answer(
            tool, time.perf_counter() - self.wall, time.process_time() - self.cpu, results
        )


def ask(request: Request, path: Path) -> None:
    path.write_text(json.dumps(asdict(request)), encoding="utf-8")


def answers_in(path: Path) -> list[Answer]:
    return [Answer(**row) for row in json.loads(path.read_text(encoding="utf-8"))]


def request_given() -> Request:
    """The request in the file that the command line names first."""
    return Request(**json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))


def reply(answers: list[Answer]) -> None:
    """Write answers to the file that the command line names second."""
    text = json.dumps([asdict(answer) for answer in answers])
    Path(sys.argv[2]).write_text(text, encoding="utf-8")
