"""ARD regression: predictors, posterior intervals, Rubin's rules."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from sklearn.linear_model import ARDRegression

from aleatoric.errors import UsageError
from aleatoric.studies import ard
from aleatoric.studies.figure_data import Boxes, Coefficients, Scatter
from aleatoric.types import Case


def nouns(context: str, words: Sequence[str]) -> list[str]:
    return ["NOUN"] * len(words)


@pytest.mark.parametrize(
    ("context", "tag"),
    [
        ("They saw the dog", "NOUN"),
        ("They saw the dog,", "."),
        ('They saw the "dog"', "."),
        ("They saw it. ", "."),
        ("They", "NOUN"),
        ("", "X"),
    ],
)
def test_trailing_punctuation_is_the_last_token(context: str, tag: str) -> None:
    assert ard.last_tag(context, nouns) == tag


def test_intervals_are_posterior_not_prior() -> None:
    rng = np.random.default_rng(1)
    features = rng.normal(size=(300, 4))
    target = features @ np.array([0.5, 0.2, 0.0, 0.0]) + rng.normal(size=300)
    found = ard.fit(features, target)
    model = ARDRegression().fit(features, target)
    assert found.variances[found.kept] == pytest.approx(np.diag(model.sigma_))
    # With little shrinkage this is the standard error of least squares.
    least_squares = 1 / (model.alpha_ * 300)
    assert found.variances[0] == pytest.approx(least_squares, rel=0.2)


def test_constant_predictor_is_excluded_and_named(flat_model: list[Case]) -> None:
    """Every last word is a noun here: no tag varies, and none is "kept"."""
    study = ard.run(flat_model, seed=0, tagger=nouns)
    figure = study.figures["fig3_coefficients"]
    assert isinstance(figure, Coefficients)
    assert not {"NUM", "NOUN", "punctuation"} & set(figure.names)
    assert {"human entropy", "model entropy", ard.ORACLE} == set(figure.names)
    rows = {row[0]: row[1:] for row in study.tables[0].rows}
    assert rows["NUM"] == rows["NOUN"] == ("–", "–", "–", "0.000", "constant")
    assert "/" in rows["model entropy"][-1]
    (note,) = (note for note in study.tables[0].notes if note.startswith("constant:"))
    assert "context length, punctuation, ADJ" in note


def test_constant_predictors_do_not_change_coefficients() -> None:
    rng = np.random.default_rng(2)
    features, target = rng.normal(size=(60, 2)), rng.normal(size=60)
    table = np.column_stack([features, np.full(60, 0.1)])
    own = ard._fit_varying(table, np.array([*features.std(axis=0), 0.0]), target)
    alone = ard.fit((features - features.mean(axis=0)) / features.std(axis=0), target)
    assert own.values == pytest.approx([*alone.values, 0.0], abs=1e-9)
    assert own.kept.tolist() == [*alone.kept.tolist(), False]
    with pytest.raises(UsageError, match="varies over contexts"):
        ard._fit_varying(table, np.zeros(3), target)


def test_rubins_rules_add_between_split_variance() -> None:
    kept = np.array([True])
    fits = [ard.ArdFit(np.array([v]), np.array([0.01]), kept, 0.5) for v in (0.1, 0.3)]
    (found,) = ard.combine(fits, ["x"], np.array([2.0]))
    error = 1.959964 * np.sqrt(0.01 + 1.5 * 0.02)
    assert (found.value, found.kept) == (pytest.approx(0.2), 2)
    assert (found.low, found.high) == (pytest.approx(0.2 - error), pytest.approx(0.2 + error))


def test_predictors_are_in_order_of_the_paper(flat_model: list[Case]) -> None:
    study = ard.run(flat_model, seed=0, tagger=nouns)
    names = [row[0] for row in study.tables[0].rows]
    assert names[:5] == [*ard.NUMBERS, "punctuation"]
    assert names[5:] == list(ard.POS)
    assert {"fig6_oracle_tvd", "fig7_context_length", "fig8_human_entropy"} < set(study.figures)
    assert isinstance(study.figures["fig9_model_entropy"], Scatter)
    boxes = study.figures["fig10_tags"]
    assert isinstance(boxes, Boxes)
    assert list(boxes.values) == ["NOUN"]
    assert len(boxes.values["NOUN"]) == len(flat_model)


def test_too_few_contexts_are_rejected(flat_model: list[Case]) -> None:
    with pytest.raises(UsageError, match="more contexts than"):
        ard.run(flat_model[:15], seed=0, tagger=nouns)
