"""The report of one or more runs: one self-contained page, and figures and tables in a folder."""

from __future__ import annotations

import base64
import hashlib
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from importlib import resources
from pathlib import Path
from typing import Any

import aleatoric
from aleatoric.data import files
from aleatoric.errors import UsageError
from aleatoric.levels import base
from aleatoric.registry import Track, quietly
from aleatoric.report.charts import PageFigure, page_figures, to_data, to_json
from aleatoric.report.explorer.rendering import environment
from aleatoric.report.figures import draw_all, file_name, make_folder, writing_into
from aleatoric.report.item_data import ItemList
from aleatoric.report.parts import ReportPart, parts_of
from aleatoric.report.tables import printable, to_latex, to_markdown, with_interval
from aleatoric.report.views import SystemsTable, View, view_of_run
from aleatoric.result_types import Table
from aleatoric.runs.job import Job
from aleatoric.runs.run import Store
from aleatoric.studies.figure_data import Picture

SCRIPTS = ("charts.js", "kinds.js", "downloads.js", "contexts.js", "page.js")


@dataclass(frozen=True)
class Section:
    """A part of the page: runs of one level with the same settings."""

    suffix: str
    view: View
    title: str
    finding: str
    caveats: tuple[str, ...]
    """Caveats, shown above the table."""
    notes: tuple[str, ...]
    systems: SystemsTable
    citations: Mapping[tuple[str, str], Mapping[str, str]]
    """System and metric -> a number, its id on the page, and what makes it reproducible."""
    tables: tuple[Table, ...]
    more_tables: tuple[Table, ...]
    """Tables below that of systems: by human agreement, of fine-tuning."""
    figures: tuple[PageFigure, ...]
    contexts: Mapping[str, Any] | None
    item_lists: tuple[ItemList, ...]
    command: str

    @property
    def table_notes(self) -> list[str]:
        """The notes on columns, without duplicates."""
        return list(dict.fromkeys(note for table in self.tables for note in table.notes))


def make_report(
    stores: Sequence[Store],
    html: Path | None,
    figures: Path | None,
    track: Track[Any] = quietly,
    inputs: Sequence[str] = (),
) -> Iterator[Path]:
    """Write the page, the figures or both; yield each file when it is written.

    `inputs` are those that the page of a text-level run shows instead of as many as fit.
    """
    for store in stores:
        base.score(store, base.Monitor(track), again=False)
    parts = parts_of(stores)
    if inputs and not any(view_of_run(part.first).takes_inputs for part in parts):
        problem = f"{stores[0].path}: is of the {parts[0].level.name} level"
        raise UsageError(f"{problem}; --input is for the text level.")
    if figures is not None:
        make_folder(figures)  # refused before any study is run
    pictures = [figure_data(part.leading, track, figures is None) for part in parts]
    if html is not None:
        numbered = enumerate(zip(parts, pictures, strict=True))
        write_html([section(part, drawn, place, inputs) for place, (part, drawn) in numbered], html)
        yield html
    if figures is not None:
        for place, (part, drawn) in enumerate(zip(parts, pictures, strict=True), 1):
            name = f"{place}-{part.level.name}-{file_name(part.corpus)}"
            folder = figures / name if len(parts) > 1 else figures
            yield from draw_all(drawn, folder)
            yield from write_tables(part, folder)


def figure_data(
    part: ReportPart, track: Track[Any] = quietly, for_page: bool = False
) -> dict[str, Picture]:
    """Return the data of all figures that the runs of a part allow, by name."""
    common = view_of_run(part.first).figures(part, track, for_page)
    by_run = {store.path: view_of_run(store).run_figures(store) for store in part.stores}
    several = sum(map(bool, by_run.values())) > 1
    return common | {
        f"{name} {path}" if several else name: picture
        for path, pictures in by_run.items()
        for name, picture in pictures.items()
    }


def _run_tables(part: ReportPart) -> list[Table]:
    """Return the tables about single runs, with the path in the title if there are several."""
    by_run = {store.path: view_of_run(store).run_tables(store) for store in part.stores}
    several = sum(map(bool, by_run.values())) > 1
    return [
        replace(table, title=f"{table.title} {path}") if several else table
        for path, tables in by_run.items()
        for table in tables
    ]


def write_tables(part: ReportPart, folder: Path) -> Iterator[Path]:
    """Write the tables of a part with intervals as LaTeX and as Markdown."""
    make_folder(folder)
    for table in (*view_of_run(part.first).paper_tables(part.results), *_run_tables(part)):
        for ending, render in (("tex", to_latex), ("md", to_markdown)):
            path = folder / f"table_{file_name(table.title.partition(':')[0].lower())}.{ending}"
            with writing_into(folder):
                path.write_text(render(table) + "\n", encoding="utf-8")
            yield path


