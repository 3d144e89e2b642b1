"""The tree of modules of one rank by what TorchScript writes beside its operators.

``Module Hierarchy`` names the methods that call an operator, from the outermost:
``TOP(Net)::forward.conv1(Conv2d)::forward.``
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hta_widgets.analyses.modules.nodes import Merge, ModuleNodes, Rows
from hta_widgets.analyses.time.calls import calls_of, nearest_at_or_above
from hta_widgets.analyses.time.modules import PHASES, forward_places, phases
from hta_widgets.trace.model.details import DetailGroup
from hta_widgets.trace.model.events import TextColumn
from hta_widgets.trace.model.nesting import NO_PARENT
from hta_widgets.trace.ranks.rank import Rank

_CALLED: Final = re.compile(r"(?:^|\.)([^.()]+)\(([^()]*)\)::")
_OUTERMOST: Final = "TOP"
_SAME: Final = "SELF"
_FORWARD, _BACKWARD = PHASES.index("forward"), PHASES.index("backward")

Path = tuple[str, ...]


def hierarchy_nodes(rank: Rank, merge: Merge) -> ModuleNodes:
    """Modules that operators name; none unless the trace says that it has them."""
    at_operators, paths = _recorded(rank, merge)
    every = {path[:length] for path in paths for length in range(1, len(path) + 1)}
    ordered = sorted(every, key=lambda path: (len(path), path))
    number = {path: place for place, path in enumerate(ordered)} | {(): NO_PARENT}
    of_code = np.array([*(number[path] for path in paths), NO_PARENT], dtype=np.int64)
    own, node = _with_calls_inside(rank, of_code[at_operators])
    return ModuleNodes(
        parent=np.array([number[path[:-1]] for path in ordered], dtype=np.int64),
        depth=np.array([len(path) - 1 for path in ordered], dtype=np.int64),
        names=[path[-1] for path in ordered],
        frames=np.zeros(0, dtype=np.int64),
        node=node,
        phase=_phases(rank, own, node),
    )


def path_of(text: str, merge: Merge) -> Path:
    """Names of modules in a hierarchy; a method that a module calls of its own adds none.

    Examples
    --------
    >>> path_of("TOP(Net)::forward.SELF(Net)::run.conv1(Conv2d)::forward.", "instance")
    ('Net', 'conv1 (Conv2d)')
    >>> path_of("TOP(Net)::forward.conv1(Conv2d)::forward.", "class")
    ('Net', 'Conv2d')
    """
    found: list[str] = []
    for instance, of_class in _CALLED.findall(text):
        if instance == _SAME and found:
            continue
        is_named = merge == "instance" and instance not in (_OUTERMOST, _SAME)
        found.append(f"{instance} ({of_class})" if is_named else of_class)
    return tuple(found)


def _recorded(rank: Rank, merge: Merge) -> tuple[Rows, list[Path]]:
    """Code of the path of each call by place, -1 for none, and the paths."""
    calls = calls_of(rank)
    codes = np.full(calls.name.size, NO_PARENT, dtype=np.int64)
    if not rank.trace.metadata.get("with_modules"):
        return codes, []
    table = rank.details(DetailGroup.OPERATOR_INPUTS).table
    texts = table.columns.get("module_hierarchy")
    if not isinstance(texts, TextColumn):
        return codes, []
    paths = [path_of(text, merge) for text in texts.values]
    places = calls.places_of(table.rows)
    known = places != NO_PARENT
    codes[places[known]] = texts.codes[known]
    return codes, paths


def _with_calls_inside(rank: Rank, at_operators: Rows) -> tuple[Rows, Rows]:
    """Node of each call by the operators around it; also by those that it differentiates."""
    forest, forward = calls_of(rank).forest, forward_places(rank)
    around = nearest_at_or_above(forest, at_operators != NO_PARENT)
    own = np.append(at_operators, NO_PARENT)[around]
    linked = nearest_at_or_above(forest, forward != NO_PARENT)
    of_forward = np.append(own, NO_PARENT)[np.append(forward, NO_PARENT)[linked]]
    return own, np.where(own != NO_PARENT, own, of_forward)


def _phases(rank: Rank, own: Rows, node: Rows) -> NDArray[np.int8]:
    """Phases of calls, of which those in modules are forward or backward."""
    found = phases(rank).copy()
    found[(own != NO_PARENT) & (found != _BACKWARD)] = _FORWARD
    found[(own == NO_PARENT) & (node != NO_PARENT)] = _BACKWARD
    return found
