"""Attention in tiles matches attention with a mask."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from lms import next_probs, tiny, tokenizer
from prompts import prompt
from transformers import LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM

from aleatoric.models.attention import SIZE, ProbeTree, Tiles
from aleatoric.models.hf import in_tiles, wrap
from aleatoric.models.plain import Limits
from aleatoric.nextword.sampled import mc
from aleatoric.nextword.tree import TokenPassage, Tree


def _seen_by_mask(spans, others, width):
    seen = np.zeros((len(spans), width), dtype=bool)
    for row, ((start, stop), more) in enumerate(zip(spans, others, strict=True)):
        seen[row, start:stop] = True
        seen[row, [column for column in more if column >= 0]] = True
    return seen


@given(st.integers(0, 10_000))
def test_tiles_match_attention_mask(seed):
    rng = np.random.default_rng(seed)
    starts = rng.choice([0, 9, 30], size=rng.integers(1, 3 * SIZE))
    spans = np.stack([starts, starts + rng.integers(1, 10, size=len(starts))], 1)
    others = rng.integers(-1, 30, size=(len(starts), rng.integers(1, 4))) + 40
    others[others < 41] = -1
    tiles = Tiles.of(spans, others, "cpu")
    seen = np.zeros((len(starts), 80), dtype=bool)
    for token, place in enumerate(tiles.places.tolist()):
        tile, slot = divmod(place, SIZE)
        assert tiles.rows[tile, slot] == token
        seen[token, tiles.columns[tile][tiles.mask[tile, slot]]] = True
    assert (seen == _seen_by_mask(spans, others, 80)).all()


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_tiled_tree_logits_match_masked_tree(kind):
    dense = tiny(kind, dtype=torch.float64)
    tiled = in_tiles(dense)
    assert tiled.tiled
    passages = [TokenPassage((1, 2, 3, 4), ((0, 2), (1, 4))), TokenPassage((5, 6), ((2, 2),))]
    for_each = [_grown(lm, passages) for lm in (dense, tiled)]
    for wanted, found in zip(*for_each, strict=True):
        torch.testing.assert_close(found, wanted, atol=1e-12, rtol=1e-12)


def _grown(lm, passages):
    tree = Tree(replace(lm, limits=Limits(nodes=3)), passages)
    spans = tree.spans()
    found = [logits for _, logits in tree.run_trunk()]
    of_contexts = np.array([spans[i] for i in (0, 0, 1, 2, 2)])
    parents, tokens = np.full(5, -1), np.arange(5)
    numbers = []
    for _, fresh, logits in tree.extend(of_contexts, parents, tokens):
        numbers.extend(fresh.tolist())
        found.append(logits)
    for parent in (numbers, range(5, 10)):  # below the contexts' children, then once more
        for _, _, logits in tree.extend(of_contexts, np.array(parent), tokens[::-1].copy()):
            found.append(logits)
    return found


def test_draws_do_not_depend_on_tiling():
    dense = tiny("gpt2")
    prompts = [prompt(f"{i}", text) for i, text in enumerate(["the cat", "the", "a dog"])]
    tiled = in_tiles(dense)
    assert mc(tiled, prompts, samples=200) == mc(replace(tiled, tiled=False), prompts, samples=200)


class UndeclaredWindow(LlamaForCausalLM):  # type: ignore[misc]
    """A model with an undeclared attention window of six tokens."""

    def forward(self, *arguments, attention_mask=None, position_ids=None, **named):
        apart = (position_ids[0][:, None] - position_ids[0][None, :]).abs()
        if attention_mask.shape[-1] == len(apart):
            least = torch.finfo(attention_mask.dtype).min
            attention_mask = attention_mask.masked_fill(apart >= 6, least)
        named |= {"attention_mask": attention_mask, "position_ids": position_ids}
        return super().forward(*arguments, **named)


def _wrapped(model, dtype):
    return wrap(model.to(dtype).eval(), tokenizer(), name="tiny")


SHAPE = {
    "vocab_size": 360,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("scale", [0.02, 0.2], ids=["flat", "peaked"])
@pytest.mark.parametrize("window", [16, 128])
def test_model_with_different_attention_is_detected(window, scale, dtype):
    torch.manual_seed(0)
    config = LlamaConfig(**SHAPE, max_position_embeddings=window, initializer_range=scale)
    honest = _wrapped(LlamaForCausalLM(config), dtype)
    shortsighted = UndeclaredWindow(LlamaConfig(**config.to_dict())).to(dtype).eval()
    assert in_tiles(honest).tiled
    assert not in_tiles(replace(honest, model=shortsighted)).tiled


def test_tiles_are_correct_within_sliding_window():
    torch.manual_seed(0)
    config = MistralConfig(
        **SHAPE, max_position_embeddings=64, sliding_window=4, initializer_range=0.2
    )
    dense = _wrapped(MistralForCausalLM(config), torch.float64)
    assert dense.window == 4
    tiled = in_tiles(dense)
    assert tiled.tiled
    # All texts of these trees are four tokens long at most: a plain pass sees them whole.
    found = [own for part in _grown_short(tiled) for own in part]
    texts = [(1,), (1, 2), (1, 2, 5), (1, 2, 6), (1, 2, 5, 7), (1, 2, 6, 8)]
    for text, logits in zip(texts, found, strict=True):
        torch.testing.assert_close(logits.softmax(-1), next_probs(dense, text))


def _grown_short(lm):
    tree = Tree(replace(lm, limits=Limits(nodes=3)), [TokenPassage((1, 2), ((0, 1), (1, 2)))])
    yield from (logits for _, logits in tree.run_trunk())
    below = np.array([tree.spans()[1]] * 2)
    for parents, tokens in (((-1, -1), (5, 6)), ((0, 1), (7, 8))):
        for _, _, logits in tree.extend(below, np.array(parents), np.array(tokens)):
            yield logits


@pytest.mark.parametrize(("vocabulary", "window"), [(2, 2), (3, 4), (5, 16), (50_000, 2048)])
def test_probe_tree_fits_model_and_its_tiles_match_mask(vocabulary, window):
    tree = ProbeTree.of(vocabulary, window)
    assert tree.ids.max() < vocabulary
    assert tree.positions.max() < window
    assert (tree.mask.sum(1) == tree.positions + 1).all()
    assert (tree.mask == _seen_by_mask(tree.spans, tree.others, len(tree.ids))).all()
    assert len(tree.ids) <= 64
