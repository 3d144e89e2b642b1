"""One cause of lost time: who, when, what it costs, and what to do as far as is recorded."""

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
"""What a price says of the true one."""


LessBy = Literal["", "peers", "profiler", "lead", "end", "alone", "moved"]
"""Why a cause may cost less than its price, which is of the recording.

``peers``: ranks are not recorded that this job communicates with; with these as slow as before.
``profiler``: steps took less before it ran, for reasons that are not known. ``lead``: the CPU is
ahead of the GPU, and sets the pace once that is used up. ``end``: it is further ahead at the end of
a recording of one turn. ``alone``: without what else was found, it brings less. ``moved``: other
ranks take over what some compute.
"""


class Price(NamedTuple):
    """What the mean step would be shorter by without a cause."""

    ns: float
    lower_ns: float
    """The least that it may be; the price where nothing makes it less."""
    bound: Bound = "measured"
    """Whether the cause costs this, or about this by an estimate, or no more (as what replaces it
    costs something, too), or no less."""
    edits: tuple[Edit, ...] = ()
    """What is different without it; empty where that is not replayed."""
    after: tuple[Edit, ...] = ()
    """What has a price of its own: this is what is left to gain after it."""
    less_by: LessBy = ""

    @classmethod
    def counted(cls, ns: float, bound: Bound = "measured") -> Price:
        """A price that is no replay: a difference of steps, or a time."""
        return cls(ns, ns, bound)


MOST_GIVEN: Final = 3
"""Pieces of advice that a finding gives: the first one, and two alternatives."""

_OF_PYTORCH: Final = re.compile(
    r"torch|DataLoader|DistributedDataParallel|FSDP|non_blocking|\bdist\.|\bmodel\b|python train",
    re.IGNORECASE,
)
"""In advice that programs of CUDA, CuPy or OpenMP cannot follow."""


class Advice(NamedTuple):
    """One thing to do.

    Attributes
    ----------
    do : str
        In one sentence.
    code : str
        What to copy: Python, or a line of a shell; empty where there is none.
    needs : tuple of Condition
        All of them must hold.
    unless : tuple of Condition
        None of them may hold.
    """

    do: str
    code: str = ""
    needs: tuple[Condition, ...] = ()
    unless: tuple[Condition, ...] = ()

    def holds(self, conditions: Collection[Condition]) -> bool:
        """Whether it can be followed."""
        return all(each in conditions for each in self.needs) and not any(
            each in conditions for each in self.unless
        )

    @property
    def is_of_pytorch(self) -> bool:
        """Whether only programs of PyTorch can follow it."""
        return bool(_OF_PYTORCH.search(f"{self.do} {self.code}"))


NEEDLESS_WORK: Final = (
    Advice(
        "Do not broadcast the buffers in each step, unless ranks must share them.",
        "DistributedDataParallel(model, broadcast_buffers=False)",
        needs=(Condition.BROADCASTS_BUFFERS,),
    ),
    Advice(
        "Leave out Inductor's checks of sizes and strides.",
        "TORCHINDUCTOR_SIZE_ASSERTS=0 python train.py",
        needs=(Condition.CHECKS_SIZES,),
    ),
    Advice(
        "Walk over the modules once, before the first step, and keep what you need of them.",
        "parameters = [*model.parameters()]",
        needs=(Condition.WALKS_MODULES,),
    ),
)
"""What hosts do in each step that they need not, whatever kind of idle time it leaves."""


KEEPS_NUMBERS: Final = (
    Advice(
        "Keep numbers on the GPU, and read them every n steps only.",
        "losses.append(loss.detach())  # instead of loss.item() in each step",
        needs=(Condition.READS_A_NUMBER, Condition.TRAINING),
    ),
    Advice(
        "Keep numbers on the GPU, and read all of them at once, at the end.",
        "values = torch.stack(results).tolist()  # instead of .item() for each",
        needs=(Condition.READS_A_NUMBER,),
        unless=(Condition.TRAINING,),
    ),
)
"""Where the host waits for numbers, whether that drains the GPU or keeps a late host from it."""

