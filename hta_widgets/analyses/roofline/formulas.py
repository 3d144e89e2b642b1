"""What operators compute and move, from the shapes of their inputs.

A formula takes the `Inputs` of an operator and returns its `Cost`; it raises if the inputs do not
suit it. FLOP count a multiplication and an addition as two. Bytes are the least that can be moved:
every input once and the output once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from math import prod
from typing import Any, Final, NamedTuple

import numpy as np

REFUSED: Final = (ValueError, KeyError, IndexError, TypeError, RecursionError)
"""What a formula raises if the inputs do not suit it."""

_LEAST_OUTPUT_BYTES: Final = 2
"""Fewest bytes of an element of a product: products of 8-bit numbers are written with more bits."""

_ELEMENTWISE: Final = (
    "add sub mul div pow neg abs exp log sqrt rsqrt reciprocal sigmoid tanh relu gelu silu cos sin "
    "clamp clamp_min clamp_max where maximum minimum eq ne lt le gt ge threshold_backward "
    "gelu_backward silu_backward sigmoid_backward tanh_backward"
)

_NORMALISING: Final = (
    "_softmax _log_softmax native_layer_norm native_group_norm _fused_rms_norm "
    "native_batch_norm cudnn_batch_norm miopen_batch_norm"
)

_NORMALISING_BACKWARD: Final = (
    "_softmax_backward_data _log_softmax_backward_data native_layer_norm_backward "
    "native_group_norm_backward _fused_rms_norm_backward native_batch_norm_backward "
    "cudnn_batch_norm_backward miopen_batch_norm_backward"
)

COMPILED: Final = re.compile(r"^triton_")
"""Names of operators of TorchInductor, for which only the inputs are known."""

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
    """A tensor that is an input of an operator."""

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
    """None for an input that is not a tensor, or a tensor of unknown type."""
    values: tuple[str, ...] = ()
    """Values as written, empty for tensors; none at all if they are not recorded."""
    has_unknown_types: bool = False
    """Whether an input has a shape, but a type of unknown size."""

    def tensor(self, place: int, dimensions: int | None = None) -> Tensor:
        """The tensor at a place, with this many dimensions if given; `ValueError` if none is."""
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
    """Parse the inputs of an operator, which are JSON lists; any other text gives no inputs.

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


