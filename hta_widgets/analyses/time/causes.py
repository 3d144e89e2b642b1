"""The causes of idle time, and the classes of coarser divisions that they belong to."""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple


class Share(Enum):
    """What decides the cause of a stretch of an idle interval."""

    HOST = "what the CPU does until the launch call returns"
    GPU = "what happens between the launch call and the GPU"


class IdleCause(NamedTuple):
    """One cause of idle time.

    Attributes
    ----------
    name : str
        As in tables.
    label : str
        As on screen.
    phrase : str
        End of a sentence on how much of the idle time it takes, with a place for the percentage.
    share : Share
    budget : str
        Class of a step's time that it belongs to.
    gap : str
        Name in a diagnosis; empty if other rules than the cause decide.
    """

    name: str
    label: str
    phrase: str
    share: Share
    budget: str
    gap: str = ""


LATE_LAUNCHING: Final = "late_launching"
LATE_SYNCHRONISING: Final = "late_synchronising"
DATA_LOADING: Final = "data_loading"
OTHER_IDLE: Final = "other_idle"

IDLE_BUDGET: Final = (LATE_LAUNCHING, LATE_SYNCHRONISING, DATA_LOADING, OTHER_IDLE)
"""Classes of idle time in the budget of a step; every cause belongs to one."""

IDLE_CAUSES: Final = (
    IdleCause(
        "profiler",
        "Profiler",
        "the CPU spent {} in the profiler",
        Share.HOST,
        OTHER_IDLE,
        "gap_profiler",
    ),
    IdleCause(
        "data_loading",
        "Data loading",
        "the CPU spent {} loading data",
        Share.HOST,
        DATA_LOADING,
        "gap_loader",
    ),
    IdleCause(
        "garbage_collection",
        "Garbage collection",
        "the CPU spent {} collecting garbage",
        Share.HOST,
        LATE_LAUNCHING,
        "gap_pause",
    ),
    IdleCause(
        "compiling",
        "Compiling",
        "the CPU spent {} compiling",
        Share.HOST,
        LATE_LAUNCHING,
        "gap_init",
    ),
    IdleCause(
        "allocating",
        "Allocating",
        "the CPU spent {} allocating memory",
        Share.HOST,
        LATE_LAUNCHING,
        "gap_alloc",
    ),
    IdleCause(
        "initialising",
        "Initialising",
        "the CPU spent {} initialising (contexts, modules, libraries)",
        Share.HOST,
        LATE_LAUNCHING,
        "gap_init",
    ),
    IdleCause(
        "synchronising",
        "Synchronising",
        "the CPU spent {} synchronising, or catching up after it",
        Share.HOST,
        LATE_SYNCHRONISING,
        "gap_sync",
    ),
    IdleCause(
        "launching",
        "Launching",
        "the CPU spent {} in launch and other API calls",
        Share.HOST,
        LATE_LAUNCHING,
    ),
    IdleCause("operator", "Operators", "the CPU spent {} in operators", Share.HOST, LATE_LAUNCHING),
    IdleCause(
        "host_code",
        "Other host code",
        "the CPU spent {} in code outside operators",
        Share.HOST,
        LATE_LAUNCHING,
    ),
    IdleCause(
        "nothing_recorded",
        "Nothing recorded",
        "for {}, nothing is recorded of what the CPU did",
        Share.HOST,
        OTHER_IDLE,
    ),
    IdleCause(
        "between_kernels",
        "Between kernels",
        "{} passed between one kernel and the next",
        Share.GPU,
        OTHER_IDLE,
        "gap_depend",
    ),
    IdleCause(
        "inside_graph",
        "Inside a CUDA graph",
        "{} passed inside CUDA graphs",
        Share.GPU,
        OTHER_IDLE,
        "gap_depend",
    ),
    IdleCause(
        "dependency",
        "Launched, held back",
        "for {}, the next work was launched, and held back on the GPU",
        Share.GPU,
        OTHER_IDLE,
        "gap_depend",
    ),
    IdleCause(
        "launch_not_recorded",
        "Launch not recorded",
        "for {}, the launch of the next work is not in the trace",
        Share.GPU,
        OTHER_IDLE,
        "gap_depend",
    ),
)

CAUSE_NAMES: Final = tuple(cause.name for cause in IDLE_CAUSES)
CODE: Final = {name: code for code, name in enumerate(CAUSE_NAMES)}
"""Position of each cause in `IDLE_CAUSES`."""


def idle_cause(name: str) -> IdleCause:
    """The cause of that name, with the classes of coarser divisions that it belongs to.

    Budgets, diagnoses and tables of steps ask here, so that all of them divide idle time alike.

    Examples
    --------
    >>> idle_cause("compiling").budget, idle_cause("compiling").gap
    ('late_launching', 'gap_init')
    """
    return IDLE_CAUSES[CODE[name]]
