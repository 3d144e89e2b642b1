"""Steps of an inference server: which of its spans are steps, and how long each holds the host."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np

from hta_widgets.arrays import Int64Array
from hta_widgets.grouping import distinct
from hta_widgets.intervals import Times
from hta_widgets.trace.model.events import Events, Kind
from hta_widgets.trace.model.server_spans import ENGINES, StepSpan, step_span

RUN_BATCH: Final = "scheduler.run_batch"
"""Range that SGLang opens before the span of a step, to prepare it: all spans in it are one."""


@dataclass(frozen=True, eq=False)
class ServerSteps:
    """Steps of one rank, ascending by start.

    Attributes
    ----------
    rows : ndarray of int64
        The event that is the span of each step.
    number : ndarray of int64
        0, 1, 2, …, or those that the engine writes into the names.
    start_ns, end_ns : ndarray of int64
        The time that each step has on the host, in ns since the trace's origin: to the start of the
        next one, since tokens are sampled and sent after the span; the last, to the end of its
        span. A step begins with the `RUN_BATCH` around its span where that is recorded.
    span_ns : ndarray of int64
        Start of the span itself: what is before is scheduling.
    spans : tuple of StepSpan
    idle : int
        Iterations without a request, which are no steps.
    """

    rows: Int64Array
    number: Int64Array
    start_ns: Times
    end_ns: Times
    span_ns: Times
    spans: tuple[StepSpan, ...]
    idle: int = 0

    def __len__(self) -> int:
        """Number of steps."""
        return len(self.spans)


class _Found(NamedTuple):
    """A span that no other one is around."""

    row: int
    start_ns: int
    span_ns: int
    end_ns: int
    batch: int
    span: StepSpan


def server_steps(events: Events) -> ServerSteps:
    """Find the steps of a server by the spans of the thread that has most of them.

    A span inside another, or in the same `RUN_BATCH`, is no step, but says what the outer one does
    not: AMD's builds of SGLang write vLLM's name around their own, and a draft model repeats the
    tokens of its batch.
    """
    rows = events.rows_of(Kind.ANNOTATION, Kind.CPU_OP)
    names, codes = events.name.values, events.name.codes[rows]
    spans = {code: span for code in distinct(codes).tolist() if (span := step_span(names[code]))}
    if not spans:
        return _steps([])
    rows = _of_one_thread(events, rows[np.isin(codes, [*spans])], spans)
    batches = _batches(events, rows)
    found: list[_Found] = []
    for row in rows[np.lexsort((-events.duration_ns[rows], events.start_ns[rows]))].tolist():
        span, start_ns = spans[int(events.name.codes[row])], int(events.start_ns[row])
        batch, begun_ns = _batch_at(batches, start_ns)
        last = found[-1] if found else None
        if last and (start_ns < last.end_ns or -1 < batch == last.batch):
            found[-1] = last._replace(span=_filled(last.span, span))
        elif not span.is_part:
            end_ns = start_ns + int(events.duration_ns[row])
            found.append(_Found(row, begun_ns, start_ns, end_ns, batch, span))
    return _steps(found)


def _of_one_thread(events: Events, rows: Int64Array, spans: dict[int, StepSpan]) -> Int64Array:
    working = np.isin(
        events.name.codes[rows],
        [code for code, span in spans.items() if span.phase != "idle" and not span.is_part],
    )
    threads = np.stack((events.pid[rows], events.tid[rows]), axis=1)[working]
    if not len(threads):
        return rows[:0]
    each, counts = np.unique(threads, axis=0, return_counts=True)
    pid, tid = each[np.argmax(counts)]
    is_own = (events.pid[rows] == pid) & (events.tid[rows] == tid)
    return rows[np.flatnonzero(is_own)]


def _batches(events: Events, spans: Int64Array) -> tuple[Times, Times]:
    """Starts and ends of `RUN_BATCH` on the thread of the spans, ascending."""
    rows = events.rows_of(Kind.ANNOTATION, Kind.CPU_OP)
    codes = [code for code, name in enumerate(events.name.values) if name == RUN_BATCH]
    rows = rows[np.isin(events.name.codes[rows], codes)]
    for column in (events.pid, events.tid):
        rows = rows[np.isin(column[rows], column[spans[:1]])]
    start_ns = np.sort(events.start_ns[rows])
    return start_ns, np.sort(events.start_ns[rows] + events.duration_ns[rows])


def _batch_at(batches: tuple[Times, Times], time_ns: int) -> tuple[int, int]:
    """Number of the batch that is open, and its start; -1 and the time itself for none."""
    starts, ends = batches
    place = int(np.searchsorted(starts, time_ns, side="right")) - 1
    if place < 0 or time_ns >= ends[place]:
        return -1, time_ns
    return place, int(starts[place])


def _filled(outer: StepSpan, inner: StepSpan) -> StepSpan:
    """What the outer span says, and where it is silent the inner one."""
    if inner.is_part:
        return outer
    unknown = [name for name, value in outer._asdict().items() if value is None]
    says: dict[str, Any] = {name: getattr(inner, name) for name in unknown}
    says["engine"] = min(outer.engine, inner.engine, key=[*ENGINES].index)
    return outer._replace(**says)


def _steps(found: list[_Found]) -> ServerSteps:
    ends = [next_.start_ns for _, next_ in pairwise(found)] + [each.end_ns for each in found[-1:]]
    kept = [
        (each, end_ns)
        for each, end_ns in zip(found, ends, strict=True)
        if each.span.phase != "idle"
    ]
    steps = [each for each, _ in kept]
    numbers = [each.span.number for each in steps]
    stated = [number for number in numbers if number is not None]
    is_stated = len(stated) == len(steps) and all(a < b for a, b in pairwise(stated))
    return ServerSteps(
        rows=_int64([each.row for each in steps]),
        number=_int64(stated if is_stated else [*range(len(steps))]),
        start_ns=_int64([each.start_ns for each in steps]),
        end_ns=_int64([end_ns for _, end_ns in kept]),
        span_ns=_int64([each.span_ns for each in steps]),
        spans=tuple(each.span for each in steps),
        idle=len(found) - len(steps),
    )


def _int64(values: list[int]) -> Int64Array:
    return np.array(values, dtype=np.int64)
