"""Shapes, types and values of the inputs of an operator, from the JSON text of a trace."""

from __future__ import annotations

import json
from functools import lru_cache
from math import prod
from typing import Any, Final, NamedTuple

Shape = tuple[int, ...]

SIZES: Final = {
    "double": 8,
    "float": 4,
    "c10::half": 2,
    "c10::bfloat16": 2,
    "long": 8,
    "long int": 8,
    "int": 4,
    "short": 2,
    "short int": 2,
    "bool": 1,
    "unsigned char": 1,
    "signed char": 1,
    "char": 1,
    "c10::complex<float>": 8,
    "c10::complex<double>": 16,
    "c10::float8_e4m3fn": 1,
    "c10::float8_e4m3fnuz": 1,
    "c10::float8_e5m2": 1,
    "c10::float8_e5m2fnuz": 1,
}
"""Bytes of an element by the name of its type, in lower case."""

_NO_TENSORS: Final = ("", "Scalar", "ScalarList")

_TYPES: Final = {
    "double": "fp64",
    "float": "fp32",
    "c10::half": "fp16",
    "c10::bfloat16": "bf16",
}


class Tensor(NamedTuple):
    """An input of an operator that is a Tensor."""

    shape: Shape
    type: str

    @property
    def elements(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def element_bytes(self) -> int:
        """Bytes of one element."""
        return SIZES[self.type]

    @property
    def bytes(self) -> int:
        """Bytes of all elements."""
        return self.elements * self.element_bytes

    @property
    def dtype(self) -> str:
        """Short name of the type, as in `Peak.tflops`."""
        return "fp8" if "float8" in self.type else _TYPES.get(self.type, self.type)


class Inputs(NamedTuple):
    """Inputs of one operator."""

    tensors: tuple[Tensor | None, ...]
    """None for an input that is no Tensor, or one of an unknown type."""
    values: tuple[str, ...] = ()
    """As written, empty for Tensors; no values at all if they are not recorded."""
    has_unknown_types: bool = False
    """Whether an input has a shape, and a type of unknown size."""

    def tensor(self, place: int, dimensions: int | None = None) -> Tensor:
        """The Tensor at a place, with this many dimensions if a number is given.

        Raises
        ------
        ValueError
            If there is none.
        """
        found = self.tensors[place] if place < len(self.tensors) else None
        if found is None or dimensions not in (None, len(found.shape)):
            msg = f"input {place} is no Tensor of {dimensions or 'any'} dimensions"
            raise ValueError(msg)
        return found

    def integers(self, place: int, count: int) -> Shape:
        """The integers at a place, one for each of some dimensions."""
        found = json.loads(self.values[place])
        numbers = tuple(found) if isinstance(found, list) else (found,)
        if len(numbers) == 1:
            numbers *= count
        if len(numbers) != count or not all(type(each) is int for each in numbers):
            msg = f"input {place} is not {count} integers"
            raise ValueError(msg)
        return numbers

    def flag(self, place: int) -> bool:
        """The truth value at a place."""
        return {"True": True, "1": True, "False": False, "0": False}[self.values[place].strip()]

    def flags(self, place: int) -> tuple[bool, ...]:
        """The truth values at a place, written as ``[True, False]``."""
        words = self.values[place].strip().strip("[]()").split(",")
        return tuple(
            {"true": True, "1": True, "false": False, "0": False}[word.strip().lower()]
            for word in words
        )


@lru_cache(maxsize=4096)  # ranks of a job and calls of an operator share them
def inputs_of(dims: str, types: str, concrete: str = "") -> Inputs:
    """Parse the inputs of an operator.

    Parameters
    ----------
    dims, types : str
        JSON lists; text that is not one gives no inputs.
    concrete : str
        JSON list of values, empty if they are not recorded.

    Examples
    --------
    >>> inputs_of('[[2, 3], []]', '["float", "Scalar"]').tensors
    (Tensor(shape=(2, 3), type='float'), None)
    """
    shapes, names = _list(dims), _list(types)
    names += [""] * (len(shapes) - len(names))
    pairs = list(zip(shapes, names, strict=False))
    tensors = tuple(_tensor(shape, name) for shape, name in pairs)
    unknown = any(
        each is None and shape and name not in _NO_TENSORS
        for each, (shape, name) in zip(tensors, pairs, strict=True)
    )
    return Inputs(tensors, tuple(str(value) for value in _list(concrete)), unknown)


def _tensor(shape: object, name: object) -> Tensor | None:
    if not isinstance(shape, list) or not isinstance(name, str):
        return None
    type_ = name.lower()
    is_shape = all(type(size) is int and size >= 0 for size in shape)
    return Tensor(tuple(shape), type_) if is_shape and type_ in SIZES else None


def _list(text: str) -> list[Any]:
    try:
        found = json.loads(text or "[]")
    except (ValueError, RecursionError):
        return []
    return found if isinstance(found, list) else []
