"""Which sequences of kernels an operator launches, and how often: candidates for fusion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pandas as pd

from hta_widgets.analyses.result import Result
from hta_widgets.analyses.time.call_sums import sums_at
from hta_widgets.arrays import Int32Array, Int64Array, IntArray, Mask, narrowed
from hta_widgets.errors import ParameterError, check_least
from hta_widgets.grouping import counted_up, distinct, reduce_runs
from hta_widgets.intervals import Times
from hta_widgets.names.readable import sequence_words
from hta_widgets.quantities import counted, duration
from hta_widgets.trace.cache.derived_columns import Columns
from hta_widgets.trace.job import Job, select_ranks
from hta_widgets.trace.model.call_tree import CallTree
from hta_widgets.trace.model.events import LAUNCH_CALLS, Events, Kind
from hta_widgets.trace.model.formats import Recorded
from hta_widgets.trace.ranks.gpu_work import GpuWork
from hta_widgets.trace.ranks.rank import Rank

SEPARATOR = "|"
NO_PATTERN = -1
_SIMILAR_AMONG = 2_000
_NAMES_SAID = 3
_ALIKE = 0.8
SEVERAL_KERNELS = (3, 30)
USUAL_OPERATOR = "aten::linear"

MODULE = "nn.Module: "
"""Prefix of the names of Python frames that are calls of a module."""

_SMALL_WORDS = 4
"""Words are counted instead of sorted if the largest is less than this many times their number."""


@dataclass(frozen=True, eq=False)
class Patterns:
    """Distinct sequences, most frequent first, then by pattern: see `KernelSequences.patterns`."""

    pattern: list[str]
    operator: list[str]
    kernels: Int64Array
    count: Int64Array
    gpu_time_ns: Times
    cpu_time_ns: Times
    sequences: list[tuple[str, ...]]
    """Names of the GPU operations of each pattern."""

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

    rows: Int32Array
    """Row in the events table of the call at each place."""
    places: Int64Array
    """Place of each occurrence."""
    pattern: Int64Array
    """Position of its pattern in `Patterns`."""
    gpu_time_ns: Times
    """Duration of the GPU work launched inside it."""
    cpu_time_ns: Times
    """Duration of the call."""

    def table(self, patterns: Mask) -> pd.DataFrame:
        """Occurrences of the wanted patterns, which are renumbered without the others."""
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
    names, operator = calls.work.names, calls.names(places)
    kernels = calls.work.name[_in_gpu_order(calls, begin, end)].astype(np.int64)
    ids = pattern_ids(operator, kernels, end - begin)
    every = Occurrences(
        rows=calls.tree.rows,
        places=places,
        pattern=ids,
        gpu_time_ns=calls.time_before_ns[end] - calls.time_before_ns[begin],
        cpu_time_ns=calls.events.duration_ns[calls.tree.rows[places]],
    )
    first = _first_of_each(ids)
    after = np.cumsum(end - begin)[first].tolist()
    lengths = (end - begin)[first]
    sequences = [
        tuple(names[code] for code in kernels[stop - length : stop].tolist())
        for stop, length in zip(after, lengths.tolist(), strict=True)
    ]
    operators = [names[code] for code in operator[first].tolist()]
    named = zip(operators, sequences, strict=True)
    patterns = Patterns(
        pattern=[SEPARATOR.join([operator, *launched]) for operator, launched in named],
        operator=operators,
        kernels=lengths,
        count=np.bincount(ids, minlength=lengths.size),
        gpu_time_ns=sums_at(ids, every.gpu_time_ns, lengths.size),
        cpu_time_ns=sums_at(ids, every.cpu_time_ns, lengths.size),
        sequences=sequences,
    )
    return _most_frequent_first(patterns, every)


def _first_of_each(ids: Int64Array) -> Int64Array:
    """First position of each number; the numbers are 0 to n − 1, all present."""
    first = np.empty(int(ids.max(initial=-1)) + 1, dtype=np.int64)
    first[ids[::-1]] = np.arange(ids.size)[::-1]  # of equal numbers, the last assignment stays
    return first


def _most_frequent_first(patterns: Patterns, every: Occurrences) -> tuple[Patterns, Occurrences]:
    by_count = sorted(
        zip((-patterns.count).tolist(), patterns.pattern, range(patterns.count.size), strict=True)
    )
    order = np.array([at for _, _, at in by_count], dtype=np.int64)
    return patterns.take(order), every._replace(pattern=np.argsort(order)[every.pattern])


def _in_gpu_order(calls: LaunchingCalls, begin: Int32Array, end: Int32Array) -> IntArray:
    """Positions in `work` of what each call launches, in the order of GPU starts; concatenated."""
    counts = end - begin
    if counts.max(initial=0) <= 1:
        return calls.launched[begin[counts > 0]]
    occurrence, stride = np.repeat(np.arange(begin.size), counts), len(calls.work)
    key = occurrence * stride + calls.launched[counted_up(begin, end)]
    key.sort()
    return np.asarray(key % stride)


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
    """
    if not operator_name:
        msg = "operator_name is empty; give an operator's name or part of it, such as 'aten::mm'"
        raise ParameterError(msg)
    check_least("min_pattern_len", min_pattern_len, 0)
    (rank,) = select_ranks(job, None if rank is None else [rank])[:1]
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

    The value of an event is a row of ``result.patterns`` for the operator of each occurrence, all
    calls inside it, and the GPU work that they launch; -1 for all other events.
    """
    calls = launching_calls(job, result.rank)
    table = result.occurrences[result.occurrences["pattern"] < top_k]
    places = calls.tree.place_of_row()[table["event"].to_numpy()]
    patterns = table["pattern"].to_numpy()
    belongs = np.full(len(job.rank(result.rank).trace.events), NO_PATTERN, dtype=np.int64)
    ends = calls.tree.ends[places]
    belongs[calls.tree.rows[counted_up(places, ends)]] = np.repeat(patterns, ends - places)
    launched = calls.launched[counted_up(*calls.pieces(places))]
    belongs[calls.work.rows[launched]] = np.repeat(patterns, calls.operations(places))
    return belongs


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
    count = f"{found:,} occurrences" if found > 1 else "only occurrence"
    occurrences = f"{count} of {name} on rank {rank}"
    if not patterns.count.size:
        fewest = counted(least, "GPU operation")
        return f"The {occurrences} launched no sequence of at least {fewest}."
    different, top = patterns.count.size, sequence_words(patterns.sequences[0], 3)
    sequences = f"1 sequence, {top}, which"
    if different > 1:
        sequences = f"{different:,} different sequences; the most frequent one, {top},"
    often = "once" if patterns.count[0] == 1 else f"{patterns.count[0]:,} times"
    often = "" if found == 1 else f"occurs {often} and "
    return (
        f"The {occurrences} launched {sequences} {often}takes "
        f"{duration(patterns.gpu_time_ns[0])} of GPU time and "
        f"{duration(patterns.cpu_time_ns[0])} of CPU time."
    )


def _similar(calls: LaunchingCalls, name: str) -> str:
    """Names of calls that the user may have meant."""
    codes = distinct(calls.events.name.codes[calls.tree.rows]).tolist()
    names = [calls.work.names[code] for code in codes]
    alike = [each for each in names if name.lower() in each.lower()]
    alike = alike or get_close_matches(name, names[:_SIMILAR_AMONG], cutoff=_ALIKE)
    return f"; similar names: {', '.join(alike[:_NAMES_SAID])}" if alike else ""


@dataclass(frozen=True, eq=False)
class LaunchingCalls:
    """Calls of one rank, by their place in a `CallTree`."""

    events: Events
    analysed: Mask
    """Whether each event takes part in the analyses (the step filter)."""
    work: GpuWork
    tree: CallTree
    launched: Int32Array
    """Positions in `work` of the work whose launch is in the trace, by the place of the launch."""
    first_operation: Int32Array
    """Position in `launched` of the first piece launched at or after each place; one item more than
    there are places."""
    time_before_ns: Times
    """Total duration of the pieces before each of `launched`; one item more than there are
    pieces."""

    @classmethod
    def of(cls, rank: Rank) -> LaunchingCalls:
        """Sort the GPU work of a rank by the calls that launch it."""
        events, work = rank.trace.events, rank.gpu_work
        tree = CallTree(**rank.derive(_call_tree), events=len(events))
        launched = np.flatnonzero(work.launch >= 0)
        places = tree.place_of_row()[work.launch[launched]]
        in_order = launched[np.argsort(places, kind="stable")].astype(np.int32)
        per_place = np.bincount(places, minlength=tree.rows.size)
        return cls(
            events=events,
            analysed=rank.analysed,
            work=work,
            tree=tree,
            launched=in_order,
            first_operation=np.append(np.int32(0), np.cumsum(per_place, dtype=np.int32)),
            time_before_ns=np.append(0, np.cumsum(work.duration_ns[in_order])),
        )

    def names(self, places: Int64Array) -> Int32Array:
        """Name codes of the calls at some places."""
        return self.events.name.codes[self.tree.rows[places]]

    @cached_property
    def _analysed_by_name(self) -> tuple[IntArray, Int64Array]:
        order, edges = self.sorted_by_name(np.flatnonzero(self.analysed[self.tree.rows]))
        return narrowed(order), edges

    def outermost(self, codes: Sequence[int]) -> Int64Array:
        """Places of the analysed calls of some names that are not inside another, ascending."""
        order, edges = self._analysed_by_name
        of_names = [order[edges[code] : edges[code + 1]].astype(np.int64) for code in codes]
        if len(of_names) == 1:
            return of_names[0]
        places = np.sort(np.concatenate([np.zeros(0, dtype=np.int64), *of_names]))
        return places[self.tree.outermost(places)]

    def sorted_by_name(self, places: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Sort ascending calls by name, without those that are inside another of the same name.

        It returns ``order`` and ``edges``: calls of name code ``c`` are
        ``order[edges[c]:edges[c + 1]]``, ascending.
        """
        # Calls of one name by place, each up to where its inner calls end:
        #   |---------------|     outermost
        #       |----|            starts before `reached`: inside
        #                    |--| outermost
        # Adding a multiple of the name code makes one running maximum serve all names.
        names, many = self.names(places), len(self.work.names)
        few_bits = names.astype(np.min_scalar_type(many))  # sorting 1 M takes 10 ms, not 62
        by_name = np.argsort(few_bits, kind="stable")
        order, names = places[by_name], names[by_name]
        of_name = names.astype(np.int64) * (self.tree.rows.size + 1)
        reached = np.maximum.accumulate(of_name + self.tree.ends[order])
        outermost = np.ones(order.size, dtype=bool)
        outermost[1:] = (of_name + order)[1:] >= reached[:-1]
        sizes = np.bincount(names[outermost], minlength=many)
        return order[outermost], np.concatenate([[0], np.cumsum(sizes)])

    def pieces(self, places: Int64Array) -> tuple[Int32Array, Int32Array]:
        """For each of some calls, positions in `launched` of its first piece and after its last."""
        return self.first_operation[places], self.first_operation[self.tree.ends[places]]

    def operations(self, places: Int64Array) -> Int64Array:
        """Number of pieces of GPU work launched inside each of some calls."""
        first, last = self.pieces(places)
        return np.asarray(last - first)

    def gpu_time_ns(self, places: Int64Array) -> Times:
        """Total duration of the GPU work launched inside each of some calls."""
        first, last = self.pieces(places)
        return np.asarray(self.time_before_ns[last] - self.time_before_ns[first])


