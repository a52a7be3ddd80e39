"""Read people's answers and a model's draws with the same word rule, and count words.

They are read once, when they are saved in a run; scoring never calls a user-defined rule.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress

from aleatoric.errors import UsageError, quoted
from aleatoric.models.gguf import listed
from aleatoric.nextword.rules import WordRule, is_code, is_spaceless, normalise, rule_named
from aleatoric.registry import called, function_at
from aleatoric.types import FAILED, Categorical, Choices, Draws, Item


def human_counts(responses: Iterable[str]) -> dict[str, int]:
    """Count how many people gave each word, in normal form."""
    return dict(Counter(map(normalise, responses)))


def has_tie(counts: Mapping[str, int]) -> bool:
    """Return whether several words are the most frequent one."""
    first, *others = sorted(counts.values(), reverse=True)
    return first in others


def model_distribution(draws: Draws, keep_failed: bool) -> Categorical | None:
    """Return the model's distribution over normal forms; `None` if no draw contains a word."""
    if draws.exact is not None:
        return draws.exact.words
    if draws.logprobs is not None:
        return renormalised(draws.logprobs)
    counts = normalised_counts(draws.counts)
    if keep_failed and draws.failed:
        counts[FAILED] = draws.failed
    return Categorical.from_counts(counts) if counts else None


def normalised_counts(counts: Mapping[str, int]) -> dict[str, int]:
    """Return counts with the case variants of a word added up."""
    # A model's thousand words are mostly lower-case ASCII, which needs no work.
    text = "".join(counts)
    if text.isascii() and text == text.lower():
        return dict(counts)
    merged: dict[str, int] = defaultdict(int)
    forms = map(str.lower if text.isascii() else normalise, counts)
    for form, count in zip(forms, counts.values(), strict=True):
        merged[form] += count
    return merged


def renormalised(logprobs: Mapping[str, float]) -> Categorical | None:
    """Return the biased estimator of the paper's App. A: softmax of words' log-probabilities."""
    if not logprobs:
        return None
    top = max(logprobs.values())
    weights: dict[str, float] = defaultdict(float)
    for word, logprob in logprobs.items():
        weights[normalise(word)] += math.exp(logprob - top)
    total = math.fsum(weights.values())
    return Categorical(tuple(weights), tuple(w / total for w in weights.values()))


def cut(draws: Draws, rule: WordRule) -> Draws:
    """Cut the raw texts of draws to their first words; a text without a word counts as failed."""
    if not draws.texts:
        return draws
    return _with_words(replace(draws, texts=()), ((rule(text), 1) for text in draws.texts))


def _with_words(draws: Draws, words: Iterable[tuple[str | None, int]]) -> Draws:
    """Add (word, count) pairs to draws; `None` counts as failed."""
    counts, failed = Counter(draws.counts), draws.failed
    for word, count in words:
        if word is None:
            failed += count
        else:
            counts[word] += count
    return replace(draws, counts=dict(counts), failed=failed)


def pool(rows: Sequence[Draws]) -> Draws:
    """Pool several rows of one item: counts and failures add up."""
    if len(rows) == 1 or rows[0].logprobs is not None:
        return rows[0]
    counts: Counter[str] = Counter()
    for row in rows:
        counts.update(row.counts)
    return replace(rows[0], counts=dict(counts), failed=sum(row.failed for row in rows))


def regroup(distribution: Categorical, classes: Mapping[str, str]) -> Categorical:
    """Return the distribution over classes of outcomes, such as parts of speech."""
    mass: dict[str, float] = defaultdict(float)
    for word, probability in distribution.as_dict().items():
        mass[classes[word]] += probability
    return replace(distribution, support=tuple(mass), probs=tuple(mass.values()))


_MISSING = frozenset(("NA", "N/A", "n/a", "NaN", "nan", "#N/A", "NULL", "null", "-99", "-999"))
"""Codes for missing answers in survey files."""
_GAP = "__"
"""How a questionnaire may mark the place of the answer."""
_TIES, _FEWEST_TIES = 0.1, 10
"""Share and number of contexts with a tie for people's most frequent word that a run notes."""
_EXAMPLES = 3
_MOST_WORDS = 10_000
_NUMBER = re.compile(r"\W*\d+[.,:]\d")
"""A number that the word rule cuts."""


@dataclass(frozen=True)
class Reading:
    """How words are read."""

    choices: Choices
    text: WordRule
    """Reads a model's raw text; the option `lead` applies here only."""
    answer: WordRule
    """Reads a word that is given as such."""

    @classmethod
    def of(cls, choices: Choices) -> Reading:
        """Return the reading of a protocol; loads a user-defined rule."""
        if is_code(choices.rule):
            text = answer = _user_rule(choices.rule)
        else:
            text, answer = rule_named(choices.rule, choices.lead), rule_named(choices.rule)
        if choices.answers == "folded":
            # The paper's rule knows no space other than " ", so that a blank is a word.
            is_paper = choices.rule == "paper"
            answer = lambda word: word if is_paper or word.strip() else None  # noqa: E731
        return cls(choices, text, answer)


