"""The host launches kernels more slowly than the GPU runs them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd

from hta_widgets.analyses.server_steps import server_steps
from hta_widgets.diagnosis.cause import cause
from hta_widgets.diagnosis.context import Context
from hta_widgets.diagnosis.facts.conditions import Condition, conditions_of_owners, holding
from hta_widgets.diagnosis.facts.gap_owners import READS
from hta_widgets.diagnosis.facts.host_facts import BACKWARD, MOST_LATE, rows_of_linear
from hta_widgets.diagnosis.finding import (
    CHOOSES_BY_MASK,
    KEEPS_NUMBERS,
    NEARLY,
    NEEDLESS_WORK,
    READS_FLAGS,
    Advice,
    Finding,
    Link,
    Price,
    fused_optimizers,
    of_engines,
)
from hta_widgets.diagnosis.replay.edits import Edit, HostSpeed, WithoutHostWork, WithoutStarts
from hta_widgets.diagnosis.rules.allocator_retries import allocator_retries
from hta_widgets.diagnosis.rules.autotuning import autotuning
from hta_widgets.diagnosis.rules.host_evidence import (
    MOST_BY_WAITS,
    WITHOUT_WAITS,
    Within,
    busiest_within_idle,
    largest_owner,
    part_outside_calls,
    waits_in,
)
from hta_widgets.diagnosis.rules.host_pause import host_pause
from hta_widgets.diagnosis.rules.input_starvation import input_starvation
from hta_widgets.diagnosis.rules.preprocessing import preprocessing
from hta_widgets.diagnosis.rules.profiler_overhead import profiler_overhead
from hta_widgets.diagnosis.rules.warm_up import warm_up
from hta_widgets.diagnosis.rules.wording import in_steps, named, on_ranks, per_step, which_ranks
from hta_widgets.quantities import NS_PER_MS, counted, duration, percent

MOST_BY_STACKS: Final = 0.5
"""Fraction of the price that a host twice as fast must recover for stacks to be the first suspect:
recording them slows a host by less than a factor of two."""

FEWEST_KERNELS: Final = 12
"""With fewer kernels, no rate can be measured, and each waits for something else: a CPU that makes
a batch before each of two products, or CuPy, which loads the code of each of six kernels."""

LONG_KERNEL_US: Final = 50
"""Median kernel time above which a launch call takes far less time than a kernel: then the code
between launches is slow, as in a Megatron step with one launch every 0.9 ms."""

HELD_UP: Final = (
    autotuning,
    warm_up,
    input_starvation,
    preprocessing,
    allocator_retries,
    profiler_overhead,
    host_pause,
)
"""What holds up a host that could run ahead if it launched faster or did not wait. These causes
have their own prices: otherwise, an infinitely fast host would hide most of a loader's time."""


LEAST_LATE: Final = 0.1
"""Ranks whose launches are late for less than this fraction of the time of the latest rank are
ahead: of eight GPUs that trained a GPT, five never waited for launches."""

AS_MANY: Final = 1.1
"""Largest ratio of the kernels that late ranks launch to those of the others for which it is said
that these launch as many in time: what differs is then the host."""

FEW_LATE: Final = 0.05
"""If most of the time is lost before more than this fraction of the kernels, the host is late with
all of them. A host that launched one every 1.31 µs was late only eleven times."""

FEW_ROWS: Final = 64
"""Rows of the largest input of a linear layer up to which more rows cost its kernels next to
nothing: they compute tiles of 64 rows or more."""

MINORITY: Final = 50.0
"""Percentage of the time below which it is said, too, how much of it is not in the backward pass:
the 37.6 % of a ResNet-50 were all that was named."""

MOST_OUTSIDE: Final = 0.5
"""Fraction of the time that the GPU waits for a program without PyTorch from which it matters that
no call fills it: a solver spent 94 of 144 ms in code of its own."""

