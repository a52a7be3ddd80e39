"""Scoring a text-level run: from saved texts to statistics, in chunks of constant memory.

Where texts have persons, the changes of mean H and mean C without each person are saved too, for
intervals that cover people as well as groups (as in `aleatoric.inference.persons`): without a
person, mean H of an input loses that person's pairs and mean C that person's column.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from aleatoric import registry
from aleatoric.inference.components import Weights
from aleatoric.inference.estimate import GroupSums
from aleatoric.inference.persons import PersonSums, covering_cells, read_changes
from aleatoric.inference.two_samples import N_PERMUTATIONS
from aleatoric.levels import text_inputs, text_protocol
from aleatoric.levels import text_variability as variability
from aleatoric.levels.text_inputs import Testing
from aleatoric.levels.text_protocol import Preparation
from aleatoric.levels.text_variability import (
    UNDEFINED,
    Group,
    ScoredTexts,
    Scores,
    Splitting,
    Statistics,
)
from aleatoric.metrics.distances import Divergence
from aleatoric.metrics.reduction import Mean
from aleatoric.models.base import LoadOptions, pages
from aleatoric.models.forced import open_likelihood
from aleatoric.nextword.rules import lacks_spaces
from aleatoric.probes.base import (
    NEGATIVE_TYPE,
    Probe,
    Window,
    check_allowed_probes,
    is_one_text,
    negative_type,
    window_of,
)
from aleatoric.probes.encoders import usable_device
from aleatoric.probes.tools import TextReader, Tools, probes_with
from aleatoric.rng import stream
from aleatoric.runs.formats import DamagedRowError, StatRow
from aleatoric.runs.run import EmbeddingCache, Produced, Store, StoredTexts
from aleatoric.types import Estimate, Floats, TextItem

if TYPE_CHECKING:
    from aleatoric.levels.base import Monitor

CONTROL = "control"
PAIR = "pair_H"
"""Distance of one random pair of people's texts per input, for figures."""
CHUNK = 128
"""Inputs scored at once."""
SIDES = ("M", "C")
DIVERGENCES = ("w1", "ks")
COUNTS = ("n_people", "n_texts", "n_empty", "n_cut")
LENGTHS = ("length_H", "length_M")
"""Mean lengths in tokens of people's and of a system's texts, after cutting."""
SAME_LENGTH = f"dmu_{text_inputs.SAME_LENGTH}"
"""Mean M - mean H on texts cut to the same lengths, for systems whose lengths differ."""
PAIRS = ("n_pairs_H", "n_pairs_M", "n_pairs_C")
P_VALUES = "p_"
"""Prefix of the p-values of tests of single inputs."""
MATCHED = "_matched"
BESIDE_MATCHED = "_control"
"""Suffix of the control's value on the inputs for which a system has a matched value."""


@dataclass(frozen=True)
class Distances:
    """Distances of one input: H, and per system M (`own`) and C (`cross`)."""

    human: Floats
    own: Mapping[str, Floats]
    cross: Mapping[str, Floats]


