"""How the work of a job is laid out over its ranks."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final

from hta_widgets.sample.communication import Communication, all_reduce
from hta_widgets.sample.execution import Execution, Program
from hta_widgets.sample.kernels import GpuWork, copy_to_host, kernel
from hta_widgets.sample.operators import Node
from hta_widgets.sample.process import COMPUTE_STREAM, NCCL_STREAM
from tests.simulator.communication import (
    Slices,
    all_gather,
    all_to_all,
    receive,
    reduce_scatter,
    send,
)
from tests.simulator.decoder import attention_block, embedding, expert_block, head, layer
from tests.simulator.plan import Layout, Plan
from tests.simulator.process import PlannedProcess
from tests.simulator.worker import Worker


class DataParallel(Worker):
    """Data parallelism: gradients are summed in a bucket per layer while backward runs.

    Each rank holds the network, as in `DistributedDataParallel`.
    """

    def parameters(self) -> Sequence[int]:
        """Return the number of elements of each parameter."""
        return [size for part in self._parts(self.plan.tokens) for size in _sizes(part)]

    def train(self, step: int) -> Program:
        """Run forward and backward, and sum the gradients of each bucket as it is complete."""
        process, plan = self.process, self.plan
        parts = self._parts(plan.tokens_of(self.rank, step))
        done = []
        with process.annotation("## forward ##"):
            for number, part in enumerate(parts):
                yield from self.interruptions.before_layer(step, number)
                done.append(self.forward(part))
                yield from self.interruptions.after_layer()
        waiting = 0
        with process.annotation("## backward ##"):
            for number in reversed(range(len(parts))):
                self.interruptions.before_backward_layer(step, number)
                self.backward(done[number])
                waiting += sum(_sizes(parts[number]))
                if plan.overlapped or not number:
                    self._sum_gradients(waiting)
                    waiting = 0
                    yield None
            process.order_streams(NCCL_STREAM, COMPUTE_STREAM)

    def _sum_gradients(self, elements: int) -> None:
        with self.process.on_thread(self.process.autograd_tid):
            self.process.communicate(all_reduce(self.plan.world, elements))

    def _parts(self, tokens: int) -> list[tuple[Node, ...]]:
        """Return the nodes of each bucket: the layers, embedding and head with their neighbours."""
        decoder = self.plan.decoder
        parts = [layer(decoder, tokens)] * self.plan.layers
        parts[0] = embedding(decoder, tokens) + parts[0]
        parts[-1] = parts[-1] + head(decoder, tokens)
        return parts


class Sharded(Worker):
    """Sharded data parallelism (FSDP, ZeRO-3): each rank holds a part of every layer.

    It collects a layer before it runs, if overlapped while the one before runs.
    """

    def __init__(self, plan: Plan, process: PlannedProcess) -> None:
        super().__init__(plan, process)
        self._shards = plan.shards_of(self.rank)
        self._replicas = plan.replicas_of(self.rank)

    def parameters(self) -> Sequence[int]:
        """Return the number of elements of this rank's part of each parameter."""
        sizes = [size for part in self._parts(self.plan.tokens) for size in _sizes(part)]
        return [size // len(self._shards.ranks) for size in sizes]

    def train(self, step: int) -> Program:
        """Run forward and backward, collecting layers and scattering their gradients."""
        process = self.process
        parts = self._parts(self.plan.tokens_of(self.rank, step))
        done = []
        order = range(len(parts))
        with process.annotation("## forward ##"):
            gathered: dict[int, Execution] = {}
            for number in order:
                yield from self.interruptions.before_layer(step, number)
                self._gather(parts, number, number + 1, gathered)
                done.append(self.forward(parts[number]))
                yield from self.interruptions.after_layer()
                yield None
        with process.annotation("## backward ##"):
            gathered = {}
            for number in reversed(order):
                self.interruptions.before_backward_layer(step, number)
                self._gather(parts, number, number - 1, gathered)
                self.backward(done[number])
                with process.on_thread(process.autograd_tid):
                    elements = sum(_sizes(parts[number]))
                    process.communicate(reduce_scatter(self._shards, elements))
                    if self.plan.replicas > 1:
                        part = elements // len(self._shards.ranks)
                        process.communicate(all_reduce(self._replicas, part))
                    if not self.plan.overlapped:
                        process.order_streams(NCCL_STREAM, COMPUTE_STREAM)
                yield None
            process.order_streams(NCCL_STREAM, COMPUTE_STREAM)

    def _gather(
        self,
        parts: Sequence[Sequence[Node]],
        number: int,
        following: int,
        gathered: dict[int, Execution],
    ) -> None:
        """Collect a layer, and ahead of time the one that follows."""
        wanted = [number, following] if self.plan.overlapped else [number]
        for each in wanted:
            if 0 <= each < len(parts) and each not in gathered:
                elements = sum(_sizes(parts[each]))
                gathered[each] = self.process.communicate(all_gather(self._shards, elements))
        self.process.wait_on_stream(gathered[number])

    def _parts(self, tokens: int) -> list[tuple[Node, ...]]:
        decoder = self.plan.decoder
        layers = [layer(decoder, tokens)] * self.plan.layers
        return [embedding(decoder, tokens), *layers, head(decoder, tokens)]


FROM_BEFORE, TO_NEXT, FROM_NEXT, TO_BEFORE = 24, 28, 32, 36
"""The stream of each direction."""


class Pipeline(Worker):
    """Pipeline parallelism: each stage holds some layers; micro-batches go through by 1F1B.

    Ranks of one stage in several pipelines are numbered in a row.
    """

    def __init__(self, plan: Plan, process: PlannedProcess) -> None:
        super().__init__(plan, process)
        self._stages = plan.stages
        self._stage = self.rank // plan.pipelines
        self._group = plan.pipeline_of(self.rank)
        self._flying: dict[int, list[tuple[Node, int]]] = {}

    def parameters(self) -> Sequence[int]:
        """Return the number of elements of each parameter of the stage."""
        return [size for node in self._nodes(1) for size in node.parameters]

    def train(self, step: int) -> Program:
        """Run all micro-batches: fill the pipeline, one forward one backward, empty it."""
        process, plan = self.process, self.plan
        batches = plan.micro_batches
        tokens = plan.tokens_of(self.rank, step) // batches
        filling = min(self._stages - 1 - self._stage, batches)
        yield from self.interruptions.before_layer(step, 0)
        for number in range(batches + filling):
            if number == 1:
                yield from self.interruptions.before_layer(step, 1)
            if number < batches:
                self._forward(number, tokens)
                yield from self.interruptions.after_layer()
            if number >= filling:
                self._backward(number - filling, tokens)
            yield None
        if plan.pipelines > 1:
            process.communicate(all_reduce(plan.copies_of(self.rank), sum(self.parameters())))
            process.order_streams(NCCL_STREAM, COMPUTE_STREAM)

    def _forward(self, number: int, tokens: int) -> None:
        elements = tokens * self.plan.decoder.hidden
        with self.process.annotation(f"forward {number}"):
            if self._stage:
                part = receive(self._group, self._neighbour(-1), elements)
                self._receive(part, FROM_BEFORE)
            self._flying[number] = self.forward(self._nodes(tokens))
            if self._stage < self._stages - 1:
                self.process.communicate(send(self._group, self._neighbour(1), elements), TO_NEXT)

    def _backward(self, number: int, tokens: int) -> None:
        elements = tokens * self.plan.decoder.hidden
        with self.process.annotation(f"backward {number}"):
            if self._stage < self._stages - 1:
                self._receive(receive(self._group, self._neighbour(1), elements), FROM_NEXT)
            self.backward(self._flying.pop(number))
            if self._stage:
                self.process.communicate(
                    send(self._group, self._neighbour(-1), elements), TO_BEFORE
                )

    def _receive(self, part: Communication, stream: int) -> None:
        self.process.wait_on_stream(self.process.communicate(part, stream))

    def _neighbour(self, distance: int) -> int:
        return self.rank + distance * self.plan.pipelines

    def _nodes(self, tokens: int) -> tuple[Node, ...]:
        plan = self.plan
        even = (plan.layers // self._stages,) * self._stages
        layers = (plan.stage_layers or even)[self._stage]
        nodes = layer(plan.decoder, tokens) * layers
        if not self._stage:
            nodes = embedding(plan.decoder, tokens) + nodes
        if self._stage == self._stages - 1:
            nodes = nodes + head(plan.decoder, tokens)
        return nodes


EXCHANGE_STREAM = 28
SHARE_SPREAD = 0.01
"""Even a balanced router misses an equal share by this much, as standard deviation."""


class Experts(Worker):
    """Expert parallelism: tokens travel to the rank that holds their expert, and back.

    A rank has its own batch, the dense part of the network, and some of the experts.
    """

    def parameters(self) -> Sequence[int]:
        """Return the number of elements of each parameter of the rank."""
        return [*self._dense_sizes(), *self._expert_sizes()]

    def train(self, step: int) -> Program:
        """Run forward and backward, with two exchanges of tokens in each layer of each."""
        process, plan = self.process, self.plan
        tokens = plan.tokens_of(self.rank, step)
        embedded = self.forward(embedding(plan.decoder, tokens))
        done = []
        with process.annotation("## forward ##"):
            for number in range(plan.layers):
                yield from self.interruptions.before_layer(step, number)
                routes = self._routes(step, number)
                dense = self.forward(attention_block(plan.decoder, tokens))
                self._exchange(routes)
                yield None
                experts = self.forward(expert_block(plan.decoder, self._received(routes)))
                self._exchange(_turned(routes))
                yield None
                done.append((routes, dense, experts))
                yield from self.interruptions.after_layer()
            scored = self.forward(head(plan.decoder, tokens))
        with process.annotation("## backward ##"):
            self.backward(scored)
            for number in reversed(range(plan.layers)):
                self.interruptions.before_backward_layer(step, number)
                routes, dense, experts = done[number]
                self._exchange(routes)
                yield None
                self.backward(experts)
                self._exchange(_turned(routes))
                yield None
                self.backward(dense)
                process.communicate(all_reduce(plan.world, sum(self._dense_sizes())))
                yield None
            self.backward(embedded)
            process.order_streams(NCCL_STREAM, COMPUTE_STREAM)

    def _exchange(self, routes: Slices) -> None:
        part = all_to_all(self.plan.world, self.rank, routes)
        self.process.wait_on_stream(self.process.communicate(part, EXCHANGE_STREAM))

    def _routes(self, step: int, number: int) -> Slices:
        """Return how many elements each rank sends to the experts of each."""
        plan = self.plan
        shares = plan.expert_load.get(step, (1 / plan.ranks,) * plan.ranks)
        router = random.Random(f"router {plan.seed}/{step}/{number}")  # noqa: S311
        hidden = plan.decoder.hidden
        return tuple(
            tuple(
                int(plan.tokens_of(rank, step) * share * (1 + router.gauss(0, SHARE_SPREAD)))
                * hidden
                for share in shares
            )
            for rank in range(plan.ranks)
        )

    def _received(self, routes: Slices) -> int:
        return sum(row[self.rank] for row in routes) // self.plan.decoder.hidden

    def _dense_sizes(self) -> list[int]:
        return [size for node in attention_block(self.plan.decoder, 1) for size in node.parameters]

    def _expert_sizes(self) -> list[int]:
        return [size for node in expert_block(self.plan.decoder, 1) for size in node.parameters]


def _turned(routes: Slices) -> Slices:
    return tuple(zip(*routes, strict=True))


TOKENS_PER_STEP = 8
BATCH = 32
SCHEDULER_NS = 60_000
PYTHON_MODULE_NS = 14_000
_WEIGHT_NS = {"qkv": 9_500, "out": 4_200, "gate_up": 15_500, "down": 8_000}


class Decode(Worker):
    """Inference with tensor parallelism: one token after the other, small kernels, no gradients.

    The server generates tokens for a batch of requests.
    """

    def parameters(self) -> Sequence[int]:
        """Return nothing: inference updates no parameter."""
        return []

    def train(self, step: int) -> Program:
        """Generate some tokens, by a captured graph or operator by operator."""
        process, plan = self.process, self.plan
        yield from self.interruptions.before_layer(step, 0)
        for number in range(TOKENS_PER_STEP):
            with process.annotation(f"step[DECODE bs={BATCH}]"):
                process.spend(SCHEDULER_NS)
                if number == 1:
                    yield from self.interruptions.before_layer(step, 1)
                if plan.cuda_graph:
                    process.launch_graph(work for _, work in self._layers())
                else:
                    self._run_operators()
                yield None
                with process.op("aten::argmax"):
                    process.issue(_kernel("argmax", 6_000))
                with (
                    process.op("aten::to"),
                    process.op("aten::_to_copy"),
                    process.op("aten::copy_"),
                ):
                    process.issue(copy_to_host(8 * BATCH))
                    yield from process.synchronize("cudaStreamSynchronize", [COMPUTE_STREAM])

    def _run_operators(self) -> None:
        process = self.process
        for name, work in self._layers():
            process.spend(PYTHON_MODULE_NS)
            if isinstance(work, Communication):
                process.wait_on_stream(process.communicate(work, COMPUTE_STREAM))
                continue
            with process.op(name):
                process.issue(work)

    def _layers(self) -> Iterator[tuple[str, GpuWork | Communication]]:
        elements = BATCH * self.plan.decoder.hidden
        summed = ("c10d::allreduce_", all_reduce(self.plan.world, elements))
        for _ in range(self.plan.layers):
            yield "aten::rms_norm", _kernel("rms_norm", 1_800)
            yield "aten::mm", _kernel("qkv", _WEIGHT_NS["qkv"])
            yield "vllm::rotary_embedding", _kernel("rotary_embedding", 1_500)
            yield "vllm::paged_attention", _kernel("paged_attention_v2", 11_000)
            yield "aten::mm", _kernel("out", _WEIGHT_NS["out"])
            yield summed
            yield "vllm::fused_add_rms_norm", _kernel("fused_add_rms_norm", 1_900)
            yield "aten::mm", _kernel("gate_up", _WEIGHT_NS["gate_up"])
            yield "vllm::silu_and_mul", _kernel("silu_and_mul", 1_700)
            yield "aten::mm", _kernel("down", _WEIGHT_NS["down"])
            yield summed
        yield "aten::mm", _kernel("head", 38_000)

    def optimize(self) -> None:
        """Do nothing: inference has no optimizer."""


@cache
def _kernel(name: str, duration_ns: int) -> GpuWork:
    names = {
        "rms_norm": "void vllm::rms_norm_kernel<c10::BFloat16, 8>(c10::BFloat16*, int)",
        "rotary_embedding": "void vllm::rotary_embedding_kernel<c10::BFloat16, true>(long const*)",
        "paged_attention_v2": "void vllm::paged_attention_v2_kernel<__nv_bfloat16, 128, 16>(int)",
        "fused_add_rms_norm": "void vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(int)",
        "silu_and_mul": "void vllm::act_and_mul_kernel<c10::BFloat16, &vllm::silu_kernel>(int)",
        "argmax": "void at::native::reduce_kernel<512, 1, at::native::ArgMaxOps<float>>(int)",
    }
    matrix = f"nvjet_tst_64x32_64x16_4x1_v_bz_splitK_TNT_{name}"
    return kernel(names.get(name, matrix), duration_ns, blocks=132, threads=128)


WORKERS: Final[dict[Layout, type[Worker]]] = {
    "data_parallel": DataParallel,
    "sharded": Sharded,
    "pipeline": Pipeline,
    "experts": Experts,
    "decode": Decode,
}
"""What a rank does, by layout."""


def _sizes(part: Sequence[Node]) -> list[int]:
    return [size for node in part for size in node.parameters]
