"""What the profiler of a rank writes, and how its clock is set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_PPM = 1_000_000


@dataclass(frozen=True)
class Clock:
    """The clock of a host, which starts some ns ahead and drifts by some parts per million.

    ``set_at_ns`` is the true time, in ns, from which it drifts.
    """

    ahead_ns: int = 0
    drift_ppm: int = 0
    set_at_ns: int = 0

    def read(self, true_ns: int) -> int:
        """Return what the clock shows at a true time."""
        return true_ns + self.ahead_ns + (true_ns - self.set_at_ns) * self.drift_ppm // _PPM


@dataclass(frozen=True)
class Recording:
    """What the profiler writes in addition to operators, annotations, CUDA calls and GPU work."""

    collective_fields: bool = True
    """Collective fields of NCCL kernels, which PyTorch before 2.4 does not write."""
    shapes: bool = True
    """Shapes, types and values of the inputs of operators."""
    stacks: bool = False
    """Python functions, which cost the CPU as much as the operators."""
    modules: bool = False
    """Which functions are calls of an ``nn.Module``."""
    memory: bool = False
    """What the caching allocator does."""

    @property
    def flags(self) -> str:
        """What Kineto writes about these options at the head of a trace."""
        options = {
            "record_shapes": self.shapes,
            "with_modules": self.modules,
            "with_stack": self.stacks,
            "profile_memory": self.memory,
        }
        return " ".join(f'"{option}": 1,' for option, is_set in options.items() if is_set)


EVERYTHING: Final = Recording(stacks=True, modules=True, memory=True)
"""What a profiler writes with ``record_shapes``, ``with_stack``, ``with_modules`` and
``profile_memory``."""
