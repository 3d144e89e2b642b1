"""Ranks are compared over the same time, and others are left out and named."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hta_widgets.diagnosis import diagnosis
from hta_widgets.diagnosis.job.steps import compared_ranks
from hta_widgets.diagnosis.report import report
from hta_widgets.errors import UnknownStepError
from hta_widgets.trace.opening.open import open_trace
from tests.diagnosis.findings.training_jobs import (
    US,
    Meet,
    diagnosed,
    found,
    layers,
    write_training,
)
from tests.explained.findings import explain_verdict
from tests.kineto_text import Event
from tests.simulator import write_job

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


def slow(rank: int, _step: int) -> list[object]:
    return [*layers(10, (700 if rank == 2 else 500) * US), Meet((0, 1, 2, 3))]


def slow_and_uneven(rank: int, _step: int) -> list[object]:
    """Rank 2 is slow before the one meeting, and rank 1 has more to do before the other."""
    long_ns, shape = (700 * US, "[[70]]") if rank == 1 else (500 * US, "[[50]]")
    return [
        *[*layers(10, (800 if rank == 2 else 500) * US), Meet((0, 1, 2, 3))],
        *[*layers(10, long_ns, name="other", shape=shape), Meet((0, 1, 2, 3))],
    ]


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


def test_a_chosen_rank_has_the_verdict_of_the_whole_job(tmp_path: Path) -> None:
    """A slow GPU is known beside the others only, and they are all recorded."""
    write_training(tmp_path, 4, slow)
    whole = found(diagnosed(tmp_path), "slow_gpu")
    for ranks in ([2], [1, 2], [0, 2, 3]):
        made = diagnosed(tmp_path, ranks=ranks)
        assert [each.cause for each in made] == ["slow_gpu"]
        assert made[0].to_dict() == whole.to_dict()
        assert made.ranks == tuple(ranks)
        assert {*made.steps["rank"]} == {*ranks}
        assert not made.not_recorded
        assert not explain_verdict(made)


def test_all_ranks_are_counted_beside_those_that_were_chosen(tmp_path: Path) -> None:
    write_job(tmp_path, "input_starvation", ranks=3, steps=4, seed=1)
    for ranks, who in ((None, "input_starvation, all ranks,"), ([0, 1], "all 3 ranks of the job,")):
        said = report(diagnosed(tmp_path, ranks=ranks))
        assert who in " ".join(said.split())


def test_what_is_on_other_ranks_is_said_of_chosen_ones(tmp_path: Path) -> None:
    write_training(tmp_path, 4, slow)
    made = diagnosed(tmp_path, ranks=[0, 3])
    assert not list(made)
    assert made.finding.startswith(
        "Nothing stands out on the chosen ranks; on others: slow_gpu on rank 2 ("
    )
    assert not explain_verdict(made)


def test_findings_beside_those_on_chosen_ranks_are_named(tmp_path: Path) -> None:
    write_training(tmp_path, 4, slow_and_uneven)
    assert {each.cause: each.ranks for each in diagnosed(tmp_path)} == {
        "slow_gpu": (2,),
        "workload_imbalance": (1,),
    }
    made = diagnosed(tmp_path, ranks=[2])
    assert [each.cause for each in made] == ["slow_gpu"]
    assert any(
        each.startswith("on ranks that were not chosen: workload_imbalance on rank 1 (")
        for each in made.notices
    )


def test_a_chosen_rank_that_cannot_be_compared_is_diagnosed_alone(tmp_path: Path) -> None:
    write_training(tmp_path, 4, slow)
    keep(tmp_path, 3, is_no_mark)
    assert diagnosed(tmp_path, ranks=[3]).ranks == (3,)
    assert diagnosed(tmp_path, ranks=[2, 3]).ranks == (2,)


NOT_TOLD = "waiting and transfer cannot be told apart"
OTHERS_MISSING = f"Ranks other than 0-2 are not recorded: {NOT_TOLD}. Record all ranks."


@pytest.mark.parametrize(
    ("only", "ranks", "said"),
    [
        (None, [0, 1], [f"Ranks 2-3 are not opened: {NOT_TOLD}. Open them, too."]),
        (
            [0, 1, 2],
            [0, 1],
            [f"Rank 2 is not opened: {NOT_TOLD}. Open it, too.", OTHERS_MISSING],
        ),
        ([0, 1, 2], None, [OTHERS_MISSING]),
        (None, None, []),
    ],
)
def test_ranks_that_are_recorded_are_to_be_opened_and_others_to_be_recorded(
    tmp_path: Path, only: list[int] | None, ranks: list[int] | None, said: list[str]
) -> None:
    write_training(tmp_path, 4, healthy, only=only)
    made = diagnosis(open_trace(tmp_path, ranks=ranks, progress=False))
    assert [each.sentence for each in made.not_recorded] == said
    assert any("record all ranks" in each.lower() for each in made.notices) == (only is not None)
    missing = "rank 3 is missing: the traces come from a job with 4 ranks"
    assert (missing in made.notices) == (only is not None)


def test_steps_that_do_not_exist_are_not_all_of_the_time(tmp_path):
    job = open_trace(write_training(tmp_path, 4, uneven), progress=False)
    steps = sorted({*diagnosis(job).steps["step"].tolist()})
    assert diagnosis(job, steps=steps[:1]).steps["step"].unique().tolist() == steps[:1]
    assert diagnosis(job, steps=[]).steps["step"].unique().tolist() == steps
    analysed = f"their analysed steps are {steps[0]}-{steps[-1]}"
    for asked in ([99], [steps[0], 99]):
        with pytest.raises(UnknownStepError, match=f"step 99 is not analysed .*{analysed}"):
            diagnosis(job, steps=asked)


def test_without_steps_none_can_be_asked_for(tmp_path):
    job = open_trace(write_training(tmp_path, 4, uneven, marks=False), progress=False)
    with pytest.raises(UnknownStepError, match="they have no steps:"):
        diagnosis(job, steps=[1])
