"""The stages of a pipeline wait for micro-batches."""

from __future__ import annotations

import numpy as np

from hta_widgets.analyses.communication.kernels import P2P
from hta_widgets.diagnosis.cause import cause
from hta_widgets.diagnosis.context import NS_PER_MS, Context
from hta_widgets.diagnosis.finding import Finding, Link
from hta_widgets.diagnosis.rules.slow_link import slow_link
from hta_widgets.diagnosis.rules.stage_imbalance import stages_of
from hta_widgets.quantities import counted, duration, percent


@cause(
    seen_in="waiting",
    limit="least_percent_pipeline_bubble",
    when="The stages of a pipeline wait for each other, beyond what unequal stages and other "
    "causes explain.",
)
def pipeline_bubble(context: Context) -> Finding | None:
    """Report the waiting of the stages that no other cause explains."""
    if not context.traffic.pipelines or not context.ranks:
        return None
    waiting = context.steps["wait"] + context.steps["wait_p2p"]
    waiting_ns = float(np.median(waiting.mean(axis=1)))
    recoverable_ns = waiting_ns - _explained_ns(context)
    if not context.is_worth_it(pipeline_bubble, recoverable_ns):
        return None
    context.removed[pipeline_bubble] = waiting
    stages, batches = _shape(context)
    words = (
        f"The {stages} stages of the pipeline wait {duration(waiting_ns)} of "
        f"{'each' if context.steps.are_recorded else 'the'} {context.steps.noun} for each other"
    )
    evidence = {"waiting_ms": waiting_ns / NS_PER_MS, "stages": stages}
    if batches:
        least = 100 * (stages - 1) / (batches + stages - 1)
        words += (
            f"; {counted(batches, 'micro-batch', 'micro-batches')} leave "
            f"{percent(least)} of it empty"
        )
        evidence |= {"micro_batches": batches, "least_bubble_percent": least}
    return context.finding(
        pipeline_bubble,
        words=words,
        recoverable_ns=recoverable_ns,
        ranks=context.ranks,
        steps=context.steps.numbers if context.steps.are_recorded else (),
        action="Use more micro-batches per step, or an interleaved or zero-bubble schedule.",
        evidence=evidence,
        links=(Link(panel="rank_overlap"),),
    )


def _explained_ns(context: Context) -> float:
    """Waiting that other causes, and unequal stages, explain."""
    of_stage = stages_of(context)
    uneven_ns = float(of_stage.max() - of_stage.mean()) if of_stage.size else 0.0
    found_ms = sum(
        found.recoverable_ms for each, found in context.found.items() if each.makes_others_wait
    )
    link = context.found.get(slow_link)
    if link is not None and link.evidence.get("operation") == P2P:
        found_ms += link.recoverable_ms
    return uneven_ns + found_ms * NS_PER_MS


def _shape(context: Context) -> tuple[int, int]:
    """Number of stages, and of micro-batches; 0 if the schedule is interleaved or unclear."""
    longest = max(context.traffic.pipelines, key=lambda each: len(each.ranks)).ranks
    traffic = context.traffic
    of_pair = dict.fromkeys(((longest[0], longest[1]), (longest[-1], longest[0])), 0)
    for series, is_inside in zip(traffic.series, traffic.is_in_steps.tolist(), strict=True):
        if is_inside and series.operation == P2P and series.ranks in of_pair:
            of_pair[series.ranks] += 1
    sends, back = of_pair.values() if len(of_pair) > 1 else (0, 0)
    is_closed = len(longest) > 2 and back > 0  # noqa: PLR2004
    return len(longest), 0 if is_closed else round(sends / len(context.steps.numbers))
