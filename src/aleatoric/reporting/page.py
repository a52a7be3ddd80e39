"""The report of one or more runs: one self-contained page, and figures and tables in a folder."""

from __future__ import annotations

import base64
import hashlib
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import aleatoric
from aleatoric.data import files
from aleatoric.errors import UsageError, needs
from aleatoric.levels import base
from aleatoric.models.decoding import canonical
from aleatoric.registry import Track, quietly
from aleatoric.reporting import resource
from aleatoric.reporting.comparisons import task_summary, task_tables
from aleatoric.reporting.figures import draw_all, file_name, make_folder, writing_into
from aleatoric.reporting.finetune import curve_pictures
from aleatoric.reporting.page_data import to_data, to_json
from aleatoric.reporting.parts import ReportPart, parts_of
from aleatoric.reporting.tables import printable, text_columns, to_latex, to_markdown, with_interval
from aleatoric.reporting.views import View, view_of_run
from aleatoric.result_types import Table
from aleatoric.runs.job import Job
from aleatoric.runs.run import Store
from aleatoric.studies.figure_data import Picture
from aleatoric.studies.tasks import compare_tasks, tasks_of

STYLES = ("look.css", "report.css")
SCRIPTS = ("charts.js", "kinds.js", "downloads.js", "contexts.js", "page.js")
AGREEMENT = "systems"
"""The name of the picture of H, M and C among figures."""
ONE_PANEL = "One row or panel per task; the panels of a probe have the same axes."
MOST_NAMED = 8
"""Systems that are named below the title; of more, their number."""


class Section:
    """A part of the page: runs of one level with the same settings."""

    def __init__(
        self,
        part: ReportPart,
        pictures: Mapping[str, Picture],
        place: int = 0,
        inputs: Sequence[str] = (),
    ) -> None:
        view, detailed = view_of_run(part.first), part.leading
        notes = [note for store in part.stores for note in base.notes(store)]
        remarks = [r for store in part.stores for r in store.manifest.get("remarks", ())]
        others = dict.fromkeys(printable(note) for note in notes if note not in remarks)
        warnings = [note for note in others if note.startswith("warning")]
        self.suffix, self.view = f"-{place + 1}" if place else "", view
        self.title = f"{view.heading}: {part.corpus}"
        self.facts = _facts(part)
        self.systems = view.systems_table(part)
        self.finding = view.finding(detailed.results, self.systems.compared)
        # Remarks on the people (that they are simulated, for example), shown below the finding.
        texts = dict.fromkeys(map(printable, remarks))
        self.remarks = [f"{text[:1].upper()}{text[1:].rstrip('.')}." for text in texts]
        self.caveats = (*part.systems_notes, *view.caveats(detailed.results), *warnings)
        every = dict.fromkeys((*others, *self.systems.notes))
        self.notes = tuple(note for note in every if note not in warnings)
        self.citations = _citations(part, self.suffix)
        self.tables = view.tables(part.results)
        self.table_notes = list(dict.fromkeys(n for table in self.tables for n in table.notes))
        self.more_tables = (*view.part_tables(detailed), *_run_tables(part))
        labels = [member.label for member in part.members]
        self.figures = tuple(page_figures(view, pictures, labels))
        drawn = {"": picture} if (picture := pictures.get(AGREEMENT)) else {}
        shown = PageFigure(AGREEMENT, *view.captions[AGREEMENT], drawn)
        self.agreement = shown if drawn else None
        chosen = inputs if view.takes_inputs else ()
        self.contexts, self.item_lists = view.page_items(detailed, chosen)
        self.command = "\n".join(command_of(store) for store in part.stores)

    @property
    def signatures(self) -> Mapping[tuple[str, str], list[Mapping[str, str]]]:
        """Signatures without their metric, and commands -> the numbers that share them."""
        grouped: dict[tuple[str, str], list[Mapping[str, str]]] = {}
        for cited in self.citations.values():
            shared = re.sub(r"\|metric:[^|]*", "|metric:…", cited["signature"])
            grouped.setdefault((shared, cited["command"]), []).append(cited)
        return grouped


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
    if html is not None and html.suffix.lower() not in (".html", ".htm"):
        raise UsageError(f"{html}: a page is written to a name that ends in .html.")
    if figures is not None:
        make_folder(figures)  # refused before any study is run
    pictures = [figure_data(part.leading, track, figures is None) for part in parts]
    tasks = task_parts(parts)
    if html is not None:
        numbered = enumerate(zip(parts, pictures, strict=True))
        sections = [Section(part, drawn, place, inputs) for place, (part, drawn) in numbered]
        page = render(sections, tasks)
        # An unfinished page is never left behind.
        with writing_into(html, "file"), files.written_whole(html) as unfinished:
            unfinished.write_text(page, encoding="utf-8")
        yield html
    if figures is not None:
        for place, (part, drawn) in enumerate(zip(parts, pictures, strict=True), 1):
            name = f"{place}-{part.level.name}-{file_name(part.corpus)}"
            folder = figures / name if len(parts) > 1 else figures
            yield from draw_all(drawn, folder)
            yield from write_tables(part, folder)
        for one in tasks:
            folder = figures / f"tasks-{one.view.level.name}"
            yield from draw_all(one.pictures, folder)
            yield from _write(one.tables, folder)


