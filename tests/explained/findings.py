"""What a diagnosis says: its verdict, and its findings from their evidence."""

from __future__ import annotations

from shlex import quote
from typing import Final

import pandas as pd
import pytest

from hta_widgets.analyses import cupti_counters, kernel_breakdown, overlap
from hta_widgets.analyses.time.tensor_cores import ELEMENTWISE
from hta_widgets.diagnosis import CAUSES, Diagnosis, Finding, diagnosis
from hta_widgets.diagnosis.finding import LONGEST_SENTENCE
from hta_widgets.diagnosis.rank_answers import replay
from hta_widgets.diagnosis.replay.edits import KernelsFaster
from hta_widgets.names.readable import distinct_labels
from hta_widgets.names.shorten import short_name
from hta_widgets.quantities import counted, data_size, duration, number, percent
from tests.explained.between_ranks import FORMS_BETWEEN_RANKS
from tests.explained.costs import (
    COST,
    INSIDE,
    KEPT_UP,
    MODULE,
    PER_STEP,
    WHEN_IDLE,
    cost_of,
    in_module,
    inside,
    kept_up,
    when_idle,
)
from tests.explained.forms import (
    NAME_WIDTH,
    NS_PER_MS,
    NS_PER_US,
    RULE_WIDTH,
    Form,
    Texts,
    checked,
    largest,
    plain,
    ranges_in_words,
    share,
    summed,
)
from tests.explained.to_try import FORMS_TO_TRY, steps_of

STEPS: Final = "[[ in <_steps>]]"
WAITS: Final = f"[[up to ]]<total>{STEPS}[[ (<waits> waits of up to <longest>)]]"
IN_ALL: Final = f"{STEPS}[[, added up over <_count> ranks]]"
COMMUNICATION: Final = ("transfer", "transfer_p2p", "undivided", "wait", "wait_p2p")


def explain_finding(found: Finding, whole: Diagnosis) -> str:
    """Say what is wrong with the sentence of a finding, or nothing."""
    forms = [each for of in ALL_FORMS for each in of.get(found.cause, [])]
    return checked(forms, found.cause, found.sentence, found, whole)


def launching(found: Finding, whole: Diagnosis) -> Texts:
    table = found.evidence["launching"]
    worst = table.loc[table["idle_ms"].idxmax()]
    rows = found.evidence.get("rows_of_linear", 0)
    ahead_ms = found.evidence.get("ahead_at_the_end_ms")
    texts: Texts = {
        "ahead": ahead_ms and duration(ahead_ms * NS_PER_MS),
        "rank": None if len(table) == 1 or not worst["region"] else str(worst["rank"]),
        "kernels": counted(worst["kernels_per_step"], "kernel"),
        "median": _of_a_kernel(worst["median_kernel_us"]),
        "rows": counted(rows, "row") if 0 < rows <= 64 else None,
    }
    late = max(round(worst["late_per_step"]), 1)
    elsewhere = worst["region_kernels_per_step"] > late and worst["region_percent"] < 67
    if late <= 0.05 * worst["kernels_per_step"] and not elsewhere:
        texts["few"] = f"{late:,}"
    if "outside_calls_percent" in found.evidence:
        texts["outside"] = percent(found.evidence["outside_calls_percent"])
    waits_ms, all_ms = (found.evidence[f"without_{each}_ms"] for each in ("waits", "launching"))
    has_waited = waits_ms >= 0.8 * all_ms
    assert has_waited == ("once it has waited" in found.sentence)
    mine = whole.steps[whole.steps["rank"] == worst["rank"]]
    assert {*mine["step"]} > {*found.steps} or mine["kernels"].mean() == worst["kernels_per_step"]
    if not worst["region"] and "outside" in texts:
        return texts | when_idle(found) | cost_of(found, whole)
    if not worst["region"]:
        calls = percent(worst["in_calls_percent"])
        call = duration(worst["median_launch_us"] * NS_PER_US)
        clause = f"; {calls} of the lost time is in launch calls ({call} each)"
        if clause in found.sentence or len(found.sentence) + len(clause) <= LONGEST_SENTENCE:
            texts |= {"calls": calls, "call": call}
        return texts | when_idle(found) | cost_of(found, whole)
    if found.evidence.get("inside_call_percent", 0) > worst["region_percent"]:
        return texts | when_idle(found) | cost_of(found, whole)
    name, part = short_name(worst["region"], RULE_WIDTH), worst["region_percent"]
    texts["part"] = percent(part)
    is_backward = name == "the backward pass"
    is_counted = worst["region_kernels_per_step"] and not has_waited and not texts["rows"]
    texts["backward" if is_backward else "counted" if is_counted else "region"] = name
    if is_backward and part < 50:
        texts["rest"] = percent(100 - part)
    if is_counted:
        many = counted(worst["region_kernels_per_step"], "kernel")
        texts["of_backward" if is_backward else "of_region"] = many
        texts["each"] = _of_a_kernel(worst["region_median_kernel_us"])
    return texts | when_idle(found) | cost_of(found, whole)


