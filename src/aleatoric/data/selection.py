"""Use a part of a corpus: the first items, items at random, or some groups."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from itertools import islice
from typing import Any, TypeVar, cast

from aleatoric.errors import UsageError, quoted
from aleatoric.rng import stream
from aleatoric.types import Collected, LazyItems

T = TypeVar("T")
_MOST_LISTED = 4
_MOST_REFERENCES = 1_000_000
_LIMITS = re.compile(r"(\d{0,7})(?:(:)(\d{0,7}))?")
PART_ONLY = "every number is about a part only:"
"""How the note on a part of a corpus starts."""


@dataclass(frozen=True)
class Selection:
    """The options that select items; groups are selected first, then items in them."""

    limit: int | None = None
    sample: int | None = None
    groups: str | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.limit is not None and self.sample is not None:
            raise UsageError("--limit and --sample exclude each other; give one of them.")

    def __str__(self) -> str:
        """Return the options that are given, for a signature.

        >>> str(Selection(sample=100, groups="1-4,45")), str(Selection())
        ('groups=1-4,45;sample=100,seed=0', '')
        """
        sample = None if self.sample is None else f"{self.sample},seed={self.seed}"
        return _given({"groups": self.groups, "limit": self.limit, "sample": sample})


def options_of(kind: type[T], options: Mapping[str, Any]) -> T:
    """Return the options of a kind among those of a job or manifest, which may lack some."""
    known: Any = fields(cast(Any, kind))
    return kind(**{each.name: options[each.name] for each in known if each.name in options})


def _given(options: Mapping[str, object]) -> str:
    return ";".join(f"{name}={value}" for name, value in options.items() if value is not None)


def select_items(corpus: Collected[Any], selection: Selection) -> Collected[Any]:
    """Return a corpus with the selected items only, and a note that says so."""
    if not str(selection):
        return corpus
    sizes = Counter(map(group_of, corpus.items))
    groups = {*(sizes if selection.groups is None else named_groups(selection.groups, sizes))}
    positions = _positions(selection, sum(sizes[group] for group in groups))

    def read() -> Iterator[Any]:
        in_groups = (item for item in corpus.items if group_of(item) in groups)
        chosen = (item for number, item in enumerate(in_groups) if number in positions)
        return islice(chosen, len(positions))

    items = LazyItems(read, len(positions))
    # All items were read for the sizes: the notes of the corpus are complete, and about all of it.
    where = "" if len(positions) == sizes.total() else "in the whole file: "
    notes = (re.sub("^(warning: )?", rf"\1{where}", note) for note in corpus.notes)
    return replace(corpus, items=items, notes=(_note(selection, len(positions), sizes), *notes))


def group_of(item: Any) -> str:
    """Return the group of an item; a document or a pair of sentences is a group of its own."""
    return str(getattr(item, "group", item.id))


def named_groups(text: str, sizes: Collection[str]) -> list[str]:
    """Return the groups that a list of names and ranges selects, in the order of the corpus.

    A range of whole numbers selects the groups with numbers in it, any other one those between
    two groups of the corpus.

    >>> named_groups("1-3,b", ["1", "2", "10", "3", "a", "b"]), named_groups("a-b", ["b", "a", "c"])
    (['1', '2', '3', 'b'], ['b', 'a'])
    """
    order = list(sizes)
    parts = [text] if text in order else [part.strip() for part in text.split(",")]
    chosen = {group for part in parts for group in _range(part, order)}
    return [group for group in order if group in chosen]


def _range(part: str, order: list[str]) -> list[str]:
    if part in order:
        return [part]
    for cut, mark in enumerate(part):
        ends = part[:cut].strip(), part[cut + 1 :].strip()
        if mark == "-" and all(end in order for end in ends):
            if all(end.isdecimal() for end in ends):
                low, high = sorted(map(int, ends))
                return [g for g in order if g.isdecimal() and low <= int(g) <= high]
            first, last = sorted(map(order.index, ends))
            return order[first : last + 1]
    raise _unknown(part, order)


def _unknown(part: str, order: list[str]) -> UsageError:
    ends = [end.strip() for end in part.split("-")] if "-" in part else [part]
    absent = next((end for end in ends if end not in order), part)
    near, which = get_close_matches(absent, order, _MOST_LISTED, cutoff=0.5), "the nearest"
    if absent.isdecimal():
        numbered = [group for group in order if group.isdecimal()]
        near = sorted(numbered, key=lambda group: abs(int(group) - int(absent)))[:_MOST_LISTED]
    if not near:
        near, which = order[:_MOST_LISTED], "the first"
    listed = ", ".join(quoted(group, 30) for group in near)
    problem = f"there is no group {quoted(absent, 40)}"
    return UsageError(f"{problem}; {which} of the {len(order)} groups are {listed}.")


def _positions(selection: Selection, available: int) -> Collection[int]:
    if selection.sample is None:
        return range(available if selection.limit is None else min(selection.limit, available))
    if selection.sample > available:
        problem = f"--sample {selection.sample} is more than the {available} items there are"
        raise UsageError(f"{problem}; use at most {available}.")
    # The first of a permutation: a larger sample with the same seed holds a smaller one.
    order = stream(selection.seed, "items of the corpus").permutation(available)
    return frozenset(order[: selection.sample].tolist())


def _note(selection: Selection, used: int, sizes: Counter[str]) -> str:
    how = []
    if selection.groups is not None:
        how.append(f"groups {quoted(selection.groups)}")
    if selection.limit is not None:
        how.append(f"the first {selection.limit}")
    if selection.sample is not None:
        how.append(f"a random sample of {selection.sample} with seed {selection.seed}")
    total = sizes.total()
    part = "every number is about" if used == total else PART_ONLY
    return f"{part} {used:,} of the {total:,} items of the corpus ({', '.join(how)})"


@dataclass(frozen=True)
class ReferenceLimits:
    """The smallest and the largest number of people's texts per input that are used."""

    low: int | None = None
    high: int | None = None
    seed: int = 0

    @classmethod
    def parse(cls, text: str | None, seed: int = 0) -> ReferenceLimits:
        """Return the limits of `MIN:MAX`, `MIN:`, `:MAX`, or `N` for exactly N.

        >>> [str(ReferenceLimits.parse(text)) for text in ("5:10", "5:", "10", None)]
        ['references=5:10,seed=0', 'references=5:', 'references=10:10,seed=0', '']
        """
        if text is None:
            return cls(None, None, seed)
        match = _LIMITS.fullmatch(text.strip())
        if match is None or not (match[1] or match[3]):
            problem = f"--references {quoted(text, 40)} is not understood"
            raise UsageError(f"{problem}; write MIN:MAX, such as 5:10, 5:, :10 or 10.")
        low, high = match[1], match[3] if match[2] else match[1]
        return cls(int(low) if low else None, int(high) if high else None, seed)

    def __post_init__(self) -> None:
        low, high = self.low or 0, _MOST_REFERENCES if self.high is None else self.high
        if not (low <= high <= _MOST_REFERENCES and high >= 2):
            ends = ("" if end is None else str(end) for end in (self.low, self.high))
            problem = f"--references {':'.join(ends)} asks for no possible number of texts"
            raise UsageError(f"{problem}; give a minimum up to the maximum, and a maximum from 2.")

    def __str__(self) -> str:
        ends = ("" if end is None else str(end) for end in (self.low, self.high))
        seed = "" if self.high is None else f",seed={self.seed}"
        return "" if self.low is self.high is None else f"references={':'.join(ends)}{seed}"

    def chosen(self, item_id: str, n: int) -> Sequence[int]:
        """Return which of an input's `n` texts are used, in their order.

        A larger maximum with the same seed holds the texts of a smaller one.
        """
        if self.high is None or n <= self.high:
            return range(n)
        order = stream(self.seed, "references", item_id).permutation(n)
        return sorted(order[: self.high].tolist())


@dataclass(frozen=True)
class TableOptions:
    """How a user's own file of answers is to be read."""

    columns: str | None = None
    """What `--columns` says."""
    missing: str | None = None
    """Codes that stand for no answer, separated by commas."""

    def __str__(self) -> str:
        """Return the options that are given, for a signature.

        >>> str(TableOptions("context=Sentence", "NA, -9")), str(TableOptions())
        ('columns=context=Sentence;missing=-9,NA', '')
        """
        codes = None if self.missing is None else ",".join(sorted(self.missing_codes))
        return _given({"columns": self.columns, "missing": codes})

    @property
    def missing_codes(self) -> frozenset[str]:
        """The codes that stand for no answer."""
        codes = (code.strip() for code in (self.missing or "").split(","))
        return frozenset(filter(None, codes))

    def check_unused(self, corpus: str) -> None:
        """Refuse these options for a corpus whose layout is known."""
        for name, value in (("--columns", self.columns), ("--missing", self.missing)):
            if value is not None:
                problem = f"{name} describes a file of your own, and {corpus} has a fixed layout"
                raise UsageError(f"{problem}; leave it out.")


DEFAULT_OPTIONS = TableOptions()
