"""The tokeniser, tagger and encoder of a run, opened when a probe first asks for them."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass, field
from functools import cached_property

from aleatoric import registry
from aleatoric.errors import MissingExtraError, UsageError
from aleatoric.nlp.encoders import Encoder, VectorCache, open_encoder
from aleatoric.nlp.taggers import UniversalTagger
from aleatoric.nlp.tokenisers import Tokeniser, open_tokeniser
from aleatoric.probes.reading import Reader

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
