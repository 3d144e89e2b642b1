"""What the sentences of findings share: the price, and where most of the time passes."""

from __future__ import annotations

from typing import Final

from hta_widgets.diagnosis import Diagnosis, Finding
from hta_widgets.quantities import duration, percent
from tests.explained.forms import NS_PER_MS, Texts, share

COST: Final = (
    "[[: [[<bound> ]][[<lower> to ]]<price> of [[each <period>[[ <_phase>]] step]]"
    "[[the <span> GPU span]][[ at <_first>]] ([[<up_to> ]]<percent>)[[, <if_others>]]"
    "[[, <later> in steady state]]"
    "]]."
)
PER_STEP: Final = "[[ per[[ <_phase>]] step]]"
KEPT_UP: Final = "[[; <kept_up> if the host kept up[[, as it would without waits in <_where>]]]]"
BOUNDS: Final = {
    "measured": None,
    "about": "about",
    "at most": "up to",
    "at least": "at least",
}
INSIDE: Final = (
    "[[, <inside> of this time inside <_call>]][[, <inside_loader> of this time in the <_loader>]]"
    "[[ ([[<blocked> of this time ]]blocked in <_call>)]]"
)
WHEN_IDLE: Final = "[[, <of_idle> of the idle time inside <_call>]]"
MODULE: Final = "[[, <inside_module> of it in <_module>]]"


def cost_of(found: Finding, whole: Diagnosis) -> Texts:
    if not found.recoverable_ms > 0:
        return {}
    length = duration(whole.step_ns)
    has_steps = bool((whole.steps["step"] >= 0).any())
    has_two_ends = round(found.lower_ms, 3) < 0.95 * round(found.recoverable_ms, 3)
    may_be_nothing = found.lower_ms * NS_PER_MS < 1 and found.less_by == "peers"
    assert not may_be_nothing or whole.unmatched_percent > 2
    has_two_ends &= not may_be_nothing
    is_ahead = has_two_ends and found.less_by == "lead"
    return {
        "bound": "up to" if may_be_nothing else None if has_two_ends else BOUNDS[found.bound],
        "if_others": "if other ranks keep up" if may_be_nothing else None,
        "later": duration(found.lower_ms * NS_PER_MS) if is_ahead else None,
        "lower": duration(found.lower_ms * NS_PER_MS) if has_two_ends and not is_ahead else None,
        "up_to": "up to" if has_two_ends and not is_ahead else None,
        "price": duration(found.recoverable_ms * NS_PER_MS),
        "period": length if has_steps else None,
        "span": None if has_steps else length,
        "percent": share(found.recoverable_ms * NS_PER_MS, whole.step_ns),
    }


def kept_up(found: Finding) -> Texts:
    """What the GPU would need less, where the host hides most of it and there is room to say so."""
    ms = found.evidence["if_host_kept_up_ms"]
    is_said = ms > 2 * found.recoverable_ms and "kept up" in found.sentence
    return {"kept_up": duration(ms * NS_PER_MS) if is_said else None}


def inside(found: Finding) -> Texts:
    """The part of the time that passes in a call, if the sentence has room for it."""
    part = found.evidence.get("inside_call_percent")
    if part is None or " of this time " not in found.sentence:
        return {}
    words = {" of this time inside ": "inside", " of this time blocked in ": "blocked"}
    of = next((of for said, of in words.items() if said in found.sentence), "inside_loader")
    return {of: share_of(part)}


def when_idle(found: Finding) -> Texts:
    """The part of all idle time that passes in a call, if the sentence has room for it."""
    part = found.evidence.get("inside_call_percent")
    is_said = part is not None and " of the idle time " in found.sentence
    return {"of_idle": share_of(part) if is_said else None}


def in_module(found: Finding) -> Texts:
    """The part that is in one kind of module."""
    part = found.evidence.get("inside_module_percent")
    return {"inside_module": None if part is None else share_of(part)}


def share_of(part: float) -> str:
    assert part >= 60
    return "all" if part >= 99.5 else percent(part)
