"""The profiler itself holds up the host."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pandas as pd

from hta_widgets.diagnosis.cause import cause
from hta_widgets.diagnosis.context import NS_PER_MS, Context
from hta_widgets.diagnosis.finding import Finding
from hta_widgets.diagnosis.rules.host_evidence import gap_link, host_of, steps_table
from hta_widgets.diagnosis.rules.wording import in_steps, named, on_ranks
from hta_widgets.quantities import duration


@cause(
    seen_in="other_idle",
    limit="least_percent_with_evidence",
    makes_others_wait=True,
    when="The GPU is idle while the profiler itself works.",
)
def profiler_overhead(context: Context) -> Finding | None:
    """Report the time in which the GPU is idle while the profiler works.

    If it takes much of the host's time, and records stacks in all calls, late launches are its
    price, too.
    """
    waiting, in_profiler = context.steps["gap_profiler"], context.steps["in_profiler"]
    cost_ns = context.gain_of_host_cause(waiting, ("gap_profiler",))
    takes_ns = float(np.median(in_profiler.mean(axis=1))) if in_profiler.size else 0.0
    stacks = any(host.has_stacks for host in host_of(context, ()).values())
    slows = stacks and context.is_worth_it(profiler_overhead, takes_ns)
    if slows:
        waiting = waiting + context.steps.launch_bound
        cost_ns = max(cost_ns, context.steps.gain_ns(waiting))
    if not context.is_worth_it(profiler_overhead, cost_ns):
        return None
    longest_ns = float(in_profiler.max())
    share = context.steps["in_profiler"].mean(axis=1)
    ranks = context.blamed(share) or context.blamed(waiting.mean(axis=1))
    steps = context.steps_with(waiting)
    context.removed[profiler_overhead] = waiting
    work = _work(context, ranks)
    most = f", most in {named(str(work['name'].iloc[0]))}" if len(work) else ""
    slowed = ", and slows all launches by recording stacks" if slows else ""
    return context.finding(
        profiler_overhead,
        words=f"The profiler holds up the host{on_ranks(context, ranks)}{in_steps(context, steps)}"
        f" for up to {duration(longest_ns)}{most}{slowed}",
        recoverable_ns=cost_ns,
        ranks=ranks,
        steps=steps,
        action="Record fewer activities, and leave out with_stack=True and profile_memory=True.",
        evidence={
            "steps": steps_table(context, idle=waiting, in_profiler=in_profiler),
            "overhead": work,
        },
        links=(gap_link(context, "gap_profiler", ranks, steps),),
    )


def _work(context: Context, ranks: tuple[int, ...]) -> pd.DataFrame:
    """Time of the profiler by name, longest first."""
    sums: Counter[str] = Counter()
    for host in host_of(context, ranks).values():
        sums.update(host.overhead_ns)
    rows = [(name, ns / NS_PER_MS) for name, ns in sums.most_common()]
    return pd.DataFrame(rows, columns=["name", "duration_ms"])
