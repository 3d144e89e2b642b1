"""Some ranks compute more than the others."""

from __future__ import annotations

from collections import Counter
from enum import Enum
from typing import Final, NamedTuple

import numpy as np

from hta_widgets.diagnosis.cause import cause
from hta_widgets.diagnosis.context import Context
from hta_widgets.diagnosis.facts.conditions import Condition, holding
from hta_widgets.diagnosis.finding import Advice, Finding, Link, of_engines, of_vendors
from hta_widgets.diagnosis.job.steps import Matrix, usual_own
from hta_widgets.diagnosis.proof.what import ComputingKernels
from hta_widgets.diagnosis.rules.expert_imbalance import expert_imbalance
from hta_widgets.diagnosis.rules.wording import in_n_steps, others_wait, the_ranks
from hta_widgets.quantities import number

FEWEST_STEPS: Final = 2
FEWEST_RANKS: Final = 3
"""Fewest ranks that show which work is usual."""

SAME_RANK: Final = 0.7
_HALF: Final = 0.5


class _Reason(Enum):
    """Why ranks compute longer, in words, as far as the recording shows."""

    MORE_WORK = " with more work"
    NOT_RECORDED = " with the same kernels and sizes, for a reason that is not recorded"
    NO_SHAPES = ""


class _Uneven(NamedTuple):
    """Work of ranks compared with that of their peers."""

    factor: Matrix
    excess_ns: Matrix
    equal: Matrix
    """Work relative to the median peer, how much more it is, and by which factor it would change if
    all peers had equal work."""
    steps: np.ndarray[tuple[int], np.dtype[np.int64]]
    """Positions of the steps in which some rank has considerably more."""


@cause(
    seen_in="waiting",
    makes_others_wait=True,
    when="A rank computes more than 1.04 times as long as its peers, with more or larger kernels.",
    advice=(
        *of_engines(
            "Put copies of popular experts on several ranks.",
            "vllm serve MODEL --enable-expert-parallel --enable-eplb",
            "python -m sglang.launch_server --enable-eplb",
            needs=(Condition.MOE, Condition.SERVER),
        ),
        Advice(
            "Compare the inputs of these kernels (packed sequences, sparsity) with those of "
            "another rank.",
            needs=(Condition.SAME_SIZES,),
        ),
        *of_vendors(
            "Compare the clocks of the GPU with those of another rank.",
            "nvidia-smi -q -d CLOCK,POWER,PERFORMANCE",
            "amd-smi metric --clock --power",
            Condition.SAME_SIZES,
        ),
        Advice(
            "Give all ranks equal work: bucket sequences by length, or pack them.",
            unless=(Condition.SAME_SIZES,),
        ),
        Advice(
            "Distribute batches by their cost (tokens, pixels), not by their number.",
            unless=(Condition.SAME_SIZES,),
        ),
    ),
)
def workload_imbalance(context: Context) -> Finding | None:
    """Report ranks that compute longer than their peers for a reason other than a slower GPU."""
    if expert_imbalance in context.found:
        return None
    found = _compare(context, context.work)
    if found is None or found.steps.size < min(FEWEST_STEPS, len(context.steps.numbers)):
        return None
    excess = np.maximum(found.excess_ns, 0)
    price = context.price(excess, context.computing_less(excess), between_ranks=True)
    # equal work gains at least what moving the excess does, at most what removing it does
    equal = context.price(excess, context.faster_computing(found.equal))
    if equal.lower_ns < price.lower_ns:
        price = price._replace(lower_ns=equal.lower_ns, less_by="moved")
    if not context.is_worth_it(workload_imbalance, price.ns):
        return None
    ranks, reason, steps = _who(context, found), _reason(context, excess), ()
    if context.steps.are_recorded:
        steps = tuple(np.array(context.steps.numbers)[found.steps].tolist())
    return context.finding(
        workload_imbalance,
        words=_words(context, found, ranks, price.ns, reason),
        price=price,
        ranks=ranks,
        steps=steps,
        conditions=holding({Condition.SAME_SIZES: reason is _Reason.NOT_RECORDED}),
        evidence={
            "work": context.by_rank_and_step(work_ms=context.work),
            "factor": context.by_rank_and_step(factor=found.factor),
        },
        links=tuple(
            Link(panel=name, ranks=ranks, steps=steps) for name in ("ranks", "rank_overlap")
        ),
        seen_in=ComputingKernels(),
        seen_steps=steps,
        confidence="measured" if reason is _Reason.MORE_WORK else "inconclusive",
    )


