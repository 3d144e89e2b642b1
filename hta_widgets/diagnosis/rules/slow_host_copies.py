"""Copies between host and device hold up the GPU."""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import pandas as pd

from hta_widgets.analyses.time import patterns
from hta_widgets.diagnosis.cause import cause
from hta_widgets.diagnosis.context import Context
from hta_widgets.diagnosis.facts.conditions import Condition
from hta_widgets.diagnosis.facts.gap_owners import COPY_PATTERNS
from hta_widgets.diagnosis.facts.host_facts import CopiesOfName
from hta_widgets.diagnosis.finding import NEARLY, Advice, Finding, Link
from hta_widgets.diagnosis.proof.what import ExposedCopies
from hta_widgets.diagnosis.replay.edits import WithoutCopies
from hta_widgets.diagnosis.rules.host_evidence import innermost_within
from hta_widgets.diagnosis.rules.wording import in_steps, named, part_of_it, subject
from hta_widgets.quantities import NS_PER_MS, data_size, number
from hta_widgets.trace.model.kernels import KernelType
from hta_widgets.trace.ranks.rank import Rank

_OF_HOST: Final = re.compile(f"{patterns.HOST_TO_DEVICE.pattern}|{patterns.DEVICE_TO_HOST.pattern}")

TOLD: Final = 0.9
"""Part of the exposed time that the named copies have together, if not all are named. Of 425 ms,
738 MB at 2.58 GB/s took 286; the rest, 537 MB to the GPU, was less than 2 % of a span of 6.51 s."""


FEWEST_PARAMETERS: Final = 4
"""Copies before the first kernel that may be those of a model: a single one of 77 MB was the first
batch of a DataLoader, and the advice was to start the recording after it."""

_NEED_NO_COPY: Final = {Condition.BEFORE_KERNELS, Condition.THERE_AND_BACK}
"""What is copied once, or comes back, need not be copied at all, from whatever memory."""


