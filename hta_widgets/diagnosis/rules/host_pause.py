"""The host stops, and nothing shows that it works for the GPU."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from hta_widgets.diagnosis.cause import cause
from hta_widgets.diagnosis.context import HALF_OF_LARGEST, Context
from hta_widgets.diagnosis.facts.conditions import Condition, conditions_of_owners
from hta_widgets.diagnosis.facts.gap_owners import GapOwners, Owner, Stretch, first_scripted
from hta_widgets.diagnosis.finding import NEEDLESS_WORK, Advice, Finding, Link
from hta_widgets.diagnosis.job.steps import Matrix
from hta_widgets.diagnosis.limits import Limits
from hta_widgets.diagnosis.proof.what import Idle
from hta_widgets.diagnosis.replay.edits import WithoutHostWork
from hta_widgets.diagnosis.rules.host_evidence import (
    AS_LONG,
    Within,
    largest_owner,
    longest_stretch,
    on_cpu_share,
    operators_stopped_in,
    owner_share,
    stretches_table,
    within_gap,
)
from hta_widgets.diagnosis.rules.warm_up import FEWEST_STEPS, warm_up
from hta_widgets.diagnosis.rules.wording import Subject, in_steps, named, subject
from hta_widgets.quantities import duration, percent

FEWEST_OPERATORS: Final = 5
"""A process that stops in this many different operators, each of which usually takes µs, is kept
from running: with 32 other processes on 16 cores, it stopped in eleven."""


LOOKUP_NS: Final = 100_000
"""Compiling and loading code leave the GPU idle for longer. cuDNN and CUTLASS ask for the
attributes of a kernel before each launch: 404 times in a warm step of an LSTM, for 3 to 58 µs."""


CHECKS_NS: Final = 50_000
"""Time of a pause in Inductor's checks (some 0.4 µs each) above which they fill it: around 1,231 of
them, recorded with stacks, the frame of the compiled code had 15 of 16.8 ms to itself."""


SHOWN_WITHOUT_FRAMES: Final = (
    *(Condition.STACKS, Condition.IN_OPERATOR, Condition.OTHER_RECORDER),
    *(Condition.LAUNCHES_GRAPH, Condition.CPU_OPTIMIZER),
    *(Condition.COMPILES, Condition.LOADS_CODE, Condition.SCRIPTED),
)
"""Where Python frames are recorded, cannot be, or would say no more."""


@cause(
    seen_in="late_launching",
    makes_others_wait=True,
    when="The host launches nothing for more than 1 ms and is in no recorded call, or only in "
    "operators that launch nothing. Or it compiles or loads code again in later steps.",
    advice=(
        Advice(
            "Find out what triggers the recompilation.",
            'TORCH_LOGS="recompiles" python script.py',
            needs=(Condition.COMPILES,),
        ),
        Advice(
            "Mark the sizes that change as dynamic, such as the batch size.",
            "torch._dynamo.mark_dynamic(x, 0)",
            needs=(Condition.COMPILES,),
        ),
        Advice(
            "Launch each kernel once before the steps start: the first launch loads its code.",
            "CUDA_MODULE_LOADING=EAGER python script.py",
            needs=(Condition.LOADS_CODE,),
        ),
        Advice(
            "Run the optimizer on the GPU, and offload only what does not fit there.",
            'config["zero_optimization"]["offload_optimizer"]["ratio"] = 0.3',
            needs=(Condition.CPU_OPTIMIZER,),
        ),
        Advice(
            "Run the optimizer on the GPU: give it parameters that are on the GPU.",
            'model = model.to("cuda")  # before the optimizer is given its parameters',
            needs=(Condition.COMPUTES_ON_CPU, Condition.OF_OPTIMIZER),
            unless=(Condition.CPU_OPTIMIZER,),
        ),
        Advice(
            "Run these operators on the GPU: keep their inputs there.",
            'tensor = tensor.to("cuda")',
            needs=(Condition.COMPUTES_ON_CPU,),
            unless=(Condition.CPU_OPTIMIZER, Condition.OF_OPTIMIZER),
        ),
        Advice(
            "Leave a core for the process: start fewer workers and threads.",
            "OMP_NUM_THREADS=1 python script.py",
            needs=(Condition.LOSES_ITS_CORE,),
        ),
        Advice(
            "Check in /sys/fs/cgroup/cpu.stat whether the CPU limit of its container throttles it.",
            needs=(Condition.LOSES_ITS_CORE,),
        ),
        Advice(
            "After the first step, exclude long-lived objects from garbage collection.",
            "gc.collect()\ngc.freeze()",
            needs=(Condition.COLLECTS_GARBAGE,),
        ),
        Advice(
            "Collect garbage at a time of your choice, every n steps.",
            "gc.disable()  # then gc.collect() every n steps",
            needs=(Condition.COLLECTS_GARBAGE,),
        ),
        Advice(
            "Read ahead on another thread while kernels run, and record a part in which the "
            "program does not wait for its user.",
            needs=(Condition.READS_FILES,),
        ),
        Advice(
            "Write in larger pieces, or on another thread: each of these calls waits for its file.",
            needs=(Condition.WRITES_FILES,),
        ),
        Advice(
            "Block until the result arrives instead of sleeping and polling for it.",
            needs=(Condition.SLEEPS,),
        ),
        Advice(
            "Look at what the threads and processes do that it waits for: Nsight Systems records "
            "all that the program starts.",
            needs=(Condition.WAITS_FOR_OTHERS,),
        ),
        Advice(
            "Call the compiled function once before the recording starts: its first call compiles "
            "it.",
            "model(inputs)\ntorch.cuda.synchronize()  # then the profiler",
            needs=(Condition.FIRST_COMPILED,),
        ),
        Advice(
            "Call the scripted function three times before the recording starts: TorchScript "
            "compiles in its first calls.",
            "for _ in range(3):\n    model(inputs)\ntorch.cuda.synchronize()  # then the profiler",
            needs=(Condition.SCRIPTED,),
        ),
        Advice(
            "Do on the GPU what the host does with this memory: its pages then stay there.",
            needs=(Condition.TOUCHES_PAGES,),
        ),
        Advice(
            "Move all of this memory to the host in one call before it is read there.",
            "cudaMemPrefetchAsync(data, bytes, cudaCpuDeviceId, stream);\n"
            "cudaStreamSynchronize(stream);",
            needs=(Condition.NO_PYTORCH, Condition.TOUCHES_PAGES),
        ),
        *NEEDLESS_WORK,
        Advice(
            "Record several launches of this graph: this may be the first one, which uploads it to "
            "the GPU and takes longer the more nodes it has.",
            needs=(Condition.LAUNCHES_GRAPH,),
        ),
        Advice(
            "Look at the stacks that Nsight Systems samples during the pause: they show what runs "
            "there.",
            "nsys profile --trace=cuda,nvtx,osrt --sample=process-tree ./program",
            needs=(Condition.NO_PYTORCH,),
            unless=(Condition.SAMPLED,),
        ),
        Advice(
            "Run this code while kernels run, or on the GPU. The Bottom-Up view of Nsight Systems "
            "shows what calls it: this recording has samples of the CPU.",
            needs=(Condition.NO_PYTORCH, Condition.SAMPLED),
        ),
        Advice(
            "Sample Python stacks as well: Nsight Systems then shows which lines the host runs "
            "there.",
            "nsys profile --python-sampling=true --trace=cuda,nvtx python script.py",
            needs=(Condition.OTHER_RECORDER,),
            unless=(Condition.NO_PYTORCH, Condition.STACKS, Condition.IN_OPERATOR),
        ),
        Advice(
            "Record Python frames: they show which lines the host runs there.",
            "torch.profiler.profile(..., with_stack=True)",
            unless=(Condition.NO_OPERATORS, *SHOWN_WITHOUT_FRAMES),
        ),
        Advice(
            "Record operators and Python frames: they show which lines the host runs there.",
            "activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA]\n"
            "torch.profiler.profile(activities=activities, with_stack=True)",
            needs=(Condition.NO_OPERATORS,),
            unless=SHOWN_WITHOUT_FRAMES,
        ),
        Advice(
            "Find the lines that run there in the flame graph of this time. Move them out of the "
            "step, or run them while the GPU has work.",
            needs=(Condition.STACKS,),
            unless=(Condition.NOT_RECORDED, Condition.IN_OPERATOR, Condition.SCRIPTED),
        ),
        Advice(
            "Sample the process from outside while it pauses: the trace does not show what runs "
            "there.",
            "py-spy record --native --pid PID",
            needs=(Condition.NOT_RECORDED,),
            unless=(Condition.NO_PYTORCH,),
        ),
        Advice(
            "Sample the process from outside while it pauses: the trace does not show what the "
            "operator does there.",
            "py-spy record --native --pid PID",
            needs=(Condition.IN_OPERATOR,),
            unless=(Condition.COMPUTES_ON_CPU, Condition.LOSES_ITS_CORE, Condition.NOT_RECORDED),
        ),
    ),
)
def host_pause(context: Context) -> Finding | None:
    """Report the time in which the GPU is idle because the host launches nothing for a while."""
    if warm_up in context.found and not context.steps.are_recorded:
        return None  # libraries are set up in calls that are not recorded, too
    sets_up = _sets_up_again(context)
    kind = "gap_init" if sets_up else "gap_pause"
    classes = ("initialising", "compiling") if sets_up else ("stalling",)
    pauses = context.steps[kind]
    price = context.price(pauses, WithoutHostWork(classes), between_ranks=True)
    if not context.is_worth_it(host_pause, price.ns):
        return None
    ranks, steps = _who(context, pauses), context.steps_with(pauses)
    who, pause = subject(context, ranks), _Pause(context, ranks, kind)
    longest_ns = float(pause.longest[1].idle_ns if pause.longest else pauses.max())
    return context.finding(
        host_pause,
        words=f"{who} {_does(who, pause.known, sets_up=sets_up)} for up to {duration(longest_ns)}"
        f"{in_steps(context, steps)}{pause.where}",
        detail=pause.detail,
        price=price,
        ranks=ranks,
        steps=steps,
        conditions=pause.known,
        evidence={
            **(pause.within.evidence if pause.within else {}),
            **({"on_cpu_percent": 100 * pause.on_cpu} if pause.on_cpu else {}),
            **({"operators_stopped_in": pause.stops} if pause.stops else {}),
            "pauses": stretches_table(context, ranks, kind),
            "steps": context.by_rank_and_step(idle_ms=pauses),
        },
        links=(Link(panel="idle_owners", ranks=ranks, steps=steps),),
        seen_in=Idle((kind,)),
    )


def _sets_up_again(context: Context) -> bool:
    """Whether hosts compile or load code after the warm-up steps, for longer than they pause.

    A model that was recompiled for another batch in the fourth step had only the finding "cause not
    found". With fewer steps, it belongs to warm_up.
    """
    sets_up, longest = context.steps["gap_init"], longest_stretch(context, (), "gap_init")
    if longest is None or longest[1].idle_ns <= LOOKUP_NS:
        return False
    is_later = len(context.steps.numbers) >= FEWEST_STEPS
    return bool(is_later and sets_up.sum() > context.steps["gap_pause"].sum())


def _who(context: Context, pauses: Matrix) -> tuple[int, ...]:
    """The ranks that pause; empty if it is a different rank in each step."""
    least_ns = context.limits.pausing_percent / 100 * context.steps.median_period_ns
    counted = np.where(pauses > least_ns, pauses, 0.0)
    ranks = context.blamed(counted.mean(axis=1))
    if _in_turns(counted, context.limits):
        return ()
    return ranks or context.blamed(pauses.mean(axis=1))


def _in_turns(pauses: Matrix, limits: Limits) -> bool:
    """Whether few ranks pause in most of the affected steps, and none of them in most."""
    affected = pauses[:, pauses.any(axis=0)]
    if affected.shape[1] < 2:  # noqa: PLR2004
        return False
    pausing = affected >= HALF_OF_LARGEST * affected.max(axis=0)
    few = pausing.sum(axis=0) <= max(1, limits.pausing_ranks_percent / 100 * len(pauses))
    most_percent = limits.pausing_steps_percent
    return bool(100 * few.mean() > most_percent >= 100 * pausing.mean(axis=1).max())


def _does(who: Subject, known: Collection[Condition], *, sets_up: bool) -> str:
    """Say what the host does while the GPU is idle."""
    if sets_up:
        return who.verb("compile" if Condition.COMPILES in known else "initialise")
    is_busy = Condition.BROADCASTS_BUFFERS in known
    return f"{who.verb('launch')} nothing" if is_busy else who.verb("stall")


@dataclass(frozen=True)
class _Pause:
    """What the recordings show of hosts while they pause."""

    context: Context
    ranks: tuple[int, ...]
    kind: str
    """Kind of the idle time, one of `HOST_GAPS`."""

    @cached_property
    def longest(self) -> tuple[int, Stretch] | None:
        """The longest idle interval, and its rank."""
        return longest_stretch(self.context, self.ranks, self.kind)

    @cached_property
    def within(self) -> Within | None:
        """The call inside which most of the time passes."""
        return within_gap(self.context, self.ranks, self.kind)

    @cached_property
    def largest(self) -> Owner | None:
        """The calls of one name that own most of it; their name is empty if it is in no call."""
        owner, _ = largest_owner(self.context, self.ranks, self.kind) or (None, 0)
        return owner

    @cached_property
    def on_cpu(self) -> float:
        """Fraction of it in operators that compute on the CPU; 0 if that is not most of it."""
        part = on_cpu_share(self.context, self.ranks, self.kind)
        return part if 100 * part >= self.context.limits.owner_percent else 0.0

    @cached_property
    def stops(self) -> int:
        """In how many operators the host stops, if so many that it may lose its core; else 0."""
        if self.on_cpu or self.kind != "gap_pause" or warm_up in self.context.found:
            return 0
        count = operators_stopped_in(self.context, self.ranks, self.kind)
        return count if count >= FEWEST_OPERATORS else 0

    @cached_property
    def several(self) -> tuple[str, ...]:
        """Two operators that launch work, if most of the longest pauses are inside such operators.

        None if one call holds most of it.

        What the host does there is in no frame. Of one pause in ``aten::ones_like`` and another one
        in the backward pass, the sentence said that a third of the first was in ``aten::mm``.
        """
        hosts = [each for each in self._gaps if self.kind in each.hot_paths]
        longest_ns: dict[str, int] = {}
        inside_ns = 0
        for gaps in hosts:
            for each in gaps.longest[self.kind]:
                if each.inside in gaps.hot_paths[self.kind].stops_in:
                    inside_ns += each.idle_ns
                    longest_ns.setdefault(each.inside, each.idle_ns)  # a rank's longest is first
        whole_ns = sum(each.idle_ns for gaps in hosts for each in gaps.longest[self.kind])
        names = sorted(longest_ns, key=lambda name: -longest_ns[name])[:2]
        is_most = 100 * inside_ns >= self.context.limits.owner_percent * whole_ns
        if self.within or len(names) < 2 or not is_most:  # noqa: PLR2004
            return ()
        first, second = names
        return (first, second) if longest_ns[second] >= AS_LONG * longest_ns[first] else ()

    @cached_property
    def known(self) -> set[Condition]:
        """Conditions that the recordings show."""
        known = self._shown_by_calls
        known |= {Condition.IN_OPERATOR} if self.several else set()
        known |= {Condition.COMPUTES_ON_CPU} if self.on_cpu else set()
        known |= {Condition.LOSES_ITS_CORE} if self.stops else set()
        is_seen = self.within or self.on_cpu or self.stops
        return known | ({Condition.NOT_RECORDED} if not is_seen and self._holds_most("") else set())

    @property
    def _shown_by_calls(self) -> set[Condition]:
        """Conditions that the named calls show; `IN_OPERATOR` only with most of the time."""
        checks = (
            owner.name
            for gaps in self._gaps
            for owner in gaps.owners.get(self.kind, ())
            if owner.idle_ns >= CHECKS_NS * owner.times
        )
        known = {Condition.CHECKS_SIZES} & conditions_of_owners(checks)
        within, largest = self.within, self.largest
        known |= conditions_of_owners([within.name, within.around] if within else ())
        if self._works_in_operators:
            known.discard(Condition.IN_OPERATOR)
        if largest is not None:
            of_largest = conditions_of_owners([largest.name])
            if not self._holds_most(largest.name):
                of_largest.discard(Condition.IN_OPERATOR)
            known |= of_largest
        if self.longest is not None:
            # the calls in this operator have other names, and little time each
            inside = self.longest[1].inside
            known |= {Condition.BROADCASTS_BUFFERS} & conditions_of_owners([inside])
            known |= {Condition.SCRIPTED} if self._is_scripted(*self.longest) else set()
        if Condition.DDP not in self.context.conditions():  # DeepSpeed flattens gradients
            known.discard(Condition.BROADCASTS_BUFFERS)
        return known

    @property
    def where(self) -> str:
        """Between or inside which operators the host pauses, after a comma; empty if unknown."""
        if self.longest is None:
            return ""
        if self.several:
            return f", mostly inside {' or '.join(named(name, 30) for name in self.several)}"
        said = self.within.name if self.within else self.largest.name if self.largest else ""
        return _where(self.longest[1], said)

    @property
    def detail(self) -> str:
        """What the host does meanwhile, or that this is not known."""
        detail = self.within.words if self.within else ""
        if Condition.BROADCASTS_BUFFERS in self.known:
            detail += ", where DDP broadcasts buffers"
        elif Condition.SCRIPTED in self.known:
            detail += ", as while TorchScript compiles"
        if self.largest and not (self.within or self.several or detail):
            name = self.largest.name
            share = percent(100 * owner_share(self.context, self.ranks, self.kind, name))
            detail = f", {share} of this time in {named(name)}" if name else self._unknown
        if self.on_cpu:
            detail += f"; {percent(100 * self.on_cpu)} of it in operators on the CPU"
        if self.stops:
            stops = f"it stops in {self.stops} different operators"
            detail += f"; {stops}, as a process that loses its core does"
        return detail

    @property
    def _gaps(self) -> list[GapOwners]:
        return [host.gaps for host in self.context.hosts(self.ranks).values()]

    def _holds_most(self, name: str) -> bool:
        """Whether calls of a name own most of the time."""
        share = owner_share(self.context, self.ranks, self.kind, name)
        return 100 * share >= self.context.limits.owner_percent

    @property
    def _works_in_operators(self) -> bool:
        """Whether several recorded operators together own most of the time.

        The trace then shows what the operator around them does: an ``unflatten_dense_tensors`` of
        15 ms held 424 operators that make views, and sampling would have shown no more.
        """
        owners = {owner.name for gaps in self._gaps for owner in gaps.owners.get(self.kind, ())}
        names = {each for each in owners if Condition.IN_OPERATOR in conditions_of_owners([each])}
        shares = [owner_share(self.context, self.ranks, self.kind, name) for name in names]
        return bool(len(shares) > 1 and 100 * sum(shares) >= self.context.limits.owner_percent)

    def _is_scripted(self, rank: int, stretch: Stretch) -> bool:
        """Whether a pause comes before the end of the first call of what TorchScript compiles.

        It compiles in C++, below one call: a first forward pass paused twice, for 146 and 149 ms.
        """
        ends_ns = self.context.job.reduce(first_scripted, (rank,))[rank]
        names = {stretch.inside, self.within.name if self.within else stretch.after}
        return any(stretch.start_ns < ends_ns[name] for name in names & ends_ns.keys())

    @property
    def _unknown(self) -> str:
        """That it is not known what the host does, or that no call does most of it.

        After a graph of a compiled backward pass, 54 % of 5 ms was in no call, the rest in the
        optimizer and around the graph.
        """
        if self.on_cpu or self.stops:
            return ""
        is_most = Condition.NOT_RECORDED in self.known
        return "; the trace does not show why" if is_most else "; no recorded call takes most of it"


def _where(stretch: Stretch, said: str) -> str:
    """Between or inside which operators a stretch is; empty if the sentence names one anyway."""
    if said and said in (stretch.before, stretch.after):
        return ""
    if stretch.inside not in ("", said):
        return f", inside {named(stretch.inside, 30)}"
    if stretch.before and stretch.before == stretch.after:
        return f", between two {named(stretch.after, 30)} calls"
    if stretch.before and stretch.after:
        return f", between {named(stretch.before, 30)} and {named(stretch.after, 30)}"
    return f", before {named(stretch.after, 30)}" if stretch.after else ""
