"""Losses without a known cause are named as such."""

from __future__ import annotations

import pytest

from hta_widgets.diagnosis import Limits
from tests.analyses.diagnosis.thresholds import Case, cases, share
from tests.analyses.diagnosis.training_jobs import (
    US,
    Meet,
    diagnosed,
    found,
    layers,
    write_training,
)
from tests.kineto_text import call, host, kernel, step, write

EVERYBODY = (0, 1, 2, 3)


def talking(transfer_us):
    def program(rank, step):
        del rank, step
        return [*layers(9, 500 * US), Meet(EVERYBODY, transfer_us * US), *layers(1, 500 * US)]

    return program


def test_communication_of_one_rank_cannot_be_divided(tmp_path):
    made = diagnosed(write_training(tmp_path, 4, talking(2000), only=[2]))

    finding = found(made, "exposed_communication")
    assert finding.confidence == "inconclusive"
    assert finding.ranks == (2,)
    assert finding.recoverable_ms == pytest.approx(2.0, rel=0.02)
    assert "cause not found: waiting and transfer cannot be told apart" in finding.sentence


def test_a_small_loss_is_not_named(tmp_path):
    assert not diagnosed(write_training(tmp_path, 4, talking(500), only=[2]))


def test_the_limit_is_the_callers(tmp_path):
    folder = write_training(tmp_path, 4, talking(500), only=[2])
    assert diagnosed(folder, limits=Limits(least_percent_unexplained=5))


def test_it_is_silent_beside_a_finding(tmp_path):
    made = diagnosed(write_training(tmp_path, 4, talking(2000)))
    assert [(each.cause, each.confidence) for each in made] == [
        ("exposed_communication", "measured")
    ]


def test_a_rank_without_gpu_work_has_no_steps(tmp_path):
    write(tmp_path / "rank-0.json", [step(1, 0, 1000), step(2, 1000, 1000), host(10, 50, "op")])

    made = diagnosed(tmp_path)
    assert not made
    assert made.finding.startswith("No GPU work was recorded: the job ran on the CPU, or ")
    assert made.steps.empty


def test_work_that_was_launched_in_time_and_held_back_is_said_and_blames_nobody(tmp_path):
    events = [call(0, 5, 1), call(10, 5, 2), kernel(20, 100, correlation=1)]
    path = write(tmp_path / "rank-0.json", [*events, kernel(920, 100, correlation=2)])
    made = diagnosed(path)
    assert not made
    assert "in 80 % of the GPU span, the GPU waits for work that the trace does not" in made.finding


def launched_late_without_operators(folder, idle_us):
    """Kernels of 200 µs, each launched so long after the one before, without operators."""
    starts = [20 + number * (200 + idle_us) for number in range(8)]
    calls = [call(start - 10, 5, number) for number, start in enumerate(starts)]
    kernels = [kernel(start, 200, correlation=number) for number, start in enumerate(starts)]
    return write(folder / "rank-0.json", [*calls, *kernels])


def test_a_host_that_is_late_for_what_is_not_recorded_is_said(tmp_path):
    finding = found(diagnosed(launched_late_without_operators(tmp_path, 2000)), "host_pause")
    assert finding.confidence == "inconclusive"
    assert finding.recoverable_ms == pytest.approx(7 * 2.0, rel=0.02)
    assert "the trace does not show what the host does meanwhile" in finding.sentence


def test_a_host_that_is_hardly_late_is_not(tmp_path):
    assert not diagnosed(launched_late_without_operators(tmp_path, 20))


def held_back(folder, part):
    """The GPU waits this part of the time for work that was launched before."""
    idle_us = 1000 * part
    events = [call(0, 5, 1), call(10, 5, 2), kernel(20, 500 - idle_us / 2, correlation=1)]
    last = kernel(1020 - (500 - idle_us / 2), 500 - idle_us / 2, correlation=2)
    return diagnosed(write(folder / "rank-0.json", [*events, last])).status


def lost(folder, percent):
    """One rank of two communicates this part of each step."""

    def program(rank, step):
        del rank, step
        transfer = Meet((0, 1), round(50 * US * percent))
        return [
            *layers(3, 1000 * US),
            transfer,
            *layers(1, round(2000 * US - transfer.transfer_ns)),
        ]

    made = diagnosed(write_training(folder, 2, program, only=[0], steps=2))
    return share(made, "exposed_communication")


test_thresholds = cases(
    Case("Limits.least_percent_unexplained", lost, {14.9: None, 15.1: 15.1}),
    Case("cause_not_found.WORTH_A_NOTICE", held_back, {0.149: "healthy", 0.151: "cannot_tell"}),
)
