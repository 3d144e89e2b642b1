"""The budget of a step and own time against the median, from the columns of a diagnosis."""

from __future__ import annotations

import statistics

import numpy as np
import pandas as pd
import pytest

from hta_widgets.diagnosis import BUDGET, CAUSES, budget, diagnosis
from hta_widgets.diagnosis.budget_table import class_of
from hta_widgets.diagnosis.own_time import own_time
from hta_widgets.sample import write_sample
from hta_widgets.trace.opening.open import open_trace
from tests.kineto_text import call, kernel, step, write

US = 1000


@pytest.fixture(scope="module")
def steps(tmp_path_factory) -> pd.DataFrame:
    folder = tmp_path_factory.mktemp("sample")
    write_sample(folder, ranks=3, steps=4, progress=False)
    return diagnosis(open_trace(folder, progress=False)).steps


def of_ranks(*rows: tuple[int, int, int]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["rank", "step", "own_ns"])


def test_the_classes_add_up_to_each_step(steps):
    table = budget(steps)
    classes = [f"{each.name}_ns" for each in BUDGET]
    assert (table[classes].sum(axis=1) == table["period_ns"]).all()
    assert (table[classes] >= 0).all(axis=None)
    assert all(table[name].dtype == np.int64 for name in classes)
    assert table["data_loading_ns"].max() > 5_000 * US


def test_every_column_is_in_one_class(steps):
    used = [column for each in BUDGET for column in each.columns]
    assert len(used) == len(set(used))
    gaps = [column for column in steps if column.startswith("gap_")]
    parts = ["compute_ns", "memory_ns", "transfer_ns", "transfer_p2p_ns", "undivided_ns"]
    assert {*used} == {*gaps, *parts, "wait_ns", "wait_p2p_ns"}


def test_every_cause_is_seen_in_one_class():
    assert {class_of(cause) for cause in CAUSES} <= {*BUDGET}


def test_a_budget_by_hand(tmp_path):
    """Two steps: 100 µs of computing after 20 µs without, then 60 µs of copying before 40 µs."""
    events = [
        step(1, 0, 300),
        step(2, 300, 200),
        step(3, 500, 10),
        call(15, 2, 1),
        kernel(20, 100, name="gemm", correlation=1),
        call(310, 2, 2),
        kernel(320, 60, name="Memcpy HtoD", cat="gpu_memcpy", correlation=2),
        call(330, 2, 3),
        kernel(380, 40, name="gemm", correlation=3),
        call(505, 1, 4),
        kernel(506, 1, name="gemm", correlation=4),
    ]
    write(tmp_path / "rank0.json", events)
    table = budget(diagnosis(open_trace(tmp_path, progress=False)).steps)
    assert table["period_ns"].tolist() == [120 * US, 300 * US]
    assert table["compute_ns"].tolist() == [100 * US, 40 * US]
    assert table["copies_ns"].tolist() == [0, 60 * US]
    idle = ["late_launching_ns", "late_synchronising_ns", "data_loading_ns", "other_idle_ns"]
    assert table[idle].sum(axis=1).tolist() == [20 * US, 200 * US]


def test_own_time_against_the_median(steps):
    own = own_time(steps)
    for number in own.percent.columns:
        of_step = steps[steps["step"] == number].set_index("rank")["own_ns"].to_dict()
        usual = statistics.median(of_step.values())
        for rank, ns in of_step.items():
            assert own.percent.loc[rank, number] == pytest.approx(100 * (ns / usual - 1))
            assert own.own_ns.loc[rank, number] == ns


def test_of_two_ranks_the_faster_one_is_usual():
    own = own_time(of_ranks((0, 1, 100), (0, 2, 100), (7, 1, 150), (7, 2, 50)))
    assert own.percent.loc[0].tolist() == [0, 100]
    assert own.percent.loc[7].tolist() == [50, 0]


def test_a_rank_alone_is_compared_with_its_median_step():
    own = own_time(of_ranks((4, 1, 100), (4, 2, 100), (4, 3, 130)))
    assert own.percent.loc[4].tolist() == pytest.approx([0, 0, 30])


def test_the_median_rank_is_compared_with_its_median_step():
    times = [(rank, number, 100 + 60 * (number == 2)) for rank in range(3) for number in range(3)]
    own = own_time(of_ranks(*times))
    assert own.usual_percent.tolist() == pytest.approx([0, 0, 60])
    assert (own.percent == 0).all(axis=None)


def test_steps_that_were_not_analysed_have_no_number():
    own = own_time(of_ranks((0, 1, 100), (0, 4, 100), (1, 1, 100), (1, 4, 110)))
    assert own.percent.columns.tolist() == [1, 2, 3, 4]
    assert own.percent.loc[1].isna().tolist() == [False, True, True, False]


def test_no_own_time_is_not_compared():
    own = own_time(of_ranks((0, 1, 0), (1, 1, 0), (2, 1, 0)))
    assert own.percent.isna().all(axis=None)
