"""From what a user wrote after --corpus to a corpus: a name, a name with options, or a path."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, get_args

from aleatoric import fetch, files, registry
from aleatoric.cache import cache_dir
from aleatoric.corpora.text import Cut
from aleatoric.errors import DataError, UsageError
from aleatoric.types import Collected, Corpus, ParallelText, TextCorpus

_MOST_SIMULATED = {"contexts": 10**9, "people": 10**6, "passage": 10**4, "seed": 2**63}
_OF_PROVO = ("Text_ID", "Word_Number", "Response_Count", "human")


def open_corpus(spec: str, encoding: str = "utf-8") -> Corpus:
    """The corpus of `provo`, `simulated:contexts=10,people=5`, `cloze:FILE` or a path.

    >>> len(open_corpus("simulated:contexts=3").items)
    3
    """
    name, _, argument = spec.partition(":")
    if name == "simulated":
        return _simulated(argument)
    if spec == "provo":
        return _fetched("provo", encoding)
    if name in registry.names("corpora") and argument:
        return _load(name, Path(argument), _encoding_of(Path(argument), encoding))
    path = Path(spec)
    if not os.path.exists(path) and "." not in path.name and "/" not in spec:
        known = ", ".join(registry.names("corpora"))
        raise UsageError(f"there is no corpus or file {spec!r}; known corpora: {known}.")
    encoding = _encoding_of(path, encoding)
    return _load(sniff(path, encoding), path, encoding)


def open_token_corpus(
    spec: str, encoding: str = "utf-8", documents: str = "blank-lines"
) -> TextCorpus | ParallelText:
    """The documents of a path or `text:FILE`, or the pairs of `parallel:SOURCE,TARGET`.

    `documents` says what a document is in plain text: see `aleatoric.corpora.text`.
    """
    if documents not in get_args(Cut):
        known = ", ".join(get_args(Cut))
        raise UsageError(f"--documents {documents} is not known; use {known}.")
    kind, _, argument = spec.partition(":")
    if kind == "parallel":
        return _parallel(spec, argument, encoding)
    if kind == "text" and argument:
        spec = argument
    load = registry.find("token_corpora", "text")
    corpus: TextCorpus = load(Path(spec), encoding, documents)
    return corpus


def corpus_facts(corpus: Collected[Any], spec: str, encoding: str) -> dict[str, str]:
    """What identifies a corpus in a run: its bytes, how they were asked for and how read.

    >>> corpus_facts(open_corpus("simulated"), "simulated", "utf-8")["spec"]
    'simulated'
    """
    known = {"name": corpus.name, "version": corpus.version, "sha256": corpus.sha256}
    return known | {"licence": corpus.licence, "spec": spec, "encoding": encoding}


def _parallel(spec: str, argument: str, encoding: str) -> ParallelText:
    sides = argument.split(",")
    if len(sides) != 2 or not all(sides):
        raise UsageError(f"{spec!r} is no parallel text; write parallel:SOURCE,TARGET, two files.")
    load = registry.find("token_corpora", "parallel")
    corpus: ParallelText = load(*map(Path, sides), encoding)
    return corpus


def sniff(path: Path, encoding: str = "utf-8") -> str:
    """Which loader reads a file, told by the columns of its first row."""
    read: Any = files.read_table if files.is_table(path) else files.read_json_lines
    _, row = next(iter(read(path, encoding)), (None, None))
    if row is None:
        raise DataError.at(path, None, "holds no item", "give at least one context")
    # One of the columns is enough: the loader then names those that are missing.
    return "provo" if any(name in row for name in _OF_PROVO) else "cloze"


def _load(name: str, path: Path, encoding: str) -> Corpus:
    corpus: Corpus = registry.find("corpora", name)(path, encoding)
    return corpus


def _encoding_of(path: Path, encoding: str) -> str:
    """A published file is known by its bytes, and its encoding with it; no other is guessed."""
    if encoding != "utf-8" or not files.is_table(path):
        return encoding
    return fetch.published_encoding(files.sha256_of(path)) or encoding


def _fetched(name: str, encoding: str) -> Corpus:
    path = cache_dir() / fetch.DOWNLOADS[name].filename
    if not path.exists():
        raise UsageError(
            f"{name} is not here yet: run aleatoric fetch {name}, or put {path.name} into "
            f"{path.parent}, or give its path with --corpus."
        )
    fetch.check_unchanged(path)
    return _load(name, path, _encoding_of(path, encoding))


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
    corpus: Corpus = registry.find("corpora", "simulated")(**options)
    return corpus
