"""The timeline against brute force, and its budget against that of the diagnosis."""

from __future__ import annotations

from itertools import pairwise
from statistics import median

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hta_widgets.analyses.budget.classes import BUDGET_CLASSES
from hta_widgets.analyses.communication.recorded import owned_by_first
from hta_widgets.analyses.timeline import timeline
from hta_widgets.analyses.timeline.classes import CLASSES, CODE
from hta_widgets.analyses.timeline.lanes_of_job import LaneAsked, job_lanes, stacked
from hta_widgets.analyses.timeline.overview import OVERVIEW_CLASSES
from hta_widgets.analyses.timeline.search import first_found
from hta_widgets.analyses.timeline.tracks import (
    NO_ROW,
    Segments,
    Tracks,
    coverage,
)
from hta_widgets.analyses.timeline.window import lane_window, pixel_edges
from hta_widgets.diagnosis import diagnosis
from hta_widgets.diagnosis.budget_table import budget
from hta_widgets.errors import ParameterError, UnknownRankError
from hta_widgets.trace.job import Job
from hta_widgets.trace.opening.open import open_trace
from tests.analyses.generated_jobs import gpu_work, jobs, open_job
from tests.kineto_text import call, host, kernel, step, write

# Tracks


@st.composite
def disjoint(draw):
    """Segments of a few lanes and classes, those of one lane and class apart or touching."""
    parts, truth = [], {}
    for lane in draw(st.lists(st.integers(0, 3), unique=True, max_size=3)):
        for code in draw(st.lists(st.integers(0, 4), unique=True, max_size=3)):
            time, starts, ends = draw(st.integers(-5, 5)), [], []
            for _ in range(draw(st.integers(0, 6))):
                time += draw(st.integers(0, 5))
                starts.append(time)
                time += draw(st.integers(0, 6))
                ends.append(time)
            start, end = (np.array(each, dtype=np.int64) for each in (starts, ends))
            parts.append(Segments.of(lane, code, start, end, np.arange(start.size)))
            truth[lane, code] = [*zip(starts, ends, strict=True)]
    return draw(st.permutations(parts)), truth


@given(disjoint(), st.integers(-10, 40), st.integers(1, 30), st.integers(1, 12), st.integers(1, 9))
def test_a_window_of_tracks_is_what_brute_force_finds(drawn, start, length, pixels, most):
    segments, truth = drawn
    tracks = Tracks.of(*segments)
    edges = pixel_edges(start, start + length, pixels)
    assert edges[0] == start
    assert edges[-1] == start + length
    assert np.all(np.diff(edges) > 0)
    for lane in {lane for lane, _ in truth}:
        found = lane_window(tracks.by_lane.get(lane, ()), edges, most)
        met = {}
        for (of, code), pieces in truth.items():
            if of == lane:
                near = [(a, b, row) for row, (a, b) in enumerate(pieces) if a < b]
                met[code] = [(a, b, r) for a, b, r in near if a < edges[-1] and b > start]
        assert found.codes == tuple(sorted(code for code, pieces in met.items() if pieces))
        for place, code in enumerate(found.codes):
            for pixel in range(edges.size - 1):
                instants = range(edges[pixel], edges[pixel + 1])
                covered = sum(any(a <= t < b for a, b, _ in met[code]) for t in instants)
                assert found.covered_ns[place, pixel] == covered
        every = sorted((a, b - a, code, r) for code, some in met.items() for a, b, r in some)
        shown = [*zip(found.start_ns, found.duration_ns, found.code, found.row, strict=True)]
        assert found.is_complete == (len(every) <= most)
        if found.is_complete:
            assert sorted(shown) == every
        else:
            wide = -(-length // (edges.size - 1))
            long = [each for each in every if each[1] >= wide]
            assert len(shown) == min(len(long), most)
            assert set(shown) <= set(long)
        assert [*found.start_ns] == sorted(found.start_ns)


@given(disjoint(), st.integers(-10, 60), st.sets(st.integers(0, 4)))
def test_the_first_event_at_a_time_is_the_first_that_ends_after_it(drawn, time, nameless):
    segments, truth = drawn
    named = [
        each._replace(row=np.where(np.isin(each.code, [*nameless]), NO_ROW, each.row))
        for each in segments
    ]
    by_lane = Tracks.of(*named).by_lane
    for lane in {lane for lane, _ in truth}:
        events = [
            (start, row, end - start)
            for (of, code), pieces in truth.items()
            if of == lane and code not in nameless
            for row, (start, end) in enumerate(pieces)
            if start < end
        ]
        after = {each for each in events if each[0] + each[2] > time}
        before = {each for each in events if each[0] < time}
        for forward, near, choose in ((True, after, min), (False, before, max)):
            expected = {each for each in near if each[0] == choose(near)[0]} or {None}
            assert first_found(by_lane.get(lane, ()), time, forward=forward) in expected


@given(
    st.lists(st.tuples(disjoint(), st.integers(-9, 9)), min_size=1, max_size=4),
    st.integers(-20, 40),
    st.integers(1, 30),
    st.integers(1, 6),
)
def test_bands_are_least_median_and_most_of_the_ranks(drawn, start, length, pixels):
    ranks = [
        ([track for tracks in Tracks.of(*segments).by_lane.values() for track in tracks], offset)
        for (segments, _), offset in drawn
    ]
    ranks = [({track.code: track for track in tracks}, offset) for tracks, offset in ranks]
    edges = pixel_edges(start, start + length, pixels)
    found = stacked([([*tracks.values()], offset) for tracks, offset in ranks]).spread(edges)
    for code, spread in zip(OVERVIEW_CLASSES, found, strict=True):
        for pixel, (first, last) in enumerate(pairwise(edges.tolist())):
            covered = []
            for tracks, offset in ranks:
                track = tracks.get(code)
                places = range(track.start_ns.size if track else 0)
                pieces = [(track.start_ns[at] + offset, track.end_of(at) + offset) for at in places]
                covered.append(sum(max(min(b, last) - max(a, first), 0) for a, b in pieces))
            assert spread[:, pixel].tolist() == [min(covered), median(covered), max(covered)]


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 9)), max_size=8))
def test_each_instant_belongs_to_what_started_first(drawn):
    events = sorted((start, start + length) for start, length in drawn)
    start, end = (np.array([each[side] for each in events], dtype=np.int64) for side in (0, 1))
    begins, ends = owned_by_first(start, end)
    for instant in range(30):
        running = [place for place, (a, b) in enumerate(events) if a <= instant < b]
        owns = [place for place in range(len(events)) if begins[place] <= instant < ends[place]]
        assert owns == running[:1]


