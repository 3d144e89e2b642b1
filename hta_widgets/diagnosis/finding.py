"""A finding: one cause of lost time, with its ranks, its steps, its cost, and what to do."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

import pandas as pd

from hta_widgets.analyses.roofline.vendor import on_amd
from hta_widgets.diagnosis.facts.conditions import Condition
from hta_widgets.diagnosis.proof.what import Seen
from hta_widgets.diagnosis.replay.edits import Edit

Bound = Literal["measured", "about", "at most", "at least"]
"""How a price relates to the true cost."""


LessBy = Literal["", "peers", "profiler", "lead", "end", "alone", "moved", "link"]
"""Why a cause may cost less than its price, which holds for the recording.

``peers``: the job communicates with ranks that are not recorded, and these may be as slow as
before. ``profiler``: steps took less time before it ran, for unknown reasons. ``lead``: the CPU is
ahead of the GPU, and is the bottleneck once that lead is used up. ``end``: the CPU is further ahead
than this at the end of a recording of one iteration. ``alone``: on its own, without the other
findings, it gains less. ``moved``: other ranks take over part of the work. ``link``: copies from
pinned memory take time, too.
"""


class Price(NamedTuple):
    """By how much the mean step would be shorter without a cause."""

    ns: float
    lower_ns: float
    """The least that it may be; equal to the price if nothing makes it less."""
    bound: Bound = "measured"
    """Whether the cause costs exactly this, about this (an estimate), at most this (because what
    replaces it costs something, too), or at least this."""
    edits: tuple[Edit, ...] = ()
    """What changes in a replay without the cause; empty if it is not replayed."""
    after: tuple[Edit, ...] = ()
    """Edits with prices of their own: this price is what is left to gain after them."""
    less_by: LessBy = ""

    @classmethod
    def counted(cls, ns: float, bound: Bound = "measured") -> Price:
        """Make a price without a replay: from a difference of steps, or from a time."""
        return cls(ns, ns, bound)


MOST_GIVEN: Final = 3
"""Most pieces of advice in a finding: the first one and two alternatives."""

_OF_PYTORCH: Final = re.compile(
    r"torch|DataLoader|DistributedDataParallel|FSDP|non_blocking|\bdist\.|\bmodel\b|python train",
    re.IGNORECASE,
)
"""Words of advice that CUDA, CuPy or OpenMP programs without PyTorch cannot follow."""


class Advice(NamedTuple):
    """One thing to do."""

    do: str
    """In one sentence."""
    code: str = ""
    """Code to copy: Python, or a shell command; empty if there is none."""
    needs: tuple[Condition, ...] = ()
    """All of them must hold."""
    unless: tuple[Condition, ...] = ()
    """None of them may hold."""

    def holds(self, conditions: Collection[Condition]) -> bool:
        """Whether it can be followed."""
        return all(each in conditions for each in self.needs) and not any(
            each in conditions for each in self.unless
        )

    @property
    def is_of_pytorch(self) -> bool:
        """Whether only PyTorch programs can follow it."""
        return bool(_OF_PYTORCH.search(f"{self.do} {self.code}"))


SHARES_BUFFERS: Final = Advice(
    "Do not broadcast buffers in every step unless ranks must share them.",
    "DistributedDataParallel(model, broadcast_buffers=False)",
    needs=(Condition.BROADCASTS_BUFFERS,),
)

NEEDLESS_WORK: Final = (
    SHARES_BUFFERS,
    Advice(
        "Turn off Inductor's checks of sizes and strides.",
        "TORCHINDUCTOR_SIZE_ASSERTS=0 python train.py",
        needs=(Condition.CHECKS_SIZES,),
    ),
    Advice(
        "Walk over the modules once, before the first step, and keep what you need.",
        "parameters = [*model.parameters()]",
        needs=(Condition.WALKS_MODULES,),
    ),
)
"""Needless work of hosts in each step, whatever kind of idle time it causes."""


KEEPS_NUMBERS: Final = (
    Advice(
        "Keep values on the GPU, and read them only every n steps.",
        "losses.append(loss.detach())  # instead of loss.item() in each step",
        needs=(Condition.READS_A_NUMBER, Condition.TRAINING),
    ),
    Advice(
        "Keep values on the GPU, and read them all at once at the end.",
        "values = torch.stack(results).tolist()  # instead of .item() for each",
        needs=(Condition.READS_A_NUMBER,),
        unless=(Condition.TRAINING,),
    ),
)
"""Advice for hosts that wait for values, whether that drains the GPU or delays a late host more."""

READS_FLAGS: Final = Advice(
    "Let the GPU decide whether to go on, or read its flag only once in several iterations: each "
    "read of a few bytes drains the launch queue.",
    "cudaMemcpy(&more, flag, 4, cudaMemcpyDeviceToHost);  // if (i % 16 == 0)",
    needs=(Condition.NO_PYTORCH, Condition.READS_FLAGS),
)
"""Advice for loops that the host ends, which cannot just wait after all launches."""

CHOOSES_BY_MASK: Final = Advice(
    "Select with operations whose output size does not depend on values.",
    "torch.where(mask, x, 0)  # instead of x[mask], nonzero() or unique()",
    needs=(Condition.SELECTS,),
)


def fused_optimizers(*needs: Condition) -> tuple[Advice, ...]:
    """Advice to use PyTorch's optimizers that update many parameters in one kernel."""
    return tuple(
        Advice(
            "Use the fused optimizer: one kernel updates many parameters.",
            f"torch.optim.{each.value}(model.parameters(), fused=True)",
            needs=(*needs, each),
            unless=(Condition.FUSED,),
        )
        for each in (Condition.ADAMW, Condition.ADAM, Condition.SGD)
    )


