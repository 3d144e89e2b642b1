"""The GPU waits for the next batch."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np

from hta_widgets.diagnosis.cause import Cause, cause
from hta_widgets.diagnosis.context import Context
from hta_widgets.diagnosis.facts.conditions import Condition, conditions_of_owners
from hta_widgets.diagnosis.finding import Advice, Finding, Link, Price
from hta_widgets.diagnosis.proof.what import Idle
from hta_widgets.diagnosis.replay.edits import WithoutHostWork
from hta_widgets.diagnosis.rules.host_evidence import (
    Within,
    largest_owner,
    owners_table,
    within_gap,
)
from hta_widgets.diagnosis.rules.wording import in_steps, named, on_ranks
from hta_widgets.quantities import NS_PER_MS, duration

_OF_LOADER: Final = {
    "single": {Condition.LOADER, Condition.LOADER_ALONE},
    "workers": {Condition.LOADER, Condition.LOADER_WORKERS},
}
_WAITED_FOR: Final = {"single": "the single-process DataLoader", "workers": "DataLoader workers"}

HANDING_OVER_NS: Final = 1_000_000
"""Mean wait for a batch below which workers are not too few: of 19 waits for 13 kB each, 17 took
0.02 to 0.9 ms, as long as it takes to get a batch out of their queue."""

TENSOR_PROCESSOR: Final = Advice(
    "Prepare images on the GPU: use a processor that works on tensors if the model has one, or "
    "else scale and normalise them there.",
    "processor = AutoImageProcessor.from_pretrained(model, use_fast=True)\n"
    'inputs = processor(images, device="cuda")',
    needs=(Condition.IMAGE_PROCESSOR,),
)


@cause(
    seen_in="data_loading",
    limit="least_percent_with_evidence",
    makes_others_wait=True,
    when="The GPU is idle while the host loads data.",
    advice=(
        Advice(
            "Load batches in worker processes, ahead of the step.",
            "DataLoader(dataset, num_workers=8, persistent_workers=True)",
            needs=(Condition.LOADER_ALONE,),
            unless=(Condition.LOADER_WORKERS,),
        ),
        Advice(
            "Give the DataLoader more workers, up to the job's CPU cores, and prefetch more "
            "batches.",
            "DataLoader(..., num_workers=min(16, os.cpu_count()), prefetch_factor=4)",
            needs=(Condition.LOADER_WORKERS,),
            unless=(Condition.LOADER_ALONE, Condition.SHORT_WAITS),
        ),
        Advice(
            "Use larger batches, or keep a small data set on the GPU: workers need up to 1 ms to "
            "hand over a batch, however many there are.",
            'data, labels = data.to("cuda"), labels.to("cuda")  # once',
            needs=(Condition.LOADER_WORKERS, Condition.SHORT_WAITS),
            unless=(Condition.SERVER,),
        ),
        Advice(
            "Load batches ahead of the step, in enough DataLoader workers.",
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
            "Make loading cheaper: decode and resize once, in advance, and transform on the GPU.",
            "torchvision.transforms.v2.functional.resize(images.cuda(), size)",
            unless=(Condition.IMAGE_PROCESSOR,),
        ),
        TENSOR_PROCESSOR,
    ),
)
def input_starvation(context: Context) -> Finding | None:
    """Report the time in which the GPU is idle while the host loads data.

    The time in the loader shows who loads slowly: a rank that waits for another while it loads has
    no idle GPU.
    """
    loading = LoadingTime.of(context, input_starvation)
    if loading is None or loading.is_of_a_request:
        return None
    idle = dict(zip(context.ranks, context.steps["gap_loader"].sum(axis=1), strict=True))
    sitting = tuple(rank for rank in loading.ranks if idle[rank]) or loading.ranks
    is_of_one = len(context.ranks) == 1 or len(sitting) == 1
    who, sit = ("The GPU", "sits") if is_of_one else ("GPUs", "sit")
    return replace(loading, ranks=sitting).finding(
        input_starvation,
        f"{who}{on_ranks(context, sitting)} {sit} idle for {loading.how_long}, "
        f"waiting for {loading.waited_for}",
        loading.without_loader,
    )


@dataclass(frozen=True)
class LoadingTime:
    """Idle time of GPUs while their hosts load or prepare data, worth a finding."""

    context: Context
    price: Price
    ranks: tuple[int, ...]
    steps: tuple[int, ...]
    """The ranks to blame, and in which steps."""
    within: Within | None
    """The call inside which most of it passes."""

    @classmethod
    def of(cls, context: Context, cause: Cause) -> LoadingTime | None:
        """The loading time of all ranks, if removing it is worth a finding of this cause."""
        idle = context.steps["gap_loader"]
        price = context.price(idle, WithoutHostWork(("loading",)), bound="at most")
        if not context.is_worth_it(cause, price.ns):
            return None
        ranks = context.blamed(context.steps["in_loader"].mean(axis=1))
        ranks = ranks or context.blamed(idle.mean(axis=1))
        within = within_gap(context, ranks, "gap_loader")
        return cls(context, price, ranks, context.steps_with(idle), within)

    @property
    def conditions(self) -> AbstractSet[Condition]:
        """What the call around it shows about the loader, and what its name says it does."""
        if self.within is None:
            return frozenset()
        of_loader: AbstractSet[Condition] = _OF_LOADER.get(self.within.loader, frozenset())
        short = {Condition.SHORT_WAITS} if self._mean_wait_ns < HANDING_OVER_NS else set()
        return of_loader | short | conditions_of_owners([self.within.name])

    @property
    def _mean_wait_ns(self) -> float:
        gaps = [host.gaps for host in self.context.hosts(self.ranks).values()]
        times = sum(each.times.get("gap_loader", 0) for each in gaps)
        whole_ns = sum(
            each.hot_paths["gap_loader"].whole_ns for each in gaps if "gap_loader" in each.hot_paths
        )
        return whole_ns / max(times, 1)

    @property
    def is_of_a_request(self) -> bool:
        """Whether the input of requests is prepared: no worker of a DataLoader could do it."""
        known = self.context.conditions(self.ranks) | self.conditions
        if known & {Condition.TRAINING, Condition.LOADER_WORKERS}:
            return False
        return Condition.REQUEST in known or Condition.LOADER not in known

    @cached_property
    def waits(self) -> tuple[int, float]:
        """How often the GPU that is idle longest waits, and how long at most (ns).

        In a step, what counts is all of its idle time.
        """
        idle, kind = self.context.steps["gap_loader"], "gap_loader"
        rank = self.context.ranks[int(np.argmax(idle.max(axis=1)))]
        gaps = [host.gaps for host in self.context.hosts([rank]).values()]
        if self.context.steps.are_recorded or not gaps:
            return 1, float(idle.max())
        return gaps[0].times[kind], float(gaps[0].longest[kind][0].idle_ns)

    @property
    def how_long(self) -> str:
        """The longest idle time of a rank in a step; without steps, all of it, and the waits.

        Those of 15 batches, 6.66 s in all, were taken for one wait.
        """
        total = duration(float(self.context.steps["gap_loader"].max()))
        count, longest_ns = self.waits
        is_longest = self.context.steps.are_recorded or len(self.context.ranks) > 1
        up_to = f"{'up to ' if is_longest else ''}{total}{in_steps(self.context, self.steps)}"
        return f"{up_to} ({count} waits of up to {duration(longest_ns)})" if count > 1 else up_to

    @property
    def waited_for(self) -> str:
        """What the GPU waits for, in words."""
        return _WAITED_FOR.get(self.within.loader if self.within else "", "data")

    @property
    def where(self) -> str:
        """Where in the code the time passes, after a comma."""
        if self.within is not None:
            return self.within.words
        largest = largest_owner(self.context, self.ranks, "gap_loader")
        return f", most in {named(largest[0].name, 60)}" if largest and largest[0].name else ""

    @property
    def without_loader(self) -> str:
        """The same, to follow words that already name the loader."""
        if self.within is None:
            return self.where
        if not self.within.is_the_loader:
            return self.within.call
        return "" if self.within.is_all else f" ({self.within.part})"

    @property
    def later(self) -> str:
        """Why a GPU would gain more than the idle time that the sentence names, after a comma.

        Without loading, the host runs ahead: a ResNet-18 that waited for workers for 6.66 s would
        gain 7.03 s, because its launches after that are late, too.
        """
        idle = self.context.steps["gap_loader"]
        price_ns, most_ns = self.price.ns, float(idle.max())
        is_more = price_ns > most_ns and duration(price_ns) != duration(most_ns)
        return ", which also delays later launches" if is_more and len(idle) == 1 else ""

    def finding(self, cause: Cause, words: str, where: str) -> Finding:
        """The finding of a cause, with the call that takes most of the time."""
        context, (count, longest_ns) = self.context, self.waits
        idle, in_loader = (context.steps[name] for name in ("gap_loader", "in_loader"))
        return context.finding(
            cause,
            words=words,
            detail=f"{where}{self.later}",
            price=self.price,
            ranks=self.ranks,
            steps=self.steps,
            conditions=self.conditions,
            evidence={
                **({"waits": count} if count > 1 else {}),
                "longest_wait_ms": longest_ns / NS_PER_MS,
                **(self.within.evidence if self.within else {}),
                "steps": context.by_rank_and_step(idle_ms=idle, in_loader_ms=in_loader),
                "owners": owners_table(context, self.ranks, ("gap_loader",)),
            },
            links=(Link(panel="idle_owners", ranks=self.ranks, steps=self.steps),),
            seen_in=Idle(("gap_loader",)),
        )
