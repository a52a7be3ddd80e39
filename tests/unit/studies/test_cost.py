"""The cost model: relations that hold exactly because it is deterministic."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aleatoric.errors import UsageError
from aleatoric.studies.cost import (
    ADVICE,
    DEVICES,
    Machine,
    Work,
    device_named,
    gpus_for,
    parse_parameters,
    predict,
    tokens,
)

CPU, H200 = DEVICES["cpu"], DEVICES["h200"]
sizes = st.one_of(st.none(), st.integers(2, 10**6))
counts = st.integers(1, 10**9)


@given(counts, sizes, st.floats(1e6, 1e12), st.sampled_from(sorted(DEVICES)))
def test_cost_is_monotone(contexts: int, samples: int | None, parameters: float, name: str) -> None:
    machine = Machine(DEVICES[name])
    small = predict(Work(contexts, samples), parameters, machine)
    large = predict(Work(2 * contexts, samples), parameters, machine)
    assert large.tokens == pytest.approx(2 * small.tokens)
    assert large.model == pytest.approx(2 * small.model)
    assert large.disk == pytest.approx(2 * small.disk)
    assert predict(Work(contexts, samples), 2 * parameters, machine).load >= small.load
    assert small.bottleneck in ADVICE
    assert small.seconds >= max(small.model, small.write, small.score)


@given(st.integers(1, 10**4), sizes)
def test_workers_divide_only_model_time(workers: int, samples: int | None) -> None:
    work = Work(10**6, samples)
    one = predict(work, 70e9, Machine(H200, 1, "bfloat16"))
    many = predict(work, 70e9, Machine(H200, workers, "bfloat16"))
    assert many.model == pytest.approx(one.model / workers)
    assert (many.write, many.score, many.disk) == (one.write, one.score, one.disk)
    assert many.gpus == workers * one.gpus == 2 * workers
    assert many.load >= one.load


def test_samples_share_prefix_computation() -> None:
    few, many = (tokens(Work(1, n, context_tokens=0)) for n in (100, 1000))
    assert few < many < 10 * few
    assert tokens(Work(1, 10, 0, new_tokens=50)) == 500


def test_prediction_matches_h200_measurement() -> None:
    """2687 contexts of Provo on an H200 with GPT-2 small's shape: 0.76 s and 6.66 s in float32."""
    for samples, seconds in ((None, 0.76), (1000, 6.66)):
        found = predict(Work(2687, samples), 124e6, Machine(H200)).model
        assert found == pytest.approx(seconds, rel=0.1)


def test_number_of_gpus_per_model_follows_memory() -> None:
    assert gpus_for(2 * 70e9, H200) == 2
    assert gpus_for(2 * 7e9, DEVICES["l4"]) == 1
    assert gpus_for(4 * 70e9, DEVICES["a100"]) == 5


@pytest.mark.parametrize("text", ["", "big", "0", "-7B", "1e9", "7 B B", "9" * 99, "²", "٣B"])
def test_invalid_model_sizes_are_rejected(text: str) -> None:
    with pytest.raises(UsageError, match="--parameters"):
        parse_parameters(text)


def test_unknown_devices_and_dtypes_are_rejected() -> None:
    with pytest.raises(UsageError, match="use cpu, h200"):
        device_named("abacus", "float32")
    with pytest.raises(UsageError, match="use float32"):
        device_named("cpu", "bfloat16")


def test_text_cost_defaults_to_sampling(cli: Callable) -> None:
    ran = cli("plan", "--cost", "--new-tokens", 100, "--json")
    assert [one["samples"] for one in json.loads(ran.out)["costs"]] == [1000]


def test_plan_cost_command(cli: Callable) -> None:
    asked = ("plan", "--cost", "--contexts", 10**6, "--parameters", "70B", "--device", "h200")
    ran = cli(*asked, "--dtype", "bfloat16", "--workers", 1, "--workers", 1000, "--json")
    assert ran.status == 0, ran.err
    costs = json.loads(ran.out)["costs"]
    assert [(one["samples"], one["workers"]) for one in costs] == [
        *((None, 1), (None, 1000)),
        *((1000, 1), (1000, 1000)),
    ]
    assert costs[1]["gpus"] == 2000
    assert costs[1]["bottleneck"] == "load"
    shown = cli(*asked, "--dtype", "bfloat16", "--samples", "exact")
    assert "2 x h200" in shown.out
    assert "Where " in shown.out
