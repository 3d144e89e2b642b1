"""What an Nsight Systems export says of its GPUs, in the words of PyTorch's traces."""

from __future__ import annotations

from typing import Any, Final

from hta_widgets.trace.loaders.nsys.tables import GPUS, MISSING, NsysTables

_NAMES: Final = {
    "totalMemory": "totalGlobalMem",
    "smCount": "numSms",
    "threadsPerWarp": "warpSize",
    "maxRegistersPerSm": "regsPerMultiprocessor",
    "maxShmemPerSm": "sharedMemPerMultiprocessor",
    "computeMajor": "computeMajor",
    "computeMinor": "computeMinor",
}


def device_properties(tables: NsysTables) -> dict[str, Any]:
    """Metadata on the GPUs; empty if the export does not describe them."""
    found: list[dict[str, Any]] = []
    for rows in tables.chunks(GPUS):
        columns = [column.tolist() for column in rows.values()]
        each = (dict(zip(rows, values, strict=True)) for values in zip(*columns, strict=True))
        found.extend(_described(row) for row in each if _number(row) != MISSING)
    return {"deviceProperties": found} if found else {}


def _number(row: dict[str, Any]) -> int:
    """The number that CUDA gives a GPU."""
    return int(row["id"] if row["cuDevice"] == MISSING else row["cuDevice"])


def _described(row: dict[str, Any]) -> dict[str, Any]:
    known = {ours: row[name] for name, ours in _NAMES.items() if row[name] != MISSING}
    if MISSING not in (row["maxWarpsPerSm"], row["threadsPerWarp"]):
        known["maxThreadsPerMultiprocessor"] = row["maxWarpsPerSm"] * row["threadsPerWarp"]
    return {
        "id": _number(row),
        **({"name": row["name"]} if row["name"] else {}),
        **known,
    }
