"""Time the tables that attribute time and memory: the first time, and after each change."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from statistics import median
from typing import Any, Final

from benchmarks.stopwatch import timed
from hta_widgets.trace.job import Job

CHANGES: Final[dict[str, Mapping[str, tuple[Any, ...]]]] = {
    "idle_owners": {},
    "operators": {"by": ("shape", "stack", "name"), "phase": ("forward", "backward", None)},
    "modules": {"merge": ("class", "instance"), "source": ("modules", "auto")},
    "flame": {"weight": ("cpu", "idle", "gpu"), "order": ("time", "merged")},
    "memory_use": {"device": (0, None)},
    "roofline": {},
    "gpu_annotations": {"on": ("cpu", "gpu")},
    "collectives": {},
    "launch_overlap": {},
    "launch_facts": {"by": ("configuration", "name")},
    "launch_stats": {"runtime_cutoff": (10, 50), "launch_delay_cutoff": (20, 100)},
}
"""Values that the parameters of each analysis change between."""

FIRST_TIME: Final = "the first time"
FIRST_OF_ALL: Final = ", first"
"""Ends what is changed to a value for the first time, which may derive something new."""

FOLLOW_THE_TIME: Final = frozenset(
    {"idle_owners", "operators", "modules", "flame", "gpu_annotations", "launch_facts"}
)
CHANGED_TIMES: Final = 8

PARTS: Final = {"a third": 3, "a tenth": 10, "a hundredth": 100}
"""Windows by the part of the recording that they hold."""


def time_tables(job: Job, fresh: Callable[[Job], Job]) -> Iterator[tuple[str, dict[str, float]]]:
    """CPU seconds of each table by what was changed; the first time is of a job from `fresh`."""
    for name, changes in CHANGES.items():
        analysis = getattr(import_module(f"hta_widgets.analyses.{name}"), name)
        yield name, _times(analysis, name, fresh(job), changes)


def _times(
    analysis: Callable[..., object], name: str, job: Job, changes: Mapping[str, tuple[Any, ...]]
) -> dict[str, float]:
    usual: Mapping[str, Any] = (
        {"rank": job.ranks[0]} if name == "flame" else {"ranks": [job.ranks[0]]}
    )

    def spent(**changed: object) -> float:
        return timed(lambda: analysis(job, **usual, **changed))["cpu_s"]

    found = {FIRST_TIME: spent()}
    for parameter, values in changes.items():
        found[f"another `{parameter}`{FIRST_OF_ALL}"] = max(
            spent(**{parameter: each}) for each in values
        )
        again = [spent(**{parameter: each}) for _ in range(3) for each in values]
        found[f"another `{parameter}`, again"] = median(again)
    if name in FOLLOW_THE_TIME:
        for words, part in PARTS.items():
            first, *others = (spent(window_ns=window) for window in _windows(job, part))
            found[f"another `window_ns`, {words}{FIRST_OF_ALL}"] = first
            found[f"another `window_ns`, {words}"] = median(others)
        steps = job.rank(job.ranks[0]).steps.distinct
        chosen = steps[1 : 1 + CHANGED_TIMES]
        if chosen:
            found["another of `steps`"] = median(spent(steps=[number]) for number in chosen)
    return found


def _windows(job: Job, part: int) -> Iterator[tuple[int, int]]:
    """Windows of one length, as if dragged over the recording."""
    span_ns = int(job.rank(job.ranks[0]).trace.events.end_ns.max())
    length_ns = span_ns // part
    step_ns = (span_ns - length_ns) // (CHANGED_TIMES + 1)
    for number in range(CHANGED_TIMES + 1):
        yield number * step_ns, number * step_ns + length_ns
