"""Corpora of texts by several people: published ones, and JSON lines or tables of users.

In JSON lines, a row is `input` (a text, or a list of turns) and `references` (a list of texts, or
of objects with `person` and `text`), and may have `id`, `group`, `original` and `language` (a code
such as `de`, the same in every row; English without). In a table, one row is one text: columns
`input` and `reference`, and optionally the others; rows of one input belong together.
`aleatoric.data.columns` has other layouts.
Published corpora are read in their publishers' layouts or as JSON lines.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from aleatoric.data import files, items
from aleatoric.data.columns import answer_rows
from aleatoric.data.files import Place, Rows
from aleatoric.data.items import ReadingNotes
from aleatoric.data.selection import DEFAULT_OPTIONS, ReferenceLimits, TableOptions
from aleatoric.errors import DataError, UsageError, counted, quoted
from aleatoric.types import LazyItems, MultiRef, TextItem

TEXT_NAMES = {name: name for name in ("id", "group", "original", "language", "person")}
TEXT_NAMES |= dict.fromkeys(("input", "context"), "context")
TEXT_NAMES |= dict.fromkeys(("reference", "response"), "response")
"""Names that `--columns` and a header may use -> what the column holds."""
TEXT_KEYS = {name: name for name in ("input", "references", "id", "group", "original", "language")}
TEXT_KEYS |= {"context": "input", "response": "references", "reference": "references"}
"""Names that `--columns` may use for JSON lines of inputs and references -> our keys."""
MIN_REFERENCES = 2
"""Two texts make a pair; an input with fewer says nothing about variability."""
NO_LIMITS = ReferenceLimits()
_WMT14_LINE = re.compile(r"(?P<kind>[ST]|R\d{1,4})-(?P<number>\d{1,9})\t(?P<text>.*)", re.DOTALL)
_Sentences = dict[str, dict[str, tuple[Place, str]]]
"""Number of a sentence -> S, T, R1, ... -> its line."""


def load(
    source: Path, encoding: str = "utf-8", options: TableOptions = DEFAULT_OPTIONS
) -> MultiRef:
    """Inputs and references of a file, read at every iteration."""
    notes, is_table = ReadingNotes(options.missing_codes), files.is_table(source)
    if is_table:
        first = next(answer_rows(source, encoding, options.columns, TEXT_NAMES, []), None)
    else:
        TableOptions(missing=options.missing).check_unused("a file of JSON lines with texts")
        first = next(items.json_rows(source, encoding, options.columns, TEXT_KEYS), None)
    place, row = first or ((source, 0), {})
    language = language_of(row, place)
    read = partial(read_references, source, encoding, language, columns=options.columns)
    if is_table:
        read = partial(_read_table, source, encoding, language, options, notes)
    name = source.name.partition(".")[0]
    corpus = multi_reference(read, [source], name, "own", "as its owner states", language, notes)
    return replace(corpus, is_language_stated="language" in row)


def _read_table(
    source: Path, encoding: str, language: str, options: TableOptions, notes: ReadingNotes
) -> Iterator[TextItem]:
    """Inputs of a table with their texts; blank and missing texts are dropped and counted."""
    notes.reset()
    rows = answer_rows(source, encoding, options.columns, TEXT_NAMES, notes.layout)
    rows = checked_language(rows, language)
    for item in items.grouped_items(rows, notes):
        turns = input_of(item.context, "input", (source, 1))
        yield TextItem(item.id, item.group, turns, item.responses, item.original, item.persons)


class ReferenceNotes:
    """Notes of the last reading: inputs with too few references, and empty references."""

    def __init__(self, further: Iterable[str] = (), limits: ReferenceLimits = NO_LIMITS) -> None:
        self.further, self._limits = further, limits
        self.reset()

    def reset(self) -> None:
        """Start to count again, before the items are read again."""
        self.inputs = self.few = self.empty = self.left_out = self.reduced = self.unused = 0

    def counted(self, items: Iterator[TextItem], source: Path) -> Iterator[TextItem]:
        """The same items, counted; at least one of them must have two references."""
        self.reset()
        for item in items:
            self.inputs += 1
            self.few += len(item.references) < MIN_REFERENCES
            self.empty += sum(not text.strip() for text in item.references)
            yield item
        if self.few == self.inputs:
            problem = f"no input has {MIN_REFERENCES} references, and one text alone does not vary"
            raise DataError.at(source, None, problem, "give several people's texts per input")

    def limited(self, corpus: MultiRef) -> Iterator[TextItem]:
        """Yield items with as many references as the limits allow, and count the rest."""
        for item in corpus.items:
            n = len(item.references)
            if n < (self._limits.low or 0):
                self.left_out += 1
                continue
            chosen = self._limits.chosen(item.id, n)
            self.reduced += len(chosen) < n
            self.unused += n - len(chosen)
            yield _with_references(item, chosen) if len(chosen) < n else item
        if not self.inputs:
            problem = f"no input of {corpus.name} has {self._limits.low} references"
            raise UsageError(f"{problem}; lower the minimum of --references.")

    def __iter__(self) -> Iterator[str]:
        yield from self.further
        if self.left_out:
            yield (
                f"{self.left_out} of {self.inputs + self.left_out} inputs have fewer than "
                f"{self._limits.low} references and are left out (--references)"
            )
        if self.reduced:
            yield (
                f"{self.reduced} of {self.inputs} inputs have more than {self._limits.high} "
                f"references: {self._limits.high} of each are used, drawn at random with seed "
                f"{self._limits.seed} ({self.unused} are not)"
            )
        if self.few:
            verb, whose = ("has", "its") if self.few == 1 else ("have", "their")
            yield (
                f"{self.few} of {self.inputs} inputs {verb} fewer than {MIN_REFERENCES} "
                f"references: {whose} variability is undefined"
            )
        if self.empty:
            empty = counted(self.empty, "reference", "is", "are")
            yield f"{empty} empty: a pair of two empty texts is undefined"


def multi_reference(
    read: Callable[[], Iterator[TextItem]],
    sources: list[Path],
    name: str,
    version: str,
    licence: str,
    language: str = "en",
    further_notes: Iterable[str] = (),
) -> MultiRef:
    """A corpus of inputs and references, which `read` reads from `sources` at every iteration."""
    notes = ReferenceNotes(further_notes)
    inputs = LazyItems(lambda: notes.counted(items.require_items(read(), sources[0]), sources[0]))
    sha256 = files.sha256_of_all(sources)
    return MultiRef(name, version, sha256, licence, inputs, notes, language)


def limit_references(corpus: MultiRef, limits: ReferenceLimits) -> MultiRef:
    """Return a corpus without inputs of too few references, and with some of those of too many."""
    if not str(limits):
        return corpus
    further = corpus.notes.further if isinstance(corpus.notes, ReferenceNotes) else corpus.notes
    notes = ReferenceNotes(further, limits)

    def read() -> Iterator[TextItem]:
        return notes.counted(notes.limited(corpus), Path(corpus.name))

    return replace(corpus, items=LazyItems(read), notes=notes)


def _with_references(item: TextItem, chosen: Sequence[int]) -> TextItem:
    persons = item.persons and tuple(item.persons[i] for i in chosen)
    return replace(item, references=tuple(item.references[i] for i in chosen), persons=persons)


def read_references(
    source: Path,
    encoding: str,
    language: str | None = None,
    input_name: str = "input",
    references_name: str = "references",
    columns: str | None = None,
) -> Iterator[TextItem]:
    """Inputs and references of JSON rows; if `language` is given, other languages are refused."""
    lines: dict[str, int] = {}
    first: tuple[int, bool] | None = None
    rows = items.json_rows(source, encoding, columns, TEXT_KEYS)
    for place, row in rows if language is None else checked_language(rows, language):
        item_id = items.new_id(lines, row.get("id", place[1]), place)
        references = files.required(row, references_name, place)
        texts, persons = texts_and_persons(references, references_name, place)
        first = first or (place[1], persons is not None)
        if (persons is not None) != first[1]:
            problem = f"only some rows have persons (line {first[0]} or this one)"
            raise DataError.at(*place, problem, "give every reference its person, or none")
        yield TextItem(
            item_id,
            # Without a group every input is a group of its own.
            files.key_of(row.get("group", item_id), "group", place),
            input_of(files.required(row, input_name, place), input_name, place),
            texts,
            original_of(row, place),
            persons,
        )


def texts_and_persons(
    value: Any, name: str, place: Place
) -> tuple[tuple[str, ...], tuple[str, ...] | None]:
    """Return texts and who wrote them; a person writes one text per input."""
    if not (isinstance(value, list) and any(isinstance(entry, dict) for entry in value)):
        return tuple(files.texts_of(value, name, place)), None
    entries = list(items.person_entries(value, name, "text", place))
    persons = [person.strip() for person, _ in entries]
    if (twice := files.first_twice(persons)) is not None:
        problem = f"person {quoted(twice, 40)} writes two texts for an input"
        raise DataError.at(*place, problem, "keep one text per person and input")
    return tuple(text for _, text in entries), tuple(persons)


def original_of(row: dict[str, Any], place: Place) -> str | None:
    """The original text of a row, under either of its names."""
    original = "original" if row.get("original") is not None else "original_reference"
    return items.optional_text(row, original, place)


def checked_language(rows: Rows, language: str) -> Rows:
    """Yield rows unchanged; refuse rows that state another language."""
    for place, row in rows:
        if language_of(row, place) != language:
            stated, first = quoted(row.get("language", "en")), quoted(language)
            problem = f"language {stated} where the first row has {first}"
            raise DataError.at(*place, problem, "put each language into its own file")
        yield place, row


def language_of(row: dict[str, Any], place: Place) -> str:
    """The language that a row states, in lower case; English if it states none."""
    value = row.get("language", "en")
    if not isinstance(value, str) or not re.fullmatch("[A-Za-z]{2,3}", value):
        problem = f"language {quoted(value, 40)} is not a language code"
        raise DataError.at(*place, problem, "write it as de or en")
    return value.lower()


def input_of(value: Any, name: str, place: Place) -> tuple[str, ...]:
    """An input: a text, or the turns of a dialogue."""
    turns = files.texts_of(value, name, place) if isinstance(value, list) else [value]
    texts = tuple(files.text_of(turn, name, place) for turn in turns)
    if not any(text.strip() for text in texts):
        fix = f"give what people wrote their texts to in {name!r}, or leave the row out"
        raise DataError.at(*place, f"{name} is empty", fix)
    return texts


def published(
    read: Callable[[list[Path], str], Iterator[TextItem]],
    paths: list[Path],
    encoding: str,
    name: str,
    licence: str,
    keys: Sequence[str] = (),
    **facts: Any,
) -> MultiRef:
    """A corpus that `read` reads from files in the publishers' layout, if it is no JSON lines.

    A layout that is JSON lines itself is known by one of its `keys` in the first row; `facts` are
    the version, if it is not the first part of the file's name, and the language.
    """
    is_own = files.is_json_lines(paths[0])
    if keys:
        _, first = next(files.read_json_lines(paths[0], encoding), (None, {}))
        is_own = not any(key in first for key in keys)
    read_items = partial(read_references, paths[0]) if is_own else partial(read, paths)
    facts = {"version": paths[0].name.partition(".")[0]} | facts
    return multi_reference(partial(read_items, encoding), paths, name, licence=licence, **facts)


def file_in(source: Path, names: Sequence[str], what: str, fix: str) -> Path:
    """The source if it has one of these names, else the first of these files in its folder."""
    for name in names:
        for path in (source, source / name):
            if path.name == Path(name).name and os.path.isfile(path):
                return path
    problem = f"holds no {names[0]}" if os.path.isdir(source) else f"is no {what}"
    raise DataError.at(source, None, problem, fix)


def joined_items(rows: Iterable[tuple[Place, str, str]]) -> Iterator[TextItem]:
    """Inputs with all their texts, from rows of an input and a text; ids are their first lines."""
    texts: dict[str, list[str]] = {}
    lines: dict[str, str] = {}
    for place, prompt, text in rows:
        texts.setdefault(prompt, []).append(text)
        lines.setdefault(prompt, str(place[1]))
    for prompt, references in texts.items():
        yield TextItem(lines[prompt], lines[prompt], (prompt,), tuple(references))


def read_aligned_items(paths: list[Path], encoding: str) -> Iterator[TextItem]:
    """Inputs of the first file and references of the others; ids count lines from 0."""
    for number, lines in enumerate(files.read_aligned(paths, encoding)):
        texts = [files.text_of(line.rstrip("\r\n"), "the line", place) for place, line in lines]
        original = input_of(texts[0], "the original", lines[0][0])
        yield TextItem(str(number), str(number), original, tuple(texts[1:]))


def load_dailydialog(source: Path, encoding: str = "utf-8") -> MultiRef:
    """DailyDialog++ (Sai et al. 2020): dialogues, each with the next turns that five people wrote.

    The publishers' JSON lines have `context`, a list of turns, and `positive_responses`; negative
    responses are left out.
    """
    keys = ("positive_responses", "context")

    def read(paths: list[Path], encoding: str) -> Iterator[TextItem]:
        return read_references(source, encoding, None, "context", keys[0])

    return published(read, [source], encoding, "dailydialog++", "none stated", keys=keys)


def load_wmt14(source: Path, encoding: str = "utf-8") -> MultiRef:
    """Ten more translations of 500 WMT'14 sentences (Ott et al. 2018, `wmt14-en-de.extra_refs`).

    Each line is an identifier, a tab and a sentence: `S-123` is the English source of sentence 123,
    `T-123` the original reference, `R1-123` to `R10-123` the additional ones, each by another
    translator. The original reference is kept apart, as the paper keeps it.
    """
    language = "fr" if re.search(r"en[-_]fr", source.name) else "de"
    facts: Any = {"version": f"en-{language}", "language": language}
    return published(_read_wmt14, [source], encoding, "wmt14-10ref", "CC BY-NC 4.0", **facts)


def _read_wmt14(paths: list[Path], encoding: str) -> Iterator[TextItem]:
    sentences: _Sentences = {}
    for place, line in files.read_lines(paths[0], encoding):
        if line.strip():
            _add(sentences, place, line)
    for number, lines in sentences.items():
        if "S" not in lines:
            place, _ = next(iter(lines.values()))
            problem = f"sentence {number} has no line S-{number}"
            raise DataError.at(*place, problem, "give its English source")
        place, text = lines["S"]
        translators = sorted((kind for kind in lines if kind[0] == "R"), key=lambda r: int(r[1:]))
        references = tuple(lines[kind][1] for kind in translators)
        original = lines["T"][1] if "T" in lines else None
        yield TextItem(number, number, input_of(text, "the source", place), references, original)


def _add(sentences: _Sentences, place: Place, line: str) -> None:
    match = _WMT14_LINE.fullmatch(line)
    if match is None:
        problem = f"{quoted(line.strip(), 40)} is no line of extra references"
        fix = "write S-1, T-1 or R1-1 to R10-1, a tab and the sentence"
        raise DataError.at(*place, problem, fix)
    lines = sentences.setdefault(match["number"], {})
    kind = match["kind"] if match["kind"] in "ST" else f"R{int(match['kind'][1:])}"
    text = files.text_of(match["text"].strip(), "the sentence", place)
    if kind in lines:
        problem = f"{quoted(line.partition(chr(9))[0])} occurs twice"
        raise DataError.at(*place, problem, "keep one of the two")
    lines[kind] = place, text


def load_writingprompts(source: Path, encoding: str = "utf-8") -> MultiRef:
    """WritingPrompts (Fan et al. 2018): prompts, each with the stories that people wrote.

    A folder (of the test split, as in the paper) or one of its files: `test.wp_source` has one
    prompt per line and `test.wp_target` its story; a prompt is repeated for each of its stories.
    Stories of the same prompt belong together, in the order of the file; an item's id is the line
    of its prompt's first story. The publishers write a line break as `<newline>`, which becomes one
    again.
    """
    paths = [source] if files.is_json_lines(source) else _prompt_files(source)
    return published(_read_prompts, paths, encoding, "writingprompts", "none stated")


def _prompt_files(source: Path) -> list[Path]:
    """The file of prompts and the file of stories."""
    if os.path.isfile(source) and source.name.endswith((".wp_source", ".wp_target")):
        return [source.with_suffix(".wp_source"), source.with_suffix(".wp_target")]
    names = [
        f"{split}.wp_source" for split in ("test", "valid", "train")
    ]  # the paper's split first
    fix = "name the folder or file of test.wp_source and test.wp_target, or a JSON-lines file"
    prompts = file_in(source, names, "file of WritingPrompts", fix)
    return [prompts, prompts.with_suffix(".wp_target")]


def _read_prompts(paths: list[Path], encoding: str) -> Iterator[TextItem]:
    return joined_items(_stories(paths, encoding))


def _stories(paths: list[Path], encoding: str) -> Iterator[tuple[Place, str, str]]:
    fix = "give every prompt its story"
    for (place, left), (there, right) in files.read_aligned(paths, encoding, fix):
        (prompt,) = input_of(_text(left), "the prompt", place)
        yield place, prompt, files.text_of(_text(right), "the story", there)


def _text(line: str) -> str:
    return "\n".join(part.strip() for part in line.strip().split("<newline>"))
