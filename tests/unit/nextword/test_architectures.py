"""Every architecture gives the words of plain forward passes, in a tree pass or without one."""

# ruff: noqa: E402  (the imports below need torch, and the tests are skipped without it)
from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from marks import sampled

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from lms import RestrictedModel, next_probs, tiny, tokenizer
from prompts import prompt
from scipy.stats import chisquare
from transformers import AutoConfig, AutoModelForCausalLM

from aleatoric.errors import UsageError
from aleatoric.models.attention import are_same
from aleatoric.models.base import Forcing, Writing
from aleatoric.models.decoding import Decoder
from aleatoric.models.forced import causal_forced
from aleatoric.models.generate_hf import causal_network, text_model
from aleatoric.models.hf import HFModel, has_tree_pass, in_tiles, wrap
from aleatoric.models.plain import Limits
from aleatoric.models.sampling import (
    Batching,
    TextPrompt,
    TextSampler,
    key_of,
    packs_of,
    write_all,
)
from aleatoric.nextword.bounds import WordProbabilities
from aleatoric.nextword.exact import Question, Search, exact
from aleatoric.nextword.rules import DONE, WordState, advance
from aleatoric.nextword.sampled import mc
from aleatoric.nextword.vocabulary import Vocabulary
from aleatoric.tuning.losses import human_losses, word_tree
from aleatoric.types import Document, Item, TextItem

POSITIONS = 96
BASE: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": POSITIONS,
}
GPT: dict[str, Any] = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": POSITIONS}
EXPERTS: dict[str, Any] = {
    "num_experts": 4,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 24,
}
FALCON: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": POSITIONS,
}
DEEPSEEK: dict[str, Any] = {
    "num_key_value_heads": 4,
    "n_routed_experts": 4,
    "n_group": 2,
    "topk_group": 1,
    "kv_lora_rank": 8,
    "q_lora_rank": 8,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8,
    "v_head_dim": 8,
    "first_k_dense_replace": 1,
}
LINEAR: dict[str, Any] = {
    "linear_num_value_heads": 4,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "layer_types": ["linear_attention", "full_attention"],
    "shared_expert_intermediate_size": 16,
}
JAMBA: dict[str, Any] = {
    "attn_layer_period": 2,
    "attn_layer_offset": 1,
    "expert_layer_period": 2,
    "expert_layer_offset": 1,
    "use_mamba_kernels": False,
    "mamba_d_state": 4,
}
LLAMA4: dict[str, Any] = {"intermediate_size_mlp": 48, "no_rope_layers": [1, 0]}
OPT: dict[str, Any] = {"ffn_dim": 48, "word_embed_proj_dim": 32}
XGLM: dict[str, Any] = {"d_model": 32, "ffn_dim": 48, "num_layers": 2, "attention_heads": 4}
GPT_NEO: dict[str, Any] = {
    "hidden_size": 32,
    "num_layers": 2,
    "num_heads": 4,
    "attention_types": [[["global", "local"], 1]],
    "max_position_embeddings": POSITIONS,
    "window_size": 16,
}
PADDED: dict[str, Any] = {"pad_token_id": 0}
ALIBI = {"alibi": True}

