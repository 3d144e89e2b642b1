"""The allocator returns GPU memory and asks for it again, step after step."""

from __future__ import annotations

from typing import Final

import numpy as np

from hta_widgets.diagnosis.cause import cause
from hta_widgets.diagnosis.context import Context
from hta_widgets.diagnosis.facts.conditions import Condition
from hta_widgets.diagnosis.facts.host_facts import HostFacts
from hta_widgets.diagnosis.finding import Advice, Finding, Link
from hta_widgets.diagnosis.proof.what import Idle
from hta_widgets.diagnosis.replay.edits import WithoutHostWork, WithoutWaits
from hta_widgets.diagnosis.replay.waiting_calls import SYNCHRONISING, Wait
from hta_widgets.diagnosis.rules.host_evidence import owners_table, within_gap
from hta_widgets.diagnosis.rules.wording import in_steps, per_step, subject
from hta_widgets.quantities import duration

LARGEST: Final = 0.5
"""If a single interval has more than this share of the time, it is a start-up, not retries."""

FEWEST: Final = 2
"""Fewest steps (or quarters of a recording, without the first) with allocations: the first ones
initialise."""


@cause(
    seen_in="late_launching",
    limit="least_percent_with_evidence",
    makes_others_wait=True,
    when="The GPU is idle while the host frees and allocates GPU memory, in at least two steps.",
    advice=(
        Advice(
            "Do not call torch.cuda.empty_cache() in the step: what it frees has to be allocated "
            "again.",
            needs=(Condition.EMPTY_CACHE,),
        ),
        Advice(
            "Turn PyTorch's caching allocator back on: it keeps freed memory for the next tensor.",
            "unset PYTORCH_NO_CUDA_MEMORY_CACHING PYTORCH_NO_HIP_MEMORY_CACHING",
            needs=(Condition.UNCACHED,),
        ),
        Advice(
            "Allocate the memory once, before the loop, and reuse it.",
            "cudaMalloc(&buffer, largest);  // once, and no cudaFree in the loop",
            needs=(Condition.NO_PYTORCH,),
        ),
        Advice(
            "Let the pool of cudaMallocAsync keep freed memory for the next allocation.",
            "cudaDeviceGetDefaultMemPool(&pool, device);\nuint64_t keep = UINT64_MAX;\n"
            "cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep);",
            needs=(Condition.NO_PYTORCH,),
        ),
        Advice(
            "Let the allocator grow its segments, so that it frees none to fit other sizes.",
            "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True python train.py",
            unless=(Condition.AMD, Condition.UNCACHED),  # AMD: in few releases of ROCm
        ),
        Advice(
            "Use fewer distinct shapes: pad batches to a few lengths.",
            unless=(Condition.UNCACHED,),
        ),
        Advice(
            "Lower peak memory: recompute activations in the backward pass.",
            "torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)",
            needs=(Condition.TRAINING,),
        ),
        Advice(
            "Lower peak memory: serve fewer requests at once, or use a smaller KV cache.",
            needs=(Condition.SERVER,),
        ),
    ),
)
def allocator_retries(context: Context) -> Finding | None:
    """Report the time in which the GPU is idle while the host allocates and frees its memory."""
    waiting = context.steps["gap_alloc"]
    if not recurs(context):
        return None
    # PyTorch's allocator waits for the GPU before it frees; a program without it waits for reasons
    # of its own: calls of 14.1 ms in all were priced at 20 ms
    is_pytorch = Condition.NO_PYTORCH not in context.conditions()
    waits = (Wait.FREE, *(SYNCHRONISING if is_pytorch else ()))
    price = context.price(
        waiting, WithoutHostWork(("allocating",)), WithoutWaits(waits, of_allocator=True)
    )
    # without these waits, kernels of several streams would overlap, which is not a cost of memory
    idle_ns = float(context.steps["idle"].max(axis=0).mean())
    price = price._replace(ns=min(price.ns, idle_ns), lower_ns=min(price.lower_ns, idle_ns))
    if not context.is_worth_it(allocator_retries, price.ns):
        return None
    in_alloc = context.steps["in_alloc"]
    ranks = context.blamed(in_alloc.mean(axis=1)) or context.blamed(waiting.mean(axis=1))
    steps = context.steps_with(waiting)
    places = [context.ranks.index(rank) for rank in ranks]
    frees, in_calls = (context.steps[name][places].mean() for name in ("frees", "in_alloc"))
    who, within = subject(context, ranks), within_gap(context, ranks, "gap_alloc")
    does, freeing = who.verb("allocate"), ""
    if frees:
        does += f" and {who.verb('free')}"
        freeing = f"{per_step(context, frees, 'call')} that free, "
    is_more = price.ns > in_calls and duration(price.ns) != duration(in_calls)
    waiting_too = ", plus waits for the GPU before them" if is_more else ""
    return context.finding(
        allocator_retries,
        words=f"{who} {does} GPU memory{in_steps(context, steps)} while the GPU is idle "
        f"({freeing}{duration(in_calls)} in all such calls{waiting_too})",
        detail=within.words if within else "",
        price=price,
        ranks=ranks,
        steps=steps,
        evidence={
            "frees_per_step": float(frees),
            **(within.evidence if within else {}),
            "steps": context.by_rank_and_step(idle_ms=waiting, in_calls_ms=in_alloc),
            "owners": owners_table(context, ranks, ("gap_alloc",)),
        },
        links=(Link(panel="idle_owners", ranks=ranks, steps=steps),),
        seen_in=Idle(("gap_alloc",)),
    )


def recurs(context: Context) -> bool:
    """Whether memory is freed and allocated again after initialising.

    In a program without PyTorch, allocating alone counts. A growing caching allocator does not.
    """
    steps = context.steps
    if not steps["frees"].any() and Condition.NO_PYTORCH not in context.conditions():
        return False
    least_ns = context.limits.allocating_percent / 100 * steps.median_period_ns
    if steps.are_recorded:
        return int((steps["gap_alloc"] > least_ns).any(axis=0).sum()) >= FEWEST
    quarters = [host.retries_ns for host in context.hosts().values() if _is_spread(host)]
    if not quarters:
        return False
    later = np.array(quarters)[:, 1:] > least_ns
    return int(later.any(axis=0).sum()) >= FEWEST


def _is_spread(host: HostFacts) -> bool:
    """Whether no single interval takes most of the time."""
    longest = host.gaps.longest.get("gap_alloc", ())
    return bool(longest) and longest[0].idle_ns <= LARGEST * host.retries_ns.sum()
