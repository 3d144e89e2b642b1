"""What the kernel breakdown says, in a few sentences."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

import pandas as pd

from hta_widgets.analyses.time.gpu_time import GpuTime, longer_steps
from hta_widgets.names.shorten import short_name
from hta_widgets.quantities import counted, duration, percent
from hta_widgets.trace.model.kernels import KernelType

OVERLAPPING: Final = " overlapping "
"""Between the types of a combination."""

_GRAPHS: Final = "CUDA graphs recorded as a whole (CUDA_GRAPH)"


class KernelTotal(NamedTuple):
    """Time (ns) and launches of a kernel on all ranks."""

    ns: int
    launches: int


def totals_over_ranks(every_kernel: pd.DataFrame) -> dict[tuple[str, str], KernelTotal]:
    """Total of each kernel by its type and name, in order of its first row."""
    totals: dict[tuple[str, str], KernelTotal] = {}
    names = ("kernel_type", "name", "sum_ns", "count")
    for kernel_type, name, ns, launches in zip(
        *(every_kernel[each].tolist() for each in names), strict=True
    ):
        before = totals.get((kernel_type, name), KernelTotal(0, 0))
        totals[kernel_type, name] = KernelTotal(before.ns + ns, before.launches + launches)
    return totals


def kernel_breakdown_finding(
    types: pd.DataFrame,
    every_kernel: pd.DataFrame,
    times: Iterable[GpuTime],
    *,
    has_names: bool,
    place: str,
) -> str:
    """Say which type and which kernel take the most time.

    Parameters
    ----------
    types, every_kernel : DataFrame
        Of a `KernelBreakdown`.
    times : iterable of GpuTime
        Of all GPUs.
    has_names : bool
        The kernels have names of their own.
    place : str
        Where they ran, such as ``on the selected ranks``.
    """
    top = _kernel_finding(every_kernel) if has_names and not types.empty else ""
    return f"{_type_finding(types, every_kernel, place)}{top}{_over_steps(times)}"


def _type_finding(types: pd.DataFrame, every_kernel: pd.DataFrame, place: str) -> str:
    if every_kernel.empty:
        return f"No kernels were recorded {place}."
    if types.empty:
        names = counted(len(totals_over_ranks(every_kernel)), "kernel")
        return f"The {names} {place} took 0 ns."
    leading, percentage = types["kernel_type"].iloc[0], types["percentage"].iloc[0]
    alone = " alone" if len(types) > 1 and OVERLAPPING not in leading else ""
    graphs = leading == KernelType.CUDA_GRAPH.name
    takes = f"{_GRAPHS}{alone} take" if graphs else f"{leading}{alone} takes"
    return f"{takes} {percent(percentage)} of the busy time."


def _kernel_finding(every_kernel: pd.DataFrame) -> str:
    """Sentence on the kernel, copy or memset that takes the most time."""
    by_kernel = totals_over_ranks(every_kernel)
    kernel_type, name = max(by_kernel, key=lambda kernel: by_kernel[kernel].ns)
    top = by_kernel[kernel_type, name]
    share = percent(100 * top.ns / sum(each.ns for each in by_kernel.values()))
    spent = f"{duration(top.ns)} in {counted(top.launches, 'launch', 'launches')}"
    memory, graph = KernelType.MEMORY.name, KernelType.CUDA_GRAPH.name
    whole = _whole_time({each for each, _ in by_kernel})
    if kernel_type == graph:
        return f" {short_name(name)} takes {share} of the {whole}: {spent}."
    noun = "operation" if kernel_type == memory else "kernel"
    return (
        f" The top {noun}, {short_name(name)} ({kernel_type}), takes {share} of the {whole}: "
        f"{spent}."
    )


def _whole_time(kernel_types: Collection[str]) -> str:
    """What the times of all rows add up to."""
    rows = [
        "kernels",
        *(["graphs"] if KernelType.CUDA_GRAPH.name in kernel_types else []),
        *(["copies", "memsets"] if KernelType.MEMORY.name in kernel_types else []),
    ]
    if rows == ["kernels"]:
        return "kernel time"
    return f"time of {', '.join(rows[:-1])} and {rows[-1]}"


def _over_steps(times: Iterable[GpuTime]) -> str:
    """Sentence on the busy time where the analysed time lasts longer than the GPU span."""
    total = longer_steps(times)
    if total is None:
        return ""
    return (
        f" The busy time is {percent(100 * total.busy_ns / total.span_ns)} of the GPU span "
        f"({duration(total.span_ns)}), but "
        f"{percent(100 * total.steps_busy_ns / total.steps_ns)} of the analysed time "
        f"({duration(total.steps_ns)})."
    )
