"""Transfers that computation does not hide."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

from hta_widgets.analyses.communication.kernels import P2P
from hta_widgets.diagnosis.cause import cause
from hta_widgets.diagnosis.context import NS_PER_MS, Context
from hta_widgets.diagnosis.finding import Finding, Link
from hta_widgets.diagnosis.job.missing import missing_of
from hta_widgets.diagnosis.rules.slow_link import slow_link
from hta_widgets.diagnosis.rules.wording import WithinModule, listed, within_module
from hta_widgets.quantities import duration, number

MOST_INCOMPLETE: Final = 0.5
"""If collectives without some of their members transfer this part, it may be waiting."""


@cause(
    seen_in="transfer",
    limit="least_percent_in_every_job",
    when="Ranks transfer data with nothing to compute meanwhile. Waiting for a late rank is no "
    "transfer. The module that asks for 60 % of it is named.",
)
def exposed_communication(context: Context) -> Finding | None:
    """Report the transfers in which the GPUs do nothing else."""
    transfer = context.steps["transfer"] + context.steps["transfer_p2p"]
    if not transfer.size:
        return None
    recoverable_ns = float(np.median(transfer, axis=0).mean())
    if not context.traffic.pipelines:  # ranks that wait for a slow one have nothing to compute
        recoverable_ns = min(recoverable_ns, context.steps.gain_ns(transfer))
    if slow_link in context.found:
        recoverable_ns -= context.found[slow_link].recoverable_ms * NS_PER_MS
    if not context.is_worth_it(exposed_communication, recoverable_ns):
        return None
    context.removed[exposed_communication] = transfer
    table = _by_group(context)
    is_doubtful = _is_doubtful(context)
    is_within = not is_doubtful and not table.empty
    within = _within(context) if is_within else WithinModule()
    return context.finding(
        exposed_communication,
        words=_words(context, table, is_doubtful=is_doubtful),
        detail=within.words,
        recoverable_ns=recoverable_ns,
        ranks=context.ranks,
        steps=context.steps.numbers if context.steps.are_recorded else (),
        action="Overlap it with computation: smaller buckets (bucket_cap_mb), prefetching, a "
        "larger local batch, or compression.",
        evidence={
            "groups": table,
            "transfer_ms": float(transfer.mean()) / NS_PER_MS,
            **within.evidence,
        },
        links=(Link(panel="collectives"), Link(panel="overlap")),
        confidence="inconclusive" if is_doubtful else "measured",
    )


def _words(context: Context, table: pd.DataFrame, *, is_doubtful: bool) -> str:
    who = "The GPU transfers" if len(context.ranks) == 1 else "All ranks transfer"
    words = f"{who} data with nothing to compute meanwhile"
    if not table.empty:
        most = table.iloc[0]
        what = {P2P: "sends"}.get(most["operation"], most["operation"])
        count = f"{most['count_per_step']:.3g}"
        speed = most["busbw_gb_per_s"]
        at = "" if np.isnan(speed) else f", {number(speed)} GB/s"
        words += (
            f", most of all {count} {what}{context.steps.per_noun} "
            f"({duration(most['exposed_ms'] * NS_PER_MS)}{at})"
        )
    if is_doubtful:
        missing = missing_of(context.job)
        whom = f"without a trace ({listed(missing)})" if missing else "that are not open"
        words += f"; part of it may be waiting for ranks {whom}"
    return words


def _within(context: Context) -> WithinModule:
    """The module that asks for most of the transfer."""
    facts = [context.facts[rank].communication for rank in context.ranks]
    whole_ns = sum(int(each.transfer_ns.sum()) for each in facts)
    return within_module(context, [each.modules for each in facts], whole_ns)


def _is_doubtful(context: Context) -> bool:
    """Whether most of the transfer is in collectives without some of their members."""
    traffic = context.traffic
    every = traffic.in_cells(traffic.exposed_transfer_ns, traffic.is_in_steps).sum()
    incomplete = traffic.is_in_steps & ~traffic.waits.is_complete
    lacking = traffic.in_cells(traffic.exposed_transfer_ns, incomplete).sum()
    return bool(every and lacking >= MOST_INCOMPLETE * every)


def _by_group(context: Context) -> pd.DataFrame:
    """Exposed transfer by operation and group, the most first, of the mean rank and step."""
    traffic = context.traffic
    cells = len(context.ranks) * len(context.steps.numbers)
    speeds = traffic.busbw_gb_per_s
    kinds = [(each.operation, _name(each.operation, each.group)) for each in traffic.series]
    rows = []
    for kind in dict.fromkeys(kinds):
        chosen = traffic.is_in_steps & np.array([each == kind for each in kinds])
        exposed = traffic.in_cells(traffic.exposed_transfer_ns, chosen).sum()
        count = traffic.in_cells(np.ones_like(traffic.place), chosen).sum()
        known = speeds[chosen & ~np.isnan(speeds)]
        if exposed:
            speed = float(np.median(known)) if known.size else float("nan")
            rows.append((*kind, count / cells, exposed / cells / NS_PER_MS, speed))
    names = ["operation", "group", "count_per_step", "exposed_ms", "busbw_gb_per_s"]
    table = pd.DataFrame(rows, columns=names)
    return table.sort_values("exposed_ms", ascending=False, kind="stable", ignore_index=True)


def _name(operation: str, group: str) -> str:
    return "" if operation == P2P else group