def launching_calls(job: Job, rank: int) -> LaunchingCalls:
    """Index the calls of a rank, once per job."""
    return job.rank(rank).remember(LaunchingCalls.of)


def _call_tree(rank: Rank) -> Columns:
    tree = CallTree.of(rank.trace.events, rank.parents)
    return {"rows": tree.rows, "ends": tree.ends}


def operators_by_gpu_time(job: Job, rank: int | None = None) -> pd.DataFrame:
    """List the operators, annotations and functions of a rank that launch GPU work.

    ``name``; ``kind`` (``cpu_op``, ``annotation``, ``python`` or ``other``; of the first call of
    that name); ``occurrences`` (calls of exactly that name that launch GPU work, those inside
    another such call not counted); ``kernels`` (GPU operations launched inside them);
    ``gpu_time_ns`` (sum of their durations, int64 ns). Longest GPU time first, then by name.
    """
    chosen = select_ranks(job, None if rank is None else [rank])[0]
    return job.rank(chosen).remember(_by_gpu_time)


def operators_to_offer(job: Job, rank: int | None = None) -> pd.DataFrame:
    """Rows of `operators_by_gpu_time` without Python frames, but with the calls of modules."""
    table = operators_by_gpu_time(job, rank)
    is_frame = table["kind"] == Kind.PYTHON.name.lower()
    is_module = [name.startswith(MODULE) for name in table["name"]]
    return table[~is_frame | np.array(is_module, dtype=bool)]


