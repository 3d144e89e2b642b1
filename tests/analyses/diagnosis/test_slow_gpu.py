"""A GPU that takes longer for the same kernels."""

from __future__ import annotations

import pytest

from hta_widgets.diagnosis import Limits
from tests.analyses.diagnosis.training_jobs import (
    US,
    Compute,
    Meet,
    diagnosed,
    found,
    layers,
    write_training,
)

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