IN_TREE: dict[str, dict[str, Any]] = {
    "gpt2": GPT,
    "gpt_neox": BASE,
    "gptj": GPT | {"rotary_dim": 4},
    "opt": BASE | OPT,
    "falcon": FALCON,
    "llama": BASE,
    "mistral": BASE,
    "mixtral": BASE | EXPERTS,
    "qwen2": BASE,
    "qwen3": BASE,
    "qwen3_moe": BASE | EXPERTS,
    "gemma": BASE,
    "gemma2": BASE,
    "gemma3_text": BASE,
    "phi": BASE,
    "phi3": BASE | PADDED,
    "olmo2": BASE,
    "olmoe": BASE | EXPERTS,
    "granite": BASE,
    "stablelm": BASE,
    "cohere": BASE | {"logit_scale": 1.0},
    "cohere2": BASE | {"logit_scale": 1.0},
    "starcoder2": BASE,
    "deepseek_v3": BASE | EXPERTS | DEEPSEEK,
    "gpt_oss": BASE | EXPERTS,
    "smollm3": BASE | PADDED,
    "glm4": BASE | PADDED,
    "ernie4_5": BASE,
    "exaone4": BASE,
    "xglm": XGLM | {"max_position_embeddings": POSITIONS},
}
PLAIN: dict[str, dict[str, Any]] = {
    "gpt_neo": GPT_NEO,  # a window that goes by columns, and tables as wide as the positions
    "bloom": {"hidden_size": 32, "n_layer": 2, "n_head": 4},
    "mpt": {"d_model": 32, "n_layers": 2, "n_heads": 4, "max_seq_len": POSITIONS},
    "falcon alibi": FALCON | ALIBI,
    "qwen3_next": BASE | EXPERTS | LINEAR,
    "llama4_text": BASE | EXPERTS | LLAMA4,  # scales attention by columns beyond 8192
    "mamba": {"hidden_size": 32, "num_hidden_layers": 2, "state_size": 4},
    "jamba": BASE | EXPERTS | JAMBA,
    "rwkv": {"hidden_size": 32, "num_hidden_layers": 2, "attention_hidden_size": 32},
    "lfm2": BASE | {"layer_types": ["conv", "full_attention"]},
}
MORE_PLAIN: dict[str, dict[str, Any]] = {
    # With so many positions, nothing but wrong numbers tells that these go by columns.
    "mpt long": {"d_model": 32, "n_layers": 2, "n_heads": 4, "max_seq_len": 20_000},
    "gpt_neo long": GPT_NEO | {"max_position_embeddings": 2048, "window_size": 8},
}
LAYERS = ["sliding_attention", "full_attention"]
WINDOWED: dict[str, dict[str, Any]] = {
    "mistral": BASE | {"sliding_window": 24},
    "mixtral": BASE | EXPERTS | {"sliding_window": 24},
    "qwen2": BASE | {"sliding_window": 24, "use_sliding_window": True, "max_window_layers": 1},
    "gemma2": BASE | {"sliding_window": 24, "layer_types": LAYERS},
    "gemma3_text": BASE | {"sliding_window": 24, "layer_types": LAYERS},
    "cohere2": BASE | {"logit_scale": 1.0, "sliding_window": 24, "layer_types": LAYERS},
    "gpt_oss": BASE | EXPERTS | {"sliding_window": 24, "layer_types": LAYERS},
    "exaone4": BASE | {"sliding_window": 24, "layer_types": LAYERS},
    "phi3": BASE | PADDED | {"sliding_window": 24},
    "starcoder2": BASE | {"sliding_window": 24},
    "llama4_text": BASE
    | EXPERTS
    | LLAMA4
    | {"attention_chunk_size": 24, "attn_temperature_tuning": False},
}
QUICK = ("gpt2", "llama", "gemma3_text", "deepseek_v3")
QUICK_PLAIN = ("bloom", "mamba", "gpt_neo long")
QUICK_WINDOWED = ("mistral", "gemma2")
"""Architectures that `make test` tries; `make test-all` tries all of them."""


def network(kind: str, settings: dict[str, Any], scale: float = 0.3) -> Any:
    """A random two-layer network whose output depends strongly on attention and positions."""
    words = tokenizer()
    ends = {"eos_token_id": words.eos_token_id, "bos_token_id": words.eos_token_id}
    try:
        own = {"pad_token_id": None, **ends, **settings}
        config = AutoConfig.for_model(kind.split()[0], vocab_size=len(words), **own)
    except (KeyError, ValueError) as error:
        pytest.skip(f"this version of transformers has no {kind}: {error}")
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            # Gemma multiplies its embeddings, which are also its output, by a large number.
            torch.nn.init.normal_(parameter, std=scale / (2 if "gemma" in kind else 1))
    return model.eval()


def loaded(kind: str, settings: dict[str, Any]) -> HFModel:
    return wrap(network(kind, settings), tokenizer(), name=f"tiny-{kind}", bos="none")


STEMS = (b" the", b" man", b" so", b" cat")
SUFFIXES = (b"s", b"y")
PIECES = (*STEMS, *SUFFIXES, b".", None)
CONTEXTS = (
    "There are many things, some of them",
    "There are many",
    "It's well-known that the cat said",
)


def few(lm: HFModel) -> RestrictedModel:
    """The model restricted to a few pieces, so that short texts have most of the mass."""
    allowed = torch.tensor([piece in PIECES for piece in lm.pieces])
    assert allowed.sum() >= len(PIECES)
    return RestrictedModel(lm, torch.where(allowed, 0.0, -math.inf))


