"""What the GPUs do if no cause is found, and the kernels that take most of the time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from hta_widgets.analyses.roofline.formulas import COMPUTING
from hta_widgets.analyses.time.calls import calls_of
from hta_widgets.analyses.time.rows import records
from hta_widgets.analyses.time.selection import TimeSelection, selected_work
from hta_widgets.diagnosis.context import Context
from hta_widgets.diagnosis.facts.compute_facts import (
    HALF_TYPES,
    MULTIPLE,
    kind_of_operator,
    least_ns_of,
)
from hta_widgets.diagnosis.facts.gpus import gpu_of
from hta_widgets.diagnosis.facts.kernel_facts import as_called, operators_of
from hta_widgets.diagnosis.fine import hidden_communication, ranks_alike
from hta_widgets.diagnosis.gpu_bound import (
    has_few_blocks,
    kernels_by_name,
    kernels_in,
    labels_in_job,
)
from hta_widgets.diagnosis.replay.critical_path import OF_GPU
from hta_widgets.diagnosis.replay.edits import ShorterOperations
from hta_widgets.diagnosis.rules.unfused_elementwise import elementwise_share
from hta_widgets.diagnosis.rules.wording import named
from hta_widgets.intervals import Intervals
from hta_widgets.quantities import duration, percent
from hta_widgets.trace.model.kernels import KernelType
from hta_widgets.trace.ranks.gpu_work import GpuWork
from hta_widgets.trace.ranks.rank import Rank

COMPUTES_PERCENT: Final = 90.0
"""Share of the time (%) in which the GPUs compute above which nothing else is worth a look."""

LEAST_PERCENT: Final = 1.0
"""Share of the time (%) above which an activity of the GPUs is mentioned."""

IDLE_PERCENT: Final = 50.0
"""Share of the time (%) above which kernels that leave most multiprocessors without a block stand
out together: of one thread that kept an A100 for 51 s, nothing did. Of two that took turns for
99.8 % of 21 s, only one counted, with 76.5 %."""

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
    if share["compute"] >= COMPUTES_PERCENT:
        takes = f"computing takes {percent(share['compute'])} of {whole}"
        does = _computes(context, takes, percent(100 - share["compute"]))
    else:
        said = [
            f"{does} for {percent(share[name])}{_copied(context) if name == 'copy' else ''}"
            for name, does in _DOES.items()
            if share[name] >= LEAST_PERCENT
        ]
        said[0] += f" of {whole}"
        does = f" The GPU {' and '.join(filter(None, (', '.join(said[:-1]), said[-1])))}."
    largest = _largest(context) if context.has_names else ""
    fine = (hidden_communication(context), ranks_alike(context))
    return f"{does}{largest}{''.join(f' {each[0].upper()}{each[1:]}.' for each in fine if each)}"


def on_few_multiprocessors(context: Context) -> str:
    """Name the kernels that run alone on few multiprocessors for most of the time; or nothing.

    Launches that run at the same time may use the other multiprocessors.
    """
    kernels = records(kernels_by_name(context.job, context.ranks, context.steps.marked))
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


def _copied(context: Context) -> str:
    """The kind of copies that has most of the copy-only time, in brackets.

    One rank had 774 copies within its GPU in each step, 14 % of it, and nothing said what kind.
    """
    alone_ns: Counter[str] = Counter()
    for of_rank in context.job.reduce(_copying_ns, context.ranks, context.selection).values():
        alone_ns.update(of_rank)
    name = max(alone_ns, key=lambda each: alone_ns[each], default="")
    return f" ({named(name)})" if name else ""


def _copying_ns(rank: Rank, selection: TimeSelection | None) -> dict[str, int]:
    """Time in which only copies run, by name of the copies."""
    work = GpuWork.joined(selected_work(rank, selection).values())
    is_copy = work.type == KernelType.MEMORY
    busy = Intervals.union(work.start_ns[~is_copy], work.end_ns[~is_copy])
    found = {}
    for code in np.unique(work.name[is_copy]):
        own = work.name == code
        copies = Intervals.union(work.start_ns[own], work.end_ns[own])
        found[work.names[code]] = int((copies - busy).length)
    return found


def _computes(context: Context, takes: str, rest: str) -> str:
    """Say by replay whether faster kernels would help; if that is not known, what else could.

    If a host launches each kernel only after the previous one has ended, even 400 kernels that take
    99 % of the time gain nothing.
    """
    if context.health.lacks_waits or not context.has_names:
        said = f"{takes[0].upper()}{takes[1:]}"
        return f" {said}: anything but faster kernels could save at most {rest}."
    pace = next(iter(context.replay.shares), OF_GPU)
    if pace == OF_GPU:
        return f"{GPU_BOUND} {takes}, and only fewer or faster kernels would help."
    weights, computes = context.replay.job.weights, context.replay.job.is_computing
    none = ShorterOperations(np.where(computes, weights.duration, 0.0))
    gain_ns = context.replay.gain_ns((none,), context.steps.numbers)
    return (
        f" {takes[0].upper()}{takes[1:]}, but {pace} sets the pace: kernels that take no time "
        f"would save {duration(gain_ns)}."
    )


def _largest(context: Context) -> str:
    """Name the kernels that take most of the compute time; empty without any."""
    total_ns: Counter[str] = Counter()
    selection = context.selection
    for of_rank in context.job.reduce(_computing_ns, context.ranks, selection).values():
        total_ns.update(of_rank)
    whole_ns = sum(total_ns.values())
    largest = total_ns.most_common(_NAMED)
    names = tuple(name for name, _ in largest)
    products = [*context.job.reduce(products_of, context.ranks, selection, names).values()]
    labels = labels_in_job(context.job, context.ranks, names)
    said = [
        f"{label} ({percent(100 * ns / whole_ns)}{_rate(products, name)})"
        for label, (name, ns) in zip(labels, largest, strict=False)
    ]
    if not said:
        return ""
    together = elementwise_share(context, context.ranks)
    # 736 elementwise kernels of a prefill took 55 %
    is_most = together > 100 * largest[0][1] / whole_ns
    first = f" {percent(together)} of the compute time is in elementwise kernels." * is_most
    return f"{first} Largest kernels by compute time: {', '.join(said)}."


def _rate(products: Sequence[Mapping[str, Product]], name: str) -> str:
    """Say after a comma how close a kernel comes to the peak; empty if that is not known."""
    reached = percent_of_peak(products, name)
    if np.isnan(reached):
        return ""
    of_ranks = (each[name] for each in products if name in each)
    uneven = next((each.uneven for each in of_ranks if each.uneven), "")
    why = f", {uneven} is not a multiple of {MULTIPLE}" if uneven else ""
    return f", {percent(reached)} of its peak{why}"


def percent_of_peak(products: Sequence[Mapping[str, Product]], name: str) -> float:
    """Time of a kernel's products at peak rate, in percent of their time; NaN if unknown."""
    of_ranks = [each[name] for each in products if name in each]
    gpu_ns = sum(each.gpu_ns for each in of_ranks)
    least_ns = sum(each.least_ns for each in of_ranks)
    return 100 * least_ns / gpu_ns if 0 < least_ns <= gpu_ns else np.nan


