"""What the files of a recording say themselves, for those who read its verdict.

Plain Python over the events of the JSON, or the rows of an export of Nsight Systems; no code of the
package. All times are of the first to the last GPU operation of each rank, added up over its ranks,
so that shares are of all of them::

    python -m tests.golden.raw_facts kineto/h100_bert
"""

from __future__ import annotations

import re
import sqlite3
import sys
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import closing
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, NamedTuple

from tests.conftest import REAL_TRACES
from tests.kineto_text import read
from tests.spans import length, merged

WORK = {"kernel", "gpu_memcpy", "gpu_memset"}
ON_THE_GPU = WORK | {"gpu_user_annotation"}
COMMUNICATION = re.compile(r"nccl|rccl", re.IGNORECASE)
BLOCKING = re.compile(r"(Device|Stream|Event)Synchronize|^(cuda|hip)Memcpy(WithStream)?$")
LOADING = re.compile(r"DataLoader.*__next__")

Event = dict[str, Any]
Spans = list[tuple[float, float]]


class RawFacts(NamedTuple):
    """Shares are percent of `span_ms`; ``late`` to ``unknown`` add up to what is idle.

    Attributes
    ----------
    span_ms : float
        From the first to the last GPU operation, of all ranks together.
    computing, communicating, copying : float
        A kernel that computes runs; none does, but communication; neither, but a copy.
    late : float
        Idle until work whose launch call began after the last work had ended.
    waiting : float
        Of that, inside a blocking call of some thread.
    loading : float
        Of that, inside a DataLoader's ``__next__``.
    queued, unknown : float
        Idle until work that was launched before; that has no launch call.
    kernels : int
    longest_idle_ms : float
    largest_kernel : str
    largest_percent : float
        Of the time of all kernels.
    graph_launches, captured : int
        Calls that run a graph, and that end its capture.
    """

    span_ms: float
    computing: float
    communicating: float
    copying: float
    late: float
    waiting: float
    loading: float
    queued: float
    unknown: float
    kernels: int
    longest_idle_ms: float
    largest_kernel: str
    largest_percent: float
    graph_launches: int
    captured: int


def ranks_of(recording: Path) -> Iterator[list[Event]]:
    """The complete events of each rank, with times in µs."""
    if recording.suffix == ".sqlite":
        yield from ranks_of_nsys(recording)
        return
    for path in sorted(recording.rglob("*")) if recording.is_dir() else [recording]:
        if re.search(r"\.json(\.gz)?$", path.name):
            found = read(path)
            events = found["traceEvents"] if isinstance(found, dict) else found
            yield [each for each in events if each.get("ph") == "X" and "dur" in each]


