"""Losses whose cause the traces do not show: they are named, so that the diagnosis is not silent.

Checked after all other rules, for each class of the budget, because what was found may be the
smaller part: one recorded rank of a DDP job was called launch bound, and 17 % of its step in NCCL
went unmentioned.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import pandas as pd

from hta_widgets.analyses.communication.kernels import JobCollectives
from hta_widgets.analyses.communication.recorded import operation_of
from hta_widgets.arrays import Int64Array
from hta_widgets.diagnosis.cause import Cause
from hta_widgets.diagnosis.context import Context
from hta_widgets.diagnosis.facts.conditions import Condition, conditions_of_owners
from hta_widgets.diagnosis.facts.gap_owners import Touched, before_first_compiled
from hta_widgets.diagnosis.facts.host_facts import HeldBack, gradients_of, launches_apart_ns
from hta_widgets.diagnosis.finding import Evidence, Finding, Link, Price
from hta_widgets.diagnosis.job.steps import Matrix
from hta_widgets.diagnosis.proof.what import Busy, LateHost, What
from hta_widgets.diagnosis.replay.edits import (
    CommunicationHidden,
    Edit,
    HostSpeed,
    ShorterOperations,
    WithoutHostWork,
    WithoutMeetings,
    WithoutWaits,
)
from hta_widgets.diagnosis.replay.host_work import HOST_WORK
from hta_widgets.diagnosis.replay.waiting_calls import Wait
from hta_widgets.diagnosis.rules.allocator_retries import allocator_retries
from hta_widgets.diagnosis.rules.autotuning import autotuning
from hta_widgets.diagnosis.rules.blocking_sync import blocking_sync
from hta_widgets.diagnosis.rules.exposed_communication import exposed_communication, is_exchange
from hta_widgets.diagnosis.rules.host_evidence import (
    Within,
    idle_ns_unexplained,
    largest_known,
    of_idle,
    part_outside_calls,
    sampled_functions,
    within_idle,
)
from hta_widgets.diagnosis.rules.host_pause import host_pause
from hta_widgets.diagnosis.rules.input_starvation import input_starvation
from hta_widgets.diagnosis.rules.launch_bound import launch_bound
from hta_widgets.diagnosis.rules.slow_host_copies import slow_host_copies
from hta_widgets.diagnosis.rules.warm_up import warm_up
from hta_widgets.diagnosis.rules.wording import named, on_ranks, part_of_it, which_ranks
from hta_widgets.quantities import NS_PER_MS, duration, number, percent
from hta_widgets.trace.model.kernels import KernelType
from hta_widgets.trace.ranks.facts import rank_records, world_size_among, world_size_of
from hta_widgets.trace.ranks.identity import identity_of, sharing_ranks

WORTH_NAMING: Final = 0.1
"""Fraction of the host's idle time above which the largest recorded call is named: in a saxpy whose
host sends and receives between launches, 24 % was in MPI, and the trace showed nothing else."""

_MOST_SAMPLED: Final = 3
"""Most functions that are named if samples of the CPU show several."""

MOSTLY_OUTSIDE: Final = 0.5
"""Fraction of the host's idle time outside calls from which that is said: of idle time that was in
``cudaMemcpyAsync`` for 99.5 %, it said nothing."""

_UNRECORDED: Final = (
    "something unrecorded, such as {}another process or a driver that submits in batches"
)
"""Under WSL, 20 launches of 2 µs reached an idle RTX 4090 after 0.18 to 2 ms, each before a wait of
the host."""

FEWEST_GRADIENTS: Final = 20
"""Fewest gradients per step: a model with few parameters may have a bucket for each."""

MORE_GRADIENTS: Final = 1.1
"""Gradients per operation above which several share one: small parameters share a bucket."""

FEWEST_REPEATS: Final = 3
"""Fewest steps whose shortest times of an operation show how much of it may be transfer."""

AS_LONG: Final = 0.9
"""Fraction of the time from which the shortest times show nothing: of 404 equal all-reduces, they
were 99 %."""

EXPLAINED: Final[Mapping[Cause, tuple[str, ...]]] = {
    allocator_retries: ("gap_alloc",),
    blocking_sync: ("gap_sync",),
    input_starvation: ("gap_loader",),
    launch_bound: ("gap_op",),
    warm_up: ("gap_init", "gap_alloc"),
}
"""Idle time that *Show* of what is left does not light, as another finding does."""

WORTH_A_NOTICE: Final = 0.15
"""Fraction of the mean step; shorter waits for unrecorded work are usual."""


class _Known(NamedTuple):
    """What is known about a loss, or about a part of it; by default, nothing."""

    words: str = ""
    evidence: Mapping[str, Evidence] = {}
    conditions: tuple[Condition, ...] = ()


class _Loss(NamedTuple):
    """A class of time without computation."""

    cause: Cause
    """The cause under which a finding on it is reported."""
    seen_in: tuple[str, ...]
    """Its budget classes; a finding in one of them is its cause."""
    ns: Matrix
    edits: tuple[Edit, ...]
    """What changes in a replay without it."""
    words: str
    """What the GPU does during this time."""
    unknown: str
    """What is not known about it."""
    panel: str
    proof: What
    """What shows it."""
    others: tuple[Cause, ...] = ()
    """Further causes that explain it."""
    is_of_host: bool = False
    """Whether the sentence names the host call that holds most of it."""
    known: _Known = _Known(conditions=(Condition.NOT_RECORDED,))
    """Words in place of `unknown`, which are empty if its cause is not found; what shows it; and
    what the recordings lack that would show more."""
    is_measured: bool = False
    """Whether nothing more could be known."""

    @property
    def why(self) -> str:
        """The words that follow what the GPU does."""
        if self.known.words:
            return f": {self.known.words}"
        is_found = Condition.ONE_EACH in self.known.conditions
        return f"; {'' if is_found else 'cause not found: '}{self.unknown}"

    def explained_by(self, context: Context) -> list[Finding]:
        """Findings that are its cause."""
        return [
            found
            for cause, found in context.found.items()
            if cause.seen_in in self.seen_in or cause in self.others
        ]

    def explained_ns(self, context: Context) -> float:
        """How much of the mean step the findings that are its cause take."""
        explained = self.explained_by(context)
        if not context.steps.are_recorded:  # trials are taken out of such steps before
            explained = [each for each in explained if each.cause != autotuning.name]
        return NS_PER_MS * sum(each.recoverable_ms for each in explained)

    def owner(self, context: Context, ranks: Sequence[int]) -> Within | None:
        """The call that holds most of the time on some ranks; None if there is none."""
        return within_idle(context, ranks) if self.is_of_host else None


def communication_without_cause(context: Context) -> Finding | None:
    """Report communication that nothing else explains and nothing hides.

    Waiting in a pipeline has its own rule.
    """
    if not context.ranks:
        return None
    steps = context.steps
    edits: tuple[Edit, ...] = (CommunicationHidden(),)
    ns = steps["transfer"] + steps["transfer_p2p"] + steps["undivided"]
    if not context.traffic.pipelines:
        ns = ns + steps["wait"] + steps["wait_p2p"]
        members = np.ones(context.replay.job.arrival.size, dtype=np.bool_)
        edits = (WithoutMeetings(members),)
    is_divided = bool(2 * steps["undivided"].sum() <= ns.sum())
    divided = _divided(context) if is_divided else _Known()
    shortest = _Known() if is_divided else _shortest(context)
    lacking, mostly = _lacking(context), _mostly(context)
    unknown = shortest.words or f"waiting and transfer cannot be told apart{lacking.words}"
    conditions = divided.conditions if is_divided else lacking.conditions
    loss = _Loss(
        cause=exposed_communication,
        seen_in=("transfer", "communication", "waiting"),
        ns=ns,
        edits=edits,
        words=f"communicates without overlapping compute{'' if is_divided else mostly.words}",
        unknown=divided.words or unknown,
        known=_Known(
            divided.words, divided.evidence or shortest.evidence, (*conditions, *mostly.conditions)
        ),
        is_measured=is_divided and _most_late(_waited_for(context)) < context.limits.owner_percent,
        panel="overlap",
        proof=Busy(("transfer", "transfer_p2p", "undivided", "wait", "wait_p2p")),
    )
    return _reported(context, loss)


def _mostly(context: Context) -> _Known:
    """Name the operation with most exposed communication, and what holds for it."""
    kernels = context.traffic.matches.kernels
    names = [
        operation_of(name) or ("sends and receives" if "SendRecv" in name else "")
        for name in kernels.name.values
    ]
    exposed_ns, count = Counter[str](), Counter[str]()
    for rank in context.ranks:
        steps = context.facts[rank].steps
        inside = kernels.place == kernels.ranks.index(rank)
        inside &= (kernels.start_ns >= steps["start_ns"].min()) & (
            kernels.start_ns < steps["end_ns"].max()
        )
        for code in np.unique(kernels.name.codes[inside]):
            own = inside & (kernels.name.codes == code)
            exposed_ns[names[code]] += int(kernels.exposed_ns[own].sum())
            count[names[code]] += int(np.count_nonzero(own))
    (name, most_ns), *_ = exposed_ns.most_common(1) or [("", 0)]
    cells = len(context.ranks) * len(context.all_steps.numbers)
    # the last operation may start after all computing, and so after the steps
    per_step = round(count[name] / cells)
    if not name or not per_step or 2 * most_ns <= exposed_ns.total():
        return _Known()
    gradients = max(context.job.reduce(gradients_of, context.ranks).values())
    # one rank of a compiled DDP job reduced each of 404 gradients separately, and nothing said so
    one_each = FEWEST_GRADIENTS <= gradients <= per_step * MORE_GRADIENTS
    each = ""
    if one_each:  # of 350 ms, 60 were communication, and 122 passed while the host requested it
        apart_ns = max(context.job.reduce(launches_apart_ns, context.ranks).values())
        each = f", one for each gradient, launched {duration(apart_ns)} apart"
    speed = _at_least(kernels, np.flatnonzero([each == name for each in names]))
    said = f", mostly {per_step:,} {name}{context.steps.per_noun}{speed}{each}"
    if one_each:
        return _Known(said, conditions=(Condition.ONE_EACH,))
    return _Known(said, conditions=(Condition.EXCHANGES,) if is_exchange(name) else ())


def _at_least(kernels: JobCollectives, codes: Int64Array) -> str:
    """How fast the kernels of some names are if no part of them is waiting; empty if unknown."""
    is_sized = (kernels.size_bytes > 0) & ~np.isnan(kernels.bus_factors)
    own = np.isin(kernels.name.codes, codes)
    time_ns, sized_ns = (int(kernels.duration_ns[each].sum()) for each in (own, own & is_sized))
    if 2 * sized_ns <= time_ns:
        return ""
    sent = (kernels.size_bytes * kernels.bus_factors)[own & is_sized].sum()
    return f" (≥ {number(sent / sized_ns)} GB/s)"


def _lacking(context: Context) -> _Known:
    """What would tell waiting from transfer, and the words for what is missing."""
    job = context.job
    records = job.reduce(rank_records, context.ranks).values()
    if not all(each.kernels for each in records):
        return _Known(" without the kernels", conditions=(Condition.NO_KERNELS,))
    if job.unopened_ranks:
        words = " without the ranks that are not open"
        return _Known(words, conditions=(Condition.NOT_OPENED,))
    world, ranks = world_size_among(job.reduce(world_size_of, job.ranks)), job.recorded_ranks
    if len(ranks) == 1 or len(ranks) < world:
        who = which_ranks(ranks)
        of_all = f"of {world:,} " if world > len(ranks) else ""
        return _Known(f" with {who} {of_all}alone", conditions=(Condition.OTHER_RANKS,))
    if not all(each.collectives for each in records if each.communication):
        words = " without the collectives of the kernels"
        return _Known(words, conditions=(Condition.NO_COLLECTIVES,))
    return _Known()


def _shortest(context: Context) -> _Known:
    """Say how much of the communication may be transfer, if the same operations vary by step.

    On one of eight ranks it took 16 to 34 ms, by how long the others were waited for.
    """
    kernels, least_ns, whole_ns, is_sized = context.traffic.matches.kernels, 0.0, 0.0, True
    for rank in context.ranks:
        steps = context.facts[rank].steps
        step = np.searchsorted(steps["start_ns"], kernels.start_ns, side="right") - 1
        inside = (kernels.place == kernels.ranks.index(rank)) & (step >= 0)
        own = np.flatnonzero(inside & (kernels.start_ns < steps["end_ns"].max()))
        own = own[np.lexsort((kernels.start_ns[own], kernels.name.codes[own], step[own]))]
        counts = np.bincount(step[own], minlength=steps["step"].size)
        if counts.size < FEWEST_REPEATS or not counts[0] or (counts != counts[0]).any():
            return _Known()
        what = np.stack((kernels.name.codes[own], kernels.size_bytes[own]))
        what = what.reshape(2, counts.size, -1)
        if (what != what[:, :1]).any():
            return _Known()
        taken_ns = kernels.duration_ns[own].reshape(counts.size, -1)
        least_ns += float(taken_ns.min(axis=0).sum())
        whole_ns += float(taken_ns.sum() / counts.size)
        is_sized &= bool((what[1] > 0).all())
    if least_ns >= AS_LONG * whole_ns:
        return _Known()
    least_ns, whole_ns = least_ns / len(context.ranks), whole_ns / len(context.ranks)
    said = f"at most {duration(least_ns)} of {duration(whole_ns)} is transfer, by the shortest of "
    said += f"each in any step{'' if is_sized else ', if sizes are equal'}"
    times = {"shortest_ms": least_ns / NS_PER_MS, "communication_ms": whole_ns / NS_PER_MS}
    return _Known(said, times)


def _divided(context: Context) -> _Known:
    """Say for whom ranks wait and how long they transfer, for the mean rank and step.

    In each layer of a decode step, the rank with the most popular experts is late, a different one
    each time: no rank computes longer than the others, and yet the step waits.
    """
    steps, late = context.steps, _waited_for(context)
    wait_ns, transfer_ns = (
        float((steps[name] + steps[f"{name}_p2p"]).mean()) for name in ("wait", "transfer")
    )
    evidence: dict[str, Evidence] = {
        "late": late,
        "wait_ms": wait_ns / NS_PER_MS,
        "transfer_ms": transfer_ns / NS_PER_MS,
    }
    told = f"{duration(transfer_ns)} of transfer{steps.per_noun}"
    if late["waited_for_ms"].any():
        rank, part = late["rank"].iloc[int(late["waited_for_ms"].argmax())], _most_late(late)
        whom = f"for ranks that take turns being late ({percent(part)} of it for rank {rank})"
        if part >= context.limits.owner_percent:
            unknown = "" if context.found else ", and why it is late is not known"
            whom = f"({percent(part)} of it for rank {rank}){unknown}"
        told += f", {duration(wait_ns)} of waiting {whom}"
    return _Known(told, evidence, (Condition.TAKE_TURNS,))


def _waited_for(context: Context) -> pd.DataFrame:
    """How long the mean rank waits in a step's collectives for each rank that arrives last (ms)."""
    traffic, cells = context.traffic, context.steps["wait"].size
    matches, inside = traffic.matches, (traffic.place >= 0) & (traffic.step >= 0)
    waited_ns = np.bincount(
        matches.of_row[inside], traffic.exposed_wait_ns[inside], minlength=len(matches)
    )
    last = np.lexsort((traffic.waits.start_ns, matches.of_row))[matches.edges[1:] - 1]
    ranks = matches.kernels.ranks
    places = matches.kernels.place[matches.rows[last]]
    of_rank_ns = np.bincount(places, waited_ns, minlength=len(ranks))
    return pd.DataFrame({"rank": [*ranks], "waited_for_ms": of_rank_ns / cells / NS_PER_MS})


