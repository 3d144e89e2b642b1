"""A loss whose cause the traces do not tell: it is named, so that the diagnosis is not silent."""

from __future__ import annotations

from typing import Final, NamedTuple

from hta_widgets.diagnosis.cause import Cause
from hta_widgets.diagnosis.context import Context
from hta_widgets.diagnosis.finding import Finding, Link
from hta_widgets.diagnosis.job.steps import Matrix
from hta_widgets.diagnosis.rules.exposed_communication import exposed_communication
from hta_widgets.diagnosis.rules.host_pause import host_pause
from hta_widgets.diagnosis.rules.wording import on_ranks

WORTH_A_NOTICE: Final = 0.15
"""Part of the mean step; smaller waits for work that is not recorded are usual."""


class _Said(NamedTuple):
    words: str
    action: str
    panel: str


_SAID: Final[dict[Cause, _Said]] = {
    exposed_communication: _Said(
        "communicates with nothing to compute meanwhile; cause not found: waiting and transfer "
        "cannot be told apart",
        "Record all ranks with their collective fields (PyTorch of 2024 or later).",
        "overlap",
    ),
    host_pause: _Said(
        "is idle; cause not found: the trace does not show what the host does meanwhile",
        "Record with with_stack=True, and all threads of the process.",
        "idle_owners",
    ),
}


def cause_not_found(context: Context) -> Finding | None:
    """Report time without computation that nothing else explains."""
    if context.found or not context.ranks:
        return None
    talking, idle = _communicating(context), context.steps["idle"] - _unseen(context)
    if (talking + idle).mean() <= _least_ns(context):
        return None
    if talking.mean() >= idle.mean():
        return _found(context, exposed_communication, talking)
    return _found(context, host_pause, idle)


def unseen_work_notices(context: Context) -> tuple[str, ...]:
    """Notice where GPUs wait for what the traces do not show, which is nobody's fault."""
    steps = context.steps
    whole = "the mean step" if steps.are_recorded else "the GPU span"
    said = {
        "the GPU waits for work that the trace does not show": _unseen(context),
        "the host launches late; what it does meanwhile is not recorded": steps["unattributed"],
    }
    return tuple(
        f"in {100 * time.mean() / steps.period_ns:.0f} % of {whole}, {words}"
        for words, time in said.items()
        if time.size and time.mean() > WORTH_A_NOTICE * steps.median_period_ns
    )


def _unseen(context: Context) -> Matrix:
    """Idle time for which the trace shows no host that is late."""
    return context.steps["gap_depend"] - context.steps["unattributed"]


def _communicating(context: Context) -> Matrix:
    """Communication that nothing hides; waiting in a pipeline has a rule of its own."""
    steps = context.steps
    transfer = steps["transfer"] + steps["transfer_p2p"] + steps["undivided"]
    if context.traffic.pipelines:
        return transfer
    return transfer + steps["wait"] + steps["wait_p2p"]


def _least_ns(context: Context) -> float:
    return context.limits.least_percent_unexplained / 100 * context.steps.median_period_ns


def _found(context: Context, cause: Cause, lost: Matrix) -> Finding:
    said = _SAID[cause]
    ranks = context.blamed(lost.mean(axis=1))
    steps = context.steps_with(lost)
    return context.finding(
        cause,
        words=f"The GPU{on_ranks(context, ranks)} {said.words}",
        recoverable_ns=float(lost.mean()),
        ranks=ranks,
        steps=steps,
        action=said.action,
        evidence={"lost": context.by_rank_and_step("lost_ms", lost / 1e6)},
        links=(Link(panel=said.panel, ranks=ranks, steps=steps),),
        confidence="inconclusive",
    )
