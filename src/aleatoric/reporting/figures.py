"""Draw figures from their data with matplotlib: readable in gray, with reproducible bytes.

Uses no pyplot and no display, and changes no global setting.
"""

from __future__ import annotations

import math
import re
import textwrap
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import resources
from itertools import count, cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aleatoric.errors import UsageError, needs, quoted
from aleatoric.models.base import pages
from aleatoric.reporting.tables import folded, printable, short_names
from aleatoric.studies import figure_data
from aleatoric.studies.figure_data import Panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


COLORS = ("#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
DASHES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 3)))
MARKERS = ("o", "s", "^", "D", "v", "x")
HATCHES = ("///", "...", "\\\\\\", "xxx", "++", "oo")
GRAY = "#888888"
SIDES = ("#33363f", "#8fabd3", "#1f5fb4")
"""The colors of H, M and C."""
NAME_WIDTH = 28
"""Characters on a line of the name of a row."""
TITLE_WIDTH = 32
"""Characters on a line of the title or of the legend of a panel."""


def safe(text: str) -> str:
    """Text for matplotlib without formulas (dollar signs) and control characters."""
    # matplotlib omits labels that begin with _ from legends.
    shown = printable(text).replace("\n", " ").replace("$", r"\$")
    return f" {shown}" if shown.startswith("_") else shown


def _folded_names(names: Iterable[str], width: int = NAME_WIDTH) -> list[str]:
    """Return safe names of systems in at most two lines: of longer ones, both ends."""
    return ["\n".join(_name_lines(name, width)) for name in short_names(list(names))]


def _name_lines(name: str, width: int) -> Iterator[str]:
    # Model and decoder have lines of their own, if that is enough.
    parts = name.split(" ", 1)
    is_split = len(name) > width >= max(map(len, parts))
    first = parts[0] if is_split else next(folded(name, width))
    yield first
    if rest := name[len(first) :].strip():
        yield rest if len(rest) <= width else f"…{rest[1 - width :]}"


def _n_lines(names: Iterable[str]) -> int:
    return sum(label.count("\n") + 1 for label in _folded_names(map(safe, names), TITLE_WIDTH))


def _lines(axes: Axes, data: figure_data.Lines) -> None:
    for place, line in enumerate(data.lines):
        color, dash, marker = _style(place if line.slot is None else line.slot)
        if line.faded:
            axes.plot(line.x, line.y, color="#cccccc", linewidth=0.7, zorder=1)
            continue
        if line.points:
            _few(axes, line.points, safe(line.label), place, len(data.lines), color, marker)
            continue
        every = max(1, len(line.x) // 8)
        shift = (every // max(1, len(data.lines))) * place
        style: dict[str, Any] = {"color": color, "linestyle": dash, "marker": marker}
        style["markevery"] = (min(shift, max(0, len(line.x) - 1)), every)
        axes.plot(line.x, line.y, markersize=3.5, label=safe(line.label), **style)
        if line.low:
            axes.fill_between(line.x, line.low, line.high, color=color, alpha=0.2, linewidth=0)
    _marks(axes, data)
    _labels(axes, data.title, data.x_label, data.y_label)
    axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
    if data.x_ends:
        axes.set_xlim(*data.x_ends)
    if data.y_end:
        axes.set_ylim(top=data.y_end)
    _legend_by_slot(axes, data)


def _few(
    axes: Axes, values: Sequence[float], label: str, row: int, rows: int, color: str, marker: str
) -> None:
    """Draw values that are too few for a density as points, in a row of their own."""
    heights = [0.05 + 0.9 * (row + 0.5) / rows] * len(values)
    style: dict[str, Any] = {"linestyle": "", "markersize": 3.5, "alpha": 0.7}
    across = axes.get_xaxis_transform()  # heights are shares of the axes
    axes.plot(values, heights, color=color, marker=marker, label=label, transform=across, **style)


def _legend_by_slot(axes: Axes, data: figure_data.Lines) -> None:
    """List curves and straight lines in the order of their slots; others come last."""
    slots = {safe(line.label): line.slot for line in data.lines}
    slots |= {safe(mark.label): mark.slot for mark in data.marks}
    by_label = {label: slot for label, slot in slots.items() if slot is not None}
    handles, labels = axes.get_legend_handles_labels()
    pairs = zip(handles, labels, strict=True)
    ordered = sorted(pairs, key=lambda pair: by_label.get(pair[1], math.inf))
    _legend_below(axes, ordered)


def _legend_below(axes: Axes, named: Sequence[tuple[Any, str]]) -> None:
    """Add a legend below the axes and their label, where it hides nothing."""
    labels = _folded_names((label for _, label in named), TITLE_WIDTH)
    place: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, 0), "borderaxespad": 4}
    columns = 2 if all(len(label) <= 14 for label in labels) else 1
    axes.legend([handle for handle, _ in named], labels, ncols=columns, **place)


