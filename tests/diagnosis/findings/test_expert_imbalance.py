"""All-to-alls in which some ranks get more tokens than the others."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.diagnosis.findings.thresholds import Case, cases, least_price, price
from tests.diagnosis.findings.training_jobs import (
    US,
    Compute,
    Meet,
    diagnosed,
    found,
    layers,
    write_training,
)

EVERYBODY = (0, 1, 2, 3)
TOKENS = 1000


BALANCED_MS = 4 * (2 - 1)
"""In each of four layers, the busiest rank has 2 ms of work, and the mean rank 1 ms."""


def experts(busiest, times=2.0):
    """Tokens go out, experts work as long as they have tokens, and tokens come back."""

    def program(rank, step):
        rest = (4 - times) / 3
        items = []
        for layer in range(4):
            busy = busiest(step, layer)
            tokens = {each: round(TOKENS * (times if each == busy else rest)) for each in EVERYBODY}
            items += [
                *layers(2, 200 * US),
                Meet(EVERYBODY, 50 * US, "all_to_all", "ep", TOKENS, tokens),
                Compute(tokens[rank] * US, name="expert", shape=f"[[{tokens[rank]}, 64]]"),
                Meet(
                    EVERYBODY, 50 * US, "all_to_all", "ep", tokens, dict.fromkeys(EVERYBODY, TOKENS)
                ),
            ]
        return items

    return program


def test_the_rank_with_most_tokens_is_named(tmp_path):
    made = diagnosed(write_training(tmp_path, 4, experts(lambda _step, _layer: 2)))

    finding = found(made, "expert_imbalance")
    assert finding.ranks == (2,)
    assert finding.sentence.startswith("Rank 2 gets 2 times the mean number of elements")
    assert finding.recoverable_ms == pytest.approx(BALANCED_MS, rel=0.01)
    assert finding.evidence["elements"]["times_the_mean"].round(2).tolist() == [
        0.67,
        0.67,
        2.0,
        0.67,
    ]
    assert not found(made, "workload_imbalance")
    assert not found(made, "slow_gpu")


@pytest.mark.parametrize("steps", [(0, 1, 2, 3), (0, 2)], ids=["slow_gpu", "gpu_throttling"])
def test_kernels_of_experts_that_may_have_more_tokens_tell_nothing_of_a_gpu(tmp_path, steps):
    """Without shapes, and with as many blocks whatever their work."""
    program = experts(lambda step, layer: 2 if step in steps else layer)
    made = diagnosed(write_training(tmp_path, 4, program, shapes=False))
    assert found(made, "expert_imbalance").ranks == (2,)
    assert {each.cause for each in made} == {"expert_imbalance"}


def test_a_slow_gpu_is_another_than_that_of_the_busiest_rank(tmp_path):
    def program(rank, step):
        items = experts(lambda _step, _layer: 2, 1.5)(rank, step)
        return (
            [
                replace(each, ns=round(each.ns * 2.5)) if isinstance(each, Compute) else each
                for each in items
            ]
            if rank == 1
            else items
        )

    made = diagnosed(write_training(tmp_path, 4, program, shapes=False))
    assert found(made, "slow_gpu").ranks == (1,)


def test_no_rank_is_named_if_it_is_another_one_in_each_layer(tmp_path):
    made = diagnosed(write_training(tmp_path, 4, experts(lambda _step, layer: layer)))

    finding = found(made, "expert_imbalance")
    assert finding.ranks == ()
    assert "a different rank each time" in finding.sentence


def test_even_exchanges_are_silent(tmp_path):
    assert not diagnosed(write_training(tmp_path, 4, experts(lambda _step, _layer: 2, 1.0)))


def test_a_slow_gpu_among_even_exchanges_is_no_matter_of_experts(tmp_path):
    def program(rank, step):
        items = experts(lambda _step, _layer: 2, 1.0)(rank, step)
        return [
            Compute(round(each.ns * 1.4), each.name, each.shape)
            if rank == 1 and isinstance(each, Compute)
            else each
            for each in items
        ]

    made = diagnosed(write_training(tmp_path, 4, program))
    assert not found(made, "expert_imbalance")
    assert found(made, "slow_gpu").ranks == (1,)


@pytest.mark.parametrize("launches", [True, False], ids=["launches recorded", "launches lost"])
def test_what_passes_before_the_first_mark_costs_nothing(tmp_path, launches):
    folder = write_training(tmp_path, 4, experts(lambda _step, _layer: 2), steps=6)
    for file in folder.glob("*.json"):
        trace = json.loads(file.read_text())
        marks = [each for each in trace["traceEvents"] if each["name"] == "ProfilerStep#12"]
        trace["traceEvents"] = [
            each
            for each in trace["traceEvents"]
            if not each["name"].startswith(("ProfilerStep#10", "ProfilerStep#11"))
            and (launches or each["ts"] >= marks[0]["ts"] or "stream" in each.get("args", {}))
        ]
        file.write_text(json.dumps(trace))

    finding = found(diagnosed(folder), "expert_imbalance")
    assert finding.ranks == (2,)
    assert finding.steps == (12, 13, 14, 15)
    assert finding.recoverable_ms == pytest.approx(BALANCED_MS, rel=0.01)


def unequal(folder, times):
    return diagnosed(write_training(folder, 4, experts(lambda _step, _layer: 2, times), steps=2))


test_what_uneven_exchanges_must_cost = least_price(
    "expert_imbalance", "least_percent", lambda folder: unequal(folder, 2.0)
)

test_thresholds = cases(
    Case(
        "Limits.uneven_exchange",
        lambda folder, times: price(unequal(folder, times), "expert_imbalance"),
        {1.19: None, 1.21: 4 * 0.21},
    ),
    Case(
        "Limits.overloaded_rank",
        lambda folder, times: found(unequal(folder, times), "expert_imbalance").ranks,
        {1.24: (), 1.26: (2,)},
    ),
)
