"""Stages of a pipeline that wait for micro-batches."""

from __future__ import annotations

import pytest

from tests.diagnosis.findings.pipelines import pipeline
from tests.diagnosis.findings.thresholds import Case, cases, least_price, share
from tests.diagnosis.findings.training_jobs import (
    US,
    Compute,
    Meet,
    diagnosed,
    found,
    write_training,
)


def even(batches, stages=4, copies=1, send_us=20):
    return pipeline(
        stages,
        batches,
        lambda _rank, _step: 300 * US,
        copies=copies,
        transfer_ns=lambda _sender, _receiver: send_us * US,
    )


def test_few_micro_batches_leave_a_bubble(tmp_path):
    made = diagnosed(write_training(tmp_path, 4, even(4)))

    finding = found(made, "pipeline_bubble")
    assert finding.ranks == (0, 1, 2, 3)
    assert finding.recoverable_ms == pytest.approx(3 * 0.9, rel=0.2)
    assert finding.evidence["micro_batches"] == 4
    assert finding.evidence["least_bubble_percent"] == pytest.approx(300 / 7)
    assert "4 micro-batches leave 42.9 % of it empty" in finding.sentence
    assert not found(made, "exposed_communication")


def test_many_micro_batches_are_silent(tmp_path):
    assert not diagnosed(write_training(tmp_path, 4, even(32, send_us=5)))


def test_copies_of_a_pipeline_have_one_bubble(tmp_path):
    made = diagnosed(write_training(tmp_path, 8, even(4, copies=2)))
    assert found(made, "pipeline_bubble").ranks == tuple(range(8))


def test_waiting_for_a_slow_gpu_is_no_bubble(tmp_path):
    def forward_ns(rank, _step):
        return (600 if rank == 5 else 300) * US

    made = diagnosed(write_training(tmp_path, 8, pipeline(4, 32, forward_ns, copies=2)))
    assert found(made, "slow_gpu").ranks == (5,)
    assert not found(made, "pipeline_bubble")


def test_without_sends_in_both_directions_there_is_no_pipeline(tmp_path):
    def program(rank, step):
        del step
        items = []
        for _ in range(4):
            items.append(Compute((900 if rank == 0 else 100) * US, shape=f"[[{rank}]]"))
            items += [
                Meet((k, k + 1), 20 * US, "p2p", "cp") for k in range(3) if rank in {k, k + 1}
            ]
        return items

    assert not found(diagnosed(write_training(tmp_path, 4, program)), "pipeline_bubble")


def with_rest(folder, rest_us):
    """Two stages that wait 0.9 ms and send eight times, and then compute together."""
    program = even(4, stages=2)

    def with_more(rank, step):
        return [*program(rank, step), Compute(round(rest_us * US))]

    return diagnosed(write_training(folder, 2, with_more, steps=2))


test_what_a_bubble_must_cost = least_price(
    "pipeline_bubble", "least_percent_pipeline_bubble", lambda folder: with_rest(folder, 10)
)

test_thresholds = cases(
    Case(
        "Limits.least_percent_pipeline_bubble",
        lambda folder, percent: share(
            with_rest(folder, 100 * (900 + 8 * 20) / percent - 4881), "pipeline_bubble"
        ),
        {14.8: None, 15.2: 15.2},
    ),
)
