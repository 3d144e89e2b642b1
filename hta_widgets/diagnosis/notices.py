"""Notices next to the findings: what limits them, and time lost in steps without a price.

A slow first step and the last step have no price. Priced as if each step lost that time, they
accused two healthy jobs; left unsaid, they hid 190 ms in which a job loaded its first batch, a
quarter of the recording.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from hta_widgets.analyses.clocks.aligned import job_clocks, on_common_clock
from hta_widgets.analyses.clocks.alignment import ALIGNED
from hta_widgets.analyses.server_steps import phases_of, server_steps, step_source
from hta_widgets.analyses.time import patterns
from hta_widgets.diagnosis.context import Context
from hta_widgets.diagnosis.facts.conditions import Condition
from hta_widgets.diagnosis.facts.gap_owners import HotPath
from hta_widgets.diagnosis.facts.host_facts import Recomputed
from hta_widgets.diagnosis.facts.kernel_facts import as_in_training_ns
from hta_widgets.diagnosis.finding import Finding, in_words_of
from hta_widgets.diagnosis.job.steps import Steps
from hta_widgets.diagnosis.rank_answers import SetUp
from hta_widgets.diagnosis.replay.critical_path import UNEXPLAINED
from hta_widgets.diagnosis.rules.host_evidence import Within, innermost_within, within_gap
from hta_widgets.diagnosis.rules.launch_bound import launch_bound, may_be_stacks
from hta_widgets.diagnosis.rules.warm_up import FEWEST_STEPS
from hta_widgets.diagnosis.rules.wording import named, per_step
from hta_widgets.errors import KEEPS_LAST_STEP
from hta_widgets.quantities import (
    NS_PER_MS,
    counted,
    duration,
    named_numbers,
    number_ranges,
    percent,
)
from hta_widgets.trace.job import Job
from hta_widgets.trace.ranks.facts import world_size_among, world_size_of
from hta_widgets.trace.ranks.identity import identity_of, sharing_ranks


def recording_notices(context: Context) -> Iterator[str]:
    """What no finding says of the recording: time that is not counted, and unneeded work."""
    yield from lead_in_notices(context)
    yield from set_up_notices(context)
    yield from shared_gpu_notices(context.job)
    yield from after_gpu_work_notices(context)
    yield from unrecorded_notices(context)
    yield from late_begin_notices(context)
    yield from graph_notices(context)
    if context.ranks:
        yield from recomputation_notices(context)
        yield from training_mode_notices(context)


def after_cut_notices(steps: Collection[int]) -> Iterator[str]:
    """Steps left out of the mean because their GPU work lies after the cut in a file."""
    if steps:
        which, do = ("step", "does") if len(steps) == 1 else ("steps", "do")
        yield (
            f"{which} {number_ranges(steps)} {do} not count: a file is cut, and the GPU work after "
            "the cut is not known"
        )


PHASE_PERCENT: Final = 20
"""Share of the time of a server's steps above which a phase is worth its own diagnosis."""


def other_phases(job: Job, steps: Steps) -> dict[str, int]:
    """Phases of a server other than the diagnosed one, and how many steps each has."""
    if not steps.phase:
        return {}
    shares = server_steps(job).phases.groupby("phase")["share_percent"].max()
    return {
        name: len(each)
        for name, each in phases_of(job).items()
        if name != steps.phase and shares[name] >= PHASE_PERCENT
    }


def phase_notices(job: Job, steps: Steps, found: Mapping[str, str]) -> Iterator[str]:
    """Say which other phases could be diagnosed: a mean over several phases would mean nothing.

    `found` says in words what is found in them.
    """
    others = other_phases(job, steps)
    if not others:
        return
    what = " and ".join(
        counted(count, f"{name} step") + (f" ({found[name]})" if name in found else "")
        for name, count in others.items()
    )
    yield (
        f"the findings cover {counted(len(steps.numbers), f'{steps.phase} step')}; "
        f"phase={next(iter(others))!r} diagnoses the {what}"
    )