def initialising(found: Finding, whole: Diagnosis) -> Texts:
    calls = found.evidence["calls"]
    owner = calls["owner"].iloc[0] if len(calls) else ""
    starts_workers = " the start of DataLoader workers" in found.sentence
    of_most = calls.loc[calls["owner"] == owner, "idle_ms"].sum()
    if calls["times"].tolist() == [1] and not starts_workers:
        return {"only": short_name(owner, 30)} | cost_of(found, whole)
    assert (", mostly " in found.sentence) == (2 * of_most > calls["idle_ms"].sum())
    assert starts_workers == owner.endswith("#_MultiProcessingDataLoaderIter.__next__")
    return {"owner": None if starts_workers else owner or None} | cost_of(found, whole)


def pausing(found: Finding, whole: Diagnosis) -> Texts:
    pauses = found.evidence["pauses"]
    longest = pauses.loc[pauses["idle_ms"].idxmax()]
    before, after, within = longest[[f"operator_{x}" for x in ("before", "after", "inside")]]
    texts = {"longest": duration(longest["idle_ms"] * NS_PER_MS)}
    if "on_cpu_percent" in found.evidence:
        texts["on_cpu"] = percent(found.evidence["on_cpu_percent"])
    if "operators_stopped_in" in found.evidence:
        texts["stops"] = str(found.evidence["operators_stopped_in"])
    if within and f", mostly inside {short_name(within, 30)} or " in found.sentence:
        texts["within"] = short_name(within, 30)
        others = [short_name(each, 30) for each in pauses["operator_inside"] if each]
        texts["or"] = next(each for each in others if each != texts["within"])
    elif within and f", inside {short_name(within, 30)}" in found.sentence:
        texts["within"] = short_name(within, 30)
    elif any(
        each and f"inside {short_name(each, 40)}" in found.sentence for each in (before, after)
    ):
        pass  # it pauses in the call, not beside it
    elif before and after:
        same = {"both": short_name(after, 30)} if before == after else {}
        texts |= same or {"from": short_name(before, 30), "to": short_name(after, 30)}
    elif after:
        texts["before"] = short_name(after, 30)
    return texts | inside(found) | cost_of(found, whole)


def _of_a_kernel(median_us: float) -> str:
    return duration(median_us * NS_PER_US) if median_us > 0 else "less than 1 µs"


def between_steps(found: Finding, whole: Diagnosis) -> Texts:
    parts = [found.evidence[f"{name}_ms"] for name in ("scheduling", "preparing")]
    texts = [duration(each * NS_PER_MS) for each in (sum(parts), *parts)]
    return dict(zip(("gap", "before", "preparing"), texts, strict=True)) | (
        inside(found) | cost_of(found, whole)
    )


def held_up(found: Finding, whole: Diagnosis) -> Texts:
    table, ns = found.evidence["prompts"], found.recoverable_ms * NS_PER_MS
    assert {*table["step"]} == {*found.steps}
    longest_ms, decode_ms = (found.evidence[f"{each}_ms"] for each in ("longest", "decode_step"))
    assert longest_ms == table["held_up_ms"].max()
    assert ns == pytest.approx(
        table["held_up_ms"].sum() * NS_PER_MS / found.evidence["decode_steps"]
    )
    return {
        "often": f"{len(table):,} times" if len(table) > 1 else "once",
        "longest": duration(longest_ms * NS_PER_MS),
        "times": f"{longest_ms / decode_ms:.0f}",
        "price": duration(ns),
        "period": duration(whole.step_ns),
        "percent": share(ns, whole.step_ns),
    }


def loading(found: Finding, whole: Diagnosis) -> Texts:
    longest_ms, total_ms = (
        found.evidence["longest_wait_ms"],
        found.evidence["steps"]["idle_ms"].max(),
    )
    said = {"total": duration(total_ms * NS_PER_MS)}
    if waits := found.evidence.get("waits"):
        assert total_ms / waits <= longest_ms < total_ms
        said |= {"waits": str(waits), "longest": duration(longest_ms * NS_PER_MS)}
    else:
        assert longest_ms == total_ms
    return said | inside(found) | cost_of(found, whole)


