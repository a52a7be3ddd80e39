"""Write the printed tables of our pages from their own commands; with --check, fail where stale.

On a page, a block of code with a title is a file, and a block marked `text` shows one table that
the commands of the shell block before it print: the table with the same title.

`python docs/outputs.py --provo RUN` writes the tables of Provo's recordings instead: those that
follow a comment `<!-- provo: NAME -->`, see `provo_tables`. RUN is a saved word-level run of
`gpt2`, `bloom`, `gpt2_temp05` and `chatgpt_diverse`, in this order.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from aleatoric.cli import main as aleatoric
from aleatoric.levels.base import run_study
from aleatoric.levels.word import results
from aleatoric.reporting.comparisons import comparison_tables
from aleatoric.reporting.tables import between, to_markdown, with_interval
from aleatoric.reporting.views import view_of
from aleatoric.result_types import Result, Table
from aleatoric.runs.run import Store
from aleatoric.studies.by_agreement import by_agreement
from aleatoric.studies.compare import compare

PAGES = ("text.md", "index.md")
HERE = Path(__file__).parent
PROVO_PAGES = ("../README.md", "word.md", "intervals.md", "compare.md", "plan.md")
COMPARED = ("gpt2", "gpt2_temp05", "bloom")
"""The systems of the example on compare.md."""
PROVO_TABLE = re.compile(r"(<!-- provo: (\w+) -->\n\n)(?:\|.*\n)+")
FENCE = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def main() -> None:
    """Write the pages, or compare them."""
    if "--provo" in sys.argv:
        write_provo_tables(Path(sys.argv[sys.argv.index("--provo") + 1]))
        return
    stale = []
    for name in PAGES:
        page = HERE / name
        before = page.read_text(encoding="utf-8")
        after = with_outputs(before)
        if after != before and "--check" in sys.argv:
            stale.append(name)
        elif after != before:
            page.write_text(after, encoding="utf-8")
    if stale:
        sys.exit(f"docs/{', docs/'.join(stale)}: stale; run python docs/outputs.py.")


def write_provo_tables(run: Path) -> None:
    """Write the tables of Provo's recordings into their pages."""
    with Store.open(run) as store:
        tables = provo_tables(store)
    for name in PROVO_PAGES:
        page = HERE / name
        page.write_text(with_provo_tables(page.read_text(encoding="utf-8"), tables), "utf-8")


def with_provo_tables(page: str, tables: Mapping[str, str]) -> str:
    """Return a page with every marked table as it is now.

    >>> with_provo_tables("<!-- provo: a -->\\n\\n| old |\\n", {"a": "| new |"})
    '<!-- provo: a -->\\n\\n| new |\\n'
    """
    return PROVO_TABLE.sub(lambda match: f"{match[1]}{tables[match[2]]}\n", page)


def provo_tables(store: Store) -> dict[str, str]:
    """The tables of our pages on Provo's recordings, as Markdown."""
    found = results(store)
    pairs, letters = comparison_tables(compare([store], COMPARED))
    tables = {
        "systems": view_of("word").tables(found)[0],
        "quartiles": by_agreement(store),
        "tvd": _tvd_table(found),
        "pairs": pairs,
        "letters": letters,
        "learning": run_study(store, "learning-curve", "gpt2").tables[0],
    }
    return {name: to_markdown(table) for name, table in tables.items()}


def _tvd_table(found: Sequence[Result]) -> Table:
    """TVD and its debiased value, with their intervals, and what a perfect model would have."""
    of = {(result.system, result.metric): result for result in found}
    rows = tuple(
        (
            system,
            *(with_interval(of[system, metric].estimate) for metric in ("tvd", "tvd_debiased")),
            between(result.perfect.low, result.perfect.high) if result.perfect else "",
        )
        for (system, metric), result in of.items()
        if metric == "tvd"
    )
    return Table("TVD", ("system", "TVD", "debiased TVD", "TVD if perfect"), rows)


def with_outputs(page: str) -> str:
    """Return a page with every `text` block as its commands print it now."""
    matches = list(FENCE.finditer(page))
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for match in matches:
            if title := re.search(r'title="([^"]+)"', match[2]):
                Path(title[1]).write_text(match[3], encoding="utf-8")
        blocks = list(_blocks(matches))
    for match, text in reversed(blocks):
        page = page[: match.start(3)] + text + page[match.end(3) :]
    return page


def _blocks(matches: list[re.Match[str]]) -> Iterator[tuple[re.Match[str], str]]:
    """Yield the `text` blocks with their new contents."""
    commands, printed = "", ""
    for match, following in zip(matches, [*matches[1:], None], strict=True):
        if match[1] == "sh":
            commands, printed = match[3], ""
            if following is not None and following[1] == "text":
                printed = _output(commands)
        elif match[1] == "text":
            title = match[3].strip("\n").splitlines()[0].strip()
            yield match, _tables(printed)[title]


def _output(commands: str) -> str:
    """Run the `aleatoric` commands of a shell block and return what they print."""
    out = io.StringIO()
    for line in commands.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words[:1] == ["aleatoric"]:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
                _run(words)
    return out.getvalue()


def _run(words: list[str]) -> None:
    sys.argv, before = words, sys.argv
    try:
        aleatoric()
    except SystemExit as stop:
        if stop.code:
            raise RuntimeError(f"{shlex.join(words)} ended with status {stop.code}") from None
    finally:
        sys.argv = before


def _tables(printed: str) -> dict[str, str]:
    """Title -> the table with its notes: a title stands between two empty lines, above a rule."""
    lines = ["", *(line.rstrip() for line in printed.splitlines())]
    rules = [i for i, line in enumerate(lines) if line.startswith("───")]
    above = [max(i for i in range(rule) if not lines[i]) - 1 for rule in rules]
    starts = [i for i in above if not lines[i - 1]]
    found = {}
    for start, stop in zip(starts, [*starts[1:], len(lines)], strict=True):
        text = "\n".join(lines[start:stop]).strip("\n")
        found[lines[start].strip()] = f"{text}\n"
    return found


if __name__ == "__main__":
    os.environ.setdefault("PYTHONIOENCODING", "utf-8")
    main()
