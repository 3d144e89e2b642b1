"""The network that the sample job trains: a vision transformer, as PyTorch's operators."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import lru_cache

from hta_widgets.sample.kernels import (
    GpuWork,
    column_sum,
    convolution,
    convolution_weight_gradient,
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

BATCH = 256
PATCHES = 197
TOKENS = BATCH * PATCHES
WIDTH = 768
CLASSES = 1_000
PATCH_INPUTS = 3 * 16 * 16
IMAGE_ELEMENTS = BATCH * 3 * 224 * 224

_ACTIVATIONS = TOKENS * WIDTH
_ATTENTION_FLOPS = 4 * BATCH * PATCHES * PATCHES * WIDTH
_ADD = "at::native::CUDAFunctor_add<c10::BFloat16>"
_MULTIPLY = (
    "at::native::BUnaryFunctor<c10::BFloat16, c10::BFloat16, c10::BFloat16, "
    "at::native::binary_internal::MulFunctor<c10::BFloat16> >"
)
_ITERATOR_AND_SCALAR = "(at::TensorIteratorBase&, c10::Scalar const&)"
_ADAMW = (
    ("aten::mul_", _MULTIPLY, 2),
    ("aten::lerp_", lambda_functor(f"lerp_scalar_kernel{_ITERATOR_AND_SCALAR}", 2), 3),
    ("aten::mul_", _MULTIPLY, 2),
    ("aten::addcmul_", lambda_functor(f"addcmul_cuda_kernel{_ITERATOR_AND_SCALAR}", 3), 4),
    ("aten::sqrt", lambda_functor("sqrt_kernel_cuda(at::TensorIteratorBase&)", 1), 2),
    ("aten::div", _MULTIPLY, 2),
    ("aten::add_", "at::native::CUDAFunctorOnSelf_add<c10::BFloat16>", 2),
    ("aten::addcdiv_", lambda_functor(f"addcdiv_cuda_kernel{_ITERATOR_AND_SCALAR}", 3), 4),
)


@dataclass(frozen=True)
class Op:
    """A CPU operator: the operators it calls, then the GPU work it issues itself.

    ``input_dims`` is the JSON text that Kineto writes for the shapes of the inputs.
    """

    name: str
    calls: tuple[Op, ...] = ()
    work: tuple[GpuWork, ...] = ()
    input_dims: str = ""


@dataclass(frozen=True)
class Node:
    """One differentiable operation; ``parameters`` are the sizes of its parameters."""

    forward: Op
    backward: Op
    parameters: tuple[int, ...] = ()


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

    The first bucket also holds the patch embedding, the last one the classifier and the loss;
    backward goes through the buckets from last to first.
    """
    blocks = [_block()] * layers
    blocks[0] = _stem() + blocks[0]
    blocks[-1] = blocks[-1] + _head()
    return tuple(Bucket(nodes) for nodes in blocks)


def scale_images() -> Op:
    """Scale the images of a batch, the first computation on it."""
    return Op("aten::mul", work=(elementwise(_MULTIPLY, IMAGE_ELEMENTS, 2),))


def adamw(elements: int) -> tuple[Op, ...]:
    """Update one parameter without fusion: a small kernel per arithmetic operation."""
    return tuple(
        Op(name, work=(elementwise(functor, elements, tensors, cached=True),))
        for name, functor, tensors in _ADAMW
    )


def _block() -> tuple[Node, ...]:
    return (
        _layer_norm(),
        _linear(WIDTH, 3 * WIDTH),
        _attention(),
        _linear(WIDTH, WIDTH),
        _residual_add(),
        _layer_norm(),
        _linear(WIDTH, 4 * WIDTH),
        _gelu(4 * WIDTH),
        _linear(4 * WIDTH, WIDTH),
        _residual_add(),
    )


def _stem() -> tuple[Node, ...]:
    dims = f"[[{BATCH}, 3, 224, 224], [{WIDTH}, 3, 16, 16], [{WIDTH}]]"
    forward = _nested(
        ("aten::conv2d", "aten::convolution", "aten::_convolution", "aten::cudnn_convolution"),
        Op("aten::empty"),
        work=(convolution(2 * TOKENS * WIDTH * PATCH_INPUTS),),
    )
    backward = Op(
        "aten::convolution_backward",
        work=(
            convolution_weight_gradient(2 * TOKENS * WIDTH * PATCH_INPUTS),
            column_sum(_ACTIVATIONS),
        ),
    )
    embed = Node(
        replace(forward, input_dims=dims),
        Op("ConvolutionBackward0", (backward,)),
        (WIDTH * PATCH_INPUTS, WIDTH),
    )
    return embed, replace(_residual_add(), parameters=(PATCHES * WIDTH,))


