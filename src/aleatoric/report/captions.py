"""What stands beside a figure on the page: its title, and one line on how to read it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np

from aleatoric.report.tables import printable
from aleatoric.studies.figure_data import Boxes, Picture, Scatter

_TREND = "Each grey dot is a context; black dots are means by tenths. A flat line: no relation."
_PEOPLE_APART = (
    "How far apart two people's texts to the same input are: one pair per input, drawn at random. "
    "The mean is that of all pairs, mean H."
)
_SIGNED = (
    "Right of 0 the generator varies more than people (its texts differ more from one another), "
    "left of 0 it varies less."
)
_FARTHER = (
    "Right of 0 a generator's texts are further from people's than people's own are from one "
    "another. This does not mean that the generator varies more: one that repeats a single "
    "sentence has it too."
)
_INSTANCE = (
    "One input: distances between people's texts (H), between the generator's (M) and between "
    "both (C)."
)
_SUBSETS = (
    "ECE and e-ECE on random subsets of growing size, with one standard deviation over ten "
    "subsets; the horizontal lines are the values on all data."
)
CAPTIONS: dict[str, dict[str, tuple[str, str]]] = {
    "word": {
        "systems": (
            "Systems at a glance",
            "How often two people agree (H), two draws of the system (M), and a draw and a person "
            "(C), with 95% intervals. A perfect model has all three equal; M below H: the system "
            "varies more than people.",
        ),
        "training": (
            "Training and validation",
            "Means over folds by epoch; epoch 0 is before training. Where validation rises while "
            "training falls, passages are learnt by heart.",
        ),
        "fig2_tvd_kde": (
            "How distances to people spread",
            "How often each distance occurs, over contexts. The oracle is one half of the people "
            "against the other: a curve to its right is further from people than people are.",
        ),
        "fig12_tvd_differences": (
            "Difference between model and human distance, per context",
            "Right of 0 the model is further from people than half of the people is.",
        ),
        "fig4_abstractions": (
            "Distances between classes of words",
            "As above, after words are replaced by their part of speech or cluster of meaning: a "
            "small distance here and a large one above means other words of the same kind.",
        ),
        "passages": (
            "Where in the passages",
            "Each row is a passage, each cell a context; darker is further from people. Choose a "
            "cell to see its words.",
        ),
        "fig14_replacement": (
            "How much would have to be people",
            "k% of the model's contexts are replaced by people's. The share at which the right "
            "curve meets the people's line is what is missing.",
        ),
        "fig3_coefficients": (
            "What predicts a large distance",
            "Standardised coefficients with 95% intervals: right of 0, more of it goes with a "
            "larger distance; open dots were pruned by the regression.",
        ),
        "fig6_oracle_tvd": ("Distance and people's disagreement among halves", _TREND),
        "fig7_context_length": ("Distance and length of the context", _TREND),
        "fig8_human_entropy": ("Distance and people's entropy", _TREND),
        "fig9_model_entropy": ("Distance and the model's entropy", _TREND),
        "fig10_tags": (
            "Distance by part of speech",
            "Boxes hold the middle half of the contexts, the line is the median.",
        ),
        "fig11_subsampling": (
            "How many draws are enough",
            "Error of the distance when fewer draws of the model are used than there are.",
        ),
        "learning_curve": (
            "What would more people show",
            "Distances among people, and of the model to them, by how many are asked: what is left "
            "between the two curves at the right is the model's own.",
        ),
        "fig5_biased": (
            "Probabilities of words beside halves of the people",
            "TVD to all people. Probabilities that are renormalised over a set of words get the "
            "mass of all other words too, which brings the model nearer to people.",
        ),
    },
    "token": {
        "ece_and_e_ece": (
            "ECE beside e-ECE",
            "ECE looks at the most likely token only; e-ECE at what the model would say under a "
            "generation scheme. Further left is better calibrated.",
        ),
        "reliability": (
            "Reliability diagrams",
            "Points below the dotted line are over-confident. Bars show where a calibrated "
            "model's points would lie with as many tokens; grey steps count the tokens.",
        ),
        "tab3_quartiles": (
            "Quartiles of uncertainty",
            "Tokens in four parts by the entropy of the language there: where boxes rise, ECE and "
            "e-ECE part where the language itself is uncertain.",
        ),
        "d_by_frequency": (
            "Rare and frequent tokens",
            "How far ECE and e-ECE part at a token, by how often the token occurs in the text.",
        ),
        "tab4_stability": ("How few tokens are enough", _SUBSETS),
        "tab4_stability_documents": ("How few documents are enough", _SUBSETS),
    },
    "text": {
        "energy": (
            "How close to people, by probe",
            "Energy distance 2 mean C − mean M − mean H, with intervals: 0 in expectation for a "
            "perfect generator at any number of texts. Further left is closer to people.",
        ),
        "fig10_mean_M_minus_H": ("Does it vary more or less than people? By probe", _SIGNED),
        "fig5_w1_C": (
            "W1 of distances to people's texts, by probe",
            "Mean W1 between the generator's and people's distances, with intervals. The open "
            "marker is the control, one half of the people. Further left is nearer to people.",
        ),
        "decoders": (
            "Decoders in the plane",
            "Right: distances among its texts are distributed otherwise than among people's; up: "
            "so are those to people's texts. The open marker is the control, at half the number "
            "of texts.",
        ),
        "fig9_w1_M": (
            "The same, of a generator's texts among themselves",
            "As above, with W1(M, H).",
        ),
        "fig3_mean_M_minus_H": ("Variability per input", f"Over inputs. {_SIGNED}"),
        "fig8_mean_C_minus_H": (
            "Are the texts further from people's than people's are?",
            f"Over inputs. {_FARTHER}",
        ),
        "fig11_mean_C_minus_H": (
            "Mean distance to people's texts minus people's own, by probe",
            _FARTHER,
        ),
        "variability": (
            "H, M and C side by side",
            "Over inputs: mean distance between two people's texts (H), two of the generator's "
            "(M), and one of each (C). A like generator has all three alike.",
        ),
        "fig4_w1_C": (
            "How divergences spread over inputs",
            "How far the distances between a generator's texts and people's are from those among "
            "people. The control is one half of the people in the generator's place.",
        ),
        "fig2_human_variability": ("How people vary", _PEOPLE_APART),
        "fig7_human_variability": ("How people vary, by the other probes", _PEOPLE_APART),
        "fig6_worst_fit": ("The input fitted worst", _INSTANCE),
        "fig6_best_fit": ("The input fitted best", _INSTANCE),
    },
}
NOT_ON_PAGE = ("fig1_context", "figH_passage")
"""The page shows the words of any context."""


@dataclass(frozen=True)
class PageFigure:
    """A figure of the page; with several variants a reader chooses one, by system."""

    name: str
    title: str
    how_to_read: str
    variants: Mapping[str, Picture]


def page_figures(level: str, data: Mapping[str, Picture]) -> Iterator[PageFigure]:
    """The figures of a level in the order of the page, those of single systems joined to one."""
    grouped: dict[str, dict[str, Picture]] = {}
    for name, picture in data.items():
        base, _, system = name.partition(" ")
        grouped.setdefault(base, {})[system] = picture
    known = CAPTIONS[level]
    others = [base for base in grouped if base not in known and base not in NOT_ON_PAGE]
    for base in (*(base for base in known if base in grouped), *others):
        title, how_to_read = known.get(base, (base, "A study's own figure."))
        yield PageFigure(base, title, how_to_read, grouped[base])


DIGITS = 5
MOST_POINTS = 4000
"""So many points of a scatter are drawn; of more, every so many-th."""


def to_json(data: Any) -> str:
    """JSON that can stand inside a script element: no text in it can end the element.

    >>> to_json({"text": "</script>"})
    '{"text":"\\\\u003c/script\\\\u003e"}'
    """
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def to_data(picture: Picture) -> dict[str, Any]:
    """A picture as plain data with its kind.

    >>> from aleatoric.studies.figure_data import LineSeries, Lines
    >>> to_data(Lines("t", "x", "y", (LineSeries("a", (0.0,), (1 / 3,)),)))["lines"][0]["y"]
    [0.33333]
    """
    if isinstance(picture, Boxes):
        return {**_plain(replace(picture, values={})), "boxes": _boxes(picture.values)}
    if isinstance(picture, Scatter):
        every = -(-len(picture.x) // MOST_POINTS) or 1
        picture = replace(picture, x=picture.x[::every], y=picture.y[::every])
    found: dict[str, Any] = _plain(picture)
    return found


def shown(text: str) -> str:
    """A text without characters that could steer what shows it; the quick look spares plain ones.

    >>> shown("a\\x1b[31m")
    'a\\\\x1b[31m'
    """
    return text if text.isprintable() else printable(text)


def short(value: float | None) -> float | None:
    """A number in as many digits as a figure shows; nothing where it is undefined.

    >>> short(1 / 3), short(math.nan), short(None)
    (0.33333, None, None)
    """
    if value is None or not math.isfinite(value):
        return None
    rounded = float(f"{value:.{DIGITS}g}")
    return int(rounded) if rounded.is_integer() else rounded


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        own = {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
        return {"kind": type(value).__name__, **own}
    if isinstance(value, Mapping):
        return {shown(str(key)): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, str):
        return shown(value)
    return short(value) if isinstance(value, float) else value


def _boxes(samples: Mapping[str, Any]) -> dict[str, Any]:
    """By category the number of values, the quartiles, and how far the whiskers reach."""
    return {shown(name): _box(np.asarray(own, dtype=np.float64)) for name, own in samples.items()}


def _box(sample: Any) -> dict[str, Any]:
    if not len(sample):
        return {"n": 0}
    low, middle, high = (float(q) for q in np.quantile(sample, [0.25, 0.5, 0.75]))
    # Quartiles of values that are equal up to rounding may lie beyond all of them.
    rounding = 1e-9 * float(np.abs(sample).max())
    reach = 1.5 * abs(high - low) + rounding
    within = sample[(sample >= low - reach) & (sample <= high + reach)]
    ends = [short(float(end)) for end in (within.min(), within.max())]
    return {"n": len(sample), "ends": ends, "quartiles": [short(q) for q in (low, middle, high)]}
