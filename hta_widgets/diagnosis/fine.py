"""What is fine: hidden communication, and ranks that all behave alike."""

from __future__ import annotations

from typing import Final

from hta_widgets.analyses.overlap import overlap
from hta_widgets.diagnosis.context import Context
from hta_widgets.diagnosis.job.steps import usual_own
from hta_widgets.quantities import percent
from hta_widgets.trace.ranks.facts import world_size_among, world_size_of

_MAY_WAIT: Final = ("wait", "wait_p2p", "undivided")
"""For example, on 256 equal ranks, 28 % of a step is communication that may or may not be
waiting."""
_EXPOSED: Final = (*_MAY_WAIT, "transfer", "transfer_p2p")
MOSTLY_HIDDEN: Final = 50
"""Percent of the communication that must be hidden to be called fine next to findings: if a job
hardly communicates, all of it may be exposed and cost nothing."""


def what_is_fine(context: Context) -> str:
    """Say, next to findings, what needs no attention, as a clause; empty if there is nothing.

    Communication is fine if most of it is hidden and the rest is too little for a finding. No rank
    stands out if none needs more own time than the usual one, actual or possible waiting is short,
    and each finding is on all ranks. Both are measured against what is worth a finding, in percent
    of a step.
    """
    if not context.ranks or context.health.doubts:
        return ""
    said, limits = [], context.limits
    if _percent_of_steps(context, _EXPOSED) < limits.least_percent_in_every_job:
        said.append(hidden_communication(context, MOSTLY_HIDDEN))
    return "; ".join(filter(None, (*said, ranks_alike(context))))


def hidden_communication(context: Context, least_percent: float = 0) -> str:
    """Say how much communication overlaps with computing, as a clause; empty without any."""
    if not any(context.facts[rank].records.communication for rank in context.ranks):
        return ""
    ranks = overlap(context.job, context.ranks, steps=context.steps.marked).ranks
    total_ns = int(ranks["communication_time_ns"].sum())
    hidden_ns = total_ns - int(ranks["exposed_communication_ns"].sum())
    if not total_ns or 100 * hidden_ns < least_percent * total_ns:
        return ""
    return f"{percent(100 * hidden_ns / total_ns)} of the communication is hidden"


def ranks_alike(context: Context) -> str:
    """Say that no rank stands out, as a clause; empty if one does, or if not all are compared."""
    steps, least = context.steps, context.limits.least_percent
    size, every = len(context.ranks), {*context.job.ranks}
    on_all = all({*each.ranks} == every for each in context.found.values())
    if size == 1 or {*context.ranks} != every or not on_all:
        return ""
    longer_ns = float((steps.own - usual_own(steps.own)).mean(axis=1).max())
    longer = 100 * longer_ns / max(float(steps["period"].mean()), 1)
    if max(longer, _percent_of_steps(context, _MAY_WAIT)) >= least:
        return ""
    world = world_size_among(context.job.reduce(world_size_of, context.job.ranks))
    return f"no {'recorded ' if world > size else ''}rank stands out"


def _percent_of_steps(context: Context, columns: tuple[str, ...]) -> float:
    whole_ns = float(context.steps["period"].sum())
    return 100 * float(sum(context.steps[each].sum() for each in columns)) / max(whole_ns, 1)
