"""Computation, communication, both or neither: compared across ranks, and over time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from hta_widgets.analyses.clocks.aligned import alignment_notices
from hta_widgets.analyses.rank_overlap.finding import finding_on
from hta_widgets.analyses.rank_overlap.lanes import (
    LEVELS,
    RANK,
    STREAM,
    Lane,
    Lanes,
    lane_slices,
    source_label,
)
from hta_widgets.analyses.rank_overlap.outlier_rules import FEWEST, Z_OUTLIER, largest_z
from hta_widgets.analyses.rank_overlap.outliers import (
    NO_NODE,
    SHARES,
    TIMES,
    nodes_among,
    outliers_among,
)
from hta_widgets.analyses.result import Result
from hta_widgets.analyses.time.selection import checked_window
from hta_widgets.arrays import Int64Array
from hta_widgets.errors import check_choice, check_least
from hta_widgets.intervals import Times, edges_of_parts
from hta_widgets.quantities import number
from hta_widgets.trace.job import Job, select_ranks
from hta_widgets.trace.model.formats import Recorded
from hta_widgets.trace.model.notices import Notice
from hta_widgets.trace.opening.rank_numbers import node_in_name


@dataclass(frozen=True, kw_only=True, eq=False)
class RankOverlap(Result):
    """What each lane (a rank, a device or a stream) does, in total and over time.

    Time is `compute` (only computation kernels run), `communicate` (only communication kernels),
    `overlap` (both), `graph` (a CUDA graph that was recorded as a whole, so that its content is not
    known, without both of these at the same time) or `empty` (none of these: idle, copies,
    memsets). The five add up to the span.

    Attributes
    ----------
    by : str
        What a lane is: ``rank``, ``device`` or ``stream``.
    lanes : DataFrame
        One row per lane, ascending: ``rank``, ``device``, ``stream`` (-1 if they are combined, or
        if a rank has no kernels), ``label`` (file of the rank), ``node`` (number in the
        label, -1 for none), ``kernels`` (number of kernels and whole graphs); ``start_ns``,
        ``end_ns`` (ns since the first event of all ranks, on aligned clocks: the lane's first
        kernel start and last kernel end, or those of all lanes with `common_window`), ``span_ns``
        (the time between), ``compute_ns``, ``communicate_ns``, ``overlap_ns``, ``graph_ns``,
        ``empty_ns``, all int64; ``compute_percent``, ``communicate_percent``, ``overlap_percent``,
        ``graph_percent``, ``empty_percent`` (of the span; NaN without one).
    slices : DataFrame
        One row per lane and slice, in this order: ``rank``, ``device``, ``stream``, ``slice`` (from
        0), ``start_ns``, ``end_ns`` (as in `lanes`), ``compute_ns``, ``communicate_ns``,
        ``overlap_ns``, ``graph_ns``, ``empty_ns``, and ``outside_ns`` (before the lane's start or
        after its end). The six add up to the slice.
    outliers : DataFrame
        One row per compared column and lane: ``column`` (``compute_ns`` to ``empty_percent``;
        ``graph_ns`` and ``graph_percent`` only if there are such graphs),
        ``rank``, ``device``, ``stream``, ``label``, ``node``; ``value``, ``median``, ``mean`` (in
        ns or percent), ``direction`` (``higher`` or ``lower`` than the median, or empty),
        ``compared`` (number of lanes compared; streams only with those of the same number),
        ``largest_z`` (largest possible z-score of this many values); ``z``, ``modified_z``,
        ``leave_one_out_t`` and ``critical_t``, each with its verdict (``Outlier``, ``Likely`` or
        empty) in ``verdict_z``, ``verdict_modified_z`` and ``verdict_t``; ``verdict`` (by the
        modified z; with fewer than five lanes, by t); ``node_median`` (of the lane's node; NaN if
        unknown). All verdicts except ``verdict_z`` ignore deviations of less than 1 % of the median
        or span.
    nodes : DataFrame
        One row per compared column and node, if file names have node numbers: ``column``, ``node``,
        ``lanes``, ``value`` (median of the node), ``median`` (of all nodes), ``direction``,
        ``score`` (deviation on the scale of z, relative to differences within nodes), ``verdict``.
        NaN and empty for fewer than three nodes or a node of one lane.
    """

    by: str
    lanes: pd.DataFrame
    slices: pd.DataFrame
    outliers: pd.DataFrame
    nodes: pd.DataFrame


def rank_overlap(
    job: Job,
    ranks: Iterable[int] | None = None,
    *,
    by: str = RANK,
    slices: int = 30,
    common_window: bool = False,
    window_ns: Sequence[int] | None = None,
) -> RankOverlap:
    """Measure computation, communication, both and neither on each rank, in total and over time.

    Only kernels count, by kernel type, and CUDA graphs that were recorded as a whole.

    Parameters
    ----------
    ranks : iterable of int, optional
        All ranks if not given.
    by : str
        What a lane is: ``rank``, ``device`` or ``stream``.
    slices : int
        Number of slices into which to cut the time from the first to the last kernel of all lanes.
    common_window : bool
        Give all lanes the span from the first to the last kernel of any lane. A lane that starts
        late or ends early is then empty before or after.
    window_ns : pair of int, optional
        Cut only the time between these two into slices, in ns since the first event of all ranks;
        all of it if no kernel runs between them. The other tables count all of the time.
    """
    check_choice("by", by, LEVELS)
    check_least("slices", slices, 1)
    chosen = tuple(sorted(select_ranks(job, ranks)))
    if chosen == job.ranks:
        source, found = job.remember(_without_slices, chosen, by, common_window=common_window)
    else:
        source, found = _without_slices(job, chosen, by, common_window=common_window)
    edges = edges_of_parts(*_part_of(source.window, checked_window(window_ns)), slices)
    spent = lane_slices(job, chosen, by, source, edges)
    table = _slices_table(found.lanes, spent, edges, common_window=common_window)
    return replace(found, slices=table)


def _part_of(whole: tuple[int, int], window: tuple[int, int] | None) -> tuple[int, int]:
    """The part of a stretch of time inside a window; all of it if there is none."""
    if window is None:
        return whole
    start, end = max(whole[0], window[0]), min(whole[1], window[1])
    return (start, end) if start < end else whole


def _without_slices(
    job: Job, ranks: tuple[int, ...], by: str, *, common_window: bool
) -> tuple[Lanes, RankOverlap]:
    """The lanes, and the part of the result that does not depend on the slices."""
    source = Lanes.of(job, ranks, by)
    lanes = _lanes_table(job, source, source.window if common_window else None)
    outliers = outliers_among(lanes, _comparable(lanes, by))
    nodes = nodes_among(lanes[(lanes["span_ns"] > 0) & (by != STREAM)])
    needed = [Recorded.KERNELS] if by != RANK else []
    return source, RankOverlap(
        by=by,
        lanes=lanes,
        slices=pd.DataFrame(),
        outliers=outliers,
        nodes=nodes,
        finding=finding_on(lanes, outliers, nodes, by),
        notices=(*job.notices_for(ranks, *needed), *_rank_overlap_notices(job, source, lanes, by)),
    )


def _lanes_table(job: Job, source: Lanes, common: tuple[int, int] | None) -> pd.DataFrame:
    lanes = source.lanes
    labels = [source_label(job, lane.rank) for lane in lanes]
    numbers = [(*lane[:4], lane.start_ns, lane.end_ns) for lane in lanes]
    names = ["rank", "device", "stream", "kernels", "start_ns", "end_ns"]
    table = pd.DataFrame(np.array(numbers, dtype=np.int64), columns=names)
    table.insert(3, "label", labels)
    nodes = map(node_in_name, labels)
    table.insert(4, "node", [NO_NODE if each is None else each for each in nodes])
    has_kernels = table["kernels"] > 0
    for place, edge in enumerate(["start_ns", "end_ns"]):
        aligned = (table[edge] + source.offset_ns).where(has_kernels, 0)
        table[edge] = aligned if common is None else common[place]
    table["span_ns"] = table["end_ns"] - table["start_ns"]
    busy_ns = np.array([lane.busy_ns for lane in lanes], dtype=np.int64)
    table[list(TIMES[:-1])] = busy_ns
    table[TIMES[-1]] = table["span_ns"] - busy_ns.sum(axis=1)
    span_ns = table["span_ns"].where(table["span_ns"] > 0)
    for time, share in zip(TIMES, SHARES, strict=True):
        table[share] = 100 * table[time] / span_ns
    return table


def _slices_table(
    lanes: pd.DataFrame, spent: Int64Array, edges: Times, *, common_window: bool
) -> pd.DataFrame:
    whole = np.broadcast_to(np.diff(edges), spent.shape[1:])
    outside = whole - spent.sum(axis=0)
    if common_window:
        spent[-1] += outside
        outside = np.zeros_like(outside)
    count = edges.size - 1
    keys = ("rank", "device", "stream")
    columns = {key: lanes[key].to_numpy().repeat(count) for key in keys}
    columns["slice"] = np.tile(np.arange(count), len(lanes))
    columns["start_ns"] = np.tile(edges[:-1], len(lanes))
    columns["end_ns"] = np.tile(edges[1:], len(lanes))
    for name, grid in zip((*TIMES, "outside_ns"), (*spent, outside), strict=True):
        columns[name] = grid.ravel()
    return pd.DataFrame(columns)


def _comparable(table: pd.DataFrame, by: str) -> list[Int64Array]:
    """Positions of the lanes that are compared with each other: streams of the same number."""
    kind = table["stream"].to_numpy() if by == STREAM else np.zeros(len(table), dtype=np.int64)
    measured = table["span_ns"].to_numpy() > 0
    return [np.flatnonzero(measured & (kind == each)) for each in np.unique(kind[measured])]


def _rank_overlap_notices(job: Job, source: Lanes, lanes: pd.DataFrame, by: str) -> list[str]:
    by_rank: dict[int, list[Notice]] = {}
    for lane in source.lanes:
        by_rank.setdefault(lane.rank, []).extend(_lane_notices(lane, by))
    return [
        *job.merged(by_rank),
        *alignment_notices(job, source.extents),
        *_clock_notice(source),
        *_count_notice(lanes, by),
    ]


def _lane_notices(lane: Lane, by: str) -> Iterator[Notice]:
    if not lane.kernels:
        yield Notice("no computation or communication kernels")
    if by == RANK and lane.devices > 1:
        yield Notice(f"{lane.devices} GPUs are combined into one lane (by='device' separates them)")


def _clock_notice(source: Lanes) -> Iterator[str]:
    extents = source.extents.values()
    if len(extents) > 1 and max(first for first, _ in extents) >= min(last for _, last in extents):
        yield (
            "Some ranks end before others begin: their clocks are not aligned, or they were not "
            "recorded at the same time. Compare their shares, not their time slices"
        )


def _count_notice(table: pd.DataFrame, by: str) -> Iterator[str]:
    count = int((table["span_ns"] > 0).sum())
    if by != STREAM and count >= FEWEST and largest_z(count) < Z_OUTLIER:
        yield (
            f"With {count} values, |z| cannot exceed {number(largest_z(count))}, so z-scores "
            "cannot flag an outlier; use the modified z or the leave-one-out t"
        )