def lead_in_notices(context: Context) -> Iterator[str]:
    """Time in which GPUs do work from before the recording; no step and no share counts it."""
    if before_ns := max((context.facts[rank].before_host_ns for rank in context.ranks), default=0):
        yield (
            f"no call of the host is recorded in the first {duration(before_ns)}, in which the GPU "
            "did work from before the recording: that time is left out"
        )
    lead_in_ns = {rank: context.facts[rank].lead_in_ns for rank in context.ranks}
    having = [rank for rank, ns in lead_in_ns.items() if ns]
    if not having:
        return
    which = named_numbers("rank", having)
    whose = "the GPU" if len(context.ranks) == 1 else f"the GPU of {which}"
    longest = duration(max(lead_in_ns.values()))
    first = f"{'' if len(having) == 1 else 'up to '}the first {longest}"
    yield (
        f"for {first} of the recording, {whose} was busy with, or blocked on, work "
        "launched before it and not recorded: that time is left out"
    )


SET_UP_NS: Final = 10_000_000
"""Time that no step counts is not reported if it is shorter."""

SET_UP_SHARE: Final = 0.5
"""Nor if it is a smaller fraction of the mean step or the GPU span."""

LEAST_NAMED: Final = 0.2
"""Fraction of the time before the first call from which the function with the most is named."""

BEFORE_GPU_WORK: Final = 0.15
"""Fraction of a recording without steps that must pass before its first GPU work to be reported: a
job loaded its first batch for 5.1 s before a GPU span of 67 ms, and all prices were of these 67."""


def longest_set_up(context: Context) -> SetUp:
    """What a program without steps does before its GPU span, if that is worth reporting.

    If it waits, it waits for work that was launched before the recording, which no file has.
    """
    facts = [context.facts[rank] for rank in context.ranks]
    found = [each.set_up for each in facts if not each.lead_in_ns]
    longest = max(found, key=lambda each: each.hot_path.whole_ns, default=SetUp())
    length_ns, names = longest.hot_path.whole_ns, longest.calls_ns
    waits_ns = sum(ns for name, ns in names.items() if patterns.BLOCKING.search(name))
    least_ns = BEFORE_GPU_WORK * (length_ns + context.steps.period_ns)
    is_said = length_ns >= max(SET_UP_NS, least_ns) and 2 * waits_ns <= length_ns
    return longest if is_said else SetUp()


def set_up_notices(context: Context) -> Iterator[str]:
    """Say how long it takes until the first GPU work, and what takes most of that time."""
    yield from _before_calls(context)
    within, nothing_ns, calls_ns, *_ = longest_set_up(context)
    length_ns = within.whole_ns
    if not length_ns:
        return
    call, most = max(calls_ns, key=lambda each: calls_ns[each], default=""), ""
    sampled = max(within.sampled, key=lambda name: within.own_ns[name], default="")
    if 2 * calls_ns.get(call, 0) > length_ns:
        first = Within(call, "", calls_ns[call] / length_ns, "", "it").call
        most = f"{first}, as at the first use of a GPU"
    elif 2 * within.own_ns.get(sampled, 0) > length_ns:
        part = within.own_ns[sampled] / length_ns
        most = Within(sampled, "", part, "", "it", is_sampled=True).call
    elif 2 * nothing_ns > length_ns:
        most = f", with nothing recorded in {Within('', '', nothing_ns / length_ns, '', 'it').part}"
    elif within.chain:
        name = within.chain[-1].name
        most = Within(name, "", within.ns_of[name] / length_ns, within.loader, "it").words
    yield (
        f"the first GPU work starts {duration(length_ns)} after the first recorded call{most}; "
        f"{_not_counted(context, length_ns)}"
    )


def _not_counted(context: Context, length_ns: int) -> str:
    first = ", but the first to shorten if every run has it"
    return f"that time is not counted{first if length_ns > context.step_ns else ''}"