def ranks_of_nsys(path: Path) -> Iterator[list[Event]]:
    """The same of an export of Nsight Systems, a rank for each GPU; one process to a GPU."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        database.row_factory = sqlite3.Row
        names = dict(tuple(row) for row in database.execute("SELECT id, value FROM StringIds"))
        tables = {row[0] for row in database.execute("SELECT name FROM sqlite_master")}

        def rows(kind: str) -> list[dict[str, Any]]:
            table = f"CUPTI_ACTIVITY_KIND_{kind}"
            found = database.execute(f"SELECT * FROM {table}") if table in tables else []  # noqa: S608
            return [dict(row) for row in found]

        work = [
            {**row, "cat": cat, "name": names.get(row.get("demangledName"), cat)}
            for kind, cat in (
                ("KERNEL", "kernel"),
                ("MEMCPY", "gpu_memcpy"),
                ("MEMSET", "gpu_memset"),
            )
            for row in rows(kind)
        ]
        calls = [
            {**row, "cat": "cuda_runtime", "name": re.sub(r"_v\d+$", "", names[row["nameId"]])}
            for row in rows("RUNTIME")
        ]
    for _, of_gpu in groupby(sorted(work, key=device_of), key=device_of):
        own = [*of_gpu]
        processes = {process_of(each) for each in own}
        yield [
            {
                "cat": each["cat"],
                "name": each["name"],
                "ts": each["start"] / 1000,
                "dur": (each["end"] - each["start"]) / 1000,
                "args": {"correlation": each["correlationId"]},
            }
            for each in (*own, *(call for call in calls if process_of(call) in processes))
        ]


def device_of(row: dict[str, Any]) -> int:
    """The GPU of an operation."""
    return row["deviceId"]


def process_of(row: dict[str, Any]) -> int:
    """The process of an operation or a call, as the upper bits of a global id hold it."""
    return (row.get("globalPid") or row.get("globalTid") or 0) >> 24


def common(one: Spans, other: Spans) -> float:
    """How much of the time of one is also in the other; both without overlaps."""
    starts, total = [start for start, _ in other], 0.0
    for start, end in one:
        for at in range(max(bisect_right(starts, start) - 1, 0), bisect_left(starts, end)):
            total += max(0.0, min(end, other[at][1]) - max(start, other[at][0]))
    return total


def raw_facts(recording: Path) -> RawFacts | None:
    """Count all of it; None without GPU work."""
    sums: defaultdict[str, float] = defaultdict(float)
    kernels: defaultdict[str, float] = defaultdict(float)
    longest, number = 0.0, 0
    for events in ranks_of(recording):
        calls: Counter[str] = Counter(
            each["name"] for each in events if each.get("cat") in {"cuda_runtime", "cuda_driver"}
        )
        sums["graphs"] += sum(calls[name] for name in calls if re.search("GraphLaunch$", name))
        sums["captured"] += sum(calls[name] for name in calls if re.search("EndCapture", name))
        work = [each for each in events if each.get("cat") in WORK]
        if not work:
            continue
        launched = {
            each["args"]["correlation"]: each["ts"]
            for each in events
            if each.get("cat") in {"cuda_runtime", "cuda_driver"}
            and "correlation" in each.get("args", {})
        }
        kinds: dict[str, Spans] = defaultdict(list)
        for each in work:
            is_kernel = each["cat"] == "kernel"
            talks = bool(is_kernel and COMMUNICATION.search(each["name"]))
            kind = "communicating" if talks else "computing" if is_kernel else "copying"
            kinds[kind].append((each["ts"], each["ts"] + each["dur"]))
            if is_kernel:
                number += 1
                kernels[each["name"]] += each["dur"]
        busy = merged(span for spans in kinds.values() for span in spans)
        computing = merged(kinds["computing"])
        either = merged((*kinds["computing"], *kinds["communicating"]))
        sums["span"] += busy[-1][1] - busy[0][0]
        sums["computing"] += length(computing)
        sums["communicating"] += length(either) - length(computing)
        sums["copying"] += length(busy) - length(either)
        first = sorted((each["ts"], each.get("args", {}).get("correlation")) for each in work)
        starts = [start for start, _ in first]
        late: Spans = []
        for (_, idle_from), (idle_until, _) in pairwise(busy):
            call = launched.get(first[bisect_left(starts, idle_until)][1])
            longest = max(longest, idle_until - idle_from)
            kind = "unknown" if call is None else "late" if call > idle_from else "queued"
            sums[kind] += idle_until - idle_from
            if kind == "late":
                late.append((idle_from, idle_until))
        names = {str(each["name"]) for each in events}
        for kind, pattern in (("waiting", BLOCKING), ("loading", LOADING)):
            fitting = {name for name in names if pattern.search(name)}
            inside = merged(
                (each["ts"], each["ts"] + each["dur"])
                for each in events
                if str(each["name"]) in fitting and each.get("cat") not in ON_THE_GPU
            )
            sums[kind] += common(late, inside)
    if not sums["span"]:
        return None
    share = {name: 100 * value / sums["span"] for name, value in sums.items()}
    name, most = max(kernels.items(), key=lambda each: each[1], default=("", 0.0))
    return RawFacts(
        span_ms=sums["span"] / 1000,
        computing=share["computing"],
        communicating=share["communicating"],
        copying=share["copying"],
        late=share.get("late", 0.0),
        waiting=share["waiting"],
        loading=share["loading"],
        queued=share.get("queued", 0.0),
        unknown=share.get("unknown", 0.0),
        kernels=number,
        longest_idle_ms=longest / 1000,
        largest_kernel=name,
        largest_percent=100 * most / sum(kernels.values()) if kernels else 0.0,
        graph_launches=int(sums["graphs"]),
        captured=int(sums["captured"]),
    )


if __name__ == "__main__":
    for recording in sys.argv[1:]:
        print(recording, raw_facts(REAL_TRACES / recording))  # noqa: T201