def of_engines(
    do: str,
    vllm: str,
    sglang: str,
    needs: tuple[Condition, ...] = (),
    unless: tuple[Condition, ...] = (),
) -> tuple[Advice, ...]:
    """Advice with a command for each engine of an inference server."""
    codes = {Condition.VLLM: vllm, Condition.SGLANG: sglang}
    return tuple(Advice(do, code, (*needs, each), unless) for each, code in codes.items())


def of_vendors(do: str, nvidia: str, amd: str, *needs: Condition) -> tuple[Advice, Advice]:
    """Advice with a command for the GPUs of each vendor."""
    return (
        Advice(do, nvidia, needs, unless=(Condition.AMD,)),
        Advice(do, amd, (*needs, Condition.AMD)),
    )


def other_kernels(*unless: Condition) -> tuple[Advice, ...]:
    """Advice to try other kernels for products that are slow for their shape."""
    return (
        Advice(
            "Let PyTorch time all library kernels for this shape, and use the fastest.",
            "export PYTORCH_TUNABLEOP_ENABLED=1  # where the job is started",
            needs=(Condition.AMD,),
            unless=unless,
        ),
        Advice(
            "Let the compiler time other kernels for this shape, and use the fastest.",
            'model = torch.compile(model, mode="max-autotune")',
            unless=unless,
        ),
    )


def choose_advice(
    advice: Sequence[Advice], conditions: Collection[Condition]
) -> tuple[Advice, ...]:
    """Choose the advice of a cause that can be followed, the best first.

    Advice to record again without stacks is joined with the advice after it, which makes the job
    faster: on its own, it hid that.
    """
    found = [each for each in advice if each.holds(conditions)]
    if Condition.NO_PYTORCH in conditions:
        found = [each for each in found if not each.is_of_pytorch] or found
    said = found[:MOST_GIVEN]
    if len(said) > 1 and Condition.SLOWED_BY_STACKS in said[0].needs:
        again, fix, *rest = said
        said = [fix._replace(do=f"{again.do} {fix.do}"), *rest]
    return tuple(each._replace(do=in_words_of(each.do, conditions)) for each in said)


def deciding_conditions(advice: Sequence[Advice], conditions: Collection[Condition]) -> str:
    """The conditions that the choice of advice depends on, in words."""
    matter = {each for one in advice for each in (*one.needs, *one.unless)}
    held = (each.value for each in Condition if each in matter and each in conditions)
    return in_words_of(", ".join(held), conditions)


def in_words_of(text: str, conditions: Collection[Condition]) -> str:
    """The same text in the terms of the GPU's vendor."""
    return on_amd(text) if Condition.AMD in conditions else text


Confidence = Literal["measured", "inconclusive"]


Evidence = pd.DataFrame | float | int | str

LONGEST_SENTENCE: Final = 260
"""Characters that can be read at a glance."""


class Words(NamedTuple):
    """The parts of a sentence, without the price."""

    cause: str
    """Who and what, without a full stop."""
    detail: str = ""
    """Added, with its comma, unless the sentence gets too long."""

    def sentence(self, cost: str) -> str:
        """Put the sentence together; an empty cost is left out."""
        end = f": {cost}." if cost else "."
        whole, short = f"{self.cause}{self.detail}{end}", f"{self.cause}{end}"
        if len(whole) <= LONGEST_SENTENCE:
            return whole
        if len(short) <= LONGEST_SENTENCE:
            return short
        return f"{_shortened(self.cause, LONGEST_SENTENCE - len(end))}{end}"


def _shortened(words: str, most: int) -> str:
    """Leave out what comes last: whole clauses or parentheses, or else letters."""
    for end in reversed([each.start() for each in re.finditer(r"; | \(", words[: most + 1])]):
        kept = words[:end]
        if kept.count("(") == kept.count(")"):
            return kept
    return f"{words[: most - 1].rstrip()}…"


