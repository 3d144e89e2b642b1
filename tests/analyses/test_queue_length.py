"""Queue lengths against literal tables and brute force."""

from __future__ import annotations

import math
import re
from collections import Counter

import pytest
from hypothesis import given

from hta_widgets.analyses.queue_length import queue_length
from hta_widgets.errors import UnknownRankError
from hta_widgets.trace.opening.open import open_trace
from tests.analyses.generated_jobs import open_job
from tests.analyses.generated_queues import queued_jobs
from tests.kineto_text import call, host, kernel, write


def opened(folder, *events):
    return open_trace(write(folder / "rank-0.json", list(events)), progress=False)


def lengths(result, rank=0):
    table = result.changes[rank]
    return list(zip(table["time_ns"], table["queue_length"], strict=True))


def test_a_launch_adds_and_a_start_takes_off(tmp_path):
    job = opened(
        tmp_path,
        call(0, 2, 1),
        call(3, 2, 2, name="hipModuleLaunchKernel"),
        kernel(5, 4, correlation=1),
        kernel(10, 1, correlation=2),
    )
    result = queue_length(job)
    assert lengths(result) == [(0, 1), (3000, 2), (5000, 1), (10_000, 0)]
    assert result.changes[0]["event"].tolist() == [0, 1, 2, 3]
    assert result.changes[0]["tid"].tolist() == [7] * 4
    (row,) = result.streams.to_dict("records")
    assert (row["rank"], row["device"], row["stream"], row["operations"]) == (0, 0, 7, 2)
    assert (row["count"], row["mean"], row["min"], row["max"]) == (4, 1, 0, 2)
    assert row["mean_over_time"] == (3 * 1 + 2 * 2 + 5 * 1) / 10
    assert (row["q25_over_time"], row["median_over_time"], row["q75_over_time"]) == (1, 1, 1)
    assert (row["observed_ns"], row["empty_ns"], row["full_ns"]) == (10_000, 0, 0)


@given(queued_jobs)
def test_the_finding_names_the_stream_with_most_waiting(tmp_path_factory, ranks):
    """By the waits of its operations; the queue of another may be longer for a short time."""
    result = queue_length(open_job(tmp_path_factory.mktemp("job"), ranks))
    waits = Counter()
    for rank, events in enumerate(ranks):
        launched = {}
        for event in events:
            if event["cat"].endswith("runtime"):
                known = launched.setdefault(event["args"]["correlation"], event["ts"])
                launched[event["args"]["correlation"]] = min(known, event["ts"])
        for event in events:
            at = launched.get(event.get("args", {}).get("correlation"))
            if "stream" in event.get("args", {}) and at is not None:
                stream = rank, event["args"]["device"], event["args"]["stream"]
                waits[stream] += 1000 * max(event["ts"] - at, 0)
    if not waits:
        return
    said = re.match(r"The longest queue is that of stream (\d+) of rank (\d+): ", result.finding)
    most = max(waits.values())
    named = {(rank, stream) for (rank, _, stream), ns in waits.items() if ns == most}
    assert (int(said[2]), int(said[1])) in named


def test_a_long_queue_for_a_short_time_is_not_the_one_to_look_at(tmp_path):
    events = [call(number, 1, number) for number in range(4)]
    events += [kernel(100 * number + 50, 10, correlation=number) for number in range(4)]
    events += [call(492 + number, 1, number) for number in (8, 9, 10)]
    events += [kernel(511, 1, correlation=number, stream=20) for number in (8, 9, 10)]
    result = queue_length(opened(tmp_path, *events))
    averages = result.streams.set_index("stream")["mean_over_time"]
    assert averages[20] > averages[7]
    assert result.finding.startswith(
        "The longest queue is that of stream 7 of rank 0: 2.27 operations on average, "
    )


def test_a_graph_launch_adds_all_its_operations(tmp_path):
    kernels = [kernel(10 * n, 5, correlation=4) for n in (1, 2, 3)]
    job = opened(tmp_path, call(0, 2, 4, name="cudaGraphLaunch"), *kernels)
    values = [length for _, length in lengths(queue_length(job))]
    assert values == [1, 2, 3, 2, 1, 0]
    launches = queue_length(job).changes[0]["launches"].tolist()
    assert launches == [1, 1, 1, 0, 0, 0]


def test_the_driver_call_inside_a_runtime_call_adds_nothing(tmp_path):
    nested = call(1, 1, 1, name="cuLaunchKernel", cat="cuda_driver")
    job = opened(tmp_path, call(0, 5, 1), nested, kernel(6, 1, correlation=1))
    assert lengths(queue_length(job)) == [(0, 1), (6000, 0)]


def test_a_launch_comes_before_a_start_at_the_same_time(tmp_path):
    job = opened(
        tmp_path,
        call(0, 1, 1),
        call(5, 1, 2),
        kernel(5, 1, correlation=1),
        kernel(9, 1, correlation=2),
    )
    assert lengths(queue_length(job)) == [(0, 1), (5000, 2), (5000, 1), (9000, 0)]


