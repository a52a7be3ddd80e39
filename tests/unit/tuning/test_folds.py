"""Folds: the paper's, grouped, and user-defined; overlap between folds is rejected."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aleatoric.errors import DataError, UsageError
from aleatoric.tuning.recipe import (
    VALIDATION,
    Fold,
    FoldPassage,
    assign,
    check_no_leak,
    make_folds,
    passages_of,
    read_assignment,
)
from aleatoric.types import Item

TEXT = "There are now rumblings that Apple might soon invade the smart watch space, though it"


def passage(group: str, text: str) -> FoldPassage:
    words = text.split()
    items = [
        Item(f"{group}:{n + 1}", group, " ".join(words[:n]), ("a", "b"), words[n])
        for n in range(1, len(words))
    ]
    return FoldPassage(group, tuple(items))


def provo_like() -> list[FoldPassage]:
    return [passage(str(n), f"The word{n} is of passage{n} alone") for n in range(1, 56)]


def test_paper_folds_have_expected_sizes() -> None:
    passages = provo_like()
    folds = make_folds(passages, assign([p.group for p in passages], "paper", 4, None, 0))
    assert [p.group for p in folds[1].held_out] == [str(n) for n in range(11, 21)]
    assert [p.group for p in folds[1].validation] == [str(n) for n in range(41, 56)]
    assert len(folds[1].train) == 30


@given(st.integers(7, 40), st.integers(2, 4), st.integers(1, 3), st.integers(0, 5))
def test_every_passage_is_held_out_once_or_used_for_validation(
    n: int, folds: int, validation: int, seed: int
) -> None:
    passages = [passage(str(i), f"a b{i} c{i}") for i in range(n)]
    made = make_folds(
        passages, assign([p.group for p in passages], "grouped", folds, validation, seed)
    )
    held_out = [p.group for fold in made for p in fold.held_out]
    validates = [p.group for p in made[0].validation]
    assert sorted([*held_out, *validates]) == sorted(p.group for p in passages)
    assert len(validates) == validation
    for fold in made:
        sides = [{p.group for p in side} for side in (fold.train, fold.validation, fold.held_out)]
        assert sum(map(len, sides)) == len(set.union(*sides)) == n


def test_grouped_split_depends_only_on_seed() -> None:
    groups = [str(n) for n in range(20)]
    assert assign(groups, "grouped", 3, 2, 5) == assign(groups, "grouped", 3, 2, 5)
    assert assign(groups, "grouped", 3, 2, 5) != assign(groups, "grouped", 3, 2, 6)


def test_passage_in_training_and_evaluation_is_rejected() -> None:
    one, two, three = (passage(str(n), f"The word{n} is of passage{n} alone") for n in range(3))
    leaky = Fold(1, (one, two), (three,), (one,))
    with pytest.raises(UsageError, match=r"fold 1 leaks: passage '0' of training .* '0' of eval"):
        check_no_leak(leaky)


@pytest.mark.parametrize(
    "copy",
    [
        TEXT,
        TEXT.upper(),
        TEXT.replace(",", " —"),
        f"Before it: {TEXT}",
        " ".join(TEXT.split()[:-1]),
    ],
)
def test_same_text_under_another_id_is_rejected(copy: str) -> None:
    passages = [
        passage("1", TEXT),
        passage("2", "Quite another text of some length that shares no run of words with it"),
        passage("3", "A third one that only validates and is different from all the others too"),
        passage("4", copy),
    ]
    where: dict[str, int | str] = {"1": 1, "2": 2, "3": VALIDATION, "4": 2}
    with pytest.raises(UsageError, match="leaks: passage '4' of training and passage '1'"):
        make_folds(passages, where)


def test_validation_overlap_with_training_or_test_is_rejected() -> None:
    passages = [passage("1", TEXT), passage("2", "b c"), passage("3", TEXT)]
    with pytest.raises(UsageError, match="of validation and passage '1' of evaluation"):
        make_folds(passages, {"1": 1, "2": 2, "3": VALIDATION})


def test_user_defined_folds_name_every_passage_once(tmp_path: Path) -> None:
    good = tmp_path / "folds.csv"
    good.write_text("group,fold\n1,1\n2,2\n3,validation\n", encoding="utf-8")
    assert read_assignment(good) == {"1": 1, "2": 2, "3": VALIDATION}
    leaky = tmp_path / "leaky.csv"
    leaky.write_text("group,fold\n1,1\n2,2\n1,2\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"leaky.csv, line 4: passage '1' stands in fold 1 and"):
        read_assignment(leaky)
    wrong = tmp_path / "wrong.jsonl"
    wrong.write_text('{"group": "1", "fold": "test"}\n', encoding="utf-8")
    with pytest.raises(DataError, match=r"line 1: fold 'test' is no number"):
        read_assignment(wrong)


@pytest.mark.parametrize(("split", "folds"), [("paper", 9), ("paper", 1), ("random", 2)])
def test_impossible_splits_are_rejected(split: str, folds: int) -> None:
    with pytest.raises(UsageError):
        assign(["a", "b", "c"], split, folds, 1, 0)


@pytest.mark.parametrize("validation", [100, 2, 0, -1])
def test_invalid_validation_size_names_validation_option(validation: int) -> None:
    message = f"--validation {validation} does not fit 3 passages.*; use 1 to 1"
    with pytest.raises(UsageError, match=message):
        assign(["a", "b", "c"], "paper", 2, validation, 0)


def test_passage_without_a_fold_is_rejected() -> None:
    with pytest.raises(UsageError, match="passage 'b' has no fold"):
        make_folds(passages_of([Item("1", "b", "x", ("y",))]), {"a": 1})


def test_text_shared_in_shorter_context_is_rejected() -> None:
    shared = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen"
    longer = [f"{name} " * 40 for name in ("apple", "pear", "plum")]
    items = [
        Item(f"{group}:{place}", group, context.strip(), ("x",))
        for group, own in zip(("a", "b", "c"), longer, strict=True)
        for place, context in enumerate((shared if group != "c" else "short", own))
    ]
    with pytest.raises(UsageError, match="are one text"):
        make_folds(passages_of(items), {"a": 1, "b": 2, "c": VALIDATION})


@pytest.mark.parametrize(
    ("n_groups", "fix"), [(3, "use 2."), (6, "use 2 to 4."), (2, "use a corpus of more passages")]
)
def test_too_many_folds_are_refused_with_what_fits(n_groups: int, fix: str) -> None:
    groups = [f"passage {i}" for i in range(n_groups)]
    with pytest.raises(UsageError) as refusal:
        assign(groups, "grouped", 9, None, 0)
    assert fix in str(refusal.value)
