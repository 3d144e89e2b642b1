"""The sample job is well-formed, and what is planted in it can be found in the raw JSON."""

from __future__ import annotations

import gzip
from collections import defaultdict
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from hta_widgets.errors import HtaWidgetsError, ParameterError
from hta_widgets.sample import (
    FIRST_STEP,
    STARVED_LOADER_NS,
    STRAGGLER_SLOWDOWN,
    is_starved,
    transfer_ns,
    write_sample,
)
from tests.kineto_text import read_exactly

Event = dict[str, Any]
GPU_CATEGORIES = {"kernel", "gpu_memcpy", "gpu_memset"}
LAST_BUCKET_ELEMENTS = 7_829_760
RANKS = 4
STEPS = 5
SHA256 = [
    "d56b4f3b4127d1699f506ac356eec496c492405cac655047321631f20811f2e2",
    "19764e9fd2c774b6f00c0533e650e66b2fa1b385b229af6a4648c6138192aefd",
    "a96dbfe3be2c17d3c635cd0aa6ee8a5365433ec5f4f138770380b4c6322550bc",
    "8548e5d70fbc42c761a1c417ddbbcd6fb0ece10206b5a08dbbb7bba1cd3d13fa",
]
"""Of the text of each rank with the default arguments."""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return write_sample(tmp_path_factory.mktemp("sample"), progress=False)


@pytest.fixture(scope="module")
def traces(files: list[Path]) -> list[Event]:
    return [read_exactly(path) for path in files]


@pytest.fixture(scope="module")
def jobs(traces: list[Event]) -> list[list[Event]]:
    """Return the complete events of each rank, with integer ``start_ns`` and ``end_ns``."""
    return [timed_events(trace) for trace in traces]


def test_each_rank_is_as_it_has_always_been(files: list[Path]) -> None:
    """Pages and pictures quote its numbers; zlib packs equal text in different ways."""
    texts = [gzip.decompress(path.read_bytes()) for path in files]
    assert [sha256(text).hexdigest() for text in texts] == SHA256


def test_same_arguments_give_same_bytes(files: list[Path], tmp_path: Path) -> None:
    again = write_sample(tmp_path, progress=False)
    assert [path.read_bytes() for path in again] == [path.read_bytes() for path in files]


def test_seed_changes_durations(files: list[Path], tmp_path: Path) -> None:
    other = write_sample(tmp_path, seed=1, progress=False)
    assert other[0].read_bytes() != files[0].read_bytes()


def test_each_rank_is_named_and_in_the_file(files: list[Path], traces: list[Event]) -> None:
    assert [path.name for path in files] == [f"rank-{rank}.json.gz" for rank in range(RANKS)]
    assert [trace["distributedInfo"]["rank"] for trace in traces] == list(range(RANKS))
    assert {trace["distributedInfo"]["world_size"] for trace in traces} == {RANKS}


def test_text_has_the_layout_of_kineto(files: list[Path]) -> None:
    lines = gzip.decompress(files[0].read_bytes()).decode().splitlines()
    assert lines[:3] == ["", "{", '  "schemaVersion": 1,']
    first = lines.index('  "traceEvents": [') + 1
    assert lines[first] == "  {"
    assert lines[first + 1].startswith('    "ph": "X", "cat": "user_annotation", "name": "')
    assert lines[first + 2].startswith('    "ts": 1365627862758.')
    assert lines[first + 3] == '    "args": {'
    assert lines[-2:] == ['  "traceName": "/tmp/sample.json"', "}"]


def test_correlations_pair_up_one_to_one(jobs: list[list[Event]]) -> None:
    for events in jobs:
        work = [e["args"]["correlation"] for e in events if e["cat"] in GPU_CATEGORIES]
        calls = [
            e["args"]["correlation"] for e in events if e["cat"] in {"cuda_runtime", "cuda_driver"}
        ]
        assert len(set(work)) == len(work)
        assert len(set(calls)) == len(calls)
        assert set(work) < set(calls)