def _before_calls(context: Context) -> Iterator[str]:
    """Say how long a program runs before its first recorded call, by samples of the CPU.

    One filled matrices with random numbers for 11.8 s before 523 ms on the GPU.
    """
    found = [context.facts[rank].set_up for rank in context.ranks]
    longest = max(found, key=lambda each: each.before_ns, default=SetUp())
    length_ns, sampled_ns = longest.before_ns, longest.sampled_ns
    least_ns = BEFORE_GPU_WORK * (length_ns + context.steps.period_ns)
    if length_ns < max(SET_UP_NS, least_ns):
        return
    name, ns = max(sampled_ns.items(), key=lambda each: each[1], default=("", 0))
    part = ns / length_ns
    most = Within(name, "", part, "", "it", is_sampled=True).call if part > LEAST_NAMED else ""
    yield (
        f"before the first recorded call, the program runs for {duration(length_ns)}{most}; "
        f"{_not_counted(context, length_ns)}"
    )


def not_counted_notices(context: Context) -> Iterator[str]:
    """Notices on uncounted time that is long relative to a step: 463 ms before 10.5."""
    facts = [context.facts[rank] for rank in context.ranks]
    longest_ns = max((max(each.lead_in_ns, each.before_host_ns) for each in facts), default=0)
    if longest_ns >= max(SET_UP_NS, SET_UP_SHARE * context.steps.period_ns):
        yield from lead_in_notices(context)
    yield from set_up_notices(context)
    yield from after_gpu_work_notices(context)


AFTER_GPU_WORK: Final = 0.03
"""Fraction of the only step for which its host must go on after the last GPU work to be
reported."""


def after_gpu_work_notices(context: Context) -> Iterator[str]:
    """What the host does at the end of a request, after all GPU work, if that takes long."""
    parts = [context.facts[rank].after_gpu_work for rank in context.ranks]
    longest = max(parts, key=lambda each: each.whole_ns, default=HotPath())
    within = innermost_within(context, [longest]) if longest.whole_ns else None
    if within and longest.whole_ns > AFTER_GPU_WORK * context.steps.period_ns:
        yield (
            f"step {context.steps.numbers[-1]} goes on for {duration(longest.whole_ns)} after its "
            f"last GPU work{within._replace(of='it').call}; that time is not counted"
        )


def longest_unrecorded_ns(context: Context) -> int:
    """How long the last step goes on with nothing recorded, if that is worth reporting; else 0.

    No step counts it: with others, the last one is not analysed.
    """
    longest = max((context.facts[rank].unrecorded_ns for rank in context.ranks), default=0)
    least_ns = max(SET_UP_NS, SET_UP_SHARE * context.steps.period_ns)
    return longest if longest >= least_ns else 0


def unrecorded_notices(context: Context) -> Iterator[str]:
    """Say how long the last step goes on after everything that is recorded in it."""
    if length_ns := longest_unrecorded_ns(context):
        number = context.all_steps.numbers[-1]
        yield (
            f"step {number} goes on for {duration(length_ns)} after all that is recorded in it; "
            "that time is not counted"
        )


def shared_gpu_notices(job: Job) -> Iterator[str]:
    """Name ranks that share a GPU: each looks idle while another's work runs."""
    for ranks in sharing_ranks(job.reduce(identity_of, job.ranks)):
        yield (
            f"ranks {number_ranges(ranks)} share one GPU: idle time on one may be work of another; "
            "under MPS (nvidia-cuda-mps-control -d), their kernels run at the same time"
        )


