"""Size of the report of all of Provo with five systems, and the time until it can be used.

`python -m benchmarks.report_size FOLDER` takes the folder of Provo and its recorded systems. Four
of the five systems are simulated, so that all of them answer every context. Opening the page needs
playwright and Debian's chromium; without them only the size is printed.

`python -m benchmarks.report_size items 100000` creates a run of that many contexts with 20 answers
and 40 samples each, `python -m benchmarks.report_size systems 1000` one of that many systems on 50
contexts. Both print the size of the database, and the time and memory of `word`, `report` and
`score`.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from aleatoric.data.opening import open_corpus
from aleatoric.levels.base import run_job
from aleatoric.levels.word import WordJob
from aleatoric.reporting.page import make_report
from aleatoric.rng import stream
from aleatoric.runs.formats import DATABASE
from aleatoric.runs.run import Store
from aleatoric.types import Corpus
from benchmarks.measure import cost_of

DRAWS = 100
CHROMIUM = "/usr/bin/chromium"
LIMITS = "limits: 12 MB, 3 s"


def main(folder: Path) -> None:
    people = folder / "provo_cloze.jsonl.gz"
    with tempfile.TemporaryDirectory() as made:
        models = [f"recorded:{folder / 'gpt2_temp05.jsonl.gz'}", *made_up(people, Path(made))]
        page = Path(made) / "report.html"
        job = WordJob(str(people), tuple(models))
        with run_job(job, Path(made) / "run") as store:
            began = time.perf_counter()
            report(store, page)
        print(f"written in {time.perf_counter() - began:.1f} s")
        print(f"size {page.stat().st_size / 1e6:.2f} MB ({LIMITS})")
        for line in opened(page):
            print(line)


def many(kind: str, number: int) -> None:
    """Print what a run of many items or systems takes."""
    n_items, n_systems = (number, 1) if kind == "items" else (50, number)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        people, models = random_answers(folder, n_items, n_systems)
        run, page = folder / "run", folder / "report.html"
        asked = [part for model in models for part in ("--model", f"recorded:{model}")]
        commands = {
            "word": ["word", "--corpus", str(people), *asked, "--out", str(run), "--json"],
            "report": ["report", str(run), "--html", str(page)],
            "score": ["score", str(run), "--json"],
        }
        print(f"{number} {kind}, input {people.stat().st_size / 1e6:.1f} MB of answers")
        for name, command in commands.items():
            cost = cost_of(command)
            size = (run / DATABASE).stat().st_size / 1e6
            print(
                f"{name}: {cost.cpu_seconds:.1f} s of processor time, {cost.peak_mb:.0f} MB; "
                f"database {size:.1f} MB",
                flush=True,
            )


def random_answers(folder: Path, n_items: int, n_systems: int) -> tuple[Path, list[Path]]:
    """Answers of 20 people to each context, and recorded systems that know people ever less."""
    rng = random.Random(0)
    vocabulary = [f"w{rng.randrange(10 ** rng.randrange(1, 6)):x}ing" for _ in range(5000)]
    shares = [1 / (i + 1) for i in range(len(vocabulary))]
    likely = [rng.choices(vocabulary, shares, k=12) for _ in range(n_items)]
    in_group = max(1, n_items // 1000)  # with one group there would be no intervals and no tests
    people = folder / "people.jsonl"
    with people.open("w") as file:
        for i, words in enumerate(likely):
            context = " ".join(rng.choices(vocabulary, shares, k=8))
            answers = rng.choices(words, shares[:12], k=20)
            row = {
                "id": str(i),
                "group": str(i // in_group),
                "context": context,
                "responses": answers,
            }
            file.write(json.dumps(row) + "\n")
    models = [folder / f"m{number}.jsonl" for number in range(n_systems)]
    for number, path in enumerate(models):
        with path.open("w") as file:
            for i, words in enumerate(likely):
                own = words if rng.random() * n_systems >= number else vocabulary
                samples = Counter(rng.choices(own, shares[: len(own)], k=40))
                file.write(json.dumps({"id": str(i), "samples": samples}) + "\n")
    return people, models


def report(store: Store, page: Path) -> None:
    for _ in make_report([store], page, None):
        pass


def made_up(people: Path, folder: Path) -> Iterator[str]:
    """Systems that say what people say, or, ever more often, a word of the whole corpus."""
    corpus = open_corpus(str(people), "utf-8")
    for share in (0.1, 0.3, 0.5, 0.7):
        path = folder / f"mixed-{share}.jsonl"
        with path.open("w", encoding="utf-8") as file:
            for line in lines(corpus, share):
                file.write(line + "\n")
        yield f"recorded:{path}"


def lines(corpus: Corpus, share: float) -> Iterator[str]:
    every = [word for item in corpus.items for word in item.responses]
    for item in corpus.items:
        rng = stream(0, "report size", str(share), item.id)
        counts: dict[str, int] = {}
        for any_word in rng.random(DRAWS) < share:
            said = every if any_word else item.responses
            word = said[int(rng.integers(len(said)))]
            counts[word] = counts.get(word, 0) + 1
        yield json.dumps({"id": item.id, "samples": counts})


def opened(page: Path) -> Iterator[str]:
    """When the page's own script is done, and how long a choice and a drawing take."""
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        yield "playwright is not installed: the page was not opened"
        return
    with sync_playwright() as tools:
        browser = tools.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        tab = browser.new_page()
        errors: list[str] = []
        tab.on("console", lambda message: errors.append(message.text))
        tab.on("pageerror", lambda error: errors.append(str(error)))
        began = time.perf_counter()
        tab.goto(page.as_uri())
        tab.wait_for_selector("html[data-ready]", state="attached")
        yield f"interactive after {time.perf_counter() - began:.2f} s, opening included"
        yield f"script done after {tab.evaluate('document.documentElement.dataset.ready')} ms"
        yield f"another context: {tab.evaluate(CHOOSE):.0f} ms"
        yield f"all figures: {tab.evaluate(DRAW):.0f} ms"
        yield f"messages on the console: {len(errors)}"
        browser.close()


CHOOSE = """() => { const began = performance.now(); pickers[0].step(1);
  document.body.getBoundingClientRect(); return performance.now() - began; }"""
DRAW = """() => { const began = performance.now();
  for (const box of figureBoxes.values()) box.draw();
  document.body.getBoundingClientRect(); return performance.now() - began; }"""


if __name__ == "__main__":
    if sys.argv[1:2] in (["items"], ["systems"]):
        many(sys.argv[1], int(sys.argv[2]))
    else:
        main(Path(sys.argv[1] if len(sys.argv) > 1 else "../shared/data/provo"))
