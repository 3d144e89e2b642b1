"""The critical path as lanes of the timeline: each rank has the pieces that run on it."""

from __future__ import annotations

from typing import Final

import numpy as np

from hta_widgets.analyses.clocks.aligned import job_clocks
from hta_widgets.analyses.timeline.added import AddedLane, JobLaneKind, LanesOfRanks
from hta_widgets.analyses.timeline.classes import CLASSES
from hta_widgets.analyses.timeline.lane_name import LaneName
from hta_widgets.analyses.timeline.tracks import Segments, Tracks
from hta_widgets.arrays import Int64Array
from hta_widgets.diagnosis.rank_answers import replay
from hta_widgets.diagnosis.replay.critical_path import CriticalPath
from hta_widgets.diagnosis.replay.host_work import HOST_WORK
from hta_widgets.diagnosis.replay.pieces import CLASSES as PATH_CLASSES
from hta_widgets.errors import ParameterError, number_ranges
from hta_widgets.trace.job import Job

FIRST_CODE: Final = len(CLASSES)
"""Code of the first of `PATH_CLASSES` in a lane, where all others are classes of the timeline."""

_LANE: Final = "path 0"
_OF_CALLS: Final = np.isin(PATH_CLASSES, ("host", *HOST_WORK, "return of a wait"))
_NO_WORK: Final = "no GPU work was recorded"
_UNSOUND: Final = "the recorded times contradict each other, so it is not known what waits for what"


def critical_path_lanes(job: Job) -> LanesOfRanks:
    """The critical path of all analysed steps: a lane of each rank that it runs through.

    A piece has the row of its operation. On the host, and where a wait returns, it has that of the
    call at which it ends, or that waits.
    """
    try:
        found = replay(job)
    except ParameterError:
        return LanesOfRanks({}, _NO_WORK)
    if not found.is_sound:
        return LanesOfRanks({}, _UNSOUND)
    path = found.path
    segments = _segments(job, path)
    name = LaneName(_LANE, "path", "path", unit="ns", most=(path.length_ns,))
    tracks = Tracks.of(segments).by_lane
    lanes = {job.ranks[place]: (AddedLane(name, of),) for place, of in tracks.items()}
    through = f"{'rank' if len(lanes) == 1 else 'ranks'} {number_ranges(lanes)}"
    return LanesOfRanks(lanes, f"the critical path runs through {through}")


def _segments(job: Job, path: CriticalPath) -> Segments:
    """The pieces by position of their rank, on its own clock."""
    parts, pieces = path.parts, path.pieces
    place = np.searchsorted(job.ranks, pieces["rank"].to_numpy())
    row = np.where(_OF_CALLS[parts.of], pieces["call"].to_numpy(), pieces["row"].to_numpy())
    code = (FIRST_CODE + parts.of).astype(np.int8)
    start_ns, end_ns = (_own(job, each, place) for each in (parts.start_ns, parts.end_ns))
    return Segments(place, code, start_ns, end_ns, row)


def _own(job: Job, times_ns: Int64Array, places: Int64Array) -> Int64Array:
    return job_clocks(job).alignment.own(times_ns, places) if len(job.ranks) > 1 else times_ns


def _why_none(job: Job) -> str:
    return "" if job.has_gpu_work() else _NO_WORK


CRITICAL_PATH: Final = JobLaneKind("path", "critical path", critical_path_lanes, _why_none)
"""What sets the time of the steps."""
