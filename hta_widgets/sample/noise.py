"""Random variation of durations."""

from __future__ import annotations

import random
from typing import Protocol

SLOW_CALL_EVERY = 400
SLOW_CALL_FACTOR = 12


class Noise(Protocol):
    """How durations vary on one rank."""

    def begin_step(self, step: int) -> None:
        """Take note that a step begins, counted from 0."""

    def on_cpu(self, duration_ns: int) -> int:
        """Vary the time that the CPU or a launch takes."""

    def on_gpu(self, duration_ns: int) -> int:
        """Vary the time that a kernel takes."""

    def launch_factor(self) -> int:
        """Return the factor on the duration of a launch call: a few take much longer."""

    def after_transfer(self) -> int:
        """Return how long after a transfer the kernel of this rank ends, in ns."""


class UniformNoise:
    """Up to 10 % more or less on everything, evenly distributed."""

    def __init__(self, seed: int, rank: int) -> None:
        self._random = random.Random(f"{seed}/{rank}")  # noqa: S311

    def begin_step(self, step: int) -> None:
        """Do nothing: one sequence of random numbers serves all steps."""

    def on_cpu(self, duration_ns: int) -> int:
        """Vary the time that the CPU or a launch takes."""
        return int(duration_ns * (0.9 + 0.2 * self._random.random()))

    on_gpu = on_cpu

    def launch_factor(self) -> int:
        """Return the factor on the duration of a launch call."""
        return SLOW_CALL_FACTOR if self._random.random() * SLOW_CALL_EVERY < 1 else 1

    def after_transfer(self) -> int:
        """Let all ranks end together."""
        return 0


class MachineNoise:
    """What machines do: kernels repeat to within a percent, CPU times have a long tail.

    Each step begins its random numbers anew, and CPU and GPU have their own, so that what one
    step does more than its twin leaves the other steps alone.
    """

    CPU_SIGMA = 0.12
    GPU_SIGMA = 0.006
    GPU_SPREAD = 0.006
    """GPUs of one model differ by this much, as standard deviation."""
    LATE_END_NS = 3_000

    def __init__(self, seed: int, rank: int) -> None:
        self._seed = f"{seed}/{rank}"
        self._gpu_factor = 1 + random.Random(f"{seed}/gpu {rank}").gauss(0, self.GPU_SPREAD)  # noqa: S311
        self.begin_step(-1)

    def begin_step(self, step: int) -> None:
        """Begin the random numbers of a step."""
        self._cpu = random.Random(f"{self._seed}/cpu {step}")  # noqa: S311
        self._gpu = random.Random(f"{self._seed}/gpu {step}")  # noqa: S311

    def on_cpu(self, duration_ns: int) -> int:
        """Vary the time that the CPU or a launch takes."""
        return int(duration_ns * self._cpu.lognormvariate(0, self.CPU_SIGMA))

    def on_gpu(self, duration_ns: int) -> int:
        """Vary the time that a kernel takes."""
        return int(duration_ns * self._gpu_factor * (1 + self._gpu.gauss(0, self.GPU_SIGMA)))

    def launch_factor(self) -> int:
        """Return the factor on the duration of a launch call."""
        return SLOW_CALL_FACTOR if self._cpu.random() * SLOW_CALL_EVERY < 1 else 1

    def after_transfer(self) -> int:
        """Return how long after a transfer the kernel of this rank ends, in ns."""
        return int(self._gpu.uniform(0, self.LATE_END_NS))