MOST_CAPTURED: Final = 512
"""Tokens of a step up to which vLLM captures graphs by default."""

CAPTURES_GRAPH: Final = (
    "cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);\n"
    "...  // the launches\ncudaStreamEndCapture(stream, &graph);\n"
    "cudaGraphInstantiate(&replay, graph, 0);\ncudaGraphLaunch(replay, stream);"
)

_WAITS: Final = frozenset({Condition.READS_A_NUMBER, Condition.SELECTS})
"""Conditions inferred from an operator's name alone: `_reads` knows whether it waits."""


def not_held_up(context: Context) -> list[Edit]:
    """The edits after which nothing else holds up the host."""
    edits = context.edits_of(HELD_UP)
    if context.steps["unattributed"].any():
        # without operators, a pause is not a finding; a host that runs ahead would hide it, too
        edits.append(WithoutHostWork(("stalling",)))
    return edits


@cause(
    seen_in="late_launching",
    makes_others_wait=True,
    when="The host launches kernels more slowly than the GPU runs them, and would be late even "
    "without its synchronisations.",
    advice=(
        Advice(
            "Record several iterations, each marked as a step: a loop that does not wait for the "
            "GPU would lose none of this time.",
            "profiler.step()  # after each",
            needs=(Condition.ENDS_AHEAD,),
            unless=(Condition.NO_PYTORCH,),
        ),
        Advice(
            "Find out what slows some of the hosts: others launch as many kernels in time. Bind "
            "each process to cores near its GPU, and leave cores free for it.",
            "torchrun --numa-binding=node --nproc-per-node=8 train.py",
            needs=(Condition.OTHERS_IN_TIME,),
        ),
        *NEEDLESS_WORK,
        Advice(
            "Read values only after the step has launched everything: without the earlier waits, "
            "the host keeps up.",
            "optimizer.step()\nlosses.append(loss.item())  # after it, not before",
            needs=(Condition.LATE_BY_WAITS, Condition.READS_A_NUMBER, Condition.TRAINING),
            unless=(Condition.EMBEDDINGS,),
        ),
        Advice(
            "Read sizes of sparse features after the step has launched everything, or one step "
            "earlier: without waiting for them in between, the host keeps up.",
            needs=(Condition.LATE_BY_WAITS, Condition.READS_A_NUMBER, Condition.EMBEDDINGS),
        ),
        Advice(
            "Let PyTorch warn about each operation that waits for the GPU, with its line: without "
            "these waits, the host keeps up.",
            'torch.cuda.set_sync_debug_mode("warn")',
            needs=(Condition.LATE_BY_WAITS,),
            unless=(Condition.NO_PYTORCH, Condition.READS_A_NUMBER),
        ),
        Advice(
            "Wait only where the host reads a result: a stream runs its kernels in order. Capture "
            "launches without waits in between in a CUDA graph.",
            CAPTURES_GRAPH,
            needs=(Condition.NO_PYTORCH, Condition.WAITS_EACH_TIME),
            unless=(Condition.LATE_BY_WAITS, Condition.READS_FLAGS),
        ),
        Advice(
            "Sample the CPU: most of this time, the program is in no call of CUDA or the operating "
            "system, and what it does there is not recorded.",
            "nsys profile --trace=cuda,nvtx,osrt --sample=process-tree ./program",
            needs=(Condition.OUTSIDE_CALLS, Condition.NO_PYTORCH),
            unless=(Condition.SAMPLED,),
        ),
        Advice(
            "Look at this time in the Bottom-Up view of Nsight Systems: most of it, the program is "
            "in no call, and samples of the CPU show what it does there.",
            needs=(Condition.OUTSIDE_CALLS, Condition.NO_PYTORCH, Condition.SAMPLED),
        ),
        READS_FLAGS._replace(needs=(*READS_FLAGS.needs, Condition.LATE_BY_WAITS)),
        Advice(
            "Wait once, where the host reads the results: without the waits in between, the host "
            "keeps up.",
            "cudaStreamSynchronize(stream);  // after all launches",
            needs=(Condition.LATE_BY_WAITS, Condition.NO_PYTORCH),
            unless=(Condition.READS_FLAGS,),
        ),
        Advice(
            "First record again without with_stack=True: recording stacks slows the host, and a "
            "host twice as fast would recover most of this time.",
            needs=(Condition.STACKS, Condition.SLOWED_BY_STACKS),
        ),
        *fused_optimizers(Condition.OF_OPTIMIZER),
        Advice(
            "Update many parameters with one kernel, where this optimizer goes through them one by "
            "one (PyTorch's own take foreach=True).",
            "torch._foreach_add_(parameters, updates)  # in an optimizer of your own",
            needs=(Condition.OF_OPTIMIZER,),
            unless=(
                *(Condition.FUSED, Condition.FOREACH),
                *(Condition.ADAM, Condition.ADAMW, Condition.SGD),
            ),
        ),
        Advice(
            "Set gradients to None instead of filling them with zeros.",
            "optimizer.zero_grad(set_to_none=True)",
            needs=(Condition.ZEROES_GRADIENTS,),
        ),
        Advice(
            "Use a larger batch per GPU: extra rows cost the kernels of linear layers next to "
            "nothing.",
            needs=(Condition.FEW_ROWS, Condition.TRAINING),
        ),
        *KEEPS_NUMBERS,  # which no graph can capture
        CHOOSES_BY_MASK,
        Advice(
            "Capture the launches that repeat in a CUDA graph.",
            CAPTURES_GRAPH,
            needs=(Condition.NO_PYTORCH,),
            # no graph captures cudaMalloc, or a wait
            unless=(Condition.GRAPHS, Condition.UNCACHED, Condition.WAITS_EACH_TIME),
        ),
        Advice(
            "Do on the GPU what these copies are for, or gather small tensors into one copy.",
            "torch.stack([each.norm() for each in tensors]).cpu()",
            needs=(Condition.ONLY_COPIES,),
        ),
        Advice(
            "Let vLLM capture CUDA graphs: start it without enforce_eager.",
            "vllm serve MODEL  # without --enforce-eager",
            needs=(Condition.SERVER, Condition.VLLM),
            unless=(Condition.GRAPHS, Condition.CAPTURING, Condition.MANY_TOKENS),
        ),
        Advice(
            "Let vLLM capture CUDA graphs for this many tokens, without enforce_eager: by default "
            "it captures up to 512.",
            "vllm serve MODEL --max-cudagraph-capture-size 1024",
            needs=(Condition.SERVER, Condition.VLLM, Condition.MANY_TOKENS),
            unless=(Condition.GRAPHS, Condition.CAPTURING),
        ),
        Advice(
            "Let SGLang capture CUDA graphs: start it without --disable-cuda-graph.",
            "python -m sglang.launch_server --model-path MODEL",
            needs=(Condition.SERVER, Condition.SGLANG),
            unless=(Condition.GRAPHS, Condition.CAPTURING),
        ),
        *of_engines(
            "Capture graphs for the batch sizes of these steps too: other steps replay theirs.",
            "vllm serve MODEL --max-cudagraph-capture-size 512",
            "python -m sglang.launch_server --model-path MODEL \\\n    --cuda-graph-max-bs 512",
            needs=(Condition.NOT_CAPTURED,),
        ),
        Advice(
            "Record what comes later: a CUDA graph is captured here, and its replays need no "
            "launch for each kernel.",
            "torch.profiler.schedule(wait=5, warmup=2, active=3)",
            needs=(Condition.CAPTURING,),
            unless=(Condition.GRAPHS,),
        ),
        Advice(
            "Find out what still runs outside the compiled code.",
            'TORCH_LOGS="graph_breaks,recompiles" python script.py',
            needs=(Condition.COMPILED, Condition.IN_OPERATOR),
            unless=(Condition.SERVER,),
        ),
        Advice(
            "Let the compiled code replay CUDA graphs.",
            'torch.compile(model, mode="reduce-overhead")',
            needs=(Condition.COMPILED,),
            unless=(
                *(Condition.GRAPHS, Condition.CAPTURING, Condition.SERVER),
                Condition.LATE_BY_WAITS,
            ),
        ),
        Advice(
            "Compile what follows the embeddings, and let it replay CUDA graphs: sparse features "
            "change size in every step, so no graph can capture them.",
            'model.over_arch = torch.compile(model.over_arch, mode="reduce-overhead")',
            needs=(Condition.EMBEDDINGS,),
            unless=(Condition.COMPILED, Condition.GRAPHS, Condition.CAPTURING),
        ),
        Advice(
            "Compile the model, and let it replay CUDA graphs.",
            'model = torch.compile(model, mode="reduce-overhead")',
            unless=(
                *(Condition.COMPILED, Condition.GRAPHS, Condition.EMBEDDINGS),
                *(Condition.CAPTURING, Condition.SERVER, Condition.LATE_BY_WAITS),
            ),
        ),
        Advice(
            "Find out what still runs outside the compiled code.",
            'TORCH_LOGS="graph_breaks,recompiles" python script.py',
            needs=(Condition.COMPILED,),
            unless=(Condition.SERVER, Condition.IN_OPERATOR),
        ),
        Advice(
            "Launch larger kernels: use a larger batch.",
            needs=(Condition.TRAINING,),
            unless=(Condition.FEW_ROWS,),
        ),
        Advice(
            "Launch larger kernels: serve more concurrent requests.",
            needs=(Condition.SERVER,),
        ),
        Advice(
            "Launch larger kernels: process more at once, for example a larger batch.",
            unless=(Condition.TRAINING, Condition.SERVER),
        ),
        Advice(
            "Record without with_stack=True to see how long the host really takes: recording "
            "stacks slows it.",
            needs=(Condition.STACKS,),
            unless=(Condition.SLOWED_BY_STACKS,),
        ),
    ),
)
def launch_bound(context: Context) -> Finding | None:
    """Report the time in which the GPU waits for a host that launches too slowly."""
    after, behind = not_held_up(context), context.steps.launch_bound
    priced = _priced(context, after)
    if priced is None:
        return None
    price, alone_ns = priced
    hosts = _late_hosts(context, after, alone_ns)
    ranks, steps = hosts.ranks, context.steps_with(behind)
    ahead_ns = 0.0 if context.steps.are_recorded else _ahead_ns(context, ranks)
    if is_ahead := ahead_ns >= price.ns:
        price = price._replace(lower_ns=0.0, less_by="end")
    half_ms = _gain_ms(context, after, HostSpeed(2))
    waits_ms = _gain_ms(context, after, WITHOUT_WAITS)
    table, reads = _launching(context, ranks), _reads(context, ranks)
    by_waits = waits_ms >= MOST_BY_WAITS * alone_ns / NS_PER_MS
    by_stacks = may_be_stacks(half_ms, price.ns / NS_PER_MS)
    late = _Lateness(context, ranks, table, by_waits)
    busiest, where = late.busiest, late.where
    # owners of idle time show what the host does after a wait, not that the queue is empty then
    shown_in = ("queue_length", "idle_owners") if late.by_waits else ("idle_owners",)
    return context.finding(
        launch_bound,
        words=f"Launch-bound{on_ranks(context, ranks)}{in_steps(context, steps)}: "
        f"the CPU {late.with_kernels}{hosts.in_time}{late.after_waits}"
        f"{hosts.still_ahead}{where}",
        detail=f"; at the end, the CPU is {duration(ahead_ns)} ahead"
        if is_ahead
        else (busiest.words if busiest else ""),
        price=price,
        ranks=ranks,
        steps=steps,
        region=str(late.worst["region"]) if where else "",
        conditions=(
            *(_WAITS & conditions_of_owners(late.waited)),
            *_conditions(context, ranks, busiest, by_stacks=by_stacks),
            *(_WAITS & conditions_of_owners([str(reads["reads_in"])] if reads else ())),
            *holding(
                {
                    Condition.LATE_BY_WAITS: late.by_waits,
                    Condition.OTHERS_IN_TIME: hosts.others_in_time,
                    Condition.FEW_ROWS: late.has_few_rows,
                    Condition.OUTSIDE_CALLS: late.outside > 0,
                    Condition.ENDS_AHEAD: is_ahead,
                    Condition.MANY_TOKENS: _have_many_tokens(context, ranks, steps),
                    Condition.NOT_CAPTURED: _are_not_captured(context, ranks, steps),
                }
            ),
        ),
        evidence={
            **(busiest.evidence if busiest else {}),
            "twice_as_fast_ms": half_ms,
            "without_launching_ms": alone_ns / NS_PER_MS,
            "without_waits_ms": waits_ms,
            **({"ahead_at_the_end_ms": ahead_ns / NS_PER_MS} if is_ahead else {}),
            **({"rows_of_linear": late.rows} if late.rows else {}),
            **({"outside_calls_percent": 100 * late.outside} if late.outside else {}),
            **reads,
            "launching": table,
            "steps": context.by_rank_and_step(idle_ms=behind),
        },
        links=tuple(Link(panel=each, ranks=ranks, steps=steps) for each in shown_in),
    )