def _most_late(late: pd.DataFrame) -> float:
    """Share (%) of the waiting that is for the rank that others wait for most."""
    waited_ms = late["waited_for_ms"]
    return 100 * float(waited_ms.max() / waited_ms.sum()) if waited_ms.any() else 0.0


def idle_without_cause(context: Context) -> Finding | None:
    """Report idle time that nothing else explains, by the call that holds most of it.

    Its pieces may be of several kinds, each too small for its own finding.
    """
    if not context.ranks:
        return None
    within, known = within_idle(context, context.ranks), _Known()
    if not (within and within.is_sampled):  # or samples say it all
        looks = (look(context) for look in (_sampled, _touched, _compiling))
        known = next((each for each in looks if each.words), known)
    name, share = largest_known(context, context.ranks)
    part = f"{percent(100 * share)} of {of_idle(context)}"
    unknown = f"no recorded call takes most of it; the largest share is in {named(name)} ({part})"
    if part_outside_calls(context, context.ranks) > share and not _records_code(context):
        unknown = (
            f"{_not_recorded(context)}; the largest recorded share is in {named(name)} ({part})"
        )
    if share < WORTH_NAMING:
        unknown = _not_recorded(context)
    loss = _Loss(
        cause=host_pause,
        seen_in=("late_launching", "late_synchronising", "data_loading"),
        ns=context.steps["idle"] - _unseen(context) - context.steps["within_graphs"],
        edits=(HostSpeed(np.inf), WithoutHostWork(HOST_WORK), WithoutWaits(tuple(Wait))),
        words="is idle",
        unknown=known.words or unknown,
        panel="idle_owners",
        proof=LateHost(tuple(kind for cause in context.found for kind in EXPLAINED.get(cause, ()))),
        others=(warm_up,),
        is_of_host=not known.words,
        known=known._replace(conditions=(*known.conditions, Condition.NOT_RECORDED)),
    )
    return _reported(context, loss)