def plain_words(lm: RestrictedModel, context: str) -> dict[str, float]:
    """The mass of all first words of up to three pieces, by one plain forward pass per text."""
    found: dict[str, float] = {}
    stack = [(lm.encode(context), WordState(), 1.0, 0)]
    tokens = [token for token, piece in enumerate(lm.pieces) if piece in PIECES]
    while stack:
        ids, state, mass, depth = stack.pop()
        probs = lm.next_probs(ids)
        for token in tokens:
            after, p = advance(state, lm.pieces[token], "condition"), mass * float(probs[token])
            if after.mode == DONE:
                found[after.word] = found.get(after.word, 0.0) + p
            elif after.mode < DONE and depth < 3:
                stack.append(((*ids, token), after, p, depth + 1))
    return found


def distance(lm: HFModel, contexts: tuple[str, ...] = CONTEXTS) -> float:
    """The largest TVD between exact word probabilities and those of plain forward passes."""
    lm_of_few = few(replace(lm, limits=Limits(nodes=7)))
    plain = [plain_words(lm_of_few, context) for context in contexts]
    assert all(len(words) == 42 and sum(words.values()) > 0.1 for words in plain)
    found = exact(
        lm_of_few,
        [Question(context, tuple(words)) for context, words in zip(contexts, plain, strict=True)],
        lead="condition",
        search=Search(0.0, 10**6, "outcome"),
    )
    return max(map(tvd, plain, found))


def tvd(plain: dict[str, float], found: WordProbabilities) -> float:
    wanted = list(plain.values())
    pairs = [*zip(wanted, found.low, strict=True), (sum(wanted), sum(found.low))]
    return sum(abs(one - other) for one, other in pairs) / 2


def check_that_order_matters(lm: HFModel) -> None:
    """Check that the output depends on token order; otherwise the test would be vacuous."""
    ids = lm.encode("It's well-known that the cat")
    swapped = (ids[1], ids[0], *ids[2:])
    apart = (next_probs(lm, ids) - next_probs(lm, swapped)).abs().sum() / 2
    assert apart > 0.01


ALL = IN_TREE | PLAIN | MORE_PLAIN


@pytest.mark.parametrize("kind", sampled(ALL, (*QUICK, *QUICK_PLAIN)))
def test_word_probabilities_match_plain_forward_passes(kind):
    lm = loaded(kind, ALL[kind])
    assert bool(lm.window) == (kind in IN_TREE)
    check_that_order_matters(lm)
    assert distance(lm) <= 1e-5


@pytest.mark.parametrize("kind", sampled(ALL, (*QUICK, *QUICK_PLAIN)))
def test_sampled_words_match_plain_forward_passes(kind):
    lm, samples = few(loaded(kind, ALL[kind])), 2000
    prompts = [prompt(str(i), context) for i, context in enumerate(CONTEXTS)]
    drawn = mc(lm, prompts, samples=samples, lead="condition")
    for context, draws in zip(CONTEXTS, drawn, strict=True):
        plain = plain_words(lm, context)
        counts = [draws.counts.get(word, 0) for word in plain]
        # Longer words, and texts without a word, are one more outcome.
        observed = [*counts, samples - sum(counts)]
        expected = [*(samples * p for p in plain.values()), samples * (1 - sum(plain.values()))]
        assert chisquare(*pooled(observed, expected)).pvalue > 1e-4


def pooled(observed: list[int], expected: list[float]) -> tuple[list[float], list[float]]:
    """Counts with the rare outcomes added up, for a chi-squared test."""
    pairs = [*zip(observed, expected, strict=True)]
    common = [pair for pair in pairs if pair[1] >= 5]
    rare = [pair for pair in pairs if pair[1] < 5]
    common.append((sum(seen for seen, _ in rare), sum(wanted for _, wanted in rare)))
    kept = [pair for pair in common if pair[1] > 0.5]
    total = sum(seen for seen, _ in kept) / sum(wanted for _, wanted in kept)
    return [seen for seen, _ in kept], [wanted * total for _, wanted in kept]


@pytest.mark.parametrize("kind", sampled(ALL, ("llama", "bloom", "mamba")))
def test_losses_lie_within_exact_bounds_and_have_gradients(kind):
    lm, search = loaded(kind, ALL[kind]), Search(0.3, 60, every_word=True)
    for context in CONTEXTS:
        people = {"many": 0.5, "cat": 0.5}
        item = Item("1", "1", context, tuple(people))
        tree = word_tree(lm, [item], Vocabulary(lm.pieces), search)
        lm.model.zero_grad()
        loss = human_losses(lm.model, tree).sum()
        loss.backward()
        gradients = [p.grad for p in lm.model.parameters() if p.grad is not None]
        assert any(gradient.any() for gradient in gradients)
        assert all(torch.isfinite(gradient).all() for gradient in gradients)
        (found,) = exact(lm, [Question(context, tuple(people), (0.5, 0.5))], search=search)
        low, high = found.log_loss(people)
        assert high is not None
        assert low - 1e-4 <= loss.item() <= high + 1e-4


