"""The host of a server is late between two steps: the GPU waits for the engine's loop."""

from __future__ import annotations

from typing import Final

import pandas as pd

from hta_widgets.analyses.server_steps import like_steps, server_steps
from hta_widgets.diagnosis.cause import cause
from hta_widgets.diagnosis.context import Context
from hta_widgets.diagnosis.facts.conditions import Condition, conditions_of_owners
from hta_widgets.diagnosis.finding import Advice, Finding, Link
from hta_widgets.diagnosis.proof.what import Idle
from hta_widgets.diagnosis.replay.edits import WithoutHostWork
from hta_widgets.diagnosis.rules.host_evidence import owners_table, stretches_table, within_gap
from hta_widgets.diagnosis.rules.wording import on_ranks
from hta_widgets.quantities import NS_PER_MS, duration

FEWEST_LIKE: Final = 3
"""Fewest steps of a phase, without the first of the recording, that show the usual gap."""

_TIMES: Final = ("period_ns", "scheduling_ns", "preparing_ns")


@cause(
    seen_in="late_launching",
    makes_others_wait=True,
    when="The GPU of an inference server is usually idle from the end of one step until the host "
    "launches the next one.",
    advice=(
        Advice(
            "Let vLLM schedule the next step while this one runs.",
            "vllm serve MODEL --async-scheduling",
            needs=(Condition.VLLM,),
        ),
        Advice(
            "Let SGLang overlap its scheduler with the GPU: start it without "
            "--disable-overlap-schedule.",
            "python -m sglang.launch_server --model-path MODEL",
            needs=(Condition.SGLANG,),
        ),
        Advice(
            "Let TensorRT-LLM overlap its scheduler with the GPU: remove disable_overlap_scheduler "
            "from its options.",
            needs=(Condition.TENSORRT_LLM,),
        ),
        Advice(
            "Prepare and launch the next step before the tokens of this one have arrived.",
            unless=(Condition.VLLM, Condition.SGLANG, Condition.TENSORRT_LLM),
        ),
        Advice(
            "Sample on the GPU, and copy token ids to the host instead of logits.",
            needs=(Condition.READS_A_NUMBER,),
        ),
        Advice(
            "Record Python frames for one second: they show what the loop does there.",
            needs=(Condition.SERVER,),
            unless=(Condition.STACKS,),
        ),
        Advice(
            "Find the lines that run there in the flame graph of this time: sampling, detokenising "
            "and scheduling can run in separate threads or processes.",
            needs=(Condition.STACKS,),
        ),
    ),
)
def step_gap(context: Context) -> Finding | None:
    """Report the time between steps in which the GPU waits for the loop of the engine."""
    gaps = context.steps["gap_step"]
    if not gaps.any():
        return None
    price = context.price(gaps, WithoutHostWork(("scheduling",)), bound="at most")
    if not context.is_worth_it(step_gap, price.ns):
        return None
    ranks, steps = context.blamed(gaps.mean(axis=1)), context.steps_with(gaps)
    like = _like_steps(context, ranks)
    if len(like) < FEWEST_LIKE:
        return None
    period_ns, scheduling_ns, preparing_ns = (float(like[name].median()) for name in _TIMES)
    if not context.is_worth_it(step_gap, scheduling_ns + preparing_ns):
        return None  # one long gap, after a burst of prompts, does not come from the loop
    phases = like["phase"].unique()
    noun = f"{phases[0]} steps" if len(phases) == 1 else "steps"
    within = within_gap(context, ranks, "gap_step")
    return context.finding(
        step_gap,
        words=f"Between {noun}, the GPU{on_ranks(context, ranks)} waits "
        f"{duration(scheduling_ns + preparing_ns)} of {duration(period_ns)} for the host: "
        f"{duration(scheduling_ns)} before the step begins, {duration(preparing_ns)} to prepare it",
        detail=within.words if within else "",
        price=price,
        ranks=ranks,
        steps=steps,
        conditions=conditions_of_owners([within.name] if within else []),
        evidence={
            **(within.evidence if within else {}),
            "scheduling_ms": scheduling_ns / NS_PER_MS,
            "preparing_ms": preparing_ns / NS_PER_MS,
            "gaps": stretches_table(context, ranks, "gap_step"),
            "calls": owners_table(context, ranks, ("gap_step",)),
            "steps": context.by_rank_and_step(idle_ms=gaps),
        },
        links=(Link(panel="idle_owners", ranks=ranks, steps=steps),),
        seen_in=Idle(("gap_step",)),
    )


def _like_steps(context: Context, ranks: tuple[int, ...]) -> pd.DataFrame:
    """Steps of the ranks to blame that are similar to each other."""
    table = server_steps(context.job).steps
    table = table[table["rank"].isin(ranks or context.ranks)]
    first = table.groupby("rank")["step"].min()
    kept = table[table["step"].isin(context.steps.numbers)]
    parts = [like_steps(own, int(first[rank])) for rank, own in kept.groupby("rank")]
    return pd.concat(parts) if parts else kept
