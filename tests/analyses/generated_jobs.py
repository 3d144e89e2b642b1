"""Small jobs drawn by hypothesis, and brute force over their raw events.

Nothing here shares code with the package: times are whole µs, so that a set of microseconds is
the time an event covers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hypothesis import strategies as st

from hta_widgets.trace.job import Job
from hta_widgets.trace.open import open_trace
from tests.kineto_text import Event, call, host, kernel, write

NAMES = {
    "gemm": "COMPUTATION",
    "void relu<int>(int)": "COMPUTATION",
    "ncclDevKernel_AllReduce": "COMMUNICATION",
    "Memcpy HtoD (Pageable -> Device)": "MEMORY",
}


@st.composite
def gpu_events(draw: st.DrawFn) -> list[Event]:
    """Overlapping work on several devices and streams, some with launches, some of length 0."""
    events: list[Event] = []
    for number in range(draw(st.integers(0, 12))):
        name = draw(st.sampled_from(sorted(NAMES)))
        launched = draw(st.booleans())
        events.append(
            kernel(
                draw(st.integers(0, 40)),
                draw(st.integers(0, 9)),
                name=name,
                cat="gpu_memcpy" if NAMES[name] == "MEMORY" else "kernel",
                stream=draw(st.sampled_from([0, 7, 20])),
                device=draw(st.sampled_from([0, 0, 0, 1])),
                correlation=number + 1 if launched else None,
            )
        )
        if launched:
            events.append(call(draw(st.integers(0, 40)), draw(st.integers(0, 3)), number + 1))
    return draw(st.permutations(events))


jobs = st.lists(gpu_events(), min_size=1, max_size=3)


def open_job(folder: Any, ranks: list[list[Event]]) -> Job:
    """Write one file per rank and open them."""
    for number, events in enumerate(ranks):
        write(folder / f"rank-{number}.json", events)
    return open_trace(folder, progress=False)


def gpu_work(events: Iterable[Event], device: int | None = None) -> list[Event]:
    """GPU work, of one device or of all."""
    return [
        event
        for event in events
        if event["cat"] in ("kernel", "gpu_memcpy") and device in (None, event["args"]["device"])
    ]


def devices_of(events: Iterable[Event]) -> list[int]:
    """Devices with any work, ascending."""
    return sorted({event["args"]["device"] for event in gpu_work(events)})


def microseconds(events: Iterable[Event], *types: str) -> set[int]:
    """Microseconds in which an event of the given types (or of any) runs."""
    return {
        time
        for event in events
        if not types or NAMES[event["name"]] in types
        for time in range(event["ts"], event["ts"] + event["dur"])
    }


def span(events: list[Event]) -> int:
    """First start to last end in µs."""
    if not events:
        return 0
    return max(e["ts"] + e["dur"] for e in events) - min(e["ts"] for e in events)


@st.composite
def launched_events(draw: st.DrawFn) -> list[Event]:
    """Calls that launch one operation, or a graph of several; calls within calls; lost launches."""
    events: list[Event] = []
    for number in range(draw(st.integers(0, 8))):
        begin, length = draw(st.integers(0, 60)), draw(st.integers(0, 6))
        graph = draw(st.integers(0, 5)) == 0
        name = "cudaGraphLaunch" if graph else draw(st.sampled_from(["cudaLaunchKernel", "hip"]))
        if draw(st.integers(0, 4)):
            events.append(call(begin, length, number + 1, name=name))
            if draw(st.booleans()):
                inner = call(begin, length, number + 1, name="cuLaunchKernel", cat="cuda_driver")
                inner["ts"], inner["dur"] = begin + 1, max(length - 2, 0)
                events.append(inner)
            if draw(st.booleans()):
                operator = host(max(begin - 2, 0), length + 4, draw(st.sampled_from(["a", "b"])))
                events.append(operator)
        for _ in range(draw(st.integers(2, 4)) if graph else 1):
            work = draw(st.sampled_from(sorted(NAMES)))
            events.append(
                kernel(
                    draw(st.integers(0, 80)),
                    draw(st.integers(0, 9)),
                    name=work,
                    cat="gpu_memcpy" if NAMES[work] == "MEMORY" else "kernel",
                    stream=draw(st.sampled_from([0, 7])),
                    device=draw(st.sampled_from([0, 0, 1])),
                    correlation=number + 1,
                )
            )
    return draw(st.permutations(events))


launched_jobs = st.lists(launched_events(), min_size=1, max_size=2)


def launching_call(events: Iterable[Event], operation: Event) -> Event | None:
    """Outermost call with the correlation of a GPU operation: the earliest, then the longest."""
    correlation = operation["args"].get("correlation")
    calls = [
        event
        for event in events
        if event["cat"] in ("cuda_runtime", "cuda_driver")
        and event["args"]["correlation"] == correlation
    ]
    return min(calls, key=lambda each: (each["ts"], -each["dur"]), default=None)
