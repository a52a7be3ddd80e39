"""Published corpora of several texts per input, each in its publishers' layout.

TURK and JFLEG have one file per person, line n of each belonging together, as ASSET has; E2E is a
table; SQuALITY and DialogSum are JSON lines; Multi30K has five files of captions per language. All
of them are also read as JSON lines of `input` and `references`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aleatoric.data import files, items
from aleatoric.data.columns import table_rows
from aleatoric.data.files import Place
from aleatoric.data.references import (
    file_in,
    input_of,
    joined_items,
    published,
    read_aligned_items,
)
from aleatoric.errors import DataError
from aleatoric.types import MultiRef, TextItem

_SUMMARY = re.compile(r"summary(\d{1,3})")
_CAPTIONS = re.compile(r"(?P<split>[a-z0-9_]+)\.(?P<number>[1-5])\.(?P<language>[a-z]{2})(\.gz)?")
N_CAPTIONS = 5


@dataclass(frozen=True)
class Aligned:
    """A layout of one file of inputs and numbered files of references, for each split."""

    name: str
    title: str
    licence: str
    splits: tuple[str, ...]
    inputs: str
    references: str
    """Names of the files, with {} for the split; references end in their number."""
    most: int

    def load(self, source: Path, encoding: str) -> MultiRef:
        """Return the corpus of a folder, of one of its files of inputs, or of JSON lines."""
        paths, facts = [source], dict[str, str]()
        if not files.is_json_lines(source):
            facts["version"], paths = self.files(source)
        return published(read_aligned_items, paths, encoding, self.name, self.licence, **facts)

    def files(self, source: Path) -> tuple[str, list[Path]]:
        """Return the split, and its inputs and references in the order of their numbers."""
        split, inputs = self._inputs(source)
        prefix = self.references.format(split)
        numbered = re.compile(re.escape(prefix) + r"(\d{1,4})")
        matches = ((numbered.fullmatch(path.name), path) for path in inputs.parent.iterdir())
        references = {int(match[1]): path for match, path in matches if match}
        if len(references) < 2:
            problem = f"there are {len(references)} files {prefix}N beside it"
            fix = f"put {prefix}0 to {prefix}{self.most} there"
            raise DataError.at(inputs, None, problem, fix)
        return split, [inputs, *(references[number] for number in sorted(references))]

    def _inputs(self, source: Path) -> tuple[str, Path]:
        names = {self.inputs.format(split): split for split in self.splits}
        folders = (("", f"{self.name}/", f"{split}/") for split in self.splits)
        places = [f"{at}{name}" for name, each in zip(names, folders, strict=True) for at in each]
        prefix = self.references.format(self.splits[0])
        fix = f"name the folder of {places[0]} and {prefix}0 to {self.most}, or a JSON-lines file"
        inputs = file_in(source, places, f"folder of {self.title}", fix)
        return names[inputs.name], inputs


_ASSET = Aligned(
    "asset", "ASSET", "CC BY-NC 4.0", ("valid", "test"), "asset.{}.orig", "asset.{}.simp.", 9
)
_TURK = Aligned(
    "turk", "TURK", "GPL 3.0", ("test", "tune"), "{}.8turkers.tok.norm", "{}.8turkers.tok.turk.", 7
)
_JFLEG = Aligned("jfleg", "JFLEG", "CC BY-NC-SA 4.0", ("test", "dev"), "{}.src", "{}.ref", 3)


def load_asset(source: Path, encoding: str = "utf-8") -> MultiRef:
    """ASSET (Alva-Manchego et al. 2020): sentences, each simplified by ten people.

    A folder, or one of its `.orig` files: `asset.valid.orig` and `asset.valid.simp.0` to `.9`, line
    n of each belonging together. Ids count lines from 0, as the files do.
    """
    return _ASSET.load(source, encoding)


def load_turk(source: Path, encoding: str = "utf-8") -> MultiRef:
    """TURK (Xu et al. 2016): sentences, each simplified by eight people.

    A folder or a `.norm` file: `test.8turkers.tok.norm` and `test.8turkers.tok.turk.0` to `.7`.
    """
    return _TURK.load(source, encoding)


def load_jfleg(source: Path, encoding: str = "utf-8") -> MultiRef:
    """JFLEG (Napoles et al. 2017): learners' sentences, each corrected by four people.

    A folder or a `.src` file: `test.src` and `test.ref0` to `test.ref3`.
    """
    return _JFLEG.load(source, encoding)


def load_e2e(source: Path, encoding: str = "utf-8") -> MultiRef:
    """E2E (Novikova et al. 2017): facts about restaurants, each put into words by several people.

    `testset_w_refs.csv` or `devset.csv`, with the columns `mr` and `ref`; rows of the same facts
    belong together. An item's id is the line of its first row.
    """
    if os.path.isdir(source):
        names = ("testset_w_refs.csv", "devset.csv", "trainset.csv")
        source = file_in(
            source, names, "folder of E2E", f"name the folder or the file of {names[0]}"
        )
    return published(_read_e2e, [source], encoding, "e2e", "CC BY-SA 4.0")


def _read_e2e(paths: list[Path], encoding: str) -> Iterator[TextItem]:
    return joined_items(_meanings(paths[0], encoding))


def _meanings(source: Path, encoding: str) -> Iterator[tuple[Place, str, str]]:
    for place, row in table_rows(source, encoding):
        facts = files.text_of(files.required(row, "mr", place), "mr", place).strip()
        (facts,) = input_of(facts, "mr", place)
        yield place, facts, files.text_of(files.required(row, "ref", place), "ref", place)


def load_squality(source: Path, encoding: str = "utf-8") -> MultiRef:
    """SQuALITY (Wang et al. 2022): questions about stories, each answered by four writers.

    JSON lines of stories with `questions` and their `responses`. An input is the story and the
    question; stories are groups, and writers are persons.
    """
    facts = ("squality", "as its page states")
    return published(_read_squality, [source], encoding, *facts, keys=["questions"])


def _read_squality(paths: list[Path], encoding: str) -> Iterator[TextItem]:
    lines: dict[str, int] = {}
    for place, row in files.read_json_lines(paths[0], encoding):
        metadata = _object(files.required(row, "metadata", place), "metadata", place)
        story = items.new_id(lines, files.required(metadata, "passage_id", place), place)
        document = files.text_of(files.required(row, "document", place), "document", place)
        for question in _objects(files.required(row, "questions", place), "questions", place):
            number = files.key_of(question.get("question_number"), "question_number", place)
            text = files.required(question, "question_text", place)
            text = files.text_of(text, "question_text", place)
            texts, writers = _responses(question, place)
            both = input_of(f"{document.strip()}\n\n{text.strip()}", "document", place)
            yield TextItem(f"{story}:{number}", story, both, texts, None, writers)


def _responses(
    question: dict[str, Any], place: Place
) -> tuple[tuple[str, ...], tuple[str, ...] | None]:
    """Return the responses and their writers; `None` if a writer is named twice."""
    responses = _objects(files.required(question, "responses", place), "responses", place)
    texts = [files.required(response, "response_text", place) for response in responses]
    writers = [
        files.key_of(files.required(response, "worker_id", place), "worker_id", place)
        for response in responses
    ]
    is_known = len(set(writers)) == len(writers)
    return tuple(files.texts_of(texts, "responses", place)), tuple(writers) if is_known else None


def load_dialogsum(source: Path, encoding: str = "utf-8") -> MultiRef:
    """DialogSum (Chen et al. 2021): dialogues of the test split, each summarized by three people.

    JSON lines of `fname`, `dialogue` and `summary1` to `summary3`. The other splits have one
    summary per dialogue, which says nothing about variability.
    """
    version = source.name.removeprefix("dialogsum.").partition(".")[0]
    facts: Any = {"version": version, "keys": ["dialogue"]}
    licence = "as its page states"
    return published(_read_dialogsum, [source], encoding, "dialogsum", licence, **facts)


def _read_dialogsum(paths: list[Path], encoding: str) -> Iterator[TextItem]:
    lines: dict[str, int] = {}
    for place, row in files.read_json_lines(paths[0], encoding):
        key = items.new_id(lines, files.required(row, "fname", place), place)
        matches = sorted((int(m[1]), m[0]) for m in map(_SUMMARY.fullmatch, row) if m)
        if not matches:
            problem = "a row has no summary1, summary2, ..."
            raise DataError.at(*place, problem, "use the test split, dialogsum.test.jsonl")
        texts = files.texts_of([row[name] for _, name in matches], "summaries", place)
        dialogue = input_of(files.required(row, "dialogue", place), "dialogue", place)
        yield TextItem(key, key, dialogue, tuple(texts))


def load_multi30k(source: Path, encoding: str = "utf-8") -> MultiRef:
    """Multi30K captions (Elliott et al. 2016): images, each described by five people per language.

    A folder or one of its files: `test_2016.1.en.gz` to `test_2016.5.en.gz`, line n of each about
    the same image. The input names the image, which a text model does not see: record the texts of
    a captioner, with the numbers of lines from 0 as ids. English unless a German file is named.
    """
    paths, facts = [source], dict[str, Any]()
    if not files.is_json_lines(source):
        facts["version"], facts["language"], paths = _caption_files(source)
    return published(_read_captions, paths, encoding, "multi30k", "none stated", **facts)


def _caption_files(source: Path) -> tuple[str, str, list[Path]]:
    is_folder = os.path.isdir(source)
    names = sorted(os.listdir(source)) if is_folder else [source.name]
    matches = [match for match in map(_CAPTIONS.fullmatch, names) if match]
    # In a folder, the test split in English comes first.
    matches.sort(key=lambda match: (match["language"] != "en", match["split"] != "test_2016"))
    if not matches:
        problem = "holds no captions" if is_folder else "is no file of captions"
        fix = "name the folder or a file of test_2016.1.en.gz to test_2016.5.en.gz"
        raise DataError.at(source, None, problem, fix)
    split, language, end = matches[0]["split"], matches[0]["language"], matches[0][4] or ""
    folder = source if is_folder else source.parent
    numbers = range(1, N_CAPTIONS + 1)
    return split, language, [folder / f"{split}.{k}.{language}{end}" for k in numbers]


def _read_captions(paths: list[Path], encoding: str) -> Iterator[TextItem]:
    for number, lines in enumerate(files.read_aligned(paths, encoding)):
        texts = [files.text_of(line.strip(), "the caption", place) for place, line in lines]
        yield TextItem(str(number), str(number), (f"image {number}",), tuple(texts))


def _object(value: Any, name: str, place: Place) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise DataError.at(*place, f"{name} is not an object", f"write {name} as published")
    return value


def _objects(value: Any, name: str, place: Place) -> list[dict[str, Any]]:
    if not isinstance(value, list):
        raise DataError.at(*place, f"{name} is not a list", f"write {name} as published")
    return [_object(entry, f"an entry of {name}", place) for entry in value]
