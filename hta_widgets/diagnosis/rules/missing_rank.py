"""Ranks of the job have no trace."""

from __future__ import annotations

import numpy as np

from hta_widgets.diagnosis.cause import cause
from hta_widgets.diagnosis.context import Context
from hta_widgets.diagnosis.finding import Advice, Finding, Link, Price
from hta_widgets.diagnosis.job.health import missing_of
from hta_widgets.diagnosis.proof.what import Busy
from hta_widgets.diagnosis.rules.exposed_communication import exposed_communication
from hta_widgets.diagnosis.rules.wording import the_ranks
from hta_widgets.quantities import NS_PER_MS, counted


@cause(
    seen_in="waiting",
    when="Ranks of the job have no trace, and the others wait for them, or may do so.",
    advice=(
        Advice(
            "Collect the traces of all ranks, and open them together.",
            "hta-widgets diagnose path/to/all/traces",
        ),
    ),
)
def missing_rank(context: Context) -> Finding | None:
    """Report ranks without a trace that the others wait for, as far as that is known.

    They are reported whatever they cost if transfers may be waiting for them.
    """
    missing = missing_of(context.job)
    if not missing:
        return None
    traffic = context.traffic
    unexplained = traffic.in_cells(traffic.waits.unexplained_ns, traffic.is_in_steps)
    waiting = context.steps["wait"] + context.steps["wait_p2p"]
    recoverable_ns = float(np.minimum(unexplained, waiting).mean(axis=1).min(initial=np.inf))
    recoverable_ns = recoverable_ns if np.isfinite(recoverable_ns) else 0.0
    doubtful = context.found.get(exposed_communication)
    is_in_doubt = doubtful is not None and doubtful.confidence == "inconclusive"
    if not context.is_worth_it(missing_rank, recoverable_ns):
        if not is_in_doubt:
            return None
        recoverable_ns = 0.0  # a bound this low would say that nothing is lost
    incomplete = int((traffic.is_in_steps & ~traffic.waits.is_complete).sum())
    every = int(traffic.is_in_steps.sum())
    is_one, is_priced = len(missing) == 1, recoverable_ns >= 1
    who = f"{the_ranks(missing)} {'has' if is_one else 'have'}"
    lacking = f"{incomplete:,} of {counted(every, 'collective')} lack a member"
    if not every:
        lacking = "no collective can be matched"
    words = (
        f"{who} no trace; {lacking}, so that waiting for {'it' if is_one else 'them'} looks like "
        f"transfer{'. Waiting that no recorded rank explains' if is_priced else ''}"
    )
    return context.finding(
        missing_rank,
        words=words,
        price=Price.counted(recoverable_ns, "at least"),
        ranks=missing,
        steps=(),
        evidence={
            "incomplete_collectives": incomplete,
            "collectives": every,
            "unexplained_wait_ms": float(unexplained.mean()) / NS_PER_MS if every else 0.0,
        },
        links=(Link(panel="collectives"),),
        seen_in=Busy(("wait", "wait_p2p", "undivided")),
    )
