"""The operators of a network: what each of them takes, calls, issues and allocates."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import cached_property
from typing import Final

from hta_widgets.sample.kernels import BFLOAT16_BYTES, GpuWork

BFLOAT16: Final = "c10::BFloat16"


@dataclass(frozen=True)
class Input:
    """One input; ``value`` is its text if it is not a tensor."""

    shape: tuple[int, ...] = ()
    kind: str = ""
    value: str = ""

    @property
    def strides(self) -> list[int]:
        """Strides of a contiguous tensor of this shape, in elements."""
        strides = [1] * len(self.shape)
        for axis in reversed(range(len(strides) - 1)):
            strides[axis] = strides[axis + 1] * self.shape[axis + 1]
        return strides


ABSENT: Final = Input()
"""``None``, or an input that Kineto does not describe."""


def tensor(*shape: int, kind: str = BFLOAT16) -> Input:
    """Describe a tensor."""
    return Input(shape, kind)


def scalar(value: float | bool) -> Input:  # noqa: FBT001
    """Describe a number or a truth value."""
    return Input((), "Scalar", str(value))


def numbers(*values: int | bool) -> Input:
    """Describe a list of numbers."""
    return Input((), "ScalarList", f"[{', '.join(map(str, values))}]")


class Until(Enum):
    """How long a tensor stays in memory."""

    USED = auto()
    """Until some of the following operations have run."""
    DIFFERENTIATED = auto()
    """Saved for backward by the operation that makes it."""
    NEXT_DIFFERENTIATED = auto()
    """Saved for backward by the next operation, which takes it as input."""
    ZERO_GRAD = auto()
    """The gradient of a parameter, until the next step clears it."""


@dataclass(frozen=True)
class Allocation:
    """Memory that an operator takes; ``uses`` is how many operations it outlives (`Until.USED`)."""

    bytes: int
    until: Until = Until.USED
    uses: int = 1


def output(
    elements: int, until: Until = Until.USED, *, uses: int = 1, size: int = BFLOAT16_BYTES
) -> Allocation:
    """Allocate a tensor whose elements take ``size`` bytes each."""
    return Allocation(size * elements, until, uses)


@dataclass(frozen=True)
class Op:
    """A CPU operator: the operators that it calls, then the GPU work that it issues itself."""

    name: str
    calls: tuple[Op, ...] = ()
    work: tuple[GpuWork, ...] = ()
    inputs: tuple[Input, ...] = ()
    allocates: tuple[Allocation, ...] = ()

    @cached_property
    def recorded_inputs(self) -> str:
        """What Kineto writes about its inputs, with a comma after it."""
        if not self.inputs:
            return ""
        columns = {
            "Concrete Inputs": [each.value for each in self.inputs],
            "Input type": [each.kind for each in self.inputs],
            "Input Strides": [each.strides for each in self.inputs],
            "Input Dims": [each.shape for each in self.inputs],
        }
        return "".join(f'"{name}": {json.dumps(values)}, ' for name, values in columns.items())


@dataclass(frozen=True)
class Node:
    """One differentiable operation; ``parameters`` are the sizes of its parameters."""

    forward: Op
    backward: Op
    parameters: tuple[int, ...] = ()
    shapes: tuple[tuple[int, ...], ...] = ()
    """Shapes of the parameters, if they are given."""


def nested(*ops: Op) -> Op:
    """Let each operator call the next one, after the operators that it already calls."""
    *outer, op = ops
    for each in reversed(outer):
        op = replace(each, calls=(*each.calls, op))
    return op
