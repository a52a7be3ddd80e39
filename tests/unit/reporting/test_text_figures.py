"""Figures, tables and pages of the text level: data and drawing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_hex

from aleatoric.levels.base import results, run_job
from aleatoric.levels.text import TextJob
from aleatoric.levels.text_inputs import TextCase, fit, run
from aleatoric.levels.text_scoring import Distances
from aleatoric.reporting import text_figures as collect_texts
from aleatoric.reporting import texts as text_views
from aleatoric.reporting.figures import draw
from aleatoric.reporting.parts import part_of
from aleatoric.reporting.texts import text_tables
from aleatoric.reporting.views import view_of
from aleatoric.runs.run import Store
from aleatoric.studies.figure_data import (
    AgreementBars,
    Dots,
    Histograms,
    Lines,
    Panels,
    histograms,
)
from aleatoric.types import TextItem

PEOPLE = [["the cat sat", "a cat sat", "the dog ran", f"dog {i} here"] for i in range(8)]
SAME = [["the cat sat"] * 3 for _ in range(8)]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    rows = [{"id": i, "input": f"say {i}", "references": own} for i, own in enumerate(PEOPLE)]
    (tmp_path / "people.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name, texts in (("copier", SAME), ("human", [own[:3] for own in PEOPLE])):
        rows = [{"id": i, "texts": own} for i, own in enumerate(texts)]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    models = tuple(f"recorded:{tmp_path / name}.jsonl" for name in ("copier", "human"))
    probes = ("lexical-1", "lexical-2")
    job = TextJob(str(tmp_path / "people.jsonl"), models, probes=probes, tokeniser="whitespace")
    with run_job(job, tmp_path / "run") as opened:
        yield opened


def test_every_figure_of_the_paper_is_drawn(store: Store) -> None:
    found = collect_texts.text_figures(part_of([store]))
    numbers = {name.partition("_")[0] for name in found}
    assert numbers == {
        "fig2",
        "fig7",
        "fig3",
        "fig8",
        "fig4",
        "fig5",
        "fig9",
        "fig10",
        "fig11",
        "fig6",
        *("energy", "decoders", "variability copier", "variability human"),
    }
    for picture in found.values():
        assert draw(picture)


def test_human_histogram_uses_one_random_pair_per_input(store: Store) -> None:
    panels = collect_texts.human_variability({"": part_of([store])}, ["lexical-1"])
    (picture,) = panels.pictures
    assert isinstance(picture, Histograms)
    widths = np.diff(picture.edges)
    assert float((np.array(picture.heights["two people"]) * widths).sum()) == pytest.approx(1)
    one_pair = collect_texts.values(store, "control", "pair_H/lexical-1")
    assert len(one_pair) == len(PEOPLE)


def test_dots_have_estimates_and_intervals(store: Store) -> None:
    dots = collect_texts.overall(part_of([store]))["fig9_w1_M"]
    assert isinstance(dots, Dots)
    assert dots.rows == ("lexical-1", "lexical-2")
    assert list(dots.values) == ["control", "copier", "human"]
    for name, values in dots.values.items():
        for low, value, high in zip(dots.low[name], values, dots.high[name], strict=True):
            assert low <= value <= high
    # Of one text again and again M is 0 throughout: W1 is the mean of H.
    estimates = {(r.system, r.metric): r.estimate.value for r in results(store)}
    assert dots.values["copier"][0] == pytest.approx(estimates["control", "mean_H/lexical-1"])


def test_instance_without_variance_is_drawn_as_vertical_line(store: Store) -> None:
    ((_, panels),) = collect_texts.instance_panels(store, {"0": "copier"})
    (picture,) = (one for one in panels.pictures if one.title == "lexical-1")
    assert isinstance(picture, Lines)
    assert [mark.label for mark in picture.marks] == ["M: generator (all the same)"]
    assert [line.label for line in picture.lines] == ["H: people", "C: both"]


def distances_of(human: list[float], own: list[float], cross: list[float]) -> Distances:
    return Distances(np.array(human), {"s": np.array(own)}, {"s": np.array(cross)})


def test_curves_stay_within_probe_bounds() -> None:
    far = distances_of([0.9, 1.0, 1.0, 0.95], [1.0, 0.8, 0.9], [0.97, 1.0])
    bounded = collect_texts.instance(far, "s", "lexical-1", (0.0, 1.0))
    assert bounded.x_ends == (0.0, 1.0)
    for line in bounded.lines:
        assert (line.x[0], line.x[-1]) == (0.0, 1.0)
        assert np.trapezoid(line.y, line.x) == pytest.approx(1, abs=0.01)
    (axes,) = draw(bounded)[0].axes
    assert axes.get_xlim() == (0.0, 1.0)
    endless = collect_texts.instance(far, "s", "own", (0.0, np.inf))
    assert endless.x_ends == (0.0, 1.3)
    assert np.isfinite(endless.lines[0].y).all()


def test_few_distances_are_drawn_as_points() -> None:
    few = distances_of([0.1, 0.4, 0.5], [0.2, 0.3, 0.4], [0.3, 0.4] * 10)
    picture = collect_texts.instance(few, "s", "lexical-1", (0.0, 1.0))
    assert [line.points for line in picture.lines] == [(0.1, 0.4, 0.5), (0.2, 0.3, 0.4), ()]
    (axes,) = draw(picture)[0].axes
    drawn = {str(line.get_label()): line for line in axes.get_lines()}
    assert np.asarray(drawn["H: people"].get_xdata()).tolist() == [0.1, 0.4, 0.5]
    assert drawn["H: people"].get_linestyle() == "None"
    assert drawn["C: both"].get_linestyle() != "None"


def test_few_inputs_are_points_in_histograms_too() -> None:
    few = histograms("t", "x", {"few": [0.2, 0.4], "many": [0.5] * 20}, [0.0, 0.5, 1.0])
    assert few.points == {"few": (0.2, 0.4)}


def test_the_first_picture_has_a_panel_per_probe(store: Store) -> None:
    panels = view_of("text").agreement(results(store))
    assert isinstance(panels, Panels)
    assert [picture.title for picture in panels.pictures] == ["lexical-1"]
    estimates = {(r.system, r.metric): r.estimate.value for r in results(store)}
    for picture in panels.pictures:
        assert isinstance(picture, AgreementBars)
        assert picture.rows == ("copier", "human")
        people = estimates["control", f"mean_H/{picture.title}"]
        assert picture.values["H people with people"] == (people, people)
        shown = picture.values["C model with people"]
        assert list(shown) == [estimates[s, f"mean_C/{picture.title}"] for s in picture.rows]


def test_divergence_axis_ends_at_probe_range(store: Store) -> None:
    store.set_meta("probe_bounds", {"lexical-1": (0.5, 0.9), "lexical-2": (0.0, np.inf)})
    first, *_ = collect_texts.divergence_curves(part_of([store]), "w1_C").pictures
    assert isinstance(first, Lines)
    assert first.x_ends is not None
    assert first.x_ends[0] == 0
    assert first.x_ends[1] <= 0.4


def test_line_style_does_not_depend_on_available_curves() -> None:
    whole = distances_of([0.1, 0.4, 0.5] * 7, [0.2, 0.3, 0.4] * 7, [0.3, 0.4] * 10)
    partly = distances_of([np.nan] * 21, [0.3] * 21, [0.3, 0.4] * 10)

    def styles(distances: Distances) -> dict[str, tuple[object, ...]]:
        (axes,) = draw(collect_texts.instance(distances, "s", "t", (0.0, 1.0)))[0].axes
        found = {str(line.get_label()): line for line in axes.get_lines()}
        legend = axes.get_legend()
        assert legend is not None
        labels = [text.get_text() for text in legend.get_texts()]
        assert [label[0] for label in labels] == ["H", "M", "C"]
        assert set(labels) == set(found)
        return {
            name: (line.get_color(), line.get_linestyle(), line.get_marker())
            for name, line in found.items()
        }

    first, second = styles(whole), styles(partly)
    assert first == {name.partition(" (")[0]: style for name, style in second.items()}
    assert set(second) == {"H: people (undefined)", "M: generator (all the same)", "C: both"}


def test_system_has_same_colour_in_all_figures(store: Store) -> None:
    found = collect_texts.overall(part_of([store]))
    colours = []
    for name in ("fig3_mean_M_minus_H", "fig4_w1_C", "fig5_w1_C"):
        handles, labels = draw(found[name])[0].axes[0].get_legend_handles_labels()
        drawn = {label.partition(" (")[0]: one for label, one in zip(labels, handles, strict=True)}
        one = drawn["human"]
        # So few inputs are points, not a histogram: lines like all others.
        colour = one.get_color()
        colours.append(to_hex(colour))
    assert len(set(colours)) == 1


def test_histogram_legend_does_not_cover_bars(store: Store) -> None:
    for name in ("fig2_human_variability", "fig3_mean_M_minus_H", "fig8_mean_C_minus_H"):
        (figure,) = draw(collect_texts.overall(part_of([store]))[name])
        for axes in figure.axes:
            legend = axes.get_legend()
            assert legend is not None
            assert not legend.get_window_extent().overlaps(axes.get_window_extent())


def test_system_without_value_is_marked_undefined() -> None:
    picture = histograms("t", "x", {"a": [0.5, 0.7], "b": []}, [0.0, 0.5, 1.0])
    _, labels = draw(picture)[0].axes[0].get_legend_handles_labels()
    assert labels == ["a (mean 0.6)", "b (undefined)"]


def test_instance_figure_without_system(store: Store) -> None:
    ((_, panels),) = collect_texts.instance_panels(store, {"0": None})
    assert isinstance(panels, Panels)
    assert draw(panels)


def test_tables_have_one_row_per_probe_and_system(store: Store) -> None:
    people, closeness, own, cross = text_tables(results(store))
    assert [row[0] for row in people.rows] == ["lexical-1", "lexical-2"]
    assert [row[:2] for row in closeness.rows[:2]] == [
        ("lexical-1", "copier"),
        ("lexical-1", "human"),
    ]
    assert closeness.columns[2] == "energy ↓"
    for table in (own, cross):
        assert [row[:2] for row in table.rows[:3]] == [
            ("lexical-1", "control"),
            ("lexical-1", "copier"),
            ("lexical-1", "human"),
        ]
        assert all(len(row) == len(table.columns) for row in table.rows)


def test_every_listed_input_has_texts(store: Store) -> None:
    ends = text_views.fits_of(part_of([store]))
    assert len(ends) == 8  # two systems, two probes, M and C
    listed = text_views.listed_inputs(ends)
    data = text_views.inputs_data(part_of([store]), ends)
    shown = {one["id"]: one for one in data["items"]}
    assert set(shown) >= set(listed)
    assert data["systems"] == ["copier", "human"]
    assert all(all(one["systems"]) and one["people"] for one in shown.values())
    assert {one["id"] for one in data["items"] if one["picture"]} == set(
        text_views.drawn_inputs(ends)
    )


def case(name: str, w1: float | None) -> TextCase:
    item = TextItem(name, name, ("in",), ("a", "b"))
    return TextCase(item, ("", "x" * 500), {"w1_C/lexical-1": w1, "w1_M/lexical-1": None})


def test_best_and_worst_fit_inputs_are_disjoint() -> None:
    cases = [case(f"{i}", i / 10) for i in range(7)] + [case("none", None)]
    found = fit(cases, "lexical-1")
    ends = [[one.item.id for one in end] for end in (found.worst, found.best)]
    assert ends == [["6", "5", "4", "3"], ["0", "1", "2"]]
    assert (found.threshold, found.n_beyond, found.n_known) == (0.3, 3, 7)


@pytest.mark.parametrize(
    ("probe", "texts"),
    [
        ("lexical-1", ("", "", " ")),
        ("lexical-3", ("a b", "c", "d e")),
        ("semantic", ("", " ", "a")),
    ],
)
def test_input_with_undefined_distances_is_not_best_fit(probe: str, texts: tuple[str, ...]) -> None:
    words = ("one two three", "four five six", "seven eight nine")

    def one(name: str, people: tuple[str, ...], own: tuple[str, ...], w1: float) -> TextCase:
        return TextCase(TextItem(name, name, ("in",), people), own, {f"w1_M/{probe}": w1})

    cases = [one("a", words, words, 0.5), one("b", words, words, 0.2), one("c", words, texts, 0.0)]
    cases += [one("d", texts, words, 0.9)]
    found = fit(cases, probe, "M")
    assert [case.item.id for case in found.best] == ["b"]
    assert [case.item.id for case in found.worst] == ["a"]
    assert found.n_known == 4
    (left,) = fit(cases[2:3], probe, "M").worst  # better than nothing
    assert left.item.id == "c"


def test_fit_table_shortens_texts_and_marks_empty_ones() -> None:
    table, other = run([case("1", 0.5)], 0).tables
    (row,) = table.rows
    assert row[:4] == ("lexical-1", "worst", "1", "0.500")
    assert other.rows == ()  # no W1(M, H) is known
    assert row[-1].startswith("∅ / ")
    assert len(row[-1]) < 200


def test_mean_h_is_same_in_figures_and_tables(store: Store) -> None:
    (people, *_), panels = text_tables(results(store)), collect_texts.overall(part_of([store]))
    shown = {row[0]: row[1].partition(" ")[0] for row in people.rows}
    found = panels["fig2_human_variability"]
    assert isinstance(found, Panels)
    drawn = {
        one.title: f"{one.means['two people']:.3f}"
        for one in found.pictures
        if isinstance(one, Histograms)
    }
    assert drawn == {probe: shown[probe] for probe in drawn} != {}


def test_only_self_variability_is_called_variability() -> None:
    """Fig. 11 shows distance to human texts, which a constant generator has too."""
    captions = {name: " ".join(own) for name, own in view_of("text").captions.items()}
    for name in ("fig8_mean_C_minus_H", "fig11_mean_C_minus_H"):
        assert "does not mean that the generator varies more" in captions[name]
    for name in ("fig3_mean_M_minus_H", "fig10_mean_M_minus_H"):
        assert "Right of 0 the generator varies more than people" in captions[name]
    assert not any("various" in text for text in captions.values())


def test_curve_of_lengths_ends_at_0(tmp_path: Path) -> None:
    sizes = [1, 1, 1, 2, 2, 3, 5, 8, 13, 21, 34, 55]
    people, bot = tmp_path / "people.jsonl", tmp_path / "bot.jsonl"
    rows = [{"id": i, "input": "x", "references": ["a " * n] * 2} for i, n in enumerate(sizes)]
    people.write_text("".join(json.dumps(row) + "\n" for row in rows))
    rows = [{"id": i, "texts": ["b " * n] * 2} for i, n in enumerate(sizes)]
    bot.write_text("".join(json.dumps(row) + "\n" for row in rows))
    job = TextJob(str(people), (f"recorded:{bot}",), probes=("length",), tokeniser="whitespace")
    with run_job(job, tmp_path / "run") as opened:
        (lengths,) = collect_texts.one_text_values(part_of([opened])).pictures
    assert isinstance(lengths, Lines)
    assert lengths.x_ends is not None
    assert lengths.x_ends[0] == 0
    assert all(min(line.x) == 0 for line in lengths.lines)


def test_statistics_of_one_text_have_a_table_and_a_figure(store: Store, tmp_path: Path) -> None:
    models = tuple(f"recorded:{tmp_path / name}.jsonl" for name in ("copier", "human"))
    probes = ("lexical-1", "length")
    job = TextJob(str(tmp_path / "people.jsonl"), models, probes=probes, tokeniser="whitespace")
    with run_job(job, tmp_path / "lengths") as opened:
        found = {table.title: table for table in text_tables(results(opened))}
        figure = collect_texts.overall(part_of([opened]))["one_text"]
        [leading, values] = view_of("text").leading_tables(results(opened))
    assert values.title == "Statistics of one text"
    assert [row[:2] for row in values.rows] == [
        *(("length", "control"), ("length", "copier"), ("length", "human"))
    ]
    assert {row[2] for row in values.rows} == {"3.000"}
    energy_note = (
        "energy is a metric, 0 only for equal distributions of vectors or numbers (length); "
        "may be below 0 in expectation (lexical-1)."
    )
    assert energy_note in found["Closeness to people and variability"].notes
    assert energy_note not in leading.notes
    assert isinstance(figure, Panels)
    assert draw(figure)
    assert "Statistics of one text" not in {table.title for table in text_tables(results(store))}
