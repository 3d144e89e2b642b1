"""Ranks that compute more than the others."""

from __future__ import annotations

import pytest

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


def sequences(length_of, ranks=EVERYBODY):
    """Kernels take as long as the sequence."""

    def program(rank, step):
        length = length_of(rank, step)
        shape = f"[[{length}, 64]]"
        return [*layers(10, length * US, shape=shape, grid=length), Meet(ranks)]

    return program


def test_the_rank_with_longer_sequences_is_named(tmp_path):
    made = diagnosed(
        write_training(tmp_path, 4, sequences(lambda rank, _step: 700 if rank == 1 else 500))
    )

    finding = found(made, "workload_imbalance")
    assert finding.ranks == (1,)
    assert finding.confidence == "measured"
    assert finding.recoverable_ms == pytest.approx(2.0, rel=0.05)
    assert finding.sentence.startswith(
        "Rank 1 computes 1.4 times as long as the median in every step with more work; the 3 "
        "others wait for it: "
    )
    assert not found(made, "slow_gpu")


def test_no_rank_is_named_if_it_is_another_one_in_each_step(tmp_path):
    made = diagnosed(
        write_training(tmp_path, 4, sequences(lambda rank, step: 700 if rank == step % 4 else 500))
    )

    finding = found(made, "workload_imbalance")
    assert finding.ranks == ()
    assert finding.sentence.startswith("Another rank each step computes up to 1.4 times as long")


def test_two_ranks_with_more_work_are_both_named(tmp_path):
    made = diagnosed(
        write_training(
            tmp_path,
            4,
            sequences(lambda rank, step: 700 + 5 * (step % 2 == rank % 2) if rank < 2 else 500),
        )
    )
    assert found(made, "workload_imbalance").ranks == (0, 1)


def test_equal_sequences_that_change_together_are_silent(tmp_path):
    assert not diagnosed(
        write_training(tmp_path, 4, sequences(lambda _rank, step: 500 + 50 * step))
    )


def test_one_longer_step_is_not_reported(tmp_path):
    made = diagnosed(
        write_training(
            tmp_path,
            4,
            sequences(lambda rank, step: 600 if (rank, step) == (1, 2) else 500),
        )
    )
    assert not found(made, "workload_imbalance")


def test_of_two_ranks_none_has_the_usual_work(tmp_path):
    made = diagnosed(
        write_training(tmp_path, 2, sequences(lambda rank, _step: 500 + 200 * rank, (0, 1)))
    )
    assert not found(made, "workload_imbalance")


def test_a_slow_gpu_is_no_imbalance_of_work(tmp_path):
    def program(rank, step):
        del step
        return [*layers(10, (700 if rank == 1 else 500) * US), Meet(EVERYBODY)]

    assert not found(diagnosed(write_training(tmp_path, 4, program)), "workload_imbalance")


def test_without_shapes_and_grids_it_cannot_be_told_from_a_slow_gpu(tmp_path):
    folder = write_training(
        tmp_path,
        4,
        sequences(lambda rank, _step: 700 if rank == 1 else 500),
        shapes=False,
        grids=False,
    )

    finding = found(diagnosed(folder), "workload_imbalance")
    assert finding.ranks == (1,)
    assert finding.confidence == "inconclusive"
    assert "shapes are not recorded" in finding.sentence


def test_kernels_that_take_longer_for_the_same_shapes_are_not_called_more_work(tmp_path):
    """As attention to packed sequences: its time depends on how many they are."""

    def program(rank, step):
        del step
        attention = layers(5, (900 if rank == 1 else 500) * US, name="flash", shape="[[4, 64]]")
        return [*layers(10, 500 * US), *attention, Meet(EVERYBODY)]

    made = diagnosed(write_training(tmp_path, 4, program))
    assert [(each.cause, each.ranks) for each in made] == [("workload_imbalance", (1,))]
    assert made[0].confidence == "inconclusive"
    assert made[0].sentence.startswith(
        "Rank 1 computes 1.27 times as long as the median in every step with the same kernels and "
        "sizes, for a reason that is not recorded; the 3 others wait for it: "
    )
    assert "clocks" in made[0].action


def test_slower_kernels_on_half_of_the_ranks_are_not_called_more_work(tmp_path):
    def program(rank, step):
        del step
        return [*layers(10, (650 if rank < 3 else 500) * US), Meet(tuple(range(8)))]

    made = diagnosed(write_training(tmp_path, 8, program))
    assert [each.confidence for each in made] == ["inconclusive"]
    assert "with the same kernels and sizes" in made[0].sentence


def test_more_kernels_are_more_work(tmp_path):
    def program(rank, step):
        del step
        return [*layers(13 if rank == 2 else 10, 500 * US), Meet(EVERYBODY)]

    finding = found(diagnosed(write_training(tmp_path, 4, program)), "workload_imbalance")
    assert (finding.ranks, finding.confidence) == ((2,), "measured")


def persistent(length_of):
    """Products with one block for each multiprocessor, whatever their size; others with more."""

    def program(rank, step):
        length = length_of(rank, step)
        products = layers(8, length * US, name="nvjet", grid=132)
        return [*products, *layers(8, length * US // 5, name="norm", grid=length), Meet(EVERYBODY)]

    return program


def test_equal_grids_of_products_are_not_equal_work_if_other_grids_differ(tmp_path):
    program = persistent(lambda rank, _step: 650 if rank == 2 else 500)
    made = diagnosed(write_training(tmp_path, 4, program, shapes=False))
    assert [(each.cause, each.ranks, each.confidence) for each in made] == [
        ("workload_imbalance", (2,), "measured")
    ]


def test_equal_grids_of_products_are_not_throttled_if_other_grids_change(tmp_path):
    program = persistent(lambda _rank, step: 500 if step < 3 else 500 + 80 * step)
    assert not diagnosed(write_training(tmp_path, 4, program, steps=6, shapes=False))


def test_numbers_of_the_ranks_do_not_matter(tmp_path):
    for heavy in range(4):
        folder = tmp_path / str(heavy)
        folder.mkdir()

        def program(rank, step, heavy=heavy):
            del step
            length = 700 if rank == heavy else 500
            return [Compute(10 * length * US, shape=f"[[{length}]]"), Meet(EVERYBODY)]

        made = diagnosed(write_training(folder, 4, program))
        assert [(each.cause, each.ranks) for each in made] == [("workload_imbalance", (heavy,))]
