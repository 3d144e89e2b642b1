"""Which sequences of kernels an operator launches, and how often: candidates for fusion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

import numpy as np
import pandas as pd

from hta_widgets.analyses.launching_calls import LaunchingCalls, launching_calls, sums_by_group
from hta_widgets.analyses.result import Result
from hta_widgets.analyses.sequence_numbers import Rows, pattern_ids, runs
from hta_widgets.errors import ParameterError
from hta_widgets.intervals import Times
from hta_widgets.names import sequence_words
from hta_widgets.quantities import duration
from hta_widgets.trace.formats import Recorded
from hta_widgets.trace.job import Job

SEPARATOR = "|"
NO_PATTERN = -1
_SIMILAR_AMONG = 2_000
_NAMES_SAID = 3
_ALIKE = 0.8

Sequences = tuple[tuple[str, ...], ...]
Counted = tuple[pd.DataFrame, Sequences, pd.DataFrame]
"""Patterns, the names of their kernels, and their occurrences."""


@dataclass(frozen=True, kw_only=True, eq=False)
class KernelSequences(Result):
    """Sequences of GPU operations that the occurrences of an operator launch.

    Attributes
    ----------
    rank : int
    operator_name : str
        As it was asked for.
    patterns : DataFrame
        One row per sequence, most frequent first, then by pattern: ``pattern`` (name of the
        operator, then of each GPU operation in order of its start on the GPU, joined by ``|``),
        ``operator``, ``kernels`` (GPU operations in the sequence), ``count`` (occurrences),
        ``gpu_time_ns`` (sum of the durations of the GPU operations of all occurrences),
        ``cpu_time_ns`` (sum of the durations of the operator), int64.
    sequences : tuple of tuple of str
        Names of the GPU operations of each pattern.
    occurrences : DataFrame
        One row per occurrence, ascending by start: ``event`` (row of the operator in the events
        table), ``pattern`` (row of `patterns`), ``gpu_time_ns``, ``cpu_time_ns`` (int64 ns).
    """

    rank: int
    operator_name: str
    patterns: pd.DataFrame
    sequences: tuple[tuple[str, ...], ...]
    occurrences: pd.DataFrame


def kernel_sequences(
    job: Job,
    rank: int | None = None,
    *,
    operator_name: str,
    min_pattern_len: int = 3,
    whole_name: bool = False,
) -> KernelSequences:
    """Find the sequences of GPU operations that an operator launches.

    An occurrence is a call of the CPU (operator, annotation, Python function or runtime call) with
    a fitting name that is not inside another one. All work that it, or any call inside it,
    launches on whatever stream belongs to it.

    Parameters
    ----------
    job : Job
    rank : int, optional
        The first rank when not given.
    operator_name : str
        A part of the operator's name, upper and lower case as it is written.
    min_pattern_len : int
        Occurrences with fewer GPU operations are left out.
    whole_name : bool
        `operator_name` is the whole name: ``aten::add`` does not stand for ``aten::addmm``.

    Returns
    -------
    KernelSequences

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
    names, every = job.rank(rank).remember(
        ("kernel sequences", operator_name, whole_name),
        lambda: _counted_occurrences(calls, operator_name, whole_name=whole_name),
    )
    found = len(every[-1])
    patterns, sequences, occurrences = _long_enough(*every, min_pattern_len)
    return KernelSequences(
        rank=rank,
        operator_name=operator_name,
        patterns=patterns,
        sequences=sequences,
        occurrences=occurrences,
        finding=_finding(calls, patterns, sequences, found, (operator_name, rank, min_pattern_len)),
        notices=(
            *job.notices_for([rank]),
            *job.lacking([rank], Recorded.KERNELS, Recorded.OPERATORS),
            *_notices(names, found, found - len(occurrences), min_pattern_len),
        ),
    )


