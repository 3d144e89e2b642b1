"""GPUs take longer for the same kernels at times."""

from __future__ import annotations

from typing import Final

import numpy as np

from hta_widgets.diagnosis.cause import cause
from hta_widgets.diagnosis.context import Context
from hta_widgets.diagnosis.finding import Finding, Link
from hta_widgets.diagnosis.job.hardware import Hardware
from hta_widgets.diagnosis.job.steps import Matrix
from hta_widgets.diagnosis.rules.wording import in_n_steps, others_wait, the_ranks
from hta_widgets.quantities import number

FEWEST_STEPS: Final = 3
"""Fewest steps that tell which pace is usual."""

ACTION: Final = (
    "Read why the clocks were lowered: nvidia-smi -q -d PERFORMANCE,CLOCK,TEMPERATURE,POWER."
)


@cause(
    seen_in="waiting",
    makes_others_wait=True,
    when="The same, in only some of the steps or at changing pace: some kernels take longer than "
    "the same ones at other times, more than on other ranks. Or all ranks take more than 1.1 "
    "times as long in some steps as in the fastest, with the same kernels and shapes.",
)
def gpu_throttling(context: Context) -> Finding | None:
    """Report ranks that at times, or all ranks that in some steps, take longer for the same."""
    found = context.hardware
    return _of_some_ranks(context, found) or _of_all_ranks(context, found)


def _of_some_ranks(context: Context, found: Hardware) -> Finding | None:
    if not found.throttled:
        return None
    places = list(found.throttled)
    excess = found.excess_of(places)
    recoverable_ns = context.gain_of_excess(excess)
    ranks = tuple(context.ranks[place] for place in places)
    hot = (found.ratio[places] > context.limits.slower_kernels).any(axis=0)
    factor = float(np.median(found.ratio[places].max(axis=0)[hot]))
    within = ", but not at all times" if hot.all() else ""
    most = "up to " if context.steps.are_recorded else ""
    words = (
        f"{the_ranks(ranks)} {'computes' if len(ranks) == 1 else 'compute'} {most}{number(factor)} "
        f"times as long as the median{in_n_steps(context, int(hot.sum()))} with the same work"
        f"{within}{others_wait(context, ranks, recoverable_ns)}"
    )
    return _finding(context, words, recoverable_ns, ranks, excess)


def _of_all_ranks(context: Context, found: Hardware) -> Finding | None:
    pace = found.against_itself
    if pace is None or pace.size < FEWEST_STEPS or not context.steps.are_recorded:
        return None
    usual, fastest = float(np.quantile(pace, 0.25)), float(pace.min())
    most = context.limits.slower_than_itself
    slower = pace > most * fastest
    if pace.max() <= most * usual or slower.all():
        return None
    excess = context.steps["compute"] * (1 - fastest / pace)
    excess[:, ~slower] = 0
    recoverable_ns = context.steps.gain_ns(excess)
    factor = float(pace.max() / fastest)
    who = the_ranks(context.ranks) if len(context.ranks) == 1 else "All ranks"
    words = (
        f"{who} {'computes' if len(context.ranks) == 1 else 'compute'} up to {number(factor)} "
        f"times as long{in_n_steps(context, int(slower.sum()))} as in the fastest step, with the "
        "same kernels and shapes"
    )
    return _finding(context, words, recoverable_ns, context.ranks, excess)


def _finding(
    context: Context,
    words: str,
    recoverable_ns: float,
    ranks: tuple[int, ...],
    excess: Matrix,
) -> Finding | None:
    if not context.is_worth_it(gpu_throttling, recoverable_ns):
        return None
    context.removed[gpu_throttling] = excess
    steps = context.steps_with(excess)
    return context.finding(
        gpu_throttling,
        words=words,
        recoverable_ns=recoverable_ns,
        ranks=ranks,
        steps=steps,
        action=ACTION,
        evidence={
            "factor_by_rank_and_step": context.by_rank_and_step("factor", context.hardware.ratio),
        },
        links=(Link(panel="rank_overlap", ranks=ranks, steps=steps),),
    )
