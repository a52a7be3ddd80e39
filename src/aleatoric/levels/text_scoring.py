"""How the texts of a run become statistics: some inputs at a time, so that memory stays flat."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from aleatoric import registry
from aleatoric.levels import text_variability
from aleatoric.levels.text_protocol import (
    Preparation,
    common_lengths,
    cut_to,
    is_dialogue,
    preparation,
)
from aleatoric.levels.text_variability import (
    Group,
    Inputs,
    ScoredTexts,
    Scores,
    Splitting,
    paper_people,
    score_blocks,
)
from aleatoric.metrics.distances import Divergence
from aleatoric.probes.base import Probe, check_allowed_probes
from aleatoric.probes.opening import probes_with
from aleatoric.probes.tools import TextReader, Tools
from aleatoric.registry import Track
from aleatoric.rng import stream
from aleatoric.runs import Store
from aleatoric.runs.formats import StatRow
from aleatoric.runs.run import EmbeddingCache, Produced, StoredTexts
from aleatoric.types import Floats

__all__ = [
    "BESIDE_MATCHED",
    "CONTROL",
    "PAIR",
    "SAME_LENGTH",
    "UNDEFINED",
    "Distances",
    "Scorer",
    "metric_names",
    "statistics",
    "undefined_pairs",
]

CONTROL = "control"
PAIR = "pair_H"
"""The distance between two people's texts drawn at random, one pair an input: for pictures."""
CHUNK = 128
SIDES = ("M", "C")
DIVERGENCES = ("w1", "ks")
COUNTS = ("n_people", "n_texts", "n_empty", "n_cut")
LENGTHS = ("length_H", "length_M")
"""Mean lengths of an input's texts as they are compared, in tokens: people's and a system's."""
SAME_LENGTH = "dmu_M_same_length"
"""Mean M - mean H on texts of both sides cut to the same lengths, where lengths differ."""
PAIRS = ("n_pairs_H", "n_pairs_M", "n_pairs_C")
UNDEFINED = "undefined_"
"""Before H, M or C: how many of an input's distances are undefined."""
PAPER_TOKENISER = "spacy:en"
A_LONG_TEXT = "word " * 200
MATCHED = "_matched"
BESIDE_MATCHED = "_control"
"""The control's value on the inputs that have a matched one."""
Values = dict[str, Floats]
"""Statistic -> its values: (probes, inputs)."""


@dataclass(frozen=True)
class Distances:
    """The distances of one input: among people's texts, each system's, and between both."""

    human: Floats
    own: Mapping[str, Floats]
    cross: Mapping[str, Floats]


