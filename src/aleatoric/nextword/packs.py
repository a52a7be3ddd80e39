"""Contexts as packs of passages, each run in a tree pass, or in plain passes where none holds."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from aleatoric.errors import UsageError
from aleatoric.models.base import recover_memory
from aleatoric.nextword.rules import MOST_NEW_TOKENS
from aleatoric.nextword.tree import Limits, PlainTree, TokenPassage, Tree, on_cpu

if TYPE_CHECKING:
    from aleatoric.models.plain import LanguageModel

ROOM = 8
"""Tokens that must fit in the window after a context: the longest word considered."""
PLAIN_CONTEXTS = 64
"""Contexts whose states are kept together in plain passes."""


def passages_of(contexts: Sequence[tuple[int, ...]]) -> list[TokenPassage]:
    """Return the fewest sequences that have the given contexts as prefixes, by tokens."""
    groups: list[list[int]] = []
    # In sorted order, a prefix comes right before its continuations.
    for i in sorted(range(len(contexts)), key=lambda i: (contexts[i], i), reverse=True):
        if groups and contexts[groups[-1][0]][: len(contexts[i])] == contexts[i]:
            groups[-1].append(i)
        else:
            groups.append([i])
    return [
        TokenPassage(contexts[group[0]], tuple((i, len(contexts[i])) for i in reversed(group)))
        for group in groups
    ]


class ContextError(UsageError):
    """A context that a model cannot continue; `place` is its index among the contexts."""

    def __init__(self, place: int, problem: str) -> None:
        super().__init__(problem)
        self.place = place


def encode_contexts(lm: LanguageModel, contexts: Sequence[str]) -> list[tuple[int, ...]]:
    """Tokenize contexts; raise `ContextError` for an empty or over-long one."""
    encoded = lm.encode_all(contexts)
    for place, (context, tokens) in enumerate(zip(contexts, encoded, strict=True)):
        if not tokens:
            problem = "a context is empty and the model gets no beginning-of-text token"
            fix = "use --bos add (bos='add' in Python) or leave the item out"
            raise ContextError(place, f"{problem}; {fix}.")
        if len(tokens) + ROOM > lm.positions:
            excerpt = context if len(context) <= 40 else f"{context[:37]}..."
            raise ContextError(
                place,
                f"the context {excerpt!r} has {len(tokens)} tokens, and with {ROOM} for a word it "
                f"does not fit the model's window of {lm.positions}; shorten it.",
            )
    return encoded


def packs_of(
    passages: Sequence[TokenPassage], size: int, tokens: int = 4096
) -> list[list[TokenPassage]]:
    """Group passages into packs of at least `size` contexts and, if several, at most `tokens`."""
    packs: list[list[TokenPassage]] = []
    n_contexts, length = size, 0
    for passage in passages:
        if n_contexts >= size or length + len(passage.tokens) > tokens:
            packs.append([])
            n_contexts, length = 0, 0
        packs[-1].append(passage)
        n_contexts += len(passage.contexts)
        length += len(passage.tokens)
    return packs


Answer = TypeVar("Answer")
_Turn = tuple[list[TokenPassage], Iterator[tuple[int, Answer] | None], list[tuple[int, Answer]]]
"""A pack, the work on it, and its answers so far."""


def for_contexts(
    lm: LanguageModel,
    contexts: Sequence[str],
    work: Callable[[Tree], Iterator[tuple[int, Answer] | None]],
    limits: Limits | None = None,
    estimator: Literal["exact", "mc"] = "exact",
) -> list[Answer]:
    """Return the answer of `work` per context, in the order given; see `each_pack`."""
    limits = limits or Limits()
    passages = passages_of(encode_contexts(lm, contexts))
    # How a passage is run must not depend on the passages beside it.
    by_pass: dict[bool, list[TokenPassage]] = {True: [], False: []}
    for passage in passages:
        by_pass[fits_tree(lm, passage)].append(passage)
    size = limits.contexts_at_once(lm, estimator)
    plain_packs = packs_of(by_pass[False], min(size, PLAIN_CONTEXTS))
    packs = [*packs_of(by_pass[True], size), *plain_packs]
    answers = dict(each_pack(lm, packs, lambda pack: work(tree_of(lm, pack, limits))))
    return [answers[i] for i in range(len(contexts))]


def fits_tree(lm: LanguageModel, passage: TokenPassage) -> bool:
    """Whether the continuations of a passage can be run in a tree pass."""
    length = len(passage.tokens)
    return length + ROOM <= lm.window and lm.in_tree(min(lm.window, length + MOST_NEW_TOKENS))


def tree_of(lm: LanguageModel, pack: Sequence[TokenPassage], limits: Limits) -> Tree:
    """Return the tree over a pack: in plain passes unless every passage fits a tree pass."""
    kind = Tree if all(fits_tree(lm, passage) for passage in pack) else PlainTree
    return kind(lm, pack, limits)


def each_pack(
    lm: LanguageModel,
    packs: Iterable[list[TokenPassage]],
    work: Callable[[list[TokenPassage]], Iterator[tuple[int, Answer] | None]],
) -> Iterator[tuple[int, Answer]]:
    """Yield the answers of `work` for all packs; a pack that does not fit into memory is halved.

    `work` yields `None` while it waits for the device; on a GPU two packs take turns meanwhile.
    """
    pending = list(packs)[::-1]
    alone: list[list[TokenPassage]] = []  # passages that did not fit beside another pack
    turns: deque[_Turn[Answer]] = deque()
    while pending or turns or alone:
        if not pending and not turns:
            pending.append(alone.pop())
        while pending and len(turns) < (1 if on_cpu(lm) else 2):
            pack = pending.pop()
            turns.append((pack, work(pack), []))
        turn = pack, walk, answers = turns.popleft()
        try:
            answer = next(walk, _END)
        except Exception as error:
            middle = len(pack) // 2
            recover_memory(error, not middle and not turns, "passage", "shorter contexts")
            if middle:
                pending += [pack[middle:], pack[:middle]]
            else:
                alone.append(pack)
            continue
        if answer is _END:
            yield from answers
        elif answer is None:
            turns.append(turn)
        else:
            answers.append(answer)
            turns.appendleft(turn)


_END: Any = object()
