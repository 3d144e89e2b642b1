"""Sharded data parallelism (FSDP, ZeRO-3): each rank holds a part of every layer."""

from __future__ import annotations

from collections.abc import Sequence

from hta_widgets.sample.cluster import Program
from hta_widgets.sample.communication import all_gather, all_reduce, reduce_scatter
from hta_widgets.sample.decoder import embedding, head, layer
from hta_widgets.sample.execution import Execution
from hta_widgets.sample.operators import Node
from hta_widgets.sample.plan import Plan
from hta_widgets.sample.process import COMPUTE_STREAM, NCCL_STREAM, Process
from hta_widgets.sample.worker import Worker


class Sharded(Worker):
    """A rank that collects each layer before it runs, if overlapped while the one before runs."""

    def __init__(self, plan: Plan, process: Process) -> None:
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


def _sizes(part: Sequence[Node]) -> list[int]:
    return [size for node in part for size in node.parameters]
