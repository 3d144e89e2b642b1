"""GPUs that take longer for the same kernels at times."""

from __future__ import annotations

import pytest

from tests.analyses.diagnosis.training_jobs import (
    US,
    Meet,
    diagnosed,
    found,
    layers,
    write_training,
)

EVERYBODY = (0, 1, 2, 3)


def hot_from(first, ranks, factor=1.5):
    def program(rank, step):
        is_hot = rank in ranks and step >= first
        return [*layers(10, round(500 * US * (factor if is_hot else 1))), Meet(EVERYBODY)]

    return program


def test_a_rank_that_is_slow_in_some_steps_is_throttled(tmp_path):
    made = diagnosed(write_training(tmp_path, 4, hot_from(2, {1}), steps=4))

    finding = found(made, "gpu_throttling")
    assert finding.ranks == (1,)
    assert finding.steps == (12, 13)
    assert finding.recoverable_ms == pytest.approx(1.25, rel=0.1)
    assert not found(made, "slow_gpu")


def test_a_rank_whose_clock_changes_within_steps_is_throttled(tmp_path):
    def program(rank, step):
        del step
        slow = layers(30, 800 * US) if rank == 3 else layers(30, 500 * US)
        return [*layers(30, (550 if rank == 3 else 500) * US), *slow, Meet(EVERYBODY)]

    made = diagnosed(write_training(tmp_path, 4, program))
    assert found(made, "gpu_throttling").ranks == (3,)
    assert not found(made, "slow_gpu")


def test_slow_for_less_than_half_of_a_recording_without_steps_is_throttled(tmp_path):
    """Of each kind, most kernels take as long as elsewhere."""

    def program(rank, step):
        is_hot = rank == 2 and step in {1, 2}
        time = round(500 * US * (1.6 if is_hot else 1))
        return [*layers(10, time), *layers(10, time, name="other"), Meet(EVERYBODY)]

    made = diagnosed(write_training(tmp_path, 4, program, steps=5, marks=False))
    assert [(each.cause, each.ranks) for each in made] == [("gpu_throttling", (2,))]
    assert made[0].sentence.startswith(
        "Rank 2 computes 1.2 times as long as the median with the same work, but not at all times; "
    )
    assert made[0].recoverable_ms == pytest.approx(12.0, rel=0.1)


def test_kernels_of_some_kinds_that_are_slow_at_all_times_are_not_throttling(tmp_path):
    """As of memory that is slow: what the optimizer reads takes longer, products hardly do."""

    def program(rank, step):
        del step
        bound = layers(15, (810 if rank == 1 else 500) * US, name="adam")
        return [*layers(35, (535 if rank == 1 else 500) * US), *bound, Meet(EVERYBODY)]

    made = diagnosed(write_training(tmp_path, 4, program))
    assert [(each.cause, each.ranks) for each in made] == [("slow_gpu", (1,))]


def test_what_changes_on_all_ranks_is_not_their_clocks(tmp_path):
    """Kernels whose time depends on what they read."""

    def program(rank, step):
        del step
        factor = 1.3 if rank == 1 else 1
        short, long = (layers(20, round(us * factor) * US) for us in (500, 650))
        return [*short, *long, Meet(EVERYBODY)]

    made = diagnosed(write_training(tmp_path, 4, program))
    assert [(each.cause, each.ranks) for each in made] == [("slow_gpu", (1,))]


def test_all_ranks_may_be_throttled(tmp_path):
    made = diagnosed(write_training(tmp_path, 4, hot_from(3, {0, 1, 2, 3}), steps=5))

    finding = found(made, "gpu_throttling")
    assert finding.ranks == EVERYBODY
    assert finding.steps == (13, 14)
    assert "2 of 5 steps" in finding.sentence
    assert finding.recoverable_ms == pytest.approx(1.0, rel=0.1)


def test_longer_batches_on_all_ranks_are_not_throttling(tmp_path):
    def program(rank, step):
        del rank
        length = 64 + 16 * step
        return [*layers(10, 8 * length * US, shape=f"[[{length}, 64]]"), Meet(EVERYBODY)]

    assert not found(diagnosed(write_training(tmp_path, 4, program, steps=5)), "gpu_throttling")


def test_a_steady_clock_is_not_throttled(tmp_path):
    assert not found(diagnosed(write_training(tmp_path, 4, hot_from(0, {1}))), "gpu_throttling")


def test_the_sentence_says_in_how_many_steps_and_claims_no_cause(tmp_path):
    made = diagnosed(write_training(tmp_path, 4, hot_from(2, {1}), steps=4))
    assert found(made, "gpu_throttling").sentence.startswith(
        "Rank 1 computes up to 1.5 times as long as the median in 2 of 4 steps with the same "
        "work; the 3 others wait for it: "
    )
