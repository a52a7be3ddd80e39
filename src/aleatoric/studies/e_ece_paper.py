"""Tables 1 to 4 of the e-ECE paper for Multi30K DE→EN: printed values, and ours from token rows."""

from __future__ import annotations

import json
import os
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import aleatoric
from aleatoric.calibration.statistics import Expected, TokenTable
from aleatoric.data import documents
from aleatoric.errors import DataError, UsageError
from aleatoric.inference.bootstrap import resample
from aleatoric.metrics import calibration
from aleatoric.result_types import Result, Table
from aleatoric.studies import TEXTS, notes_on, token_studies
from aleatoric.types import Estimate, Floats, Signature

Columns = dict[str, NDArray[Any]]
"""Columns of a row file by name; `read_rows` lists them."""

SCHEMES = {"plain": "ancestral", "top_p": "top_p=0.8", "top_k": "top_k=100", "greedy": "greedy"}
"""The paper's generation schemes: name in the columns -> decoder."""
EXPECTED = {"e_ece": "plain", "e_ece_p": "top_p", "e_ece_k": "top_k"}
"""Metric -> scheme in the columns."""
MAX_BYTES = 2**31
_DAMAGED = (
    *(OSError, ValueError, EOFError, KeyError, MemoryError, OverflowError, struct.error),
    *(SyntaxError, NotImplementedError, RuntimeError, zipfile.BadZipFile, zlib.error),
)
"""Errors of numpy and zipfile on damaged files."""


def read_rows(path: Path) -> Columns:
    """Read the rows of a teacher-forced test set, one per target token and end of sentence.

    `sentence` (place in the test set from 0), `position`, `token` (the reference y), `predicted`
    (argmax P), `p_hat` = max P, `a_hat` = 1[predicted = y], `log_prob` = log P(y), `entropy` of P
    and `uncertainty`, the entropy of the second model, both in nats. For each scheme S: `p_S` =
    Σ P̃(v) P(v), `a_S` = P̃(y), and one seeded draw v from P̃ as `draw_p_S` = P(v),
    `draw_scheme_p_S` = P̃(v), `draw_a_S` = 1[v = y].
    """
    try:
        # Refuse, before unpacking, a file that is no archive or unpacks to too much.
        with zipfile.ZipFile(path) as archive:
            size = sum(member.file_size for member in archive.infolist())
        if size > MAX_BYTES:
            problem = f"unpacks to {size} bytes, over {MAX_BYTES}"
            raise DataError.at(path, None, problem, "make it with the recipe again")
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except FileNotFoundError:
        raise DataError.at(path, None, "there is no such file", "check the path") from None
    except _DAMAGED as error:
        problem = f"holds no token rows ({type(error).__name__})"
        raise DataError.at(path, None, problem, "make it with the recipe again") from None


def errors(columns: Columns, heads: Columns | None, bins: int, seed: int) -> dict[str, Estimate]:
    """Return the errors of Table 2 with intervals over sentences; `sce` needs the heads."""
    table, counts = to_table(columns), (len(columns["token"]), len(np.unique(columns["sentence"])))
    estimates = {"ece": _with_interval(table.unit, table.confidence, table.correct, bins, seed)}
    values = {} if heads is None else {"sce": sce_of_heads(columns, heads, bins)}
    values |= predicted_errors(columns, bins)
    estimates |= {metric: Estimate(value, None, *counts) for metric, value in values.items()}
    return estimates | {
        metric: _with_interval(table.unit, *table.expected[SCHEMES[scheme]], bins, seed)
        for metric, scheme in EXPECTED.items()
    }


def predicted_errors(columns: Columns, bins: int) -> dict[str, float]:
    """Return SCE and ACE as means over predicted classes."""
    table, edges = to_table(columns), calibration.equal_width_edges(bins)
    classes = [table.predicted == k for k in np.unique(table.predicted)]
    pairs = [(table.confidence[rows], table.correct[rows]) for rows in classes]
    sums = [calibration.bin_sums(*p, calibration.bin_index(p[0], edges), bins) for p in pairs]
    cells = [calibration.exact_cells(*pair) for pair in pairs]
    return calibration.predicted_class_errors(np.stack(sums), cells, bins)


