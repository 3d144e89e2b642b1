"""A GPU that takes longer for the same kernels."""

from __future__ import annotations

import pytest

from hta_widgets.diagnosis import Limits, diagnosis
from hta_widgets.diagnosis.facts.kernel_facts import (
    computing_kernels,
    like_kernel_facts,
    pace_in_windows,
    shape_codes,
)
from hta_widgets.diagnosis.job.like_kernels import LikeKernels
from hta_widgets.diagnosis.job.steps import Steps
from hta_widgets.trace.opening.open import open_trace
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
from tests.kineto_text import call, host, kernel, write

EVERYBODY = (0, 1, 2, 3)


def one_slower(slow, factor=1.3):
    def program(rank, step):
        del step
        time = round(500 * US * (factor if rank in slow else 1))
        return [*layers(10, time), Meet(EVERYBODY)]

    return program


@pytest.mark.parametrize("slow", [(2,), (0, 3)])
def test_the_ranks_whose_equal_kernels_take_longer_are_named(tmp_path, slow):
    made = diagnosed(write_training(tmp_path, 4, one_slower(slow)))

    finding = found(made, "slow_gpu")
    assert finding.ranks == slow
    assert finding.steps == (10, 11, 12, 13)
    assert finding.recoverable_ms == pytest.approx(1.5 if len(slow) == 1 else 0.65, rel=0.3)
    assert finding.evidence["largest_kernels"]["kernel"].tolist() == ["gemm"]


def test_the_sentence_says_how_much_slower_and_who_waits(tmp_path):
    made = diagnosed(write_training(tmp_path, 4, one_slower((2,))))

    sentence = found(made, "slow_gpu").sentence
    assert sentence.startswith(
        "Rank 2 computes 1.3 times as long as the median in every step with the same work; "
        "the 3 others wait for it: "
    )


@pytest.mark.parametrize("name", ["grouped_gemm", "fused_moe_kernel", "attention"])
def test_experts_with_more_tokens_are_no_slower_gpu(tmp_path, name):
    """Their kernels have as many blocks, whatever they compute; others of the rank are as fast."""

    def program(rank, step):
        del step
        more = Compute(round(900 * US * (2 if rank == 2 else 1)), name)
        return [*layers(10, 50 * US), more, more, Meet(EVERYBODY)]

    made = diagnosed(write_training(tmp_path, 4, program))
    assert (found(made, "slow_gpu") is None) == (name != "attention")
    if name != "attention":
        assert found(made, "workload_imbalance").ranks == (2,)


def test_equal_gpus_are_not_accused(tmp_path):
    assert not diagnosed(write_training(tmp_path, 4, one_slower(())))


def test_a_difference_of_three_percent_is_not_reported(tmp_path):
    assert not diagnosed(write_training(tmp_path, 4, one_slower((1,), 1.03)))


def test_other_shapes_are_other_work(tmp_path):
    def program(rank, step):
        del step
        shape, time = ("[[96, 64]]", 650) if rank == 2 else ("[[64, 64]]", 500)
        return [*layers(10, time * US, shape=shape), Meet(EVERYBODY)]

    made = diagnosed(write_training(tmp_path, 4, program))
    assert not found(made, "slow_gpu")
    assert not found(made, "gpu_throttling")


def test_other_grids_are_other_work_without_shapes(tmp_path):
    def program(rank, step):
        del step
        grid, time = (12, 650) if rank == 2 else (8, 500)
        return [*layers(10, time * US, grid=grid), Meet(EVERYBODY)]

    made = diagnosed(write_training(tmp_path, 4, program, shapes=False))
    assert not found(made, "slow_gpu")


def test_more_kernels_are_other_work(tmp_path):
    def program(rank, step):
        del step
        return [*layers(13 if rank == 2 else 10, 500 * US), Meet(EVERYBODY)]

    made = diagnosed(write_training(tmp_path, 4, program))
    assert not found(made, "slow_gpu")


def test_without_grids_and_shapes_hardware_is_not_accused(tmp_path):
    made = diagnosed(write_training(tmp_path, 4, one_slower((2,)), shapes=False, grids=False))
    assert not found(made, "slow_gpu")


