"""Kernels that run in few steps only: trials of an autotuner, and kernels that run once.

An autotuner waits for an event or the device after each kernel that it tries. Without recorded
steps, this is all that reveals its trials. cuDNN tries kernels inside a convolution, in PyTorch
only if the user asks for it: no other convolution waits for events.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np

from hta_widgets.analyses.time import patterns
from hta_widgets.analyses.time.calls import Calls
from hta_widgets.arrays import Int32Array, Int64Array, Mask
from hta_widgets.diagnosis.limits import TrialLimits
from hta_widgets.grouping import distinct, grouped
from hta_widgets.intervals import Intervals
from hta_widgets.trace.model.events import Kind
from hta_widgets.trace.ranks.gpu_work import GpuWork

FEWEST_IN_A_ROW: Final = 5
"""Fewest launches of one kernel and nothing else between two waits that make it a trial: Triton's
``do_bench`` launches this many. A program that is being debugged waits after each launch."""

_FLUSHES: Final = re.compile(r"FillFunctor")
"""Kernels by which autotuners empty the cache between two runs."""

_CONVOLUTION: Final = re.compile(r"(cudnn|miopen)_convolution")

_NO_SEGMENT: Final = -1

NAME_COLUMNS: Final = ("trial_names", "trials", "once")

MOST_NAMED: Final = 5

_NO_NAME: Final = -1


def flushes(work: GpuWork) -> list[int]:
    """Codes of the names of kernels that may empty the cache."""
    codes = distinct(work.name).tolist()
    return [code for code in codes if _FLUSHES.search(work.names[code])]


def launched_kernels(calls: Calls, work: GpuWork) -> Int64Array:
    """Kernels with a launch call, in launch order, without those that empty the cache."""
    is_kernel = calls.events.kind[work.rows] == Kind.KERNEL
    chosen = np.flatnonzero(is_kernel & (work.launch >= 0) & ~np.isin(work.name, flushes(work)))
    launched_ns = calls.events.start_ns[work.launch[chosen]]
    return np.asarray(chosen[np.argsort(launched_ns, kind="stable")])


def segments(calls: Calls, work: GpuWork, kernels: Int64Array, waits: Int64Array) -> Int64Array:
    """Number of the segment between two waits that launches each kernel, ignoring empty ones."""
    launched_ns = calls.events.start_ns[work.launch[kernels]]
    _, segment = np.unique(np.searchsorted(waits, launched_ns), return_inverse=True)
    return np.asarray(segment, dtype=np.int64)


def opens_and_alone(name: Int32Array, segment: Int64Array) -> tuple[Int64Array, Mask]:
    """Where each segment starts, and whether all of its kernels have one name."""
    opens = np.flatnonzero(np.diff(segment, prepend=_NO_SEGMENT))
    return opens, np.minimum.reduceat(name, opens) == np.maximum.reduceat(name, opens)


def repeated_between_waits(calls: Calls, work: GpuWork) -> Int64Array:
    """Kernels launched several times in a row between two waits for the device, and no others."""
    waits, kernels = _waits(calls, patterns.WAITS_FOR_DEVICE), launched_kernels(calls, work)
    if not (waits.size and kernels.size):
        return kernels[:0]
    opens, is_alone = opens_and_alone(work.name[kernels], segments(calls, work, kernels, waits))
    sizes = np.diff(np.append(opens, kernels.size))
    return np.asarray(kernels[np.repeat(is_alone & (sizes >= FEWEST_IN_A_ROW), sizes)])


def _waits(calls: Calls, pattern: re.Pattern[str]) -> Int64Array:
    """When the host starts such waits, ascending."""
    return np.sort(calls.start_ns[calls.named(pattern.search) & calls.is_launch_call])


class Trials(NamedTuple):
    """Kernels of some steps of a rank that other steps do not have."""

    columns: Mapping[str, Int64Array]
    """For each step: ``trial_names`` (number of kernel names that an autotuner tries, 0 if none
    does), ``trials`` (ns, their duration), ``once`` (ns, duration of the kernels that run in no
    other step)."""
    names: tuple[str, ...]
    """Names of the kernels tried, longest first."""
    spans_ns: tuple[tuple[int, int], ...] = ()
    """When each series of trials starts and ends on the GPU, or in a convolution on the host,
    ascending; empty without trials, or if steps are recorded."""
    inside: str = ""
    """What all series are in, in words, with a leading space."""

    @property
    def spans(self) -> Intervals:
        """Spans of the series as intervals."""
        return Intervals.union(*np.array(self.spans_ns, np.int64).reshape(-1, 2).T)


def trials(
    calls: Calls, work: GpuWork, step: Int64Array, count: int, limits: TrialLimits
) -> Trials:
    """Find the kernels that only few steps have; ``step`` is the position of each kernel's step."""
    kernels = np.flatnonzero(calls.events.kind[work.rows] == Kind.KERNEL)
    groups = grouped(work.name[kernels], step[kernels])
    name, of_step = work.name[kernels][groups.first], step[kernels][groups.first]
    length_ns = groups.reduce(np.add, work.duration_ns[kernels])
    in_steps = np.bincount(name, minlength=len(work.names))[name]
    tried = (100 * in_steps <= limits.steps_percent * count) & (groups.sizes >= limits.runs)
    tried &= ~np.isin(name, flushes(work))
    names = np.bincount(of_step[tried], minlength=count)
    is_trial = np.zeros(count, dtype=np.bool_)
    in_a_row = repeated_between_waits(calls, work) if tried.any() else kernels[:0]
    for each in np.flatnonzero(names >= limits.kernels).tolist():
        codes = name[tried & (of_step == each)]
        mine = kernels[(step[kernels] == each) & np.isin(work.name[kernels], codes)]
        measured = np.unique(work.name[np.intersect1d(mine, in_a_row)]).size
        is_trial[each] = (
            _waits_between(calls, work, mine) >= codes.size or measured >= limits.kernels
        )
    tried &= is_trial[of_step]
    longest = np.flatnonzero(tried)[np.argsort(-length_ns[tried], kind="stable")]
    distinct = dict.fromkeys(name[longest].tolist())
    return Trials(
        columns={
            "trial_names": np.where(is_trial, names, 0),
            "trials": _sums(length_ns, of_step, tried, count),
            "once": _sums(length_ns, of_step, in_steps == 1, count),
        },
        names=tuple(work.names[code] for code in [*distinct][:MOST_NAMED]),
    )