def _compiling(context: Context) -> _Known:
    """Say how long the GPU is idle before the first kernel of compiled code, if that is most of it.

    A compiler runs on the CPU, and leaves no call where operators are not recorded: 2.65 s before a
    first ``triton_poi_fused_copy_zeros_0`` had no cause.
    """
    if Condition.COMPILED not in context.conditions():
        return _Known()  # without another pass over the ranks, which may have to be read again
    found = context.job.reduce(before_first_compiled, context.ranks).values()
    name, longest_ns = max(found, key=lambda each: each[1])
    share = sum(ns for _, ns in found) / max(idle_ns_unexplained(context, context.ranks), 1)
    if 2 * share <= 1:
        return _Known()
    told = (
        f"{percent(100 * share)} of {of_idle(context)} ({duration(longest_ns)}) precedes the first "
        f"kernel of compiled code, {named(name)}, as while torch.compile compiles"
    )
    evidence = {"before_compiled_ms": longest_ns / NS_PER_MS}
    return _Known(told, evidence, (Condition.FIRST_COMPILED,))


def _sampled(context: Context) -> _Known:
    """Name the functions that samples of the CPU show, if these are most of it together.

    A host printed results for 48 % of its idle time, cleared vectors for 26 % and enlarged others
    for 20; next to managed memory, all of it seemed to be page faults.
    """
    shares = sampled_functions(context, context.ranks)
    together = sum(share for _, share in shares)
    if 2 * together <= 1:
        return _Known()
    most = [
        f"{named(name)} ({percent(100 * share)}{f' of {of_idle(context)}' if place == 0 else ''})"
        for place, (name, share) in enumerate(shares[:_MOST_SAMPLED])
        if share >= WORTH_NAMING
    ]
    told = f"by CPU samples, the host is in {', '.join(most)}"
    return _Known(told, {"sampled_percent": 100 * together})


