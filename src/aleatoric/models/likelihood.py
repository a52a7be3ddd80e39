"""The log-probability of whole texts under a causal language model, for probes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from aleatoric import registry
from aleatoric.errors import UsageError, did_you_mean, quoted
from aleatoric.models.base import ForcedModel, Forcing, LoadOptions
from aleatoric.models.forced import chunks, parts
from aleatoric.probes.encoders import SentenceEncoder
from aleatoric.types import Document

KINDS = ("smollm2", "hf", "gguf")
BATCH_TOKENS = 2048
PART = 1 << 14
"""Tokens whose logits are computed between two batches of texts, sorted by length."""


def open_likelihood(spec: str, loading: LoadOptions) -> SentenceEncoder:
    """A model of `--model`: text -> its log-probability in nats and its number of scored tokens.

    A text's first token is scored where the tokenizer starts texts with a special token.
    """
    kind, _, argument = spec.partition(":")
    if kind not in KINDS:
        near, known = did_you_mean(spec, KINDS), ", ".join(KINDS)
        raise UsageError(
            f"there is no likelihood model {quoted(spec)}{near}; known kinds: {known}."
        )
    forcing = Forcing(loading.dtype, loading.device, loading.bos)
    model: ForcedModel = registry.find("forced_models", kind)(argument, forcing)
    if model.reads != "text":
        problem = f"{model.label} reads pairs of sentences, and a likelihood needs a causal model"
        raise UsageError(f"{problem}; use another one.")
    bos = model.conventions.get("bos", "")
    label = f"{model.label}@{model.version},bos={bos}"
    return SentenceEncoder(label, lambda texts: log_probabilities(model, texts))


def log_probabilities(model: ForcedModel, texts: list[str]) -> NDArray[np.float64]:
    """Per text, the sum of its tokens' log-probabilities and their number."""
    import torch

    found = np.zeros((len(texts), 2))
    items = (Document(str(row), text) for row, text in enumerate(texts))
    for part in parts(model, items, PART):
        for chunk in chunks(model, part.strips, BATCH_TOKENS):
            targets = chunk.targets.to(chunk.logits.device)[:, None]
            log_probs = torch.log_softmax(chunk.logits.float(), -1).gather(1, targets)[:, 0]
            rows = np.array(chunk.groups, dtype=np.int64)
            np.add.at(found[:, 0], rows, log_probs.double().cpu().numpy())
            np.add.at(found[:, 1], rows, 1)
    return found