def _priced(context: Context, after: Sequence[Edit]) -> tuple[Price, float] | None:
    """The price of late launches, and the part of it that a host without launches gains (ns).

    None if they are not worth a finding, or have the price of another one.
    """
    behind, kernels = context.steps.launch_bound, context.steps["kernels"]
    if kernels.sum(axis=1).max(initial=0) < FEWEST_KERNELS:
        return None
    if any(isinstance(edit, HostSpeed) for edit in context.edits_of([profiler_overhead])):
        return None  # the profiler slows all launches, and has their price
    alone = context.price(behind, HostSpeed(np.inf), bound="at most", after=after, has_lower=False)
    if not context.is_worth_it(launch_bound, alone.ns) and not context.steps.starts_count:
        return None
    # what a CUDA graph saves: between short kernels, the GPU takes some µs to start the next one;
    # on an H200, those starts were all that a host without launches left of 5.7 ms per token
    in_graphs = (HostSpeed(np.inf), WithoutStarts())
    price = context.price(behind, *in_graphs, bound="at most", after=after)
    counted_ns = float(behind.max(axis=0).mean())
    if not context.replay.is_explained and price.ns > counted_ns:
        # a faster host would also move what nothing launches, such as pages of managed memory
        price = Price.counted(counted_ns, "at most")
    return (price, alone.ns) if context.is_worth_it(launch_bound, price.ns) else None


