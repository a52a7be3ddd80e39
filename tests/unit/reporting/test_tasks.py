"""Several tasks in a report: figures with shared axes, tables with tasks as rows, the page."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from matplotlib.colors import to_hex
from task_runs import task_run

from aleatoric.reporting import text_figures
from aleatoric.reporting.figures import draw
from aleatoric.reporting.page import make_report, task_parts
from aleatoric.reporting.parts import ReportPart, part_of, parts_of
from aleatoric.runs.run import Store
from aleatoric.studies.figure_data import Blank, Dots, Histograms, Lines, Panels, histograms, shared

MANY = {f"decoder{i:02}": 6 + 3 * i for i in range(11)}


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Store]]:
    folder = tmp_path_factory.mktemp("tasks")
    both = {"near": 12, "far": 200}
    paths = [
        task_run(folder, "narrow", 6, both),
        task_run(folder, "wide", 60, both),
        task_run(folder, "other", 30, {"far": 200}, probes=("lexical-1",)),
    ]
    with ExitStack() as opened:
        yield [opened.enter_context(Store.open(path)) for path in paths]


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReportPart]:
    path = task_run(tmp_path_factory.mktemp("crowd"), "crowd", 30, MANY)
    with Store.open(path) as store:
        yield part_of([store])


@pytest.fixture
def tasks(stores: list[Store]) -> dict[str, ReportPart]:
    return {part.corpus: part for part in parts_of(stores)}


def panels_of(picture: object) -> Panels:
    assert isinstance(picture, Panels)
    return picture


def test_every_figure_has_a_row_per_task(tasks: dict[str, ReportPart]) -> None:
    found = text_figures.across_tasks(tasks)
    numbers = {name.partition("_")[0] for name in found}
    assert numbers == {"fig2", "fig3", "fig5", "fig7", "fig8", "fig9", "fig10", "fig11", "energy"}
    for picture in found.values():
        assert len(panels_of(picture).pictures) == 3
        assert draw(picture)
    titles = [one.title for one in panels_of(found["fig2_human_variability"]).pictures]
    assert titles == [f"{task}: lexical-1" for task in tasks]


def test_panels_of_a_probe_share_bins_and_axes(tasks: dict[str, ReportPart]) -> None:
    found = text_figures.across_tasks(tasks)
    for name in ("fig2_human_variability", "fig3_mean_M_minus_H", "fig8_mean_C_minus_H"):
        pictures = [p for p in panels_of(found[name]).pictures if isinstance(p, Histograms)]
        assert len(pictures) == 3
        assert len({picture.edges for picture in pictures}) == 1
        assert len({(picture.x_ends, picture.y_end) for picture in pictures}) == 1
        low, high = pictures[0].x_ends
        assert low <= 0 <= high
        tops = [max(own) for picture in pictures for own in picture.heights.values()]
        assert pictures[0].y_end == pytest.approx(1.05 * max(tops))
        limits = {axes.get_xlim() for axes in draw(found[name])[0].axes}
        assert limits == {pictures[0].x_ends}
    dots = [p for p in panels_of(found["fig5_w1_C"]).pictures if isinstance(p, Dots)]
    assert len({picture.x_ends for picture in dots}) == 1
    assert len({picture.rows for picture in dots}) == 1


def test_panels_list_the_systems_of_their_task_in_the_same_colors(
    tasks: dict[str, ReportPart],
) -> None:
    found = panels_of(text_figures.across_tasks(tasks)["fig5_w1_C"])
    dots = [picture for picture in found.pictures if isinstance(picture, Dots)]
    listed = [dict(zip(picture.values, picture.slots, strict=True)) for picture in dots]
    assert listed == [{"control": 0, "near": 1, "far": 2}] * 2 + [{"control": 0, "far": 2}]


def test_rows_are_the_systems_of_their_task(
    crowd: ReportPart, tasks: dict[str, ReportPart]
) -> None:
    parts = {"crowd": crowd, "narrow": tasks["narrow"]}
    found = panels_of(text_figures.across_tasks(parts)["energy"])
    dots = [picture for picture in found.pictures if isinstance(picture, Dots)]
    assert [picture.rows for picture in dots] == [tuple(MANY), ("near", "far")]


def test_probe_that_a_task_lacks_is_blank(tasks: dict[str, ReportPart]) -> None:
    found = panels_of(text_figures.across_tasks(tasks)["fig7_human_variability"])
    assert [type(picture) for picture in found.pictures] == [Histograms, Histograms, Blank]
    assert found.pictures[-1].title == "other: lexical-2"


def test_system_has_one_color_in_all_tasks(tasks: dict[str, ReportPart]) -> None:
    found = panels_of(text_figures.across_tasks(tasks)["fig3_mean_M_minus_H"])
    slots = [
        dict(zip(p.heights, p.slots, strict=True))
        for p in found.pictures
        if isinstance(p, Histograms)
    ]
    assert slots == [{"near": 1, "far": 2}, {"near": 1, "far": 2}, {"far": 2}]


def test_histograms_contain_zero() -> None:
    above = histograms("t", "x", {"a": [0.6, 0.7] * 10}, [0.0, 0.25, 0.5, 0.75, 1.0])
    assert above.x_ends == (0.0, 1.0)
    below = histograms("t", "x", {"a": [-0.9] * 20}, [-1.0, -0.5, 0.0, 0.5, 1.0])
    assert below.x_ends == (-1.0, 0.0)
    away = histograms("t", "x", {"a": [5.5] * 20}, [5.0, 6.0])
    assert away.x_ends == (0.0, 6.0)
    for picture in (above, below, away):
        (axes,) = draw(picture)[0].axes
        assert axes.get_xlim()[0] <= 0 <= axes.get_xlim()[1]


def test_shared_axes_leave_other_pictures_alone() -> None:
    blank, lines = Blank("t", "not measured"), Lines("t", "x", "y", ())
    assert shared([blank, lines]) == [blank, lines]


def test_many_systems_are_small_multiples(crowd: ReportPart) -> None:
    found = panels_of(text_figures.divergence_curves(crowd, "w1_C"))
    assert len(found.pictures) == len(MANY)
    ends = set()
    for picture in found.pictures:
        assert isinstance(picture, Lines)
        own = picture.title.partition(":")[0]
        named = [line.label for line in picture.lines if not line.faded]
        assert sorted(named) == sorted(["control", own])
        assert sum(line.faded for line in picture.lines) == len(MANY) - 1
        ends.add((picture.x_ends, picture.y_end))
    assert len(ends) == 1
    # The closest to people comes first.
    values = {r.system: r.estimate.value for r in crowd.results if r.metric == "w1_C/lexical-1"}
    order = [picture.title.partition(":")[0] for picture in found.pictures]  # type: ignore[union-attr]
    assert order == sorted(MANY, key=lambda name: values[name] or 0.0)
    (axes, *_) = draw(found)[0].axes
    legend = axes.get_legend()
    assert legend is not None
    assert len(legend.get_texts()) == 2
    grays = [line for line in axes.get_lines() if to_hex(line.get_color()) == "#cccccc"]
    assert len(grays) == len(MANY) - 1


@pytest.mark.long
def test_other_figures_of_many_systems(crowd: ReportPart, tasks: dict[str, ReportPart]) -> None:
    found = text_figures.overall(crowd)
    for name in ("fig3_mean_M_minus_H", "fig8_mean_C_minus_H"):
        rows = [p for p in panels_of(found[name]).pictures if isinstance(p, Histograms)]
        assert [list(picture.heights) for picture in rows] == [[label] for label in MANY]
    (dots,) = panels_of(found["fig5_w1_C"]).pictures
    assert isinstance(dots, Dots)
    assert dots.rows == ("control", *MANY)  # each row has its name: no legend is needed
    assert len(dots.values) == 1
    across = text_figures.across_tasks({"narrow": tasks["narrow"], "crowd": crowd})
    assert {f"fig3_mean_M_minus_H {name}" for name in MANY} <= set(across)
    alone = panels_of(across["fig3_mean_M_minus_H decoder00"]).pictures
    assert [type(picture) for picture in alone] == [Blank, Histograms]
    for picture in (*found.values(), *across.values()):
        assert draw(picture)


def test_section_of_a_report(stores: list[Store]) -> None:
    (section,) = task_parts(parts_of(stores))
    assert section.names == ("narrow", "wide", "other")
    people, energy, dmu, pairs = section.tables
    assert people.columns == ("task", "inputs", "texts", "tokens", "lexical-1")
    assert [row[0] for row in people.rows] == ["narrow", "wide", "other"]
    assert people.rows[0][-1].endswith(" c")
    assert [row[:2] for row in energy.rows].count(("other", "near")) == 0
    assert dmu.title.startswith("μM − μH")
    assert len(pairs.rows) == 3 + 2 * (3 + 1)
    assert section.findings[0].startswith("people: mean_H/lexical-1 is lowest in narrow (")
    assert not task_parts(parts_of(stores[:1]))


@pytest.mark.long
def test_page_and_folder_have_the_tasks_first(stores: list[Store], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    paths = list(make_report(stores, page, tmp_path / "figures"))
    text = page.read_text()
    assert text.index('id="part-tasks"') < text.index('id="part"')
    assert 'id="figure-fig2_human_variability-tasks"' in text
    assert 'id="figure-fig4_w1_C-tasks"' not in text
    names = {path.relative_to(tmp_path).as_posix() for path in paths}
    assert "figures/tasks-text/fig2_human_variability.pdf" in names
    assert "figures/tasks-text/table_human-variability-mean-h-by-task.tex" in names
