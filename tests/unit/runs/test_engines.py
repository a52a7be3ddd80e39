"""Engines without a cluster: rejected options, and results and errors of an actor's worker."""

from __future__ import annotations

import ipaddress
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from aleatoric import errors
from aleatoric.errors import DataError, MissingExtraError, ModelError, UsageError
from aleatoric.models.base import Ask
from aleatoric.nextword.tree import ContextError
from aleatoric.runs.engine import check_engine
from aleatoric.runs.job import EngineOptions, Loading
from aleatoric.runs.ray import check_address, size_of
from aleatoric.runs.ray_workers import Failure, ModelFacts, ModelSource, ModelWorker, PoolSize
from aleatoric.types import Item

ITEMS = [Item(f"1:{i}", "1", f"ba {i}", ("x",)) for i in range(4)]


@pytest.mark.parametrize(
    ("options", "expected_message"),
    [
        (EngineOptions("dask"), "there is no engine 'dask'; use local or ray"),
        (EngineOptions(address="auto"), "--address is for a cluster; add --engine ray"),
        (EngineOptions(actors=2), "--actors is for a cluster"),
        (EngineOptions(cpus=0.5), "--actor-cpus is for a cluster"),
        (EngineOptions(gpus=0), "--actor-gpus is for a cluster"),
    ],
)
def test_cluster_options_without_ray_are_rejected(
    options: EngineOptions, expected_message: str
) -> None:
    with pytest.raises(UsageError, match=expected_message):
        check_engine(options)


@pytest.mark.parametrize("share", [1e-5, 0.00015, 1.00001, float("nan"), float("inf"), -1.0])
def test_invalid_resource_shares_are_rejected(share: float) -> None:
    with pytest.raises(UsageError, match=r"--actor-cpus .* give a multiple of 0.0001"):
        check_engine(EngineOptions("ray", cpus=share))
    with pytest.raises(UsageError, match=r"--actor-gpus .* give a multiple of 0.0001"):
        check_engine(EngineOptions("ray", gpus=share))


@pytest.mark.parametrize("parts", [0, 1, 3, 1234, 3333, 7001, 9999, 10_000, 40_000])
def test_valid_resource_shares_are_accepted(parts: int) -> None:
    check_engine(EngineOptions("ray", cpus=parts / 10_000, gpus=float(f"{parts / 10_000:.4f}")))


def test_fractional_gpus_above_one_are_rejected() -> None:
    check_engine(EngineOptions("ray", cpus=1.5))
    with pytest.raises(UsageError, match=r"--actor-gpus 1.5 is not a number of GPUs"):
        check_engine(EngineOptions("ray", gpus=1.5))


@pytest.mark.parametrize("address", ["here", ":6379", "host:", "host:port", "host:99999", "ray://"])
def test_invalid_cluster_address_is_rejected(address: str) -> None:
    with pytest.raises(UsageError, match="is no address"):
        check_address(address)


def test_unreachable_cluster_address_is_rejected_immediately() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(UsageError, match="start one with ray start --head"):
        check_address(f"127.0.0.1:{port}")


@pytest.mark.parametrize(
    ("options", "nodes", "wants_gpu", "size"),
    [
        ({}, [{"CPU": 64, "GPU": 8}], True, PoolSize(8, 1, 1)),
        ({}, [{"CPU": 64, "GPU": 8}], False, PoolSize(16, 4, 0)),
        ({"gpus": 0.5}, [{"CPU": 64, "GPU": 8}], True, PoolSize(16, 1, 0.5)),
        ({"actors": 3}, [{"CPU": 64, "GPU": 8}], True, PoolSize(3, 1, 1)),
        ({"cpus": 8}, [{"CPU": 20}, {"CPU": 7}], True, PoolSize(2, 8, 0)),
        ({}, [{"CPU": 1}, {"CPU": 0}], True, PoolSize(1, 1, 0)),
        ({"actors": 2}, [{"CPU": 2}], True, PoolSize(2, 1, 0)),
        ({"actors": 5}, [{"CPU": 2}], True, PoolSize(5, 1, 0)),
    ],
)
def test_default_number_of_actors_fills_the_nodes(
    options: dict, nodes: list, wants_gpu: bool, size: PoolSize
) -> None:
    assert size_of(EngineOptions("ray", **options), nodes, wants_gpu) == size