CHOOSES_BY_MASK: Final = Advice(
    "Choose by a mask whose size does not depend on values.",
    "torch.where(mask, x, 0)  # instead of x[mask], nonzero() or unique()",
    needs=(Condition.SELECTS,),
)


def fused_optimizers(*needs: Condition) -> tuple[Advice, ...]:
    """The optimizers of PyTorch that have one kernel for many parameters."""
    return tuple(
        Advice(
            "Let one kernel update many parameters: use the fused optimizer.",
            f"torch.optim.{each.value}(model.parameters(), fused=True)",
            needs=(*needs, each),
            unless=(Condition.FUSED,),
        )
        for each in (Condition.ADAMW, Condition.ADAM, Condition.SGD)
    )


def other_kernels(unless: Condition) -> tuple[Advice, ...]:
    """Other kernels for the same products, where what was chosen for their shape is slow."""
    return (
        Advice(
            "Let PyTorch time all kernels of the libraries for this shape, and take the fastest.",
            "export PYTORCH_TUNABLEOP_ENABLED=1  # where the job is started",
            needs=(Condition.AMD,),
            unless=(unless,),
        ),
        Advice(
            "Let the compiler time other kernels for this shape, and take the fastest.",
            'model = torch.compile(model, mode="max-autotune")',
            unless=(unless,),
        ),
    )


def chosen(advice: Sequence[Advice], conditions: Collection[Condition]) -> tuple[Advice, ...]:
    """The advice of a cause that can be followed, the first one first.

    To record again without stacks stands before what makes the job faster, and hid it: a jury read
    nothing else to do off the first screens of three jobs.
    """
    found = [each for each in advice if each.holds(conditions)]
    if Condition.NO_PYTORCH in conditions:
        found = [each for each in found if not each.is_of_pytorch] or found
    said = found[:MOST_GIVEN]
    if len(said) > 1 and Condition.SLOWED_BY_STACKS in said[0].needs:
        again, fix, *rest = said
        said = [fix._replace(do=f"{again.do} {fix.do}"), *rest]
    return tuple(each._replace(do=in_words_of(each.do, conditions)) for each in said)


def asked(advice: Sequence[Advice], conditions: Collection[Condition]) -> str:
    """Those of the conditions that the choice depends on, in words."""
    matter = {each for one in advice for each in (*one.needs, *one.unless)}
    held = (each.value for each in Condition if each in matter and each in conditions)
    return in_words_of(", ".join(held), conditions)


def in_words_of(text: str, conditions: Collection[Condition]) -> str:
    """The same with the words of the GPU's vendor."""
    return on_amd(text) if Condition.AMD in conditions else text


Confidence = Literal["measured", "inconclusive"]


Evidence = pd.DataFrame | float | int | str

LONGEST_SENTENCE: Final = 260
"""Characters that are read at one glance."""


class Words(NamedTuple):
    """What a sentence is made of, beside the price."""

    cause: str
    """Who and what, without a full stop."""
    detail: str = ""
    """What is added to it if the sentence does not get too long, with its comma."""

    def sentence(self, cost: str) -> str:
        """Put the sentence together; the cost is left out where it is empty."""
        end = f": {cost}." if cost else "."
        whole, short = f"{self.cause}{self.detail}{end}", f"{self.cause}{end}"
        if len(whole) <= LONGEST_SENTENCE:
            return whole
        if len(short) <= LONGEST_SENTENCE:
            return short
        return f"{self.cause[: LONGEST_SENTENCE - len(end) - 1].rstrip()}…{end}"


NO_WORDS: Final = Words("")


WHAT_TO_TRY: Final = "What to try: the GPU sets the pace"

NEARLY: Final = 0.95
"""Two ends of a price that are less apart are one."""

_SIGNS: Final = {"about": "≈", "at most": "≤", "at least": "≥"}

MOST_SHOWN: Final = 3
"""Findings that are shown at once; the others are folded."""