def test_when_half_of_the_ranks_are_slower_no_gpu_is_accused(tmp_path):
    def program(rank, step):
        del step
        return [*layers(10, (650 if rank < 4 else 500) * US), Meet(tuple(range(8)))]

    made = diagnosed(write_training(tmp_path, 8, program))
    assert not found(made, "slow_gpu")


def test_of_two_ranks_the_slower_is_named(tmp_path):
    def program(rank, step):
        del step
        return [*layers(10, (650 if rank else 500) * US), Meet((0, 1))]

    assert found(diagnosed(write_training(tmp_path, 2, program)), "slow_gpu").ranks == (1,)


def test_ranks_that_diagnose_is_not_asked_about_are_not_named(tmp_path):
    folder = write_training(tmp_path, 4, one_slower((2,)))
    assert not found(diagnosed(folder, ranks=[0, 1, 3]), "slow_gpu")


def test_clocks_that_are_seconds_apart_change_nothing(tmp_path):
    shifts = {0: 7_000_000 * US, 2: 1_000_000 * US}
    made = diagnosed(write_training(tmp_path, 4, one_slower((2,)), shifts_ns=shifts))
    assert found(made, "slow_gpu").ranks == (2,)


def test_every_second_kernel_of_another_kind_leaves_the_ratio_as_it_is(tmp_path):
    def program(rank, step):
        del step
        own = Compute(400 * US, name=f"only_on_{rank}")
        time = 650 if rank == 1 else 500
        return [*([Compute(time * US), own] * 5), Meet(EVERYBODY)]

    made = diagnosed(write_training(tmp_path, 4, program))
    assert found(made, "slow_gpu").ranks == (1,)


def experts(rank, step, tokens, us_of):
    """Dense kernels that are alike on all ranks, and twice as many by the number of tokens."""
    number = tokens(rank, step)
    routed = layers(10, round(us_of(rank) * number), shape=f"[[{number}, 64], [64, 32]]", name="e")
    return [*layers(5, round(1000 * us_of(rank))), *routed, Meet(EVERYBODY)]


def uneven(rank, step):
    return 1000 + 7 * rank + step


def slow_on(slow):
    return lambda rank: 650 if rank == slow else 500


def test_of_batches_that_differ_by_a_few_tokens_the_sizes_are_compared(tmp_path):
    made = diagnosed(
        write_training(tmp_path, 4, lambda *at: experts(*at, uneven, slow_on(2)), grids=False)
    )
    finding = found(made, "slow_gpu")
    assert finding.ranks == (2,)
    assert finding.recoverable_ms == pytest.approx(15 * 0.15, rel=0.1)
    assert not found(made, "workload_imbalance")


def test_more_tokens_are_more_work(tmp_path):
    def tokens(rank, step):
        return uneven(rank, step) + 300 * (rank == 2)

    folder = write_training(tmp_path, 4, lambda *at: experts(*at, tokens, slow_on(None)))
    made = diagnosed(folder)
    assert [(each.cause, each.ranks) for each in made] == [("workload_imbalance", (2,))]
    assert made[0].confidence == "measured"


def test_kernels_of_like_size_alone_accuse_no_gpu(tmp_path):
    """Those that are alike take as long as elsewhere."""

    def program(rank, step):
        dense, routed = experts(rank, step, uneven, slow_on(None)), slow_on(2)
        return [*dense[:5], *experts(rank, step, uneven, routed)[5:]]

    made = diagnosed(write_training(tmp_path, 4, program))
    assert [(each.cause, each.confidence) for each in made] == [
        ("workload_imbalance", "inconclusive")
    ]