@cause(
    seen_in="copies",
    limit="least_percent_with_evidence",
    makes_others_wait=True,
    when="Copies between host and GPU run with no kernel at the same time, for more than 2 % of "
    "the step.",
    advice=(
        Advice(
            "If the program copies its model once, start the recording after that; to start "
            "sooner, make the model on the GPU.",
            'with torch.device("cuda"):\n    model = Model(config)',
            needs=(Condition.BEFORE_KERNELS,),
            unless=(Condition.THERE_AND_BACK, Condition.NO_PYTORCH),
        ),
        Advice(
            "Keep data on the GPU instead of copying it there and back for each kernel.",
            needs=(Condition.NO_PYTORCH, Condition.THERE_AND_BACK),
        ),
        Advice(
            "Keep data on the GPU instead of copying it to the host and back: do there what the "
            "host does with it.",
            'model = model.to("cuda")  # before the optimizer is made',
            needs=(Condition.THERE_AND_BACK,),
            unless=(Condition.NO_PYTORCH,),
        ),
        Advice(
            "Allocate pinned host memory, and copy without waiting.",
            "cudaMallocHost(&host, bytes);  // instead of malloc\n"
            "cudaMemcpyAsync(device, host, bytes, cudaMemcpyDefault, stream);",
            needs=(Condition.NO_PYTORCH, Condition.PAGEABLE),
        ),
        Advice(
            "Copy into pinned memory, and wait only where the values are read.",
            'host = torch.empty_like(x, device="cpu", pin_memory=True)\n'
            "host.copy_(x, non_blocking=True)",
            needs=(Condition.TO_HOST,),
            unless=(Condition.PINNED,),
        ),
        Advice(
            "Copy to the host on a separate stream while the next step computes.",
            "with torch.cuda.stream(copies):\n    host.copy_(x, non_blocking=True)",
            needs=(Condition.TO_HOST, Condition.PINNED),
        ),
        Advice(
            "Copy from pinned memory without waiting.",
            'DataLoader(..., pin_memory=True)\nbatch = batch.to("cuda", non_blocking=True)',
            needs=(Condition.PAGEABLE, Condition.LOADER),
            unless=(Condition.TO_HOST,),
        ),
        Advice(
            "Copy from pinned memory without waiting.",
            'x.pin_memory().to("cuda", non_blocking=True)',
            needs=(Condition.PAGEABLE,),
            unless=(Condition.TO_HOST, Condition.LOADER),
        ),
        Advice(
            "Keep the parameters on the GPU if they fit: FSDP (its FSDP::… ranges are recorded) "
            "offloads them to the host.",
            needs=(Condition.FSDP2,),
            unless=(Condition.PAGEABLE,),
        ),
        Advice(
            "Copy on a separate stream, ahead of the step that needs the data.",
            'with torch.cuda.stream(copies):\n    batch = batch.to("cuda", non_blocking=True)',
            unless=(Condition.TO_HOST,),
        ),
        Advice("Copy less: data that is copied again and again can stay where it is."),
    ),
)
def slow_host_copies(context: Context) -> Finding | None:
    """Report the time of copies between host and device with no kernel at the same time."""
    copies = context.steps["host_copies"]
    least_ns = context.limits.host_copies_percent / 100 * context.steps.median_period_ns
    counts = copies.mean(axis=1) > least_ns
    exposed = np.where(counts[:, np.newaxis], copies, 0.0)
    whose = tuple(rank for rank, is_one in zip(context.ranks, counts, strict=True) if is_one)
    price = context.price(exposed, WithoutCopies(whose), bound="at most")
    if not context.is_worth_it(slow_host_copies, price.ns):
        return None
    ranks, steps = context.blamed(exposed.mean(axis=1)), context.steps_with(exposed)
    asked_for = [host.copies.hot_path for host in context.hosts(ranks).values()]
    within = innermost_within(context, [part for part in asked_for if part.whole_ns])
    copied, before = _before_kernels(context, ranks)
    is_before = before >= context.limits.owner_percent
    conditions = _conditions(context, ranks)
    if is_before and copied >= FEWEST_PARAMETERS:
        conditions.append(Condition.BEFORE_KERNELS)
    left, link = _pinned(context, whose)
    if left and not {*conditions} & _NEED_NO_COPY:
        less = WithoutCopies(whose, left)
        pinned = context.price(exposed * (1 - left), less, has_lower=False)
        if pinned.ns < price.lower_ns:
            price = price._replace(lower_ns=pinned.ns, less_by="link")
    return context.finding(
        slow_host_copies,
        words=_words(context, ranks, steps)
        + f", {part_of_it(before / 100)} before the first kernel" * is_before,
        detail=within.words if within else "",
        price=price,
        ranks=ranks,
        steps=steps,
        conditions=conditions,
        evidence={
            **(within.evidence if within else {}),
            **({"link": link} if price.less_by == "link" else {}),
            "copies": _copies(context, ranks),
            "steps": context.by_rank_and_step(exposed_ms=exposed),
        },
        links=(Link(panel="memory_bandwidth", ranks=ranks, steps=steps),),
        seen_in=ExposedCopies(),
    )


def _pinned(context: Context, ranks: tuple[int, ...]) -> tuple[float, str]:
    """Part of their time that the copies would take from pinned memory, and by which link.

    0 if that is not known, or nothing to gain: none is pageable. A program that copies in, computes
    and copies out cannot hide its copies: 361 ms of them became 67, not nothing.
    """
    links = {context.facts[rank].compute.gpu.link for rank in ranks}
    name, bytes_per_ns = min(links, key=lambda link: link[1])
    if not bytes_per_ns:
        return 0.0, ""
    now_ns, pinned_ns = 0, 0.0
    for host in context.hosts(ranks).values():
        for each in host.copies.by_name:
            is_pageable = each.size_bytes and COPY_PATTERNS[Condition.PAGEABLE].search(each.name)
            part = each.size_bytes / bytes_per_ns / max(each.duration_ns, 1) if is_pageable else 1.0
            now_ns += each.exposed_ns
            pinned_ns += each.exposed_ns * min(part, 1.0)
    left = pinned_ns / max(now_ns, 1)  # a copy may begin before a step and end after it
    return (left, f"{name}, {number(bytes_per_ns)} GB/s") if left < NEARLY else (0.0, "")


