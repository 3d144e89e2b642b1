"""Time the tables that attribute time and memory: the first time, and after each change."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from importlib import import_module
from statistics import median
from typing import Any, Final

from benchmarks.stopwatch import timed
from hta_widgets.analyses.flame import flame
from hta_widgets.analyses.launch_facts import launch_facts
from hta_widgets.analyses.modules import modules
from hta_widgets.analyses.time.window import window_of
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
    "launch_stats": {
        "runtime_cutoff": (10, 50),
        "launch_delay_cutoff": (20, 100),
        "num_worst": (5, 20),
    },
}
"""Values that the parameters of each analysis change between."""

WITH: Final[dict[str, tuple[Mapping[str, Any], ...]]] = {
    "operators": ({"by": "stack"},),
    "flame": (
        {"order": "time"},
        {"order": "time", "weight": "cpu"},
        {"order": "time", "weight": "idle"},
    ),
}
"""Other arguments with which time is selected, too."""

FIRST_TIME: Final = "the first time"
FIRST_OF_ALL: Final = ", first"
"""Ends what is changed to a value for the first time, which may derive something new."""

FOLLOW_THE_TIME: Final = frozenset(
    {"idle_owners", "operators", "modules", "flame", "gpu_annotations", "launch_facts"}
)
CHANGED_TIMES: Final = 8
MANY: Final = 6
"""Values of a parameter that are tried."""

PARTS: Final = {
    "two thirds": Fraction(2, 3),
    "a third": Fraction(1, 3),
    "a tenth": Fraction(1, 10),
    "a hundredth": Fraction(1, 100),
}
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
    for parameter, values in {**changes, **_of_the_job(name, job)}.items():
        found[f"another `{parameter}`{FIRST_OF_ALL}"] = max(
            spent(**{parameter: each}) for each in values
        )
        again = [spent(**{parameter: each}) for _ in range(3) for each in values]
        found[f"another `{parameter}`, again"] = median(again)
    if name in FOLLOW_THE_TIME:
        for others in ({}, *WITH.get(name, ())):
            found |= _times_selected(job, spent, others)
    return found


def _of_the_job(name: str, job: Job) -> dict[str, tuple[Any, ...]]:
    """Values of parameters that are names of what is recorded."""
    ranks = [job.ranks[0]]
    if name == "launch_facts":
        names = launch_facts(job, ranks).kernels["name"].unique()
        return {"kernel": tuple(names[:MANY])}
    if name == "operators":
        tree = modules(job, ranks).modules
        largest = tree.groupby("path")["gpu_total_ns"].sum().nlargest(MANY)
        return {"modules": tuple((path,) for path in largest.index)} if len(largest) else {}
    if name == "flame":
        nodes = flame(job, ranks[0]).nodes
        names = nodes["name"][(nodes["parent"] == 0) & (nodes["folded"] == 0)]
        return {"root": tuple((each,) for each in names[:MANY]), "sandwich": tuple(names[:MANY])}
    return {}


def _times_selected(
    job: Job, spent: Callable[..., float], others: Mapping[str, Any]
) -> dict[str, float]:
    """CPU seconds after another time is selected, with other arguments."""
    words = "".join(f", `{name}={value}`" for name, value in others.items())
    found = {}
    for asked, excerpts in _selections(job):
        first, *later = (spent(**others, **excerpt) for excerpt in excerpts)
        found[f"another {asked}{words}{FIRST_OF_ALL}"] = first
        found[f"another {asked}{words}"] = median(later)
    return found


def _selections(job: Job) -> Iterator[tuple[str, Iterator[dict[str, Any]]]]:
    for words, part in PARTS.items():
        yield f"`window_ns`, {words}", ({"window_ns": each} for each in _windows(job, part))
    steps = window_of(job.rank(job.ranks[0])).steps.tolist()
    if len(steps) <= 1:
        return
    numbers = range(CHANGED_TIMES + 1)
    yield "of `steps`", ({"steps": steps[1 + number : 2 + number]} for number in numbers)
    third = max(len(steps) // 3, 1)
    yield "third of `steps`", ({"steps": steps[number : number + third]} for number in numbers)
    yield "two of three `steps`", ({"steps": _without(steps, number)} for number in numbers)


def _without(steps: list[int], number: int) -> list[int]:
    """All steps but every third one, and one more."""
    left_out = {*steps[number % 3 :: 3], steps[number + 1]}
    return [step for step in steps if step not in left_out]


def _windows(job: Job, part: Fraction) -> Iterator[tuple[int, int]]:
    """Windows of one length, as if dragged over the recording."""
    span_ns = int(job.rank(job.ranks[0]).trace.events.end_ns.max())
    length_ns = int(span_ns * part)
    step_ns = (span_ns - length_ns) // (CHANGED_TIMES + 1)
    for number in range(CHANGED_TIMES + 1):
        yield number * step_ns, number * step_ns + length_ns
