"""Launch overlap against brute force, and the cases that adjacent pairs get wrong."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hta_widgets.analyses.launch_overlap import launch_overlap
from hta_widgets.errors import UnknownRankError
from hta_widgets.names.shorten import api_name
from hta_widgets.trace.loaders.event_blocks import EventBlocks
from hta_widgets.trace.loaders.formats import OVERLAP_RECIPE
from hta_widgets.trace.model.events import Kind
from tests.analyses.generated_jobs import LAUNCH_APIS, drawn_launches, launches, open_job
from tests.analyses.lane_jobs import computing, job_of
from tests.kineto_text import call, kernel, step


def end(event):
    return event["ts"] + event["dur"]


def covered(events):
    return {time for event in events for time in range(event["ts"], end(event))}


def of_kernels(drawn):
    return [each for each in drawn if each.call and each.kernels]


def is_before(first, second, events):
    """Sort key of launches: by start, then by position in the file."""
    places = [
        next(place for place, event in enumerate(events) if event is each.call)
        for each in (first, second)
    ]
    return (first.call["ts"], places[0]) < (second.call["ts"], places[1])


def overlapping(own, events):
    """Launches that start while any kernel of any earlier one of them still runs."""
    return sum(
        any(
            is_before(first, second, events) and max(map(end, first.kernels)) > second.call["ts"]
            for first in own
            if first is not second
        )
        for second in own
    )


def rows(table):
    return list(table.itertuples(index=False, name=None))


@given(st.lists(drawn_launches(), min_size=1, max_size=2))
def test_threads_and_ranks_against_brute_force(tmp_path_factory, drawn):
    job = open_job(tmp_path_factory.mktemp("job"), [events for _, events in drawn])
    result = launch_overlap(job)
    found = iter(result.threads.to_dict("records"))
    for (every, events), summary in zip(drawn, result.ranks.to_dict("records"), strict=True):
        running = covered(event for each in every for event in each.kernels)
        moving = covered(event for each in every for event in each.work) - running
        threads = defaultdict(list)
        processes = defaultdict(list)
        for each in of_kernels(every):
            threads[each.call["pid"], each.call["tid"]].append(each)
            processes[each.call["pid"]].append(each)
        call_us = hidden_us = copying_us = 0
        for (pid, tid), own in sorted(threads.items()):
            calls = covered(each.call for each in own)
            row = next(found)
            assert (row["rank"], row["pid"], row["tid"]) == (summary["rank"], pid, tid)
            assert row["launches"] == len(own)
            assert row["overlapping"] == overlapping(own, events)
            assert row["overlapping_percent"] == 100 * row["overlapping"] / len(own)
            assert row["call_time_ns"] == 1000 * len(calls)
            assert row["hidden_ns"] == 1000 * len(calls & running)
            assert row["exposed_ns"] == 1000 * len(calls - running)
            assert row["beside_copies_ns"] == 1000 * len(calls & moving)
            assert row["unknown_ns"] == 0
            call_us, hidden_us = call_us + len(calls), hidden_us + len(calls & running)
            copying_us += len(calls & moving)
        assert summary["launches"] == len(of_kernels(every))
        assert summary["overlapping"] == sum(overlapping(own, events) for own in processes.values())
        assert summary["call_time_ns"] == 1000 * call_us
        assert summary["hidden_ns"] == 1000 * hidden_us
        assert summary["exposed_ns"] == 1000 * (call_us - hidden_us)
        assert summary["beside_copies_ns"] == 1000 * copying_us
        assert summary["kernels"] == sum(len(each.kernels) for each in every)
        assert summary["without_launch"] == sum(
            len(each.kernels) for each in every if not each.call
        )
    assert next(found, None) is None


@given(st.lists(launches(), min_size=1, max_size=2))
def test_apis_against_brute_force(tmp_path_factory, drawn):
    job = open_job(
        tmp_path_factory.mktemp("job"),
        [[event for each in every for event in each.events] for every in drawn],
    )
    result = launch_overlap(job)
    by_kernel = defaultdict(lambda: [0, 0])
    expected = []
    for rank, every in enumerate(drawn):
        apis = defaultdict(list)
        for each in of_kernels(every):
            apis[LAUNCH_APIS[each.call["name"]]].append(each)
        of_rank = []
        for api, own in apis.items():
            pairs = [(each.call, event) for each in own for event in each.kernels]
            delays = [min(event["ts"] for event in each.work) - end(each.call) for each in own]
            late = [1000 * delay for delay in delays if delay >= 0]
            time_ns = 1000 * sum(event["dur"] for _, event in pairs)
            mean = statistics.fmean(late) if late else math.nan
            of_rank.append(
                (rank, api, len(own), len(pairs), time_ns, mean, len(delays) - len(late))
            )
            for _, event in pairs:
                by_kernel[event["name"], api][0] += 1
                by_kernel[event["name"], api][1] += 1000 * event["dur"]
        expected += sorted(of_rank, key=lambda row: (-row[4], row[1]))
    assert rows(result.launch_apis) == [pytest.approx(row, nan_ok=True) for row in expected]
    assert rows(result.apis_by_kernel) == sorted(
        ((*names, *sums) for names, sums in by_kernel.items()),
        key=lambda row: (-row[3], row[0], row[1]),
    )


def test_a_long_kernel_over_several_launches(tmp_path):
    """The second launch is that of a short kernel: only the first one's is still running."""
    events = [
        *(call(0, 4, 1), kernel(5, 95, correlation=1)),
        *(call(10, 4, 2), kernel(15, 1, correlation=2, stream=8)),
        *(call(50, 10, 3), kernel(90, 20, correlation=3, stream=8)),
        *(call(105, 10, 4), kernel(120, 1, correlation=4)),
        *(call(200, 10, 5), kernel(211, 1, correlation=5)),
    ]
    result = launch_overlap(open_job(tmp_path, [events]))
    assert rows(result.threads) == [(0, 100, 100, 5, 3, 60.0, 38_000, 19_000, 19_000, 0, 0)]
    assert result.finding == (
        "On rank 0, 60 % of 5 launches started before an earlier kernel had ended; 50 % of the "
        "launch time was not hidden behind a kernel (19 µs of 38 µs)."
    )


