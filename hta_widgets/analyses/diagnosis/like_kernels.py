"""How long kernels take on a rank beside the same kernels with the same work on the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hta_widgets.analyses.diagnosis.kernel_facts import Keys, LikeKernelFacts, Rows
from hta_widgets.analyses.diagnosis.steps import Matrix, Steps
from hta_widgets.analyses.shared.attribution.window import NO_STEP

HALF: Final = 0.5
"""Kernels that can be compared must make up this part of the time of those that compute."""

_PAIR: Final = 2
_MOST_STEPS: Final = 0.75
_USUAL_QUANTILE: Final = 0.25

_COLUMNS: Final = ("place", "step", "key", "counts", "total_ns", "median_ns")

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LikeKernels:
    """Kernels of all ranks, a row for each rank, kind of alike kernels and step.

    Attributes
    ----------
    steps : Steps
    names : dict of int to str
        Kernel of each key.
    place, step : ndarray of int64
        Positions in ``steps.ranks`` and ``steps.numbers``.
    key : ndarray of uint64
    counts : ndarray of int64
    total_ns, median_ns : ndarray of float64
    are_described : bool
        Whether grids or shapes are recorded for at least half of the time; without them, other
        work cannot be told from a slower GPU.
    """

    steps: Steps
    names: Mapping[int, str]
    place: Rows
    step: Rows
    key: Keys
    counts: Rows
    total_ns: Floats
    median_ns: Floats
    are_described: bool

    @classmethod
    def of(cls, steps: Steps, facts: Mapping[int, LikeKernelFacts]) -> LikeKernels:
        """Put the kernels of the ranks beside each other."""
        numbers = np.array(steps.numbers)
        names: dict[int, str] = {}
        columns: dict[str, list[NDArray[Any]]] = {name: [] for name in _COLUMNS}
        for place, rank in enumerate(steps.ranks):
            each = facts[rank]
            names |= each.names
            at = np.minimum(np.searchsorted(numbers, each.step), numbers.size - 1)
            rows = np.flatnonzero((numbers[at] == each.step) | (numbers[0] == NO_STEP))
            columns["place"].append(np.full(rows.size, place))
            columns["step"].append(at[rows])
            columns["key"].append(each.key[rows])
            columns["counts"].append(each.counts[rows])
            columns["total_ns"].append(each.total_ns[rows].astype(np.float64))
            columns["median_ns"].append(each.median_ns[rows].astype(np.float64))
        described = sum(each.described_ns for each in facts.values())
        whole = sum(each.kernels_ns for each in facts.values())
        joined = {name: np.concatenate(parts) for name, parts in columns.items()}
        return cls(steps, names, are_described=described >= HALF * whole, **joined)

    def ratio(self) -> Matrix:
        """How long the kernels of a rank take in a step, beside the median of the ranks.

        The median over its kernels, weighted by their time; 1 where most of its time is in kernels
        that no other rank runs.
        """
        usual, ranks = self._over_ranks(self.median_ns)
        shared = ranks >= _PAIR
        pace = self.median_ns / np.maximum(usual, 1)
        cells = self._cells()
        found = weighted_medians(cells[shared], pace[shared], self.total_ns[shared], self._size)
        return np.where(self._is_comparable(shared), found, 1.0).reshape(self._shape)

    def excess_ns(self) -> Matrix:
        """How much less a rank would compute in a step if its kernels took as long as elsewhere."""
        usual, ranks = self._over_ranks(self.total_ns / self.counts)
        shared = ranks >= _PAIR
        cells = self._cells()
        taken = np.bincount(cells[shared], self.total_ns[shared], self._size)
        needed = np.bincount(cells[shared], (usual * self.counts)[shared], self._size)
        factor = np.where(self._is_comparable(shared), taken / np.maximum(needed, 1), 1.0)
        saved = 1 - 1 / np.maximum(factor, 1)
        return self.steps["compute"] * saved.reshape(self._shape)

    def against_itself(self) -> Floats:
        """How long the kernels of the median rank take in each step, beside its fast steps."""
        usual = np.ones(len(self.steps.numbers))
        order = np.lexsort((self.median_ns, self.step, self.key))
        first, sizes = _runs(self.key[order], self.step[order])
        middle = self.median_ns[order][first + sizes // 2]
        weight = np.add.reduceat(self.total_ns[order], first) if first.size else middle
        key, step = self.key[order][first], self.step[order][first]
        of_key, in_steps = _runs(key)
        base = np.zeros(key.size)
        for start, size in zip(of_key.tolist(), in_steps.tolist(), strict=True):
            if size >= _MOST_STEPS * usual.size:
                part = slice(start, start + size)
                base[part] = np.quantile(middle[part], _USUAL_QUANTILE)
        known = base > 0
        found = weighted_medians(
            step[known], middle[known] / base[known], weight[known], usual.size
        )
        of_step = np.bincount(self.step, self.total_ns, usual.size)
        covered = np.bincount(step[known], weight[known], usual.size) >= HALF * of_step
        return np.where(covered & (of_step > 0), found, usual)

    def usual_elsewhere(self, place: int) -> tuple[Keys, Floats]:
        """Keys, ascending, and how long their kernels take on the other ranks."""
        others = np.flatnonzero(self.place != place)
        order = others[np.lexsort((self.median_ns[others], self.key[others]))]
        first, sizes = _runs(self.key[order])
        return self.key[order][first], self.median_ns[order][first + (sizes - 1) // 2]

    def largest(self, place: int, most: int = 5) -> pd.DataFrame:
        """Kernels with most time on a rank that another rank runs too, beside those of the ranks.

        ``kernel``, ``count``, ``ms``, ``usual_ms`` (as long as on the median of the ranks),
        ``factor``.
        """
        usual, ranks = self._over_ranks(self.total_ns / self.counts)
        rows = np.flatnonzero((self.place == place) & (ranks >= _PAIR))
        table = pd.DataFrame(
            {
                "key": self.key[rows],
                "count": self.counts[rows],
                "ms": self.total_ns[rows] / 1e6,
                "usual_ms": (usual * self.counts)[rows] / 1e6,
            }
        )
        table = table.groupby("key", sort=False).sum().nlargest(most, "ms").reset_index()
        table.insert(0, "kernel", [self.names[key] for key in table.pop("key").tolist()])
        table["factor"] = table["ms"] / table["usual_ms"]
        return table

    @property
    def _shape(self) -> tuple[int, int]:
        return len(self.steps.ranks), len(self.steps.numbers)

    @property
    def _size(self) -> int:
        return self._shape[0] * self._shape[1]

    def _cells(self) -> Rows:
        return self.place * self._shape[1] + self.step

    def _is_comparable(self, shared: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Whether most of the time of each rank and step is in kernels that others run too."""
        cells = self._cells()
        of_cell = np.bincount(cells, self.total_ns, self._size)
        of_shared = np.bincount(cells[shared], self.total_ns[shared], self._size)
        return (of_shared >= HALF * of_cell) & (of_shared > 0) & self.are_described

    def _over_ranks(self, values: Floats) -> tuple[Floats, Rows]:
        """Median over the ranks with the same key and step, of two the smaller; and how many."""
        order = np.lexsort((values, self.step, self.key))
        first, sizes = _runs(self.key[order], self.step[order])
        ascending = values[order]
        lower, upper = ascending[first + (sizes - 1) // 2], ascending[first + sizes // 2]
        middle = np.where(sizes == _PAIR, lower, (lower + upper) / 2)
        usual, ranks = np.empty(order.size), np.empty(order.size, dtype=np.int64)
        usual[order], ranks[order] = np.repeat(middle, sizes), np.repeat(sizes, sizes)
        return usual, ranks


def weighted_medians(cells: Rows, values: Floats, weights: Floats, size: int) -> Floats:
    """Median of the values of each cell, weighted; 1 for cells without any.

    Examples
    --------
    >>> cells, values = np.array([0, 0, 0, 2]), np.array([1.0, 3.0, 2.0, 5.0])
    >>> weighted_medians(cells, values, np.array([1.0, 5.0, 1.0, 1.0]), 3).tolist()
    [3.0, 1.0, 5.0]
    """
    found = np.ones(size)
    if not cells.size:
        return found
    order = np.lexsort((values, cells))
    reached = np.cumsum(weights[order])
    first, sizes = _runs(cells[order])
    last = first + sizes - 1
    before = np.concatenate(([0.0], reached[last[:-1]]))
    at = np.searchsorted(reached, before + (reached[last] - before) / 2)
    found[cells[order][first]] = values[order][np.clip(at, first, last)]
    return found


def _runs(*columns: NDArray[np.generic]) -> tuple[Rows, Rows]:
    """Start and size of each run of equal rows."""
    size = columns[0].size
    opens = np.arange(size) == 0
    for column in columns:
        opens[1:] |= column[1:] != column[:-1]
    first = np.flatnonzero(opens)
    return first, np.diff(np.append(first, size))