def _touched(context: Context) -> _Known:
    """Say how long the host works on managed memory that is on the GPU, if that is most of it.

    Faults of the host are in no table that is read, and prefetching saves only these: of 1.92 s in
    which a host looked for the largest error in 1.07 GB, the copies took 79 ms.
    """
    hosts = context.hosts(context.ranks).values()
    sums = Touched(*np.sum([(0, 0, 0), *(host.gaps.touched for host in hosts)], axis=0).tolist())
    share = sums.idle_ns / max(idle_ns_unexplained(context, context.ranks), 1)
    if 2 * share <= 1:
        return _Known()
    told = (
        f"for {percent(100 * share)} of {of_idle(context)}, the host works on managed memory, "
        f"whose pages move to it as it touches them ({sums.copies:,} times, "
        f"{duration(sums.copying_ns)} of copying); page faults cannot be told from its own work"
    )
    evidence: dict[str, Evidence] = {
        "touching_percent": 100 * share,
        "copies": sums.copies,
        "copying_ms": sums.copying_ns / NS_PER_MS,
    }
    return _Known(told, evidence, (Condition.TOUCHES_PAGES,))


def _records_code(context: Context) -> bool:
    """Whether operators or frames of a rank are recorded."""
    return any(context.facts[rank].records.host_code for rank in context.ranks)


