"""The tokeniser, tagger and encoder of a run, opened when a probe first asks for them."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from pathlib import PurePath
from typing import Protocol

import numpy as np

from aleatoric import registry
from aleatoric.errors import MissingExtraError, UsageError, quoted
from aleatoric.probes.base import Block
from aleatoric.probes.encoders import Encoder, VectorCache, open_encoder
from aleatoric.probes.ngrams import CompiledLadder, Ladder, Symbols, numbered
from aleatoric.probes.taggers import TextTagger, Tokeniser, UniversalTagger, open_tokeniser
from aleatoric.types import Floats, Ints

Tokens = list[str]
TokensOf = Callable[[Iterable[str]], dict[str, Tokens]]
"""Texts -> the tokens of each distinct one."""
CHUNK = 128
"""Inputs that are worked through at once: their arrays fit in a core's cache."""
PLACES = 2**17
"""Most tokens of a chunk, if every input had as many as its longest."""


class Reader:
    """Cuts, tags and numbers the texts of a batch when they are first asked for.

    It remembers the latest batch, for which every probe of a run asks in its turn, and the tokens
    of the texts that it was last told to remember.
    """

    def __init__(self, tokeniser: Tokeniser, tagger: TextTagger) -> None:
        self._tokeniser, self._tagger = tokeniser, tagger
        self._remembered: dict[str, Tokens] = {}
        self._batch = Batch((), self.tokens, tagger)

    @property
    def label(self) -> str:
        """The name of the tokeniser, for signatures."""
        return self._tokeniser.label

    def read(self, blocks: Sequence[Block]) -> Batch:
        """The batch of these blocks."""
        if self._batch.blocks != tuple(blocks):
            self._batch = Batch(tuple(blocks), self.tokens, self._tagger)
        return self._batch

    def remember(self, texts: Iterable[str]) -> None:
        """Keep the tokens of these texts, and of no others, so that they are cut only once."""
        self._remembered = self.tokens(texts)

    def tokens(self, texts: Iterable[str]) -> dict[str, Tokens]:
        """Each distinct text's tokens."""
        distinct = list(dict.fromkeys(texts))
        new = [text for text in distinct if text not in self._remembered]
        known = self._remembered | dict(zip(new, self._tokeniser.cut(new), strict=True))
        return {text: known[text] for text in distinct}


class Batch:
    """The texts of some blocks, as tokens and tags."""

    def __init__(self, blocks: tuple[Block, ...], tokens_of: TokensOf, tagger: TextTagger) -> None:
        self.blocks = blocks
        self._tokens_of, self._tagger = tokens_of, tagger

    def lexical(self, order: int) -> list[Floats]:
        """Block by block the distances by n-grams of lower-cased tokens."""
        return _matrices(self._words, order, len(self.blocks))

    def syntactic(self, order: int) -> list[Floats]:
        """Block by block the distances by n-grams of part-of-speech tags."""
        return _matrices(self._classes, order, len(self.blocks))

    @cached_property
    def tokens(self) -> dict[str, Tokens]:
        """Each distinct text's tokens."""
        return self._tokens_of(text for block in self.blocks for text in block.texts)

    @cached_property
    def tags(self) -> dict[str, list[str]]:
        """Each distinct text's tags."""
        return dict(zip(self.tokens, self._tagger(list(self.tokens.values())), strict=True))

    @cached_property
    def _words(self) -> list[Rows]:
        return self._ladders(self.tokens, str.lower)

    @cached_property
    def _classes(self) -> list[Rows]:
        return self._ladders(self.tags, str)

    def _ladders(self, symbols: dict[str, list[str]], fold: Callable[[str], str]) -> list[Rows]:
        shapes = [block.sizes for block in self.blocks]
        texts = [symbols[text] for block in self.blocks for text in block.texts]
        n_texts = np.fromiter(map(sum, shapes), np.int64, len(shapes))
        everything = Divided(numbered(texts, fold), n_texts)
        return [
            (rows, climbing(everything.of(rows), shapes[rows[0]]))
            for rows in chunks(shapes, everything.sizes.tolist())
            if sum(shapes[rows[0]])
        ]


class Climbing(Protocol):
    """N-grams of rising order of inputs of one shape."""

    def distances(self, order: int) -> Floats:
        """(inputs, texts, texts): how far apart the texts of each input are."""
        ...


def climbing(symbols: Symbols, sizes: tuple[int, ...]) -> Climbing:
    """The compiled n-grams where numba is installed, else those of array operations.

    Both give the same bits.
    """
    return CompiledLadder(symbols, sizes) if find_spec("numba") else Ladder(symbols, sizes)


