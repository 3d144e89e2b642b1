"""Nsight Systems exports of real jobs: results that every form of them must give."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest

from hta_widgets.trace.job import Job
from hta_widgets.trace.loaders.formats import NSYS
from hta_widgets.trace.loaders.kineto.load import load_kineto
from hta_widgets.trace.loaders.nsys.load import GpuProcess, gpu_processes, is_nsys_export, load_nsys
from hta_widgets.trace.model.events import Kind
from hta_widgets.trace.model.links import NO_LAUNCH
from hta_widgets.trace.ranks.source import RankSource

DLRM = [f"trace_filter_node0_rank{rank}" for rank in (0, 1)]
EXPORTS = [
    ("compare_control/nsys_sqlite/trace_diff_control_node0_rank3.sqlite",),
    ("h100_bert/nsys_sqlite/h100_bert_node0_rank0.sqlite",),
    *((f"dlrm_2rank/nsys_sqlite/{stem}.sqlite",) for stem in DLRM),
    *((f"dlrm_2rank/nsys_parquetdir/{stem}_pqtdir",) for stem in DLRM),
    *(("dlrm_2rank/nsys_sqlite_node/trace_filter_node0.sqlite", stem) for stem in DLRM),
]


@pytest.fixture(params=EXPORTS, ids=" ".join)
def export(request, real_traces):
    """One rank, and the numbers expected of it."""
    path = real_traces / "converted" / request.param[0]
    stem = request.param[-1].rpartition("/")[2].removesuffix(".sqlite").removesuffix("_pqtdir")
    expected = json.loads((path.parents[1] / "expected.json").read_text())[stem]
    assert is_nsys_export(path)
    processes = gpu_processes(path)
    chosen = processes[DLRM.index(stem)] if len(processes) > 1 else processes[0]
    source = RankSource(path, NSYS, chosen.process)
    return Job({0: source}, name="job", include_last_profiler_step=True).rank(0), expected


@pytest.mark.parametrize("kind", ["kernel", "memcpy", "memset", "runtime", "driver"])
def test_durations(export, kind):
    rank, expected = export
    durations = rank.trace.events.duration_ns[rank.trace.events.rows_of(Kind[kind.upper()])]
    longest, shortest = (durations.max(), durations.min()) if durations.size else (None, None)
    found = {"n": durations.size, "sum": durations.sum(), "max": longest, "min": shortest}
    assert found == {key: expected[kind][key] for key in found}


def test_kernels_and_their_launches(export):
    rank, expected = export
    events = rank.trace.events
    kernels = events.rows_of(Kind.KERNEL)
    launches = rank.launches[kernels]
    assert launches.min() > NO_LAUNCH
    delays = events.start_ns[kernels] - events.end_ns[launches]
    streams = events.stream[kernels]
    found = {
        "launched_by": Counter(events.names_at(launches)),
        "launch_delay_sum_ns": delays.sum(),
        "launch_before_return": (delays < 0).sum(),
        "kernel_names": len(set(events.names_at(kernels))),
        "by_stream_ns": {
            str(stream): events.duration_ns[kernels][streams == stream].sum()
            for stream in np.unique(streams)
        },
    }
    assert found == {key: expected[key] for key in found}


def test_the_same_events_as_in_the_pytorch_trace(real_traces):
    kineto = load_kineto(real_traces / "kineto" / "dlrm_2rank" / "rank-0.json.gz", 0)
    path = real_traces / "converted" / "dlrm_2rank" / "nsys_sqlite" / f"{DLRM[0]}.sqlite"
    nsys = load_nsys(path, 0)
    for kind in (Kind.KERNEL, Kind.MEMCPY, Kind.MEMSET, Kind.RUNTIME):
        events_of_both = []
        for trace in (kineto, nsys):
            events, rows = trace.events, trace.events.rows_of(kind)
            start_ns = events.start_ns[rows] + trace.origin_ns - kineto.origin_ns
            columns = (events.duration_ns, events.device, events.stream, events.correlation)
            numbers = np.stack([start_ns, *(column[rows] for column in columns)], axis=1)
            names = events.names_at(rows)
            events_of_both.append(sorted(zip(numbers.tolist(), names, strict=True)))
        assert events_of_both[0]
        assert events_of_both[0] == events_of_both[1]
    sizes = [
        Counter(trace.events.side["transfers"].columns["bytes"].tolist())
        for trace in (kineto, nsys)
    ]
    assert sizes[0] == sizes[1]


def test_ranks_of_one_recording_share_their_clock(real_traces):
    folder = real_traces / "converted" / "dlrm_2rank"
    node = folder / "nsys_sqlite_node" / "trace_filter_node0.sqlite"
    for process, stem in zip(gpu_processes(node), DLRM, strict=True):
        alone = load_nsys(folder / "nsys_sqlite" / f"{stem}.sqlite", 0)
        together = load_nsys(node, 0, process.process)
        assert together.origin_ns == alone.origin_ns
        assert together.events.start_ns.tolist() == alone.events.start_ns.tolist()


def test_an_export_of_two_processes(real_traces):
    path = real_traces / "nsys" / "h100_2gpu_1s.sqlite"
    processes = gpu_processes(path)
    assert processes == (GpuProcess(16777327, 111, (0,)), GpuProcess(16777328, 112, (1,)))
    for process in processes:
        source = RankSource(path, NSYS, process.process)
        rank = Job({0: source}, name="job").rank(0)
        events = rank.trace.events
        kernels = events.rows_of(Kind.KERNEL)
        assert kernels.size == 1721
        matched = kernels[rank.launches[kernels] >= 0]
        assert 0.46 < matched.size / kernels.size < 0.48
        assert set(events.pid[rank.launches[matched]]) == {process.pid}
        assert set(events.device[kernels]) == set(process.devices)
        assert events.rows_of(Kind.CPU_OP).size == 8391
        assert not any("op_id" in name for name in events.name.values)
        assert rank.trace.notices == ()


def test_an_export_of_few_columns(real_traces):
    path = real_traces / "nsys" / "healthy_1pct.sqlite"
    assert gpu_processes(path) == (GpuProcess(None, -1, (0,)),)
    rank = Job({0: RankSource(path, NSYS)}, name="job").rank(0)
    assert len(rank.gpu_work) == 400
    assert (rank.gpu_work.launch >= 0).all()
