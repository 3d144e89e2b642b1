"""Names for the events of an Nsight Systems export, as PyTorch traces have them."""

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
"""Copies that unified memory makes on its own."""

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


def memset_name(memory: int) -> str:
    """Name of a memset of one kind of memory.

    Examples
    --------
    >>> memset_name(2), memset_name(MISSING)
    ('Memset (Device)', 'Memset')
    """
    return "Memset" if memory == MISSING else f"Memset ({_MEMORY.get(memory, 'Unknown')})"


def sync_name(sync_type: int) -> str:
    """Name of a synchronization."""
    return _SYNC.get(sync_type, "Unknown Sync")


def graph_name(number: int) -> str:
    """Name of a CUDA graph that was recorded as a whole."""
    return "CUDA graph" if number == MISSING else f"CUDA graph {number}"


def is_driver_call(name: str) -> bool:
    """Whether a call belongs to the driver API (``cu...``), not the runtime API (``cuda...``)."""
    return _DRIVER_CALL.match(name) is not None


def operator_name(text: str) -> str | None:
    """Operator of a range made by ``torch.autograd.profiler.emit_nvtx``; None for other ranges.

    Examples
    --------
    >>> operator_name("aten::mul, op_id = 322567"), operator_name("forward")
    ('aten::mul', None)
    """
    found = _OPERATOR_FIELDS.search(text)
    return text[: found.start()] if found else None
