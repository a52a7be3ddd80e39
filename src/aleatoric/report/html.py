"""One self-contained page of a run: no network, every text escaped."""

from __future__ import annotations

import base64
import heapq
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aleatoric import levels, pipeline
from aleatoric.errors import MissingExtraError, UsageError
from aleatoric.report.tables import printable
from aleatoric.report.view import number, results_table
from aleatoric.store import Store
from aleatoric.types import FAILED, Case, Categorical

N_WORST = 10
N_WORDS = 5
CONTEXT_CHARS = 160
LEAD = (
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


@dataclass(frozen=True)
class Picture:
    """A drawn figure and what it shows, in words."""

    png: bytes
    alt: str


def write_html(store: Store, path: Path, pictures: Mapping[str, Picture] | None = None) -> None:
    """Write the page of a run; an unfinished page is never left behind."""
    page = render(store, pictures or {})
    unfinished = path.with_name(path.name + ".part")
    try:
        unfinished.write_text(page, encoding="utf-8")
        unfinished.replace(path)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written ({error}); choose another file.") from None


def render(store: Store, pictures: Mapping[str, Picture]) -> str:
    """The page as text."""
    results, level = levels.results(store), levels.level_of(store)
    corpus = store.manifest["corpus"]["name"]
    of_words = level == "word"
    page: str = _template().render(
        title=f"{'Next words' if of_words else 'Reference tokens'}: {corpus}",
        lead=LEAD if of_words else LEAD_TOKENS,
        notes=[printable(note) for note in levels.notes(store)],
        table=results_table(results, level),
        figures=[_embedded(picture) for picture in pictures.values()],
        worst=[_worst(store, one) for one in pipeline.model_systems(store)] if of_words else [],
        signatures=[str(r.signature) for r in results if not of_words or r.metric == "tvd"],
    )
    return page


def _template() -> Any:
    try:
        from jinja2 import Environment, PackageLoader
    except ImportError:
        raise MissingExtraError("jinja2", "report") from None
    environment = Environment(loader=PackageLoader("aleatoric.report"), autoescape=True)
    return environment.get_template("report.html.j2")


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