def _reason(context: Context, excess: Matrix) -> _Reason:
    """What the recording shows about the work of the ranks that compute longest."""
    found = context.hardware
    if found.like is not None and not found.like.are_described:
        return _Reason.NO_SHAPES
    needed = _compare(context, np.minimum(context.work, found.needed_ns))
    if needed is None:
        return _Reason.NOT_RECORDED
    longest = excess.argmax(axis=0), np.arange(excess.shape[1])
    is_more = needed.excess_ns[longest].sum() >= _HALF * excess[longest].sum()
    return _Reason.MORE_WORK if is_more else _Reason.NOT_RECORDED


def _compare(context: Context, work: Matrix) -> _Uneven | None:
    usual, mean = np.zeros_like(work), np.zeros_like(work)
    if context.traffic.pipelines:
        for copies in context.traffic.copies:
            places = [context.ranks.index(rank) for rank in copies]
            mean[places], usual[places] = work[places].mean(axis=0), usual_own(work[places])
        if not usual.any():
            return None
    elif len(context.ranks) >= FEWEST_RANKS:
        usual[:], mean[:] = np.median(work, axis=0), work.mean(axis=0)
    else:
        return None
    factor = work / np.maximum(usual, 1)
    steps = np.flatnonzero(factor.max(axis=0) > context.limits.more_work)
    equal = np.divide(mean, work, out=np.ones_like(work), where=work > 0)
    return _Uneven(factor, work - usual, equal, steps)


def _who(context: Context, found: _Uneven) -> tuple[int, ...]:
    """The rank with most work, if the same in most of the steps; or the same few ranks."""
    excess = found.excess_ns[:, found.steps]
    busiest = Counter(excess.argmax(axis=0).tolist())
    place, times = busiest.most_common(1)[0]
    heavy = (excess >= _HALF * excess.max(axis=0)).mean(axis=1) >= SAME_RANK
    if heavy.sum() > 1 and heavy[[*busiest]].all() and heavy.mean() <= _HALF:
        return tuple(context.ranks[at] for at in np.flatnonzero(heavy).tolist())
    return (context.ranks[place],) if times >= SAME_RANK * found.steps.size else ()


def _words(
    context: Context,
    found: _Uneven,
    ranks: tuple[int, ...],
    recoverable_ns: float,
    reason: _Reason,
) -> str:
    largest = found.factor[:, found.steps].max(axis=0)
    usual = "the median" if not context.traffic.pipelines else "the copies of its stage"
    when = f"{in_n_steps(context, found.steps.size)}{reason.value}"
    if ranks:
        places = [context.ranks.index(rank) for rank in ranks]
        factor = float(np.median(found.factor[places][:, found.steps]))
        words = (
            f"{the_ranks(ranks)} {'computes' if len(ranks) == 1 else 'compute'} {number(factor)} "
            f"times as long as {usual}{when}{others_wait(context, ranks, recoverable_ns)}"
        )
    else:
        words = (
            f"A different rank in each step computes up to {number(float(largest.max()))} times as "
            f"long as {usual}{when}; the others wait for it"
        )
    lacks = "; shapes are not recorded, so it may be a slower GPU"
    return words + (lacks if reason is _Reason.NO_SHAPES else "")