def _not_recorded(context: Context) -> str:
    """Say what is known about a host whose code is not recorded."""
    records = [context.facts[rank].records for rank in context.ranks]
    if _records_code(context):
        return "the trace does not show what the host does meanwhile"
    outside = part_outside_calls(context, context.ranks)
    of_system = all(each.os_calls for each in records)
    if outside < MOSTLY_OUTSIDE:
        part, or_of = percent(100 * (1 - outside)), " or in those of the operating system"
        return f"for {part} of {of_idle(context)}, the host is in CUDA calls{or_of * of_system}"
    told = f"for {percent(100 * outside)} of {of_idle(context)}, the host is in no CUDA call"
    if of_system:
        return f"{told}, nor in one of the operating system: it runs code of its own"
    return f"{told}, and what it does is not recorded"


def copies_without_cause(context: Context) -> None:
    """Notice the time of copies that nothing else explains; their purpose is not known."""
    if not context.ranks:
        return
    job = context.replay.job
    copies_ns = np.where(job.type == KernelType.MEMORY, job.weights.duration, 0.0)
    loss = _Loss(
        cause=slow_host_copies,
        seen_in=("copies",),
        ns=context.steps["memory"],
        edits=(ShorterOperations(copies_ns),),
        words="copies or fills memory without overlapping compute",
        unknown="no computation is known to wait for these copies",
        panel="memory_bandwidth",
        proof=Busy(("memory",)),
    )
    if _is_much(context, loss) and not loss.explained_by(context):
        _notice(context, loss, _left(context, loss, has_lower=False))


