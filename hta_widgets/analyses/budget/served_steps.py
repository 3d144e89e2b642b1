"""What the GPU of an inference server does in each step, and when the server had no requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hta_widgets.analyses.time import patterns
from hta_widgets.analyses.time.calls import calls_of
from hta_widgets.analyses.time.window import window_of
from hta_widgets.arrays import Float64Array, Int64Array, Mask
from hta_widgets.intervals import Intervals, Times
from hta_widgets.lazy_modules import pd
from hta_widgets.trace.model.events import LAUNCH_CALLS, Kind
from hta_widgets.trace.model.health.lost_work import LAUNCHES_A_KERNEL
from hta_widgets.trace.model.server_steps import StepSpan
from hta_widgets.trace.ranks.rank import Rank

NO_REQUESTS: Final = 10
"""A gap this many times as long as is usual before steps of running requests may be without any. A
server that only computes prompts, as for embeddings, may have none between any two steps."""

NOTHING_RUNS: Final = 0.05
"""A gap of which nothing is recorded may be without requests if it is longer than this share of a
usual step; if requests ever run on from one step to the next, than a whole step."""

WAITS_FOR_REQUESTS: Final = 0.8
"""A server has no requests if its loop waits for them for this share of a gap, and may have none if
nothing is recorded on its thread for this share."""


SAID: Final = ("context_requests", "context_tokens", "generation_requests", "generation_tokens")
"""What the name of a step may state."""


def served_steps(rank: Rank) -> pd.DataFrame | None:
    """The rows of one rank in `ServerStepTable.steps`, without ``rank``; None if it has none."""
    server, device = rank.server_steps, rank.gpu_work.main_device
    found = None if device is None else rank.remember(measured_steps, device)
    if found is None:
        return None
    kept, names = found.kept, rank.trace.events.name
    spans = [server.spans[place] for place in kept.tolist()]
    return pd.DataFrame(
        {
            "step": found.number,
            "label": [names.values[code] for code in names.codes[server.rows[kept]].tolist()],
            "engine": [span.engine for span in spans],
            "phase": [span.phase for span in spans],
            **{
                name: pd.array([getattr(span, name) for span in spans], dtype="Int64")
                for name in SAID
            },
            "host_start_ns": server.start_ns[kept],
            "host_end_ns": server.end_ns[kept],
            **found.measured,
        }
    )


class MeasuredSteps(NamedTuple):
    """The analysed steps of a server."""

    kept: Int64Array
    """Position of each step among all steps of the rank."""
    number: Int64Array
    measured: Mapping[str, NDArray[Any]]
    """Columns of `ServerStepTable.steps`."""


def measured_steps(rank: Rank, device: int) -> MeasuredSteps | None:
    """Measure the analysed steps of a server; None if there are none."""
    server, window = rank.server_steps, window_of(rank)
    number = _numbers(rank)
    kept = np.flatnonzero(np.isin(number, window.steps))
    if not kept.size:
        return None
    span_ns = np.full(window.steps.size, np.iinfo(np.int64).max)
    place = np.searchsorted(window.step_start_ns, server.span_ns[kept], side="right") - 1
    span_ns[place] = server.span_ns[kept]
    measured = {name: each[place] for name, each in _measured(rank, device, span_ns).items()}
    spans = [server.spans[each] for each in kept.tolist()]
    measured |= _without_requests(rank, spans, measured.pop("launch_ns"), measured)
    return MeasuredSteps(kept, number[kept], measured)


def _numbers(rank: Rank) -> Int64Array:
    """Number of the step of each span, or of the ProfilerStep that holds it alone; -1 for none."""
    server, marks = rank.server_steps, rank.steps
    if marks.source == "server" or not len(server):
        return server.number
    place = np.searchsorted(marks.start_ns, server.span_ns, side="right") - 1
    if np.unique(place).size < place.size:  # steps of a training, which hold a rollout
        return np.full(len(server), -1)
    return np.where(place >= 0, marks.number[place], -1)


def _measured(rank: Rank, device: int, span_ns: Times) -> dict[str, NDArray[Any]]:
    """What the GPU does in each step."""
    window, edges = window_of(rank), window_of(rank).step_edges(rank, device)
    work = rank.gpu_work.by_device()[device]
    work = work.take(np.flatnonzero(window.is_of_a_step(rank, work)))
    step, count = window.step_of(rank, work), window.steps.size
    starts, ends = edges[:-1], edges[1:]
    first_ns = ends.copy()
    np.minimum.at(first_ns, step, work.start_ns)
    launch_ns, known = ends.copy(), work.launch >= 0
    np.minimum.at(launch_ns, step[known], rank.trace.events.start_ns[work.launch[known]])
    first_ns = np.clip(first_ns, starts, ends)
    late_ns = np.clip(launch_ns, starts, first_ns)
    scheduled_ns = np.clip(span_ns, starts, late_ns)
    until_ns = Intervals.union(work.start_ns, work.end_ns).covered_until

    def idle_ns(start_ns: Times, end_ns: Times) -> Int64Array:
        """Idle time; after the last computing kernel, tokens are copied and ranks meet."""
        return end_ns - start_ns - (until_ns(end_ns) - until_ns(start_ns))

    launches, replays = (np.bincount(each, minlength=count) for each in _launches(rank))
    is_kernel = rank.trace.events.kind[work.rows] == Kind.KERNEL
    return {
        "gpu_start_ns": starts,
        "gpu_end_ns": ends,
        "period_ns": ends - starts,
        "busy_ns": until_ns(ends) - until_ns(starts),
        "gap_before_ns": idle_ns(starts, first_ns),
        "scheduling_ns": idle_ns(starts, scheduled_ns),
        "preparing_ns": idle_ns(scheduled_ns, late_ns),
        "gap_inside_ns": idle_ns(first_ns, ends),
        "kernels": np.bincount(step[is_kernel], minlength=count),
        "graphs": replays,
        "recorded": (np.bincount(step, minlength=count) > 0) | (launches == 0),
        "launch_ns": late_ns,
    }


def _without_requests(
    rank: Rank, spans: Sequence[StepSpan], launch_ns: Times, measured: Mapping[str, NDArray[Any]]
) -> dict[str, NDArray[Any]]:
    """Time before each step in which the server has no requests, or may have none.

    A server without requests is idle, and nothing is wrong with it: decoding steps of 10.4 ms with
    two pauses of 300 ms were "launch-bound". Iterations without requests say so themselves.
    """
    server, start_ns = rank.server_steps, measured["gpu_start_ns"]
    brings = np.array([span.context_requests != 0 for span in spans])
    running = np.array([span.generation_requests != 0 for span in spans])
    late_ns = measured["scheduling_ns"] + measured["preparing_ns"]
    usual_ns = np.median(late_ns[running]) if running.any() else 0
    is_long = (late_ns > NO_REQUESTS * usual_ns) & measured["recorded"]
    calls, events = calls_of(rank), rank.trace.events
    row, rows = server.rows[0], calls.forest.rows
    own = (events.pid[rows] == events.pid[row]) & (events.tid[rows] == events.tid[row])

    def part(covered: Intervals) -> Float64Array:
        """Share of the gap before each step."""
        inside_ns = covered.covered_until(launch_ns) - covered.covered_until(start_ns)
        return np.asarray(inside_ns / np.maximum(late_ns, 1))

    def in_calls(chosen: Mask) -> Intervals:
        """Time in some calls of the engine's loop."""
        places = np.flatnonzero(own & chosen)
        return Intervals.union(calls.start_ns[places], calls.forest.cut_end_ns[places])

    asks = in_calls(calls.named(patterns.REQUESTS.search))
    waits = is_long & (part(asks) >= WAITS_FOR_REQUESTS)
    idle = Intervals.union(server.idle_start_ns, server.idle_end_ns)
    waits |= measured["recorded"] & (part(idle) >= WAITS_FOR_REQUESTS)
    least_ns = np.median(measured["period_ns"]) * (1 if running.any() else NOTHING_RUNS)
    unknown = is_long & brings & ~waits & (late_ns > least_ns)
    unknown &= part(in_calls(np.ones(own.size, dtype=np.bool_))) <= 1 - WAITS_FOR_REQUESTS
    return {"no_requests_ns": late_ns * waits, "unrecorded_ns": late_ns * unknown}


def _launches(rank: Rank) -> tuple[Int64Array, Int64Array]:
    """Position of the step of each call that launches kernels, and of those that launch a graph."""
    events = rank.trace.events
    calls = events.rows_of(*LAUNCH_CALLS)
    calls = calls[rank.analysed[calls]]
    is_graph = events.named(calls, patterns.GRAPH_LAUNCH)
    launches = is_graph | events.named(calls, LAUNCHES_A_KERNEL)
    mark_ns = window_of(rank).step_start_ns
    step = np.searchsorted(mark_ns, events.start_ns[calls], side="right") - 1
    return step[launches & (step >= 0)], step[is_graph & (step >= 0)]
