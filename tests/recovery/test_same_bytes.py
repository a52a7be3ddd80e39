"""The same seed gives the same bytes, independent of other items and systems in the run."""

from __future__ import annotations

from pathlib import Path

from aleatoric.levels.base import run_job
from aleatoric.levels.word import WordJob
from aleatoric.runs.run import Store
from aleatoric.studies.export import item_rows, write


def exported(tmp_path: Path, name: str, contexts: int = 60, **options: object) -> list[str]:
    job = WordJob(f"simulated:contexts={contexts}", samples=30, **options)  # type: ignore[arg-type]
    with run_job(job, tmp_path / name) as store:
        write(item_rows(store), tmp_path / f"{name}.csv")
    return (tmp_path / f"{name}.csv").read_text().splitlines()


def test_repeated_run_gives_same_bytes(tmp_path: Path) -> None:
    first = exported(tmp_path, "a", models=("toy",), seed=3)
    assert first == exported(tmp_path, "b", models=("toy",), seed=3)
    assert first != exported(tmp_path, "c", models=("toy",), seed=4)


def test_items_do_not_depend_on_other_items_or_systems(tmp_path: Path) -> None:
    small = exported(tmp_path, "a", models=("toy",))
    large = exported(tmp_path, "b", contexts=110, models=("toy:temperature=2", "toy"))
    assert set(small) <= set(large)


def test_rescoring_does_not_change_bytes(tmp_path: Path) -> None:
    from aleatoric.levels.word import score_word

    first = exported(tmp_path, "a", models=("toy",))
    with Store.resume(tmp_path / "a") as store:
        score_word(store)
        write(item_rows(store), tmp_path / "again.csv")
    assert (tmp_path / "again.csv").read_text().splitlines() == first


def test_repeated_command_resumes_the_run(tmp_path: Path) -> None:
    first = exported(tmp_path, "a", models=("toy",))
    assert exported(tmp_path, "a", models=("toy",)) == first
