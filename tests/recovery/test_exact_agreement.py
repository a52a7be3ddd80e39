"""M of an unfinished exact search is unbiased: compared with enumerating texts of toy models."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("torch")

from enumerable_lm import EnumerableLM
from prompts import prompt

from aleatoric.nextword.bounds import agreement_bounds, expected_agreement
from aleatoric.nextword.exact import Question, Search
from aleatoric.nextword.head import HeadSearch
from aleatoric.nextword.live import _joined, searches, survey
from aleatoric.nextword.rules import first_word, normalise
from aleatoric.nextword.sampled import mc
from aleatoric.types import Categorical, Exact

PIECES = (b"~", b" a", b"a", b"b", b" ab", b" c", b"\n", b".", b"'b", b" da", b" e", b"-")


def true_words(lm: EnumerableLM, context: str) -> dict[str, float]:
    words: dict[str, float] = defaultdict(float)
    for text, p in lm.texts(lm.encode(context)):
        if (word := first_word(text.decode())) is not None:
            words[normalise(word)] += p
    return {word: p / sum(words.values()) for word, p in words.items()}


def wordless(seed: int, keep_failed: bool) -> tuple[float, float, float]:
    """Errors of the mass without a word, of M, and of the mass that the word search found."""
    context = "~" + f"{seed:08b}".replace("0", "a").replace("1", "b")
    pieces = (b"~", b"a", b"b", b" c", b"\n", b".", b" ", b"?")
    lm = EnumerableLM(pieces, depth=3, seed=seed, sharpness=1.5, context=9)
    true, texts = true_words(lm, context), lm.texts(lm.encode(context))
    failed = sum(p for text, p in texts if first_word(text.decode()) is None)
    own = sum(q * q for q in true.values())
    own = own * (1 - failed) ** 2 + failed**2 if keep_failed else own
    chosen = sorted(true, key=lambda word: -true[word])[:2]
    people = Categorical(tuple(chosen), (0.5, 0.5), 0.0, 4)
    question = Question(context, people.support, people.probs)
    search = Search(0.05, 200, "outcome" if keep_failed else "reject")
    heads = HeadSearch(0.02, "distance", nodes=32, wave=3)
    [(found, top)] = survey(lm, [question], search=search, head_search=heads)
    joined = _joined(people, found, top, keep_failed)
    assert joined is not None
    low, high = joined.bounds["agreement_M"]
    assert low - 1e-9 <= own <= (high or 0.0) + 1e-9
    return joined.failed - failed, (joined.words.agreement or 0.0) - own, found.failed - failed


@pytest.mark.parametrize("keep_failed", [False, True], ids=["reject", "outcome"])
def test_texts_without_a_word_are_counted_where_the_search_ends(keep_failed: bool) -> None:
    errors = np.array([wordless(seed, keep_failed) for seed in range(60)])
    failed, agreement, found = errors.mean(axis=0)
    standard_errors = errors.std(axis=0, ddof=1) / np.sqrt(len(errors))
    assert abs(failed) < 3 * standard_errors[0]
    assert abs(agreement) < 3 * standard_errors[1]
    assert found < -0.02


def of_model(seed: int, search: HeadSearch, window: int) -> tuple[float, float, float, float]:
    """True M, its estimate, the lower bound, and the width of the bounds."""
    # Random numbers depend on the context, so that every model has a context of its own.
    context = "~" + f"{seed:08b}".replace("0", "a").replace("1", "b")
    lm = EnumerableLM(PIECES, depth=3, seed=seed, sharpness=1.5, window=window, context=9)
    true = true_words(lm, context)
    chosen = sorted(true, key=lambda word: -true[word])[1:4]
    human = dict.fromkeys(chosen, 1 / 3)
    question = Question(context, tuple(human), tuple(human.values()))
    [(found, top)] = survey(lm, [question], search=Search(0.0, 2000), head_search=search)
    low, high = agreement_bounds(top.tops, found, human)["M"]
    estimate = expected_agreement(top.tops, found, human, top.open_words)
    assert low - 1e-9 <= estimate <= high + 1e-9
    return sum(q * q for q in true.values()), estimate, low, high - low


@pytest.mark.long
@pytest.mark.parametrize("window", [64, 0], ids=["tree", "plain"])
def test_estimate_of_m_is_unbiased_where_bounds_are_wide(window: int) -> None:
    search = HeadSearch(0.02, "distance", nodes=5, wave=3)
    rows = np.array([of_model(seed, search, window) for seed in range(150)])
    true, estimates, low, width = rows.T
    assert width.mean() > 0.05
    errors, lacks = estimates - true, low - true
    standard_error = errors.std(ddof=1) / np.sqrt(len(errors))
    assert abs(errors.mean()) < 3 * standard_error
    assert lacks.mean() < -10 * standard_error


def test_estimate_depends_on_nothing_but_the_context() -> None:
    lm = EnumerableLM(PIECES, depth=4, seed=1, sharpness=1.5)
    search = Search(0.02, 60), HeadSearch(0.02, "distance", nodes=5, wave=3)
    contexts = ["~", "~ a", "~ ab", "~ c\n"]
    questions = [Question(context, ("a",), (1.0,)) for context in contexts]

    def sampled(asked: list[Question]) -> list[object]:
        found = survey(lm, asked, search=search[0], head_search=search[1])
        return [top.open_words for _, top in found]

    together = sampled(questions)
    assert together == [sampled([question])[0] for question in questions]
    assert together[::-1] == sampled(questions[::-1])
    assert any(half for halves in together for half in halves)


class EndlessLM(EnumerableLM):
    """After a first token that is drawn, the same token follows forever."""

    def next_log_probs(self, path: Sequence[int]) -> NDArray[np.float64]:
        shares = np.zeros(len(self.tokens) + 1)
        if len(path) > self.context:
            shares[path[-1]] = 1.0
        else:
            shares[[1, 2, 3]] = 0.5, 0.3, 0.2
        with np.errstate(divide="ignore"):
            return np.log(shares)


def looked_up(lm: EnumerableLM, words: tuple[str, ...], tolerance: float) -> Exact | None:
    shares = (1 / len(words),) * len(words)
    search, heads = searches(tolerance, every_word=True)
    question = Question("~", words, shares)
    [(found, top)] = survey(lm, [question], search=search, head_search=heads)
    return _joined(Categorical(words, shares, 0.0, len(words)), found, top, keep_failed=False)


def test_endless_words_are_cut_in_samples_and_in_exact_searches() -> None:
    lm = EndlessLM((b"~", b"a", b"b", b"."), positions=256, window=256)
    [drawn] = mc(lm, [prompt("0", "~")], samples=2000)
    assert {word[0]: len(word) for word in drawn.counts} == {"a": 65, "b": 65}
    assert drawn.failed == pytest.approx(400, abs=80)
    joined = looked_up(lm, ("x", "y"), 0.02)
    assert joined is not None
    # a with 0.5 and b with 0.3, of texts that have a word.
    assert joined.words.agreement == pytest.approx((0.5**2 + 0.3**2) / 0.8**2, abs=0.1)
    assert joined.failed == pytest.approx(0.2, abs=0.1)
    low, high = joined.bounds["tvd"]
    assert low <= 1.0 <= (high or 0.0) + 1e-9


def test_context_whose_words_are_not_found_is_not_said_to_have_none() -> None:
    """The endless words are still open where the search ends."""
    lm = EndlessLM((b"~", b"a", b"a", b"a"), positions=256, window=256)
    joined = looked_up(lm, ("x",), 0.02)
    assert joined is not None
    assert joined.failed == 0


def test_smaller_tolerances_do_not_give_wider_bounds() -> None:
    widths = defaultdict(list)
    for seed in range(6):
        pieces = (b"~", b"a", b"b", b"c", b" ", b"'", b".")
        lm = EnumerableLM(pieces, depth=8, seed=seed, sharpness=0.7)
        for tolerance in (0.02, 0.005, 0.001):
            joined = looked_up(lm, ("a", "ab", "b", "ca"), tolerance)
            assert joined is not None
            low, high = joined.bounds["sq_distance"]
            widths[tolerance].append((high or 1.0) - low)
    means = [np.mean(widths[tolerance]) for tolerance in (0.02, 0.005, 0.001)]
    assert means[0] > means[1] > means[2]
