"""Pipeline parallelism: each stage holds some layers; micro-batches go through by 1F1B."""

from __future__ import annotations

from collections.abc import Sequence

from hta_widgets.sample.cluster import Program
from hta_widgets.sample.communication import Communication, all_reduce, receive, send
from hta_widgets.sample.decoder import embedding, head, layer
from hta_widgets.sample.operators import Node
from hta_widgets.sample.plan import Plan
from hta_widgets.sample.process import COMPUTE_STREAM, NCCL_STREAM, Process
from hta_widgets.sample.worker import Worker

FROM_BEFORE, TO_NEXT, FROM_NEXT, TO_BEFORE = 24, 28, 32, 36
"""The stream of each direction."""


class Pipeline(Worker):
    """A stage of a pipeline. Ranks of one stage in several pipelines are numbered in a row."""

    def __init__(self, plan: Plan, process: Process) -> None:
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
