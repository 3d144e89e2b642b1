"""Kernels that an autotuner tries in a recording without steps."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from hta_widgets.diagnosis.facts.trial_waits import (
    launched_kernels,
    opens_and_alone,
    segments,
    waits_for_events,
)
from hta_widgets.diagnosis.facts.trials import MOST_NAMED, Trials
from hta_widgets.diagnosis.limits import TrialLimits
from hta_widgets.trace.ranks.gpu_work import GpuWork
from hta_widgets.trace.ranks.rank import Rank

_NO_NAME: Final = -1

Rows = NDArray[np.int64]


def unmarked_trials(rank: Rank, work: GpuWork, limits: TrialLimits) -> Trials | None:
    """Find the stretches in which an autotuner tries kernels; None without any.

    Between two waits of the host for an event, it launches kernels of one name only; some names
    follow each other so, and run nowhere else but in other such stretches. Models launch many
    kernels between two waits.

    Parameters
    ----------
    rank : Rank
    work : GpuWork
        Of its device.
    limits : TrialLimits
        Of the steps, the share is that of the recorded time.
    """
    waits = waits_for_events(rank)
    if waits.size < limits.kernels:
        return None
    kernels = launched_kernels(rank, work)
    name, segment = work.name[kernels], segments(rank, work, kernels, waits)
    whole_ns = int(work.end_ns.max() - work.start_ns.min())
    stretches = _stretches(name, segment)
    if not stretches:
        return None
    elsewhere = _runs_elsewhere(name, stretches)
    tried = [_tried(name, rows, elsewhere, limits) for rows in stretches]
    found = [
        kernels[trials]
        for trials, rows in zip(tried, stretches, strict=True)
        if limits.kernels <= np.unique(name[trials]).size <= np.unique(segment[rows]).size
    ]
    spans = [(int(work.start_ns[each].min()), int(work.end_ns[each].max())) for each in found]
    spent_ns = sum(end - start for start, end in spans)
    is_part = 100 * spent_ns <= limits.steps_percent * whole_ns
    return _trials(work, np.concatenate(found), spans) if found and is_part else None


def _stretches(name: NDArray[np.int32], segment: Rows) -> list[Rows]:
    """Kernels of consecutive segments with one name each, for each such series of segments.

    The last kernels of one name before it are the first trials: the host did not wait before them.
    """
    if not segment.size:
        return []
    opens, has_one = opens_and_alone(name, segment)
    edges = np.flatnonzero(np.diff(has_one.astype(np.int8), prepend=0, append=0))
    bounds = np.append(opens, segment.size)
    pairs = zip(bounds[edges[::2]].tolist(), bounds[edges[1::2]].tolist(), strict=True)
    changes = np.flatnonzero(np.diff(name, prepend=_NO_NAME))
    first = changes[np.searchsorted(changes, np.arange(name.size), side="right") - 1]
    return [np.arange(first[max(start - 1, 0)], end) for start, end in pairs]


def _runs_elsewhere(name: NDArray[np.int32], stretches: list[Rows]) -> NDArray[np.bool_]:
    """Whether each name runs outside all stretches."""
    is_outside = np.ones(name.size, dtype=np.bool_)
    is_outside[np.concatenate(stretches)] = False
    return np.asarray(np.bincount(name[is_outside], minlength=int(name.max()) + 1) > 0)


def _tried(
    name: NDArray[np.int32], rows: Rows, elsewhere: NDArray[np.bool_], limits: TrialLimits
) -> Rows:
    """Kernels of a stretch whose name runs often enough in it, and outside of none."""
    names, which, runs = np.unique(name[rows], return_inverse=True, return_counts=True)
    return np.asarray(rows[((runs >= limits.runs) & ~elsewhere[names])[which]])


def _trials(work: GpuWork, tried: Rows, spans: list[tuple[int, int]]) -> Trials:
    length_ns = np.bincount(work.name[tried], work.duration_ns[tried], len(work.names))
    codes = np.argsort(-length_ns, kind="stable")
    codes = codes[length_ns[codes] > 0]
    columns = {"trial_names": codes.size, "trials": int(work.duration_ns[tried].sum()), "once": 0}
    return Trials(
        columns={name: np.array([value], dtype=np.int64) for name, value in columns.items()},
        names=tuple(work.names[code] for code in codes[:MOST_NAMED].tolist()),
        spans_ns=tuple(spans),
    )