def without_tensor_cores(found: Finding, whole: Diagnosis) -> Texts:
    said = {
        "part": percent(found.evidence["share_percent"]),
        "products": duration(found.evidence["products_ms"] * NS_PER_MS),
    }
    return said | in_module(found) | kept_up(found) | cost_of(found, whole)


def not_fitting(found: Finding, whole: Diagnosis) -> Texts:
    products = found.evidence["products"]
    assert products["ms"].is_monotonic_decreasing
    most = products.iloc[0]
    multiple = 4 if most["type"] == "fp32" else 8
    assert most["uneven"] % multiple
    return {
        "uneven": str(most["uneven"]),
        "multiple": str(multiple),
        **_rates(found, most),
        ("others" if most["of_peak"] else "half"): None,
        **kept_up(found),
        **cost_of(found, whole),
    }


def slower_than_sisters(found: Finding, whole: Diagnosis) -> Texts:
    most = found.evidence["products"].iloc[0]
    assert not most["uneven"]
    sizes = [f"{most[name]:,}" for name in ("rows", "columns", "summed")]
    said = {"sizes": " × ".join(sizes), **_rates(found, most), "half": None}
    return said | kept_up(found) | cost_of(found, whole)


def _rates(found: Finding, most: pd.Series) -> Texts:
    flop = 2 * most["batch"] * most["rows"] * most["columns"] * most["summed"] * most["count"]
    return {
        "part": percent(found.evidence["share_percent"]),
        "rate": number(flop / most["ms"] / 1e9),
        "others": number(most["others_tflop_per_s"]),
        "half": number(most["others_tflop_per_s"]),
    }


def converting_layouts(found: Finding, whole: Diagnosis) -> Texts:
    kernels, steps = found.evidence["kernels"], whole.steps["step"].nunique()
    assert kernels["ms"].is_monotonic_decreasing
    said = {
        "part": percent(found.evidence["share_percent"]),
        "kernels": counted(found.evidence["kernels_per_step"], "kernel"),
        "name": short_name(kernels["kernel"][0], RULE_WIDTH),
    }
    if not whole.left_out_steps:
        assert found.evidence["kernels_per_step"] == kernels["count"].sum() / steps
    return said | kept_up(found) | cost_of(found, whole)


def chained(found: Finding, whole: Diagnosis) -> Texts:
    part, chains = (percent(found.evidence[f"{x}_percent"]) for x in ("share", "chains"))
    longest, is_all = str(found.evidence["longest_chain"]), part == chains
    return {
        "part": part,
        "longest": longest if is_all else None,
        "chained": None if is_all else chains,
        "of_chain": None if is_all else longest,
        **kept_up(found),
    } | cost_of(found, whole)


def unfused(found: Finding, whole: Diagnosis) -> Texts:
    steps = whole.steps
    return (
        {
            "time": duration(found.evidence["attention_ms"] * NS_PER_MS),
            "computing": duration(steps[steps["rank"].isin(found.ranks)]["compute_ns"].mean()),
        }
        | in_module(found)
        | kept_up(found)
        | cost_of(found, whole)
    )


def copying(found: Finding, whole: Diagnosis) -> Texts:
    """The kind of copies that is alone for longest, and the last one of its rank that is said."""
    table, count = found.evidence["copies"], whole.steps["step"].nunique()
    most = table.loc[table["exposed_ms"].idxmax()]
    own = table[table["rank"] == most["rank"]].sort_values("exposed_ms", ascending=False)
    told: dict[str, str | None] = {}
    said = max(found.sentence.count("GB/s"), 1)
    rows = own.iloc[[0, said - 1]].to_dict("records")
    for kind, row in zip(("", "other_"), rows, strict=True):
        size, is_said = row["bytes"], not kind or said > 1
        values = {
            "size": data_size(size / count),
            "speed": number(size / (row["duration_ms"] * NS_PER_MS)),
            "name": short_name(row["name"], RULE_WIDTH),
        }
        told |= {kind + name: value if is_said else None for name, value in values.items()}
    return told | inside(found) | cost_of(found, whole)


def blocking(found: Finding, whole: Diagnosis) -> Texts:
    evidence, steps = found.evidence, whole.steps
    late_ms = steps["gap_sync_ns"].mean() / NS_PER_MS
    assert number(late_ms) == number(evidence["cpu_late_after_a_blocking_call_ms"])
    calls = evidence["owners"].groupby(["owner", "place"], sort=False)
    name, place = calls["idle_ms"].sum().idxmax()
    mine = calls.get_group((name, place))
    of_ranks = mine.groupby("rank")["times"].sum().reindex(found.ranks, fill_value=0)
    per_step = of_ranks.max() / steps["step"].nunique()
    assert per_step == evidence["calls_per_step"]
    up_to = "up to " * bool(of_ranks.min() < of_ranks.max())
    where = f" ({short_name(place, RULE_WIDTH)})" if place else ""
    return {
        "call": f"{short_name(name, RULE_WIDTH)}{where}",
        "times": "once" if round(per_step) <= 1 else f"{up_to}{counted(round(per_step), 'time')}",
    } | (inside(found) | cost_of(found, whole))


