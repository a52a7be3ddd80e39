"""Contexts that are beginnings of one another share one forward pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aleatoric.errors import UsageError
from aleatoric.words.lm import TreeLM

ROOM = 8
"""Tokens that must fit in the window after a context: the longest word looked at."""

MOST_NEW_TOKENS = 64
"""Tokens after which a sampled text that has not settled its word counts as without one."""

TOKENS = 4096
"""The most tokens of several passages that are run together."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A token sequence and the contexts that are its beginnings: (index, number of tokens)."""

    tokens: tuple[int, ...]
    contexts: tuple[tuple[int, int], ...]


def passages_of(contexts: Sequence[tuple[int, ...]]) -> list[Passage]:
    """The fewest sequences whose beginnings are the given ones, by tokens and not by letters.

    A context whose tokens are not a beginning of a longer one (because the next word changes how
    it is cut) stands alone. Ordered by first context.

    >>> passages_of([(1,), (1, 2), (1, 3)])
    [Passage(tokens=(1, 3), contexts=((2, 2),)), Passage(tokens=(1, 2), contexts=((0, 1), (1, 2)))]
    """
    order = sorted(range(len(contexts)), key=lambda i: (contexts[i], i), reverse=True)
    groups: list[list[int]] = []
    for i in order:  # a beginning stands right before its continuations in sorted order
        longest = contexts[groups[-1][0]] if groups else ()
        if groups and longest[: len(contexts[i])] == contexts[i]:
            groups[-1].append(i)
        else:
            groups.append([i])
    return [_passage(contexts, group) for group in groups]


def _passage(contexts: Sequence[tuple[int, ...]], group: list[int]) -> Passage:
    spans = tuple((i, len(contexts[i])) for i in reversed(group))
    return Passage(contexts[group[0]], spans)


class ContextError(UsageError):
    """A context that a model cannot continue, by its place among those asked for."""

    def __init__(self, place: int, problem: str) -> None:
        super().__init__(problem)
        self.place = place


def encode_contexts(lm: TreeLM, contexts: Sequence[str]) -> list[tuple[int, ...]]:
    """The tokens of each context; empty and over-long ones are refused with the reason."""
    encoded = lm.encode_all(contexts)
    for place, (context, tokens) in enumerate(zip(contexts, encoded, strict=True)):
        problem = problem_of(context, tokens, lm.window)
        if problem is not None:
            raise ContextError(place, problem)
    lm.check_length(min(lm.window, MOST_NEW_TOKENS + max(map(len, encoded), default=0)))
    return encoded


def problem_of(context: str, tokens: Sequence[int], window: int) -> str | None:
    """Why a model cannot continue a context, and what to do.

    >>> problem_of("There are", (5, 6), 1024) is None
    True
    """
    if not tokens:
        return (
            "a context is empty and the model gets no beginning-of-text token; "
            "use --bos add (bos='add' in Python) or leave the item out."
        )
    if len(tokens) + ROOM > window:
        return (
            f"the context {_clip(context)!r} has {len(tokens)} tokens, and with {ROOM} for a "
            f"word it does not fit the model's window of {window}; shorten it."
        )
    return None


def packs_of(passages: Sequence[Passage], size: int, tokens: int = TOKENS) -> list[list[Passage]]:
    """Passages taken together until a pack holds at least `size` contexts.

    A pack of several passages has at most `tokens` tokens: its attention mask grows with their
    square.
    """
    packs: list[list[Passage]] = []
    held, length = size, 0
    for passage in passages:
        if held >= size or length + len(passage.tokens) > tokens:
            packs.append([])
            held, length = 0, 0
        packs[-1].append(passage)
        held += len(passage.contexts)
        length += len(passage.tokens)
    return packs


def _clip(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:37]}..."
