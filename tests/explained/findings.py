"""What a diagnosis says: its verdict, and its findings from their evidence."""

from __future__ import annotations

from typing import Final

from hta_widgets.analyses import kernel_breakdown
from hta_widgets.analyses.diagnosis import Diagnosis, Finding
from hta_widgets.analyses.diagnosis.vocabulary import CAUSES
from hta_widgets.errors import number_ranges
from hta_widgets.names.shorten import short_name
from hta_widgets.quantities import counted, data_size, duration, number, percent
from tests.explained.forms import (
    NAME_WIDTH,
    NS_PER_MS,
    NS_PER_US,
    RULE_WIDTH,
    Form,
    Texts,
    checked,
    largest,
    share,
    summed,
)

COST: Final = (
    "[[: [[at least ]]<price> of [[each <period> step]][[the <span> GPU span]] (<percent>)]]."
)
STEPS: Final = "[[ in <_steps>]]"


def explain_finding(found: Finding, whole: Diagnosis) -> str:
    """Say what is wrong with the sentence of a finding, or nothing."""
    forms = FORMS_OF_CAUSES.get(found.cause, [])
    return checked(forms, found.cause, found.sentence, found, whole)


def cost_of(found: Finding, whole: Diagnosis) -> Texts:
    if not found.recoverable_ms > 0:
        return {}
    length = duration(whole.period_ns)
    has_steps = bool((whole.steps["step"] >= 0).any())
    return {
        "price": duration(found.recoverable_ms * NS_PER_MS),
        "period": length if has_steps else None,
        "span": None if has_steps else length,
        "percent": share(found.recoverable_ms * NS_PER_MS, whole.period_ns),
    }


def launching(found: Finding, whole: Diagnosis) -> Texts:
    table = found.evidence["launching"]
    worst = table.loc[table["idle_ms"].idxmax()]
    texts = {
        "kernels": counted(worst["kernels_per_step"], "kernel"),
        "median": duration(worst["median_kernel_us"] * NS_PER_US),
    }
    mine = whole.steps[whole.steps["rank"] == worst["rank"]]
    assert {*mine["step"]} > {*found.steps} or mine["kernels"].mean() == worst["kernels_per_step"]
    if not worst["region"]:
        texts["call"] = duration(worst["median_launch_us"] * NS_PER_US)
        return texts | cost_of(found, whole)
    texts["part"] = percent(worst["region_percent"])
    texts["region"] = short_name(worst["region"], RULE_WIDTH)
    if worst["region_kernels_per_step"]:
        texts["of_region"] = counted(worst["region_kernels_per_step"], "kernel")
        texts["each"] = duration(worst["region_median_kernel_us"] * NS_PER_US)
    return texts | cost_of(found, whole)


def initialising(found: Finding, whole: Diagnosis) -> Texts:
    calls = found.evidence["calls"]
    owner = calls["owner"].iloc[0] if len(calls) else ""
    return {"owner": owner or None} | cost_of(found, whole)


def pausing(found: Finding, whole: Diagnosis) -> Texts:
    pauses = found.evidence["pauses"]
    longest = pauses.loc[pauses["idle_ms"].idxmax()]
    before, after = longest["operator_before"], longest["operator_after"]
    texts = {"longest": duration(longest["idle_ms"] * NS_PER_MS)}
    if before and after:
        texts |= {"from": short_name(before, 30), "to": short_name(after, 30)}
    elif after:
        texts["before"] = short_name(after, 30)
    return texts | cost_of(found, whole)


def loading(found: Finding, whole: Diagnosis) -> Texts:
    longest_ms = found.evidence["longest_wait_ms"]
    assert longest_ms == found.evidence["steps"]["idle_ms"].max()
    return {"longest": duration(longest_ms * NS_PER_MS)} | cost_of(found, whole)


def without_tensor_cores(found: Finding, whole: Diagnosis) -> Texts:
    return {"part": percent(found.evidence["share_percent"])} | cost_of(found, whole)


def chained(found: Finding, whole: Diagnosis) -> Texts:
    return {
        "part": percent(found.evidence["share_percent"]),
        "longest": str(found.evidence["chains"]["kernels"].max()),
    } | cost_of(found, whole)


def unfused(found: Finding, whole: Diagnosis) -> Texts:
    table, steps = found.evidence["attention"], whole.steps
    count = steps["step"].nunique()
    return {
        "time": duration(table[["products_ms", "others_ms"]].sum(axis=None) * NS_PER_MS / count),
        "computing": duration(steps[steps["rank"].isin(found.ranks)]["compute_ns"].mean()),
    } | cost_of(found, whole)


def slow_gpu(found: Finding, whole: Diagnosis) -> Texts:
    ratios = found.evidence["factor_by_rank_and_step"]
    mine = ratios[ratios["rank"].isin(found.ranks)]["factor"]
    factor = found.evidence["factor"]
    assert mine.min() <= factor <= mine.max()
    return {
        "who": f"Rank{'s' * (len(found.ranks) > 1)} {number_ranges(found.ranks)}",
        "factor": number(factor),
    } | cost_of(found, whole)


