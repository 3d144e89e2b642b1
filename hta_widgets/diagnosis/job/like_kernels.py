"""How long kernels take on a rank, compared with the same kernels doing the same work on others.

If batches differ by a few tokens, no two ranks run alike kernels. But they run the same number of
kernels of one name, and the recorded sizes show about how much work these do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hta_widgets.analyses.time.window import NO_STEP
from hta_widgets.arrays import Float64Array, Int64Array, Mask
from hta_widgets.diagnosis.facts.kernel_facts import Keys, LikeKernelFacts
from hta_widgets.diagnosis.job.steps import Matrix, Steps
from hta_widgets.grouping import Groups

PAIR: Final = 2
"""With this many ranks, the faster one is the usual one."""


LIKE_SIZE: Final = 1.05
"""Up to this ratio, numbers or sizes of kernels are about the same."""

MOST_UNLIKE: Final = 0.05
"""Share of the time without shapes that may be in kernels of another launch size than elsewhere.
With more, the work differs, and kernels with one block for each multiprocessor show nothing."""

_LARGEST: Final = 50.0
"""Logarithm of the ratio of two sizes, above which all ratios count the same."""


def usual_of(
    values: Float64Array, *columns: NDArray[np.generic]
) -> tuple[Float64Array, Int64Array]:
    """Median of the values whose columns are equal, or the smaller of two; and their number.

    Examples
    --------
    >>> usual, ranks = usual_of(np.array([4.0, 1.0, 2.0, 3.0]), np.array([0, 0, 0, 1]))
    >>> usual.tolist(), ranks.tolist()
    ([2.0, 2.0, 2.0, 3.0], [3, 3, 3, 1])
    """
    order = np.lexsort((values, *columns))
    runs, ascending = Groups.in_order(order, *columns), values[order]
    first, sizes, number = runs.edges[:-1], runs.sizes, runs.of_rows
    lower, upper = ascending[first + (sizes - 1) // 2], ascending[first + sizes // 2]
    middle = np.where(sizes == PAIR, lower, (lower + upper) / 2)
    return middle[number], sizes[number]


def weighted_medians(
    cells: Int64Array, values: Float64Array, weights: Float64Array, size: int
) -> Float64Array:
    """Weighted median of the values of each cell; 1 for cells without any.

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
    runs = Groups.in_order(order, cells)
    first, last = runs.edges[:-1], runs.edges[1:] - 1
    before = np.concatenate(([0.0], reached[last[:-1]]))
    at = np.searchsorted(reached, before + (reached[last] - before) / 2)
    found[cells[runs.first]] = values[order][np.clip(at, first, last)]
    return found


class SizePaces(NamedTuple):
    """What kernels of the same name show about each row."""

    pace: Float64Array
    """Mean duration of all kernels of this name, rank and step, relative to the median of the ranks
    and to how much larger they are; 1 where not known."""
    is_like: Mask
    is_unlike: Mask
    """Whether their number and size are about those of the median rank; and whether their size is
    another."""


def paces_by_size(
    place: Int64Array,
    step: Int64Array,
    kind: NDArray[np.uint64],
    *,
    counts: Int64Array,
    total_ns: Float64Array,
    size: Float64Array,
) -> SizePaces:
    """Compare the kernels of each name across ranks; the arguments are columns of `LikeKernels`.

    Sizes are logarithms, averaged by the time that kernels of each size take.
    """
    runs = Groups.in_order(np.lexsort((place, step, kind)), kind, step, place)
    columns = step[runs.first], kind[runs.first]
    number = runs.reduce(np.add, counts).astype(np.float64)
    taken_ns = np.maximum(runs.reduce(np.add, total_ns), 1)
    of_size = runs.reduce(np.add, total_ns * size) / taken_ns
    usual_ns, ranks = usual_of(taken_ns / number, *columns)
    larger = of_size - usual_of(of_size, *columns)[0]
    more = number / usual_of(number, *columns)[0]
    is_known = np.isfinite(larger) & (ranks >= PAIR)
    is_of_size = np.abs(larger) <= np.log(LIKE_SIZE)
    is_like = is_known & is_of_size & (np.abs(np.log(more)) <= np.log(LIKE_SIZE))
    times = np.exp(np.clip(larger, 0, _LARGEST))
    pace = np.where(is_known, taken_ns / number / np.maximum(usual_ns, 1) / times, 1.0)
    of_rows = runs.of_rows
    return SizePaces(pace[of_rows], is_like[of_rows], (is_known & ~is_of_size)[of_rows])


