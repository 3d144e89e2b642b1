"""Recordings at the edge of what a replay can be made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from hta_widgets import diagnose
from hta_widgets.diagnosis.rank_answers import replay
from hta_widgets.diagnosis.replay import network
from hta_widgets.diagnosis.replay.edits import (
    CommunicationHidden,
    EqualWork,
    HostSpeed,
    KernelsFaster,
    WithoutHostWork,
)
from hta_widgets.diagnosis.replay.operations import Operations
from hta_widgets.diagnosis.replay.replay import Replay
from hta_widgets.diagnosis.replay.waiting_calls import Wait, waiting_calls
from hta_widgets.errors import ParameterError, UnknownRankError
from hta_widgets.trace.job import Job
from hta_widgets.trace.model.events import RESOLUTION
from hta_widgets.trace.opening.open import open_trace
from tests.diagnosis.replay.replayed import EDITS, prices_ns
from tests.kineto_text import Event, call, host, kernel, step, write

MS = 1e6
WAIT, STREAM = 1, 2
"""Kinds of edges, of which the first may be left out."""

HOST_TIME = [step(0, 0, 1_000), host(10, 900, "aten::mm"), step(1, 1_000, 1_000)]
TWO_STEPS = [
    event
    for number in range(2)
    for at in (1_000 * number,)
    for event in (
        step(number, at, 1_000),
        call(at + 100, 10, 2 * number + 1),
        kernel(at + 115, 300, correlation=2 * number + 1),
        call(at + 500, 10, 2 * number + 2),
        kernel(at + 520, 100, correlation=2 * number + 2),
    )
]
"""The step ends with the last kernel that it launches: 620 and 1,000 µs."""


def job_of(folder: Path, ranks: Mapping[int, Sequence[Event]]) -> Job:
    for rank, events in ranks.items():
        known = {"rank": rank, "world_size": len(ranks)}
        write(folder / f"rank-{rank}.json", [*events], distributedInfo=known)
    return open_trace(folder, progress=False, include_last_profiler_step=True)


def checked(job: Job) -> Replay:
    """A replay that gives the recording back, and can be asked everything."""
    found = replay(job)
    assert found.is_sound
    assert found.off_ns == 0
    assert all(0 <= price <= found.step_ms * MS for price in prices_ns(found).values())
    for edits in EDITS.values():
        asked = found.what_if(*edits)
        assert asked.lower_ms <= asked.gain_ms <= asked.upper_ms
    for number in (None, *found.job.steps):
        path = found.critical_path(number)
        assert path.parts.length_ns.sum() == path.length_ns or not path.parts.end_ns.size
        assert path.bound_by
    diagnose(job)
    return found


@pytest.mark.parametrize("events", [[], HOST_TIME])
def test_a_job_without_gpu_work_cannot_be_replayed(events, tmp_path):
    job = job_of(tmp_path, {0: events})
    with pytest.raises(ParameterError, match="no GPU work was recorded of rank 0"):
        replay(job)
    assert not diagnose(job)


@pytest.mark.parametrize("events", [[], HOST_TIME])
def test_ranks_without_gpu_work_are_left_out(events, tmp_path):
    found = checked(job_of(tmp_path, {0: TWO_STEPS, 1: events}))
    assert found.job.ranks == (0,)
    assert found.step_ms == pytest.approx(0.81)


def test_the_steps_of_a_rank_count_where_another_has_none(tmp_path):
    without = [event for event in TWO_STEPS if "ProfilerStep" not in event["name"]]
    found = checked(job_of(tmp_path, {0: TWO_STEPS, 1: without}))
    assert found.job.ranks == (0, 1)
    assert found.job.steps == (0, 1)
    assert found.step_ms == pytest.approx(0.81)
    assert [*found.what_if().by_rank] == [0]


def test_steps_without_a_recorded_launch_end_with_their_work(tmp_path):
    """From the first mark to the last end; nothing recorded explains most of what is between."""
    marks = [step(0, 0, 1_000), step(1, 1_000, 1_000)]
    kernels = [kernel(100, 50), kernel(151, 50), kernel(300, 20, stream=8), kernel(1_400, 10)]
    found = checked(job_of(tmp_path, {0: [*marks, *kernels]}))
    path = found.critical_path().by_class
    assert path["ns"].sum() == 1_410_000
    assert path["class"].iloc[0] == "unexplained"
    assert path.set_index("class")["ns"]["compute"] == 110_000


def test_a_rank_without_any_launch_keeps_its_gaps(tmp_path):
    """It can only be asked for what its streams do by themselves."""
    kernels = [kernel(100, 50), kernel(151, 50), kernel(300, 20, stream=8), kernel(400, 10)]
    found = checked(job_of(tmp_path, {0: kernels}))
    assert found.step_ms == pytest.approx(0.31)
    assert {name: price for name, price in prices_ns(found).items() if price} == {"starts": 1_000}


def test_kernels_of_a_graph_start_no_faster(tmp_path):
    """The device starts them: of 27 ms of decoding, 2.1 ms were once a host's."""
    kernels = [kernel(100 + 51 * place, 50, correlation=1) for place in range(4)]
    found = checked(job_of(tmp_path, {0: [call(80, 10, 1, name="cudaGraphLaunch"), *kernels]}))
    assert prices_ns(found)["starts"] == 0
    alone = [call(20 * place, 5, 1 + place) for place in range(4)]
    kernels = [kernel(100 + 51 * place, 50, correlation=1 + place) for place in range(4)]
    (tmp_path / "alone").mkdir()
    found = checked(job_of(tmp_path / "alone", {0: [*alone, *kernels]}))
    assert prices_ns(found)["starts"] == 3_000


