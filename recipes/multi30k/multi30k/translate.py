"""Greedy translation and BLEU: a check that a trained model is sound, not a result."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from multi30k.batches import make_batches
from multi30k.data import Example
from multi30k.subwords import EOS, PAD, Dictionary

if TYPE_CHECKING:
    from torch import Tensor

    from multi30k.model import TranslationModel

_LONGEST_GRAM = 4
_MAX_TOKENS = 16_384


def bleu_of(
    model: TranslationModel, examples: Sequence[Example], dictionary: Dictionary, device: str
) -> float:
    """BLEU of greedy translations, on lower-cased Moses words."""
    found = translate(model, examples, device)
    wanted = [dictionary.words(example.target) for example in examples]
    return corpus_bleu([dictionary.words(ids) for ids in found], wanted)


def translate(model: TranslationModel, examples: Sequence[Example], device: str) -> list[list[int]]:
    """The likeliest next token again and again, for each example in its place."""
    found: dict[int, list[int]] = {}
    for batch in make_batches(examples, _MAX_TOKENS, device):
        found.update(zip(batch.numbers, greedy(model, batch.source).tolist(), strict=True))
    return [found[number] for number in range(len(examples))]


def greedy(model: TranslationModel, source: Tensor) -> Tensor:
    """Target tokens of a batch, up to 1.2 times the source's length and 10 more.

    After its end of sentence a row may hold anything.
    """
    import torch

    model.eval()
    with torch.inference_mode():
        memory = model.encode(source)
        given = torch.full_like(source[:, :1], EOS)
        ended = torch.zeros_like(source[:, 0], dtype=torch.bool)
        for _ in range(int(1.2 * source.shape[1]) + 10):
            logits = model.logits(model.decode(given, memory, source)[:, -1])
            logits[:, PAD] = -math.inf
            token = logits.argmax(-1)
            given = torch.cat([given, token[:, None]], dim=1)
            ended |= token == EOS
            if ended.all():
                break
    return given[:, 1:]


def corpus_bleu(found: Sequence[Sequence[str]], wanted: Sequence[Sequence[str]]) -> float:
    """BLEU-4 in percent, one reference per sentence, unsmoothed (Papineni et al. 2002).

    >>> sentence = "a dog runs in the park".split()
    >>> corpus_bleu([sentence], [sentence])
    100.0
    >>> corpus_bleu([["a"]], [sentence])
    0.0
    """
    logs = [_log_precision(found, wanted, size) for size in range(1, _LONGEST_GRAM + 1)]
    length, reference = sum(map(len, found)), sum(map(len, wanted))
    if not length or -math.inf in logs:
        return 0.0
    brevity = min(0.0, 1 - reference / length)
    return 100 * math.exp(brevity + sum(logs) / _LONGEST_GRAM)


def _log_precision(
    found: Sequence[Sequence[str]], wanted: Sequence[Sequence[str]], size: int
) -> float:
    hits = total = 0
    for one, reference in zip(found, wanted, strict=True):
        grams = _grams(one, size)
        hits += (grams & _grams(reference, size)).total()
        total += grams.total()
    return math.log(hits / total) if hits else -math.inf


def _grams(words: Sequence[str], size: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(words[i : i + size]) for i in range(len(words) - size + 1))
