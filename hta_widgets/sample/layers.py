"""The layers of a vision transformer as PyTorch's operators, forward and backward."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Final

from hta_widgets.sample.kernels import (
    column_sum,
    elementwise,
    flash_attention,
    flash_attention_backward,
    gemm,
    lambda_functor,
    layer_norm,
    layer_norm_backward,
    memset,
)
from hta_widgets.sample.operators import (
    ABSENT,
    Allocation,
    Input,
    Node,
    Op,
    Until,
    nested,
    numbers,
    output,
    scalar,
    tensor,
)

BATCH: Final = 256
PATCHES: Final = 197
TOKENS: Final = BATCH * PATCHES
WIDTH: Final = 768
HEADS: Final = 12
ACTIVATIONS: Final = TOKENS * WIDTH

FLAG: Final = {value: scalar(value=value) for value in (False, True)}
GRADIENT: Final = Until.ZERO_GRAD
SAVED: Final = Until.NEXT_DIFFERENTIATED
SAVED_BY_ITSELF: Final = Until.DIFFERENTIATED
WEIGHT: Final = tensor(WIDTH)
NUMBER: Final = tensor()

_ATTENTION_FLOPS = 4 * BATCH * PATCHES * PATCHES * WIDTH
_ADD = "at::native::CUDAFunctor_add<c10::BFloat16>"
_FLOAT_BYTES = 4
_ROWS = tensor(BATCH, PATCHES, WIDTH)
_STATISTICS = tensor(BATCH, PATCHES, 1, kind="float")

Shape = tuple[int, ...]


def node(forward: Op, backward: Op, *shapes: Shape) -> Node:
    """Build a node with parameters of these shapes."""
    return Node(forward, backward, tuple(map(prod, shapes)), shapes)


def layer_normalisation() -> Node:
    """Normalise each row."""
    shape, epsilon = numbers(WIDTH), scalar(1e-06)
    rows = tuple(output(TOKENS, SAVED_BY_ITSELF, size=_FLOAT_BYTES) for _ in range(2))
    forward = nested(
        Op("aten::layer_norm", inputs=(_ROWS, shape, WEIGHT, WEIGHT, epsilon, FLAG[True])),
        Op(
            "aten::native_layer_norm",
            (empty(output(ACTIVATIONS, SAVED), *rows),),
            (layer_norm(ACTIVATIONS),),
            inputs=(_ROWS, shape, WEIGHT, WEIGHT, epsilon),
        ),
    )
    taken = (_ROWS, _ROWS, shape, _STATISTICS, _STATISTICS, WEIGHT, WEIGHT)
    gradients = (output(WIDTH, GRADIENT), output(WIDTH, GRADIENT))
    backward = nested(
        Op("NativeLayerNormBackward0", inputs=(_ROWS, ABSENT, ABSENT)),
        Op(
            "aten::native_layer_norm_backward",
            work=layer_norm_backward(ACTIVATIONS),
            inputs=(*taken, numbers(True, True, True)),
            allocates=(output(ACTIVATIONS), *gradients),
        ),
    )
    return node(forward, backward, (WIDTH,), (WIDTH,))


def linear(inputs: int, outputs: int, rows: int = TOKENS, kept: Until = Until.USED) -> Node:
    """Multiply each row by a matrix, and add a bias."""
    bias, one = tensor(outputs), scalar(1)
    taken, made = tensor(rows, inputs), tensor(rows, outputs)
    weight, transposed = tensor(outputs, inputs), tensor(inputs, outputs)
    addmm = Op(
        "aten::addmm",
        work=(gemm(rows, outputs, inputs, "TNT"),),
        inputs=(bias, taken, transposed, one, one),
        allocates=(output(rows * outputs, kept),),
    )
    input_gradient = Op(
        "aten::mm",
        work=(gemm(rows, inputs, outputs, "nn"),),
        inputs=(made, weight),
        allocates=(output(rows * inputs),),
    )
    weight_gradient = Op(
        "aten::mm",
        work=(gemm(outputs, inputs, rows, "nt"),),
        inputs=(tensor(outputs, rows), taken),
        allocates=(output(outputs * inputs, GRADIENT),),
    )
    bias_gradient = Op(
        "aten::sum",
        work=(column_sum(rows * outputs),),
        inputs=(made, numbers(0), FLAG[True], ABSENT),
        allocates=(output(outputs, GRADIENT),),
    )
    backward = (_t(transposed), input_gradient, _t(made), weight_gradient, bias_gradient)
    batched = taken if rows != TOKENS else tensor(BATCH, PATCHES, inputs)
    return node(
        Op("aten::linear", (_t(weight), addmm), inputs=(batched, weight, bias)),
        Op("AddmmBackward0", backward, inputs=(made,)),
        (outputs, inputs),
        (outputs,),
    )


def attention() -> Node:
    """Attend to all patches of the image."""
    heads = (tensor(BATCH, HEADS, PATCHES, WIDTH // HEADS),) * 3
    rows = (tensor(BATCH, PATCHES, HEADS, WIDTH // HEADS),) * 3
    sums = tensor(BATCH, HEADS, PATCHES, kind="float")
    none, false, dropout = (ABSENT, ABSENT), FLAG[False], scalar(0.0)
    longest = (scalar(PATCHES), scalar(PATCHES))
    random = (tensor(2, kind="unsigned long"), NUMBER)
    kept = output(BATCH * HEADS * PATCHES, SAVED_BY_ITSELF, size=_FLOAT_BYTES)
    scaled, flash = "aten::_scaled_dot_product_flash_attention", "aten::_flash_attention"
    forward = nested(
        Op(
            "aten::scaled_dot_product_attention",
            inputs=(*heads, ABSENT, dropout, false, ABSENT, false),
        ),
        Op(scaled, inputs=(*heads, dropout, false, false, ABSENT)),
        Op(
            f"{flash}_forward",
            (empty(output(ACTIVATIONS, SAVED), kept),),
            (flash_attention(_ATTENTION_FLOPS),),
            inputs=(*rows, *none, *longest, dropout, false, false, ABSENT),
        ),
    )
    rest = (*none, *longest, dropout, false, *random, ABSENT)
    backward = nested(
        Op("ScaledDotProductFlashAttentionBackward0", inputs=(heads[0], *[ABSENT] * 8)),
        Op(f"{scaled}_backward", inputs=(heads[0], *heads, heads[0], sums, *rest)),
        Op(
            f"{flash}_backward",
            (zeros((BATCH, PATCHES, HEADS, WIDTH // HEADS), uses=0),),
            flash_attention_backward(_ATTENTION_FLOPS, ACTIVATIONS),
            inputs=(rows[0], *rows, rows[0], sums, *rest),
            allocates=(output(3 * ACTIVATIONS),),
        ),
    )
    return Node(forward, backward)


def gelu(width: int) -> Node:
    """Apply GELU."""
    elements = TOKENS * width
    taken = tensor(BATCH, PATCHES, width)
    kind = "(at::TensorIteratorBase&, at::native::GeluType)"
    forward = lambda_functor(f"GeluCUDAKernelImpl{kind}", 1)
    backward = lambda_functor(f"GeluBackwardCUDAKernelImpl{kind}", 2)
    return Node(
        Op(
            "aten::gelu",
            work=(elementwise(forward, elements, 2),),
            inputs=(taken, ABSENT),
            allocates=(output(elements, SAVED),),
        ),
        nested(
            Op("GeluBackward0", inputs=(taken,)),
            Op(
                "aten::gelu_backward",
                work=(elementwise(backward, elements, 3),),
                inputs=(taken, taken, ABSENT),
                allocates=(output(elements),),
            ),
        ),
    )


def residual_add(parameter: Shape = ()) -> Node:
    """Add two activations; or to one of them, a parameter."""
    add = Op(
        "aten::add",
        work=(elementwise(_ADD, ACTIVATIONS, 3),),
        inputs=(_ROWS, tensor(*parameter) if parameter else _ROWS, scalar(1)),
    )
    gradient = (output(prod(parameter), GRADIENT),) if parameter else ()
    forward = replace(add, allocates=(output(ACTIVATIONS, SAVED),))
    added = replace(
        add, inputs=(_ROWS, _ROWS, scalar(1)), allocates=(output(ACTIVATIONS), *gradient)
    )
    shapes = (parameter,) if parameter else ()
    return node(forward, Op("AddBackward0", (added,), inputs=(_ROWS,)), *shapes)


def _t(matrix: Input) -> Op:
    transpose = Op("aten::transpose", inputs=(matrix, scalar(0), scalar(1)))
    return Op("aten::t", (transpose,), inputs=(matrix,))


def empty(*made: Allocation) -> Op:
    """Allocate without filling."""
    return Op("aten::empty", allocates=made)


def zeros(shape: Shape, uses: int) -> Op:
    """Allocate zeros, which some of the operations that follow use."""
    elements = prod(shape)
    zero = Op("aten::zero_", work=(memset(2 * elements),), inputs=(tensor(*shape),))
    kept = (output(elements, uses=uses),)
    return Op("aten::zeros", (zero,), inputs=(numbers(*shape), *[ABSENT] * 4), allocates=kept)
