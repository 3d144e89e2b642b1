"""Traces of other tools: what is in them instead of GPU work, and whose they are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from hta_widgets.trace.model.notices import Notice

_CATEGORIES: Final = 5
_CATEGORY_CHARACTERS: Final = 40

TOOLS: Final = {
    "JAX or TensorFlow": re.compile(rb'"name"\s*:\s*"/(?:device|host):'),
    "Ascend's profiler": re.compile(rb'"Ascend Hardware"'),
    "rocprof": re.compile(rb'"name"\s*:\s*"(?:CPU H(?:IP|SA) API|GPU\d+)"'),
    "the old autograd profiler": re.compile(rb'"pid"\s*:\s*"C(?:PU|UDA) functions"'),
}
"""What the traces of each tool name their processes."""


def other_tool_notice(categories: Sequence[str], pieces: Iterable[bytes]) -> Notice:
    """Notice on what is in a trace instead of GPU work, and what is supported.

    Parameters
    ----------
    categories : sequence of str
        Categories of its complete events that are not the PyTorch profiler's, sorted; empty for
        events without a category.
    pieces : iterable of bytes
        The text of the trace.
    """
    tool = next((name for piece in pieces for name in _tools_in(piece)), "another tool")
    return Notice(
        "no event has a category of GPU work (kernel, gpu_memcpy, gpu_memset); there are events "
        f"{_described(categories)}. This looks like a trace of {tool}, which has no numbers here; "
        "supported are traces of torch.profiler and exports of Nsight Systems"
    )


def _tools_in(piece: bytes) -> Iterable[str]:
    return (name for name, pattern in TOOLS.items() if pattern.search(piece))


def _described(categories: Sequence[str]) -> str:
    named = [f"'{name[:_CATEGORY_CHARACTERS]}'" for name in categories if name]
    more = f" and {len(named) - _CATEGORIES} more" if len(named) > _CATEGORIES else ""
    names = ", ".join(named[:_CATEGORIES]).replace("{", "(").replace("}", ")")
    said = ["without a category"] * ("" in categories)
    if named:
        noun = "categories" if len(named) > 1 else "category"
        said.append(f"of the {noun} {names}{more}")
    return " and ".join(said)
