"""The metrics on plain data: all forms of input agree, and bad input gets one sentence."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import wasserstein_distance

import aleatoric as al

PEOPLE = {"many": 20, "some": 3, "two": 2}
MODEL = {"many": 310, "no": 120, "two": 95}


def answers(counts: dict[str, int]) -> list[str]:
    return [word for word, count in counts.items() for _ in range(count)]


def naive(people: dict[str, int], model: dict[str, int]) -> tuple[float, float, float]:
    """H, M and C by enumeration of all pairs."""

    def pairs(given: list[str]) -> float:
        equal = [a == b for i, a in enumerate(given) for j, b in enumerate(given) if i != j]
        return float(np.mean(equal))

    left, right = answers(people), answers(model)
    cross = float(np.mean([a == b for a in left for b in right]))
    return pairs(left), pairs(right), cross


def test_agreements_are_those_of_all_pairs() -> None:
    human, model, cross = naive(PEOPLE, MODEL)
    found = al.agreement(PEOPLE, MODEL)
    assert (found.human, found.model, found.cross) == pytest.approx((human, model, cross))
    assert al.overlap(PEOPLE, MODEL) == pytest.approx(2 * cross / (human + model))
    assert al.sq_distance(PEOPLE, MODEL) == pytest.approx(human + model - 2 * cross)


@pytest.mark.parametrize("metric", ["overlap", "sq_distance", "tvd", "tvd_debiased"])
def test_all_forms_of_counts_give_the_same_value(metric: str) -> None:
    function = getattr(al, metric)
    support = [*dict.fromkeys([*PEOPLE, *MODEL])]
    tables = [[side.get(word, 0) for word in support] for side in (PEOPLE, MODEL)]
    wanted = function(PEOPLE, MODEL)
    forms = [
        (Counter(PEOPLE), Counter(MODEL)),
        (answers(PEOPLE), tuple(answers(MODEL))),
        (np.array(answers(PEOPLE)), MODEL),
        (tables[0], np.array(tables[1])),
        ([PEOPLE, PEOPLE], [MODEL, MODEL]),
    ]
    for people, model in forms:
        assert function(people, model) == pytest.approx(wanted, abs=1e-12)


def test_tensors_and_pandas_columns_are_taken() -> None:
    torch = pytest.importorskip("torch")
    pandas = pytest.importorskip("pandas")
    p, q = [0.5, 0.25, 0.25], [0.25, 0.25, 0.5]
    assert al.tvd(torch.tensor(p, dtype=torch.bfloat16), torch.tensor(q)) == 0.25
    assert al.tvd(pandas.Series(p), pandas.Series(q)) == 0.25
    column = pandas.Series(answers(PEOPLE))
    assert al.tvd(column, column.value_counts()) == 0.0
    assert al.ece(pandas.Series([0.75, 0.75]), torch.tensor([True, False])) == 0.25


def test_numbers_of_a_repeated_label_are_added() -> None:
    pandas = pytest.importorskip("pandas")
    halves = [Counter(answers(PEOPLE)[i::2]) for i in (0, 1)]
    column = pandas.concat([pandas.Series(half) for half in halves])
    assert column.index.has_duplicates
    assert al.overlap(column, MODEL) == al.overlap(PEOPLE, MODEL)
    assert al.overlap(column.astype("Int8") * 7, MODEL) == al.overlap(column * 7, MODEL)
    shares = column.astype("Float64") / column.sum()
    assert al.tvd(shares, column) == pytest.approx(0.0, abs=1e-12)


def test_agreements_of_several_items_are_means() -> None:
    found = al.agreement([PEOPLE, {"a": 2}], [MODEL, {"a": 1, "b": 1}])
    each = naive(PEOPLE, MODEL), naive({"a": 2}, {"a": 1, "b": 1})
    assert (found.human, found.model, found.cross) == pytest.approx(np.mean(each, axis=0))


def test_fractions_and_decimals_are_probabilities() -> None:
    thirds = {"a": Fraction(1, 3), "b": Fraction(2, 3)}
    assert al.tvd(thirds, {"a": Decimal("0.25"), "b": Decimal("0.75")}) == pytest.approx(1 / 12)


@pytest.mark.parametrize("bins", [10, 15, 40])
def test_confidences_on_an_edge_belong_to_the_upper_bin(bins: int) -> None:
    # Exact arithmetic: every multiple of 1/bins is on the lower edge of its own bin.
    rng = np.random.default_rng(bins)
    steps, right = rng.integers(0, bins, 300), rng.integers(0, 2, 300)
    by_bin = [
        sum(Fraction(int(k), bins) - int(y) for k, y in zip(steps, right, strict=True) if k == j)
        for j in range(bins)
    ]
    wanted = float(sum(map(abs, by_bin)) / 300)
    assert al.ece(steps / bins, right, bins) == pytest.approx(wanted, abs=1e-12)


def test_energy_needs_the_language_of_a_script_without_spaces() -> None:
    pytest.importorskip("spacy")
    people, model = ["我爱你", "我恨你"], ["他爱我", "他恨我"]
    with pytest.raises(al.ArgumentError, match="without spaces between words; state"):
        al.energy(people, model)
    assert al.energy(people, model, language="zh") > 0
    assert al.energy(["a cat", "a dog"], ["b", "b"], language="en-GB") == 1.5


def test_e_ece_is_that_of_the_stream() -> None:
    rng = np.random.default_rng(3)
    probs, targets = rng.dirichlet([0.3] * 7, 200), rng.integers(0, 7, 200)
    for scheme, metric in (("ancestral", "e_ece"), ("top_p=0.8", "e_ece_p")):
        stream = al.CalibrationStream(vocabulary_size=7, units="logprobs", schemes=[scheme])
        stream.update(np.log(probs), targets, "all")
        wanted = stream.result().estimates[metric].value
        assert al.e_ece(probs, targets, scheme=scheme) == pytest.approx(wanted, abs=1e-6)


def test_w1_and_energy_are_those_of_the_definition() -> None:
    left, right = [0.1, 0.5, 0.7], [0.2, 0.9]
    assert al.w1(left, right) == pytest.approx(wasserstein_distance(left, right))
    # One word in two is shared by the people; nothing is shared with the model.
    assert al.energy(["a cat", "a dog"], ["the end", "the end"]) == 2 * 1 - 0 - 0.5


BAD: list[tuple[str, tuple[Any, ...], str]] = [
    ("overlap", ("many", MODEL), "people is 'many'"),
    ("overlap", (3, MODEL), "people is 3"),
    ("overlap", ({}, MODEL), "people has no answers"),
    ("overlap", ([], MODEL), "people has no answers; give at least one"),
    ("overlap", (["a"], []), "model has no answers"),
    ("overlap", ({"a": 1}, MODEL), "at least two"),
    ("overlap", ({"a": 1, "b": 1}, {"c": 1, "d": 1}), "undefined"),
    ("overlap", ({"a": -1, "b": 3}, MODEL), "-1 for 'a'"),
    ("overlap", ({"a": float("nan"), "b": 1.0}, MODEL), "nan for 'a'"),
    ("overlap", ({"a": "x"}, MODEL), "'x' for 'a'"),
    ("overlap", ({"a": True}, MODEL), "True for 'a'"),
    ("overlap", ({"a": 0.5, "b": 0.6}, MODEL), "sum to 1.1"),
    ("overlap", (["a", None, "b"], MODEL), "answer 1"),
    ("agreement", (["a", 1, "a"], ["a", "b"]), "answer 1 of people is 1; write answers as strings"),
    ("agreement", (["a", "a"], [b"a", b"a"]), "answer 0 of model is b'a'; give answers as strings"),
    ("overlap", ({"a": 10**18, "b": 1}, MODEL), "whole numbers up to 9007199254740992"),
    ("tvd", (al.Categorical(("a", "a"), (0.5, 0.5)), MODEL), "two answers of people have the same"),
    ("tvd", ({1: 2, "1": 2}, MODEL), "two answers of people have the same"),
    ("tvd", ({"a": 2, float("nan"): 2}, MODEL), "has the answer nan; leave missing answers out"),
    ("overlap", ([0.5, 0.5], MODEL), "array has no names"),
    ("overlap", ([0.5, 0.5], [1.0, 0.0, 0.0]), "2 outcomes of people and 3"),
    ("overlap", ([PEOPLE], [MODEL, MODEL]), "1 items of people and 2"),
    ("overlap", ([PEOPLE], MODEL), "a list for both"),
    ("tvd_debiased", ({"a": 0.5, "b": 0.5}, MODEL), "at least two"),
    ("ece", ([0.5, 1.2], [0, 1]), r"confidence\[1\] is 1.2"),
    ("ece", ([0.5, float("nan")], [0, 1]), r"confidence\[1\] is nan"),
    ("ece", ([0.5], [0, 1]), "1 confidences and 2"),
    ("ece", ([], []), "not empty"),
    ("ece", (["a"], [1]), "array of numbers"),
    ("ece", ([0.5], [1], 0), "bins is 0"),
    ("e_ece", ([[0.5, 0.6]], [0]), "row 0 of probs sums to 1.1"),
    ("e_ece", ([[2.0, -1.0]], [0]), "negative"),
    ("e_ece", ([[0.5, 0.5]], [2]), "target 0 is 2"),
    ("e_ece", ([[0.5, 0.5]], [0.5]), r"targets\[0\] is 0.5"),
    ("e_ece", ([0.5, 0.5], [0]), "shape"),
    ("w1", ([], [1.0]), "not empty"),
    ("energy", (["a"], ["b", "c"]), "people has 1 texts"),
    ("energy", ("ab", ["b", "c"]), "list of texts"),
    ("energy", (["a", "b"], ["b", "c"], "foo"), "no probe 'foo'; use lexical-1, lexical-2"),
    ("energy", (["a", "b"], ["b", "c"], "lexical-1", "english"), "not a language code"),
    ("word_probabilities", ("smollm2", "There", "many"), "list of words"),
    ("word", ("people.jsonl", "toy", None), "no such file"),
    ("compare", (), "nothing to compare"),
]


@pytest.mark.parametrize(("name", "arguments", "message"), BAD)
def test_a_bad_call_gives_one_sentence(name: str, arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(al.AleatoricError, match=message) as caught:
        getattr(al, name)(*arguments)
    text = str(caught.value)
    assert "\n" not in text
    assert text.endswith((".", "?"))


def test_frames_bytes_sets_and_huge_counts_are_rejected() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"word": ["a", "b"], "n": [8, 2]})
    for value in (frame, b"abc", {"a", "b"}):
        with pytest.raises(al.ArgumentError, match="is no distribution"):
            al.tvd(value, value)
    with pytest.raises(al.ArgumentError, match="use counts"):
        al.overlap({"a": 10**400, "b": 2}, {"a": 2})
    column = pandas.Series([1, None, 3], index=["a", "b", "b"], dtype="Int64")
    with pytest.raises(al.ArgumentError, match="people has nan for 'b'"):
        al.agreement(column, {"a": 2})
    with pytest.raises(al.ArgumentError, match="bins is"):
        al.ece([0.5], [1], bins=10**9)
