"""What fine-tuning minimizes: losses of soft labels (people's words) and of the tokens of texts.

For soft labels, a passage and all continuations by people's words are run in one forward pass with
a tree attention mask. The probability of a word is a sum over all its surface forms, segmentations
and boundaries, as in the exact estimator, and gradients flow through all.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from aleatoric.models.base import pages
from aleatoric.models.loading import kept
from aleatoric.nextword.answers import human_counts
from aleatoric.nextword.exact import Question, Search
from aleatoric.nextword.trace import NO_WORD, Trace, trace
from aleatoric.nextword.tree import fits_tree
from aleatoric.nextword.vocabulary import Vocabulary
from aleatoric.tuning.recipe import FinetuneJob, Fold, FoldPassage
from aleatoric.types import Categorical, Ints, Item

if TYPE_CHECKING:
    from aleatoric.models.hf import HFModel


PLAIN_ROWS = 8
"""Texts of a tree that are run together where each is run by itself."""
LEAST = 1e-30
"""The smallest probability of a word: its logarithm must be finite."""


@dataclass(frozen=True, eq=False)
class WordTree:
    """The contexts of a passage and the tree nodes after them, as tensors for one forward pass."""

    contexts: int
    ids: Tensor
    positions: Tensor
    mask: Tensor
    keep: Tensor
    """The positions whose logits are the rows of the trace."""
    levels: tuple[tuple[Tensor, Tensor], ...]
    """Per depth, the rows of the nodes' parents, and the nodes' tokens."""
    step_rows: Tensor
    step_tokens: Tensor
    step_words: Tensor
    end_rows: Tensor
    end_columns: Tensor
    end_words: Tensor
    """Words first, then contexts for texts that end without a word."""
    ends: Tensor
    """[vocabulary, tables]: 1 where a token ends the word."""
    word_contexts: Tensor
    weights: Tensor
    """People's probabilities of the words."""
    is_one_pass: bool = True
    """Whether one forward pass with a mask gives the logits; else each text is run by itself."""

    def to(self, device: Any) -> WordTree:
        """Return the same tree on a device."""
        tensors = {n: v.to(device) for n, v in vars(self).items() if isinstance(v, Tensor)}
        levels = tuple((parents.to(device), ids.to(device)) for parents, ids in self.levels)
        return WordTree(**vars(self) | tensors | {"levels": levels})


def question_of(item: Item) -> Question:
    """Return people's answers to an item as a question to the exact estimator."""
    people = Categorical.from_counts(human_counts(item.responses))
    return Question(item.context, people.support, people.probs)


def word_tree(
    lm: HFModel, items: Sequence[Item], vocabulary: Vocabulary, search: Search | None = None
) -> WordTree:
    """Return the tree of a passage's items; its nodes are found with the present weights."""
    questions = [question_of(item) for item in items]
    traced = trace(lm, questions, vocabulary, search)
    weights = [weight for index in traced.contexts for weight in questions[index].weights or ()]
    tree = _assembled(traced, np.array(weights), vocabulary)
    return replace(tree, is_one_pass=all(fits_tree(lm, passage) for passage in traced.passages))


def _assembled(traced: Trace, weights: Any, vocabulary: Vocabulary) -> WordTree:
    starts, stops, trunk = _spans(traced)
    tables, columns = np.unique(traced.end_tables, return_inverse=True)
    ends = torch.zeros((len(vocabulary), len(tables)))
    for column, number in enumerate(tables.tolist()):
        ends[torch.as_tensor(vocabulary.numbered(number).ends), column] = 1.0
    nodes = len(trunk) + np.arange(len(traced.owners))
    behind = (stops - starts)[traced.owners] + traced.depths - 1
    positions = [np.arange(len(passage.tokens)) for passage in traced.passages]
    # The word of each end, or the number of words plus the context if there is none.
    owner = np.concatenate([np.arange(len(traced.contexts)), traced.owners])[traced.end_rows]
    no_word = traced.end_words == NO_WORD
    end_words = np.where(no_word, len(traced.word_contexts) + owner, traced.end_words)
    names = ("step_rows", "step_tokens", "step_words", "end_rows", "word_contexts")
    unchanged: dict[str, Any] = {name: _long(getattr(traced, name)) for name in names}
    return WordTree(
        contexts=len(traced.contexts),
        ids=_long(np.concatenate([trunk, traced.tokens])),
        positions=_long(np.concatenate([*positions, behind])),
        mask=_mask(traced, starts, stops, len(trunk)),
        keep=_long(np.concatenate([stops - 1, nodes])),
        levels=_levels(traced),
        end_columns=_long(columns),
        end_words=_long(end_words),
        ends=ends,
        weights=torch.as_tensor(weights, dtype=torch.float64),
        **unchanged,
    )


def _spans(traced: Trace) -> tuple[Ints, Ints, Ints]:
    """Return where each context starts and stops in the trunk, and the tokens of the trunk."""
    spans: dict[int, tuple[int, int]] = {}
    tokens: list[int] = []
    for passage in traced.passages:
        spans |= {i: (len(tokens), len(tokens) + length) for i, length in passage.contexts}
        tokens += passage.tokens
    edges = np.array([spans[index] for index in traced.contexts], dtype=np.int64)
    return edges[:, 0], edges[:, 1], np.array(tokens, dtype=np.int64)


