"""Open the corpus that a user names with --corpus: a name, a name with options, or a path."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast, get_args

from aleatoric import registry
from aleatoric.data import fetch, files
from aleatoric.data.columns import table_rows
from aleatoric.data.selection import DEFAULT_OPTIONS, TableOptions
from aleatoric.errors import DataError, UsageError, did_you_mean
from aleatoric.types import Collected, Corpus, Cut, MultiRef, ParallelText, TextCorpus

_MOST_LISTED = 4
_MOST_SIMULATED = {"contexts": 10**9, "people": 10**6, "passage": 10**4, "seed": 2**63}
_TEXT_FILES = {
    "asset": r"asset[._](valid|test)[._]",
    "wmt14-10ref": r"wmt14[-_]en[-_](de|fr)",
    "writingprompts": r".*\.wp_(source|target)$",
    "dailydialog++": r"dailydialogpp",
    "turk": r"turk[._](test|tune)|(test|tune)\.8turkers",
    "jfleg": r"jfleg|(dev|test)\.ref\d",
    "e2e": r"e2e[._-](dev|test)|(devset|testset_w_refs)\.csv$",
    "squality": r"squality",
    "dialogsum": r"dialogsum\.",
    "multi30k": r"(train|val|test_2016)\.[1-5]\.(en|de)(\.gz)?$",
}
"""File names of published text corpora, in the publishers' form and as JSON lines."""
_TEXT_KEYS = {
    "positive_responses": "dailydialog++",
    "questions": "squality",
    "summary1": "dialogsum",
}
"""Key of the first row -> published text corpus."""
_PROVO_COLUMNS = ("Text_ID", "Word_Number", "human")


def open_corpus(
    spec: str, encoding: str = "utf-8", options: TableOptions = DEFAULT_OPTIONS
) -> Corpus:
    """Open the corpus of `provo`, `simulated:contexts=10,people=5`, `cloze:FILE` or a path."""
    name, _, argument = spec.partition(":")
    if name == "simulated":
        options.check_unused(spec)
        return _simulated(argument)
    if spec == "provo":
        path = _fetched("provo", "give its path with --corpus")
    elif argument and name in registry.names("corpora"):
        path = Path(argument)
    else:
        path = _existing_path(spec, "corpora")
        name = ""
    if encoding == "utf-8" and files.is_table(path):
        # A published file is identified by its bytes.
        published = {d.sha256: d.encoding for d in fetch.DOWNLOADS.values()}
        encoding = published.get(files.sha256_of(path), encoding)
    # Columns are named for a table of one's own.
    name = name or ("cloze" if options.columns is not None else sniff(path, encoding))
    if name == "cloze":
        return cast(Corpus, registry.find("corpora", "cloze")(path, encoding, options))
    options.check_unused(name)
    return cast(Corpus, registry.find("corpora", name)(path, encoding))


def open_token_corpus(
    spec: str,
    encoding: str = "utf-8",
    documents: str = "blank-lines",
    options: TableOptions = DEFAULT_OPTIONS,
) -> TextCorpus | ParallelText:
    """Open a path or `text:FILE`, cut into `documents`, or pairs of `parallel:SOURCE,TARGET`."""
    if documents not in (choices := get_args(Cut)):
        raise UsageError(f"--documents {documents} is not known; use {', '.join(choices)}.")
    kind, _, argument = spec.partition(":")
    if kind == "parallel":
        options.check_unused("parallel text")
        sides = argument.split(",")
        if len(sides) != 2 or not all(sides):
            problem = f"{spec!r} is no parallel text"
            raise UsageError(f"{problem}; write parallel:SOURCE,TARGET, two files.")
        load = registry.find("token_corpora", kind)
        return cast(ParallelText, load(*map(Path, sides), encoding))
    path = Path(argument if kind == "text" and argument else spec)
    TableOptions(missing=options.missing).check_unused("a text")
    load = registry.find("token_corpora", "text")
    return cast(TextCorpus, load(path, encoding, documents, options.columns))


def open_text_corpus(
    spec: str, encoding: str = "utf-8", options: TableOptions = DEFAULT_OPTIONS
) -> MultiRef:
    """Open a fetched corpus as `asset` or `asset@test`, one of `wmt14-10ref:FILE`, or a path."""
    name, _, argument = spec.partition(":")
    names, (fetched, _, split) = registry.names("text_corpora"), spec.partition("@")
    if name in names and argument:
        path = Path(argument)
    elif fetched in (*fetch.SETS, *fetch.DOWNLOADS) and fetched in names:
        name, path = fetched, _fetched(fetched, f"give its path as {fetched}:PATH", split)
    else:
        path = _existing_path(spec, "text_corpora")
        name = "multiref" if options.columns is not None else sniff_texts(path, encoding)
    load = registry.find("text_corpora", name)
    if name == "multiref":
        return cast(MultiRef, load(path, encoding, options))
    options.check_unused(name)
    return cast(MultiRef, load(path, encoding))


