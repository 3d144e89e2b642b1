"""The profiler itself holds up the host."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pandas as pd

from hta_widgets.diagnosis.cause import cause
from hta_widgets.diagnosis.context import Context
from hta_widgets.diagnosis.facts.conditions import Condition
from hta_widgets.diagnosis.finding import Advice, Finding, Link
from hta_widgets.diagnosis.proof.what import Idle
from hta_widgets.diagnosis.replay.edits import HostSpeed, WithoutHostWork
from hta_widgets.diagnosis.rules.wording import in_steps, named, on_ranks
from hta_widgets.quantities import NS_PER_MS, duration


@cause(
    seen_in="other_idle",
    limit="least_percent_with_evidence",
    makes_others_wait=True,
    when="The GPU is idle while the profiler itself works.",
    advice=(
        Advice(
            "Record without stacks.",
            "torch.profiler.profile(..., with_stack=False)",
            needs=(Condition.STACKS,),
        ),
        Advice(
            "Record without memory events.",
            "torch.profiler.profile(..., profile_memory=False)",
            needs=(Condition.MEMORY,),
        ),
        Advice(
            "Record only a few steps, after some in which the profiler warms up.",
            "torch.profiler.schedule(wait=1, warmup=2, active=3)",
        ),
    ),
)
def profiler_overhead(context: Context) -> Finding | None:
    """Report the time in which the GPU is idle while the profiler works.

    If it takes much of the host's time and records stacks, the price includes late launches.
    """
    waiting, written = context.steps["gap_profiler"], context.steps["in_profiler"]
    in_profiler = np.maximum(written, waiting)  # frames of record_function are not written
    takes_ns = float(np.median(written.mean(axis=1))) if written.size else 0.0
    stacks = any(host.has_stacks for host in context.hosts().values())
    slows = stacks and context.is_worth_it(profiler_overhead, takes_ns)
    price = context.price(waiting, WithoutHostWork(("profiler",)))
    seen_in: Idle | None = Idle(("gap_profiler",))
    if slows:
        waiting = waiting + context.steps.launch_bound
        without = WithoutHostWork(("profiler",)), HostSpeed(np.inf)
        price = context.price(waiting, *without, bound="at most")
        seen_in = None
    if not context.is_worth_it(profiler_overhead, price.ns):
        return None
    longest_ns = float(in_profiler.max())
    ranks = context.blamed(written.mean(axis=1)) or context.blamed(waiting.mean(axis=1))
    steps = context.steps_with(waiting)
    work = _work(context, ranks)
    most = f", most in {named(str(work['name'].iloc[0]))}" if len(work) else ""
    slowed = ", and slows all launches by recording stacks" if slows else ""
    return context.finding(
        profiler_overhead,
        words=f"The profiler holds up the host{on_ranks(context, ranks)}{in_steps(context, steps)}"
        f" for up to {duration(longest_ns)}{most}{slowed}",
        price=price,
        ranks=ranks,
        steps=steps,
        evidence={
            "steps": context.by_rank_and_step(idle_ms=waiting, in_profiler_ms=in_profiler),
            "overhead": work,
        },
        links=(Link(panel="idle_owners", ranks=ranks, steps=steps),),
        seen_in=seen_in,
    )


def _work(context: Context, ranks: tuple[int, ...]) -> pd.DataFrame:
    """Time of the profiler by name, longest first."""
    sums: Counter[str] = Counter()
    for host in context.hosts(ranks).values():
        sums.update(host.overhead_ns)
    rows = [(name, ns / NS_PER_MS) for name, ns in sums.most_common()]
    return pd.DataFrame(rows, columns=["name", "duration_ms"])