def _style(slot: int) -> tuple[str, Any, str]:
    """The color, dash and marker of a slot; they repeat if there are not enough."""
    dash, marker = DASHES[slot % len(DASHES)], MARKERS[slot % len(MARKERS)]
    return COLORS[slot % len(COLORS)], dash, marker


def _marks(axes: Axes, data: figure_data.Lines) -> None:
    for mark, dash in zip(data.marks, cycle((":", "--")), strict=False):
        style: dict[str, Any] = {"color": GRAY, "linestyle": dash}
        if mark.slot is not None:
            style = dict(zip(("color", "linestyle", "marker"), _style(mark.slot), strict=True))
            # Not clipped, and above the frame (2.5), at the end of the axis.
            style |= {"markersize": 3.5, "clip_on": False, "zorder": 2.6}
        if mark.y is not None:
            axes.axhline(mark.y, label=safe(mark.label), **style)
        if mark.x is not None:
            axes.axvline(mark.x, label=safe(mark.label), **style)


def _histograms(axes: Axes, data: figure_data.Histograms) -> None:
    named = zip(data.slots, data.heights.items(), strict=True)
    for row, (slot, (label, heights)) in enumerate(named):
        color, dash, marker = _style(slot)
        mean = f" (mean {data.means[label]:.3g})" if label in data.means else ""
        shown = safe(label) + (mean or ("" if any(heights) else " (undefined)"))
        if label in data.points:
            rows = len(data.heights)
            _few(axes, data.points[label], shown, row, rows, color, marker)
            continue
        if len(data.heights) <= 2:
            hatch: dict[str, Any] = {"ec": color, "hatch": HATCHES[slot % len(HATCHES)]}
            axes.stairs(heights, data.edges, fill=True, alpha=0.45, fc="none", **hatch)
        axes.stairs(heights, data.edges, color=color, linestyle=dash, linewidth=1.4, label=shown)
    _labels(axes, data.title, data.x_label, "density")
    axes.set_xlim(*data.x_ends)
    if data.x_ends[0] < 0 < data.x_ends[1]:
        axes.axvline(0, color=GRAY, linewidth=0.8)
    if data.y_end:
        axes.set_ylim(0, data.y_end)
    _legend_below(axes, list(zip(*axes.get_legend_handles_labels(), strict=True)))


def _scatter(axes: Axes, data: figure_data.Scatter) -> None:
    axes.plot(data.x, data.y, ".", color=GRAY, markersize=2.5, alpha=0.5, rasterized=True)
    axes.plot(data.trend.x, data.trend.y, "-o", color="black", ms=4, label=safe(data.trend.label))
    _labels(axes, data.title, data.x_label, data.y_label)
    axes.legend(title="" if data.correlation is None else f"r = {data.correlation:.2f}")


def _boxes(axes: Axes, data: figure_data.Boxes) -> None:
    names = [f"{safe(name)}\n{len(values)}" for name, values in data.values.items()]
    axes.boxplot(
        [list(values) for values in data.values.values()],
        tick_labels=names,
        medianprops={"color": "black", "linewidth": 1.6},
        flierprops={"marker": ".", "markersize": 2.5, "markeredgecolor": GRAY},
    )
    axes.tick_params(axis="x", labelsize=6.5)
    _labels(axes, data.title, f"{data.x_label}, and number of {data.counted}", data.y_label)


