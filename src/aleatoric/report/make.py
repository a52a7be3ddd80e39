"""A run's page and figures, in one call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from aleatoric import levels, pipeline, token_pipeline
from aleatoric.analyses.pictures import Panels
from aleatoric.analyses.pictures import Picture as Data
from aleatoric.errors import UsageError
from aleatoric.progress import Track, quietly
from aleatoric.report import collect, collect_texts, collect_tokens, page_texts
from aleatoric.report.figures import draw, draw_all, to_png
from aleatoric.report.html import Picture, write_html
from aleatoric.report.tables import printable
from aleatoric.store import Store
from aleatoric.store.texts import TextShelf

HOW_TO_READ_TVD = (
    "How often each distance to people occurs, over contexts. The oracle is one half of the people "
    "against the other: a curve to its right is further from people than people are."
)
HOW_TO_READ_RELIABILITY = (
    "Reliability diagrams: points below the dotted line are over-confident. Bars show where a "
    "calibrated model's points would lie with as many tokens; grey steps count the tokens."
)
HOW_TO_READ_TEXTS = {
    "fig2_human_variability": "How far apart two people's texts to the same input are: one pair, "
    "drawn at random, of each input.",
    "fig3_mean_M_minus_H": "Over inputs: mean distance between a generator's own texts less that "
    "between people's. Right of 0 the generator varies more than people.",
    "fig4_w1_C": "Over inputs: how far the distances between a generator's texts and people's are "
    "from those among people. The control is one half of the people in the generator's place.",
    "fig5_w1_C": "Mean W1 by probe, with intervals. The open marker is the control.",
    "fig9_w1_M": "The same of a generator's texts among themselves.",
}
HOW_TO_READ_INSTANCE = (
    "Distances between people's texts (H), between the generator's (M) and between both (C)."
)


def make_report(
    store: Store,
    html: Path | None,
    figures: Path | None,
    track: Track[Any] = quietly,
    inputs: Sequence[str] = (),
) -> Iterator[Path]:
    """Write what is asked for; yields each file when it is there.

    `inputs` are those that the page of a text-level run shows in place of the worst and the best.
    """
    levels.score(store, track, again=False)
    level = levels.level_of(store)
    if inputs and level != "text":
        raise UsageError(f"{store.path}: is of the {level} level; --input is of the text level.")
    if html is not None:
        write_html(store, html, _pictures(store, level, inputs, track), inputs)
        yield html
    if figures is not None:
        yield from draw_all(_FIGURES[level](store), figures)


def _pictures(
    store: Store, level: str, inputs: Sequence[str], track: Track[Any]
) -> dict[str, Picture]:
    """The figures of the page, with those of single inputs."""
    found = _PICTURES[level](store)
    if level == "text":
        chosen = _chosen(store, inputs)
        panels = track(collect_texts.instance_panels(store, chosen), len(chosen), "draw inputs")
        found |= {page_texts.anchor_of(one): _instance_picture(one, own) for one, own in panels}
    return found


def _word_pictures(store: Store) -> dict[str, Picture]:
    """The figures of the page: how the distances spread, for every system and the oracle."""
    lines = collect.tvd_densities(store, pipeline.model_systems(store))
    (figure,) = draw(lines)
    return {"tvd": Picture(to_png(figure), HOW_TO_READ_TVD)}


def _token_pictures(store: Store) -> dict[str, Picture]:
    """The figures of the page: reliability diagrams of every system."""
    found = {}
    for system in token_pipeline.systems(store):
        for number, figure in enumerate(draw(collect_tokens.reliability(store, system)), 1):
            caption = f"{system}. {HOW_TO_READ_RELIABILITY}"
            found[f"{system} {number}"] = Picture(to_png(figure), caption)
    return found


def _text_pictures(store: Store) -> dict[str, Picture]:
    """The figures of the page: the paper's own, of the whole run."""
    data = collect_texts.overall(store)
    return {
        f"{name} {number}": Picture(to_png(figure), caption)
        for name, caption in HOW_TO_READ_TEXTS.items()
        if name in data
        for number, figure in enumerate(draw(data[name]), 1)
    }


def _chosen(store: Store, inputs: Sequence[str]) -> dict[str, str | None]:
    """The inputs to be drawn, each with the system whose distances are."""
    if not inputs:
        return page_texts.drawn(page_texts.ends_of(store))
    shelf = TextShelf(store)
    return {item_id: next(iter(shelf.find(item_id).systems), None) for item_id in inputs}


def _instance_picture(item_id: str, panels: Panels) -> Picture:
    figure, *_ = draw(panels)
    return Picture(to_png(figure), f"Input {printable(item_id)}. {HOW_TO_READ_INSTANCE}")


_PICTURES: dict[str, Callable[[Store], dict[str, Picture]]] = {
    "word": _word_pictures,
    "token": _token_pictures,
    "text": _text_pictures,
}
_FIGURES: dict[str, Callable[[Store], dict[str, Data]]] = {
    "word": collect.figure_data,
    "token": collect_tokens.figure_data,
    "text": collect_texts.figure_data,
}
