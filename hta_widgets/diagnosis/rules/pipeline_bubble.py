"""The stages of a pipeline wait for micro-batches."""

from __future__ import annotations

import numpy as np

from hta_widgets.analyses.communication.kernels import P2P
from hta_widgets.diagnosis.cause import cause
from hta_widgets.diagnosis.context import Context
from hta_widgets.diagnosis.facts.conditions import Condition
from hta_widgets.diagnosis.finding import Advice, Finding, Link, of_engines
from hta_widgets.diagnosis.proof.what import Busy
from hta_widgets.diagnosis.replay.edits import Edit, WithoutMeetings
from hta_widgets.diagnosis.rules.slow_link import slow_link
from hta_widgets.diagnosis.rules.stage_imbalance import equal_stages
from hta_widgets.quantities import NS_PER_MS, counted, duration, percent


@cause(
    seen_in="waiting",
    limit="least_percent_pipeline_bubble",
    when="The stages of a pipeline wait for each other, beyond what unequal stages and other "
    "causes explain.",
    advice=(
        Advice(
            "Split the batch into more micro-batches.",
            "Schedule1F1B(stage, n_microbatches=4 * stages, loss_fn=loss)",
            unless=(Condition.SERVER,),
        ),
        Advice(
            "Give each rank several stages in turn: use an interleaved or zero-bubble schedule.",
            "ScheduleInterleaved1F1B([early, late], n_microbatches, loss_fn=loss)",
            unless=(Condition.SERVER,),
        ),
        Advice(
            "Keep as many batches in flight as there are stages: serve more requests at once, or "
            "use smaller batches.",
            needs=(Condition.SERVER,),
        ),
        *of_engines(
            "Split layers over the GPUs of a node instead, and use stages only between nodes.",
            "vllm serve MODEL --tensor-parallel-size 8",
            "python -m sglang.launch_server --tp-size 8",
            needs=(Condition.SERVER,),
        ),
    ),
)
def pipeline_bubble(context: Context) -> Finding | None:
    """Report waiting of the stages that no other cause explains."""
    if not context.traffic.pipelines or not context.ranks:
        return None
    waiting = context.steps["wait"] + context.steps["wait_p2p"]
    waiting_ns = float(np.median(waiting.mean(axis=1)))
    every = context.traffic.matches.kernels.all_series
    is_send = np.array([*(each.operation == P2P for each in every), False], dtype=np.bool_)
    sends = WithoutMeetings(is_send[np.maximum(context.replay.job.series, -1)])
    price = context.price(waiting, sends, bound="at most", after=_explained(context))
    if not context.is_worth_it(pipeline_bubble, price.ns):
        return None
    stages, batches = _shape(context)
    words = (
        f"The {stages} stages of the pipeline wait {duration(waiting_ns)} of "
        f"{'each' if context.steps.are_recorded else 'the'} {context.steps.noun} for each other"
    )
    evidence = {"waiting_ms": waiting_ns / NS_PER_MS, "stages": stages}
    if batches:
        least = 100 * (stages - 1) / (batches + stages - 1)
        words += (
            f"; {counted(batches, 'micro-batch', 'micro-batches')} "
            f"{'leaves' if batches == 1 else 'leave'} "
            f"{percent(least)} of it empty"
        )
        evidence |= {"micro_batches": batches, "least_bubble_percent": least}
    return context.finding(
        pipeline_bubble,
        words=words,
        price=price,
        ranks=context.ranks,
        steps=context.steps.marked,
        evidence=evidence,
        links=(Link(panel="rank_overlap"),),
        seen_in=Busy(("wait", "wait_p2p")),
    )


def _explained(context: Context) -> list[Edit]:
    """Edits of other causes of waiting, and of unequal stages, which have their own prices."""
    found = [cause for cause in context.prices if cause.makes_others_wait]
    link = context.found.get(slow_link)
    if link is not None and link.evidence.get("operation") == P2P:
        found.append(slow_link)
    return [equal_stages(context), *context.edits_of(found)]


def _shape(context: Context) -> tuple[int, int]:
    """Number of stages, and of micro-batches; 0 if the schedule is interleaved or unclear."""
    longest = max(context.traffic.pipelines, key=len)
    traffic = context.traffic
    of_pair = dict.fromkeys(((longest[0], longest[1]), (longest[-1], longest[0])), 0)
    for series, is_inside in zip(traffic.series, traffic.is_in_steps.tolist(), strict=True):
        if is_inside and series.operation == P2P and series.ranks in of_pair:
            of_pair[series.ranks] += 1
    sends, back = of_pair.values() if len(of_pair) > 1 else (0, 0)
    is_closed = len(longest) > 2 and back > 0  # noqa: PLR2004
    return len(longest), 0 if is_closed else round(sends / len(context.steps.numbers))
