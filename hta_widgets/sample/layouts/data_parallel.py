"""Data parallelism: each rank holds the network; gradients are summed while backward runs."""

from __future__ import annotations

from collections.abc import Sequence

from hta_widgets.sample.cluster import Program
from hta_widgets.sample.communication import all_reduce
from hta_widgets.sample.decoder import embedding, head, layer
from hta_widgets.sample.operators import Node
from hta_widgets.sample.process import COMPUTE_STREAM, NCCL_STREAM
from hta_widgets.sample.worker import Worker


class DataParallel(Worker):
    """A rank of `DistributedDataParallel`, with a bucket of gradients per layer."""

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


def _sizes(part: Sequence[Node]) -> list[int]:
    return [size for node in part for size in node.parameters]
