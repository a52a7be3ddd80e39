"""The paper's sizes of Multi30K (Table 5): 28,332 training pairs, vocabularies (7072, 5184).

They follow from fairseq's preparation of IWSLT14, which the paper does not name: Moses words, a
length ratio of at most 1.5, lower case, 10,000 joint merges.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from multi30k.data import prepare

from aleatoric.data import documents
from aleatoric.studies.e_ece_paper import RECIPE_ROWS, read_rows


@pytest.mark.long
@pytest.mark.usefixtures("recipe_packages")
def test_prepared_data_has_sizes_of_the_paper(shared: Path) -> None:
    folder = shared / "data" / "parallel"
    train, validation, test = (
        documents.load_parallel(
            *(folder / f"multi30k_{split}.{side}.gz" for side in ("de", "en"))
        ).items
        for split in ("train", "val", "test2016")
    )
    data = prepare(train, validation, test)
    sizes = data.sizes()
    assert (len(train), sizes["train_pairs"]) == (29_000, 28_332)
    assert (sizes["validation_pairs"], sizes["test_pairs"]) == (1_014, 1_000)
    assert (sizes["source_vocabulary"], sizes["target_vocabulary"]) == (7_072, 5_184)
    # The recorded rows hold the numbers of the test set's reference tokens.
    tokens = [token for example in data.test for token in example.target]
    for kept in ("loss", "bleu", "last"):
        assert read_rows(RECIPE_ROWS / f"rows-{kept}.npz")["token"].tolist() == tokens