class Divided:
    """The symbols of a batch, divided into blocks of so many texts.

    >>> batch = Divided(Symbols(np.array([7, 8, 9]), np.array([1, 0, 2])), np.array([1, 2]))
    >>> batch.sizes.tolist(), batch.of([1])
    ([1, 2], Symbols(ids=array([8, 9]), lengths=array([0, 2])))
    """

    def __init__(self, symbols: Symbols, n_texts: Ints) -> None:
        self._symbols = symbols
        self._texts = _bounds(n_texts)
        self._places = _bounds(symbols.lengths)[self._texts]
        self.sizes = np.diff(self._places)

    def of(self, rows: Sequence[int]) -> Symbols:
        """The symbols of some blocks alone."""
        ids = [self._symbols.ids[self._places[r] : self._places[r + 1]] for r in rows]
        lengths = [self._symbols.lengths[self._texts[r] : self._texts[r + 1]] for r in rows]
        return Symbols(np.concatenate(ids), np.concatenate(lengths))


def _bounds(sizes: Ints) -> Ints:
    return np.cumsum(np.concatenate([np.zeros(1, np.int64), sizes]))


Rows = tuple[list[int], Climbing]
"""Which blocks of a batch, all of one shape; and their n-grams."""


def chunks(shapes: Sequence[Hashable], sizes: Sequence[int]) -> Iterator[list[int]]:
    """Rows of one shape, in chunks that are not too large; the order within a shape stays.

    >>> list(chunks(["a", "b", "a"], [1, 1, 1]))
    [[0, 2], [1]]
    """
    groups: dict[Hashable, list[int]] = {}
    for row, shape in enumerate(shapes):
        groups.setdefault(shape, []).append(row)
    for rows in groups.values():
        yield from _limited(rows, sizes)


def _limited(rows: list[int], sizes: Sequence[int]) -> Iterator[list[int]]:
    chunk: list[int] = []
    largest = 0
    for row in rows:
        largest = max(largest, sizes[row])
        if chunk and (len(chunk) == CHUNK or largest * (len(chunk) + 1) > PLACES):
            yield chunk
            chunk, largest = [], sizes[row]
        chunk.append(row)
    yield chunk


def _matrices(ladders: list[Rows], order: int, n_blocks: int) -> list[Floats]:
    found: list[Floats] = [np.empty((0, 0))] * n_blocks
    for rows, ladder in ladders:
        for row, matrix in zip(rows, ladder.distances(order), strict=True):
            found[row] = matrix
    return found


MOST = 9
"""The highest order of n-grams: few texts share longer ones."""


@dataclass(frozen=True)
class Tools:
    """What the probes of one run share. `None` stands for the language's own default."""

    language: str = "en"
    tokeniser_spec: str | None = None
    tagger_spec: str | None = None
    encoder_spec: str | None = None
    cache: VectorCache = field(default_factory=lambda: Nothing())

    @cached_property
    def tokeniser(self) -> Tokeniser:
        """How texts are cut: by default spaCy's rules for the language, without white space."""
        return open_tokeniser(self.tokeniser_spec or f"spacy-words:{self.language}")

    @cached_property
    def tagger(self) -> UniversalTagger:
        """How tokens are tagged."""
        name, _, argument = (self.tagger_spec or default_tagger(self.language)).partition(":")
        found = registry.find("taggers", name)(argument)
        if not hasattr(found, "tag_texts"):
            raise UsageError(f"the tagger {name} tags single words, not texts; name another one.")
        tagger: UniversalTagger = found
        return tagger

    @cached_property
    def encoder(self) -> Encoder:
        """How texts become vectors."""
        return open_encoder(self.encoder_spec or default_encoder(self.language))

    @cached_property
    def reader(self) -> Reader:
        """Cuts and tags each text of a batch once, for all probes."""
        return Reader(self.tokeniser, lambda texts: self.tagger.tag_texts(texts))

    def length_reader(self) -> Reader:
        """Return what counts the tokens of texts, for probes that need no tokeniser too.

        Where the language has none and none is named, tokens are parted by white space.
        """
        try:
            return self.reader
        except UsageError:
            if self.tokeniser_spec is not None:
                raise
            return Reader(open_tokeniser("whitespace"), lambda texts: self.tagger.tag_texts(texts))


class Nothing(MutableMapping[str, bytes]):
    """A cache that keeps nothing: memory stays flat, and the latest batch is remembered anyway.

    >>> cache = Nothing()
    >>> cache["a"] = b"1"
    >>> cache.get("a") is None, len(cache)
    (True, 0)
    """

    def __getitem__(self, key: str) -> bytes:
        raise KeyError(key)

    def __setitem__(self, key: str, value: bytes) -> None:
        """Let it go."""

    def __delitem__(self, key: str) -> None:
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