def sniff(path: Path, encoding: str = "utf-8") -> str:
    """Return the loader of a file of next words, by the columns of its first row."""
    read: Any = table_rows if files.is_table(path) else files.read_json_lines
    _, row = next(iter(read(path, encoding)), (None, None))
    if row is None:
        raise DataError.at(path, None, "holds no item", "give at least one context")
    # One of the columns is enough: the loader then names those that are missing.
    return "provo" if any(name in row for name in _PROVO_COLUMNS) else "cloze"


def sniff_texts(path: Path, encoding: str = "utf-8") -> str:
    """Return the loader of a file or folder of texts, by names and the first line."""
    inside = [file.name for file in path.iterdir()] if os.path.isdir(path) else []
    for name, pattern in _TEXT_FILES.items():
        if any(re.match(pattern, file.lower()) for file in (path.name, *inside)):
            return name
    if os.path.isdir(path):
        problem = "no corpus of texts is known that has these files"
        raise DataError.at(path, None, problem, "name a JSON-lines file in it")
    if files.is_table(path):
        return "multiref"
    _, row = next(files.read_json_lines(path, encoding), (None, None))
    if row is None:
        raise DataError.at(path, None, "holds no item", "give at least one input")
    published = (name for key, name in _TEXT_KEYS.items() if key in row and "references" not in row)
    return next(published, "multiref")


def corpus_facts(corpus: Collected[Any], spec: str, encoding: str) -> dict[str, str]:
    """Return what identifies a corpus in a run: its bytes, its name and its encoding."""
    facts = {"name": corpus.name, "version": corpus.version, "sha256": corpus.sha256}
    return facts | {"licence": corpus.licence, "spec": spec, "encoding": encoding}


def check_same(corpus: Collected[Any], facts: Mapping[str, str]) -> None:
    """Refuse a corpus that is not the one a run began with."""
    if corpus.sha256 != facts["sha256"]:
        problem = f"{facts['spec']}: is not what it was when the run began"
        raise UsageError(f"{problem}; restore it, or begin another run.")


def _existing_path(spec: str, kind: str) -> Path:
    """Return the path of a corpus; a word that is neither a name nor a file is refused."""
    path = Path(spec)
    if os.path.exists(path):
        return path
    known = registry.names(kind)
    near = did_you_mean(spec, known) if ":" in spec else ""
    if near or ("." not in spec and "/" not in spec):
        names = ", ".join(known) + ("" if kind == "corpora" else ", or a file")
        near = near or did_you_mean(spec, (*known, *files.names_beside(path)))
        raise UsageError(f"there is no corpus or file {spec!r}{near}; known corpora: {names}.")
    return path


def _fetched(name: str, alternative: str, split: str = "") -> Path:
    """Return the first file of a downloaded corpus, or of its split, if all are unchanged."""
    published = fetch.files_of(name)
    paths = [files.cache_dir() / download.filename for download in published]
    missing = [path for path in paths if not path.exists()]
    if missing:
        raise UsageError(
            f"{name} is not here yet: run aleatoric fetch {name}, or put {missing[0].name} into "
            f"{missing[0].parent}, or {alternative}."
        )
    for path in paths:
        fetch.check_unchanged(path)
    paths = fetch.unpack(paths[0], published[0].members) or paths
    return _of_split(name, split, paths)


def _of_split(name: str, split: str, paths: list[Path]) -> Path:
    """Return the first file with a part of its name that starts with the split."""
    for path in paths:
        if not split or any(part.startswith(split) for part in path.name.split(".")):
            return path
    listed = ", ".join(path.name for path in paths[:_MOST_LISTED])
    raise UsageError(f"{name} has no split {split!r}; its files start with: {listed}.")


def _simulated(argument: str) -> Corpus:
    options: dict[str, int] = {}
    for part in filter(None, argument.split(",")):
        key, _, value = part.partition("=")
        if key not in _MOST_SIMULATED or not value.isdecimal():
            raise UsageError(
                f"simulated:{part} is not understood; use contexts, people, passage and seed, "
                "as in simulated:contexts=500,people=40."
            )
        least, most = key != "seed", _MOST_SIMULATED[key]
        if len(value) > len(str(most)) or not least <= int(value) <= most:
            raise UsageError(f"simulated:{part} is out of range; {key} is {least:d} to {most}.")
        options[key] = int(value)
    return cast(Corpus, registry.find("corpora", "simulated")(**options))