def _reported(context: Context, loss: _Loss) -> Finding | None:
    """Report what is left of a class of lost time without everything that was found.

    If something was found in the class, it is the cause, and what is left becomes a notice, unless
    that is more: a pause of 770 ms was in a notice, below findings of 344 and 90 ms.
    """
    if not _is_much(context, loss):
        return None
    explained_ns = loss.explained_ns(context)
    left = _left(context, loss, has_lower=not explained_ns)
    if left.ns > max(_least_ns(context), explained_ns):
        return _found(context, loss, left)
    _notice(context, loss, left)
    return None


def _is_much(context: Context, loss: _Loss) -> bool:
    """Whether a loss may be worth a finding or a notice; only then is it replayed."""
    if not loss.ns.size:
        return False
    worth_ns = WORTH_A_NOTICE * context.steps.period_ns
    return bool(loss.ns.max(axis=0).mean() > _least_ns(context) or loss.ns.mean() > worth_ns)


def _least_ns(context: Context) -> float:
    return context.limits.least_percent_unexplained / 100 * context.steps.median_period_ns


def _left(context: Context, loss: _Loss, *, has_lower: bool) -> Price:
    """By how much the mean step would be shorter without a loss, after all that was found.

    Its lower bound may be what it is worth alone: a host that is the bottleneck hides what the GPU
    does. The gain is at most what the rank that loses most in a step loses: more would come from
    work that also waits for something unrecorded. Taking the mean rank instead would hide the pause
    of one rank for which all wait.
    """
    after = context.edits_of(context.found)
    # 24.9 ms were to gain in 17.7 ms that findings left; others may wait for the longest loss
    whole_ns = max(float(loss.ns.max(axis=0).mean()) - loss.explained_ns(context), 0.0)
    if loss.cause is exposed_communication:
        whole_ns = max(whole_ns - _waiting_for_late_ranks_ns(context, loss), 0.0)
    if not whole_ns or not context.replay.is_sound:
        return Price.counted(whole_ns, "at most")
    left = context.price(loss.ns, *loss.edits, bound="at most", after=after, has_lower=has_lower)
    if left.ns > whole_ns:
        return left._replace(ns=whole_ns, lower_ns=whole_ns)
    if has_lower and after and left.lower_ns:
        alone_ns = context.price(loss.ns, *loss.edits).ns
        if alone_ns < left.lower_ns:
            left = left._replace(lower_ns=alone_ns, less_by="alone")
    return left


