"""Fine-tuning on people's texts: which inputs train, and their texts as tokens after prompts."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from aleatoric.errors import UsageError, counted
from aleatoric.models.base import Writing, pages
from aleatoric.models.generate_hf import CausalNetwork, Seq2SeqNetwork, TextNetwork
from aleatoric.models.loading import token_rows
from aleatoric.models.trained import input_key
from aleatoric.rng import stream
from aleatoric.tuning.losses import Measured
from aleatoric.types import MultiRef, TextItem

Ids = tuple[int, ...]
TokenPair = tuple[Ids, Ids]
"""The tokens of a prompt, and those of a text that follows it."""
_MEASURED_ROWS = 8


@dataclass(frozen=True, eq=False)
class TextSplit:
    """The inputs that train and validate; `held_out` are the groups that are evaluated."""

    train: tuple[TextItem, ...]
    validation: tuple[TextItem, ...]
    held_out: Collection[str] | None
    """`None` if all groups of the corpus are evaluated."""
    n_repeated: int = 0
    """Inputs left out of training because another input with the same words is evaluated."""

    def notes(self, n_evaluated: int) -> Iterator[str]:
        """Say how many inputs are used for what."""
        yield (
            f"{len(self.train)} inputs train, {len(self.validation)} validate, {n_evaluated} are "
            "evaluated; no input is used twice"
        )
        if self.n_repeated:
            repeated = counted(self.n_repeated, "input", "is", "are")
            yield f"{repeated} left out of training: the same words are evaluated or validate"


def split_texts(
    corpus: MultiRef, training: MultiRef | None, held_out: float, validation: float, seed: int
) -> TextSplit:
    """Split the groups of a corpus at random by `seed`, or train on `training`, evaluate on all.

    An input whose words are evaluated does not train or validate, whatever its group.
    """
    groups: Collection[str] | None = None
    if training is None:
        groups = _share((item.group for item in corpus.items), held_out, seed, "held-out texts")
    source = corpus.items if training is None else training.items
    others = [item for item in source if groups is None or item.group not in groups]
    evaluated = (item for item in corpus.items if groups is None or item.group in groups)
    keys = {input_key(item.input) for item in evaluated}
    pool = [item for item in others if input_key(item.input) not in keys]
    chosen = _share((item.group for item in pool), validation, seed, "validation texts")
    validating = tuple(item for item in pool if item.group in chosen)
    keys = {input_key(item.input) for item in validating}
    train = tuple(i for i in pool if i.group not in chosen and input_key(i.input) not in keys)
    if not train:
        problem = "no input is left to train on, besides those that validate and are evaluated"
        raise UsageError(f"{problem}; use more inputs, with several groups, or other shares.")
    return TextSplit(train, validating, groups, len(others) - len(train) - len(validating))


def _share(groups: Iterable[str], share: float, seed: int, name: str) -> frozenset[str]:
    """Return a random share of the groups, at least one."""
    distinct = list(dict.fromkeys(groups))
    order = stream(seed, name).permutation(len(distinct))
    return frozenset(distinct[i] for i in order[: max(1, round(share * len(distinct)))])


@dataclass(frozen=True, eq=False)
class TokenPairs:
    """All pairs of prompts and texts of some inputs; counts of what was cut and left out."""

    pairs: tuple[TokenPair, ...]
    n_cut: int
    n_without_room: int

    def notes(self, longest: int) -> Iterator[str]:
        """Say what was cut and left out."""
        if self.n_cut:
            cut = counted(self.n_cut, "text", "was", "were")
            yield f"{cut} cut to {longest} tokens, or the model's window, for training"
        if self.n_without_room:
            inputs = counted(self.n_without_room, "input", "fills", "fill")
            yield f"{inputs} the model's window and did not train"

    @property
    def digest(self) -> str:
        """A hash of all tokens."""
        return hashlib.sha256(repr(self.pairs).encode()).hexdigest()[:16]


def token_pairs(
    network: TextNetwork, items: Iterable[TextItem], ask: Writing, longest: int
) -> TokenPairs:
    """Return every input with each of its texts, as the model reads inputs for generation."""
    pairs: list[TokenPair] = []
    n_cut = n_without_room = 0
    for item in items:
        prompt = network.encode(item.input, ask)
        room = min(longest, network.room(prompt)) if prompt else 0
        if room < 1:
            n_without_room += 1
            continue
        texts = [text.strip() for text in item.references if text.strip()]
        for target in _targets(network, item.input, texts, ask):
            n_cut += len(target) > room  # a text that is cut has no end
            pairs.append((prompt, target[:room]))
    return TokenPairs(tuple(pairs), n_cut, n_without_room)


def _targets(
    network: TextNetwork, turns: Sequence[str], texts: list[str], ask: Writing
) -> Iterator[Ids]:
    """Yield the tokens of texts, each with an end."""
    end = end_token(network)
    if isinstance(network, Seq2SeqNetwork):
        rows: Iterable[Ids] = network.direction.target(network.tokenizer, texts) if texts else []
    else:
        rows = _continued(network, network.rendered(turns, ask, is_continued=True), texts, ask)
    return (row if row[-1:] == (end,) else (*row, end) for row in rows)


def _continued(
    network: CausalNetwork, prompt: str, texts: list[str], ask: Writing
) -> Iterator[Ids]:
    """Yield the tokens of texts after a prompt: a space stands between them if none does yet.

    Tokens of the prompt stay as they are for generation, where no text follows yet.
    """
    tokenizer = network.tokenizer
    ends_apart = not prompt or prompt[-1].isspace()
    ends_apart |= any(prompt.endswith(token) for token in tokenizer.all_special_tokens)
    space = "" if ask.chat or ends_apart else " "
    spaced = [f"{space}{text}" for text in texts]
    before, *rows = map(tuple, token_rows(tokenizer, [prompt, *(prompt + t for t in spaced)]))
    for row, text in zip(rows, spaced, strict=True):
        if row[: len(before)] == before:
            yield row[len(before) :]
        else:
            (alone,) = token_rows(tokenizer, [text])
            yield tuple(alone)


def end_token(network: TextNetwork) -> int:
    """Return the token that ends a text in training."""
    end = network.tokenizer.eos_token_id
    if end in network.ends:
        return int(end)
    if not network.ends:
        problem = "its tokenizer and config.json name no end-of-text token"
        raise UsageError(f"{network.label}: {problem}, so that texts have no end; add one.")
    return network.ends[0]


class TextObjective:
    """The mean negative log-likelihood of the tokens of texts; prompts and padding do not count."""

    place = "texts"
    streams: tuple[int, ...] = ()

    def __init__(self, network: TextNetwork, train: TokenPairs, validation: TokenPairs) -> None:
        for side, pairs in (("training", train), ("validation", validation)):
            if not pairs.pairs:
                problem = f"no text of the {side} part fits the model's window"
                raise UsageError(f"{network.label}: {problem}; use shorter inputs.")
        self._network, self._train, self._validation = network, train, validation
        self.size = len(train.pairs)
        # As many texts of the training as validate: measuring all would take a third of the time.
        self._measured = train.pairs[:: max(1, self.size // len(validation.pairs))]

    @property
    def identity(self) -> Mapping[str, Any]:
        """Digests of the texts."""
        return {"train": self._train.digest, "validation": self._validation.digest}

    def losses(self, network: Any, batch: Sequence[int]) -> Iterator[Tensor]:
        """Yield the mean loss per token of a batch."""
        pairs = [self._train.pairs[i] for i in batch]
        yield self._summed(pairs) / _tokens(pairs)

    def measured(self, network: Any) -> Measured:
        """Return the mean loss per token of the validation texts and of some training texts."""
        network.eval()
        validation, train = map(self._mean, (self._validation.pairs, self._measured))
        return Measured(validation, train, validation)

    def _mean(self, pairs: Sequence[TokenPair]) -> float:
        ordered = sorted(pairs, key=lambda pair: sum(map(len, pair)), reverse=True)
        with torch.no_grad():
            parts = (self._summed(part).double() for part in pages(ordered, _MEASURED_ROWS))
            return float(sum(parts)) / _tokens(pairs)

    def _summed(self, pairs: Sequence[TokenPair]) -> Tensor:
        logits = torch.cat(self._network.forced(pairs))
        targets = torch.tensor([*chain.from_iterable(target for _, target in pairs)])
        wide = logits if logits.dtype == torch.float64 else logits.float()
        return functional.cross_entropy(wide, targets.to(wide.device), reduction="sum")


def _tokens(pairs: Sequence[TokenPair]) -> int:
    return sum(len(target) for _, target in pairs)
