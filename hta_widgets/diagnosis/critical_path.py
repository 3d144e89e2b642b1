"""The critical path, which sets the time of a step: the longest path through all waits.

On the timeline, each rank has a lane with the pieces that run on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd

from hta_widgets.analyses.clocks.aligned import job_clocks
from hta_widgets.analyses.result import Result
from hta_widgets.analyses.time.rows import largest_first
from hta_widgets.analyses.time.window import NO_STEP
from hta_widgets.analyses.timeline.added import AddedLane, JobLaneKind, LanesOfRanks
from hta_widgets.analyses.timeline.classes import CLASSES
from hta_widgets.analyses.timeline.tracks import LaneName, Segments, Tracks
from hta_widgets.arrays import Int64Array
from hta_widgets.diagnosis.rank_answers import replay
from hta_widgets.diagnosis.replay.critical_path import CriticalPath
from hta_widgets.diagnosis.replay.host_work import HOST_WORK
from hta_widgets.diagnosis.replay.pieces import CLASSES as PATH_CLASSES
from hta_widgets.diagnosis.what_if import why_not_replayed
from hta_widgets.errors import ParameterError
from hta_widgets.names.readable import readable_name
from hta_widgets.names.shorten import short_name
from hta_widgets.quantities import duration, named_numbers, percent
from hta_widgets.trace.job import Job, select_ranks

WORTH_NAMING: Final = 0.01
"""Fraction of the path above which the costliest kernel call is named: in a job held up by its
host, it was one of 142 µs in 1.4 s."""


@dataclass(frozen=True, kw_only=True, eq=False)
class CriticalPathTables(Result):
    """The critical path of the analysed steps."""

    classes: pd.DataFrame
    """``class``, ``ns`` and ``percent`` of the path, the longest first."""
    kernels: pd.DataFrame
    """A row for each kernel of the steps, ordered by the gain without one of its calls: see
    `CriticalPath.by_kernel`."""
    operators: pd.DataFrame
    """``operator``, ``host_ns``, ``gpu_ns``, ``ns``, ``percent``, the longest first."""
    ranks: pd.DataFrame
    """``rank``, ``class``, ``ns``, ``percent``: the time in which others wait for a rank belongs to
    that rank."""
    pieces: pd.DataFrame
    """In chronological order: see `CriticalPath.pieces`."""
    find: Callable[[], CriticalPath] | None
    """Computes `path`."""

    @property
    def path(self) -> CriticalPath | None:
        """The path's pieces, and slack and drag of everything; None if nothing ran on a GPU.

        It is computed each time, because it is large: 40 MB for 1.5 M events.
        """
        return self.find() if self.find else None


def critical_path(
    job: Job, ranks: Iterable[int] | None = None, *, steps: Iterable[int] | None = None
) -> CriticalPathTables:
    """Find out what sets the time of the steps.

    Parameters
    ----------
    job : Job
    ranks : iterable of int, optional
        Ranks whose steps count; all by default. The path may run through other ranks, if these are
        waited for.
    steps : iterable of int, optional
        ProfilerSteps that count; all analysed ones by default.

    Raises
    ------
    UnknownRankError
        If the job lacks a rank.
    UnknownStepError
        If a step was not recorded.
    """
    chosen, wanted = select_ranks(job, ranks), None if steps is None else tuple(steps)
    if why := why_not_replayed(job, chosen):
        return _nothing(job, chosen, why)
    found = replay(job, chosen, wanted)
    path = found.critical_path()
    operators = path.by_operator(job)  # before slack and drag, which take as much memory
    kernels = largest_first(path.by_kernel, ["drag_ns", "ns"])
    return CriticalPathTables(
        finding=_finding(path, kernels),
        notices=(*job.notices_for(chosen), *found.notices),
        classes=path.by_class,
        kernels=kernels,
        operators=operators,
        ranks=path.by_rank,
        pieces=path.pieces,
        find=lambda: replay(job, chosen, wanted).critical_path(),
    )


def _nothing(job: Job, ranks: tuple[int, ...], why: str) -> CriticalPathTables:
    """The tables if nothing can be replayed."""
    columns = {
        "classes": ("class", "ns", "percent"),
        "kernels": ("kernel", "calls", "ns", "percent", "slack_ns", "drag_ns", "together_ns"),
        "operators": ("operator", "host_ns", "gpu_ns", "ns", "percent"),
        "ranks": ("rank", "class", "ns", "percent"),
        "pieces": ("start_ns", "end_ns", "class", "rank", "step", "kernel", "ns", "percent"),
    }
    tables = {name: pd.DataFrame({each: [] for each in of}) for name, of in columns.items()}
    return CriticalPathTables(finding=why, notices=job.notices_for(ranks), find=None, **tables)


def _finding(path: CriticalPath, kernels: pd.DataFrame) -> str:
    whole = duration(path.length_ns)
    takes, shorter = "The steps take", "shorten them"
    if len(path.steps) == 1:
        is_marked = path.steps != (NO_STEP,)
        takes, shorter = f"The {'step' if is_marked else 'GPU span'} takes", "shorten it"
    said = f"{takes} {whole}, {path.bound_by}"
    most = kernels.iloc[0] if len(kernels) else None
    if most is None or most["drag_ns"] <= WORTH_NAMING * path.length_ns:
        least = percent(100 * WORTH_NAMING)
        pieces = path.pieces
        times_ns = pieces["ns"][pieces["class"].isin(("compute", "copies"))]
        is_even = bool((times_ns > WORTH_NAMING * path.length_ns).any())
        why = ", as another path is almost as long" * is_even
        no_call = "no single kernel call, if it took no time, would"
        return f"{said}; {no_call} {shorter} by {least}{why}."
    share = percent(100 * most["drag_ns"] / path.length_ns)
    name = readable_name(most["kernel"]) or short_name(most["kernel"], 40)
    return (
        f"{said}; the costliest single kernel call is {name}: "
        f"{duration(float(most['drag_ns']))} ({share})."
    )


FIRST_CODE: Final = len(CLASSES)
"""Code of the first of `PATH_CLASSES` in a lane; all lower codes are classes of the timeline."""

_LANE: Final = "path 0"
_OF_CALLS: Final = np.isin(PATH_CLASSES, ("host", *HOST_WORK, "return from a sync"))
_NO_WORK: Final = "no GPU work was recorded"
_UNSOUND: Final = "the recorded times contradict each other, so it is not known what waits for what"


def critical_path_lanes(job: Job) -> LanesOfRanks:
    """The critical path of all analysed steps, as a lane on each rank that it runs through.

    A piece has the row of its operation. On the host, it has the row of the call at which it ends,
    and where a wait returns, that of the call that waits.
    """
    if why := _why_none(job):
        return LanesOfRanks({}, why)
    try:
        found = replay(job)
    except ParameterError:
        return LanesOfRanks({}, _NO_WORK)
    if not found.is_sound:
        return LanesOfRanks({}, _UNSOUND)
    path = found.critical_path()
    segments = _segments(job, path)
    name = LaneName(_LANE, "path", "path", unit="ns", most=(path.length_ns,))
    tracks = Tracks.of(segments).by_lane
    lanes = {job.ranks[place]: (AddedLane(name, of),) for place, of in tracks.items()}
    return LanesOfRanks(lanes, f"the critical path runs through {named_numbers('rank', lanes)}")


def _segments(job: Job, path: CriticalPath) -> Segments:
    """The pieces, by position of their rank and on its own clock."""
    of, pieces = path.parts.of, path.pieces
    place = np.searchsorted(job.ranks, pieces["rank"].to_numpy())
    row = np.where(_OF_CALLS[of], pieces["call"].to_numpy(), pieces["row"].to_numpy())
    code = (FIRST_CODE + of).astype(np.int8)
    start_ns, end_ns = pieces["start_ns"].to_numpy(), pieces["end_ns"].to_numpy()
    return Segments(place, code, _own(job, start_ns, place), _own(job, end_ns, place), row)


def _own(job: Job, times_ns: Int64Array, places: Int64Array) -> Int64Array:
    return job_clocks(job).alignment.own(times_ns, places) if len(job.ranks) > 1 else times_ns


def _why_none(job: Job) -> str:
    return job.doubt_of_idle_time(job.ranks) if job.has_gpu_work() else _NO_WORK


CRITICAL_PATH: Final = JobLaneKind("path", "critical path", critical_path_lanes, _why_none)
"""The lanes that show what sets the time of the steps."""
