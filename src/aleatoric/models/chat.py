"""The paper's two prompts for chat models (App. C.2); a reply counts if it is a single word."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

_JOINERS = "'\u2019\u02bc\uff07-\u2010\u2011_\u00ad\u200c\u200d"
_NUMBER = re.compile(r"\s*[(\[]?\d{1,3}[.)\]:](?:\s+|$|(?=[^\s\d.,:]))")
_BULLET = re.compile(r"\s*[-*+•·◦▪●–—](?:\s+|$)")
_INLINE_NUMBER = re.compile(r"(?<!\S)(?=\d{1,3}[.)]\s*[^\s\d])")
_SEPARATOR = re.compile(r"(?<!\d),|,(?!\d)|[;|\t、，；•·]")
_AND = re.compile(r"\s*(?:and|or|&)\s+(?=\S)", re.IGNORECASE)
_OPENER = re.compile(r"\W*(?:sure|certainly|absolutely|okay|ok|alright|great|yes)[!.:]\W*", re.I)


def word_prompt(context: str) -> str:
    """Return the paper's first prompt: one word."""
    return _prompt("word is a plausible continuation", context, "word")


def list_prompt(context: str, words: int = 40) -> str:
    """Return the paper's second prompt: a list of 40 words, or of another number."""
    return _prompt(f"{words} words are plausible continuations", context, "words")


def _prompt(wanted: str, context: str, unit: str) -> str:
    return (
        f"You are ChatGPT, a large language model trained by OpenAI. I want you to answer which "
        f"{wanted} to the context {context}. I have no specific intent, I just want your guess. "
        f"Return only the {unit} and nothing else."
    )


def parse_word(reply: str) -> str | None:
    """Return the word of a reply, or `None` if the reply is not a single word.

    >>> parse_word('**Dog.**'), parse_word("1. don't"), parse_word("<think>hm</think> dog")
    ('Dog', "don't", 'dog')
    >>> parse_word("ice cream"), parse_word("The word is dog."), parse_word("")
    (None, None, None)
    """
    answer = _without_thinking(reply)
    return _single_word(_without_mark(answer) or answer)


def parse_list(
    reply: str, requested: int = 40, is_cut: bool = False
) -> tuple[tuple[str, ...], int, int]:
    """Parse a numbered, bulleted, comma-separated or line-by-line list of words.

    `is_cut` means that the reply ran out of tokens, so that its last entry may be half a word.
    Returns the words, the number of entries that are not a single word, and that of words that are
    not in the list, which add up to the number asked for. A reply without any word has failed
    altogether.
    """
    pieces = _pieces(_without_thinking(reply), requested)
    entries = [_single_word(piece) for piece in (pieces[:-1] if is_cut else pieces)]
    good = tuple(word for word in entries if word is not None)
    if not good:
        return (), requested, 0
    words = good[:requested]
    failed = min(len(entries) - len(good) + is_cut, requested - len(words))
    return words, failed, requested - len(words) - failed


def _without_thinking(reply: str) -> str:
    """The reply after a reasoning model's thoughts; nothing if those never end."""
    if "</think>" in reply:
        return reply.rpartition("</think>")[2]
    return "" if reply.lstrip().startswith("<think>") else reply


def _without_mark(entry: str) -> str:
    mark = _NUMBER.match(entry) or _BULLET.match(entry)
    return entry[mark.end() :] if mark else entry


def _single_word(text: str) -> str | None:
    """The word in `text` if there is only punctuation and white space around it."""
    start = next((i for i, c in enumerate(text) if c.isalnum()), len(text))
    stop = next((i + 1 for i in reversed(range(len(text))) if _in_word(text[i])), 0)
    word = text[start:stop]
    return word if word and all(_belongs(word, i) for i in range(len(word))) else None


def _in_word(character: str) -> bool:
    return character.isalnum() or unicodedata.category(character).startswith("M")


def _belongs(word: str, i: int) -> bool:
    """Whether a character is part of a word: a letter, or a mark between two of them."""
    before, after = word[max(i - 1, 0) : i], word[i + 1 : i + 2]
    if word[i] in ".,:":
        return before.isdecimal() and after.isdecimal()  # 3.5, 3,000, 10:30
    is_joiner = word[i] in _JOINERS and bool(before) and _in_word(before) and after.isalnum()
    return is_joiner or _in_word(word[i])


def _pieces(reply: str, requested: int) -> list[str]:
    """The entries of a list, without the lines outside it."""
    lines: list[str] = []
    for line in filter(lambda line: line.strip(" `\t"), reply.splitlines()):
        # It may contain several numbered entries.
        parts = [part for part in _INLINE_NUMBER.split(line) if part.strip()]
        lines += parts if len(parts) >= 3 else [line]
    marked = [line for line in lines if _NUMBER.match(line) or _BULLET.match(line)]
    if len(marked) >= 2:
        return [piece for line in marked for piece in _split(_without_mark(line))]
    return _unmarked_pieces(lines, requested)


