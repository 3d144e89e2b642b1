"""The first step prepares what later steps use.

Preparation is idle and computing time that the other steps do not need. More work is not
preparation: a longer batch, or a validation that later steps repeat.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pandas as pd

from hta_widgets.arrays import Float64Array
from hta_widgets.diagnosis.cause import cause
from hta_widgets.diagnosis.context import Context
from hta_widgets.diagnosis.facts.conditions import Condition, conditions_of_owners
from hta_widgets.diagnosis.facts.gap_owners import LOADERS
from hta_widgets.diagnosis.facts.kernel_facts import LikeKernelFacts, like_kernel_facts
from hta_widgets.diagnosis.finding import Advice, Evidence, Finding, Link, Price
from hta_widgets.diagnosis.job.steps import Matrix, Steps
from hta_widgets.diagnosis.proof.what import Idle, WholeSteps
from hta_widgets.diagnosis.replay.edits import WithoutHostWork
from hta_widgets.diagnosis.rules.allocator_retries import recurs
from hta_widgets.diagnosis.rules.host_evidence import owners_table, within_gap
from hta_widgets.diagnosis.rules.wording import named, subject
from hta_widgets.quantities import NS_PER_MS, duration, number_ranges

ALIKE: Final = 0.9
"""A step runs the kernels of another one if it launches this fraction of them with the same
size."""

_NOT_PREPARING: Final = ("gap_loader", "gap_profiler", "gap_depend")
_SETTING_UP: Final = ("gap_init", "gap_alloc")

WORTH_SAYING: Final = 0.1
"""Fraction of this excess above which the sentence names idle or computing time."""

AS_LONG: Final = 0.25
"""Fraction of the later steps that may take as long as a first one that is called slow: of a step
of 3.5 ms, next to others of 1.7 to 4.2, a warm-up was said to take 1 ms."""

FEWEST_STEPS: Final = 3
"""Fewest steps that show which of them is unusual: of two steps of 54 and 35 ms, the first was left
out as the slow one, and with it 47 ms of data loading."""


def preparing_idle_ns(context: Context, count: int) -> Matrix:
    """Idle time of the first steps that counts as preparation, by rank and step.

    It is the time in calls that set up or allocate, and while code is loaded, above the median of
    the later steps. Of the rest, it is what exceeds the idle time of every later step (but the
    next, which may prepare, too) and the usual idle time scaled to as many kernels.
    """
    steps = context.steps
    rest = steps["idle"] - sum(steps[name] for name in (*_NOT_PREPARING, *_SETTING_UP))
    sets_up = np.asarray(sum(steps[name] for name in _SETTING_UP))
    later = rest[:, count + 1 :] if rest.shape[1] > count + 1 else rest[:, count:]
    more_kernels = steps["kernels"][:, :count] / np.maximum(_usual(steps["kernels"], count), 1)
    usual = np.maximum(_usual(rest, count) * more_kernels, later.max(axis=1, keepdims=True))
    above = np.maximum(rest[:, :count] - usual, 0)
    return np.asarray(above + np.maximum(sets_up[:, :count] - _usual(sets_up, count), 0))


def preparing_compute_ns(context: Context, count: int) -> Matrix:
    """Computing time of the first steps that counts as preparation, by rank and step.

    It is how much longer the same kernels with the same work take than later, plus kernels that no
    later step runs. It counts only if the work is known to be that of a later step, and at most up
    to how much longer the step computes, or what runs once.
    """
    steps = context.steps
    facts = context.job.reduce(like_kernel_facts, steps.ranks)
    rows = [_of_rank(facts[rank], steps.numbers, count) for rank in steps.ranks]
    found = np.array(rows, dtype=np.float64).reshape(len(rows), count)
    above = np.maximum(steps["compute"][:, :count] - _usual(steps["compute"], count), 0)
    return np.asarray(np.minimum(found, np.maximum(above, steps["once"][:, :count])))


def _usual(matrix: Matrix, count: int) -> Matrix:
    return np.asarray(np.median(matrix[:, count:], axis=1, keepdims=True))


def _of_rank(facts: LikeKernelFacts, numbers: Sequence[int], count: int) -> Float64Array:
    table = pd.DataFrame(
        {
            "key": facts.key,
            "kind": facts.kind,
            "step": facts.step,
            "counts": facts.counts,
            "ns": facts.total_ns / facts.counts,
            "is_sized": np.isfinite(facts.size),
        }
    )
    later = table[table["step"].isin(numbers[count:])]
    first = [table[table["step"] == number].set_index("key") for number in numbers[:count]]
    return np.array([_more_ns(each, later) for each in first])


def _more_ns(first: pd.DataFrame, later: pd.DataFrame) -> float:
    """Preparation time in kernels of a first step; 0 if no later step does the same work."""
    there = first["counts"].reindex(later["key"], fill_value=0).to_numpy()
    counts, step = later["counts"], later["step"]
    part = np.minimum(there, counts).groupby(step).sum() / counts.groupby(step).sum()
    like = later[step.isin(part.index[part >= ALIKE])]
    if like.empty:
        return 0.0
    usual_ns = like.groupby("key")["ns"].median()
    same = first[first.index.isin(usual_ns.index) & first["is_sized"]]
    slower = (same["counts"] * (same["ns"] - usual_ns.reindex(same.index))).sum()
    once = first[~first["kind"].isin(later["kind"])]
    return max(float(slower), 0.0) + float((once["counts"] * once["ns"]).sum())


@cause(
    seen_in="late_launching",
    when="The first step is more than 30 % longer than the median of the others, and most of the "
    "excess is idle time or computing that no later step has. Or initialisation takes 5 % of "
    "fewer than three steps.",
    advice=(
        Advice(
            "Leave the first steps out of the recording.",
            "torch.profiler.schedule(wait=2, warmup=2, active=5)",
            needs=(Condition.TRAINING,),
            unless=(Condition.OTHER_RECORDER,),
        ),
        Advice(
            "Start the recording after some iterations, with torch.cuda.profiler.start().",
            "nsys profile --capture-range=cudaProfilerApi python script.py",
            needs=(Condition.OTHER_RECORDER,),
            unless=(Condition.NO_PYTORCH, Condition.SERVER, Condition.OWN_WARM_UP),
        ),
        Advice(
            "Run every kernel once before cudaProfilerStart(), which starts the recording.",
            "nsys profile --capture-range=cudaProfilerApi ./program",
            needs=(Condition.NO_PYTORCH,),
        ),
        Advice(
            "Record after a few warm-up iterations.",
            "for _ in range(3):\n    model(inputs)\ntorch.cuda.synchronize()  # then the profiler",
            unless=(
                *(Condition.TRAINING, Condition.SERVER, Condition.OWN_WARM_UP),
                Condition.OTHER_RECORDER,
            ),
        ),
        Advice(
            "Start the profiler after the job's own warm-up.",
            needs=(Condition.OWN_WARM_UP,),
        ),
        Advice(
            "Send requests of these sizes before the recording starts.",
            needs=(Condition.SERVER,),
        ),
        Advice(
            "Keep compiled code from run to run, in a folder that persists.",
            "TORCHINDUCTOR_CACHE_DIR=/path/that/stays python train.py",
            needs=(Condition.COMPILED,),
            unless=(Condition.SERVER,),
        ),
    ),
)
def warm_up(context: Context) -> Finding | None:
    """Report how much longer the first step takes, and later ones that still compile."""
    if len(context.steps.numbers) < FEWEST_STEPS:
        return _initialising(context)
    count = _warming_steps(context)
    if not count:
        return None
    steps = context.steps
    excess_ns = _excess_ns(steps, count)
    cost_ns = float(excess_ns.sum()) / len(steps.numbers)
    if not context.is_worth_it(warm_up, cost_ns):
        return None
    idle, compute = (each.sum(axis=1) for each in _prepares(context, count))
    ranks, numbers = context.blamed(idle + compute), steps.numbers[:count]
    worst = int(np.argmax(idle + compute))
    more = [
        f"{duration(float(each[worst]))} more {what}"
        for each, what in ((idle, "idle"), (compute, "compute"))
        if each[worst] > WORTH_SAYING * excess_ns.sum()
    ]
    where = f" on rank {context.ranks[worst]}" if len(context.ranks) > 1 else ""
    first = f"Step {numbers[0]}, the first, takes"
    if count > 1:
        first = f"Steps {number_ranges(numbers)}, the first, take"
    return context.finding(
        warm_up,
        words=f"{first} {duration(float(excess_ns.sum()))} longer than the others, "
        f"{' and '.join(more)}{where}",
        price=Price.counted(cost_ns),
        ranks=ranks,
        steps=numbers,
        evidence={
            "more_idle_ms": float(idle[worst]) / NS_PER_MS,
            "more_compute_ms": float(compute[worst]) / NS_PER_MS,
            **_evidence(context, ranks),
        },
        links=(Link(panel="idle_owners", ranks=ranks, steps=numbers),),
        seen_in=WholeSteps(),
        seen_steps=numbers,
    )


def _warming_steps(context: Context) -> int:
    """Number of steps that warm up: the first one, and those after it that still initialise."""
    if not slow_first_step(context):
        return 0
    idle, compute = _prepares(context, 1)
    if not _is_explained(context, 1, idle + compute):
        return 0
    count = 1
    most = len(context.steps.numbers) // 2
    while count < most and _initialises_still(context, count + 1):
        count += 1
    return count


def _is_explained(context: Context, count: int, spent_ns: Matrix) -> bool:
    """Whether the time that a rank spends explains why the last of the first steps is longer."""
    part = context.limits.warm_up_explained_percent / 100
    return bool(spent_ns.max(initial=0) > part * _excess_ns(context.steps, count)[-1])


def _initialises_still(context: Context, count: int) -> bool:
    """Whether the last of the first steps is longer than usual because of calls that set up."""
    steps = context.steps
    sets_up = (steps["gap_init"] + steps["gap_alloc"] + steps["once"])[:, count - 1]
    return _is_longer(context, count) and _is_explained(context, count, sets_up)


def _is_longer(context: Context, count: int) -> bool:
    """Whether the last of the first steps is much longer than those after it."""
    usual_ns = np.median(np.median(context.steps["period"], axis=0)[count:])
    if not usual_ns:  # the file is cut after it: there is nothing to compare it with
        return False
    least_ns = context.limits.longer_first_step_percent / 100 * usual_ns
    period = np.median(context.steps["period"], axis=0)
    as_long = np.count_nonzero(period[count:] >= period[count - 1])
    is_unusual = as_long <= AS_LONG * period[count:].size
    return bool(is_unusual and _excess_ns(context.steps, count)[-1] > least_ns)


def _excess_ns(steps: Steps, count: int) -> Float64Array:
    """By how much each of the first steps exceeds the median of the others."""
    period = np.median(steps["period"], axis=0)
    return np.asarray(period[:count] - np.median(period[count:]))


def slow_first_step(context: Context) -> tuple[int, ...]:
    """Number of the first step if it is much longer than the others, whatever its cause."""
    first, numbers = context.all_steps.numbers[:1], context.steps.numbers
    is_there = len(numbers) >= FEWEST_STEPS and numbers[:1] == first
    return first if is_there and _is_longer(context, 1) else ()


def _prepares(context: Context, count: int) -> tuple[Matrix, Matrix]:
    """Idle and computing time of the first steps that is preparation, by rank and step (ns)."""
    return preparing_idle_ns(context, count), preparing_compute_ns(context, count)


def _initialising(context: Context) -> Finding | None:
    """Report the cost of initialising if there are too few steps to compare."""
    initialising = context.steps["gap_init"]
    classes: tuple[str, ...] = ("initialising", "compiling")
    if not recurs(context):
        initialising = initialising + context.steps["gap_alloc"]
        classes = (*classes, "allocating")
    price = context.price(initialising, WithoutHostWork(classes))
    least_ns = context.limits.initialising_percent / 100 * context.steps.median_period_ns
    if not initialising.size or price.ns <= least_ns:
        return None
    ranks, steps = context.blamed(initialising.mean(axis=1)), context.steps_with(initialising)
    calls = owners_table(context, ranks, ("gap_init", "gap_alloc"))
    most = calls["owner"].iloc[0] if len(calls) else ""
    during = "contexts, modules, first allocations"
    of_most_ms = calls.loc[calls["owner"] == most, "idle_ms"].sum()
    mostly = "mostly" if 2 * of_most_ms > calls["idle_ms"].sum() else "most of all"
    if LOADERS["workers"].search(most):
        most = "the start of DataLoader workers"
    if Condition.IN_OPERATOR in conditions_of_owners([most]):
        during = "first calls of operators"
    what = f" ({during}{f', {mostly} {most}' if most else ''})"
    if calls["times"].tolist() == [1] and most == calls["owner"].iloc[0]:
        what = f", in one {named(most)}"  # of one launch call, "contexts, modules" said nothing
    who, within = subject(context, ranks), within_gap(context, ranks, "gap_init")
    warms = conditions_of_owners([within.around] if within else []) & {Condition.OWN_WARM_UP}
    return context.finding(
        warm_up,
        words=f"{who} {who.verb('initialise')} while the GPU is idle{what}",
        detail=", most of it in the job's own warm-up" if warms else "",
        conditions=warms,
        price=price,
        ranks=ranks,
        steps=(),
        evidence=_evidence(context, ranks),
        links=(Link(panel="idle_owners", ranks=ranks, steps=steps),),
        seen_in=Idle(("gap_init", "gap_alloc")),
    )


def _evidence(context: Context, ranks: tuple[int, ...]) -> dict[str, Evidence]:
    steps = context.steps
    table = context.by_rank_and_step(
        period_ms=steps["period"],
        idle_ms=steps["idle"],
        compute_ms=steps["compute"],
        run_once_ms=steps["once"],
        initialising_ms=steps["gap_init"],
        allocating_ms=steps["gap_alloc"],
    )
    return {"steps": table, "calls": owners_table(context, ranks, ("gap_init", "gap_alloc"))}
