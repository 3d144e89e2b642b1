"""Which sequences of kernels an operator launches, and how often: candidates for fusion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pandas as pd

from hta_widgets.analyses.kernel_sequences.launching_calls import (
    LaunchingCalls,
    launching_calls,
    sums_by_group,
)
from hta_widgets.analyses.kernel_sequences.pattern_ids import pattern_ids, runs
from hta_widgets.analyses.result import Result
from hta_widgets.arrays import Int64Array, Mask
from hta_widgets.errors import ParameterError
from hta_widgets.intervals import Times
from hta_widgets.names.shorten import sequence_words
from hta_widgets.quantities import counted, duration
from hta_widgets.trace.job import Job
from hta_widgets.trace.model.formats import Recorded
from hta_widgets.trace.ranks.rank import Rank

SEPARATOR = "|"

NO_PATTERN = -1

_SIMILAR_AMONG = 2_000

_NAMES_SAID = 3

_ALIKE = 0.8


@dataclass(frozen=True, eq=False)
class Patterns:
    """Different sequences, most frequent first, then by pattern: see `KernelSequences.patterns`."""

    pattern: list[str]
    operator: list[str]
    kernels: Int64Array
    count: Int64Array
    gpu_time_ns: Times
    cpu_time_ns: Times
    sequences: list[tuple[str, ...]]
    """Names of the GPU operations of each."""

    def take(self, positions: Int64Array) -> Patterns:
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
    """Calls of an operator that are not inside another one, in any order."""

    rows: Int64Array
    """Row in the events table of the call at each place."""
    places: Int64Array
    """Place of each."""
    pattern: Int64Array
    """Position in `Patterns`."""
    gpu_time_ns: Times
    """Duration of the GPU work launched inside."""
    cpu_time_ns: Times
    """Duration of the call."""

    def table(self, patterns: Mask) -> pd.DataFrame:
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


def counted_sequences(calls: LaunchingCalls, places: Int64Array) -> tuple[Patterns, Occurrences]:
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


def _first_of_each(ids: Int64Array) -> Int64Array:
    """First position of each number; the numbers are 0 to n − 1, all present."""
    first = np.empty(int(ids.max(initial=-1)) + 1, dtype=np.int64)
    first[ids[::-1]] = np.arange(ids.size)[::-1]  # of equal ones the last assigned
    return first


def _added_up(
    every: Occurrences, operators: list[str], sequences: list[tuple[str, ...]], kernels: Int64Array
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


def _in_gpu_order(calls: LaunchingCalls, begin: Int64Array, counts: Int64Array) -> Int64Array:
    """Operations of each call in order of start on the GPU, concatenated."""
    if counts.max(initial=0) <= 1:
        return begin[counts > 0]
    operations = runs(begin, counts)
    occurrence = np.repeat(np.arange(begin.size), counts)
    stride = calls.gpu_order.size + 1
    key = occurrence * stride + calls.gpu_order[operations]
    return np.asarray(operations[np.argsort(key, kind="stable")])


@dataclass(frozen=True, kw_only=True, eq=False)
class KernelSequences(Result):
    """Sequences of GPU operations that the occurrences of an operator launch.

    Attributes
    ----------
    rank : int
    operator_name : str
        As given.
    patterns : DataFrame
        One row per sequence, most frequent first, then by pattern: ``pattern`` (name of the
        operator, then of each GPU operation in order of its start on the GPU, joined by ``|``),
        ``operator``, ``kernels`` (GPU operations in the sequence), ``count`` (occurrences),
        ``gpu_time_ns`` (sum of the durations of the GPU operations of all occurrences),
        ``cpu_time_ns`` (sum of the durations of the operator), int64.
    sequences : tuple of tuple of str
        Names of the GPU operations of each pattern.
    """

    rank: int
    operator_name: str
    patterns: pd.DataFrame
    sequences: tuple[tuple[str, ...], ...]
    every: Occurrences = field(repr=False)
    long_enough: Mask = field(repr=False)

    @cached_property
    def occurrences(self) -> pd.DataFrame:
        """One row per occurrence, ascending by start.

        ``event`` (row of the operator in the events table), ``pattern`` (row of `patterns`),
        ``gpu_time_ns``, ``cpu_time_ns`` (int64 ns).
        """
        return self.every.table(self.long_enough)


def kernel_sequences(
    job: Job,
    rank: int | None = None,
    *,
    operator_name: str,
    min_pattern_len: int = 3,
    whole_name: bool = False,
) -> KernelSequences:
    """Find the sequences of GPU operations that an operator launches.

    An occurrence is a CPU call (operator, annotation, Python function or runtime call) with a
    matching name that is not nested in another one. All work that it, or any call inside it,
    launches belongs to it, on any stream.

    Parameters
    ----------
    rank : int, optional
        The first rank when not given.
    operator_name : str
        Name of the operator or part of it, case-sensitive.
    min_pattern_len : int
        Occurrences with fewer GPU operations are left out.
    whole_name : bool
        Match the whole name: ``aten::add`` does not match ``aten::addmm``.

    Raises
    ------
    UnknownRankError
        If the job lacks the rank.
    ParameterError
        If `operator_name` is empty or `min_pattern_len` is negative.
    """
    _check(operator_name, min_pattern_len)
    (rank,) = job.select_ranks(None if rank is None else [rank])[:1]
    calls = launching_calls(job, rank)
    names, every_pattern, every = job.rank(rank).remember(
        _counted, operator_name, whole_name=whole_name
    )
    long_enough = every_pattern.kernels >= min_pattern_len
    patterns = every_pattern.take(np.flatnonzero(long_enough))
    short = every.places.size - int(patterns.count.sum())
    asked = (operator_name, rank, min_pattern_len)
    return KernelSequences(
        rank=rank,
        operator_name=operator_name,
        patterns=patterns.table(),
        sequences=tuple(patterns.sequences),
        every=every,
        long_enough=long_enough,
        finding=_sequence_finding(calls, patterns, every.places.size, asked),
        notices=(
            *job.notices_for([rank]),
            *job.lacking([rank], Recorded.KERNELS, Recorded.OPERATORS),
            *_pattern_notices(names, every.places.size, short, min_pattern_len),
        ),
    )


def pattern_of_events(job: Job, result: KernelSequences, top_k: int) -> Int64Array:
    """Map each event of the rank to one of the `top_k` most frequent patterns.

    Returns
    -------
    ndarray of int64, one per event
        Row of ``result.patterns`` for the operator of each occurrence, all calls inside it, and
        the GPU work that they launch; -1 for all other events.
    """
    calls = launching_calls(job, result.rank)
    table = result.occurrences[result.occurrences["pattern"] < top_k]
    places = calls.tree.place[table["event"].to_numpy()]
    patterns = table["pattern"].to_numpy()
    belongs = np.full(len(job.rank(result.rank).trace.events), NO_PATTERN, dtype=np.int64)
    sizes = calls.tree.ends[places] - places
    belongs[calls.tree.rows[runs(places, sizes)]] = np.repeat(patterns, sizes)
    first, counts = calls.first_operation[places], calls.operations(places)
    belongs[calls.work.rows[runs(first, counts)]] = np.repeat(patterns, counts)
    return belongs


def _check(operator_name: str, min_pattern_len: int) -> None:
    if not operator_name:
        msg = "operator_name is empty; give an operator's name or part of it, such as 'aten::mm'"
        raise ParameterError(msg)
    if min_pattern_len < 0:
        msg = f"min_pattern_len must be 0 or more, got {min_pattern_len}"
        raise ParameterError(msg)


def _counted(
    rank: Rank, operator_name: str, *, whole_name: bool
) -> tuple[list[str], Patterns, Occurrences]:
    """Find the outermost calls of that name: their full names, and what they launch."""
    calls = rank.remember(LaunchingCalls.of)
    names = calls.work.names
    codes = [
        code
        for code, name in enumerate(names)
        if (operator_name == name if whole_name else operator_name in name)
    ]
    patterns, every = counted_sequences(calls, calls.outermost(codes))
    there = set(patterns.operator)
    return [names[code] for code in codes if names[code] in there], patterns, every


def _pattern_notices(
    names: Sequence[str], found: int, short: int, min_pattern_len: int
) -> list[str]:
    notices = []
    if short:
        notices.append(
            f"sequences of fewer than {counted(min_pattern_len, 'GPU operation')} are left out "
            f"({short:,} of {counted(found, 'occurrence')})"
        )
    if len(names) > 1:
        said = ", ".join(names[:_NAMES_SAID]) + (", …" if len(names) > _NAMES_SAID else "")
        notices.append(f"{len(names)} different names contain operator_name: {said}")
    return notices


def _sequence_finding(
    calls: LaunchingCalls,
    patterns: Patterns,
    found: int,
    asked: tuple[str, int, int],
) -> str:
    name, rank, least = asked
    if not found:
        return f"No call on rank {rank} matches {name!r}{_similar(calls, name)}."
    occurrences = f"{counted(found, 'occurrence')} of {name} on rank {rank}"
    if not patterns.count.size:
        fewest = counted(least, "GPU operation")
        return f"The {occurrences} launched no sequence of at least {fewest}."
    different, top = patterns.count.size, sequence_words(patterns.sequences[0], 3)
    sequences = f"1 sequence, {top}, which"
    if different > 1:
        sequences = f"{different:,} different sequences; the most frequent one, {top},"
    often = "once" if patterns.count[0] == 1 else f"{patterns.count[0]:,} times"
    return (
        f"The {occurrences} launched {sequences} occurs {often} and takes "
        f"{duration(patterns.gpu_time_ns[0])} of GPU time and "
        f"{duration(patterns.cpu_time_ns[0])} of CPU time."
    )


def _similar(calls: LaunchingCalls, name: str) -> str:
    """Names of calls that may be meant."""
    codes = np.unique(calls.names).tolist()
    names = [calls.work.names[code] for code in codes]
    alike = [each for each in names if name.lower() in each.lower()]
    alike = alike or get_close_matches(name, names[:_SIMILAR_AMONG], cutoff=_ALIKE)
    return f"; similar names: {', '.join(alike[:_NAMES_SAID])}" if alike else ""
