"""Full disks, read-only paths, damaged databases, older versions: clear errors, no data loss."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from canonical_run import canonical_bytes
from marks import sampled

from aleatoric.errors import AleatoricError, DataError, StorageError, UsageError
from aleatoric.levels import base
from aleatoric.levels.base import resume_run, run_job
from aleatoric.levels.word import WordJob
from aleatoric.runs.disk import LockedError
from aleatoric.runs.formats import DATABASE
from aleatoric.runs.run import Store
from aleatoric.runs.salvage import salvage
from aleatoric.types import Item

JOB = WordJob("simulated:contexts=120,people=6", ("toy",), samples=10, n_splits=2)
PAGE_SIZE = 4096


def canonical(path: Path) -> bytes:
    with Store.open(path) as store:
        return canonical_bytes(store)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An undamaged run."""
    path = tmp_path_factory.mktemp("whole") / "run"
    run_job(JOB, path).close()
    return path


def copy_of(whole: Path, folder: Path) -> Path:
    return Path(shutil.copytree(whole, folder / "run"))


# Full disks --------------------------------------------------------------------------------


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """A separate small file system; creating it requires root."""
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)],
        capture_output=True,
        check=False,
    )
    if made.returncode:
        pytest.skip("a small file system cannot be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.skipif(shutil.which("mount") is None, reason="there is no mount here")
def test_full_disk_is_reported_and_run_resumes_elsewhere(whole: Path, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "160k") as disk:
        with pytest.raises(StorageError, match=r"the disk is full; .*aleatoric resume") as told:
            run_job(JOB, disk / "run")
        assert told.value.status == 1
        with Store.open(disk / "run") as store:
            assert 0 < store.n_items_with_draws("toy") <= 120
        shutil.copytree(disk / "run", tmp_path / "roomy")
    resume_run(tmp_path / "roomy").close()
    assert canonical(tmp_path / "roomy") == canonical(whole)


@pytest.mark.long
def test_file_size_limit_stops_run_without_data_loss(whole: Path, tmp_path: Path) -> None:
    """A real write(2) failure, in a process with a file size limit."""
    program = (
        "import resource, sys; from aleatoric.cli import main\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, resource.RLIM_INFINITY))\n"
        "main()"
    )
    asked = ["word", "--corpus", JOB.corpus, "--model", "toy", "--samples", "10"]
    done = subprocess.run(
        [sys.executable, "-c", program, *asked, "--splits", "2", "--out", str(tmp_path / "run")],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert "continue with aleatoric resume" in done.stderr
    resume_run(tmp_path / "run").close()
    assert canonical(tmp_path / "run") == canonical(whole)


def test_disk_full_at_start_leaves_no_run(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "16k") as disk:
        with pytest.raises(StorageError, match=r"disk is full; .*repeat the command"):
            run_job(JOB, disk / "run")
        assert not (disk / "run").exists()


# Read-only places --------------------------------------------------------------------------


@contextmanager
def read_only(folder: Path) -> Iterator[Path]:
    """Make a folder read-only; for root, through a read-only mount."""
    if os.geteuid():
        folder.chmod(0o555)
        try:
            yield folder
        finally:
            folder.chmod(0o755)
        return
    bind = ["mount", "--bind", str(folder), str(folder)]
    if subprocess.run(bind, capture_output=True, check=False).returncode:
        pytest.skip("root can write everywhere, and may not mount here")
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", str(folder)], check=True)
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_read_only_run_is_scored_without_writing(
    whole: Path, tmp_path: Path, cli: Callable[..., Any]
) -> None:
    run = copy_of(whole, tmp_path)
    before, files = (run / DATABASE).read_bytes(), sorted(run.iterdir())
    shown = cli("score", whole, "--json").out
    with read_only(run):
        ran = cli("score", run, "--json")
        assert (ran.status, ran.out) == (0, shown)
        assert "cannot be written" in refused(cli, "resume", run)
        assert sorted(run.iterdir()) == files
    assert (run / DATABASE).read_bytes() == before


def test_read_only_location_for_new_run_is_rejected(
    tmp_path: Path, cli: Callable[..., Any]
) -> None:
    (tmp_path / "place").mkdir()
    asked = ("word", "--corpus", JOB.corpus, "--model", "toy", "--out", tmp_path / "place" / "run")
    with read_only(tmp_path / "place"):
        assert "cannot be written" in refused(cli, *asked)


def refused(cli: Callable[..., Any], *arguments: object) -> str:
    ran = cli(*arguments)
    assert ran.status == 2, ran.err
    assert ran.err.startswith("error: ")
    assert ran.err.count("\n") == 1
    return str(ran.err)


def test_unopenable_run_is_not_reported_as_unwritable(
    whole: Path, tmp_path: Path, cli: Callable[..., Any]
) -> None:
    run = copy_of(whole, tmp_path)
    (run / f"{DATABASE}-wal").mkdir()  # root may read whatever is only forbidden
    for command in (("score", run), ("compare", run), ("view", run)):
        message = refused(cli, *command)
        assert "run.sqlite-wal: is a link or not a regular file; copy the run" in message
        assert "--out" not in message


@pytest.mark.parametrize(
    ("name", "pasted"), [("my run", "'my run'"), ("-dash", "./-dash"), ("a\x1bb", r"'a\x1bb'")]
)
def test_printed_command_is_quoted_for_the_shell(
    name: str,
    pasted: str,
    tmp_path: Path,
    cli: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.jsonl").write_text('{"id": 1, "input": "A dog", "references": ["a b", "b c"]}\n')
    few = ("--probe", "lexical-1", "--tokeniser", "whitespace", "--splits", 2)
    ran = cli("text", "--corpus", "t.jsonl", *few, f"--out={name}")
    assert ran.err.endswith(f"see it again with: aleatoric score {pasted}\n")


@pytest.mark.parametrize("arguments", sampled([("--json",), ()], [("--json",)]))
def test_full_stdout_is_not_reported_as_run_error(whole: Path, arguments: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "aleatoric", "score", str(whole), *arguments]
    with open("/dev/full", "w") as full:
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stderr.startswith("error: the output cannot be written (No space left on device);")
    assert ended.stderr.count("\n") == 1


# Damage ------------------------------------------------------------------------------------


def damage(run: Path, pages: list[int], seed: int) -> None:
    """Overwrite whole pages of a database with random bytes."""
    data, rng = bytearray((run / DATABASE).read_bytes()), random.Random(seed)
    for page in pages:
        data[page * PAGE_SIZE : (page + 1) * PAGE_SIZE] = rng.randbytes(PAGE_SIZE)
    (run / DATABASE).write_bytes(data)


@pytest.mark.parametrize("seed", sampled(range(4), [0]))
def test_salvage_keeps_intact_rows_and_resume_repeats_the_rest(
    seed: int, whole: Path, tmp_path: Path, cli: Callable[..., Any]
) -> None:
    run = copy_of(whole, tmp_path)
    n_pages = (run / DATABASE).stat().st_size // PAGE_SIZE
    # The first two pages say what the database and the run are; without them, nothing is.
    damage(run, random.Random(seed).sample(range(2, n_pages), 1 + 2 * seed), seed)
    before = (run / DATABASE).read_bytes()
    scored = cli("score", run, "--json")
    assert (scored.status, scored.err.count("\n")) in ((0, 0), (2, 1)), scored.err
    damaged = (run / DATABASE).read_bytes()
    ran = cli("resume", run, "--salvage", tmp_path / "new")
    assert ran.status == 0, ran.err
    assert "items are intact" in ran.err
    assert (run / DATABASE).read_bytes() == damaged
    assert before
    assert cli("resume", tmp_path / "new", "--json").status == 0
    assert canonical(tmp_path / "new") == canonical(whole)


@pytest.mark.parametrize(
    ("left", "at_a_page"), [(0.99, True), (0.9, False), (0.5, True), (0.2, False)]
)
def test_truncated_database_is_reported_and_salvaged(
    left: float, at_a_page: bool, whole: Path, tmp_path: Path, cli: Callable[..., Any]
) -> None:
    """As left by an interrupted copy."""
    run = copy_of(whole, tmp_path)
    size = int((run / DATABASE).stat().st_size * left)
    os.truncate(run / DATABASE, size - size % PAGE_SIZE if at_a_page else size)
    assert "is damaged" in refused(cli, "score", run)
    ran = cli("resume", run, "--salvage", tmp_path / "new")
    assert ran.status == 0, ran.err
    assert cli("resume", tmp_path / "new", "--json").status == 0
    assert canonical(tmp_path / "new") == canonical(whole)


def test_damaged_run_error_names_salvage(
    whole: Path, tmp_path: Path, cli: Callable[..., Any]
) -> None:
    run = copy_of(whole, tmp_path)
    n_pages = (run / DATABASE).stat().st_size // PAGE_SIZE
    damage(run, list(range(3, n_pages)), 0)
    for command in ("score", "resume"):
        message = refused(cli, command, run)
        assert "is damaged or no run; restore a copy, or save what is intact with" in message
    damage(run, [0, 1], 0)
    assert "is damaged" in refused(cli, "score", run)
    assert "is damaged" in refused(cli, "resume", run, "--salvage", tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE draws SET payload = '{\"cou' WHERE item = 7",
        "UPDATE draws SET payload = replace(payload, ':1', ':9') WHERE item = 7",
        "UPDATE draws SET payload = x'ff00' WHERE item = 7",
        "UPDATE draws SET checksum = checksum + 1 WHERE item = 7",
        "UPDATE draws SET row = 1 WHERE item = 7",
        "UPDATE draws SET item = 1007 WHERE item = 7",
        "UPDATE draws SET system = 9 WHERE item = 7",
    ],
    ids=["no JSON", "another number", "no text", "no seal", "another row", "no item", "no system"],
)
def test_changed_row_is_detected_as_damage(change: str, whole: Path, tmp_path: Path) -> None:
    run = copy_of(whole, tmp_path)
    with closing(sqlite3.connect(run / DATABASE)) as database, database:
        database.execute(change)
    with pytest.raises(DataError, match="is damaged"), Store.open(run) as store:
        base.score(store)
    assert salvage(run, tmp_path / "new")[1] == "toy: the answers to 119 items are intact"
    resume_run(tmp_path / "new").close()
    assert canonical(tmp_path / "new") == canonical(whole)


def test_draws_under_wrong_item_key_are_detected_as_damage(whole: Path, tmp_path: Path) -> None:
    run = copy_of(whole, tmp_path)
    with closing(sqlite3.connect(run / DATABASE)) as database, database:
        for change in ("item = 500 WHERE item = 7", "item = 7 WHERE item = 8"):
            database.execute(f"UPDATE draws SET {change}")
        database.execute("UPDATE draws SET item = 8 WHERE item = 500")
    with pytest.raises(DataError, match="is damaged"), Store.open(run) as store:
        base.score(store)
    assert salvage(run, tmp_path / "new")[1] == "toy: the answers to 118 items are intact"


@pytest.mark.long
def test_any_flipped_bit_is_detected_or_harmless(whole: Path, tmp_path: Path) -> None:
    """One bit at a time: the run is either read unchanged or rejected."""
    data, rng = (whole / DATABASE).read_bytes(), random.Random(3)
    expected, refused_runs = canonical(whole), 0
    for number in range(100):
        run = tmp_path / str(number)
        run.mkdir()
        changed = bytearray(data)
        changed[rng.randrange(2 * PAGE_SIZE, len(data))] ^= 1 << rng.randrange(8)
        (run / DATABASE).write_bytes(changed)
        try:
            with Store.open(run) as store:
                store.check_whole()  # as scoring and resuming do
                assert canonical_bytes(store) == expected
        except AleatoricError:
            refused_runs += 1
    assert refused_runs > 20


# Other formats ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "fix"), [(99, "update aleatoric"), (4, "run the original command again")]
)
def test_run_of_another_format_version_is_rejected(
    version: int, fix: str, whole: Path, tmp_path: Path
) -> None:
    run = copy_of(whole, tmp_path)
    with closing(sqlite3.connect(run / DATABASE)) as database, database:
        database.execute(f"PRAGMA user_version = {version}")
    for opened in (Store.open, Store.resume):
        with pytest.raises(UsageError, match=f"has run format {version}.*; {fix}"):
            opened(run)
    assert salvage(run, tmp_path / "new")[0] == "120 of 120 items are intact"


def with_weights(whole: Path, folder: Path) -> Path:
    """A run with files next to its database, as written by fine-tuning."""
    run = copy_of(whole, folder)
    (run / "training" / "text").mkdir(parents=True)
    (run / "training" / "text" / "whole").write_bytes(bytes(300_000))
    return run


def test_salvage_skips_and_names_unreadable_files(whole: Path, tmp_path: Path) -> None:
    run = with_weights(whole, tmp_path)
    gone = run / "training" / "text" / "gone"
    gone.symlink_to(tmp_path / "nowhere")
    assert salvage(run, tmp_path / "new")[0] == f"{gone} cannot be read and is left out"
    copied = tmp_path / "new" / "training" / "text"
    assert [file.name for file in copied.iterdir()] == ["whole"]
    with Store.open(tmp_path / "new") as store:
        assert store.meta("finished models") is None  # the files that are lost are made again


def test_disk_full_during_salvage_leaves_no_files(whole: Path, tmp_path: Path) -> None:
    run = with_weights(whole, tmp_path)
    with small_disk(tmp_path / "disk", "300k") as disk:
        with pytest.raises(StorageError, match=r"disk is full; .*repeat the command"):
            salvage(run, disk / "new")
        assert not (disk / "new").exists()


# Beginnings and locks ----------------------------------------------------------------------


@pytest.mark.parametrize("left", [(), ("run.lock",)])
def test_run_without_database_names_original_command(left: tuple[str, ...], tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    for name in left:
        (run / name).write_text("")
    with pytest.raises(UsageError, match="the original command starts it"):
        Store.resume(run)
    run_job(JOB, run).close()


def test_run_without_first_transaction_is_restarted(whole: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    sqlite3.connect(run / DATABASE).execute("PRAGMA journal_mode = WAL").connection.close()
    with pytest.raises(UsageError, match="stopped before it began; the original command"):
        Store.open(run)
    run_job(JOB, run).close()
    assert canonical(run) == canonical(whole)


def test_one_writer_at_a_time_and_stale_lock_is_released(tmp_path: Path) -> None:
    store = Store.create(tmp_path / "run", {"level": "word"})
    for second in (Store.resume, lambda path: Store.create(path, {})):
        with pytest.raises(LockedError, match=f"being written by process {os.getpid()} since"):
            second(tmp_path / "run")
    store.close()
    assert not (tmp_path / "run" / "run.lock").exists()
    # What a killed process leaves: the file, but nobody's lock on it.
    (tmp_path / "run" / "run.lock").write_text('{"process": 1, "host": "x", "since": "then"}')
    Store.resume(tmp_path / "run").close()


@pytest.mark.parametrize("kind", ["a link", "a hard link", "a folder", "a pipe"])
def test_invalid_lock_file_is_rejected_and_left_unchanged(
    kind: str, tmp_path: Path, cli: Callable[..., Any]
) -> None:
    """A run may be untrusted: its lock must not redirect writes to a user's file."""
    run_job(replace(JOB, models=()), tmp_path / "run").close()
    precious, lock = tmp_path / "precious", tmp_path / "run" / "run.lock"
    precious.write_text("mine")
    put = {"a link": lambda: lock.symlink_to(precious), "a folder": lock.mkdir}
    put |= {"a hard link": lambda: lock.hardlink_to(precious), "a pipe": lambda: os.mkfifo(lock)}
    put[kind]()
    for command in ("score", "resume"):
        assert "run.lock: is no lock of a run but another file" in refused(
            cli, command, tmp_path / "run"
        )
    assert precious.read_text() == "mine"


def test_reader_sees_snapshot_during_writes(tmp_path: Path) -> None:
    items = [Item(str(n), "g", f"{n}", ("x", "y"), "x") for n in range(4)]
    asked = WordJob("simulated:contexts=4,people=4", ("toy",), samples=5, n_splits=2)
    run_job(asked, tmp_path / "run").close()
    writer = Store.resume(tmp_path / "run")
    with Store.open(tmp_path / "run") as reader:
        base.score(reader)  # the run is another's to write: computed apart
        before = [result.to_dict() for result in base.results(reader)]
        writer.add_items(Item(f"new {item.id}", "g", "a b", ("x",)) for item in items)
        assert (writer.n_items, reader.n_items) == (8, 4)
        assert [result.to_dict() for result in base.results(reader)] == before
    writer.close()


def test_manifest_round_trips_every_job_option(tmp_path: Path) -> None:
    from dataclasses import replace

    job = replace(
        JOB,
        corpus="simulated:contexts=3,people=4",
        models=("toy:temperature=2", "toy"),
        samples=7,
        tolerance=0.5,
        protocol="paper",
        choose=("bins=closed",),
        seed=5,
        remarks=("made up",),
    )
    with run_job(job, tmp_path / "run") as store:
        assert WordJob.from_manifest(store.manifest, {}) == job
        changes = {"device": "cpu", "trust_remote_code": True}
        changed = WordJob.from_manifest(store.manifest, changes)
    assert (changed.loading.device, changed.loading.trust_remote_code) == ("cpu", True)


def test_changed_corpus_is_rejected_when_needed(tmp_path: Path) -> None:
    people = tmp_path / "people.jsonl"
    people.write_text('{"context": "a", "responses": ["x", "y"]}\n' * 3)
    job = WordJob(str(people), (), n_splits=2)
    run_job(job, tmp_path / "run").close()
    with Store.resume(tmp_path / "run") as store:
        store.db.execute("DELETE FROM items WHERE no = 2")
        store.db.execute("DELETE FROM meta WHERE key = 'complete'")
    people.write_text('{"context": "b", "responses": ["x", "y"]}\n' * 3)
    with pytest.raises(AleatoricError, match="is not what it was when the run began"):
        resume_run(tmp_path / "run")
