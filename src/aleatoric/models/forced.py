"""Teacher forcing with transformers: causal LMs on documents, encoder-decoders on pairs.

`open_likelihood` gives the log-probability of whole texts, for probes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aleatoric import registry
from aleatoric.errors import DataError, UsageError, did_you_mean, quoted
from aleatoric.models.base import (
    SOURCE,
    ForcedModel,
    Forcing,
    LoadOptions,
    Reads,
    Strip,
    check_template,
    pages,
    text_key,
)
from aleatoric.models.loading import (
    Direction,
    LoadedModel,
    check_no_languages,
    direction,
    load_spec,
    padded,
    positions_of,
    seq2seq_logits,
    token_rows,
)
from aleatoric.models.pieces import check_bos, policy_of, start_tokens
from aleatoric.probes.encoders import SentenceEncoder
from aleatoric.types import Document, SentencePair

if TYPE_CHECKING:
    from torch import Tensor


def windows_of(
    length: int, stride: int, n_tokens: int, n_given: int = 1
) -> list[tuple[int, int, int]]:
    """Return (start, stop, first scored) of windows of `length` tokens, `stride` tokens apart.

    Tokens after `n_given` are scored once.

    >>> windows_of(4, 2, 7)
    [(0, 4, 1), (2, 6, 4), (4, 7, 6)]
    """
    windows: list[tuple[int, int, int]] = []
    scored = n_given
    while scored < n_tokens:
        start = len(windows) * stride
        stop = min(start + length, n_tokens)
        windows.append((start, stop, scored))
        scored = stop
    return windows


@dataclass(frozen=True, eq=False)
class CausalForced(LoadedModel):
    """A causal LM that reads documents in windows; a document's first token is not scored."""

    version: str
    stride: int
    start: tuple[int, ...]
    reads: Reads = "text"

    @property
    def conventions(self) -> Mapping[str, str]:
        """Window, stride, and which special tokens are read or scored."""
        cut = {"window": str(self.window), "stride": str(self.stride)}
        return cut | {"bos": policy_of(self.tokenizer, self.start), "eos": "none"}

    def strips(self, items: Sequence[Document]) -> list[list[Strip]]:
        """The windows of each document."""
        rows = token_rows(self.tokenizer, [item.text for item in items])
        pairs = zip(items, rows, strict=True)
        return [list(self._strips(item.id, (*self.start, *row))) for item, row in pairs]

    def logits(self, strips: Sequence[Strip]) -> Any:
        """Return the logits after each given token."""
        import torch

        ids, mask = padded([strip.given for strip in strips], self.device)
        with torch.inference_mode():
            return self.model(input_ids=ids, attention_mask=mask, use_cache=False).logits

    def _strips(self, group: str, tokens: tuple[int, ...]) -> Iterator[Strip]:
        n_given = max(1, len(self.start))
        for start, stop, first in windows_of(self.window, self.stride, len(tokens), n_given):
            given, wanted = tokens[start : stop - 1], tokens[start + 1 : stop]
            scored = tuple(range(first - start - 1, stop - start - 1))
            yield Strip(group, given, wanted, scored, start + 1 - len(self.start))


