"""The measurements: one function per table of results."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from statistics import median
from typing import Any

from benchmarks.bench import Bench
from benchmarks.children import Child, Outcome, middle
from benchmarks.diagnose import EVENTS_OF_MANY, MANY, Sample
from benchmarks.replays import MEMORY
from benchmarks.table import Row
from benchmarks.tables import FIRST_OF_ALL, FIRST_TIME
from benchmarks.traces import H100, V100, Files

QUIET = {"visualize": False}
METHODS: dict[str, tuple[Mapping[str, Any], float]] = {
    "get_temporal_breakdown": (QUIET, 50),
    "get_comm_comp_overlap": (QUIET, 50),
    "get_gpu_kernel_breakdown": (QUIET, 50),
    "get_memory_bw_time_series": ({}, 50),
    "get_memory_bw_summary": ({}, 50),
    "get_cuda_kernel_launch_stats": (QUIET, 30),
    "get_queue_length_time_series": ({}, 12),
    "get_queue_length_summary": ({}, 4),
    "get_idle_time_breakdown": (QUIET, 8),
}
"""Arguments of each method, and how many times faster it is to be."""

SEQUENCES = "get_frequent_cuda_kernel_sequences"
OPERATOR = "aten::addmm"
REOPEN_S = 0.010
FIRST_NUMBERS_S = 1.0
SLIDER_S = 0.016
WINDOW_S = 0.005
REDRAW_S = 0.100
SELECTION_S = 0.150
"""Any window and any choice of steps, the first one included."""

TABLE_S = 1.0
WHAT_IF_S = 0.020
REPLAY_S: Mapping[str, float | None] = {
    "clocks": None,
    "parts": None,
    "network": 0.3,
    "critical path": 0.027,
    "latest times": 0.045,
    "drag of all operations": 0.21,
}
"""Of up to eight ranks. A diagnosis needs clocks as well, and parts are made of each rank once. The
path is solved first, and what follows needs the path."""

OPERATION_MB = 200 / 2**20
"""What the part of a rank may take for each of its operations."""


Figure = Callable[[Outcome], float]


def load(bench: Bench) -> Iterator[Row]:
    """First load, from ``.json.gz`` to all that analyses begin with; the cache is off.

    Ours is run three times as often as HTA's, and smaller traces three times as often as large.
    """
    for size, times in ((bench.large, 15.0), (bench.medium, 10.0)):
        for gpu, source in (("v100", V100), ("h100", H100)):
            files = bench.traces.tiled(gpu, source, events=size)
            enough = bench if size == bench.large else bench.more_often()
            ours, theirs, no_steps = enough.loads(files)
            what = f"{gpu.upper()}-like, {_count(size)} events"
            yield _row(f"{what}: CPU", ours, theirs, _spent("load", "cpu_s"), times_better=times)
            yield _row(
                f"{what}: CPU, HTA without step marking", ours, no_steps, _spent("load", "cpu_s")
            )
            memory = 8.0 if size == bench.large else None
            yield _row(
                f"{what}: peak memory, pandas imported",
                ours,
                theirs,
                _peak,
                unit="MB",
                times_better=memory,
            )
    for name, files in bench.traces.small().items():
        ours, theirs = bench.more_often().both("load", files=files)
        yield _row(
            f"{name}: wall including interpreter start and imports",
            ours,
            theirs,
            _wall,
            times_better=1,
        )


def ranks(bench: Bench) -> Iterator[Row]:
    """First load of a job of several ranks; the cache is off.

    Wall time is of three times as many runs. Memory is sampled in separate runs: that slows down
    what uses all CPUs.
    """
    files = bench.eight_ranks()
    what = f"8 ranks of {_count(bench.medium)} events"
    timed = bench.more_often().both("load", files=files)
    yield _row(f"{what}: wall", *timed, _spent("load", "wall_s"), times_better=8)
    sampled = bench.both("load", files=files, sample_tree=True)
    yield _row(f"{what}: memory of all processes", *sampled, _tree, unit="MB")


def reopen(bench: Bench) -> Iterator[Row]:
    """The large trace with the cache on: filling it, opening from it, the first panel."""
    files = bench.v100()
    filling, opening, panels = [], [], []
    for _ in range(bench.repeats):
        with tempfile.TemporaryDirectory(dir=bench.traces.work) as cache:
            filling += _done(bench.ours.run("load", files=files, cache=cache))
            opening += _done(bench.ours.run("load", files=files, cache=cache, again=True))
            panels += _done(bench.ours.run("panel", files=files, cache=cache))
    what = f"{_count(bench.large)} events"
    yield _row(f"{what}: load and fill the cache", filling, [], _spent("open", "wall_s"))
    yield _row(f"{what}: reopen", opening, [], _spent("open", "wall_s"), at_most=REOPEN_S)
    yield _row(
        f"{what}: reopen, to the first panel's numbers",
        panels,
        [],
        _spent("first", "wall_s"),
        at_most=FIRST_NUMBERS_S,
    )


def analyses(bench: Bench) -> Iterator[Row]:
    """CPU time of each method's first call on a loaded job, without figures.

    Ours is run twice as often as HTA, with three times as many calls in each run.
    """
    methods = {name: arguments for name, (arguments, _) in METHODS.items()}
    jobs = {f"{_count(bench.large)} events": bench.v100(), "8 ranks": bench.eight_ranks()}
    for what, files in jobs.items():
        everywhere = {
            name: {**arguments} | ({} if name in WHOLE_JOB else {"ranks": list(files)})
            for name, arguments in methods.items()
        }
        ours, theirs = bench.calls(files=files, methods=everywhere)
        for name, (_, times) in METHODS.items():
            yield Row(f"{what}: {name}", _call(ours, name), _call(theirs, name), times_better=times)


WHOLE_JOB = ("get_temporal_breakdown", "get_comm_comp_overlap", "get_gpu_kernel_breakdown")
"""Methods that take no ranks."""


def sequences(bench: Bench) -> Iterator[Row]:
    """CPU time of looking for kernel sequences, with and without writing them into the trace.

    Both analyse one rank, the first of the job.
    """
    jobs = {"8 ranks": bench.eight_ranks(), f"{_count(bench.large)} events": bench.v100()}
    for what, files in jobs.items():
        ours, theirs = _sequences_of(bench, files)
        text, their = f"{what}, {OPERATOR}", _call(theirs, SEQUENCES)
        found, marked = _call(ours, "kernel_sequences"), _call(ours, SEQUENCES)
        yield Row(f"{text}: sequences", found, their, times_better=500)
        yield Row(f"{text}: and the marked trace written", marked, their)


def _sequences_of(bench: Bench, files: Files) -> tuple[list[Outcome], list[Outcome]]:
    with tempfile.TemporaryDirectory(dir=bench.traces.work) as folder:
        both = {SEQUENCES: {"operator_name": OPERATOR, "output_dir": folder}}
        alone = {"kernel_sequences": {"operator_name": OPERATOR}}
        ours = bench.ours.run("analyses", files=files, methods=both | alone, repeats=3)
        if not bench.sequences_s:
            return _done(ours), []
        theirs = bench.theirs.run(
            "analyses", files=files, methods=both, repeats=1, timeout_s=bench.sequences_s
        )
        return _done(ours), _done(theirs)


def sliders(bench: Bench) -> Iterator[Row]:
    """CPU time of a step of each control, from the browser's message to the answer's JSON.

    A choice has something new to derive when it is first made; its worst step is that one.
    """
    found = _done(bench.ours.run("sliders", files=bench.v100(), kernels=bench.kernels, steps=20))
    for outcome in found:
        for name, times in outcome.answer["controls"].items():
            limit = WINDOW_S if name.endswith("window_us") else SLIDER_S
            yield Row(f"`{name}`, median of 20 steps", times["median"], at_most=limit)
            judged = limit if times["slides"] else None
            yield Row(f"`{name}`, slowest step", times["worst"], at_most=judged)


def tables(bench: Bench) -> Iterator[Row]:
    """CPU time of the tables that attribute time and memory, of traces with and without stacks.

    The first time, what they share is not yet derived, and what loading leaves out is read.
    """
    for gpu, source in (("v100", V100), ("h100", H100)):
        files = bench.traces.tiled(gpu, source, events=bench.large)
        found = _repeated(bench, files, "tables")
        for name, times in found[0].answer["tables"].items() if found else ():
            for what in times:
                spent = median(each.answer["tables"][name][what] for each in found)
                yield Row(f"{gpu.upper()}-like: `{name}`, {what}", spent, at_most=_limit(what))


def _limit(what: str) -> float | None:
    """Most CPU seconds of a table; a parameter's value may derive something new when first set."""
    if what == FIRST_TIME:
        return TABLE_S
    if "window_ns" in what or "steps" in what:
        return SELECTION_S
    return None if what.endswith(FIRST_OF_ALL) else SLIDER_S


