"""Whether the replay of a CUDA graph is that of a recorded capture, node by node in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

NodeType = Literal["kernel", "copy", "fill"]
Identity = Literal["names", "prefix", "order", "refused"]

LEAST_FOR_PREFIX: Final = 50
"""Nodes a capture needs for its last ones to be taken as lost by the recorder."""

NODES_PER_LOST: Final = 200
"""One node in so many may be lost at the end of a replay (0.5 %), and always one."""

LEAST_FOR_ORDER: Final = 20
"""Nodes a capture without any name needs to be compared by number and types alone."""


class Node(NamedTuple):
    """A launch in a capture, or GPU work of a replay; the name is empty if not recorded."""

    type: NodeType
    name: str = ""


def identity_of(capture: Sequence[Node], replay: Sequence[Node]) -> Identity:
    """Say how a replay fits a capture; one different name refuses the whole graph.

    ``names``: equal number, types and, wherever recorded, names. ``prefix``: the same, but the
    replay lacks the last nodes. ``order``: number and types are equal, no names are recorded.
    """
    lost = len(capture) - len(replay)
    if not replay or lost < 0 or not all(map(_fits, capture, replay)):
        return "refused"
    if not any(node.name and seen.name for node, seen in zip(capture, replay, strict=False)):
        return "order" if not lost and len(capture) >= LEAST_FOR_ORDER else "refused"
    if not lost:
        return "names"
    may_lose = max(1, len(capture) // NODES_PER_LOST)
    return "prefix" if len(capture) >= LEAST_FOR_PREFIX and lost <= may_lose else "refused"


def _fits(node: Node, seen: Node) -> bool:
    if node.type == "fill":
        return seen.type == "fill" or "Memset" in seen.name or "fillBuffer" in seen.name
    return node.type == seen.type and (not node.name or not seen.name or node.name == seen.name)
