"""What the e-ECE paper finds on Multi30K, on the rows that ship with the package.

Table 2: every form of e-ECE lies below ECE. Table 3: the median of d = |g − g̃| rises with intrinsic
uncertainty. Table 4: on 10 and on 50 sentences e-ECE varies less than ECE.
"""

from __future__ import annotations

import pytest

from aleatoric.analyses import stability
from aleatoric.analyses.intrinsic import quartiles
from aleatoric.reproduce.e_ece import SHIPPED
from aleatoric.reproduce.e_ece_rows import errors, to_table
from aleatoric.training.token_rows import Columns, read_rows


@pytest.fixture(params=["loss", "bleu", "last"])
def columns(request: pytest.FixtureRequest) -> Columns:
    return read_rows(SHIPPED / f"rows-{request.param}.npz")


def test_every_form_of_e_ece_lies_below_ece(columns: Columns) -> None:
    found = {name: own.value for name, own in errors(columns, None, 15, 0).items()}
    assert all(found[name] < found["ece"] for name in ("e_ece", "e_ece_p", "e_ece_k"))
    assert found["e_ece"] < found["e_ece_p"]


def test_disagreement_rises_with_intrinsic_uncertainty(columns: Columns) -> None:
    table = to_table(columns)
    found = quartiles(table.uncertainty, table.disagreement)
    assert list(found.median_d) == sorted(set(found.median_d))
    assert found.r is not None
    assert found.r > 0.35


def test_e_ece_is_steadier_on_few_sentences(columns: Columns) -> None:
    rows = {row[0]: row for row in stability.run(to_table(columns), 0).tables[0].rows}
    for n in ("10", "50"):
        _, _, ece_spread, _, _, e_ece_spread, _ = rows[n]
        assert float(e_ece_spread) < float(ece_spread)
