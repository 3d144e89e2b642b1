"""Some ranks, such as those of popular experts, exchange more than others in all-to-alls."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np
import pandas as pd

from hta_widgets.arrays import Float64Array, Mask
from hta_widgets.diagnosis.cause import cause
from hta_widgets.diagnosis.context import Context
from hta_widgets.diagnosis.facts.conditions import Condition
from hta_widgets.diagnosis.finding import Advice, Finding, Link
from hta_widgets.diagnosis.job.traffic import Traffic
from hta_widgets.diagnosis.proof.what import ComputingKernels
from hta_widgets.diagnosis.replay.edits import EqualWork
from hta_widgets.diagnosis.rules.wording import others_wait, the_ranks
from hta_widgets.quantities import number

_OPERATION: Final = "all_to_all"


class _Exchanges(NamedTuple):
    """All-to-alls in the steps."""

    chosen: Mask
    """Mask of the collectives that are such exchanges."""
    imbalance: float
    """Median of the ratio of the largest to the mean share."""
    elements: Float64Array
    """Elements of each rank, over all exchanges."""


@cause(
    seen_in="waiting",
    makes_others_wait=True,
    when="In all-to-alls, the busiest rank gets more than 1.2 times the mean number of elements. "
    "Ranks that get 1.25 times the mean over all of these exchanges are to blame.",
    advice=(
        Advice(
            "Balance the load of the experts: raise the weight of the auxiliary loss, or let the "
            "router's biases follow the load.",
            needs=(Condition.TRAINING,),
        ),
        Advice(
            "Limit how many tokens one expert takes (a capacity factor), so that no rank gets more."
        ),
        Advice("Place popular experts on different ranks, or put copies of them on several."),
    ),
)
def expert_imbalance(context: Context) -> Finding | None:
    """Report all-to-alls in which some ranks send or receive more than the others."""
    found = _exchanges(context.traffic)
    if found is None or found.imbalance <= context.limits.uneven_exchange:
        return None
    traffic = context.traffic
    waiting = traffic.in_cells(traffic.exposed_wait_ns, found.chosen)
    price = context.price(waiting, EqualWork("mean"))
    if not context.is_worth_it(expert_imbalance, price.ns):
        return None
    share = found.elements / found.elements.mean()
    ranks = tuple(
        rank
        for rank, of_rank in zip(context.ranks, share.tolist(), strict=True)
        if of_rank >= context.limits.overloaded_rank
    )
    return context.finding(
        expert_imbalance,
        words=_words(context, found, ranks, share, price.ns),
        price=price,
        ranks=ranks,
        steps=context.steps_with(waiting),
        evidence={
            "imbalance": found.imbalance,
            "elements": pd.DataFrame(
                {"rank": context.ranks, "elements": found.elements, "times_the_mean": share}
            ),
        },
        links=(Link(panel="ranks", ranks=ranks), Link(panel="rank_overlap", ranks=ranks)),
        seen_in=ComputingKernels(),
    )


def _words(
    context: Context,
    found: _Exchanges,
    ranks: tuple[int, ...],
    share: Float64Array,
    recoverable_ns: float,
) -> str:
    if not ranks:
        return (
            f"In the all-to-alls, the busiest rank gets {number(found.imbalance)} times the mean "
            "number of elements, a different rank each time; the others wait for it"
        )
    most = max(share[context.ranks.index(rank)] for rank in ranks)
    return (
        f"{the_ranks(ranks)} {'gets' if len(ranks) == 1 else 'get up to'} {number(most)} times the "
        f"mean number of elements in the all-to-alls{others_wait(context, ranks, recoverable_ns)}"
    )


def _exchanges(traffic: Traffic) -> _Exchanges | None:
    matches, kernels = traffic.matches, traffic.matches.kernels
    chosen = traffic.is_in_steps & traffic.of_operation(_OPERATION)
    if not chosen.any():
        return None
    sent, received = (
        np.maximum(column[matches.rows], 0).astype(np.float64)
        for column in (kernels.in_elements, kernels.out_elements)
    )
    sending, receiving = _imbalance(traffic, sent), _imbalance(traffic, received)
    uneven = np.where((sending > receiving)[matches.of_row], sent, received)
    elements = traffic.in_cells(uneven, chosen).sum(axis=1)
    if not elements.any():
        return None
    imbalance = float(np.median(np.maximum(sending, receiving)[chosen]))
    return _Exchanges(chosen, imbalance, elements)


def _imbalance(traffic: Traffic, values: Float64Array) -> Float64Array:
    """Largest share of each collective relative to its mean one."""
    matches = traffic.matches
    whole = np.bincount(matches.of_row, values, minlength=len(matches))
    return np.asarray(matches.most(values) / np.maximum(whole / matches.members, 1))


def not_overloaded(context: Context, places: Iterable[int]) -> list[int]:
    """Ranks, by place, whose kernels take longer for a reason other than more tokens.

    Kernels of experts may have one block per multiprocessor, whatever their work: without shapes,
    more work looks like a slower GPU.
    """
    found, like = context.found.get(expert_imbalance), context.hardware.like
    if found is None or like is None or like.are_shaped:
        return [*places]
    return [place for place in places if context.ranks[place] not in found.ranks]