class Cost(NamedTuple):
    """What one call of an operator costs."""

    flop: int
    bytes: int
    dtype: str
    """Short name of the type that the call computes in."""

    def of_part(self, here_ns: int, whole_ns: int) -> Cost:
        """Cost of a part of the call, by its time on the GPU."""
        if here_ns >= whole_ns:
            return self
        return Cost(self.flop * here_ns // whole_ns, self.bytes * here_ns // whole_ns, self.dtype)


Formula = Callable[[Inputs], Cost]


def _product(first: int, dimensions: int) -> Formula:
    """Product of the two matrices, or batches of them, that start at a place."""

    def cost(inputs: Inputs) -> Cost:
        left, right = (inputs.tensor(place, dimensions) for place in (first, first + 1))
        *batch, rows, inner = left.shape
        if right.shape[:-1] != (*batch, inner):
            msg = f"{left.shape} and {right.shape} cannot be multiplied"
            raise ValueError(msg)
        output = prod(batch) * rows * right.shape[-1]
        added = sum(each.bytes for each in inputs.tensors[:first] if each is not None)
        written = output * max(left.element_bytes, _LEAST_OUTPUT_BYTES)
        return Cost(2 * output * inner, left.bytes + right.bytes + added + written, left.dtype)

    return cost


def _grouped_product(inputs: Inputs) -> Cost:
    """Product of the tokens of each expert with a matrix of its own, all in one kernel.

    One side has a dimension for the experts. The other is divided between them by offsets, which
    are on the GPU, so all of it counts. If neither side has one, it is the gradient of the weights.
    """
    left, right = inputs.tensor(0), inputs.tensor(1)
    (*_, rows, inner), (*_, as_many, columns) = left.shape, right.shape
    axes = len(left.shape), len(right.shape)
    if axes not in {(2, 3), (3, 2), (2, 2)} or inner != as_many:
        msg = f"{left.shape} and {right.shape} are no product by groups"
        raise ValueError(msg)
    experts = _offsets(inputs).elements if axes == (2, 2) else 1
    written = experts * rows * columns * max(left.element_bytes, _LEAST_OUTPUT_BYTES)
    return Cost(2 * rows * inner * columns, left.bytes + right.bytes + written, left.dtype)


def _offsets(inputs: Inputs) -> Tensor:
    given = (each for each in inputs.tensors[2:] if each is not None and each.type == "int")
    found = next(given, None)
    if found is None:
        msg = "no offsets of the groups"
        raise ValueError(msg)
    return found


def _convolution(inputs: Inputs) -> Cost:
    data, weight = inputs.tensor(0), inputs.tensor(1)
    axes = len(data.shape) - 2
    inputs.tensor(1, axes + 2)
    stride, padding, dilation = (inputs.integers(place, axes) for place in (3, 4, 5))
    transposed, groups = inputs.flag(6), inputs.integers(8, 1)[0]
    extra = inputs.integers(7, axes)
    sizes = zip(data.shape[2:], weight.shape[2:], stride, padding, dilation, extra, strict=True)
    if transposed:
        spatial = [
            (size - 1) * step - 2 * pad + wide * (kernel - 1) + more + 1
            for size, kernel, step, pad, wide, more in sizes
        ]
        channels, multiplied = weight.shape[1] * groups, data.shape[2:]
    else:
        spatial = [
            (size + 2 * pad - wide * (kernel - 1) - 1) // step + 1
            for size, kernel, step, pad, wide, _ in sizes
        ]
        channels, multiplied = weight.shape[0], tuple(spatial)
    if min(spatial, default=0) < 1:
        msg = f"a convolution of {data.shape} with {weight.shape} has no output"
        raise ValueError(msg)
    written = data.shape[0] * channels * prod(spatial) * data.element_bytes
    flop = 2 * data.shape[0] * prod(multiplied) * weight.elements
    return Cost(flop, data.bytes + weight.bytes + written, data.dtype)


def _convolution_backward(inputs: Inputs) -> Cost:
    """One product for each requested gradient: of the input, and of the weight."""
    gradient, data, weight = (inputs.tensor(place) for place in range(3))
    spatial = data.shape[2:] if inputs.flag(7) else gradient.shape[2:]
    of_data, of_weight = inputs.flags(10)[:2]
    flop = 2 * data.shape[0] * prod(spatial) * weight.elements
    passes = gradient.bytes + data.bytes + weight.bytes
    return Cost((of_data + of_weight) * flop, (of_data + of_weight) * passes, data.dtype)


def _attention(first: int, causal: int, products: int) -> Formula:
    """Attention with some products of the size of queries × keys.

    Parameters
    ----------
    first : int
        Place of the queries; keys and values follow.
    causal : int
        Place of the flag that leaves out half of it, if there are as many queries as keys.
    products : int
        2 in the forward pass; 4 in the backward pass, or 5 if it computes the scores again.
    """

    def cost(inputs: Inputs) -> Cost:
        query, key, value = (inputs.tensor(first + place, 4) for place in range(3))
        batch, heads, queries, width = query.shape
        keys = key.shape[2]
        flop = products * batch * heads * queries * keys * (width + value.shape[3])
        if inputs.flag(causal) and queries == keys:
            flop //= 2
        output = batch * heads * queries * value.shape[3] * query.element_bytes
        moved = query.bytes + key.bytes + value.bytes + output
        return Cost(flop, moved if first == 0 else 2 * moved, query.dtype)

    return cost


def _flash_attention(inputs: Inputs) -> Cost:
    """Attention as the libraries flash-attn and AITER call it: tokens before heads.

    Queries, keys and values are followed by the dropout, the scale, whether it is causal, and how
    many tokens to the left and right count, -1 for all. Attention with a window is not counted.
    """
    query, key, value = (inputs.tensor(place, 4) for place in range(3))
    if any(inputs.integers(place, 1)[0] >= 0 for place in (6, 7)):
        msg = "attention in a window"
        raise ValueError(msg)
    batch, queries, heads, width = query.shape
    keys = key.shape[1]
    flop = 2 * batch * heads * queries * keys * (width + value.shape[3])
    if inputs.flag(5) and queries == keys:
        flop //= 2
    output = batch * queries * heads * value.shape[3] * query.element_bytes
    return Cost(flop, query.bytes + key.bytes + value.bytes + output, query.dtype)


PRODUCTS: Final[Mapping[str, Formula]] = {
    "aten::mm": _product(0, 2),
    "aten::addmm": _product(1, 2),
    "aten::bmm": _product(0, 3),
    "aten::baddbmm": _product(1, 3),
    "aten::_scaled_mm": _product(0, 2),
    "aten::_grouped_mm": _grouped_product,
    "aten::_scaled_grouped_mm": _grouped_product,
}

ATTENTION: Final[Mapping[str, Formula]] = {
    "aten::_scaled_dot_product_flash_attention": _attention(0, 4, 2),
    "aten::_scaled_dot_product_efficient_attention": _attention(0, 6, 2),
    "aten::_scaled_dot_product_cudnn_attention": _attention(0, 6, 2),
    "aten::_scaled_dot_product_flash_attention_backward": _attention(1, 11, 5),
    "aten::_scaled_dot_product_efficient_attention_backward": _attention(1, 11, 4),
    "aten::_scaled_dot_product_cudnn_attention_backward": _attention(1, 14, 4),
    "flash_attn::_flash_attn_forward": _flash_attention,
    "aiter::fmha_v3_fwd": _flash_attention,
    "aiter::mha_fwd": _flash_attention,
}

COMPUTING: Final[Mapping[str, Formula]] = {
    **PRODUCTS,
    "aten::convolution": _convolution,
    "aten::_convolution": _convolution,
    "aten::convolution_backward": _convolution_backward,
    **ATTENTION,
}
"""Operators whose FLOP are counted. Whatever runs below one of them is its GPU time."""

NEEDS_VALUES: Final = frozenset(COMPUTING) - frozenset(PRODUCTS)
"""Operators whose FLOP also depend on inputs that are not tensors."""


def _elementwise(inputs: Inputs) -> Cost:
    """Every input once, and an output of the shape of all of them together."""
    tensors = _all_tensors(inputs)
    largest = max(tensors, key=lambda each: each.elements)
    output = np.broadcast_shapes(*(each.shape for each in tensors))
    written = prod(output) * largest.element_bytes
    return Cost(0, sum(each.bytes for each in tensors) + written, largest.dtype)


def _normalisation(inputs: Inputs) -> Cost:
    """Every input once, and an output (or gradient, in a backward pass) like the first input."""
    tensors = _all_tensors(inputs)
    return Cost(0, sum(each.bytes for each in tensors) + tensors[0].bytes, tensors[0].dtype)


def _copy(inputs: Inputs) -> Cost:
    """Read one tensor, and write another one with a type of its own."""
    written, read = inputs.tensor(0), inputs.tensor(1)
    return Cost(0, written.bytes + read.bytes, written.dtype)


def _fill(inputs: Inputs) -> Cost:
    written = inputs.tensor(0)
    return Cost(0, written.bytes, written.dtype)


def _inputs_only(inputs: Inputs) -> Cost:
    tensors = _all_tensors(inputs)
    return Cost(0, sum(each.bytes for each in tensors), tensors[0].dtype)


def _added_and_normalised(inputs: Inputs) -> Cost:
    """Every input once, and again the first two, which are written in place."""
    read = _inputs_only(inputs)
    return read._replace(bytes=read.bytes + inputs.tensor(0).bytes + inputs.tensor(1).bytes)


def _all_tensors(inputs: Inputs) -> list[Tensor]:
    tensors = [each for each in inputs.tensors if each is not None]
    if not tensors or inputs.has_unknown_types:
        msg = "no input is a Tensor, or one has an unknown type"
        raise ValueError(msg)
    return tensors


MOVING: Final[Mapping[str, Formula]] = {
    **{
        f"aten::{name}{suffix}": _elementwise
        for name in _ELEMENTWISE.split()
        for suffix in ("", "_")
    },
    **{
        f"aten::{name}": _normalisation
        for name in (*_NORMALISING.split(), *_NORMALISING_BACKWARD.split())
    },
    "_C::rms_norm": _inputs_only,
    "_C::silu_and_mul": _inputs_only,
    "_C::fused_add_rms_norm": _added_and_normalised,
    "aten::copy_": _copy,
    "aten::fill_": _fill,
    "aten::zero_": _fill,
}
"""Operators for which only the bytes count."""


def formula_of(operator: str) -> Formula | None:
    """The formula of an operator; None if it has none."""
    known = COMPUTING.get(operator) or MOVING.get(operator)
    return known or (_inputs_only if COMPILED.search(operator) else None)
