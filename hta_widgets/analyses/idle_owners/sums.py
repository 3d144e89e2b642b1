"""Sums of idle time: of a rank by table row and by call, of a result by device or owner."""

from __future__ import annotations

from typing import Any, Final, Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hta_widgets.analyses.budget.classes import CLASS_OF
from hta_widgets.analyses.budget.device_steps import counted_segments
from hta_widgets.analyses.budget.idle_gaps import OwnedTime, gaps_of, owned_time
from hta_widgets.analyses.budget.idle_segments import IdleSegments
from hta_widgets.analyses.idle_owners.paths import node_of_place, sums_by
from hta_widgets.analyses.time.call_sums import sums_at
from hta_widgets.analyses.time.causes import CODE, IDLE_CAUSES, as_counted
from hta_widgets.analyses.time.modules import SEPARATOR
from hta_widgets.analyses.time.rows import shared_texts
from hta_widgets.analyses.time.selection import EVERYTHING, TimeSelection, remember
from hta_widgets.arrays import Int64Array, IntArray, Mask
from hta_widgets.grouping import grouped
from hta_widgets.intervals import Times
from hta_widgets.trace.ranks.rank import Rank

USUAL_CLASS: Final = {each.name: CLASS_OF[each.gap or "gap_op"] for each in IDLE_CAUSES}
"""Class of the budget that most time of each cause counts for."""

OTHERWISE_WORTH_SAYING: Final = 0.03
"""Share of the idle time at which an unusual class of a cause is shown separately."""

NAMES_SHOWN: Final = 4
"""Innermost names of a path that are shown; stacks have dozens."""


class SelectedTime(NamedTuple):
    """The idle time of a rank that lies in some of its time."""

    segments: IdleSegments
    """Cut at the edges of the selected time."""
    at: Int64Array
    """Position of each segment among all segments of the rank, ascending."""


class IdleByCall(NamedTuple):
    """Segments of the idle time of all devices."""

    place: IntArray
    """Place of the call that each segment belongs to, -1 for none."""
    ns: Times


class By(NamedTuple):
    """How segments are put into the rows of a table."""

    keys: tuple[str, ...]
    """What the segments of a row have in common: some of ``device``, ``step``, ``part``, ``cause``,
    ``class``, ``initialises``, ``thread``, ``node``."""
    longest_first: bool
    """Whether the longest row is first; else rows are sorted by the keys, in their order."""
    counts: Literal["segments", "intervals"]
    """What is counted for each row: its segments, or the idle intervals that they are part of."""


BY_CAUSE: Final = By(
    ("device", "step", "part", "cause", "class", "initialises"), False, "intervals"
)
BY_OWNER: Final = By(
    ("device", "cause", "class", "initialises", "part", "step", "thread", "node"), True, "segments"
)


class Sums(NamedTuple):
    """Idle time by row."""

    keys: dict[str, NDArray[Any]]
    """What the segments of each row have in common."""
    idle_ns: Times
    counts: Int64Array
    """Number of segments or of idle intervals, as `By.counts` says."""


def selected_time(rank: Rank, selection: TimeSelection) -> SelectedTime:
    """The idle time of a rank in some of its time; each interval keeps the cause of the whole."""
    owned, window_ns = owned_time(rank), selection.window_of(rank)
    selected = np.ones(owned.step.size, dtype=np.bool_)
    if selection.steps:
        selected = np.isin(owned.step, selection.steps)
    if window_ns is not None:
        start_ns, end_ns = window_ns
        selected &= (owned.segments.end_ns > start_ns) & (owned.segments.start_ns < end_ns)
    segments = owned.segments.take(selected)
    if window_ns is not None:
        segments = segments.clip(*window_ns)
    return SelectedTime(segments, np.flatnonzero(selected))


def idle_by_call(rank: Rank, selection: TimeSelection | None) -> IdleByCall:
    """Idle time of a rank in some of its time, with the calls that it belongs to."""
    return remember(rank, _idle_by_call, selection)


def _idle_by_call(rank: Rank, selection: TimeSelection | None) -> IdleByCall:
    segments = selected_time(rank, selection or EVERYTHING).segments
    return IdleByCall(segments.owner, segments.length_ns)


def idle_sums(rank: Rank, selected: SelectedTime, by: By) -> Sums:
    """Sum the selected idle time by row; rows without any are left out."""
    keys, row_of_segment = rank.remember(_row_numbers, by)
    row, count = row_of_segment[selected.at], keys["cause"].size
    idle_ns = sums_at(row, selected.segments.length_ns, count)
    if by.counts == "intervals":
        row = row[grouped(selected.segments.gap, row).first]
    else:
        row = row[_is_first_part(owned_time(rank), selected.at, row)]
    counts, rows = np.bincount(row, minlength=count), np.flatnonzero(idle_ns)
    if by.longest_first:
        rows = rows[np.argsort(-idle_ns[rows], kind="stable")]
    return Sums({name: key[rows] for name, key in keys.items()}, idle_ns[rows], counts[rows])


