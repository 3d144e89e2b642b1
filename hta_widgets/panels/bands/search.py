"""What the search of a dashboard finds: ranks, steps, streams, kernels and operators."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from hta_widgets.analyses.shared.attribution.window import NO_STEP, window_of
from hta_widgets.names.shorten import distinct_names
from hta_widgets.panels.bands.kernels import kernel_times
from hta_widgets.panels.base.controls import streams_of
from hta_widgets.panels.base.protocol import Option
from hta_widgets.quantities import counted, duration
from hta_widgets.trace.job import Job
from hta_widgets.trace.model.events import Kind
from hta_widgets.trace.ranks.rank import Rank

MOST_NAMES: Final = 400
"""Kernels, and operators, that can be found: those with the most time, and the most calls."""

LONGEST: Final = 4_000
"""Characters of a name that a page is sent."""

_WIDTH: Final = 64


def options(job: Job) -> list[Option]:
    """Everything that can be found: its label, the field and value that it selects, and what it is.

    The value is JSON of a pair of the field and its value.
    """
    return [*_numbers(job), *_kernels(job), *_operators(job)]


def _numbers(job: Job) -> Iterator[Option]:
    for rank in job.ranks:
        yield _option(f"rank {rank}", "ranks", [rank], "rank")
    steps = sorted({step for each in job.reduce(_steps_of, job.ranks).values() for step in each})
    for step in steps:
        yield _option(f"step {step}", "steps", [step], "step")
    for stream in streams_of(job):
        yield _option(f"stream {stream}", "streams", [stream], "stream")


def _kernels(job: Job) -> Iterator[Option]:
    table = kernel_times(job)
    table = table[table["name"].str.len() <= LONGEST].head(MOST_NAMES)
    labels = distinct_names(table["name"].tolist(), _WIDTH)
    for label, name, count, total_ns in zip(
        labels, table["name"], table["count"], table["total_ns"], strict=True
    ):
        yield _option(label, "kernel", name, f"kernel, {duration(total_ns)}, {count:,} ×")


def _operators(job: Job) -> Iterator[Option]:
    totals: dict[str, int] = {}
    for counts in job.reduce(_operators_of, job.ranks).values():
        for name, count in counts:
            totals[name] = totals.get(name, 0) + count
    for name in sorted(totals, key=lambda each: -totals[each])[:MOST_NAMES]:
        yield _option(name, "operators", [name], f"operator, {counted(totals[name], 'call')}")


def _option(label: str, field: str, value: Any, detail: str) -> Option:  # noqa: ANN401
    return (label, json.dumps([field, value]), detail)


def _steps_of(rank: Rank) -> tuple[int, ...]:
    return tuple(each for each in window_of(rank).steps.tolist() if each != NO_STEP)


def _operators_of(rank: Rank) -> tuple[tuple[str, int], ...]:
    """The operators of a rank with the most calls, and how many."""
    events = rank.trace.events
    counts = np.bincount(events.name.codes[events.rows_of(Kind.CPU_OP)])
    most = np.argsort(-counts, kind="stable")[:MOST_NAMES]
    names = events.name.values
    return tuple(
        (names[code], int(counts[code]))
        for code in most.tolist()
        if counts[code] and len(names[code]) <= LONGEST
    )