def _before_kernels(context: Context, ranks: tuple[int, ...]) -> tuple[int, float]:
    """Copies before any kernel, and percent of the time of all; 0 with steps, which repeat.

    4.46 s in which a program copied 13.6 GB of parameters once were its largest cost by far.
    """
    if context.steps.are_recorded:
        return 0, 0.0
    by_rank = context.job.reduce(before_first_kernel, ranks).values()
    copied, before_ns, all_ns = np.sum([*by_rank], axis=0).tolist()
    return copied, 100 * before_ns / max(all_ns, 1)


def before_first_kernel(rank: Rank) -> tuple[int, int, int]:
    """Copies between host and GPU before the first kernel, their time (ns), and that of all."""
    work = rank.gpu_work
    copies = work.take(np.flatnonzero(work.named(_OF_HOST.search)))
    kernels = work.type != KernelType.MEMORY
    first_ns = work.start_ns[kernels].min(initial=np.iinfo(np.int64).max)
    before_ns = copies.duration_ns[copies.start_ns < first_ns]
    return before_ns.size, int(before_ns.sum()), int(copies.duration_ns.sum())


def _conditions(context: Context, ranks: tuple[int, ...]) -> list[Condition]:
    """What holds for the copies."""
    every = [host.copies for host in context.hosts(ranks).values()]
    held = {Condition.PAGEABLE: any, Condition.PINNED: all, Condition.TO_HOST: any}
    found = [each for each, of in held.items() if of(copies.are_most(each) for copies in every)]
    returns = any(copies.go_there_and_back for copies in every)
    return [*found, Condition.THERE_AND_BACK] if returns else found


def _words(context: Context, ranks: tuple[int, ...], steps: tuple[int, ...]) -> str:
    """Name the copies with most exposed time, on the rank where one kind has the most of it.

    The price covers all copies: 805 MB at 2.97 GB/s do not take 361 ms, but 1.28 GB the other way
    do.
    """
    by_rank = [host.copies.by_name for host in context.hosts(ranks).values()]
    by_time = [sorted(each, key=lambda name: -name.exposed_ns) for each in by_rank if each]
    every = max(by_time, key=lambda each: each[0].exposed_ns)
    who, count = subject(context, ranks), len(context.steps.numbers)
    reached = np.cumsum([each.exposed_ns for each in every])
    told = every[: np.searchsorted(reached, TOLD * reached[-1]) + 1]
    where = f"{' each' if who.is_plural else ''}{context.steps.per_noun}"
    *others, last = (_amount(each, count, where) for each in told)
    amounts = " and ".join(filter(None, (", ".join(others), last)))
    return (
        f"{who} {who.verb('copy') if who.is_plural else 'copies'} {amounts}"
        f"{in_steps(context, steps)} with no kernel running at the same time"
    )


def _amount(copies: CopiesOfName, count: int, where: str) -> str:
    amount = f"{number(copies.copies / count)} times{where}"
    if copies.size_bytes:
        gb_per_s = copies.size_bytes / max(copies.duration_ns, 1)
        amount = f"{data_size(copies.size_bytes / count)}{where} at {number(gb_per_s)} GB/s"
    return f"{amount} ({named(copies.name)})"


def _copies(context: Context, ranks: tuple[int, ...]) -> pd.DataFrame:
    """Exposed copies by rank and name, over all analysed steps."""
    rows = [
        {
            "rank": rank,
            "name": each.name,
            "copies": each.copies,
            "bytes": each.size_bytes,
            "duration_ms": each.duration_ns / NS_PER_MS,
            "exposed_ms": each.exposed_ns / NS_PER_MS,
            "rate_gb_per_s": each.size_bytes / each.duration_ns if each.duration_ns else 0.0,
        }
        for rank, host in context.hosts(ranks).items()
        for each in host.copies.by_name
    ]
    return pd.DataFrame(rows)
