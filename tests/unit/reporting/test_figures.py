"""Figures: their data, and drawing that is deterministic and safe for any text."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from marks import sampled, spread

from aleatoric.errors import UsageError
from aleatoric.levels import word
from aleatoric.levels.base import run_job
from aleatoric.reporting import figures
from aleatoric.reporting import words as collect
from aleatoric.reporting.page import make_report
from aleatoric.reporting.parts import part_of
from aleatoric.runs.results_cache import FIGURES
from aleatoric.runs.run import Store
from aleatoric.studies import figure_data
from aleatoric.studies.figure_data import (
    Boxes,
    Coefficients,
    Guide,
    Histograms,
    Lines,
    LineSeries,
    Panels,
    Picture,
    Scatter,
    WordBars,
    density,
    dump_pictures,
    histograms,
    load_pictures,
    scatter,
)
from aleatoric.types import FAILED, Case, Categorical, Item, Pair

PNG = b"\x89PNG"
HOSTILE_TEXT = "_cost $5 or $\\frac{1}$ <b> 中 🙂 \x1b[31m \\alpha ^_{"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    job = word.WordJob(
        "simulated:contexts=60,people=20,passage=6",
        ("toy", "toy:temperature=2"),
        samples=150,
        n_splits=4,
        abstractions=("tvd_syn",),
    )
    with run_job(job, tmp_path_factory.mktemp("figures") / "run") as run:
        yield run


@pytest.fixture(scope="module")
def data(store: Store) -> dict[str, Picture]:
    return collect.word_figures(part_of([store]))


def test_word_run_has_all_figures(data: dict[str, Picture]) -> None:
    single = {name.partition(" ")[0] for name in data}
    assert single == {
        *("fig1_context", "fig2_tvd_kde", "fig3_coefficients", "fig4_abstractions"),
        *("fig6_oracle_tvd", "fig7_context_length", "fig8_human_entropy", "fig9_model_entropy"),
        *("fig10_tags", "fig11_subsampling", "fig12_tvd_differences", "fig14_replacement"),
        *("figH_passage", "passages", "learning_curve"),
    }


def test_figures_are_the_same_after_json(data: dict[str, Picture]) -> None:
    saved = json.loads(json.dumps(dump_pictures(data)))
    assert load_pictures(saved) == data


@pytest.mark.parametrize(
    ("old", "new"),
    [('"x_label": "', '"x_label": "\\ud800'), ('"x": [', '"x": ["<b>", '), ('"kind"', '"sort"')],
)
def test_edited_json_is_no_figure(old: str, new: str, data: dict[str, Picture]) -> None:
    edited = json.dumps(dump_pictures(data)).replace(old, new, 1)
    with pytest.raises(ValueError, match="none of the types"):
        load_pictures(json.loads(edited))


def test_second_look_repeats_no_study(
    store: Store, data: dict[str, Picture], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(collect, "word_study", lambda *_: pytest.fail("studied again"))
        assert collect.word_figures(part_of([store])) == data
    sealed = json.dumps({"state": "another", "results": {}})
    digest = hashlib.sha256(sealed.encode()).hexdigest()
    (store.path / FIGURES).write_text(f"{digest}\n{sealed}")
    assert collect.word_figures(part_of([store])) == data


def test_densities_cover_oracle_and_systems(store: Store, data: dict[str, Picture]) -> None:
    figure = data["fig2_tvd_kde"]
    assert isinstance(figure, Lines)
    assert [line.label for line in figure.lines] == ["oracle", *word.model_systems(store)]
    for line in figure.lines:
        assert float(np.trapezoid(line.y, line.x)) == pytest.approx(1, abs=0.01)


def test_differences_are_model_tvd_minus_oracle_tvd(store: Store, data: dict[str, Picture]) -> None:
    figure = data["fig12_tvd_differences"]
    assert isinstance(figure, Histograms)
    for result in word.results(store):
        if result.metric == "tvd" and result.system in figure.means:
            assert result.estimate.value is not None
            assert -1 < figure.means[result.system] < result.estimate.value


def test_class_statistics_are_read_from_store(store: Store, data: dict[str, Picture]) -> None:
    figure = data["fig4_abstractions"]
    assert isinstance(figure, Panels)
    (panel,) = figure.pictures
    assert isinstance(panel, Histograms)
    (saved,) = (
        r.estimate.value
        for r in word.results(store)
        if r.metric == "tvd_syn" and r.system == word.model_systems(store)[0]
    )
    assert panel.means[word.model_systems(store)[0]] == pytest.approx(saved)


def test_word_bars_show_most_likely_words_of_people_and_model() -> None:
    human = Categorical.from_counts({f"h{i:02}": 40 - i for i in range(20)})
    model = Categorical.from_counts({"h00": 5, FAILED: 50, **{f"m{i:02}": 4 for i in range(20)}})
    case = Case(Item("1:2", "1", "They saw", ("a",)), Pair("1:2", "1", human, model))
    bars = collect.word_bars(case, "gpt2")
    assert bars.words[:15] == tuple(f"h{i:02}" for i in range(15))
    assert bars.words[15] == "(no word)"
    assert len(bars.words) == 15 + 14
    assert bars.human[0] == pytest.approx(human.probs[0])
    assert bars.model[0] == pytest.approx(model.probs[0])


def test_passage_figure_keeps_order_of_contexts(store: Store) -> None:
    system = word.model_systems(store)[0]
    own = list(word.cases(store, system))
    group = own[0].pair.group
    panels = collect.passage_bars(own, system)
    expected = [case.item.context for case in own if case.pair.group == group]
    assert [p.context for p in panels.pictures if isinstance(p, WordBars)] == expected


def test_typical_contexts_are_one_open_and_one_constrained(store: Store) -> None:
    own = list(word.cases(store, word.model_systems(store)[0]))
    wide, narrow = collect.typical_contexts(own)
    assert len(wide.pair.human.support) > len(narrow.pair.human.support)
    assert len(collect.typical_contexts(own[:1])) == 1


def test_every_figure_is_drawn(data: dict[str, Picture], tmp_path: Path) -> None:
    # The many sheets of a passage are drawn elsewhere, and one system's figures are enough.
    left_out = ("figH", "temperature=2")
    chosen = {n: one for n, one in data.items() if not any(part in n for part in left_out)}
    paths = figures.draw_all(chosen, tmp_path / "new", ("png",))
    assert len(paths) == len(chosen)
    assert all(path.read_bytes().startswith(PNG) for path in paths)


def hostile_pictures() -> dict[str, Picture]:
    line = LineSeries(HOSTILE_TEXT, (0.0, 1.0), (1.0, 2.0), (0.5, 1.0), (1.5, 3.0))
    bars = WordBars(
        HOSTILE_TEXT * 9, HOSTILE_TEXT, (HOSTILE_TEXT, "a"), (0.5, 0.1), (0.2, 0.0), 0.3
    )
    empty = LineSeries("none", (), ())
    return {
        "lines": Lines(
            HOSTILE_TEXT, HOSTILE_TEXT, HOSTILE_TEXT, (line, empty), (Guide(HOSTILE_TEXT, y=1.0),)
        ),
        "histograms": histograms(
            HOSTILE_TEXT, HOSTILE_TEXT, {HOSTILE_TEXT: [0.1], "none": []}, [0, 0.5, 1]
        ),
        "scatter": Scatter(HOSTILE_TEXT, HOSTILE_TEXT, HOSTILE_TEXT, (0.5,), (0.5,), line, None),
        "boxes": Boxes(HOSTILE_TEXT, HOSTILE_TEXT, HOSTILE_TEXT, {HOSTILE_TEXT: (0.1, 0.2)}),
        "coefficients": Coefficients(
            HOSTILE_TEXT, HOSTILE_TEXT, (HOSTILE_TEXT,), (0.1,), (0.0,), (0.2,), (True,)
        ),
        "panels": Panels(HOSTILE_TEXT, (bars,) * 17, 2),
    }


@pytest.mark.parametrize("name", spread(hostile_pictures(), 3))
def test_special_characters_are_drawn_literally(name: str, tmp_path: Path) -> None:
    paths = figures.draw_all(
        {f"../{name}/{HOSTILE_TEXT}": hostile_pictures()[name]}, tmp_path, ("png",)
    )
    assert len(paths) == (2 if name == "panels" else 1)
    assert all(path.parent == tmp_path and path.stat().st_size > 1000 for path in paths)


def test_legends_show_labels_literally() -> None:
    (figure,) = figures.draw(hostile_pictures()["lines"])
    legend = figure.axes[0].get_legend()
    assert legend is not None
    first = legend.get_texts()[0].get_text()
    assert first.strip().startswith(r"_cost \$5 or \$")
    assert "\x1b" not in first


@pytest.mark.parametrize("form", sampled(["pdf", "png", "svg"], ["svg"]))
def test_same_data_gives_same_bytes(form: str, tmp_path: Path) -> None:
    picture = {"a": hostile_pictures()["lines"]}
    (one,) = figures.draw_all(picture, tmp_path / "1", (form,))
    (two,) = figures.draw_all(picture, tmp_path / "2", (form,))
    assert one.read_bytes() == two.read_bytes()


def test_unknown_format_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="'bmp'; use pdf, png, svg"):
        figures.draw_all({}, tmp_path, ("bmp",))


def test_drawing_keeps_rcparams_and_does_not_import_pyplot(tmp_path: Path) -> None:
    code = (
        "import sys, matplotlib; from pathlib import Path\n"
        # Reading the backend would choose one, and load pyplot for it.
        "params = matplotlib.rcParams\n"
        "def now(): return {k: params[k] for k in params if k != 'backend'}\n"
        "before = now()\n"
        "from aleatoric.studies.figure_data import density, Lines\n"
        "from aleatoric.reporting import figures\n"
        "lines = Lines('t', 'x', 'y', (density('a', [0.1, 0.5, 0.7]),))\n"
        f"figures.draw_all({{'a': lines}}, Path({str(tmp_path)!r}), ('png',))\n"
        "assert now() == before\n"
        "assert 'matplotlib.pyplot' not in sys.modules and 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ)


def test_density_integrates_to_one_within_bounds() -> None:
    at_the_edge = density("a", np.array([0.97, 0.99, 1.0, 1.0, 0.98]))
    assert float(np.trapezoid(at_the_edge.y, at_the_edge.x)) == pytest.approx(1, abs=0.02)
    assert density("same", [0.5, 0.5]).x == ()
    assert density("one", [0.5]).x == ()


def test_values_beyond_edges_are_counted() -> None:
    found = histograms("t", "x", {"a": [-1.0, 0.5, 2.0, 3.0]}, [0.0, 0.4, 1.0])
    assert found.heights["a"] == pytest.approx((0.25 / 0.4, 0.75 / 0.6))
    assert found.means["a"] == pytest.approx(1.125)


def test_trend_is_mean_per_decile() -> None:
    x = np.arange(100.0)[::-1]
    found = scatter("t", "x", "y", x, -x)
    assert len(found.trend.x) == 10
    assert found.trend.y[0] == pytest.approx(-4.5)
    assert found.correlation == -1
    assert scatter("t", "x", "y", np.ones(3), np.arange(3.0)).correlation is None


def one_word(context: str) -> WordBars:
    return WordBars(context, "toy", ("a",), np.ones(1), np.ones(1), 0.0)


def test_similar_figure_names_get_separate_files(tmp_path: Path) -> None:
    one, other = one_word("one"), one_word("other")
    named = {"fig a<b": one, "fig a>b": other, "fig A b": one}
    drawn = figures.draw_all(named, tmp_path, ["svg"])
    assert [path.name for path in drawn] == ["fig-a-b.svg", "fig-a-b-2.svg", "fig-A-b-3.svg"]
    assert drawn[0].read_bytes() != drawn[1].read_bytes()
    again = figures.draw_all(named, tmp_path / "again", ["svg"])
    assert [path.read_bytes() for path in again] == [path.read_bytes() for path in drawn]


def test_long_figure_name_is_truncated_for_file_system(tmp_path: Path) -> None:
    named = {"fig " + "中" * 300 + end: one_word("t") for end in "ab"}
    assert len({path.name for path in figures.draw_all(named, tmp_path, ["svg"])}) == 2


@pytest.mark.parametrize("name", ["a file", "a file/inside", "n" * 300])
def test_folder_that_cannot_be_created_raises_one_line_error(
    name: str, store: Store, tmp_path: Path
) -> None:
    (tmp_path / "a file").touch()
    page = tmp_path / "page.html"
    message = rf"{name}: cannot be written \(.*\); choose another folder\.$"
    with pytest.raises(UsageError, match=message):
        list(make_report([store], page, tmp_path / name))
    assert not page.exists()


LONG_NAMES = (
    "recorded:turk.perfect.jsonl@fc75545920c0 as recorded",
    "hf:org/very-long-model-name temperature=0.7,top_p=0.9",
    "openai:a-model@http://localhost:8000/v1 temperature=0.75,top_p=0.9,min_p=0.1",
)


def _estimates(kind: type, names: tuple[str, ...] = LONG_NAMES) -> figure_data.Dots:
    series = ("H people with people", "M model with itself", "C model with people")
    values = {name: (0.1, 0.5, 0.9)[: len(names)] for name in series}
    more = {"notes": ("energy 0.242 [0.195, 0.303]",) * len(names)}
    notes = more if kind is figure_data.AgreementBars else {}
    dots = kind("probe", "distance", names, values, values, values, slots=(0, 1, 2), **notes)
    assert isinstance(dots, figure_data.Dots)
    return dots


@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("kind", [figure_data.Dots, figure_data.AgreementBars])
@pytest.mark.parametrize("n_systems", [1, 3])
def test_one_legend_and_one_column_of_names_within_the_figure(
    kind: type, columns: int, n_systems: int
) -> None:
    picture = _estimates(kind, LONG_NAMES[:n_systems])
    (figure,) = figures.draw(figure_data.Panels("", (picture,) * columns, columns))
    (legend,) = figure.legends
    assert not any(axes.get_legend() for axes in figure.axes)
    boxes = [box for axes in figure.axes if (box := axes.get_tightbbox())]
    below = legend.get_window_extent()
    assert not any(below.overlaps(box) for box in boxes)
    assert all(one.x1 <= two.x0 for one, two in pairwise(boxes))
    every, whole = [*boxes, below], figure.bbox
    assert all(box.x0 >= 0 and box.x1 <= whole.x1 and box.y0 >= 0 for box in every)
    named = [axes.yaxis.get_tick_params()["labelleft"] for axes in figure.axes]
    assert named == [True] + [False] * (columns - 1)


def test_names_are_folded_into_two_lines() -> None:
    (figure,) = figures.draw(_estimates(figure_data.Dots))
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == [
        "recorded:turk.perfect.jsonl\nas recorded",
        "hf:org/very-long-model-name\ntemperature=0.7,top_p=0.9",
        "openai:a-model@http://\n…re=0.75,top_p=0.9,min_p=0.1",
    ]


def test_long_names_leave_room_for_panels() -> None:
    lines = [figure_data.LineSeries(name, (0.0, 1.0), (0.0, 1.0)) for name in LONG_NAMES]
    curves = figure_data.Lines(LONG_NAMES[0], "x", "density", tuple(lines))
    samples = {name: [0.5] * 20 for name in LONG_NAMES}
    bars = figure_data.histograms(LONG_NAMES[1], "x", samples, [0.0, 0.5, 1.0])
    (figure,) = figures.draw(figure_data.Panels(LONG_NAMES[2], (curves, bars, curves), 3))
    boxes = [box for axes in figure.axes if (box := axes.get_tightbbox())]
    assert all(one.x1 <= two.x0 for one, two in pairwise(boxes))
    assert boxes[0].x0 >= 0
    assert boxes[-1].x1 <= figure.bbox.x1