def is_one_line(error: BaseException) -> bool:
    text = str(error)
    return "\n" not in text and text.endswith(".") and ". " not in text


def test_at_least_forty_architectures_are_tested():
    assert len(IN_TREE) + len(PLAIN) == 40


@pytest.mark.parametrize("kind", sampled(WINDOWED, QUICK_WINDOWED))
def test_contexts_beyond_the_attention_window_are_run_in_plain_passes(kind):
    lm = loaded(kind, WINDOWED[kind])
    assert (lm.window, lm.positions) == (24, POSITIONS)
    check_that_order_matters(lm)
    assert distance(lm) <= 1e-5
    assert distance(lm, tuple(f"{'many more ' * 12}{context}" for context in CONTEXTS)) <= 1e-5
    with pytest.raises(UsageError, match=f"window of {POSITIONS}") as caught:
        exact(lm, [Question("many " * POSITIONS, ("the",))])
    assert is_one_line(caught.value)


@pytest.mark.parametrize("kind", sampled(WINDOWED, QUICK_WINDOWED))
def test_undeclared_attention_window_is_detected_at_used_length(kind):
    lm = replace(loaded(kind, WINDOWED[kind]), window=POSITIONS)
    assert not lm.in_tree(80)
    assert distance(lm) <= 1e-5


@pytest.mark.parametrize("kind", sampled(WINDOWED, QUICK_WINDOWED))
def test_plain_passes_of_short_contexts_beside_long_ones_respect_the_window(kind):
    """Continuations of a short context come after the columns of a longer one."""
    lm = replace(loaded(kind, WINDOWED[kind]), window=0)
    longest = CONTEXTS[0]
    assert distance(lm, (*(longest[:stop] for stop in (9, 14)), longest)) <= 1e-5


def test_length_dependent_rotary_scaling_limits_context_length():
    rope = {"rope_type": "longrope", "original_max_position_embeddings": 24, "rope_theta": 1e4}
    rope |= {"short_factor": [1.0] * 4, "long_factor": [4.0] * 4}
    own = {"rope_parameters": rope, "original_max_position_embeddings": 24}
    lm = loaded("phi3", BASE | PADDED | own)
    assert lm.window == 24
    assert distance(lm) <= 1e-5


@pytest.mark.parametrize("kind", sampled(["gpt2", "llama", "opt", "gptj", "xglm"], ["gpt2"]))
@pytest.mark.parametrize("positions", [12, 20])
def test_short_position_range_works_or_is_rejected(kind, positions):
    name = "n_positions" if "n_positions" in IN_TREE[kind] else "max_position_embeddings"
    lm = loaded(kind, IN_TREE[kind] | {name: positions})
    prompts = [prompt(str(i), text) for i, text in enumerate(["He", "so many", "the man said"])]
    for drawn in mc(lm, prompts, samples=200):
        assert sum(drawn.counts.values()) + drawn.failed == 200
    with pytest.raises(UsageError, match=f"window of {positions}") as caught:
        mc(lm, [prompt("0", "many " * positions)], samples=10)
    assert is_one_line(caught.value)


def test_failing_forward_pass_is_reported():
    model = network("llama", BASE)
    model.model.embed_tokens = torch.nn.Embedding(2, 32)
    with pytest.raises(UsageError, match="fails: index out of range") as caught:
        wrap(model, tokenizer(), name="tiny")
    assert is_one_line(caught.value)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kind", sampled(["llama", "gemma3_text", "mixtral"], ["llama"]))
def test_supported_models_are_accepted_in_half_precision(kind, dtype):
    model = network(kind, IN_TREE[kind], scale=0.1).to(dtype)
    assert has_tree_pass(wrap(model, tokenizer(), name="tiny"))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kind", MORE_PLAIN)
def test_models_without_a_tree_pass_are_detected_in_half_precision(kind, dtype):
    model = network(kind, MORE_PLAIN[kind]).to(dtype)
    assert wrap(model, tokenizer(), name="tiny").window == 0


@pytest.mark.parametrize("scale", [0.02, 0.3], ids=["flat", "peaked"])
def test_alibi_is_detected_at_any_weight_scale(scale):
    for kind in ("mpt", "mpt long"):
        model = network(kind, (PLAIN | MORE_PLAIN)[kind], scale)
        assert wrap(model, tokenizer(), name="tiny").window == 0


