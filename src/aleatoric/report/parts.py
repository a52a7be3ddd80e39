"""What stands together on a page: runs of one level whose numbers mean the same."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from aleatoric import levels, studies
from aleatoric.comparing import labels_of
from aleatoric.store import Store
from aleatoric.types import Result

_MUST_AGREE = (
    *("choices", "n_splits", "abstractions", "tagger", "embedder", "seed", "protocol"),
    *("tokeniser", "encoder", "bins", "schemes", "classwise", "documents"),
    *("probes", "limit"),
)
"""What of a manifest changes the meaning of a number, beside the corpus and the system."""


@dataclass(frozen=True)
class Member:
    """A model of a run, under a name that no other has on the page."""

    label: str
    store: Store
    system: str


@dataclass(frozen=True)
class Part:
    """Runs of one corpus, measured alike, with their models; controls are those of the first."""

    level: str
    stores: tuple[Store, ...]
    members: tuple[Member, ...]

    @property
    def first(self) -> Store:
        """The run whose controls stand for all."""
        return self.stores[0]

    @property
    def corpus(self) -> str:
        """The corpus that all runs share."""
        name: str = self.first.manifest["corpus"]["name"]
        return name

    @cached_property
    def results(self) -> list[Result]:
        """The controls' results, then every model's under its label: worked out once."""
        found = {store.path: levels.results(store) for store in self.stores}
        models = set(studies.model_systems(self.first))
        controls = [r for r in found[self.first.path] if r.system not in models]
        own = [
            replace(result, system=member.label)
            for member in self.members
            for result in found[member.store.path]
            if result.system == member.system
        ]
        return [*controls, *own]


def parts_of(stores: Sequence[Store]) -> list[Part]:
    """Runs in parts, in the order of each part's first run."""
    grouped: dict[str, list[Store]] = {}
    for store in stores:
        grouped.setdefault(_meaning(store), []).append(store)
    return [part_of(own) for own in grouped.values()]


def part_of(stores: Sequence[Store]) -> Part:
    """Runs that are known to belong together."""
    members = [
        Member(label, store, system)
        for label, (store, system) in labels_of(stores).items()
        if system in studies.model_systems(store)
    ]
    return Part(levels.level_of(stores[0]), tuple(stores), tuple(members))


def _meaning(store: Store) -> str:
    manifest = store.manifest
    shared = [manifest.get(name) for name in _MUST_AGREE]
    return json.dumps([manifest["level"], manifest["corpus"]["sha256"], shared], sort_keys=True)