def copying(found: Finding, whole: Diagnosis) -> Texts:
    table = found.evidence["copies"]
    most = table.loc[table["exposed_ms"].idxmax()]
    size, count = most["size_mb"] * 1e6, whole.steps["step"].nunique()
    return {
        "size": data_size(size / count),
        "speed": number(size / (most["duration_ms"] * NS_PER_MS)),
        "name": short_name(most["name"], RULE_WIDTH),
    } | cost_of(found, whole)


FORMS_OF_CAUSES: Final[dict[str, list[Form]]] = {
    "launch_bound": [
        Form(
            f"<_who> launch[[es]] <kernels>[[ per step]] (median <median>) too slowly{STEPS}"
            "[[, <part> of it in <region>[[ (<of_region> of <each>)]]]][[, <call> a launch call]]"
            f"{COST}",
            launching,
        )
    ],
    "warm_up": [
        Form(
            "<_who> initialise[[s]] while the GPU is idle (contexts, modules, first allocations"
            f"[[, <owner> most]]){COST}",
            initialising,
        )
    ],
    "host_pause": [
        Form(
            f"<_who> launch[[es]] nothing for up to <longest>{STEPS}"
            f"[[, between <from> and <to>]][[, before <before>]][[<_where>]]{COST}",
            pausing,
        )
    ],
    "input_starvation": [
        Form(
            f"<_who> load[[s]] data{STEPS} while the GPU is idle, up to <longest>[[, <_where>]]"
            f"{COST}",
            loading,
        )
    ],
    "no_tensor_cores": [
        Form(
            "<part> of the time in matrix products[[ on <_ranks>]] is in <_kernels> that use no "
            f"tensor cores[[ for <_uneven>]][[, <_where>]]{COST}",
            without_tensor_cores,
        )
    ],
    "unfused_elementwise": [
        Form(
            "<part> of the computing time[[ on <_ranks>]] is in elementwise kernels, in chains of "
            f"up to <longest>; fusing them would save time{COST}",
            chained,
        ),
        Form(
            "Unfused attention (bmm + softmax + bmm) takes <time> of <computing> computing"
            "[[ per step]][[ on <_ranks>]][[, <_where>]]; a fused kernel[[ and fused elementwise "
            f"chains]] would save time{COST}",
            unfused,
        ),
    ],
    "slow_gpu": [
        Form(
            "<who> compute[[s]] <factor> times as long as the median[[ in <_steps>]] with the same "
            f"work[[; <_others>]]{COST}",
            slow_gpu,
        )
    ],
    "slow_host_copies": [
        Form(
            "<_who> cop<_ies> <size>[[ per step]] at <speed> GB/s (<name>)[[ in <_steps>]] with no "
            f"kernel beside[[, <_where>]]{COST}",
            copying,
        )
    ],
}
"""The forms of the sentence of each cause that occurs in the jobs."""


def no_finding(_: object, whole: Diagnosis) -> Texts | None:
    if len(whole) or whole.cpu_work is not None:
        return None
    texts: Texts = {"causes": str(len(CAUSES))}
    computing, period = summed(whole.steps, "compute_ns", "period_ns")
    if computing >= 0.9 * period:
        kernels = kernel_breakdown(whole.job, whole.ranks).every_kernel
        kernels = kernels[kernels["kernel_type"] == "COMPUTATION"]
        name, most = largest(kernels, "name", "sum_ns")
        has_steps = bool((whole.steps["step"] >= 0).any())
        texts["time"] = "each step" if has_steps else "the GPU span"
        texts["computing"] = share(computing, period)
        texts["kernel"] = short_name(name)
        texts["of_kernel"] = share(most, kernels["sum_ns"].sum())
    return texts


def on_the_cpu(_: object, whole: Diagnosis) -> Texts | None:
    work = whole.cpu_work
    if work is None or not work.operators:
        return None
    own_ns, calls = work.operators[0][1:]
    return {
        "whole": duration(work.operators_ns),
        "name": short_name(work.operators[0][0], NAME_WIDTH),
        "time": duration(own_ns),
        "part": share(own_ns, work.operators_ns),
        "calls": counted(calls, "call"),
    }


VERDICTS: Final[list[Form]] = [
    Form(
        "No cause found that costs more than its limit (3 to 15 % of a step, by cause); looked for "
        "<causes>[[; <_unseen>]].[[ The GPUs compute <computing> of <time>: only faster kernels "
        "help, most of all <kernel> (<of_kernel>[[, <_peak>]])[[, <_others>]].]]",
        no_finding,
    ),
    Form(
        "No GPU work was recorded: <_how> Of <whole> of CPU time in operators[[ in <_steps>]], "
        "<name> takes the most: <time> (<part>) in <calls>.[[ <_others>]]",
        on_the_cpu,
    ),
]


def explain_verdict(whole: Diagnosis) -> str:
    """Say what is wrong with the sentence of a diagnosis, or nothing."""
    if len(whole):
        is_first = whole.finding == whole.findings[0].sentence
        return "" if is_first else f"the verdict is not the first finding: {whole.finding!r}"
    return checked(VERDICTS, "diagnosis", whole.finding, None, whole)


OF_DIAGNOSIS: Final = ("diagnosis",)
"""Panels whose sentences are explained by `explain_verdict` and `explain_finding`."""
