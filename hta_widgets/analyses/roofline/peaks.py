"""Peak rates of GPUs, by the name of the device, as data."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple

from hta_widgets.trace.loaders.columns import whole_number
from hta_widgets.trace.ranks.identity import GpusOfTrace

GIGA: Final = 10**9
TERA: Final = 10**12

_GIB: Final = 2**30
_MOST: Final = 1000


@dataclass(frozen=True, eq=False)
class Peak:
    """The most that one device can do, as its vendor states it, without sparsity."""

    name: re.Pattern[str]
    """Pattern that is found in the names of such devices."""
    tflops: Mapping[str, float]
    """TFLOP/s by type (``bf16``, ``fp16``, ``tf32``, ``fp32``, ``fp8``), on the tensor cores or
    matrix cores if they have the type."""
    gb_per_s: float
    """Bandwidth of the device's memory."""
    above_gib: int = 0
    """The peak holds only for devices with at least this much memory."""


def _peak(name: str, *rates: float, above_gib: int = 0) -> Peak:
    """A peak from the rates of 16-bit types, TF32, FP32 and FP8 (0 for none) and the bandwidth."""
    half, tf32, fp32, fp8, gb_per_s = rates
    by_type = {"bf16": half, "fp16": half, "tf32": tf32, "fp32": fp32, "fp8": fp8}
    known = {name: rate for name, rate in by_type.items() if rate}
    return Peak(re.compile(name), known, gb_per_s, above_gib)


PEAKS: Final = (
    Peak(re.compile(r"\bV100-(SXM|DGXS)"), {"fp16": 125, "fp32": 15.7}, 900),
    Peak(re.compile(r"\bV100-PCI"), {"fp16": 112, "fp32": 14}, 900),
    _peak(r"\bA100\b.*80GB PCIe", 312, 156, 19.5, 0, 1935),
    _peak(r"\bA100\b", 312, 156, 19.5, 0, 2039, above_gib=50),
    _peak(r"\bA100\b", 312, 156, 19.5, 0, 1555),
    _peak(r"\bH100\b.*(HBM3|SXM)", 989, 495, 67, 1979, 3350),
    _peak(r"\bH100 PCIe", 756, 378, 51, 1513, 2000),
    _peak(r"\bH200(?! NVL)\b", 989, 495, 67, 1979, 4800),
    _peak(r"(?<!G)\bB200\b", 2250, 1125, 75, 4500, 8000),
    Peak(re.compile(r"\bT4\b"), {"fp16": 65, "fp32": 8.1}, 320),
    _peak(r"\bA10\b", 125, 62.5, 31.2, 0, 600),
    _peak(r"(?<!RTX )\bA40\b", 149.7, 74.8, 37.4, 0, 696),
    _peak(r"\bRTX A6000\b", 154.8, 77.4, 38.7, 0, 768),
    _peak(r"\bRTX 3090$", 71, 35.6, 35.6, 0, 936),
    _peak(r"\bRTX 4090$", 165.2, 82.6, 82.6, 330.3, 1008),
    _peak(r"\bL4\b", 121, 60, 30, 242, 300),
    _peak(r"\bL40S\b", 362, 183, 91.6, 733, 864),
    _peak(r"\bMI210\b", 181, 0, 45.3, 0, 1638),
    _peak(r"\bMI250X\b", 191.5, 0, 47.9, 0, 1638),
    _peak(r"\bMI300X\b", 1307, 654, 163, 2615, 5300),
    _peak(r"\bMI325X\b", 1307, 654, 163, 2615, 6000),
)
"""Known peaks; the first match counts. A device of an MI250X is one of its two dies, and has half
the rates of the board."""


class Device(NamedTuple):
    """A device of a trace."""

    name: str = ""
    """Name as recorded; empty if it is not."""
    memory_bytes: int = 0
    """Size of its memory; 0 if not recorded."""
    major: int = 0
    minor: int = 0
    """Compute capability; 0 if not recorded."""

    @property
    def peak(self) -> Peak | None:
        """The peak of the device; None if it is not known."""
        return peak_of(self.name, self.memory_bytes)


def devices_of(metadata: Mapping[str, Any]) -> GpusOfTrace[Device]:
    """The devices that the metadata of a trace describes, by number: see `GpusOfTrace`."""
    return GpusOfTrace(metadata, _device)


def _device(described: Mapping[str, Any]) -> Device:
    name, memory = described.get("name"), described.get("totalGlobalMem")
    return Device(
        name=name if isinstance(name, str) else "",
        memory_bytes=memory if isinstance(memory, int) else 0,
        major=whole_number(described.get("computeMajor"), _MOST) or 0,
        minor=whole_number(described.get("computeMinor"), _MOST) or 0,
    )


@lru_cache(maxsize=64)  # asked for each row of a table
def peak_of(name: str, memory_bytes: int = 0) -> Peak | None:
    """Peak of a device, by its name and the size of its memory; None if it is not known."""
    for peak in PEAKS:
        if peak.name.search(name) and memory_bytes >= peak.above_gib * _GIB:
            return peak
    return None