class Product(NamedTuple):
    """Kernels of one name that multiply matrices."""

    gpu_ns: float
    least_ns: float
    """Their time, and the time that they would take at the GPU's peak."""
    uneven: str
    """A dimension that is not a multiple of `MULTIPLE`, for 16-bit types."""


def products_of(
    rank: Rank, selection: TimeSelection | None, names: tuple[str, ...]
) -> dict[str, Product]:
    """Kernels by name, if all are products of known shapes on a GPU with a known peak."""
    gpu = gpu_of(rank.trace.metadata, rank.gpu_work.main_device)
    if gpu.peak is None:
        return {}
    found, every = {}, kernels_in(rank, selection, names.__contains__)
    for name in names:
        own = every.take(np.flatnonzero(every.named(name.__eq__)))
        caller, kernels = as_called(rank, own)
        operators = operators_of(calls_of(caller), kernels, COMPUTING.get)
        kinds = [kind_of_operator(*each) for each in operators.kinds]
        calls, first = np.unique(operators.place, return_index=True)
        least_ns = np.array([least_ns_of(each, name, gpu.peak) for each in kinds])
        of_calls = least_ns[operators.kind[first]]
        if calls.size and calls[0] >= 0 and (of_calls > 0).all():
            uneven = next((each.uneven for each in kinds if each.type in HALF_TYPES), "")
            found[name] = Product(float(kernels.duration_ns.sum()), float(of_calls.sum()), uneven)
    return found


def _computing_ns(rank: Rank, selection: TimeSelection | None) -> dict[str, int]:
    """Total duration of the computing kernels, by name."""
    work = GpuWork.joined(selected_work(rank, selection).values())
    chosen = np.flatnonzero(work.type == KernelType.COMPUTATION)
    sums = np.zeros(len(work.names), dtype=np.int64)
    np.add.at(sums, work.name[chosen], work.duration_ns[chosen])
    return {work.names[code]: int(sums[code]) for code in np.flatnonzero(sums).tolist()}