def _waits_between(calls: Calls, work: GpuWork, tried: Int64Array) -> int:
    """Number of waits for events between the first and the last launch of some kernels."""
    launch = work.launch[tried]
    starts = calls.events.start_ns[launch[launch >= 0]]
    if not starts.size:
        return 0
    at = _waits(calls, patterns.WAITS_FOR_EVENT)
    slack_ns = int(np.ptp(starts)) // starts.size
    return int(np.count_nonzero((at >= starts.min()) & (at <= starts.max() + slack_ns)))


def _sums(length_ns: Int64Array, step: Int64Array, chosen: Mask, count: int) -> Int64Array:
    return np.bincount(step[chosen], length_ns[chosen], count).astype(np.int64)


def unmarked_trials(calls: Calls, work: GpuWork, limits: TrialLimits) -> Trials | None:
    """Find the stretches in which an autotuner tries kernels; None without any.

    Between two waits of the host for an event, it launches kernels of one name only. Several names
    follow each other in this way, and run nowhere else but in other such stretches. Models launch
    many kernels between two waits.

    The limit on steps applies to the recorded time here.
    """
    waits = _waits(calls, patterns.WAITS_FOR_EVENT)
    if waits.size < limits.kernels:
        return None
    kernels = launched_kernels(calls, work)
    if (of_convolutions := _in_convolutions(calls, work, kernels, limits)) is not None:
        return of_convolutions
    name, segment = work.name[kernels], segments(calls, work, kernels, waits)
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


def _in_convolutions(
    calls: Calls, work: GpuWork, kernels: Int64Array, limits: TrialLimits
) -> Trials | None:
    """Find the convolutions that try kernels: several, between waits for events inside one."""
    waits = np.flatnonzero(calls.named(patterns.WAITS_FOR_EVENT.search) & calls.is_launch_call)
    waits = waits[np.append(calls.named(_CONVOLUTION.search), False)[calls.operator[waits]]]
    around = calls.operator[calls.places_of(work.launch[kernels])]
    launched_ns, found, spans = calls.events.start_ns[work.launch[kernels]], [], []
    for place in distinct(calls.operator[waits]).tolist():
        own = waits[calls.operator[waits] == place]
        wait_ns = np.sort(calls.start_ns[own])
        tried = np.flatnonzero((around == place) & (launched_ns < wait_ns[-1]))
        segments = np.unique(np.searchsorted(wait_ns, launched_ns[tried]))
        names = np.unique(work.name[kernels[tried]])
        if min(segments.size, names.size) >= limits.kernels:
            found.append(kernels[tried])
            spans.append((int(launched_ns[tried[0]]), int(calls.forest.cut_end_ns[own].max())))
    if not found:
        return None
    return _trials(work, np.concatenate(found), sorted(spans))._replace(inside=" in convolutions")


def _stretches(name: Int32Array, segment: Int64Array) -> list[Int64Array]:
    """Kernels of each series of consecutive segments that have one name each.

    The last kernels of one name before a series are its first trials: the host does not wait before
    these.
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


def _runs_elsewhere(name: Int32Array, stretches: list[Int64Array]) -> Mask:
    """Which names run outside all stretches."""
    is_outside = np.ones(name.size, dtype=np.bool_)
    is_outside[np.concatenate(stretches)] = False
    return np.asarray(np.bincount(name[is_outside], minlength=int(name.max()) + 1) > 0)


def _tried(name: Int32Array, rows: Int64Array, elsewhere: Mask, limits: TrialLimits) -> Int64Array:
    """Kernels of a stretch whose name runs often enough in it, and never outside stretches."""
    names, which, runs = np.unique(name[rows], return_inverse=True, return_counts=True)
    return np.asarray(rows[((runs >= limits.runs) & ~elsewhere[names])[which]])


def _trials(work: GpuWork, tried: Int64Array, spans: list[tuple[int, int]]) -> Trials:
    length_ns = np.bincount(work.name[tried], work.duration_ns[tried], len(work.names))
    codes = np.argsort(-length_ns, kind="stable")
    codes = codes[length_ns[codes] > 0]
    columns = {"trial_names": codes.size, "trials": int(work.duration_ns[tried].sum()), "once": 0}
    return Trials(
        columns={name: np.array([value], dtype=np.int64) for name, value in columns.items()},
        names=tuple(work.names[code] for code in codes[:MOST_NAMED].tolist()),
        spans_ns=tuple(spans),
    )