def tells_of_work(
    cells: Int64Array, total_ns: Float64Array, is_shaped: Mask, is_other: Mask
) -> Mask:
    """Whether kernels with the same key are the same work, see `MOST_UNLIKE`.

    They are compared by cell: a step, or a rank in a step. Shapes in the key always prove it;
    otherwise, kernels with another launch size than elsewhere are other work.

    Examples
    --------
    >>> cells, no = np.array([0, 0, 1, 1]), np.zeros(4, dtype=bool)
    >>> tells_of_work(cells, np.ones(4), no, np.array([False, True, False, False])).tolist()
    [False, False, True, True]
    """
    weights = np.where(is_shaped, 0, total_ns)
    whole, others = np.bincount(cells, weights), np.bincount(cells, weights * is_other)
    return np.asarray(is_shaped | (others <= MOST_UNLIKE * whole)[cells])


HALF: Final = 0.5
"""Kernels that can be compared must make up this share of the compute time."""

LEAST_ALIKE: Final = 0.2
"""With a smaller share of time in alike kernels, those of like size show nothing about a GPU."""

_MOST_STEPS: Final = 0.75
_USUAL_QUANTILE: Final = 0.25

_COLUMNS: Final = {
    "key": np.uint64,
    "counts": np.int64,
    "total_ns": np.float64,
    "median_ns": np.float64,
    "kind": np.uint64,
    "size": np.float64,
    "is_shaped": np.bool_,
}