def causal_forced(
    model: Any, tokenizer: Any, *, label: str, version: str, forcing: Forcing | None = None
) -> CausalForced:
    """Wrap a loaded causal LM; raises for a window that the model does not accept."""
    forcing = forcing or Forcing()
    longest = positions_of(model.config)
    # Logits of longer windows would fill small machines.
    length = min(longest, 1024) if forcing.window is None else forcing.window
    if not 2 <= length <= longest:
        fix = f"it reads 2 to {longest} tokens at once"
        raise UsageError(f"{label}: --window {length} is out of range; {fix}.")
    step = max(1, length // 2) if forcing.stride is None else forcing.stride
    if not 1 <= step < length:
        fix = f"it is 1 to {length - 1}, below --window"
        raise UsageError(f"--stride {step} is out of range; {fix}.")
    start = start_tokens(tokenizer, forcing.bos, label)
    if length <= len(start):
        raise UsageError(
            f"{label}: --window {length} holds no more than what begins a text; use more."
        )
    return CausalForced(label, model, tokenizer, length, version, step, start)


@dataclass(frozen=True, eq=False)
class Seq2SeqForced(LoadedModel):
    """An encoder-decoder that reads a source and is given its translation, token by token.

    The end-of-sentence token is scored; other special tokens of the target, such as its language,
    are given and not scored.
    """

    version: str
    direction: Direction
    template: str = SOURCE
    reads: Reads = "pairs"

    @property
    def conventions(self) -> Mapping[str, str]:
        """Which special tokens are scored, the languages and the template."""
        changed = {} if self.template == SOURCE else {"template": f"#{text_key(self.template)}"}
        return {"eos": "scored", "special": "not-scored", **self.direction.conventions, **changed}

    def strips(self, items: Sequence[SentencePair]) -> list[list[Strip]]:
        """One strip per sentence pair."""
        template = self.direction.prefix + self.template
        texts = [template.replace(SOURCE, item.source) for item in items]
        sources = self.tokenizer(texts)["input_ids"]
        targets = self.direction.target(self.tokenizer, [item.target for item in items])
        rows = zip(items, map(tuple, sources), targets, strict=True)
        return [[self._strip(item.id, source, target)] for item, source, target in rows]

    def logits(self, strips: Sequence[Strip]) -> Tensor:
        """Return the logits after each given target token."""
        import torch

        sources, targets = [s.source for s in strips], [s.given for s in strips]
        with torch.inference_mode():
            return seq2seq_logits(self.model, self.tokenizer, sources, targets)

    def _strip(self, group: str, source: tuple[int, ...], target: tuple[int, ...]) -> Strip:
        tokens = (*self.direction.start, *target)
        given, wanted = tokens[:-1], tokens[1:]
        longest = max(len(source), len(given))
        if longest > self.window:
            problem = f"sentence {group} has {longest} tokens, and {self.label} reads {self.window}"
            fix = "cut it into shorter ones in both files"
            raise DataError(f"{problem}; {fix}.")
        skipped = set(self.tokenizer.all_special_ids) - {self.tokenizer.eos_token_id}
        # An unknown word is still a reference token.
        skipped.discard(self.tokenizer.unk_token_id)
        n_given = len(self.direction.start) - 1
        scored = tuple(i for i in range(n_given, len(wanted)) if wanted[i] not in skipped)
        return Strip(group, given, wanted, scored, 0, source)


def seq2seq_forced(
    model: Any, tokenizer: Any, *, label: str, version: str, forcing: Forcing | None = None
) -> Seq2SeqForced:
    """Wrap a loaded encoder-decoder."""
    forcing = forcing or Forcing()
    check_template(forcing.template, SOURCE, "the sentence goes")
    how = direction(model, tokenizer, forcing, label), forcing.template
    return Seq2SeqForced(label, model, tokenizer, positions_of(model.config), version, *how)


def _load(kind: str, argument: str, forcing: Forcing) -> ForcedModel:
    def check_pairs(label: str) -> None:
        check_bos(forcing.bos)
        if forcing.window is not None or forcing.stride is not None or forcing.bos == "add":
            fix = "leave --window, --stride and --bos out"
            raise UsageError(f"{label} reads whole sentence pairs; {fix}.")

    model, tokenizer, names = load_spec(kind, argument, forcing, check_pairs)
    if getattr(model.config, "is_encoder_decoder", False):
        return seq2seq_forced(model, tokenizer, **names, forcing=forcing)
    check_no_languages(forcing, names["label"])
    if forcing.template != SOURCE:
        raise UsageError(f"{names['label']} is no translation model; leave --template out.")
    return causal_forced(model, tokenizer, **names, forcing=forcing)


load_smollm2, load_gguf, load_hf = (partial(_load, kind) for kind in ("smollm2", "gguf", "hf"))


class Chunk(NamedTuple):
    """The scored tokens of a batch: logits, targets, groups and positions."""

    logits: Any
    targets: Any
    groups: list[str]
    positions: NDArray[np.int64]


class ForcedPart(NamedTuple):
    """Whole items that are scored and saved together; `n_unscored` have no scored token."""

    n_items: int
    strips: list[Strip]
    n_unscored: int


def parts(model: ForcedModel, items: Iterable[Any], tokens: int) -> Iterator[ForcedPart]:
    """Yield items in order, in parts of at least `tokens` tokens."""
    strips: list[Strip] = []
    count = unscored = size = 0
    for page in pages(items, 64):
        for item_strips in model.strips(page):
            strips.extend(item_strips)
            count, unscored = count + 1, unscored + (not item_strips)
            size += sum(len(strip.wanted) for strip in item_strips)
            if size >= tokens:
                yield ForcedPart(count, strips, unscored)
                strips, count, unscored, size = [], 0, 0, 0
    if count:
        yield ForcedPart(count, strips, unscored)


def chunks(model: ForcedModel, strips: Sequence[Strip], batch_tokens: int) -> Iterator[Chunk]:
    """Yield the scored tokens of strips, batch by batch."""
    import torch

    for batch in batches(strips, batch_tokens):
        # A group's windows must come in order: its random draws continue from one to the next.
        scored = [(i, strip, place) for i, strip in enumerate(batch) for place in strip.scored]
        targets = torch.tensor([strip.wanted[place] for _, strip, place in scored])
        groups = [strip.group for _, strip, _ in scored]
        positions = np.array([strip.offset + place for _, strip, place in scored], dtype=np.int64)
        rows, places = [i for i, _, _ in scored], [place for *_, place in scored]
        yield Chunk(model.logits(batch)[rows, places], targets, groups, positions)


def batches(strips: Sequence[Strip], batch_tokens: int) -> Iterator[list[Strip]]:
    """Batch strips of like length, at most `batch_tokens` with padding (but at least one strip).

    >>> some = [Strip("a", (1,) * n, (1,) * n, tuple(range(n))) for n in (3, 1, 2, 9)]
    >>> [[len(strip.given) for strip in batch] for batch in batches(some, 6)]
    [[9], [3, 2], [1]]
    """
    # Longest first: if memory does not suffice, the first batch fails.
    batch: list[Strip] = []
    for strip in sorted(strips, key=lambda strip: (-_longest(strip), strip.group, strip.offset)):
        if batch and _longest(batch[0]) * (len(batch) + 1) > batch_tokens:
            yield batch
            batch = []
        batch.append(strip)
    if batch:
        yield batch


def _longest(strip: Strip) -> int:
    return max(len(strip.given), len(strip.source))


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