def suggested_operator(job: Job, rank: int | None = None) -> str:
    """Name of an operator whose kernel sequences are worth a look.

    It is the operator with the longest GPU time of those that occur repeatedly and launch several,
    but not very many, kernels each time. If there is none, it is an annotation or module of which
    that is true, or one with such a number of kernels.
    """
    table = operators_to_offer(job, rank)
    per_occurrence = table["kernels"] / table["occurrences"]
    several, repeated = per_occurrence.between(*SEVERAL_KERNELS), table["occurrences"] > 1
    is_operator = table["kind"] == Kind.CPU_OP.name.lower()
    many = per_occurrence >= SEVERAL_KERNELS[0]
    for wanted in (several & repeated & is_operator, several & repeated, several, many):
        if wanted.any():
            return str(table["name"][wanted].iloc[0])
    return str(table["name"].iloc[0]) if len(table) else USUAL_OPERATOR


def _by_gpu_time(rank: Rank) -> pd.DataFrame:
    calls = LaunchingCalls.of(rank)  # not kept: 40 B per event, and only its panel needs it again
    kind, names = rank.trace.events.kind, calls.work.names
    named = ~np.isin(kind[calls.tree.rows], LAUNCH_CALLS)
    launching = calls.first_operation[calls.tree.ends] > calls.first_operation[:-1]
    order, edges = calls.sorted_by_name(np.flatnonzero(named & launching))
    codes = np.flatnonzero(np.diff(edges))
    first = edges[codes]
    kinds = kind[calls.tree.rows[order[first]]].tolist()
    table = pd.DataFrame(
        {
            "name": [names[code] for code in codes.tolist()],
            "kind": [Kind(each).name.lower() for each in kinds],
            "occurrences": np.diff(edges)[codes],
            "kernels": reduce_runs(np.add, calls.operations(order), first),
            "gpu_time_ns": reduce_runs(np.add, calls.gpu_time_ns(order), first),
        }
    )
    return table.sort_values(["gpu_time_ns", "name"], ascending=[False, True], ignore_index=True)


