"""Memory bandwidth against literal tables and brute force."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given

from hta_widgets.analyses.memory_bandwidth import memory_bandwidth, transfer_name
from hta_widgets.quantities import number
from hta_widgets.trace.opening.open import open_trace
from tests.analyses.generated_jobs import open_job
from tests.analyses.generated_queues import TRANSFERS, queued_jobs
from tests.kineto_text import host, kernel, write

HTOD = "Memcpy HtoD (Pageable -> Device)"


def copy(ts, dur, bandwidth=None, *, name=HTOD, **args):
    if bandwidth is not None:
        args["memory bandwidth (GB/s)"] = bandwidth
    return kernel(ts, dur, name=name, cat="gpu_memcpy", **args)


def opened(folder, *events):
    folder.mkdir(exist_ok=True)
    return open_trace(write(folder / "rank-0.json", list(events)), progress=False)


def values(result, rank=0):
    table = result.changes[rank]
    return list(zip(table["time_ns"], table["bandwidth_gb_per_s"], strict=True))


def test_bandwidths_of_a_kind_add_up(tmp_path):
    job = opened(tmp_path, copy(0, 10, 2.0), copy(4, 2, 3.0, stream=20), copy(20, 5, 1.0, device=1))
    result = memory_bandwidth(job)
    assert values(result) == [
        *((0, 2), (4000, 5), (6000, 2), (10_000, 0)),
        *((20_000, 1), (25_000, 0)),
    ]
    assert result.changes[0]["active"].tolist() == [1, 2, 1, 0, 1, 0]
    (row,) = result.transfers.to_dict("records")
    assert (row["name"], row["operations"], row["busy_ns"]) == ("Memcpy HtoD", 3, 15_000)
    assert (row["count"], row["mean_gb_per_s"], row["max_gb_per_s"]) == (4, 2.5, 5)
    assert row["mean_over_time_gb_per_s"] == pytest.approx((8 * 2 + 2 * 5 + 5 * 1) / 15)


def test_an_end_comes_before_a_start_at_the_same_time(tmp_path):
    result = memory_bandwidth(opened(tmp_path, copy(0, 5, 5.0), copy(5, 5, 5.0)))
    assert values(result) == [(0, 5), (5000, 0), (5000, 5), (10_000, 0)]
    assert result.transfers["max_gb_per_s"].tolist() == [5]


@pytest.mark.parametrize("stated", [None, 0, "N/A", -1, "inf"])
def test_without_a_usable_bandwidth_it_is_bytes_by_time(tmp_path, stated):
    result = memory_bandwidth(opened(tmp_path, copy(0, 4, stated, bytes=8000)))
    assert values(result) == [(0, 2), (4000, 0)]
    assert result.transfers["bytes"].tolist() == [8000]


def test_without_bytes_as_well_it_adds_nothing_and_is_counted(tmp_path):
    result = memory_bandwidth(opened(tmp_path, copy(0, 4, 1.0), copy(1, 2)))
    assert [value for _, value in values(result)] == [1, 1, 1, 0]
    assert result.transfers["without_bandwidth"].tolist() == [1]
    assert result.notices[-1] == (
        "no bandwidth or size recorded for 1 of 2 copies and memsets; they count as 0 GB/s"
    )


def test_a_duration_of_zero_counts_as_a_microsecond(tmp_path):
    assert values(memory_bandwidth(opened(tmp_path, copy(0, 0, 3.0)))) == [(0, 3), (1000, 0)]


def test_nothing_active_is_exactly_nothing(tmp_path):
    events = [copy(3 * number, 2, 0.1 * number + 0.07) for number in range(50)]
    events += [copy(3 * number, 1, 0.3) for number in range(50)]
    result = memory_bandwidth(opened(tmp_path, *events))
    table = result.changes[0]
    assert ((table["bandwidth_gb_per_s"] == 0) == (table["active"] == 0)).all()
    assert result.transfers["count"].tolist() == [150]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("Memcpy PtoP (Device -> Device)", "Memcpy PtoP"),
        ("hipMemcpyDtoD", "Memcpy DtoD"),
        ("CopyHostToDevice", "Memcpy HtoD"),
        ("Memset (Device)", "Memset"),
        ("hipMemset", "Memset"),
        ("FillBuffer", "Memset"),
        ("__amd_rocclr_copyBuffer.kd", "Memcpy Unknown"),
        ("dma_transfer", "Memcpy Unknown"),
        ("Memcpy", "Memcpy Unknown"),
    ],
)
def test_kinds(name, kind):
    assert transfer_name(name) == kind


def test_kernels_that_copy_are_transfers(tmp_path):
    result = memory_bandwidth(opened(tmp_path, kernel(0, 2, name="__amd_rocclr_copyBuffer")))
    assert result.transfers["name"].tolist() == ["Memcpy Unknown"]
    assert result.finding == "The trace has 1 copy or memset but no transfer sizes."


@pytest.mark.parametrize("event", [host(0, 1, "op"), kernel(0, 1)])
def test_nothing_to_add_up(tmp_path, event):
    result = memory_bandwidth(opened(tmp_path, event))
    assert result.finding == "No copies or memsets were recorded on the selected ranks."
    assert result.transfers.empty
    assert list(result.changes[0].columns[:3]) == ["name", "time_ns", "bandwidth_gb_per_s"]


def test_the_finding_names_the_transfer_that_takes_most_time(tmp_path):
    slow = copy(10, 40, bytes=2_000_000, name="Memcpy DtoH (Device -> Pageable)")
    job = opened(tmp_path, copy(0, 4, bytes=8_000_000), slow)
    assert memory_bandwidth(job).finding == (
        "2 copies and memsets moved 10 MB. Memcpy DtoH took the most time (40 µs), for 20 % of the "
        "data: 50 GB/s on average, 50 GB/s at most."
    )


def test_the_only_kind_of_transfer_is_not_compared(tmp_path):
    job = opened(tmp_path, copy(0, 4, 2, bytes=8000), copy(9, 1, 3, bytes=3000))
    assert memory_bandwidth(job).finding == (
        "2 copies and memsets (Memcpy HtoD) moved 11 kB in 5 µs: 2.2 GB/s on average, 3 GB/s at "
        "most."
    )


def test_the_average_is_that_of_the_recorded_bandwidths(tmp_path):
    """Durations may be rounded to µs: the average was above the maximum."""
    job = opened(tmp_path, copy(0, 3, 0.471, bytes=1536))
    assert memory_bandwidth(job).finding.endswith("471 MB/s on average, 471 MB/s at most.")


def test_bandwidths_by_ticks_of_the_host_are_not_taken(tmp_path):
    """Kineto divided by ticks of 3 GHz: 77 MB in 6.84 ms were at 3.76 GB/s."""
    both = [copy(0, 6.0, 0.5, bytes=9_000), copy(10, 0.5, 0.5, bytes=750)]
    assert values(memory_bandwidth(opened(tmp_path, *both)))[::2] == [(0, 1.5), (10_000, 1.5)]


def test_bytes_time_and_speed_are_of_the_same_copies(tmp_path):
    """Of others, only the time is known: it does not count for the speed."""
    sized = [
        copy(0, 10, bytes=1_000_000),
        copy(50, 30, bytes=3_000_000),
        copy(60, 30, bytes=60_000),
    ]
    job = opened(tmp_path / "one", *sized, copy(200, 900), copy(1200, 60, 7.0))
    assert memory_bandwidth(job).finding == (
        "5 copies and memsets (Memcpy HtoD) took 1.01 ms; the 3 of 5 with a recorded size moved "
        "4.06 MB in 50 µs: 81.2 GB/s on average, 102 GB/s at most."
    )
    other = copy(2000, 5, bytes=940_000, name="Memcpy DtoH (Device -> Pageable)")
    job = opened(tmp_path / "two", *sized, copy(200, 900), other)
    assert memory_bandwidth(job).finding == (
        "5 copies and memsets moved 5 MB. Memcpy HtoD took the most time (950 µs), for 81.2 % of "
        "the data; the 3 of 4 with a recorded size moved 4.06 MB in 50 µs: 81.2 GB/s on average, "
        "102 GB/s at most."
    )


@given(queued_jobs)
def test_the_average_is_bytes_by_time(tmp_path_factory, ranks):
    """Of the copies with a size alone, on all ranks."""
    result = memory_bandwidth(open_job(tmp_path_factory.mktemp("job"), ranks))
    said = re.search(r"([\d.,]+) GB/s on average", result.finding)
    if said is None:
        return
    table = result.transfers.groupby("name")[["busy_ns", "bytes"]].sum()
    longest = table.sort_values(["busy_ns", "bytes"]).index[-1]
    busy, moved = 0, 0.0
    for events in ranks:
        sized = [event for event in events if event.get("args", {}).get("bytes", 0) > 0]
        spans = transfers_of(sized).get(longest, [])
        moved += sum(speed * (end - start) for start, end, speed in spans)
        busy += len({time for start, end, _ in spans for time in range(start, end)})
    assert said[1] == number(moved / busy)


def test_sizes_may_not_be_recorded(tmp_path):
    job = opened(tmp_path, copy(0, 4, bytes=8_000_000), copy(10, 40, name="Memset"))
    assert memory_bandwidth(job).finding == (
        "2 copies and memsets moved 8 MB. Memset took the most time (40 µs); its sizes are not "
        "recorded."
    )


@given(queued_jobs)
def test_against_brute_force(tmp_path_factory, ranks):
    result = memory_bandwidth(open_job(tmp_path_factory.mktemp("job"), ranks))
    origin = min((event["ts"] for events in ranks for event in events), default=0)
    expected = [
        (rank, kind, active)
        for rank, events in enumerate(ranks)
        for kind, active in sorted(transfers_of(events).items())
    ]
    rows = result.transfers.to_dict("records")
    assert [(row["rank"], row["name"]) for row in rows] == [each[:2] for each in expected]
    for row, (rank, kind, active) in zip(rows, expected, strict=True):
        table = result.changes[rank]
        check_changes(table[table["name"] == kind], active, origin)
        check_statistics(row, active)


def transfers_of(events):
    """Per kind: start, end (µs) and GB/s of each transfer."""
    kinds = {}
    for event in events:
        if event["name"] in TRANSFERS:
            args = event["args"]
            duration = event["dur"] or 1
            stated = args.get("memory bandwidth (GB/s)", 0)
            computed = args.get("bytes", 0) / (1000 * duration)
            speed = stated if isinstance(stated, float) and stated else computed
            name = "Memset" if event["name"].startswith("Memset") else event["name"][:11]
            kinds.setdefault(name, []).append((event["ts"], event["ts"] + duration, speed))
    return kinds


def speed_at(time, active):
    return math.fsum(speed for start, end, speed in active if start <= time < end)


def check_changes(table, active, origin):
    times = [time // 1000 + origin for time in table["time_ns"].tolist()]
    ours = table["bandwidth_gb_per_s"].tolist()
    assert sorted(times) == times == sorted(time for each in active for time in each[:2])
    for place, time in enumerate(times):
        highest = max(speed_at(time - 1, active), speed_at(time, active))
        assert 0 <= ours[place] <= highest + 1e-9
        if place + 1 == len(times) or times[place + 1] > time:
            expected = speed_at(time, active)
            assert ours[place] == pytest.approx(expected, abs=1e-12)
            assert (ours[place] == 0) == (expected == 0)


def check_statistics(row, active):
    every = range(min(each[0] for each in active), max(each[1] for each in active))
    sampled = [speed_at(time, active) for time in every]
    running = [speed for speed in sampled if speed]
    assert row["operations"] == len(active)
    assert row["without_bandwidth"] == sum(speed == 0 for *_, speed in active)
    busy = sum(any(start <= time < end for start, end, _ in active) for time in every)
    assert row["busy_ns"] == 1000 * busy
    if running:
        assert row["mean_over_time_gb_per_s"] == pytest.approx(sum(running) / len(running))
    else:
        assert row["count"] == 0
