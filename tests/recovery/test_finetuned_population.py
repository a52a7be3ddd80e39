"""A tiny model trained on people with a known truth: soft labels recover it, text does not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from tuned_lms import WORDS, population, truth, words_lm

from aleatoric.models.hf import HFModel
from aleatoric.nextword.exact import Search, exact
from aleatoric.nextword.vocabulary import Vocabulary
from aleatoric.tuning.losses import question_of, word_tree
from aleatoric.tuning.recipe import FinetuneJob, assign, make_folds, passages_of
from aleatoric.tuning.training import make_tunable, train_fold
from aleatoric.types import Item

EPOCHS = 20


@pytest.mark.long
def test_soft_labels_recover_known_distribution_better_than_text(
    tmp_path: Path,
) -> None:
    lm = words_lm(layers=1)
    vocabulary = Vocabulary(lm.pieces)
    passages = passages_of(population(passages=24, length=10))
    fold = make_folds(passages, assign([p.group for p in passages], "paper", 5, 4, 0))[0]
    held_out = [item for passage in fold.held_out for item in passage.items]
    trees = {p.group: word_tree(lm, p.items, vocabulary) for p in passages}
    model = make_tunable(lm, "all")
    before = excess(lm, held_out)
    after = {}
    for loss in ("human", "text"):
        how = {"train": "all", "rate": 1e-2, "batch": 2, "epochs": EPOCHS, "schedule": "cosine"}
        job = FinetuneJob("people", losses=(loss,), **how)
        own = trees if loss == "human" else {}
        train_fold(model, fold, job, own, tmp_path / loss)
        after[loss] = excess(lm, held_out)
    print(before, after)
    assert after["human"] <= 0.2 * before
    assert after["text"] >= after["human"]


def excess(lm: HFModel, items: Sequence[Item]) -> float:
    """The model's mean distance from people, above that of the truth itself."""
    questions = [question_of(item) for item in items]
    with torch.no_grad():
        found = exact(lm, questions, search=Search(tolerance=1e-3))
    gaps = []
    for item, own, question in zip(items, found, questions, strict=True):
        people = dict(zip(question.words, question.weights or (), strict=True))
        perfect = np.abs(truth(item.context) - [people.get(word, 0.0) for word in WORDS]).sum() / 2
        gaps.append(own.tvd(people).value - perfect)
    return float(np.mean(gaps))
