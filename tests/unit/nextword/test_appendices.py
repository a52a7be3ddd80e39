"""The paper's rule on sampled texts, its biased estimator (App. A) and first tokens (App. D)."""

# ruff: noqa: E402  (the imports below need torch, and the tests are skipped without it)
from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
from marks import sampled
from scipy.stats import chisquare

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from enumerable_lm import EnumerableLM
from lms import next_probs, tiny
from prompts import prompt

from aleatoric.errors import UsageError
from aleatoric.models.base import Ask, Prompting
from aleatoric.models.decoding import Decoder
from aleatoric.models.plain import Limits
from aleatoric.nextword.answers import human_counts, model_distribution, normalised_counts
from aleatoric.nextword.biased import (
    log_probs_of,
    next_tokens,
    support_of,
    token_name,
    vocabulary_key,
    with_first_tokens,
    word_tokens,
)
from aleatoric.nextword.live import LiveModel
from aleatoric.nextword.rules import first_word, first_word_paper, normalise, text_rule
from aleatoric.nextword.sampled import mc
from aleatoric.types import Categorical, Choices, Item

PIECES = (b"~", b" a", b"b", b"'", b" ", b"\n", b"\xc3", b"\xa9")
ITEMS = [
    Item("1:1", "1", "There are", ("many", "Many", "some", "then", "many"), "some,"),
    Item("1:2", "1", "There are many things", ("and", "some"), "and"),
    Item("2:1", "2", "The cat said", ("the", "so"), None),
]


def texts_of(lm: EnumerableLM, tokens: int) -> dict[bytes, float]:
    """The probability of every text of up to so many tokens, by enumeration."""
    found: dict[bytes, float] = defaultdict(float)
    stack = [((0,), b"", 1.0)]
    while stack:
        path, text, mass = stack.pop()
        for token, logp in enumerate(lm.next_log_probs(path)):
            p = mass * float(np.exp(logp))
            if token == len(lm.tokens):
                found[text] += p
            elif p > 0 and len(path) == tokens:
                found[text + lm.tokens[token]] += p
            elif p > 0:
                stack.append(((*path, token), text + lm.tokens[token], p))
    return found


@pytest.mark.parametrize("window", [64, 0])
def test_words_of_the_paper_rule_have_their_enumerated_frequencies(window: int) -> None:
    lm = EnumerableLM(PIECES[:6], depth=7, seed=5, sharpness=1.5, window=window)
    expected: dict[str | None, float] = defaultdict(float)
    for text, p in texts_of(lm, 5).items():
        expected[first_word_paper(text.decode(errors="replace"))] += p
    assert sum(expected.values()) == pytest.approx(1)
    [draws] = mc(lm, [prompt("x", "~")], samples=4000, rule=text_rule("paper"))
    found = {None: draws.failed, **draws.counts}
    assert found.keys() <= expected.keys()
    common = [word for word, p in expected.items() if p * 4000 >= 5]
    assert len(common) > 5
    rare = 1 - sum(expected[word] for word in common)
    n_rare = 4000 - sum(found.get(word, 0) for word in common)
    counts = [*(found.get(word, 0) for word in common), n_rare]
    shares = [*(expected[word] for word in common), rare]
    assert chisquare(counts, np.array(shares) * 4000).pvalue > 1e-3


def test_sampled_texts_of_unknown_rules_have_a_fixed_length() -> None:
    lm = EnumerableLM((b"~", b"a", b"b", b" "), depth=40, seed=1)
    [draws] = mc(lm, [prompt("x", "~")], samples=200, rule=text_rule("module:function"))
    lengths = {len(text) for text in draws.counts}
    assert max(lengths) == 16
    assert min(lengths) < 16  # texts that the model ends


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_texts_are_those_of_the_word_states(kind: str) -> None:
    """Texts cut by the corrected rule give the words that are counted without texts."""
    lm = tiny(kind)
    prompts = [prompt(item.id, item.context) for item in ITEMS]
    for lead in ("skip", "condition"):
        words = mc(lm, prompts, samples=300, lead=lead)
        texts = mc(lm, prompts, samples=300, rule=text_rule("corrected", lead))
        for one, other in zip(words, texts, strict=True):
            ended = {w: n for w, n in normalised_counts(other.counts).items() if len(w) < 60}
            assert ended == {w: n for w, n in one.counts.items() if len(w) < 60}


