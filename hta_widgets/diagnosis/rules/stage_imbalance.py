"""One stage of a pipeline computes longer than the others."""

from __future__ import annotations

import numpy as np
import pandas as pd

from hta_widgets.diagnosis.cause import cause
from hta_widgets.diagnosis.context import Context
from hta_widgets.diagnosis.finding import Advice, Finding, Link
from hta_widgets.diagnosis.proof.what import ComputingKernels
from hta_widgets.diagnosis.replay.edits import Computing
from hta_widgets.diagnosis.rules.wording import the_ranks
from hta_widgets.quantities import number, number_ranges


@cause(
    seen_in="waiting",
    when="A stage computes more than 1.1 times as long as the median of the other stages.",
    advice=(
        Advice("Move layers to another stage, so that all stages compute equally long."),
        Advice("Give the stage with the embedding or the loss fewer layers, or split them."),
    ),
)
def stage_imbalance(context: Context) -> Finding | None:
    """Report stages whose ranks compute longer than those of the other stages."""
    copies = context.traffic.copies
    if len(copies) < 2:  # noqa: PLR2004
        return None
    places = [[context.ranks.index(rank) for rank in stage] for stage in copies]
    work = context.work.mean(axis=1)
    of_stage = np.array([np.median(work[stage]) for stage in places])  # of the median copy
    of_others = [np.median(np.delete(of_stage, stage)) for stage in range(len(copies))]
    factor = of_stage / np.maximum(of_others, 1.0)
    most = context.limits.more_work_of_stage
    worst = int(of_stage.argmax())
    excess = np.zeros_like(context.steps["compute"])
    excess[places[worst]] = of_stage[worst] - of_stage.mean()
    price = context.price(excess, equal_stages(context))
    if factor[worst] <= most or not context.is_worth_it(stage_imbalance, price.ns):
        return None
    heavy = [stage for stage in range(len(copies)) if factor[stage] > most]
    ranks = tuple(sorted(rank for stage in heavy for rank in copies[stage]))
    is_one = len(copies[worst]) == 1
    words = (
        f"{the_ranks(copies[worst])} (stage {worst} of the pipeline) "
        f"{'computes' if is_one else 'compute'} {number(float(factor[worst]))} times as long as "
        f"the median of the other stages, which wait for {'it' if is_one else 'them'}"
    )
    return context.finding(
        stage_imbalance,
        words=words,
        price=price,
        ranks=ranks,
        steps=context.steps.marked,
        evidence={
            "stages": pd.DataFrame(
                {
                    "stage": range(len(copies)),
                    "ranks": [number_ranges(stage) for stage in copies],
                    "compute_ms": of_stage / 1e6,
                    "factor": factor,
                }
            )
        },
        links=(Link(panel="ranks", ranks=ranks), Link(panel="rank_overlap", ranks=ranks)),
        seen_in=ComputingKernels(),
    )


def equal_stages(context: Context) -> Computing:
    """The edit that makes all stages compute equally long in each step."""
    computing = context.steps["compute"]
    equal = np.divide(
        computing.mean(axis=0), computing, out=np.ones_like(computing), where=computing > 0
    )
    return context.faster_computing(equal)
