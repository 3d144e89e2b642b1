"""Idle owners against brute force, and the rules one by one."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hta_widgets.analyses.budget.device_steps import CLASS_NAMES, counted_segments
from hta_widgets.analyses.budget.idle_gaps import PARTS, gaps_of, owned_time
from hta_widgets.analyses.idle_owners import idle_owners
from hta_widgets.analyses.idle_owners.sums import OTHERWISE_WORTH_SAYING, causes_by_device
from hta_widgets.analyses.time import patterns
from hta_widgets.analyses.time.causes import (
    CAUSE_NAMES,
    CODE,
    IDLE_CAUSES,
    Share,
    idle_cause,
)
from hta_widgets.analyses.time.selection import TimeSelection
from hta_widgets.analyses.time.window import window_of
from hta_widgets.diagnosis import diagnosis
from hta_widgets.errors import ParameterError, UnknownRankError, UnknownStepError
from hta_widgets.trace.model.events import Kind
from hta_widgets.trace.opening.open import open_trace
from tests import nsys_export
from tests.analyses.generated_jobs import open_job
from tests.diagnosis.findings.scripts import Host
from tests.kineto_text import call, host, kernel, step, write
from tests.raw_idle import RawIdle


def frame(ts, dur, name, **where):
    return host(ts, dur, name, cat="python_function", **where)


def annotation(ts, dur, name, **where):
    return host(ts, dur, name, cat="user_annotation", **where)


def overhead(ts, dur, name="Activity Buffer Request", **where):
    return host(ts, dur, name, cat="overhead", **where)


def api(ts, dur, name, correlation=1000, **where):
    return call(ts, dur, correlation, name=name, **where)


def paths_of(result):
    found = {-1: ()}
    for row in result.paths.to_dict("records"):
        found[row["path"]] = (*found[row["parent"]], row["name"])
    return found


def by_owner(result):
    paths, found = paths_of(result), Counter()
    for row in result.owners.to_dict("records"):
        key = (row["device"], row["step"], row["part"], row["cause"], paths[row["path"]])
        found[key] += row["idle_ns"]
    return found


def by_brute_force(events):
    raw, found = RawIdle(events), Counter()
    for device in raw.devices():
        for row in raw.rows(device):
            key = (device, row["step"], row["part"], row["cause"], row["path"] or ())
            found[key] += row["ns"]
    return found


def causes(tmp_path, events, part="between"):
    """Idle time (µs) by cause."""
    result = idle_owners(open_job(tmp_path, [events]))
    table = result.causes[result.causes["part"] == part]
    return {cause: rows["idle_ns"].sum() / 1000 for cause, rows in table.groupby("cause")}


def owners(tmp_path, events, part="between"):
    """Idle time (µs) by innermost call."""
    result = idle_owners(open_job(tmp_path, [events]))
    table = result.owners[result.owners["part"] == part]
    return {owner: rows["idle_ns"].sum() / 1000 for owner, rows in table.groupby("owner")}


NAMES = (
    *("aten::mm", "train.py(3): step", "## backward ##", "autograd::engine::evaluate_function"),
    *("torch/autograd/profiler.py(1): __enter__", "enumerate(DataLoader)#next", "cudaMalloc"),
    *("ProfilerStep#1", "ProfilerStep#2", "cudaStreamSynchronize", "Python GC"),
)
CATEGORIES = ("cpu_op", "user_annotation", "python_function", "cuda_runtime", "overhead")


@st.composite
def calls_and_work(draw):
    threads = st.sampled_from([1, 1, 2, 3])
    starts, lengths = st.integers(0, 90), st.integers(0, 40)
    events = [
        {
            **host(draw(starts), draw(lengths), draw(st.sampled_from(NAMES)), tid=draw(threads)),
            "cat": draw(st.sampled_from(CATEGORIES)),
        }
        for _ in range(draw(st.integers(0, 9)))
    ]
    for number in range(draw(st.integers(1, 5))):
        name = draw(st.sampled_from(["cudaLaunchKernel", "cudaGraphLaunch"]))
        if draw(st.integers(0, 5)):
            events.append(call(draw(starts), draw(lengths), number, name=name, tid=draw(threads)))
        events += [
            kernel(
                draw(st.integers(0, 120)),
                draw(st.integers(0, 20)),
                name=draw(st.sampled_from(["gemm", "ncclDevKernel_AllReduce"])),
                device=draw(st.sampled_from([0, 0, 1])),
                stream=draw(st.sampled_from([7, 7, 20])),
                correlation=number,
            )
            for _ in range(draw(st.integers(1, 3)))
        ]
    return draw(st.permutations(events))


TWO_STEPS_AT_ONCE = [host(0, 1, "aten::mm"), step(1, 1, 0), step(2, 1, 0), kernel(0, 0)]
A_FRAME_NAMED_LIKE_A_STEP = [frame(0, 0, "ProfilerStep#1"), kernel(1, 0, correlation=0)]


LATE_BEHIND = [
    *(call(0, 1, 1), kernel(1, 4, correlation=1), kernel(20, 2), kernel(25, 2)),
    *(host(6, 30, "aten::mm"), call(40, 3, 2), kernel(50, 5, correlation=2)),
]


BUSY_BEFORE = [
    *(step(1, 0, 5_000), step(2, 5_000, 10), host(5, 4_800, "aten::mm")),
    *(call(2, 1, 1), kernel(4, 10, correlation=1, stream=20)),
    *(call(20, 5, 2), kernel(3_000, 40, correlation=2), kernel(3_050, 40, correlation=2)),
    *(call(3_200, 5, 3), kernel(3_210, 100, correlation=3)),
]


ONE_DEVICE_AFTER_THE_OTHER = [
    *(kernel(0, 10), kernel(30, 10), kernel(60, 10)),
    *(kernel(5, 10, device=1), kernel(25, 10, device=1), kernel(55, 10, device=1)),
]


@given(calls_and_work())
@example(ONE_DEVICE_AFTER_THE_OTHER)
def test_work_after_each_interval_is_of_its_own_device(tmp_path_factory, events):
    rank = open_job(tmp_path_factory.mktemp("after"), [events]).rank(0)
    gaps, columns = gaps_of(rank), rank.trace.events
    work = [
        (int(columns.device[row]), int(columns.start_ns[row]))
        for row in range(len(columns))
        if columns.kind[row] == Kind.KERNEL
    ]
    for device, end_ns, row in zip(gaps.device, gaps.end_ns, gaps.after, strict=True):
        begins = (int(device), int(end_ns))
        assert (row >= 0) == (begins in work)
        if row >= 0:
            assert (columns.device[row], columns.start_ns[row]) == begins


@given(calls_and_work())
@example(BUSY_BEFORE)
@example(LATE_BEHIND)
@example(A_FRAME_NAMED_LIKE_A_STEP)
@example(TWO_STEPS_AT_ONCE)
def test_against_brute_force(tmp_path_factory, events):
    result = idle_owners(open_job(tmp_path_factory.mktemp("idle"), [events]))
    assert by_owner(result) == by_brute_force(events)
    check_sums(result)


def check_sums(result):
    devices = result.devices.set_index(["rank", "device"])
    assert (devices["window_ns"] - devices["busy_ns"] == devices["idle_ns"]).all()
    for table in (result.causes, result.owners):
        by_device = table.groupby(["rank", "device"])["idle_ns"].sum()
        assert by_device.to_dict() == devices["idle_ns"][devices["idle_ns"] > 0].to_dict()
    keys = ["rank", "device", "step", "part", "cause"]
    by_cause = [table.groupby(keys)["idle_ns"].sum() for table in (result.causes, result.owners)]
    assert by_cause[0].to_dict() == by_cause[1].to_dict()


@given(calls_and_work(), st.data())
def test_what_changes_nothing(tmp_path_factory, events, data):
    """Neither a shift in time nor another order of the file, nor new ids, nor one more thread."""
    events = [{**event, "ts": event["ts"] + place / 1000} for place, event in enumerate(events)]
    expected = by_owner(idle_owners(open_job(tmp_path_factory.mktemp("idle"), [events])))
    changed = [
        {**event, "ts": event["ts"] + 10**6, "tid": event["tid"] * 7}
        for event in data.draw(st.permutations(events))
    ]
    work = next(event for event in changed if event["cat"] == "kernel")
    changed.append(host(work["ts"], 0, "unrelated", tid=99))
    folder = tmp_path_factory.mktemp("changed")
    assert by_owner(idle_owners(open_job(folder, [changed]))) == expected


def test_parts_of_an_interval(tmp_path):
    """Before the launch call, in it, and after it."""
    events = [kernel(0, 10), call(40, 20, 1), kernel(100, 5, correlation=1)]
    assert causes(tmp_path, events) == {
        "nothing_recorded": 30,
        "launching": 20,
        "dependency": 40,
    }


def test_a_late_call_counts_at_least_15_us(tmp_path):
    events = [kernel(0, 10), call(40, 2, 1), kernel(100, 5, correlation=1)]
    assert causes(tmp_path, events) == {
        "nothing_recorded": 30,
        "launching": 15,
        "dependency": 45,
    }


def test_a_long_gap_whose_call_returned_at_once_is_not_the_hosts(tmp_path):
    """Issue 17: 493 ms idle, of which the launch call took 45 µs."""
    events = [kernel(0, 10), call(12, 43, 1), kernel(493_010, 5, correlation=1)]
    found = causes(tmp_path, events)
    assert found["dependency"] == 493_000 - 45
    assert sum(found.values()) == 493_000


def test_a_call_that_began_before_the_gpu_ran_dry(tmp_path):
    short = [call(5, 8, 1), kernel(0, 10), kernel(18, 1, correlation=1)]
    assert causes(tmp_path, short) == {"launching": 3, "between_kernels": 5}
    long = [call(5, 45, 1), kernel(0, 10), kernel(60, 1, correlation=1)]
    assert causes(tmp_path, long) == {"launching": 40, "dependency": 10}


def test_launched_in_time(tmp_path):
    short = [call(1, 2, 1), kernel(0, 10), kernel(39.999, 1, correlation=1)]
    assert causes(tmp_path, short) == {"between_kernels": 29.999}
    long = [call(1, 2, 1), kernel(0, 10), kernel(40, 1, correlation=1)]
    assert causes(tmp_path, long) == {"dependency": 30}


def test_a_blocking_call_is_no_cause_where_the_work_was_launched_before(tmp_path):
    """The host sits in a copy that waits for the work, and is the victim."""
    events = [
        *(call(1, 2, 1), kernel(0, 10), kernel(500, 5, correlation=1)),
        api(5, 510, "hipMemcpyWithStream"),
    ]
    assert causes(tmp_path, events) == {"dependency": 490}
    assert owners(tmp_path, events) == {"cudaLaunchKernel": 490}


def test_unknown_launches(tmp_path):
    events = [kernel(0, 10), host(11, 30, "aten::mm"), kernel(50, 1), kernel(60, 1, correlation=4)]
    assert causes(tmp_path, events) == {"launch_not_recorded": 49}
    assert owners(tmp_path, events) == {"": 49}


def late_behind_a_fill(second_launch_us):
    """A kernel until 10, a fill without a launch at 50, and on its stream a kernel at 60."""
    fill = kernel(50, 1, name="Memset (Device)", cat="gpu_memset")
    first = [call(0, 2, 1), kernel(2, 8, correlation=1)]
    return [*first, fill, call(second_launch_us, 2, 2), kernel(60, 1, correlation=2)]


def test_launches_behind_work_without_one(tmp_path):
    """What a fill without a launch is for was not launched either when the GPU ran dry."""
    late, early, first = (tmp_path / name for name in ("late", "early", "first"))
    for folder in (late, early, first):
        folder.mkdir()
    assert causes(late, late_behind_a_fill(55))["nothing_recorded"] == 40 + 4
    assert causes(early, late_behind_a_fill(9))["launch_not_recorded"] == 40
    of_stream = [each for each in late_behind_a_fill(55) if each["ts"] > 10]
    others = [call(0, 2, 1), kernel(2, 8, correlation=1, stream=20)]
    assert causes(first, [*others, *of_stream])["launch_not_recorded"] == 40


def test_inside_a_graph(tmp_path):
    graph = call(0, 3, 1, name="cudaGraphLaunch")
    events = [graph, *(kernel(ts, 5, correlation=1) for ts in (4, 50, 120))]
    assert causes(tmp_path, events) == {"inside_graph": 41 + 65}
    assert owners(tmp_path, events) == {"cudaGraphLaunch": 41 + 65}
    one_call = [call(0, 3, 1), *(kernel(ts, 5, correlation=1) for ts in (4, 50))]
    assert causes(tmp_path, one_call) == {"dependency": 41}


def test_the_first_operation_of_a_graph_waits_for_its_launch(tmp_path):
    events = [kernel(0, 5), call(20, 1, 1, name="cudaGraphLaunch"), kernel(60, 1, correlation=1)]
    assert causes(tmp_path, events)["nothing_recorded"] == 15


def test_two_kernels_that_start_at_once(tmp_path):
    """The one launched first ends the interval."""
    events = [
        *(kernel(0, 10), call(5, 1, 1), call(40, 1, 2)),
        *(kernel(50, 5, correlation=2), kernel(50, 5, stream=20, correlation=1)),
    ]
    assert causes(tmp_path, events) == {"dependency": 40}


def test_kernels_of_no_duration(tmp_path):
    """They keep no GPU busy, and end an interval only where nothing else starts."""
    events = [
        *(kernel(0, 10), kernel(20, 0), call(5, 1, 1), call(2, 1, 2)),
        *(kernel(50, 0, correlation=2), kernel(50, 5, correlation=1)),
    ]
    assert owners(tmp_path, events) == {"cudaLaunchKernel": 40}
    result = idle_owners(open_job(tmp_path, [events]))
    assert result.devices["gaps"].tolist() == [1]


def test_head_and_tail(tmp_path):
    events = [
        *(host(0, 100, "aten::mm"), call(40, 5, 1), kernel(50, 10, correlation=1)),
        host(120, 80, "aten::add"),
    ]
    assert causes(tmp_path, events, "head") == {"operator": 40, "launching": 10}
    assert causes(tmp_path, events, "tail") == {"operator": 40 + 80, "nothing_recorded": 20}
    assert causes(tmp_path, events) == {}


def test_work_that_runs_where_the_window_begins(tmp_path):
    events = [step(1, 10, 40), step(2, 60, 40), kernel(0, 10), call(12, 1, 1)]
    events += [kernel(30, 10, correlation=1), host(11, 60, "aten::mm")]
    assert causes(tmp_path, events, "head") == {}
    assert causes(tmp_path, events)["operator"] == 1


def test_two_devices(tmp_path):
    events = [
        *(kernel(0, 10), kernel(10, 10, device=1), call(1, 1, 1), call(15, 1, 2)),
        *(kernel(20, 10, correlation=1), kernel(30, 10, device=1, correlation=2)),
    ]
    result = idle_owners(open_job(tmp_path, [events]))
    assert result.devices["idle_ns"].tolist() == [20_000, 20_000]
    check_sums(result)


@pytest.mark.parametrize(
    ("cause", "events"),
    [
        ("operator", [host(8, 90, "aten::mm")]),
        ("host_code", [frame(8, 90, "train.py(3): step")]),
        ("host_code", [annotation(8, 90, "forward")]),
        ("operator", [host(8, 90, "aten::mm"), frame(9, 80, "inner.py(1): f")]),
        ("profiler", [overhead(8, 90, tid=5)]),
        ("initialising", [overhead(8, 90, "Runtime Triggered Module Loading", tid=5)]),
        ("profiler", [overhead(8, 90, "Lazy Function Loading"), overhead(7, 92)]),
        ("profiler", [frame(8, 90, "torch/profiler/profiler.py(9): step")]),
        (
            "data_loading",
            [annotation(8, 90, "enumerate(DataLoader)#_Next"), host(9, 80, "aten::a")],
        ),
        ("garbage_collection", [host(8, 90, "Python GC")]),
        ("compiling", [frame(8, 90, "torch/_dynamo/convert_frame.py(1): f"), host(9, 70, "a")]),
        ("allocating", [api(8, 90, "cudaMalloc")]),
        ("allocating", [api(8, 90, "hipHostMalloc"), api(9, 70, "cuMemAlloc", cat="cuda_driver")]),
        ("initialising", [api(8, 90, "cuModuleLoadData", cat="cuda_driver")]),
        ("initialising", [api(-1_000, 1_098, "cudaStreamCreateWithFlags")]),
        ("launching", [api(-900, 998, "cudaStreamCreateWithFlags")]),
        ("synchronising", [api(9.5, 88, "cudaDeviceSynchronize")]),
        ("launching", [api(9, 90, "cudaStreamIsCapturing")]),
        ("operator", [host(8, 90, "cudaMalloc")]),
    ],
)
def test_what_the_host_did(tmp_path, cause, events):
    """80 µs of idle time between two kernels, while the host is in some call."""
    launch = [kernel(0, 10), call(90, 1, 1), kernel(106, 5, correlation=1)]
    found = causes(tmp_path, [*launch, *events])
    assert found[cause] >= 80


def test_every_cause_has_a_name_in_a_diagnosis():
    assert len({*CAUSE_NAMES}) == len(CAUSE_NAMES)
    for cause in IDLE_CAUSES:
        assert idle_cause(cause.name) is cause
    decided_by_rules = {cause.name for cause in IDLE_CAUSES if not cause.gap}
    assert decided_by_rules == {"launching", "operator", "host_code", "nothing_recorded"}
    on_the_gpu = {cause.name for cause in IDLE_CAUSES if cause.share is Share.GPU}
    assert {idle_cause(name).gap for name in on_the_gpu} == {"gap_depend"}


@pytest.mark.parametrize(
    ("pattern", "fitting", "others"),
    [
        (
            patterns.PROFILER,
            ["torch/autograd/profiler.py(7): __exit__", "torch/profiler/profiler.py(1): step"],
            ["profile.py(3): run"],
        ),
        (
            patterns.DATA_LOADING,
            ["enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"],
            ["aten::data"],
        ),
        (
            patterns.GARBAGE_COLLECTION,
            ["Python GC", "<built-in function collect>", "gc.py(2): freeze"],
            ["collect", "my_gc.py(2): f"],
        ),
        (
            patterns.COMPILING,
            ["torch/_inductor/compile_fx.py(3): compile_fx", "triton/compiler/compiler.py(9): f"],
            ["torch/_inductor/utils.py(3): run"],
        ),
        (
            patterns.ALLOCATING,
            ["cudaMalloc", "cudaFree", "hipHostRegister", "cuMemMap", "cudaMallocAsync_v11020"],
            ["cudaMemcpyAsync", "cuMemcpyHtoD_v2", "my_cudaMalloc"],
        ),
        (
            patterns.INITIALISING,
            ["cuModuleLoadDataEx", "cudaFuncGetAttributes", "hipModuleGetFunction"],
            ["cudaLaunchKernel"],
        ),
        (
            patterns.BLOCKING,
            ["cudaDeviceSynchronize", "hipMemcpyWithStream", "cudaMemcpy_v3020", "cuMemcpyDtoH_v2"],
            ["cudaMemcpyAsync", "cudaStreamWaitEvent", "cuMemcpyAsync", "cudaMemsetAsync"],
        ),
        (patterns.BACKWARD_WAIT, ["## backward ##", "<built-in run_backward>"], ["backward"]),
        (
            patterns.AUTOGRAD_THREAD,
            ["autograd::engine::evaluate_function: MmBackward0"],
            ["aten::autograd"],
        ),
    ],
)
def test_patterns(pattern, fitting, others):
    assert all(pattern.search(name) for name in fitting)
    assert not any(pattern.search(name) for name in others)


def test_a_drain_is_paid_for_until_the_next_launch(tmp_path):
    """The host returns from `.item()` when the GPU has run dry, and has to catch up."""
    item = [host(2, 40, "aten::item"), api(3, 8, "cudaStreamSynchronize")]
    refill = [kernel(0, 10), host(50, 20, "aten::mm"), call(60, 5, 1)]
    events = [*item, *refill, kernel(80, 5, correlation=1)]
    assert causes(tmp_path, events) == {"synchronising": 65, "dependency": 5}
    drains = idle_owners(open_job(tmp_path, [events])).drains
    assert drains[["call", "count", "call_ns", "idle_behind_ns"]].to_dict("records") == [
        {
            "call": "cudaStreamSynchronize",
            "count": 1,
            "call_ns": 8_000,
            "idle_behind_ns": 65_000,
        }
    ]


@pytest.mark.parametrize("end", [8.999, 110.001])
def test_a_blocking_call_that_ends_at_another_time_is_no_drain(tmp_path, end):
    blocking = api(1, end - 1, "cudaStreamSynchronize", tid=100)
    events = [kernel(0, 10), blocking, host(120, 200, "aten::mm"), call(300, 5, 1)]
    found = causes(tmp_path, [*events, kernel(320, 5, correlation=1)])
    assert found["operator"] == 300 - 120


def test_launches_of_another_thread(tmp_path):
    """Where the launching thread does nothing, the main thread is used instead."""
    events = [
        *(step(1, 0, 200), step(2, 300, 10), host(15, 30, "aten::main")),
        *(kernel(0, 10), host(50, 30, "aten::worker", tid=7), call(70, 5, 1, tid=7)),
        kernel(90, 5, correlation=1),
    ]
    assert owners(tmp_path, events)["aten::main"] == 30
    assert owners(tmp_path, events)["aten::worker"] == 20


def test_the_backward_pass_runs_on_another_thread(tmp_path):
    """While the main thread waits for it, the autograd threads are asked."""
    backward = "autograd::engine::evaluate_function: MmBackward0"
    events = [
        *(kernel(0, 10), annotation(5, 90, "## backward ##"), call(80, 5, 1)),
        *(host(20, 30, backward, tid=8), kernel(90, 5, correlation=1)),
        *(call(1, 1, 9), kernel(1, 1, correlation=9)),
    ]
    assert owners(tmp_path, events)[backward] == 30
    assert owners(tmp_path, events)["## backward ##"] == 10 + 30


def test_a_range_that_began_in_another_frame_owns_the_time(tmp_path):
    events = [
        *(kernel(0, 10), frame(0, 100, "train.py(1): main")),
        frame(1, 20, "torch/autograd/profiler.py(1): __enter__"),
        *(annotation(8, 85, "forward"), call(80, 5, 1), kernel(96, 1, correlation=1)),
    ]
    assert causes(tmp_path, events)["host_code"] == 70


def test_steps(tmp_path):
    """A step ends with its last kernel that computes; after the last one, idle time is of none."""
    events = [
        *(step(1, 0, 100), step(2, 100, 100), step(3, 200, 100)),
        *(call(10, 1, 1), kernel(20, 100, correlation=1)),
        *(call(50, 1, 2), kernel(130, 10, correlation=2, name="ncclDevKernel_AllReduce")),
        *(call(150, 1, 3), kernel(170, 20, correlation=3)),
    ]
    result = idle_owners(open_job(tmp_path, [events]))
    by_step = result.causes.groupby("step")["idle_ns"].sum().to_dict()
    assert by_step == {1: 20_000, 2: 10_000 + 30_000, -1: 10_000}
    second = idle_owners(open_job(tmp_path, [events]), steps=[2])
    assert second.devices.to_dict("records") == [
        {
            "rank": 0,
            "device": 0,
            "window_ns": 70_000,
            "busy_ns": 30_000,
            "idle_ns": 40_000,
            "gaps": 2,
        }
    ]
    check_sums(second)


@pytest.mark.parametrize(
    ("until", "marks", "computes_us", "last"),
    [(80, 1, 39, 70), (80, 1, 40, 50), (80, 3, 39, 49), (65, 1, 39, 49)],
    ids=["one", "computes in half", "two", "early"],
)
def test_a_single_step_ends_with_what_its_host_waits_for(tmp_path, until, marks, computes_us, last):
    """One copied for 366 of 481 µs beside its kernels, and ended after 160."""
    events = [step(number, 100 * (number - 1), 100) for number in range(1, 1 + marks)]
    events += [call(5, 1, 1), kernel(10, computes_us, correlation=1)]
    copy = {"name": "Memcpy HtoD (Pinned -> Device)", "cat": "gpu_memcpy", "stream": 20}
    events += [call(2, 1, 2, name="cudaMemcpyAsync"), kernel(8, 62, correlation=2, **copy)]
    events += [call(20, until - 20, 3, name="cudaEventSynchronize")]
    for number in range(1, marks):  # of three, the first two are analysed
        begin = 100 * number
        events += [call(begin + 5, 1, 10 + number), kernel(begin + 10, 20, correlation=10 + number)]
    rank = open_job(tmp_path, [events]).rank(0)
    assert window_of(rank).step_edges(rank, 0)[:2].tolist() == [0, 1000 * last]


def test_a_launch_call_that_is_named_like_a_step(tmp_path):
    """It is a mark, not a call, so no thread launches the work."""
    events = [call(10, 5, 1, name="ProfilerStep#1"), kernel(30, 10, correlation=1)]
    events += [host(0, 60, "aten::mm"), kernel(50, 5)]
    result = idle_owners(open_job(tmp_path, [events]))
    assert result.devices["idle_ns"].tolist() == [45_000]
    check_sums(result)


ENDS_IN_AN_IDLE_INTERVAL = [
    *(step(1, 0, 100), step(2, 100, 100), step(3, 200, 100)),
    *(call(10, 1, 1), kernel(20, 30, correlation=1)),
    *(call(60, 1, 2), kernel(90, 0, correlation=2)),
    *(call(130, 5, 3), kernel(160, 20, correlation=3)),
]


def test_a_kernel_of_no_duration_ends_a_step_in_an_idle_interval(tmp_path):
    job = open_job(tmp_path, [ENDS_IN_AN_IDLE_INTERVAL])
    whole = idle_owners(job)
    assert by_owner(whole) == by_brute_force(ENDS_IN_AN_IDLE_INTERVAL)
    assert whole.causes.groupby("step")["idle_ns"].sum().to_dict() == {
        1: 60_000,
        2: 70_000,
        -1: 20_000,
    }
    assert whole.devices["gaps"].tolist() == [3]
    for number, idle_ns in ((1, 60_000), (2, 70_000)):
        part = idle_owners(job, steps=[number])
        assert part.devices["idle_ns"].tolist() == [idle_ns]
        check_sums(part)


@given(calls_and_work(), st.integers(0, 100), st.integers(1, 100))
def test_windows_add_up(tmp_path_factory, events, start, length):
    job = open_job(tmp_path_factory.mktemp("idle"), [events])
    cuts = [-1_000_000, start * 1_000, (start + length) * 1_000, 10_000_000]
    whole, parts = by_owner(idle_owners(job)), Counter()
    for window_ns in pairwise(cuts):
        result = idle_owners(job, window_ns=window_ns)
        check_sums(result)
        parts += by_owner(result)
    assert parts == whole


def selected_one_by_one(rank, excerpt):
    """Position, interval and length of each segment of the idle time that is selected."""
    owned, window_ns = owned_time(rank), excerpt.window_of(rank) if excerpt else None
    segments = owned.segments
    columns = (segments.gap, segments.start_ns, segments.end_ns)
    for at, (gap, start, end) in enumerate(zip(*map(np.ndarray.tolist, columns), strict=True)):
        edges = window_ns or (start, end)
        length = min(end, edges[1]) - max(start, edges[0])
        in_step = excerpt is None or not excerpt.steps or owned.step[at] in excerpt.steps
        if in_step and length > 0:
            yield at, gap, length


def intervals_of_causes(rank, excerpt):
    """Number of idle intervals with some time of each row of `causes`, counted one by one."""
    owned, gaps, counted = owned_time(rank), gaps_of(rank), counted_segments(rank)
    rows = set()
    for at, gap, _ in selected_one_by_one(rank, excerpt):
        part, cause = PARTS[gaps.part[gap]], CAUSE_NAMES[owned.cause[at]]
        budget = CLASS_NAMES[counted.as_class[at]], counted.initialises[at]
        rows.add((gaps.device[gap], owned.step[at], part, cause, *budget, gap))
    return Counter(row[:-1] for row in rows)


@given(
    calls_and_work(),
    st.booleans(),
    st.none() | st.tuples(st.integers(0, 100), st.integers(1, 100)),
    st.sets(st.integers(0, 2), max_size=2),
)
def test_intervals_with_some_of_a_cause(tmp_path_factory, events, marked, window, steps):
    if marked:
        events = [*events, *(step(number, 20 * number, 20) for number in range(4))]
    job = open_job(tmp_path_factory.mktemp("job"), [events])
    rank, asked = job.rank(0), {}
    if window is not None:
        asked["window_ns"] = (window[0] * 1000, sum(window) * 1000)
    if marked:
        asked["steps"] = steps
    excerpt = TimeSelection.of(job, [0], **asked)
    found = idle_owners(job, **asked)
    columns = ["device", "step", "part", "cause", "class", "initialises"]
    assert found.causes.set_index(columns)["gaps"].to_dict() == intervals_of_causes(rank, excerpt)
    owned, selected = owned_time(rank), [*selected_one_by_one(rank, excerpt)]
    after_drains = [
        length
        for at, gap, length in selected
        if owned.cause[at] == CODE["synchronising"] and owned.drain[gap] >= 0
    ]
    assert found.drains["idle_behind_ns"].sum() == sum(after_drains)
    assert found.devices["gaps"].sum() == len({gap for _, gap, _ in selected})
    assert found.owners["idle_ns"].sum() == sum(length for *_, length in selected)
    parts = [at for at, *_ in selected if owned.is_continued[at]]
    assert all(at - 1 in {each[0] for each in selected} for at in parts) or window is not None
    known, counted = {at for at, *_ in selected}, [*zip(*counted_segments(rank), strict=True)]
    goes_on = [at for at in parts if at - 1 in known and counted[at - 1] == counted[at]]
    whole = known - {*goes_on}
    assert found.owners["pieces"].sum() == len(whole)
    assert found.owners["idle_ns"].is_monotonic_decreasing


@pytest.mark.parametrize(("window_ns", "gaps"), [((50, 60), 0), ((50, 80), 1), ((49, 61), 2)])
def test_a_window_has_no_part_of_what_it_only_touches(tmp_path, window_ns, gaps):
    job = open_job(tmp_path, [[kernel(0, 10), kernel(50, 10), kernel(80, 10)]])
    found = idle_owners(job, window_ns=[1000 * edge for edge in window_ns])
    assert found.devices["gaps"].tolist() == [gaps]
    assert found.owners["pieces"].sum() == found.causes["gaps"].sum() == gaps


def test_windows_count_on_the_clock_of_the_job(tmp_path):
    """The second rank begins 100 µs later; its own times count from there."""
    late = [{**event, "ts": event["ts"] + 100} for event in (kernel(0, 10), kernel(50, 10))]
    job = open_job(tmp_path, [[kernel(0, 10), kernel(50, 10)], late])
    devices = idle_owners(job, window_ns=(0, 60_000)).devices
    assert devices["idle_ns"].tolist() == [40_000, 0]
    devices = idle_owners(job, window_ns=(110_000, 130_000)).devices
    assert devices["idle_ns"].tolist() == [0, 20_000]


@pytest.mark.parametrize(("after", "said"), [(2, ""), (3, ", without 3 µs outside of it")])
def test_idle_time_outside_of_the_gpu_span_is_not_counted(tmp_path, after, said):
    """As in a diagnosis, which says 11.6 ms where a chart said 16 ms. Without steps, 70 µs."""
    job = open_job(tmp_path, [[host(0, 70 + after, "aten::mm"), kernel(0, 10), kernel(50, 20)]])
    found, window_ns = idle_owners(job), (0, 80_000)
    assert found.finding.startswith(f"Of 40 µs idle (57.1 % of the GPU span{said}), ")
    assert found.devices["idle_ns"].tolist() == [40_000 + 1000 * after]
    counted = found.in_budget()
    assert counted.devices[["window_ns", "idle_ns"]].to_numpy().tolist() == [[70_000, 40_000]]
    assert counted.owners["idle_ns"].sum() == counted.causes["idle_ns"].sum() == 40_000
    selected = idle_owners(job, window_ns=window_ns).finding
    assert selected.startswith(f"Of {40 + after} µs idle ")


def test_idle_time_outside_of_the_gpu_span_is_counted_if_there_is_no_other(tmp_path):
    found = idle_owners(open_job(tmp_path, [[host(0, 100, "aten::mm"), kernel(40, 10)]]))
    assert found.in_budget() is found
    assert found.finding.startswith("Of 90 µs idle (90 % of the recording), ")


def test_ranks_share_paths(tmp_path):
    events = [host(0, 100, "aten::mm"), call(40, 5, 1), kernel(60, 10, correlation=1)]
    other = [host(0, 100, "aten::add"), *events]
    result = idle_owners(open_job(tmp_path, [events, other]))
    names = [(path, each[0]) for path, each in paths_of(result).items() if len(each) == 1]
    assert sorted(name for _, name in names) == ["aten::add", "aten::mm"]
    assert set(result.owners["rank"]) == {0, 1}
    check_sums(result)


def test_findings(tmp_path):
    operator = [host(11, 60, "aten::mm"), call(60, 5, 1)]
    events = [kernel(0, 10), *operator, kernel(80, 20, correlation=1)]
    job = open_job(
        tmp_path,
        [
            events,
            [kernel(0, 10), kernel(50, 10)],
            [
                kernel(
                    0,
                    98,
                ),
                kernel(99, 1),
            ],
        ],
    )
    assert idle_owners(job, [0]).finding == (
        "Of 70 µs idle (70 % of the recording), the CPU spent 70 % in operators, most in aten::mm "
        "(49 µs)."
    )
    (folder := tmp_path / "three").mkdir()
    three = [host(at, 19, f"aten::{name}") for at, name in ((11, "mm"), (31, "add"), (51, "mul"))]
    events = [kernel(0, 10), *three, call(66, 3, 1), kernel(75, 10, correlation=1)]
    assert ", the largest part in aten::" in idle_owners(open_job(folder, [events])).finding
    assert idle_owners(job, [1]).finding == (
        "Of 40 µs idle (66.7 % of the recording), the cause of 100 % is unknown: the launch of the "
        "next work is not in the trace."
    )
    assert idle_owners(job, [2]).finding == ""
    assert "on 2 ranks" in idle_owners(job, [0, 1]).finding


@pytest.mark.parametrize(("apart", "most"), [(8, "cudaLaunchKernel"), (12, "no recorded call")])
def test_time_in_no_call_may_be_the_most(tmp_path, apart, most):
    """``cudaLaunchKernel`` was named, with less time than the host spends in no call."""
    events, now = [], 0
    for number in range(20):
        events += [call(now, 10, number), kernel(now + 9, 4, correlation=number)]
        events.append(call(now + 10, 4, 100 + number, name="cudaDeviceSynchronize"))
        now += 14 + apart
    assert f" in {most} (" in idle_owners(open_job(tmp_path, [events])).finding


@pytest.mark.parametrize(("takes", "most"), [(49, ""), (51, "aten::mm (51 µs)")])
def test_a_call_takes_none_of_the_time_in_which_the_gpu_holds_its_work_back(tmp_path, takes, most):
    """A call that returned within 3 µs was said to have the most of 17.3 ms, 14.7 ms."""
    events = [kernel(0, 10), host(100 - takes, takes, "aten::mm"), call(100, 3, 1)]
    job = open_job(tmp_path, [[*events, kernel(1_010, 10, correlation=1)]])
    said = "of the recording), for 89.5 %, the next work was launched, but had not started yet"
    of_call = f"; the call in which the CPU spent the most is {most}" if most else ""
    assert idle_owners(job).finding.endswith(f"{said}{of_call}.")


def test_no_gpu_work(tmp_path):
    result = idle_owners(open_job(tmp_path, [[host(0, 1, "op")]]))
    assert result.finding == "No GPU work was recorded on the selected ranks."
    for table in (result.devices, result.causes, result.owners, result.paths, result.drains):
        assert table.empty
    assert list(result.devices) == ["rank", "device", "window_ns", "busy_ns", "idle_ns", "gaps"]


def test_only_gpu_work(tmp_path):
    result = idle_owners(open_job(tmp_path, [[kernel(0, 10), kernel(50, 10)]]))
    assert result.causes["cause"].tolist() == ["launch_not_recorded"]
    assert result.owners[["pid", "tid"]].to_numpy().tolist() == [[-1, -1]]


def test_arguments(tmp_path):
    job = open_job(tmp_path, [[step(1, 0, 10), step(2, 20, 10), kernel(0, 1)]])
    with pytest.raises(UnknownRankError):
        idle_owners(job, [3])
    with pytest.raises(UnknownStepError, match=r"step 2 is not analysed .* steps are 1 \(the last"):
        idle_owners(job, steps=[1, 2])
    with pytest.raises(ParameterError, match="window_ns must be"):
        idle_owners(job, window_ns=(5, 5))


@pytest.mark.parametrize(("others", "apart"), [(28, True), (29, False)])
def test_what_the_budget_counts_otherwise(tmp_path, others, apart):
    """A function that prepares a batch is host code by name, and data loading in the budget."""
    prepares = frame(8, 52, "data.py(8): preprocess")
    events, end = [kernel(0, 10), prepares, call(60, 1, 1), kernel(63, 5, correlation=1)], 68
    for number in range(2, 2 + others):
        events += [host(end, 44, "aten::mm"), call(end + 45, 5, number)]
        events.append(kernel(end + 56, 4, correlation=number))
        end += 60
    job = open_job(tmp_path, [events])
    found = idle_owners(job)
    by_class = found.causes.groupby(["cause", "class"])["idle_ns"].sum()
    assert by_class["host_code", "data_loading"] == 50_000
    assert diagnosis(job).steps["gap_loader_ns"].sum() == 50_000
    assert (by_class["host_code"].sum() >= OTHERWISE_WORTH_SAYING * by_class.sum()) == apart
    drawn = causes_by_device(found.devices, found.causes)
    assert ("host_code:data_loading" in drawn) == apart
    assert ("host_code" in drawn) != apart
    assert "counted as" not in found.finding
    before = idle_owners(job, window_ns=(0, 36_000))
    assert "spent 100 % in code outside operators, counted as data loading, most" in before.finding


def test_code_is_outside_of_api_calls_where_no_operators_are_recorded(tmp_path):
    """Of an export with NVTX ranges only, two thirds of the time were "outside operators"."""
    tables = {
        nsys_export.KERNEL: [
            nsys_export.kernel(10_000, 20_000, correlation=1),
            nsys_export.kernel(120_000, 130_000, correlation=2),
        ],
        nsys_export.RUNTIME: [
            nsys_export.call(0, 5_000, correlation=1),
            nsys_export.call(110_000, 115_000, correlation=2),
        ],
        nsys_export.NVTX: [nsys_export.nvtx(0, 140_000, "backward")],
        nsys_export.STRINGS: nsys_export.strings("norm", "cudaLaunchKernel"),
    }
    path = nsys_export.write_sqlite(tmp_path / "report.sqlite", tables)
    finding = idle_owners(open_trace(path, progress=False)).finding
    assert "the CPU spent 90 % outside recorded API calls, most in backward (90 µs)" in finding


def test_time_outside_of_steps_has_no_class(tmp_path):
    marks = [step(1, 20, 80), step(2, 100, 50)]
    launches = [call(30, 1, 1), call(60, 1, 2), call(110, 1, 3)]
    ends = [kernel(40, 10, correlation=1), kernel(80, 10, correlation=2)]
    events = [*marks, *launches, *ends, kernel(120, 10, correlation=3), host(91, 8, "aten::mm")]
    causes = idle_owners(open_job(tmp_path, [events])).causes
    assert {*causes.loc[causes["step"] < 0, "class"]} == {""}
    assert "" not in {*causes.loc[causes["step"] >= 0, "class"]}
    assert (causes["step"] < 0).any()


def test_advice_on_stacks(tmp_path):
    events = [kernel(0, 10), host(11, 60, "aten::mm"), call(60, 5, 1), kernel(80, 5, correlation=1)]
    assert any(
        "with_stack=True" in each for each in idle_owners(open_job(tmp_path, [events])).notices
    )
    stacks = [*events, frame(0, 90, "train.py(1): main")]
    folder = tmp_path / "stacks"
    folder.mkdir()
    assert not any("with_stack" in each for each in idle_owners(open_job(folder, [stacks])).notices)


def test_ids_that_are_texts(tmp_path):
    events = [kernel(0, 10), host(11, 60, "aten::mm"), call(60, 5, 1), kernel(80, 5, correlation=1)]
    named = [{**event, "tid": f"thread {event['tid']}"} for event in events]
    job = open_trace(write(tmp_path / "rank-0.json", named), progress=False)
    owners = idle_owners(job).owners
    assert owners.loc[owners["owner"] == "aten::mm", "tid"].tolist() == ["thread 100"]


def test_the_same_columns_with_and_without_rows(tmp_path):
    events = [kernel(0, 10), host(11, 60, "aten::mm"), call(60, 5, 1), kernel(80, 5, correlation=1)]
    job = open_job(tmp_path, [events, [host(0, 1, "op")]])
    both, nothing = idle_owners(job), idle_owners(job, [1])
    for name in ("devices", "causes", "owners", "paths", "drains"):
        assert list(getattr(both, name)) == list(getattr(nothing, name))
    for name in ("window_ns", "idle_ns"):
        assert both.devices[name].dtype == np.int64


@pytest.mark.parametrize(
    ("name", "cat", "cause"),
    [("putc", "os_call", "host_code"), ("cudaProfilerStop", "cuda_runtime", "profiler")],
)
def test_what_follows_a_wait_is_not_all_catching_up(tmp_path, name, cat, cause):
    """Of 6.35 ms in which a program wrote a log, 96.4 % were said to be its catching up."""
    one = Host()
    one.launch(100)
    one.synchronise()
    one.does(name, 2_000, cat=cat)
    one.launch(100)
    job = open_trace(write(tmp_path / "rank-0.json", one.events), progress=False)
    idle = idle_owners(job).owners
    assert idle.groupby("cause", observed=True)["idle_ns"].sum()[cause] == 2_000_000
