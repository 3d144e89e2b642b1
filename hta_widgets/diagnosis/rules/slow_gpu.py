"""The GPU of one rank takes longer for the same kernels."""

from __future__ import annotations

import numpy as np

from hta_widgets.diagnosis.cause import cause
from hta_widgets.diagnosis.context import Context
from hta_widgets.diagnosis.finding import Advice, Finding, Link, of_vendors
from hta_widgets.diagnosis.proof.what import ComputingKernels
from hta_widgets.diagnosis.rules.expert_imbalance import not_overloaded
from hta_widgets.diagnosis.rules.wording import in_n_steps, others_wait, the_ranks
from hta_widgets.quantities import number


@cause(
    seen_in="waiting",
    makes_others_wait=True,
    when="A rank takes more than 1.04 times as long as the median for kernels with the same "
    "work, steadily and in at least 70 % of the steps.",
    advice=(
        *of_vendors(
            "Compare its clocks, power and ECC errors with those of another GPU.",
            "nvidia-smi -q -d CLOCK,POWER,ECC,PERFORMANCE",
            "amd-smi metric --clock --power --ecc",
        ),
        Advice(
            "Run the job with another node in its place: if the problem disappears, drain this one."
        ),
    ),
)
def slow_gpu(context: Context) -> Finding | None:
    """Report ranks that always take longer than the others for the same kernels."""
    found = context.hardware
    places = not_overloaded(context, found.slow)
    if not places or found.like is None:
        return None
    excess = found.excess_of(places)
    price = context.price(excess, context.computing_less(excess), between_ranks=True)
    if not context.is_worth_it(slow_gpu, price.ns):
        return None
    ranks = tuple(context.ranks[place] for place in places)
    hot = (found.ratio[places] > context.limits.slower_kernels).any(axis=0)
    factor = float(np.median(found.ratio[places][:, hot]))
    words = (
        f"{the_ranks(ranks)} {'computes' if len(ranks) == 1 else 'compute'} {number(factor)} times "
        f"as long as the median{in_n_steps(context, int(hot.sum()))} with the same work"
        f"{others_wait(context, ranks, price.ns)}"
    )
    return context.finding(
        slow_gpu,
        words=words,
        price=price,
        ranks=ranks,
        steps=context.steps_with(excess),
        evidence={
            "factor": factor,
            "largest_kernels": found.like.largest(places[0]),
            "factor_by_rank_and_step": context.by_rank_and_step(factor=found.ratio),
        },
        links=(Link(panel="ranks", ranks=ranks), Link(panel="rank_overlap", ranks=ranks)),
        seen_in=ComputingKernels(),
    )
