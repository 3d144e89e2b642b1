"""The GPU waits for the next batch."""

from __future__ import annotations

from typing import Final

from hta_widgets.diagnosis.cause import cause
from hta_widgets.diagnosis.context import Context
from hta_widgets.diagnosis.finding import Finding
from hta_widgets.diagnosis.rules.host_evidence import (
    Within,
    gap_link,
    largest_owner,
    owners_table,
    steps_table,
    within_gap,
)
from hta_widgets.diagnosis.rules.wording import in_steps, named, subject
from hta_widgets.quantities import duration

_WORKERS: Final = "Use more DataLoader workers, a higher prefetch_factor, or cheaper transforms."
_ALONE: Final = (
    "Load batches in worker processes (DataLoader(num_workers=…)), or make the transforms cheaper."
)


@cause(
    seen_in="data_loading",
    limit="least_percent_with_evidence",
    makes_others_wait=True,
    when="The GPU is idle while the host loads data. Loading that is hidden costs nothing. The "
    "innermost function, operator or annotation with 60 % of this time is named.",
)
def input_starvation(context: Context) -> Finding | None:
    """Report the time in which the GPU is idle while the host loads data.

    Who loads slowly is told by the time in the loader: a rank that waits for another while it
    loads has no idle GPU.
    """
    loading = context.steps["gap_loader"]
    cost_ns = context.gain_of_host_cause(loading, ("gap_loader",))
    if not context.is_worth_it(input_starvation, cost_ns):
        return None
    ranks = context.blamed(context.steps["in_loader"].mean(axis=1))
    ranks = ranks or context.blamed(loading.mean(axis=1))
    steps = context.steps_with(loading)
    context.removed[input_starvation] = loading
    who, within = subject(context, ranks), within_gap(context, ranks, "gap_loader")
    return context.finding(
        input_starvation,
        words=f"{who} {who.verb('load')} data{in_steps(context, steps)} while the GPU is idle, up "
        f"to {duration(float(loading.max()))}",
        detail=_where(context, ranks, within),
        recoverable_ns=cost_ns,
        ranks=ranks,
        steps=steps,
        action=_ALONE if within and within.loader == "single" else _WORKERS,
        evidence={
            "longest_wait_ms": float(loading.max()) / 1e6,
            **(within.evidence if within else {}),
            "steps": steps_table(context, idle=loading, in_loader=context.steps["in_loader"]),
            "owners": owners_table(context, ranks, ("gap_loader",)),
        },
        links=(gap_link(context, "gap_loader", ranks, steps),),
    )


def _where(context: Context, ranks: tuple[int, ...], within: Within | None) -> str:
    """Where in the code it is idle, with a comma before it."""
    if within is None:
        largest = largest_owner(context, ranks, ("gap_loader",))
        return f", most in {named(largest[0].name, 60)}" if largest and largest[0].name else ""
    return within.words
