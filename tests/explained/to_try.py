"""What to try where the GPU is the bottleneck: sentences from tables of other panels."""

from __future__ import annotations

from typing import Final

import pandas as pd

from hta_widgets.analyses import kernel_breakdown, roofline, server_steps
from hta_widgets.analyses.roofline.formulas import MOVING
from hta_widgets.analyses.time.selection import TimeSelection
from hta_widgets.analyses.time.tensor_cores import is_product
from hta_widgets.diagnosis import Diagnosis, Finding
from hta_widgets.diagnosis.gpu_bound import kernels_in
from hta_widgets.quantities import counted, data_size, duration
from tests.explained.costs import COST, cost_of
from tests.explained.forms import Form, Texts, share


def steps_of(whole: Diagnosis) -> list[int]:
    """Numbers of the ProfilerSteps that count; empty without any."""
    numbers = sorted({*whole.steps["step"]})
    return [] if numbers == [-1] else numbers


def _times(whole: Diagnosis):
    table = kernel_breakdown(whole.job, whole.ranks, steps=steps_of(whole)).every_kernel
    return table.groupby(["name", "kernel_type"], observed=True)[["sum_ns", "count"]].sum()


def lengths_of(whole: Diagnosis, name: str) -> pd.Series:
    """How long each launch of a kernel takes, of those that are at least partly in the steps."""
    selection = TimeSelection.of(whole.job, whole.ranks, steps=steps_of(whole))
    ranks = map(whole.job.rank, whole.ranks)
    found = [kernels_in(rank, selection, name.__eq__).duration_ns for rank in ranks]
    return pd.concat(map(pd.Series, found))


def many(count: int, lengths_ns: pd.Series) -> str:
    typical = duration(lengths_ns.median())
    return f"{count:,} launches, median {typical}" if count > 1 else f"1 launch of {typical}"


def of_products(found: Finding, whole: Diagnosis) -> Texts:
    rows = found.evidence["products"]
    table = roofline(whole.job, whole.ranks, steps=steps_of(whole))
    gpu_ns = 1e6 * rows["gpu_ms"].sum()
    reached = (rows["gpu_ms"] * rows["percent_of_peak"]).sum() / rows["gpu_ms"].sum()
    return {
        "part": share(gpu_ns, table.devices["kernel_ns"].sum()),
        "reached": share(reached, 100),
    }


def large(found: Finding, whole: Diagnosis) -> Texts:
    most = found.evidence["products"].iloc[0]
    return of_products(found, whole) | {
        "kind": most["dtype"],
        "most": share(most["percent_of_peak"], 100),
    }


def waiting(found: Finding, whole: Diagnosis) -> Texts:
    weights = {"weights": data_size(found.evidence["weight_bytes"])}
    return of_products(found, whole) | weights | cost_of(found, whole)


def attending(found: Finding, whole: Diagnosis) -> Texts:
    return {name: text for name, text in large(found, whole).items() if name != "kind"}


def few_requests(_: Finding, whole: Diagnosis) -> Texts:
    steps = server_steps(whole.job, whole.ranks).steps
    times = _times(whole).xs("COMPUTATION", level="kernel_type")["sum_ns"]
    products = [is_product(name) for name in times.index.get_level_values("name")]
    return {
        "requests": counted(round(steps["generation_requests"].median()), "request"),
        "part": share(times[products].sum(), times.sum()),
    }


def moving(_: Finding, whole: Diagnosis) -> Texts:
    table = roofline(whole.job, whole.ranks, steps=steps_of(whole))
    every = pd.concat([table.operators, table.uncounted])
    by_operator = every[every["operator"].isin(MOVING)].groupby("operator")["gpu_ns"].sum()
    kernel_ns = table.devices["kernel_ns"].sum()
    most = by_operator.sort_values(ascending=False, kind="stable")[:3]
    return {
        "part": share(by_operator.sum(), kernel_ns),
        "most": ", ".join(f"{name} {share(ns, kernel_ns)}" for name, ns in most.items()),
    }


def one_row(_: Finding, whole: Diagnosis) -> Texts:
    times = _times(whole).xs("COMPUTATION", level="kernel_type")
    own = times[times.index.get_level_values("name").str.contains("gemv")]
    return {
        "part": share(own["sum_ns"].sum(), times["sum_ns"].sum()),
        "launches": counted(own["count"].sum(), "launch", "launches"),
    }


def of_experts(_: Finding, whole: Diagnosis) -> Texts:
    times = _times(whole).xs("COMPUTATION", level="kernel_type")
    names = times.index.get_level_values("name")
    is_own = names.str.contains("moe|matmul_ogs|matmul_scatter") & ~names.str.startswith("triton_")
    own = times[is_own].sort_values("sum_ns", ascending=False)
    lengths_ns = [lengths_of(whole, name) for name in own.index]
    together = many(own["count"].sum(), pd.concat(lengths_ns))
    each = [
        f"{count:,} with a median of {duration(lengths.median())}"
        for count, lengths in zip(own["count"], lengths_ns, strict=True)
    ]
    few = f"{counted(own['count'].sum(), 'launch', 'launches')}: {', '.join(each)}"
    return {
        "part": share(own["sum_ns"].sum(), times["sum_ns"].sum()),
        "launches": few if 1 < len(own) <= 3 else together,
    }


