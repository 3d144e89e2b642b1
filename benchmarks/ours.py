"""Measure hta_widgets as checked out."""

from __future__ import annotations

from benchmarks.stopwatch import Measured, Stopwatch, answer, timed

WATCH = Stopwatch()

import json  # noqa: E402
import sys  # noqa: E402
from collections.abc import Callable  # noqa: E402
from importlib import import_module  # noqa: E402
from operator import attrgetter  # noqa: E402
from statistics import median  # noqa: E402
from typing import Any  # noqa: E402

from hta_widgets import TraceAnalysis  # noqa: E402
from hta_widgets.trace.cache.trace_file import LoadedTrace  # noqa: E402
from hta_widgets.trace.job import Job  # noqa: E402
from hta_widgets.trace.ranks.loading import LAUNCH_ROWS, PARENT_ROWS  # noqa: E402

IMPORTS = WATCH.lap()

Files = dict[int, str]


def load(
    files: Files, *, again: bool = False, with_pandas: bool = False, **_: object
) -> dict[str, Any]:
    """From the files to everything that the analyses begin with; `again` in the same session.

    Loading needs no pandas, but what comes then does: `with_pandas` counts its memory, too.
    """
    if again:
        TraceAnalysis(files, progress=False)
    watch = Stopwatch()
    analysis = TraceAnalysis(files, progress=False)
    opened = watch.lap()
    make_ready(analysis.job)
    ready = watch.lap()
    loaded = {key: opened[key] + ready[key] for key in opened}
    job = analysis.job
    events = sum(len(job.rank(rank).trace.events) for rank in job.ranks)
    if with_pandas:
        import_module("pandas")
    return {"imports": IMPORTS, "open": opened, "load": loaded, "events": events}


def panel(files: Files, **_: object) -> dict[str, Any]:
    """From the files to the first numbers; `first_screen` measures a dashboard."""
    watch = Stopwatch()
    from hta_widgets.panels import TemporalBreakdownPanel  # noqa: PLC0415

    imports = watch.lap()
    assert TemporalBreakdownPanel(TraceAnalysis(files, progress=False)).table is not None  # noqa: S101
    return {"imports": imports, "first": watch.lap()}


def analyses(
    files: Files, methods: dict[str, dict[str, Any]], repeats: int, **_: object
) -> dict[str, Any]:
    """Time each method on a job that remembers nothing."""
    watch = Stopwatch()
    analysis = TraceAnalysis(files, progress=False)
    make_ready(analysis.job)
    loaded = watch.lap()
    calls = []
    for _repeat in range(repeats):
        spent: dict[str, Measured] = {}
        for method, parameters in methods.items():
            analysis.job = forgetful(analysis.job)
            spent[method] = timed(call_of(analysis, method, parameters))
        calls.append(spent)
    return {"imports": IMPORTS, "load": loaded, "calls": calls}


def sliders(files: Files, kernels: int, steps: int, **_: object) -> dict[str, Any]:
    """Time steps of every control of every panel, as messages of the browser."""
    from benchmarks.big_job import with_kernels  # noqa: PLC0415
    from benchmarks.control_steps import time_controls  # noqa: PLC0415

    job = with_kernels(TraceAnalysis(files, progress=False).job, kernels)
    times = {
        moved.name: {
            "median": median(moved.cpu_s),
            "worst": max(moved.cpu_s),
            "slides": moved.slides,
        }
        for moved in time_controls(job, steps)
    }
    return {"kernels": len(job.gpu_work(job.ranks[0])), "controls": times}


def tables(files: Files, **_: object) -> dict[str, Any]:
    """Time the tables that attribute time and memory, and what a change of a parameter costs."""
    from benchmarks.tables import time_tables  # noqa: PLC0415

    job = TraceAnalysis(files, progress=False).job
    make_ready(job)
    return {"tables": dict(time_tables(job, forgetful))}


def replays(files: Files, **_: object) -> dict[str, Any]:
    """Time the stages of a replay, from loaded ranks to answers."""
    from benchmarks.replays import time_replay  # noqa: PLC0415

    job = TraceAnalysis(files, progress=False).job
    make_ready(job)
    return time_replay(job)


def call_of(
    analysis: TraceAnalysis, method: str, parameters: dict[str, Any]
) -> Callable[[], object]:
    """One call; the sequences also without the copy of the trace that HTA's method writes."""
    if method != "kernel_sequences":
        return lambda: getattr(analysis, method)(**parameters)
    from hta_widgets.analyses.kernel_sequences import kernel_sequences  # noqa: PLC0415

    return lambda: kernel_sequences(analysis.job, **parameters)


def make_ready(job: Job) -> None:
    """Derive what several analyses begin with, once of each rank."""
    for number in job.ranks:
        rank = job.rank(number)
        for derived in ("launches", "parents", "steps", "analysed", "gpu_work.streams"):
            attrgetter(derived)(rank)


def forgetful(job: Job) -> Job:
    """Return the same job, ready, without what analyses have left in it."""
    new = Job(job.sources, name=job.name)
    for number in job.ranks:
        rank = job.rank(number)
        new.add(LoadedTrace(rank.trace, {LAUNCH_ROWS: rank.launches, PARENT_ROWS: rank.parents}))
    make_ready(new)
    return new


TASKS: dict[str, Callable[..., dict[str, Any]]] = {
    "load": load,
    "panel": panel,
    "analyses": analyses,
    "sliders": sliders,
    "tables": tables,
    "replays": replays,
}


def main() -> None:
    arguments = json.loads(sys.argv[2])
    arguments["files"] = {int(rank): path for rank, path in arguments["files"].items()}
    answer(TASKS[sys.argv[1]](**arguments))


if __name__ == "__main__":
    main()