def test_paper_words_do_not_depend_on_batches() -> None:
    lm = tiny("gpt2")
    prompts, rule = [prompt(item.id, item.context) for item in ITEMS], text_rule("paper")
    expected = mc(lm, prompts, samples=100, rule=rule)
    for limits in (Limits(nodes=1), Limits(nodes=7, pack=1)):
        few = replace(lm, limits=limits)
        assert mc(few, prompts, samples=100, rule=rule) == expected


def test_paper_words_are_settled_by_a_space_after_letters() -> None:
    _, is_settled, tokens = text_rule("paper")
    assert tokens == 5
    assert not any(map(is_settled, ("", " ", " it", "'it's", "it\n", " ?")))
    assert all(map(is_settled, (" it ", "it s", " ? it, ", "a \n")))


# The biased estimator ----------------------------------------------------------------------


def naive_log_prob(lm, context: str, word: str) -> float:
    """log f(context, word) - log f(context), with one forward pass per token."""
    before, after = lm.encode(context), lm.encode(f"{context} {word}")
    assert after[: len(before)] == before
    steps = range(len(before), len(after))
    return sum(float(next_probs(lm, after[:i])[after[i]].log()) for i in steps)


@pytest.mark.parametrize("kind", sampled(["gpt2", "llama"], ["gpt2"]))
def test_biased_probabilities_equal_a_naive_softmax(kind: str) -> None:
    lm = tiny(kind)
    ask = Ask("ancestral", 30, 0)
    drawn = list(LiveModel(lm, "tiny", "biased").draws(ITEMS, ask))
    supports = support_of(lm, ITEMS, text_rule("corrected"), 30, 0)
    for item, words, draws in zip(ITEMS, supports, drawn, strict=True):
        weights: dict[str, float] = defaultdict(float)
        for word in words:
            weights[normalise(word)] += np.exp(naive_log_prob(lm, item.context, word))
        total = sum(weights.values())
        model = model_distribution(draws, keep_failed=False)
        assert model is not None
        expected = {word: weight / total for word, weight in weights.items()}
        assert model.as_dict() == pytest.approx(expected, rel=1e-6)


def test_support_are_words_of_all_samples_of_people_and_the_original() -> None:
    lm, rule = tiny("gpt2"), text_rule("corrected")
    prompts = [prompt(item.id, item.context) for item in ITEMS]
    plan = [(Decoder(), 30), (Decoder(greedy=True), 1)]
    plan += [(Decoder(top_p=p), 100) for p in (0.7, 0.8, 0.9)]
    drawn = [mc(lm, prompts, samples=n, decoder=how, rule=rule) for how, n in plan]
    for place, (item, words) in enumerate(
        zip(ITEMS, support_of(lm, ITEMS, rule, 30, 0), strict=True)
    ):
        expected = {*item.responses, *(w for draws in drawn for w in draws[place].counts)}
        assert set(words) == expected | {first_word(item.original or "")} - {None}
        assert len(words) == len(set(words))


def test_sequences_do_not_depend_on_batches() -> None:
    lm = tiny("gpt2")
    contexts = [item.context for item in ITEMS]
    rows = [[(1, 2, 3), (1, 2), (4,), (1, 5, 6, 7)], [(9,)], [(8, 8)]]
    expected = log_probs_of(lm, contexts, rows)
    [alone] = log_probs_of(replace(lm, limits=Limits(nodes=1)), contexts[:1], rows[:1])
    assert alone == pytest.approx(expected[0], abs=1e-9)