def test_flow_arrows_have_two_ends(traces: list[Event]) -> None:
    for trace in traces:
        ends = defaultdict(list)
        for event in trace["traceEvents"]:
            if event["ph"] in "sf":
                ends[event["cat"], event["id"]].append(event["ph"])
        assert {"".join(sorted(phases)) for phases in ends.values()} == {"fs"}


def test_work_starts_after_its_call_and_alone_on_its_stream(jobs: list[list[Event]]) -> None:
    for events in jobs:
        call_end = {
            e["args"]["correlation"]: e["end_ns"] for e in events if e["cat"].startswith("cuda_")
        }
        streams = defaultdict(list)
        for event in gpu_work(events):
            assert event["start_ns"] > call_end[event["args"]["correlation"]]
            streams[event["args"]["stream"]].append(event)
        assert set(streams) == {7, 13, 20}
        for work in streams.values():
            assert all(first["end_ns"] < then["start_ns"] for first, then in pairwise(work))


def test_operators_nest_per_thread(jobs: list[list[Event]]) -> None:
    for events in jobs:
        threads = defaultdict(list)
        for event in events:
            if event["cat"] in {"cpu_op", "user_annotation", "cuda_runtime", "cuda_driver"}:
                threads[event["tid"]].append(event)
        assert len(threads) == 2
        for thread in threads.values():
            assert_nested(thread)


def test_all_reduces_end_together_and_never_before_the_last_rank(jobs: list[list[Event]]) -> None:
    for group in zip(*(all_reduces(events) for events in jobs), strict=True):
        assert len({event["end_ns"] for event in group}) == 1
        elements = group[0]["args"]["In msg nelems"]
        last_arrival_ns = max(event["start_ns"] for event in group)
        assert group[0]["end_ns"] == last_arrival_ns + transfer_ns(elements, RANKS)


def test_straggler_computes_longer_and_never_waits(jobs: list[list[Event]]) -> None:
    compute = [total_ns(e for e in gpu_work(events) if is_compute(e)) for events in jobs]
    others = sum(compute[:-1]) / (RANKS - 1)
    assert compute[-1] / others == pytest.approx(STRAGGLER_SLOWDOWN, rel=0.01)
    waiting = [
        total_ns(all_reduces(events)) - total_ns(all_reduces(jobs[-1])) for events in jobs[:-1]
    ]
    assert min(waiting) > 15_000_000


def test_starved_steps_idle_for_the_loader(jobs: list[list[Event]]) -> None:
    for events in jobs:
        for step in range(STEPS):
            idle_ns = longest_gap_ns(events, step)
            expected_ns = STARVED_LOADER_NS if is_starved(step) else 0
            assert idle_ns == pytest.approx(expected_ns, abs=300_000)


def test_last_all_reduce_of_a_step_is_exposed_on_the_straggler(jobs: list[list[Event]]) -> None:
    events = jobs[-1]
    compute = [event for event in gpu_work(events) if is_compute(event)]
    last = all_reduces(events)[1::2]
    assert len(last) == STEPS
    for event in last:
        assert event["args"]["In msg nelems"] == LAST_BUCKET_ELEMENTS
        assert event["end_ns"] - event["start_ns"] == 1_977_440
        assert not any(
            event["start_ns"] < e["end_ns"] and e["start_ns"] < event["end_ns"] for e in compute
        )


def test_optimizer_kernels_are_shorter_than_their_launches(jobs: list[list[Event]]) -> None:
    for events in jobs:
        annotations = [e for e in events if e["cat"] == "user_annotation"]
        steps = [e for e in annotations if e["name"] == "Optimizer.step#AdamW.step"]
        kernels = {e["args"]["correlation"]: e for e in events if e["cat"] == "kernel"}
        launches = [
            e
            for e in events
            if e["cat"].startswith("cuda_") and inside(e, steps) and e["name"] == "cudaLaunchKernel"
        ]
        assert len(launches) > 200 * STEPS
        shorter = [
            e for e in launches if duration_ns(kernels[e["args"]["correlation"]]) < duration_ns(e)
        ]
        assert len(shorter) > 0.9 * len(launches)