def retrying(found: Finding, whole: Diagnosis) -> Texts:
    table = found.evidence["steps"]
    mine = table[table["rank"].isin(found.ranks)]
    frees = found.evidence["frees_per_step"]
    return (
        {
            "calls": counted(frees, "call") if frees else None,
            "time": duration(mine["in_calls_ms"].mean() * NS_PER_MS),
        }
        | inside(found)
        | cost_of(found, whole)
    )


def profiling(found: Finding, whole: Diagnosis) -> Texts:
    overhead = found.evidence["overhead"]
    longest_ms = found.evidence["steps"]["in_profiler_ms"].max()
    return {
        "longest": duration(longest_ms * NS_PER_MS),
        "name": short_name(overhead["name"].iloc[0], RULE_WIDTH) if len(overhead) else None,
    } | cost_of(found, whole)


def excess_ms(found: Finding) -> pd.Series:
    """How much longer the named steps take than the median of the others, of the median rank."""
    table = found.evidence["steps"]
    periods = table.pivot_table(index="step", columns="rank", values="period_ms").median(axis=1)
    named = periods.index.isin(found.steps)
    excess = (periods[named] - periods[~named].median()).clip(lower=0)
    assert number(excess.sum() / len(periods)) == number(found.recoverable_ms)
    return excess


def named_steps(found: Finding) -> str:
    return f"Step{'s' * (len(found.steps) > 1)} {ranges_in_words(found.steps)}"


def trying(found: Finding, whole: Diagnosis) -> Texts:
    tried = number(found.evidence["kernels_tried"])
    if not found.steps:
        assert number(found.evidence["trials_ms"]) == number(found.recoverable_ms)
        return {"kernels": tried} | cost_of(found, whole)
    return {
        "steps": named_steps(found),
        "longer": duration(excess_ms(found).max() * NS_PER_MS),
        "kernels": tried,
    } | cost_of(found, whole)


def warming_up(found: Finding, whole: Diagnosis) -> Texts:
    excess = excess_ms(found).sum()
    more = {name: found.evidence[f"more_{name}_ms"] for name in ("idle", "compute")}
    return {
        "steps": named_steps(found),
        "longer": duration(excess * NS_PER_MS),
        **{
            name: duration(ms * NS_PER_MS) if ms > 0.1 * excess else None
            for name, ms in more.items()
        },
    } | cost_of(found, whole)


