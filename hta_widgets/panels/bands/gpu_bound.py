"""For jobs bound by the GPU: how far from the peak they are, and their largest kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import pandas as pd

from hta_widgets.analyses.roofline import (
    operator_label,
    over_ranks,
    records_shapes,
    roofline,
    roofline_finding,
)
from hta_widgets.analyses.roofline.vendor import words_of
from hta_widgets.analyses.time.rows import records
from hta_widgets.analyses.time.selection import TimeSelection
from hta_widgets.diagnosis import Diagnosis
from hta_widgets.diagnosis.gpu_bound import hide_kernels, kernels_by_name, labels_in_job
from hta_widgets.diagnosis.largest_kernels import percent_of_peaks, products_of
from hta_widgets.panels.base.protocol import Numbers
from hta_widgets.panels.base.table import TableLook, table_view
from hta_widgets.quantities import duration, percent
from hta_widgets.trace.job import Job

_MOST: Final = 5
"""Number of kernels to list."""

LEAST_KNOWN: Final = 0.1
"""Minimum share of the kernel time with a known roof for saying how far it is from that roof: for
a server that replays CUDA graphs, it can be 16 of 10,000 µs."""

SLOWER: Final = 0.8
"""Share of its operator's best rate below which a shape is called slow."""

_LEAST_SHARE: Final = 0.02
"""Minimum share of the kernel time of a slow shape."""

_LOOK: Final = TableLook(
    selects={"kernel": "kernel"},
    labels={
        "share_percent": "of compute",
        "of_peak": "of peak",
        "total_ns": "time",
    },
)


def gpu_bound(job: Job, found: Diagnosis) -> Numbers | None:
    """How far from the peak the GPUs are, and the kernels with the most time.

    None if anything but the GPU is the bottleneck, if the findings would save more than a little,
    or if most kernels are in graphs that were recorded as a whole.
    """
    if found.gpu_bound is None or not found.gpu_bound.finds_little:
        return None
    if hide_kernels(found.gpu_bound.context):
        return None
    ranks, steps = found.ranks, found.gpu_bound.context.steps.marked
    table = largest_kernels(job, ranks, steps)
    if table.empty:
        return None
    look = replace(_LOOK, words=words_of(job))
    names = table["kernel"].tolist()
    labels = dict(zip(names, labels_in_job(job, ranks, names), strict=True))
    shown = table_view(table, look, {**look.names, **labels})
    said = far_from_peak(job, ranks, steps, found.steps.groupby("rank")["period_ns"].sum())
    counted = "in the steps of the verdict" if steps else "in the GPU span"
    return Numbers(label=look.words(said), text=counted, table=shown)


def largest_kernels(job: Job, ranks: Sequence[int], steps: Sequence[int]) -> pd.DataFrame:
    """The compute kernels that take the most time on some ranks, in some steps, longest first.

    ``share_percent`` is of the compute time; ``of_peak`` (text) is the percentage of the FLOP/s or
    of the memory bandwidth, whichever limits products, convolutions and attention of known shapes.
    Columns without any value are left out.
    """
    every = kernels_by_name(job, (*ranks,), (*steps,))
    whole_ns, table = every["gpu_ns"].sum(), every.head(_MOST)
    asked = TimeSelection.of(job, ranks, steps=steps), tuple(table["name"])
    products = [*job.reduce(products_of, ranks, *asked).values()]
    shown = pd.DataFrame(
        {
            "kernel": table["name"],
            "share_percent": 100 * table["gpu_ns"] / max(whole_ns, 1),
            "total_ns": table["gpu_ns"],
            "calls": table["count"],
            "mean_ns": table["gpu_ns"] / table["count"],
            "of_peak": [_of_peak(*percent_of_peaks(products, name)) for name in table["name"]],
            "occupancy_percent": table["occupancy_percent"].where(table["occupancy_percent"] >= 0),
            "tensor_cores": table["tensor_core"].where(table["tensor_core"] != ""),
        }
    )
    return shown.dropna(axis="columns", how="all")


def _of_peak(of_flops: float, of_bandwidth: float) -> str | None:
    """The peak that is known to limit a kernel, and how close it comes; None for neither."""
    if not np.isnan(of_flops):
        return f"{percent(of_flops)} FLOP/s"
    return None if np.isnan(of_bandwidth) else f"{percent(of_bandwidth)} GB/s"


def far_from_peak(
    job: Job, ranks: Sequence[int], steps: Sequence[int], spans_ns: pd.Series[int]
) -> str:
    """MFU, the kernel time in excess of the roof, and a shape that is slower than others.

    Time without a known roof is left to the roofline panel. Without steps, the MFU is over the GPU
    span of each rank, like the verdict's shares.
    """
    found = roofline(job, ranks, steps=steps)
    devices = found.devices
    if not steps:
        span_ns = devices["rank"].map(spans_ns)
        mfu = devices["mfu_percent"] * devices["window_ns"] / span_ns
        devices = devices.assign(mfu_percent=mfu, window_ns=span_ns)
    operators = over_ranks(found.operators)
    known = operators[operators["percent_of_peak"] > 0]
    time = "the GPU span" if not steps else "the step" if len(steps) == 1 else "the steps"
    can_have_shapes = any(records_shapes(job.sources[rank].format) for rank in ranks)
    reached = roofline_finding(
        devices, found.uncounted, can_have_shapes=can_have_shapes, with_rest=False, time=time
    )
    said = [reached]
    # no kernel of a few µs reaches a roof: with copies of 5 µs, 3.26 ms stood beside a line's 2.90
    known = known[known["bound"] != "launch"]
    gpu_ns = float(known["gpu_ns"].sum())
    if gpu_ns > LEAST_KNOWN * found.devices["kernel_ns"].sum():
        at_roof_ns = (known["gpu_ns"] * known["percent_of_peak"].clip(upper=100)).sum() / 100
        said.append(
            f"At their roofline limit, the {duration(gpu_ns)} of kernels with known limits would "
            f"take {duration(gpu_ns - float(at_roof_ns))} less."
        )
    said.append(slow_shape_sentence(known, float(operators["gpu_ns"].sum())))
    return " ".join(each for each in said if each)


def slow_shape_sentence(known: pd.DataFrame, whole_ns: float) -> str:
    """The shape that would save the most at the best rate of its operator with another shape.

    The operators are listed by shape; `whole_ns` is the time of all kernels.
    """
    bound = known[known["bound"] == "compute"]
    best = bound.groupby(["operator", "dtype"])["percent_of_peak"].transform("max")
    reached = bound["percent_of_peak"] / best
    saved_ns = bound["gpu_ns"] * (1 - reached)
    slow = bound.assign(best=best, saved_ns=saved_ns)[
        (reached < SLOWER) & (bound["gpu_ns"] >= _LEAST_SHARE * whole_ns)
    ]
    for row in records(slow.nlargest(1, "saved_ns")):
        return (
            f"{operator_label(row)} reaches {percent(row['percent_of_peak'])} of the peak, "
            f"its best shape {percent(row['best'])}: at that rate it would take "
            f"{duration(row['saved_ns'])} less."
        )
    return ""