@dataclass(frozen=True)
class Scorer:
    """Everything that a run's manifest asks of scoring."""

    probes: tuple[Probe, ...]
    prepare: Preparation
    divergences: Mapping[str, Divergence]
    splitting: Splitting
    protocol: str
    reader: TextReader
    """Cuts texts into tokens, of which lengths are counted."""
    has_control: bool = True
    """Whether people are compared with people: the paper does not do so for dialogue."""

    @classmethod
    def of(
        cls, manifest: Mapping[str, Any], said: Collection[str], store: Store | None = None
    ) -> Scorer:
        """What a manifest asks for; refuses what is not there. Embeddings are kept in `store`.

        Of probes that are code only those are opened that are `said`.
        """
        check_allowed_probes(
            manifest["probes"], said, "the run" if store is None else str(store.path)
        )
        as_published = manifest["protocol"] == "paper"
        tools = Tools(
            # The authors read German with English tools too.
            "en" if as_published else manifest["language"],
            manifest["tokeniser"] or (PAPER_TOKENISER if as_published else None),
            manifest["tagger"],
            manifest["encoder"],
            None if store is None else EmbeddingCache(store),
        )
        opened, reader = probes_with(tools, manifest["probes"]), tools.length_reader()
        # Runs of older versions did not cut texts.
        length, corpus = manifest.get("max_length", 0), manifest["corpus"]["name"]
        prepare = preparation(manifest["protocol"], corpus, reader, length)
        prepare.systems([A_LONG_TEXT])  # what cuts texts must be there before they are written
        return cls(
            prepare.probes(opened),
            prepare,
            {name: registry.find("divergences", name) for name in DIVERGENCES},
            Splitting(manifest["seed"], manifest["n_splits"]),
            manifest["protocol"],
            reader,
            not (as_published and store is not None and _holds_dialogues(store, corpus)),
        )

    @property
    def is_paper(self) -> bool:
        """Whether the published procedure is followed."""
        return self.protocol == "paper"

    def facts(self) -> dict[str, dict[str, str]]:
        """Probe -> what changes its distances, for signatures."""
        return {p.name: {**self.prepare.facts, **p.facts} for p in self.probes}

    def texts(self, chunk: Sequence[Produced], names: Sequence[str]) -> list[ScoredTexts]:
        """The prepared texts of some inputs; a system that wrote nothing to one has none there."""
        if not self.is_paper:
            self.reader.remember(text for found in chunk for text in _every_text(found))
        items = [
            ScoredTexts(
                found.item.id,
                self.prepare.people(found.item.references),
                tuple(self.prepare.systems(found.systems.get(name, ())) for name in names),
            )
            for found in chunk
        ]
        self.reader.remember(text for item in items for text in item.block().texts)
        return items

    def lengths(self, texts: Sequence[str]) -> list[int]:
        """How many tokens each text has."""
        tokens = self.reader.tokens(texts)
        return [len(tokens[text]) for text in texts]

    def of_same_length(self, item: ScoredTexts, place: int) -> ScoredTexts:
        """People's texts and one system's, cut to the same lengths."""
        own = item.systems[place]
        people_limits, own_limits = common_lengths(self.lengths(item.people), self.lengths(own))
        people, system = self._cut(item.people, people_limits), self._cut(own, own_limits)
        return ScoredTexts(item.item_id, people, (system,))

    def _cut(self, texts: Sequence[str], limits: Sequence[int]) -> tuple[str, ...]:
        tokens = self.reader.tokens(texts)
        pairs = zip(texts, limits, strict=True)
        return tuple(cut_to(text, tokens[text], most) for text, most in pairs)

    def scores(self, items: Sequence[ScoredTexts], names: Sequence[str]) -> Scores:
        """The statistics of some inputs, by the protocol's idea of people."""
        stands = paper_people if self.is_paper and self.has_control else _as_they_are
        return score_blocks(items, names, self.probes, self.divergences, stands)


def metric_names(columns: Iterable[str]) -> list[str]:
    """The columns that are metrics: the shown statistics of a probe, and lengths.

    >>> metric_names(["w1_M/lexical-1", "pair_H/semantic", "n_texts", "length_H"])
    ['w1_M/lexical-1', 'length_H']
    """
    # Runs of older versions have columns of floors.
    others = (f"{PAIR}/", "floor_", UNDEFINED)
    return [c for c in columns if c in LENGTHS or ("/" in c and not c.startswith(others))]


def statistics(
    store: Store, scorer: Scorer, track: Track[Any], same_length: Collection[str] = ()
) -> tuple[list[str], Iterator[StatRow]]:
    """The columns of a run's statistics and their rows, one per input and system.

    The systems in `same_length` are also compared with people on texts cut to the same lengths.
    """
    names = [name for name in store.systems() if name != CONTROL]
    statistics = [*statistic_names(scorer.protocol), *([SAME_LENGTH] if same_length else ())]
    columns = [f"{name}/{p.name}" for name in statistics for p in scorer.probes]
    walk = track(StoredTexts(store).walk(), store.n_items, "score")
    return [*columns, *LENGTHS, *COUNTS, *PAIRS], _rows(iter(walk), names, scorer, same_length)


def undefined_pairs(store: Store, system: str, part: str) -> list[str]:
    """By probe, how many of how many pairs of a part have no distance, where there are such.

    A run that an older version has scored counts none.
    """
    before = f"{UNDEFINED}{part}/"
    columns = [c for c in store.stat_columns() if c.startswith(before)]
    counts = {column: store.total(system, column) for column in columns}
    of = store.total(system, f"n_pairs_{part}") if any(counts.values()) else 0
    return [f"{n} of {of} by {c.removeprefix(before)}" for c, n in counts.items() if n]


def statistic_names(protocol: str) -> list[str]:
    """The statistics of a probe, in the order in which they are shown.

    >>> statistic_names("paper")[:6]
    ['energy', 'mean_H', 'mean_M', 'mean_C', 'dmu_M', 'dmu_C']
    """
    compared = [f"{name}_{side}" for name in ("dmu", *DIVERGENCES) for side in SIDES]
    names = ["energy", "mean_H", "mean_M", "mean_C", *compared]
    undefined = [f"{UNDEFINED}{side}" for side in ("H", *SIDES)]
    if protocol == "paper":
        return [*names, PAIR, *undefined]
    matched = [f"{name}_{side}{MATCHED}" for name in ("w1", "dmu") for side in SIDES]
    beside = [f"w1_{side}{BESIDE_MATCHED}" for side in SIDES]
    return [*names, *matched, *beside, PAIR, *undefined]


