"""Waiting and transfer in the table of steps, against brute force over what runs when."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from random import Random

import pytest

from hta_widgets.analyses.budget.classes import BUDGET_CLASSES
from hta_widgets.analyses.step_table import step_table
from hta_widgets.trace.opening.open import open_trace
from tests.analyses.collective_jobs import (
    FIRST_NS,
    Clock,
    all_fields,
    ddp,
    no_fields,
    open_job,
    pipeline,
    sharded,
    trace_of,
    write_job,
)
from tests.kineto_text import call, kernel, step, write

ORDER = ("compute", "copies", "transfer", "communication", "waiting", "idle")
IDLE = ("late_launching", "late_synchronising", "data_loading", "other_idle")
EXTRA = {
    "gemm": "compute",
    "Memcpy HtoD (Pageable -> Device)": "copies",
    "ncclDevKernel_Broadcast_RING_LL": "communication",
}
"""Work beside the collectives; nothing says which ranks take part in the broadcasts."""


def extra_work(random, rank, last):
    """Work of some streams, as (start, end, name), and its events."""
    for number in range(25):
        name = random.choice([*EXTRA])
        start = random.randint(FIRST_NS, last)
        end = start + random.randint(1, 400_000)
        launch = call((start - 9_000) / 1000, 4, 5_000 + number)
        work = kernel(
            *(start / 1000, (end - start) / 1000),
            name=name,
            cat="gpu_memcpy" if name.startswith("Memcpy") else "kernel",
            stream=30 + number,
            correlation=5_000 + number,
            device=rank,
        )
        yield (start, end, EXTRA[name]), [launch, work]


def pieces(scene, rank, *, matched):
    """What the operations of a rank are at each time, and the kernels that `trace_of` adds."""
    for operation in scene.operations:
        if rank in operation.ranks:
            arrival = operation.arrivals[rank]
            yield arrival - 4_000, arrival - 2_000, "compute"
            if matched:
                yield arrival, operation.last, "waiting"
                yield operation.last, operation.end, "transfer"
            else:
                yield arrival, operation.end, "communication"


def classes(running, begin, end):
    """Time (ns) of each class between two times."""
    inside = (time for piece in running for time in piece[:2] if begin < time < end)
    found = Counter()
    for left, right in pairwise(sorted({begin, end, *inside})):
        names = {name for start, stop, name in running if start <= left < stop}
        found[min(names or {"idle"}, key=ORDER.index)] += right - left
    return found


@pytest.mark.parametrize(
    ("make", "fields", "matched"),
    [
        (ddp, all_fields, True),
        (ddp, no_fields, True),
        (pipeline, all_fields, True),
        (pipeline, no_fields, False),
        (sharded, all_fields, True),
    ],
)
def test_against_brute_force(tmp_path, make, fields, matched):
    scene, random = make(seed=3), Random(3)  # noqa: S311
    last = max(operation.end for operation in scene.operations)
    running, first = {}, {}
    for rank in range(scene.ranks):
        extra = [*extra_work(random, rank, last)]
        running[rank] = [*pieces(scene, rank, matched=matched), *(piece for piece, _ in extra)]
        events = trace_of(scene.operations, rank, Clock(), fields)
        events += [event for _, both in extra for event in both]
        third = (last - FIRST_NS) // 3000 + 10
        events += [step(n, FIRST_NS // 1000 - 20 + n * third, third) for n in range(3)]
        first[rank] = round(1000 * min(event["ts"] for event in events))
        info = {"rank": rank, "world_size": scene.ranks}
        write(tmp_path / f"rank-{rank}.json", events, distributedInfo=info)
    job = open_trace(tmp_path, include_last_profiler_step=True, progress=False)
    steps = step_table(job).steps
    assert {*steps["rank"]} == {*range(scene.ranks)}
    for row in steps.to_dict("records"):
        bounds = (row[name] + first[row["rank"]] for name in ("start_ns", "end_ns"))
        expected = classes(running[row["rank"]], *bounds)
        assert {name: row[f"{name}_ns"] for name in ORDER[:-1] if expected[name]} == {
            name: expected[name] for name in ORDER[:-1] if expected[name]
        }
        assert sum(row[f"{name}_ns"] for name in IDLE) == expected["idle"]
        assert sum(row[f"{name}_ns"] for name in BUDGET_CLASSES) == row["period_ns"]
    totals = steps[["waiting_ns", "transfer_ns", "communication_ns"]].sum()
    assert (totals > 0).tolist() == [matched, matched, True]


def test_waiting_is_for_all_ranks_whichever_are_listed(tmp_path):
    job = open_job(write_job(tmp_path, ddp(3, 6)))
    whole = step_table(job).steps
    assert step_table(job, [2]).steps["waiting_ns"].tolist() == [
        whole["waiting_ns"][whole["rank"] == 2].sum()
    ]


def test_communication_that_is_matched_with_nobody_is_noticed(tmp_path):
    alone = step_table(open_job(write_job(tmp_path, ddp(3, 6), ranks=[0])))
    assert alone.steps[["waiting_ns", "transfer_ns"]].sum().sum() == 0
    assert alone.notices[-1] == (
        "100 % of the exposed communication cannot be divided into transfer and waiting: its "
        "kernels are not matched with those of another rank"
    )
    assert "communication alone, which may be waiting" in alone.finding
    write_job(tmp_path, ddp(3, 6))
    together = step_table(open_job(tmp_path))
    assert not any("cannot be divided" in notice for notice in together.notices)
    assert "waiting for other ranks" in together.finding


def test_a_job_is_asked_once(tmp_path, monkeypatch):
    job = open_job(write_job(tmp_path, ddp(2, 4)))
    step_table(job)
    monkeypatch.setattr(job, "reduce_each", None)
    step_table(job, [1])
