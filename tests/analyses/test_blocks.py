"""Long windows and many steps are added up from blocks: to the same numbers as without any."""

from __future__ import annotations

from itertools import product

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hta_widgets.analyses.flame import flame
from hta_widgets.analyses.gpu_annotations import gpu_annotations
from hta_widgets.analyses.idle_owners import idle_blocks, idle_owners
from hta_widgets.analyses.launch_facts import launch_facts
from hta_widgets.analyses.modules import modules
from hta_widgets.analyses.operators import operators
from hta_widgets.analyses.time import blocks, step_blocks
from hta_widgets.analyses.time.window import window_of
from hta_widgets.sample import write_sample
from hta_widgets.trace.opening.open import open_trace
from tests.analyses.generated_jobs import open_job
from tests.analyses.test_gpu_annotations import annotated
from tests.analyses.test_modules import modules_and_work
from tests.kineto_text import call, host, kernel, step

NO_BLOCKS = 10**9
TRACES = ["dlrm_2rank", "b200_eager", "mi300_bert", "h100_bert"]


def tables(job, excerpt):
    """Every table that blocks are added up to."""
    rank = job.ranks[0]
    one = {"ranks": [rank], **excerpt}
    for by in ("name", "shape", "stack"):
        found = operators(job, by=by, **one)
        yield f"operators by {by}", found.operators
        yield f"all operators by {by}", found.ranks
    for source, merge in product(("modules", "regions"), ("instance", "class")):
        result = modules(job, source=source, merge=merge, **one)
        yield f"{source} by {merge}", result.modules
        yield f"outside of {source} by {merge}", result.outside
    for weight in ("gpu", "cpu", "idle", "bytes"):
        yield f"flame of {weight}", flame(job, rank, weight=weight, **excerpt).nodes
    annotated = gpu_annotations(job, **one)
    yield "annotations", annotated.annotations
    yield "ranks of annotations", annotated.ranks
    idle = idle_owners(job, **one)
    for table in ("devices", "causes", "owners", "paths", "drains"):
        yield f"{table} of idle time", getattr(idle, table)
    for by in ("name", "configuration"):
        yield f"launches by {by}", launch_facts(job, by=by, **one).kernels


def check(job, same_job, excerpts, events):
    """Compare with a job that has no blocks, and so remembers none."""
    for excerpt in excerpts:
        with pytest.MonkeyPatch.context() as patch:
            for kind in (blocks, step_blocks):
                patch.setattr(kind, "EVENTS", events)
            patch.setattr(step_blocks, "MOST", 1000)
            patch.setattr(step_blocks, "FEWEST", 1)
            patch.setattr(idle_blocks, "MOST_PIECES", events)
            patch.setattr(idle_blocks, "FEWEST_PIECES", 1)
            added_up = dict(tables(job, excerpt))
        with pytest.MonkeyPatch.context() as patch:
            for kind in (blocks, step_blocks):
                patch.setattr(kind, "FEWEST", NO_BLOCKS)
            patch.setattr(idle_blocks, "FEWEST_PIECES", NO_BLOCKS)
            for name, expected in tables(same_job, excerpt):
                pd.testing.assert_frame_equal(added_up[name], expected, obj=f"{name} of {excerpt}")


@settings(max_examples=40)
@given(
    modules_and_work() | annotated(),
    st.lists(st.tuples(st.integers(-5, 40), st.integers(1, 60)), min_size=1, max_size=3),
    st.integers(1, 4),
    st.none() | st.integers(0, 30),
)
def test_generated_jobs(tmp_path_factory, events, windows, size, first_step):
    if first_step is not None:
        events = [*events, *(step(number, first_step + 10 * number, 10) for number in range(3))]
    job, same = (open_job(tmp_path_factory.mktemp("blocks"), [events]) for _ in range(2))
    times = [(at * 1000, (at + length) * 1000) for at, length in windows]
    check(job, same, [{"window_ns": each} for each in times], size)


@settings(max_examples=60)
@given(
    modules_and_work() | annotated(),
    st.tuples(st.integers(-3, 15), st.lists(st.integers(1, 6), min_size=3, max_size=8)),
    st.lists(st.sets(st.integers(0, 7), min_size=1), min_size=1, max_size=4),
    st.integers(1, 4),
)
def test_steps_of_generated_jobs(tmp_path_factory, events, steps, chosen, size):
    begin, lengths = steps
    for number, length in enumerate(lengths):
        events = [*events, step(number, begin, length)]
        begin += length
    job, same = (open_job(tmp_path_factory.mktemp("steps"), [events]) for _ in range(2))
    known = window_of(job.rank(0)).steps.tolist()
    excerpts = [{"steps": sorted(each & {*known})} for each in chosen if each & {*known}]
    check(job, same, excerpts, size)


