"""What a simulated process asks of the machine that it runs on."""

from __future__ import annotations

from typing import Protocol

from hta_widgets.sample.communication import Communication
from hta_widgets.sample.kernels import GpuWork


class Hardware(Protocol):
    """How fast GPUs and links are."""

    def kernel_factor(self, rank: int, step: int, work: GpuWork) -> float:
        """Return how many times longer than on a healthy GPU a kernel takes."""

    def transfer_ns(self, rank: int, step: int, part: Communication) -> int:
        """Return how long a communication takes once all ranks have come, in ns."""
