"""What a rank needs to know of the others: until when each of its communication kernels waits."""

from __future__ import annotations

import numpy as np

from hta_widgets.analyses.clocks.aligned import job_clocks
from hta_widgets.analyses.collectives.analysis import job_waits
from hta_widgets.analyses.communication.kernels import P2P
from hta_widgets.analyses.communication.partition import RankSplit
from hta_widgets.trace.job import Job


def rank_splits(job: Job) -> dict[int, RankSplit]:
    """The split of each rank of a job."""
    kernels, waits = job_clocks(job).matches.kernels, job_waits(job)
    matches = waits.matches
    wait_ns = waits.wait_ns + waits.unexplained_ns
    by_series = np.array([*(each.operation == P2P for each in kernels.all_series), False])
    is_p2p = by_series[matches.series][matches.of_row]
    places, rows = kernels.place[matches.rows], kernels.row[matches.rows]
    found = {}
    for place, rank in enumerate(kernels.ranks):
        own = np.flatnonzero(places == place)
        own = own[np.argsort(rows[own], kind="stable")]
        found[rank] = RankSplit(rows[own], wait_ns[own], is_p2p[own])
    return found