class AnswerChanges:
    """Counts what the word rule changed in words that were given as such, for a note.

    >>> changes = AnswerChanges()
    >>> for word in ("she", "she.", "New York", "???"):
    ...     _ = changes.read(word, 1, Reading.of(Choices()).answer)
    >>> changes.note("answers")
    "the word rule changed 3 of 4 answers (1 without punctuation; 1 shortened to the first word, \
such as 'New York' to 'New'; 1 left out because they hold no word); --choose answers=folded keeps \
them, but texts of models are still cut to their first word"
    """

    def __init__(self) -> None:
        self.total = self.trimmed = self.shortened = self.wordless = 0
        self.texts = 0
        """How many raw texts were read, which are cut to their first words."""
        self._examples: dict[str, str] = {}
        self._joined: dict[str, list[str]] = {}
        """Word -> some of the different answers that were shortened to it."""

    def read(self, answer: str, count: int, rule: WordRule) -> str | None:
        """Return the word in an answer, and count the change."""
        self.total += count
        word = rule(answer)
        if word is None:
            self.wordless += count
        elif word != answer and (form := normalise(word)) != (before := normalise(answer.strip())):
            if [*filter(str.isalnum, form)] == [*filter(str.isalnum, before)]:
                self.trimmed += count
            else:
                self.shortened += count
                self._keep_example(answer, word, form, before)
        return word

    def _keep_example(self, answer: str, word: str, form: str, before: str) -> None:
        """Keep a few shortened answers for the note, at least one number such as 3.5."""
        lacks_number = not any(map(_NUMBER.match, self._examples))
        if len(self._examples) < _EXAMPLES or (lacks_number and _NUMBER.match(answer)):
            self._examples[answer] = word
        if len(self._joined) < _MOST_WORDS or form in self._joined:
            joined = self._joined.setdefault(form, [])
            if len(joined) < _EXAMPLES and before not in joined:
                joined.append(before)

    @property
    def example(self) -> str:
        """The first answer that was shortened, in quotes."""
        return quoted(next(iter(self._examples)), 30)

    @property
    def changed(self) -> int:
        """How many words changed by more than case and white space."""
        return self.trimmed + self.shortened + self.wordless

    def note(self, what: str) -> str:
        """Return one sentence for the notes of a run."""
        examples = ", ".join(_became([answer], word) for answer, word in self._examples.items())
        parts = {
            "without punctuation": self.trimmed,
            f"shortened to the first word, such as {examples}": self.shortened,
            "left out because they hold no word": self.wordless,
        }
        changes = "; ".join(f"{count:,} {part}" for part, count in parts.items() if count)
        return (
            f"the word rule changed {self.changed:,} of {self.total:,} {what} ({changes}); "
            "--choose answers=folded keeps them, but texts of models are still cut to their first "
            f"word{self._joined_note()}"
        )

    def _joined_note(self) -> str:
        """Different answers that became one word, such as 3.5 and 3.9, which both become 3."""
        joined = [(answers, word) for word, answers in self._joined.items() if len(answers) > 1]
        joined.sort(key=lambda pair: not _NUMBER.match(pair[0][0]))  # the most surprising first
        cases = ", ".join(_became(*pair) for pair in joined[:_EXAMPLES])
        return f"; different answers became one word, such as {cases}" if joined else ""


def whole_answers_note(name: str, items: Iterable[Item], choices: Choices) -> Iterator[str]:
    """Warn about people's answers that are kept whole where a system's texts are cut."""
    rule, changes = Reading.of(replace(choices, answers="rule")).answer, AnswerChanges()
    for item in items:
        for answer in item.responses:
            changes.read(answer, 1, rule)
    if changes.shortened:
        yield (
            f"warning: {name}: its texts are cut to their first word and cannot match "
            f"{changes.shortened:,} of {changes.total:,} answers of people, which are kept whole, "
            f"such as {changes.example}; record its answers as samples, or use --choose "
            "answers=rule"
        )


def _became(answers: Iterable[str], word: str) -> str:
    return f"{' and '.join(quoted(answer, 30) for answer in answers)} to {quoted(word, 30)}"


