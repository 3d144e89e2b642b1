"""What the profiler of a rank writes, and how its clock is set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

STEP_PREFIX: Final = "ProfilerStep#"
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
    """What the profiler writes."""

    operators: bool = True
    """Operators; without them, kernels have no collective fields either."""
    annotations: bool = True
    """``record_function`` blocks, steps included."""
    steps: bool = True
    """``ProfilerStep#N``."""
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
    synchronization: bool = False
    """What streams and the CPU wait for (``enable_cuda_sync_events``)."""

    def writes(self, category: str, name: str) -> bool:
        """Whether the profiler writes a CPU event."""
        if category == "user_annotation":
            return self.annotations and (self.steps or not name.startswith(STEP_PREFIX))
        return self.operators

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


@dataclass(frozen=True)
class Wait:
    """What CUPTI says about a wait of a stream, or of the CPU (stream -1)."""

    kind: str
    stream: int = -1
    on_stream: int = -1
    record: int = 0
    """Correlation id of the call that recorded the event, if the wait is for one."""


def cpu_wait(call: str, stream: int) -> Wait | None:
    """Return CUPTI's name for the wait of a call; it has none for that of `cudaFree`."""
    if call == "cudaStreamSynchronize":
        return Wait("Stream Sync", stream)
    if call == "cudaDeviceSynchronize":
        return Wait("Context Sync")
    return Wait("Event Sync", record=-1) if call == "cudaEventSynchronize" else None
