"""Output of the recipe, read by `aleatoric reproduce e-ece` and by `aleatoric token`."""

from __future__ import annotations

import gzip
import tomllib
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest
from multi30k import command
from multi30k.model import Shape
from multi30k.training import Recipe

from aleatoric import registry
from aleatoric.studies.e_ece_paper import errors, read_rows

RECIPE = Path(__file__).resolve().parents[2] / "recipes" / "multi30k"
SIZES = {"train": 60, "val": 10, "test2016": 12}
WORDS = {"Hund": "dog", "Mann": "man", "Ball": "ball"}


@pytest.fixture(scope="module")
def made(recipe_packages: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Parallel text and the rows, weights and facts of the recipe."""
    folder = tmp_path_factory.mktemp("e-ece")
    for split, count in SIZES.items():
        chosen = [list(WORDS.items())[n % 3] for n in range(count)]
        for side in (0, 1):
            text = "".join(f"{('Ein', 'A')[side]} {pair[side]} .\n" for pair in chosen)
            path = folder / "data" / f"multi30k_{split}.{('de', 'en')[side]}.gz"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(gzip.compress(text.encode()))
    recipe = Recipe(seed=5, epochs=2, max_tokens=128, warmup=10)
    shape = Shape(layers=1, width=16, heads=2, ffn=16)
    out, weights = folder / "out", folder / "weights"
    command.run(command.Settings(folder / "data", out, weights, recipe, shape=shape, merges=20))
    return folder


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register the entry points of the recipe, as `pip install ./recipes/multi30k` does."""
    groups = tomllib.loads((RECIPE / "pyproject.toml").read_text())["project"]["entry-points"]
    points = [
        EntryPoint(name, value, group)
        for group, named in groups.items()
        for name, value in named.items()
    ]
    monkeypatch.setattr(
        registry, "entry_points", lambda group: [point for point in points if point.group == group]
    )


def test_every_table_is_printed(cli: Callable, made: Path) -> None:
    rows = made / "out" / "rows-last.npz"
    ran = cli("reproduce", "e-ece", "--data", made / "data", "--rows", rows)
    assert ran.status == 0, ran.err
    for words in ("Table 1", "Table 2", "Table 3", "Table 4", "What the paper leaves open"):
        assert words in ran.out
    assert "seed 5" in ran.out


@pytest.mark.usefixtures("installed")
def test_token_command_on_checkpoint_matches_recipe_rows(cli: Callable, made: Path) -> None:
    """The token command on the recipe's weights gives the numbers of the recipe's own rows."""
    sides = ",".join(str(made / "data" / f"multi30k_test2016.{s}.gz") for s in ("de", "en"))
    ran = cli(
        *("token", "--corpus", f"parallel:{sides}", "--json", "--classwise", "all"),
        *("--model", f"translation:{made / 'weights'}@last"),
    )
    assert ran.status == 0, ran.err
    columns = read_rows(made / "out" / "rows-last.npz")
    heads = read_rows(made / "out" / "heads-last.npz")
    ours = errors(columns, heads, 15, seed=0)
    for metric in ("ece", "sce", "e_ece", "e_ece_p", "e_ece_k", "sce_predicted", "sce_weighted"):
        value = ran.results["translation-last", metric]["estimate"]["value"]
        assert value == pytest.approx(ours[metric].value, abs=2e-6), metric
    unseen = 1 - len(np.unique(columns["token"])) / len(heads["class_mass"])
    for metric, value in {
        "agreement_M": columns["p_plain"].mean(),
        "agreement_C": np.exp(columns["log_prob"]).mean(),
        "vocabulary_unseen": unseen,
    }.items():
        found = ran.results["translation-last", metric]["estimate"]["value"]
        assert found == pytest.approx(value, abs=1e-5), metric
    assert ran.results["translation-last", "nll"]["estimate"]["value"] == pytest.approx(
        -columns["log_prob"].mean(), abs=1e-5
    )


@pytest.mark.usefixtures("installed")
def test_missing_weights_raise_one_line_error(cli: Callable, tmp_path: Path) -> None:
    for name, text in (("few.de", "Ein Hund.\n"), ("few.en", "A dog.\n")):
        (tmp_path / name).write_text(text)
    corpus = f"parallel:{tmp_path / 'few.de'},{tmp_path / 'few.en'}"
    ran = cli("token", "--corpus", corpus, "--model", f"translation:{tmp_path}")
    assert (ran.status, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert f"{tmp_path / 'vocabulary.json'}: " in ran.err
    assert "name a folder" in ran.err
