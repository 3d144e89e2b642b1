"""The GPU waits for the next batch."""

from __future__ import annotations

from typing import Final

from hta_widgets.diagnosis.advice import Advice
from hta_widgets.diagnosis.cause import cause
from hta_widgets.diagnosis.context import Context
from hta_widgets.diagnosis.facts.conditions import Condition
from hta_widgets.diagnosis.finding import Finding, Link
from hta_widgets.diagnosis.proof.what import Idle
from hta_widgets.diagnosis.replay.edits import WithoutHostWork
from hta_widgets.diagnosis.rules.host_evidence import (
    Within,
    largest_owner,
    owners_table,
    steps_table,
    within_gap,
)
from hta_widgets.diagnosis.rules.wording import in_steps, named, on_ranks
from hta_widgets.quantities import duration

_OF_LOADER: Final = {
    "single": {Condition.LOADER, Condition.LOADER_ALONE},
    "workers": {Condition.LOADER, Condition.LOADER_WORKERS},
}


@cause(
    seen_in="data_loading",
    limit="least_percent_with_evidence",
    makes_others_wait=True,
    what_if={"without_loading": True},
    when="The GPU is idle while the host loads data. Loading that is hidden costs nothing. The "
    "innermost function, operator or annotation with 60 % of this time is named.",
    advice=(
        Advice(
            "Load batches in worker processes, ahead of the step.",
            "DataLoader(dataset, num_workers=8, persistent_workers=True)",
            needs=(Condition.LOADER_ALONE,),
            unless=(Condition.LOADER_WORKERS,),
        ),
        Advice(
            "Give the DataLoader more workers, each with more batches ahead.",
            "DataLoader(..., prefetch_factor=4, persistent_workers=True)",
            needs=(Condition.LOADER_WORKERS,),
            unless=(Condition.LOADER_ALONE,),
        ),
        Advice(
            "Load batches ahead of the step, in enough worker processes of the DataLoader.",
            "DataLoader(dataset, num_workers=8, persistent_workers=True)",
            needs=(Condition.LOADER,),
            unless=(Condition.LOADER_ALONE, Condition.LOADER_WORKERS),
        ),
        Advice(
            "Prepare the next batch in another thread or process while the GPU works on this one.",
            "ready = executor.submit(prepare, next_batch)  # then ready.result()",
            unless=(Condition.LOADER,),
        ),
        Advice(
            "Make it cheaper: decode and resize once, ahead of time, and transform on the GPU.",
            "torchvision.transforms.v2.functional.resize(images.cuda(), size)",
        ),
    ),
)
def input_starvation(context: Context) -> Finding | None:
    """Report the time in which the GPU is idle while the host loads data.

    Who loads slowly is told by the time in the loader: a rank that waits for another while it
    loads has no idle GPU.
    """
    loading = context.steps["gap_loader"]
    price = context.price(loading, WithoutHostWork(("loading",)), bound="at most")
    if not context.is_worth_it(input_starvation, price.ns):
        return None
    ranks = context.blamed(context.steps["in_loader"].mean(axis=1))
    ranks = ranks or context.blamed(loading.mean(axis=1))
    steps = context.steps_with(loading)
    within = within_gap(context, ranks, "gap_loader")
    return context.finding(
        input_starvation,
        words=f"The GPU{on_ranks(context, ranks)} sits idle for up to "
        f"{duration(float(loading.max()))}{in_steps(context, steps)}, waiting for data",
        detail=_where(context, ranks, within),
        price=price,
        ranks=ranks,
        steps=steps,
        conditions=_OF_LOADER.get(within.loader, ()) if within else (),
        evidence={
            "longest_wait_ms": float(loading.max()) / 1e6,
            **(within.evidence if within else {}),
            "steps": steps_table(context, idle=loading, in_loader=context.steps["in_loader"]),
            "owners": owners_table(context, ranks, ("gap_loader",)),
        },
        links=(Link(panel="idle_owners", ranks=ranks, steps=steps),),
        seen_in=Idle(("gap_loader",)),
    )


def _where(context: Context, ranks: tuple[int, ...], within: Within | None) -> str:
    """Where in the code it is idle, with a comma before it."""
    if within is None:
        largest = largest_owner(context, ranks, ("gap_loader",))
        return f", most in {named(largest[0].name, 60)}" if largest and largest[0].name else ""
    return within.words