def figure_data(
    part: ReportPart, track: Track[Any] = quietly, for_page: bool = False
) -> dict[str, Picture]:
    """Return the data of all figures that the runs of a part allow, by name."""
    view = view_of_run(part.first)
    agreement = view.agreement(part.results)
    common: dict[str, Picture] = {} if agreement is None else {AGREEMENT: agreement}
    common |= view.figures(part, track, for_page)
    by_run = {store.path: curve_pictures(store) for store in part.stores}
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
    paper = view_of_run(part.first).paper_tables(part.results)
    yield from _write((*paper, *_run_tables(part)), folder)


def _write(tables: Iterable[Table], folder: Path) -> Iterator[Path]:
    make_folder(folder)
    for table in tables:
        for ending, render in (("tex", to_latex), ("md", to_markdown)):
            path = folder / f"table_{file_name(table.title.partition(':')[0].lower())}.{ending}"
            with writing_into(folder):
                path.write_text(render(table) + "\n", encoding="utf-8")
            yield path


def _facts(part: ReportPart) -> str:
    """Say how many items a part has, and which systems if they fit in a line."""
    view, labels = view_of_run(part.first), [member.label for member in part.members]
    shown = ", ".join(labels) if len(labels) <= MOST_NAMED else f"{len(labels)} systems"
    items = f"{part.first.n_items:,} {view.items}" if view.has_items else ""
    return " · ".join(filter(None, (items, shown)))


@dataclass(frozen=True)
class PageFigure:
    """A figure of the page; with several variants, a reader chooses one by system."""

    name: str
    title: str
    how_to_read: str
    variants: Mapping[str, Picture]


def page_figures(
    view: View, pictures: Mapping[str, Picture], labels: Sequence[str] = ()
) -> Iterator[PageFigure]:
    """Yield the figures below the table in the order of their captions.

    Figures of single systems become one; on a page with one system each names it.
    """
    grouped: dict[str, dict[str, Picture]] = {}
    for name, picture in pictures.items():
        base, _, system = name.partition(" ")
        grouped.setdefault(base, {})[system or (labels[0] if len(labels) == 1 else "")] = picture
    known = [base for base in view.captions if base in grouped and base != AGREEMENT]
    others = [b for b in grouped if b not in view.captions and b not in view.hidden_figures]
    for base in (*known, *others):
        variants = grouped[base]
        if base in view.people_figures:
            variants = {"": next(iter(variants.values()))}
        yield PageFigure(base, *view.captions.get(base, (base, "A figure of a study.")), variants)


class TasksPart:
    """The part of the page that compares the tasks of one level."""

    agreement = None

    def __init__(
        self, shown: Sequence[ReportPart], left_out: Sequence[str] = (), place: int = 0
    ) -> None:
        view = self.view = view_of_run(shown[0].first)
        labels = {member.label for part in shown for member in part.members}
        tasks = tasks_of([store for part in shown for store in part.stores], systems=labels)
        # The metrics that the view names, as far as a task has them.
        known = {name for task in tasks for m in task.members.values() for name in m.results}
        metrics = [metric for metric in view.task_metrics if metric in known]
        self.compared = compare_tasks(tasks, metrics=metrics, seed=shown[0].first.manifest["seed"])
        self.tables = task_tables(self.compared, whole=True, intervals=True)
        self.names = tuple(task.name for task in tasks)
        self.pictures = view.task_figures(dict(zip(self.names, shown, strict=True)))
        others = [
            f"{path}: the same corpus with other settings is not compared" for path in left_out
        ]
        self.notes = (*self.compared.notes, *others)
        self.suffix = f"-tasks{f'-{place + 1}' if place else ''}"
        self.title = f"{view.heading}: across tasks"
        self.facts = ", ".join(self.names)
        self.findings = list(task_summary(self.compared))
        self.figures = tuple(
            replace(figure, how_to_read=f"{figure.how_to_read} {ONE_PANEL}")
            for figure in page_figures(view, self.pictures)
        )