def _waiting_for_late_ranks_ns(context: Context, loss: _Loss) -> float:
    """Time already found to be waiting for a rank, in kernels that are not matched with its own.

    Then that rank costs between nothing and all of its lateness; as communication of the others,
    the same time would be found again. What explains the loss is taken out of it as a whole.
    """
    explained = loss.explained_by(context)
    found = (
        each
        for cause, each in context.found.items()
        if cause.makes_others_wait and {*each.ranks} < {*context.ranks} and each not in explained
    )
    return sum(each.recoverable_ms - each.lower_ms for each in found) * NS_PER_MS


def _found(context: Context, loss: _Loss, left: Price) -> Finding:
    ranks, steps = context.blamed(loss.ns.mean(axis=1)), context.steps_with(loss.ns)
    within = loss.owner(context, ranks)
    evidence: dict[str, Evidence] = {"lost": context.by_rank_and_step(lost_ms=loss.ns)}
    names = (within.name, within.around) if within else ()
    return context.finding(
        loss.cause,
        words=f"The GPU{on_ranks(context, ranks)} {loss.words}"
        f"{_works(within) if within else loss.why}",
        price=left,
        ranks=ranks,
        steps=steps,
        conditions=conditions_of_owners(names) if within else loss.known.conditions,
        evidence=evidence | dict(loss.known.evidence) | (within.evidence if within else {}),
        links=(Link(panel=loss.panel, ranks=ranks, steps=steps),),
        seen_in=loss.proof,
        confidence="measured" if within or loss.is_measured else "inconclusive",
    )


def _works(within: Within) -> str:
    return f" while the host works{within.words}"


def _notice(context: Context, loss: _Loss, left: Price) -> None:
    """Notice how much of the mean step a loss takes, and what could be gained."""
    lost_ns, step_ns = float(loss.ns.mean()), context.steps.period_ns
    if explained_ns := loss.explained_ns(context):
        # the gain alone may come from another loss: with 428 of 436 ms of idle time explained and
        # no communication, other host work would take 127 ms
        lost_ns = max(lost_ns - explained_ns, 0.0)
    if context.replay.without_profiler or explained_ns:
        lost_ns = min(lost_ns, left.ns)
    if lost_ns <= WORTH_A_NOTICE * step_ns:  # both are 0 where nothing is counted
        return
    beyond = " beyond the findings" if context.found else ""
    within = loss.owner(context, context.ranks)
    what = _works(within) if within else f"; {loss.unknown}"
    gain = f"at most {duration(left.ns)} to gain{beyond}"
    if left.ns < 1:
        gain = f"nothing to gain{beyond}, as something else is the bottleneck"
        if unseen_work_notices(context):  # the host itself may have waited for communication
            gain = "the possible gain is not known"
    context.not_explained.append(
        f"in {_part_of_whole(context, lost_ns)}, the GPU {loss.words}{what}: {gain}"
    )