def test_equal_grids_are_equal_work_if_all_are_equal(tmp_path):
    def program(rank, step):
        del step
        time = 650 if rank == 2 else 500
        products = layers(8, time * US, name="nvjet", grid=132)
        return [*products, *layers(8, time * US // 5, name="norm", grid=500), Meet(EVERYBODY)]

    made = diagnosed(write_training(tmp_path, 4, program, shapes=False))
    assert [(each.cause, each.ranks) for each in made] == [("slow_gpu", (2,))]


def test_the_limit_is_the_callers(tmp_path):
    folder = write_training(tmp_path, 4, one_slower((2,)))
    assert not found(diagnosed(folder, limits=Limits(slower_kernels=1.4)), "slow_gpu")


def slower_kernels(folder, factor):
    """Rank 2 takes a little longer for most kernels, and much longer for a few."""

    def program(rank, step):
        del step
        most = layers(8, round(500 * US * (factor if rank == 2 else 1)))
        return [*most, *layers(2, (800 if rank == 2 else 500) * US, name="few"), Meet(EVERYBODY)]

    return diagnosed(write_training(folder, 4, program, steps=2))


def in_steps(folder, percent):
    """Rank 1 is slower in this part of the steps."""
    steps, hot = {66.7: (9, 6), 70.0: (10, 7)}[percent]

    def program(rank, step):
        time = round(500 * US * (1.12 if rank == 1 and step < hot else 1))
        return [*layers(3, time), Meet(EVERYBODY, 20 * US)]

    return diagnosed(write_training(folder, 4, program, steps=steps))[0].cause


def three_of(folder, percent):
    """Three ranks are slow."""
    everybody = tuple(range(round(300 / percent)))

    def program(rank, step):
        del step
        return [*layers(3, (650 if rank in {1, 4, 6} else 500) * US), Meet(everybody)]

    made = diagnosed(write_training(folder, len(everybody), program, steps=2))
    return found(made, "slow_gpu") is not None


def changing(folder, factor=1.5, *, slow_ms=30, fast_ms=30, us=500):
    """Rank 3 is slow, and slower still in the second part of the only step."""

    def program(rank, step):
        del step
        items = []
        for ms, times in ((fast_ms, 1.06), (slow_ms, 1.06 * factor)):
            ns = round(us * US * (times if rank == 3 else 1))
            items += layers(round(1000 * ms / us), ns)
        return [*items, Meet(EVERYBODY)]

    made = diagnosed(write_training(folder, 4, program, steps=1))
    return next(each.cause for each in made if each.cause in {"slow_gpu", "gpu_throttling"})


def own_kernels(folder, alike):
    """What part of the time of all ranks is in kernels that are alike."""

    def program(rank, step):
        del step
        time = 5000 * US * (1.3 if rank == 1 else 1)
        own = Compute(round(time * (1 - alike)), name=f"only_on_{rank}")
        return [*layers(5, round(time * alike / 5)), own, Meet(EVERYBODY)]

    return found(diagnosed(write_training(folder, 4, program, steps=2)), "slow_gpu") is not None


def dense_part(folder, alike):
    """What part of the time is in kernels that are alike; the others are of like size."""

    def program(rank, step):
        us = slow_on(2)(rank) / 500
        number = uneven(rank, step)
        routed = layers(1, round(us * 5000 * US * (1 - alike)), shape=f"[[{number}]]", name="e")
        return [*layers(1, round(us * 5000 * US * alike)), *routed, Meet(EVERYBODY)]

    made = diagnosed(write_training(folder, 4, program, grids=False))
    return found(made, "slow_gpu") is not None


def larger(folder, factor):
    """How many times as many tokens the slow rank has."""

    def tokens(rank, step):
        return round(10_000 * factor) + step if rank == 2 else 10_000 + (-1, 0, 0, 1)[rank] + step

    def program(rank, step):
        number, us = tokens(rank, step), slow_on(2)(rank)
        routed = layers(10, us * US, shape=f"[[{number}]]", name="e")
        return [*layers(5, us * US), *routed, Meet(EVERYBODY)]

    made = diagnosed(write_training(folder, 4, program, grids=False))
    return found(made, "slow_gpu") is not None


def other_grids(folder, part):
    """What part of the time is in kernels with another grid than elsewhere."""

    def program(rank, step):
        del step
        time = round(5000 * US * (1.3 if rank == 2 else 1))
        return [
            Compute(round(time * (1 - part)), "nvjet", grid=132),
            Compute(round(time * part), "norm", grid=800 if rank == 2 else 500),
            Meet(EVERYBODY),
        ]

    made = diagnosed(write_training(folder, 4, program, steps=2, shapes=False))
    return found(made, "slow_gpu") is not None


def pair(folder, factor):
    """Two ranks, of which one takes longer."""

    def program(rank, step):
        del step
        return [*layers(10, round(500 * US * (factor if rank else 1))), Meet((0, 1), 20 * US)]

    return price(diagnosed(write_training(folder, 2, program, steps=2)), "slow_gpu")


def nested(folder, calls):
    """Whether shapes that are recorded so many calls outwards are known."""
    events = [kernel(100, 50, correlation=1), call(90, 2, 1)]
    events += [host(80 - each, 20 + 2 * each, f"call_{each}") for each in range(calls)]
    events[-1]["args"] = {"Input Dims": [[64, 64]]}
    rank = open_trace(write(folder / "rank-0.json", events), progress=False).rank(0)
    return int(shape_codes(rank, computing_kernels(rank))[0][0]) >= 0


def windows(folder, *, kernels=6, span_us=9000):
    """Number of windows whose pace is known, of kernels that start within some time."""
    starts = [span_us * each / (kernels - 1) for each in range(kernels)]
    events = [kernel(start, 5, correlation=at) for at, start in enumerate(starts)]
    events += [call(start, 2, at) for at, start in enumerate(starts)]
    rank = open_trace(write(folder / "rank-0.json", events), progress=False).rank(0)
    return pace_in_windows(rank).size


def paces(folder, _):
    """How long the kernels of each of five steps take beside the fast ones."""
    program = lambda _rank, step: [*layers(3, 100 * (step + 1) * US)]  # noqa: E731
    job = open_trace(write_training(folder, 1, program, steps=5), progress=False)
    made = diagnosis(job)
    steps = Steps((0,), made.steps["step"].tolist(), {})
    facts = {0: like_kernel_facts(job.rank(0))}
    return LikeKernels.of(steps, facts).against_itself().tolist()


test_what_a_slow_gpu_must_cost = least_price(
    "slow_gpu",
    "least_percent",
    lambda folder: diagnosed(write_training(folder, 4, one_slower((2,)), steps=2)),
)

test_thresholds = cases(
    Case(
        "Limits.slower_kernels",
        lambda folder, factor: price(slower_kernels(folder, factor), "slow_gpu"),
        {1.039: None, 1.041: 0.041 * 4 + 0.6},
    ),
    Case(
        "Limits.slower_in_most_steps_percent", in_steps, {66.7: "gpu_throttling", 70.0: "slow_gpu"}
    ),
    Case("Limits.slower_ranks_percent", three_of, {25.0: True, 27.3: False}),
    Case("Limits.unsteady_pace", changing, {1.14: "slow_gpu", 1.16: "gpu_throttling"}),
    Case(
        "kernel_facts.FEWEST_WINDOWS",
        lambda folder, count: changing(
            folder, slow_ms=15, fast_ms=(10 * count - 2) / 1.06 - 1.5 * 15
        ),
        {4: "slow_gpu", 5: "gpu_throttling"},
    ),
    Case(
        "kernel_facts.FEWEST_IN_WINDOW", lambda folder, n: windows(folder, kernels=n), {4: 0, 5: 1}
    ),
    Case(
        "kernel_facts.WINDOW_NS",
        lambda folder, ns: windows(folder, kernels=5, span_us=ns / 1000),
        {9_999_000: 1, 10_001_000: 0},
    ),
    Case("kernel_facts.MOST_PARENTS", nested, {6: True, 7: False}),
    Case("like_kernels.HALF", own_kernels, {0.49: False, 0.51: True}),
    Case("like_kernels.LEAST_ALIKE", dense_part, {0.19: False, 0.21: True}),
    Case("like_kernels._USUAL_QUANTILE", paces, {0.25: [0.5, 1.0, 1.5, 2.0, 2.5]}),
    Case("like_kernels.LIKE_SIZE", larger, {1.049: True, 1.051: False}),
    Case("like_kernels.MOST_UNLIKE", other_grids, {0.049: True, 0.051: False}),
    Case("like_kernels.PAIR", lambda folder, _: pair(folder, 1.3), {2: 1.5}),
    Case("hardware._PAIR", lambda folder, _: pair(folder, 1.058), {2: 0.29}),
)
