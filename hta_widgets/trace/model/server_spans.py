"""Spans that inference engines write around their steps: the one table of their names.

The next format is one more row of `ENGINES`. Names are data: they are matched as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, Literal, NamedTuple

Phase = Literal["prefill", "decode", "mixed", "idle"]
"""What a step computes: prompts only, running requests only, both, or nothing."""


class StepSpan(NamedTuple):
    """What the name of a span says of one step of a server.

    Attributes
    ----------
    engine : str
    phase : {"prefill", "decode", "mixed", "idle"}
    context_requests, context_tokens : int or None
        Requests whose prompts are computed, and tokens of these; None if the name does not say it.
    generation_requests, generation_tokens : int or None
        Requests that run already, and tokens computed for them. Those of a verifying step are not
        all accepted.
    is_part : bool
        The work of a draft model: no step, but part of one.
    number : int or None
        Of the step, as the engine counts.
    """

    engine: str
    phase: Phase
    context_requests: int | None = None
    context_tokens: int | None = None
    generation_requests: int | None = None
    generation_tokens: int | None = None
    is_part: bool = False
    number: int | None = None


Parser = Callable[[str], StepSpan | None]

_N: Final = r"(\d{1,18})"
_VLLM: Final = re.compile(
    rf"execute_context_{_N}\({_N}(?:_\d+)?\)_generation_{_N}\({_N}(?:_\d+)?\)"
)
_VLLM_DETAILED: Final = re.compile(
    rf"execute_\d+_context_{_N}\(sq{_N}sk\d+sqsq\d+sqsk\d+\)"
    rf"_generation_{_N}\(sq{_N}sk\d+sqsq\d+sqsk\d+\)"
)
_VLLM_EARLIER: Final = re.compile(rf"execute_new_{_N}_cached_{_N}")
_SGLANG: Final = re.compile(r"step\[(\w+)((?: \w+=\d{1,18})*)\]")
_ATOM: Final = re.compile(rf"(prefill|decode)\[bs={_N}(?:/\d+)? tok={_N}(?: [^\]]*)?\]")
_TENSORRT_LLM: Final = re.compile(
    rf"\[Executor\] _forward_step {_N}: {_N} ctx reqs, (?:{_N} ctx tokens, )?{_N} gen reqs"
)
_PREFILL_MODES: Final = {"EXTEND", "PREFILL", "SPLIT_PREFILL", "DLLM_EXTEND"}
_DRAFT_MODES: Final = {"DRAFT_EXTEND", "DRAFT_EXTEND_V2", "DRAFT_LOOP"}


def _phase(context_requests: int, generation_requests: int) -> Phase:
    if context_requests and generation_requests:
        return "mixed"
    if context_requests:
        return "prefill"
    return "decode" if generation_requests else "idle"


def _vllm(name: str) -> StepSpan | None:
    if found := _VLLM.fullmatch(name) or _VLLM_DETAILED.fullmatch(name):
        context, tokens, generation, computed = map(int, found.groups())
        return StepSpan("vLLM", _phase(context, generation), context, tokens, generation, computed)
    if found := _VLLM_EARLIER.fullmatch(name):
        context, generation = map(int, found.groups())
        phase = _phase(context, generation)
        return StepSpan("vLLM", phase, context, generation_requests=generation)
    return None


def _sglang(name: str) -> StepSpan | None:
    found = _SGLANG.fullmatch(name)
    if found is None:
        return None
    mode = found[1].upper()
    says = {key: int(value) for key, value in (each.split("=") for each in found[2].split())}
    if mode == "IDLE":
        return StepSpan("SGLang", "idle", 0, 0, 0, 0)
    return _sglang_batch(mode, says) if "bs" in says else None  # "step[0]" may be anybody's


def _sglang_batch(mode: str, says: dict[str, int]) -> StepSpan:
    if mode in _DRAFT_MODES:
        return StepSpan("SGLang", "decode", is_part=True)
    if mode in _PREFILL_MODES:
        tokens = says.get("toks", says.get("c_sq"))
        return StepSpan("SGLang", "prefill", says["bs"], tokens, 0, 0)
    if mode == "MIXED":  # without its counts, the split is not known
        return StepSpan(
            "SGLang",
            "mixed",
            says.get("c", says.get("ext")),
            says.get("c_sq"),
            says.get("g", says.get("dec")),
            says.get("g_sq"),
        )
    return StepSpan("SGLang", "decode", 0, 0, says["bs"], says.get("g_sq", says["bs"]))


def _atom(name: str) -> StepSpan | None:
    found = _ATOM.fullmatch(name)
    if found is None:
        return None
    requests, tokens = int(found[2]), int(found[3])
    if found[1] == "prefill":
        return StepSpan("ATOM", "prefill", requests, tokens, 0, 0)
    return StepSpan("ATOM", "decode", 0, 0, requests, tokens)


def _tensorrt_llm(name: str) -> StepSpan | None:
    found = _TENSORRT_LLM.fullmatch(name)
    if found is None:
        return None
    number, context, generation = int(found[1]), int(found[2]), int(found[4])
    tokens = None if found[3] is None else int(found[3])
    phase = _phase(context, generation)
    span = StepSpan("TensorRT-LLM", phase, context, tokens, generation, generation)
    return span._replace(number=number)


ENGINES: Final[dict[str, Parser]] = {
    "SGLang": _sglang,
    "ATOM": _atom,
    "TensorRT-LLM": _tensorrt_llm,
    "vLLM": _vllm,
}
"""Parser of the names of each engine. vLLM is the last: AMD's builds of SGLang and ATOM write its
names around their own, and the first engine here that names a span is the one that ran."""


def step_span(name: str) -> StepSpan | None:
    """What a name says of a step of a server; None for any other name.

    Examples
    --------
    >>> step_span("execute_context_2(6144)_generation_3(3)")[:3]
    ('vLLM', 'mixed', 2)
    >>> step_span("step[DECODE bs=32]").generation_requests
    32
    >>> step_span("step[0]") is None
    True
    """
    return next((span for parse in ENGINES.values() if (span := parse(name))), None)
