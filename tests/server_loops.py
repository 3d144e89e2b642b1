"""Loops of inference servers, and requests, with a known truth, as events of a Kineto trace.

The loop waits for the tokens of a step before it schedules the next one, or runs ahead of them::

    host   schedule [ span: prepare, launch ] wait ......... sample, schedule [ span
    GPU                               |==== kernels ========|
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.kineto_text import Event, call, host, kernel
from tests.kineto_text import step as profiler_step

GRAPH = "cudaGraphLaunch"
PREPARE_US = 40.0
LAUNCH_US = 20.0
START_US = 5.0
LEAST_PIECE_US = 1.0


@dataclass(frozen=True)
class Step:
    """Requests and tokens of prompts, and requests that decode, with the time of each kernel."""

    context: int = 0
    tokens: int = 0
    generation: int = 0
    kernel_us: float = 100.0

    @property
    def phase(self) -> str:
        """What it computes."""
        if self.context:
            return "mixed" if self.generation else "prefill"
        return "decode" if self.generation else "idle"


DECODE = Step(generation=16)
PREFILL = Step(context=2, tokens=4096, kernel_us=1_000.0)


def vllm(step: Step) -> str:
    """How vLLM calls a step."""
    prompts = f"execute_context_{step.context}({step.tokens})"
    return f"{prompts}_generation_{step.generation}({step.generation})"


def sglang(step: Step) -> str:
    """How SGLang does."""
    if step.phase == "mixed":
        return (
            f"step[MIXED bs={step.context + step.generation} c={step.context} g={step.generation} "
            f"c_sq={step.tokens} g_sq={step.generation}]"
        )
    if step.phase == "idle":
        return "step[IDLE]"
    many = f"bs={step.context} toks={step.tokens}" if step.context else f"bs={step.generation}"
    return f"step[{'EXTEND' if step.context else 'DECODE'} {many}]"


@dataclass
class Loop:
    """A loop that is being recorded.

    Attributes
    ----------
    host_us : float
        From the end of the wait to the span of the next step.
    kernels : int
        Of each step.
    graphs : bool
        Whether decoding replays a graph; else each kernel is launched.
    ahead : bool
        Whether the loop does not wait for the tokens of the step before.
    launch_us : float
        Of each call that launches.
    copy_us : float
        Of the copy of the tokens to the host, which is launched after the kernels.
    lost : frozenset of int
        Places of the steps whose work the recorder loses.
    name : callable
        The name of a step.
    """

    host_us: float = 200.0
    kernels: int = 20
    graphs: bool = True
    ahead: bool = False
    launch_us: float = LAUNCH_US
    copy_us: float = 0.0
    lost: frozenset[int] = frozenset()
    name: Callable[[Step], str] = vllm

    def record(self, plan: list[Step]) -> list[Event]:
        """The events of a plan, in order of time."""
        events: list[Event] = []
        now, free, number = 1_000.0, 0.0, 1
        for place, step in enumerate(plan):
            start = now
            launched, now, number = self._launch(step, start + PREPARE_US, number)
            for correlation, at in launched:
                events.append(call(at, self.launch_us, correlation, name=self._api(step)))
                pieces = self.kernels // len(launched)
                for piece in range(pieces):
                    begin = max(free, at + self.launch_us + START_US)
                    if place not in self.lost:
                        events.append(
                            kernel(begin, step.kernel_us, correlation=correlation, name=f"k{piece}")
                        )
                    free = begin + step.kernel_us
            if self.copy_us and launched:
                number += 1
                events += [
                    call(now, 2, number, name="cudaMemcpyAsync"),
                    kernel(
                        free + 2,
                        self.copy_us,
                        correlation=number,
                        name="Memcpy DtoH (Device -> Pinned)",
                        cat="gpu_memcpy",
                    ),
                ]
                now, free = now + 3, free + 2 + self.copy_us
            events.append(host(start, now - start, self.name(step), cat="user_annotation"))
            if step.phase == "idle":
                now += 500.0
            elif not self.ahead:
                number += 1
                wait = max(free - now, LEAST_PIECE_US)
                events.append(call(now, wait, number, name="cudaStreamSynchronize"))
                now += wait
            number += 1
            now += self.host_us
        return events

    def _api(self, step: Step) -> str:
        return GRAPH if self._replays(step) else "cudaLaunchKernel"

    def _replays(self, step: Step) -> bool:
        return self.graphs and step.phase == "decode"

    def _launch(
        self, step: Step, at: float, number: int
    ) -> tuple[list[tuple[int, float]], float, int]:
        """Number and time of each launch, when they are done, and the last number."""
        calls = 0 if step.phase == "idle" else 1 if self._replays(step) else self.kernels
        launched = [(number + n, at + n * (self.launch_us + 2)) for n in range(calls)]
        return launched, at + calls * (self.launch_us + 2) + 3, number + calls


PREPARES = "transformers/models/videomae/image_processing_videomae.py(235): preprocess"


def request(prepares_us: float, *, kernels: int = 200, name: str = PREPARES) -> list[Event]:
    """One request, whose input is prepared on the CPU before its kernels are launched."""
    begin = 1_000.0
    now = begin + 100 + prepares_us
    events = [host(begin + 100, prepares_us, name, cat="python_function")]
    free = now
    for number in range(1, kernels + 1):
        events.append(call(now, 4, number))
        free = max(free, now + 4 + START_US)
        events.append(kernel(free, 100, correlation=number, name=f"k{number % 7}"))
        free += 100
        now += 6
    events.append(call(now, free - now, kernels + 1, name="cudaDeviceSynchronize"))
    return [*events, profiler_step(0, begin, free - begin + 50)]


def _with_gaps(*, healthy: bool) -> list[Event]:
    return Loop(host_us=800, kernels=40, ahead=healthy).record([DECODE] * 24)


def _prepared(*, healthy: bool) -> list[Event]:
    return request(500 if healthy else 30_000)


def _beside_prompts(*, healthy: bool) -> list[Event]:
    prompts = [] if healthy else [PREFILL]
    return Loop(ahead=True).record(
        [*[DECODE] * 8, *prompts, *[DECODE] * 8, *prompts, *[DECODE] * 8]
    )


OF_INFERENCE: dict[str, Callable[..., list[Event]]] = {
    "step_gap": _with_gaps,
    "prefill_stall": _beside_prompts,
    "preprocessing": _prepared,
}
"""Causes that no training job has: the events of a recording with it, and of its healthy twin."""
