"""Expert parallelism: tokens travel to the rank that holds their expert, and back."""

from __future__ import annotations

import random
from collections.abc import Sequence

from hta_widgets.sample.cluster import Program
from hta_widgets.sample.communication import all_reduce, all_to_all
from hta_widgets.sample.decoder import attention_block, embedding, expert_block, head
from hta_widgets.sample.process import COMPUTE_STREAM, NCCL_STREAM
from hta_widgets.sample.worker import Worker

EXCHANGE_STREAM = 28
SHARE_SPREAD = 0.01
"""Even a balanced router misses an equal share by this much, as standard deviation."""

Slices = tuple[tuple[int, ...], ...]


class Experts(Worker):
    """A rank with its own batch, the dense part of the network, and some of the experts."""

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