def sce_of_heads(columns: Columns, heads: Columns, bins: int) -> float:
    """Return Nixon's SCE: heads are probabilities above the lowest bin, the rest is class mass."""
    n_classes, n_tokens = len(heads["class_mass"]), len(columns["token"])
    probs = heads["head_p"].astype(np.float64)
    index = calibration.bin_index(probs, calibration.equal_width_edges(bins))
    correct = (_references(columns, heads) == heads["head_token"]).astype(np.float64)
    place = heads["head_token"].astype(np.int64) * bins + index
    sums = calibration.bin_sums(probs, correct, place, n_classes * bins).reshape(
        n_classes, bins, calibration.N_COLUMNS
    )
    total = np.zeros((n_classes, calibration.N_COLUMNS))
    total[:, 0], total[:, 1] = n_tokens, heads["class_mass"]
    total[:, 2] = np.bincount(columns["token"], minlength=n_classes)
    sums[:, 0] = total - sums[:, 1:].sum(axis=1)
    return calibration.sce_of(sums, n_classes, n_tokens)


def _references(columns: Columns, heads: Columns) -> Any:
    """Return the reference token at the position of each head."""
    width = int(columns["position"].max()) + 1
    places = columns["sentence"].astype(np.int64) * width + columns["position"]
    head_places = heads["head_sentence"].astype(np.int64) * width + heads["head_position"]
    return columns["token"][np.searchsorted(places, head_places)]


def to_table(columns: Columns) -> TokenTable:
    """Convert rows for the studies, with the second model's entropy as uncertainty."""
    doubles = {name: column.astype(np.float64) for name, column in columns.items()}
    return TokenTable(
        unit=columns["sentence"].astype(np.int64),
        target=columns["token"].astype(np.int64),
        predicted=columns["predicted"].astype(np.int64),
        confidence=doubles["p_hat"],
        correct=doubles["a_hat"],
        expected={
            decoder: Expected(doubles[f"p_{name}"], doubles[f"a_{name}"])
            for name, decoder in SCHEMES.items()
        },
        uncertainty=doubles["uncertainty"],
        uncertainty_of="the second model",
    )


def _with_interval(
    sentences: NDArray[np.int64], confidence: Floats, accuracy: Floats, bins: int, seed: int
) -> Estimate:
    sums = token_studies.sums_by_unit(sentences, confidence, accuracy, bins)
    used = sums[sums[:, :, 0].sum(axis=1) > 0]

    def error(rows: Floats) -> Floats:
        return calibration.ece_of(rows.reshape(-1, bins, calibration.N_COLUMNS))

    interval = resample(used.reshape(len(used), -1), error, seed).interval
    value = float(calibration.ece_of(sums.sum(axis=0)))
    return Estimate(value, interval, len(confidence), len(used))


CLASSWISE_FORMS = ("", "_predicted", "_weighted")
"""The paper prints one SCE and one ACE and does not say how classes are averaged."""
_PRINTED = TEXTS["e_ece"]
PRINTED_ERRORS: dict[str, float] = _PRINTED["errors"]
"""Table 2, Multi30K, in percent."""
PRINTED_SCHEMES: dict[str, float] = _PRINTED["schemes"]
"""Table 1, Multi30K, in percent."""
LEFT_OPEN = tuple(map(tuple, _PRINTED["left_open"]))
SCHEME_NAMES = {"greedy": "greedy", "plain": "pure", "top_k": "top-k 100", "top_p": "top-p 0.8"}
END_OF_SENTENCE, UNKNOWN = 2, 3
RECIPE_ROWS = Path(__file__).parents[3] / "recipes" / "multi30k" / "rows"
"""Rows of trained models, in a checkout of the repository only."""