@dataclass(frozen=True)
class _Lateness:
    """What late hosts launch, and what keeps them from launching it earlier."""

    context: Context
    ranks: tuple[int, ...]
    table: pd.DataFrame
    """How they launch, see `_launching`."""
    by_waits: bool
    """Whether they would be in time if they never waited for the GPU."""

    @cached_property
    def worst(self) -> Mapping[Hashable, Any]:
        """The row of the table with most idle time."""
        return max(self.table.to_dict("records"), key=lambda row: float(row["idle_ms"]))

    @cached_property
    def busiest(self) -> Within | None:
        """The call that itself holds much of the idle time, unless the worst row names it."""
        found = busiest_within_idle(self.context, self.ranks)
        return None if found is not None and found.name == self.worst["region"] else found

    @cached_property
    def waited(self) -> tuple[str, ...]:
        """The operators in which they wait, if that makes them late."""
        return waits_in(self.context, self.ranks) if self.by_waits else ()

    @cached_property
    def rows(self) -> int:
        """Rows of the largest input of a linear layer; 0 if unknown, or if that is no reason."""
        if self.by_waits or few_of(self.worst):
            return 0
        return max(self.context.job.reduce(rows_of_linear, self.ranks).values())

    @cached_property
    def outside(self) -> float:
        """Fraction of the time that the GPU waits for a CPU in no call; 0 if that is usual."""
        part = part_outside_calls(self.context, self.ranks, of_all=True)
        is_program = Condition.NO_PYTORCH in self.context.conditions(self.ranks)
        return part if is_program and part >= MOST_OUTSIDE else 0.0

    @property
    def has_few_rows(self) -> bool:
        """Whether linear layers have so few rows that more would cost next to nothing."""
        return 0 < self.rows <= FEW_ROWS

    @property
    def with_kernels(self) -> str:
        """That the CPU is late, and with how many kernels; to follow it."""
        is_slow = self.worst["median_kernel_us"] >= LONG_KERNEL_US
        few, fails = few_of(self.worst), "is late with" if is_slow else "cannot keep up with"
        rows = f", at most {counted(self.rows, 'row')} in linear layers" * self.has_few_rows
        kernels = per_step(self.context, self.worst["kernels_per_step"], "kernel")
        median = _kernel_time(self.worst["median_kernel_us"])
        return f"{'is late mainly with' if few else fails} {few}{kernels} (median {median}{rows})"

    @property
    def after_waits(self) -> str:
        """That it is late after waiting for the GPU, if so; to follow the kernels."""
        if self.by_waits:
            inside = f" in {' and '.join(map(named, self.waited))}" if self.waited else ""
            return f" once it has waited for the GPU{inside}"
        is_usual = Condition.WAITS_EACH_TIME in self.context.conditions(self.ranks)
        return ", after most of which it waits for the GPU" * is_usual

    @property
    def where(self) -> str:
        """Where the time is lost, after a semicolon; empty if `busiest` holds more of it."""
        name, busiest = str(self.worst["region"]), self.busiest
        if not name:
            in_calls = percent(self.worst["in_calls_percent"])
            each = duration(1000 * self.worst["median_launch_us"])
            region = f"; {in_calls} of the lost time is in launch calls ({each} each)"
        elif busiest is not None and 100 * busiest.share > self.worst["region_percent"]:
            region = ""
        else:
            region = self._before(name)
        if not self.outside:
            return region
        share = percent(100 * self.outside)
        outside = f"; for {share} of the time that the GPU waits, the CPU is in no call"
        return f"{region if name else ''}{outside}"

    def _before(self, region: str) -> str:
        """Say before which work time is lost, and how many kernels it has.

        Not the time in it: half of the time before the kernels of a linear layer was in no
        operator.
        """
        share, count = self.worst["region_percent"], self.worst["region_kernels_per_step"]
        is_counted = bool(count) and not (self.by_waits or self.has_few_rows)
        kernels = counted(count, "kernel")
        median = f"median {_kernel_time(self.worst['region_median_kernel_us'])}"
        if region == BACKWARD:
            where = f"in {region}{f' ({kernels}, {median})' if is_counted else ''}"
        elif is_counted:
            where = f"before the {kernels} of {named(region)} ({median})"
        else:
            work = "kernels" if count else "copies"  # a region may only copy
            where = f"before {work} of {named(region)}"
        of = "" if len(self.table) == 1 else f"on rank {self.worst['rank']}, "
        is_minority = region == BACKWARD and share < MINORITY
        rest = f", {percent(100 - share)} outside it" if is_minority else ""
        return f"; {of}{percent(share)} is lost {where}{rest}"


