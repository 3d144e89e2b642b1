"""What to do about a cause, as far as what was recorded allows to say so."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from hta_widgets.diagnosis.facts.conditions import Condition

MOST_GIVEN: Final = 3
"""Pieces of advice that a finding gives: the first one, and two alternatives."""

ON_AMD: Final = {"CUDA graph": "HIP graph"}
"""Words for what AMD calls otherwise."""


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


def chosen(advice: Sequence[Advice], conditions: Collection[Condition]) -> tuple[Advice, ...]:
    """The advice that can be followed, the first one first.

    Parameters
    ----------
    advice : sequence of Advice
        Of a cause, the most concrete first.
    conditions : collection of Condition
        What holds.
    """
    found = [each for each in advice if each.holds(conditions)][:MOST_GIVEN]
    return tuple(each._replace(do=_in_words_of(each.do, conditions)) for each in found)


def asked(advice: Sequence[Advice], conditions: Collection[Condition]) -> str:
    """Those of the conditions that the choice depends on, in words."""
    matter = {each for one in advice for each in (*one.needs, *one.unless)}
    held = (each.value for each in Condition if each in matter and each in conditions)
    return _in_words_of(", ".join(held), conditions)


def _in_words_of(text: str, conditions: Collection[Condition]) -> str:
    """The same with the words of the GPU's vendor."""
    if Condition.AMD in conditions:
        for nvidia, amd in ON_AMD.items():
            text = text.replace(nvidia, amd)
    return text
