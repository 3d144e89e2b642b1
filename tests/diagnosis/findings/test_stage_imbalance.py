"""Stages of a pipeline that compute longer than the others."""

from __future__ import annotations

import pytest

from tests.diagnosis.findings.pipelines import pipeline
from tests.diagnosis.findings.thresholds import Case, cases, least_price, price
from tests.diagnosis.findings.training_jobs import US, Compute, diagnosed, found, write_training


def job(folder, slow, *, copies=1, factor=1.5, batches=16, send_us=20):
    def forward_ns(rank, step):
        del step
        return round(300 * US * (factor if rank in slow else 1))

    program = pipeline(
        4, batches, forward_ns, copies=copies, transfer_ns=lambda *_ranks: send_us * US
    )
    return write_training(folder, 4 * copies, program)


def balanced_ms(times, batches):
    """What equal stages bring: forwards 0.3 ms in the usual stage, backwards twice as long.

    Of each micro-batch, the slowest stage takes all, the others the first or the last only.
    """
    mean = sum(times) / len(times)
    uneven = batches * max(times) + sum(times) - max(times)
    return 3 * 0.3 * (uneven - (batches + len(times) - 1) * mean)


def test_the_stage_with_most_work_is_named(tmp_path):
    def forward_ns(rank, step):
        del step
        return (450 if rank == 2 else 300) * US

    def program(rank, step):
        shape = "[[96, 64]]" if rank == 2 else "[[64, 64]]"
        return pipeline(4, 16, forward_ns, shape=shape)(rank, step)

    made = diagnosed(write_training(tmp_path, 4, program))
    finding = found(made, "stage_imbalance")
    assert finding.ranks == (2,)
    assert finding.recoverable_ms == pytest.approx(balanced_ms((1, 1, 1.5, 1), 16), rel=0.01)
    assert finding.sentence.startswith(
        "Rank 2 (stage 2 of the pipeline) computes 1.5 times as long as the median of the other "
        "stages, which wait for it: "
    )
    assert finding.evidence["stages"]["factor"].round(2).tolist() == [1.0, 1.0, 1.5, 1.0]
    assert not found(made, "workload_imbalance")


def test_equal_kernels_that_take_longer_on_all_copies_of_a_stage_are_no_hardware(tmp_path):
    made = diagnosed(job(tmp_path, (4, 5), copies=2))

    assert found(made, "stage_imbalance").ranks == (4, 5)
    assert not found(made, "slow_gpu")
    assert not found(made, "gpu_throttling")


def test_one_slow_copy_of_a_stage_is_hardware(tmp_path):
    made = diagnosed(job(tmp_path, (5,), copies=2))

    assert found(made, "slow_gpu").ranks == (5,)
    assert not found(made, "stage_imbalance")


def test_even_stages_are_silent(tmp_path):
    made = diagnosed(job(tmp_path, (), batches=40, send_us=10))
    assert not made


def of_stages(folder, *times):
    """Stages that compute a multiple of what the usual one does."""
    program = pipeline(len(times), 4, lambda rank, _step: round(300 * US * times[rank]))

    def shaped(rank, step):
        shape = f"[[{rank}, 64]]"
        return [
            Compute(each.ns, each.name, shape) if isinstance(each, Compute) else each
            for each in program(rank, step)
        ]

    return diagnosed(write_training(folder, len(times), shaped, steps=2))


test_what_an_uneven_stage_must_cost = least_price(
    "stage_imbalance", "least_percent", lambda folder: of_stages(folder, 1, 1, 2)
)

test_thresholds = cases(
    Case(
        "Limits.more_work_of_stage",
        lambda folder, factor: price(of_stages(folder, 1, 1, factor, 0.2), "stage_imbalance"),
        {1.09: None, 1.11: balanced_ms((1, 1, 1.11, 0.2), 4)},
    ),
)