FORMS_OF_CAUSES: Final[dict[str, list[Form]]] = {
    "launch_bound": [
        Form(
            f"Launch-bound[[ on <_ranks>]]{STEPS}: the CPU "
            "[[cannot keep up]][[is late[[ mainly]]]] with "
            f"[[<few> of ]]<kernels>{PER_STEP} (median <median>"
            "[[, at most <rows> in linear layers]])"
            "[[, after most of which it waits for the GPU]]"
            "[[ once it has waited for the GPU[[ in <_waited>]][[ and <_also>]]]]"
            "[[; [[on rank <rank>, ]]<part> is lost "
            "[[in <backward>[[ (<of_backward>, median <each>)]]]]"
            "[[before the <of_region> of <counted> (median <each>)]]"
            "[[before [[kernels]][[copies]] of <region>]][[, <rest> outside it]]]]"
            "[[; <calls> of the lost time is in launch calls (<call> each)]]"
            "[[; for <outside> of the time that the GPU waits, the CPU is in no call]]"
            "[[; at the end, the CPU is <ahead> ahead]]"
            f"{WHEN_IDLE}{COST}",
            launching,
        )
    ],
    "warm_up": [
        Form(
            "<steps>, the first, take[[s]] <longer> longer than the others, [[<idle> more idle]]"
            f"[[ and ]][[<compute> more compute]][[ on rank <_rank>]]{COST}",
            warming_up,
        ),
        Form(
            "<_who> initialise[[s]] while the GPU is idle[[, in one <only>]]"
            "[[ ([[contexts, modules, first allocations]]"
            "[[first calls of operators]][[, [[mostly]][[most of all]] "
            "[[<owner>]][[the start of DataLoader workers]]]])]]"
            f"[[, most of it in the job's own warm-up]]{COST}",
            initialising,
        ),
    ],
    "host_pause": [
        Form(
            f"<_who> {does} for up to <longest>{STEPS}"
            f"[[, between <from> and <to>]][[, between two <both> calls]][[, before <before>]]"
            f"[[, [[mostly ]]inside <within>[[ or <or>]]]]{INSIDE}"
            "[[, as while TorchScript compiles]][[, <_part> of this time in <_owner>]]"
            f"[[, where DDP broadcasts buffers]][[; <on_cpu> of it in operators on the CPU]]"
            f"[[; it stops in <stops> different operators, as a process that loses its core does]]"
            f"[[; the trace does not show why]][[; no recorded call takes most of it]]{COST}",
            pausing,
        )
        for does in ("stall[[s]]", "compile[[s]]", "initialise[[s]]", "launch[[es]] nothing")
    ],
    "step_gap": [
        Form(
            "Between[[ <_phase>]] steps, the GPU[[ on <_ranks>]] waits <gap> of <_period> for the "
            f"host: <before> before the step begins, <preparing> to prepare it{INSIDE}{COST}",
            between_steps,
        )
    ],
    "prefill_stall": [
        Form(
            "Prompts hold up running requests <often>, up to <longest>, <times> times as long as a "
            "decode step; that delays tokens, but tokens per second stay the same: up to <price> "
            "per <_token> on top of each <period> decode step (<percent>).",
            held_up,
        )
    ],
    "input_starvation": [
        Form(
            f"[[The GPU]][[GPUs]][[ on <_ranks>]] sit[[s]] idle for {WAITS}, "
            "waiting for [[data]][[DataLoader workers]][[the single-process DataLoader]]"
            f"[[ (<inside_loader> of this time)]]{INSIDE}[[, most in <_owner>]]"
            f"[[, which also delays later launches]]{COST}",
            loading,
        )
    ],
    "preprocessing": [
        Form(
            f"The CPU prepares the input for {WAITS} while the GPU[[ on <_ranks>]] "
            f"sits idle{INSIDE}[[, in <_loader>]][[, most in <_owner>]]"
            f"[[, which also delays later launches]]{COST}",
            loading,
        )
    ],
    "no_tensor_cores": [
        Form(
            f"<part> of the <products> in [[convolutions and ]]matrix products{PER_STEP}"
            "[[ on <_ranks>]] is in "
            f"<_kernels> that use no tensor cores[[, because <_uneven>]]{MODULE}{KEPT_UP}{COST}",
            without_tensor_cores,
        ),
        Form(
            f"<part> of the <products> in [[convolutions and ]]matrix products{PER_STEP}"
            "[[ on <_ranks>]] is in "
            f"float64, which takes longer than float32 would{MODULE}{KEPT_UP}{COST}",
            without_tensor_cores,
        ),
    ],
    "slow_shape": [
        Form(
            "<part> of the compute time[[ on <_ranks>]] is in matrix products whose dimensions do"
            " not fit: with <uneven>, not a multiple of <multiple>, they reach <rate> TFLOP/s,"
            f" [[smaller ones up to <others>]][[where half of the peak (<half>) is usual]]{KEPT_UP}"
            f"{COST}",
            not_fitting,
        ),
        Form(
            "<part> of the compute time[[ on <_ranks>]] is in slow matrix products: those of "
            f"<sizes> reach <rate> TFLOP/s, other large ones <others>{KEPT_UP}{COST}",
            slower_than_sisters,
        ),
    ],
    "layout_transposes": [
        Form(
            f"<part> of the compute time[[ on <_ranks>]] is in <kernels>{PER_STEP} that convert"
            f" images between NCHW and NHWC, most in <name>[[; pools and norms of NHWC are often "
            f"faster, too]]{KEPT_UP}{COST}",
            converting_layouts,
        )
    ],
    "unfused_elementwise": [
        Form(
            "<part> of the compute time[[ on <_ranks>]] is in unfused elementwise kernels, "
            "[[up to <longest> in a row]][[<chained> in chains of up to <of_chain>]]; fusing them "
            f"would save time{KEPT_UP}{COST}",
            chained,
        ),
        Form(
            "Unfused attention (bmm + softmax + bmm) takes <time> of <computing> computing"
            f"{PER_STEP}[[ on <_ranks>]]{MODULE}; FlashAttention or SDPA[[ and fused "
            f"chains]] would save time{KEPT_UP}{COST}",
            unfused,
        ),
    ],
    "slow_host_copies": [
        Form(
            f"<_who> cop<_ies> <size>[[ each]]{PER_STEP} at <speed> GB/s (<name>)[[, <_others>]]"
            f"[[ and <other_size>[[ each]]{PER_STEP} at <other_speed> GB/s (<other_name>)]]"
            f"[[ in <_steps>]] with no kernel running at the same time"
            f"[[, <_before> of it before the first kernel]]{INSIDE}{COST}",
            copying,
        )
    ],
    "blocking_sync": [
        Form(
            f"<_who> block[[s]] on the GPU <times>{PER_STEP}{STEPS}, mostly in <call>, draining "
            f"the launch queue[[ each time]]{INSIDE}{COST}",
            blocking,
        )
    ],
    "allocator_retries": [
        Form(
            f"<_who> allocate[[s]][[ and free[[s]]]] GPU memory{STEPS} while the GPU is idle "
            f"([[<calls>{PER_STEP} that free, ]]<time> in all such calls"
            f"[[, plus waits for the GPU before them]]){INSIDE}{COST}",
            retrying,
        )
    ],
    "profiler_overhead": [
        Form(
            f"The profiler holds up the host[[ on <_ranks>]]{STEPS} for up to <longest>[[, most in "
            f"<name>]][[, and slows all launches by recording stacks]]{COST}",
            profiling,
        )
    ],
    "autotuning": [
        Form(
            "<steps> take[[s]] up to <longer> longer than the others: up to <kernels> kernels"
            f"[[, such as <_name>,]] are tried there{COST}",
            trying,
        ),
        Form(
            "<_who> tr<_ies> up to <kernels> kernels[[ in convolutions]][[, such as <_name>,]] one "
            f"after another, with waits in between{COST}",
            trying,
        ),
    ],
}
"""The forms of the sentence of each cause that is seen in a single rank."""

