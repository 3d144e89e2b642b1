"""Added lanes of the timeline against brute force, and against the analyses that they come from."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hta_widgets.analyses.memory_bandwidth import memory_bandwidth
from hta_widgets.analyses.memory_use import memory_use
from hta_widgets.analyses.queue_length import queue_length
from hta_widgets.analyses.timeline.added import LANE_KINDS
from hta_widgets.analyses.timeline.added.modules import MOST_LEVELS
from hta_widgets.analyses.timeline.curve import HIGH, LOW, Curve
from hta_widgets.analyses.timeline.lanes_of_job import JobLanes, LaneAsked, job_lanes
from hta_widgets.analyses.timeline.window import pixel_edges
from hta_widgets.diagnosis.critical_path import CRITICAL_PATH, FIRST_CODE, critical_path
from hta_widgets.diagnosis.replay.pieces import CLASSES as PATH_CLASSES
from hta_widgets.sample import Recording, write_sample
from hta_widgets.trace.job import Job
from hta_widgets.trace.opening.open import open_trace
from tests.analyses.collective_jobs import Clock, ddp, open_job, write_job
from tests.kineto_text import call, host, kernel, write
from tests.raw_modules import read_modules

PIXELS = 301


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sample")
    write_sample(folder, ranks=2, steps=3, progress=False)
    return folder


@pytest.fixture(scope="module")
def sample(folder) -> Job:
    return open_trace(folder, progress=False)


@pytest.fixture(scope="module")
def ddp_job(kineto_jobs) -> Job:
    return open_trace(kineto_jobs["ddp_rank1of2"], progress=False)


def extremes_by_brute_force(times, values, end, first, last):
    """Least and largest value that holds or is reached in a stretch of time."""
    held = [value for at, value in zip(times, values, strict=True) if at <= first]
    reached = [value for at, value in zip(times, values, strict=True) if first <= at < last]
    known = held[-1:] if held and first < end else []
    return (min([*known, *reached]), max([*known, *reached])) if known or reached else None


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9)), min_size=1, max_size=8),
    st.integers(0, 9),
    st.integers(-5, 30),
    st.integers(1, 30),
    st.integers(1, 12),
)
def test_the_extremes_of_a_curve_are_those_of_each_pixel(drawn, after, start, length, pixels):
    times = np.cumsum([gap for gap, _ in drawn])
    values = np.array([value for _, value in drawn])
    curve = Curve(times, values, int(times[-1]) + after)
    edges = pixel_edges(start, start + length, pixels)
    found = curve.extremes(edges)
    for pixel, (first, last) in enumerate(pairwise(edges)):
        expected = extremes_by_brute_force(times, values, curve.end_ns, first, last)
        if expected is None:
            assert np.isnan(found[:, pixel]).all()
        else:
            assert tuple(found[:, pixel]) == expected


def check_curves(job: Job, rank: int, kind: str, expected: dict[str, list[tuple]]) -> None:
    """Compare the curves of a rank with rows (time, value) of an analysis, by key of the lane.

    Times of analyses count from the origin of the job.
    """
    lanes = job_lanes(job)
    added = {name.key: name for name in lanes.of(rank).added(kind)}
    assert added.keys() == expected.keys()
    start, end = lanes.span
    edges = pixel_edges(start, end, PIXELS)
    to_common = lanes.offsets_ns[rank] - job.offset_ns(rank)
    for key, curves in expected.items():
        assert added[key].most == tuple(most for *_, most in curves)
        assert len(added[key].words) == (len(curves) if len(curves) > 1 else 0)
        [found] = lanes.window([LaneAsked(rank, key)], start, end, PIXELS, most_events=0)
        for extremes, (times, values, most) in zip(found.extremes, curves, strict=True):
            check_extremes(extremes, np.searchsorted(times + to_common, edges), values, most)


def check_extremes(extremes, first, values, most) -> None:
    """Compare a curve with the values from each of the pixels on."""
    assert np.nanmax(extremes[HIGH]) == most == values.max()
    assert np.nanmin(extremes[LOW]) == values.min()
    for pixel in range(PIXELS):
        reached = values[first[pixel] : first[pixel + 1]]
        if reached.size:
            assert extremes[HIGH, pixel] >= reached.max()
            assert extremes[LOW, pixel] <= reached.min()
        elif 0 < first[pixel] < values.size:
            assert set(extremes[:, pixel]) == {values[first[pixel] - 1]}


def queues(job: Job, rank: int) -> dict[str, list[tuple]]:
    result = queue_length(job, [rank])
    most = result.streams.set_index(["device", "stream"])["max"]
    return {
        f"queue {device} {stream}": [
            (of["time_ns"].to_numpy(), of["queue_length"].to_numpy(), most[device, stream])
        ]
        for (device, stream), of in result.changes[rank].groupby(["device", "stream"])
    }


def bandwidths(job: Job, rank: int) -> dict[str, list[tuple]]:
    result = memory_bandwidth(job, [rank])
    most = result.transfers.set_index("name")["max_gb_per_s"]
    return {
        f"bandwidth {name}": [
            (of["time_ns"].to_numpy(), of["bandwidth_gb_per_s"].to_numpy(), most[name])
        ]
        for name, of in result.changes[rank].groupby("name")
    }


def memories(job: Job, rank: int) -> dict[str, list[tuple]]:
    result = memory_use(job, [rank])
    most = result.peak.set_index(["device_type", "device"])["bytes"]
    return {
        f"memory {kind} {device}": [
            (of["time_ns"].to_numpy(), of["allocated_bytes"].to_numpy(), most[kind, device]),
            *reserved(of),
        ]
        for (kind, device), of in result.curve.groupby(["device_type", "device"])
    }


def reserved(curve: pd.DataFrame) -> list[tuple]:
    """What the allocator of a device holds, where that is recorded."""
    known = curve[curve["reserved_bytes"] > 0]
    values = known["reserved_bytes"].to_numpy()
    return [(known["time_ns"].to_numpy(), values, values.max())] if values.size else []


ANALYSES = {"queue": queues, "bandwidth": bandwidths, "memory": memories}


def test_curves_of_the_sample_job_are_those_of_the_analyses(sample):
    for rank in sample.ranks:
        for kind, numbers in ANALYSES.items():
            check_curves(sample, rank, kind, numbers(sample, rank))


def test_those_of_a_real_trace_are_as_well(ddp_job):
    [rank] = ddp_job.ranks
    for kind, numbers in ANALYSES.items():
        expected = numbers(ddp_job, rank)
        assert expected
        if kind == "memory":
            assert [len(curves) for curves in expected.values()] == [1, 2]
        check_curves(ddp_job, rank, kind, expected)


def check_path(job: Job) -> None:
    """Compare the lanes of the critical path with its pieces, on the common clock."""
    lanes = job_lanes(job, (CRITICAL_PATH,))
    pieces = critical_path(job).pieces
    assert len(pieces) > 10
    for rank in job.ranks:
        expected = pieces[pieces["rank"] == rank]
        named = lanes.added(rank, "path")
        assert len(named) == (not expected.empty)
        assert bool(lanes.why_none(rank, "path"))
        if not named:
            continue
        [name] = named
        assert name.most == (pieces["ns"].sum(),)
        asked, (start, end) = LaneAsked(rank, name.key), (0, int(pieces["end_ns"].max()) + 1)
        [found] = lanes.window([asked], start, end, PIXELS, most_events=len(pieces))
        assert found.is_complete
        assert found.start_ns.tolist() == expected["start_ns"].tolist()
        assert found.duration_ns.tolist() == expected["ns"].tolist()
        classes = [PATH_CLASSES[code - FIRST_CODE] for code in found.code.tolist()]
        assert classes == expected["class"].tolist()
        calls = expected["kernel"].eq("") | expected["class"].eq("return from a sync")
        rows = expected["row"].where(~calls, expected["call"])
        assert found.row.tolist() == rows.tolist()
        by_class = dict(zip(found.codes, found.covered_ns.sum(axis=1).tolist(), strict=True))
        for name, ns in expected.groupby("class")["ns"].sum().items():
            assert by_class[FIRST_CODE + PATH_CLASSES.index(name)] == ns


def test_the_lane_of_the_critical_path_has_its_pieces(sample):
    check_path(sample)


@pytest.mark.parametrize("name", ["ddp_rank1of2", "compare_control", "h100_bert"])
def test_that_of_real_traces_has_as_well(kineto_jobs, name):
    check_path(open_trace(kineto_jobs[name], progress=False))


def test_the_path_lies_on_the_events_where_clocks_drift(tmp_path):
    """Lanes are moved by an offset, and the common clock has a drift as well."""
    written = {rank: Clock(0, drift) for rank, drift in enumerate([0.0, 9.0, -12.0, 30.0])}
    job = open_job(write_job(tmp_path, ddp(operations=300, seed=5), clocks=written))
    lanes, pieces = job_lanes(job, (CRITICAL_PATH,)), critical_path(job).pieces
    on_host = pieces[pieces["class"] == "host"]
    [rank] = on_host["rank"].unique().tolist()
    [track] = [
        each
        for each in lanes._tracks(rank, "path 0")
        if PATH_CLASSES[each.code - FIRST_CODE] == "host"
    ]
    events, row = job.rank(rank).trace.events, track.row.astype(np.int64)
    ends_ns = track.start_ns + track.length_ns(np.arange(row.size))
    assert row.tolist() == on_host["call"].tolist()
    assert np.abs(ends_ns - events.start_ns[row]).max() <= 1
    moved_ns = on_host["end_ns"].to_numpy() - lanes.offsets_ns[rank] - events.start_ns[row]
    assert np.ptp(moved_ns) > 1_000


def test_there_is_no_path_without_gpu_work(tmp_path):
    job = open_trace(
        write(tmp_path / "trace.json", [host(0, 40, "aten::mm"), call(10, 5, 1)]), progress=False
    )
    lanes = job_lanes(job, (CRITICAL_PATH,))
    why = "no GPU work was recorded"
    assert lanes.kinds_without_lanes()["path"] == why
    assert lanes.added(0, "path") == []
    assert lanes.why_none(0, "path") == why
    assert "path" not in job_lanes(job).kinds


def test_each_kernel_lies_in_the_runs_of_its_modules(kineto_jobs):
    job = open_trace(kineto_jobs["h100_bert"], progress=False)
    rank = job.ranks[0]
    events = job.rank(rank).trace.events
    lanes = job_lanes(job).of(rank)
    raw = read_modules(Path(job.rank(rank).trace.source))
    levels = [lanes.tracks(name.key) for name in lanes.added("modules")]
    assert levels
    row_of = {index: row for row, index in enumerate(events.index.tolist())}
    seen = 0
    for work in raw.work:
        if not raw._computes(work) or work["call"] is None:
            continue
        path, _ = raw.node(work["call"])
        start = int(events.start_ns[row_of[work["index"]]])
        seen += bool(path)
        for level, tracks in enumerate(levels):
            found = []
            for track in tracks:
                first, last = track.between(start, start + 1)
                names = events.names_at(track.row[first:last].astype(np.int64))
                found += [name.removeprefix("nn.Module: ") for name in names]
            assert found == [*path[level : level + 1]]
    assert seen > 50
    assert len(levels) <= MOST_LEVELS


def walked(lanes: JobLanes, rank: int, key: str, *, forward: bool) -> list[tuple[int, int, int]]:
    """Start, length and row of what a lane has, from one end to the other."""
    found: list[tuple[int, int, int]] = []
    time = lanes.span.start_ns if forward else lanes.span.end_ns
    while (facts := lanes.first_event(rank, key, time, forward=forward)) is not None:
        event = facts["event"]
        assert event["key"] == key
        found.append((event["start"], event["duration"], event["row"]))
        time = event["start"] + forward * event["duration"]
    return found


def test_one_walks_through_all_runs_of_a_lane_of_modules(sample):
    lanes = job_lanes(sample)
    for rank in sample.ranks:
        names = lanes.of(rank).added("modules")
        assert len(names) > 1
        for name in names:
            [track] = lanes.of(rank).tracks(name.key)
            starts = track.start_ns + lanes.offsets_ns[rank]
            runs = [*zip(starts, np.diff(track.sums_ns), track.row, strict=True)]
            assert len({row for *_, row in runs}) < len(runs)
            assert walked(lanes, rank, name.key, forward=True) == runs
            assert walked(lanes, rank, name.key, forward=False) == runs[::-1]


def test_annotations_stand_in_for_modules(tmp_path):
    write_sample(tmp_path, ranks=1, steps=3, recording=Recording(), progress=False)
    job = open_trace(tmp_path, progress=False)
    events, lanes = job.rank(0).trace.events, job_lanes(job).of(0)
    [name] = lanes.added("modules")
    rows = np.concatenate([track.row for track in lanes.tracks(name.key)])
    assert name.label == "ranges"
    assert "## forward ##" in events.names_at(rows.astype(np.int64))


def test_what_was_not_recorded_is_said_and_has_no_lane(tmp_path):
    events = [
        host(0, 40, "aten::mm"),
        call(10, 5, 1),
        kernel(20, 10, correlation=1),
        kernel(40, 10, name="late"),
    ]
    job = open_trace(write(tmp_path / "trace.json", events), progress=False)
    lanes = job_lanes(job)
    why = lanes.kinds_without_lanes()
    assert why.keys() == {"modules", "bandwidth", "memory"}
    assert why["memory"] == "no memory events were recorded (profile_memory=True records them)"
    assert "with_stack=True" in why["modules"]
    assert why["bandwidth"] == "no copies or memsets were recorded"
    assert [name.label for name in lanes.of(0).added("queue")] == ["queue 7"]
    for kind in why:
        assert lanes.of(0).added(kind) == []
        assert lanes.why_none(0, kind) == why[kind]


def test_copies_without_sizes_have_no_bandwidth(tmp_path):
    job = open_trace(
        write(tmp_path / "trace.json", [kernel(0, 5, name="Memcpy HtoD", cat="gpu_memcpy")]),
        progress=False,
    )
    assert job_lanes(job).kinds_without_lanes()["bandwidth"].endswith("without their sizes")
    assert job_lanes(job).of(0).added("bandwidth") == []


def test_every_kind_has_its_own_keys(sample):
    of_rank = job_lanes(sample).of(0)
    for name, kind in LANE_KINDS.items():
        assert kind.name == name
        for lane in of_rank.added(name):
            assert lane.key.startswith(f"{name} ")
            assert lane.kind in ("curve", "range")
            assert all(map(math.isfinite, lane.most))
