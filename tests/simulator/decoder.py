"""A decoder-only transformer as PyTorch's operators: what the jobs with one cause train."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from typing import Literal

from hta_widgets.sample.kernels import (
    GEMM_FLOPS_PER_NS,
    GpuWork,
    convolution,
    convolution_weight_gradient,
    elementwise,
    flash_attention,
    flash_attention_backward,
    kernel,
    lambda_functor,
    layer_norm,
    layer_norm_backward,
    log_softmax,
    log_softmax_backward,
    nll_loss,
    nll_loss_backward,
)
from hta_widgets.sample.operators import Node, Op

SEQUENCE = 2_048
FP32_FLOPS_PER_NS = 45_000
MULTIPLE = 8
UNALIGNED = 2
"""How many times as long a product takes whose sizes are no multiples of `MULTIPLE`."""
MULTIPROCESSORS = 132
"""Each has one block of a persistent kernel, whatever the size of its work."""
IMAGE = 56
"""Rows and columns of the images that each layer convolves, if it does."""
CHANNELS = 256
TOKENS_OF_AN_IMAGE = 128
_ANONYMOUS = "void at::native::(anonymous namespace)::"
_ADD = "at::native::CUDAFunctor_add<c10::BFloat16>"
_GELU = "GeluCUDAKernelImpl(at::TensorIteratorBase&, at::native::GeluType)"
_GELU_BACKWARD = "GeluBackwardCUDAKernelImpl(at::TensorIteratorBase&, at::native::GeluType)"
_TANH_GELU = ("pow", "mul", "add", "mul", "tanh", "add", "mul", "mul")
_TANH_GELU_BACKWARD = (
    "mul",
    "mul",
    "mul",
    "tanh_backward",
    "mul",
    "mul",
    "pow",
    "mul",
    "add",
    "add",
)


@dataclass(frozen=True)
class ShapedOp(Op):
    """An operator of which only the shapes of the inputs are known; ``dims`` is their JSON text."""

    dims: str = ""

    @cached_property
    def recorded_inputs(self) -> str:
        """What Kineto writes about its inputs, with a comma after it."""
        return f'"Input Dims": {self.dims}, {_input_types(self.dims)}'


@dataclass(frozen=True)
class Decoder:
    """The size of a network and how it is written.

    Attributes
    ----------
    hidden
        Width of the residual stream.
    vocabulary
        Number of tokens that the head scores; a small one leaves the stages of a pipeline equal.
    fused_activation
        Whether GELU is one kernel, instead of one for each arithmetic operation.
    fp32_layers, fp32_head
        Whether matrix products run in float32, without tensor cores.
    width
        Of the feed-forward block; 0 for four times `hidden`.
    images
        The layout of the images that each layer convolves; empty if it convolves none. Convolutions
        take NHWC.
    """

    hidden: int = 2_048
    vocabulary: int = 8_192
    fused_activation: bool = True
    fp32_layers: bool = False
    fp32_head: bool = False
    width: int = 0
    images: Literal["", "NHWC", "NCHW"] = ""

    @property
    def layer_parameters(self) -> tuple[int, ...]:
        """Number of elements of each parameter of a layer."""
        return tuple(size for node in layer(self, SEQUENCE) for size in node.parameters)


@cache
def layer(decoder: Decoder, tokens: int) -> tuple[Node, ...]:
    """Build a transformer layer."""
    images = image_block(decoder, tokens) if decoder.images else ()
    return (*attention_block(decoder, tokens), *feed_forward_block(decoder, tokens), *images)


def attention_block(decoder: Decoder, tokens: int) -> tuple[Node, ...]:
    """Build the first half of a layer."""
    hidden, fp32 = decoder.hidden, decoder.fp32_layers
    return (
        _layer_norm(tokens, hidden),
        _linear(tokens, hidden, 3 * hidden, fp32=fp32),
        _attention(tokens, hidden),
        _linear(tokens, hidden, hidden, fp32=fp32),
        _residual_add(tokens * hidden),
    )


def feed_forward_block(decoder: Decoder, tokens: int) -> tuple[Node, ...]:
    """Build the second half of a layer."""
    hidden, fp32 = decoder.hidden, decoder.fp32_layers
    width = decoder.width or 4 * hidden
    elements = tokens * width
    return (
        _layer_norm(tokens, hidden),
        _linear(tokens, hidden, width, fp32=fp32),
        _gelu(elements) if decoder.fused_activation else _unfused_gelu(elements),
        _linear(tokens, width, hidden, fp32=fp32),
        _residual_add(tokens * hidden),
    )


def image_block(decoder: Decoder, tokens: int) -> tuple[Node, ...]:
    """Build a bottleneck of convolutions."""
    return tuple(_convolution(decoder, tokens, width) for width in (1, 3, 1))


def expert_block(decoder: Decoder, tokens: int) -> tuple[Node, ...]:
    """Build the experts of a rank, which run on the tokens that were sent to it."""
    hidden = decoder.hidden
    return (
        _grouped_linear(tokens, hidden, 4 * hidden),
        _gelu(4 * tokens * hidden),
        _grouped_linear(tokens, 4 * hidden, hidden),
    )


@cache
def embedding(decoder: Decoder, tokens: int) -> tuple[Node, ...]:
    """Look tokens up."""
    elements = tokens * decoder.hidden
    index = "indexSelectLargeIndex<c10::BFloat16, long, unsigned int, 2, 2, -2, true>(int)"
    look_up = _memory_kernel(f"{_ANONYMOUS}{index}", 2 * elements)
    backward = "embedding_backward_kernel<c10::BFloat16, float>(int)"
    scatter = _memory_kernel(f"{_ANONYMOUS}{backward}", 3 * elements)
    dims = f"[[{decoder.vocabulary}, {decoder.hidden}], [{tokens}]]"
    return (
        Node(
            ShapedOp("aten::embedding", (Op("aten::index_select", work=(look_up,)),), dims=dims),
            Op("EmbeddingBackward0", (Op("aten::embedding_dense_backward", work=(scatter,)),)),
            (decoder.vocabulary * decoder.hidden,),
        ),
    )


@cache
def head(decoder: Decoder, tokens: int) -> tuple[Node, ...]:
    """Score the vocabulary and compute the loss."""
    scores = tokens * decoder.vocabulary
    return (
        _layer_norm(tokens, decoder.hidden),
        _linear(tokens, decoder.hidden, decoder.vocabulary, fp32=decoder.fp32_head),
        Node(
            Op("aten::log_softmax", (Op("aten::_log_softmax", work=(log_softmax(scores),)),)),
            Op(
                "LogSoftmaxBackward0",
                (Op("aten::_log_softmax_backward_data", work=(log_softmax_backward(scores),)),),
            ),
        ),
        Node(
            Op("aten::nll_loss", work=(nll_loss(),)),
            Op("NllLossBackward0", (Op("aten::nll_loss_backward", work=(nll_loss_backward(),)),)),
        ),
    )


def fused_adamw(elements: int) -> Op:
    """Update all parameters in a few kernels."""
    functor = "FusedAdamMathFunctor<c10::BFloat16, 4, (at::native::ADAM_MODE)1, false>"
    name = (
        f"{_ANONYMOUS}multi_tensor_apply_kernel<at::native::(anonymous namespace)::"
        f"FusedOptimizerTensorListMetadata<4>, at::native::(anonymous namespace)::{functor}>(int)"
    )
    calls = 4
    work = _memory_kernel(name, 7 * elements // calls)
    return Op("aten::_fused_adamw_", work=(work,) * calls)


def _linear(tokens: int, inputs: int, outputs: int, *, fp32: bool = False) -> Node:
    kind = "float" if fp32 else "c10::BFloat16"
    dims = f"[[{outputs}], [{tokens}, {inputs}], [{inputs}, {outputs}], [], []]"
    types = f'["{kind}", "{kind}", "{kind}", "Scalar", "Scalar"]'
    options = {"fp32": fp32, "aligned": not (inputs % MULTIPLE or outputs % MULTIPLE)}
    multiply = _gemm(tokens, outputs, inputs, "tn", **options)

    def gradient(rows: int, columns: int, inner: int, layout: str) -> Op:
        shapes = f'[[{rows}, {inner}], [{inner}, {columns}]], "Input type": ["{kind}", "{kind}"]'
        work = _gemm(rows, columns, inner, layout, **options)
        return ShapedOp("aten::mm", work=(work,), dims=shapes)

    input_gradient = gradient(tokens, inputs, outputs, "nn")
    weight_gradient = gradient(outputs, inputs, tokens, "nt")
    transpose = Op("aten::t", (Op("aten::transpose"),))
    return Node(
        Op(
            "aten::linear",
            (
                transpose,
                ShapedOp("aten::addmm", work=(multiply,), dims=f'{dims}, "Input type": {types}'),
            ),
        ),
        Op("AddmmBackward0", (input_gradient, weight_gradient)),
        (inputs * outputs, outputs),
    )


def _convolution(decoder: Decoder, tokens: int, width: int) -> Node:
    """Convolve, with images turned to NHWC before and back after it where they are not."""
    images = max(1, tokens // TOKENS_OF_AN_IMAGE)
    pixels, weights = images * IMAGE * IMAGE, CHANNELS * CHANNELS * width * width
    flops = 2 * pixels * weights
    to_last, to_first = (
        (_turned(name, CHANNELS * pixels),) if decoder.images == "NCHW" else ()
        for name in ("nchwToNhwc", "nhwcToNchw")
    )
    data = _with_blocks(convolution(flops), images)
    weight = _with_blocks(convolution_weight_gradient(flops), images)
    shape = f"[{images}, {CHANNELS}, {IMAGE}, {IMAGE}]"
    kernels = f"[{CHANNELS}, {CHANNELS}, {width}, {width}]"
    work = (*to_last, data, *to_first)
    convolve = ShapedOp("aten::cudnn_convolution", work=work, dims=f"[{shape}, {kernels}]")
    backward = (*to_last, *to_last, data, weight, *to_first)
    return Node(
        Op("aten::conv2d", (convolve,)),
        Op("ConvolutionBackward0", (Op("aten::convolution_backward", work=backward),)),
        (weights,),
    )


def _turned(direction: str, elements: int) -> GpuWork:
    """Change the layout of images as cuDNN does."""
    types = "__nv_bfloat16, __nv_bfloat16, float, false, true, (cudnnKernelDataType_t)0"
    parameters = f"cudnn::ops::{direction.replace('To', '2').lower()}_params_t<float>"
    turned = _memory_kernel(f"void cudnn::ops::{direction}Kernel<{types}>({parameters})", elements)
    return replace(turned, duration_ns=2 * turned.duration_ns)


def _grouped_linear(tokens: int, inputs: int, outputs: int) -> Node:
    """Multiply the tokens of each expert by its matrix, in one kernel."""
    work = replace(
        _with_blocks(_gemm(tokens, outputs, inputs, "tn"), MULTIPROCESSORS),
        name="void cutlass::device_kernel<at::cuda::detail::GroupMMPersistent_128x256x64>(int)",
    )
    dims = f"[[{tokens}, {inputs}], [2, {inputs}, {outputs}], [2]]"
    return Node(
        ShapedOp("aten::_grouped_mm", work=(work,), dims=dims),
        Op("GroupedMmBackward0", (Op("aten::_grouped_mm", work=(work, work)),)),
        (2 * inputs * outputs,),
    )


def _attention(tokens: int, hidden: int) -> Node:
    flops = 2 * tokens * SEQUENCE * hidden
    outer = "aten::scaled_dot_product_attention"
    inner = "aten::_scaled_dot_product_flash_attention"
    heads = f"[{_tiles(tokens, SEQUENCE)}, {hidden // 128}, {min(tokens, SEQUENCE)}, 128]"
    blocks = max(1, tokens * hidden // 8_192)
    return Node(
        ShapedOp(
            outer,
            (Op(inner, work=(_with_blocks(flash_attention(flops), blocks),)),),
            dims=f"[{heads}, {heads}, {heads}, [], [], [], []]",
        ),
        Op(
            "ScaledDotProductFlashAttentionBackward0",
            (
                Op(
                    f"{inner}_backward",
                    work=tuple(
                        _with_blocks(work, blocks)
                        for work in flash_attention_backward(flops, tokens * hidden)
                    ),
                ),
            ),
        ),
    )


def _layer_norm(tokens: int, hidden: int) -> Node:
    elements = tokens * hidden
    work = layer_norm_backward(elements)
    return Node(
        ShapedOp(
            "aten::layer_norm",
            (Op("aten::native_layer_norm", work=(_with_blocks(layer_norm(elements), tokens),)),),
            dims=f"[[{tokens}, {hidden}], [], [{hidden}], [{hidden}], [], []]",
        ),
        Op(
            "NativeLayerNormBackward0",
            (
                Op(
                    "aten::native_layer_norm_backward",
                    work=tuple(_with_blocks(each, tokens) for each in work),
                ),
            ),
        ),
        (hidden, hidden),
    )


def _gelu(elements: int) -> Node:
    dims = f"[[{elements}], []]"
    return Node(
        ShapedOp(
            "aten::gelu", work=(elementwise(lambda_functor(_GELU, 1), elements, 2),), dims=dims
        ),
        Op(
            "GeluBackward0",
            (
                Op(
                    "aten::gelu_backward",
                    work=(elementwise(lambda_functor(_GELU_BACKWARD, 2), elements, 3),),
                ),
            ),
        ),
    )


def _unfused_gelu(elements: int) -> Node:
    """Write GELU as it stands in the paper, each operation a kernel of its own."""
    return Node(
        Op("PaperGelu", tuple(_arithmetic(name, elements) for name in _TANH_GELU)),
        Op("PaperGeluBackward", tuple(_arithmetic(name, elements) for name in _TANH_GELU_BACKWARD)),
    )


def _arithmetic(name: str, elements: int) -> Op:
    functor = f"at::native::BinaryFunctor<c10::BFloat16, c10::BFloat16, c10::BFloat16, {name}>"
    work = (elementwise(functor, elements, 3),)
    return ShapedOp(f"aten::{name}", work=work, dims=f"[[{elements}], [{elements}]]")


def _residual_add(elements: int) -> Node:
    add = ShapedOp(
        "aten::add",
        work=(elementwise(_ADD, elements, 3),),
        dims=f"[[{elements}], [{elements}], []]",
    )
    return Node(add, Op("AddBackward0"))


def _gemm(
    rows: int, columns: int, inner: int, layout: str, *, fp32: bool = False, aligned: bool = True
) -> GpuWork:
    """Multiply matrices, with a block for each tile of the result."""
    flops = 2 * rows * columns * inner
    if fp32:
        name = f"cutlass_80_simt_sgemm_128x256_8x4_{layout}_align1"
        blocks, rate = _tiles(rows, 128) * _tiles(columns, 256), FP32_FLOPS_PER_NS
        return kernel(
            f"void cutlass::Kernel2<{name}>({name}::Params)",
            flops // rate,
            blocks=blocks,
            registers=218,
            shared_memory=49_152,
        )
    if not aligned:
        tile = f"cutlass_80_tensorop_bf16_s16816gemm_bf16_128x128_32x5_{layout}_align1"
        return kernel(
            f"void cutlass::Kernel2<{tile}>({tile}::Params)",
            UNALIGNED * flops // GEMM_FLOPS_PER_NS,
            blocks=_tiles(rows, 128) * _tiles(columns, 128),
            registers=232,
            shared_memory=81_920,
        )
    name = f"sm90_xmma_gemm_bf16bf16_bf16f32_f32_{layout}_n_tilesize128x256x64_warpgroupsize2x1x1"
    return kernel(
        f"{name}_execute_segment_k_off_kernel__5x_cublas",
        flops // GEMM_FLOPS_PER_NS,
        call="cuLaunchKernelEx",
        blocks=_tiles(rows, 128) * _tiles(columns, 256),
        threads=384,
        registers=168,
        shared_memory=213_552,
    )


def _memory_kernel(name: str, elements: int) -> GpuWork:
    """Read and write this many bfloat16 elements."""
    moved = elementwise("", elements, 1)
    return replace(moved, name=name)


def _with_blocks(work: GpuWork, blocks: int) -> GpuWork:
    """Launch as many blocks as the input asks for."""
    before, _, rest = work.details.partition('"grid": [')
    _, _, after = rest.partition(",")
    return replace(work, details=f'{before}"grid": [{blocks},{after}')


def _tiles(size: int, tile: int) -> int:
    """Return how many tiles cover a size."""
    return -(-size // tile)


@lru_cache(maxsize=256)
def _input_types(dims: str) -> str:
    """JSON text of the types of inputs of some shapes, BF16 all; empty where they are given."""
    if '"Input type"' in dims:
        return ""
    types = ['"c10::BFloat16"' if shape else '""' for shape in json.loads(dims)]
    return f'"Input type": [{", ".join(types)}], '
