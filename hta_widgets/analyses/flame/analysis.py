"""Time of one rank by call path, as a flame graph."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, get_args

import pandas as pd

from hta_widgets.analyses.flame.call_tree import Order
from hta_widgets.analyses.flame.fold import folded, no_nodes, times_by_name
from hta_widgets.analyses.flame.sandwich import sandwich_of
from hta_widgets.analyses.flame.trees import weighted_tree
from hta_widgets.analyses.flame.weights import Weight
from hta_widgets.analyses.result import Result
from hta_widgets.analyses.time.calls import calls_of
from hta_widgets.analyses.time.selection import TimeSelection
from hta_widgets.errors import ParameterError
from hta_widgets.quantities import data_size, duration
from hta_widgets.trace.job import Job
from hta_widgets.trace.model.formats import Recorded
from hta_widgets.trace.ranks.rank import Rank

_WHAT: Final = {
    "gpu": "of GPU work",
    "cpu": "of CPU time",
    "idle": "of idle GPU time",
    "bytes": "allocated in all",
}
_NO_STACKS: Final = (
    "no Python frames were recorded; with_stack=True shows the code around operators"
)
_IN_BYTES: Final = {"own_ns": "own_bytes", "total_ns": "total_bytes"}


@dataclass(frozen=True, kw_only=True, eq=False)
class Flame(Result):
    """Time or memory of one rank by call path.

    Of memory, the columns are ``own_bytes`` and ``total_bytes`` instead of ``own_ns`` and
    ``total_ns``.

    Attributes
    ----------
    nodes : DataFrame
        One row per node, the root first, each after its parent: ``node``, ``parent`` (-1 for the
        root), ``name``, ``kind`` (of the call; ``kernel`` for GPU work; empty where it is no call),
        ``depth`` (0 for the root), ``own_ns``, ``total_ns`` (without and with what is inside),
        ``folded`` (number of small nodes that this one stands for, 0 for others). Nodes side by
        side are in the order in which they are drawn.
    names : DataFrame
        Time of all calls of a name below the root, also of small nodes, longest first: ``name``,
        ``kind``, ``own_ns``, ``nodes`` (number of paths, or of runs).
    callers : DataFrame
        What calls `sandwich`, with the columns of `nodes`: inside a node is what calls it. Empty
        without one, or below it.
    sandwich : str
        Name whose calls are one node, the outermost; empty for none.
    root : tuple of str
        Names from the outermost call to the root; empty if the root is everything.
    total_ns, total_bytes : int
        Of everything, whatever the root; 0 for the one that is not shown.
    """

    nodes: pd.DataFrame
    names: pd.DataFrame
    callers: pd.DataFrame
    sandwich: str
    root: tuple[str, ...]
    total_ns: int
    total_bytes: int

    @property
    def unit(self) -> str:
        """Last word of the columns that boxes are as wide as: ``ns`` or ``bytes``."""
        return "bytes" if "own_bytes" in self.names else "ns"


def flame(
    job: Job,
    rank: int,
    *,
    weight: Weight = "gpu",
    order: Order = "merged",
    root: Sequence[str] | None = None,
    sandwich: str = "",
    steps: Iterable[int] | None = None,
    window_ns: Sequence[int] | None = None,
) -> Flame:
    """Sum up time or memory of one rank by call path.

    Parameters
    ----------
    weight : {"gpu", "cpu", "idle", "bytes"}
        Durations of the GPU work that each path launches, CPU time, idle time of the GPU by its
        owner (see `idle_owners`), or bytes of GPU memory that it allocates, freed or not (of the
        CPU's memory, where no other was recorded).
    order : {"merged", "time"}
        All calls with the same path of names are one node, or only neighbours are, in order: those
        with nothing between them that has some of the weight at any time.
    root : sequence of str, optional
        Names from an outermost call to the node to show; everything when not given or empty.
    sandwich : str
        Show all calls of this name as one, merged, with their callers: a root begins with it.
    steps : iterable of int, optional
        Only these ProfilerSteps; all that are analysed when not given or empty.
    window_ns : pair of int, optional
        Only the time between these two, in ns since the first event of all ranks.

    Raises
    ------
    UnknownRankError
        If the job lacks the rank.
    UnknownStepError
        If the rank has none of the steps.
    ParameterError
        If there is no such root or name, or an argument has none of its values.
    """
    _check("weight", weight, Weight)
    _check("order", order, Order)
    chosen = job.select_ranks([rank])
    selection = TimeSelection.of(job, chosen, steps=steps, window_ns=window_ns)
    path = tuple(root or ())
    asked = _Asked(
        weight,
        "merged" if sandwich else order,
        selection,
        path or ((sandwich,) if sandwich else ()),
    )
    nodes, names, callers, total, has_frames = job.reduce(_nodes, chosen, asked, sandwich)[rank]
    of_memory = weight == "bytes"
    said = data_size(total) if of_memory else duration(total)
    return Flame(
        nodes=nodes.rename(columns=_IN_BYTES) if of_memory else nodes,
        names=names.rename(columns=_IN_BYTES) if of_memory else names,
        callers=callers.rename(columns=_IN_BYTES) if of_memory else callers,
        sandwich=sandwich,
        root=asked.root,
        total_ns=0 if of_memory else total,
        total_bytes=total if of_memory else 0,
        finding=f"{said} {_WHAT[weight]} on rank {rank}." if total else "",
        notices=(
            *job.notices_for(chosen),
            *job.lacking(chosen, Recorded.OPERATORS),
            *(job.lacking(chosen, Recorded.MEMORY) if of_memory else ()),
            *(() if has_frames or job.sources[rank].format.lacks else (_NO_STACKS,)),
        ),
    )


def collapsed_stacks(
    job: Job,
    rank: int,
    *,
    weight: Weight = "gpu",
    steps: Iterable[int] | None = None,
    window_ns: Sequence[int] | None = None,
) -> str:
    """All paths as text for other flame graph tools, a line each: ``outer;inner 1234``.

    The numbers are ns, or bytes. The parameters are those of `flame`.

    Examples
    --------
    >>> print(collapsed_stacks(job, 0))  # doctest: +SKIP
    train.py(8): main;aten::mm;cudaLaunchKernel;gemm 51200
    """
    _check("weight", weight, Weight)
    chosen = job.select_ranks([rank])
    selection = TimeSelection.of(job, chosen, steps=steps, window_ns=window_ns)
    return job.reduce(_collapsed, chosen, weight, selection)[rank]


class _Asked(NamedTuple):
    weight: Weight
    order: Order
    selection: TimeSelection | None
    root: tuple[str, ...]


def _nodes(
    rank: Rank, asked: _Asked, sandwich: str
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame, int, bool]:
    weight, order, selection, root = asked
    has_frames = calls_of(rank).has_frames
    tree = weighted_tree(rank, weight, order, selection)
    total = int(tree.own_ns.sum())
    if not sandwich:
        return folded(tree, order, root), times_by_name(tree, root), no_nodes(), total, has_frames
    both = sandwich_of(tree, sandwich)
    callers = folded(both.callers, order, (sandwich,)) if len(root) == 1 else no_nodes()
    nodes, names = folded(both.callees, order, root), times_by_name(both.callees, root)
    return nodes, names, callers, total, has_frames


def _collapsed(rank: Rank, weight: Weight, selection: TimeSelection | None) -> str:
    tree = weighted_tree(rank, weight, "merged", selection)
    texts = [_in_one_line(name) for name in tree.names]
    paths: list[str] = []
    lines: list[str] = []
    columns = (tree.parent.tolist(), tree.name.tolist(), tree.own_ns.tolist())
    for parent, name, own_ns in zip(*columns, strict=True):
        paths.append(texts[name] if parent < 0 else f"{paths[parent]};{texts[name]}")
        if own_ns:
            lines.append(f"{paths[-1]} {own_ns}")
    return "\n".join(sorted(lines)) + "\n" * bool(lines)


def _in_one_line(name: str) -> str:
    """A name without what separates names and lines."""
    return " ".join(name.replace(";", ",").split())


def _check(name: str, value: str, values: object) -> None:
    known = get_args(values)
    if value not in known:
        msg = f"{name} must be one of {', '.join(map(repr, known))}, got {value!r}"
        raise ParameterError(msg)