def late_begin_notices(context: Context) -> Iterator[str]:
    """Name a rank that starts the steps later than others, which wait for it; why is unknown.

    Only on a clock that is known to be common. The rank that waits least in the first step must be
    the last one.
    """
    job, ranks, steps = context.job, context.ranks, context.all_steps
    is_known = len(ranks) > 1 and {*job_clocks(job).states} == {ALIGNED}
    firsts = {int(each) for rank in ranks for each in context.facts[rank].steps["step"][:1]}
    if not (is_known and steps.are_recorded and firsts == {steps.numbers[0]}):
        return
    own = [context.facts[rank].begin_ns for rank in ranks]
    begins = np.array(
        [
            on_common_clock(job, rank, np.array(each))[0]
            for rank, each in zip(ranks, own, strict=True)
        ]
    )
    last, apart_ns, wait_ns = int(np.argmax(begins)), int(np.ptp(begins)), steps["wait"][:, 0]
    per_step_ns = apart_ns / len(steps.numbers)
    waits = wait_ns[np.argmin(begins)] >= apart_ns and np.argmin(wait_ns) == last
    is_first = own[last][0] == own[last][1]
    least_percent = context.limits.least_percent
    if waits and is_first and per_step_ns > least_percent / 100 * steps.median_period_ns:
        yield (
            f"ranks start step {steps.numbers[0]}, the first one recorded, up to "
            f"{duration(apart_ns)} apart, rank {ranks[last]} last: the others wait for it in "
            "communication, and what it did before is not recorded: record the step before, too"
        )


def recomputation_notices(context: Context) -> Iterator[str]:
    """What the backward pass recomputes: memory may require it, so it is not a cause."""
    facts = [context.facts[rank] for rank in context.ranks]
    every = [(each.host.recomputed, each.steps["step"].size) for each in facts if each.host]
    most, steps = max(every, key=lambda each: each[0].gpu_ns, default=(Recomputed(), 1))
    kernels, gpu_ns, host_ns = (each / steps for each in most)
    least_percent = context.limits.least_percent_with_evidence
    if gpu_ns > least_percent / 100 * context.all_steps.median_period_ns:
        yield (
            "forward operators run again in the backward pass, as with activation checkpointing: "
            f"{per_step(context, kernels, 'kernel')}, {duration(gpu_ns)} on the GPU and "
            f"{duration(host_ns)} on the host; keeping activations saves that work, if there is "
            "memory for them"
        )


def training_mode_notices(context: Context) -> Iterator[str]:
    """What runs in training mode in a recording without training: nobody called ``eval()``."""
    if Condition.TRAINING in context.conditions():
        return
    spent = context.job.reduce(as_in_training_ns, context.ranks).values()
    ns = sum(spent) / max(len(context.ranks) * len(context.all_steps.numbers), 1)
    least_percent = context.limits.least_percent_with_evidence
    if ns > least_percent / 100 * context.all_steps.median_period_ns:
        yield (
            f"batch norm or dropout runs in training mode, {duration(ns)}"
            f"{context.steps.per_noun}: if nothing is trained here, call model.eval() first"
        )


def replay_notices(context: Context) -> Iterator[str]:
    """What limits the prices, and what would gain nothing although it saves GPU work."""
    replay = context.replay
    yield from replay.notices
    yield from _slowed_launches(context)
    yield from _reads(context)
    yield from job_clocks(context.job).laid_over_notices
    if not replay.is_sound:
        yield (
            "prices are differences of the ranks' own time, because the recorded times cannot be "
            "replayed"
        )
    elif not context.replay.is_explained:
        part = f"in {percent(replay.shares[UNEXPLAINED])} of the critical path"
        if any(context.facts[rank].records.launches for rank in context.ranks):
            yield (
                f"{part}, work that was ready did not start, and nothing recorded says why: prices "
                "may be too low"
            )
        else:
            yield (
                f"{part}, work may not have been launched yet, or may have waited for other work: "
                "launches are not recorded, so prices may be too low"
            )
    if replay.has_unknown_peers and not context.health.is_no_recording:
        share = replay.unmatched_percent
        which, how = _unmatched(context)
        prices = ": prices range from none of it moving in time to all of it" * bool(context.prices)
        yield f"{percent(share)} of the time is communication {which}{prices}{how}"
    yield from context.hidden
    yield from context.not_explained


