"""Small trees of calls drawn by hypothesis, and brute force over the trees themselves.

Nothing here shares code with the package: who is inside whom is known from the drawing, and not
found from times.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from hypothesis import strategies as st

from tests.kineto_text import Event, call, host, kernel

OPERATORS = ("aten::add", "aten::addmm", "aten::linear", "train.py(3): add")
KERNELS = ("gemm", "relu", "aten::add")


@dataclass
class Node:
    """A call and the GPU work that it launches itself."""

    name: str
    inside: list[Node] = field(default_factory=list)
    work: list[Event] = field(default_factory=list)
    event: Event = field(default_factory=dict)

    def walk(self) -> Iterator[Node]:
        """The node and all nodes below."""
        yield self
        for child in self.inside:
            yield from child.walk()


@dataclass
class Calls:
    """Threads of trees, and the events that a trace has of them, in the order of the file."""

    threads: list[list[Node]]
    events: list[Event]

    def place(self, event: Event) -> int:
        """Position of an event in the file."""
        return next(place for place, each in enumerate(self.events) if each is event)

    def work_below(self, node: Node) -> list[Event]:
        """GPU work launched inside a node, in order of start, equal starts as in the file."""
        work = [event for each in node.walk() for event in each.work]
        return sorted(work, key=lambda event: (event["ts"], self.place(event)))

    def pattern(self, node: Node) -> str:
        """Name of the node, then of the work inside it."""
        return "|".join([node.name, *(event["name"] for event in self.work_below(node))])


trees = st.recursive(
    st.builds(Node, st.sampled_from([*OPERATORS, "cudaLaunchKernel", "cudaGraphLaunch"])),
    lambda children: st.builds(
        Node, st.sampled_from(OPERATORS), st.lists(children, min_size=1, max_size=3)
    ),
    max_leaves=8,
)


@st.composite
def calls(draw: st.DrawFn) -> Calls:
    """Nested calls on several threads; some launch nothing, one kernel, or several (a graph).

    Some kernels have a launch that is not in the trace.
    """
    threads = draw(st.lists(st.lists(trees, max_size=3), min_size=1, max_size=3))
    events: list[Event] = []
    numbers = iter(range(1, 10_000))
    for tid, roots in enumerate(threads):
        clock = draw(st.integers(0, 5))
        for root in roots:
            clock = _lay_out(draw, root, clock, tid=tid, numbers=numbers, events=events)
    events += [_kernel(draw, next(numbers)) for _ in range(draw(st.integers(0, 2)))]
    return Calls(threads, draw(st.permutations(events)))


def _lay_out(draw, node, clock, *, tid, numbers, events) -> int:
    start, clock = clock, clock + 1
    for child in node.inside:
        clock = _lay_out(draw, child, clock, tid=tid, numbers=numbers, events=events)
    clock += 1
    if node.name.startswith("cuda"):
        correlation = next(numbers)
        most = 3 if node.name == "cudaGraphLaunch" else 1
        node.work = [_kernel(draw, correlation) for _ in range(draw(st.integers(0, most)))]
        node.event = call(start, clock - start, correlation, name=node.name, tid=tid)
    else:
        category = "python_function" if ".py" in node.name else "cpu_op"
        node.event = host(start, clock - start, node.name, cat=category, tid=tid)
    events += [node.event, *node.work]
    return clock


def _kernel(draw, correlation: int) -> Event:
    return kernel(
        draw(st.integers(0, 30)),
        draw(st.integers(0, 9)),
        name=draw(st.sampled_from(KERNELS)),
        stream=draw(st.sampled_from([0, 7, 20])),
        correlation=correlation,
    )


def outermost(nodes: list[Node], fits) -> Iterator[Node]:
    """Nodes that fit and are not inside another that does."""
    for node in nodes:
        if fits(node.name):
            yield node
        else:
            yield from outermost(node.inside, fits)


def occurrences(drawn: Calls, fits) -> list[Node]:
    """Outermost nodes that fit, on all threads."""
    return [node for roots in drawn.threads for node in outermost(roots, fits)]


def sequences(drawn: Calls, fits, min_pattern_len: int) -> list[tuple[str, int, int, int]]:
    """Pattern, count, GPU and CPU time (µs), as the definition says."""
    found: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for node in occurrences(drawn, fits):
        work = drawn.work_below(node)
        if len(work) >= min_pattern_len:
            total = found[drawn.pattern(node)]
            total[0] += 1
            total[1] += sum(event["dur"] for event in work)
            total[2] += node.event["dur"]
    rows = [(pattern, *numbers) for pattern, numbers in found.items()]
    return sorted(rows, key=lambda row: (-row[1], row[0]))


def operators(drawn: Calls) -> list[tuple[str, int, int, int]]:
    """Name, occurrences that launch work, kernels, GPU time (µs) of everything but launches."""
    rows = []
    for name in OPERATORS:
        work = [drawn.work_below(node) for node in occurrences(drawn, name.__eq__)]
        kernels = sum(map(len, work))
        if kernels:
            time = sum(event["dur"] for each in work for event in each)
            rows.append((name, sum(map(bool, work)), kernels, time))
    return sorted(rows, key=lambda row: (-row[3], row[0]))
