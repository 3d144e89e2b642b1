"""The kind of module that some kernels belong to."""

from __future__ import annotations

import re
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hta_widgets.analyses.time.modules import SEPARATOR, module_paths
from hta_widgets.intervals import Times
from hta_widgets.trace.ranks.rank import Rank

_NUMBER: Final = re.compile(r"_\d+$")

_IN_ALL_MODELS: Final = re.compile(
    r"^(Linear|Conv\d?d|Identity|Dropout|Sequential|ModuleList|DataParallel"
    r"|DistributedDataParallel|FullyShardedDataParallel|OptimizedModule)$"
)
"""Modules that do not tell where in a model they are."""


def time_by_module(rank: Rank, places: NDArray[np.int64], length_ns: Times) -> dict[str, int]:
    """Time inside each kind of module of the user's model.

    Parameters
    ----------
    rank : Rank
    places : ndarray of int64
        Place of the call to which each piece of time belongs, -1 for none.
    length_ns : ndarray of int64

    Returns
    -------
    dict of str to int
        Time (ns) by the class of the module, outermost first; empty if no modules are recorded.
        The one module that is outermost of all holds everything, and is left out.
    """
    paths = module_paths(rank)
    codes = paths.at(places)
    sums = np.bincount(codes[codes >= 0], length_ns[codes >= 0], minlength=len(paths.paths))
    found: dict[str, int] = {}
    outermost = set()
    for code in np.flatnonzero(sums).tolist():
        every = [_NUMBER.sub("", name) for name in paths.paths[code].split(SEPARATOR)]
        names = [name for name in dict.fromkeys(every) if not _IN_ALL_MODELS.search(name)]
        outermost.update(names[:1])
        for name in names:
            found[name] = found.get(name, 0) + int(sums[code])
    if len(outermost) == 1:
        del found[outermost.pop()]
    return found
