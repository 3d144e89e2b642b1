"""The host launches more slowly than the GPU computes."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from hta_widgets.diagnosis.cause import cause
from hta_widgets.diagnosis.context import NS_PER_MS, Context
from hta_widgets.diagnosis.finding import Finding
from hta_widgets.diagnosis.rules.blocking_sync import share_of
from hta_widgets.diagnosis.rules.host_evidence import gap_link, host_of, steps_table
from hta_widgets.diagnosis.rules.profiler_overhead import profiler_overhead
from hta_widgets.diagnosis.rules.wording import in_steps, named, per_step, subject
from hta_widgets.quantities import counted, duration, percent

_LATE = ("gap_sync", "gap_op")
_ACTION = "Use CUDA graphs, torch.compile, a fused optimizer, or a larger batch."
_STACKS = "Record again without with_stack=True first: recording stacks slows the host. "


@cause(
    seen_in="late_launching",
    makes_others_wait=True,
    when="The host launches more slowly than the GPU computes: it would be late even without its "
    "synchronisations.",
)
def launch_bound(context: Context) -> Finding | None:
    """Report the time in which the GPU waits for a host that launches too slowly."""
    behind = context.steps.launch_bound
    slowed = context.removed.get(profiler_overhead)
    if slowed is not None:
        behind = np.clip(behind + context.steps["gap_profiler"] - slowed, 0, behind)
    cost_ns = context.gain_of_host_cause(behind, _LATE, share_of(context, behind))
    if not context.is_worth_it(launch_bound, cost_ns):
        return None
    ranks = context.blamed(context.steps.host_behind.mean(axis=1))
    steps = context.steps_with(behind)
    context.removed[launch_bound] = behind
    table = _launching(context, ranks)
    worst = max(table.to_dict("records"), key=lambda row: float(row["idle_ms"]))
    who = subject(context, ranks)
    return context.finding(
        launch_bound,
        words=f"{who} {who.verb('launch')} {per_step(context, worst['kernels_per_step'], 'kernel')}"
        f" (median {duration(1000 * worst['median_kernel_us'])}) too slowly"
        f"{in_steps(context, steps)}{_region(worst)}",
        recoverable_ns=cost_ns,
        ranks=ranks,
        steps=steps,
        action=_action(context, ranks),
        evidence={"launching": table, "steps": steps_table(context, idle=behind)},
        links=(gap_link(context, "gap_op", ranks, steps),),
    )


def _action(context: Context, ranks: tuple[int, ...]) -> str:
    has_stacks = any(host.has_stacks for host in host_of(context, ranks).values())
    return f"{_STACKS if has_stacks else ''}{_ACTION}"


def _region(worst: Mapping[Hashable, Any]) -> str:
    """The part of the program with most of the time, in words."""
    name = str(worst["region"])
    if not name:
        return f", {duration(1000 * worst['median_launch_us'])} a launch call"
    where = f", {percent(worst['region_percent'])} of it in {named(name)}"
    if not worst["region_kernels_per_step"]:  # it copies only
        return where
    kernels = counted(worst["region_kernels_per_step"], "kernel")
    return f"{where} ({kernels} of {duration(1000 * worst['region_median_kernel_us'])})"


def _launching(context: Context, ranks: tuple[int, ...]) -> pd.DataFrame:
    """How each rank launches: a row for each."""
    steps = context.steps
    busy = 100 * (1 - steps["idle"].sum(axis=1) / np.maximum(steps["period"].sum(axis=1), 1))
    idle_ms = steps.launch_bound.mean(axis=1) / NS_PER_MS
    rows = []
    for rank, host in host_of(context, ranks).items():
        place, region = context.ranks.index(rank), host.launching.region
        rows.append(
            {
                "rank": rank,
                "kernels_per_step": float(steps["kernels"][place].mean()),
                "median_kernel_us": host.launching.median_kernel_ns / 1000,
                "median_launch_us": host.launching.median_launch_ns / 1000,
                "gpu_busy_percent": float(busy[place]),
                "idle_ms": float(idle_ms[place]),
                "region": region.name if region else "",
                "region_percent": 100 * region.share if region else np.nan,
                "region_kernels_per_step": region.kernels / len(context.all_steps.numbers)
                if region
                else np.nan,
                "region_median_kernel_us": region.median_kernel_ns / 1000 if region else np.nan,
            }
        )
    return pd.DataFrame(rows)