def _repeated(bench: Bench, files: Files, task: str) -> list[Outcome]:
    runs = (bench.ours.run(task, files=files) for _ in range(bench.repeats))
    return [each for run in runs for each in _done(run)]


def replays(bench: Bench) -> Iterator[Row]:
    """CPU time of a replay: the parts of ranks, what is made of them, and answers; and memory."""
    events = _count(bench.medium)
    many = Sample(bench.traces.work, MANY[0], EVENTS_OF_MANY)
    jobs = {
        f"1 rank of {events} events": bench.traces.tiled("job", V100, events=bench.medium),
        f"8 ranks of {events} events": bench.eight_ranks(),
        f"{many.ranks} ranks of {_count(many.events)} events": many.files(),
    }
    for what, files in jobs.items():
        found = [each.answer for each in _repeated(bench, files, "replays")]
        spent = {name: median(each[name] for each in found) for name in found[0]} if found else {}
        operations = spent.pop("operations", 0)
        for name, value in spent.items():
            if name == MEMORY:
                most = operations * OPERATION_MB
                yield Row(f"{what}: {name}", value, unit="MB", at_most=most)
            else:
                limit = REPLAY_S.get(name, WHAT_IF_S) if len(files) < MANY[0] else None
                yield Row(f"{what}: {name}", value, at_most=limit)


