"""Word tokenisation by the rules of the Moses scripts, for German and English.

Own code for the rules that fairseq's preparation of IWSLT14 relies on: punctuation stands alone,
except dots inside abbreviations, commas inside numbers and hyphens; special characters are escaped.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Literal

Language = Literal["de", "en"]

_NOT_PLAIN = re.compile(r"([^\w\s.'`,-]|_)")
_DOTS = re.compile(r"\.{2,}")
_COMMA = re.compile(r"(?<![0-9]),|,(?![0-9])")
_APOSTROPHE = re.compile(r"(?<=(?P<before>.))'(?=(?P<after>.))")
_CONTROL = re.compile(r"[\x00-\x1f]")
_QUOTE_AFTER_LAST_DOT = re.compile(r"\.' ?$")
_ESCAPES = {"|": "&#124;", "<": "&lt;", ">": "&gt;", "'": "&apos;", '"': "&quot;"}
_ESCAPES |= {"[": "&#91;", "]": "&#93;"}
_ENGLISH = (
    "Adj Adm Adv Asst Bart Bldg Brig Bros Capt Cmdr Col Comdr Con Corp Cpl DR Dr Drs Ens Gen Gov "
    "Hon Hr Hosp Insp Lt MM MR MRS MS Maj Messrs Mlle Mme Mr Mrs Ms Msgr Op Ord Pfc Ph Prof Pvt "
    "Rep Reps Res Rev Rt Sen Sens Sfc Sgt Sr St Supt Surg v vs i.e rev e.g Nos Nr"
)
_GERMAN = (
    "Adj Adm Adv Art Ass Asst Bart Bldg Brig Bros Capt Cmdr Col Comdr Con Corp Cpl Dr Dipl ca Ca "
    "bzw bspw evtl etc ggf inkl max min Mio Mr Mrs Ms Mrd Nr No Prof St Std usw vgl zzgl Fr Hr "
    "Hrn Ing Str"
)
_LETTERS = "A B C D E F G H I J K L M N O P Q R S T U V W X Y Z"
_ABBREVIATIONS = {
    "en": frozenset(f"{_ENGLISH} {_LETTERS}".split()),
    # A number with a dot is an ordinal in German.
    "de": frozenset([*f"{_GERMAN} {_LETTERS} {_LETTERS.lower()}".split(), *map(str, range(100))]),
}


def tokenise(text: str, language: Language) -> list[str]:
    """The words of a sentence; punctuation stands alone and special characters are escaped.

    >>> tokenise("A dog's ball, No. 5 (red).", "en")
    ['A', 'dog', '&apos;s', 'ball', ',', 'No', '.', '5', '(', 'red', ')', '.']
    >>> tokenise("Ein Hund...", "de")
    ['Ein', 'Hund', '...']
    """
    text = f" {_CONTROL.sub('', ' '.join(text.split()))} "
    text = _NOT_PLAIN.sub(r" \1 ", text)
    text = _DOTS.sub(lambda dots: f" {dots[0]} ", text)
    text = _apart(_COMMA.sub(" , ", text), language)
    text = " ".join(_without_last_dots(text.split(), language))
    return [_escape(word) for word in _QUOTE_AFTER_LAST_DOT.sub(" . ' ", text).split()]


def _apart(text: str, language: Language) -> str:
    """Apostrophes: a word of their own in German, the head of the next letters in English."""
    if language != "en":
        return text.replace("'", " ' ")
    return _APOSTROPHE.sub(lambda found: _spaced(found["before"], found["after"]), text)


def _spaced(before: str, after: str) -> str:
    if before.isalpha() and after.isalpha():
        return " '"
    if before.isdigit() and after.isalpha():
        return " '" if after == "s" else "'"
    return " ' "


def _without_last_dots(words: list[str], language: Language) -> list[str]:
    return [_split_dot(word, after, language) for word, after in pairwise([*words, ""])]


def _split_dot(word: str, after: str, language: Language) -> str:
    """The word with its last dot apart, unless the dot belongs to it."""
    stem = word[:-1]
    if not word.endswith(".") or not stem or stem.endswith("."):
        return word
    inside = "." in stem and any(letter.isalpha() for letter in stem)
    if inside or stem in _ABBREVIATIONS[language] or after[:1].islower():
        return word
    return f"{stem} ."


def _escape(word: str) -> str:
    word = word.replace("&", "&amp;")
    return "".join(_ESCAPES.get(letter, letter) for letter in word)
