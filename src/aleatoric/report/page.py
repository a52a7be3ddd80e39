"""One self-contained page of one or more runs: no network, every text escaped."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

import aleatoric
from aleatoric.data import files
from aleatoric.errors import MissingExtraError, UsageError
from aleatoric.levels import base
from aleatoric.registry import Track, quietly
from aleatoric.report import contexts as page_texts
from aleatoric.report import contexts as page_words
from aleatoric.report import data
from aleatoric.report.captions import PageFigure, page_figures, shown, to_data, to_json
from aleatoric.report.commands import command_of
from aleatoric.report.figures import draw_all, file_name, make_folder, writing_into
from aleatoric.report.finetune import training_pictures, training_tables
from aleatoric.report.parts import LEADING, LEADS, TITLES, Part, caveats, finding, parts_of
from aleatoric.report.systems import SystemsTable, systems_table
from aleatoric.report.tables import printable, to_latex, to_markdown, with_interval
from aleatoric.report.views import paper_tables, results_tables
from aleatoric.runs import Store
from aleatoric.studies.by_agreement import by_agreement
from aleatoric.studies.figure_data import Picture
from aleatoric.types import Result, Table

SCRIPTS = ("charts.js", "kinds.js", "downloads.js", "contexts.js", "page.js")
STYLES = ("report.css",)


@dataclass(frozen=True)
class Citation:
    """A number with what makes it reproducible; `id` is its place on the page."""

    id: str
    system: str
    metric: str
    value: str
    signature: str
    command: str


@dataclass(frozen=True)
class Section:
    """A part of the page: runs of one level that were measured alike."""

    suffix: str
    level: str
    title: str
    lead: str
    finding: str
    caveats: tuple[str, ...]
    """What changes the reading of the table: shown above it."""
    notes: tuple[str, ...]
    systems: SystemsTable
    places: Mapping[tuple[str, str], str]
    """System and metric -> the place of its citation."""
    citations: tuple[Citation, ...]
    tables: tuple[Table, ...]
    quartiles: Table | None
    """The leading metrics by human agreement, for words."""
    training: tuple[Table, ...]
    """Of fine-tuning runs: differences from the base, perplexities, curves."""
    figures: tuple[PageFigure, ...]
    contexts: Mapping[str, Any] | None
    worst: tuple[Mapping[str, Any], ...]
    """By system the contexts least like people."""
    ends: tuple[page_texts.Ends, ...]
    command: str

    @property
    def table_notes(self) -> list[str]:
        """What the columns mean, each note once."""
        return list(dict.fromkeys(note for table in self.tables for note in table.notes))


def section(
    part: Part, pictures: Mapping[str, Picture], place: int = 0, inputs: Sequence[str] = ()
) -> Section:
    """Everything that the page shows of a part; `inputs` are those shown of texts."""
    results, level, detailed = part.results, part.level, part.leading
    suffix = "" if place == 0 else f"-{place + 1}"
    citations = _citations(part, results, suffix)
    table = systems_table(part, results)
    ends = page_texts.ends_of(detailed) if level == "text" and not inputs else []
    return Section(
        suffix,
        level,
        f"{TITLES[level]}: {part.corpus}",
        LEADS[level],
        finding(level, detailed.results, table.compared),
        (*_many(part), *_remarks(part), *caveats(detailed.results, LEADING[level])),
        (*_notes(part), *table.notes),
        table,
        {(one.system, one.metric): one.id for one in citations},
        tuple(citations),
        tuple(results_tables(results, level)),
        _quartiles(detailed),
        tuple(training_tables(part)),
        tuple(page_figures(level, pictures)),
        _contexts(detailed, ends, inputs),
        tuple(page_words.worst(detailed)) if level == "word" else (),
        tuple(ends),
        "\n".join(command_of(store) for store in part.stores),
    )


def write_html(sections: Sequence[Section], path: Path) -> None:
    """Write the page; an unfinished page is never left behind."""
    page = render(sections)
    try:
        with files.written_whole(path) as unfinished:
            unfinished.write_text(page, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: cannot be written ({error}); choose another file.") from None


def render(sections: Sequence[Section]) -> str:
    """The page as text."""
    from markupsafe import Markup

    script = "\n".join(_resource(name) for name in SCRIPTS)
    page: str = _template().render(
        title=", ".join(one.title for one in sections),
        sections=sections,
        style=Markup("\n".join(_resource(name) for name in STYLES)),
        script=Markup(script),
        script_hash=_hash(script),
        figures_json=Markup(to_json(_figures_data(sections))),
        contexts_json={
            one.suffix: Markup(to_json(one.contexts)) for one in sections if one.contexts
        },
        version=aleatoric.__version__,
    )
    return page


def _quartiles(part: Part) -> Table | None:
    """The metrics of all runs by human agreement; `None` at other levels."""
    if part.level != "word" or not part.members:
        return None
    shown: dict[Path, list[str]] = {store.path: [] for store in part.stores}
    for member in part.members:
        shown[member.store.path].append(member.system)
    tables = [by_agreement(store, shown[store.path]) for store in part.stores]
    return replace(tables[0], rows=tuple(row for table in tables for row in table.rows))


def _contexts(
    part: Part, ends: Sequence[page_texts.Ends], inputs: Sequence[str]
) -> Mapping[str, Any] | None:
    if part.level == "word":
        return page_words.contexts(part) if part.members else None
    return page_texts.inputs_data(part, ends, inputs) if part.level == "text" else None


def _many(part: Part) -> list[str]:
    return [part.systems_note] if part.systems_note else []


def _remarks(part: Part) -> list[str]:
    """What the runs say about their people: that they are simulated, for example."""
    remarks = [printable(r) for store in part.stores for r in store.manifest.get("remarks", ())]
    return [_sentence(remark) for remark in dict.fromkeys(remarks)]


def _notes(part: Part) -> list[str]:
    remarks = {r for store in part.stores for r in store.manifest.get("remarks", ())}
    notes = [n for store in part.stores for n in base.notes(store) if n not in remarks]
    return list(dict.fromkeys(printable(note) for note in notes))


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


def _citations(part: Part, results: Sequence[Result], suffix: str) -> list[Citation]:
    where = {member.label: (member.store, member.system) for member in part.members}
    commands = {label: command_of(*place) for label, place in where.items()}
    controls = command_of(part.first, next(iter(part.first.systems()), None))
    return [
        Citation(
            f"cite{suffix}-{number}",
            result.system,
            result.metric,
            with_interval(result.estimate, 4),
            str(result.signature),
            commands.get(result.system, controls),
        )
        for number, result in enumerate(results, 1)
    ]


def _figures_data(sections: Sequence[Section]) -> dict[str, Any]:
    """Figure id -> its title and its variants, by system."""
    return {
        f"{figure.name}{one.suffix}": {
            "title": figure.title,
            "read": figure.how_to_read,
            "suffix": one.suffix,
            "variants": {shown(name): to_data(own) for name, own in figure.variants.items()},
        }
        for one in sections
        for figure in one.figures
    }


def _resource(name: str) -> str:
    return (resources.files("aleatoric.report") / "templates" / name).read_text(encoding="utf-8")


def _hash(script: str) -> str:
    """What lets this script run and no other, even if a text should slip through as one."""
    digest = hashlib.sha256(script.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


def _template() -> Any:
    try:
        from jinja2 import Environment, PackageLoader
    except ImportError:
        raise MissingExtraError("jinja2", "report") from None
    environment = Environment(
        loader=PackageLoader("aleatoric.report"), autoescape=True, finalize=_visible
    )
    return environment.get_template("report.html.j2")


def _visible(value: Any) -> Any:
    """What goes into the page, with control characters shown as in a terminal."""
    # What is marked as markup is the page's own: its scripts, and data made harmless before.
    plain = isinstance(value, str) and not hasattr(value, "__html__")
    return shown(value) if plain else value


_FIGURES: dict[str, Callable[..., dict[str, Picture]]] = {
    "token": data.token_figures,
    "text": data.text_figures,
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
        base.score(store, base.Monitor(track), again=False)
    parts = parts_of(stores)
    if inputs and all(part.level != "text" for part in parts):
        found = f"{stores[0].path}: is of the {parts[0].level} level"
        raise UsageError(f"{found}; --input is of the text level.")
    if figures is not None:
        make_folder(figures)  # refused before any study is run
    asked = data.PAGE_STUDIES if figures is None else data.STUDIES
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
    part: Part, track: Track[Any] = quietly, studies: Sequence[str] = data.STUDIES
) -> dict[str, Picture]:
    """Figure name -> data of everything that a part's runs allow; `studies` are of words."""
    if part.level == "word":
        return data.word_figures(part, track, studies=studies) | training_pictures(part)
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