def _head() -> tuple[Node, ...]:
    scores = BATCH * CLASSES
    softmax = _nested(("aten::log_softmax", "aten::_log_softmax"), work=(log_softmax(scores),))
    loss = _nested(("aten::nll_loss_nd", "aten::nll_loss"), work=(nll_loss(),))
    return (
        _layer_norm(),
        _linear(WIDTH, CLASSES, rows=BATCH),
        Node(
            softmax,
            _nested(
                ("LogSoftmaxBackward0", "aten::_log_softmax_backward_data"),
                work=(log_softmax_backward(scores),),
            ),
        ),
        Node(
            loss,
            _nested(
                ("NllLossBackward0", "aten::nll_loss_backward"),
                _zeros(scores),
                work=(nll_loss_backward(),),
            ),
        ),
    )


def _layer_norm() -> Node:
    dims = f"[[{BATCH}, {PATCHES}, {WIDTH}], [], [{WIDTH}], [{WIDTH}], [], []]"
    return Node(
        _nested(
            ("aten::layer_norm", "aten::native_layer_norm"),
            Op("aten::empty"),
            work=(layer_norm(_ACTIVATIONS),),
            input_dims=dims,
        ),
        _nested(
            ("NativeLayerNormBackward0", "aten::native_layer_norm_backward"),
            work=layer_norm_backward(_ACTIVATIONS),
        ),
        (WIDTH, WIDTH),
    )


def _linear(inputs: int, outputs: int, rows: int = TOKENS) -> Node:
    transpose = Op("aten::t", (Op("aten::transpose"),))
    dims = f"[[{outputs}], [{rows}, {inputs}], [{inputs}, {outputs}], [], []]"
    addmm = Op("aten::addmm", work=(gemm(rows, outputs, inputs, "TNT"),), input_dims=dims)
    input_gradient = Op("aten::mm", work=(gemm(rows, inputs, outputs, "nn"),))
    weight_gradient = Op("aten::mm", work=(gemm(outputs, inputs, rows, "nt"),))
    bias_gradient = Op("aten::sum", work=(column_sum(rows * outputs),))
    return Node(
        Op("aten::linear", (transpose, addmm)),
        Op(
            "AddmmBackward0",
            (transpose, input_gradient, transpose, weight_gradient, bias_gradient),
        ),
        (inputs * outputs, outputs),
    )


def _attention() -> Node:
    names = ("aten::scaled_dot_product_attention", "aten::_scaled_dot_product_flash_attention")
    head = f"[{BATCH}, 12, {PATCHES}, 64]"
    return Node(
        _nested(
            (*names, "aten::_flash_attention_forward"),
            Op("aten::empty"),
            work=(flash_attention(_ATTENTION_FLOPS),),
            input_dims=f"[{head}, {head}, {head}, [], [], [], []]",
        ),
        _nested(
            (
                "ScaledDotProductFlashAttentionBackward0",
                f"{names[1]}_backward",
                "aten::_flash_attention_backward",
            ),
            _zeros(_ACTIVATIONS),
            work=flash_attention_backward(_ATTENTION_FLOPS, _ACTIVATIONS),
        ),
    )


def _gelu(width: int) -> Node:
    elements = TOKENS * width
    kind = "(at::TensorIteratorBase&, at::native::GeluType)"
    forward = lambda_functor(f"GeluCUDAKernelImpl{kind}", 1)
    backward = lambda_functor(f"GeluBackwardCUDAKernelImpl{kind}", 2)
    return Node(
        Op("aten::gelu", work=(elementwise(forward, elements, 2),)),
        _nested(
            ("GeluBackward0", "aten::gelu_backward"), work=(elementwise(backward, elements, 3),)
        ),
    )


def _residual_add() -> Node:
    add = Op("aten::add", work=(elementwise(_ADD, _ACTIVATIONS, 3),))
    return Node(add, Op("AddBackward0", (add,)))


def _zeros(elements: int) -> Op:
    return Op("aten::zeros", (Op("aten::zero_", work=(memset(2 * elements),)),))


def _nested(
    names: tuple[str, ...],
    *calls: Op,
    work: tuple[GpuWork, ...] = (),
    input_dims: str = "",
) -> Op:
    """Nest operators of these names, outermost first; the innermost one issues the work."""
    op = Op(names[-1], calls, work, input_dims)
    for name in reversed(names[:-1]):
        op = Op(name, (op,), input_dims=input_dims)
    return op


@lru_cache(maxsize=256)
def input_types(dims: str) -> str:
    """JSON text of the types of inputs of some shapes, BF16 all; empty where they are given."""
    if '"Input type"' in dims:
        return ""
    types = ['"c10::BFloat16"' if shape else '""' for shape in json.loads(dims)]
    return f'"Input type": [{", ".join(types)}], '