def pattern_ids(operators: Int32Array, kernels: Int64Array, counts: Int64Array) -> Int64Array:
    """Number patterns from 0 so that equal patterns share a number."""
    launches = counts > 0
    ids = np.zeros(counts.size, dtype=np.int64)
    ids[launches] = _sequence_ids(kernels, counts[launches]) + (not launches.all())
    least, most = int(operators.min(initial=0)), int(operators.max(initial=0))
    return ids if least == most else _renamed(ids * (most + 1) + operators)


def _sequence_ids(words: Int64Array, lengths: Int64Array) -> Int64Array:
    """Number concatenated sequences from 0 so that equal ones share a number.

    Neighbours are merged into one word, pair by pair, until each sequence is one word. This is
    exact, and no slower for one long sequence than for many short ones.
    """
    # a b c d | a b c | a b c d      three sequences
    #  ab  cd | ab  c |  ab  cd      pairs of neighbours become words; the last may stay alone
    #   abcd  |  abc  |   abcd       repeated until each sequence is one word
    words = _renamed(words)
    while (lengths > 1).any():
        within = np.arange(words.size) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        left = np.flatnonzero(within & 1 == 0)
        alone = within[left] + 1 == np.repeat(lengths, (lengths + 1) // 2)
        right = np.where(alone, 0, words[np.minimum(left + 1, words.size - 1)] + 1)
        words = _renamed(words[left] * (int(words.max()) + 2) + right)
        lengths = (lengths + 1) // 2
    return words


def _renamed(words: Int64Array) -> Int64Array:
    """Number words from 0, ascending; small ones are counted, in a tenth of the time of sorting."""
    most = int(words.max(initial=0))
    if most > _SMALL_WORDS * words.size:
        return np.asarray(np.unique(words, return_inverse=True)[1]).reshape(-1)
    there = np.zeros(most + 1, dtype=bool)
    there[words] = True
    return np.asarray((np.cumsum(there) - 1)[words])