def default_tagger(language: str) -> str:
    """The tagger of a language: TextBlob for English, else an installed spaCy pipeline.

    >>> default_tagger("en")
    'textblob'
    """
    if language == "en":
        return "textblob"
    found = _installed_pipelines(language)
    if not found:
        raise UsageError(
            f"no tagger for the language {language!r} is installed: run python -m spacy download "
            f"{_USUAL.get(language, language + '_core_news_sm')}, name one with "
            "spacy:PIPELINE, or leave out the syntactic probes."
        )
    return f"spacy:{found[0]}"


def default_encoder(language: str) -> str:
    """The encoder of a language: the embedded one reads English alone.

    >>> default_encoder("en")
    'minilm'
    """
    if language == "en":
        return "minilm"
    raise UsageError(
        f"the embedded sentence encoder reads English, not {language!r}: name a model with "
        "st:NAME_OR_DIR (or minilm, to use it all the same), or leave out the semantic probe."
    )


def order_of(name: str, argument: str) -> int:
    """The order of n-grams in a probe's name.

    >>> order_of("lexical", "2")
    2
    """
    if argument.isascii() and argument.isdigit() and 1 <= int(argument) <= MOST:
        return int(argument)
    raise UsageError(f"{name} needs an order from 1 to {MOST}; write {name}-1, {name}-2, ...")


_USUAL = {"de": "de_core_news_sm", "en": "en_core_web_sm", "zh": "zh_core_web_sm"}


def _installed_pipelines(language: str) -> list[str]:
    try:
        from spacy.util import get_installed_models
    except ModuleNotFoundError:
        raise MissingExtraError("spacy", "nlp") from None
    return sorted(name for name in get_installed_models() if name.startswith(f"{language}_"))


ENGLISH_TAGGERS = ("textblob", "nltk")
DEFAULT_PIPELINE = "en_core_web_sm"


def language_code(text: str) -> str:
    """The code of a language as `--language` takes it, without a region.

    >>> language_code("de-AT"), language_code("EN")
    ('de', 'en')
    """
    code = re.split("[-_]", text.lower(), maxsplit=1)[0]
    if not re.fullmatch("[a-z]{2,3}", code):
        raise UsageError(
            f"--language {quoted(text, 40)} is no code of a language; write en, de, ..."
        )
    return code


def language_of_tagger(spec: str) -> str | None:
    """The language that a tagger reads, by its name; `None` where the name does not say.

    >>> language_of_tagger("textblob"), language_of_tagger("spacy:de_core_news_sm")
    ('en', 'de')
    >>> language_of_tagger("spacy:./mine") is None
    True
    """
    kind, _, argument = spec.partition(":")
    if kind in ENGLISH_TAGGERS:
        return "en"
    found = re.match("([a-z]{2,3})_", PurePath(argument or DEFAULT_PIPELINE).name)
    return found.group(1) if kind == "spacy" and found else None


def fitting_tagger(asked: str | None, language: str | None) -> str:
    """The tagger asked for, or the default of the language; refused where it reads another one.

    An unknown language is taken for English, which `language_caveat` tells.

    >>> fitting_tagger(None, "en"), fitting_tagger("spacy:de_core_news_sm", "de")
    ('textblob', 'spacy:de_core_news_sm')
    >>> fitting_tagger("textblob", "de")
    Traceback (most recent call last):
    aleatoric.errors.UsageError: the tagger textblob reads 'en' and the corpus is in 'de': give \
--tagger spacy:PIPELINE of that language, or correct --language.
    """
    if asked is None:
        return _default(language or "en")
    reads = language_of_tagger(asked)
    # xx: spaCy's name of pipelines for several languages.
    if language is not None and reads not in (None, "xx", language):
        raise UsageError(
            f"the tagger {asked} reads {reads!r} and the corpus is in {language!r}: give --tagger "
            "spacy:PIPELINE of that language, or correct --language."
        )
    return asked


def language_caveat(tagger: str, language: str | None) -> str | None:
    """What a reader must know where the language of the corpus is not stated.

    >>> language_caveat("textblob", "en") is None
    True
    >>> language_caveat("textblob", None)
    "words are tagged by textblob, which reads 'en', and the language of the corpus is not stated \
(--language)"
    """
    if language is not None:
        return None
    reads = language_of_tagger(tagger) or "an unknown language"
    return (
        f"words are tagged by {tagger}, which reads {reads!r}, and the language of the corpus is "
        "not stated (--language)"
    )


def _default(language: str) -> str:
    try:
        return default_tagger(language)
    except UsageError:
        raise UsageError(
            f"no tagger for the language {language!r} is installed: give --tagger spacy:PIPELINE "
            "after python -m spacy download PIPELINE."
        ) from None
