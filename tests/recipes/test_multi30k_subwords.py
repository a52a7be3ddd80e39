"""Subword pieces: merges compared with a naive learner, and unknown pieces."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from multi30k.subwords import EOS, UNK, Dictionary, Segmenter, learn_merges

from aleatoric.rng import stream

pytest.importorskip("subword_nmt", reason="pip install subword-nmt")


def naive_merges(words: dict[str, int], merges: int) -> list[tuple[str, str]]:
    """Count all pairs again before every merge."""
    cut = {word: [*word[:-1], f"{word[-1]}</w>"] for word in words}
    found: list[tuple[str, str]] = []
    while len(found) < merges:
        counts: Counter[tuple[str, str]] = Counter()
        for word, pieces in cut.items():
            for pair in pairwise(pieces):
                counts[pair] += words[word]
        best = max(counts, key=lambda pair: (counts[pair], pair), default=None)
        if best is None or counts[best] < 2:
            break
        found.append(best)
        cut = {word: merged(pieces, best) for word, pieces in cut.items()}
    return found


def merged(pieces: list[str], pair: tuple[str, str]) -> list[str]:
    out, place = [], 0
    while place < len(pieces):
        both = tuple(pieces[place : place + 2]) == pair
        out.append("".join(pair) if both else pieces[place])
        place += 2 if both else 1
    return out


@pytest.mark.parametrize("seed", range(20))
def test_merges_match_naive_learner(seed: int) -> None:
    rng = stream(seed, "bpe")
    words = {
        "".join(rng.choice(list("ab" if seed % 2 else "abcd"), rng.integers(1, 9))): int(n)
        for n in rng.integers(1, 6, 60)
    }
    assert learn_merges(words, 40) == naive_merges(words, 40)


def test_pieces_result_from_merges_in_order() -> None:
    words = {"low": 5, "lower": 2, "newest": 6, "widest": 3}
    merges = learn_merges(words, 8)
    cut = Segmenter(merges).pieces(list(words))
    expected = []
    for word in words:
        pieces = [*word[:-1], f"{word[-1]}</w>"]
        for pair in merges:
            pieces = merged(pieces, pair)
        expected += pieces
    assert cut == expected


def test_unseen_letter_is_unknown_and_rest_of_word_is_kept() -> None:
    pieces = Segmenter([]).pieces(["aßb"])
    assert pieces == ["a", "ß", "b</w>"]
    dictionary = Dictionary.of([["a", "b</w>"]])
    assert dictionary.ids(pieces) == [4, UNK, 5, EOS]


def test_dictionary_is_sorted_by_count_and_padded_to_multiple_of_8() -> None:
    dictionary = Dictionary.of([["b", "a", "c"], ["c"]])
    assert dictionary.pieces[:7] == ("<s>", "<pad>", "</s>", "<unk>", "c", "a", "b")
    assert len(dictionary) == 8
    assert len(Dictionary.of([list("abcd")])) == 8


def test_words_round_trip() -> None:
    words = ["a", "dog", "'s", "ball"]
    pieces = Segmenter([]).pieces(words)
    dictionary = Dictionary.of([pieces])
    assert dictionary.words(dictionary.ids(pieces)) == words
