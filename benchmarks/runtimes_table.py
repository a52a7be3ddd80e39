"""One table of a model in several runtimes, each run in its own environment.

    python -m benchmarks.runtimes_table answer CORPUS CONTEXTS smollm2 transformers a.json
    vllm/bin/python -m benchmarks.runtimes_table answer CORPUS CONTEXTS vllm:FOLDER - b.json
    python -m benchmarks.runtimes_table table a.json b.json

`answer` writes the probabilities of people's words; `table` compares every file with the first.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import aleatoric as al
from aleatoric.nextword.exact import Search, exact
from aleatoric.nextword.vocabulary import vocabulary_of
from benchmarks.runtimes import questions_of


def answer(corpus: str, count: str, spec: str, runtime: str, out: str) -> None:
    """Write the word probabilities of one runtime, and the seconds they took."""
    questions = questions_of(corpus, int(count))
    options: dict[str, str] = {} if runtime == "-" else {"runtime": runtime, "device": "cpu"}
    live = al.load(spec, **options)
    vocabulary_of(live.lm.pieces)  # which takes seconds
    start = time.perf_counter()
    found = exact(live.lm, questions, search=Search(0.005))
    facts: dict[str, Any] = {
        "label": f"{spec.partition(':')[0]} {live.version}",
        "words": [x.words for x in found],
    }
    facts |= {"values": [x.value for x in found], "seconds": time.perf_counter() - start}
    Path(out).write_text(json.dumps(facts))


def table(*files: str) -> None:
    """Print the differences of word probabilities from the first file's."""
    first, *others = (json.loads(Path(file).read_text()) for file in files)
    print("| runtime | mean difference | largest | seconds |\n|---|---|---|---|")
    print(f"| {first['label']} | | | {first['seconds']:.0f} |")
    for other in others:
        assert other["words"] == first["words"], "the files hold other contexts"
        apart = np.abs(np.concatenate(other["values"]) - np.concatenate(first["values"]))
        row = f"{apart.mean():.2g} | {apart.max():.2g} | {other['seconds']:.0f}"
        print(f"| {other['label']} | {row} |")


def main() -> None:
    verb, *arguments = sys.argv[1:]
    if verb == "answer":
        answer(*arguments)
    else:
        table(*arguments)


if __name__ == "__main__":
    main()
