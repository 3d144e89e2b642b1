"""Ranks are compared over the same time, and others are left out and named."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hta_widgets.diagnosis.job.steps import compared_ranks
from tests.analyses.diagnosis.training_jobs import (
    US,
    Meet,
    diagnosed,
    found,
    layers,
    write_training,
)
from tests.kineto_text import Event

NO_STEP = -1
ranks_of_steps = st.dictionaries(
    st.integers(0, 7),
    st.one_of(st.just([NO_STEP]), st.lists(st.integers(0, 5), unique=True)),
    max_size=8,
)


def healthy(_rank: int, _step: int) -> list[object]:
    return [*layers(10, 500 * US), Meet((0, 1, 2, 3))]


def uneven(rank: int, _step: int) -> list[object]:
    length = 700 if rank == 1 else 500
    shape = f"[[{length}, 64]]"
    return [*layers(10, length * US, shape=shape, grid=length), Meet((0, 1, 2, 3))]


def keep(folder: Path, rank: int, kept: Callable[[Event], bool]) -> None:
    """Leave only some of the events of a rank."""
    path = folder / f"rank-{rank}.json"
    document = json.loads(path.read_text())
    document["traceEvents"] = [event for event in document["traceEvents"] if kept(event)]
    path.write_text(json.dumps(document))


def is_no_mark(event: Event) -> bool:
    return not str(event["name"]).startswith("ProfilerStep")


def is_of_cpu(event: Event) -> bool:
    return event["cat"] in ("cpu_op", "user_annotation")


@given(ranks_of_steps)
def test_those_compared_have_a_step_that_most_ranks_have(by_rank: dict[int, list[int]]) -> None:
    chosen = compared_ranks({rank: {"step": np.array(each)} for rank, each in by_rank.items()})
    busy = [rank for rank, each in by_rank.items() if each]
    most = max((sum(n in by_rank[r] for r in busy) for n in range(-1, 6)), default=0)
    if most == 1 and len(busy) > 1 and all(NO_STEP not in by_rank[rank] for rank in busy):
        assert list(chosen) == busy  # numbered differently: whole recordings are compared
        return
    assert len(chosen) == most
    assert {*chosen} <= {*busy}
    assert not chosen or set.intersection(*({*by_rank[rank]} for rank in chosen))


def test_a_rank_without_steps_is_not_accused(tmp_path: Path) -> None:
    write_training(tmp_path, 4, healthy)
    keep(tmp_path, 2, is_no_mark)
    made = diagnosed(tmp_path)
    assert not found(made, "workload_imbalance")
    assert made.ranks == (0, 1, 3)
    others = diagnosed(tmp_path, ranks=(0, 1, 3))
    assert made.steps.equals(others.steps)
    assert made.period_ns == others.period_ns
    said = [each for each in made.notices if each.startswith("Steps that rank 2 has in common")]
    assert len(said) == 1
    assert "it is left out of all comparisons" in said[0]
    assert not [each for each in others.notices if "left out of all comparisons" in each]


def test_an_imbalance_of_the_other_ranks_is_found(tmp_path: Path) -> None:
    write_training(tmp_path, 4, uneven)
    keep(tmp_path, 2, is_no_mark)
    assert found(diagnosed(tmp_path), "workload_imbalance").ranks == (1,)


def test_the_only_rank_with_steps_is_left_out(tmp_path: Path) -> None:
    write_training(tmp_path, 4, healthy)
    for rank in (0, 1, 3):
        keep(tmp_path, rank, is_no_mark)
    made = diagnosed(tmp_path)
    assert made.ranks == (0, 1, 3)
    assert not found(made, "workload_imbalance")
    assert {*made.steps["step"]} == {NO_STEP}
    assert any(each.startswith("Steps that rank 2 has in common") for each in made.notices)


def test_a_rank_without_gpu_work_is_named_and_the_others_are_diagnosed(tmp_path: Path) -> None:
    write_training(tmp_path, 4, uneven)
    keep(tmp_path, 3, is_of_cpu)
    made = diagnosed(tmp_path)
    assert made.ranks == (0, 1, 2)
    assert found(made, "workload_imbalance").ranks == (1,)
    (lack,) = (each for each in made.not_recorded if each.what.startswith("GPU work"))
    assert lack.what == "GPU work of rank 3 is"
    assert "ProfilerActivity.CUDA" in lack.how
    assert lack.sentence in made.notices