# First tokens ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_first_tokens_equal_a_naive_softmax(kind: str) -> None:
    lm = tiny(kind)
    items = [with_first_tokens(lm, item, first_word) for item in ITEMS]
    ask = Ask("ancestral", 1, 0, choices=Choices(unit="token"))
    for words, item, draws in zip(
        ITEMS, items, LiveModel(lm, "tiny", "exact").draws(items, ask), strict=True
    ):
        probs = next_probs(lm, lm.encode(words.context))
        assert draws.exact is not None
        assert draws.exact.certified
        q = draws.exact.words.as_dict()
        assert len(q) == len(probs)
        for token, p in enumerate(probs.tolist()):
            assert q[token_name(lm, token)] == pytest.approx(p, abs=1e-9)
        naive: dict[int, float] = defaultdict(float)
        for word in words.responses:
            naive[lm.continuation(f" {word}")[0]] += 1 / len(words.responses)
        human = Categorical.from_counts(human_counts(item.responses)).as_dict()
        assert human == pytest.approx({token_name(lm, t): share for t, share in naive.items()})
        tvd = sum(abs(naive.get(t, 0.0) - p) for t, p in enumerate(probs.tolist())) / 2
        assert draws.exact.bounds["tvd"] == pytest.approx((tvd, tvd), abs=1e-9)
        squares = float((probs**2).sum())
        assert draws.exact.bounds["agreement_M"] == pytest.approx((squares, squares), abs=1e-9)


def test_answers_with_the_same_first_token_add_up() -> None:
    lm = tiny("gpt2")
    words = ("the", "theatre", "thefts")
    assert len({row[0] for row in word_tokens(lm, "He said", words)}) == 1
    item = with_first_tokens(lm, Item("1", "1", "He said", words, '"theory'), first_word)
    assert len(set(item.responses)) == 1
    assert item.original == item.responses[0]
    assert with_first_tokens(lm, item, first_word) is item


def test_tokens_beyond_the_likeliest_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    lm = tiny("gpt2")
    monkeypatch.setattr("aleatoric.nextword.biased.TOP_TOKENS", 20)
    names = tuple(token_name(lm, token) for token in (5, 300))
    [(found, top)] = next_tokens(lm, ["He said"], [Categorical(names, (0.5, 0.5))])
    probs = next_probs(lm, lm.encode("He said"))
    assert found.value == pytest.approx(probs[[5, 300]].tolist(), abs=1e-9)
    assert len(top.words.support) == 20
    assert top.tops.unseen == pytest.approx(float(probs.sort(descending=True).values[20]))
    assert top.words.rest == pytest.approx(1 - float(probs.topk(20).values.sum()))


def test_token_names_are_unique_and_stable() -> None:
    lm = tiny("gpt2")
    names = [token_name(lm, token) for token in range(len(lm.pieces))]
    assert len(set(names)) == len(names)
    assert list(human_counts(names)) == names
    assert vocabulary_key(lm) == vocabulary_key(tiny("llama"))  # the same tokenizer


def test_answer_in_a_chat_has_no_space_before_it() -> None:
    lm = tiny("gpt2")
    assert word_tokens(lm, "He said", ["the"]) == [lm.continuation(" the")]
    assert word_tokens(lm, "He said ", ["the"]) == [lm.continuation("the")]
    lm.tokenizer.chat_template = "{{ messages[0]['content'] }}\n"
    chat = replace(lm, prompting=Prompting(chat=True))
    assert word_tokens(chat, "He said", ["the"]) == [lm.continuation("the")]
    lm.tokenizer.chat_template = None


# What cannot be done -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("estimator", "rule", "message"),
    [
        ("exact", "paper", "add --estimator mc"),
        ("exact", "characters", "add --estimator mc"),
        ("biased", "module:function", "cannot use the word rule module:function"),
    ],
)
def test_rules_that_an_estimator_cannot_follow_are_rejected(
    estimator: str, rule: str, message: str
) -> None:
    ask = Ask("ancestral", 10, 0, choices=Choices(rule=rule))
    with pytest.raises(UsageError, match=message):
        next(LiveModel(tiny("gpt2"), "tiny", estimator).draws(ITEMS, ask))
