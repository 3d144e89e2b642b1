"""What the GPUs do if no cause is found, and the kernels that take most of the time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from hta_widgets.analyses.roofline import operators_by_shape
from hta_widgets.analyses.roofline.counted import counted_kernels
from hta_widgets.analyses.roofline.peaks import devices_of
from hta_widgets.analyses.time.rows import records
from hta_widgets.analyses.time.selection import TimeSelection, selected_work
from hta_widgets.diagnosis.context import Context
from hta_widgets.diagnosis.facts.compute_facts import HALF_TYPES, MULTIPLE, operator_cost
from hta_widgets.diagnosis.fine import hidden_communication, ranks_alike
from hta_widgets.diagnosis.gpu_bound import (
    has_few_blocks,
    hide_kernels,
    kernels_by_name,
    labels_in_job,
    whole_graphs_ns,
)
from hta_widgets.diagnosis.replay.critical_path import THE_GPU
from hta_widgets.diagnosis.replay.edits import ShorterOperations
from hta_widgets.grouping import grouped
from hta_widgets.intervals import Intervals
from hta_widgets.quantities import capitalised, duration, percent
from hta_widgets.trace.model.kernels import KernelType
from hta_widgets.trace.ranks.gpu_work import GpuWork
from hta_widgets.trace.ranks.rank import Rank
from hta_widgets.trace.ranks.replayed_calls import with_replayed_calls

COMPUTES_PERCENT: Final = 90.0
"""Share of the time (%) in which the GPUs compute above which nothing else is worth a look."""

LEAST_PERCENT: Final = 1.0
"""Share of the time (%) above which an activity of the GPUs is mentioned."""

IDLE_PERCENT: Final = 50.0
"""Share of the time (%) above which kernels that leave most multiprocessors without a block stand
out together: of one thread that kept an A100 for 51 s, nothing did."""

GPU_BOUND: Final = " GPU-bound:"
"""How the words begin if only fewer or faster kernels would help."""

_NAMED: Final = 3

_PARTS: Final = {
    "compute": ("compute",),
    "communicate": ("transfer", "transfer_p2p", "undivided", "wait", "wait_p2p"),
    "copy": ("memory",),
    "idle": ("idle",),
}

_DOES: Final = {
    "compute": "computes",
    "communicate": "only communicates",
    "copy": "only copies",
    "idle": "is idle",
}


def what_gpus_do(context: Context) -> str:
    """Say how the GPUs spend their time, in which kernels, and how much communication is hidden.

    The parts of a step are those of its budget with at least `LEAST_PERCENT`. The share of a kernel
    is its duration divided by that of all computing kernels. Its percentage of the peak is the time
    that its products would take at the GPU's peak rates, divided by its duration.
    """
    period_ns = context.steps["period"].sum()
    if not period_ns:
        return ""
    share = {
        name: 100 * sum(context.steps[each].sum() for each in parts) / period_ns
        for name, parts in _PARTS.items()
    }
    whole = "each step" if context.steps.are_recorded else "the GPU span"
    if hide_kernels(context):
        taken = percent(min(100 * float(whole_graphs_ns(*context.analysed).sum()) / period_ns, 100))
        return (
            " CUDA graphs that were recorded as a whole, without their kernels, take "
            f"{taken} of {whole}: what they do is not known."
        )
    if share["compute"] >= COMPUTES_PERCENT:
        takes = f"computing takes {percent(share['compute'])} of {whole}"
        does = _computes(context, takes, percent(100 - share["compute"]))
    else:
        said = [
            f"{does} for {percent(share[name])}"
            for name, does in _DOES.items()
            if share[name] >= LEAST_PERCENT
        ]
        said[0] += f" of {whole}"
        does = f" The GPU {' and '.join(filter(None, (', '.join(said[:-1]), said[-1])))}."
    largest = _largest(context) if context.has_names else ""
    fine = (hidden_communication(context), ranks_alike(context))
    return f"{does}{largest}{''.join(f' {capitalised(each)}.' for each in fine if each)}"


def on_few_multiprocessors(context: Context) -> str:
    """Name the kernels that run alone on few multiprocessors for most of the time; or nothing.

    Launches that run at the same time may use the other multiprocessors.
    """
    kernels = records(kernels_by_name(*context.analysed))
    few = [each for each in kernels if has_few_blocks(each)]
    period_ns = max(context.steps["period"].sum(), 1)
    asked = context.selection, tuple(each["name"] for each in few)
    alone_ns = sum(context.job.reduce(_alone_ns, context.ranks, *asked).values())
    share = 100 * alone_ns / period_ns
    if share <= IDLE_PERCENT:
        return ""
    most = [each for each in few if 100 * each["gpu_ns"] >= LEAST_PERCENT * period_ns]
    first, *others = labels_in_job(context.job, context.ranks, [each["name"] for each in most])
    who = f"{first} and {others[0] if len(others) == 1 else f'{len(others)} others'}"
    least, blocks = min(each["blocks"] for each in most), max(each["blocks"] for each in most)
    is_one = blocks == 1 == max(each["threads"] for each in most)
    return (
        f"{f'{who} use' if others else f'{first} uses'} {'only' if least == blocks else 'at most'} "
        f"{blocks:,} of {most[0]['sms']:,} multiprocessors{', and one thread of it' * is_one}, for "
        f"{percent(share)} of {'each step' if context.steps.are_recorded else 'the GPU span'}"
    )


def _alone_ns(rank: Rank, selection: TimeSelection | None, names: Sequence[str]) -> int:
    """Time in which a single launch of some kernels runs, and no other kernel."""
    work = GpuWork.joined(selected_work(rank, selection).values())
    is_own = work.named(names.__contains__) & (work.type == KernelType.COMPUTATION)
    is_other = ~is_own & (work.type != KernelType.MEMORY)
    own = Intervals.union(work.start_ns[is_own], work.end_ns[is_own])
    others = Intervals.union(work.start_ns[is_other], work.end_ns[is_other])
    at_once_ns = int(work.duration_ns[is_own].sum()) - int(own.length)
    return max(int((own - others).length) - at_once_ns, 0)


def _computes(context: Context, takes: str, rest: str) -> str:
    """Say by replay whether faster kernels would help; if that is not known, what else could.

    If a host launches each kernel only after the previous one has ended, even 400 kernels that take
    99 % of the time gain nothing.
    """
    if context.health.lacks_waits or not context.has_names:
        said = capitalised(takes)
        return f" {said}: anything but faster kernels could save at most {rest}."
    pace = next(iter(context.replay.shares), THE_GPU)
    if pace == THE_GPU:
        return f"{GPU_BOUND} {takes}, and only fewer or faster kernels would help."
    weights, computes = context.replay.job.weights, context.replay.job.is_computing
    none = ShorterOperations(np.where(computes, weights.duration, 0.0))
    gain_ns = context.replay.gain_ns((none,), context.steps.numbers)
    return (
        f" {capitalised(takes)}, but {pace} is the bottleneck: kernels that take no time "
        f"would save {duration(gain_ns)}."
    )


def _largest(context: Context) -> str:
    """Name the kernels that take most of the compute time; empty without any."""
    kernels = kernels_by_name(*context.analysed)
    percents = 100 * kernels["gpu_ns"] / kernels["gpu_ns"].sum()
    names = tuple(kernels["name"][:_NAMED])
    if not names:
        return ""
    asked = context.selection, names
    products = [*context.job.reduce(products_of, context.ranks, *asked).values()]
    labels = labels_in_job(context.job, context.ranks, names)
    said = [
        f"{label} ({percent(share)}{_rate(products, name)})"
        for label, share, name in zip(labels, percents, names, strict=False)
    ]
    together = context.computing_share("elementwise", context.ranks)
    first = ""
    if together > percents[0]:  # 736 elementwise kernels of a prefill took 55 %
        first = f" {percent(together)} of the compute time is in elementwise kernels."
    return f"{first} Largest kernels by compute time: {', '.join(said)}."


def _rate(products: Sequence[Mapping[str, Product]], name: str) -> str:
    """Say after a comma how close a kernel comes to the peak; empty if that is not known."""
    of_peak, of_bandwidth = percent_of_peaks(products, name)
    if np.isnan(of_peak) and np.isnan(of_bandwidth):
        return ""
    of_ranks = (each[name] for each in products if name in each)
    uneven = next((each.uneven for each in of_ranks if each.uneven), "")
    why = f", {uneven} is not a multiple of {MULTIPLE}" if uneven else ""
    if np.isnan(of_peak):
        return f", {percent(of_bandwidth)} of the memory bandwidth{why}"
    return f", {percent(of_peak)} of its peak{why}"


def percent_of_peaks(products: Sequence[Mapping[str, Product]], name: str) -> tuple[float, float]:
    """Time of a kernel's products at peak FLOP/s, or else at the memory bandwidth, in percent.

    What does not limit them is NaN, and so is what is not known: 57.1 % of the bandwidth stood in
    the column of 44.9 % of the FLOP/s.
    """
    of_ranks = [each[name] for each in products if name in each]
    gpu_ns, least_ns, computing_ns = (
        sum(getattr(each, field) for each in of_ranks)
        for field in ("gpu_ns", "least_ns", "computing_ns")
    )
    if not 0 < least_ns <= gpu_ns:
        return np.nan, np.nan
    reached = 100 * least_ns / gpu_ns
    return (reached, np.nan) if 2 * computing_ns >= least_ns else (np.nan, reached)


MOST_OF_CALLS: Final = 0.5
"""Least fraction of the time of its products that a kernel must take for their rate to be its own:
transposes before a convolution do not compute."""


class Product(NamedTuple):
    """Kernels of one name that multiply matrices, convolve or attend."""

    gpu_ns: int
    least_ns: float
    """Their time, and the time that they would take at the GPU's peaks."""
    computing_ns: float
    """The part of the latter that is limited by FLOP/s, not by the memory bandwidth."""
    uneven: str
    """A dimension that is not a multiple of `MULTIPLE`, for 16-bit types."""


