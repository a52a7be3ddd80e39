"""A short run of every fuzz target, and every input that once failed; see docs/reliability.md."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from marks import spread

from aleatoric.errors import DataError
from fuzz import driver
from fuzz.strategies import inputs
from fuzz.trial import CUT, refusals, target_named, targets, written

FOUND = sorted(path for path in driver.FOUND.rglob("*") if path.is_file() and path.suffix != ".md")
SLOW = {"cli": 12, "corpus_names": 10, "token_rows": 60}
"""Targets whose single input takes long get fewer of them."""


@pytest.mark.parametrize("name", spread(targets(), 4))
def test_short_run_of_every_target(name: str) -> None:
    target = target_named(name)
    for data in target.seeds:
        target.trial(data)

    @seed(20260101)
    @settings(
        max_examples=SLOW.get(name, 80),
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def turn(data: st.DataObject) -> None:
        target.trial(data.draw(inputs(target)))

    turn()


@pytest.mark.parametrize("path", FOUND, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_previously_failing_inputs(path: Path) -> None:
    target_named(path.parent.name).trial(path.read_bytes())


def test_every_loader_has_a_target() -> None:
    """Every registered corpus or recording is fuzzed, by name or as listed here."""
    from aleatoric.registry import PLUGINS

    named = {"simulated": "specifications", "text": "documents", "wmt14-10ref": "wmt14"}
    named |= {"dailydialog++": "dailydialog"}
    for kind in ("corpora", "token_corpora", "text_corpora"):
        for name in PLUGINS[kind]:
            assert named.get(name, name) in targets()
    assert {"recorded", "recorded_texts", "vectors", "word_rules", "cli"} <= set(targets())


def test_driver_saves_failing_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "FOUND", tmp_path)
    target = target_named("cloze")._replace(trial=lambda data: 1 / (b"\n" not in data))
    found = driver._with_hypothesis(target, 5)
    assert found.finding is not None
    assert b"\n" in found.finding.read_bytes()
    assert "FAILED" in str(found)


def test_trial_requires_complete_error_messages() -> None:
    with refusals():
        raise DataError.at("a", 1, "is wrong", "mend it")
    with pytest.raises(AssertionError, match="bad"), refusals():
        raise DataError("bad")
    first, second = written(b"a" + CUT + b"b", "one", "two")
    assert (first.read_bytes(), second.read_bytes()) == (b"a", b"b")