def _slowed_launches(context: Context) -> Iterator[str]:
    """How much of late launches may be the profiler's own host time, if nothing measures it."""
    finding = context.found.get(launch_bound)
    if finding is None or context.replay.unprofiled_step_ns:
        return
    twice_ms, price_ms = finding.evidence["twice_as_fast_ms"], finding.recoverable_ms
    recorded = any(context.facts[rank].records.host_code for rank in finding.ranks)
    if recorded and isinstance(twice_ms, float) and may_be_stacks(twice_ms, price_ms):
        price, left = (
            duration(max(each, 0) * NS_PER_MS) for each in (price_ms, price_ms - twice_ms)
        )
        said = (
            f"part of the {price} lost to launching may be the profiler's own time on the host: a "
            f"host twice as fast would lose {left}"
        )
        if Condition.OTHER_RECORDER not in context.conditions():
            said += "; hta_widgets.profile(wait=10) also measures steps without the profiler"
        yield said


def _reads(context: Context) -> Iterator[str]:
    """Where a late host also waits for the GPU: the price of launching includes that cost."""
    finding = context.found.get(launch_bound)
    name = finding.evidence.get("reads_in") if finding else None
    if finding is None or not isinstance(name, str):
        return
    calls, idle_ms = (finding.evidence[each] for each in ("reads_per_step", "idle_in_reads_ms"))
    if isinstance(calls, float) and isinstance(idle_ms, float):
        yield in_words_of(
            f"the host waits for the GPU {per_step(context, calls, 'time')} in {named(name)}, and "
            f"the GPU is idle for {duration(idle_ms * NS_PER_MS)} of that time: the price of "
            "launching includes it, and no CUDA graph can capture such a wait",
            context.conditions(),
        )


def is_whole(job: Job) -> bool:
    """Whether all ranks of a job of several are open, as far as the traces say how many it has."""
    world = world_size_among(job.reduce(world_size_of, job.ranks))
    return len(job.ranks) > 1 and len(job.ranks) >= world


def _unmatched(context: Context) -> tuple[str, str]:
    """Which communication has no known partners, and what would reveal them."""
    job = context.job
    if job.unopened_ranks:
        return "with ranks that are not opened", "; open all ranks"
    if is_whole(job):
        return "for which it is not known which kernels of the ranks belong together", ""
    return "with ranks that are not recorded", "; record all ranks"


WITHIN_GRAPHS: Final = 0.15
"""Fraction of the mean step that graphs spend between kernels, above which it is reported."""


def graph_notices(context: Context) -> Iterator[str]:
    """Report graphs of short kernels that spend much time going from one kernel to the next."""
    steps = context.steps
    share = float(steps["within_graphs"].sum()) / max(float(steps["period"].sum()), 1)
    if share > WITHIN_GRAPHS:
        yield in_words_of(
            f"in {percent(100 * share)} of the mean step, CUDA graphs go from one kernel to the "
            "next: nothing waits for the host, and fewer, larger kernels would take less time",
            context.conditions(),
        )


MOST_OF_IT: Final = 0.5
"""Fraction of a slow step's excess above which one kind of time is named as its reason."""


_KINDS: Final = {
    "while the host loads data": ("gap_loader",),
    "while the host initialises or allocates": ("gap_init", "gap_alloc"),
    "while a server's host prepares the next step": ("gap_step",),
    "while the host launches nothing": ("gap_pause",),
    "while the host launches too slowly": ("gap_op", "gap_sync"),
    "while the profiler works": ("gap_profiler",),
    "idle, waiting for what the trace does not show": ("gap_depend",),
    "computing": ("compute",),
    "copying": ("memory",),
    "communicating": ("transfer", "transfer_p2p", "undivided"),
}
"""Kinds of time of a step, in words, and their columns."""