def _is_first_part(owned: OwnedTime, at: Int64Array, row: NDArray[np.integer[Any]]) -> Mask:
    """Which of some ascending segments do not continue the one before them in the same row."""
    goes_on = owned.is_continued[at] & (np.diff(at, prepend=-1) == 1)
    goes_on[1:] &= row[1:] == row[:-1]
    return np.asarray(~goes_on)


def _row_numbers(
    rank: Rank, by: By
) -> tuple[dict[str, NDArray[Any]], NDArray[np.unsignedinteger[Any]]]:
    """Keys of each row, in the order of a table of the whole time, and the row of each segment."""
    owned, gaps, counted = owned_time(rank), gaps_of(rank), counted_segments(rank)
    columns: dict[str, NDArray[Any]] = {
        "device": gaps.device[owned.segments.gap],
        "cause": owned.cause,
        "class": counted.as_class,
        "initialises": counted.initialises,
        "part": gaps.part[owned.segments.gap],
        "step": owned.step,
        "thread": owned.thread,
    }
    if "node" in by.keys:
        columns["node"] = node_of_place(rank)[owned.segments.owner]
    groups = grouped(*(columns[name] for name in by.keys))
    order = np.arange(groups.sizes.size)
    if by.longest_first:
        idle_ns = groups.reduce(np.add, owned.segments.length_ns)
        order = np.argsort(-idle_ns, kind="stable")
    number = np.empty(order.size, dtype=np.min_scalar_type(order.size))
    number[order] = np.arange(order.size)
    first = groups.first[order]
    return {name: columns[name][first] for name in by.keys}, number[groups.of_rows]


def causes_by_device(devices: pd.DataFrame, causes: pd.DataFrame) -> pd.DataFrame:
    """Idle time of each device by cause.

    ``rank``, ``device``, ``idle_ns``, and a column (int64 ns) for each cause that occurs. Time that
    counts for another class than usual has a column of its own, such as
    ``operator:data_loading``, from `OTHERWISE_WORTH_SAYING` on.
    """
    keys = ["rank", "device"]
    by_cause = _by_cause(causes, keys)
    sums = by_cause.reindex(pd.MultiIndex.from_frame(devices[keys]), fill_value=0)
    return pd.concat([devices[[*keys, "idle_ns"]], sums.reset_index(drop=True)], axis=1)


def owners_by_name(owners: pd.DataFrame) -> pd.DataFrame:
    """Idle time of all calls of a name, over all devices, by cause; longest first.

    Indexed by ``owner`` (empty for none), with the columns of causes of `causes_by_device`.
    """
    by_cause = _by_cause(owners, ["owner"])
    order = (-by_cause.sum(axis=1)).argsort(kind="stable")
    return by_cause.iloc[order]


def _by_cause(table: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Sums with a row for each value of the keys, and a column for each cause that occurs."""
    table = as_counted(table)
    usual = table["cause"].map(USUAL_CLASS).astype(object)
    other = table[(table["class"] != "") & (table["class"] != usual)]
    share = other.groupby(["cause", "class"])["idle_ns"].transform("sum") / table["idle_ns"].sum()
    other = other[share >= OTHERWISE_WORTH_SAYING]
    cause = table["cause"].astype(object)
    cause[other.index] = other["cause"].astype(object) + ":" + other["class"].astype(object)
    sums = table.assign(cause=cause).pivot_table(
        index=keys, columns="cause", values="idle_ns", aggfunc="sum", fill_value=0
    )
    return sums[sorted(sums.columns, key=lambda name: CODE[str(name).partition(":")[0]])]


def owners_by_path(owners: pd.DataFrame, paths: pd.DataFrame) -> pd.DataFrame:
    """Sum `IdleOwners.owners` by cause and path, longest first.

    ``rank``, ``device``, ``cause``, ``owner``, ``kind``, ``path`` (text: the innermost names),
    ``idle_ns`` (int64), ``idle_percent`` (of the idle time of the device), ``pieces``.
    """
    table = sums_by(["rank", "device", "cause", "owner", "kind", "path"], owners)
    names, parents = paths["name"].tolist(), paths["parent"].tolist()
    text = {path: _path_text(path, names, parents) for path in set(table["path"].tolist())}
    return table.assign(path=shared_texts(text[path] for path in table["path"].tolist()))


def _path_text(path: int, names: list[str], parents: list[int]) -> str:
    shown: list[str] = []
    while path >= 0 and len(shown) < NAMES_SHOWN:
        shown.insert(0, names[path])
        path = parents[path]
    return SEPARATOR.join([*(["…"] if path >= 0 else []), *shown])
