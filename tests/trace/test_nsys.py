"""Nsight Systems exports: from any tables to the events table."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hta_widgets.diagnosis import diagnosis
from hta_widgets.panels.bands.bands import devices_in_words
from hta_widgets.trace.loaders.formats import NSYS
from hta_widgets.trace.loaders.nsys.events import _TWICE, _UNTIMED, _WHOLE
from hta_widgets.trace.loaders.nsys.load import GpuProcess, gpu_processes, is_nsys_export, load_nsys
from hta_widgets.trace.model.events import GPU_WORK, Kind
from hta_widgets.trace.model.links import NO_LAUNCH, launch_rows
from hta_widgets.trace.model.steps import profiler_steps
from hta_widgets.trace.opening.open import open_trace
from hta_widgets.trace.ranks.source import RankSource
from tests.nsys_export import (
    GRAPH,
    KERNEL,
    MEMCPY,
    MEMSET,
    NO_STREAM,
    NVTX,
    OS_CALLS,
    PID,
    RUNTIME,
    SESSION,
    STRINGS,
    SYNC,
    TID,
    call,
    kernel,
    nvtx,
    on_gpu,
    owner,
    process,
    strings,
    write_parquetdir,
    write_sqlite,
)

TEXTS = strings("void add<float>(float*)", "cudaLaunchKernel_v7000", "add", "_Z3addIfEvPT_")


@pytest.fixture(params=[write_sqlite, write_parquetdir], ids=["sqlite", "parquetdir"])
def write(request, tmp_path):
    """Write the tables in each form; by default, the names are those of `TEXTS`."""

    def written(tables, name="export.sqlite"):
        return request.param(tmp_path / name, {STRINGS: TEXTS} | tables)

    return written


def load(path, process=None):
    return load_nsys(path, 0, process)


def said(trace):
    return [notice.text() for notice in trace.notices]


def named(events, *kinds):
    rows = events.rows_of(*kinds) if kinds else np.arange(len(events))
    return events.names_at(rows)


def test_one_row_of_each_table(write):
    path = write(
        {
            KERNEL: [kernel(50, 80, correlation=5, mangledName=4)],
            MEMCPY: [on_gpu(90, 100, correlation=6, bytes=640, copyKind=1, srcKind=0, dstKind=2)],
            MEMSET: [on_gpu(110, 112, bytes=64, memKind=2)],
            SYNC: [on_gpu(40, 120, stream=NO_STREAM, syncType=4)],
            RUNTIME: [call(20, 30, correlation=5), call(32, 34, 5, correlation=6, eventClass=1)],
            NVTX: [nvtx(10, 130, "step")],
            SESSION: [{"utcEpochNs": 1_700_000_000_000_000_000}],
            STRINGS: [*TEXTS, {"id": 5, "value": "cuMemcpyHtoDAsync_v2"}],
        }
    )
    trace = load(path)
    events = trace.events
    assert trace.origin_ns == 1_700_000_000_000_000_010
    assert trace.notices == ()
    assert trace.metadata == {}
    assert [(Kind(kind), name) for kind, name in zip(events.kind, named(events), strict=True)] == [
        (Kind.ANNOTATION, "step"),
        (Kind.RUNTIME, "cudaLaunchKernel"),
        (Kind.DRIVER, "cuMemcpyHtoDAsync_v2"),
        (Kind.SYNC, "Context Sync"),
        (Kind.KERNEL, "void add<float>(float*)"),
        (Kind.MEMCPY, "Memcpy HtoD (Pageable -> Device)"),
        (Kind.MEMSET, "Memset (Device)"),
    ]
    assert events.start_ns.tolist() == [0, 10, 22, 30, 40, 80, 100]
    assert events.duration_ns.tolist() == [120, 10, 2, 80, 30, 10, 2]
    assert events.pid.tolist() == [PID] * 7
    assert events.tid.tolist() == [TID] * 3 + [-1] * 4
    assert events.device.tolist() == [-1] * 3 + [0] * 4
    assert events.stream.tolist() == [-1, -1, -1, -1, 7, 7, 7]
    assert events.correlation.tolist() == [-1, 5, 6, -1, 5, 6, -1]
    assert launch_rows(events).tolist() == [-1, -1, -1, -1, 1, 2, -1]


def test_side_tables(write):
    path = write(
        {
            KERNEL: [kernel(0, 1, mangledName=4), kernel(2, 3)],
            MEMCPY: [on_gpu(4, 14, bytes=40), on_gpu(15, 15, bytes=8), on_gpu(16, 18)],
            MEMSET: [on_gpu(20, 24, bytes=2)],
        }
    )
    side = load(path).events.side
    mangled = side["mangled"].to_frame()
    assert mangled["mangled"].tolist() == ["_Z3addIfEvPT_", ""]
    assert mangled.index.tolist() == [0, 1]
    transfers = side["transfers"].to_frame()
    assert transfers["bytes"].tolist() == [40, 8, -1, 2]
    assert transfers["bandwidth_gb_per_s"].fillna(-1).tolist() == [4.0, -1.0, -1.0, 0.5]
    assert transfers.index.tolist() == [2, 3, 4, 5]


@pytest.mark.parametrize(
    ("kinds", "name"),
    [
        ((1, 1, 2), "Memcpy HtoD (Pinned -> Device)"),
        ((2, 2, 0), "Memcpy DtoH (Device -> Pageable)"),
        ((8, 2, 2), "Memcpy DtoD (Device -> Device)"),
        ((10, 2, 4), "Memcpy PtoP (Device -> Managed)"),
        ((12, 4, 4), "Memcpy DtoH (Unified)"),
        ((1, None, None), "Memcpy HtoD"),
        ((99, 7, 99), "Memcpy Unknown (Unknown -> Unknown)"),
        ((None, None, None), "Memcpy Unknown"),
    ],
)
def test_copies_are_named_as_in_pytorch_traces(write, kinds, name):
    columns = dict(zip(("copyKind", "srcKind", "dstKind"), kinds, strict=True))
    assert named(load(write({MEMCPY: [on_gpu(0, 1, bytes=1, **columns)]})).events) == [name]


def test_synchronizations_are_named_and_are_no_gpu_work(write):
    rows = [on_gpu(number, 9, stream=NO_STREAM, syncType=number) for number in range(5)]
    events = load(write({SYNC: rows})).events
    assert named(events) == [
        *("Unknown Sync", "Event Sync", "Stream Wait Event", "Stream Sync", "Context Sync")
    ]
    assert events.rows_of(*GPU_WORK).size == 0


def test_rows_that_are_no_calls_are_left_out(write):
    path = write({RUNTIME: [call(0, 5), call(0, 5, eventClass=67), call(6, 7, eventClass=13)]})
    trace = load(path)
    assert named(trace.events) == ["cudaLaunchKernel"]
    assert said(trace) == [
        "2 rows of the CUDA API table that are not calls (such as backtraces) are left out"
    ]


some_calls = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 9), st.integers(0, 1)), max_size=9
)


@given(some_calls, some_calls)
def test_calls_of_the_operating_system_are_kept_from_one_cuda_call_to_another(
    tmp_path_factory, cuda, of_os
):
    """Those inside a CUDA call are part of it; other threads sleep."""

    def rows(calls):
        return [
            call(start, start + taken, globalTid=owner(tid=TID + thread))
            for start, taken, thread in calls
        ]

    def is_between(start, thread):
        mine = [(begin, begin + taken) for begin, taken, of in cuda if of == thread]
        before = [end for begin, end in mine if begin <= start]
        return before and max(before) <= start and any(begin > start for begin, _ in mine)

    tables = {STRINGS: TEXTS, RUNTIME: rows(cuda), OS_CALLS: rows(of_os)}
    events = load(write_sqlite(tmp_path_factory.mktemp("export") / "export.sqlite", tables)).events
    kept = events.rows_of(Kind.OS_CALL)
    expected = [
        (taken, TID + thread) for start, taken, thread in of_os if is_between(start, thread)
    ]
    found = zip(events.duration_ns[kept].tolist(), events.tid[kept].tolist(), strict=True)
    assert sorted(found) == sorted(expected)


def test_calls_without_class_are_told_apart_by_name(write):
    texts = ["cudaMemcpyAsync_ptsz_v7000", "cuLaunchKernelEx_ptds", "cudnnAdd", "cuLaunch"]
    rows = [call(start, 9, start + 1) for start in range(4)]
    for row in rows:
        del row["eventClass"]
    events = load(write({RUNTIME: rows, STRINGS: strings(*texts)})).events
    assert named(events) == ["cudaMemcpyAsync", "cuLaunchKernelEx", "cudnnAdd", "cuLaunch"]
    kinds = [Kind.RUNTIME, Kind.DRIVER, Kind.RUNTIME, Kind.DRIVER]
    assert [Kind(kind) for kind in events.kind] == kinds


def test_ranges(write):
    rows = [
        nvtx(0, 100, "forward"),
        nvtx(1, 90, "aten::mul, op_id = 322567"),
        nvtx(2, 80, "aten::add, seq = 12, op_id = 3, sizes = [[2, 3], []]"),
        nvtx(3, 70, None, textId=3, eventType=60),
        nvtx(4, None, "a mark", eventType=34),
        nvtx(5, None, "open"),
        nvtx(6, 9, "a domain", eventType=75),
        nvtx(7, 8, "sorted, op_id by hand", endGlobalTid=owner(tid=5)),
        nvtx(8, 9, None),
    ]
    trace = load(write({NVTX: rows}))
    events = trace.events
    assert [(Kind(kind), name) for kind, name in zip(events.kind, named(events), strict=True)] == [
        (Kind.ANNOTATION, "forward"),
        (Kind.CPU_OP, "aten::mul"),
        (Kind.CPU_OP, "aten::add"),
        (Kind.ANNOTATION, "add"),
        (Kind.INSTANT, "a mark"),
        (Kind.ANNOTATION, "sorted, op_id by hand"),
        (Kind.ANNOTATION, ""),
    ]
    assert events.duration_ns.tolist() == [100, 89, 78, 67, 0, 1, 1]
    assert said(trace) == ["1 NVTX ranges still open at the end of the recording are left out"]


def test_ranges_named_after_steps_are_steps(write):
    rows = [nvtx(0, 10, "ProfilerStep#7"), nvtx(10, 20, "ProfilerStep#8, op_id = 4")]
    steps = profiler_steps(load(write({NVTX: rows})).events)
    assert steps.to_frame().to_numpy().tolist() == [[7, 0, 10], [8, 10, 20]]


def test_a_graph_is_busy_time_where_its_nodes_are_not_recorded(write):
    graphs = [on_gpu(10, 50, correlation=3, graphId=4), on_gpu(60, 70, correlation=5)]
    path = write({GRAPH: graphs, RUNTIME: [call(0, 5, correlation=3)], KERNEL: [kernel(80, 90)]})
    trace = load(path)
    rows = trace.events.rows_of(Kind.GRAPH)
    assert trace.events.names_at(rows) == ["CUDA graph 4", "CUDA graph"]
    assert launch_rows(trace.events)[rows].tolist() == [0, NO_LAUNCH]
    assert trace.notices == ((_WHOLE, (2,)),)


def test_a_graph_does_not_count_beside_its_nodes(write):
    graphs = [on_gpu(10, 50, correlation=number, graphId=4) for number in (3, 4, None, 0)]
    nodes = [kernel(11, 20, correlation=3, graphNodeId=1), kernel(21, 30, correlation=0)]
    path = write({GRAPH: graphs, KERNEL: [*nodes, kernel(12, 13, correlation=4, pid=PID + 1)]})
    trace = load(path)
    assert sorted(trace.events.correlation[trace.events.rows_of(Kind.GRAPH)]) == [-1, 0, 4]
    assert set(trace.notices) == {(_TWICE, (1,)), (_WHOLE, (3,))}


def test_copies_inside_a_graph_count_as_its_nodes(write):
    copies = [on_gpu(11, 20, correlation=3, bytes=1)]
    events = load(write({GRAPH: [on_gpu(10, 50, correlation=3)], MEMCPY: copies})).events
    assert [Kind(kind) for kind in events.kind] == [Kind.MEMCPY]


def test_kernels_take_the_best_name_there_is(write):
    rows = [
        kernel(0, 9, demangledName=1, shortName=3, mangledName=4),
        kernel(1, 9, demangledName=None, shortName=3, mangledName=4),
        kernel(2, 9, demangledName=None, shortName=None, mangledName=4),
        kernel(3, 9, demangledName=None, shortName=None),
        kernel(4, 9, demangledName=99),
    ]
    trace = load(write({KERNEL: rows}))
    assert named(trace.events) == ["void add<float>(float*)", "add", "_Z3addIfEvPT_", "", ""]
    assert said(trace) == ["2 kernels and calls have no name in the export"]


def test_an_old_export_of_few_columns(write):
    kernels = [{"start": 5, "end": 9, "correlationId": 1, "shortName": 3}]
    calls = [{"start": 1, "end": 2, "correlationId": 1, "nameId": 2}]
    path = write({KERNEL: kernels, RUNTIME: calls, MEMCPY: [{"start": 3, "end": 4}]})
    assert gpu_processes(path) == (GpuProcess(None, -1, ()),)
    trace = load(path)
    events = trace.events
    assert named(events) == ["cudaLaunchKernel", "Memcpy Unknown", "add"]
    assert launch_rows(events).tolist() == [-1, -1, 0]
    assert set(events.pid) | set(events.tid) | set(events.device) | set(events.stream) == {-1}
    assert trace.origin_ns == 1


def test_tables_without_times_say_how_much_is_left_out(write):
    trace = load(write({KERNEL: [{"deviceId": 0}, {"deviceId": 1}], NVTX: [{"text": "range"}]}))
    assert len(trace.events) == 0
    assert {text for text in said(trace) if "start" in text} == {
        "2 rows without a valid start and end are left out"
    }


def test_rows_without_a_usable_time_are_left_out(write):
    far = 2**62
    times = [(None, 5), (5, None), (9, 8), (-far, 5), (0, far), (-(2**63) + 1, 2**63 - 1)]
    kernels = [*(kernel(start, end) for start, end in times), kernel(-7, -7), kernel(-9, 4)]
    trace = load(write({KERNEL: kernels}))
    assert trace.notices == ((_UNTIMED, (6,)),)
    assert trace.origin_ns == -9
    assert trace.events.start_ns.tolist() == [0, 2]
    assert trace.events.duration_ns.tolist() == [13, 0]


def test_an_export_without_events(write):
    path = write({"ThreadNames": [{"nameId": 1}]})
    assert is_nsys_export(path)
    assert gpu_processes(path) == (GpuProcess(None, -1, ()),)
    trace = load(path)
    assert (len(trace.events), trace.origin_ns, trace.notices) == (0, 0, ())


def test_processes_with_gpu_work_are_listed(write):
    path = write(
        {
            KERNEL: [kernel(0, 1, pid=9, device=3), kernel(0, 1, pid=9, device=1)],
            MEMCPY: [on_gpu(0, 1, pid=9, device=2), on_gpu(0, 1, pid=4, device=0)],
            MEMSET: [on_gpu(0, 1, pid=4, device=0), on_gpu(0, 1, globalPid=None)],
            GRAPH: [on_gpu(0, 1, globalPid=owner(4, machine=2), device=0)],
            SYNC: [on_gpu(0, 1, pid=5)],
            RUNTIME: [call(0, 1, pid=6)],
        }
    )
    assert gpu_processes(path) == (
        GpuProcess(process(4), 4, (0,)),
        GpuProcess(process(9), 9, (1, 2, 3)),
        GpuProcess(process(4, machine=2), 4, (0,)),
    )


def test_without_gpu_work_the_callers_are_listed(write):
    path = write({RUNTIME: [call(0, 1, pid=6), call(2, 3, pid=5)], NVTX: [nvtx(0, 1, "x")]})
    assert gpu_processes(path) == (GpuProcess(process(5), 5, ()), GpuProcess(process(6), 6, ()))


def test_one_process_of_several(write):
    path = write(
        {
            KERNEL: [
                kernel(10, 20, correlation=1, pid=4),
                kernel(11, 21, correlation=1, pid=5, device=1),
                kernel(12, 22, correlation=2, globalPid=owner(4, machine=2)),
                kernel(13, 23, globalPid=None),
            ],
            RUNTIME: [call(0, 1, correlation=1, pid=5), call(2, 3, correlation=1, pid=4)],
            NVTX: [nvtx(0, 1, "x", globalTid=owner(5, 7)), nvtx(5, 6, "y", globalTid=owner(4, 8))],
        }
    )
    first, second = load(path, process(4)), load(path, process(5))
    assert set(first.events.pid) == {4}
    assert set(second.events.pid) == {5}
    assert launch_rows(first.events).tolist() == [-1, -1, 0]
    assert named(second.events, Kind.ANNOTATION) == ["x"]
    assert (first.origin_ns, second.origin_ns) == (2, 0)
    assert said(first) == ["1 rows without a process id are left out"]
    assert len(load(path).events) == 8


def test_calls_that_name_no_process_are_of_the_one_there_is(write):
    calls = [{"start": 0, "end": 1, "correlationId": 1, "nameId": 2}]
    events = load(write({KERNEL: [kernel(5, 6, correlation=1)], RUNTIME: calls}), process()).events
    assert events.pid.tolist() == [PID, PID]
    assert launch_rows(events).tolist() == [-1, 0]


rows_of_two_processes = st.lists(
    st.tuples(
        st.booleans(),
        st.sampled_from([4, 5]),
        st.integers(0, 3),
        st.integers(0, 9),
        st.integers(0, 5),
    ),
    max_size=15,
    unique_by=lambda row: row[:3],  # of an id that several calls have, tests/trace/test_links.py
)


@given(rows_of_two_processes)
def test_launches_stay_within_their_process(tmp_path_factory, rows):
    gpu = [kernel(at, at + ns, correlation=c, pid=pid) for on, pid, c, at, ns in rows if on]
    calls = [call(at, at + ns, correlation=c, pid=pid) for on, pid, c, at, ns in rows if not on]
    path = tmp_path_factory.mktemp("nsys") / "export.sqlite"
    write_sqlite(path, {STRINGS: TEXTS, KERNEL: gpu, RUNTIME: calls})
    for pid in (4, 5):
        trace = load(path, process(pid))
        events, launches = trace.events, launch_rows(trace.events)
        found = [
            (
                start,
                ns,
                None if launch < 0 else (events.start_ns[launch], events.duration_ns[launch]),
            )
            for kind, start, ns, launch in zip(
                events.kind, events.start_ns, events.duration_ns, launches, strict=True
            )
            if kind == Kind.KERNEL
        ]
        origin = trace.origin_ns
        expected = []
        for on, at_pid, c, at, ns in rows:
            if on and at_pid == pid:
                mine = [(s - origin, d) for o, p, i, s, d in rows if not o and (p, i) == (pid, c)]
                launch = next(iter(mine), None)
                expected.append((at - origin, ns, launch))
        assert sorted(found, key=str) == sorted(expected, key=str)


def test_gpus_are_named_where_the_export_does(write):
    gpus = [{"id": 0, "name": "NVIDIA H100", "uuid": "secret"}, {"id": None, "name": "lost"}]
    path = write({KERNEL: [on_gpu(0, 10)], "TARGET_INFO_GPU": gpus})
    assert load_nsys(path, 0).metadata == {"deviceProperties": [{"id": 0, "name": "NVIDIA H100"}]}
    assert devices_in_words(open_trace(path, progress=False)) == "1 × NVIDIA H100"
    gpus = [{"id": 0, "cuDevice": 0, "name": "NVIDIA RTX 5000", "smCount": 76}]
    gpus += [{"id": 1, "cuDevice": 0, "name": "Microsoft Basic Render Driver", "smCount": 0}]
    windows = write({KERNEL: [on_gpu(0, 10)], "TARGET_INFO_GPU": gpus}, "windows.sqlite")
    assert devices_in_words(open_trace(windows, progress=False)) == "1 × NVIDIA RTX 5000"
    unnamed = write({KERNEL: [on_gpu(0, 10), on_gpu(0, 10, device=1)]}, "unnamed.sqlite")
    assert devices_in_words(open_trace(unnamed, progress=False)) == "1 rank, 2 GPUs"


def test_what_the_recorder_may_have_lost_is_said_where_there_are_no_kernels(write):
    """In phrases that are known, of this process: others of its texts hold paths and commands."""
    texts = {
        "Not all CUDA events might have been collected.": PID,
        "Process was launched by the profiler, see /home/me/pid_2568473_stdout.log": PID,
        "No NVTX events collected. Does the process use NVTX?": PID,
        "CUDA profiling might have not been started correctly.": PID + 1,
    }
    rows = [{"text": text, "severity": 2, "globalPid": owner(pid)} for text, pid in texts.items()]
    tables = {RUNTIME: [call(0, 1)], "DIAGNOSTIC_EVENT": rows}
    path = write(tables)
    assert said(load(path, process())) == [
        "Nsight Systems warns: Not all CUDA events might have been collected"
    ]
    assert diagnosis(open_trace(path, progress=False)).finding.startswith(
        "No GPU work was recorded, and the recorder warns that it may have lost some."
    )
    busy = write({**tables, KERNEL: [kernel(2, 3)]}, "busy.sqlite")
    assert not said(load(busy, process()))


def test_the_bytes_read_add_up_to_the_size(write):
    path = write({KERNEL: [kernel(i, i + 1) for i in range(9000)], NVTX: [nvtx(0, 1, "x")]})
    for chosen in (None, process(), process(3)):
        reported: list[int] = []
        load_nsys(path, 0, chosen, reported.append)
        assert sum(reported) == RankSource(path, NSYS).size
        assert min(reported) >= 0