@dataclass(frozen=True, eq=False)
class LikeKernels:
    """Kernels of all ranks, a row for each rank, kind of alike kernels and step."""

    steps: Steps
    names: Mapping[int, str]
    """Name of the kernels of each key."""
    place: Int64Array
    step: Int64Array
    """Positions in ``steps.ranks`` and ``steps.numbers``."""
    key: Keys
    counts: Int64Array
    total_ns: Float64Array
    median_ns: Float64Array
    kind: Keys
    size: Float64Array
    is_shaped: Mask
    """See `LikeKernelFacts`."""
    are_described: bool
    """Whether grids or shapes are recorded for at least half of the time; without them, different
    work looks like a slower GPU."""

    @classmethod
    def of(cls, steps: Steps, facts: Mapping[int, LikeKernelFacts]) -> LikeKernels:
        """Join the kernels of the ranks."""
        numbers = np.array(steps.numbers)
        names: dict[int, str] = {}
        parts: dict[str, list[NDArray[Any]]] = {name: [] for name in ("place", "step", *_COLUMNS)}
        for place, rank in enumerate(steps.ranks):
            each = facts[rank]
            names |= each.names
            at = np.minimum(np.searchsorted(numbers, each.step), numbers.size - 1)
            rows = np.flatnonzero((numbers[at] == each.step) | (numbers[0] == NO_STEP))
            parts["place"].append(np.full(rows.size, place))
            parts["step"].append(at[rows])
            for name, kind in _COLUMNS.items():
                parts[name].append(getattr(each, name)[rows].astype(kind))
        described = sum(each.described_ns for each in facts.values())
        whole = sum(each.kernels_ns for each in facts.values())
        joined = {name: np.concatenate(part) for name, part in parts.items()}
        return cls(steps, names, are_described=described >= HALF * whole, **joined)

    @property
    def are_shaped(self) -> bool:
        """Whether shapes are recorded for at least half of the time."""
        return bool(self.total_ns[self.is_shaped].sum() >= HALF * self.total_ns.sum())

    def ratio(self, *, of_means: bool = False) -> Matrix:
        """How long the kernels of a rank take in a step, relative to the median of the ranks.

        The median over its kernels, weighted by their time; 1 if most of its time is in work that
        no other rank does. If alike kernels are less than half of the time, those of like size
        count too, but only to make the ratio smaller. Alike kernels count by their median, or by
        their mean.
        """
        usual, _ = usual_of(self.median_ns, self.step, self.key)
        pace = self._pace if of_means else self.median_ns / np.maximum(usual, 1)
        alike = self._medians_of(pace, self._shared)
        every = self._medians_of(np.where(self._shared, pace, self._pace), self._compared)
        some = np.where(self._covered(self._compared) >= HALF, np.minimum(alike, every), 1.0)
        some[self._covered(self._shared) < LEAST_ALIKE] = 1
        found = np.where(self._covered(self._shared) >= HALF, alike, some)
        return np.where(self.are_described, found, 1.0).reshape(self._shape)

    def excess_ns(self) -> Matrix:
        """How much less a rank would compute in a step if its kernels took as long as elsewhere.

        0 if most of its time is in work that no other rank does.
        """
        are_most = self._covered(self._shared) >= HALF
        counts = np.where(are_most[self._cells], self._shared, self._compared)
        least = np.where(are_most, 0, LEAST_ALIKE)
        is_known = (self._covered(counts) >= HALF) & (self._covered(self._shared) >= least)
        cells = self._cells[counts]
        taken = np.bincount(cells, self.total_ns[counts], self._size)
        needed = np.bincount(cells, (self.total_ns / self._pace)[counts], self._size)
        factor = np.where(is_known & self.are_described, taken / np.maximum(needed, 1), 1.0)
        saved = 1 - 1 / np.maximum(factor, 1)
        return self.steps["compute"] * saved.reshape(self._shape)

    def needed_ns(self) -> Matrix:
        """How long each rank would compute in a step if what is known to be alike took no longer.

        Kernels of another size are compared in proportion to their size; kernels that no other rank
        runs are needed in full.
        """
        longer = np.maximum(self._pace, 1)
        taken = np.bincount(self._cells, self.total_ns, self._size)
        needed = np.bincount(self._cells, self.total_ns / longer, self._size)
        part = np.where(self.are_described & (taken > 0), needed / np.maximum(taken, 1), 1.0)
        return self.steps["compute"] * part.reshape(self._shape)

    def against_itself(self) -> Float64Array:
        """How long the kernels of the median rank take in each step, relative to its fast steps."""
        usual = np.ones(len(self.steps.numbers))
        order = np.lexsort((self.median_ns, self.step, self.key))
        runs = Groups.in_order(order, self.key, self.step)
        middle = self.median_ns[order][runs.edges[:-1] + runs.sizes // 2]
        weight = runs.reduce(np.add, self.total_ns)
        key, step = self.key[runs.first], self.step[runs.first]
        base = np.zeros(key.size)
        for part in Groups.in_order(np.arange(key.size), key).parts:
            if part.size >= _MOST_STEPS * usual.size:
                base[part] = np.quantile(middle[part], _USUAL_QUANTILE)
        known = (base > 0) & tells_of_work(step, weight, self.is_shaped[runs.first], base == 0)
        found = weighted_medians(
            step[known], middle[known] / base[known], weight[known], usual.size
        )
        of_step = np.bincount(self.step, self.total_ns, usual.size)
        covered = np.bincount(step[known], weight[known], usual.size) >= HALF * of_step
        return np.where(covered & (of_step > 0), found, usual)

    def largest(self, place: int, most: int = 5) -> pd.DataFrame:
        """Kernels with the most time on a rank that other ranks run too, compared with theirs.

        ``kernel``, ``count``, ``ms``, ``usual_ms`` (as long as on the median of the ranks),
        ``factor``.
        """
        usual, ranks = usual_of(self.total_ns / self.counts, self.step, self.key)
        rows = np.flatnonzero((self.place == place) & (ranks >= PAIR))
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

    @cached_property
    def _cells(self) -> Int64Array:
        return self.place * self._shape[1] + self.step

    @cached_property
    def _shared(self) -> Mask:
        """Whether another rank runs alike kernels in the step, and they are the same work."""
        return self._has_key_elsewhere & self._tells

    @cached_property
    def _has_key_elsewhere(self) -> Mask:
        return np.asarray(usual_of(self.median_ns, self.step, self.key)[1] >= PAIR)

    @cached_property
    def _tells(self) -> Mask:
        """Whether kernels of one key, or of one size, are the same work."""
        is_other = self._sizes.is_unlike & ~self._has_key_elsewhere
        return tells_of_work(self._cells, self.total_ns, self.is_shaped, is_other)

    @cached_property
    def _sizes(self) -> SizePaces:
        rows = self.place, self.step, self.kind
        return paces_by_size(*rows, counts=self.counts, total_ns=self.total_ns, size=self.size)

    @cached_property
    def _compared(self) -> Mask:
        """Whether another rank runs alike kernels, or as many of the same name and like size."""
        return self._shared | (self._sizes.is_like & self._tells)

    @cached_property
    def _pace(self) -> Float64Array:
        """Mean duration of each row relative to the median of the ranks; 1 if not known."""
        usual, _ = usual_of(self.total_ns / self.counts, self.step, self.key)
        alike = self.total_ns / np.maximum(usual * self.counts, 1)
        by_size = np.where(self._tells, self._sizes.pace, 1.0)
        return np.where(self._shared, alike, by_size)

    def _medians_of(self, pace: Float64Array, chosen: Mask) -> Float64Array:
        weights = self.total_ns[chosen]
        return weighted_medians(self._cells[chosen], pace[chosen], weights, self._size)

    def _covered(self, chosen: Mask) -> Float64Array:
        """Share of the time of each rank and step that some rows make up."""
        of_cell = np.bincount(self._cells, self.total_ns, self._size)
        of_chosen = np.bincount(self._cells[chosen], self.total_ns[chosen], self._size)
        return np.asarray(of_chosen / np.maximum(of_cell, 1))
