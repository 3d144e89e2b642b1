"""Numbers of groups of rows, each of which stands for some launches."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hta_widgets.arrays import Int64Array
from hta_widgets.grouping import grouped

NOT_RECORDED: Final = -1


def longest(group: Int64Array, codes: Int64Array, gpu_ns: Int64Array) -> Int64Array:
    """The code with most of the time in each group."""
    parts = grouped(group, codes)
    of_part, total_ns = group[parts.first], parts.reduce(np.add, gpu_ns)
    order = np.lexsort((-total_ns, of_part))
    heads = order[np.flatnonzero(np.diff(of_part[order], prepend=-1))]
    return codes[parts.first[heads]]


def statistics(
    name: str, values: NDArray[Any], group: Int64Array, count: Int64Array, size: int
) -> dict[str, NDArray[Any]]:
    """Lower median over all launches of each group, minimum and maximum of what is recorded."""
    missing = NOT_RECORDED if values.dtype.kind == "i" else np.nan
    found = [np.full(size, missing) for _ in range(3)]
    known = np.flatnonzero(values >= 0)
    order = known[np.lexsort((values[known], group[known]))]
    there, first = np.unique(group[order], return_index=True)
    last = np.append(first[1:], order.size)[: first.size] - 1
    reached = np.cumsum(count[order])
    before = (reached - count[order])[first]
    middle = before + (reached[last] - before - 1) // 2
    place = np.searchsorted(reached, middle, side="right")
    for column, at in zip(found, (place, first, last), strict=True):
        column[there] = values[order[at]]
    return dict(zip((name, f"{name}_min", f"{name}_max"), found, strict=True))
