"""What the search of a dashboard finds: numbers, kernels, operators, annotations, functions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd

from hta_widgets.analyses.clocks.aligned import common_offsets_ns, recorded_on_common_clock
from hta_widgets.analyses.operators.operator_calls import listed_calls
from hta_widgets.analyses.time.call_sums import launched_work, sums_at
from hta_widgets.analyses.time.rows import largest_first
from hta_widgets.analyses.time.window import numbered_steps
from hta_widgets.arrays import Int64Array
from hta_widgets.diagnosis.proof.proof import Proof, put_together
from hta_widgets.diagnosis.proof.what import Stretches
from hta_widgets.grouping import grouped
from hta_widgets.names.shorten import distinct_names
from hta_widgets.panels.base.controls import streams_of
from hta_widgets.panels.base.protocol import Option
from hta_widgets.quantities import counted, duration
from hta_widgets.trace.job import Job
from hta_widgets.trace.model.events import Kind
from hta_widgets.trace.ranks.rank import Rank
from hta_widgets.trace.ranks.replayed_calls import with_replayed_calls

MOST_NAMES: Final = 400
"""Maximum names of each kind that can be found: those with the most time."""

LONGEST: Final = 4_000
"""Maximum characters of a name that is sent to a page."""

_WIDTH: Final = 64


class KernelTimes(NamedTuple):
    """Executions of each kernel, copy and memset of a rank, as parallel arrays."""

    names: tuple[str, ...]
    counts: Int64Array
    totals_ns: Int64Array


def times_of_rank(rank: Rank) -> KernelTimes:
    """Count the executions of each kernel of a rank, and sum up their time."""
    work = rank.gpu_work
    codes, which = np.unique(work.name, return_inverse=True)
    total_ns = sums_at(which, work.duration_ns, codes.size)
    names = tuple(work.names[code] for code in codes.tolist())
    return KernelTimes(names, np.bincount(which, minlength=codes.size), total_ns)


def kernel_times(job: Job) -> pd.DataFrame:
    """Executions and time of each kernel, copy and memset over all ranks, the longest first."""
    by_rank = job.reduce(times_of_rank, job.ranks).values()
    table = pd.DataFrame(
        {
            "name": pd.Series([name for each in by_rank for name in each.names], dtype=object),
            "count": np.concatenate([np.zeros(0, np.int64), *(each.counts for each in by_rank)]),
            "total_ns": np.concatenate(
                [np.zeros(0, np.int64), *(each.totals_ns for each in by_rank)]
            ),
        }
    )
    summed = table.groupby("name", sort=False, as_index=False).sum()
    return largest_first(summed, "total_ns")


def options(job: Job) -> list[Option]:
    """Everything that can be found: its label, the field and value that it selects, and its detail.

    If several things share a name, such as a Triton kernel and the operator that launches it, only
    the first is listed, in the order of numbers, kernels, operators, annotations and functions.
    The value is JSON of a pair: the field and its value. A selection has no fields for annotations
    and Python functions; these select the window of their longest call.
    """
    found: dict[str, Option] = {}
    for option in (
        *_numbers(job),
        *_kernels(job),
        *_operators(job),
        *_calls(job, Kind.ANNOTATION, "annotation"),
        *_calls(job, Kind.PYTHON, "Python function"),
    ):
        found.setdefault(option[0], option)
    return [*found.values()]


def _numbers(job: Job) -> Iterator[Option]:
    for rank in job.ranks:
        yield _option(f"rank {rank}", "ranks", [rank], "rank")
    for step in sorted(set[int]().union(*job.reduce(numbered_steps, job.ranks).values())):
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
    totals: dict[str, tuple[int, int]] = {}
    for found in job.reduce(_operators_of, job.ranks).values():
        for name, total_ns, times in found:
            known_ns, known = totals.get(name, (0, 0))
            totals[name] = (known_ns + total_ns, known + times)
    most = sorted(totals.items(), key=lambda each: each[1], reverse=True)[:MOST_NAMES]
    for name, (total_ns, times) in most:
        gpu_time = f"{duration(total_ns)} of GPU time, " if total_ns else ""
        yield _option(name, "operators", [name], f"operator, {gpu_time}{counted(times, 'call')}")


def proof_of_annotations(job: Job, name: str) -> Proof:
    """Intervals of the annotations with a name, and the windows that show them."""
    offsets_ns, by_rank = common_offsets_ns(job), job.reduce(_annotations_of, job.ranks, name)
    found = {
        rank: Stretches(*(times + offsets_ns[rank] for times in each))
        for rank, each in by_rank.items()
    }
    recorded_ns = recorded_on_common_clock(job, job.ranks)
    return put_together(found, recorded_ns[1], recorded_ns)


def _annotations_of(rank: Rank, name: str) -> tuple[Int64Array, Int64Array]:
    """Starts and ends of the annotations on a rank, on its own clock."""
    events = rank.trace.events
    rows = events.rows_of(Kind.ANNOTATION)
    codes = [code for code, each in enumerate(events.name.values) if each == name]
    rows = rows[np.isin(events.name.codes[rows], codes)]
    return events.start_ns[rows], events.ends_of(rows)


def _calls(job: Job, kind: Kind, noun: str) -> Iterator[Option]:
    """The calls of a kind, by name; each selects a window on the common clock."""
    offsets_ns, every = common_offsets_ns(job), dict[str, _Calls]()
    for rank, found in job.reduce(_calls_of, job.ranks, kind).items():
        for each in found:
            moved = each._replace(start_ns=each.start_ns + offsets_ns[rank])
            known = every.get(each.name)
            every[each.name] = moved if known is None else moved.with_those_of(known)
    most = sorted(every.values(), key=lambda each: (-each.total_ns, each.name))[:MOST_NAMES]
    for name, times, _, start_ns, longest_ns in most:
        detail = f"{noun}, {counted(times, 'call')}, longest {duration(longest_ns)}"
        yield _option(name, "window_ns", [start_ns, start_ns + longest_ns], detail)


class _Calls(NamedTuple):
    """All calls of one name; start and length are those of the longest call."""

    name: str
    times: int
    total_ns: int
    start_ns: int
    longest_ns: int

    def with_those_of(self, other: _Calls) -> _Calls:
        longest = max(self, other, key=lambda each: (each.longest_ns, -each.start_ns))
        total_ns = self.total_ns + other.total_ns
        return longest._replace(times=self.times + other.times, total_ns=total_ns)


def _option(label: str, field: str, value: Any, detail: str) -> Option:  # noqa: ANN401
    return (label, json.dumps([field, value]), detail)


def _operators_of(rank: Rank) -> tuple[tuple[str, int, int], ...]:
    """The operators of a rank with the most total GPU time (ns), and their number of calls."""
    rank = with_replayed_calls(rank)
    listed = listed_calls(rank)
    if not listed.are_operators:
        return ()
    tree, (work, place) = listed.tree, launched_work(rank, None)
    by_name = grouped(tree.name)
    own_ns = tree.own(tree.at(place), work.duration_ns)
    total_ns = by_name.reduce(np.add, tree.totals(own_ns))
    names = [rank.trace.events.name.values[code] for code in tree.name[by_name.first].tolist()]
    most = np.lexsort((-by_name.sizes, -total_ns))[:MOST_NAMES].tolist()
    return tuple(
        (names[each], int(total_ns[each]), int(by_name.sizes[each]))
        for each in most
        if len(names[each]) <= LONGEST
    )


def _calls_of(rank: Rank, kind: Kind) -> tuple[_Calls, ...]:
    """The calls of a kind with the longest total time, without step annotations."""
    events = rank.trace.events
    rows, names = events.rows_of(kind), events.name.values
    rows = rows[~np.isin(rows, rank.steps.rows)]
    groups = grouped(events.name.codes[rows])
    total_ns = groups.reduce(np.add, events.duration_ns[rows])
    longest_ns = groups.reduce(np.maximum, events.duration_ns[rows])
    found = []
    for place in np.argsort(-total_ns, kind="stable")[:MOST_NAMES].tolist():
        mine = rows[groups.parts[place]]
        longest = mine[np.argmax(events.duration_ns[mine])]
        name = names[events.name.codes[longest]]
        if longest_ns[place] and len(name) <= LONGEST:
            start_ns = int(events.start_ns[longest])
            found.append(
                _Calls(name, mine.size, int(total_ns[place]), start_ns, int(longest_ns[place]))
            )
    return tuple(found)