def distances_of(found: Produced, scorer: Scorer) -> dict[str, Distances]:
    """Probe -> the distances of one input."""
    names = list(found.systems)
    (group,) = scorer.scores(scorer.texts([found], names), names).groups
    human = group.human()
    sides = [(name, group.model(i), group.cross(i)) for i, name in enumerate(names)]
    return {
        probe.name: Distances(
            human[p, 0],
            {name: own[p, 0] for name, own, _ in sides},
            {name: cross[p, 0] for name, _, cross in sides},
        )
        for p, probe in enumerate(scorer.probes)
    }


def _rows(
    walk: Iterator[Produced], names: Sequence[str], scorer: Scorer, same_length: Collection[str]
) -> Iterator[StatRow]:
    while chunk := list(islice(walk, CHUNK)):
        items = scorer.texts(chunk, names)
        scores = scorer.scores(items, names)
        columns = {name: {**scores.systems[name], **_undefined(scores, name)} for name in names}
        columns[CONTROL] = {**scores.people, **_undefined(scores, "")}
        for group in scores.groups:
            own = Beside(group, [chunk[row].item.id for row in group.rows], scorer)
            for system, values in own.values(names).items():
                _place(columns[system], values, group, scorer, len(chunk))
        for name in same_length:
            columns[name] |= _at_same_length(items, names.index(name), scorer)
        yield from _chunk_rows(chunk, items, names, columns, scorer)


def _at_same_length(items: Sequence[ScoredTexts], place: int, scorer: Scorer) -> dict[str, Floats]:
    """Mean M - mean H of one system on texts cut to the same lengths, by probe."""
    cut = [scorer.of_same_length(item, place) for item in items]
    found = score_blocks(cut, ["cut"], scorer.probes, {}).systems["cut"]
    return {
        f"{SAME_LENGTH}/{p.name}": found[f"mean_M/{p.name}"] - found[f"mean_H/{p.name}"]
        for p in scorer.probes
    }


def _every_text(found: Produced) -> Iterator[str]:
    yield from found.item.references
    for texts in found.systems.values():
        yield from texts


def _holds_dialogues(store: Store, corpus: str) -> bool:
    return is_dialogue(corpus, (found.item for found in StoredTexts(store).walk()))


def _undefined(scores: Scores, system: str) -> dict[str, Floats]:
    """How many distances of each input are undefined, by part and probe."""
    found = scores.undefined.get(system, {})
    return {f"{UNDEFINED}{part}": counts.astype(np.float64) for part, counts in found.items()}


def _place(
    columns: dict[str, Floats], values: Values, group: Group, scorer: Scorer, n_items: int
) -> None:
    """Put a group's values where its inputs stand in the chunk."""
    for statistic, own in values.items():
        for probe, row in zip(scorer.probes, own, strict=True):
            key = f"{statistic}/{probe.name}"
            columns.setdefault(key, np.full(n_items, np.nan))[group.rows] = row


def _chunk_rows(
    chunk: Sequence[Produced],
    items: Sequence[ScoredTexts],
    names: Sequence[str],
    columns: Mapping[str, Mapping[str, Floats]],
    scorer: Scorer,
) -> Iterator[StatRow]:
    """A row for people and one for each system that wrote something to the input."""
    listed = {
        system: {name: values.tolist() for name, values in own.items()}
        for system, own in columns.items()
    }
    for place, (found, item) in enumerate(zip(chunk, items, strict=True)):
        texts = {CONTROL: item.people} | dict(zip(names, item.systems, strict=True))
        for system, own in texts.items():
            if system == CONTROL or system in found.systems:
                values = {name: numbers[place] for name, numbers in listed[system].items()}
                whole = found.item.references if system == CONTROL else found.systems[system]
                # The paper's preparation changes texts in other ways too: nothing is counted.
                values |= _counted(own, own if scorer.is_paper else whole, len(item.people))
                values |= _paired(system, len(own), len(item.people))
                values["length_H"] = _mean_length(item.people, scorer)
                if system != CONTROL:
                    values["length_M"] = _mean_length(own, scorer)
                yield StatRow(found.no, system, 0, values, {})