def task_parts(report_parts: Sequence[ReportPart]) -> list[TasksPart]:
    """Return a part for each level whose runs have several corpora that it can compare."""
    by_level: dict[str, dict[str, ReportPart]] = {}
    left_out: dict[str, list[str]] = {}
    for part in report_parts:
        of_level = by_level.setdefault(part.level.name, {})
        if of_level.setdefault(part.first.manifest["corpus"]["sha256"], part) is not part:
            left_out.setdefault(part.level.name, []).append(str(part.first.path))
    several = {name: list(own.values()) for name, own in by_level.items() if len(own) > 1}
    compared = {n: own for n, own in several.items() if view_of_run(own[0].first).level.across}
    return [
        TasksPart([part.leading for part in own], left_out.get(name, ()), place)
        for place, (name, own) in enumerate(compared.items())
    ]


def title_of(titles: Sequence[str]) -> str:
    """Return one title of several parts, without repeating how they begin.

    >>> title_of(["Next words: provo", "Whole texts: asset", "Whole texts: e2e"])
    'Next words: provo; Whole texts: asset, e2e'
    """
    corpora: dict[str, list[str]] = {}
    for heading, _, corpus in (title.partition(": ") for title in titles):
        corpora.setdefault(heading, []).append(corpus)
    return "; ".join(f"{heading}: {', '.join(names)}" for heading, names in corpora.items())


def render(sections: Sequence[Section], tasks: Sequence[TasksPart] = ()) -> str:
    """Return the page as text."""
    from markupsafe import Markup

    script = "\n".join(resource(name) for name in SCRIPTS)
    digest = hashlib.sha256(script.encode()).digest()
    template = environment("aleatoric.reporting").get_template("report.html.j2")
    contexts = {part.suffix: Markup(to_json(part.contexts)) for part in sections if part.contexts}
    page: str = template.render(
        title=title_of([part.title for part in sections]),
        sections=sections,
        tasks=tasks,
        parts=[*tasks, *sections],
        style=Markup("\n".join(map(resource, STYLES))),
        script=Markup(script),
        # Allows this script and no other.
        script_hash=f"sha256-{base64.b64encode(digest).decode()}",
        figures_json=Markup(to_json(_figures_data([*tasks, *sections]))),
        contexts_json=contexts,
        version=aleatoric.__version__,
    )
    return page


def environment(package: str, **settings: Any) -> Any:
    """Return the templates of a package; texts are escaped, their control characters visible."""
    with needs("jinja2", "report"):
        from jinja2 import Environment, PackageLoader
    loader = PackageLoader(package)
    found = Environment(loader=loader, autoescape=True, finalize=_visible, **settings)
    found.globals["text_columns"] = text_columns
    return found


def _visible(value: Any) -> Any:
    # Markup is the page's own: scripts, and data that is escaped already.
    is_text = isinstance(value, str) and not hasattr(value, "__html__")
    return printable(value) if is_text else value


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


def _figures_data(sections: Sequence[Section | TasksPart]) -> dict[str, Any]:
    return {
        f"{figure.name}{part.suffix}": {
            "title": figure.title,
            "read": figure.how_to_read,
            "suffix": part.suffix,
            "variants": {printable(name): to_data(p) for name, p in figure.variants.items()},
        }
        for part in sections
        for figure in (part.agreement, *part.figures)
        if figure
    }


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
    facts, defaults = store.systems()[system], {f.name: f.default for f in fields(job)}
    spec = facts.get("spec") or facts["model"].rpartition("@")[0]
    changes: dict[str, Any] = {"models": tuple(model for model in job.models if model == spec)}
    if "decoders" in defaults:
        requested, decoder = vars(job)["decoders"], canonical([str(facts["decoder"])])
        changes["decoders"] = decoder if decoder[0] in requested else defaults["decoders"]
    return replace(job, **changes)