@pytest.mark.parametrize(
    "error",
    [
        UsageError("use toy."),
        DataError.at("a.jsonl", 3, "is bad", "mend it"),
        MissingExtraError("torch", "hf"),
        ContextError(2, "too long"),
    ],
)
def test_error_round_trips_through_failure(error: errors.AleatoricError) -> None:
    back = Failure.of(error).error()
    assert (str(back), back.status) == (str(error), error.status)
    assert isinstance(error, type(back))


def test_worker_returns_results_of_its_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    worker = ModelWorker(ModelSource("words", "toy", Loading(), str(tmp_path)))
    facts = worker.load()
    assert isinstance(facts, ModelFacts)
    assert (facts.label, facts.estimator, facts.is_tallied) == ("toy", "mc", False)
    answers = worker.answer(ITEMS, Ask("ancestral", 5, 0))
    assert [answer.item_id for answer, _ in answers.given] == [item.id for item in ITEMS]
    assert answers.failure is None


def test_worker_reports_loading_and_sampling_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    bad = ModelWorker(ModelSource("words", "toy:heat=1", Loading(), str(tmp_path))).load()
    assert isinstance(bad, Failure)
    assert bad.kind == "UsageError"
    worker = ModelWorker(ModelSource("words", "toy", Loading(), str(tmp_path)))
    worker.load()
    answers = worker.answer(ITEMS, Ask("top_k=2", 5, 0))
    assert answers.failure is not None
    assert "has no decoder" in answers.failure.message


def test_answers_before_an_error_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wayward = pytest.importorskip("wayward")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "aleatoric.runs.ray_workers.open_model", lambda spec, loading: wayward.load(spec)
    )
    (tmp_path / "error-1:2").touch()
    worker = ModelWorker(ModelSource("words", str(tmp_path), Loading(), str(tmp_path)))
    worker.load()
    answers = worker.answer(ITEMS, Ask("ancestral", 5, 0))
    assert [answer.item_id for answer, _ in answers.given] == ["1:0", "1:1"]
    assert answers.failure is not None
    assert isinstance(answers.failure.error(), ModelError)


def test_token_level_reports_that_it_is_not_distributed(cli: Callable, tmp_path: Path) -> None:
    story = tmp_path / "story.txt"
    story.write_text("Once upon a time.")
    ran = cli("token", "--corpus", story, "--model", "smollm2", "--engine", "ray")
    assert ran.status == 2
    assert "the token level works in one process" in ran.err


OWN_CLUSTER = """
import json, os, sys
from contextlib import ExitStack
from pathlib import Path
import psutil
from aleatoric.runs.engine import EngineOptions
from aleatoric.runs.ray import connect
with ExitStack() as leaving:
    ray = connect(EngineOptions("ray"), leaving)
    mine = [psutil.Process(), *psutil.Process().children(recursive=True)]
    open_ = [own for one in mine for own in one.net_connections() if own.status == "LISTEN"]
    folder = Path(ray._private.worker._global_node.get_temp_dir_path()).parent
    mode, heard = folder.stat().st_mode & 0o777, {own.laddr.ip for own in open_}
left = {name for name in os.environ if name.startswith("RAY_AUTH")}
print(json.dumps([sorted(heard), mode, folder.exists(), sorted(left)]))
"""


@pytest.mark.long
def test_local_cluster_is_private(tmp_path: Path) -> None:
    """It listens only on loopback, and other users cannot read its folder or token."""
    pytest.importorskip("ray", reason='Ray is absent: pip install "aleatoric[ray]"')
    home = os.environ | {"HOME": str(tmp_path)}
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        home.pop(name, None)
    command = [sys.executable, "-c", OWN_CLUSTER]
    ran = subprocess.run(command, env=home, capture_output=True, text=True, check=True)
    heard, mode, stays, left = json.loads(ran.stdout.splitlines()[-1])
    assert heard
    assert all(ipaddress.ip_address(ip.removeprefix("::ffff:")).is_loopback for ip in heard)
    assert (mode, stays, left) == (0o700, False, [])
    assert not [*tmp_path.rglob("auth_token")]