@dataclass(frozen=True, kw_only=True)
class Link:
    """The panel that shows the evidence, and what is selected there.

    Attributes
    ----------
    panel : str
        Name of an analysis, such as ``idle_owners``.
    ranks : tuple of int
        Empty for all.
    streams : tuple of int
    steps : tuple of int
        ProfilerSteps; empty for all.
    kernel : str
        Name of a kernel, or empty.
    kernels : tuple of str
        Names of those that the panel marks where none is selected.
    """

    panel: str
    ranks: tuple[int, ...] = ()
    streams: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()
    kernel: str = ""
    kernels: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, eq=False)
class Finding:
    """One cause of lost time.

    Attributes
    ----------
    cause : str
        One of `CAUSES`.
    ranks : tuple of int
        Who causes it, never who only waits; all ranks if all do; empty if it is another rank in
        each step.
    steps : tuple of int
        ProfilerSteps in which it occurs; empty if no steps are recorded.
    sentence : str
        The cause in words, with its numbers and its cost, if that is known; at most 260 characters.
    words : Words
        What it is made of.
    recoverable_ms : float
        By how much (ms) the mean analysed step, or without steps the GPU span, would be shorter
        without it, by replay; of ``prefill_stall``, how much sooner each token would come, which is
        beside its step; 0 where that cannot be told. Those of several findings must not be
        added: `Diagnosis.joint_ms` is what they bring together.
    lower_ms : float
        The least that it may be (ms).
    less_by : {"", "peers", "profiler", "lead", "end", "alone", "moved"}
        Why it may be less, where `may_be_less`: see `LessBy`.
    bound : {"measured", "about", "at most", "at least"}
        Whether the cause costs that, or about that by an estimate, or no more, or no less.
    percent : float
        The same in percent of the mean step, `Diagnosis.step_ns`.
    advice : tuple of Advice
        What to do about it as far as that is recorded, the first one first, then alternatives.
    evidence : mapping of str to DataFrame or number
        The numbers behind it, with units in the names of columns.
    links : tuple of Link
        Panels that tell more.
    seen : Seen or None
        What its cause is seen in: `Diagnosis.proof` finds all intervals of it.
    confidence : str
        ``measured``, or ``inconclusive``: the trace lacks what would tell; `sentence` says what.
    """

    cause: str
    ranks: tuple[int, ...]
    steps: tuple[int, ...]
    sentence: str
    recoverable_ms: float
    percent: float
    advice: tuple[Advice, ...]
    lower_ms: float = 0.0
    less_by: LessBy = ""
    bound: Bound = "measured"
    words: Words = field(default=NO_WORDS)
    evidence: Mapping[str, Evidence] = field(default_factory=dict)
    links: tuple[Link, ...] = ()
    seen: Seen | None = None
    confidence: Confidence = "measured"

    def __repr__(self) -> str:
        """The cause in words; a dataclass would write out the tables behind it."""
        return f"Finding({self.cause}: {self.sentence})"

    @property
    def may_be_less(self) -> bool:
        """Whether it may cost less, as its sentence says then."""
        return round(self.lower_ms, 3) < NEARLY * round(self.recoverable_ms, 3)

    @property
    def sign(self) -> str:
        """What stands before the price: ≤, ≥ or ≈; empty where it is measured, or not known."""
        if not self.recoverable_ms > 0:
            return ""
        return _SIGNS["at most"] if self.may_be_less else _SIGNS.get(self.bound, "")

    @property
    def action(self) -> str:
        """What to do first."""
        return self.advice[0].do

    @property
    def page(self) -> str:
        """Page of the documentation on its cause: symptom, proof, what to do, before and after.

        In the folder of the installed package, where ``importlib.resources.files("hta_widgets")``
        finds it, or in that of the source.
        """
        return f"docs/causes/{self.cause}.md"

    def to_dict(self) -> dict[str, Any]:
        """The finding as values of JSON, without the tables of `evidence`."""
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
