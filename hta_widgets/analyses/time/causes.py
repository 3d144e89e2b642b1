"""The causes of idle time, and their names in a diagnosis."""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

import numpy as np
import pandas as pd

from hta_widgets.analyses.time.patterns import GRAPH_LAUNCH
from hta_widgets.arrays import Int64Array, Mask
from hta_widgets.intervals import Times
from hta_widgets.quantities import duration, percent
from hta_widgets.trace.model.events import Events

LAUNCH_NS: Final = 15_000
"""A late launch call counts for at least this long: the GPU cannot start when the call does."""

NO_CALL: Final = -1


class Share(Enum):
    """What decides the cause of a stretch of an idle interval."""

    HOST = "what the CPU does until the launch call returns"
    GPU = "what happens between the launch call and the GPU"


class IdleCause(NamedTuple):
    """One cause of idle time."""

    name: str
    """Name in tables."""
    label: str
    """Name on screen."""
    phrase: str
    """End of a sentence about its share of the idle time, with a place for the percentage."""
    share: Share
    gap: str = ""
    """Name in a diagnosis; empty if other rules than the cause decide."""


IDLE_CAUSES: Final = (
    IdleCause(
        "profiler",
        "Profiler",
        "the CPU spent {} in the profiler",
        Share.HOST,
        "gap_profiler",
    ),
    IdleCause(
        "data_loading",
        "Data loading",
        "the CPU spent {} loading data",
        Share.HOST,
        "gap_loader",
    ),
    IdleCause(
        "garbage_collection",
        "Garbage collection",
        "the CPU spent {} collecting garbage",
        Share.HOST,
        "gap_pause",
    ),
    IdleCause(
        "compiling",
        "Compiling",
        "the CPU spent {} compiling",
        Share.HOST,
        "gap_init",
    ),
    IdleCause(
        "allocating",
        "Allocating",
        "the CPU spent {} allocating memory",
        Share.HOST,
        "gap_alloc",
    ),
    IdleCause(
        "initialising",
        "Initialising",
        "the CPU spent {} initialising (contexts, modules, libraries)",
        Share.HOST,
        "gap_init",
    ),
    IdleCause(
        "synchronising",
        "In or after a sync",  # the host may do anything after it: 2.7 s after one of 8 µs
        "{} is in or after waits of the CPU for the GPU",
        Share.HOST,
        "gap_sync",
    ),
    IdleCause(
        "launching",
        "Launching",
        "the CPU spent {} in launch and other API calls",
        Share.HOST,
    ),
    IdleCause("operator", "Operators", "the CPU spent {} in operators", Share.HOST),
    IdleCause(
        "host_code",
        "Other host code",
        "the CPU spent {} in code outside operators",
        Share.HOST,
    ),
    IdleCause(
        "nothing_recorded",
        "Nothing recorded",
        "for {}, nothing is recorded of what the CPU did",
        Share.HOST,
    ),
    IdleCause(
        "between_kernels",
        "Kernel-to-kernel gap",
        "{} passed in short gaps from kernel to kernel",
        Share.GPU,
        "gap_depend",
    ),
    IdleCause(
        "inside_graph",
        "Inside a CUDA graph",
        "{} passed inside CUDA graphs",
        Share.GPU,
        "gap_depend",
    ),
    IdleCause(
        "dependency",
        "Launched, not yet started",
        "for {}, the next work was launched, but had not started yet",
        Share.GPU,
        "gap_depend",
    ),
    IdleCause(
        "launch_not_recorded",
        "Launch not recorded",
        "for {}, the launch of the next work is not in the trace",
        Share.GPU,
        "gap_depend",
    ),
)

WITHOUT_OPERATORS: Final = "the CPU spent {} outside recorded API calls"
"""What is said of other host code in a recording without operators: it may be in them."""

CAUSE_NAMES: Final = tuple(cause.name for cause in IDLE_CAUSES)
CODE: Final = {name: code for code, name in enumerate(CAUSE_NAMES)}
"""Position of each cause in `IDLE_CAUSES`."""


def idle_cause(name: str) -> IdleCause:
    """The cause with a name.

    Examples
    --------
    >>> idle_cause("compiling").gap
    'gap_init'
    """
    return IDLE_CAUSES[CODE[name]]


def as_counted(table: pd.DataFrame) -> pd.DataFrame:
    """Call initialising what a budget counts as that: first calls that allocate or launch."""
    cause = table["cause"].astype(object)
    first = table["initialises"] & (cause != "compiling")
    return table.assign(cause=cause.mask(first, "initialising"))


class LaunchSplit(NamedTuple):
    """Idle intervals in three parts.

    ::

        interval     |----------------------------------|
        launch call           |------|
                     |==host==|=call=|=======GPU========|
                              host_until_ns
                                     call_until_ns
    """

    late: Mask
    """Whether the launch call started after the GPU had run dry."""
    host_until_ns: Times
    """End of the part in which the host is late, whatever it does."""
    call_until_ns: Times
    """End of the launch call's part; the rest is not the host's."""


def split_by_launch(
    start_ns: Times, end_ns: Times, launch: Int64Array, events: Events
) -> LaunchSplit:
    """Split idle intervals by the calls that launch what follows, given as rows of events.

    If `launch` is `NO_CALL`, none of an interval is the host's.
    """
    known = launch != NO_CALL
    begin = np.where(known, events.start_ns[launch], start_ns)
    end = np.where(known, begin + events.duration_ns[launch], start_ns)
    late = begin > start_ns
    reach = np.where(late, np.maximum(end, begin + LAUNCH_NS), end)
    host_until = np.minimum(end_ns, np.maximum(start_ns, begin))
    call_until = np.maximum(host_until, np.minimum(end_ns, reach))
    return LaunchSplit(late, host_until, call_until)


def are_of_one_graph(before: Int64Array, after: Int64Array, events: Events) -> Mask:
    """Whether one call, which launches a graph, launched the work on both sides of each interval.

    `before` and `after` are rows of the launch calls, `NO_CALL` for none.
    """
    same = (before == after) & (after != NO_CALL)
    return np.asarray(same & events.named(after, GRAPH_LAUNCH))


def idle_in_words(idle_ns: int, whole_ns: int, gpus: int, whole: str) -> str:
    """How much idle time there is, if it is too short to say more.

    Examples
    --------
    >>> idle_in_words(13_000_000, 1_940_000_000, 2, "GPU spans")
    'The 2 GPUs are idle for 13 ms of 1.94 s together (0.67 % of the GPU spans).'
    """
    who, together = ("The GPU is", "") if gpus == 1 else (f"The {gpus} GPUs are", " together")
    share = percent(100 * idle_ns / whole_ns)
    times = f"{duration(idle_ns)} of {duration(whole_ns)}{together}"
    return f"{who} idle for {times} ({share} of the {whole})."
