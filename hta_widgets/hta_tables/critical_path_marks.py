"""Which stretch of a recording HTA's `annotation` and `instance_id` name."""

from __future__ import annotations

from numbers import Integral
from typing import Final

import numpy as np

from hta_widgets.arrays import Int64Array
from hta_widgets.diagnosis.replay.window_path import Mark
from hta_widgets.errors import ParameterError
from hta_widgets.names.shorten import cut_in_the_middle
from hta_widgets.quantities import counted
from hta_widgets.trace.model.events import GPU_WORK, LAUNCH_CALLS, Kind, KindSet
from hta_widgets.trace.ranks.rank import Rank

InstanceId = int | tuple[int, int] | None

_CALLS: Final = (Kind.CPU_OP, Kind.PYTHON, *LAUNCH_CALLS)
_SOUGHT: Final = ((Kind.ANNOTATION,), _CALLS, (Kind.GPU_ANNOTATION,), GPU_WORK)
"""What a name is sought among, one after another: an annotation of the host is often there again on
the GPU, and HTA counts both as its instances."""

_RECORDING: Final = ((Kind.ANNOTATION, *_CALLS, *GPU_WORK),)

_ON_GPU: Final = KindSet((Kind.GPU_ANNOTATION, *GPU_WORK))
_SHOWN: Final = 8
_LONGEST: Final = 60


def mark_of(rank: Rank, annotation: str, instance_id: InstanceId) -> Mark | None:
    """The stretch from the first to the last of some events; None if the recording is empty.

    Parameters
    ----------
    rank : Rank
    annotation : str
        Part of their name; empty for the whole recording.
    instance_id : int, (first, last) or None
        Which of them, in order of time; 0 when None.

    Raises
    ------
    ParameterError
        If there are no such events.
    """
    rows = _rows_named(rank, annotation)
    if not rows.size:
        return None
    if annotation:
        first, last = _instances(annotation, instance_id, rows.size)
        rows = rows[first : last + 1]
    start_ns, end_ns = rank.trace.events.start_ns[rows], rank.trace.events.end_ns[rows]
    return Mark(
        first=int(rows[np.argmin(start_ns)]),
        last=int(rows[np.argmax(end_ns)]),
        start_ns=int(start_ns.min()),
        end_ns=int(end_ns.max()),
        on_gpu=bool(_ON_GPU.among(rank.trace.events.kind[rows]).all()),
    )


def _rows_named(rank: Rank, annotation: str) -> Int64Array:
    """Analysed events with a name of one kind, in order of time."""
    events = rank.trace.events
    fits = np.array([annotation in name for name in events.name.values], dtype=np.bool_)
    fitting = rank.analysed & np.append(fits, [False])[events.name.codes]
    for kinds in _SOUGHT if annotation else _RECORDING:
        rows = np.flatnonzero(fitting & KindSet(kinds).among(events.kind))
        if rows.size or not annotation:
            return rows
    marks = np.flatnonzero(rank.analysed & (events.kind == Kind.ANNOTATION))
    known = sorted(set(events.names_at(marks)))
    what = ", ".join(repr(cut_in_the_middle(name, _LONGEST)) for name in known[:_SHOWN])
    more = f" and {counted(len(known) - _SHOWN, 'other')}" if len(known) > _SHOWN else ""
    has = f"its annotations are {what}{more}" if known else "it has no annotations"
    left_out = np.append(fits, [False])[events.name.codes[events.kind == Kind.ANNOTATION]].any()
    hint = "include_last_profiler_step=True keeps the last step, or " if left_out else ""
    msg = (
        f"no analysed event of rank {rank.trace.rank} has {annotation!r} in its name; {has}; "
        f"{hint}annotation='' takes the whole recording"
    )
    raise ParameterError(msg)


def _instances(annotation: str, instance_id: InstanceId, count: int) -> tuple[int, int]:
    """First and last of the instances."""
    asked = 0 if instance_id is None else instance_id
    several = asked if isinstance(asked, tuple) else (asked, asked)
    is_fitting = len(several) == 2 and all(isinstance(each, Integral) for each in several)  # noqa: PLR2004
    first, last = map(int, several) if is_fitting else (0, -1)
    if not 0 <= first <= last < count:
        allowed = "0" if count == 1 else f"0 to {count - 1}"
        msg = (
            f"{annotation!r} has {counted(count, 'analysed instance')}, so that instance_id is "
            f"{allowed} or (first, last) of these, got {instance_id!r}"
        )
        raise ParameterError(msg)
    return first, last
