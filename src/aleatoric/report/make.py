"""The page, figures and tables of one or more runs, in one call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from aleatoric import levels
from aleatoric.analyses.pictures import Picture
from aleatoric.errors import UsageError
from aleatoric.progress import Track, quietly
from aleatoric.report import collect, collect_texts, collect_tokens
from aleatoric.report.figures import draw_all, file_name, make_folder, writing_into
from aleatoric.report.finetune import training_pictures, training_tables
from aleatoric.report.html import section, write_html
from aleatoric.report.parts import Part, parts_of
from aleatoric.report.tables import to_latex, to_markdown
from aleatoric.report.view import paper_tables
from aleatoric.store import Store

_FIGURES: dict[str, Callable[..., dict[str, Picture]]] = {
    "token": collect_tokens.figure_data,
    "text": collect_texts.figure_data,
}


def make_report(
    stores: Sequence[Store],
    html: Path | None,
    figures: Path | None,
    track: Track[Any] = quietly,
    inputs: Sequence[str] = (),
) -> Iterator[Path]:
    """Write what is asked for; yields each file when it is there.

    `inputs` are those that the page of a text-level run shows in place of as many as fit.
    """
    for store in stores:
        levels.score(store, track, again=False)
    parts = parts_of(stores)
    if inputs and all(part.level != "text" for part in parts):
        found = f"{stores[0].path}: is of the {parts[0].level} level"
        raise UsageError(f"{found}; --input is of the text level.")
    if figures is not None:
        make_folder(figures)  # refused before any study is run
    asked = collect.PAGE_STUDIES if figures is None else collect.STUDIES
    pictures = [figure_data(part.leading, track, asked) for part in parts]
    if html is not None:
        sections = [
            section(part, own, place, inputs if part.level == "text" else ())
            for place, (part, own) in enumerate(zip(parts, pictures, strict=True))
        ]
        write_html(sections, html)
        yield html
    if figures is not None:
        for part, own, folder in zip(parts, pictures, _folders(parts, figures), strict=True):
            yield from draw_all(own, folder)
            yield from write_tables(part, folder)


def figure_data(
    part: Part, track: Track[Any] = quietly, studies: Sequence[str] = collect.STUDIES
) -> dict[str, Picture]:
    """Figure name -> data of everything that a part's runs allow; `studies` are of words."""
    if part.level == "word":
        return collect.figure_data(part, track, studies=studies) | training_pictures(part)
    return _FIGURES[part.level](part, track)


def write_tables(part: Part, folder: Path) -> Iterator[Path]:
    """Write the part's tables with intervals as LaTeX and as Markdown."""
    make_folder(folder)
    for table in (*paper_tables(part.results, part.level), *training_tables(part)):
        for ending, render in (("tex", to_latex), ("md", to_markdown)):
            path = folder / f"table_{file_name(table.title.partition(':')[0].lower())}.{ending}"
            with writing_into(folder):
                path.write_text(render(table) + "\n", encoding="utf-8")
            yield path


def _folders(parts: Sequence[Part], figures: Path) -> list[Path]:
    """A folder a part; several parts have their own under the one asked for."""
    if len(parts) == 1:
        return [figures]
    return [
        figures / f"{i}-{part.level}-{file_name(part.corpus)}" for i, part in enumerate(parts, 1)
    ]
