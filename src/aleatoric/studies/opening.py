"""Studies of a saved run: which one, on which system."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from aleatoric import registry
from aleatoric.errors import UsageError
from aleatoric.levels import text, token, word
from aleatoric.levels.base import level_of
from aleatoric.probes.tools import fitting_tagger, language_caveat
from aleatoric.registry import Track, quietly
from aleatoric.runs import Store
from aleatoric.types import Case, Study


def run_study(
    store: Store, name: str, system: str | None = None, track: Track[Any] = quietly
) -> Study:
    """Run the study `name` on a system of a run; on the only one where none is named."""
    level = level_of(store).name
    known = model_systems(store)
    chosen = system or _only_system(store, known)
    if chosen not in known:
        listed = ", ".join(known) or "none"
        raise UsageError(f"{store.path}: has no model {chosen!r} to study; its models: {listed}.")
    if level == "token":
        return _token_study(store, name, chosen)
    kind, of = ("text_analyses", text) if level == "text" else ("analyses", word)
    run = registry.find(kind, name)  # an unknown name shows before anything is read
    cases: Any = of.cases(store, chosen)
    found = list(track(cases, store.n_items, f"{name} of {chosen}"))
    if level == "word":
        return word_study(name, found, store.manifest)
    study: Study = run(found, store.manifest["seed"])
    return study


def word_study(name: str, cases: Sequence[Case], manifest: Mapping[str, Any]) -> Study:
    """A study of words; the regression tags them in the language of the corpus."""
    run = registry.find("analyses", name)
    if name != "ard":
        study: Study = run(cases, manifest["seed"])
        return study
    language = manifest.get("language")
    asked = manifest["tagger"] if "tvd_syn" in manifest["abstractions"] else None
    tagger = fitting_tagger(asked, language)
    kind, _, argument = tagger.partition(":")
    study = run(cases, manifest["seed"], registry.find("taggers", kind)(argument))
    caveat = language_caveat(tagger, language)
    if caveat is None:
        return study
    tables = [replace(one, notes=(*one.notes, f"Caveat: {caveat}.")) for one in study.tables]
    return replace(study, tables=tuple(tables))


def model_systems(store: Store) -> list[str]:
    """The systems of a run that can be studied."""
    if level_of(store).name == "token":
        return token.systems(store)
    if level_of(store).name == "text":
        return text.model_systems(store)
    return word.model_systems(store)


def _token_study(store: Store, name: str, system: str) -> Study:
    run = registry.find("token_analyses", name)
    manifest = store.manifest
    study: Study = run(token.token_table(store, system), manifest["seed"], manifest["bins"])
    return study


def _only_system(store: Store, systems: list[str]) -> str:
    if not systems:
        command = f"aleatoric {level_of(store).name}"
        raise UsageError(f"{store.path}: has no model to study; give --model to {command}.")
    if len(systems) != 1:
        raise UsageError(f"{store.path}: name one system with --system: {', '.join(systems)}.")
    return systems[0]
