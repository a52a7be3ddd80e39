"""Distances by a model of natural language inference (NLI): does one text follow from another?

`entailment:MODEL` is 1 - P(b follows from a), an asymmetric distance of which both directions
count. `nli:MODEL` is 0 for two texts of which each follows from the other, and 1 otherwise.
`nli_clusters:MODEL` is 0 for two texts of one semantic cluster and 1 otherwise, as in semantic
entropy (Kuhn et al. 2023): each text joins the first cluster whose first text follows from it and
from which it follows, or starts a cluster. People's texts come first, then those of each system on
its own, so that people's clusters do not depend on the systems.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import PurePath
from typing import Any

import numpy as np

from aleatoric import hub
from aleatoric.errors import ModelError, UsageError, first_line, needs
from aleatoric.probes.base import Block, Distance, Window
from aleatoric.probes.encoders import (
    SentenceEncoder,
    VectorCache,
    count_tokens,
    encode_once,
    usable_device,
)
from aleatoric.probes.tools import Tools
from aleatoric.types import Floats

BATCH = 64
MOST_TOKENS = 512
"""Pairs are cut to this many tokens, or fewer if the model reads fewer."""
ENTAILMENT = ("entailment", "entails", "entail")
Follows = Mapping[tuple[str, str], tuple[float, bool]]
"""(premise, hypothesis) -> P(entailment), and whether entailment is the most likely label."""


def open_model(name: str, device: str | None = None) -> SentenceEncoder:
    """An NLI model: a pair of texts as JSON -> P(entailment), and 1 if it is the likeliest label.

    The label is read from the model's config. Weights are safetensors; no code of the repository
    is run.
    """
    with needs("transformers", "hf"):
        import torch
        import transformers
    options = hub.options(name, None, "nli:FOLDER")
    settings = {"trust_remote_code": False, **options}
    weights = {"dtype": torch.float32, "use_safetensors": True, "output_loading_info": True}
    kind = transformers.AutoModelForSequenceClassification
    try:
        with hub.quiet(transformers):
            tokenizer = transformers.AutoTokenizer.from_pretrained(name, **settings)
            model, info = kind.from_pretrained(name, **weights, **settings)
    except Exception as error:  # whatever a damaged folder raises
        reason = first_line(error).partition(" from one of:")[0].rstrip(". ")
        fix = "give the name or folder of a sequence classifier with safetensors"
        raise ModelError(f"cannot load the NLI model {name!r} ({reason}); {fix}.") from None
    if missing := sorted(info["missing_keys"]):
        problem = f"the NLI model {name!r} lacks weights ({missing[0]})"
        raise UsageError(f"{problem}; give a model that was trained as a sequence classifier.")
    number = entailment_label(name, model.config.id2label)
    commit = getattr(model.config, "_commit_hash", None)
    label = f"nli:{name}{f'@{commit[:12]}' if commit else ''}"
    placed = model.to(usable_device(device)).eval()
    n_special = tokenizer.num_special_tokens_to_add(pair=True)
    window = Window(label, _longest(model), n_special, partial(count_tokens, tokenizer), True)
    return SentenceEncoder(
        label, lambda pairs: _entailment(placed, tokenizer, number, pairs), window
    )


def _longest(model: Any) -> int:
    """The most tokens of a pair that the model reads."""
    longest: int = getattr(model.config, "max_position_embeddings", MOST_TOKENS)
    return min(longest - 2, MOST_TOKENS)  # RoBERTa's first two positions are not used


def _entailment(model: Any, tokenizer: Any, number: int, pairs: Sequence[str]) -> Floats:
    """One row per pair: the probability of the label, and whether it is the likeliest one."""
    import torch

    cut = {"truncation": True, "max_length": _longest(model)}
    options = {**cut, "padding": True, "return_tensors": "pt"}
    found = np.empty((len(pairs), 2))
    for rows in _by_length(pairs):
        premises, hypotheses = zip(*(json.loads(pairs[row]) for row in rows), strict=True)
        read = tokenizer([*premises], [*hypotheses], **options).to(model.device)
        with torch.inference_mode():
            probs = model(**read).logits.double().softmax(-1)
        found[rows, 0] = probs[:, number].cpu().numpy()
        found[rows, 1] = (probs.argmax(-1) == number).cpu().numpy()
    return found


def _by_length(pairs: Sequence[str]) -> Iterator[list[int]]:
    """Rows in batches of pairs of like length, so that they need little padding."""
    order = sorted(range(len(pairs)), key=lambda row: (len(pairs[row]), row))
    return (order[start : start + BATCH] for start in range(0, len(order), BATCH))


def entailment_label(name: str, labels: Mapping[int, str]) -> int:
    """The number of the label that stands for entailment.

    >>> entailment_label("m", {0: "contradiction", 1: "Entailment", 2: "neutral"})
    1
    """
    for number, label in labels.items():
        if str(label).casefold() in ENTAILMENT:
            return int(number)
    known = ", ".join(map(str, labels.values()))
    raise UsageError(
        f"the NLI model {name!r} has no label 'entailment' (its config.json has {known}); give a "
        "model of natural language inference, or name its labels in id2label."
    )


def follows(model: SentenceEncoder, pairs: Sequence[tuple[str, str]], cache: Any) -> Follows:
    """What the model says of each distinct pair of different texts; each is asked once."""
    distinct = [pair for pair in dict.fromkeys(pairs) if pair[0] != pair[1]]
    values = encode_once(model, [json.dumps(pair) for pair in distinct], cache)
    rows = ((float(p), bool(top)) for p, top in values.reshape(-1, 2))
    return dict(zip(distinct, rows, strict=True))


Between = Callable[[Block, Follows], Floats]
"""A block and what the model says -> the distances of texts that are not empty."""


def inference(
    name: str, model: SentenceEncoder, cache: VectorCache | None, between: Between, **about: Any
) -> Distance:
    """Make a probe from what a model says of the pairs of texts; NaN for white space only."""

    def matrices(blocks: Sequence[Block]) -> list[Floats]:
        asked = [pair for block in blocks for pair in pairs_of(block)]
        answers = follows(model, asked, cache)
        return [matrix(block, answers) for block in blocks]

    def matrix(block: Block, answers: Follows) -> Floats:
        distances = between(block, answers)
        empty = [i for i, text in enumerate(block.texts) if not text.strip()]
        distances[empty, :] = distances[:, empty] = np.nan
        return distances

    return Distance(name, {"nli": model.label}, matrices, window=model.window, **about)


def pairs_of(block: Block) -> Iterator[tuple[str, str]]:
    """The wanted pairs of texts with content, in both directions."""
    for i, j in block.wanted():
        a, b = block.texts[i], block.texts[j]
        if a.strip() and b.strip():
            yield from ((a, b), (b, a))


def _blank(block: Block) -> Floats:
    """The distances before any is known: 0 from a text to itself, else NaN."""
    matrix = np.full((len(block.texts),) * 2, np.nan)
    np.fill_diagonal(matrix, 0.0)
    return matrix


def one_way(block: Block, answers: Follows) -> Floats:
    """1 - P(the column's text follows from the row's); 0 for equal texts."""
    matrix = _blank(block)
    for pair in block.wanted():
        for i, j in (pair, pair[::-1]):
            a, b = block.texts[i], block.texts[j]
            known = answers.get((a, b))
            matrix[i, j] = 0.0 if a == b else 1 - known[0] if known else np.nan
    return matrix


def mutual(block: Block, answers: Follows) -> Floats:
    """1 where entailment is not the likeliest label in both directions, else 0."""
    matrix = _blank(block)
    for i, j in block.wanted():
        a, b = block.texts[i], block.texts[j]
        if a.strip() and b.strip():
            matrix[i, j] = matrix[j, i] = float(not _mutual(a, b, answers))
    return matrix


def across_clusters(block: Block, answers: Follows) -> Floats:
    """1 where the clusters of two texts differ, else 0.

    The energy distance compares the frequencies of clusters. Where entailment is not transitive,
    clusters depend on the order of texts: a perfect generator's texts, which come after people's,
    then seem to vary a little more than people's do.
    """
    matrix = np.full((len(block.texts),) * 2, np.nan)
    people, start = block.sizes[0], block.sizes[0]
    for size in block.sizes[1:] or (0,):
        rows = [*range(people), *range(start, start + size)]
        numbers = clusters([block.texts[i] for i in rows], answers)
        matrix[np.ix_(rows, rows)] = np.not_equal.outer(numbers, numbers)
        start += size
    return matrix


def clusters(texts: Sequence[str], answers: Follows) -> list[int]:
    """The number of each text's cluster; that of an empty text is -1."""
    firsts: list[str] = []
    numbers: list[int] = []
    for text in texts:
        if not text.strip():
            numbers.append(-1)
            continue
        joined = (n for n, first in enumerate(firsts) if _mutual(first, text, answers))
        number = next(joined, len(firsts))
        if number == len(firsts):
            firsts.append(text)
        numbers.append(number)
    return numbers


