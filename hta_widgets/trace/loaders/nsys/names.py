"""Name the events of an Nsight Systems export as PyTorch traces name them."""

from __future__ import annotations

import re
from functools import lru_cache

from hta_widgets.trace.loaders.nsys.tables import MISSING

_COPY = {
    1: "HtoD",
    2: "DtoH",
    3: "HtoA",
    4: "AtoH",
    5: "AtoA",
    6: "AtoD",
    7: "DtoA",
    8: "DtoD",
    9: "HtoH",
    10: "PtoP",
    11: "HtoD",
    12: "DtoH",
    13: "DtoD",
}
_UNIFIED = (11, 12, 13)
"""Copies that unified memory makes by itself."""

_MEMORY = {
    0: "Pageable",
    1: "Pinned",
    2: "Device",
    3: "Array",
    4: "Managed",
    5: "Device Static",
    6: "Managed Static",
    7: "Unknown",
}

_SYNC = {1: "Event Sync", 2: "Stream Wait Event", 3: "Stream Sync", 4: "Context Sync"}

_DRIVER_CALL = re.compile(r"cu[A-Z]")
_OPERATOR_FIELDS = re.compile(r", (?:(?:op_id|seq) = -?\d|sizes = \[)")


@lru_cache
def copy_name(copy_kind: int, source: int, target: int) -> str:
    """Name of a copy between two kinds of memory.

    Examples
    --------
    >>> copy_name(1, 0, 2), copy_name(11, MISSING, MISSING)
    ('Memcpy HtoD (Pageable -> Device)', 'Memcpy HtoD (Unified)')
    """
    name = f"Memcpy {_COPY.get(copy_kind, 'Unknown')}"
    if copy_kind in _UNIFIED:
        return f"{name} (Unified)"
    if MISSING in (source, target):
        return name
    return f"{name} ({_MEMORY.get(source, 'Unknown')} -> {_MEMORY.get(target, 'Unknown')})"


def fill_name(memory: int) -> str:
    """Name of a fill of one kind of memory.

    Examples
    --------
    >>> fill_name(2), fill_name(MISSING)
    ('Memset (Device)', 'Memset')
    """
    return "Memset" if memory == MISSING else f"Memset ({_MEMORY.get(memory, 'Unknown')})"


def sync_name(sync_type: int) -> str:
    """Name of a synchronization."""
    return _SYNC.get(sync_type, "Unknown Sync")


def graph_name(number: int) -> str:
    """Name of the launch of a whole CUDA graph."""
    return "CUDA graph" if number == MISSING else f"CUDA graph {number}"


def is_driver_call(name: str) -> bool:
    """Tell a call of the CUDA driver from one of the runtime, ``cuda...``."""
    return _DRIVER_CALL.match(name) is not None


def operator_name(text: str) -> str | None:
    """Operator of a range that ``torch.autograd.profiler.emit_nvtx`` made, None for other ranges.

    Examples
    --------
    >>> operator_name("aten::mul, op_id = 322567"), operator_name("forward")
    ('aten::mul', None)
    """
    found = _OPERATOR_FIELDS.search(text)
    return text[: found.start()] if found else None