LONG = tuple(range(1, 40))
GENERATED = {**ALL, **{f"{kind} windowed": settings for kind, settings in WINDOWED.items()}}
QUICK_GENERATED = ("bloom", "rwkv")


@pytest.mark.parametrize("kind", sampled(GENERATED, QUICK_GENERATED))
def test_rows_of_text_generation_match_separate_passes(kind):
    writer = causal_network(network(kind, GENERATED[kind]), tokenizer(), label="tiny")
    short = (5, 6, 7)
    batch, first = writer.begin([LONG, short])
    second = batch.advance(torch.tensor([1, 0, 1]), torch.tensor([8, 9, 10]))
    third = batch.advance(torch.tensor([2, 2, 0]), torch.tensor([3, 4, 3]))
    rows = [(LONG, ()), (short, ()), (short, (8,)), (LONG, (9,)), (short, (10,))]
    rows += [(short, (10, 3)), (short, (10, 4)), (short, (8, 3))]
    alone = [writer.alone(*row) for row in rows]
    assert are_same(torch.cat(alone), torch.cat([first, second, third]))


@pytest.mark.parametrize("kind", sampled(ALL, ("mamba", "bloom")))
def test_texts_do_not_depend_on_batches(kind):
    model, inputs = (
        network(kind, ALL[kind]),
        ("many things", "It's", "the cat", "some of them", "so"),
    )
    items = [TextItem(str(i), "1", (text,), ()) for i, text in enumerate(inputs)]
    found = []
    for rows in (1, 4, 100):
        writer = text_model(model, tokenizer(), label="tiny", batching=Batching(rows=rows))
        ask = Writing(samples=3, max_new_tokens=6)
        found.append({texts.item_id: texts.texts for texts in writer.write(items, ask)})
    assert found[0] == found[1] == found[2]
    assert len({text for texts in found[0].values() for text in texts}) > 10


@pytest.mark.parametrize("kind", sampled(["mamba", "rwkv", "jamba", "lfm2"], ["mamba"]))
def test_texts_of_recurrent_models_have_enumerated_frequencies(kind):
    """The first two tokens of texts against the probabilities of separate passes."""
    net = causal_network(network(kind, PLAIN[kind]), tokenizer(), label="tiny")
    assert net.plain is not None
    prompt, samples = (5, 6, 7), 4000
    asked = [TextPrompt("a", prompt, key_of(0, "a", Decoder()), 2)]
    drawn = write_all(TextSampler(net, Decoder()), packs_of(asked, samples, 1000))
    counts = Counter(written.ids for written in drawn)
    expected: Counter[tuple[int, ...]] = Counter()
    for first, p in enumerate(net.alone(prompt, ())[0].softmax(-1).tolist()):
        if first in net.ends:
            expected[()] += p
            continue
        for second, q in enumerate(net.alone(prompt, (first,))[0].softmax(-1).tolist()):
            expected[(first,) if second in net.ends else (first, second)] += p * q
    observed = [counts[ids] for ids in expected]
    assert sum(observed) == samples
    wanted = [samples * p for p in expected.values()]
    assert chisquare(*pooled(observed, wanted)).pvalue > 1e-4


@pytest.mark.parametrize("kind", sampled(GENERATED, QUICK_GENERATED))
def test_reference_tokens_get_the_logits_of_plain_forward_passes(kind):
    """Padded batches at the token level against one pass per position, without a cache."""
    model = network(kind, GENERATED[kind])
    reader = causal_forced(
        model, tokenizer(), label="tiny", version="local", forcing=Forcing(window=30)
    )
    items = [Document("a", CONTEXTS[0] * 3), Document("b", CONTEXTS[1])]
    strips = [strip for of_item in reader.strips(items) for strip in of_item]
    assert len({len(strip.given) for strip in strips}) > 1
    for row, strip in zip(reader.logits(strips), strips, strict=True):
        stops = range(1, len(strip.given) + 1, 4)
        with torch.inference_mode():
            texts = [torch.tensor([strip.given[:stop]]) for stop in stops]
            plain = [model(input_ids=text, use_cache=False).logits[0, -1] for text in texts]
        assert are_same(torch.stack(plain), row[[stop - 1 for stop in stops]])


def test_model_wrapped_twice_still_supports_tiles():
    first = in_tiles(tiny("llama"))
    assert first.tiled
    assert in_tiles(wrap(first.model, tokenizer(), name="again", bos="none")).tiled