def reproduce(
    data: Path, rows: Path | None = None, bins: int = 15, seed: int = 0
) -> tuple[list[Table], dict[str, Any]]:
    """Compute all tables from the rows of the test set; return them and their JSON form."""
    path = rows or _find_rows(data)
    columns = read_rows(path)
    text = documents.load_parallel(
        data / "multi30k_test2016.de.gz", data / "multi30k_test2016.en.gz"
    )
    note = _check_origin(path, text.sha256)
    heads = path.with_name(path.name.replace("rows-", "heads-"))
    classes = read_rows(heads) if heads != path and os.path.isfile(heads) else None
    estimates = errors(columns, classes, bins, seed)
    is_word = columns["token"] != END_OF_SENTENCE
    words = errors({name: column[is_word] for name, column in columns.items()}, None, bins, seed)
    results = [
        _result(metric, estimate, text.sha256, path.stem, bins, seed).to_dict()
        | {"printed": None if (printed := PRINTED_ERRORS.get(metric)) is None else printed / 100}
        for metric, estimate in estimates.items()
    ]
    table = to_table(columns)
    tables = [
        _table_2(estimates, words, note, bins),
        _table_1(columns, bins),
        _table_3(token_studies.intrinsic(table, seed, bins).tables[0]),
        *(_table_4(ours) for ours in token_studies.stability(table, seed, bins).tables),
        _labels(columns, classes),
        Table(
            "What the paper leaves open",
            ("question", "here"),
            LEFT_OPEN,
        ),
    ]
    return tables, {"results": results}


def _find_rows(data: Path) -> Path:
    """Find rows in `data`, else in the checkout; least validation loss first."""
    for folder in (data, RECIPE_ROWS):
        for kept in ("loss", "bleu", "last"):
            if os.path.isfile(folder / f"rows-{kept}.npz"):
                return folder / f"rows-{kept}.npz"
    raise UsageError(
        f"{data}: holds no rows-*.npz of trained models; copy recipes/multi30k/rows/* from the "
        "aleatoric repository into it, or give --rows FILE."
    )


def _check_origin(rows: Path, sha256: str) -> str:
    """Refuse rows of another test set; return a note on the origin of the rows."""
    facts_file = rows.with_name("facts.json")
    if not os.path.isfile(facts_file):
        return f"{rows.name}: no facts.json beside it tells how it was made."
    facts = json.loads(facts_file.read_text(encoding="utf-8"))
    if facts["data_sha256"]["test"] != sha256:
        problem = "its rows were made from another test set"
        raise DataError.at(rows, None, problem, "give the --data that the recipe was given")
    kept = rows.stem.removeprefix("rows-")
    if kept not in facts["test"]:
        problem = "its name is none that the recipe gives"
        raise DataError.at(rows, None, problem, "keep the names rows-loss, rows-bleu and rows-last")
    epochs = {role: model["epochs"].get(kept) for role, model in facts["models"].items()}
    return (
        f"{rows.name}: seed {facts['recipe']['seed']}, label smoothing "
        f"{facts['recipe']['label_smoothing']:g}, epoch {epochs['translation']} of the translation "
        f"model and {epochs['uncertainty']} of the uncertainty model, test BLEU "
        f"{facts['test'][kept]['bleu']:.1f}, {facts['environment']['device']}."
    )


def _result(
    metric: str, estimate: Estimate, sha256: str, model: str, bins: int, seed: int
) -> Result:
    estimator = "whole-space" if metric in EXPECTED else "teacher-forced"
    system, scheme = f"translation@{model}", EXPECTED.get(metric, "none")
    choices = {"bins": str(bins), "closed": "at-1", "eos": "scored"}
    origin = ("multi30k_test2016", sha256, system, scheme, estimator, choices)
    size = (str(estimate.n_items), seed, metric, aleatoric.__version__)
    return Result("translation", metric, Signature(*origin, *size), estimate)


