# ruff: noqa: E402  (the imports below need torch, and the tests are skipped without it)
"""The tree pass and its estimators on tiny GPT-2 and Llama, compared with plain forward passes."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from copy import deepcopy
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from marks import sampled

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from lms import RestrictedModel, brute_force, next_probs, tiny, tokenizer, without_partial_tokens
from prompts import prompt
from scipy.stats import chi2_contingency, chisquare
from word_heads import head

import aleatoric as al
from aleatoric import api
from aleatoric.errors import ModelError, UsageError
from aleatoric.models.decoding import Decoder
from aleatoric.models.hf import wrap
from aleatoric.models.plain import Limits
from aleatoric.nextword import tree as tree_module
from aleatoric.nextword.bounds import WordProbabilities
from aleatoric.nextword.exact import Question, Search, exact
from aleatoric.nextword.head import HeadSearch
from aleatoric.nextword.live import LiveModel, survey, unknown_notes
from aleatoric.nextword.rules import first_word, normalise
from aleatoric.nextword.sampled import mc
from aleatoric.nextword.tree import Tree, encode_contexts, passages_of
from aleatoric.result_types import Table
from aleatoric.types import Draws

KINDS = ["gpt2", "llama"]
CONTEXTS = ["There", "There are", "There are many", "There are many things", "He said"]
WORDS = ("the", "many", "it's", "well-known", "a", "café", "said")


@pytest.mark.parametrize("kind", KINDS)
def test_tree_logits_match_plain_forward_passes(kind):
    lm = tiny(kind)
    encoded = encode_contexts(lm, CONTEXTS)
    tree = Tree(replace(lm, limits=Limits(nodes=3)), passages_of(encoded))
    spans = tree.spans()
    for indices, logits in tree.run_trunk():
        for i, row in zip(indices, logits, strict=True):
            plain = next_probs(lm, encoded[i])
            torch.testing.assert_close(row.softmax(-1), plain, atol=1e-10, rtol=0)
    rng = np.random.default_rng(0)
    level = [(i, -1, encoded[i]) for i in spans]
    for _ in range(3):
        level = [(i, n, (*ids, int(t))) for i, n, ids in level for t in rng.integers(0, 300, 2)]
        order = rng.permutation(len(level))
        level = [level[k] for k in order]
        places = np.array([spans[i] for i, _, _ in level])
        parents = np.array([n for _, n, _ in level])
        tokens = np.array([ids[-1] for _, _, ids in level])
        fresh = []
        for part, numbers, logits in tree.extend(places, parents, tokens):
            for (i, _, ids), number, row in zip(level[part], numbers, logits, strict=True):
                plain = next_probs(lm, ids)
                torch.testing.assert_close(row.softmax(-1), plain, atol=1e-10, rtol=0)
                fresh.append((i, int(number), ids))
        level = fresh


@pytest.mark.parametrize("kind", sampled(KINDS, ["gpt2"]))
def test_exact_equals_brute_force(kind):
    lm = without_partial_tokens(tiny(kind, torch.float32))
    asked = ("a", "the", "man", "it's")
    search = Search(0.0, 10**6, "outcome")
    [found] = exact(lm, [Question("There are", asked)], lead="condition", search=search)
    for word, low, high in zip(asked, found.low, found.high, strict=True):
        mass = brute_force(lm, "There are", word)
        assert low == pytest.approx(mass, abs=1e-6)
        assert high == pytest.approx(mass, abs=1e-6)
        assert low == pytest.approx(mass, rel=1e-3)


@pytest.mark.parametrize("kind", sampled(KINDS, ["gpt2"]))
def test_mc_matches_distribution_of_generate(kind):
    lm = tiny(kind, torch.float32)
    [draws] = mc(lm, [prompt("x", "There are")], samples=2000, seed=1)
    ids = torch.tensor([lm.encode("There are")])
    torch.manual_seed(0)
    ends = [i for i, piece in enumerate(lm.pieces) if piece is None]
    out = lm.model.generate(
        ids, attention_mask=torch.ones_like(ids), do_sample=True, top_k=0, top_p=1.0,
        max_new_tokens=24, num_return_sequences=2000, eos_token_id=ends, pad_token_id=ends[0],
    )  # fmt: skip
    texts = lm.tokenizer.batch_decode(out[:, ids.shape[1] :], skip_special_tokens=True)
    plain = Counter(normalise(w) if (w := first_word(t)) else None for t in texts)
    ours = Counter(draws.counts)
    ours[None] = draws.failed
    common = [w for w in set(ours) | set(plain) if ours[w] + plain[w] >= 16]
    table = [
        [c[w] for w in common] + [sum(c.values()) - sum(c[w] for w in common)]
        for c in (ours, plain)
    ]
    assert len(common) > 15
    assert chi2_contingency(table).pvalue > 0.001


@pytest.mark.parametrize(
    "decoder",
    sampled(
        ["ancestral", "temperature=0.5", "top_k=5", "top_p=0.7", "typical=0.5", "greedy"],
        ["ancestral", "top_p=0.7"],
    ),
)
def test_mc_and_exact_estimate_the_same_event(decoder):
    lm = tiny("llama")
    how = Decoder.parse(decoder)
    [draws] = mc(lm, [prompt("x", "He said")], samples=5000, seed=2, decoder=how)
    top = tuple(sorted(draws.counts, key=draws.counts.__getitem__, reverse=True)[:20])
    [found] = exact(lm, [Question("He said", top)], decoder=how, search=Search(1e-3, 3000))
    n = sum(draws.counts.values())
    for word, low, high in zip(top, found.low, found.high, strict=True):
        q, slack = draws.counts[word] / n, 4.5 * math.sqrt(max(high, 1e-4) / n)
        assert low - slack <= q <= high + slack


def test_head_agrees_with_exact():
    lm = tiny("gpt2")
    [found] = head(lm, ["He said"], search=HeadSearch(tolerance=0.4, nodes=300))
    top = found.words.support[:8]
    [asked] = exact(lm, [Question("He said", top)], search=Search(0.005, 3000))
    for low, high in zip(found.words.probs[:8], asked.high, strict=True):
        assert low <= high + 1e-9


@pytest.mark.parametrize("kind", sampled(KINDS, ["gpt2"]))
def test_draws_do_not_depend_on_batch_or_order(kind):
    lm = tiny(kind, torch.float32)
    prompts = [prompt(str(i), context) for i, context in enumerate(CONTEXTS)]
    expected = {d.item_id: d for d in mc(lm, prompts, samples=200, seed=3)}
    for limits in (Limits(nodes=13), Limits(nodes=1000, pack=1)):
        got = mc(replace(lm, limits=limits), prompts[::-1], samples=200, seed=3)
        assert {d.item_id: d for d in got} == expected
    [alone] = mc(replace(lm, limits=Limits(nodes=3)), prompts[2:3], samples=200, seed=3)
    assert alone == expected["2"]
    assert mc(lm, prompts[:1], samples=200, seed=4)[0].counts != expected["0"].counts


def test_exact_does_not_depend_on_the_batch():
    lm = tiny("llama")
    questions = [Question(context, WORDS) for context in CONTEXTS]
    expected = exact(lm, questions)
    for limits in (Limits(nodes=20), Limits(pack=1)):
        for a, b in zip(exact(replace(lm, limits=limits), questions), expected, strict=True):
            np.testing.assert_allclose(a.low, b.low, atol=1e-9)
            np.testing.assert_allclose(a.high, b.high, atol=1e-9)


def test_contexts_tokenized_differently_in_passage_run_separately():
    lm = tiny("gpt2")
    contexts = ["the ma", "the man", "the many"]
    encoded = [lm.encode(context) for context in contexts]
    assert any(b[: len(a)] != a for a, b in itertools.pairwise(encoded))
    together = exact(lm, [Question(c, WORDS) for c in contexts])
    for context, answer in zip(contexts, together, strict=True):
        [alone] = exact(lm, [Question(context, WORDS)])
        np.testing.assert_allclose(answer.value, alone.value, atol=1e-9)


def test_out_of_memory_halves_batch_and_continues(monkeypatch):
    lm = tiny("gpt2")
    prompts = [prompt(str(i), context) for i, context in enumerate(CONTEXTS)]
    prompts = prompts[:3]
    expected = mc(lm, prompts, samples=100)
    real, sizes = tree_module.Tree._extend, []

    def scarce(self, spans, parents, tokens):
        sizes.append(len(tokens))
        if len(tokens) > 20:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return real(self, spans, parents, tokens)

    monkeypatch.setattr(tree_module.Tree, "_extend", scarce)
    assert mc(lm, prompts, samples=100) == expected
    assert max(sizes) > 20


def test_passages_that_do_not_fit_together_run_separately(monkeypatch):
    lm = tiny("gpt2")
    contexts = ["There are many", "He said", "It is well-known"]
    questions = [Question(context, WORDS) for context in contexts]
    wanted = exact(lm, questions)
    sizes, plain = [], Tree.run_trunk

    def small(self):
        sizes.append(len(self.passages))
        if len(self.passages) > 1:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return plain(self)

    monkeypatch.setattr(Tree, "run_trunk", small)
    found = exact(lm, questions)
    assert sizes == [3, 1, 2, 1, 1]
    for one, other in zip(wanted, found, strict=True):
        assert one.value == pytest.approx(other.value, abs=1e-9)


def test_persistent_out_of_memory_raises(monkeypatch):
    def never(*_):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(tree_module.Tree, "_extend", never)
    with pytest.raises(ModelError, match="out of memory"):
        mc(tiny("gpt2"), [prompt("a", "He")], samples=10)


@pytest.mark.parametrize("search", ["exact", "head"])
def test_searches_stop_at_the_end_of_the_window(search):
    """A model that keeps generating full stops would exceed the last position."""
    inner = tiny("gpt2", window=16)
    stops = torch.tensor([12.0 if piece == b"." else 0.0 for piece in inner.pieces])
    lm, context = RestrictedModel(inner, stops), "many many many"
    room = inner.window - len(lm.encode(context))
    assert room >= 8
    if search == "exact":
        [found] = exact(lm, [Question(context, WORDS)], search=Search(1e-4, 400))
    else:
        [found] = head(lm, [context], search=HeadSearch(1e-3, nodes=400))
    assert found.nodes > room


def test_context_longer_than_the_window_is_rejected():
    with pytest.raises(UsageError, match="window of 128"):
        exact(tiny("gpt2"), [Question("many " * 200, ("a",))])


@pytest.mark.long
def test_context_that_nearly_fills_the_window_gets_an_answer():
    lm = tiny("gpt2")
    text = "many"
    while len(lm.encode(text + " many")) + 8 <= lm.window:
        text += " many"
    [draws] = mc(lm, [prompt("x", text)], samples=300)
    assert sum(draws.counts.values()) + draws.failed == 300
    [found] = exact(lm, [Question(text, WORDS)], search=Search(1e-3, 5000))
    assert all(low <= high for low, high in zip(found.low, found.high, strict=True))


def test_empty_context_requires_bos_token():
    with pytest.raises(UsageError, match="bos='add'"):
        exact(tiny("gpt2"), [Question("", ("a",))])
    [found] = exact(tiny("gpt2", bos="add"), [Question("", ("the",))])
    assert 0 <= found.low[0] <= found.high[0] <= 1


@pytest.mark.long
def test_exact_and_mc_agree_on_right_to_left_script():
    lm = tiny("llama")
    context = "שלום"
    [draws] = mc(lm, [prompt("x", context)], samples=3000, seed=5)
    hebrew = ("א", "ב", "the")
    [found] = exact(lm, [Question(context, hebrew)], search=Search(2e-3, 3000))
    n = sum(draws.counts.values())
    for word, low, high in zip(hebrew, found.low, found.high, strict=True):
        slack = 4.5 * math.sqrt(max(high, 1e-3) / n)
        assert low - slack <= draws.counts.get(word, 0) / n <= high + slack


def test_tokenizer_that_drops_spaces_is_rejected():
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    inner = Tokenizer(models.WordLevel({"to": 0, "be": 1, "?": 2}, unk_token="?"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    bare = PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="?")
    with pytest.raises(UsageError, match="where a word begins"):
        wrap(tiny("gpt2").model, bare, name="bare")


@pytest.mark.parametrize(
    ("vocabulary", "unknown"),
    [
        (["?", *(f"Ġ{word}" for word in ("the", "cat", "dog", "sat")), *"thecadogs."], "?"),
        (["?", "Ġthe", "Ġcat", "Ġdog", "Ġsat", "."], None),  # reads "to be" as "??"
    ],
)
def test_small_tokenizer_that_marks_words_is_accepted(vocabulary, unknown):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    tokens = {token: i for i, token in enumerate(dict.fromkeys(vocabulary))}
    inner = Tokenizer(models.WordLevel(tokens, unk_token="?"))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    small = PreTrainedTokenizerFast(tokenizer_object=inner, unk_token=unknown)
    lm = wrap(tiny("gpt2").model, small, name="small")
    assert sum((piece or b"").startswith(b" ") for piece in lm.pieces) == len(
        [token for token in tokens if token.startswith("Ġ")]
    )


def test_words_equal_after_case_folding_are_rejected():
    with pytest.raises(UsageError, match="case"):
        exact(tiny("gpt2"), [Question("He", ("a", "A"))])


@pytest.mark.parametrize("kind", sampled(KINDS, ["gpt2"]))
def test_survey_matches_exact_search_and_head(kind):
    lm, questions = tiny(kind), [Question(context, WORDS) for context in CONTEXTS]
    found = exact(lm, questions)
    heads = head(lm, CONTEXTS, search=HeadSearch(nodes=30))
    both = survey(lm, questions, search=Search(), head_search=HeadSearch(nodes=30))
    for one, top, (asked, own) in zip(found, heads, both, strict=True):
        assert asked.value == pytest.approx(one.value, abs=1e-9)
        assert own.words.as_dict() == pytest.approx(top.words.as_dict(), abs=1e-9)
        assert own.certified == top.certified
        assert own.nodes == top.nodes


@pytest.mark.parametrize("kind", sampled(KINDS, ["gpt2"]))
def test_uncertain_draw_is_recomputed_without_batching(kind, monkeypatch):
    lm = tiny(kind)
    prompts = [prompt(str(i), context) for i, context in enumerate(CONTEXTS)]
    plain = mc(lm, prompts, samples=50)
    monkeypatch.setattr("aleatoric.nextword.sampled.rounding_of", lambda _: 0.2)
    assert mc(lm, prompts, samples=50) == plain


@pytest.mark.parametrize("kind", KINDS)
def test_separately_run_nodes_match_plain_forward_passes(kind, monkeypatch):
    lm = tiny(kind)
    encoded = encode_contexts(lm, CONTEXTS)
    tree = Tree(lm, passages_of(encoded))
    list(tree.run_trunk())
    spans = np.array([tree.spans()[i] for i in range(len(CONTEXTS))])
    none = np.full(len(spans), -1)
    _ = list(tree.extend(spans, none, np.arange(len(spans)) + 7))
    for on_cpu in (True, False):
        monkeypatch.setattr(tree_module, "on_cpu", lambda _, answer=on_cpu: answer)
        for nodes, ends in ((none, None), (np.arange(len(spans)), 7)):
            pairs = zip(spans, nodes, strict=True)
            texts = [tree.text(tuple(span), int(node)) for span, node in pairs]
            found = tree.apart(texts).softmax(-1)
            for i, row in enumerate(found):
                ids = encoded[i] if ends is None else (*encoded[i], ends + i)
                assert texts[i] == tuple(ids)
                torch.testing.assert_close(row, next_probs(lm, ids), atol=1e-10, rtol=0)


@pytest.mark.parametrize("kind", sampled(KINDS, ["gpt2"]))
def test_single_precision_draws_do_not_depend_on_batch(kind):
    lm = tiny(kind, torch.float32)
    prompts = [prompt(str(i), context) for i, context in enumerate(CONTEXTS)]
    wanted = mc(lm, prompts, samples=400)
    for limits in (Limits(nodes=17), Limits(pack=1)):
        assert mc(replace(lm, limits=limits), prompts[:2], samples=400) == wanted[:2]


def test_draws_follow_the_probabilities():
    from aleatoric.models.decoding import child, draw

    p = torch.tensor([[0.5, 0.0, 0.3, 0.15, 0.05], [0.0, 0.0, 1.0, 0.0, 0.0]])
    keys = torch.as_tensor(child(np.array([7]), np.arange(20000)))
    rows = torch.tensor([0] * 20000)
    counts = np.bincount(draw(p, rows, keys).numpy(), minlength=5)
    assert counts[1] == 0
    assert chisquare(counts[[0, 2, 3, 4]], 20000 * p[0, [0, 2, 3, 4]].numpy()).pvalue > 0.001
    assert (draw(p, rows + 1, keys) == 2).all()


def test_mc_returns_draws():
    [found] = mc(tiny("gpt2"), [prompt("1:2", "He")], samples=50)
    assert isinstance(found, Draws)
    assert sum(found.counts.values()) + found.failed == 50
    assert len(tokenizer()) == len(tiny("gpt2").pieces)


def test_context_without_continuation_is_named():
    from aleatoric.models.base import Ask
    from aleatoric.nextword.live import LiveModel
    from aleatoric.types import Item

    model = LiveModel(tiny("gpt2", window=16), "tiny", "exact")
    items = [Item("1:1", "1", "He", ("is",)), Item("1:9", "1", "many " * 40, ("is",))]
    with pytest.raises(UsageError, match=r"item '1:9': the context .* shorten it"):
        list(model.draws(items, Ask("ancestral", 10, 0)))


def test_word_probabilities_note_wide_bounds_and_unknown_tokens():
    model = LiveModel(tiny("gpt2"), "tiny", "exact")
    words = al.word_probabilities(model, "There are", ["many", "U.S."], nodes=1)
    assert [note.split()[0] for note in words.notes] == ["Words", "The"]
    assert "2 of 2 words; nodes=10 searches" in words.notes[1]
    narrow = al.word_probabilities(model, "There are", ["many"], tolerance=1, nodes=1)
    assert narrow.notes == ()
    rows = al.surprisal(model, "There 3.5", nodes=5)
    assert "'3.5' as '3'" in rows.notes[0]
    assert "bits" in rows.notes[-1]
    assert unknown_notes(model.lm, "There are") == ()
    vocabulary = deepcopy(model.lm.tokenizer)  # tests share the tokenizer
    vocabulary.unk_token = vocabulary.convert_ids_to_tokens(model.lm.encode("There")[0])
    assert "(unknown)" in unknown_notes(replace(model.lm, tokenizer=vocabulary), "There are")[0]


def test_contexts_whose_characters_the_tokenizer_drops_are_named():
    lm = tiny("gpt2")
    letters = SimpleNamespace(unk_token=None, decode=lambda tokens: "a b")
    lossy = SimpleNamespace(start=(), tokenizer=letters, encode_all=lambda texts: [(1, 2)])
    assert unknown_notes(lossy, "a \u0431\u0432 b") == ()
    (note,) = unknown_notes(lossy, "a \u0431\u0432\u0433 b")
    assert "drops most characters" in note
    nothing = SimpleNamespace(encode_all=lambda texts: [(1,), ()], positions=lm.positions)
    with pytest.raises(UsageError, match="tokenizer drops all characters of 'xyz'; use --bos add"):
        encode_contexts(nothing, ["a", "xyz"])
    with pytest.raises(UsageError, match="a context is empty and the model gets no beginning"):
        encode_contexts(nothing, ["a", " "])


def test_word_that_was_not_found_has_no_probability():
    low = WordProbabilities(("a",), (0.0,), (0.0,), (0.27,), 0.27, 0.0, 1)
    assert api._probability(low.value[0], low.low[0], low.high[0]) == (None, 0.0, 0.27)
    assert api._probability(0.0, 0.0, 0.0) == (0.0, 0.0, 0.0)
    frame = Table("t", ("word", "surprisal"), (("a", None),)).to_pandas()
    assert frame["surprisal"].round(2).isna().all()
