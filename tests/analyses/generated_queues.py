"""Small jobs drawn by hypothesis that launch work and move data, with few times and ids.

Times coincide, clocks disagree, launches are missing, and calls of runtime and driver share a
correlation id.
"""

from __future__ import annotations

from hypothesis import strategies as st

from tests.kineto_text import Event, call, kernel

TRANSFERS = {
    "Memcpy HtoD (Pinned -> Device)": "gpu_memcpy",
    "Memcpy DtoD (Device -> Device)": "gpu_memcpy",
    "Memset (Device)": "gpu_memset",
}


@st.composite
def queued_events(draw: st.DrawFn) -> list[Event]:
    """Calls that launch nothing, one operation or a graph, and work without a launch."""
    events: list[Event] = []
    for number in range(draw(st.integers(0, 6))):
        launched = draw(st.booleans())
        if launched:
            at = draw(st.integers(0, 15))
            events.append(call(at, 5, number, name="cudaGraphLaunch"))
            if draw(st.booleans()):
                events.append(call(at + 1, 2, number, name="cuLaunch", cat="cuda_driver"))
        correlation = number if launched or draw(st.booleans()) else None
        events += draw(st.lists(operations(correlation), max_size=3, unique_by=identity))
    return draw(st.permutations(events))


@st.composite
def operations(draw: st.DrawFn, correlation: int | None) -> Event:
    """A kernel, or a transfer with or without bytes and bandwidth, which is not of whole µs."""
    duration = draw(st.integers(0, 4))
    name = draw(st.sampled_from(["gemm", *TRANSFERS]))
    speed = draw(st.sampled_from([0, 4 / (duration + 0.25), 4 / (duration + 0.5), "N/A"]))
    fields = {"bytes": 4000, "memory bandwidth (GB/s)": speed}
    stated = draw(st.sampled_from([(), ("bytes",), tuple(fields)])) if name in TRANSFERS else ()
    return kernel(
        draw(st.integers(0, 15)),
        duration,
        name=name,
        cat=TRANSFERS.get(name, "kernel"),
        stream=draw(st.sampled_from([0, 7])),
        device=draw(st.sampled_from([0, 0, 1])),
        correlation=correlation,
        **{field: fields[field] for field in stated},
    )


def identity(event: Event) -> tuple[object, ...]:
    """What makes events of one correlation id the same one, which counts once."""
    place = event["args"]["device"], event["args"]["stream"]
    return event["name"], event["ts"], event["dur"], *place


queued_jobs = st.lists(queued_events(), min_size=1, max_size=2)
