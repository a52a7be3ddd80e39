"""Truncating texts, and truncating references and generations to the same lengths."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aleatoric.levels.text_protocol import CutAlike, common_lengths, cut_to
from aleatoric.levels.text_variability import lengths_differ
from aleatoric.probes.taggers import open_tokeniser
from aleatoric.probes.tools import Tools

LENGTHS = st.lists(st.integers(0, 200), min_size=1, max_size=12)


@given(text=st.text("ab .\n", max_size=40), most=st.integers(1, 10))
def test_truncated_text_is_prefix_with_given_number_of_tokens(text: str, most: int) -> None:
    tokens = text.split()
    cut = cut_to(text, tokens, most)
    assert text.startswith(cut)
    assert cut.split() == tokens[:most]


def test_tokens_not_found_in_text_are_joined() -> None:
    assert cut_to("A dog", ["a", "dog"], 1) == "a"


def test_references_and_generations_are_truncated_alike() -> None:
    pytest.importorskip("spacy")
    reader = Tools().reader
    texts = ["It's late, he said. Go home.", "Short."]
    cut = CutAlike(reader, 4)
    assert cut.people(texts) == cut.systems(texts) == ("It's late,", "Short.")
    assert CutAlike(reader, 0).people(texts) == tuple(texts)
    assert cut.facts["max_length"] == "4"
    assert cut.facts["tokeniser"].startswith("spacy-words:en@")


@given(people=LENGTHS, system=LENGTHS)
def test_texts_are_never_lengthened(people: list[int], system: list[int]) -> None:
    cut = common_lengths(people, system)
    for own, limits in zip((people, system), cut, strict=True):
        assert all(limit <= max(length, 1) for length, limit in zip(own, limits, strict=True))


@given(
    pair=st.integers(1, 9).flatmap(
        lambda n: st.tuples(*[st.lists(st.integers(1, 200), min_size=n, max_size=n)] * 2)
    )
)
def test_equal_numbers_of_texts_get_identical_lengths(pair: tuple[list[int], list[int]]) -> None:
    people, system = common_lengths(*pair)
    wanted = [min(both) for both in zip(*map(sorted, pair), strict=True)]
    assert sorted(people) == sorted(system) == wanted


@given(lengths=LENGTHS, times=st.integers(1, 4))
def test_equal_length_distributions_are_unchanged(lengths: list[int], times: int) -> None:
    own = [max(length, 1) for length in lengths]
    assert common_lengths(own, own * times) == (own, own * times)


def test_ten_percent_length_difference_is_tolerated() -> None:
    assert not lengths_differ(10, 11)
    assert lengths_differ(10, 11.1)
    assert lengths_differ(11.1, 10)
    assert not lengths_differ(None, 10)


def test_tokens_are_cached_until_next_batch() -> None:
    reader = Tools(tokeniser_spec="whitespace").reader
    asked: list[list[str]] = []
    plain = open_tokeniser("whitespace").cut
    object.__setattr__(
        reader._tokeniser, "cut", lambda texts: asked.append([*texts]) or plain(texts)
    )
    reader.remember(["a b", "c", "a b"])
    assert reader.tokens(["c", "d"]) == {"c": ["c"], "d": ["d"]}
    reader.remember(["d", "c"])
    assert asked == [["a b", "c"], ["d"], ["d"]]
