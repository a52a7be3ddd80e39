"""A test set through a trained model with the reference as its prefix: per-token rows.

A plain computation: whole distributions in float32, one batch at a time. What the columns mean is
described in `aleatoric.studies.e_ece_paper.read_rows`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from aleatoric.models.decoding import Decoder
from aleatoric.rng import stream
from aleatoric.studies.e_ece_paper import SCHEMES, Columns
from multi30k.batches import Batch, make_batches
from multi30k.data import Example
from multi30k.model import TranslationModel
from multi30k.subwords import PAD

_MAX_TOKENS = 4096


@dataclass(frozen=True)
class Forced:
    """One batch's real target tokens, sentence by sentence, with the models' log-probabilities."""

    sentence: NDArray[np.int64]
    position: NDArray[np.int64]
    targets: Tensor
    log_probs: Tensor
    uncertainty: Tensor


def rows_of(
    model: TranslationModel,
    uncertainty_model: TranslationModel,
    examples: Sequence[Example],
    seed: int,
    schemes: Mapping[str, str] = SCHEMES,
    max_tokens: int = _MAX_TOKENS,
) -> Columns:
    """The rows of every target token of `examples`, in their order.

    The draws depend on the seed, the sentence's id and the scheme, not on the batches.
    """
    parts = [
        _columns(part, examples, seed, schemes)
        for part in forced(model, uncertainty_model, examples, max_tokens)
    ]
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    order = np.lexsort((columns["position"], columns["sentence"]))
    return {name: values[order] for name, values in columns.items()}


def heads_of(
    model: TranslationModel,
    examples: Sequence[Example],
    least: float = 1e-3,
    max_tokens: int = _MAX_TOKENS,
) -> Columns:
    """What class-wise metrics need of the whole distributions, in little space.

    `head_sentence`, `head_position`, `head_token` and `head_p` are all P(v) from `least` up;
    `class_mass` is the sum of P(v) over all rows for every v, so that the mass of a class below
    `least` is known too.
    """
    heads: list[Columns] = []
    mass = np.zeros(model.target.table.num_embeddings)
    for part in forced(model, model, examples, max_tokens):
        heads.append(_head(part, least))
        mass += part.log_probs.double().exp().sum(0).cpu().numpy()
    columns = {name: np.concatenate([head[name] for head in heads]) for name in heads[0]}
    return columns | {"class_mass": mass}


def _head(part: Forced, least: float) -> Columns:
    probs = part.log_probs.exp()
    row, token = (index.cpu().numpy() for index in (probs >= least).nonzero(as_tuple=True))
    return {
        "head_sentence": part.sentence[row],
        "head_position": part.position[row],
        "head_token": token,
        "head_p": probs[probs >= least].cpu().numpy(),
    }


def forced(
    model: TranslationModel,
    uncertainty_model: TranslationModel,
    examples: Sequence[Example],
    max_tokens: int = _MAX_TOKENS,
) -> Iterator[Forced]:
    """The batches of a test set as whole distributions, for rows or for any other statistic."""
    device = str(next(model.parameters()).device)
    model.eval()
    uncertainty_model.eval()
    for batch in make_batches(examples, max_tokens, device):
        with torch.inference_mode():
            yield _forced(model, uncertainty_model, batch)


def _forced(model: TranslationModel, uncertainty_model: TranslationModel, batch: Batch) -> Forced:
    real = batch.wanted != PAD
    line, position = (index.numpy() for index in real.cpu().nonzero(as_tuple=True))
    log_probs = model(batch.source, batch.given)[real].log_softmax(-1)
    other = uncertainty_model(batch.source, batch.given)[real].log_softmax(-1)
    sentence = np.array(batch.numbers)[line]
    return Forced(sentence, position, batch.wanted[real], log_probs, _entropy(other))


def _entropy(log_probs: Tensor) -> Tensor:
    return -(log_probs.exp() * log_probs).sum(-1)


def _columns(
    part: Forced, examples: Sequence[Example], seed: int, schemes: Mapping[str, str]
) -> Columns:
    best, predicted = part.log_probs.max(-1)
    tensors = {
        "token": part.targets,
        "predicted": predicted,
        "p_hat": best.exp(),
        "a_hat": predicted == part.targets,
        "log_prob": _at(part.log_probs, part.targets),
        "entropy": _entropy(part.log_probs),
        "uncertainty": part.uncertainty,
    }
    for name, decoder in schemes.items():
        uniforms = _uniforms(part, examples, seed, name)
        tensors |= _scheme_columns(part, name, Decoder.parse(decoder), uniforms)
    places = {"sentence": part.sentence, "position": part.position}
    return places | {name: tensor.cpu().numpy() for name, tensor in tensors.items()}


def _scheme_columns(
    part: Forced, name: str, decoder: Decoder, uniforms: Tensor
) -> dict[str, Tensor]:
    own = part.log_probs.exp()
    changed = decoder.log_probs(part.log_probs).exp()
    draws = _draw(changed, uniforms)
    return {
        f"p_{name}": (changed * own).sum(-1),
        f"a_{name}": _at(changed, part.targets),
        f"draw_p_{name}": _at(own, draws),
        f"draw_scheme_p_{name}": _at(changed, draws),
        f"draw_a_{name}": draws == part.targets,
    }


def _at(values: Tensor, tokens: Tensor) -> Tensor:
    return values.gather(-1, tokens[:, None])[:, 0]


def _uniforms(part: Forced, examples: Sequence[Example], seed: int, scheme: str) -> Tensor:
    """One uniform number per token, from the random stream of its sentence."""
    found = np.empty(len(part.sentence))
    for number in np.unique(part.sentence):
        here = part.sentence == number
        numbers = stream(seed, "draw", examples[number].id, scheme).random(int(here.sum()))
        found[here] = numbers
    return torch.from_numpy(found).to(part.log_probs.device)


def _draw(probs: Tensor, uniforms: Tensor) -> Tensor:
    """The token at which the cumulated mass passes each uniform number."""
    cumulated = probs.double().cumsum(-1)
    aim = (uniforms * cumulated[:, -1])[:, None]
    return torch.searchsorted(cumulated, aim, right=True)[:, 0].clamp_max(probs.shape[-1] - 1)