def test_threads_overlap_by_themselves_ranks_over_all_threads_of_a_process(tmp_path):
    events = [
        *(call(0, 4, 1, tid=1), kernel(5, 95, correlation=1)),
        *(call(10, 4, 2, tid=2), kernel(15, 1, correlation=2)),
        *(call(20, 4, 3, pid=101, tid=2), kernel(120, 1, correlation=3, device=1)),
    ]
    result = launch_overlap(open_job(tmp_path, [events]))
    assert result.threads["overlapping"].tolist() == [0, 0, 0]
    assert result.ranks["overlapping"].tolist() == [1]


def test_a_launch_as_the_kernel_ends_does_not_overlap(tmp_path):
    events = [
        *(call(0, 4, 1), kernel(5, 5, correlation=1)),
        *(call(10, 4, 2), kernel(15, 1, correlation=2)),
    ]
    assert launch_overlap(open_job(tmp_path, [events])).ranks["overlapping"].tolist() == [0]


def test_calls_that_launch_only_copies_are_no_launches(tmp_path):
    events = [
        *(call(0, 4, 1), kernel(5, 95, correlation=1, cat="gpu_memcpy", name="Memcpy HtoD")),
        *(call(10, 4, 2), kernel(105, 1, correlation=2)),
    ]
    result = launch_overlap(open_job(tmp_path, [events]))
    assert rows(result.threads) == [(0, 100, 100, 1, 0, 0.0, 4_000, 0, 4_000, 4_000, 0)]
    assert result.finding.endswith("(4 µs of 4 µs), 100 % of that while copies or memsets ran.")
    assert result.launch_apis["kernels"].tolist() == [1]


def test_the_step_filter_applies(tmp_path):
    events = [
        *(step(1, 0, 10), step(2, 20, 10)),
        *(call(1, 2, 1), kernel(4, 90, correlation=1)),
        *(call(21, 2, 2), kernel(95, 1, correlation=2)),
    ]
    assert launch_overlap(open_job(tmp_path, [events])).ranks["launches"].tolist() == [1]


def add(blocks, kind, start_ns, duration_ns, name, **identity):
    times = (np.array([start_ns]), np.array([duration_ns]))
    blocks.add(kind, *times, [name], **identity)