ALL_FORMS: Final = (FORMS_OF_CAUSES, FORMS_BETWEEN_RANKS, FORMS_TO_TRY)


def no_finding(_: object, whole: Diagnosis) -> Texts | None:
    if len(whole) or whole.cpu_work is not None or whole.status == "not_applicable":
        return None
    texts: Texts = {"causes": str(len(CAUSES))}
    computing, period = summed(whole.steps, "compute_ns", "period_ns")
    has_steps = bool((whole.steps["step"] >= 0).any())
    time = "each step" if has_steps else "the GPU span"
    if computing >= 0.9 * period:
        is_alone = ". Computing takes " in whole.finding and ", but " not in whole.finding
        texts["time_alone" if is_alone else "time"] = time
        texts["alone" if is_alone else "computing"] = share(computing, period)
        texts["rest"] = share(period - computing, period) if is_alone else None
    else:
        parts = {
            "computes": ["compute_ns"],
            "only communicates": [f"{part}_ns" for part in COMMUNICATION],
            "only copies": ["memory_ns"],
            "is idle": ["idle_ns"],
        }
        sums = {does: sum(summed(whole.steps, *each)) for does, each in parts.items()}
        large = {does: ns for does, ns in sums.items() if 100 * ns >= period}
        said = [f"{does} for {share(ns, period)}" for does, ns in large.items()]
        said[0] += f" of {time}"
        texts["does"] = " and ".join(filter(None, (", ".join(said[:-1]), said[-1])))
    steps = steps_of(whole)
    kernels = kernel_breakdown(whole.job, whole.ranks, steps=steps).every_kernel
    kernels = kernels[kernels["kernel_type"] == "COMPUTATION"]
    if len(kernels):
        name, most = largest(kernels, "name", "sum_ns")
        top = kernels.groupby("name", observed=True)["sum_ns"].sum().nlargest(10)
        texts["kernel"] = distinct_labels([name, *(each for each in top.index if each != name)])[0]
        texts["of_kernel"] = share(most, kernels["sum_ns"].sum())
        elementwise = kernels["name"].str.contains(ELEMENTWISE)
        together = kernels.loc[elementwise, "sum_ns"].sum()
        if together / computing > most / kernels["sum_ns"].sum():
            texts["together"] = share(together, computing)
    ranks = overlap(whole.job, whole.ranks, steps=steps).ranks
    total, exposed = summed(ranks, "communication_time_ns", "exposed_communication_ns")
    if total:
        texts["hidden"] = share(total - exposed, total)
    return texts


def paced(found: object, whole: Diagnosis) -> Texts | None:
    """Computing takes nearly all of the time, and faster kernels would help little all the same."""
    texts = no_finding(found, whole)
    pace = max(whole.shares, key=lambda what: whole.shares[what], default="the GPU")
    if texts is None or "computing" not in texts or pace == "the GPU":
        return None
    kernels = kernel_breakdown(whole.job, whole.ranks).every_kernel
    names = kernels.loc[kernels["kernel_type"] == "COMPUTATION", "name"]
    gain_ms = replay(whole.job, whole.ranks).what_if(KernelsFaster(frozenset(names), 0.0)).gain_ms
    return {**texts, "pace": pace, "gain": duration(gain_ms * NS_PER_MS)}


