"""Ranks that compute more than the others."""

from __future__ import annotations

import pytest

from tests.diagnosis.findings.thresholds import Case, cases, least_price, price, share
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
    assert finding.sentence.startswith(
        "A different rank in each step computes up to 1.4 times as long"
    )


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
    assert "clocks" in made[0].advice[1].do


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


def in_some_steps(folder, steps, factors):
    """Rank 1 has more work in some steps, by factors."""

    def program(rank, step):
        length = round(1000 * factors.get(step, 1)) if rank == 1 else 1000
        longer = layers(3, length * US, shape=f"[[{length}]]")
        return [*longer, Meet(EVERYBODY, 20 * US), *layers(1, 100 * US)]

    return diagnosed(write_training(folder, 4, program, steps=steps))


def turns(folder, part):
    """Rank 1 has more work in this part of the steps, and other ranks in the others."""
    steps, often = {0.667: (9, 6), 0.7: (10, 7)}[part]

    def program(rank, step):
        busiest = 1 if step < often else (0, 2, 3)[step % 3]
        length = 700 if rank == busiest else 500
        return [*layers(2, length * US, shape=f"[[{length}]]"), Meet(EVERYBODY, 20 * US)]

    return found(
        diagnosed(write_training(folder, 4, program, steps=steps)), "workload_imbalance"
    ).ranks


def two_in_turns(folder, part):
    """Two ranks have most work, one of them in this part of the steps."""
    steps, often = {0.667: (9, 6), 0.7: (10, 7)}[part]

    def program(rank, step):
        is_heavy = rank == 0 or (rank == 1 and step < often)
        length = 700 - rank if is_heavy else 500
        return [*layers(2, length * US, shape=f"[[{length}]]"), Meet(EVERYBODY, 20 * US)]

    return found(
        diagnosed(write_training(folder, 4, program, steps=steps)), "workload_imbalance"
    ).ranks


def explained(folder, part):
    """More kernels are this part of what rank 1 computes longer; the others take longer."""

    def program(rank, step):
        del step
        if rank != 1:
            return [*layers(10, 500 * US), *layers(5, 500 * US, name="flash"), Meet(EVERYBODY)]
        more = Compute(round(2000 * US * part), name="more")
        slower = layers(5, round((500 + 400 * (1 - part)) * US), name="flash")
        return [*layers(10, 500 * US), *slower, more, Meet(EVERYBODY)]

    made = diagnosed(write_training(folder, 4, program, steps=2))
    return found(made, "workload_imbalance").confidence


def of_ranks(folder, count):
    everybody = tuple(range(count))
    program = sequences(lambda rank, _step: 700 if rank == 1 else 500, everybody)
    return price(diagnosed(write_training(folder, count, program, steps=2)), "workload_imbalance")


test_what_an_imbalance_must_cost = least_price(
    "workload_imbalance",
    "least_percent",
    lambda folder: in_some_steps(folder, 2, {0: 1.4, 1: 1.4}),
)

test_thresholds = cases(
    Case(
        "Limits.least_percent",
        lambda folder, percent: share(
            in_some_steps(folder, 2, dict.fromkeys((0, 1), 1 + 1.042 * percent / (100 - percent))),
            "workload_imbalance",
        ),
        {4.9: None, 5.1: 5.1},
    ),
    Case(
        "Limits.more_work",
        lambda folder, factor: price(
            in_some_steps(folder, 4, {1: 1.4, 2: factor}), "workload_imbalance"
        ),
        {1.038: None, 1.042: (1.2 + 0.126) / 4},
    ),
    Case(
        "workload_imbalance.FEWEST_STEPS",
        lambda folder, count: price(
            in_some_steps(folder, 4, dict.fromkeys(range(1, count + 1), 1.4)), "workload_imbalance"
        ),
        {1: None, 2: 0.6},
    ),
    Case("workload_imbalance.FEWEST_RANKS", of_ranks, {2: None, 3: 2.0}),
    Case("workload_imbalance.SAME_RANK", turns, {0.667: (), 0.7: (1,)}),
    Case("workload_imbalance.SAME_RANK", two_in_turns, {0.667: (0,), 0.7: (0, 1)}),
    Case("workload_imbalance._HALF", explained, {0.49: "inconclusive", 0.51: "measured"}),
)
