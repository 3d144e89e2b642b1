"""The model that the sample job trains, as PyTorch operators: a vision transformer with AdamW."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Final

from hta_widgets.sample.kernels import (
    column_sum,
    convolution,
    convolution_weight_gradient,
    copy_to_device,
    elementwise,
    flash_attention,
    flash_attention_backward,
    gemm,
    lambda_functor,
    layer_norm,
    layer_norm_backward,
    log_softmax,
    log_softmax_backward,
    memset,
    nll_loss,
    nll_loss_backward,
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
    """Add two activations, or a parameter to one."""
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
    """Allocate zeros, which some of the following operations use."""
    elements = prod(shape)
    zero = Op("aten::zero_", work=(memset(2 * elements),), inputs=(tensor(*shape),))
    kept = (output(elements, uses=uses),)
    return Op("aten::zeros", (zero,), inputs=(numbers(*shape), *[ABSENT] * 4), allocates=kept)


CLASSES = 1_000
PATCH_INPUTS = 3 * 16 * 16
IMAGE_ELEMENTS = BATCH * 3 * 224 * 224

_IMAGES = tensor(BATCH, 3, 224, 224)
_SCORES = tensor(BATCH, CLASSES)
_TARGETS = tensor(BATCH, kind="long int")

_MULTIPLY = (
    "at::native::BUnaryFunctor<c10::BFloat16, c10::BFloat16, c10::BFloat16, "
    "at::native::binary_internal::MulFunctor<c10::BFloat16> >"
)
_ITERATOR_AND_SCALAR = "(at::TensorIteratorBase&, c10::Scalar const&)"
_ADAMW = (
    ("aten::mul_", _MULTIPLY, 2, (0.99999,)),
    ("aten::lerp_", lambda_functor(f"lerp_scalar_kernel{_ITERATOR_AND_SCALAR}", 2), 3, (0.1,)),
    ("aten::mul_", _MULTIPLY, 2, (0.999,)),
    (
        "aten::addcmul_",
        lambda_functor(f"addcmul_cuda_kernel{_ITERATOR_AND_SCALAR}", 3),
        4,
        (0.001,),
    ),
    ("aten::sqrt", lambda_functor("sqrt_kernel_cuda(at::TensorIteratorBase&)", 1), 2, ()),
    ("aten::div", _MULTIPLY, 2, (0.1,)),
    ("aten::add_", "at::native::CUDAFunctorOnSelf_add<c10::BFloat16>", 2, (1e-08, 1)),
    (
        "aten::addcdiv_",
        lambda_functor(f"addcdiv_cuda_kernel{_ITERATOR_AND_SCALAR}", 3),
        4,
        (-0.001,),
    ),
)
"""The operations of AdamW, with the functor, tensors and numbers of each."""
_TENSORS = {"aten::lerp_": 2, "aten::addcmul_": 3, "aten::addcdiv_": 3}
"""Number of tensors that an operation takes, if it is not one."""
_USES = {"aten::sqrt": 1, "aten::div": 2}
"""Number of operations that results outlive, if they are not written in place."""


@dataclass(frozen=True)
class Bucket:
    """Consecutive nodes whose gradients DDP sums over the ranks in one all-reduce."""

    nodes: tuple[Node, ...]

    @property
    def parameters(self) -> tuple[int, ...]:
        """Number of elements of each parameter."""
        return tuple(size for node in self.nodes for size in node.parameters)


def vision_transformer(layers: int) -> tuple[Bucket, ...]:
    """Build the network with one gradient bucket per layer.

    The first bucket also holds the patch embedding, and the last one the classifier and the loss.
    The backward pass goes through the buckets from last to first.
    """
    blocks = [_block()] * layers
    blocks[0] = _stem() + blocks[0]
    blocks[-1] = blocks[-1] + _head()
    return tuple(Bucket(nodes) for nodes in blocks)


def load_batch() -> tuple[Op, Op]:
    """Copy the images and the targets of a batch to the GPU."""
    images = tensor(BATCH, 3, 224, 224, kind="unsigned char")
    return (
        _to_device(images, IMAGE_ELEMENTS, Until.USED),
        _to_device(_TARGETS, BATCH * 8, SAVED),
    )


def scale_images() -> Op:
    """Scale the images of a batch, the first computation on it."""
    return Op(
        "aten::mul",
        work=(elementwise(_MULTIPLY, IMAGE_ELEMENTS, 2),),
        inputs=(_IMAGES, scalar(0.00392156862745098)),
        allocates=(output(IMAGE_ELEMENTS, SAVED),),
    )


def _to_device(data: Input, number_of_bytes: int, until: Until) -> Op:
    to = Op("aten::to", inputs=(data, *[ABSENT] * 4, FLAG[True], FLAG[False]))
    kept = (output(number_of_bytes, until, uses=3, size=1),)
    copied = Op("aten::_to_copy", inputs=(data, *[ABSENT] * 4, FLAG[True]), allocates=kept)
    copy = Op(
        "aten::copy_",
        work=(copy_to_device(number_of_bytes),),
        inputs=(data, data, FLAG[True]),
    )
    return nested(to, copied, copy)


def _block() -> tuple[Node, ...]:
    return (
        layer_normalisation(),
        linear(WIDTH, 3 * WIDTH, kept=SAVED),
        attention(),
        linear(WIDTH, WIDTH),
        residual_add(),
        layer_normalisation(),
        linear(WIDTH, 4 * WIDTH, kept=SAVED),
        gelu(4 * WIDTH),
        linear(4 * WIDTH, WIDTH),
        residual_add(),
    )


def _stem() -> tuple[Node, ...]:
    flops = 2 * TOKENS * WIDTH * PATCH_INPUTS
    kernel, patches = (WIDTH, 3, 16, 16), tensor(BATCH, WIDTH, 14, 14)
    pair, stride = numbers(0, 0), numbers(16, 16)
    where = (stride, pair, numbers(1, 1))
    false, true = FLAG[False], FLAG[True]
    data = (_IMAGES, tensor(*kernel), WEIGHT)
    full = (*data, *where, false, pair, scalar(1))
    forward = nested(
        Op("aten::conv2d", inputs=(*data, *where, scalar(1))),
        Op("aten::convolution", inputs=full),
        Op("aten::_convolution", inputs=(*full, false, false, true, true)),
        Op(
            "aten::cudnn_convolution",
            (empty(output(ACTIVATIONS)),),
            (convolution(flops),),
            inputs=(*data[:2], pair, stride, numbers(1, 1), scalar(1), false, false, true),
        ),
    )
    backward = Op(
        "aten::convolution_backward",
        work=(convolution_weight_gradient(flops), column_sum(ACTIVATIONS)),
        inputs=(
            *(patches, *data[:2], numbers(WIDTH), *where, false, pair),
            *(scalar(1), numbers(False, True, True)),
        ),
        allocates=(output(prod(kernel), GRADIENT), output(WIDTH, GRADIENT)),
    )
    convolved = Op("ConvolutionBackward0", (backward,), inputs=(patches,))
    return node(forward, convolved, kernel, (WIDTH,)), residual_add((1, PATCHES, WIDTH))


def _head() -> tuple[Node, ...]:
    scores = BATCH * CLASSES
    options = (ABSENT, scalar(1), scalar(-100))
    return (
        layer_normalisation(),
        linear(WIDTH, CLASSES, rows=BATCH),
        Node(
            nested(
                Op("aten::log_softmax", inputs=(_SCORES, scalar(-1), ABSENT)),
                Op(
                    "aten::_log_softmax",
                    work=(log_softmax(scores),),
                    inputs=(_SCORES, scalar(-1), FLAG[False]),
                    allocates=(output(scores, SAVED_BY_ITSELF),),
                ),
            ),
            nested(
                Op("LogSoftmaxBackward0", inputs=(_SCORES,)),
                Op(
                    "aten::_log_softmax_backward_data",
                    work=(log_softmax_backward(scores),),
                    inputs=(_SCORES, _SCORES, scalar(-1), ABSENT),
                    allocates=(output(scores),),
                ),
            ),
        ),
        Node(
            nested(
                Op("aten::nll_loss_nd", inputs=(_SCORES, _TARGETS, *options)),
                Op(
                    "aten::nll_loss",
                    work=(nll_loss(),),
                    inputs=(_SCORES, _TARGETS, *options),
                    allocates=(output(1, SAVED_BY_ITSELF), output(1, SAVED_BY_ITSELF)),
                ),
            ),
            nested(
                Op("NllLossBackward0", inputs=(NUMBER,)),
                Op(
                    "aten::nll_loss_backward",
                    (zeros((BATCH, CLASSES), uses=1),),
                    (nll_loss_backward(),),
                    inputs=(NUMBER, _SCORES, _TARGETS, *options, NUMBER),
                ),
            ),
        ),
    )


def adamw(shape: tuple[int, ...]) -> tuple[Op, ...]:
    """Update one parameter without fusion: a small kernel per arithmetic operation."""
    elements = prod(shape)
    return tuple(
        Op(
            name,
            work=(elementwise(functor, elements, tensors, cached=True),),
            inputs=(*(tensor(*shape),) * _TENSORS.get(name, 1), *map(scalar, values)),
            allocates=(output(elements, uses=_USES[name]),) if name in _USES else (),
        )
        for name, functor, tensors, values in _ADAMW
    )