def not_priced(_: object, whole: Diagnosis) -> Texts | None:
    if whole.status != "not_applicable" or whole.job.kind != "graph capture":
        return None
    events = whole.job.events(whole.ranks[0])
    ends = events["name"].astype(str).str.contains("StreamEndCapture")
    return {"graphs": counted(int(ends.sum()), "CUDA graph"), "job": quote(whole.job.name)}


def of_another_phase(_: object, whole: Diagnosis) -> Texts | None:
    """What only a phase of a server has that is not diagnosed."""
    names = [each for each in ("decode", "mixed", "prefill") if each != whole.phase]
    others = [each for each in names if f"in {each} steps, " in whole.finding]
    if len(whole) or not all(len(diagnosis(whole.job, phase=each)) for each in others):
        return None
    return {"phase": whole.phase, "other": others[0]}


def only_elsewhere(_: object, whole: Diagnosis) -> Texts | None:
    """All is on ranks that were not chosen; a diagnosis of all ranks says it in full."""
    every = diagnosis(whole.job)
    if len(whole) or not len(every) or any({*each.ranks} & {*whole.ranks} for each in every):
        return None
    said = [
        f"{each.cause} on {'ranks' if len(each.ranks) > 1 else 'rank'} "
        f"{', '.join(map(str, each.ranks))} ({duration(each.recoverable_ms * NS_PER_MS)})"
        for each in every
    ]
    return {"causes": ", ".join(said)}


def no_cause_told(_: object, whole: Diagnosis) -> Texts | None:
    if len(whole) or whole.status != "cannot_tell":
        return None
    part = whole.shares.get("waiting that nothing recorded explains")
    return None if part is None else {"part": percent(part)}


def idle_without_waits(_: object, whole: Diagnosis) -> Texts | None:
    if len(whole) or whole.status != "cannot_tell" or not whole.health.lacks_waits:
        return None
    has_steps = bool((whole.steps["step"] >= 0).any())
    idle, period = summed(whole.steps, "idle_ns", "period_ns")
    return {"idle": share(idle, period), "time": "each step" if has_steps else "the GPU span"}


def on_the_cpu(_: object, whole: Diagnosis) -> Texts | None:
    work = whole.cpu_work
    if work is None or not work.operators:
        return None
    name, own_ns, calls, longest_ns = work.operators[0]
    each = f", up to {duration(longest_ns)} each" if calls > 1 else ""
    return {
        "whole": duration(work.operators_ns),
        "name": short_name(name, NAME_WIDTH),
        "time": duration(own_ns),
        "part": share(own_ns, work.operators_ns),
        "calls": f"{counted(calls, 'call')}{each}",
    }


def in_collectives(_: object, whole: Diagnosis) -> Texts | None:
    work = whole.cpu_work
    if work is None or not work.collectives_ns:
        return None
    return {
        "time": duration(work.collectives_ns),
        "part": share(work.collectives_ns, work.analysed_ns),
        "whole": duration(work.analysed_ns),
        "name": work.collective,
    }


def only_copies(_: object, whole: Diagnosis) -> Texts | None:
    work = kernel_breakdown(whole.job, whole.ranks).every_kernel
    if set(work["kernel_type"]) != {"MEMORY"}:
        return None
    by_rank = whole.steps.groupby("rank")["memory_ns"].sum()
    return {"copying": duration(by_rank.mean())}


def lost_at_all(_: object, whole: Diagnosis) -> Texts | None:
    found = on_the_cpu(_, whole) or {}
    lost = [whole.health.ranks[rank].lost for rank in whole.ranks]
    launches = sum(each.launches for each in lost if each.is_all)
    return {**found, "launches": counted(launches, "launch", "launches")} if launches else None


def measured_only(_: object, whole: Diagnosis) -> Texts | None:
    measured = len(cupti_counters(whole.job, whole.ranks).ranges)
    texts = on_the_cpu(_, whole)
    return {**texts, "measured": counted(measured, "kernel")} if measured and texts else None


def most_taken_out(_: object, whole: Diagnosis) -> Texts | None:
    left, every = (
        sum(getattr(whole.health.ranks[rank].taken_out, name) for rank in whole.ranks)
        for name in ("left", "there_were")
    )
    return {"left": f"{left:,}", "all": f"{every:,}"} if left else None


NOTHING: Final = (
    "[[Nothing stands out: none of <causes> checks exceeds its threshold (3 to 15 % of a step)]]"
    "[[[[<_kernel> uses]][[<_kernels> use]] [[only]][[at most]] <_blocks> of <_sms> "
    "multiprocessors[[, and one thread of it]], for <_part> of <_whole>]]"
)