def test_an_operation_that_starts_before_its_launch_never_makes_it_negative(tmp_path):
    job = opened(tmp_path, call(5, 1, 1), kernel(3, 1, correlation=1))
    result = queue_length(job)
    assert lengths(result) == [(2000, 1), (2000, 0)]
    of_health, of_queue = result.notices
    assert of_health.startswith("1 of 1 GPU operations start before the call that launches them")
    assert of_queue == (
        "according to the clocks, 1 of 1 GPU operations started before their launch; they leave "
        "the queue at their launch"
    )
    assert math.isnan(result.streams["mean_over_time"][0])


def test_operations_without_launch_are_left_out_and_counted(tmp_path):
    result = queue_length(
        opened(tmp_path, call(0, 1, 1), kernel(2, 1, correlation=1), kernel(5, 1))
    )
    assert result.streams["operations"].tolist() == [1]
    recorded, left_out = result.notices
    assert recorded.startswith("1 of 2 GPU operations have no launch in the trace (")
    assert left_out == (
        "GPU operations without a launch in the trace are left out of the queue lengths"
    )


def test_streams_of_two_devices_are_two_queues(tmp_path):
    job = opened(
        tmp_path,
        call(0, 1, 1),
        call(0, 1, 2),
        kernel(2, 1, correlation=1, device=0),
        kernel(2, 1, correlation=2, device=1),
    )
    assert queue_length(job).streams["max"].tolist() == [1, 1]


FULL = 1022


def queue_of(length, *, waits_us=1, waiting=8):
    """Short launches, then some that take longer, each until a kernel has started."""
    short = [call(number, 1, number) for number in range(length)]
    begin = 5000
    kernels = [kernel(begin + waits_us * n, waits_us, correlation=n) for n in range(length)]
    for number in range(length, length + waiting):
        short.append(call(begin + waits_us * (number - length), waits_us - 1, number))
        kernels.append(kernel(begin + waits_us * number, waits_us, correlation=number))
    return [*short, *kernels]


def test_a_queue_in_which_launches_take_long_is_full(tmp_path):
    result = queue_length(opened(tmp_path, *queue_of(FULL, waits_us=200)))
    (row,) = result.streams.to_dict("records")
    assert row["max"] == FULL + 1
    assert (row["full_launches"], row["blocked_calls"]) == (FULL, 8)
    assert row["blocked_ns"] == 8 * 198_000
    assert row["full_ns"] == 1000 * (5000 + 8 * 200 - (FULL - 1))
    assert result.finding.endswith("8 launch calls had to wait, 1.58 ms in total.")


@pytest.mark.parametrize("length", [FULL, 4551])
def test_a_long_queue_in_which_launches_are_short_is_not_full(tmp_path, length):
    """As on ROCm, where 4,551 launches waited and no call took longer than 17 µs."""
    result = queue_length(opened(tmp_path, *queue_of(length, waits_us=18)))
    assert result.streams["max"].tolist() == [length + 1]
    assert result.streams["full_ns"].tolist() == [0]
    assert result.streams["blocked_calls"].tolist() == [0]
    assert result.finding.endswith(" of the time and never full.")


def test_copies_alone_do_not_make_a_queue_full(tmp_path):
    """They take long at any length, from pageable memory."""
    events = queue_of(FULL, waits_us=200)
    for event in events[-8:]:
        event |= {"cat": "gpu_memcpy", "name": "Memcpy HtoD (Pageable -> Device)"}
    result = queue_length(opened(tmp_path, *events))
    assert result.streams["max"].tolist() == [FULL + 1]
    assert result.streams["full_ns"].tolist() == [0]


def test_one_long_launch_among_many_does_not_make_a_queue_full(tmp_path):
    """It may load a module."""
    events = queue_of(FULL, waits_us=200, waiting=1)
    assert queue_length(opened(tmp_path, *events)).streams["full_ns"].tolist() == [0]


def test_long_launches_at_a_short_queue_do_not_make_it_full(tmp_path):
    result = queue_length(opened(tmp_path, *queue_of(800, waits_us=200)))
    assert result.streams["blocked_calls"].tolist() == [0]


def test_a_graph_alone_does_not_fill_a_queue(tmp_path):
    kernels = [kernel(5000 + 2 * n, 1, correlation=1) for n in range(2 * FULL)]
    result = queue_length(opened(tmp_path, call(0, 1, 1), *kernels))
    assert result.streams["max"].tolist() == [2 * FULL]
    assert result.streams["full_ns"].tolist() == [0]


def test_names_of_threads_stay_text(tmp_path):
    launched = kernel(2, 1, correlation=1) | {"tid": "stream 7"}
    result = queue_length(opened(tmp_path, call(0, 1, 1), launched))
    assert result.changes[0]["tid"].tolist() == ["stream 7"] * 2
    assert result.changes[0]["pid"].tolist() == [0, 0]


@pytest.mark.parametrize("pid", [-(2**31) - 1, 7, 2**31, 2**62])
def test_numbers_of_processes_stay_whole(tmp_path, pid):
    launched = kernel(2, 1, correlation=1) | {"pid": pid}
    result = queue_length(opened(tmp_path, call(0, 1, 1), launched))
    assert result.changes[0]["pid"].tolist() == [pid] * 2