def test_a_track_takes_20_bytes_an_event():
    start = np.arange(0, 20_000, 2, dtype=np.int64)
    tracks = Tracks.of(Segments.of(0, 0, start, start + 1))
    columns = (tracks.start_ns, tracks.sums_ns, tracks.row, tracks.first, tracks.lane, tracks.code)
    held = sum(column.nbytes for column in columns) + tracks.by_lane[0][0].longest_ns.nbytes
    assert held < 20.2 * start.size


def test_long_events_are_found_without_looking_at_all():
    start = np.arange(0, 100_000, 10, dtype=np.int64)
    end = start + 1
    end[[777, 5_000]] += 8
    [track] = Tracks.of(Segments.of(0, 0, start, end)).by_lane[0]
    assert track.places(0, start.size, 5).tolist() == [777, 5_000]
    assert track.places(778, 5_000, 5).tolist() == []


# The budget


def assert_adds_up_to_the_budget(job: Job) -> int:
    """Compare the rank's lane in each step with the budget; return the number of steps.

    `tests.test_sentences` does so for real traces, which it has open.
    """
    steps = budget(diagnosis(job).steps).set_index(["rank", "step"])
    found = timeline(job)
    seen = 0
    for rank, overview in found.overviews.items():
        for place, number in enumerate(overview.steps.number.tolist()):
            if (rank, number) not in steps.index:
                continue
            seen += 1
            expected = steps.loc[(rank, number)]
            for name in BUDGET_CLASSES:
                assert overview.by_step_ns[CODE[name], place] == expected[f"{name}_ns"]
            of_budget = overview.by_step_ns[: len(BUDGET_CLASSES), place]
            assert of_budget.sum() == expected["period_ns"]
    return seen


def test_what_is_covered_of_a_step_is_its_budget(loaded):
    assert assert_adds_up_to_the_budget(loaded) == 4 * 2


@given(jobs)
def test_that_of_any_job_is_as_well(tmp_path_factory, ranks):
    assert_adds_up_to_the_budget(open_job(tmp_path_factory.mktemp("job"), ranks))


def test_every_class_of_the_budget_is_one_of_the_timeline():
    assert CLASSES[: len(BUDGET_CLASSES)] == BUDGET_CLASSES


# Lanes


def open_small(tmp_path, events) -> Job:
    return open_trace(write(tmp_path / "trace.json", events), progress=False)


SMALL = [
    step(1, 0, 100),
    host(5, 30, "aten::linear"),
    host(6, 20, "aten::addmm"),
    call(10, 5, 1),
    call(17, 5, 2),
    kernel(20, 10, name="gemm", correlation=1),
    kernel(25, 20, name="ncclDevKernel_AllReduce", correlation=2, stream=20),
    call(50, 40, 3, name="cudaDeviceSynchronize"),
]


def window(job: Job, key: str, start: int, end: int, pixels: int, *, shift: int = 0):
    lanes = job_lanes(job)
    [found] = lanes.window([LaneAsked(0, key, shift)], start, end, pixels, most_events=1_000)
    return found