def older(_: Finding, whole: Diagnosis) -> Texts:
    times = _times(whole).xs("COMPUTATION", level="kernel_type")["sum_ns"]
    is_flash = times.index.get_level_values("name").str.contains("flash_(?:fwd|bwd).*_kernel")
    return {"part": share(times[is_flash].sum(), times.sum())}


def within_gpu(found: Finding, whole: Diagnosis) -> Texts:
    copies = _times(whole).xs("MEMORY", level="kernel_type").filter(like="DtoD", axis="index").sum()
    steps = whole.steps
    return {
        "copies": counted(round(copies["count"] / len(steps)), "copy", "copies"),
        "time": duration(copies["sum_ns"] / len(steps)),
        "part": share(copies["sum_ns"], steps["period_ns"].sum()),
    } | (cost_of(found, whole) if found.recoverable_ms else {})


def largest(found: Finding, whole: Diagnosis) -> Texts:
    times = _times(whole).xs("COMPUTATION", level="kernel_type")
    most = times.nlargest(1, "sum_ns")
    (name,), (ns,), (count,) = most.index, most["sum_ns"], most["count"]
    assert found.links[0].kernel == name
    lengths_ns = lengths_of(whole, name)
    long_ns = lengths_ns[lengths_ns > 5 * lengths_ns.median()]
    is_long = len(long_ns) and long_ns.sum() >= 0.25 * lengths_ns.sum()
    uncounted = roofline(whole.job, whole.ranks, steps=steps_of(whole)).uncounted
    in_graphs = uncounted[uncounted["reason"] == "in CUDA graphs"]["share_percent"].sum()
    return {
        "part": share(ns, times["sum_ns"].sum()),
        "launches": many(count, lengths_ns),
        "longest": duration(long_ns.min()) if is_long else None,
        "of_it": share(long_ns.sum(), lengths_ns.sum()) if is_long and len(long_ns) > 1 else None,
        "in_graphs": share(in_graphs, 100) if in_graphs > 50 else None,
    }


def around_lambdas(_: Finding, whole: Diagnosis) -> Texts:
    times = _times(whole).xs("COMPUTATION", level="kernel_type")
    before = [name.partition("(")[0].rpartition("<")[2] for name in times.index]
    sums = times.groupby(before).sum()
    own = times[[each == sums["sum_ns"].idxmax() for each in before]]
    assert all("::[lambda(" in name or "::{lambda(" in name for name in own.index)
    return {
        "kernels": f"{len(own)}",
        "_function": sums["sum_ns"].idxmax(),
        "part": share(own["sum_ns"].sum(), times["sum_ns"].sum()),
        "launches": many(
            own["count"].sum(), pd.concat([lengths_of(whole, name) for name in own.index])
        ),
    }


FORMS_TO_TRY: Final = {
    "large_products": [
        Form(
            "<kind> matrix products take <part> of the kernel time and reach <reached> of the "
            "peak; the longest, <_most>, reaches <most>[[; <_size> is not a multiple of 8]].",
            large,
        ),
    ],
    "few_rows": [
        Form(
            "Matrix products of at most <_rows> rows take <part> of the kernel time, reading "
            "<weights> of weights[[ per step]][[ per <_phase> step]] at <reached> of the memory "
            f"bandwidth; up to <_until> rows cost little more[[; faster kernels save time]]{COST}",
            waiting,
        ),
        Form(
            "Each step decodes for <requests>, and matrix products take <part> of the compute "
            "time: they read all weights, however few the rows.",
            few_requests,
        ),
        Form(
            "Products of a matrix and a vector (GEMV) take <part> of the compute time "
            "(<launches>): each reads its whole matrix for one row, as in decoding a single "
            "sequence.",
            one_row,
        ),
    ],
    "memory_bound": [
        Form(
            "Operators that only read and write memory take <part> of the kernel time, most in "
            "<most>.",
            moving,
        ),
    ],
    "attention": [
        Form(
            "Fused attention takes <part> of the kernel time and reaches <reached> of the peak; "
            "the longest, <_where>, reaches <most>.",
            attending,
        ),
        Form(
            "FlashAttention-2 takes <part> of the compute time; it was made for [[GPUs before "
            "compute capability <_version>]][[older GPUs than this one]].",
            older,
        ),
    ],
    "experts": [
        Form(
            "Kernels of experts take <part> of the compute time (<launches>).",
            of_experts,
        ),
    ],
    "device_copies": [
        Form(
            "<copies> within the GPU take <time> of [[each step]][[the GPU span]] (<part>)"
            "[[, all of it in <_operator>]][[, <_part> of it in <_operator>]]"
            f"[[, <_graphs> of them for what CUDA graphs read and return{COST}]][[.]]",
            within_gpu,
        ),
    ],
    "largest_kernel": [
        Form(
            "<_name> is the largest kernel, with <part> of the compute time (<launches>"
            "[[, one of <longest>]][[, <of_it> of it in <_few> of <longest> or more]]"
            "[[, on tensor cores]][[, without tensor cores]]"
            "[[, <_occupancy> occupancy]]"
            "[[, <_occupancy> occupancy, as <_fit> on a multiprocessor with <_size>]]"
            "[[, <_blocks> of <_sms> multiprocessors]][[, <_threads> in each block]])"
            "[[, all of it in <_operator>]][[, <_part> of it in <_operator>]]"
            "[[; <in_graphs> of the kernel time is in CUDA graphs, without shapes]].",
            largest,
        ),
        Form(
            "<kernels> kernels around lambdas of <_function> take <part> of the compute time "
            "(<launches>).",
            around_lambdas,
        ),
    ],
}