class _LateHosts(NamedTuple):
    """Ranks with slow hosts."""

    ranks: tuple[int, ...]
    """Those whose hosts are too slow."""
    ahead: tuple[int, ...] = ()
    """Those among them that are not late yet, as their hosts are still ahead."""
    others_in_time: bool = False
    """Whether some ranks launch about as many kernels as the late ones and are not late."""

    @property
    def in_time(self) -> str:
        """That this can be done in time, to follow the kernels; empty if no host shows it."""
        return " that other ranks launch in time" * (self.others_in_time and not self.ahead)

    @property
    def still_ahead(self) -> str:
        """Which ranks are ahead, after a comma; empty for none."""
        are = "is" if len(self.ahead) == 1 else "are"
        return f", though {which_ranks(self.ahead)} {are} still ahead" if self.ahead else ""


def _late_hosts(context: Context, after: Sequence[Edit], alone_ns: float) -> _LateHosts:
    """Find out which hosts are too slow.

    One that waits for a slower one may never be late, and one that is ahead is late once it has no
    lead any more. Only where faster hosts of the late ranks would do, now and later, are the others
    fast enough.
    """
    steps, blamed = context.steps, context.blamed(context.steps.host_behind.mean(axis=1))
    late_ns, kernels = steps.late_launching.mean(axis=1), steps["kernels"].mean(axis=1)
    is_late = late_ns >= LEAST_LATE * late_ns.max()
    late = tuple(np.array(context.ranks)[is_late].tolist())
    edits = HostSpeed(np.inf, late)
    if (
        not alone_ns
        or is_late.all()
        or NS_PER_MS * _gain_ms(context, after, edits) < NEARLY * alone_ns
    ):
        return _LateHosts(blamed)
    in_time = bool(kernels[is_late].max() <= AS_MANY * np.median(kernels[~is_late]))
    lasting_ns, all_ns = (
        context.replay.lasting_gain_ns(after, [each]) for each in (edits, HostSpeed(np.inf))
    )
    if lasting_ns >= NEARLY * all_ns:
        return _LateHosts(late, (), in_time)
    return _LateHosts(blamed, tuple(rank for rank in blamed if rank not in late), in_time)


