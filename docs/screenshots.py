"""Take screenshots of the report with chromium: desktop, phone, dark and print, without a network.

python docs/screenshots.py                      # docs/images/report.png and report-dark.png
python docs/screenshots.py --level word --level text --out shots   # whole pages of these levels

The word run is Provo with its recorded systems where the shared data are next to the checkout (or
in $ALEATORIC_SHARED), else the simulated demo. The same data give the same pages.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aleatoric import demo
from aleatoric.levels.base import run_job
from aleatoric.levels.text import TextJob
from aleatoric.levels.token import TokenJob
from aleatoric.levels.word import WordJob
from aleatoric.reporting.page import make_report
from aleatoric.runs.run import Store

DOCS = Path(__file__).resolve().parent
SHARED = Path(os.environ.get("ALEATORIC_SHARED", DOCS.parent.parent / "shared")) / "data"
SYSTEMS = ("gpt2", "gpt2_temp05", "bloom", "chatgpt_diverse")
N_INPUTS, N_PEOPLE = 60, 5
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
A4_MARGINS = dict.fromkeys(("top", "bottom", "left", "right"), "12mm")


def word_run(folder: Path) -> Store:
    """Provo with its recorded systems, or the simulated demo."""
    provo = SHARED / "provo"
    if not provo.is_dir():
        return demo.run_toy(folder)
    models = tuple(f"recorded:{provo / name}.jsonl.gz" for name in SYSTEMS)
    return run_job(WordJob(str(provo / "provo_cloze.jsonl.gz"), models), folder / "run")


def text_run(folder: Path) -> Store:
    """Simplifications by people; other people, and one who repeats the input, as systems."""
    with gzip.open(SHARED / "multiref" / "asset_valid.jsonl.gz", "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for _, line in zip(range(N_INPUTS), file, strict=False)]
    people = [{**row, "references": row["references"][:N_PEOPLE]} for row in rows]
    others = [{"id": row["id"], "texts": row["references"][N_PEOPLE:]} for row in rows]
    copies = [{"id": row["id"], "texts": [row["input"]] * N_PEOPLE} for row in rows]
    corpus = _lines(folder / "asset.jsonl", people)
    files = (
        _lines(folder / "other-people.jsonl", others),
        _lines(folder / "copying.jsonl", copies),
    )
    models = tuple(f"recorded:{file}" for file in files)
    probes = ("lexical-1", "lexical-2", "lexical-3")
    return run_job(TextJob(str(corpus), models, probes=probes), folder / "run")


def token_run(folder: Path) -> Store:
    """The embedded model on the passages of the demo, a document per passage."""
    story = folder / "story.txt"
    story.write_text("\n\n".join(demo.PASSAGES), encoding="utf-8")
    return run_job(TokenJob(str(story), ("smollm2",)), folder / "run")


def _lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


RUNS: dict[str, Callable[[Path], Store]] = {
    "word": word_run,
    "text": text_run,
    "token": token_run,
}


@contextmanager
def chromium() -> Iterator[Any]:
    """Open a browser without a window."""
    from playwright.sync_api import sync_playwright

    program = os.environ.get("ALEATORIC_CHROMIUM") or shutil.which("chromium")
    if program is None:
        sys.exit("chromium is not installed; install it or set ALEATORIC_CHROMIUM.")
    with sync_playwright() as driver:
        arguments = ["--no-sandbox", "--disable-gpu"]
        browser = driver.chromium.launch(executable_path=program, args=arguments)
        yield browser
        browser.close()


def opened(browser: Any, page: Path, theme: str = "light", size: Any = None) -> Any:
    """Open a page with all its figures drawn."""
    context = browser.new_context(viewport=size or DESKTOP, color_scheme=theme)
    window = context.new_page()
    window.goto(page.as_uri())
    window.evaluate("for (const box of figureBoxes.values()) box.draw()")
    return window


def front(browser: Any, page: Path, theme: str, out: Path) -> None:
    """Take the top of the page, down to the end of the table of systems."""
    window = opened(browser, page, theme)
    bottom = window.evaluate("document.querySelector('#systems').getBoundingClientRect().bottom")
    height = round(bottom) + 10
    window.set_viewport_size({**DESKTOP, "height": height})
    window.screenshot(path=out, clip={"x": 0, "y": 0, "width": DESKTOP["width"], "height": height})


def whole(browser: Any, page: Path, out: Path, name: str) -> None:
    """Take the whole page on a desktop, on a phone and in the dark, and print it."""
    shots = {"desktop": ("light", DESKTOP), "phone": ("light", PHONE), "dark": ("dark", DESKTOP)}
    for kind, (theme, size) in shots.items():
        opened(browser, page, theme, size).screenshot(
            path=out / f"{name}-{kind}.png", full_page=True
        )
    pdf = out / f"{name}-print.pdf"
    opened(browser, page).pdf(path=pdf, format="A4", margin=A4_MARGINS)
    if shutil.which("pdftoppm"):
        subprocess.run(["pdftoppm", "-png", "-r", "80", pdf, pdf.with_suffix("")], check=True)


def main() -> None:
    """Write the screenshots that the command asks for."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--level", action="append", choices=list(RUNS), help="Repeatable.")
    parser.add_argument("--out", type=Path, help="Folder of all pictures of the given levels.")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary, chromium() as browser:
        for level in asked.level or ["word"]:
            folder = Path(temporary) / level
            folder.mkdir()
            with RUNS[level](folder) as store:
                (page,) = make_report([store], folder / "report.html", None)
            if level == "word":
                images = DOCS / "images"
                images.mkdir(exist_ok=True)
                front(browser, page, "light", images / "report.png")
                front(browser, page, "dark", images / "report-dark.png")
            if asked.out is not None:
                asked.out.mkdir(parents=True, exist_ok=True)
                whole(browser, page, asked.out, level)


if __name__ == "__main__":
    main()