def _coefficients(axes: Axes, data: figure_data.Coefficients) -> None:
    axes.axvline(0, color=GRAY, linewidth=0.8)
    rows = zip(data.names, data.values, data.low, data.high, data.kept, strict=True)
    for y, (_, value, low, high, kept) in enumerate(rows):
        face = "black" if kept else "white"
        axes.plot([low, high], [y, y], "-", color="black", linewidth=1.2)
        axes.plot([value], [y], "o", color="black", markerfacecolor=face, markersize=5)
    axes.set_yticks(range(len(data.names)), [safe(name) for name in data.names])
    axes.invert_yaxis()
    axes.plot([], [], "o", color="black", label="kept")
    axes.plot([], [], "o", color="black", markerfacecolor="white", label="pruned")
    _labels(axes, data.title, data.x_label, "")
    axes.legend(loc="lower right")


def _word_bars(axes: Axes, data: figure_data.WordBars) -> None:
    places = range(len(data.words))
    left, right = [y - 0.2 for y in places], [y + 0.2 for y in places]
    axes.barh(left, data.human, 0.4, color="#333333", label="people")
    style: dict[str, Any] = {"color": "white", "edgecolor": COLORS[1], "hatch": "/////"}
    axes.barh(right, data.model, 0.4, linewidth=0.8, label=safe(data.system), **style)
    axes.set_yticks(places, [safe(word) for word in data.words], fontsize=6)
    axes.invert_yaxis()
    # The end of a context says most about the next word.
    context = textwrap.shorten(data.context[::-1], 90, placeholder="…")[::-1]
    # A non-breaking space keeps the gap with the word before it.
    title = "\n".join(textwrap.wrap(f"{context}\u00a0___", 34))
    _labels(axes, title, f"probability (TVD {data.tvd:.2f})", "")
    axes.title.set_fontsize(6.5)
    axes.legend(loc="lower right")


def _token_counts(axes: Axes, data: figure_data.Reliability) -> None:
    """Draw tokens by bin, in gray on an axis of their own, behind the diagram."""
    counts = axes.twinx()
    counts.stairs(data.counts, data.edges, fill=True, color="#dddddd")
    counts.set_yscale("symlog", linthresh=1)
    counts.set_ylabel("tokens (gray)")
    counts.spines["right"].set_visible(True)
    axes.set_zorder(counts.get_zorder() + 1)
    axes.patch.set_visible(False)


def _reliability(axes: Axes, data: figure_data.Reliability) -> None:
    _token_counts(axes, data)
    bar: dict[str, Any] = {"color": COLORS[1], "linewidth": 4, "alpha": 0.45}
    filled = [i for i, count in enumerate(data.counts) if count]
    for i in filled:
        axes.plot([data.confidence[i]] * 2, [data.low[i], data.high[i]], "-", **bar)
    axes.plot([], [], "-", **bar, label="if calibrated, 95%")
    axes.plot([0, 1], [0, 1], ":", color=GRAY)
    points = [[side[i] for i in filled] for side in (data.confidence, data.accuracy)]
    axes.plot(*points, "o-", color="black", markersize=3.5, linewidth=1, label="model")
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    _labels(axes, data.title, f"confidence, {len(data.counts)} bins", "accuracy")
    axes.legend(loc="upper left")


def _dots(axes: Axes, data: figure_data.Dots) -> None:
    step = 0.8 / max(1, len(data.values))
    for i, (name, values) in enumerate(data.values.items()):
        color, _, marker = _style(data.slots[i])
        places = [row - 0.4 + step * (i + 0.5) for row in range(len(data.rows))]
        axes.hlines(places, data.low[name], data.high[name], color=color, linewidth=0.8)
        face = "white" if name == data.reference else color
        style: dict[str, Any] = {"color": color, "markerfacecolor": face, "markersize": 4.5}
        axes.plot(values, places, linestyle="", marker=marker, label=safe(name), **style)
    for row in range(1, len(data.rows)):
        axes.axhline(row - 0.5, color="#dddddd", linewidth=0.6)
    axes.axvline(0, color=GRAY, linewidth=0.8)
    axes.set_yticks(range(len(data.rows)), _folded_names(map(safe, data.rows)))
    axes.set_ylim(len(data.rows) - 0.5, -0.5)
    if data.x_ends:
        axes.set_xlim(*data.x_ends)
    _labels(axes, data.title, data.x_label, "")


