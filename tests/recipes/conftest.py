"""Fixture: a toy language pair where every German word has one English word, in the same order."""

from __future__ import annotations

import pytest
from multi30k.data import TranslationData, prepare
from multi30k.model import Shape

from aleatoric.rng import stream
from aleatoric.types import SentencePair

NOUNS = {"hund": "dog", "mann": "man", "frau": "woman", "ball": "ball", "haus": "house"}
VERBS = {"läuft": "runs", "springt": "jumps", "sitzt": "sits", "steht": "stands"}
ENDS = {"hier": "here", "dort": "there", "draußen": "outside", "": ""}


def toy_pairs(count: int, seed: int) -> list[SentencePair]:
    rng = stream(seed, "toy")
    pairs = []
    for number in range(count):
        words = [list(group.items())[rng.integers(len(group))] for group in (NOUNS, VERBS, ENDS)]
        german, english = (" ".join(word[side] for word in words).strip() for side in (0, 1))
        pairs.append(SentencePair(str(number + 1), f"Ein {german}.", f"A {english}."))
    return pairs


@pytest.fixture(scope="session")
def recipe_packages() -> None:
    """Skip if the tokenization packages are not installed."""
    for package in ("sacremoses", "subword_nmt"):
        pytest.importorskip(package, reason="pip install -r recipes/multi30k/requirements.txt")


@pytest.fixture(scope="session")
def toy_data(recipe_packages: None) -> TranslationData:
    return prepare(toy_pairs(300, 1), toy_pairs(40, 2), toy_pairs(20, 3), merges=40)


@pytest.fixture(scope="session")
def small() -> Shape:
    return Shape(layers=1, width=32, heads=2, ffn=64, dropout=0.1)
