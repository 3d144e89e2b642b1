"""From the mean step of one job to that of another: where the difference comes from.

Rows are as fine as kernels; at each coarser level, their differences add up to the whole.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, TypeAlias

import numpy as np
import pandas as pd

from hta_widgets.analyses.budget.classes import CLASS_OF
from hta_widgets.analyses.time.modules import of_classes
from hta_widgets.arrays import Int64Array
from hta_widgets.diagnosis.change.summary import Summary, rounded
from hta_widgets.diagnosis.change.time_spent import KEYS

LEVELS: Final = ("class", *KEYS)
"""From the coarsest to the finest; at each, the differences of all rows add up to the whole."""

_NUMBERS: Final = ("first_ns", "second_ns", "delta_ns", "first_count", "second_count")

Outcome: TypeAlias = Literal["new", "gone", "grew", "fell", "same"]

MOST_OF_IT: Final = 0.8
"""Share of the difference that lines must explain; and share of its parent's difference that a row
must have to stand for it."""

MOST_LINES: Final = 3
_ALIKE_MODULES: Final = 0.9


class Line(NamedTuple):
    """A part of the difference."""

    path: tuple[str, ...]
    """Texts of `LEVELS`, as far down as the part is; empty for all of it."""
    first_ns: int
    second_ns: int
    """Time in the mean step of each job."""
    first_count: float
    second_count: float
    """Pieces of work, or of idle time, in the mean step of each job."""

    @property
    def delta_ns(self) -> int:
        """How much longer the second is."""
        return self.second_ns - self.first_ns

    @property
    def outcome(self) -> Outcome:
        """What became of it in the second job."""
        if not self.delta_ns:
            return "same"
        if not self.first_ns or not self.second_ns:
            return "gone" if self.first_ns else "new"
        return "grew" if self.delta_ns > 0 else "fell"


def waterfall(first: Summary, second: Summary) -> pd.DataFrame:
    """Put the mean steps of two jobs side by side, largest change first.

    One row per `LEVELS`: ``first_ns``, ``second_ns`` and ``delta_ns`` (int64; of the mean step),
    ``first_count`` and ``second_count`` (per mean step; float). The times of a job add up exactly
    to `Summary.mean_ns`: each is rounded so that the running sum is right to half a ns.
    """
    tables = [each.spent for each in (first, second)]
    if not _modules_match(first, second):
        tables = [each.assign(module=each["module"].map(of_classes)) for each in tables]
    tables = [each.groupby([*KEYS])[["count", "time_ns"]].sum() for each in tables]
    both = tables[0].add_suffix("_first").join(tables[1].add_suffix("_second"), how="outer")
    both = both.fillna(0)
    table = pd.DataFrame(index=both.index)
    for side, each in (("first", first), ("second", second)):
        table[f"{side}_ns"] = shares(both[f"time_ns_{side}"].to_numpy().astype(np.int64), each.rows)
        table[f"{side}_count"] = both[f"count_{side}"] / max(each.rows, 1)
    table["delta_ns"] = table["second_ns"] - table["first_ns"]
    table = table.reset_index()
    table.insert(0, "class", table["part"].map(CLASS_OF))
    order = table["delta_ns"].abs().sort_values(ascending=False, kind="stable").index
    return table.loc[order, [*LEVELS, *_NUMBERS]].reset_index(drop=True)


def shares(sums: Int64Array, count: int) -> Int64Array:
    """Divide sums by a number so that the quotients add up to the rounded quotient of the total.

    Examples
    --------
    >>> shares(np.array([1, 1, 1]), 2).tolist()  # of 1.5
    [1, 0, 1]
    """
    ends = [rounded(int(each), count) for each in np.cumsum(sums).tolist()]
    whole = np.array([0, *ends], dtype=np.int64)
    return whole[1:] - whole[:-1]


def _modules_match(first: Summary, second: Summary) -> bool:
    """Whether modules match by path; otherwise they are compared by the paths of their classes."""
    tables = [each.spent[each.spent["module"] != ""] for each in (first, second)]
    for own, other in (tables, tables[::-1]):
        whole = int(own["time_ns"].sum())
        same = int(own[own["module"].isin({*other["module"]})]["time_ns"].sum())
        if same < _ALIKE_MODULES * whole:
            return False
    return True


def level(table: pd.DataFrame, name: str) -> pd.DataFrame:
    """Sum up a waterfall by one of `LEVELS` and those above it, largest change first."""
    keys = [*LEVELS[: LEVELS.index(name) + 1]]
    sums = table.groupby(keys, as_index=False)[[*_NUMBERS]].sum()
    return sums.sort_values("delta_ns", key=abs, ascending=False, kind="stable", ignore_index=True)


class Opened(NamedTuple):
    """A row of the waterfall, with the rows that add up to it."""

    above: tuple[Line, ...]
    """The whole difference, and what was opened on the way to this row, which comes last."""
    below: tuple[Line, ...]
    """Its rows at the next level with several, largest change first."""


def opened(table: pd.DataFrame, path: tuple[str, ...]) -> Opened:
    """Open a row of a waterfall by its path: texts of `LEVELS`, as far down as the row is.

    An empty path opens all of it. A row of the lowest level is shown among its siblings; if a path
    does not exist, the part of it that does is opened.
    """
    above, rows = [_line((), table)], table
    for depth, text in enumerate(path[: len(LEVELS) - 1]):
        inside = rows[rows[LEVELS[depth]] == text]
        if inside.empty:
            break
        if depth == 0 or len(inside) < len(rows):
            above.append(_line(path[: depth + 1], inside))
        rows = inside
    depth = len(above[-1].path)
    while 0 < depth < len(LEVELS) - 1 and len({*rows[LEVELS[depth]]}) == 1:
        depth += 1
    below = [
        _line(tuple(str(inside[name].iloc[0]) for name in LEVELS[: depth + 1]), inside)
        for _, inside in rows.groupby(LEVELS[depth], sort=False)
    ]
    below.sort(key=lambda each: (-abs(each.delta_ns), each.path))
    return Opened(tuple(above), tuple(below))


def largest_lines(table: pd.DataFrame) -> tuple[Line, ...]:
    """The few lines that explain most of the difference between two jobs.

    They have the direction of the whole difference, largest first, until `MOST_OF_IT` of it is
    explained. Each goes as far down as one row stands for the difference of its parent, so kernels
    that replace each other below one operator make no lines.
    """
    whole = int(table["delta_ns"].sum())
    sign = 1 if whole >= 0 else -1
    lines = _lines(table, sign)
    kept: list[Line] = []
    for line in lines[:MOST_LINES]:
        if sign * sum(each.delta_ns for each in kept) >= MOST_OF_IT * abs(whole):
            break
        kept.append(line)
    return tuple(kept)


def opposite_line(table: pd.DataFrame) -> Line | None:
    """The largest line against the direction of the whole difference, which hides it; or None.

    Lower precision halved the kernels of a step that became longer because its loader was slower.
    """
    lines = _lines(table, -1 if int(table["delta_ns"].sum()) >= 0 else 1)
    return lines[0] if lines else None


def _lines(table: pd.DataFrame, sign: int) -> list[Line]:
    """A line for each class that changed in a direction, largest first."""
    classes = level(table, "class")
    towards = classes[sign * classes["delta_ns"] > 0]["class"].tolist()
    lines = [_followed(table[table["class"] == name], 1) for name in towards]
    return sorted(lines, key=lambda each: -sign * each.delta_ns)


def _followed(rows: pd.DataFrame, depth: int) -> Line:
    """Follow a row down to where several rows share its difference."""
    delta = int(rows["delta_ns"].sum())
    if depth < len(LEVELS):
        sums = rows.groupby(LEVELS[depth])["delta_ns"].sum()
        towards = sums * (1 if delta >= 0 else -1)
        share = float(towards.max()) / abs(delta) if delta else 0.0
        if MOST_OF_IT <= share <= 1 / MOST_OF_IT:
            return _followed(rows[rows[LEVELS[depth]] == towards.idxmax()], depth + 1)
    return _line(tuple(str(rows[name].iloc[0]) for name in LEVELS[:depth]), rows)


def _line(path: tuple[str, ...], rows: pd.DataFrame) -> Line:
    first_ns, second_ns, _, first_count, second_count = (rows[name].sum() for name in _NUMBERS)
    return Line(path, int(first_ns), int(second_ns), float(first_count), float(second_count))


PART_LABELS: Final = {
    "compute": "compute",
    "memory": "copies and memsets",
    "transfer": "collectives",
    "transfer_p2p": "sends and receives",
    "undivided": "communication",
    "wait": "waiting in collectives",
    "wait_p2p": "waiting in sends and receives",
    "gap_profiler": "the profiler writes",
    "gap_loader": "the host loads data",
    "gap_alloc": "the host allocates memory",
    "gap_init": "CUDA loads code",
    "gap_step": "between steps",
    "gap_pause": "the host pauses",
    "gap_sync": "the host waited for the GPU",
    "gap_op": "the host launches",
    "gap_depend": "no recorded cause",
}
"""Names of the parts of a class."""

NOTHING_LABELS: Final = {
    "module": "outside of modules",
    "operator": "outside of operators",
    "shape": "shapes not recorded",
    "kernel": "no call",
}
"""Name of a row without a text, by level."""
