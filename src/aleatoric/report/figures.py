"""Figures from their data, with matplotlib: readable in grey, the same bytes for the same data.

No pyplot, no display, no setting that outlives a call.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aleatoric.analyses.pictures import (
    Boxes,
    Coefficients,
    Dots,
    HeatMap,
    Histograms,
    Lines,
    Panels,
    Picture,
    Points,
    WordBars,
)
from aleatoric.errors import MissingExtraError, UsageError
from aleatoric.report.drawing import DRAWERS, safe
from aleatoric.showing import quoted

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = ("pdf", "svg", "png")
ROWS_A_SHEET = 3
COLUMN_WIDTH, TEXT_WIDTH = 3.3, 6.8
"""Inches, of a paper in two columns: figures are put in as they are, with letters of 7 points."""
_STYLE: dict[Any, Any] = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 7.5,
    "axes.labelsize": 7,
    "font.family": "DejaVu Sans",
    "font.size": 7,
    "hatch.linewidth": 0.5,
    "legend.fontsize": 6.5,
    "legend.frameon": False,
    "pdf.fonttype": 42,
    "savefig.dpi": 200,
    "xtick.labelsize": 6.5,
    "ytick.labelsize": 6.5,
}
_LONGEST_NAME = 180
"""Bytes of a file name, which disks limit to 255 with its number and ending."""
_METADATA = {"pdf": {"CreationDate": None}, "png": {"Software": None}, "svg": {"Date": None}}


def draw_all(
    figures: Mapping[str, Picture], folder: Path, formats: Sequence[str] = FORMATS
) -> list[Path]:
    """Draw every figure into a folder; returns the files, one a figure, sheet and format."""
    check_formats(formats)
    make_folder(folder)
    taken: set[str] = set()
    with writing_into(folder):
        return [
            p for name, one in figures.items() for p in _save(name, one, folder, formats, taken)
        ]


def check_formats(formats: Sequence[str]) -> None:
    """Refuse a format in which nothing is drawn.

    >>> check_formats(["png"])
    """
    unknown = [name for name in formats if name not in _METADATA]
    if unknown:
        known = ", ".join(_METADATA)
        raise UsageError(f"there is no figure format {quoted(unknown[0], 40)}; use {known}.")


def make_folder(folder: Path) -> None:
    """A folder for figures and tables, where it is not there yet.

    >>> make_folder(Path("."))
    """
    with writing_into(folder):
        folder.mkdir(parents=True, exist_ok=True)


@contextmanager
def writing_into(folder: Path) -> Iterator[None]:
    """What goes wrong while files are written to a folder, as an error meant for the user.

    >>> with writing_into(Path("figures")):
    ...     raise FileExistsError(17, "File exists")
    Traceback (most recent call last):
    aleatoric.errors.UsageError: figures: cannot be written (File exists); choose another folder.
    """
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        raise UsageError(
            f"{folder}: cannot be written ({reason}); choose another folder."
        ) from None


def draw(picture: Picture) -> list[Figure]:
    """A picture as matplotlib figures: one, or several sheets of panels."""
    try:
        import matplotlib
    except ModuleNotFoundError:
        raise MissingExtraError("matplotlib", "report") from None
    with matplotlib.rc_context(_STYLE):
        return [_laid_out(_sheet(page)) for page in _pages(picture)]


def file_name(name: str) -> str:
    """A figure's name as part of a file name.

    >>> file_name("fig3_coefficients gpt2/small")
    'fig3_coefficients-gpt2-small'
    """
    whole = re.sub(r"[^\w.=-]+", "-", name).encode()[:_LONGEST_NAME]
    return whole.decode(errors="ignore").strip("-.") or "figure"


def _stems(name: str, n_sheets: int, taken: set[str]) -> list[str]:
    """A file name a sheet, none that is `taken`: different figures may have like names as files.

    >>> taken: set[str] = set()
    >>> _stems("fig a<b", 1, taken), _stems("fig a>b", 1, taken), _stems("fig a:b", 2, taken)
    (['fig-a-b'], ['fig-a-b-2'], ['fig-a-b-01', 'fig-a-b-02'])
    """
    endings = [f"-{number:02}" for number in range(1, n_sheets + 1)] if n_sheets > 1 else [""]
    for again in count(1):
        own = file_name(name) + (f"-{again}" if again > 1 else "")
        stems = [own + ending for ending in endings]
        # Some disks do not tell capitals from small letters.
        folded = {stem.casefold() for stem in stems}
        if not folded & taken:
            break
    taken |= folded
    return stems


def _save(
    name: str, picture: Picture, folder: Path, formats: Sequence[str], taken: set[str]
) -> Iterator[Path]:
    import matplotlib

    sheets = draw(picture)
    for stem, sheet in zip(_stems(name, len(sheets), taken), sheets, strict=True):
        for form in formats:
            path = folder / f"{stem}.{form}"
            with matplotlib.rc_context(_STYLE | {"svg.hashsalt": name}), warnings.catch_warnings():
                # A word in a script that the font lacks is drawn as boxes.
                warnings.filterwarnings("ignore", message="Glyph .* missing from")
                sheet.savefig(path, format=form, metadata=_METADATA[form])
            yield path


def _pages(picture: Picture) -> Iterator[Panels]:
    """A picture as sheets of panels, none with more rows than fit."""
    if not isinstance(picture, Panels):
        yield Panels("", (picture,), 1)
        return
    waiting = iter(picture.pictures)
    while page := tuple(islice(waiting, picture.columns * ROWS_A_SHEET)):
        yield Panels(picture.title, page, min(picture.columns, len(page)))


def _sheet(page: Panels) -> Figure:
    from matplotlib.figure import Figure

    rows = -(-len(page.pictures) // page.columns)
    heights = [_height(picture) for picture in page.pictures[:: page.columns]]
    figure = Figure(figsize=(_width(page), sum(heights)), layout="constrained")
    grid = figure.subplots(rows, page.columns, squeeze=False, height_ratios=heights)
    for axes, picture in zip(grid.flat, page.pictures, strict=False):
        DRAWERS[type(picture)](axes, picture)
    for axes in list(grid.flat)[len(page.pictures) :]:
        axes.set_axis_off()
    if page.title:
        figure.suptitle(safe(page.title), fontsize=8)
    return figure


def _laid_out(sheet: Figure) -> Figure:
    """The sheet with its layout settled: each format would work it out again."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        sheet.draw_without_rendering()
    sheet.set_layout_engine("none")
    return sheet


def _width(page: Panels) -> float:
    """One column of a paper, or both."""
    wide = page.columns > 1 or isinstance(page.pictures[0], Dots | HeatMap | Boxes)
    return TEXT_WIDTH if wide else COLUMN_WIDTH


def _height(picture: Picture) -> float:
    if isinstance(picture, WordBars):
        return 1.0 + 0.13 * len(picture.words)
    if isinstance(picture, Coefficients):
        return 0.8 + 0.17 * len(picture.names)
    if isinstance(picture, Dots):
        return 0.9 + 0.06 * len(picture.rows) * (2 + len(picture.values))
    if isinstance(picture, HeatMap):
        return 1.0 + 0.09 * len(picture.rows)
    if isinstance(picture, Histograms):
        return 2.0 + 0.14 * len(picture.heights)  # a line of the legend each
    if isinstance(picture, Lines):
        return 2.1 + 0.07 * (len(picture.lines) + len(picture.marks))
    if isinstance(picture, Points):
        return 2.0 + 0.14 * len(picture.points)
    return 2.4
