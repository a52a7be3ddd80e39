"""Record of the inputs that a text model was fine-tuned on, kept in its directory.

`aleatoric text` reads it, so that texts to inputs of the training are noticed, and prompts that
differ from those of the training.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from aleatoric.errors import quoted
from aleatoric.models.base import Writing
from aleatoric.types import TextItem

RECORD = "aleatoric_training.json"
PROMPT = ("template", "chat", "system", "turns")
"""Options that determine what a model reads of an input."""
_WORD = re.compile(r"\w+")


def input_key(turns: Sequence[str]) -> str:
    """Return a hash of the words of an input, whatever its case and punctuation.

    >>> input_key(("Big words!",)) == input_key(("big words",)) != input_key(("big", "words"))
    True
    """
    # Texts without words differ in their symbols.
    parts = (" ".join(_WORD.findall(turn.casefold())) or turn.strip() for turn in turns)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def write_record(folder: Path, facts: Mapping[str, Any], inputs: Iterable[TextItem]) -> None:
    """Record what a model was trained on: the prompt, other facts and the keys of all inputs."""
    keys = sorted({input_key(item.input) for item in inputs})
    text = json.dumps({**facts, "inputs": keys}, ensure_ascii=False, indent=1, sort_keys=True)
    (folder / RECORD).write_text(text + "\n", encoding="utf-8")


def training_notes(spec: str, ask: Writing, items: Iterable[TextItem]) -> Iterator[str]:
    """Warn of inputs that the model of a spec was trained on, and of another prompt."""
    record = _record_of(spec)
    inputs = record.get("inputs")
    if not isinstance(inputs, list):
        return
    known = {key for key in inputs if isinstance(key, str)}
    keys = [input_key(item.input) for item in items]
    if n_seen := sum(key in known for key in keys):
        seen = f"{n_seen} of {len(keys)} inputs {'was' if n_seen == 1 else 'were'}"
        yield (
            f"warning: {spec}: {seen} used to train this model, so that results are not about new "
            "inputs; use a corpus without them"
        )
    for name in PROMPT:
        if name in record and record[name] != getattr(ask, name):
            before, now = (quoted(str(value)) for value in (record[name], getattr(ask, name)))
            yield f"warning: {spec}: was trained with --{name} {before}, and this run uses {now}"


def _record_of(spec: str) -> Mapping[str, Any]:
    kind, _, name = spec.partition(":")
    path = Path(name) / RECORD
    if kind != "hf" or not os.path.isfile(path):
        return {}
    with suppress(OSError, ValueError, RecursionError):
        record = json.loads(path.read_bytes())
        return record if isinstance(record, dict) else {}
    return {}