def _ahead_ns(context: Context, ranks: tuple[int, ...]) -> float:
    """How long before the end of a recording's GPU work its last launch is, on the rank with least.

    A recording without steps starts with an empty queue; the next iteration of a loop that does not
    wait for the GPU would lose nothing.
    """
    job, found = context.replay.job, []
    for place, rank in enumerate(job.ranks):
        own = np.flatnonzero((job.operation_rank == place) & (job.launch >= 0))
        if rank in ranks and own.size:
            last_ns = float(job.point_ns[job.launch[own]].max())
            found.append(float(job.end_ns[own].max()) - last_ns)
    return min(found, default=0.0)


def _reads(context: Context, ranks: tuple[int, ...]) -> dict[str, str | float]:
    """The operator in which a late host waits longest for values from the GPU; or nothing.

    Its name, its calls in each step, and how long the GPU is idle during these.
    """
    found = largest_owner(context, ranks, READS)
    if found is None:
        return {}
    owner, having = found
    counted_steps = having * len(context.steps.numbers)
    idle_ns = owner.idle_ns / counted_steps
    least_percent = context.limits.least_percent_with_evidence
    if idle_ns < least_percent / 100 * context.steps.median_period_ns:
        return {}
    return {
        "reads_in": owner.name,
        "reads_per_step": owner.times / counted_steps,
        "idle_in_reads_ms": idle_ns / NS_PER_MS,
    }


