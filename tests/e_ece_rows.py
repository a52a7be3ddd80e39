"""Parallel text and rows of the e-ECE recipe, of random numbers."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np

from aleatoric.data import documents
from aleatoric.studies.e_ece_paper import SCHEMES, Columns

SENTENCES, TOKENS, CLASSES = 12, 5, 16


def save_rows(folder: Path) -> Path:
    """Parallel text, and rows, heads and facts as the recipe writes them, of random numbers."""
    (folder / "data").mkdir()
    (folder / "out").mkdir()
    sides = [folder / "data" / f"multi30k_test2016.{side}.gz" for side in ("de", "en")]
    for side in sides:
        side.write_bytes(gzip.compress(b"a b c .\n" * SENTENCES))
    for kept in ("loss", "bleu", "last"):
        columns, heads = random_columns(["loss", "bleu", "last"].index(kept))
        np.savez_compressed(folder / "out" / f"rows-{kept}.npz", **columns)
        np.savez_compressed(folder / "out" / f"heads-{kept}.npz", **heads)
    epochs = {"epochs": {"loss": 1, "bleu": 2, "last": 2}}
    facts = {
        "data_sha256": {"test": documents.load_parallel(*sides).sha256},
        "recipe": {"seed": 5, "label_smoothing": 0.1},
        "models": {"translation": epochs, "uncertainty": epochs},
        "test": {kept: {"bleu": 40.0} for kept in ("loss", "bleu", "last")},
        "environment": {"device": "cpu"},
    }
    (folder / "out" / "facts.json").write_text(json.dumps(facts))
    return folder


def random_columns(seed: int) -> tuple[Columns, Columns]:
    rng, n = np.random.default_rng(seed), SENTENCES * TOKENS
    probs = rng.dirichlet(np.ones(CLASSES), n)
    token = rng.integers(4, CLASSES, n)
    token[TOKENS - 1 :: TOKENS] = 2
    rows = np.arange(n)
    columns = {
        "sentence": rows // TOKENS,
        "position": rows % TOKENS,
        "token": token,
        "predicted": probs.argmax(1),
        "p_hat": probs.max(1),
        "a_hat": 1.0 * (probs.argmax(1) == token),
        "log_prob": np.log(probs[rows, token]),
        "entropy": -(probs * np.log(probs)).sum(1),
        "uncertainty": rng.random(n),
    }
    for scheme in SCHEMES:
        columns |= {f"p_{scheme}": (probs**2).sum(1), f"a_{scheme}": probs[rows, token]}
        columns |= {f"draw_{name}_{scheme}": rng.random(n) for name in ("p", "scheme_p", "a")}
    row, kind = np.nonzero(probs >= 1e-3)
    heads = {"head_sentence": row // TOKENS, "head_position": row % TOKENS, "head_token": kind}
    return columns, heads | {"head_p": probs[row, kind], "class_mass": probs.sum(0)}
