"""Waiting and transfer in the collectives of several ranks.

Nothing can be transferred before the last member has started::

    rank 0   |-------- wait --------|-- transfer --|
    rank 1          |---- wait -----|-- transfer --|
    rank 2                          |-- transfer --|      late
             first arrival      last arrival      end
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hta_widgets.analyses.clocks.aligned import TOGETHER_NS, JobClocks
from hta_widgets.analyses.clocks.alignment import APART_NS, APART_SHARE, CONTRADICTORY
from hta_widgets.analyses.communication.kernels import JobCollectives
from hta_widgets.analyses.communication.matching import Matches
from hta_widgets.analyses.time.calls import calls_of
from hta_widgets.analyses.time.modules import NO_MODULE, PHASES, module_paths, phases
from hta_widgets.arrays import Float64Array, Int8Array, Int64Array, Mask
from hta_widgets.grouping import grouped
from hta_widgets.intervals import Times
from hta_widgets.quantities import counted
from hta_widgets.trace.model.events import TextColumn
from hta_widgets.trace.model.kernels import KernelType
from hta_widgets.trace.ranks.rank import Rank

TRANSFER, SKEW, MIXED, INCONCLUSIVE = (
    "transfer-dominated",
    "arrival-skew-dominated",
    "mixed",
    "inconclusive",
)

CLASSES: Final = (TRANSFER, SKEW, MIXED, INCONCLUSIVE)

DOMINATES: Final = 0.8
"""Share of the mean duration from which waiting or transfer decides the class."""

MOST_PERCENT_LONGER: Final = 105
"""Longest transfer in percent of the shortest one of its size: any more is waiting for a rank whose
trace is missing."""

NOBODY: Final = -1

_NONE: Final = -1


@dataclass(frozen=True, eq=False)
class Waits:
    """Waiting and transfer of each kernel of the matched collectives."""

    matches: Matches
    """Collectives whose kernels end together."""
    start_ns: Times
    """Start of each of ``matches.rows`` on the common clock, like `end_ns`."""
    end_ns: Times
    tolerance_ns: Float64Array
    """For each collective, lateness up to this cannot be told from noise."""
    is_complete: Mask
    """Whether each collective has all of its members."""
    notices: tuple[str, ...]

    @cached_property
    def duration_ns(self) -> Times:
        """Duration of each kernel, as recorded."""
        return self.matches.kernels.duration_ns[self.matches.rows]

    @cached_property
    def first_ns(self) -> Times:
        """First arrival at each collective."""
        return self.matches.least(self.start_ns)

    @cached_property
    def last_ns(self) -> Times:
        """Last arrival at each collective."""
        return self.matches.most(self.start_ns)

    @cached_property
    def median_end_ns(self) -> Times:
        """End of each collective: the median of its members."""
        return medians(self.matches, self.end_ns)

    @cached_property
    def lateness_ns(self) -> Times:
        """Time from the median arrival to the last one."""
        return self.last_ns - medians(self.matches, self.start_ns)

    @cached_property
    def wait_ns(self) -> Times:
        """Time of each kernel before the last known arrival."""
        until_last = self.last_ns[self.matches.of_row] - self.start_ns
        return np.asarray(np.clip(until_last, 0, self.duration_ns))

    @cached_property
    def unexplained_ns(self) -> Times:
        """Time of each kernel after the last known arrival that is not transfer.

        If a trace is missing, its rank may have arrived last. Transfers of the same collective and
        size take as long as the shortest; any more is waiting that no recorded rank explains.
        """
        longest = self._longest_transfers()
        excess = np.maximum(self.transfer_of_all_ns - longest, 0)
        after = self.duration_ns - self.wait_ns
        return np.asarray(np.minimum(excess[self.matches.of_row], after))

    @cached_property
    def transfer_ns(self) -> Times:
        """The rest of each kernel's time."""
        return self.duration_ns - self.wait_ns - self.unexplained_ns

    @cached_property
    def transfer_of_all_ns(self) -> Times:
        """Time from the last known arrival at each collective to its end."""
        return np.asarray(np.maximum(self.median_end_ns - self.last_ns, 0))

    @cached_property
    def late_place(self) -> Int64Array:
        """Position of the rank that arrives last; -1 if not certain."""
        matches = self.matches
        is_last = np.flatnonzero(self.start_ns == self.last_ns[matches.of_row])
        collectives, first = np.unique(matches.of_row[is_last], return_index=True)
        late = np.full(len(matches), NOBODY, dtype=np.int64)
        late[collectives] = matches.kernels.place[matches.rows[is_last[first]]]
        late[(self.lateness_ns < self.tolerance_ns) | ~self.is_complete] = NOBODY
        return late

    @cached_property
    def classes(self) -> Int8Array:
        """Class of each collective, by position in `CLASSES`."""
        mean_ns = self._sums(self.duration_ns) / self.matches.members
        waiting = self._sums(self.wait_ns) / self.matches.members >= DOMINATES * mean_ns
        transferring = self.transfer_of_all_ns >= DOMINATES * mean_ns
        found = np.full(len(self.matches), CLASSES.index(MIXED), dtype=np.int8)
        found[waiting] = CLASSES.index(SKEW)
        found[transferring] = CLASSES.index(TRANSFER)
        is_blurred = self.tolerance_ns > (1 - DOMINATES) * mean_ns
        found[is_blurred | ~self.is_complete] = CLASSES.index(INCONCLUSIVE)
        return found

    def _sums(self, values: Times) -> Float64Array:
        sums = np.bincount(self.matches.of_row, values, minlength=len(self.matches))
        return sums.astype(np.float64)

    def _longest_transfers(self) -> Times:
        """Longest time that the transfer of each collective takes, as far as known."""
        longest = self.transfer_of_all_ns.copy()
        incomplete = np.flatnonzero(~self.is_complete)
        if not incomplete.size:
            return longest
        matches = self.matches
        kernels, rows = matches.kernels, matches.rows[matches.edges[:-1]][incomplete]
        kinds = {(each.operation, each.size): 0 for each in kernels.all_series}
        number = {kind: position for position, kind in enumerate(kinds)}
        kind = np.array([number[each.operation, each.size] for each in kernels.all_series])
        alike = grouped(
            kind[matches.series[incomplete]], kernels.elements[rows], kernels.size_bytes[rows]
        )
        shortest = alike.reduce(np.minimum, longest[incomplete])
        limit = shortest * MOST_PERCENT_LONGER // 100
        longest[incomplete[alike.order]] = np.repeat(limit, alike.sizes)
        return longest


