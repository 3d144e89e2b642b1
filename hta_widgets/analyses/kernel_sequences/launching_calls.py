"""The calls of one rank with the GPU work launched inside them, indexed for fast look-up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from hta_widgets.arrays import Int32Array, Int64Array, Mask
from hta_widgets.grouping import reduce_runs
from hta_widgets.intervals import Times
from hta_widgets.trace.cache.derived_columns import Columns
from hta_widgets.trace.job import Job
from hta_widgets.trace.model.call_tree import CallTree
from hta_widgets.trace.model.events import LAUNCH_CALLS, Kind
from hta_widgets.trace.ranks.gpu_work import GpuWork
from hta_widgets.trace.ranks.rank import Rank

SEVERAL_KERNELS = (3, 30)
USUAL_OPERATOR = "aten::linear"
MODULE = "nn.Module: "
"""Prefix of the names of Python frames that are calls of a module."""


@dataclass(frozen=True, eq=False)
class LaunchingCalls:
    """Calls of one rank, by their place in a `CallTree`."""

    tree: CallTree
    names: Int32Array
    """Name code of the call at each place."""
    analysed: Mask
    """Whether each call takes part in the analyses (the step filter)."""
    work: GpuWork
    """GPU work whose launch is in the trace, in order of the place of its launch."""
    gpu_order: Int64Array
    """Position of each piece of `work` in the order in which the GPU starts."""
    first_operation: Int64Array
    """Position in `work` of the first piece launched at each place or after; one item more than
    there are places."""
    time_before_ns: Times
    """Total duration of the pieces of `work` before each; one item more than there are pieces."""
    cpu_time_ns: Times
    """Duration of the call at each place."""

    @classmethod
    def of(cls, rank: Rank) -> LaunchingCalls:
        """Sort the GPU work of a rank by the calls that launch it."""
        events = rank.trace.events
        tree = CallTree(**rank.derive(_call_tree))
        work = rank.gpu_work
        launched = np.flatnonzero(work.launch >= 0)
        order = launched[np.argsort(tree.place[work.launch[launched]], kind="stable")]
        places = tree.place[work.launch[order]]
        per_place = np.bincount(places, minlength=tree.rows.size)
        return cls(
            tree=tree,
            names=events.name.codes[tree.rows],
            analysed=rank.analysed[tree.rows],
            work=work.take(order),
            gpu_order=order,
            first_operation=np.concatenate([[0], np.cumsum(per_place)]),
            time_before_ns=np.concatenate([[0], np.cumsum(work.duration_ns[order])]),
            cpu_time_ns=events.duration_ns[tree.rows],
        )

    @cached_property
    def _analysed_by_name(self) -> tuple[Int64Array, Int64Array]:
        return self.sorted_by_name(np.flatnonzero(self.analysed))

    def outermost(self, codes: Sequence[int]) -> Int64Array:
        """Places of the analysed calls of some names that are not inside another, ascending."""
        order, edges = self._analysed_by_name
        of_names = [order[edges[code] : edges[code + 1]] for code in codes]
        if len(of_names) == 1:
            return of_names[0]
        places = np.sort(np.concatenate([np.zeros(0, dtype=np.int64), *of_names]))
        return places[self.tree.outermost(places)]

    def sorted_by_name(self, places: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Sort calls by name, without those that are inside another of the same name.

        Parameters
        ----------
        places : ndarray of int64
            Their places, ascending.

        Returns
        -------
        order : ndarray of int64
            The places, name by name and ascending in each.
        edges : ndarray of int64
            Calls of name code ``c`` are ``order[edges[c]:edges[c + 1]]``.
        """
        # Calls of one name by place, each up to where its inner calls end:
        #   |---------------|     outermost
        #       |----|            begins before `reached`: inside
        #                    |--| outermost
        # Adding a multiple of the name code makes one running maximum serve all names.
        names, many = self.names[places], len(self.work.names)
        few_bits = names.astype(np.min_scalar_type(many))  # 1 M take 10 ms to sort, not 62
        by_name = np.argsort(few_bits, kind="stable")
        order, names = places[by_name], names[by_name]
        of_name = names.astype(np.int64) * (self.names.size + 1)
        reached = np.maximum.accumulate(of_name + self.tree.ends[order])
        outermost = np.ones(order.size, dtype=bool)
        outermost[1:] = (of_name + order)[1:] >= reached[:-1]
        sizes = np.bincount(names[outermost], minlength=many)
        return order[outermost], np.concatenate([[0], np.cumsum(sizes)])

    def pieces(self, places: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Positions in `work` of what each of some calls launches: of the first, after the last."""
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
    return {name: column.astype(np.int32) for name, column in vars(tree).items()}


def operators_by_gpu_time(job: Job, rank: int | None = None) -> pd.DataFrame:
    """List the operators, annotations and functions that launch GPU work.

    Parameters
    ----------
    rank : int, optional
        The first rank when not given.

    Returns
    -------
    DataFrame
        ``name``; ``kind`` (``cpu_op``, ``annotation``, ``python`` or ``other``; of the first call
        of that name); ``occurrences`` (calls of exactly that name that launch GPU work, those
        inside another such call not counted); ``kernels`` (GPU operations launched inside them);
        ``gpu_time_ns`` (sum of their durations, int64 ns). Longest GPU time first, then by name.

    Raises
    ------
    UnknownRankError
        If the job lacks the rank.
    """
    chosen = job.select_ranks(None if rank is None else [rank])[0]
    return job.rank(chosen).remember(_by_gpu_time)


def operators_to_offer(job: Job, rank: int | None = None) -> pd.DataFrame:
    """Rows of `operators_by_gpu_time` without Python frames, but with the calls of modules."""
    table = operators_by_gpu_time(job, rank)
    is_frame = table["kind"] == Kind.PYTHON.name.lower()
    is_module = [name.startswith(MODULE) for name in table["name"]]
    return table[~is_frame | np.array(is_module, dtype=bool)]


def suggested_operator(job: Job, rank: int | None = None) -> str:
    """Name of an operator whose kernel sequences are worth a look.

    The operator with the longest GPU time of those that occur repeatedly and launch several, but
    not very many, kernels each time. If there is none, an annotation or module of which that is
    true, or at least of the number of kernels.
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
    calls = LaunchingCalls.of(rank)  # 40 B an event, which only its panel needs again
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


def sums_by_group(values: Int64Array, groups: Int64Array, count: int) -> Int64Array:
    """Sum integers by group, exactly."""
    sums = np.zeros(count, dtype=np.int64)
    np.add.at(sums, groups, values)
    return sums
