"""Kernels are tried out to find the fastest."""

from __future__ import annotations

import numpy as np

from hta_widgets.diagnosis.cause import cause
from hta_widgets.diagnosis.context import Context
from hta_widgets.diagnosis.facts.conditions import Condition
from hta_widgets.diagnosis.finding import Advice, Finding, Link, Price
from hta_widgets.diagnosis.proof.what import Trials, WholeSteps
from hta_widgets.diagnosis.replay.edits import WithoutSpans
from hta_widgets.diagnosis.rules.wording import listed, named, subject
from hta_widgets.quantities import NS_PER_MS, duration, number


@cause(
    seen_in="late_launching",
    when="Some steps try out kernels, each several times, that the other steps do not run.",
    advice=(
        Advice(
            "Keep compiled and tuned kernels from run to run, in a folder that persists.",
            "TORCHINDUCTOR_CACHE_DIR=/path/that/stays python train.py",
            needs=(Condition.COMPILED,),
        ),
        Advice(
            "Run every shape once before you measure: each new shape is tuned again.",
            "torch.profiler.schedule(wait=1, warmup=3, active=5)",
            unless=(Condition.OTHER_RECORDER,),
        ),
        Advice(
            "Run every shape once before the recording starts: each new shape is tuned again.",
            needs=(Condition.OTHER_RECORDER,),
        ),
        Advice("Use fewer distinct shapes: pad batches to a few lengths."),
        Advice(
            "If shapes change all the time, do not let cuDNN benchmark its kernels.",
            "torch.backends.cudnn.benchmark = False",
            unless=(Condition.COMPILED,),
        ),
    ),
)
def autotuning(context: Context) -> Finding | None:
    """Report the steps in which kernels are tried out, and how much longer they take."""
    steps = context.steps
    tried = steps["trial_names"]
    is_trial = tried.any(axis=0)
    if not steps.are_recorded:
        return _unmarked(context)
    if not is_trial.any() or is_trial.all():
        return None
    period = np.median(steps["period"], axis=0)
    excess = np.where(is_trial, np.maximum(period - np.median(period[~is_trial]), 0), 0)
    cost_ns = float(excess.mean())
    if not context.is_worth_it(autotuning, cost_ns):
        return None
    ranks = context.blamed(steps["trials"].mean(axis=1))
    numbers = tuple(np.array(steps.numbers)[is_trial].tolist())
    noun, takes = ("Step", "takes") if len(numbers) == 1 else ("Steps", "take")
    names = _names(context, ranks)
    return context.finding(
        autotuning,
        words=f"{noun} {listed(numbers)} {takes} up to {duration(float(excess.max()))} longer "
        f"than the others: up to {number(float(tried.max()))} kernels{_example(names)} are tried "
        "there",
        price=Price.counted(cost_ns),
        ranks=ranks,
        steps=numbers,
        evidence={
            "kernels": ", ".join(names),
            "kernels_tried": float(tried.max()),
            "steps": context.by_rank_and_step(period_ms=steps["period"], trials_ms=steps["trials"]),
        },
        links=(Link(panel="kernel_breakdown", ranks=ranks, steps=numbers),),
        seen_in=WholeSteps(),
        seen_steps=numbers,
    )


def _unmarked(context: Context) -> Finding | None:
    """Report trials in a recording without steps: all wait for the rank with most."""
    spans = {rank: host.trials.spans for rank, host in context.hosts().items()}
    cost_ns = float(max((each.length for each in spans.values()), default=0))
    if not cost_ns or not context.is_worth_it(autotuning, cost_ns):
        return None
    ranks = context.blamed(context.steps["trials"][:, 0])
    who, names = subject(context, ranks), _names(context, ranks)
    tried = context.steps["trial_names"].max()
    inside = next(filter(None, (host.trials.inside for host in context.hosts(ranks).values())), "")
    return context.finding(
        autotuning,
        words=f"{who} {'try' if who.is_plural else 'tries'} up to {number(float(tried))} kernels"
        f"{inside}{_example(names)} one after another, with waits in between",
        price=Price(cost_ns, cost_ns, edits=(WithoutSpans(spans),)),
        ranks=ranks,
        steps=(),
        evidence={
            "kernels": ", ".join(names),
            "kernels_tried": float(tried),
            "trials_ms": cost_ns / NS_PER_MS,
        },
        links=(Link(panel="kernel_breakdown", ranks=ranks),),
        seen_in=Trials(),
    )


def _names(context: Context, ranks: tuple[int, ...]) -> list[str]:
    """Names of the kernels that are tried, each once."""
    every = (name for host in context.hosts(ranks).values() for name in host.trials.names)
    return list(dict.fromkeys(every))


def _example(names: list[str]) -> str:
    return f", such as {named(names[0])}," if names else ""
