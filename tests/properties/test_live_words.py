"""The fast estimators compared with enumerating every text of a toy model."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("torch")

from enumerable_lm import EnumerableLM
from word_heads import head

from aleatoric.models.decoding import Decoder
from aleatoric.nextword.bounds import agreement_bounds
from aleatoric.nextword.exact import Question, Search, exact
from aleatoric.nextword.head import HeadSearch
from aleatoric.nextword.live import survey
from aleatoric.nextword.rules import (
    DONE,
    JOIN,
    WORDLESS,
    WordState,
    advance,
    first_word,
    first_word_at_once,
    fold,
    normalise,
)
from aleatoric.nextword.vocabulary import Entry, Vocabulary, follow

PIECES = [
    b" a", b"a", b"A", b"b", b"ab", b" ab", b"'", b"-", b"-a", b"'b", b" ", b".", b"\n", b". a",
    b"a.", b"a b", b"\xc3", b"\xa9", b"\xe2\x80", b"\x99", b"e", "\u0301".encode(),
    "\u0323".encode(), "\u05d0".encode(), b"1", b"", "\u02bc".encode(), "\u00df".encode(), b"s",
    b"_", b"_a", "\u200c".encode(), "a\u200d".encode(), b"\xe2\x80\x8c", "\u00adb".encode(),
]  # fmt: skip
vocabularies = st.lists(st.sampled_from(PIECES), min_size=2, max_size=6, unique=True)


def truth(toy: EnumerableLM, rule=first_word) -> tuple[dict[str, float], float]:
    """The distribution of the first word over whole texts, and the mass without one."""
    words: dict[str, float] = defaultdict(float)
    failed = 0.0
    for text, p in toy.texts((0,)):
        word = rule(text.decode(errors="replace"))
        if word is None:
            failed += p
        else:
            words[normalise(word)] += p
    return words, failed


def make(pieces: list[bytes], seed: int, depth: int) -> EnumerableLM:
    # Half of the models are run in tree passes, half in plain ones.
    return EnumerableLM((b"~", *pieces), depth=depth, seed=seed, window=64 * (seed % 2))


@settings(max_examples=60, deadline=None)
@given(vocabularies, st.integers(0, 10**6), st.floats(0.001, 0.5), st.integers(1, 30))
def test_exact_bounds_contain_the_truth(pieces, seed, tolerance, nodes):
    toy = make(pieces, seed, 3)
    words, failed = truth(toy)
    asked = (*words, "zebra")
    [found] = exact(
        toy,
        [Question("~", asked)],
        search=Search(tolerance=tolerance, nodes=nodes, failed="outcome"),
    )
    for word, low, value, high in zip(asked, found.low, found.value, found.high, strict=True):
        assert low - 1e-6 <= words.get(word, 0.0) <= high + 1e-6
        assert low - 1e-9 <= value <= high + 1e-9
    assert found.failed <= failed + 1e-6


@settings(max_examples=60, deadline=None)
@given(vocabularies, st.integers(0, 10**6), st.sampled_from(["skip", "condition"]))
def test_exact_equals_enumeration(pieces, seed, lead):
    toy = make(pieces, seed, 3)
    words, failed = truth(toy, first_word if lead == "skip" else first_word_at_once)
    if failed > 0.999 or not words:
        return
    asked = tuple(words)
    [found] = exact(toy, [Question("~", asked)], lead=lead, search=Search(0.0, 10**6))
    total = 1 - failed
    np.testing.assert_allclose(found.value, [words[w] / total for w in asked], atol=1e-6)
    np.testing.assert_allclose(found.low, found.high, atol=1e-5)
    assert found.failed == pytest.approx(failed, abs=1e-6)


@settings(max_examples=40, deadline=None)
@given(vocabularies, st.integers(0, 10**6), st.floats(0.0, 0.3), st.data())
def test_tvd_bounds_contain_the_truth(pieces, seed, tolerance, data):
    toy = make(pieces, seed, 3)
    words, failed = truth(toy)
    if failed > 0.9 or not words:
        return
    support = data.draw(st.lists(st.sampled_from(sorted(words)), min_size=1, unique=True))
    human = {word: 1 / len(support) for word in support}
    question = Question("~", tuple(human), tuple(human.values()))
    [found] = exact(toy, [question], search=Search(tolerance, 10**6))
    tvd = 1 - sum(min(p, words[w] / (1 - failed)) for w, p in human.items())
    bounds = found.tvd(human)
    assert bounds.low - 1e-6 <= tvd <= bounds.high + 1e-6
    assert bounds.low - 1e-9 <= bounds.value <= bounds.high + 1e-9


@settings(max_examples=40, deadline=None)
@given(vocabularies, st.integers(0, 10**6), st.floats(0.0, 0.4), st.integers(1, 40))
def test_head_is_a_lower_bound_and_its_certificate_holds(pieces, seed, tolerance, nodes):
    toy = make(pieces, seed, 3)
    words, failed = truth(toy)
    if failed > 0.9 or not words:
        return
    [found] = head(toy, ["~"], search=HeadSearch(tolerance=tolerance, nodes=nodes, wave=3))
    true = {w: p / (1 - failed) for w, p in words.items()}
    if found.certified:
        assert true[found.words.support[0]] >= max(true.values()) - 1e-6


@settings(max_examples=60, deadline=None)
@given(vocabularies, st.integers(0, 10**6), st.floats(0.0, 0.4), st.integers(1, 40), st.data())
def test_bounds_of_agreements_and_log_loss_contain_the_truth(pieces, seed, tolerance, nodes, data):
    toy = make(pieces, seed, 3)
    words, failed = truth(toy)
    if failed > 0.9 or not words:
        return
    support = data.draw(st.lists(st.sampled_from(sorted(words)), min_size=1, unique=True))
    human = {word: 1 / len(support) for word in support}
    question = Question("~", tuple(human), tuple(human.values()))
    search = Search(tolerance, nodes, every_word=True, loss_nodes=nodes)
    goals = search, HeadSearch(tolerance, "distance", nodes, 3)
    [(found, top)] = survey(toy, [question], search=goals[0], head_search=goals[1])
    true = {w: p / (1 - failed) for w, p in words.items()}
    own, cross = sum(q * q for q in true.values()), sum(p * true[w] for w, p in human.items())
    bounds = agreement_bounds(top.tops, found, human)
    for name, value in {"M": own, "C": cross, "M-2C": own - 2 * cross}.items():
        low, high = bounds[name]
        assert low - 1e-6 <= value <= high + 1e-6, name
    low, high = found.log_loss(human)
    loss = -sum(p * np.log(true[w]) for w, p in human.items())
    assert low - 1e-6 <= loss
    assert high is None or loss <= high + 1e-6


def test_search_for_log_loss_narrows_its_bounds():
    toy = make([b" a", b"b", b"c", b"\n", b"."], 3, 6)
    words, _ = truth(toy)
    human = dict.fromkeys(sorted(words, key=words.get)[-8:], 1 / 8)
    question = Question("~", tuple(human), tuple(human.values()))
    gaps = []
    for loss_nodes in (0, 2000):
        search = Search(0.1, nodes=2000, every_word=True, loss_nodes=loss_nodes)
        low, high = exact(toy, [question], search=search)[0].log_loss(human)
        gaps.append(high - low)
    assert gaps[0] > 0.2
    assert gaps[1] <= 0.1


@settings(max_examples=40, deadline=None)
@given(vocabularies, st.integers(0, 10**6), st.data())
def test_every_human_answer_has_positive_probability(pieces, seed, data):
    toy = make(pieces, seed, 3)
    words, failed = truth(toy)
    if failed > 0.9 or not words:
        return
    support = data.draw(st.lists(st.sampled_from(sorted(words)), min_size=1, unique=True))
    question = Question("~", tuple(support), (1 / len(support),) * len(support))
    with patch("aleatoric.nextword.exact.SPELLINGS", 10**6):
        [found] = exact(toy, [question], search=Search(0.02, 10**6, every_word=True))
    assert all(low > 0 for low, word in zip(found.low, support, strict=True) if words[word] > 1e-9)


@settings(max_examples=40, deadline=None)
@given(vocabularies, st.integers(0, 10**6))
def test_head_without_tolerance_is_the_whole_distribution(pieces, seed):
    toy = make(pieces, seed, 2)
    words, failed = truth(toy)
    if failed > 0.9 or not words:
        return
    [found] = head(toy, ["~"], search=HeadSearch(tolerance=0.0, nodes=10**6, wave=10**6))
    probs = found.words.as_dict()
    for word, p in words.items():
        assert probs.get(word, 0.0) == pytest.approx(p / (1 - failed), abs=1e-6)
    assert found.certified


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from(PIECES) | st.binary(max_size=3), min_size=1, max_size=12),
    st.sampled_from([b"", b"\xc3", b"\xe2", b"\xe2\x80", b"\xf0\x9f\x98"]),
    st.sampled_from(["a", "a'", "a-", " ", ""]),
    st.sampled_from(["skip", "condition"]),
)
def test_vocabulary_tables_match_state_machine(pieces, pending, before, lead):
    start = advance(advance(WordState(), before.encode(), lead), pending, lead)
    entry = Entry(1.0, -1, -1, (start.mode, start.pending), fold(start.word), fold(start.joiner))
    vocabulary = Vocabulary([*pieces, None], lead)
    table = vocabulary.table(entry.key)
    listed = Counter(t for ids in (table.ends, table.loose) for t in ids.tolist())
    for index in (table.grows, table.closes):
        listed.update(t for ids in index.values() for t in ids.tolist())
    assert listed == Counter(range(len(pieces) + 1))
    for token, piece in enumerate(vocabulary.pieces):
        after, child = advance(start, piece, lead), follow(entry, table, token, 1.0)
        assert child.key == (after.mode, after.pending)
        if after.mode != WORDLESS:
            assert child.word == fold(after.word)
        if after.mode == JOIN:
            assert child.joiner == fold(after.joiner)


@given(st.text(alphabet="aAb'’-\u2010 .\n\u0301é\u05d01_ß", max_size=12), st.data())
def test_state_machine_on_pieces_matches_rule_on_whole_text(text, data):
    raw = text.encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=4)))
    edges = [0, *cuts, len(raw)]
    state = WordState()
    for low, high in itertools.pairwise(edges):
        state = advance(state, raw[low:high])
    state = advance(state, None)
    assert (state.word if state.mode == DONE else None) == first_word(text)


@given(st.binary(max_size=8), st.data())
def test_state_machine_on_invalid_bytes_matches_rule_on_replacement(raw, data):
    cut = data.draw(st.integers(0, len(raw)))
    state = advance(advance(advance(WordState(), raw[:cut]), raw[cut:]), None)
    expected = first_word(raw.decode(errors="replace"))
    assert (state.word if state.mode == DONE else None) == expected


@settings(max_examples=20, deadline=None)
@given(vocabularies, st.integers(0, 10**6), st.sampled_from(["top_k=2", "greedy", "top_p=0.6"]))
def test_exact_with_decoder_gives_no_mass_to_dropped_tokens(pieces, seed, decoder):
    toy = make(pieces, seed, 3)
    words, _ = truth(toy)
    if not words:
        return
    asked = tuple(words)
    search = Search(0.0, 10**6, "outcome")
    [found] = exact(toy, [Question("~", asked)], decoder=Decoder.parse(decoder), search=search)
    assert sum(found.low) + found.failed == pytest.approx(1.0, abs=1e-6)