def test_whole_graphs_are_launched():
    blocks = EventBlocks()
    for number in range(3):
        add(
            blocks,
            Kind.RUNTIME,
            100 * number,
            10,
            "cudaGraphLaunch_v10000",
            correlation=number,
            pid=1,
            tid=1,
        )
        add(
            blocks,
            Kind.GRAPH,
            100 * number + 20,
            90,
            "graph 1",
            correlation=number,
            device=0,
            stream=7,
        )
    result = launch_overlap(job_of(blocks))
    assert rows(result.threads) == [(0, 1, 1, 3, 2, pytest.approx(200 / 3), 30, 20, 10, 0, 0)]
    assert rows(result.launch_apis) == [(0, "cudaGraphLaunch", 3, 3, 270, 10.0, 0)]
    assert rows(result.apis_by_kernel) == [("graph 1", "cudaGraphLaunch", 3, 270)]


@pytest.mark.parametrize(
    ("metadata", "mean_ns", "before"),
    [({}, 1000.0, 2), ({"resolution_ns": 250}, 500.0, 1), ({"resolution_ns": "odd"}, 1000.0, 2)],
)
def test_delays_below_the_resolution_of_the_clock_are_0(metadata, mean_ns, before):
    blocks = EventBlocks()
    for number, start_ns in enumerate((11_000, 9_500, 9_250)):
        clock = 100_000 * number
        add(
            blocks,
            Kind.RUNTIME,
            clock,
            10_000,
            "cudaLaunchKernel",
            correlation=number,
            pid=1,
            tid=1,
        )
        add(
            blocks,
            Kind.KERNEL,
            clock + start_ns,
            10,
            "gemm",
            correlation=number,
            device=0,
            stream=7,
        )
    (row,) = launch_overlap(job_of(blocks, **metadata)).launch_apis.to_dict("records")
    assert (row["mean_launch_delay_ns"], row["started_before_return"]) == (mean_ns, before)


def test_a_recipe_folder_has_nothing_of_it():
    result = launch_overlap(computing(OVERLAP_RECIPE))
    assert result.finding == "No kernel launches were recorded on the selected ranks."
    assert len(result.threads) == len(result.launch_apis) == len(result.apis_by_kernel) == 0
    assert math.isnan(result.ranks["overlapping_percent"].item())
    assert any("has no kernels" in notice for notice in result.notices)


def test_kernels_without_a_launch_are_said(tmp_path):
    events = [call(0, 4, 1), kernel(2, 8, correlation=1), kernel(0, 1), kernel(20, 1)]
    result = launch_overlap(open_job(tmp_path, [events]))
    assert rows(result.threads) == [(0, 100, 100, 1, 0, 0.0, 4_000, 3_000, 1_000, 0, 0)]
    assert result.notices[-1] == (
        "kernels without a launch in the trace hide launch time, but belong to no launch API"
    )


def test_several_ranks(tmp_path):
    first = [call(0, 4, 1), kernel(5, 95, correlation=1)]
    second = [call(0, 8, 1), kernel(5, 1, correlation=1)]
    job = open_job(tmp_path, [first, second])
    result = launch_overlap(job)
    assert result.finding == (
        "On 2 ranks, 0 % of 2 launches started before an earlier kernel had ended; 91.7 % of the "
        "launch time was not hidden behind a kernel (11 µs of 12 µs), 4 µs to "
        "7 µs on each rank."
    )
    assert launch_overlap(job, [1]).ranks["rank"].tolist() == [1]
    with pytest.raises(UnknownRankError):
        launch_overlap(job, [2])


def test_no_rank_has_the_most_where_all_are_alike(tmp_path):
    job = open_job(tmp_path, [[call(0, 4, 1), kernel(5, 95, correlation=1)]] * 2)
    assert launch_overlap(job).finding.endswith("not hidden behind a kernel (8 µs of 8 µs).")


def test_threads_with_labels(tmp_path):
    labelled = call(0, 4, 1)
    labelled["tid"] = "main thread"
    result = launch_overlap(open_job(tmp_path, [[labelled, kernel(5, 1, correlation=1)]]))
    assert rows(result.threads[["pid", "tid"]]) == [(100, "main thread")]


def test_names_of_calls():
    assert {name: api_name(name) for name in LAUNCH_APIS} == LAUNCH_APIS
    assert api_name("_v1234") == "_v1234"