def products_of(
    rank: Rank, selection: TimeSelection | None, names: tuple[str, ...]
) -> dict[str, Product]:
    """Kernels by name, if all are in products of known shapes on a GPU with a known peak."""
    devices = devices_of(rank.trace.metadata)
    if not any(each.peak for each in devices.values()):
        return {}
    rank, found = with_replayed_calls(rank), {}
    kernels = counted_kernels(rank, selection)
    for code, name in enumerate(kernels.texts[0]):
        chosen = np.flatnonzero(kernels.kernel == code) if name in names else np.zeros(0, np.int64)
        own = kernels.take(chosen)
        calls = grouped(own.device, own.place)
        is_most = own.duration_ns.sum() >= MOST_OF_CALLS * own.call_ns[calls.first].sum()
        if not chosen.size or (own.cost < 0).any() or not is_most:
            continue
        rows = operators_by_shape(rank, own, devices)
        if not all(row["flop"] and row["bound"] in ("compute", "memory") for row in rows):
            continue
        least_ns = [row["percent_of_peak"] * row["gpu_ns"] / 100 for row in rows]
        computes = [row["bound"] == "compute" for row in rows]
        halves = [row for row in rows if row["dtype"] in HALF_TYPES]
        shapes = [(row["operator"], row["input_dims"], row["input_types"]) for row in halves]
        found[name] = Product(
            gpu_ns=sum(row["gpu_ns"] for row in rows),
            least_ns=sum(least_ns),
            computing_ns=sum(each for each, own in zip(least_ns, computes, strict=True) if own),
            uneven=next(filter(None, (operator_cost(*each).uneven for each in shapes)), ""),
        )
    return found