def section(
    part: ReportPart, pictures: Mapping[str, Picture], place: int = 0, inputs: Sequence[str] = ()
) -> Section:
    """Return everything that the page shows of a part; `inputs` are the items to show."""
    view, detailed = view_of_run(part.first), part.leading
    suffix = "" if place == 0 else f"-{place + 1}"
    table = view.systems_table(part)
    contexts, lists = view.page_items(detailed, inputs if view.takes_inputs else ())
    remarks, notes = _remarks_and_notes(part)
    return Section(
        suffix,
        view,
        f"{view.heading}: {part.corpus}",
        view.finding(detailed.results, table.compared),
        (*part.systems_notes, *remarks, *view.caveats(detailed.results)),
        (*notes, *table.notes),
        table,
        _citations(part, suffix),
        tuple(view.tables(part.results)),
        (*view.part_tables(detailed), *_run_tables(part)),
        tuple(page_figures(view.captions, pictures, view.hidden_figures)),
        contexts,
        lists,
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
    """Return the page as text."""
    from markupsafe import Markup

    script = "\n".join(_resource(name) for name in SCRIPTS)
    digest = hashlib.sha256(script.encode()).digest()
    template = environment("aleatoric.report").get_template("report.html.j2")
    contexts = {part.suffix: Markup(to_json(part.contexts)) for part in sections if part.contexts}
    page: str = template.render(
        title=", ".join(part.title for part in sections),
        sections=sections,
        style=Markup(_resource("report.css")),
        script=Markup(script),
        # Allows this script and no other.
        script_hash=f"sha256-{base64.b64encode(digest).decode()}",
        figures_json=Markup(to_json(_figures_data(sections))),
        contexts_json=contexts,
        version=aleatoric.__version__,
    )
    return page


def _remarks_and_notes(part: ReportPart) -> tuple[list[str], list[str]]:
    """Return remarks on the people (that they are simulated, for example), and other notes."""
    remarks = [r for store in part.stores for r in store.manifest.get("remarks", ())]
    notes = [n for store in part.stores for n in base.notes(store) if n not in remarks]
    texts = dict.fromkeys(map(printable, remarks))
    sentences = [f"{text[:1].upper()}{text[1:].rstrip('.')}." for text in texts]
    return sentences, list(dict.fromkeys(map(printable, notes)))


def _citations(part: ReportPart, suffix: str) -> dict[tuple[str, str], Mapping[str, str]]:
    where = {member.label: (member.store, member.system) for member in part.members}
    commands = {label: command_of(*place) for label, place in where.items()}
    controls = command_of(part.first, next(iter(part.first.systems()), None))
    return {
        (result.system, result.metric): {
            "id": f"cite{suffix}-{number}",
            "system": result.system,
            "metric": result.metric,
            "value": with_interval(result.estimate, 4),
            "signature": str(result.signature),
            "command": commands.get(result.system, controls),
        }
        for number, result in enumerate(part.results, 1)
    }


def _figures_data(sections: Sequence[Section]) -> dict[str, Any]:
    """Return the title and the variants of each figure, by its id."""
    return {
        f"{figure.name}{part.suffix}": {
            "title": figure.title,
            "read": figure.how_to_read,
            "suffix": part.suffix,
            "variants": {printable(name): to_data(p) for name, p in figure.variants.items()},
        }
        for part in sections
        for figure in part.figures
    }


def _resource(name: str) -> str:
    return (resources.files("aleatoric.report") / "templates" / name).read_text(encoding="utf-8")


def command_of(store: Store, system: str | None = None) -> str:
    """Return the command of a whole run, or of one of its models alone.

    A control needs no model: people are in the corpus. A fine-tuning run is made as a whole.
    """
    level = base.level_of(store)
    job = level.job_type.from_manifest(store.manifest, {})
    if system is not None and not level.needs_out:
        job = _of_system(job, store, system)
    is_live = any(not model.startswith("recorded:") for model in job.models)
    words = ["aleatoric", job.command, *job.arguments(is_live)]
    out = ["--out", f"{store.path.name}-again"] if level.needs_out else []
    return printable(shlex.join([*words, *out, "--json"]))


def _of_system(job: Job, store: Store, system: str) -> Job:
    """Return the job with the model and decoder of one system."""
    facts, defaults = store.systems()[system], {f.name: f.default for f in fields(job)}
    spec = facts.get("spec") or facts["model"].rpartition("@")[0]
    changes: dict[str, Any] = {"models": tuple(model for model in job.models if model == spec)}
    if "decoders" in defaults:
        requested, decoder = vars(job)["decoders"], str(facts["decoder"])
        changes["decoders"] = (decoder,) if decoder in requested else defaults["decoders"]
    return replace(job, **changes)
