"""Probabilities of given token sequences: the biased estimator and the first-token variant."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from aleatoric.models.decoding import Decoder
from aleatoric.nextword.tree import Limits, Tree, TreeLM, encode_contexts, packs_of, passages_of
from aleatoric.nextword.vocabulary import LogitReader, Vocabulary
from aleatoric.types import Categorical

Path = tuple[int, ...]


def word_tokens(lm: TreeLM, context: str, word: str) -> Path:
    """Tokenize a word as it follows a context and a space."""
    before, after = lm.encode(context), lm.encode(f"{context} {word}")
    if after[: len(before)] == before:
        return after[len(before) :]
    return lm.continuation(f" {word}")


def biased(
    lm: TreeLM,
    contexts: Sequence[str],
    supports: Sequence[Sequence[str]],
    *,
    decoder: Decoder | None = None,
    limits: Limits | None = None,
) -> list[Categorical]:
    """Return the biased estimate (App. A): softmax of log f(c, w) - log f(c) over each support."""
    paths = [
        [word_tokens(lm, context, word) for word in support]
        for context, support in zip(contexts, supports, strict=True)
    ]
    scores = sequence_log_probs(lm, contexts, paths, decoder=decoder, limits=limits)
    return [
        Categorical(tuple(support), _softmax(row), 0.0, None)
        for support, row in zip(supports, scores, strict=True)
    ]


def first_token(
    lm: TreeLM,
    contexts: Sequence[str],
    human: Sequence[Mapping[str, float]],
    *,
    decoder: Decoder | None = None,
    limits: Limits | None = None,
) -> list[tuple[Categorical, Categorical]]:
    """Return the human and the model distribution of the first token (App. D) per context.

    Answers that share a first token add up. Outcomes are token ids, as text.
    """
    answers = [_by_first_token(lm, c, words) for c, words in zip(contexts, human, strict=True)]
    paths = [[(token,) for token in shares] for shares in answers]
    scores = sequence_log_probs(lm, contexts, paths, decoder=decoder, limits=limits)
    pairs = []
    for shares, row in zip(answers, scores, strict=True):
        support = tuple(str(token) for token in shares)
        probs = tuple(math.exp(score) for score in row)
        rest = max(0.0, 1.0 - sum(probs))
        people = Categorical(support, tuple(shares.values()), 0.0, None)
        pairs.append((people, Categorical(support, probs, rest, None)))
    return pairs


def _by_first_token(lm: TreeLM, context: str, words: Mapping[str, float]) -> dict[int, float]:
    shares: dict[int, float] = {}
    for word, share in words.items():
        token = word_tokens(lm, context, word)[0]
        shares[token] = shares.get(token, 0.0) + share
    return shares


def sequence_log_probs(
    lm: TreeLM,
    contexts: Sequence[str],
    paths: Sequence[Sequence[Path]],
    *,
    decoder: Decoder | None = None,
    limits: Limits | None = None,
) -> list[list[float]]:
    """Return the log-probability of each token sequence after its context."""
    limits = limits or Limits()
    reader = LogitReader(lm, Vocabulary(lm.pieces), decoder)
    scores = [[0.0] * len(row) for row in paths]
    for pack in packs_of(passages_of(encode_contexts(lm, contexts)), limits.contexts_at_once(lm)):
        _score_pack(Tree(lm, pack, limits), reader, paths, scores)
    return scores


def _score_pack(
    tree: Tree, reader: LogitReader, paths: Sequence[Sequence[Path]], scores: list[list[float]]
) -> None:
    spans = tree.spans()
    numbers: dict[tuple[int, Path], int] = {(i, ()): -1 for i in spans}
    for indices, logits in tree.run_trunk():
        _add_scores(reader, [(i, ()) for i in indices], logits, paths, scores)
    depth = 1
    while wanted := _inner_nodes(spans, paths, depth):
        places = np.array([spans[i] for i, _ in wanted], dtype=np.int64)
        parents = np.array([numbers[i, path[:-1]] for i, path in wanted], dtype=np.int64)
        tokens = np.array([path[-1] for _, path in wanted], dtype=np.int64)
        for part, found, logits in tree.extend(places, parents, tokens):
            numbers.update(zip(wanted[part], found.tolist(), strict=True))
            _add_scores(reader, wanted[part], logits, paths, scores)
        depth += 1


def _inner_nodes(
    spans: Mapping[int, tuple[int, int]], paths: Sequence[Sequence[Path]], depth: int
) -> list[tuple[int, Path]]:
    """The token sequences of one length after which another token is scored, each once."""
    return list(
        dict.fromkeys((i, path[:depth]) for i in spans for path in paths[i] if len(path) > depth)
    )


def _add_scores(
    reader: LogitReader,
    nodes: list[tuple[int, Path]],
    logits: object,
    paths: Sequence[Sequence[Path]],
    scores: list[list[float]],
) -> None:
    asked = [
        [k for k, path in enumerate(paths[i]) if len(path) > len(at) and path[: len(at)] == at]
        for i, at in nodes
    ]
    tokens = [
        np.array([paths[i][k][len(at)] for k in ks], dtype=np.int64)
        for (i, at), ks in zip(nodes, asked, strict=True)
    ]
    for (i, _), ks, found in zip(nodes, asked, reader.log_probs_of(logits, tokens), strict=True):
        for k, value in zip(ks, found.tolist(), strict=True):
            scores[i][k] += value


def _softmax(scores: Sequence[float]) -> tuple[float, ...]:
    top = max(scores, default=0.0)
    weights = [math.exp(score - top) for score in scores]
    return tuple(weight / sum(weights) for weight in weights)
