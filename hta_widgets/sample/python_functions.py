"""The Python functions of the sample job, and how the profiler records them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

from hta_widgets.names.shorten import in_common
from hta_widgets.sample.kineto_file import Span
from hta_widgets.sample.recorder import Recorder

MODULE: Final = "nn.Module: "

Stack = tuple[str, ...]
"""Names of functions, outermost first."""


@dataclass(frozen=True)
class _Frame:
    name: str
    number: int
    caller: int | None
    start_ns: int


class Frames:
    """The stack of a thread, written as functions return."""

    def __init__(self, recorder: Recorder, tid: int) -> None:
        self._recorder = recorder
        self._tid = tid
        self._open: list[_Frame] = []
        self._last = 0

    def change(self, span_ns: Span, stack: Stack) -> None:
        """Return from functions and call others, spread over a span of time."""
        if not self._recorder.recording.stacks:
            return
        start_ns, end_ns = span_ns
        same = in_common([frame.name for frame in self._open], stack)
        returns, calls = len(self._open) - same, stack[same:]
        changes = returns + len(calls) + 1
        for place in range(1, returns + 1):
            self._write(self._open.pop(), start_ns + place * (end_ns - start_ns) // changes)
        for place, name in enumerate(calls, start=returns + 1):
            self._call(name, start_ns + place * (end_ns - start_ns) // changes)

    def close(self, time_ns: int) -> None:
        """Write the functions that still run when the recording ends, outermost first."""
        for frame in self._open:
            self._write(frame, time_ns)
        self._open.clear()

    def _call(self, name: str, time_ns: int) -> None:
        self._last += 1
        caller = self._open[-1].number if self._open else None
        self._open.append(_Frame(name, self._last, caller, time_ns))

    def _write(self, frame: _Frame, end_ns: int) -> None:
        if frame.name.startswith(MODULE) and not self._recorder.recording.modules:
            return
        module = int(frame.name.rpartition("_")[2]) if frame.name.startswith(MODULE) else None
        self._recorder.python(
            frame.name, self._tid, (frame.start_ns, end_ns), (frame.number, frame.caller), module
        )


PROGRAM: Stack = ("train.py(118): <module>", "train.py(94): main")
LOAD: Stack = (*PROGRAM, "train.py(41): load_batch")
LEARN: Stack = (*PROGRAM, "train.py(56): compute_gradients")
NEXT_BATCH: Stack = (*LOAD, "torch/utils/data/dataloader.py(733): __next__")
WAIT_FOR_BATCH: Stack = (
    *NEXT_BATCH,
    "torch/utils/data/dataloader.py(1491): _next_data",
    "torch/utils/data/dataloader.py(1443): _get_data",
    "torch/utils/data/dataloader.py(1284): _try_get_data",
    "multiprocessing/queues.py(113): get",
)
ZERO_GRAD: Stack = (*LEARN, "torch/optim/optimizer.py(961): zero_grad")
BACKWARD: Stack = (
    *LEARN,
    "torch/_tensor.py(592): backward",
    "torch/autograd/__init__.py(246): backward",
    "torch/autograd/graph.py(813): _engine_run_backward",
    "<built-in method run_backward of torch._C._EngineBase object at 0x7f2d9a41c9b0>",
)
UPDATE: Stack = (*PROGRAM, "train.py(77): update_parameters")
OPTIMIZER: Stack = (
    *UPDATE,
    "torch/optim/optimizer.py(466): wrapper",
    "torch/optim/optimizer.py(70): _use_grad",
    "torch/optim/adam.py(213): step",
    "torch/optim/optimizer.py(144): maybe_fallback",
    "torch/optim/adam.py(865): adam",
    "torch/optim/adam.py(345): _single_tensor_adam",
)

_CALL = "torch/nn/modules/module.py(1784): _call_impl"
_TORCH_TYPE = "of type object at 0x7f2e1a3b9f60"


def _module(name: str, *functions: str) -> Stack:
    return (MODULE + name, _CALL, *functions)


MODEL: Stack = (
    *LEARN,
    *_module(
        "DistributedDataParallel_0",
        "torch/nn/parallel/distributed.py(1633): forward",
        "torch/nn/parallel/distributed.py(1460): _run_ddp_forward",
    ),
    *_module("VisionTransformer_0", "vision_transformer.py(132): forward"),
)


@cache
def in_place(operator: str) -> Stack:
    """Where the optimizer calls an operator."""
    name = operator.removeprefix("aten::")
    return (*OPTIMIZER, f"<built-in method {name} of Tensor object at 0x7f2d90c1b4c0>")


def node_stacks(layers: int) -> list[Stack]:
    """Where each node of `vision_transformer` is called, in order."""
    blocks = [stack for layer in range(layers) for stack in _block(layer)]
    loss = (
        *LEARN,
        *_module(
            "CrossEntropyLoss_0",
            "torch/nn/modules/loss.py(1386): forward",
            "torch/nn/functional.py(3458): cross_entropy",
            "<built-in function cross_entropy_loss>",
        ),
    )
    head = [(*MODEL, *_layer_norm(2 * layers)), (*MODEL, *_linear(4 * layers)), loss, loss]
    return [_patch_embedding(), MODEL, *blocks, *head]


def _patch_embedding() -> Stack:
    convolution = _module(
        "Conv2d_0",
        "torch/nn/modules/conv.py(548): forward",
        "torch/nn/modules/conv.py(532): _conv_forward",
        f"<built-in method conv2d {_TORCH_TYPE}>",
    )
    return (*MODEL, *_module("PatchEmbed_0", "vision_transformer.py(31): forward"), *convolution)


def _block(layer: int) -> list[Stack]:
    block = (*MODEL, *_module(f"Block_{layer}", "vision_transformer.py(101): forward"))
    attention = (*block, *_module(f"Attention_{layer}", "vision_transformer.py(54): forward"))
    feed_forward = (*block, *_module(f"Mlp_{layer}", "vision_transformer.py(79): forward"))
    gelu = _module(
        f"GELU_{layer}", "torch/nn/modules/activation.py(734): forward", "<built-in function gelu>"
    )
    return [
        (*block, *_layer_norm(2 * layer)),
        (*attention, *_linear(4 * layer)),
        (*attention, "<built-in function scaled_dot_product_attention>"),
        (*attention, *_linear(4 * layer + 1)),
        block,
        (*block, *_layer_norm(2 * layer + 1)),
        (*feed_forward, *_linear(4 * layer + 2)),
        (*feed_forward, *gelu),
        (*feed_forward, *_linear(4 * layer + 3)),
        block,
    ]


def _layer_norm(number: int) -> Stack:
    return _module(
        f"LayerNorm_{number}",
        "torch/nn/modules/normalization.py(217): forward",
        "torch/nn/functional.py(2901): layer_norm",
        f"<built-in method layer_norm {_TORCH_TYPE}>",
    )


def _linear(number: int) -> Stack:
    return _module(
        f"Linear_{number}",
        "torch/nn/modules/linear.py(124): forward",
        "<built-in function linear>",
    )
