"""The report page: contents, a single safe file, and reproducible numbers."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shlex
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from aleatoric import registry
from aleatoric.levels import word
from aleatoric.levels.base import run_job
from aleatoric.reporting import page as html
from aleatoric.reporting import parts
from aleatoric.reporting import words as collect
from aleatoric.reporting.page import command_of, make_report, page_figures
from aleatoric.reporting.page_data import to_data, to_json
from aleatoric.reporting.parts import ReportPart, part_of, parts_of
from aleatoric.reporting.views import view_of
from aleatoric.runs.run import Store
from aleatoric.studies.compare import compare
from aleatoric.studies.figure_data import AgreementBars, Boxes, HeatMap, Lines, LineSeries

HOSTILE = "</script><script>alert(1)</script>"
LONG = "words " * 1667
PEOPLE = [
    {"id": f"{g}:{i}", "group": str(g), "context": f"They saw {g} {i}", "responses": own}
    for g, own in enumerate(
        [{"a": 3, "b": 2, "c": 1}, {"a": 1, "b": 4}, {"c": 5, HOSTILE: 1}, {"a": 2, "d": 2}]
    )
    for i in range(3)
]
PEOPLE[0]["context"], PEOPLE[1]["context"] = HOSTILE, LONG
WORDS = {"near": {"a": 5, "b": 4, "c": 3}, "far": {"x": 8, "a": 1}, HOSTILE: {"a": 2, "d": 9}}


def lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    own = tmp_path_factory.mktemp("page")
    lines(own / "people.jsonl", PEOPLE)
    for number, words in enumerate(WORDS.values()):
        rows = [{"id": row["id"], "samples": words} for row in PEOPLE]
        lines(own / f"m{number}.jsonl", rows)
    return own


def run_of(folder: Path, out: str, models: tuple[int, ...], **more: Any) -> Store:
    # Folded alone, so that hostile answers reach the page whole: the word rule leaves words.
    more = {"choose": ("answers=folded",), **more}
    specs = tuple(f"recorded:{folder}/m{number}.jsonl" for number in models)
    job = word.WordJob(f"{folder}/people.jsonl", specs, n_splits=2, **more)
    return run_job(job, folder / out)


@pytest.fixture(scope="module")
def store(folder: Path) -> Iterator[Store]:
    with run_of(folder, "run", (0, 1, 2)) as opened:
        yield opened


@pytest.fixture(scope="module")
def part(store: Store) -> ReportPart:
    return part_of([store])


@pytest.fixture(scope="module")
def page(store: Store, folder: Path) -> str:
    (path,) = make_report([store], folder / "page.html", None)
    return path.read_text(encoding="utf-8")


def data_of(page: str, name: str) -> Any:
    _, _, rest = page.partition(f'<script type="application/json" id="{name}">')
    return json.loads(rest.partition("</script>")[0])


def test_comparable_runs_share_a_section(store: Store, folder: Path) -> None:
    with (
        run_of(folder, "two", (1,)) as two,
        run_of(folder, "paper", (0,), choose=(), protocol="paper") as other,
    ):
        parts = parts_of([store, other, two])
        assert [one.stores for one in parts] == [(store, two), (other,)]
        labels = [member.label for member in parts[0].members]
        assert labels == ["m0", f"{store.path}:m1", "m2", f"{two.path}:m1"]
        found = {r.system for r in parts[0].results}
        assert found == {"human", "oracle", *labels}
        page = html.render([html.Section(one, {}, i) for i, one in enumerate(parts)])
    assert 'id="systems"' in page
    assert 'id="systems-2"' in page
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))


def test_printed_command_reproduces_every_number(store: Store, cli: Callable[..., Any]) -> None:
    saved = {(r.system, r.metric): r for r in word.results(store)}
    _, *arguments = shlex.split(command_of(store, "m1"))
    assert arguments.count("--model") == 1
    again = cli(*arguments)
    assert again.status == 0, again.err
    for metric in ("tvd", "sq_distance", "ece_human"):
        found, own = again.results["m1", metric], saved["m1", metric]
        assert found["signature"] == str(own.signature)
        assert found["estimate"]["value"] == own.estimate.value


def test_printed_command_contains_non_default_options(folder: Path) -> None:
    paper = {"choose": ("bins=closed",), "protocol": "paper"}
    with run_of(folder, "other", (0,), **paper, seed=7) as store:
        words = shlex.split(command_of(store))
    assert words[words.index("--choose") + 1] == "bins=closed"
    assert words[words.index("--protocol") + 1] == "paper"
    assert words[words.index("--seed") + 1] == "7"
    assert "--encoding" not in words


def test_systems_table_has_results_and_letters(store: Store, part: ReportPart) -> None:
    results = part.results
    table = view_of("word").systems_table(part)
    headings = [column.heading for column in table.columns]
    assert headings[:3] == ["system", "overlap ↑", "D² ↓"]
    rows = {row[0].text: dict(zip(headings, row, strict=True)) for row in table.rows}
    letters = compare([store], metrics=("overlap", "sq_distance")).letters
    for result in results:
        if result.metric == "overlap":
            cell = rows[result.system]["overlap ↑"]
            assert cell.sort == result.estimate.value
            assert cell.letters == letters["overlap"].get(result.system, "")
    assert rows["human"]["overlap ↑"].sort is None
    assert rows["human"]["H"].sort is not None


def test_systems_table_shows_all_and_details_only_leading_systems(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "MOST_DETAILED", 2)
    part = part_of([store])
    values = {r.system: r.estimate.value for r in part.results if r.metric == "overlap"}
    labels = [member.label for member in part.members]
    *leading, last = sorted(labels, key=lambda label: -(values[label] or 0.0))
    assert {member.label for member in part.leading.members} == set(leading)
    own = html.Section(part, collect.word_figures(part.leading, studies=()))
    assert {row[0].text for row in own.systems.rows} >= {*labels}
    assert own.caveats[0].startswith("There are 3 systems: the table of systems shows all of them.")
    whole = {r.system: r.estimate for r in word.results(store) if r.metric == "overlap"}
    for result in part.results:
        if result.metric == "overlap" and result.system in labels:  # values are those of score
            assert result.estimate.value == whole[result.system].value
            shown = whole[result.system].interval if result.system != last else None
            assert result.estimate.interval == shown
    assert own.systems.compared is not None
    assert set(own.systems.compared.values["overlap"]) == set(leading)
    assert [one.system for one in own.item_lists] == [m.label for m in part.leading.members]
    assert not any(last in figure.title for figure in own.figures)


def test_contexts_have_human_and_model_words_of_every_item(store: Store, part: ReportPart) -> None:
    found = view_of("word").contexts(part)
    assert (found["total"], len(found["items"])) == (12, 12)
    saved = {row.item_id: row.value for row in store.rows("m1", "tvd")}
    words = found["words"]
    for item in found["items"]:
        own = item["systems"][1]
        assert own["tvd"] == pytest.approx(saved[item["id"]], abs=1e-4)
        shares = dict(zip(own["words"][::2], own["words"][1::2], strict=True))
        assert sum(shares.values()) == pytest.approx(1, abs=1e-3)
        assert shares[words.index("x")] == pytest.approx(8 / 9, abs=1e-4)
    assert found["items"][0]["context"] == HOSTILE
    assert len(found["items"][1]["context"]) > 10_000


def test_page_with_many_contexts_keeps_both_extremes(store: Store, part: ReportPart) -> None:
    highest: dict[str, float] = {}
    for member in part.members:
        for row in store.rows(member.system, "tvd"):
            highest[row.item_id] = max(highest.get(row.item_id, 0.0), row.value or 0.0)
    found = view_of("word").contexts(part, most=5)
    kept = [highest[item["id"]] for item in found["items"]]
    assert (len(kept), found["total"]) == (5, 12)
    assert (max(kept), min(kept)) == (max(highest.values()), min(highest.values()))


def test_heat_map_has_every_value_at_its_position(store: Store, part: ReportPart) -> None:
    ((name, found),) = collect.heat_maps(part.members[0])
    assert name == "passages"
    assert isinstance(found, HeatMap)
    assert found.rows == ("0", "1", "2", "3")
    saved = {row.item_id: row.value for row in store.rows("m0", "tvd")}
    shown = dict(zip(sum(found.ids, ()), sum(found.values, ()), strict=True))
    assert shown == saved


def test_the_first_picture_shows_the_three_agreements(part: ReportPart) -> None:
    found = view_of("word").agreement(part.results)
    assert isinstance(found, AgreementBars)
    results = {(r.system, r.metric): r.estimate.value for r in part.results}
    assert found.rows == tuple(member.label for member in part.members)
    for side, label in parts.AGREEMENTS.items():
        expected = [results[name, f"agreement_{side}"] for name in found.rows]
        assert list(found.values[label]) == expected
    for name, note in zip(found.rows, found.notes, strict=True):
        assert note.startswith(f"overlap {results[name, 'overlap']:.3f}")


def test_page_is_self_contained_without_external_scripts(page: str) -> None:
    addresses = set(re.findall(r"https?://[^\s\"'<>]+", page))
    assert addresses <= {"http://www.w3.org/2000/svg"}
    assert not re.search(r'<(link|img|script)[^>]*(src|href)="(?!data:)', page)
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src &#39;sha256-{digest}&#39;" in page or f"'sha256-{digest}'" in page
    assert "<script>alert" not in page


def test_hostile_and_long_texts_are_shown_in_full(page: str) -> None:
    contexts = data_of(page, "contexts")
    assert contexts["items"][0]["context"] == HOSTILE
    assert contexts["items"][1]["context"] == LONG
    assert HOSTILE in contexts["words"]


def test_every_figure_has_description_and_download_buttons(page: str) -> None:
    figures = data_of(page, "figures")
    boxes = re.findall(r'<figure id="figure-([^"]+)".*?</figure>', page, re.DOTALL)
    assert list(figures) == boxes
    assert {"systems", "fig2_tvd_kde", "passages", "fig14_replacement"} <= set(figures)
    for one in re.findall(r"<figure id.*?</figure>", page, re.DOTALL):
        assert all(f'<button type="button" data-{kind}>' in one for kind in ("csv", "svg", "png"))
    assert all(one["read"] for one in figures.values())
    assert list(figures["passages"]["variants"]) == ["m0", "m1", "m2"]


def test_element_ids_used_by_scripts_are_present(page: str) -> None:
    for name in ("data-theme-toggle", 'table id="systems"', 'th scope="col" data-sort="number"'):
        assert name in page
    for name in ("context-search", "context-pick", "context-view", "tooltip", "citation"):
        assert f'id="{name}"' in page


def test_figures_per_system_are_grouped_as_variants() -> None:
    one, two = (Lines(name, "x", "y", ()) for name in "ab")
    data = {"fig2_tvd_kde": one, "passages gpt2": one, "passages a b": two, "own": one}
    found = {figure.name: figure for figure in page_figures(view_of("word"), data)}
    assert list(found) == ["fig2_tvd_kde", "passages", "own"]
    assert found["passages"].variants == {"gpt2": one, "a b": two}


def test_every_caption_is_a_sentence() -> None:
    for name in registry.names("views"):
        for title, how_to_read in view_of(name).captions.values():
            assert title[0].isupper()
            assert how_to_read.endswith(".")


def test_figure_data_is_rounded_and_escaped() -> None:
    """Numbers of curves are rounded, but not those that the page may print with three decimals."""
    line = LineSeries("a\x1b", (0.1234567, float("nan")), (1.0, 2.0))
    found = to_data(Lines(HOSTILE, "x", "y", (line,)))
    assert found["lines"][0]["x"] == [0.1234567, None]
    curve = LineSeries("a", (0.1234567, float("nan")) * 50, (1.0, 2.0) * 50)
    assert to_data(Lines("t", "x", "y", (curve,)))["lines"][0]["x"] == [0.12346, None] * 50
    assert found["lines"][0]["label"] == r"a\x1b"
    assert "<" not in to_json(found)
    assert json.loads(to_json(found))["title"] == HOSTILE
    boxes = to_data(Boxes("t", "x", "y", {"a": (0.0, 1.0, 2.0, 3.0, 4.0, 40.0), "none": ()}))
    assert boxes["boxes"]["a"]["ends"] == [0, 4]
    assert boxes["boxes"]["a"]["quartiles"] == [1.25, 2.5, 3.75]
    assert boxes["boxes"]["none"] == {"n": 0}
    equal = to_data(Boxes("t", "x", "y", {"a": (0.35000000000000003, 0.3499999999999999)}))
    assert equal["boxes"]["a"]["ends"] == [0.35, 0.35]


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, two: str) -> float:
    low, high = sorted((luminance(one), luminance(two)))
    return (high + 0.05) / (low + 0.05)


def test_text_and_curve_contrast_is_sufficient_in_both_themes() -> None:
    css = (files("aleatoric.reporting") / "templates" / "look.css").read_text()
    light, dark, again = (
        dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block))
        for block in re.findall(r"\{ color-scheme: (?:light|dark);(.*?)\}", css, re.DOTALL)[:3]
    )
    assert dark == again  # the system's preference and the button
    for theme in (light, dark):
        for name in ("fg", "soft-fg", "mark", *(f"s{i}" for i in range(8))):
            for ground in ("bg", "panel"):
                assert contrast(theme[name], theme[ground]) >= 4.5, (name, ground)


def test_paper_tables_have_intervals(store: Store, tmp_path: Path, part: ReportPart) -> None:
    from aleatoric.reporting.page import write_tables

    latex, markdown = write_tables(part, tmp_path / "new")
    assert (latex.name, markdown.name) == ("table_word-level.tex", "table_word-level.md")
    tvd = next(r for r in part.results if (r.system, r.metric) == ("m0", "sq_distance"))
    assert tvd.estimate.interval is not None
    shown = f"{tvd.estimate.value:.3f} [{tvd.estimate.interval.low:.3f}, "
    assert shown.replace("[", r"\[") in markdown.read_text()
    assert shown in latex.read_text()
    assert r"\toprule" in latex.read_text()
