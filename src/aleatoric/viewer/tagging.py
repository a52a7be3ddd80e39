"""The part of speech before the gap: the tag of each context's last token, kept in the cache."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from aleatoric import files, registry
from aleatoric.analyses.ard import last_tag
from aleatoric.nlp.taggers import TAGS

Flags = NDArray[np.bool_]
Codes = NDArray[np.int8]


def tag_contexts(contexts: Iterable[str], tagger: str) -> Codes:
    """The place among `TAGS` of the tag of each context's last token."""
    kind, _, argument = tagger.partition(":")
    own = registry.find("taggers", kind)(argument)
    known = {name: code for code, name in enumerate(TAGS)}
    return np.array([known.get(last_tag(one, own), known["X"]) for one in contexts], dtype=np.int8)


def by_tag(codes: Codes) -> dict[str, Flags]:
    """Tag -> the items that have it, for the tags that occur.

    >>> {tag: own.tolist() for tag, own in by_tag(np.array([5, 0, 5], dtype=np.int8)).items()}
    {'ADJ': [False, True, False], 'NOUN': [True, False, True]}
    """
    present = np.unique(codes)
    return {TAGS[code]: codes == code for code in present if 0 <= code < len(TAGS)}


def cache_file(folder: Path, facts: Mapping[str, object]) -> Path:
    """Where the tags of these contexts by this tagger are kept."""
    named = "\n".join(f"{key}={facts[key]}" for key in sorted(facts))
    return folder / "view" / f"tags-{hashlib.sha256(named.encode()).hexdigest()[:24]}.npy"


def load(file: Path, n_items: int) -> Codes | None:
    """Kept tags, where they are of as many items."""
    try:
        found = np.load(file, allow_pickle=False)
    except (OSError, ValueError):
        return None
    return found if found.shape == (n_items,) and found.dtype == np.int8 else None


def save(file: Path, codes: Codes) -> None:
    """Keep tags; a cache that cannot be written is no error, they are worked out again."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with files.written_whole(file) as unfinished, unfinished.open("wb") as opened:
            np.save(opened, codes)
    except OSError:
        return
