"""Attention in tiles gives what a mask gives."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from lms import tiny

from aleatoric.models.hf import in_tiles
from aleatoric.tiles import SIZE, Tiles
from aleatoric.words.mc import Prompt, mc
from aleatoric.words.passages import Passage
from aleatoric.words.tree import Limits, Tree


def _seen_by_mask(spans, others, width):
    seen = np.zeros((len(spans), width), dtype=bool)
    for row, ((start, stop), more) in enumerate(zip(spans, others, strict=True)):
        seen[row, start:stop] = True
        seen[row, [column for column in more if column >= 0]] = True
    return seen


@given(st.integers(0, 10_000))
def test_tiles_show_each_token_what_its_mask_shows(seed):
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
def test_a_tree_in_tiles_has_the_logits_of_a_tree_with_masks(kind):
    dense = tiny(kind, dtype=torch.float64)
    tiled = in_tiles(dense)
    assert tiled.tiled
    passages = [Passage((1, 2, 3, 4), ((0, 2), (1, 4))), Passage((5, 6), ((2, 2),))]
    for_each = [_grown(lm, passages) for lm in (dense, tiled)]
    for wanted, found in zip(*for_each, strict=True):
        torch.testing.assert_close(found, wanted, atol=1e-12, rtol=1e-12)


def _grown(lm, passages):
    tree = Tree(lm, passages, Limits(nodes=3))
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


def test_draws_are_the_same_in_tiles():
    dense = tiny("gpt2")
    prompts = [Prompt(f"{i}", text) for i, text in enumerate(["the cat", "the", "a dog"])]
    tiled = in_tiles(dense)
    assert mc(tiled, prompts, samples=200) == mc(replace(tiled, tiled=False), prompts, samples=200)