def _table_2(ours: dict[str, Estimate], words: dict[str, Estimate], note: str, bins: int) -> Table:
    rows = []
    for metric, estimate in ours.items():
        printed, ends = PRINTED_ERRORS.get(metric), estimate.interval
        paper = "–" if printed is None else f"{printed:.2f}"
        interval = "–" if ends is None else f"[{100 * ends.low:.2f}, {100 * ends.high:.2f}]"
        rows.append((metric, paper, _percent(estimate), interval, _percent(words.get(metric))))
    notes = (
        *notes_on("e_ece_errors", bins=bins, sce=_nearest(ours, "sce"), ace=_nearest(ours, "ace")),
        note,
    )
    columns = ("metric", "printed", "ours", "[low, high]", "without sentence ends")
    return Table("e-ECE, Table 2: Multi30K DE→EN", columns, tuple(rows), notes)


def _table_1(columns: Columns, bins: int) -> Table:
    rows, everywhere = [], np.arange(len(columns["token"]))
    for scheme, printed in PRINTED_SCHEMES.items():
        names = (f"draw_p_{scheme}", f"draw_scheme_p_{scheme}", f"draw_a_{scheme}")
        p, scheme_p, accuracy = (columns[name].astype(np.float64) for name in names)
        ours = (token_studies.error_of_tokens(c, accuracy, bins)(everywhere) for c in (p, scheme_p))
        rows.append((SCHEME_NAMES[scheme], f"{printed:.2f}", *(f"{100 * e:.2f}" for e in ours)))
    notes = ("One token is drawn per position. P: of the model; P̃: after the scheme.",)
    columns_shown = ("scheme", "printed", "ours, confidence P", "ours, confidence P̃")
    return Table("e-ECE, Table 1: ECE by generation scheme", columns_shown, tuple(rows), notes)


def _table_3(ours: Table) -> Table:
    printed = (*_PRINTED["quartiles"], (_PRINTED["correlation"], "p < 0.01"))
    rows = [(row[0], *pair, *row[1:3]) for row, pair in zip(ours.rows, printed, strict=True)]
    columns = ("quartile", "printed E[H]", "printed m(d)", "ours E[H]", "ours m(d)")
    return Table("e-ECE, Table 3: intrinsic uncertainty", columns, tuple(rows), ours.notes)


def _nearest(ours: dict[str, Estimate], metric: str) -> str:
    """Return the form of a class-wise error nearest to the printed value, with its difference."""
    names = [metric + form for form in CLASSWISE_FORMS if metric + form in ours]
    gaps = {name: 100 * (ours[name].value or 0.0) - PRINTED_ERRORS[metric] for name in names}
    nearest = min(gaps, key=lambda name: abs(gaps[name]))
    return f"{nearest} ({gaps[nearest]:+.1f})"


def _labels(columns: Columns, heads: Columns | None) -> Table:
    """Return the shares of labels that no reference token has, and of unknown tokens."""
    tokens, unknown = len(columns["token"]), int((columns["token"] == UNKNOWN).sum())
    rows = [("reference tokens unknown to the vocabulary", "–", _share(unknown, tokens))]
    if heads is not None:
        classes = len(heads["class_mass"])
        unseen = classes - len(np.unique(columns["token"]))
        rows.insert(0, ("labels that no reference token has", "49.7%", _share(unseen, classes)))
    notes = notes_on("e_ece_labels")
    columns_shown = ("share", "printed", "ours")
    return Table("e-ECE, section 3: labels and the test set", columns_shown, tuple(rows), notes)


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.2f}% ({part} of {whole})"


def _table_4(ours: Table) -> Table:
    rows = tuple(
        (row[0], *(f"{p} / {o}" if p or o else "" for p, o in zip(printed, row[1:], strict=True)))
        for row in ours.rows
        for printed in [_PRINTED["stability"][row[0]]]  # of IWSLT14 only
    )
    notes = notes_on("e_ece_stability")
    title = ours.title.lower().replace("documents", "sentences")
    shown = tuple(note.replace("documents", "sentences") for note in ours.notes)
    return Table(f"e-ECE, Table 4: {title}", ours.columns, rows, (*notes, *shown))


def _percent(estimate: Estimate | None) -> str:
    if estimate is None or estimate.value is None:
        return "–"
    value = 100 * estimate.value
    return f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"
