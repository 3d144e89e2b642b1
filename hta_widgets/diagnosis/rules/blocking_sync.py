"""The host waits for the GPU, and then the GPU waits for the host."""

from __future__ import annotations

from hta_widgets.diagnosis.cause import cause
from hta_widgets.diagnosis.context import Context
from hta_widgets.diagnosis.facts.conditions import Condition, conditions_of_owners
from hta_widgets.diagnosis.finding import (
    CHOOSES_BY_MASK,
    KEEPS_NUMBERS,
    READS_FLAGS,
    Advice,
    Finding,
    Link,
)
from hta_widgets.diagnosis.replay.edits import WithoutWaits
from hta_widgets.diagnosis.replay.waiting_calls import SYNCHRONISING, Wait
from hta_widgets.diagnosis.rules.host_evidence import (
    largest_owner,
    owners_table,
    times_on_ranks,
    within_gap,
)
from hta_widgets.diagnosis.rules.launch_bound import not_held_up
from hta_widgets.diagnosis.rules.wording import in_steps, named, per_step, subject
from hta_widgets.quantities import NS_PER_MS


@cause(
    seen_in="late_synchronising",
    limit="least_percent_with_evidence",
    makes_others_wait=True,
    when="The host waits in a blocking call until the GPU has run out of work, and then has to "
    "refill its launch queue.",
    advice=(
        *KEEPS_NUMBERS,
        Advice(
            "Copy from pinned memory with non_blocking=True.",
            'DataLoader(..., pin_memory=True)\nbatch = batch.to("cuda", non_blocking=True)',
            needs=(Condition.COPIES, Condition.TO_DEVICE, Condition.PAGEABLE, Condition.LOADER),
        ),
        Advice(
            "Copy from pinned memory with non_blocking=True.",
            'x = x.pin_memory().to("cuda", non_blocking=True)',
            needs=(Condition.COPIES, Condition.TO_DEVICE, Condition.PAGEABLE),
            unless=(Condition.LOADER,),
        ),
        Advice(
            "Copy into pinned memory, and wait only where the values are read.",
            'host = torch.empty_like(x, device="cpu", pin_memory=True)\n'
            "host.copy_(x, non_blocking=True)\ncopied.record()  # a torch.cuda.Event",
            needs=(Condition.COPIES, Condition.TO_HOST),
            unless=(Condition.PINNED,),
        ),
        Advice(
            "Start the copy without waiting for it, and wait for its event where the values are "
            "read.",
            "host.copy_(x, non_blocking=True)\ncopied.record()  # a torch.cuda.Event",
            needs=(Condition.COPIES, Condition.TO_HOST, Condition.PINNED),
        ),
        Advice(
            "Copy with non_blocking=True.",
            'x = x.to("cuda", non_blocking=True)',
            needs=(Condition.COPIES,),
            unless=(Condition.PAGEABLE, Condition.TO_HOST),
        ),
        CHOOSES_BY_MASK,
        Advice(
            "Remove the synchronisation if it only ends a step for timing: events can time the "
            "step without it.",
            "start.record()\n...  # the step\nend.record()  # start.elapsed_time(end) later",
            needs=(Condition.SYNCHRONISES, Condition.ENDS_STEP),
        ),
        Advice(
            "Remove the explicit synchronisation, or wait only for the one event that is needed.",
            "event.synchronize()  # instead of torch.cuda.synchronize()",
            needs=(Condition.SYNCHRONISES,),
            unless=(Condition.ENDS_STEP,),
        ),
        READS_FLAGS,
        Advice(
            "Wait once, where the host reads the results: a stream runs its kernels in order, and "
            "events order several streams.",
            "cudaEventRecord(done, first);\ncudaStreamWaitEvent(second, done, 0);",
            needs=(Condition.NO_PYTORCH,),
            unless=(Condition.READS_FLAGS, Condition.ONE_STREAM),
        ),
        Advice(
            "Remove the waits between kernels: all are in one stream, which runs them in order. "
            "Wait once, where the host reads the results.",
            needs=(Condition.NO_PYTORCH, Condition.ONE_STREAM),
            unless=(Condition.READS_FLAGS,),
        ),
        Advice(
            "Let PyTorch warn about each operation that waits for the GPU, with its line.",
            'torch.cuda.set_sync_debug_mode("warn")',
        ),
    ),
)
def blocking_sync(context: Context) -> Finding | None:
    """Report the price of blocking calls that let the GPU run dry, so that it has to be refilled.

    A long blocking call that leaves no gap costs nothing.
    """
    refill = context.steps.refill
    after = not_held_up(context)
    price = context.price(
        refill, WithoutWaits((Wait.COPY, *SYNCHRONISING), drains=True), bound="at most", after=after
    )
    if not context.is_worth_it(blocking_sync, price.ns):
        return None
    ranks, steps = context.blamed(refill.mean(axis=1)), context.steps_with(refill)
    largest = largest_owner(context, ranks, "gap_sync")
    who, within = subject(context, ranks), within_gap(context, ranks, "gap_sync")
    count, call, up_to = 0.0, "", ""
    if largest is not None:
        owner, _ = largest
        counts = times_on_ranks(context, ranks, owner, "gap_sync")
        count = max(counts) / len(context.steps.numbers)
        up_to = "up to " * (min(counts) < max(counts))  # 16 and 2 times on two ranks are no 9
        around = f" ({named(owner.around)})" if owner.around else ""
        call = f", mostly in {named(owner.name)}{around}"
    times = max(round(count), 1)
    several = f"{up_to}{per_step(context, times, 'time')}"
    often = f"once{context.steps.per_noun}" if times == 1 else several
    after_calls_ns = float(context.all_steps["gap_sync"].mean())
    return context.finding(
        blocking_sync,
        words=f"{who} {who.verb('block')} on the GPU {often}{in_steps(context, steps)}{call}, "
        f"draining the launch queue{' each time' if times > 1 else ''}",
        detail=within.words if within else "",
        price=price,
        ranks=ranks,
        steps=steps,
        conditions=_conditions(context, ranks, largest[0].name if largest else ""),
        evidence={
            **(within.evidence if within else {}),
            "calls_per_step": count,
            "cpu_late_after_a_blocking_call_ms": after_calls_ns / NS_PER_MS,
            "steps": context.by_rank_and_step(idle_ms=refill),
            "owners": owners_table(context, ranks, ("gap_sync",)),
        },
        links=(Link(panel="idle_owners", ranks=ranks, steps=steps),),
    )


def _conditions(context: Context, ranks: tuple[int, ...], name: str) -> set[Condition]:
    """What holds for the calls of a name that let the GPU run dry."""
    parts = [host.gaps for host in context.hosts(ranks).values()]
    largest = [part.owners.get("gap_sync", ())[:1] for part in parts]
    same = [
        part.drains
        for part, owners in zip(parts, largest, strict=True)
        if any(owner.name == name for owner in owners)
    ]
    return conditions_of_owners([name]).union(*same)
