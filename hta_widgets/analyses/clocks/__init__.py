"""How far apart the clocks of the ranks are, measured by the collectives that end together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from hta_widgets.analyses.clocks.aligned import JobClocks, job_clocks
from hta_widgets.analyses.clocks.alignment import ALIGNED, CONTRADICTORY
from hta_widgets.analyses.result import Result
from hta_widgets.quantities import counted, duration, number
from hta_widgets.trace.job import Job, select_ranks

_PER_MILLION = 1e6


@dataclass(frozen=True, kw_only=True, eq=False)
class Clocks(Result):
    """Clock of each rank compared with those of the others.

    Collectives that no rank can finish before all have started (all-reduce, all-gather,
    reduce-scatter, all-to-all, barrier, a send with its receive) end on all ranks at the same time.
    Offsets and drifts make these ends coincide (by medians, so a few odd collectives do not
    matter).

    Attributes
    ----------
    ranks : DataFrame
        One row per rank, ascending: ``rank``; ``component`` (number of the set of ranks that share
        collectives, directly or through others); ``clock`` (``aligned``; ``recorded``: left as in
        the trace; ``contradictory``: as recorded, although it does not explain when collectives
        start and end); ``offset_ns`` (int64; time to add to the rank's own times, which count from
        its first event, to get the time since the first event of all ranks); ``shift_ns`` (int64;
        how much of it is not recorded, relative to most ranks); ``drift_ppm`` (how much slower the
        rank's clock runs than that of most ranks of the component; 0 with fewer than 8 collectives,
        or less than 100 ms, to measure it); ``error_ns`` (median distance of the rank's ends from
        the median end of each collective; NaN if it shares none); ``collectives`` (number used).
    spread_ns : float
        Median distance of an end from the median end of its collective, over all ranks; NaN if no
        collective of several ranks was matched.
    """

    ranks: pd.DataFrame
    spread_ns: float

    @property
    def are_aligned(self) -> bool:
        """Whether times of all ranks can be compared."""
        return bool((self.ranks["clock"] == ALIGNED).all() and (self.ranks["component"] == 0).all())


def clocks(job: Job, ranks: Iterable[int] | None = None) -> Clocks:
    """Align the clocks of the ranks by the collectives that end together.

    Parameters
    ----------
    ranks : iterable of int, optional
        Ranks to list; all if not given. All ranks of the job are aligned with each other in any
        case.
    """
    chosen = select_ranks(job, ranks)
    found = job_clocks(job)
    places = np.sort([found.ranks.index(rank) for rank in chosen])
    table = pd.DataFrame(
        {
            "rank": np.array(found.ranks, dtype=np.int64),
            "component": found.components,
            "clock": np.array(found.states, dtype=object),
            "offset_ns": found.alignment.offset_ns,
            "shift_ns": found.shifts_ns,
            "drift_ppm": _PER_MILLION * found.alignment.drift,
            "error_ns": found.error_ns,
            "collectives": found.collectives,
        }
    )
    table = table.iloc[places].reset_index(drop=True)
    spreads = [each.fit.spread_ns for each in found.judged if each is not None]
    return Clocks(
        ranks=table,
        spread_ns=max(spreads, default=float("nan")),
        finding=_clock_finding(found, table),
        notices=(*job.notices_for(chosen), *found.notices, *found.matches.notices),
    )


def _clock_finding(found: JobClocks, table: pd.DataFrame) -> str:
    if len(found.ranks) == 1:
        return "The job has one rank: there is no other clock to compare with."
    aligned = table[table["clock"] == ALIGNED]
    if aligned.empty:
        return (
            "The clocks of the selected ranks cannot be aligned."
            if (table["clock"] == CONTRADICTORY).any()
            else "The selected ranks are on the clocks that the traces record."
        )
    drift = float(aligned["drift_ppm"].abs().max())
    by = counted(int(aligned["collectives"].max()), "collective")
    if len(aligned) == 1:
        ahead_ns = -int(aligned["shift_ns"].iloc[0])
        where = f"{duration(abs(ahead_ns))} {'ahead of' if ahead_ns > 0 else 'behind'}"
        return (
            f"The recorded clock of rank {aligned['rank'].iloc[0]} "
            f"{f'is {where}' if ahead_ns else 'agrees with'} those of most ranks, as {by} show."
        )
    apart_ns = int(aligned["shift_ns"].max() - aligned["shift_ns"].min())
    drifting = f" and drift by up to {number(drift)} ppm" if drift else ""
    if not apart_ns and not drift:
        return f"The recorded clocks of {counted(len(aligned), 'rank')} agree in {by}."
    return (
        f"The recorded clocks of {counted(len(aligned), 'rank')} are up to {duration(apart_ns)} "
        f"apart{drifting}; {by} align them to {duration(float(aligned['error_ns'].max()))}."
    )