def _blank(axes: Axes, data: figure_data.Blank) -> None:
    axes.set_axis_off()
    axes.set_title(safe(data.title))
    axes.text(0.5, 0.5, safe(data.text), ha="center", color=GRAY, transform=axes.transAxes)


def _agreement_bars(axes: Axes, data: figure_data.AgreementBars) -> None:
    """Draw a note and bars per system, an interval on each bar and its value beside it."""
    thick = 0.68 / max(1, len(data.values))
    for i, (name, values) in enumerate(data.values.items()):
        places = [row - 0.28 + thick * (i + 0.5) for row in range(len(values))]
        style: dict[str, Any] = {"color": SIDES[i % len(SIDES)], "label": safe(name)}
        axes.barh(places, values, 0.85 * thick, **style)
        axes.hlines(places, data.low[name], data.high[name], color="black", linewidth=0.9)
        for place, value, high in zip(places, values, data.high[name], strict=True):
            if math.isfinite(value):
                axes.text(high, place, f" {value:.3f}", va="center", fontsize=6)
    for row, note in enumerate(data.notes):
        axes.text(0, row - 0.3, f" {safe(note)}", va="bottom", fontsize=6)
    axes.set_yticks(range(len(data.rows)), _folded_names(map(safe, data.rows)))
    axes.set_ylim(len(data.rows) - 0.5, -0.55)
    axes.margins(x=0.2)
    axes.set_xlim(left=0)
    _labels(axes, data.title, data.x_label, "")


def _labels(axes: Axes, title: str, x: str, y: str) -> None:
    axes.set_title("\n".join(_folded_names(map(safe, title.split("\n")), TITLE_WIDTH)))
    axes.set_xlabel(safe(x))
    axes.set_ylabel(safe(y))