def split_waits(clocks: JobClocks, world_size: int) -> Waits:
    """Split the time of all matched collectives, on the common clock of the job.

    `world_size` is the number of ranks that the traced job had, 0 if not recorded.
    """
    matches = clocks.matches
    first = matches.kernels.place[matches.rows[matches.edges[:-1]]]
    judged = [clocks.judged_at(place) for place in range(len(clocks.ranks))]
    contradictory = np.array([state == CONTRADICTORY for state in clocks.states])
    matches = matches.without(contradictory[first]) if contradictory.any() else matches
    found = _on_common_clock(matches, clocks)
    apart_ns = matches.most(np.abs(found.end_ns - found.median_end_ns[matches.of_row]))
    allowed_ns = np.maximum(APART_NS, APART_SHARE * found.transfer_of_all_ns)
    is_apart = apart_ns > allowed_ns
    matches = matches.without(is_apart, *_apart_notices(matches, is_apart))
    tolerance = [float(TOGETHER_NS) if each is None else each.fit.tolerance_ns for each in judged]
    first = matches.kernels.place[matches.rows[matches.edges[:-1]]]
    return replace(
        _on_common_clock(matches, clocks),
        tolerance_ns=np.array(tolerance)[first],
        is_complete=_is_complete(matches, world_size),
        notices=matches.notices,
    )


def medians(matches: Matches, values: Times) -> Times:
    """Median of the values of each collective, rounded down to the ns."""
    order = np.lexsort((values, matches.of_row))
    ascending = values[order]
    lower = ascending[matches.edges[:-1] + (matches.members - 1) // 2]
    upper = ascending[matches.edges[:-1] + matches.members // 2]
    return np.asarray(lower + (upper - lower) // 2)


def _on_common_clock(matches: Matches, clocks: JobClocks) -> Waits:
    kernels, rows = matches.kernels, matches.rows
    places = kernels.place[rows]
    none: NDArray[Any] = np.zeros(len(matches))
    return Waits(
        matches=matches,
        start_ns=clocks.alignment.aligned(kernels.start_ns[rows], places),
        end_ns=clocks.alignment.aligned(kernels.end_ns[rows], places),
        tolerance_ns=none,
        is_complete=none == 0,
        notices=(),
    )


def _apart_notices(matches: Matches, is_apart: Mask) -> list[str]:
    """Notice about collectives that should end together but do not."""
    count = int(np.count_nonzero(is_apart & matches.meets))
    if not count:
        return []
    words = (
        f"{counted(count, 'collective')} of {len(matches):,} that were matched do not end together "
        "on their ranks; their waiting and transfer are not told apart"
    )
    return [words]


def _is_complete(matches: Matches, world_size: int) -> Mask:
    """Whether the traces of all members were opened."""
    sizes = np.array([each.size for each in matches.kernels.all_series], dtype=np.int64)
    expected = sizes[matches.series]
    is_whole = len(matches.kernels.ranks) >= world_size
    return np.where(expected > 0, matches.members >= expected, is_whole)


class RankOwners(NamedTuple):
    """Owners of the communication kernels of a rank."""

    row: Int64Array
    """Rows of the kernels, ascending."""
    module: TextColumn
    """Names of the modules around the launch call, or around the forward operator that it
    differentiates; code -1 for none."""
    phase: Int8Array
    """Position in `PHASES`; -1 if the launch is not recorded."""


def rank_owners(rank: Rank) -> RankOwners:
    """Owners of the communication kernels of a rank."""
    work = rank.gpu_work
    positions = np.flatnonzero(work.type == KernelType.COMMUNICATION)
    positions = positions[np.argsort(work.rows[positions], kind="stable")]
    launches = calls_of(rank).places_of(work.launch[positions].astype(np.int64))
    phase = np.append(phases(rank), np.int8(_NONE))[launches]
    paths = module_paths(rank)
    used, code = np.unique(np.append(paths.at(launches), NO_MODULE), return_inverse=True)
    texts = tuple(paths.paths[each] for each in used[1:].tolist())
    module = TextColumn((code[:-1] - 1).astype(np.int32), texts)
    return RankOwners(work.rows[positions], module, phase)


def owner_columns(kernels: JobCollectives, owners: Sequence[RankOwners]) -> dict[str, object]:
    """The columns ``module`` and ``phase`` of all ranks' kernels, from the owners of each rank."""
    modules = TextColumn.joined([each.module for each in owners])
    first = np.cumsum([0, *(each.row.size for each in owners)])
    at = np.zeros(len(kernels), dtype=np.int64)
    for place, each in enumerate(owners):
        here = np.flatnonzero(kernels.place == place)
        at[here] = first[place] + np.searchsorted(each.row, kernels.row[here])
    phase = np.concatenate([np.zeros(0, np.int8), *(each.phase for each in owners)])[at]
    return {
        "module": modules.take(at).to_categorical(),
        "phase": pd.Categorical.from_codes(phase, pd.Index(PHASES, dtype=object)),
    }
