"""Every architecture is right in the tree pass or refused with one sentence."""

# ruff: noqa: E402  (the imports below need torch, and the tests are skipped without it)
from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from marks import sampled

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from lms import AtOnce, next_probs, tiny, tokenizer
from transformers import AutoConfig, AutoModelForCausalLM

from aleatoric.errors import UsageError
from aleatoric.models.attention import are_same
from aleatoric.models.generate_hf import causal_network
from aleatoric.models.hf import HFModel, check_attention, in_tiles, wrap
from aleatoric.nextword.bounds import WordProbabilities
from aleatoric.nextword.exact import Question, Search, exact
from aleatoric.nextword.rules import DONE, WordState, advance
from aleatoric.nextword.sampled import Prompt, mc
from aleatoric.nextword.tree import Limits

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

RIGHT: dict[str, dict[str, Any]] = {
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
REFUSED: dict[str, dict[str, Any]] = {
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
MORE_REFUSED: dict[str, dict[str, Any]] = {
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
QUICK = ("gpt2", "falcon", "llama", "mixtral", "gemma3_text", "deepseek_v3")
QUICK_REFUSED = ("bloom", "gpt_neo", "mamba", "gpt_neo long")
QUICK_WINDOWED = ("mistral", "gemma2")
"""Architectures that `make test` tries; `make test-all` tries all of them."""


def network(kind: str, settings: dict[str, Any], scale: float = 0.3) -> Any:
    """A random two-layer network whose attention and positions change its numbers much."""
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


def few(lm: HFModel) -> AtOnce:
    """The model with a few pieces only, so that the texts of a few pieces have much mass."""
    allowed = torch.tensor([piece in PIECES for piece in lm.pieces])
    assert allowed.sum() >= len(PIECES)
    return AtOnce(lm, torch.where(allowed, 0.0, -math.inf))


def plain_words(lm: AtOnce, context: str) -> dict[str, float]:
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


def distance(lm: HFModel) -> float:
    """The largest TVD between exact word probabilities and those of plain forward passes."""
    lm_of_few = few(lm)
    plain = [plain_words(lm_of_few, context) for context in CONTEXTS]
    assert all(len(words) == 42 and sum(words.values()) > 0.1 for words in plain)
    found = exact(
        lm_of_few,
        [Question(context, tuple(words)) for context, words in zip(CONTEXTS, plain, strict=True)],
        lead="condition",
        search=Search(0.0, 10**6, "outcome"),
        limits=Limits(nodes=7),
    )
    return max(map(tvd, plain, found))


def tvd(plain: dict[str, float], found: WordProbabilities) -> float:
    wanted = list(plain.values())
    pairs = [*zip(wanted, found.low, strict=True), (sum(wanted), sum(found.low))]
    return sum(abs(one - other) for one, other in pairs) / 2


def check_that_order_matters(lm: HFModel) -> None:
    """A model whose numbers hardly depend on the order of its tokens would show nothing."""
    ids = lm.encode("It's well-known that the cat")
    swapped = (ids[1], ids[0], *ids[2:])
    apart = (next_probs(lm, ids) - next_probs(lm, swapped)).abs().sum() / 2
    assert apart > 0.01


@pytest.mark.parametrize("kind", sampled(RIGHT, QUICK))
def test_word_probabilities_are_those_of_plain_forward_passes(kind):
    lm = loaded(kind, RIGHT[kind])
    check_that_order_matters(lm)
    assert distance(lm) <= 1e-5


def is_one_sentence(error: BaseException) -> bool:
    text = str(error)
    return "\n" not in text and text.endswith(".") and ". " not in text


@pytest.mark.parametrize("kind", sampled([*REFUSED, *MORE_REFUSED], QUICK_REFUSED))
def test_models_that_do_not_obey_masks_and_positions_are_refused(kind):
    settings = (REFUSED | MORE_REFUSED)[kind]
    model = network(kind, settings)
    with pytest.raises(UsageError, match=f"type '{kind.split()[0]}' are not supp") as caught:
        wrap(model, tokenizer(), name="tiny", bos="none")
    assert is_one_sentence(caught.value)
    assert "recorded:FILE" in str(caught.value)


def test_forty_architectures_are_tried():
    assert len(RIGHT) + len(REFUSED) == 40


@pytest.mark.parametrize("kind", sampled(WINDOWED, QUICK_WINDOWED))
def test_attention_windows_bound_the_contexts(kind):
    lm = loaded(kind, WINDOWED[kind])
    assert lm.window == 24
    check_that_order_matters(lm)
    assert distance(lm) <= 1e-5
    too_long = "many " * 20
    with pytest.raises(UsageError, match="window of 24") as caught:
        exact(lm, [Question(too_long, ("the",))])
    assert is_one_sentence(caught.value)


@pytest.mark.parametrize("kind", sampled(WINDOWED, QUICK_WINDOWED))
def test_a_window_that_is_not_declared_is_noticed_at_the_length_in_use(kind):
    lm = replace(loaded(kind, WINDOWED[kind]), window=POSITIONS)
    with pytest.raises(UsageError, match="attention window"):
        exact(lm, [Question("There are many", ("the",))])
    with pytest.raises(UsageError, match="attention window"):
        mc(lm, [Prompt("0", "There are many")], samples=10)


def test_rotary_positions_that_depend_on_the_longest_text_bound_the_contexts():
    rope = {"rope_type": "longrope", "original_max_position_embeddings": 24, "rope_theta": 1e4}
    rope |= {"short_factor": [1.0] * 4, "long_factor": [4.0] * 4}
    own = {"rope_parameters": rope, "original_max_position_embeddings": 24}
    lm = loaded("phi3", BASE | PADDED | own)
    assert lm.window == 24
    assert distance(lm) <= 1e-5


@pytest.mark.parametrize("kind", sampled(["gpt2", "llama", "opt", "gptj", "xglm"], ["gpt2"]))
@pytest.mark.parametrize("positions", [12, 20])
def test_few_positions_are_enough_for_the_samples_or_refused(kind, positions):
    name = "n_positions" if "n_positions" in RIGHT[kind] else "max_position_embeddings"
    lm = loaded(kind, RIGHT[kind] | {name: positions})
    prompts = [Prompt(str(i), text) for i, text in enumerate(["He", "so many", "the man said"])]
    for drawn in mc(lm, prompts, samples=200):
        assert sum(drawn.counts.values()) + drawn.failed == 200
    with pytest.raises(UsageError, match=f"window of {positions}") as caught:
        mc(lm, [Prompt("0", "many " * positions)], samples=10)
    assert is_one_sentence(caught.value)


def test_a_forward_pass_that_fails_says_so():
    model = network("llama", BASE)
    model.model.embed_tokens = torch.nn.Embedding(2, 32)
    with pytest.raises(UsageError, match="fails: index out of range") as caught:
        wrap(model, tokenizer(), name="tiny")
    assert is_one_sentence(caught.value)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kind", sampled(["llama", "gemma3_text", "mixtral"], ["llama"]))
def test_half_precision_is_no_reason_to_refuse(kind, dtype):
    model = network(kind, RIGHT[kind], scale=0.1).to(dtype)
    check_attention(wrap(model, tokenizer(), name="tiny"))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kind", MORE_REFUSED)
def test_half_precision_hides_nothing(kind, dtype):
    model = network(kind, MORE_REFUSED[kind]).to(dtype)
    with pytest.raises(UsageError, match="not supported"):
        wrap(model, tokenizer(), name="tiny")


@pytest.mark.parametrize("scale", [0.02, 0.3], ids=["flat", "peaked"])
def test_alibi_is_noticed_whatever_the_scale_of_the_weights(scale):
    for kind in ("mpt", "mpt long"):
        model = network(kind, (REFUSED | MORE_REFUSED)[kind], scale)
        with pytest.raises(UsageError, match="ALiBi"):
            wrap(model, tokenizer(), name="tiny")


@pytest.mark.parametrize(
    "kind", sampled(["mamba", "rwkv", "jamba", "qwen3_next", "lfm2"], ["mamba"])
)
@pytest.mark.parametrize("scale", [0.02, 0.3], ids=["flat", "peaked"])
def test_recurrent_models_are_refused_as_writers_too(kind, scale):
    model = network(kind, REFUSED[kind], scale)
    with pytest.raises(UsageError, match="does not keep keys and values") as caught:
        causal_network(model, tokenizer(), label="tiny")
    assert is_one_sentence(caught.value)


@pytest.mark.parametrize(
    "kind", sampled(["bloom", "mpt", "gpt_neo", "llama4_text", *WINDOWED], ["bloom", "mistral"])
)
def test_writers_are_right_beyond_attention_windows(kind):
    writer = causal_network(network(kind, (REFUSED | WINDOWED)[kind]), tokenizer(), label="tiny")
    long, short = tuple(range(1, 40)), (5, 6, 7)
    batch, first = writer.begin([long, short])
    second = batch.advance(torch.tensor([1, 0]), torch.tensor([8, 9]))
    alone = [writer.alone(long, ()), writer.alone(short, ())]
    alone += [writer.alone(short, (8,)), writer.alone(long, (9,))]
    assert are_same(torch.cat(alone), torch.cat([first, second]))


def test_a_model_that_is_wrapped_twice_still_takes_tiles():
    first = in_tiles(tiny("llama"))
    assert first.tiled
    assert in_tiles(wrap(first.model, tokenizer(), name="again", bos="none")).tiled