def unseen_work_notices(context: Context, *, apart: bool = False) -> tuple[str, ...]:
    """Notice where GPUs wait for something that the traces do not show; no rank is to blame.

    With ``apart``, without what another notice on the same time says: "in a further 64 %" and "in a
    further 60 %" of a span stood one above the other.
    """
    steps = context.steps
    said = {_held_back(context): _unseen(context)}
    is_said = apart and any(", the GPU is idle" in each for each in context.not_explained)
    if host_pause not in context.found and not is_said:  # a finding says it with a price
        late = "the host launches late; what it does meanwhile is not recorded"
        said[late] = steps["unattributed"]
    return tuple(
        f"in {_part_of_whole(context, float(time.mean()))}, {words}"
        for words, time in said.items()
        if time.size and time.mean() > WORTH_A_NOTICE * steps.median_period_ns
    )


def _held_back(context: Context) -> str:
    """Say what the GPU does with its next work launched, and what starts after most of that time.

    "The GPU is idle" alone hid that 616 of 793 ms were before graphs, and 300 of 370 ms between
    kernels of one stream launched in a row.
    """
    hosts = [host for rank in context.ranks if (host := context.facts[rank].host)]
    sums = HeldBack(*np.sum([HeldBack(), *(host.held_back for host in hosts)], axis=0).tolist())
    if 2 * sums.migration > sum(sums):
        return (
            "the GPU is idle until the next pages of managed memory move, as the host or a kernel "
            "touches them (cudaMemPrefetchAsync moves them ahead)"
        )
    if sums.unrecorded == sum(sums):
        return "the GPU is idle before work whose launch is not recorded"
    words = "the GPU is idle with its next work already launched (blocked on a dependency)"
    if sums.unrecorded or sums.migration:
        words += ", or with no launch recorded"
    of_it = (
        "all of it" if max(sums) == sum(sums) else f"{percent(100 * max(sums) / sum(sums))} of it"
    )
    if 2 * sums.graph > sum(sums):
        return f"{words}, {of_it} before CUDA graphs or inside them"
    if 2 * sums.in_call > sum(sums):
        part = part_of_it(sums.in_call / sum(sums))
        return f"the GPU is idle, {part} inside the call that launches its next work"
    if 2 * sums.same_stream > sum(sums):
        sharing = sharing_ranks(context.job.reduce(identity_of, context.ranks))
        # on two ranks of 128, gaps of 57 and 64 ms ended together, with what all of them send
        others = "ranks that are not recorded, " if context.replay.has_unknown_peers else ""
        by = "another of the ranks, on this GPU" if sharing else _UNRECORDED.format(others)
        return f"{words}, {of_it} within one stream, held back by {by}"
    return words


def _part_of_whole(context: Context, lost_ns: float) -> str:
    """Say which part of a step a loss is, besides what findings explain."""
    # 15 % stood under a GPU that computed nothing for 11.9 of 12 s, 85 % of them in a finding
    further = "a further " if context.found else ""
    whole = "the mean step" if context.steps.are_recorded else "the GPU span"
    return f"{further}{100 * lost_ns / context.steps.period_ns:.0f} % of {whole}"


def _unseen(context: Context) -> Matrix:
    """Idle time for which the trace shows neither a late host nor a running graph."""
    steps = context.steps
    return np.asarray(steps["gap_depend"] - steps["unattributed"] - steps["within_graphs"])