def test_streams_and_levels_of_calls_have_lanes(tmp_path):
    job = open_small(tmp_path, SMALL)
    names = job_lanes(job).of(0).names
    assert [name.kind for name in names] == ["rank", "stream", "stream", *["thread"] * 3]
    assert [name.label for name in names][1:3] == ["stream 7", "stream 20"]
    assert [name.level for name in names] == [0, 0, 0, 0, 1, 2]
    outermost = window(job, names[3].key, 0, 100_000, 10)
    events = job.rank(0).trace.events
    assert events.names_at(outermost.row) == ["aten::linear", "cudaDeviceSynchronize"]
    assert [CLASSES[code] for code in outermost.code] == ["operator", "blocking_call"]
    stream = window(job, "stream 0 20", 0, 100_000, 4)
    assert [CLASSES[code] for code in stream.code] == ["communication"]
    assert stream.start_ns.tolist() == [25_000]
    assert stream.duration_ns.tolist() == [20_000]


def test_hidden_communication_lies_below(tmp_path):
    found = window(open_small(tmp_path, SMALL), "rank", 0, 100_000, 1)
    covered = {CLASSES[code]: ns for code, [ns] in zip(found.codes, found.covered_ns, strict=True)}
    assert covered["compute"] == 10_000
    assert covered["communication"] == 15_000
    assert covered["hidden"] == 5_000


def test_a_shifted_lane_shows_another_time(tmp_path):
    job = open_small(tmp_path, SMALL)
    plain = window(job, "stream 0 7", 10_000, 60_000, 10)
    shifted = window(job, "stream 0 7", 0, 50_000, 10, shift=10_000)
    assert np.array_equal(plain.covered_ns, shifted.covered_ns)
    assert (plain.start_ns - 10_000).tolist() == shifted.start_ns.tolist()


def test_an_event_knows_its_launch_and_a_call_its_work(tmp_path):
    job = open_small(tmp_path, SMALL)
    lanes, events = job_lanes(job), job.rank(0).trace.events
    row = events.name.values.index("gemm")
    [gemm] = np.flatnonzero(events.name.codes == row).tolist()
    found = lanes.event(0, gemm)
    assert found["event"]["key"] == "stream 0 7"
    assert (found["event"]["start"], found["event"]["duration"]) == (20_000, 10_000)
    launch = found["launch"]
    assert (launch["name"], launch["start"], launch["key"]) == (
        "cudaLaunchKernel",
        10_000,
        "thread 0 2",
    )
    [work] = lanes.event(0, launch["row"])["launched"]
    assert work["row"] == gemm


@given(jobs)
def test_streams_cover_what_runs_on_them(tmp_path_factory, ranks):
    job = open_job(tmp_path_factory.mktemp("job"), ranks)
    lanes = job_lanes(job)
    for rank, events in enumerate(ranks):
        if not len(job.rank(rank).gpu_work):
            continue
        work = gpu_work(events)
        for name in lanes.of(rank).names:
            if name.kind != "stream":
                continue
            _, device, stream = name.key.split()
            tracks = lanes.of(rank).tracks(name.key)
            edges = np.arange(0, 60_001, 1_000)
            covered = coverage(tracks, edges + job.rank(rank).trace.events.start_ns.min())
            first = min(each["ts"] for each in events)
            own = [
                each
                for each in work
                if (each["args"]["device"], each["args"]["stream"]) == (int(device), int(stream))
            ]
            for us in range(60):
                runs = any(each["ts"] <= us + first < each["ts"] + each["dur"] for each in own)
                assert covered[:, us].sum() == 1_000 * runs


def test_mistakes_are_told(loaded):
    lanes = job_lanes(loaded)
    with pytest.raises(ParameterError, match="start < end"):
        lanes.window([LaneAsked(0, "rank")], 5, 5, 10, most_events=1)
    with pytest.raises(ParameterError, match="row must be"):
        lanes.event(0, 10**9)
    with pytest.raises(UnknownRankError):
        timeline(loaded, [7])
    assert lanes.window([LaneAsked(0, "nothing")], 0, 5, 10, most_events=1) == [None]


def test_no_gpu_work_is_said(tmp_path):
    found = timeline(open_small(tmp_path, [host(0, 10, "aten::mm")]))
    assert found.finding == "No GPU work was recorded on the selected ranks."
    assert found.steps.empty
    assert found.coverage["period_ns"].tolist() == [0]


def test_only_the_ranks_that_a_big_job_may_hold_are_held(loaded):
    whole, big = timeline(loaded), Job(loaded.sources, name="big", hold_at_most=2)
    found = timeline(big)
    for rank in big.ranks:
        assert np.array_equal(found.overviews[rank].covered_ns, whole.overviews[rank].covered_ns)
        found.lanes.of(rank)
    assert len(found.lanes._built) <= 2


def test_rows_of_idle_time_are_calls_or_nothing(loaded):
    lanes = job_lanes(loaded)
    found = lanes.window([LaneAsked(0, "rank")], *lanes.analysed, 10, most_events=10**6)[0]
    idle = found.code >= CODE["late_launching"]
    assert np.all(found.row[~idle] == NO_ROW)
    assert np.any(found.row[idle & (found.code == CODE["data_loading"])] >= 0)