NO_WORDS: Final = Words("")


WHAT_TO_TRY: Final = "What to try: the GPU is the bottleneck"

NEARLY: Final = 0.95
"""Ratio of the lower to the upper end of a price above which they count as equal."""

_SIGNS: Final = {"about": "≈", "at most": "≤", "at least": "≥"}

MOST_SHOWN: Final = 3
"""Findings that are shown at first; the others are folded."""


@dataclass(frozen=True, kw_only=True)
class Link:
    """The panel that shows the evidence, and what is selected there."""

    panel: str
    """Name of an analysis, such as ``idle_owners``."""
    ranks: tuple[int, ...] = ()
    """Empty for all."""
    streams: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()
    """ProfilerSteps; empty for all."""
    kernel: str = ""
    """Name of a kernel, or empty."""
    names: tuple[str, ...] = ()
    """Names of the kernels or operators that the panel marks if none is selected."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Finding:
    """One cause of lost time."""

    cause: str
    """One of `CAUSES`."""
    ranks: tuple[int, ...]
    """The ranks that cause it, never those that only wait; all ranks if all do; empty if it is a
    different rank in each step."""
    steps: tuple[int, ...]
    """ProfilerSteps in which it occurs; empty if no steps are recorded."""
    sentence: str
    """The cause in words, with its numbers and, if known, its cost; at most 260 characters."""
    recoverable_ms: float
    """By how much (ms) the mean analysed step, or without steps the GPU span, would be shorter
    without the cause, by replay. For ``prefill_stall``, how much sooner each token would come,
    which is not part of its step. 0 if it is not known. Do not add up the values of several
    findings: `Diagnosis.joint_ms` is what they gain together."""
    percent: float
    """The same in percent of the mean step, `Diagnosis.step_ns`."""
    advice: tuple[Advice, ...]
    """What to do about it as far as the recording tells, the best first, then alternatives."""
    lower_ms: float = 0.0
    """The least that ``recoverable_ms`` may be."""
    less_by: LessBy = ""
    """Why it may be less, if `may_be_less`: see `LessBy`."""
    bound: Bound = "measured"
    """Whether the cause costs exactly ``recoverable_ms``, about that (an estimate), at most that,
    or at least that."""
    words: Words = field(default=NO_WORDS)
    """The parts of the sentence."""
    evidence: Mapping[str, Evidence] = field(default_factory=dict)
    """The numbers behind it, with units in the column names."""
    links: tuple[Link, ...] = ()
    """Panels that show more."""
    seen: Seen | None = None
    """What shows the cause: `Diagnosis.proof` finds all of its intervals."""
    confidence: Confidence = "measured"
    """``measured``, or ``inconclusive`` if the trace lacks what would decide it; `sentence` says
    what."""

    def __repr__(self) -> str:
        """The cause in words; the repr of a dataclass would print the tables behind it."""
        return f"Finding({self.cause}: {self.sentence})"

    @property
    def may_be_less(self) -> bool:
        """Whether it may cost less, which its sentence then says."""
        return round(self.lower_ms, 3) < NEARLY * round(self.recoverable_ms, 3)

    @property
    def sign(self) -> str:
        """The sign before the price: ≤, ≥ or ≈; empty if the price is measured, or not known."""
        if not self.recoverable_ms > 0:
            return ""
        return _SIGNS["at most"] if self.may_be_less else _SIGNS.get(self.bound, "")

    @property
    def action(self) -> str:
        """What to do first."""
        return self.advice[0].do

    @property
    def page(self) -> str:
        """Documentation page on its cause: symptom, proof, what to do, before and after.

        In the folder of the installed package, where ``importlib.resources.files("hta_widgets")``
        finds it, or in the source folder.
        """
        return f"docs/causes/{self.cause}.md"

    def to_dict(self) -> dict[str, Any]:
        """The finding as JSON values, without the tables of `evidence`."""
        return {
            "cause": self.cause,
            "ranks": list(self.ranks),
            "steps": list(self.steps),
            "sentence": self.sentence,
            "recoverable_ms": round(self.recoverable_ms, 4),
            "percent": round(self.percent, 2),
            "lower_ms": round(self.lower_ms, 4),
            **({"less_by": self.less_by} if self.less_by else {}),
            "bound": self.bound,
            "action": self.action,
            "page": self.page,
            "advice": [{"do": each.do, "code": each.code} for each in self.advice],
            "confidence": self.confidence,
            "evidence": {
                name: value
                for name, value in self.evidence.items()
                if not isinstance(value, pd.DataFrame)
            },
        }
