"""One self-contained page of a run: no network, every text escaped."""

from __future__ import annotations

import base64
import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aleatoric import levels, pipeline
from aleatoric.errors import MissingExtraError, UsageError
from aleatoric.report import page_texts
from aleatoric.report.numbers import number
from aleatoric.report.tables import printable
from aleatoric.report.view import results_tables
from aleatoric.store import Store
from aleatoric.types import FAILED, Case, Categorical, Result

N_WORST = 10
N_WORDS = 5
CONTEXT_CHARS = 160
TITLES = {"word": "Next words", "token": "Reference tokens", "text": "Whole texts"}
LEAD_WORDS = (
    "People were asked for the next word of each context, and disagreed. This page shows how far "
    "each system's next-word distribution is from theirs: the share of probability that would "
    "have to move (total variation distance, TVD), beside what a perfect model would score with "
    "the same number of answers (floor)."
)

LEAD_TOKENS = (
    "At each position of a text the model gives a distribution over its vocabulary, and the text "
    "has a token. This page shows whether the model is as often right as it is sure: for its most "
    "likely token (ECE), and for what it would say under a generation scheme (e-ECE)."
)


LEAD_TEXTS = (
    "Several people wrote a text to each input, and their texts differ. This page shows whether a "
    "generator's texts differ as much, in words, in grammar and in meaning: distances between two "
    "people's texts (H), between two of the generator's (M) and between one of each (C), and how "
    "far apart these distributions are (Wasserstein-1 distance, W1), beside people against people "
    "(control) and what a perfect generator would score with as many texts (floor)."
)
LEADS = {"word": LEAD_WORDS, "token": LEAD_TOKENS, "text": LEAD_TEXTS}


@dataclass(frozen=True)
class Picture:
    """A drawn figure and what it shows, in words."""

    png: bytes
    alt: str


def write_html(
    store: Store,
    path: Path,
    pictures: Mapping[str, Picture] | None = None,
    inputs: Sequence[str] = (),
) -> None:
    """Write the page of a run; an unfinished page is never left behind.

    `inputs` are those shown with their texts; by default both ends of the lists.
    """
    page = render(store, pictures or {}, inputs)
    unfinished = path.with_name(path.name + ".part")
    try:
        unfinished.write_text(page, encoding="utf-8")
        unfinished.replace(path)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written ({error}); choose another file.") from None


def render(store: Store, pictures: Mapping[str, Picture], inputs: Sequence[str] = ()) -> str:
    """The page as text."""
    results, level = levels.results(store), levels.level_of(store)
    page: str = _template().render(
        title=f"{TITLES[level]}: {store.manifest['corpus']['name']}",
        lead=LEADS[level],
        notes=[printable(note) for note in levels.notes(store)],
        tables=results_tables(results, level),
        figures=[_embedded(one) for key, one in pictures.items() if not _is_instance(key)],
        signatures=[str(result.signature) for result in results if _is_signed(result, level)],
        **_singles(store, level, pictures, inputs),
    )
    return page


def _singles(
    store: Store,
    level: str,
    pictures: Mapping[str, Picture],
    inputs: Sequence[str],
) -> dict[str, Any]:
    """What the page shows of single items."""
    if level == "word":
        return {"worst": [_worst(store, one) for one in pipeline.model_systems(store)]}
    if level == "text":
        ends = [] if inputs else page_texts.ends_of(store)
        found = page_texts.instances(store, inputs or list(page_texts.listed(ends)))
        drawn = {key: _embedded(one) for key, one in pictures.items() if _is_instance(key)}
        return {"ends": ends, "instances": list(found), "drawn": drawn}
    return {}


def _is_instance(key: str) -> bool:
    """Whether a picture belongs to one input of the page."""
    return key.startswith("input-")


def _is_signed(result: Result, level: str) -> bool:
    """One metric a system stands for all others, which are signed alike."""
    if level == "word":
        return result.metric == "tvd"
    return level == "token" or result.metric.startswith(("w1_C/", "mean_H/"))


def _template() -> Any:
    try:
        from jinja2 import Environment, PackageLoader
    except ImportError:
        raise MissingExtraError("jinja2", "report") from None
    environment = Environment(
        loader=PackageLoader("aleatoric.report"), autoescape=True, finalize=_visible
    )
    return environment.get_template("report.html.j2")


def _visible(value: Any) -> Any:
    """What goes into the page, with control characters shown as in a terminal."""
    # The quick look spares pictures, which are megabytes of plain letters.
    return value if not isinstance(value, str) or value.isprintable() else printable(value)


def _embedded(picture: Picture) -> dict[str, str]:
    return {"png": base64.b64encode(picture.png).decode(), "alt": picture.alt}


def _worst(store: Store, system: str) -> dict[str, Any]:
    """The contexts with the highest TVD, with the first words of both sides."""
    values = {row.item_id: row.value for row in store.rows(system, "tvd") if row.value is not None}
    chosen = set(heapq.nlargest(N_WORST, values, key=lambda item_id: values[item_id]))
    cases = {c.item.id: c for c in pipeline.cases(store, system) if c.item.id in chosen}
    ordered = sorted(cases.values(), key=lambda case: -values[case.item.id])
    return {"system": system, "rows": [_shown(case, values[case.item.id]) for case in ordered]}


def _shown(case: Case, tvd: float) -> dict[str, str]:
    context = case.item.context
    cut = "…" + context[-CONTEXT_CHARS:] if len(context) > CONTEXT_CHARS else context
    return {
        "item": printable(case.item.id),
        "tvd": number(tvd),
        "context": printable(cut),
        "people": _first_words(case.pair.human),
        "model": _first_words(case.pair.model),
    }


def _first_words(distribution: Categorical) -> str:
    best = heapq.nlargest(N_WORDS, distribution.as_dict().items(), key=lambda pair: pair[1])
    return ", ".join(f"{_word(word)} {probability:.0%}" for word, probability in best)


def _word(word: str) -> str:
    return "(no word)" if word == FAILED else printable(word[:40])
