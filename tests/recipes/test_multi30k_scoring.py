"""Rows of a test set compared with a naive implementation, one token at a time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from multi30k.data import TranslationData
from multi30k.model import Shape, TranslationModel
from multi30k.rows import write_rows
from multi30k.scoring import heads_of, rows_of
from multi30k.subwords import EOS
from numpy.typing import NDArray

from aleatoric.errors import DataError
from aleatoric.studies.e_ece_paper import Columns, read_rows

SCHEMES = {"plain": "ancestral", "top_p": "top_p=0.8", "top_k": "top_k=5", "greedy": "greedy"}


def random_model(data: TranslationData, seed: int) -> TranslationModel:
    torch.manual_seed(seed)
    model = TranslationModel(len(data.source), len(data.target), Shape(2, 32, 4, 64))
    with torch.no_grad():  # sharper than at the start, so that every scheme leaves something out
        model.target.table.weight *= 4
    return model.eval()


@pytest.fixture(scope="module")
def models(toy_data: TranslationData) -> tuple[TranslationModel, TranslationModel]:
    return random_model(toy_data, 0), random_model(toy_data, 1)


@pytest.fixture(scope="module")
def rows(toy_data: TranslationData, models: tuple[TranslationModel, TranslationModel]) -> Columns:
    return rows_of(*models, toy_data.test, 7, SCHEMES, max_tokens=64)


def naive_probs(model: TranslationModel, data: TranslationData) -> list[list[NDArray[np.float64]]]:
    """The distribution at every target position, with a separate forward pass for each prefix."""
    found = []
    for example in data.test:
        source = torch.tensor([example.source])
        prefixes = [(EOS, *example.target[:t]) for t in range(len(example.target))]
        with torch.inference_mode():
            logits = [model(source, torch.tensor([prefix]))[0, -1] for prefix in prefixes]
        found.append([one.double().softmax(-1).numpy() for one in logits])
    return found


def naive_scheme(probs: NDArray[np.float64], scheme: str) -> NDArray[np.float64]:
    order = np.argsort(-probs)
    keep = {
        "plain": len(probs),
        "top_p": int(np.searchsorted(np.cumsum(probs[order]), 0.8)) + 1,
        "top_k": 5,
        "greedy": 1,
    }[scheme]
    kept = np.zeros_like(probs)
    kept[order[:keep]] = probs[order[:keep]]
    total: NDArray[np.float64] = kept / kept.sum()
    return total


def test_rows_match_naive(
    toy_data: TranslationData,
    models: tuple[TranslationModel, TranslationModel],
    rows: Columns,
) -> None:
    own, other = (naive_probs(model, toy_data) for model in models)
    row = 0
    for number, example in enumerate(toy_data.test):
        for position, token in enumerate(example.target):
            p, q = own[number][position], other[number][position]
            expected = {
                "sentence": number,
                "position": position,
                "token": token,
                "predicted": p.argmax(),
                "p_hat": p.max(),
                "a_hat": p.argmax() == token,
                "log_prob": np.log(p[token]),
                "entropy": -(p * np.log(p)).sum(),
                "uncertainty": -(q * np.log(q)).sum(),
            }
            for scheme in SCHEMES:
                changed = naive_scheme(p, scheme)
                expected |= {f"p_{scheme}": changed @ p, f"a_{scheme}": changed[token]}
            found = {name: rows[name][row] for name in expected}
            assert found == pytest.approx(expected, rel=1e-4, abs=1e-6)
            row += 1
    assert row == len(rows["token"])


def test_every_sentence_ends_with_eos(toy_data: TranslationData, rows: Columns) -> None:
    last = np.append(np.diff(rows["sentence"]) > 0, True)
    assert set(rows["token"][last]) == {EOS}
    assert last.sum() == len(toy_data.test)
    assert EOS not in rows["token"][~last]


def test_greedy_scheme_matches_ece(rows: Columns) -> None:
    np.testing.assert_allclose(rows["p_greedy"], rows["p_hat"], rtol=1e-6)
    np.testing.assert_array_equal(rows["a_greedy"], rows["a_hat"])
    np.testing.assert_array_equal(rows["draw_a_greedy"], rows["a_hat"])


def test_rows_and_draws_do_not_depend_on_batch_size(
    toy_data: TranslationData,
    models: tuple[TranslationModel, TranslationModel],
    rows: Columns,
) -> None:
    for max_tokens in (16, 4096):
        again = rows_of(*models, toy_data.test, 7, SCHEMES, max_tokens)
        assert list(again) == list(rows)
        for name, values in rows.items():
            np.testing.assert_allclose(again[name], values, rtol=1e-4, atol=1e-6, err_msg=name)


@pytest.mark.long
def test_draws_match_scheme_in_expectation(
    toy_data: TranslationData, models: tuple[TranslationModel, TranslationModel]
) -> None:
    """Means over many draws match the stored expectations."""
    runs = [rows_of(*models, toy_data.test, seed, SCHEMES) for seed in range(200)]
    for scheme in SCHEMES:
        for drawn, exact in (("draw_p", "p"), ("draw_a", "a")):
            values = np.array([run[f"{drawn}_{scheme}"] for run in runs]).mean(axis=1)
            error = values.std(ddof=1) / np.sqrt(len(values)) + 1e-7
            expected = runs[0][f"{exact}_{scheme}"].mean()
            assert abs(values.mean() - expected) < 5 * error, (scheme, drawn)
        assert min(run[f"draw_scheme_p_{scheme}"].min() for run in runs) > 0


def test_heads_contain_every_probability_above_threshold(
    toy_data: TranslationData, models: tuple[TranslationModel, TranslationModel]
) -> None:
    model = models[0]
    probs = [p for sentence in naive_probs(model, toy_data) for p in sentence]
    heads = heads_of(model, toy_data.test, least=0.01, max_tokens=64)
    assert len(heads["head_p"]) == sum(int((p >= 0.01).sum()) for p in probs)
    np.testing.assert_allclose(heads["class_mass"], np.sum(probs, axis=0), rtol=1e-4)
    by_place = {
        (s, t, v): p
        for s, t, v, p in zip(
            *(heads[f"head_{name}"] for name in ("sentence", "position", "token", "p")),
            strict=True,
        )
    }
    first = naive_probs(model, toy_data)[0][0]
    for token in np.flatnonzero(first >= 0.01):
        assert by_place[0, 0, token] == pytest.approx(first[token], rel=1e-4)


def test_rows_round_trip_through_file(rows: Columns, tmp_path: Path) -> None:
    write_rows(tmp_path / "out" / "rows.npz", rows)
    again = read_rows(tmp_path / "out" / "rows.npz")
    assert list(again) == list(rows)
    for name, values in rows.items():
        np.testing.assert_allclose(again[name], values, rtol=1e-6)
    assert again["token"].dtype == np.int32
    assert again["p_hat"].dtype == np.float32


def test_file_without_rows_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "rows.npz").write_bytes(b"not a zip")
    with pytest.raises(DataError, match=r"rows\.npz: holds no token rows"):
        read_rows(tmp_path / "rows.npz")
    with pytest.raises(DataError, match="there is no such file"):
        read_rows(tmp_path / "none.npz")