def test_times_are_aligned_and_a_rank_without_events_does_not_count(tmp_path):
    for rank, ts in enumerate([1000, 1004]):
        write(tmp_path / f"rank-{rank}.json", [call(ts, 1, 1), kernel(ts + 2, 1, correlation=1)])
    write(tmp_path / "rank-2.json", [])
    result = queue_length(open_trace(tmp_path, progress=False))
    assert lengths(result, 0) == [(0, 1), (2000, 0)]
    assert lengths(result, 1) == [(4000, 1), (6000, 0)]
    assert lengths(result, 2) == []


@pytest.mark.parametrize(
    ("events", "finding"),
    [
        ([host(0, 1, "op")], "No GPU work was recorded on the selected ranks."),
        ([kernel(0, 1)], "No GPU operation on the selected ranks has its launch in the trace."),
    ],
)
def test_nothing_to_count(tmp_path, events, finding):
    result = queue_length(opened(tmp_path, *events))
    assert result.finding == finding
    assert result.streams.empty
    assert list(result.changes[0].columns[:4]) == ["device", "stream", "time_ns", "queue_length"]


def test_unknown_rank(tmp_path):
    with pytest.raises(UnknownRankError, match="rank 3"):
        queue_length(opened(tmp_path, kernel(0, 1)), [3])


@given(queued_jobs)
def test_against_brute_force(tmp_path_factory, ranks):
    job = open_job(tmp_path_factory.mktemp("job"), ranks)
    result = queue_length(job)
    origin = min((event["ts"] for events in ranks for event in events), default=0)
    queues = [
        (rank, key, queue)
        for rank, events in enumerate(ranks)
        for key, queue in sorted(waiting_times(events).items())
    ]
    rows = result.streams.to_dict("records")
    assert [(r["rank"], (r["device"], r["stream"])) for r in rows] == [q[:2] for q in queues]
    for row, (rank, (device, stream), queue) in zip(rows, queues, strict=True):
        table = result.changes[rank]
        table = table[(table["device"] == device) & (table["stream"] == stream)]
        check_changes(table, queue, origin)
        check_statistics(row, queue)
        check_launches(table, ranks[rank], (device, stream), origin)


def check_launches(table, events, key, origin):
    """After each moment: calls that have started, but none of whose operations here has."""
    calls = {}
    for (begin, end), call_id in zip(*waits_and_calls(events)[key], strict=True):
        begins, ends = calls.setdefault(call_id, ([], []))
        begins.append(begin)
        ends.append(end)
    last = dict(zip(table["time_ns"] // 1000 + origin, table["launches"], strict=True))
    for time, launches in last.items():
        expected = sum(min(b) <= time < min(e) for b, e in calls.values())
        assert launches == expected


def waiting_times(events):
    """Per (device, stream): from launch to start, in µs, of each operation with a launch."""
    return {key: waits for key, (waits, _) in waits_and_calls(events).items()}


def waits_and_calls(events):
    """Per (device, stream): the waiting times, and the correlation ids."""
    launched = {}
    for event in events:
        if event["cat"] in ("cuda_runtime", "cuda_driver"):
            number = event["args"]["correlation"]
            launched[number] = min(event["ts"], launched.get(number, event["ts"]))
    queues = {}
    for event in events:
        number = event["args"].get("correlation")
        if "stream" in event["args"] and number in launched:
            key = event["args"]["device"], event["args"]["stream"]
            waits, calls = queues.setdefault(key, ([], []))
            waits.append((launched[number], max(event["ts"], launched[number])))
            calls.append(number)
    return queues


def check_changes(table, queue, origin):
    times = [time // 1000 + origin for time in table["time_ns"].tolist()]
    values = table["queue_length"].tolist()
    assert sorted(times) == times == sorted(time for wait in queue for time in wait)
    steps = [after - before for before, after in zip([0, *values], values, strict=False)]
    assert set(steps) <= {1, -1}
    for place, time in enumerate(times):
        if place + 1 == len(times) or times[place + 1] > time:
            assert values[place] == sum(begin <= time < end for begin, end in queue)
        elif steps[place] == -1:
            assert steps[place + 1] == -1
    assert all(value >= 0 for value in values)


def check_statistics(row, queue):
    first, last = min(begin for begin, _ in queue), max(end for _, end in queue)
    sampled = sorted(sum(b <= time < e for b, e in queue) for time in range(first, last))
    assert row["operations"] == len(queue)
    assert row["observed_ns"] == 1000 * len(sampled)
    assert row["empty_ns"] == 1000 * sampled.count(0)
    if not sampled:
        return
    assert row["mean_over_time"] == pytest.approx(sum(sampled) / len(sampled))
    for name, share in (("q25", 0.25), ("median", 0.5), ("q75", 0.75)):
        place = math.ceil(share * len(sampled)) - 1
        assert row[f"{name}_over_time"] == sampled[place]