def pattern_of_events(job: Job, result: KernelSequences, top_k: int) -> Rows:
    """Tell which of the first `top_k` patterns each event of the rank belongs to.

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
        msg = "operator_name is empty; give an operator's name or a part of it: 'aten::linear'"
        raise ParameterError(msg)
    if min_pattern_len < 0:
        msg = f"min_pattern_len is {min_pattern_len}; it is a number of kernels, 0 or more"
        raise ParameterError(msg)


def _counted_occurrences(
    calls: LaunchingCalls, operator_name: str, *, whole_name: bool
) -> tuple[list[str], Counted]:
    """Find the outermost calls of that name: how they are named in full, and what they launch."""
    codes = [
        code
        for code, name in enumerate(calls.work.names)
        if (operator_name == name if whole_name else operator_name in name)
    ]
    places = calls.named(codes)
    places = places[calls.analysed[places]]
    places = places[calls.tree.outermost(places)]
    there = set(codes[:1] if len(codes) == 1 else np.unique(calls.names[places]).tolist())
    return [calls.work.names[code] for code in codes if code in there], _count(calls, places)


def _long_enough(
    patterns: pd.DataFrame, sequences: Sequences, occurrences: pd.DataFrame, least: int
) -> Counted:
    """Keep the sequences of at least so many kernels, and their occurrences."""
    keep = (patterns["kernels"] >= least).to_numpy()
    if keep.all():
        return patterns, sequences, occurrences
    pattern = occurrences["pattern"].to_numpy()
    wanted = keep[pattern]
    kept = {name: column.to_numpy()[wanted] for name, column in occurrences.items()}
    kept["pattern"] = (np.cumsum(keep) - 1)[kept["pattern"]]
    return (
        patterns[keep].reset_index(drop=True),
        tuple(each for each, long in zip(sequences, keep.tolist(), strict=True) if long),
        pd.DataFrame(kept, copy=False),
    )


def _count(calls: LaunchingCalls, places: Rows) -> Counted:
    """Count equal sequences; the occurrences refer to the patterns by their position."""
    begin, end = calls.pieces(places)
    counts = end - begin
    kernels = calls.work.name[_in_gpu_order(calls, begin, counts)].astype(np.int64)
    first = np.cumsum(counts) - counts
    ids = pattern_ids(calls.names[places], kernels, counts)
    count = np.bincount(ids)
    example = np.empty(count.size, dtype=np.int64)
    example[ids[::-1]] = np.arange(ids.size)[::-1]  # of equal ones the last assigned: the first
    texts = calls.work.names
    sequences = [
        tuple(texts[code] for code in kernels[first[each] : first[each] + counts[each]].tolist())
        for each in example.tolist()
    ]
    operators = [texts[code] for code in calls.names[places[example]].tolist()]
    patterns = [
        SEPARATOR.join([operator, *names])
        for operator, names in zip(operators, sequences, strict=True)
    ]
    order = sorted(range(count.size), key=lambda at: (-count[at], patterns[at]))
    gpu_time_ns = calls.time_before_ns[end] - calls.time_before_ns[begin]
    cpu_time_ns = calls.cpu_time_ns[places]
    table = pd.DataFrame(
        {
            "pattern": [patterns[each] for each in order],
            "operator": [operators[each] for each in order],
            "kernels": counts[example][order],
            "count": count[order],
            "gpu_time_ns": sums_by_group(gpu_time_ns, ids, count.size)[order],
            "cpu_time_ns": sums_by_group(cpu_time_ns, ids, count.size)[order],
        }
    )
    pattern = np.argsort(np.array(order, dtype=np.int64))[ids]
    occurrences = _occurrences(calls.tree.rows[places], pattern, gpu_time_ns, cpu_time_ns)
    return table, tuple(sequences[each] for each in order), occurrences


def _occurrences(
    events: Rows, pattern: Rows, gpu_time_ns: Times, cpu_time_ns: Times
) -> pd.DataFrame:
    by_event = np.argsort(events, kind="stable")
    return pd.DataFrame(
        {
            "event": events[by_event],
            "pattern": pattern[by_event],
            "gpu_time_ns": gpu_time_ns[by_event],
            "cpu_time_ns": cpu_time_ns[by_event],
        },
        copy=False,
    )


def _in_gpu_order(calls: LaunchingCalls, begin: Rows, counts: Rows) -> Rows:
    """Operations of one occurrence after the other, each in order of start on the GPU."""
    if counts.max(initial=0) <= 1:
        return begin[counts > 0]
    operations = runs(begin, counts)
    occurrence = np.repeat(np.arange(begin.size), counts)
    stride = int(calls.gpu_rank.max(initial=0)) + 1
    key = occurrence * stride + calls.gpu_rank[operations]
    return np.asarray(operations[np.argsort(key, kind="stable")])


def _notices(names: Sequence[str], found: int, short: int, min_pattern_len: int) -> list[str]:
    notices = []
    if short:
        notices.append(
            f"{short:,} of {found:,} occurrences launch fewer than {min_pattern_len} GPU "
            "operations and are left out"
        )
    if len(names) > 1:
        said = ", ".join(names[:_NAMES_SAID]) + (", …" if len(names) > _NAMES_SAID else "")
        notices.append(f"{len(names)} different names contain operator_name: {said}")
    return notices


def _finding(
    calls: LaunchingCalls,
    patterns: pd.DataFrame,
    sequences: Sequence[tuple[str, ...]],
    found: int,
    asked: tuple[str, int, int],
) -> str:
    name, rank, least = asked
    if not found:
        return f"No call on rank {rank} is named {name}{_similar(calls, name)}."
    occurrences = f"{found:,} occurrence{'s' if found > 1 else ''} of {name} on rank {rank}"
    if patterns.empty:
        return f"None of the {occurrences} launches {least} GPU operations or more."
    top = patterns.iloc[0]
    verb = "launch" if found > 1 else "launches"
    noun = "sequence" if len(patterns) == 1 else "different sequences"
    often = "once" if top["count"] == 1 else f"{top['count']:,} times"
    return (
        f"The {occurrences} {verb} {len(patterns):,} {noun}; the most frequent, "
        f"{sequence_words(sequences[0], 3)}, occurs {often} and takes "
        f"{duration(top['gpu_time_ns'])} of GPU time, {duration(top['cpu_time_ns'])} of CPU time."
    )


def _similar(calls: LaunchingCalls, name: str) -> str:
    """Names of calls that may have been meant."""
    codes = np.unique(calls.names).tolist()
    names = [calls.work.names[code] for code in codes]
    alike = [each for each in names if name.lower() in each.lower()]
    alike = alike or get_close_matches(name, names[:_SIMILAR_AMONG], cutoff=_ALIKE)
    return f"; there is {', '.join(alike[:_NAMES_SAID])}" if alike else ""