@pytest.mark.parametrize("events", [10_000, 30_000])
def test_events_sets_the_size(tmp_path: Path, events: int) -> None:
    for path in write_sample(tmp_path, ranks=2, steps=3, events=events, progress=False):
        assert len(read_exactly(path)["traceEvents"]) == pytest.approx(events, rel=0.2)


def test_one_rank_has_no_straggler_and_no_transfer(tmp_path: Path) -> None:
    (path,) = write_sample(tmp_path, ranks=1, steps=1, progress=False)
    reduces = all_reduces(timed_events(read_exactly(path)))
    assert {duration_ns(event) for event in reduces} == {transfer_ns(1, 1)}


def test_steps_are_numbered(jobs: list[list[Event]]) -> None:
    names = {e["name"] for e in jobs[0] if e["name"].startswith("ProfilerStep")}
    assert names == {f"ProfilerStep#{FIRST_STEP + step}" for step in range(STEPS)}


def test_foreign_file_is_left_alone(tmp_path: Path) -> None:
    mine = tmp_path / "rank-1.json.gz"
    mine.write_bytes(gzip.compress(b'{"traceEvents": []}'))
    with pytest.raises(HtaWidgetsError, match=r"rank-1\.json\.gz exists and is not a sample"):
        write_sample(tmp_path, ranks=2, progress=False)
    assert list(tmp_path.iterdir()) == [mine]


def test_earlier_sample_with_more_ranks_is_replaced(tmp_path: Path) -> None:
    write_sample(tmp_path, ranks=3, steps=1, progress=False)
    write_sample(tmp_path, ranks=2, steps=1, progress=False)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rank-0.json.gz", "rank-1.json.gz"]


def test_arguments_out_of_range(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="ranks must be 1 or more, got 0"):
        write_sample(tmp_path, ranks=0)


def timed_events(trace: Event) -> list[Event]:
    events = [e for e in trace["traceEvents"] if e["ph"] == "X" and e["cat"] != "Trace"]
    for event in events:
        event["start_ns"] = int(event["ts"] * 1000)
        event["end_ns"] = int((event["ts"] + event["dur"]) * 1000)
    return events


def gpu_work(events: list[Event]) -> list[Event]:
    return sorted((e for e in events if e["cat"] in GPU_CATEGORIES), key=lambda e: e["start_ns"])


def all_reduces(events: list[Event]) -> list[Event]:
    return [event for event in gpu_work(events) if event["name"].startswith("ncclDevKernel")]


def is_compute(event: Event) -> bool:
    return event["cat"] == "kernel" and not event["name"].startswith("nccl")


def duration_ns(event: Event) -> int:
    return event["end_ns"] - event["start_ns"]  # type: ignore[no-any-return]


def total_ns(events: Any) -> int:
    return sum(duration_ns(event) for event in events)


def inside(event: Event, windows: list[Event]) -> bool:
    return any(
        w["start_ns"] <= event["start_ns"] and event["end_ns"] <= w["end_ns"] for w in windows
    )


def longest_gap_ns(events: list[Event], step: int) -> int:
    """Return the longest time without GPU work between two steps' work, in ns."""
    name = f"ProfilerStep#{FIRST_STEP + step}"
    (window,) = [e for e in events if e["name"] == name and e["cat"] == "user_annotation"]
    busy_until, longest = window["start_ns"], 0
    for event in gpu_work(events):
        if event["end_ns"] < window["start_ns"] or event["start_ns"] > window["end_ns"]:
            continue
        longest = max(longest, event["start_ns"] - busy_until)
        busy_until = max(busy_until, event["end_ns"])
    return longest


def assert_nested(thread: list[Event]) -> None:
    ends: list[int] = []
    for event in sorted(thread, key=lambda e: (e["start_ns"], -e["end_ns"])):
        while ends and ends[-1] <= event["start_ns"]:
            ends.pop()
        assert not ends or event["end_ns"] <= ends[-1], event
        ends.append(event["end_ns"])
