"""Occurrences of an operator, counted by the sequence of GPU work that each launches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hta_widgets.analyses.kernel_sequences.launching_calls import LaunchingCalls, sums_by_group
from hta_widgets.analyses.kernel_sequences.pattern_ids import Rows, pattern_ids, runs
from hta_widgets.intervals import Times

SEPARATOR = "|"


@dataclass(frozen=True, eq=False)
class Patterns:
    """Different sequences, most frequent first, then by pattern: see `KernelSequences.patterns`.

    Attributes
    ----------
    pattern, operator : list of str
    kernels, count, gpu_time_ns, cpu_time_ns : ndarray of int64
    sequences : list of tuple of str
        Names of the GPU operations of each.
    """

    pattern: list[str]
    operator: list[str]
    kernels: Rows
    count: Rows
    gpu_time_ns: Times
    cpu_time_ns: Times
    sequences: list[tuple[str, ...]]

    def take(self, positions: Rows) -> Patterns:
        """Keep some of them."""
        places = positions.tolist()
        return Patterns(
            pattern=[self.pattern[each] for each in places],
            operator=[self.operator[each] for each in places],
            kernels=self.kernels[positions],
            count=self.count[positions],
            gpu_time_ns=self.gpu_time_ns[positions],
            cpu_time_ns=self.cpu_time_ns[positions],
            sequences=[self.sequences[each] for each in places],
        )

    def table(self) -> pd.DataFrame:
        """One row each, without the sequences."""
        columns = {name: column for name, column in vars(self).items() if name != "sequences"}
        return pd.DataFrame(columns, copy=False)


class Occurrences(NamedTuple):
    """Calls of an operator that are not inside another one, in any order.

    Attributes
    ----------
    rows : ndarray of int64
        Row in the events table of the call at each place.
    places : ndarray of int64
        Place of each.
    pattern : ndarray of int64
        Position in `Patterns`.
    gpu_time_ns, cpu_time_ns : ndarray of int64
        Duration of the GPU work launched inside, and of the call.
    """

    rows: Rows
    places: Rows
    pattern: Rows
    gpu_time_ns: Times
    cpu_time_ns: Times

    def table(self, patterns: NDArray[np.bool_]) -> pd.DataFrame:
        """Occurrences of the wanted patterns, which are numbered without the others."""
        wanted = np.flatnonzero(patterns[self.pattern])
        events = self.rows[self.places[wanted]]
        by_event = np.argsort(events, kind="stable")
        wanted = wanted[by_event]
        columns = {
            "event": events[by_event],
            "pattern": (np.cumsum(patterns) - 1)[self.pattern[wanted]],
            "gpu_time_ns": self.gpu_time_ns[wanted],
            "cpu_time_ns": self.cpu_time_ns[wanted],
        }
        return pd.DataFrame(columns, copy=False)


def counted_sequences(calls: LaunchingCalls, places: Rows) -> tuple[Patterns, Occurrences]:
    """Count equal sequences of the calls at some places."""
    begin, end = calls.pieces(places)
    names, operator = calls.work.names, calls.names[places]
    kernels = calls.work.name[_in_gpu_order(calls, begin, end - begin)].astype(np.int64)
    ids = pattern_ids(operator, kernels, end - begin)
    every = Occurrences(
        rows=calls.tree.rows,
        places=places,
        pattern=ids,
        gpu_time_ns=calls.time_before_ns[end] - calls.time_before_ns[begin],
        cpu_time_ns=calls.cpu_time_ns[places],
    )
    first = _first_of_each(ids)
    after = np.cumsum(end - begin)[first].tolist()
    lengths = (end - begin)[first]
    sequences = [
        tuple(names[code] for code in kernels[stop - length : stop].tolist())
        for stop, length in zip(after, lengths.tolist(), strict=True)
    ]
    operators = [names[code] for code in operator[first].tolist()]
    return _most_frequent_first(_added_up(every, operators, sequences, lengths), every)


def _first_of_each(ids: Rows) -> Rows:
    """First position of each number; the numbers are 0 to n − 1, all present."""
    first = np.empty(int(ids.max(initial=-1)) + 1, dtype=np.int64)
    first[ids[::-1]] = np.arange(ids.size)[::-1]  # of equal ones the last assigned
    return first


def _added_up(
    every: Occurrences, operators: list[str], sequences: list[tuple[str, ...]], kernels: Rows
) -> Patterns:
    named = zip(operators, sequences, strict=True)
    return Patterns(
        pattern=[SEPARATOR.join([operator, *names]) for operator, names in named],
        operator=operators,
        kernels=kernels,
        count=np.bincount(every.pattern, minlength=kernels.size),
        gpu_time_ns=sums_by_group(every.gpu_time_ns, every.pattern, kernels.size),
        cpu_time_ns=sums_by_group(every.cpu_time_ns, every.pattern, kernels.size),
        sequences=sequences,
    )


def _most_frequent_first(patterns: Patterns, every: Occurrences) -> tuple[Patterns, Occurrences]:
    by_count = sorted(
        zip((-patterns.count).tolist(), patterns.pattern, range(patterns.count.size), strict=True)
    )
    order = np.array([at for _, _, at in by_count], dtype=np.int64)
    return patterns.take(order), every._replace(pattern=np.argsort(order)[every.pattern])


def _in_gpu_order(calls: LaunchingCalls, begin: Rows, counts: Rows) -> Rows:
    """Operations of each call in order of start on the GPU, concatenated."""
    if counts.max(initial=0) <= 1:
        return begin[counts > 0]
    operations = runs(begin, counts)
    occurrence = np.repeat(np.arange(begin.size), counts)
    stride = calls.gpu_order.size + 1
    key = occurrence * stride + calls.gpu_order[operations]
    return np.asarray(operations[np.argsort(key, kind="stable")])