class ReadItems:
    """Items with their answers read as words; an item without any word is left out.

    Iterate once; `notes` then says what was changed.
    """

    def __init__(self, items: Iterable[Item], reading: Reading) -> None:
        self._items, self._reading = items, reading
        self._changes = AnswerChanges()
        self._left_out: list[str] = []
        self._n_items = self._n_spaced = self._n_gaps = self._n_ties = 0
        self._missing: Counter[str] = Counter()

    def __iter__(self) -> Iterator[Item]:
        for item in self._items:
            _check_script(item, self._reading.choices.rule)
            self._n_items += 1
            self._n_spaced += item.context != item.context.rstrip()
            self._n_gaps += item.context.rstrip().endswith(_GAP)
            self._missing.update(a for a in map(str.strip, item.responses) if a in _MISSING)
            words = [self._changes.read(a, 1, self._reading.answer) for a in item.responses]
            is_kept = [word is not None for word in words]
            if any(is_kept):
                kept = tuple(word for word in words if word is not None)
                self._n_ties += has_tie(human_counts(kept))
                persons = item.persons and tuple(compress(item.persons, is_kept))
                original = item.original
                if original is not None and is_code(self._reading.choices.rule):
                    original = self._reading.answer(original)  # scoring applies other rules
                yield replace(item, responses=kept, original=original, persons=persons)
            else:
                self._left_out.append(item.id)
        if self._left_out and len(self._left_out) == self._n_items:
            raise UsageError("no answer of the corpus holds a word; check its column of answers.")

    def notes(self) -> Iterator[str]:
        """Yield notes for the run."""
        if self._changes.changed:
            yield self._changes.note("answers")
        if self._left_out:
            names = listed((quoted(name, 40) for name in self._left_out), most=5)
            yield f"no answer holds a word, and the item is left out: {names}"
        if self._missing:
            yield _missing_note(self._missing)
        if self._n_gaps:
            yield (
                f"{self._n_gaps:,} of {self._n_items:,} contexts end in {_GAP!r}, which models "
                "read as a part of the text; remove it from the corpus"
            )
        if self._n_spaced:
            yield (
                f"{self._n_spaced:,} of {self._n_items:,} contexts end in white space: most models "
                "write the space before a word themselves and give people's words less "
                "probability after one; remove it from the corpus"
            )
        if self._n_ties >= max(_FEWEST_TIES, _TIES * self._n_items):
            yield (
                f"in {self._n_ties:,} of {self._n_items:,} contexts, several words tie for "
                "people's most frequent one, and the first in the corpus counts: ece_human, "
                "ece_oracle and rank_of_human_mode depend on the order of answers"
            )


def _missing_note(found: Counter[str]) -> str:
    codes, option = ", ".join(map(quoted, found)), f"--missing {','.join(found)}"
    total = f"{found.total():,} answers are"
    meaning = "count as words; if they stand for missing answers, drop them"
    if found.total() == 1:
        total = "1 answer is"
        meaning = "counts as a word; if it stands for a missing answer, drop it"
    return f"{total} {codes} and {meaning} with {option}"


def read_draws(draws: Iterable[Draws], reading: Reading, changes: AnswerChanges) -> Iterator[Draws]:
    """Yield draws whose words are read like people's answers.

    Raw texts are cut when they are scored, except for a user-defined rule, which runs only here.
    """
    for row in draws:
        changes.texts += len(row.texts)
        if row.counts:
            counts = row.counts.items()
            words = ((changes.read(word, n, reading.answer), n) for word, n in counts)
            row = _with_words(replace(row, counts={}), words)
        if row.logprobs is not None:
            row = replace(row, logprobs=_read_logprobs(row.logprobs, reading, changes))
        yield cut(row, reading.text) if is_code(reading.choices.rule) else row


def _read_logprobs(
    logprobs: Mapping[str, float], reading: Reading, changes: AnswerChanges
) -> dict[str, float]:
    """Log-probabilities of words; the probabilities of forms of one word add up."""
    merged: dict[str, float] = {}
    for answer, value in logprobs.items():
        word = changes.read(answer, 1, reading.answer)
        if word is None:
            continue
        if word in merged:
            low, high = sorted((merged[word], value))
            value = high + math.log1p(math.exp(low - high))
        merged[word] = value
    return merged


def _check_script(item: Item, rule: str) -> None:
    """Raise for a script written without spaces if the rule needs spaces."""
    if rule not in ("corrected", "paper"):
        return
    answers = sum(map(is_spaceless, item.responses))
    if is_spaceless(item.context) or 2 * answers > len(item.responses):
        raise UsageError(
            f"item {quoted(item.id)}: is in a script that is written without spaces between words; "
            "give a segmenter with --word-rule module:function, or use --word-rule characters."
        )


def _user_rule(place: str) -> WordRule:
    function: Callable[[str], object] = function_at(place, "word rule")

    def rule(text: str) -> str | None:
        word = called(function, place, "word rule", text)
        if word is not None and not isinstance(word, str):
            problem = f"the word rule {place} returned {type(word).__name__} for {quoted(text)}"
            fix = "return the first word as a string, or None where there is none"
            raise UsageError(f"{problem}; {fix}.")
        return (word.strip() or None) if word else None

    return rule
