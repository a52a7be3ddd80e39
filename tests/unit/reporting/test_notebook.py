"""Notebook display of results, tables and studies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import matplotlib as mpl
import pytest
from matplotlib.figure import Figure

from aleatoric.errors import UsageError
from aleatoric.levels import base, word
from aleatoric.levels.base import run_job
from aleatoric.result_types import Results, Study, Table
from aleatoric.runs.run import Store

mpl.use("agg")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    job = word.WordJob("simulated:contexts=12,people=10,passage=4", ("toy",), n_splits=2)
    with run_job(job, tmp_path_factory.mktemp("notebook") / "run") as run:
        yield run


@pytest.fixture(scope="module")
def results(store: Store) -> Results:
    return base.results(store)


def test_results_have_html_repr(results: Results) -> None:
    assert isinstance(results, tuple)
    shown = results._repr_html_()
    assert "<caption>Word level</caption>" in shown
    assert "corpus:simulated" in shown


def test_single_result_html_repr_is_complete(results: Results) -> None:
    result = next(r for r in results if (r.system, r.metric) == ("toy", "tvd"))
    shown = result._repr_html_()
    assert f"{result.estimate.value:.4g}" in shown
    assert '<th scope="row">interval</th>' in shown


def test_table_html_is_escaped() -> None:
    shown = Table("<b>", ("a",), (("<script>alert(1)</script>\x1b",),), ("&",))._repr_html_()
    assert "<script" not in shown
    assert r"&lt;script&gt;alert(1)&lt;/script&gt;\x1b" in shown
    assert "<small>&amp;</small>" in shown


def test_results_plot_shows_leading_metric(results: Results) -> None:
    axes = Figure().subplots()
    assert results.plot(axes=axes) is axes
    names = [label.get_text() for label in axes.get_yticklabels()]
    own = {r.system: r for r in results if r.metric == "overlap"}
    assert names == list(own)
    points = [line for line in axes.get_lines() if line.get_marker() == "o"]
    assert [line.get_xdata()[0] for line in points] == [r.estimate.value for r in own.values()]
    assert axes.get_xlabel() == "overlap"
    with pytest.raises(UsageError, match="no metric 'nothing'; there are: agreement_H"):
        results.plot(axes=axes, metric="nothing")
    with pytest.raises(UsageError, match="no result to plot"):
        Results().plot()


def test_result_plot_shows_items(results: Results) -> None:
    result = next(r for r in results if (r.system, r.metric) == ("toy", "tvd"))
    axes = result.plot()
    heights = [bar.get_height() for bar in axes.patches if bar.get_width() < 0.2]
    assert sum(heights) >= result.estimate.n_items
    assert axes.get_xlabel() == "tvd, toy"


def test_study_html_repr_has_tables_and_figures(store: Store) -> None:
    study = base.run_study(store, "replacement")
    assert "figures: fig14_replacement" in study._repr_html_()
    assert isinstance(study.plot(), Figure)
    with pytest.raises(UsageError, match="no figure 'x'; it has: fig14_replacement"):
        study.plot("x")
    with pytest.raises(UsageError, match="has no figure"):
        Study("empty", ()).plot()
    with pytest.raises(UsageError, match="a table has nothing to plot"):
        study.tables[0].plot()


def test_importing_types_does_not_import_report() -> None:
    import subprocess
    import sys

    program = "import sys, aleatoric.types; assert 'aleatoric.reporting' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60, cwd=Path.cwd())


def test_table_prints_four_digits() -> None:
    printed = str(Table("t", ("word", "surprisal"), (("mat", 11.970938160919582),)))
    assert printed.splitlines()[-1].split() == ["mat", "11.97"]
