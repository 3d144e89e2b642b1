"""What a GPU has: tensor cores, and how much faster matrix products are on them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from hta_widgets.analyses.roofline.peaks import Device, devices_of

LEAST_FASTER: Final = 4.0
"""On data-centre GPUs, products are at least this many times as fast on tensor cores; real shapes
seldom reach what the peaks allow beyond that."""

LEAST_FASTER_ON_GRAPHICS: Final = 2.0
"""The same for GPUs with unknown peaks and as many float32 units as tensor cores, as for graphics
and workstations."""

_FIRST_WITH_TENSOR_CORES: Final = 7
_FIRST_WITH_TF32: Final = 8

_LINKS: Final = ((9, "PCIe 5", 50.0), (8, "PCIe 4", 24.0), (6, "PCIe 3", 12.0))
"""The first compute capability with a link to the host, and the GB/s that copies from pinned memory
reach on 16 lanes of it."""

_GRAPHICS: Final = frozenset({(8, 6), (8, 7), (8, 9), (12, 0), (12, 1)})
"""Compute capabilities of GPUs with many float32 units."""

_WITHOUT: Final = re.compile(r"\bGTX 16|\bT(?:400|500|550|600|1000|1200|2000)\b|\bMX[45]50\b")
"""GPUs of compute capability 7.5 that have no tensor cores."""


class Gpu(Device):
    """The device that does most of a rank's work."""

    @property
    def has_tensor_cores(self) -> bool:
        """Whether it is known to have tensor cores."""
        return self.major >= _FIRST_WITH_TENSOR_CORES and not _WITHOUT.search(self.name)

    @property
    def has_tf32(self) -> bool:
        """Whether its tensor cores multiply float32, as TF32."""
        return self.major >= _FIRST_WITH_TF32 and not self.is_for_graphics

    @property
    def has_bf16(self) -> bool:
        """Whether its tensor cores multiply bfloat16."""
        return self.major >= _FIRST_WITH_TF32

    @property
    def link(self) -> tuple[str, float]:
        """Its link to the host, and the GB/s (bytes/ns) of copies from pinned memory; 0 if unknown.

        A host or a notebook may have less: nothing is recorded of that.
        """
        known = ((name, rate) for major, name, rate in _LINKS if self.major >= major)
        return next(known, ("", 0.0))

    @property
    def is_for_graphics(self) -> bool:
        """Whether TF32 is hardly faster than float32 on it, so that only 16-bit types are."""
        rates = self.peak.tflops if self.peak is not None else {}
        gains = rates.get("tf32", 0.0) > rates.get("fp32", 0.0)
        return (self.major, self.minor) in _GRAPHICS and not gains

    @property
    def faster(self) -> float:
        """How many times as fast products are on its tensor cores as in float32, at least."""
        if self.is_for_graphics:
            return LEAST_FASTER_ON_GRAPHICS
        rates = self.peak.tflops if self.peak is not None else {}
        on_tensor_cores = rates.get("tf32", rates.get("fp16", 0.0))
        if not on_tensor_cores or "fp32" not in rates:
            return LEAST_FASTER
        return min(on_tensor_cores / rates["fp32"], LEAST_FASTER)


def gpu_of(metadata: Mapping[str, Any], device: int | None) -> Gpu:
    """The GPU with a device number; see `devices_of` for a number that is not listed."""
    return Gpu(*devices_of(metadata)[device])
