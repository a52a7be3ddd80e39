"""Entailment and semantic clusters, with a tiny classifier of random weights."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from forced_lms import words  # noqa: E402
from opened_probes import open_probes  # noqa: E402

from aleatoric.errors import ModelError, UsageError  # noqa: E402
from aleatoric.levels.text_variability import ScoredTexts, score_blocks  # noqa: E402
from aleatoric.probes import nli  # noqa: E402
from aleatoric.probes.base import Block, negative_type, window_of  # noqa: E402
from aleatoric.probes.tools import Tools  # noqa: E402
from aleatoric.rng import stream  # noqa: E402

LABELS = {0: "contradiction", 1: "neutral", 2: "ENTAILMENT"}
WORDS = ["ferry", "nobody", "waved", "bread", "flour", "water", "lights", "man", "dog", "runs"]


def tiny(folder: Path, labels: dict[int, str] = LABELS, seed: int = 1) -> str:
    """A BERT classifier of random weights, saved as transformers saves models."""
    torch.manual_seed(seed)
    tokenizer = words()
    config = transformers.BertConfig(
        vocab_size=len(tokenizer), hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=16, max_position_embeddings=64, initializer_range=0.6,
        num_labels=len(labels), id2label=labels, label2id={v: k for k, v in labels.items()},
        pad_token_id=1,
    )  # fmt: skip
    model = transformers.BertForSequenceClassification(config).eval()
    with torch.no_grad():
        model.classifier.bias[-1] += 4  # the likeliest label of about half of the pairs
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return tiny(tmp_path_factory.mktemp("nli") / "tiny")


@pytest.fixture(scope="module")
def naive(folder: str) -> Callable[[str, str], np.ndarray]:
    """P of each label, one pair at a time, without padding or batches."""
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)

    def probabilities(premise: str, hypothesis: str) -> np.ndarray:
        read = tokenizer(premise, hypothesis, return_tensors="pt")
        with torch.inference_mode():
            found: np.ndarray = model(**read).logits[0].double().softmax(-1).numpy()
        return found

    return probabilities


def made(n: int) -> list[ScoredTexts]:
    items = []
    for i in range(n):
        rng = stream(11, i)
        texts = [
            tuple(" ".join(rng.choice(WORDS, rng.integers(0, 4))) for _ in range(size))
            for size in rng.integers(1, 5, 3)
        ]
        items.append(ScoredTexts(str(i), texts[0], (texts[1], texts[2])))
    return items


def test_entailment_is_asymmetric_and_averaged(
    folder: str, naive: Callable[[str, str], np.ndarray]
) -> None:
    (probe,) = open_probes([f"entailment:{folder}"])
    assert probe.facts["directions"] == "mean-of-both"
    assert (probe.name, probe.bounds) == ("entailment:tiny", (0.0, 1.0))
    blocks = [item.block() for item in made(12)]
    one_way = nli.open_entailment(folder, Tools()).matrices(blocks)
    differing = 0
    for block, directed, matrix in zip(blocks, one_way, probe.matrices(blocks), strict=True):
        for i, j in block.wanted():
            a, b = block.texts[i], block.texts[j]
            if not a.strip() or not b.strip():
                assert math.isnan(matrix[i, j])
                continue
            wanted = [0.0 if a == b else 1 - naive(*pair)[2] for pair in ((a, b), (b, a))]
            assert [directed[i, j], directed[j, i]] == pytest.approx(wanted, abs=1e-5)
            assert matrix[i, j] == matrix[j, i] == pytest.approx(np.mean(wanted), abs=1e-5)
            differing += abs(wanted[0] - wanted[1]) > 0.01
    assert differing > 20


def naive_clusters(texts: list[str], entails: Callable[[str, str], bool]) -> list[int]:
    """Clusters as in semantic entropy: each text is compared with the first of each cluster."""
    found: list[list[str]] = []
    numbers = []
    for text in texts:
        for number, cluster in enumerate(found):
            first = cluster[0]
            if first == text or (entails(first, text) and entails(text, first)):
                cluster.append(text)
                numbers.append(number)
                break
        else:
            found.append([text])
            numbers.append(len(found) - 1)
    return numbers


def test_clusters_match_a_naive_implementation(
    folder: str, naive: Callable[[str, str], np.ndarray]
) -> None:
    (probe,) = open_probes([f"nli_clusters:{folder}"])
    assert (probe.name, negative_type(probe)) == ("nli_clusters:tiny", "yes")
    blocks = [item.block() for item in made(25)]
    sizes = []
    for block, matrix in zip(blocks, probe.matrices(blocks), strict=True):
        people = range(block.sizes[0])
        start = block.sizes[0]
        for size in block.sizes[1:]:
            rows = [r for r in (*people, *range(start, start + size)) if block.texts[r].strip()]
            numbers = naive_clusters(
                [block.texts[r] for r in rows], lambda a, b: naive(a, b).argmax() == 2
            )
            sizes.append(len(set(numbers)) / max(len(rows), 1))
            for (i, a), (j, b) in itertools.combinations(zip(rows, numbers, strict=True), 2):
                assert matrix[i, j] == matrix[j, i] == (a != b)
            start += size
        empty = [i for i, text in enumerate(block.texts) if not text.strip()]
        assert np.isnan(matrix[empty]).all()
    assert 0.2 < np.mean(sizes) < 0.9  # neither all alike nor all different


def test_mutual_entailment_needs_both_directions(
    folder: str, naive: Callable[[str, str], np.ndarray]
) -> None:
    (probe,) = open_probes([f"nli:{folder}"])
    assert (probe.name, negative_type(probe)) == ("nli:tiny", "unknown")
    blocks = [item.block() for item in made(12)]
    seen = []
    for block, matrix in zip(blocks, probe.matrices(blocks), strict=True):
        for i, j in block.wanted():
            a, b = block.texts[i], block.texts[j]
            if not a.strip() or not b.strip():
                assert math.isnan(matrix[i, j])
                continue
            both = a == b or all(naive(*pair).argmax() == 2 for pair in ((a, b), (b, a)))
            assert matrix[i, j] == matrix[j, i] == (not both)
            seen.append(both)
    assert 0.1 < np.mean(seen) < 0.9


def test_clusters_of_people_do_not_depend_on_systems(folder: str) -> None:
    (probe,) = open_probes([f"nli_clusters:{folder}"])
    items = made(20)
    with_both = score_blocks(items, ("one", "two"), [probe], {})
    alone = [ScoredTexts(item.item_id, item.people, (item.systems[1],)) for item in items]
    with_one = score_blocks(alone, ("two",), [probe], {})
    for name, values in with_one.systems["two"].items():
        np.testing.assert_array_equal(values, with_both.systems["two"][name])


def test_each_pair_is_asked_once_and_cached(folder: str) -> None:
    model = nli.open_model(folder, "cpu")
    asked: list[str] = []

    def counting(pairs: list[str]) -> Any:
        asked.extend(pairs)
        return model.encode(pairs)

    cache: dict[str, bytes] = {}
    counted = nli.SentenceEncoder(model.label, counting)
    probes = [
        nli.inference("nli_clusters", counted, cache, nli.across_clusters),
        nli.inference("nli", counted, cache, nli.mutual),
        nli.inference("entailment", counted, cache, nli.one_way),
    ]
    block = Block(("a dog", "a man", "a dog", "bread", ""), (3, 2))
    for probe in (*probes, *probes):
        probe.matrices([block, block])
    # Three different texts in both directions.
    assert len(asked) == len(set(asked)) == 6


@pytest.mark.parametrize(
    ("labels", "number"),
    [
        ({0: "ENTAILMENT", 1: "neutral", 2: "contradiction"}, 0),
        ({0: "not_entailment", 1: "entailment"}, 1),
    ],
)
def test_label_is_read_from_the_config(labels: dict[int, str], number: int) -> None:
    assert nli.entailment_label("m", labels) == number


def test_models_that_cannot_be_used_are_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = tiny(tmp_path / "plain", {0: "LABEL_0", 1: "LABEL_1"})
    with pytest.raises(UsageError, match=r"has no label 'entailment' .*LABEL_0, LABEL_1"):
        open_probes([f"nli:{plain}"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(ModelError, match="cannot load the NLI model") as caught:
        open_probes([f"entailment:{tmp_path / 'empty'}"])
    assert "\n" not in str(caught.value)
    with pytest.raises(UsageError, match="needs a model; write nli:NAME"):
        open_probes(["nli"])
    with pytest.raises(UsageError, match="two probes have the name nli:tiny"):
        open_probes([f"nli:{tiny(tmp_path / part / 'tiny')}" for part in ("a", "b")])
    constants = pytest.importorskip("huggingface_hub").constants
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    for name in ("nli:no/such", "entailment:no/such"):
        with pytest.raises(ModelError, match=r"not in the cache.*give a folder as nli:FOLDER"):
            open_probes([name])
    with pytest.raises(ModelError, match=r"not in the cache.*give a folder as st:FOLDER"):
        open_probes(["semantic"], encoder="multilingual")


def test_classifier_without_a_head_is_refused(tmp_path: Path) -> None:
    folder = tiny(tmp_path / "tiny")
    model = transformers.AutoModel.from_pretrained(folder)
    config = transformers.AutoConfig.from_pretrained(folder)
    model.save_pretrained(folder)
    config.save_pretrained(folder)
    with pytest.raises(UsageError, match="lacks weights"):
        open_probes([f"nli:{folder}"])


@pytest.mark.parametrize("kind", ["nli", "entailment", "nli_clusters"])
def test_window_is_that_of_pairs_as_the_model_reads_them(folder: str, kind: str) -> None:
    (probe,) = open_probes([f"{kind}:{folder}"])
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    texts = tuple(" ".join(WORDS * n)[: 15 * n] for n in (1, 2, 3, 4, 5, 6))
    block = Block(texts, (4, 2))
    wanted = [len(tokenizer(texts[i], texts[j])["input_ids"]) for i, j in block.wanted()]
    window = window_of(probe)
    assert window is not None
    assert (list(window.sizes([block])), window.limit) == (wanted, 62)
    assert 0 < sum(size > window.limit for size in wanted) < len(wanted)
