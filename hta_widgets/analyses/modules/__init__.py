"""GPU, CPU, communication and idle time of each module, forward and backward."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, get_args

import numpy as np
import pandas as pd

from hta_widgets.analyses.modules.nodes import Merge, Source
from hta_widgets.analyses.modules.rank_sums import COSTS, UNKNOWN, RankModules, module_sums
from hta_widgets.analyses.result import Result
from hta_widgets.analyses.time.call_sums import with_inside
from hta_widgets.analyses.time.modules import INSTANCE, PHASES, SEPARATOR
from hta_widgets.analyses.time.rows import joined_table
from hta_widgets.analyses.time.selection import TimeSelection
from hta_widgets.errors import check_choice
from hta_widgets.names.shorten import short_name
from hta_widgets.quantities import duration, percent
from hta_widgets.trace.job import Job, select_ranks
from hta_widgets.trace.loaders.nsys.format import NSYS
from hta_widgets.trace.model.formats import Recorded
from hta_widgets.trace.ranks.replayed_calls import graph_replay_notices

WORTH_SAYING: Final = 0.01
"""Share of the GPU time at which time outside of modules is in the sentence."""

NAME_WIDTH: Final = 60

NO_RANGES: Final = (
    "no NVTX ranges were recorded, which stand in for modules (nsys profile --trace=cuda,nvtx "
    "records those that torch.cuda.nvtx.range or torch.autograd.profiler.emit_nvtx makes)"
)

_COMPILED: Final = (
    "torch.compile has merged layers, which leave no frames: what they run belongs to the module "
    "around them"
)

WEIGHTS: Final = {
    "gpu": "gpu_self_ns",
    "cpu": "cpu_total_ns",
    "idle": "idle_ns",
    "exposed": "exposed_communication_ns",
}
"""Columns of `ModuleTree.modules` by what `time_by_phase` sums up."""

_WITHOUT_INNER: Final = ("exposed_communication_ns", "idle_ns", *COSTS)
_SUMMED: Final = ("calls", "gpu_self_ns", "gpu_total_ns", "cpu_total_ns", *_WITHOUT_INNER)


OUTSIDE: Final = {
    "gpu": "gpu_ns",
    "cpu": "cpu_ns",
    "idle": "idle_ns",
    "exposed": "exposed_communication_ns",
}
"""Columns of `ModuleTree.outside` by kind of time."""

NOUNS: Final = {
    "gpu": "GPU time",
    "cpu": "CPU time",
    "idle": "idle time",
    "exposed": "exposed communication",
}


def module_finding(
    table: pd.DataFrame, outside: pd.DataFrame, source: str, weight: str = "gpu"
) -> str:
    """Sentence on the class of modules with the most time of its own; empty for CPU time.

    Modules have their own CPU time only together with the modules inside.
    """
    own_column, column = WEIGHTS[weight], OUTSIDE[weight]
    inside_ns = int(table[own_column].sum())
    whole_ns = inside_ns + int(outside[column].sum())
    if table.empty or not inside_ns or weight == "cpu":
        return ""
    names = table["name"].str.replace(INSTANCE, "", regex=True)
    by_class = table.groupby(names)[own_column].sum()
    most, most_ns = str(by_class.idxmax()), int(by_class.max())
    paths = table.loc[(names == most) & (table[own_column] > 0), "path"].nunique()
    one = "annotation" if source == "regions" else "module"
    where = f" in {paths} {one}s" if paths > 1 else ""
    own = (
        f"{percent(100 * most_ns / whole_ns)} of the {NOUNS[weight]} belongs to "
        f"{short_name(most, NAME_WIDTH)} itself ({duration(most_ns)}{where})"
    )
    unknown = outside["phase"] == UNKNOWN
    unknown_ns, outside_ns = (int(outside.loc[x, column].sum()) for x in (unknown, ~unknown))
    verb, lacks = (
        ("falls", "no recorded cause") if weight == "idle" else ("runs", "no recorded launch")
    )
    others = []
    if outside_ns >= WORTH_SAYING * whole_ns:
        others.append(f"{percent(100 * outside_ns / whole_ns)} {verb} outside of every {one}")
    if unknown_ns >= WORTH_SAYING * whole_ns:
        others.append(f"{percent(100 * unknown_ns / whole_ns)} has {lacks}")
    return "; ".join([own, *others]) + "."


def module_notices(job: Job, each: Sequence[RankModules]) -> list[str]:
    """Notices on what is missing about modules, and how to record it."""
    notices = []
    without = [part for part in each if part.source == "regions" or not part.has_modules]
    may_have = [rank for rank in job.ranks if not job.sources[rank].format.lacks]
    if without and may_have:
        stand_in = any(part.has_modules for part in without)
        said = "no modules were recorded; with_stack=True records them"
        if any(part.frames_expected for part in without):
            said = (
                "with_stack or with_modules was on, but no nn.Module was called in Python: "
                "TorchScript and compiled code leave no frames of modules"
            )
        regions = "; regions are the annotations of the program" if stand_in else ""
        notices.append(f"{said}{regions}")
    is_nsys = all(job.sources[rank].format == NSYS for rank in job.ranks)
    if not may_have and any(not part.has_modules for part in each) and is_nsys:
        notices.append(NO_RANGES)
    missing = _missing([part for part in each if part.has_modules]) if may_have else ""
    notices += [missing] if missing else []
    if any(part.is_compiled for part in each):
        notices.append(_COMPILED)
    graphs_ns = sum(part.in_graphs_ns for part in each)
    if graphs_ns:
        notices.append(
            f"{duration(graphs_ns)} run inside CUDA graphs, whose layers are not recorded: they "
            "belong to the module that launches the graph"
        )
    return notices


def _missing(each: Sequence[RankModules]) -> str:
    """Why modules have no FLOP or memory, and how to record these; empty if they have both."""
    lacks = [
        words
        for words, recorded in (
            (("FLOP", "shapes", "record_shapes=True"), [part.has_shapes for part in each]),
            (("memory", "GPU memory events", "profile_memory=True"), [p.has_memory for p in each]),
        )
        if not all(recorded)
    ]
    if not lacks:
        return ""
    what, fields, options = (" and ".join(words) for words in zip(*lacks, strict=True))
    records = "record them" if len(lacks) > 1 else "records them"
    return f"{what} by module: no {fields} were recorded ({options} {records})"


@dataclass(frozen=True, kw_only=True, eq=False)
class ModuleTree(Result):
    """Time, FLOP and memory that belong to each module, and to none.

    All times are int64 ns. Durations of GPU work are summed, even if it runs at the same
    time on several streams. For each rank, ``gpu_self_ns`` of `modules` and ``gpu_ns`` of `outside`
    add up to the durations of its analysed GPU work, ``exposed_communication_ns`` to that of
    `overlap`, ``idle_ns`` to that of `idle_owners`, ``flop`` to that of `roofline`, and
    ``bytes_allocated`` and ``bytes_alive_at_peak`` to all allocations on GPUs and the peaks of
    `memory_use`.

    Attributes
    ----------
    modules : DataFrame
        One row per rank, module and phase, outer modules first: ``rank``; ``path`` (names from the
        outermost module, joined by `` › ``), ``name``, ``depth`` (number of modules around it);
        ``calls`` (how often it was called in the phase; 0 for a backward pass that calls no
        modules); ``phase`` (``forward``, ``backward``, ``optimizer``, ``other``); ``gpu_self_ns``
        (durations of GPU work that belongs to the module and to none inside it), ``gpu_total_ns``
        (the same with all modules inside); ``cpu_total_ns`` (CPU time of its calls, and of
        the backward operators that belong to it, with all modules inside);
        ``exposed_communication_ns`` (not hidden behind computation) and ``idle_ns`` (of the GPU),
        without the modules inside; ``flop`` (of the operators that `roofline` counts),
        ``bytes_allocated`` (on GPUs, freed or not) and ``bytes_alive_at_peak`` (the part of these
        that is allocated at the peak of its GPU), without the modules inside.
    outside : DataFrame
        What belongs to no module, one row per rank and phase: ``rank``, ``phase`` (also
        ``unknown``: the launch of the work, or what the CPU did, is not recorded, or memory was
        allocated before the recording), ``gpu_ns``, ``cpu_ns``,
        ``exposed_communication_ns``, ``idle_ns``, ``flop``, ``bytes_allocated``,
        ``bytes_alive_at_peak``.
    source : str
        ``modules``, or ``regions`` if annotations stand in for them.
    """

    modules: pd.DataFrame
    outside: pd.DataFrame
    source: str


def modules(
    job: Job,
    ranks: Iterable[int] | None = None,
    *,
    source: Source = "auto",
    merge: Merge = "instance",
    steps: Iterable[int] | None = None,
    window_ns: Sequence[int] | None = None,
) -> ModuleTree:
    """Attribute GPU, CPU, communication and idle time, FLOP and memory to modules.

    A call belongs to the innermost module in which it runs. On the threads of the backward pass,
    where no modules are called, it belongs to the module of the forward operator that its operator
    differentiates. GPU work belongs to the module of the call that launched it, memory to that of
    the call that allocated it.

    Parameters
    ----------
    ranks : iterable of int, optional
        All ranks when not given.
    source : {"auto", "modules", "regions"}
        ``regions`` are the annotations of the program (``record_function``, NVTX ranges). By
        default they stand in on ranks without modules.
    merge : {"instance", "class"}
        ``class`` merges modules of one class that are called side by side into one row, without the
        numbers of the instances.
    steps : iterable of int, optional
        Only these ProfilerSteps; all that are analysed when not given or empty.
    window_ns : pair of int, optional
        Only the time between these two, in ns since the first event of all ranks.
    """
    check_choice("source", source, get_args(Source))
    check_choice("merge", merge, get_args(Merge))
    chosen = select_ranks(job, ranks)
    selection = TimeSelection.of(job, chosen, steps=steps, window_ns=window_ns)
    each = [*job.reduce(module_sums, chosen, selection, source, merge).values()]
    table, outside = (
        joined_table([getattr(part, name) for part in each]) for name in ("modules", "outside")
    )
    names = {part.source for part in each if part.has_modules}
    said = "regions" if source == "regions" or names == {"regions"} else "modules"
    return ModuleTree(
        modules=table,
        outside=outside,
        source=said,
        finding=module_finding(table, outside, said),
        notices=(
            *job.notices_for(chosen, Recorded.KERNELS),
            *job.noticed(graph_replay_notices, chosen),
            *module_notices(job, each),
        ),
    )


def time_by_phase(table: pd.DataFrame, totals: pd.DataFrame, weight: str) -> pd.DataFrame:
    """Time (int64 ns) of each module with those inside it, in a column for each of `PHASES`.

    The table is `ModuleTree.modules`, and the rows are those of `totals`, which `module_totals`
    makes of it.
    """
    column = WEIGHTS[weight]
    times = table.pivot_table(index="path", columns="phase", values=column, aggfunc="sum")
    times = times.reindex(index=totals["path"], columns=list(PHASES)).fillna(0).astype(np.int64)
    if not column.endswith("_total_ns"):
        parent, depth = totals["parent"].to_numpy(), totals["depth"].to_numpy()
        times[:] = with_inside(times.to_numpy(), parent, depth)
    return times.reset_index(drop=True)


def module_totals(table: pd.DataFrame) -> pd.DataFrame:
    """Sum `ModuleTree.modules` over ranks and phases.

    One row per path, each after the module around it, siblings by GPU time: ``path``, ``parent``
    (position of the row of the module around it, -1 for none), ``name``, ``depth``, ``calls``,
    ``gpu_self_ns``, ``gpu_total_ns``, ``forward_ns``, ``backward_ns`` (``gpu_total_ns`` of that
    phase), ``cpu_total_ns``, ``exposed_communication_ns``, ``idle_ns``, ``flop``,
    ``bytes_allocated``, ``bytes_alive_at_peak``; the last five, unlike in `ModuleTree`, with the
    modules inside.
    """
    sums = table.groupby("path", sort=False).agg(
        {"name": "first", "depth": "first", **dict.fromkeys(_SUMMED, "sum")}
    )
    for name in ("forward", "backward"):
        of_phase = table[table["phase"] == name].groupby("path")["gpu_total_ns"].sum()
        sums[f"{name}_ns"] = of_phase.reindex(sums.index, fill_value=0).astype(np.int64)
    sums = sums.reset_index()
    place = {path: position for position, path in enumerate(sums["path"].tolist())}
    parent = np.array(
        [
            _place_around(path, name, place)
            for path, name in zip(sums["path"], sums["name"], strict=True)
        ],
        dtype=np.int64,
    )
    for column in _WITHOUT_INNER:
        sums[column] = with_inside(sums[column].to_numpy(), parent, sums["depth"].to_numpy())
    sums.insert(1, "parent", parent)
    return _in_preorder(sums)


def _place_around(path: str, name: str, place: dict[str, int]) -> int:
    around = path[: -len(name)].removesuffix(SEPARATOR)
    return place.get(around, -1) if around else -1


def _in_preorder(sums: pd.DataFrame) -> pd.DataFrame:
    parents = sums["parent"].tolist()
    inside: dict[int, list[int]] = {}
    by_time = np.lexsort((-sums["cpu_total_ns"].to_numpy(), -sums["gpu_total_ns"].to_numpy()))
    for place in by_time.tolist():
        inside.setdefault(parents[place], []).append(place)
    order, waiting = [], inside.get(-1, [])[::-1]
    while waiting:
        place = waiting.pop()
        order.append(place)
        waiting += inside.get(place, [])[::-1]
    new = np.full(len(parents) + 1, -1)
    new[order] = np.arange(len(order))
    sums = sums.assign(parent=new[sums["parent"].to_numpy()])
    return sums.iloc[order].reset_index(drop=True)