def _counted(texts: Sequence[str], whole: Sequence[str], n_people: int) -> dict[str, float]:
    """How many texts there are, how many hold nothing, and how many are shorter than written."""
    empty = sum(not text.strip() for text in texts)
    cut = sum(len(text) < len(before) for text, before in zip(texts, whole, strict=True))
    return {"n_people": n_people, "n_texts": len(texts), "n_empty": empty, "n_cut": cut}


def _mean_length(texts: Sequence[str], scorer: Scorer) -> float:
    return float(np.mean(scorer.lengths(texts))) if texts else np.nan


def _paired(system: str, n_texts: int, n_people: int) -> dict[str, float]:
    """How many pairs of texts there are: people's, or a system's own and those with people's."""
    own = n_texts * (n_texts - 1) // 2
    if system == CONTROL:
        return {"n_pairs_H": own}
    return {"n_pairs_M": own, "n_pairs_C": n_texts * n_people}


@dataclass(frozen=True)
class Beside:
    """What the systems of inputs of one shape are to be compared with: the human control."""

    group: Group
    ids: Sequence[str]
    scorer: Scorer

    def values(self, names: Sequence[str]) -> dict[str, Values]:
        """System -> statistics, the control's first."""
        people = self._control()
        found = {CONTROL: self._pairs() | people}
        if not self.scorer.is_paper:
            systems = {name: self._system(i) for i, name in enumerate(names)}
            found |= {name: own | _beside_matched(own, people) for name, own in systems.items()}
        return found

    def _control(self) -> Values:
        """People against people."""
        scorer = self.scorer
        if not scorer.has_control:
            return {}
        if scorer.is_paper:
            human = self.group.human()
            n_rows = human.shape[0] * human.shape[1]
            flat = human.reshape(n_rows, human.shape[2])
            found = text_variability.paper_batch(flat, scorer.divergences)
            # One control stands for both sides: its halves are of the same pairs.
            return self._shaped({f"{k}_{side}": v for k, v in found.items() for side in SIDES})
        found = text_variability.corrected_batch(
            self._people(), scorer.divergences, scorer.splitting
        )
        alike = {f"{k}{MATCHED}": v for k, v in found.items() if k.startswith(("w1_", "dmu_"))}
        return self._shaped(found | alike)

    def _system(self, place: int) -> Values:
        """A system at the control's numbers of texts."""
        n_people, n_texts = self.group.sizes[0], self.group.sizes[place + 1]
        if not n_texts:
            return {}
        scorer = self.scorer
        own = self._inputs(self.group.with_people(place), n_people)
        of_w1 = {"w1": scorer.divergences["w1"]}
        matched = text_variability.matched_batch(own, of_w1, scorer.splitting)
        return self._shaped({f"{name}{MATCHED}": values for name, values in matched.items()})

    def _people(self) -> Inputs:
        n = self.group.sizes[0]
        return self._inputs(self.group.distances[:, :, :n, :n], n)

    def _inputs(self, distances: Floats, n_people: int) -> Inputs:
        """All probes as one batch: an input's splits are the same for each of them."""
        width = distances.shape[-1]
        ids = [*self.ids] * len(self.scorer.probes)
        return Inputs(ids, distances.reshape(len(ids), width, width), n_people)

    def _shaped(self, found: Mapping[str, Floats]) -> Values:
        shape = self.group.distances.shape[:2]
        return {name: values.reshape(shape) for name, values in found.items()}

    def _pairs(self) -> Values:
        """One pair of people's texts an input, the same for every probe; NaN without any."""
        human = self.group.human()
        n_pairs = human.shape[2]
        if not n_pairs:
            return {PAIR: np.full(human.shape[:2], np.nan)}
        seed = self.scorer.splitting.seed
        chosen = [stream(seed, "text-pair", one).integers(n_pairs) for one in self.ids]
        return {PAIR: human[:, np.arange(len(chosen)), chosen]}


def _beside_matched(system: Values, people: Values) -> Values:
    """The control's W1 where a system has a matched one: means over the same inputs."""
    return {
        f"w1_{side}{BESIDE_MATCHED}": np.where(
            np.isnan(system[f"w1_{side}{MATCHED}"]), np.nan, people[f"w1_{side}"]
        )
        for side in SIDES
        if f"w1_{side}{MATCHED}" in system
    }


def _as_they_are(distances: Floats) -> Floats:
    return distances