def _mutual(a: str, b: str, answers: Follows) -> bool:
    return a == b or (answers[a, b][1] and answers[b, a][1])


def open_nli(argument: str, tools: Tools) -> Distance:
    """`nli:MODEL`: 0 if two texts follow from each other by a model of inference, else 1."""
    return inference(*_parts("nli", argument, tools), mutual)


def open_clusters(argument: str, tools: Tools) -> Distance:
    """`nli_clusters:MODEL`: 0 for two texts of one semantic cluster, else 1."""
    parts = _parts("nli_clusters", argument, tools)
    return inference(*parts, across_clusters, negative_type="yes")


def open_entailment(argument: str, tools: Tools) -> Distance:
    """`entailment:MODEL`: 1 - P(one text follows from the other), mean of both directions."""
    return inference(*_parts("entailment", argument, tools), one_way, symmetric=False)


def _parts(
    kind: str, argument: str, tools: Tools
) -> tuple[str, SentenceEncoder, VectorCache | None]:
    place = argument.removeprefix(":")
    if not place:
        raise UsageError(f"the probe {kind} needs a model; write {kind}:NAME or {kind}:FOLDER.")
    model = tools.shared(f"nli:{place}", lambda: open_model(place, tools.device))
    return f"{kind}:{PurePath(place).name}", model, tools.cache
