"""Labels that a user's function gives to texts, such as dialogue acts, for people and a system."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import compress

import numpy as np

from aleatoric.errors import UsageError, quoted
from aleatoric.inference.control import one_population
from aleatoric.inference.estimate import estimates
from aleatoric.inference.two_samples import ALPHA, benjamini_hochberg
from aleatoric.levels.text_inputs import StudyOptions, TextCase
from aleatoric.metrics.agreement import agreements_of_counts
from aleatoric.metrics.reduction import Mean
from aleatoric.registry import called, function_at
from aleatoric.result_types import Study, Table
from aleatoric.rng import stream
from aleatoric.studies import TEXTS, notes_on
from aleatoric.studies.people import with_interval
from aleatoric.types import Estimate, Floats, Ints

ROLE = "label function"
N_LISTED = 30
LABEL_CHARS = 40
_MEANINGS: dict[str, str] = TEXTS["acts"]["meanings"]
_SAVED = {"H": "agreement_H", "M": "agreement_M", "C": "agreement_C", "D²": "sq_distance"}


@dataclass(frozen=True)
class Labelled:
    """Inputs with labelled texts on both sides: (inputs, labels) counts."""

    names: tuple[str, ...]
    ids: tuple[str, ...]
    groups: tuple[str, ...]
    people: Ints
    model: Ints
    n_unlabelled: int


def run(cases: Sequence[TextCase], seed: int, options: StudyOptions) -> Study:
    """Compare the labels of people's texts with those of a system's."""
    if not options.argument:
        raise UsageError(
            "acts needs a function from a text to a label; write acts=module:function."
        )
    labelled = label_texts(cases, labeller(options.argument))
    if not labelled.ids:
        raise UsageError(f"the {ROLE} {options.argument} labels no input on both sides.")
    notes = (
        *notes_on("acts", function=options.argument, n=len(labelled.ids)),
        *([f"{labelled.n_unlabelled} texts have no label."] if labelled.n_unlabelled else ()),
    )
    return Study("acts", (_shares(labelled, seed, notes), _agreement(labelled, seed)))


def labeller(place: str) -> Callable[[str], str | None]:
    """Return the user's function at `module:function`, with its results checked."""
    function = function_at(place, ROLE)

    def label(text: str) -> str | None:
        found = called(function, place, ROLE, text)
        if found is None or isinstance(found, str):
            return found
        problem = f"the {ROLE} {place} returned {quoted(str(found))} for {quoted(text)}"
        raise UsageError(f"{problem}; return a text, or None for no label.")

    return label


def label_texts(cases: Sequence[TextCase], label: Callable[[str], str | None]) -> Labelled:
    """Label every distinct text once, and count the labels of each input's sides."""
    sides = [(case.item.references, case.texts) for case in cases]
    texts = dict.fromkeys(text for pair in sides for side in pair for text in side)
    labels = {text: label(text) for text in texts}
    people, model = ([_counted(pair[i], labels) for pair in sides] for i in (0, 1))
    # Labels that people give most come first, then those that only the system gives.
    totals = sum(people, Counter[str]()), sum(model, Counter[str]())
    names = sorted(totals[0] | totals[1], key=lambda name: (*(-n[name] for n in totals), name))
    is_kept = [bool(p) and bool(m) for p, m in zip(people, model, strict=True)]
    items = [case.item for case in compress(cases, is_kept)]
    tables = (_table(list(compress(side, is_kept)), names) for side in (people, model))
    unlabelled = sum(labels[text] is None for pair in sides for side in pair for text in side)
    ids, groups = tuple(item.id for item in items), tuple(item.group for item in items)
    return Labelled(tuple(names), ids, groups, next(tables), next(tables), unlabelled)


def _counted(texts: Iterable[str], labels: dict[str, str | None]) -> Counter[str]:
    return Counter(label for text in texts if (label := labels[text]) is not None)


def _table(counts: Sequence[Counter[str]], names: Sequence[str]) -> Ints:
    rows = [[own[name] for name in names] for own in counts]
    return np.array(rows, dtype=np.int64).reshape(len(counts), len(names))


def _shares(labelled: Labelled, seed: int, notes: tuple[str, ...]) -> Table:
    people, model = (
        side / side.sum(axis=1, keepdims=True) for side in (labelled.people, labelled.model)
    )
    named = {name: (model - people)[:, [i]] for i, name in enumerate(labelled.names[:N_LISTED])}
    differences = _means(labelled, named, seed)
    rows = tuple(
        (
            name[:LABEL_CHARS],
            f"{people[:, i].mean():.3f}",
            f"{model[:, i].mean():.3f}",
            with_interval(differences[name]),
            f"{labelled.people[:, i].sum()}",
            f"{labelled.model[:, i].sum()}",
        )
        for i, name in enumerate(named)
    )
    if left_out := len(labelled.names) - len(named):
        notes += (f"{left_out} rarer labels are left out.",)
    columns = ("label", "people", "system", "difference", "people's texts", "system's texts")
    return Table("Labels of people's and the system's texts", columns, rows, notes)


def _agreement(labelled: Labelled, seed: int) -> Table:
    """Return H, M, C of the labels, and how many inputs differ by a test of each."""
    found = agreements_of_counts(labelled.people, labelled.model)
    values = {name: found[saved][:, None] for name, saved in _SAVED.items()}
    values["M − H"] = values["M"] - values["H"]
    means = _means(labelled, values, seed)
    rows = [(name, with_interval(means[name]), about) for name, about in _MEANINGS.items()]
    sides = zip(labelled.people, labelled.model, labelled.ids, strict=True)
    tests = [one_population(own, other, stream(seed, "acts", i)) for own, other, i in sides]
    p_values = [test.p if test else None for test in tests]
    n_differ = sum(p is not None and p <= ALPHA for p in benjamini_hochberg(p_values))
    shown = f"{n_differ} of {len(labelled.ids)}"
    about = f"inputs whose labels are not samples of one population (FDR {ALPHA:.0%})"
    return Table("Agreement of labels", ("", "value", "meaning"), (*rows, ("differ", shown, about)))


def _means(labelled: Labelled, values: dict[str, Floats], seed: int) -> dict[str, Estimate]:
    reductions = {name: Mean(name) for name in values}
    return estimates([(list(labelled.groups), values)], reductions, seed)