def redraws(bench: Bench) -> Iterator[Row]:
    """Wall time from the move of a slider in JupyterLab until its charts are drawn."""
    browser = Child(bench.ours.python, "redraw")
    found = _done(browser.run("redraw", files=bench.v100(), kernels=bench.kernels, steps=20))
    for outcome in found:
        for name, times in outcome.answer["controls"].items():
            what = f"{name}, median of {times['steps']} steps"
            yield Row(what, times["median"], at_most=REDRAW_S)


SUITES: dict[str, tuple[str, Callable[[Bench], Iterator[Row]]]] = {
    "load": ("First load, cache off", load),
    "ranks": ("First load of eight ranks, cache off", ranks),
    "reopen": ("Cache on, wall time", reopen),
    "analyses": (
        "Analyses, CPU time of the first call, GPU work already sorted by stream",
        analyses,
    ),
    "sequences": ("Kernel sequences, CPU time", sequences),
    "sliders": ("Controls, CPU time of a step including the reply's JSON", sliders),
    "tables": (
        "Tables of operators, modules and memory, CPU time on 2 M events without the cache",
        tables,
    ),
    "replay": (
        "Replay of a loaded job, CPU time: its parts, the network, and what-if questions",
        replays,
    ),
    "redraws": ("Sliders in JupyterLab, wall time from a step to the last chart drawn", redraws),
}
"""Title and measurements by the name that `--only` takes."""


def _row(
    what: str,
    ours: list[Outcome],
    theirs: list[Outcome],
    figure: Figure,
    *,
    unit: str = "s",
    times_better: float | None = None,
    at_most: float | None = None,
) -> Row:
    return Row(what, middle(ours, figure), middle(theirs, figure), unit, times_better, at_most)


def _spent(phase: str, clock: str) -> Figure:
    return lambda outcome: float(outcome.answer[phase][clock])


def _peak(outcome: Outcome) -> float:
    return outcome.peak_mb


def _tree(outcome: Outcome) -> float:
    return outcome.tree_mb


def _wall(outcome: Outcome) -> float:
    return outcome.wall_s


def _call(outcomes: list[Outcome], method: str) -> float | None:
    """Median over all processes and repeats."""
    calls = [repeat[method] for outcome in outcomes for repeat in outcome.answer["calls"]]
    return None if not calls or None in calls else median(call["cpu_s"] for call in calls)


def _done(outcome: Outcome | None) -> list[Outcome]:
    return [] if outcome is None else [outcome]


def _count(events: int) -> str:
    million = 1_000_000
    return f"{events / million:g} M" if events >= million else f"{events // 1000} k"