def few_of(worst: Mapping[Hashable, Any]) -> str:
    """Say before how many kernels most of the time is lost, if they are few."""
    late = max(round(worst["late_per_step"]), 1)
    is_elsewhere = worst["region_kernels_per_step"] > late  # 161 of zero_grad, 64 of the backward
    if is_elsewhere and worst["region_percent"] < 100 * MOST_LATE:
        return ""
    return f"{late:,} of " if late <= FEW_LATE * worst["kernels_per_step"] else ""


def _gain_ms(context: Context, after: Sequence[Edit], *edits: Edit) -> float:
    both, first = (
        context.replay.gain_ns(each, context.steps.numbers) for each in ((*after, *edits), after)
    )
    return max(both - first, 0.0) / NS_PER_MS


def may_be_stacks(half_ms: float, price_ms: float) -> bool:
    """Whether the prices allow that recording stacks, which slows a host, is why it is late.

    The prices are those of a host twice as fast, and of an infinitely fast one.
    """
    return half_ms >= MOST_BY_STACKS * price_ms


def _conditions(
    context: Context, ranks: tuple[int, ...], busiest: Within | None, *, by_stacks: bool
) -> set[Condition]:
    """What holds for the part of the program that launches too slowly."""
    regions = [host.launching.region for host in context.hosts(ranks).values()]
    most = max((each for each in regions if each), key=lambda each: each.idle.length, default=None)
    names = [*([most.call] if most else ()), *([busiest.name] if busiest else ())]
    found = conditions_of_owners(names) - _WAITS
    if most is not None and most.reads and not most.kernels:
        found.add(Condition.ONLY_COPIES)
    if by_stacks and Condition.STACKS in context.conditions(ranks):
        found.add(Condition.SLOWED_BY_STACKS)
    return found