def slow_step_notices(
    context: Context, kept: Steps, findings: Sequence[Finding], unsound: Collection[int]
) -> Iterator[str]:
    """Time lost in steps that are left out and appear in no finding.

    Prices come from the steps that are kept; unsound ones are left out because their recording has
    faults.
    """
    together = context.all_steps
    named = {step for finding in findings for step in finding.steps} | {*unsound}
    not_lost = named | {*kept.numbers}
    silent = [each for each in together.numbers if each not in not_lost]
    if not silent or not kept.period_ns:
        return
    lost = together.without({*together.numbers} - {*silent})
    excess_ns = lost.period_ns - kept.period_ns
    which = named_numbers("step", silent)
    share = len(silent) * excess_ns / (len(together.numbers) * together.period_ns)
    of_it = f"{duration(excess_ns)} more{_what(context, lost, kept, excess_ns)}"
    yield (
        f"{which} took {duration(lost.period_ns)}, the others {duration(kept.period_ns)} on "
        f"average, {of_it}: {percent(100 * share)} of the analysed time is lost there, and causes "
        "are sought only in the others"
    )


def _what(context: Context, lost: Steps, kept: Steps, excess_ns: float) -> str:
    """The kind of time that explains most of the excess of slow steps, on the rank with most of it.

    It may exceed the excess, if the other steps pause for longer; then it is reported as all of it.
    """
    own_ns = lost.own.mean(axis=1) - kept.own.mean(axis=1)
    rank = int(np.argmax(own_ns))

    def more_ns(name: str) -> float:
        return float((lost[name].mean(axis=1) - kept[name].mean(axis=1))[rank])

    more = {words: sum(map(more_ns, columns)) for words, columns in _KINDS.items()}
    kind = max(more, key=lambda each: more[each])
    if more[kind] <= MOST_OF_IT * more_ns("period"):
        return ""
    number = context.ranks[rank]
    where = f" on rank {number}" if len(context.ranks) > 1 else ""
    part = "all" if more[kind] >= excess_ns else duration(more[kind])
    return f" ({part} of it {kind}{where}{_owner(context, _KINDS[kind], lost, rank)})"


def _owner(context: Context, columns: Sequence[str], lost: Steps, rank: int) -> str:
    """The call inside which most of a kind of time passes in the slow steps."""
    name = max(columns, key=lambda each: float(lost[each][rank].sum()))
    found = within_gap(replace(context, steps=lost), (context.ranks[rank],), name)
    return found.words if found else ""


def last_step_notices(context: Context, kept: Steps, *, of_few: bool = False) -> Iterator[str]:
    """Report a slow last step, which is left out; it takes more if the recording ends before it.

    With `of_few`, only if it is complete and too few others are analysed: the last of three steps
    loaded data for 42 of its 50 ms, and the verdict blamed the host.
    """
    if step_source(context.job) == "server" or not kept.period_ns:
        return  # a server may have had no requests before it
    facts = [context.facts[rank].last_step for rank in context.ranks]
    known = [each for each in facts if each is not None]
    if not known or len({each.number for each in known}) > 1 or len(known) < len(facts):
        return
    is_complete = all(each.is_complete for each in known)
    analysed = max(context.facts[rank].steps["step"].size for rank in context.ranks)
    if of_few and not (is_complete and analysed < FEWEST_STEPS):
        return
    length_ns = float(np.median([each.length_ns for each in known]))
    usual_ns = kept.period_ns
    if length_ns <= (1 + context.limits.longer_first_step_percent / 100) * usual_ns:
        return
    together = context.all_steps
    recorded_ns = len(together.numbers) * together.period_ns + length_ns
    excess_ns = length_ns - usual_ns
    least = "" if is_complete else "at least "
    others = "the others on average" if len(kept.numbers) > 1 else f"step {kept.numbers[0]}"
    idle_ns = float(np.median([each.loading_ns for each in known]))
    loads = f" (for {duration(idle_ns)} of that, the GPU is idle while the host loads data)"
    what = loads if idle_ns > MOST_OF_IT * excess_ns else ""
    yield (
        f"step {known[0].number}, the last, is left out; it took {least}{duration(length_ns)} from "
        f"the end of the GPU work before it{what}, {least}{duration(excess_ns)} more than "
        f"{others}: {percent(100 * excess_ns / recorded_ns)} of the time of all recorded steps is "
        f"lost there ({KEEPS_LAST_STEP} counts it)"
    )
