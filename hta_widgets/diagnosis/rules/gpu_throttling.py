"""GPUs at times take longer for the same kernels."""

from __future__ import annotations

from typing import Final

import numpy as np

from hta_widgets.diagnosis.cause import cause
from hta_widgets.diagnosis.context import Context
from hta_widgets.diagnosis.facts.conditions import Condition, holding
from hta_widgets.diagnosis.finding import Advice, Finding, Link, Price, of_vendors
from hta_widgets.diagnosis.job.hardware import Hardware
from hta_widgets.diagnosis.job.steps import Matrix
from hta_widgets.diagnosis.proof.what import ComputingKernels
from hta_widgets.diagnosis.rules.expert_imbalance import not_overloaded
from hta_widgets.diagnosis.rules.wording import in_n_steps, others_wait, the_ranks
from hta_widgets.quantities import number

FEWEST_STEPS: Final = 3
"""Fewest steps that show which pace is usual."""

SHARED_FROM: Final = 4.0
"""How many times as long kernels take that lowered clocks alone hardly explain: a power brake
leaves a quarter of a clock."""


@cause(
    seen_in="waiting",
    makes_others_wait=True,
    when="As for `slow_gpu`, but in only some of the steps or at a changing pace. Or all ranks "
    "take more than 1.1 times as long in some steps as in the fastest one, with the same kernels "
    "and shapes.",
    advice=(
        *of_vendors(
            "While the job runs, list the processes on the GPU: lowered clocks hardly explain so "
            "much.",
            "nvidia-smi",
            "amd-smi process",
            Condition.MANY_TIMES_SLOWER,
        ),
        *of_vendors(
            "While the job runs, check the clocks, the power and the temperature.",
            "nvidia-smi -q -d PERFORMANCE,CLOCK,TEMPERATURE,POWER",
            "amd-smi metric --clock --power --temperature",
        ),
        Advice(
            "Make sure that nothing else runs on this GPU, and that its node is cooled as well as "
            "the others."
        ),
    ),
)
def gpu_throttling(context: Context) -> Finding | None:
    """Report ranks, or in some steps all ranks, that take longer for the same work."""
    found = context.hardware
    return _of_some_ranks(context, found) or _of_all_ranks(context, found)


def _of_some_ranks(context: Context, found: Hardware) -> Finding | None:
    places = not_overloaded(context, found.throttled)
    if not places:
        return None
    excess = found.excess_of(places)
    price = context.price(excess, context.computing_less(excess), between_ranks=True)
    ranks = tuple(context.ranks[place] for place in places)
    hot = (found.ratio[places] > context.limits.slower_kernels).any(axis=0)
    factor = float(np.median(found.ratio[places].max(axis=0)[hot]))
    within = ", but not at all times" if hot.all() else ""
    most = "up to " if context.steps.are_recorded else ""
    words = (
        f"{the_ranks(ranks)} {'computes' if len(ranks) == 1 else 'compute'} {most}{number(factor)} "
        f"times as long as the median{in_n_steps(context, int(hot.sum()))} with the same work"
        f"{within}{others_wait(context, ranks, price.ns)}"
    )
    return _finding(context, words, price, ranks, excess=excess, factors=found.ratio, factor=factor)


def _of_all_ranks(context: Context, found: Hardware) -> Finding | None:
    pace = found.against_itself
    if pace is None or pace.size < FEWEST_STEPS or not context.steps.are_recorded:
        return None
    usual, fastest = float(np.quantile(pace, 0.25)), float(pace.min())
    most = context.limits.slower_than_itself
    slower = pace > most * fastest
    if pace.max() <= most * usual:
        return None
    excess = context.steps["compute"] * (1 - fastest / pace)
    excess[:, ~slower] = 0
    price = context.price(excess, context.computing_less(excess), between_ranks=True)
    taken_ns = context.steps["compute"].sum(axis=0)
    factors = taken_ns / max(taken_ns[pace.argmin()], 1)
    factor = float(factors[slower].max())
    if factor <= 1:  # most kernels take longer, but all of them together do not
        return None
    who = the_ranks(context.ranks) if len(context.ranks) == 1 else "All ranks"
    count = len(context.steps_with(excess)) or int(slower.sum())  # as many as the finding lists
    words = (
        f"{who} {'computes' if len(context.ranks) == 1 else 'compute'} up to {number(factor)} "
        f"times as long{in_n_steps(context, count)} as in the fastest step, with the same kernels "
        "and shapes"
    )
    every = np.broadcast_to(factors, excess.shape)
    return _finding(
        context, words, price, context.ranks, excess=excess, factors=every, factor=factor
    )


def _finding(
    context: Context,
    words: str,
    price: Price,
    ranks: tuple[int, ...],
    *,
    excess: Matrix,
    factors: Matrix,
    factor: float,
) -> Finding | None:
    if not context.is_worth_it(gpu_throttling, price.ns):
        return None
    steps = context.steps_with(excess)
    return context.finding(
        gpu_throttling,
        words=words,
        price=price,
        ranks=ranks,
        steps=steps,
        conditions=holding({Condition.MANY_TIMES_SLOWER: factor >= SHARED_FROM}),
        evidence={
            "factor_by_rank_and_step": context.by_rank_and_step(factor=factors),
        },
        links=(Link(panel="rank_overlap", ranks=ranks, steps=steps),),
        seen_in=ComputingKernels(),
        seen_steps=tuple(np.array(context.steps.numbers)[excess.any(axis=0)].tolist()),
    )