def _are_not_captured(context: Context, ranks: Sequence[int], steps: Sequence[int]) -> bool:
    """Whether decode steps replay no graph while others do: none was captured for them."""
    table = server_steps(context.job).steps
    table = table[table["rank"].isin(ranks) & (table["phase"] == "decode")]
    is_late, replays = table["step"].isin(steps), table["graphs"] > 0
    return bool(is_late.any() and replays.any() and not (is_late & replays).any())


def _have_many_tokens(context: Context, ranks: Sequence[int], steps: Sequence[int]) -> bool:
    """Whether graphs of such steps are captured only on request, and worth it.

    With 888 tokens, there would have been no graph without ``enforce_eager``, either.
    """
    table = server_steps(context.job).steps
    table = table[table["rank"].isin(ranks) & table["step"].isin(steps)]
    tokens = (table["context_tokens"] + table["generation_tokens"]).dropna()
    return bool(len(tokens) and MOST_CAPTURED < tokens.median() <= 2 * MOST_CAPTURED)


def _kernel_time(median_us: float) -> str:
    """Write a kernel time; recorders of 2021 count whole µs, and give 0 for less."""
    return duration(1000 * median_us) if median_us else "less than 1 µs"


def _launching(context: Context, ranks: tuple[int, ...]) -> pd.DataFrame:
    """How each rank launches, as a table with a row for each rank."""
    steps = context.steps
    busy = 100 * (1 - steps["idle"].sum(axis=1) / np.maximum(steps["period"].sum(axis=1), 1))
    idle_ms = steps.launch_bound.mean(axis=1) / NS_PER_MS
    rows = []
    for rank, host in context.hosts(ranks).items():
        place, region = context.ranks.index(rank), host.launching.region
        rows.append(
            {
                "rank": rank,
                "kernels_per_step": float(steps["kernels"][place].mean()),
                "median_kernel_us": host.launching.median_kernel_ns / 1000,
                "median_launch_us": host.launching.median_launch_ns / 1000,
                "in_calls_percent": 100 * host.launching.late_in_calls,
                "late_per_step": host.launching.late / len(steps.numbers),
                "gpu_busy_percent": float(busy[place]),
                "idle_ms": float(idle_ms[place]),
                "region": region.name if region else "",
                "region_percent": 100 * region.share if region else np.nan,
                "region_kernels_per_step": region.kernels / len(steps.numbers)
                if region
                else np.nan,
                "region_median_kernel_us": region.median_kernel_ns / 1000 if region else np.nan,
            }
        )
    return pd.DataFrame(rows)
