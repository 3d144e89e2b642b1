"""The same transfers take longer in one process group than in the others."""

from __future__ import annotations

from typing import Final

import numpy as np

from hta_widgets.analyses.time.collectives.kernels import P2P
from hta_widgets.diagnosis.context import Context
from hta_widgets.diagnosis.finding import Finding, Link
from hta_widgets.diagnosis.job.links_of_groups import (
    SlowGroup,
    slowest_group,
    transfers_by_group,
)
from hta_widgets.diagnosis.rules.wording import the_ranks
from hta_widgets.errors import number_ranges
from hta_widgets.quantities import data_size, number

LEAST_SHARE: Final = 0.2
"""Of a slow transfer that computation hides; the ranks then wait elsewhere for its end."""


def slow_link(context: Context) -> Finding | None:
    """Report the group whose transfers take longest beside the same transfers of others."""
    table = transfers_by_group(context.traffic)
    slow = slowest_group(table, context.limits)
    if slow is None:
        return None
    places = [place for place, rank in enumerate(context.ranks) if rank in slow.ranks]
    recoverable_ns = _recoverable_ns(context, slow, places)
    if not places or not context.is_worth_it("slow_link", recoverable_ns):
        return None
    ranks = tuple(context.ranks[place] for place in places)
    return context.finding(
        "slow_link",
        words=_words(slow, ranks),
        recoverable_ns=recoverable_ns,
        ranks=ranks,
        steps=context.steps.numbers if context.steps.are_recorded else (),
        action="Check the NIC, cable and NVLink errors of these ranks, and the paths that NCCL "
        "chose (NCCL_DEBUG=INFO).",
        evidence={
            "operation": slow.operation,
            "factor": slow.factor,
            "groups": table.assign(ranks=[number_ranges(each) for each in table["ranks"]]),
        },
        links=(Link(panel="collectives", ranks=ranks),),
    )


def _words(slow: SlowGroup, ranks: tuple[int, ...]) -> str:
    times = f"{number(slow.factor)} times as long as in other groups"
    what = {P2P: "sends"}.get(slow.operation, slow.operation)
    if np.isnan(slow.gb_per_s):
        return f"{the_ranks(ranks)}: {what} among them takes {times}"
    return (
        f"{the_ranks(ranks)} transfer at {number(slow.gb_per_s)} GB/s, other groups at "
        f"{number(slow.usual_gb_per_s)} GB/s ({what} of {data_size(slow.size_bytes)}, {times})"
    )


def _recoverable_ns(context: Context, slow: SlowGroup, places: list[int]) -> float:
    """What the mean step would be shorter: no more than what is not hidden."""
    excess_ns = slow.excess_ns / len(context.steps.numbers)
    steps = context.steps
    if slow.operation == P2P:
        exposed = steps["transfer_p2p"] + steps["wait_p2p"]
        return min(excess_ns, float(exposed.mean(axis=1).max(initial=0)))
    exposed_ns = steps["transfer"].mean(axis=1)
    others_ns = np.delete(exposed_ns, places)
    above_ns = exposed_ns[places].mean() - others_ns.mean() if others_ns.size else excess_ns
    return min(excess_ns, max(float(above_ns), LEAST_SHARE * excess_ns))
