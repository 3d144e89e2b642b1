"""What the sentences of findings share: the price, and where most of the time passes."""

from __future__ import annotations

from typing import Final

from hta_widgets.diagnosis import Diagnosis, Finding
from hta_widgets.quantities import duration, percent
from tests.explained.forms import NS_PER_MS, Texts, share

COST: Final = (
    "[[: [[at least ]]<price> of [[each <period> step]][[the <span> GPU span]] (<percent>)]]."
)
INSIDE: Final = (
    "[[, <inside> of this time inside <_call>]][[, <inside_loader> of this time in the <_loader>]]"
)
MODULE: Final = "[[, <inside_module> of it in <_module>]]"


def cost_of(found: Finding, whole: Diagnosis) -> Texts:
    if not found.recoverable_ms > 0:
        return {}
    length = duration(whole.period_ns)
    has_steps = bool((whole.steps["step"] >= 0).any())
    return {
        "price": duration(found.recoverable_ms * NS_PER_MS),
        "period": length if has_steps else None,
        "span": None if has_steps else length,
        "percent": share(found.recoverable_ms * NS_PER_MS, whole.period_ns),
    }


def inside(found: Finding) -> Texts:
    """The part of the time that passes in a call, if the sentence has room for it."""
    part = found.evidence.get("inside_call_percent")
    if part is None or " of this time " not in found.sentence:
        return {}
    of = "inside" if " of this time inside " in found.sentence else "inside_loader"
    return {of: _share_of(part)}


def in_module(found: Finding) -> Texts:
    """The part that is in one kind of module."""
    part = found.evidence.get("inside_module_percent")
    return {"inside_module": None if part is None else _share_of(part)}


def _share_of(part: float) -> str:
    assert part >= 60
    return "all" if part >= 99.5 else percent(part)