def _heat_map(axes: Axes, data: figure_data.HeatMap) -> None:
    longest = max(map(len, data.values))
    padded = [[*row, *[math.nan] * (longest - len(row))] for row in data.values]
    ends = (0.5, longest + 0.5, len(data.rows) - 0.5, -0.5)
    look: dict[str, Any] = {"cmap": "Greys", "aspect": "auto", "interpolation": "nearest"}
    shades = axes.imshow(padded, extent=ends, vmin=0, **look)
    every = max(1, len(data.rows) // 20)
    names = [safe(name) for name in data.rows[::every]]
    axes.set_yticks(range(0, len(data.rows), every), names, fontsize=6)
    if axes.figure is not None:
        axes.figure.colorbar(shades, ax=axes, label=safe(data.value_label))
    _labels(axes, data.title, data.x_label, data.y_label)


def _points(axes: Axes, data: figure_data.Points) -> None:
    for point in data.points:
        color, _, marker = _style(point.slot)
        axes.plot(point.x_ends, [point.y, point.y], "-", color=color, linewidth=0.8)
        axes.plot([point.x, point.x], point.y_ends, "-", color=color, linewidth=0.8)
        face = "white" if point.label == data.reference else color
        style: dict[str, Any] = {"color": color, "markerfacecolor": face, "linestyle": ""}
        axes.plot([point.x], [point.y], marker=marker, label=safe(point.label), **style)
    _labels(axes, data.title, data.x_label, data.y_label)


def _lines_height(data: figure_data.Lines) -> float:
    named = [line.label for line in data.lines if not line.faded]
    # Small multiples are lower.
    height = 2.1 if len(named) == len(data.lines) else 1.6
    return height + 0.13 * _n_lines([*named, *(mark.label for mark in data.marks)])


def _dots_height(data: figure_data.Dots) -> float:
    lines = max(1 + name.count("\n") for name in ("", *_folded_names(map(safe, data.rows))))
    return 0.7 + len(data.rows) * max(0.06 * (2 + len(data.values)), 0.13 * lines)


_KINDS: dict[type, tuple[Callable[..., None], Callable[[Any], float]]] = {
    figure_data.Lines: (_lines, _lines_height),
    figure_data.Histograms: (_histograms, lambda data: 2.0 + 0.14 * _n_lines(data.heights)),
    figure_data.Scatter: (_scatter, lambda data: 2.4),
    figure_data.Boxes: (_boxes, lambda data: 2.4),
    figure_data.Coefficients: (_coefficients, lambda data: 0.8 + 0.17 * len(data.names)),
    figure_data.WordBars: (_word_bars, lambda data: 1.0 + 0.13 * len(data.words)),
    figure_data.Reliability: (_reliability, lambda data: 2.4),
    figure_data.Dots: (_dots, _dots_height),
    figure_data.AgreementBars: (_agreement_bars, lambda data: 0.6 + 0.6 * len(data.rows)),
    figure_data.HeatMap: (_heat_map, lambda data: 1.0 + 0.09 * len(data.rows)),
    figure_data.Points: (_points, lambda data: 2.0),
    figure_data.Blank: (_blank, lambda data: 1.0),
}
"""How each kind of figure is drawn, and its height in inches, with all rows and its legend."""
FORMATS = ("pdf", "svg", "png")
COLUMN_WIDTH, TEXT_WIDTH, SHEET_HEIGHT = 3.3, 6.8, 9.6
"""Inches, for a paper in two columns and a font of 7 points."""
_LONGEST_NAME = 180
"""Bytes of a file name, which file systems limit to 255 with its number and extension."""
_METADATA = {"pdf": {"CreationDate": None}, "png": {"Software": None}, "svg": {"Date": None}}


def draw_all(
    figures: Mapping[str, figure_data.Picture], folder: Path, formats: Sequence[str] = FORMATS
) -> list[Path]:
    """Draw every figure into a folder; return the files, one per figure, sheet and format."""
    check_formats(formats)
    make_folder(folder)
    paths: list[Path] = []
    taken: set[str] = set()
    with writing_into(folder):
        for name, picture in figures.items():
            paths += _save(name, picture, folder, formats, taken)
    return paths


def check_formats(formats: Sequence[str]) -> None:
    """Refuse unknown figure formats."""
    unknown = [name for name in formats if name not in _METADATA]
    if unknown:
        allowed = ", ".join(_METADATA)
        raise UsageError(f"there is no figure format {quoted(unknown[0], 40)}; use {allowed}.")


def make_folder(folder: Path) -> None:
    """Create a folder for figures and tables unless it exists."""
    with writing_into(folder):
        folder.mkdir(parents=True, exist_ok=True)


@contextmanager
def writing_into(place: Path, kind: str = "folder") -> Iterator[None]:
    """Turn errors of writing into a folder or a file into an error for the user."""
    try:
        yield
    except OSError as error:
        problem = f"{place}: cannot be written ({error.strerror or error})"
        raise UsageError(f"{problem}; choose another {kind}.") from None


def draw(picture: figure_data.Picture) -> list[Figure]:
    """Draw a figure: one matplotlib figure, or several sheets of panels."""
    with needs("matplotlib", "report"):
        import matplotlib
    with matplotlib.rc_context(_style_sheet()):
        return [_sheet(page) for page in _pages(picture)]


def _style_sheet() -> dict[Any, Any]:
    from matplotlib import rc_params_from_file

    path = resources.files("aleatoric.reporting") / "templates" / "figures.mplstyle"
    return dict(rc_params_from_file(str(path), use_default_template=False))


def file_name(name: str) -> str:
    """A figure's name as part of a file name."""
    stem = re.sub(r"[^\w.=-]+", "-", name).encode()[:_LONGEST_NAME]
    return stem.decode(errors="ignore").strip("-.") or "figure"


def _stems(name: str, n_sheets: int, taken: set[str]) -> list[str]:
    """One file name per sheet, none of which is `taken`: figures may have the same file name."""
    endings = [f"-{number:02}" for number in range(1, n_sheets + 1)] if n_sheets > 1 else [""]
    for attempt in count(1):
        stem = file_name(name) + (f"-{attempt}" if attempt > 1 else "")
        stems = [stem + ending for ending in endings]
        # Some file systems ignore case.
        folded = {text.casefold() for text in stems}
        if not folded & taken:
            break
    taken |= folded
    return stems


def _save(
    name: str, picture: figure_data.Picture, folder: Path, formats: Sequence[str], taken: set[str]
) -> Iterator[Path]:
    import matplotlib

    sheets = draw(picture)
    for stem, sheet in zip(_stems(name, len(sheets), taken), sheets, strict=True):
        for form in formats:
            path = folder / f"{stem}.{form}"
            style = _style_sheet() | {"svg.hashsalt": name}
            with matplotlib.rc_context(style), _missing_glyphs_drawn_as_boxes():
                sheet.savefig(path, format=form, metadata=_METADATA[form])
            yield path


@contextmanager
def _missing_glyphs_drawn_as_boxes() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield


def _pages(picture: figure_data.Picture) -> Iterator[Panels]:
    """A figure as sheets of panels, none with more rows than fit."""
    whole = picture if isinstance(picture, Panels) else Panels("", (picture,), 1)
    rows = list(pages(whole.pictures, whole.columns))
    per_sheet = max(1, int(SHEET_HEIGHT // max(map(_height, rows))))
    for page in pages(whole.pictures, whole.columns * per_sheet):
        yield Panels(whole.title, tuple(page), min(whole.columns, len(page)))


def _height(row: Sequence[figure_data.Picture]) -> float:
    return max(_KINDS[type(picture)][1](picture) for picture in row)


_WIDE = figure_data.Dots | figure_data.HeatMap | figure_data.Boxes


def _sheet(page: Panels) -> Figure:
    from matplotlib.figure import Figure

    heights = [_height(row) for row in pages(page.pictures, page.columns)]
    is_wide = page.columns > 1 or isinstance(page.pictures[0], _WIDE)
    size = (TEXT_WIDTH if is_wide else COLUMN_WIDTH, sum(heights))
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(len(heights), page.columns, squeeze=False, height_ratios=heights)
    for row, places in zip(pages(page.pictures, page.columns), grid, strict=True):
        _draw_row(row, places)
    if isinstance(page.pictures[0], figure_data.Dots | figure_data.Points):
        _add_legend(figure)
    if page.title:
        figure.suptitle(*_folded_names([safe(page.title)], int(14 * size[0])), fontsize=8)
    # The layout is fixed now: each format would compute it again.
    with _missing_glyphs_drawn_as_boxes():
        figure.draw_without_rendering()
    figure.set_layout_engine("none")
    return figure


def _draw_row(row: Sequence[figure_data.Picture], places: Sequence[Axes]) -> None:
    """Draw panels side by side, without the names of rows that the panel on the left has too."""
    for picture, axes in zip(row, places, strict=False):
        _KINDS[type(picture)][0](axes, picture)
    for axes in places[len(row) :]:
        axes.set_axis_off()
    for left, right, axes in zip(row, row[1:], places[1:], strict=False):
        if isinstance(right, figure_data.Dots) and right.rows == getattr(left, "rows", ()):
            axes.tick_params(labelleft=False)


def _add_legend(figure: Figure) -> None:
    """Add one legend of all panels, below them; the figure grows by its height."""
    drawn = (axes.get_legend_handles_labels() for axes in figure.axes)
    named = {name: one for own in drawn for one, name in zip(*own, strict=True)}
    if len(named) < 2:
        return
    names = [" ".join(label.split("\n")) for label in _folded_names(list(named))]
    width, height = figure.get_size_inches()
    columns = max(1, int(18 * width) // (max(map(len, names)) + 6))
    figure.set_size_inches(width, height + 0.1 + 0.14 * math.ceil(len(names) / columns))
    figure.legend(named.values(), names, loc="outside lower center", ncols=columns)
