"""What Kineto writes about the inputs of an operator: values, types, strides and shapes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

BFLOAT16: Final = "c10::BFloat16"


@dataclass(frozen=True)
class Input:
    """One input; ``value`` is its text where it is no tensor."""

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
"""``None``, or what Kineto does not describe."""


def tensor(*shape: int, kind: str = BFLOAT16) -> Input:
    """Describe a tensor."""
    return Input(shape, kind)


def scalar(value: float | bool) -> Input:  # noqa: FBT001
    """Describe a number or a truth value."""
    return Input((), "Scalar", str(value))


def numbers(*values: int | bool) -> Input:
    """Describe a list of numbers."""
    return Input((), "ScalarList", f"[{', '.join(map(str, values))}]")


def recorded_inputs(inputs: tuple[Input, ...]) -> str:
    """Write the fields of an operator's inputs, each with a comma after it."""
    columns = {
        "Concrete Inputs": [each.value for each in inputs],
        "Input type": [each.kind for each in inputs],
        "Input Strides": [each.strides for each in inputs],
        "Input Dims": [each.shape for each in inputs],
    }
    return "".join(f'"{name}": {json.dumps(values)}, ' for name, values in columns.items())