def _mask(traced: Trace, starts: Ints, stops: Ints, width: int) -> Tensor:
    """Return the attention mask: the trunk is causal, nodes see their context and ancestors."""
    size = width + len(traced.owners)
    mask = torch.zeros((size, size), dtype=torch.bool)
    passage = np.repeat(np.arange(len(traced.passages)), [len(p.tokens) for p in traced.passages])
    owner = torch.as_tensor(passage)
    mask[:width, :width] = (owner[:, None] == owner[None, :]).tril()
    columns = torch.arange(width)
    low, high = (_long(edge[traced.owners])[:, None] for edge in (starts, stops))
    mask[width:, :width] = (columns >= low) & (columns < high)
    for node, parent in enumerate((traced.parents - len(traced.contexts)).tolist()):
        if parent >= 0:  # a node sees what its parent sees
            mask[width + node, width:] = mask[width + parent, width:]
        mask[width + node, width + node] = True
    return mask


def _levels(traced: Trace) -> tuple[tuple[Tensor, Tensor], ...]:
    deepest = int(traced.depths.max(initial=0))
    places = [np.flatnonzero(traced.depths == depth) for depth in range(1, deepest + 1)]
    return tuple((_long(traced.parents[nodes]), _long(traced.tokens[nodes])) for nodes in places)


def _long(values: Any) -> Tensor:
    return torch.as_tensor(np.asarray(values), dtype=torch.long)


def tree_logits(model: Any, tree: WordTree) -> Tensor:
    """Return the next-token logits of a tree's rows, with gradients."""
    if not tree.is_one_pass:
        return _plain_logits(model, tree)
    hidden = torch.zeros(tree.mask.shape, dtype=model.dtype, device=tree.mask.device)
    hidden = hidden.masked_fill_(~tree.mask, torch.finfo(model.dtype).min)
    out = model(
        input_ids=tree.ids[None],
        position_ids=tree.positions[None],
        attention_mask=hidden[None, None],
        use_cache=False,
        logits_to_keep=kept(model, tree.keep),
    )
    logits: Tensor = out.logits[0]
    return logits


def _plain_logits(model: Any, tree: WordTree) -> Tensor:
    """Return the logits of a tree's rows by running whole texts; prefixes share a run."""
    texts = [tuple(tree.ids[visible].tolist()) for visible in tree.mask[tree.keep]]
    longest: list[TokenRow] = []
    places: dict[TokenRow, tuple[int, int]] = {}
    for text in sorted(set(texts), key=len, reverse=True):
        if text not in places:
            prefixes = ((text[:stop], (len(longest), stop - 1)) for stop in range(1, len(text) + 1))
            places = dict(prefixes) | places
            longest.append(text)
    outputs = [logits for part in pages(longest, PLAIN_ROWS) for logits in _row_logits(model, part)]
    chosen = [places[text] for text in texts]
    return torch.stack([outputs[row][column] for row, column in chosen])


def _row_logits(model: Any, rows: Sequence[TokenRow]) -> Tensor:
    ids, real, _ = padded(rows, model.device)
    logits: Tensor = model(input_ids=ids, attention_mask=real.long(), use_cache=False).logits
    return logits


def word_probabilities(logits: Tensor, tree: WordTree) -> Tensor:
    """Return the probability of every word of every context, given that there is a word."""
    wide = logits if logits.dtype == torch.float64 else logits.float()
    shares = wide.softmax(-1)
    masses = _masses(shares, tree)
    steps = masses[tree.step_rows] * shares[tree.step_rows, tree.step_tokens].double()
    end_shares = shares @ tree.ends.to(shares.dtype)
    ends = masses[tree.end_rows] * end_shares[tree.end_rows, tree.end_columns].double()
    words = len(tree.word_contexts)
    sums = masses.new_zeros(words + tree.contexts)
    sums = sums.index_add(0, tree.step_words, steps).index_add(0, tree.end_words, ends)
    with_word = (1.0 - sums[words:]).clamp_min(1e-12)
    return sums[:words] / with_word[tree.word_contexts]


def _masses(shares: Tensor, tree: WordTree) -> Tensor:
    """Return the probability of reaching each row, in float64 because factors are small."""
    masses = [torch.ones(tree.contexts, dtype=torch.float64, device=shares.device)]
    for parents, tokens in tree.levels:
        masses.append(torch.cat(masses)[parents] * shares[parents, tokens].double())
    return torch.cat(masses)


def human_losses(model: Any, tree: WordTree) -> Tensor:
    """Return the cross-entropy of people's distribution with the model's per context, in nats."""
    probabilities = word_probabilities(tree_logits(model, tree), tree)
    parts = -tree.weights * probabilities.clamp_min(LEAST).log()
    return parts.new_zeros(tree.contexts).index_add(0, tree.word_contexts, parts)


