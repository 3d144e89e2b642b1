"""The allocator gives GPU memory back and asks for it again, step by step."""

from __future__ import annotations

from typing import Final

import numpy as np

from hta_widgets.diagnosis.cause import cause
from hta_widgets.diagnosis.context import Context
from hta_widgets.diagnosis.facts.host_facts import HostFacts
from hta_widgets.diagnosis.finding import Finding
from hta_widgets.diagnosis.rules.host_evidence import (
    gap_link,
    host_of,
    owners_table,
    steps_table,
    within_gap,
)
from hta_widgets.diagnosis.rules.wording import in_steps, per_step, subject
from hta_widgets.quantities import duration

LARGEST: Final = 0.5
"""Share of one interval in all such time, from which it is a start and no series of retries."""

FEWEST: Final = 2
"""Steps, or last three quarters of a recording, with allocations: the first ones initialise."""


@cause(
    seen_in="late_launching",
    limit="least_percent_with_evidence",
    makes_others_wait=True,
    when="The GPU is idle while the host frees and allocates its memory, in at least two steps. "
    "The first allocations of a job are none. The call with 60 % of this time is named.",
)
def allocator_retries(context: Context) -> Finding | None:
    """Report the time in which the GPU is idle while the host allocates and frees its memory."""
    waiting = context.steps["gap_alloc"]
    if not recurs(context):
        return None
    cost_ns = context.gain_of_host_cause(waiting, ("gap_alloc",))
    if not context.is_worth_it(allocator_retries, cost_ns):
        return None
    share = context.steps["in_alloc"].mean(axis=1)
    ranks = context.blamed(share) or context.blamed(waiting.mean(axis=1))
    steps = context.steps_with(waiting)
    context.removed[allocator_retries] = waiting
    places = [context.ranks.index(rank) for rank in ranks]
    frees, in_calls = (context.steps[name][places].mean() for name in ("frees", "in_alloc"))
    who, within = subject(context, ranks), within_gap(context, ranks, "gap_alloc")
    return context.finding(
        allocator_retries,
        words=f"{who} {who.verb('allocate')} and {who.verb('free')} GPU memory"
        f"{in_steps(context, steps)} while the GPU is idle "
        f"({per_step(context, frees, 'call')} that free, {duration(in_calls)} in all such calls)",
        detail=within.words if within else "",
        recoverable_ns=cost_ns,
        ranks=ranks,
        steps=steps,
        action="Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, use fewer distinct shapes, "
        "or lower the peak of memory.",
        evidence={
            "frees_per_step": float(frees),
            **(within.evidence if within else {}),
            "steps": steps_table(context, idle=waiting, in_calls=context.steps["in_alloc"]),
            "owners": owners_table(context, ranks, ("gap_alloc",)),
        },
        links=(gap_link(context, "gap_alloc", ranks, steps),),
    )


def recurs(context: Context) -> bool:
    """Whether memory is freed and allocated again after initialising."""
    steps = context.steps
    if not steps["frees"].any():
        return False
    least_ns = context.limits.allocating_percent / 100 * steps.median_period_ns
    if steps.are_recorded:
        return int((steps["gap_alloc"] > least_ns).any(axis=0).sum()) >= FEWEST
    quarters = [host.retries_ns for host in host_of(context, ()).values() if _is_spread(host)]
    if not quarters:
        return False
    later = np.array(quarters)[:, 1:] > least_ns
    return int(later.any(axis=0).sum()) >= FEWEST


def _is_spread(host: HostFacts) -> bool:
    """Whether no single interval takes most of the time."""
    longest = host.gaps.longest.get("gap_alloc", ())
    return bool(longest) and longest[0].idle_ns <= LARGEST * host.retries_ns.sum()
