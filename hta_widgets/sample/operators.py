"""The operators that a network is made of: what each calls, issues, takes and allocates."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum, auto
from functools import cached_property, lru_cache

from hta_widgets.sample.inputs import Input, recorded_inputs
from hta_widgets.sample.kernels import BFLOAT16_BYTES, GpuWork


class Until(Enum):
    """How long a tensor stays in memory."""

    USED = auto()
    """Until some of the operations that follow have run."""
    DIFFERENTIATED = auto()
    """Saved for backward by the operation that makes it."""
    NEXT_DIFFERENTIATED = auto()
    """Saved for backward by the operation that follows, which takes it as input."""
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
    """A CPU operator: the operators it calls, then the GPU work it issues itself.

    ``input_dims`` is the JSON text that Kineto writes for the shapes of the inputs, where
    ``inputs`` does not describe them.
    """

    name: str
    calls: tuple[Op, ...] = ()
    work: tuple[GpuWork, ...] = ()
    input_dims: str = ""
    inputs: tuple[Input, ...] = ()
    allocates: tuple[Allocation, ...] = ()

    @cached_property
    def recorded_inputs(self) -> str:
        """What Kineto writes about its inputs, with a comma after it."""
        if self.inputs:
            return recorded_inputs(self.inputs)
        dims = self.input_dims
        return f'"Input Dims": {dims}, {input_types(dims)}' if dims else ""


@dataclass(frozen=True)
class Node:
    """One differentiable operation; ``parameters`` are the sizes of its parameters."""

    forward: Op
    backward: Op
    parameters: tuple[int, ...] = ()
    shapes: tuple[tuple[int, ...], ...] = ()
    """Those of the parameters, where they are told."""


def nested(*ops: Op) -> Op:
    """Let each operator call the next one, after those that it calls already."""
    *outer, op = ops
    for each in reversed(outer):
        op = Op(
            each.name,
            (*each.calls, op),
            each.work,
            each.input_dims,
            each.inputs,
            each.allocates,
        )
    return op


@lru_cache(maxsize=256)
def input_types(dims: str) -> str:
    """JSON text of the types of inputs of some shapes, BF16 all; empty where they are given."""
    if '"Input type"' in dims:
        return ""
    types = ['"c10::BFloat16"' if shape else '""' for shape in json.loads(dims)]
    return f'"Input type": [{", ".join(types)}], '
