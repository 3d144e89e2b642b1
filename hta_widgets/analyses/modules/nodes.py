"""The tree of modules of one rank, and the node that each call belongs to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from hta_widgets.analyses.idle_owners.paths import merged
from hta_widgets.analyses.time.call_sums import with_inside
from hta_widgets.analyses.time.calls import calls_of, nearest_above
from hta_widgets.analyses.time.modules import (
    INSTANCE,
    MODULE,
    SEPARATOR,
    module_frames,
    module_places,
    region_marks,
    region_places,
)
from hta_widgets.arrays import Int8Array, Int32Array, Int64Array, IntArray, Mask, narrowed
from hta_widgets.trace.model.nesting import NO_PARENT
from hta_widgets.trace.ranks.rank import Rank

Source: TypeAlias = Literal["auto", "modules", "regions"]
Merge: TypeAlias = Literal["instance", "class"]


@dataclass(frozen=True, eq=False)
class ModuleNodes:
    """Modules (or regions) of a rank by their path of names; a node comes after its parent."""

    parent: Int64Array
    """Node around each node, -1 for none."""
    depth: Int64Array
    """Number of nodes around each node."""
    names: list[str]
    """Name of each node, without ``nn.Module: ``."""
    frames: Int64Array
    """Place of each call that is a module."""
    node: IntArray
    """Node of each call by place, -1 outside modules."""
    phase: Int8Array | None = None
    """Position in `PHASES` of the phase of each call, if it differs from that of `phases`."""

    def paths(self) -> list[str]:
        """Names from the outermost node to each node, as one text."""
        found: list[str] = []
        for parent, name in zip(self.parent.tolist(), self.names, strict=True):
            found.append(name if parent < 0 else f"{found[parent]}{SEPARATOR}{name}")
        return found

    def totals(self, own: Int64Array) -> Int64Array:
        """Sums over each node and all nodes inside it; one row of numbers per node."""
        return with_inside(own, self.parent, self.depth)


def module_nodes(rank: Rank, merge: Merge) -> ModuleNodes:
    """The modules of a rank."""
    return _nodes(rank, module_frames, module_places, merge)


def region_nodes(rank: Rank, merge: Merge) -> ModuleNodes:
    """The annotations of a rank, in the place of modules."""
    return _nodes(rank, region_marks, region_places, merge)


def _nodes(
    rank: Rank,
    frames_of: Callable[[Rank], Mask],
    places_of: Callable[[Rank], IntArray],
    merge: Merge,
) -> ModuleNodes:
    calls, is_frame = calls_of(rank), frames_of(rank)
    frames = np.flatnonzero(is_frame)
    position = np.full(is_frame.size + 1, NO_PARENT, dtype=np.int64)
    position[frames] = np.arange(frames.size)
    parent = position[nearest_above(calls.forest, is_frame)[frames]]
    depth = calls.forest.depth_within(is_frame)[frames].astype(np.int64) - 1
    names, code = _names(calls.events.name.values, calls.name[frames], merge)
    number, first = merged(parent, code, depth)
    node_of_frame = np.append(number, NO_PARENT).astype(np.int32)
    return ModuleNodes(
        parent=node_of_frame[parent[first]].astype(np.int64),
        depth=depth[first],
        names=[names[each] for each in code[first].tolist()],
        frames=frames,
        node=narrowed(node_of_frame)[position[places_of(rank)]],
    )


def _names(
    values: tuple[str, ...], codes: Int32Array, merge: Merge
) -> tuple[list[str], Int64Array]:
    """Distinct names of modules, and the position of each frame's name among them."""
    used, which = np.unique(codes, return_inverse=True)
    names = [MODULE.sub("", values[code]) for code in used.tolist()]
    if merge == "class":
        names = [INSTANCE.sub("", name) for name in names]
    distinct = sorted({*names})
    place = {name: position for position, name in enumerate(distinct)}
    return distinct, np.array([place[name] for name in names], dtype=np.int64)[which]
