"""Whose code scores a run: a run may come from others, and names functions that would be called."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from shlex import quote

from aleatoric.errors import UsageError


def is_code(name: str) -> bool:
    """Whether a probe is a function at `module:function`, and none of an installed package's.

    >>> is_code("lexical-1"), is_code("mine:length")
    (False, True)
    """
    return ":" in name


def unsaid(probes: Iterable[str], said: Collection[str]) -> list[str]:
    """The probes that are code and were not named by who is here now.

    >>> unsaid(["lexical-1", "mine:length", "theirs:gap"], ["mine:length"])
    ['theirs:gap']
    """
    return [name for name in probes if is_code(name) and name not in said]


def options_of(probes: Iterable[str]) -> str:
    """How they are said on the command line.

    >>> options_of(["mine:length"])
    '--probe mine:length'
    """
    return " ".join(f"--probe {quote(name)}" for name in probes)


def check_said(
    probes: Iterable[str], said: Collection[str], run: str, command: str = "score"
) -> None:
    """Refuse to call what only a run names.

    >>> check_said(["theirs:gap"], [], "runs/theirs")
    Traceback (most recent call last):
    aleatoric.errors.UsageError: runs/theirs: is scored by a function that it names, theirs:gap; ...
    """
    if names := unsaid(probes, said):
        raise UsageError(
            f"{run}: is scored by a function that it names, {', '.join(names)}; if you trust that "
            f"code, name it yourself: aleatoric {command} {quote(run)} {options_of(names)}."
        )


def check_said_rule(rule: str | None, said: str | None, run: str) -> None:
    """Refuse to call a word rule that only a run names.

    >>> check_said_rule("corrected", None, "runs/theirs")
    >>> check_said_rule("theirs:cut", None, "runs/theirs")
    Traceback (most recent call last):
    aleatoric.errors.UsageError: runs/theirs: cuts words by a function that it names, theirs:cut; \
if you trust that code, name it yourself: aleatoric resume runs/theirs --word-rule theirs:cut.
    """
    if rule is not None and is_code(rule) and rule != said:
        raise UsageError(
            f"{run}: cuts words by a function that it names, {rule}; if you trust that code, name "
            f"it yourself: aleatoric resume {quote(run)} --word-rule {quote(rule)}."
        )


def check_known(said: Iterable[str], probes: Collection[str]) -> None:
    """Refuse what is said of a run that has no such probe.

    >>> check_known(["mine:length"], ["lexical-1", "mine:length"])
    """
    for name in said:
        if name not in probes:
            raise UsageError(f"--probe {name} is none of the run's; leave it out.")