@pytest.mark.parametrize("launch", [[], [call(0, 5, 1)]])
def test_one_operation_is_all_there_is(launch, tmp_path):
    found = checked(job_of(tmp_path, {0: [*launch, kernel(10, 50, correlation=1)]}))
    assert found.step_ms == pytest.approx(0.05)
    assert not any(prices_ns(found).values())
    assert found.critical_path().by_class["class"].tolist() == ["compute"]


def test_operations_without_length(tmp_path):
    events = [step(0, 0, 100)]
    for number, at in enumerate((0, 0, 10), start=1):
        events += [call(at, 0, number), kernel(at, 0, correlation=number, stream=7 + number // 3)]
    found = checked(job_of(tmp_path, {0: events}))
    assert found.step_ms == pytest.approx(0.01)


def test_operations_that_start_together_do_not_explain_each_other(tmp_path):
    """Copies without length, launched long before: no order would be left."""
    events = []
    for number, stream in ((1, 7), (2, 8)):
        events.append(call(10, 1, number, name="cudaMemcpyAsync", tid=100 + number))
        events.append(kernel(100, 0, correlation=number, stream=stream))
    found = checked(job_of(tmp_path, {0: [kernel(0, 5), *events]}))
    assert found.network.dropped == 0
    assert not found.job.after.size


def test_only_the_main_device_of_a_rank_ends_a_step(tmp_path):
    events = [
        step(0, 0, 1_000),
        call(100, 10, 1),
        kernel(115, 300, correlation=1),
        call(120, 10, 2),
        kernel(135, 700, correlation=2, device=1),
        call(200, 10, 3),
        kernel(416, 100, correlation=3),
        call(300, 540, 4, name="cudaDeviceSynchronize"),
        call(900, 10, 5),
        kernel(910, 50, correlation=5),
    ]
    job = job_of(tmp_path, {0: events})
    found = checked(job)
    assert found.step_ms == pytest.approx(0.96)
    assert found.job.stream.max() == 1
    waits = waiting_calls(Operations(job.rank(0)))
    assert sorted(waits.operation.tolist()) == [1, 3], "the last of both devices is awaited"
    after_the_one_before = 516_000 + 1_000  # the usual gap, where too few tell
    gain_ns = 910_000 - after_the_one_before
    assert found.gain_ns(EDITS["blocking_sync"]) == pytest.approx(gain_ns)


def test_operations_that_overlap_on_a_stream_keep_their_overlap(tmp_path):
    """As those of graphs do: the second begins 100 µs before the end of the first."""
    events = [
        step(0, 0, 1_000),
        call(100, 10, 1),
        kernel(115, 300, correlation=1),
        call(120, 10, 2),
        kernel(315, 300, correlation=2),
    ]
    found = checked(job_of(tmp_path, {0: events}))
    assert found.job.weights.gap.tolist() == [-np.inf, -100_000]
    assert found.gain_ns(EDITS["launch_bound"]) == pytest.approx(100_000)
    shorter = found.job.weights.duration * [0.5, 1]
    lengths = found.lengths_ns(found.job.weights.changed(duration=shorter))
    assert lengths.tolist() == [615_000 - 150_000]


def test_times_of_a_coarse_clock_may_contradict_each_other_by_two_of_its_steps(tmp_path):
    """A call that ends 2.5 µs before what it waits for, by the times that are written."""
    events = [
        step(0, 0, 1_000),
        call(100, 10, 1),
        kernel(110, 392.5, correlation=1),
        call(120, 380, 2, name="cudaDeviceSynchronize"),
    ]
    for resolution_ns, awaited in ((0, 0), (1_000, 1)):
        folder = tmp_path / str(resolution_ns)
        folder.mkdir()
        job = job_of(folder, {0: events})
        job.rank(0).trace.metadata[RESOLUTION] = resolution_ns  # type: ignore[index]
        waits = waiting_calls(Operations(job.rank(0)))
        assert waits.operation.size == awaited
        assert checked(job).is_sound


def test_work_launched_before_the_recording_fills_a_queue(tmp_path):
    """As in 0.3 s of two H100: launches took until a copy of earlier work had ended."""
    queued = [kernel(at, 10) for at in range(0, 10_000, 10)]
    events = [step(0, 0, 12_000)]
    for number in range(3):
        begin = 100 + 1_000 * number
        events.append(call(begin, 995, number + 1))
        events.append(kernel(10_000 + 10 * number, 10, correlation=number + 1))
    job = job_of(tmp_path, {0: [*queued, *events]})
    waits = waiting_calls(Operations(job.rank(0)))
    assert set(waits.kind.tolist()) == {Wait.QUEUE}
    assert waits.row.size == 3
    checked(job)


def test_any_number_of_circles_is_opened_in_a_few_passes(monkeypatch):
    """Clocks that contradict each other everywhere must not take a pass for each contradiction."""
    passes = []
    sort = network._sorted
    monkeypatch.setattr(network, "_sorted", lambda *given: passes.append(1) or sort(*given))
    first = np.arange(0, 2_000, 2)
    source, target = np.concatenate((first, first + 1)), np.concatenate((first + 1, first))
    for kinds in ((WAIT, STREAM), (STREAM, WAIT), (WAIT, WAIT)):
        passes.clear()
        kind = np.repeat(kinds, first.size)
        position, kept = network._ordered(np.arange(2_000.0), source, target, kind)
        assert len(passes) <= 3
        assert kept.size == first.size
        assert (position[source[kept]] < position[target[kept]]).all()
        assert sorted(position.tolist()) == [*range(2_000)]


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (lambda: HostSpeed(0), "must be more than 0, got 0"),
        (lambda: HostSpeed(float("nan")), "must be more than 0, got nan"),
        (lambda: HostSpeed(2, ranks=(0, 7)), "rank 7 is not in this job; its ranks are 0-1"),
        (lambda: WithoutHostWork(("loader",)), "must be one of 'profiler', 'loading'"),
        (lambda: EqualWork("mode"), "must be one of 'mean', 'median', got 'mode'"),
        (lambda: CommunicationHidden(1.01), "must be from 0 to 1, got 1.01"),
        (lambda: KernelsFaster({"gemm"}, -0.1), "must be 0 or more, got -0.1"),
        (lambda: KernelsFaster("gemm", 0.5), "has the name 'gemm'"),
        (lambda: 2, "what_if takes changes of .*, got 2"),
    ],
)
def test_a_change_that_cannot_be_is_refused(tmp_path, ask, says):
    found = replay(job_of(tmp_path, dict.fromkeys(range(2), TWO_STEPS)))
    with pytest.raises((ParameterError, UnknownRankError), match=says):
        found.what_if(ask())


def test_one_name_of_a_kernel_is_a_set_of_one(tmp_path):
    found = replay(job_of(tmp_path, {0: TWO_STEPS}))
    [name] = found.job.names[0]
    answers = [found.what_if(KernelsFaster(each, 0.5)).gain_ms for each in (name, {name})]
    assert answers == [0.025, 0.025]  # the last kernel ends 50 µs sooner, after two steps


@pytest.mark.parametrize("edit", [HostSpeed(1e9), CommunicationHidden(1), CommunicationHidden(0)])
def test_a_change_at_the_end_of_its_range_is_none_that_is_refused(tmp_path, edit):
    found = replay(job_of(tmp_path, {0: TWO_STEPS}))
    assert 0 <= found.what_if(edit).step_ms <= found.step_ms
