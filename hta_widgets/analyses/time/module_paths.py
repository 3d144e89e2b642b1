"""The path of modules that each call belongs to, as text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hta_widgets.analyses.time.ancestors import nearest_above
from hta_widgets.analyses.time.calls import calls_of
from hta_widgets.analyses.time.modules import MODULE, module_places
from hta_widgets.trace.model.events import Kind
from hta_widgets.trace.model.nesting import NO_PARENT
from hta_widgets.trace.ranks.rank import Rank

SEPARATOR: Final = " › "
"""Stands between the names of a path, from the outermost to the innermost."""

NO_MODULE: Final = -1

_INSTANCE: Final = re.compile(r"(?<=.)_\d+$")


class ModulePaths(NamedTuple):
    """Paths of modules by code.

    Attributes
    ----------
    codes : ndarray of int64
        Of each call by place, `NO_MODULE` outside any module.
    paths : tuple of str
        By code; different calls of a module have one path.
    """

    codes: NDArray[np.int64]
    paths: tuple[str, ...]

    def at(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Code of the path at some places, `NO_MODULE` at place -1."""
        return np.append(self.codes, NO_MODULE)[places]


def module_paths(rank: Rank) -> ModulePaths:
    """Path of the module of each call of a rank."""
    return rank.remember(_module_paths)


def has_modules(rank: Rank) -> bool:
    """Whether modules are recorded at all."""
    return bool(module_paths(rank).paths)


def in_modules(rank: Rank, wanted: Iterable[str]) -> NDArray[np.bool_]:
    """Which calls belong to one of some modules, or to a module inside it, by place.

    Parameters
    ----------
    rank : Rank
    wanted : iterable of str
        Paths as in `ModulePaths`, or of classes: names without the number of the instance.
    """
    found = module_paths(rank)
    roots = {f"{each}{SEPARATOR}" for each in wanted}
    inside = [
        any(f"{each}{SEPARATOR}".startswith(tuple(roots)) for each in (path, of_classes(path)))
        for path in found.paths
    ]
    return np.append(np.array(inside, dtype=np.bool_), np.False_)[found.codes]


def of_classes(path: str) -> str:
    """A path with the names of classes instead of those of instances.

    Examples
    --------
    >>> of_classes("Net_0 › Linear_12")
    'Net › Linear'
    """
    return SEPARATOR.join(_INSTANCE.sub("", name) for name in path.split(SEPARATOR))


def _module_paths(rank: Rank) -> ModulePaths:
    calls, module = calls_of(rank), module_places(rank)
    frames = (calls.kind == Kind.PYTHON) & calls.named(MODULE.search)
    if not frames.any():
        return ModulePaths(np.full(module.size, NO_MODULE), ())
    above = nearest_above(calls.forest, frames)
    names = rank.trace.events.name.values
    codes: dict[str, int] = {}
    text_at: dict[int, str] = {NO_PARENT: ""}
    code_at = np.full(module.size + 1, NO_MODULE, dtype=np.int64)
    for place in np.flatnonzero(frames).tolist():
        own = MODULE.sub("", names[int(calls.name[place])])
        around = text_at[int(above[place])]
        text_at[place] = path = f"{around}{SEPARATOR}{own}" if around else own
        code_at[place] = codes.setdefault(path, len(codes))
    return ModulePaths(code_at[module], tuple(codes))