def mean_human_loss(model: Any, trees: Sequence[WordTree]) -> float:
    """Return the mean soft-label loss over all contexts, without training."""
    model.eval()
    with torch.no_grad():
        total = sum(float(human_losses(model, tree).sum()) for tree in trees)
    return total / sum(tree.contexts for tree in trees)


IGNORED = -100
"""The target that torch's cross-entropy ignores."""
TokenRow = tuple[int, ...]


def text_rows(lm: HFModel, passage: FoldPassage) -> list[TokenRow]:
    """Return the tokens of a passage's texts with at least two, cut to the model's window."""
    rows = (row[: lm.window] for row in lm.encode_all(passage.texts))
    return [row for row in rows if len(row) > 1]


def padded(rows: Sequence[TokenRow], device: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Return tokens, the mask of real tokens, and targets, padded on the right."""
    width = max(map(len, rows))
    ids = torch.tensor([[*row, *[0] * (width - len(row))] for row in rows], device=device)
    lengths = torch.tensor([len(row) for row in rows], device=device)
    real = torch.arange(width, device=device) < lengths[:, None]
    targets = torch.full_like(ids, IGNORED)
    targets[:, :-1] = torch.where(real[:, 1:], ids[:, 1:], IGNORED)
    return ids, real, targets


def text_losses(model: Any, rows: Sequence[TokenRow], batch: int) -> Iterator[Tensor]:
    """Yield the mean negative log-likelihood of the rows, in nats, as parts to be added up."""
    tokens = max(1, predicted(rows))
    return (_summed(model, part) / tokens for part in pages(rows, batch))


def _summed(model: Any, rows: Sequence[TokenRow], temperature: float = 1.0) -> Tensor:
    logits, targets = _row_logits(model, rows), padded(rows, model.device)[2]
    wide = (logits if logits.dtype == torch.float64 else logits.float()) / temperature
    return functional.cross_entropy(wide.flatten(0, 1), targets.flatten(), reduction="sum")


def predicted(rows: Sequence[TokenRow]) -> int:
    """Return how many tokens are predicted: all but the first of each row."""
    return sum(len(row) - 1 for row in rows)


def mean_nll(model: Any, rows: list[TokenRow], batch: int = 8, temperature: float = 1.0) -> float:
    """Return the mean negative log-likelihood of all predicted tokens, without training."""
    model.eval()
    with torch.no_grad():
        total = sum(_summed(model, part, temperature).double() for part in pages(rows, batch))
    return float(total) / max(1, predicted(rows))


Trees = Mapping[str, WordTree]
"""Word trees by group; missing for passages without a soft-label loss."""


class Measured(NamedTuple):
    """Losses of the whole validation part, and of training texts, in nats."""

    validation_loss: float
    """The minimized loss."""
    train_nll: float
    validation_nll: float
    validation_human: float | None = None


class PassageObjective:
    """The next tokens of the passages of a fold, and people's distributions of next words.

    `place` names it in messages; `streams` distinguish its random numbers from those of others.
    """

    def __init__(self, lm: HFModel, fold: Fold, job: FinetuneJob, trees: Trees) -> None:
        self._fold, self._job, self._trees = fold, job, trees
        self._rows: dict[str, list[TokenRow]] = {
            p.group: text_rows(lm, p) for p in (*fold.train, *fold.validation)
        }
        self.place, self.streams = f"{job.loss}, fold {fold.number}", (fold.number,)
        self.size = len(fold.train)

    @property
    def identity(self) -> Mapping[str, Any]:
        """The fold and digests of its passages."""
        sides = {"train": self._fold.train, "validation": self._fold.validation}
        digests = {name: [_passage_digest(p) for p in side] for name, side in sides.items()}
        return {"fold": self._fold.number} | digests

    def losses(self, network: Any, batch: Sequence[int]) -> Iterator[Tensor]:
        """Yield the loss of texts, then that of people's words tree by tree."""
        passages, share = [self._fold.train[i] for i in batch], self._job.human_share
        if share < 1:
            for part in text_losses(network, self._rows_of(passages), self._job.batch):
                yield (1 - share) * part
        if share > 0:
            trees = [self._trees[passage.group] for passage in passages]
            contexts = sum(tree.contexts for tree in trees)
            for tree in trees:
                yield share * human_losses(network, tree).sum() / contexts

    def measured(self, network: Any) -> Measured:
        """Return losses of all training and validation passages."""
        share, sides = self._job.human_share, (self._fold.train, self._fold.validation)
        train, validation = (mean_nll(network, self._rows_of(side)) for side in sides)
        trees = [self._trees[p.group] for p in self._fold.validation if p.group in self._trees]
        human = mean_human_loss(network, trees) if trees else None
        loss = (1 - share) * validation + share * (human or 0.0)
        return Measured(loss, train, validation, human)

    def _rows_of(self, passages: Sequence[FoldPassage]) -> list[TokenRow]:
        return [row for passage in passages for row in self._rows[passage.group]]


def _passage_digest(passage: FoldPassage) -> str:
    text = "\0".join(f"{i.id}\0{i.context}\0{i.responses}\0{i.original}" for i in passage.items)
    return f"{passage.group}:{hashlib.sha256(text.encode()).hexdigest()[:12]}"