def _unmarked_pieces(lines: list[str], requested: int) -> list[str]:
    pieces: list[str] = []
    for number, line in enumerate(lines):
        _, colon, rest = line.partition(": ")
        if colon and len(_split(rest)) >= 2:  # "Here are some words: dog, cat"
            line = rest
        if not (_is_talk(line) or (number == 0 and len(lines) > 1 and _OPENER.fullmatch(line))):
            pieces += _split(line)
    if len(pieces) == 1 and not re.search(r"[.!?:]", pieces[0]):
        # One long line of words separated by spaces is a list too.
        words = pieces[0].split()
        pieces = words if len(words) > 1 and 2 * len(words) >= requested else pieces
    return pieces


def _split(line: str) -> list[str]:
    """The entries of a line, separated by commas or the like; an empty line is one entry."""
    first, *others = [piece for piece in _SEPARATOR.split(line) if piece.strip()] or [""]
    return [first, *(_AND.sub("", piece, count=1) for piece in others)]


def _is_talk(line: str) -> bool:
    """Whether a line is a sentence, not a list: most of its parts have several words."""
    if line.rstrip().rstrip("*_").endswith(":"):
        return True
    are_long = [len(piece.split()) > 1 for piece in _split(line)]
    is_sentence = re.search(r"[.!?…][\"'”’)*_`]*$", line.rstrip()) is not None
    return is_sentence and 2 * sum(are_long) >= len(are_long)


ENOUGH_TO_TELL = 5
"""Fewer replies than this may be identical by chance."""
_UNKNOWN_SERVER = (
    "the kind of server is not known, so its own top-k or penalties may apply; name it with "
    "server=vllm, llamacpp, ollama, transformers, openai or other"
)


@dataclass
class RequestTally:
    """Usage counts of one model object, which only the event loop's thread changes."""

    requests: int = 0
    retries: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    unmetered: int = 0
    """Replies without token counts, so that the totals are too low."""
    replies: int = 0
    failed: int = 0
    """Draws without a word."""
    short_lists: int = 0
    missing_words: int = 0
    """Words that short lists lack."""
    server: str | None = None
    served: tuple[str, ...] = ()
    """The model names that the server reported."""
    cost: float | None = None  # in the currency of the prices
    is_server_known: bool = True
    items: int = 0
    uniform_items: int = 0

    def count_retry(self) -> None:
        """Count a repeated request."""
        self.retries += 1

    def count_reply(self, document: Mapping[str, Any]) -> None:
        """Count the tokens of a reply, and note the model that it names."""
        self.requests += 1
        usage = document.get("usage")
        counts = usage if isinstance(usage, dict) else {}
        names = ("prompt_tokens", "completion_tokens")
        spent = [n if type(n := counts.get(k)) is int and 0 <= n < 10**12 else 0 for k in names]
        self.unmetered += not any(spent)
        self.prompt_tokens += spent[0]
        self.completion_tokens += spent[1]
        if isinstance(document.get("model"), str):
            # JSON may contain lone surrogates, which cannot be written to a file.
            name = document["model"].encode("utf-8", "replace").decode()[:200]
            self.served = tuple(sorted({*self.served, name}))

    def count_replies(self, texts: Sequence[str]) -> None:
        """Count the replies to one item, and whether they are all identical."""
        self.replies += len(texts)
        if len(texts) >= ENOUGH_TO_TELL:
            self.items += 1
            self.uniform_items += len(set(texts)) == 1

    def usage(self, price_in: float | None, price_out: float | None) -> RequestTally:
        """Return the counts so far, with their cost if prices are given."""
        spent = self.prompt_tokens * (price_in or 0) + self.completion_tokens * (price_out or 0)
        return replace(self, cost=None if price_in is None and price_out is None else spent / 1e6)

    def notes(self, label: str) -> list[str]:
        """Return sentences on tokens, failures, short lists and an unknown server."""
        tokens = f"{self.prompt_tokens} prompt and {self.completion_tokens} completion tokens"
        price = "" if self.cost is None else f", cost {self.cost:.2f}"
        lists = f"{self.short_lists} of {self.replies} lists are short"
        are_alike = self.items >= ENOUGH_TO_TELL and self.uniform_items == self.items
        notes = {
            f"{self.requests} requests, {self.retries} retries, {tokens}{price}": True,
            f"{self.unmetered} replies did not say how many tokens they took": self.unmetered,
            _UNKNOWN_SERVER: not self.is_server_known,
            "the replies to every item are all alike; does the server sample?": are_alike,
            f"{self.failed} draws held no word": self.failed,
            f"{lists}, by {self.missing_words} words altogether": self.short_lists,
        }
        return [f"{label}: {note}" for note, applies in notes.items() if applies]
