"""The host waits for the GPU, which then waits for the host."""

from __future__ import annotations

import numpy as np

from hta_widgets.diagnosis.cause import cause
from hta_widgets.diagnosis.context import NS_PER_MS, Context
from hta_widgets.diagnosis.finding import Finding
from hta_widgets.diagnosis.job.steps import Matrix
from hta_widgets.diagnosis.rules.host_evidence import (
    gap_link,
    host_of,
    largest_owner,
    owners_table,
    steps_table,
)
from hta_widgets.diagnosis.rules.wording import in_steps, named, per_step, subject

_LATE = ("gap_sync", "gap_op")


@cause(
    seen_in="late_synchronising",
    limit="least_percent_with_evidence",
    makes_others_wait=True,
    when="The host waits in a blocking call until the GPU is empty, and has to refill it. A long "
    "call that leaves no gap costs nothing.",
)
def blocking_sync(context: Context) -> Finding | None:
    """Report the price of blocking calls that let the GPU run dry: it has to be refilled.

    A long blocking call that leaves no gap costs nothing.
    """
    refill = context.steps.refill
    cost_ns = context.gain_of_host_cause(refill, _LATE, share_of(context, refill))
    cost_ns = _beside_copies(context, cost_ns)
    if not context.is_worth_it(blocking_sync, cost_ns):
        return None
    ranks, steps = context.blamed(refill.mean(axis=1)), context.steps_with(refill)
    context.removed[blocking_sync] = refill
    largest = largest_owner(context, ranks, ("gap_sync",))
    who = subject(context, ranks)
    count, call = 0.0, ""
    if largest is not None:
        owner, having = largest
        count = owner.times / having / len(context.all_steps.numbers)
        place = f" ({named(owner.place)})" if owner.place else ""
        call = f", most for {named(owner.name)}{place}"
    after_calls_ns = float(context.all_steps["gap_sync"].mean())
    return context.finding(
        blocking_sync,
        words=f"{who} {who.verb('wait')} until the GPU is empty{in_steps(context, steps)}{call}, "
        f"{per_step(context, max(round(count), 1), 'time')}, and then {who.verb('refill')} it",
        recoverable_ns=cost_ns,
        ranks=ranks,
        steps=steps,
        action="Keep values on the GPU, read them every n steps, and copy with non_blocking=True "
        "from pinned memory.",
        evidence={
            "calls_per_step": count,
            "cpu_late_after_a_blocking_call_ms": after_calls_ns / NS_PER_MS,
            "steps": steps_table(context, idle=refill),
            "owners": owners_table(context, ranks, ("gap_sync",)),
        },
        links=(gap_link(context, "gap_sync", ranks, steps),),
    )


def share_of(context: Context, part: Matrix) -> Matrix:
    """Share of a part in the time of late launches, by rank and step."""
    whole = context.steps.late_launching
    share = np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)
    return np.minimum(share, 1)


def _beside_copies(context: Context, cost_ns: float) -> float:
    """At most half of what pageable copies cost: they block, too, and are the better word."""
    copies_ns = context.steps.gain_ns(context.steps["host_copies"])
    pageable = any(host.copies.are_pageable for host in host_of(context, ()).values())
    return min(cost_ns, copies_ns / 2) if pageable and copies_ns > cost_ns else cost_ns
