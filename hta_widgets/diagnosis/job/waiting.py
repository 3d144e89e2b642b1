"""Host causes that pass on to other ranks through collectives.

Where ranks stall in turns, each step has another slowest rank, and no rank's own time tells what
the stalls cost together::

    rank 0   |== stall ==|-- all_reduce --|         |------ waits ----|-- all_reduce --|
    rank 1               |-- all_reduce --|== stall =================|-- all_reduce --|
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hta_widgets.analyses.budget.host_gaps import GAP, HOST_GAPS
from hta_widgets.analyses.collectives.analysis import job_waits
from hta_widgets.analyses.time.window import NO_STEP
from hta_widgets.arrays import Int64Array
from hta_widgets.diagnosis.facts.host_facts import BeforeCollectives
from hta_widgets.diagnosis.job.steps import Matrix, Steps
from hta_widgets.intervals import Times
from hta_widgets.trace.job import Job

_NOBODY = -1


@dataclass(frozen=True, eq=False)
class CollectiveWaits:
    """The waiting of all ranks in collectives, and what the late rank did before each.

    Attributes
    ----------
    rank, step : ndarray of int64
        Of each kernel that waits.
    exposed_ns : ndarray of int64
        How long it waits while nothing else runs.
    late_rank, late_step : ndarray of int64
        Of the rank that it waits for.
    gaps_ns : ndarray of int64, shape (kernels, kinds)
        Time of each of `HOST_GAPS` of the late rank since its collective before.
    """

    rank: Int64Array
    step: Int64Array
    exposed_ns: Times
    late_rank: Int64Array
    late_step: Int64Array
    gaps_ns: Int64Array

    @classmethod
    def of(cls, job: Job, by_rank: Mapping[int, BeforeCollectives]) -> CollectiveWaits:
        """Put together what the ranks did before they met."""
        waits = job_waits(job)
        matches = waits.matches
        kernels = matches.kernels
        places, rows = kernels.place[matches.rows], kernels.row[matches.rows]
        numbers = np.array([*kernels.ranks, _NOBODY], dtype=np.int64)
        step = np.full(rows.size, NO_STEP - 1)  # of ranks without facts: no step at all

        exposed_ns = np.zeros(rows.size, dtype=np.int64)
        gaps_ns = np.zeros((rows.size, len(HOST_GAPS)), dtype=np.int64)
        for place, number in enumerate(kernels.ranks):
            own = np.flatnonzero(places == place)
            own = own[np.argsort(rows[own], kind="stable")]
            facts = by_rank.get(number)
            if facts is not None:
                step[own], exposed_ns[own], gaps_ns[own] = facts
        late = _late_rows(waits.late_place, places, matches.of_row)
        waiting = np.flatnonzero((late != _NOBODY) & (exposed_ns > 0))
        waiting = waiting[late[waiting] != waiting]
        late = late[waiting]
        return cls(
            rank=numbers[places[waiting]],
            step=step[waiting],
            exposed_ns=exposed_ns[waiting],
            late_rank=numbers[places[late]],
            late_step=step[late],
            gaps_ns=gaps_ns[late],
        )

    def propagated(self, steps: Steps, names: Sequence[str], share: Matrix | None = None) -> Matrix:
        """Time (ns) of each rank and step that others pass on to it.

        Parameters
        ----------
        steps : Steps
        names : sequence of str
            Which of `HOST_GAPS` are passed on.
        share : ndarray, optional
            Part of this time that counts, by rank and step; all of it when not given.
        """
        place, late_place = (_places(steps.ranks, of) for of in (self.rank, self.late_rank))
        number, late_number = (_places(steps.numbers, of) for of in (self.step, self.late_step))
        known = (place != _NOBODY) & (late_place != _NOBODY) & (number != _NOBODY)
        chosen = np.flatnonzero(known & (late_number != _NOBODY))
        by_late = self.gaps_ns[chosen][:, [GAP[name] for name in names]].sum(axis=1)
        if share is not None:
            by_late = by_late * share[late_place[chosen], late_number[chosen]]
        found = np.zeros(steps.own.shape)
        taken = np.minimum(self.exposed_ns[chosen], by_late)
        np.add.at(found, (place[chosen], number[chosen]), taken)
        return found


def _late_rows(late_place: Int64Array, places: Int64Array, of_row: Int64Array) -> Int64Array:
    """For each row of the matches, the row of the rank that it waits for; -1 if not certain."""
    is_late = places == late_place[of_row]
    row_of = np.full(late_place.size, _NOBODY)
    rows = np.flatnonzero(is_late)
    row_of[of_row[rows]] = rows
    return np.asarray(row_of[of_row])


def _places(known: Sequence[int], asked: Int64Array) -> Int64Array:
    """Position of each number among the known ones, -1 where it is none."""
    numbers = np.array([*known], dtype=np.int64)
    order = np.argsort(numbers)
    if not order.size:
        return np.full(asked.size, _NOBODY)
    at = np.minimum(np.searchsorted(numbers[order], asked), order.size - 1)
    return np.where(numbers[order][at] == asked, order[at], _NOBODY)
