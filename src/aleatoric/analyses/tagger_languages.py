"""Which language a tagger reads, and which tagger fits the language of a corpus."""

from __future__ import annotations

import re
from pathlib import PurePath

from aleatoric.errors import UsageError
from aleatoric.probes.tools import default_tagger
from aleatoric.showing import quoted

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
