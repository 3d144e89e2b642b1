"""GPUs that take longer for the same kernels at times."""

from __future__ import annotations

import pytest

from tests.diagnosis.findings.thresholds import Case, cases, least_price, price
from tests.diagnosis.findings.training_jobs import (
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
    assert "up to 1.5 times as long in 2 of 5 steps as in the fastest step" in finding.sentence
    factors = finding.evidence["factor_by_rank_and_step"]
    assert factors.groupby("step")["factor"].max().round(3).tolist() == [1, 1, 1, 1.5, 1.5]
    assert finding.recoverable_ms == pytest.approx(1.0, rel=0.1)


def test_kernels_that_take_longer_each_may_take_no_longer_together(tmp_path):
    def program(rank, step):
        del rank
        often_us, once_us = (700, 300) if step == 2 else (500, 1500)
        shaped = layers(5, often_us * US, shape="[[64, 64]]")
        return [*shaped, *layers(1, once_us * US, name=f"only_in_{step}")]

    made = diagnosed(write_training(tmp_path, 1, program, steps=4))
    assert not found(made, "gpu_throttling")


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


def hot_in(folder, hot, steps, factor=1.5, ranks=(1,)):
    """One of four ranks, or both of two, are slow in the last steps."""
    everybody = EVERYBODY if ranks == (1,) else (0, 1)

    def program(rank, step):
        is_hot = rank in ranks and step >= steps - hot
        return [*layers(3, round(1000 * US * (factor if is_hot else 1))), Meet(everybody, 20 * US)]

    made = diagnosed(write_training(folder, len(everybody), program, steps=steps))
    return price(made, "gpu_throttling")


def recurring(folder, part):
    """Kernels that are slow in two of the steps, and run in this part of them."""
    steps, runs = {0.714: (7, 5), 0.75: (8, 6)}[part]

    def program(rank, step):
        del rank
        if step >= runs:
            return layers(3, 500 * US, name=f"only_in_{step}")
        return layers(3, (800 if step in {2, 3} else 500) * US)

    made = diagnosed(write_training(folder, 1, program, steps=steps))
    return found(made, "gpu_throttling") is not None


def longer(folder, factor):
    """Steps that compute a little longer, in which most kernels take much longer."""

    def program(rank, step):
        del rank
        most_us = 1200 if step > 1 else 1000
        rest_us = 1400 * (factor if step > 1 else 1) - most_us
        return [*layers(5, most_us // 5 * US), *layers(1, round(rest_us * US), name=f"in_{step}")]

    made = diagnosed(write_training(folder, 1, program, steps=4))
    return found(made, "gpu_throttling") is not None


@pytest.mark.parametrize(("hot", "is_said"), [(7, True), (8, False)])
def test_what_is_slow_in_more_than_three_quarters_of_the_steps_is_usual(tmp_path, hot, is_said):
    assert (hot_in(tmp_path, hot, 10, ranks=(0, 1)) is not None) == is_said


def first_advice(folder, factor):
    made = diagnosed(write_training(folder, 4, hot_from(3, set(EVERYBODY), factor), steps=5))
    return found(made, "gpu_throttling").advice[0].code


test_what_throttling_must_cost = least_price(
    "gpu_throttling",
    "least_percent",
    lambda folder: diagnosed(write_training(folder, 4, hot_from(2, {1}), steps=4)),
)

test_thresholds = cases(
    Case(
        "Limits.slower_in_steps_percent",
        lambda folder, percent: hot_in(folder, 2, round(200 / percent)),
        {22.2: None, 25.0: 2 * 1.5 / 8},
    ),
    Case(
        "Limits.slower_than_itself",
        lambda folder, factor: hot_in(folder, 6, 10, factor, ranks=(0, 1)),
        {1.09: None, 1.11: 0.6 * 0.33},
    ),
    Case(
        "gpu_throttling.FEWEST_STEPS",
        lambda folder, steps: hot_in(folder, 1, steps, ranks=(0, 1)),
        {2: None, 3: 1.5 / 3},
    ),
    Case("like_kernels._MOST_STEPS", recurring, {0.714: False, 0.75: True}),
    Case(
        "hardware.LEAST_DIFFERENCE",
        lambda folder, part: longer(folder, 1 + part),
        {0.029: False, 0.031: True},
    ),
    Case(
        "gpu_throttling.SHARED_FROM",
        first_advice,
        {3.9: "nvidia-smi -q -d PERFORMANCE,CLOCK,TEMPERATURE,POWER", 4.1: "nvidia-smi"},
    ),
)