@dataclass(frozen=True)
class Scorer:
    """Opened probes and the protocol of a run's manifest."""

    probes: tuple[Probe, ...]
    prepare: Preparation
    divergences: Mapping[str, Divergence]
    splitting: Splitting
    is_paper: bool
    """Whether the procedure is the published one."""
    reader: TextReader
    """Tokenizes texts to measure their lengths."""
    testing: Testing
    """The tests of single inputs."""
    spaced_language: str | None
    """The language of the default tokenizer; `None` if another one is named."""
    has_control: bool = True
    """Whether people are compared with people; the paper does not do so for dialogue."""

    @classmethod
    def of(
        cls, manifest: Mapping[str, Any], allowed: Collection[str], store: Store | None = None
    ) -> Scorer:
        """Open the tools and the allowed probes of a manifest; `store` caches embeddings."""
        path = "the run" if store is None else str(store.path)
        check_allowed_probes(manifest["probes"], allowed, path)
        as_published = manifest["protocol"] == "paper"
        tools = tools_of(manifest, store)
        opened, reader = probes_with(tools, manifest["probes"]), tools.length_reader()
        corpus, max_length = manifest["corpus"]["name"], manifest["max_length"]
        inputs = () if store is None else (each.item for each in StoredTexts(store).walk())
        prepare = text_protocol.preparation(manifest["protocol"], corpus, reader, max_length)
        prepare.systems(["word " * 200])  # fails early if the tokenizer is not installed
        return cls(
            prepare.probes(opened),
            prepare,
            {name: registry.find("divergences", name) for name in DIVERGENCES},
            Splitting(manifest["seed"], manifest["n_splits"]),
            as_published,
            reader,
            Testing(manifest["seed"], manifest.get("permutations", N_PERMUTATIONS)),
            tools.language if manifest["tokeniser"] is None else None,
            not (as_published and text_protocol.is_dialogue(corpus, inputs)),
        )

    def facts(self) -> dict[str, dict[str, str]]:
        """Return, per probe, the choices that change its distances, for signatures."""
        facts = self.prepare.facts
        return {p.name: {**facts, **p.facts, NEGATIVE_TYPE: negative_type(p)} for p in self.probes}

    def cut_probes(self) -> list[Probe]:
        """Return the probes that also compare texts cut to the same lengths: not those of a text.

        A cut text has another length, and another perplexity, than the one that was written.
        """
        return [probe for probe in self.probes if not is_one_text(probe)]

    def texts(self, chunk: Sequence[Produced], names: Sequence[str]) -> list[ScoredTexts]:
        """Return the prepared texts of some inputs; a system may have none for an input."""
        if not self.is_paper:
            originals = [(each.item.references, *each.systems.values()) for each in chunk]
            self.reader.remember(text for parts in originals for texts in parts for text in texts)
        items = [
            ScoredTexts(
                produced.item.id,
                self.prepare.people(produced.item.references),
                tuple(self.prepare.systems(produced.systems.get(name, ())) for name in names),
            )
            for produced in chunk
        ]
        self.reader.remember(text for item in items for text in item.block().texts)
        return items

    def lengths(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text."""
        tokens = self.reader.tokens(texts)
        return [len(tokens[text]) for text in texts]

    def of_same_length(self, item: ScoredTexts, system: int) -> ScoredTexts:
        """Return people's texts and those of one system, cut to the same lengths."""
        sides = item.people, item.systems[system]
        limits = text_protocol.common_lengths(*(self.lengths(texts) for texts in sides))
        people, model = (self._cut(*side) for side in zip(sides, limits, strict=True))
        return ScoredTexts(item.item_id, people, (model,))

    def _cut(self, texts: Sequence[str], limits: Sequence[int]) -> tuple[str, ...]:
        tokens = self.reader.tokens(texts)
        pairs = zip(texts, limits, strict=True)
        return tuple(text_protocol.cut_to(text, tokens[text], limit) for text, limit in pairs)

    def scores(self, items: Sequence[ScoredTexts], names: Sequence[str]) -> Scores:
        """Compute the statistics of some inputs under the protocol."""
        reference = (variability.paper_people,) if self.is_paper and self.has_control else ()
        return variability.score_blocks(items, names, self.probes, self.divergences, *reference)


def tools_of(manifest: Mapping[str, Any], store: Store | None = None) -> Tools:
    """Return the tokenizer and other tools of a manifest; `store` caches embeddings."""
    as_published = manifest["protocol"] == "paper"
    return Tools(
        # The authors read German with English tools too.
        "en" if as_published else manifest["language"],
        manifest["tokeniser"] or ("spacy:en" if as_published else None),
        manifest["tagger"],
        tuple(manifest["encoder"] or ()),
        None if store is None else EmbeddingCache(store),
        manifest["device"],
        lambda spec: open_likelihood(spec, _loading(manifest)),
    )


def _loading(manifest: Mapping[str, Any]) -> LoadOptions:
    """Return how models of probes are loaded: in float32, on the run's device if it is here."""
    return LoadOptions(device=usable_device(manifest["device"]), bos=manifest["bos"])


def metric_names(store: Store) -> list[str]:
    """Return the metrics of a run, in display order: statistics of a probe, and lengths."""
    others, columns = (f"{PAIR}/", UNDEFINED, P_VALUES), store.stat_columns()
    return [c for c in columns if c in LENGTHS or ("/" in c and not c.startswith(others))]


def statistics(
    store: Store, scorer: Scorer, monitor: Monitor, same_length: Collection[str] = ()
) -> tuple[list[str], Iterator[StatRow], Callable[[], dict[str, Any]]]:
    """Return what `write_stats` takes: columns, their rows (per input and system), and facts.

    Systems in `same_length` are also compared with people on texts cut to the same lengths.
    """
    names = [name for name in store.systems() if name != CONTROL]
    n_permutations = scorer.testing.n_permutations
    tests = [text_inputs.P_M, text_inputs.P_ENERGY] if n_permutations else []
    cut = [SAME_LENGTH, *([f"{P_VALUES}{text_inputs.SAME_LENGTH}"] if n_permutations else ())]
    names_of_probes = [*statistic_names(scorer.is_paper), *tests]
    columns = [f"{n}/{p.name}" for n in names_of_probes for p in scorer.probes]
    columns += [f"{n}/{p.name}" for n in cut for p in scorer.cut_probes() if same_length]
    columns += variability.value_columns(scorer.probes)
    columns += [*LENGTHS, *([text_inputs.P_LENGTH] if tests else ()), *COUNTS, *PAIRS]
    walk, sums = StoredTexts(store).walk(), Sums.of(scorer)
    tracked = monitor.track(walk, store.n_items, "score")
    rows = monitor.stopping.checked(_rows(tracked, names, scorer, same_length, sums))
    return columns, rows, sums.facts


def undefined_counts(store: Store, system: str, part: str) -> dict[str, int]:
    """Return the number of undefined distances per probe that has any, for part H, M or C."""
    prefix = f"{UNDEFINED}{part}/"
    columns = [column for column in store.stat_columns() if column.startswith(prefix)]
    counts = {column.removeprefix(prefix): store.total(system, column) for column in columns}
    return {probe: count for probe, count in counts.items() if count}


def statistic_names(is_paper: bool) -> list[str]:
    """Return the statistics of a probe, in the order in which they are shown."""
    compared = [f"{name}_{side}" for name in ("dmu", *DIVERGENCES) for side in SIDES]
    names = ["energy", "mean_H", "mean_M", "mean_C", *compared]
    undefined = [f"{UNDEFINED}{side}" for side in ("H", *SIDES)]
    if is_paper:
        return [*names, PAIR, *undefined]
    matched = [f"{name}_{side}{MATCHED}" for name in ("w1", "dmu") for side in SIDES]
    beside = [f"w1_{side}{BESIDE_MATCHED}" for side in SIDES]
    return [*names, *matched, *beside, PAIR, *undefined]


def distances_of(produced: Produced, scorer: Scorer) -> dict[str, Distances]:
    """Return the distances of one input, per probe."""
    names = list(produced.systems)
    (group,) = scorer.scores(scorer.texts([produced], names), names).groups
    return {
        probe.name: Distances(
            group.human()[p, 0],
            {name: group.model(i)[p, 0] for i, name in enumerate(names)},
            {name: group.cross(i)[p, 0] for i, name in enumerate(names)},
        )
        for p, probe in enumerate(scorer.probes)
    }


@dataclass(frozen=True)
class Sums:
    """What is summed over all inputs, besides the statistics of each."""

    persons: PersonSums
    windows: Mapping[Window, list[str]]
    """Windows of models -> the probes that use the model."""
    too_long: Counter[Window] = field(default_factory=Counter)
    """The numbers of texts, or pairs, that are longer than a window."""
    read: Counter[Window] = field(default_factory=Counter)
    """The numbers of all of them."""
    spaceless: Counter[str] = field(default_factory=Counter)
    """The numbers of texts, by system, that the default tokenizer cannot split into words."""

    @classmethod
    def of(cls, scorer: Scorer) -> Sums:
        """Return empty sums for the probes of a scorer."""
        windows: dict[Window, list[str]] = {}
        for probe in scorer.probes:
            if window := window_of(probe):
                windows.setdefault(window, []).append(probe.name)
        return cls(PersonSums(len(_SIDES)), windows)

    def count(self, items: Sequence[ScoredTexts]) -> None:
        """Count the prepared texts that are longer than the windows."""
        blocks = [item.block() for item in items]
        for window in self.windows:
            sizes = list(window.sizes(blocks))
            self.too_long[window] += sum(size > window.limit for size in sizes)
            self.read[window] += len(sizes)

    def count_spaceless(self, chunk: Sequence[Produced], language: str) -> None:
        """Count the texts in scripts without spaces that the language's tokenizer needs."""
        for produced in chunk:
            for system, texts in {CONTROL: produced.item.references, **produced.systems}.items():
                self.spaceless[system] += sum(lacks_spaces([text], language) for text in texts)

    def facts(self) -> dict[str, Any]:
        """Return the facts to save with the statistics."""
        windows = [
            {
                "probes": probes,
                "model": window.model,
                "limit": window.limit,
                "of_pairs": window.of_pairs,
                "n": self.read[window],
                "n_too_long": self.too_long[window],
            }
            for window, probes in self.windows.items()
        ]
        others = {WINDOWS_KEY: windows, SPACELESS_KEY: dict(self.spaceless)}
        return {PERSONS_KEY: self.persons.facts(), **others}


def window_notes(store: Store) -> Iterator[str]:
    """Note texts and pairs that a probe's model reads only in part."""
    for fact in (store.meta(WINDOWS_KEY) or ()) if store.has_stats() else ():
        n, n_too_long, limit = fact["n"], fact["n_too_long"], fact["limit"]
        if not n_too_long:
            continue
        verb = "is" if n_too_long == 1 else "are"
        counts = f"{', '.join(fact['probes'])} ({fact['model']}): {n_too_long} of {n}"
        if fact["of_pairs"]:
            yield (
                f"{counts} pairs of texts {verb} longer than the model's window of {limit} tokens, "
                "and only the beginnings of their texts count; use a model with a longer window, "
                "or a smaller --max-length"
            )
        else:
            yield (
                f"{counts} texts {verb} longer than the encoder's window of {limit} tokens, and "
                "only the beginning counts; use --encoder with a longer window, or a smaller "
                "--max-length"
            )


def spaceless_notes(store: Store) -> Iterator[str]:
    """Warn of texts that the tokenizer cannot split, because they are written without spaces."""
    for name, n in ((store.meta(SPACELESS_KEY) or {}) if store.has_stats() else {}).items():
        if n:
            whose = "people" if name == CONTROL else name
            verb = "is" if n == 1 else "are"
            yield (
                f"warning: {whose}: {n} of {store.total(name, 'n_texts')} texts {verb} in a script "
                "that is written without spaces between words, and the tokenizer splits them into "
                "few tokens: their lengths and distances of n-grams are not comparable; leave them "
                "out, or name a tokenizer with --tokeniser"
            )


def _rows(
    walk: Iterable[Produced],
    names: Sequence[str],
    scorer: Scorer,
    same_length: Collection[str],
    sums: Sums,
) -> Iterator[StatRow]:
    """Yield the statistics of every input and system; add what is summed over all inputs."""
    for chunk in pages(walk, CHUNK):
        items = scorer.texts(chunk, names)
        sums.count(items)
        if scorer.spaced_language:
            sums.count_spaceless(chunk, scorer.spaced_language)
        scores = scorer.scores(items, names)
        columns = {CONTROL: scores.people, **scores.systems}
        for group in scores.groups:
            ids = [chunk[row].item.id for row in group.rows]
            for system, values in _control_values(group, ids, scorer, names).items():
                variability.place(columns[system], values, group.rows, scorer.probes, len(chunk))
        for group in scores.groups:
            for index, name in enumerate(names):
                _place_tests(columns[name], group, index, items, scorer)
            _add_changes(
                sums.persons, group, [chunk[row].item for row in group.rows], names, scorer
            )
        of_texts = variability.score_values(items, len(names), scorer.probes, scorer.splitting)
        for system, own in zip(columns, of_texts, strict=True):
            columns[system] |= own
        for name in same_length:
            columns[name] |= _at_same_length(items, names.index(name), scorer)
        yield from _chunk_rows(zip(chunk, items, strict=True), columns, scorer)


def _at_same_length(items: Sequence[ScoredTexts], system: int, scorer: Scorer) -> Statistics:
    """Return mean M - mean H of one system on texts cut to the same lengths, per probe."""
    cut = [scorer.of_same_length(item, system) for item in items]
    probes = scorer.cut_probes()
    found = variability.score_blocks(cut, ["cut"], probes, {})
    scores, names = found.systems["cut"], [probe.name for probe in probes]
    columns = {f"{SAME_LENGTH}/{p}": scores[f"mean_M/{p}"] - scores[f"mean_H/{p}"] for p in names}
    for group in found.groups if scorer.testing.n_permutations else ():
        ids = [items[row].item_id for row in group.rows]
        given = group.with_people(0), group.sizes[0], ids, scorer.testing
        p_values = text_inputs.p_values(*given)[text_inputs.P_M]
        values = {f"{P_VALUES}{text_inputs.SAME_LENGTH}": p_values}
        variability.place(columns, values, group.rows, probes, len(items))
    return columns


def _place_tests(
    columns: Statistics,
    group: variability.Group,
    system: int,
    items: Sequence[ScoredTexts],
    scorer: Scorer,
) -> None:
    """Write the p-values of a group of inputs to the columns of one system."""
    if not scorer.testing.n_permutations:
        return
    chosen = [items[row] for row in group.rows]
    given = group.sizes[0], [item.item_id for item in chosen], scorer.testing
    values = text_inputs.p_values(group.with_people(system), *given)
    variability.place(columns, values, group.rows, scorer.probes, len(items))
    texts = [(*item.people, *item.systems[system]) for item in chosen]
    lengths = np.array([scorer.lengths(own) for own in texts], dtype=np.float64)
    column = columns.setdefault(text_inputs.P_LENGTH, np.full(len(items), np.nan))
    column[group.rows] = text_inputs.length_p_values(lengths, *given)


def _chunk_rows(
    chunk: Iterable[tuple[Produced, ScoredTexts]], columns: Mapping[str, Statistics], scorer: Scorer
) -> Iterator[StatRow]:
    """Yield a row for people and one per system that wrote something for the input."""
    listed = {
        system: {name: values.tolist() for name, values in by_name.items()}
        for system, by_name in columns.items()
    }
    for index, (produced, item) in enumerate(chunk):
        originals = {CONTROL: produced.item.references, **produced.systems}
        for system, texts in zip(columns, (item.people, *item.systems), strict=True):
            if system in originals:
                values = {name: numbers[index] for name, numbers in listed[system].items()}
                # The paper's preparation also changes texts in other ways: cuts are not counted.
                whole = texts if scorer.is_paper else originals[system]
                values |= _counts(system, texts, whole, len(item.people))
                sides = {"H": item.people} | ({} if system == CONTROL else {"M": texts})
                values |= {f"length_{m}": _mean_length(side, scorer) for m, side in sides.items()}
                yield StatRow(produced.no, system, 0, values, {})


def _counts(
    system: str, texts: Sequence[str], originals: Sequence[str], n_people: int
) -> dict[str, int]:
    n_texts, n_empty = len(texts), sum(not text.strip() for text in texts)
    n_cut = sum(len(text) < len(whole) for text, whole in zip(texts, originals, strict=True))
    counts = {"n_people": n_people, "n_texts": n_texts, "n_empty": n_empty, "n_cut": n_cut}
    n_pairs = n_texts * (n_texts - 1) // 2
    if system == CONTROL:
        return counts | {"n_pairs_H": n_pairs}
    return counts | {"n_pairs_M": n_pairs, "n_pairs_C": n_texts * n_people}


def _mean_length(texts: Sequence[str], scorer: Scorer) -> float:
    return float(np.mean(scorer.lengths(texts))) if texts else np.nan


def _control_values(
    group: variability.Group, ids: Sequence[str], scorer: Scorer, names: Sequence[str]
) -> dict[str, Statistics]:
    """Return the (probes, inputs) values of the control, and of systems at its sample sizes."""
    shape, n_people = group.distances.shape[:2], group.sizes[0]
    people = {k: v.reshape(shape) for k, v in _people_batch(group, ids, scorer).items()}
    by_system = {CONTROL: _random_pairs(group, ids, scorer.splitting.seed) | people}
    if scorer.is_paper:
        return by_system
    divergences = {"w1": scorer.divergences["w1"]}
    for index, name in enumerate(names):
        if group.sizes[index + 1]:
            inputs = _inputs(group.with_people(index), ids, n_people)
            batch = variability.matched_batch(inputs, divergences, scorer.splitting)
            matched = {f"{k}{MATCHED}": v.reshape(shape) for k, v in batch.items()}
            for side in SIDES:  # the control's W1 on the inputs that have a matched one
                missing = np.isnan(matched[f"w1_{side}{MATCHED}"])
                beside = np.where(missing, np.nan, people[f"w1_{side}"])
                matched[f"w1_{side}{BESIDE_MATCHED}"] = beside
            by_system[name] = matched
    return by_system


def _people_batch(group: variability.Group, ids: Sequence[str], scorer: Scorer) -> Statistics:
    """Compare people with people, for all probes and inputs in one batch."""
    if not scorer.has_control:
        return {}
    if scorer.is_paper:
        batch = variability.paper_batch(variability.flat(group.human()), scorer.divergences)
        # Both sides share one control: its halves are of the same pairs.
        return {f"{name}_{side}": v for name, v in batch.items() for side in SIDES}
    n = group.sizes[0]
    inputs = _inputs(group.distances[:, :, :n, :n], ids, n)
    batch = variability.corrected_batch(inputs, scorer.divergences, scorer.splitting)
    matched = {f"{k}{MATCHED}": v for k, v in batch.items() if k.startswith(("w1_", "dmu_"))}
    return batch | matched


def _inputs(distances: Floats, ids: Sequence[str], n_people: int) -> variability.Inputs:
    """Stack all probes into one batch: the splits of an input are the same for each of them."""
    n_probes, n_inputs, width, _ = distances.shape
    stacked = distances.reshape(n_probes * n_inputs, width, width)
    return variability.Inputs([*ids] * n_probes, stacked, n_people)


def _random_pairs(group: variability.Group, ids: Sequence[str], seed: int) -> Statistics:
    """Return the distance of one pair of people's texts per input, the same for every probe."""
    human = group.human()
    n_pairs = human.shape[2]
    if not n_pairs:
        return {PAIR: np.full(human.shape[:2], np.nan)}
    chosen = [stream(seed, "text-pair", item_id).integers(n_pairs) for item_id in ids]
    return {PAIR: human[:, np.arange(len(chosen)), chosen]}


PERSONS_KEY, WINDOWS_KEY, SPACELESS_KEY = "text persons", "windows", "texts without spaces"
_SIDES = ("mean_H", "mean_C")
"""Statistics whose changes are summed; those of the metrics are linear in them."""
PERSON_METRICS = ("mean_H", "mean_C", "energy", "dmu_M", "dmu_C")


def _add_changes(
    sums: PersonSums, group: Group, people: Sequence[TextItem], names: Sequence[str], scorer: Scorer
) -> None:
    """Add how mean H and mean C of some inputs change without each person, if persons are known."""
    if people[0].persons is None:
        return
    for system, changes in _of_systems(group, names):
        for p, probe in enumerate(scorer.probes):
            for item, own in zip(people, changes[p], strict=True):
                if item.persons is not None:
                    sums.add(f"{system}/{probe.name}", item.group, item.persons, own)


def _of_systems(group: Group, names: Sequence[str]) -> Iterator[tuple[str, Floats]]:
    """Yield the control and each system with (probes, inputs, persons, sides) changes."""
    n = group.sizes[0]
    human = _without_each_pair(group.distances[:, :, :n, :n])
    yield CONTROL, np.stack([human, np.zeros_like(human)], axis=-1)
    for index, name in enumerate(names):
        if m := group.sizes[index + 1]:
            grid = group.with_people(index)[:, :, n : n + m, :n]
            yield name, np.stack([human, _without_each_column(grid)], axis=-1)


def _without_each_pair(square: Floats) -> Floats:
    """How the mean over pairs changes without each text; relative to the mean change."""
    n = square.shape[-1]
    values = np.where(np.eye(n, dtype=bool), np.nan, square)
    totals, counts = np.nansum(values, axis=-1), np.isfinite(values).sum(axis=-1)
    # Every pair is in the rows of both of its texts.
    total, count = (part.sum(axis=-1, keepdims=True) / 2 for part in (totals, counts))
    return _centred(total - totals, count - counts)


def _without_each_column(grid: Floats) -> Floats:
    """How the mean of a grid changes without each column; relative to the mean change."""
    totals, counts = np.nansum(grid, axis=-2), np.isfinite(grid).sum(axis=-2)
    total, count = (part.sum(axis=-1, keepdims=True) for part in (totals, counts))
    return _centred(total - totals, count - counts)


def _centred(totals: Floats, counts: Floats) -> Floats:
    """Means minus their mean; all 0 if one of them is undefined."""
    with np.errstate(divide="ignore", invalid="ignore"):
        means = totals / counts
    changes: Floats = means - means.mean(axis=-1, keepdims=True)
    return np.where(np.isfinite(changes), changes, 0.0)


def saved_changes(store: Store, interval: str) -> Mapping[str, Floats]:
    """Return system/probe -> (groups, persons, sides) changes, for intervals that can use them."""
    facts = store.meta(PERSONS_KEY) if interval in ("auto", "t") else None
    try:
        return {key: read_changes(own, len(_SIDES)) for key, own in (facts or {}).items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedRowError(str(error)) from None


def covering_persons(
    estimate: Estimate, system: str, metric: str, sums: GroupSums, saved: Mapping[str, Floats]
) -> Estimate:
    """The estimate with an interval over groups and persons, if persons are known."""
    statistic, _, probe = metric.partition("/")
    changes = saved.get(f"{system}/{probe}")
    # Differences of the control compare people with people.
    if changes is None or statistic not in (("mean_H",) if system == CONTROL else PERSON_METRICS):
        return estimate
    weights = Weights.of(statistic)
    value = weights.human * changes[..., 0] + weights.cross * changes[..., 1]
    # The columns of a mean are the value and a count, which does not change.
    cells = np.stack([value, np.zeros_like(value)], axis=-1)
    return covering_cells(estimate, sums, Mean(metric), cells)


def person_notes(store: Store) -> Iterator[str]:
    """Note what the intervals of a run with persons cover."""
    if store.has_stats() and store.meta(PERSONS_KEY):
        yield (
            "texts have persons: intervals of mean H, mean C, energy and differences of means are "
            "over groups and persons (with --interval auto or t); all others are over groups"
        )