VERDICTS: Final[list[Form]] = [
    Form(
        "This recording captures <graphs> of <_operations> operations[[ (<_name>)]]: captured "
        "work does not run, so nothing is priced. Open it with the trace that replays "
        "[[this graph]][[these graphs]]: hta-widgets open REPLAY --captures <job>.",
        not_priced,
    ),
    Form(
        "GPU-bound: computing takes <computing> of <time>, and only fewer or faster kernels would "
        "help.[[ <together> of the compute time is in elementwise kernels.]] Largest kernels by "
        "compute time: <kernel> (<of_kernel>[[, <_peak>]])[[, <_others>]].[[ <hidden> of the "
        "communication is hidden.]][[ No rank stands out.]] Otherwise, nothing stands out: none of "
        "<causes> checks exceeds its threshold (3 to 15 % of a step)[[; <_unseen>]].",
        no_finding,
    ),
    Form(
        f"{NOTHING}[[; <_unseen>]]."
        "[[ GPU-bound: computing takes <computing> of <time>, and only fewer or "
        "faster kernels would help.]][[ Computing takes <alone> of <time_alone>: all but faster "
        "kernels could save <rest> at most.]][[ The GPU <does>.]]"
        "[[[[ <together> of the compute time is in elementwise kernels.]] Largest kernels by "
        "compute time: <kernel> (<of_kernel>"
        "[[, <_peak>]])[[, <_others>]].]][[ <hidden> of the communication is hidden.]]"
        "[[ No rank stands out.]]",
        no_finding,
    ),
    Form(
        f"{NOTHING}[[; <_unseen>]]."
        " Computing takes <computing> of <time>, but <pace> is the bottleneck: kernels "
        "that take no time would save <gain>.[[ <together> of the compute time is in elementwise "
        "kernels.]] Largest kernels by compute time: <kernel> "
        "(<of_kernel>[[, <_peak>]])[[, <_others>]].[[ <hidden> of the communication is hidden.]]"
        "[[ No rank stands out.]]",
        paced,
    ),
    Form(
        "Nothing stands out in <phase> steps[[; <_unseen>]], but in <other> steps, <_causes>.[[ "
        "GPU-bound: <_bound>]][[ Computing takes <_computing>]]",
        of_another_phase,
    ),
    Form(
        "Nothing stands out on the chosen ranks; on others: <causes>.",
        only_elsewhere,
    ),
    Form(
        "No cause can be named[[, as calls of the CUDA API are not recorded]]: in <part> of the "
        "critical path, nothing recorded says why work that was ready had to wait.",
        no_cause_told,
    ),
    Form(
        "No cause can be named: most events were taken out of the traces (by their numbers, <left> "
        "of <all> CUDA API calls are left), so what looks idle may have been busy. Open the "
        "original traces.",
        most_taken_out,
    ),
    Form(
        "No cause can be named: a file is merged from several ranks. Open the traces of the ranks "
        "instead.",
        plain(lambda _, whole: any(x.processes > 1 for x in whole.health.ranks.values())),
    ),
    Form(
        "No cause can be named: of the job's GPU work, only copies and memsets were recorded "
        "(<copying>), and no kernels.",
        only_copies,
    ),
    Form(
        "No cause can be named: the GPU is idle for <idle> of <time>, and calls that wait for the "
        "GPU are not recorded.",
        idle_without_waits,
    ),
    Form(
        "The GPU work of <launches> was not recorded[[, though the host waited for it]]: <_how>[[ "
        f"Of <whole> of CPU time in operators{IN_ALL}, <name> takes the most: <time> "
        "(<part>) in <calls>.[[ <_others>]]]]"
        "[[No operators or ranges were recorded, either.]]",
        lost_at_all,
    ),
    Form(
        "CUPTI's range profiler measured <measured> and did not record when they ran: see the tab "
        "CUPTI counters of the dashboard. For the times of kernels, record again without "
        f"profiler_metrics. Of <whole> of CPU time in operators{IN_ALL}, with the "
        "profiler's replays of kernels, <name> takes the most: <time> (<part>) in "
        "<calls>."
        "[[ <_others>]]",
        measured_only,
    ),
    Form(
        "[[No GPU work was recorded]][[The job ran on the CPU]]: <_how> Of <whole> of CPU "
        f"time in operators{IN_ALL}, <name> takes the most: <time> (<part>) in "
        "<calls>."
        "[[ <_others>]]",
        on_the_cpu,
    ),
    Form(
        "No GPU work was recorded: <_how> Collectives run on the CPU for <time> (<part>) of "
        f"<whole>{IN_ALL}, [[most of all]][[all of them]] <name>.",
        in_collectives,
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