def thirds(job):
    """Windows of a third of the time; some of the steps, and all but one."""
    rank = job.rank(job.ranks[0])
    span_ns = int(rank.trace.events.end_ns.max())
    for k in (1, 2, 9):
        yield {"window_ns": (span_ns * k // 20, span_ns * k // 20 + span_ns // 3)}
    steps = window_of(rank).steps.tolist()
    if len(steps) > 1:
        yield from ({"steps": each} for each in (steps, steps[1:], steps[::2], steps[:-1]))
        yield {"steps": [*steps[:1], *steps[2:]]}
        yield {"steps": steps[::2], "window_ns": (span_ns // 5, span_ns)}


def test_a_sample_job(tmp_path):
    write_sample(tmp_path / "job", ranks=2, steps=6, progress=False)
    job, same = (open_trace(tmp_path / "job", progress=False) for _ in range(2))
    check(job, same, thirds(job), 200)


@pytest.mark.parametrize("name", TRACES)
def test_real_traces(kineto_jobs, name):
    job, same = (open_trace(kineto_jobs[name], progress=False) for _ in range(2))
    check(job, same, thirds(job), 1000)


def test_a_kernel_across_many_blocks_is_one(tmp_path):
    """It is counted where the window begins, or where it begins in the window."""
    events = [
        host(0, 10, "aten::mm"),
        call(2, 2, 1),
        kernel(10, 500, correlation=1),
        *(host(20 + place, 0.5, "aten::relu") for place in range(400)),
    ]
    job = open_job(tmp_path, [events])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "EVENTS", 20)
        for window_ns in ((5_000, 400_000), (50_000, 400_000)):
            row = (
                operators(job, window_ns=window_ns).operators.set_index("operator").loc["aten::mm"]
            )
            assert row["gpu_work"] == 1
            assert row["gpu_self_ns"] == window_ns[1] - max(window_ns[0], 10_000)
            assert launch_facts(job, window_ns=window_ns).kernels["count"].tolist() == [1]


def test_a_kernel_that_runs_when_the_first_step_begins_is_counted(tmp_path):
    """It begins in a block of which nothing is counted."""
    events = [
        *(host(place, 0.5, "aten::relu") for place in range(100)),
        host(100, 10, "aten::mm"),
        call(102, 2, 1),
        kernel(110, 300, correlation=1),
        *(host(120 + place, 0.5, "aten::relu") for place in range(200)),
        *(step(number, 200 + 100 * number, 100) for number in range(4)),
    ]
    job = open_job(tmp_path, [events])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "EVENTS", 15)
        for begin_ns in (0, 112_000):
            window_ns = (begin_ns, 390_000)
            row = (
                operators(job, window_ns=window_ns).operators.set_index("operator").loc["aten::mm"]
            )
            assert row[["gpu_work", "gpu_self_ns"]].tolist() == [1, 190_000]
            assert launch_facts(job, window_ns=window_ns).kernels["count"].tolist() == [1]


def test_without_events_there_are_no_blocks(tmp_path):
    job = open_job(tmp_path, [[]])
    assert operators(job, window_ns=(0, 1000)).operators.empty
    assert launch_facts(job, window_ns=(0, 1000)).kernels.empty
    assert flame(job, 0, window_ns=(0, 1000)).total_ns == 0


def test_each_block_is_asked_once(tmp_path):
    job = open_job(tmp_path, [[host(place, 0.5, "aten::relu") for place in range(400)]])
    rank, asked = job.rank(0), []

    def function(_, excerpt):
        asked.append(excerpt.window_of(rank))
        return excerpt.continued

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "EVENTS", 20)
        for end in (300_000, 310_000):
            excerpt = blocks.Excerpt((), ((0, (15_000, end)),))
            parts = blocks.sums_of_parts(rank, function, excerpt)
            assert sorted(parts) == [False, *[True] * (len(parts) - 1)]
    whole = [each for each in asked if each[0] > 15_000 and each[1] < 300_000]
    assert len(whole) == len({*whole}) > 5


@pytest.mark.parametrize("size", [1, 8, 12])
def test_a_kernel_across_steps_is_one(tmp_path, size):
    """It is counted in the first of the chosen steps in which it runs."""
    events = [
        host(0, 3, "aten::all_reduce"),
        call(1, 1, 1),
        kernel(2, 55, correlation=1, name="ncclDevKernel_AllReduce", stream=20),
        *(step(number, 10 * number, 10) for number in range(9)),
    ]
    for number in range(9):
        at = 10 * number
        events += [host(at + 4, 3, "aten::mm"), call(at + 5, 1, number + 2)]
        events.append(kernel(at + 6, 3, correlation=number + 2))
    job = open_job(tmp_path, [events])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(step_blocks, "EVENTS", size)
        patch.setattr(step_blocks, "MOST", 1000)
        patch.setattr(step_blocks, "FEWEST", 1)
        for chosen, pieces in (((0, 1, 2), 1), ((1, 4, 5), 1), ((5, 6), 1), ((6, 7), 0)):
            table = operators(job, steps=chosen).operators.set_index("operator")
            found = table["gpu_work"].get("aten::all_reduce", 0)
            assert found == pieces, chosen
            assert table["gpu_work"]["aten::mm"] == len(chosen)
