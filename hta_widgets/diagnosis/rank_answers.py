"""What a diagnosis asks each rank, once, and the replays that are built from the answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from hta_widgets.analyses.budget.device_steps import DeviceSteps, device_steps, loading_calls
from hta_widgets.analyses.budget.idle_gaps import HEAD, TAIL, gaps_of, owned_time
from hta_widgets.analyses.budget.idle_segments import IdleSegments
from hta_widgets.analyses.collectives import rank_splits
from hta_widgets.analyses.communication.partition import RankSplit
from hta_widgets.analyses.server_steps import main_phase, phases_of
from hta_widgets.analyses.time.calls import calls_of
from hta_widgets.analyses.time.window import MAY_COMPUTE, NO_STEP, before_host_ns, lead_in_ns
from hta_widgets.arrays import IntArray
from hta_widgets.diagnosis.facts import step_facts
from hta_widgets.diagnosis.facts.communication_facts import CommunicationFacts, communication_facts
from hta_widgets.diagnosis.facts.compute_facts import ComputeFacts, compute_facts
from hta_widgets.diagnosis.facts.conditions import Condition, conditions_of, holding
from hta_widgets.diagnosis.facts.gap_owners import HotPath, idle_hot_path
from hta_widgets.diagnosis.facts.host_facts import HostFacts, host_facts
from hta_widgets.diagnosis.facts.step_facts import Columns
from hta_widgets.diagnosis.job.steps import Steps, compared_ranks
from hta_widgets.diagnosis.limits import Limits, TrialLimits
from hta_widgets.diagnosis.replay.rank_part import PackedPart, rank_part
from hta_widgets.diagnosis.replay.replay import Replay, replay_of
from hta_widgets.errors import ParameterError, UnknownStepError
from hta_widgets.grouping import grouped
from hta_widgets.intervals import Intervals
from hta_widgets.quantities import number_ranges
from hta_widgets.trace.job import Job
from hta_widgets.trace.loaders.freed_memory import return_freed_memory
from hta_widgets.trace.model.events import Kind
from hta_widgets.trace.opening.open import HasJob, as_job
from hta_widgets.trace.ranks.cpu_samples import cpu_samples
from hta_widgets.trace.ranks.facts import RankRecords, rank_records
from hta_widgets.trace.ranks.rank import NEVER, Rank
from hta_widgets.trace.ranks.recorded_kind import recorded_kind
from hta_widgets.trace.remote.urls import TraceSource


class LastStep(NamedTuple):
    """The last step, which is left out because the recording may end before it does."""

    number: int
    length_ns: int
    """From the end of the step before to the end of its last recorded computing kernel, like the
    lengths of the other steps: at least what it took."""
    is_complete: bool
    """Whether that is its whole length: its mark has an end, and all kernels launched in it have
    run."""
    loading_ns: int
    """Part of the length in which the GPU is idle while the thread with the mark loads data."""


def last_step(rank: Rank, steps: DeviceSteps) -> LastStep | None:
    """The last step of a rank; None if it is analysed, or without recorded computing."""
    marks, numbers = rank.steps, steps.window.steps
    if NO_STEP in numbers or not len(marks):
        return None
    place = int(np.argmax(marks.start_ns))
    number = int(marks.number[place])
    if number in numbers:
        return None
    launched_ns = rank.trace.events.start_ns[steps.work.launch]
    own = (steps.work.launch >= 0) & (launched_ns >= marks.start_ns[place])
    own &= (launched_ns < marks.end_ns[place]) & np.isin(steps.work.type, MAY_COMPUTE)
    if not own.any():
        return None
    first_ns, end_ns = int(steps.edges[-1]), int(steps.work.end_ns[own].max())
    calls, events, mark = calls_of(rank), rank.trace.events, marks.rows[place]
    rows = calls.forest.rows[loading_calls(rank)]
    rows = rows[(events.pid[rows] == events.pid[mark]) & (events.tid[rows] == events.tid[mark])]
    loading = Intervals.union(events.start_ns[rows], events.end_ns[rows]).clip(first_ns, end_ns)
    return LastStep(
        number,
        end_ns - first_ns,
        is_complete=not rank.health.lost.at_end,
        loading_ns=(loading - Intervals.union(steps.work.start_ns, steps.work.end_ns)).length,
    )


class SetUp(NamedTuple):
    """Where time passes before the first GPU work, if no steps are recorded."""

    hot_path: HotPath = HotPath()
    nothing_ns: int = 0
    """Time in which the thread that works for the GPU is in no recorded call."""
    calls_ns: Mapping[str, int] = {}
    """Time in CUDA calls, by name."""
    before_ns: int = 0
    """How long the CPU was sampled before the first recorded call."""
    sampled_ns: Mapping[str, int] = {}
    """Time in functions during that time, by samples of the CPU."""


def set_up(rank: Rank, steps: DeviceSteps) -> SetUp:
    """What comes before the first GPU work; empty if steps are recorded."""
    if NO_STEP not in steps.window.steps:
        return SetUp()
    segments, thread = _outside_gpu_work(rank, steps, HEAD)
    owner, length_ns = segments.owner, segments.length_ns
    calls, names = calls_of(rank), rank.trace.events.name.values
    is_of_cuda = (owner >= 0) & np.append(calls.is_launch_call, False)[owner]
    by_name = grouped(calls.name[owner[is_of_cuda]])
    codes = calls.name[owner[is_of_cuda][by_name.first]].tolist()
    sums = by_name.reduce(np.add, length_ns[is_of_cuda]).tolist()
    return SetUp(
        idle_hot_path(rank, segments),
        int(length_ns[(owner < 0) & (thread >= 0)].sum()),
        {names[code]: ns for code, ns in zip(codes, sums, strict=True)},
        *_before_calls(rank),
    )


def _before_calls(rank: Rank) -> tuple[int, dict[str, int]]:
    """How long the CPU is sampled before the first recorded call, and which functions it runs."""
    samples = rank.remember(cpu_samples)
    if samples is None or not samples.time_ns.size or samples.time_ns[0] >= 0:
        return 0, {}
    first_ns = samples.time_ns[:1]
    return -int(first_ns[0]), samples.time_by_function(first_ns, np.zeros_like(first_ns))


def unrecorded_ns(rank: Rank, steps: DeviceSteps) -> int:
    """How long the last analysed step goes on, by its mark, after everything recorded in it."""
    marks, events = rank.steps, rank.trace.events
    own = marks.number == steps.window.steps[-1]
    if not own.any():
        return 0
    end_ns = int(marks.end_ns[own].max())
    is_other = events.start_ns < end_ns
    is_other[marks.rows] = False
    # in one such step, the GPU work took 1.36 ms and the mark 13.3 s
    return max(end_ns - int(events.end_ns[is_other].max(initial=0)), 0)


def after_gpu_work(rank: Rank, steps: DeviceSteps) -> HotPath:
    """Where time passes while the only analysed step goes on, by its mark, after its GPU work.

    The user of a request waits for it, too; of one step of many, it is the start of the next.
    """
    end_ns = int((steps.window.step_start_ns + steps.window.step_length_ns)[0])
    if len(steps.window.steps) > 1 or NO_STEP in steps.window.steps:
        return HotPath()
    return idle_hot_path(rank, _outside_gpu_work(rank, steps, TAIL, end_ns)[0])


def _outside_gpu_work(
    rank: Rank, steps: DeviceSteps, part: int, end_ns: int = NEVER
) -> tuple[IdleSegments, IntArray]:
    """The time before or after all GPU work, up to some time, with the threads that own it."""
    owned, gaps = owned_time(rank), gaps_of(rank)
    is_asked = (gaps.part == part) & (gaps.device == steps.device)
    chosen = is_asked[owned.segments.gap] & (owned.segments.start_ns < end_ns)
    segments = owned.segments.take(chosen)
    length_ns = np.minimum(segments.length_ns, end_ns - segments.start_ns)
    return segments._replace(length_ns=length_ns), owned.thread[chosen]


class RankFacts(NamedTuple):
    """Facts on one rank."""

    steps: Columns
    """See `step_facts`."""
    communication: CommunicationFacts
    """Facts on the kernels whose waiting is known."""
    records: RankRecords
    conditions: frozenset[Condition]
    """What holds for its recording."""
    compute: ComputeFacts
    """Kinds of the computing kernels."""
    host: HostFacts | None = None
    """None without GPU work."""
    steps_without_trials: Columns | None = None
    """``steps`` without an autotuner's trials, if trials are found and no steps are recorded."""
    last_step: LastStep | None = None
    """The last step, if it is left out."""
    after_cut: tuple[int, ...] = ()
    """If the file is cut, numbers of the host's steps that end after the last launch with GPU work:
    what else their GPU did is not known."""
    lead_in_ns: int = 0
    """Time from the start of its window in which its GPU is busy with work from before the
    recording."""
    before_host_ns: int = 0
    """Time before its window in which only its GPU is recorded."""
    begin_ns: tuple[int, int] = (0, 0)
    """When its first analysed step starts by its mark, and when its first event starts."""
    set_up: SetUp = SetUp()
    unrecorded_ns: int = 0
    """Time at the end of the last analysed step, by its mark, with nothing recorded."""
    after_gpu_work: HotPath = HotPath()


def rank_facts(
    rank: Rank, steps: DeviceSteps | None, split: RankSplit, limits: TrialLimits
) -> RankFacts:
    """Collect facts on one rank, given its steps and the waiting of its communication kernels."""
    columns = step_facts.step_facts(rank, steps)
    found = RankFacts(
        steps=columns,
        communication=communication_facts(rank, split),
        records=rank_records(rank),
        conditions=conditions_of(rank.trace.events, recorded_kind(rank), rank.format),
        compute=compute_facts(rank),
        lead_in_ns=lead_in_ns(rank),
        before_host_ns=before_host_ns(rank),
    )
    if steps is None:
        return found
    host = host_facts(rank, steps, limits)
    columns = {**columns, **host.trials.columns, "host_copies": host.copies.exposed_ns}
    is_sampled = any(
        2 * sum(each.own_ns[name] for name in each.sampled) > each.whole_ns
        for each in host.gaps.hot_paths.values()
    )
    return found._replace(
        steps=columns,
        conditions=found.conditions | holding({Condition.SAMPLED: is_sampled}),
        host=host,
        steps_without_trials=_steps_without_trials(rank, steps, host, columns),
        last_step=last_step(rank, steps),
        after_cut=_after_cut(rank, steps),
        begin_ns=(int(steps.window.step_start_ns[0]), int(rank.trace.events.start_ns.min())),
        set_up=set_up(rank, steps),
        unrecorded_ns=unrecorded_ns(rank, steps),
        after_gpu_work=after_gpu_work(rank, steps),
    )


def _after_cut(rank: Rank, steps: DeviceSteps) -> tuple[int, ...]:
    launches, marks = steps.work.launch[steps.work.launch >= 0], rank.steps
    if not (rank.trace.faults.is_cut and launches.size):
        return ()
    last_ns = rank.trace.events.start_ns[launches].max()
    return tuple(sorted({*marks.number[marks.end_ns > last_ns].tolist()}))


def _steps_without_trials(
    rank: Rank, steps: DeviceSteps, host: HostFacts, columns: Columns
) -> Columns | None:
    """The columns of the steps without the time from the first to the last trial of each series."""
    if not host.trials.spans_ns:
        return None
    first, last = (int(each) for each in (steps.edges[0], steps.edges[-1]))
    ends = [end for span in host.trials.spans_ns for end in span]
    edges = np.maximum.accumulate(np.clip(np.array([first, *ends, last]), first, last))
    by_bin = {**step_facts.of_gpu(steps, edges), "host": np.diff(edges)}
    during = {name: bins[1::2].sum() for name, bins in by_bin.items()}
    is_kernel = rank.trace.events.kind[steps.work.rows] == Kind.KERNEL
    during["kernels"] = np.count_nonzero(is_kernel & host.trials.spans.covers(steps.work.start_ns))
    left = {name: np.maximum(columns[name] - ns, 0) for name, ns in during.items()}
    return {**columns, **left}


class RankAnswers(NamedTuple):
    """The answers of all ranks of a job."""

    facts: dict[int, RankFacts]
    parts: dict[int, PackedPart]
    """Each rank's part of a replay."""


def answer_of(rank: Rank, split: RankSplit, limits: TrialLimits) -> tuple[RankFacts, PackedPart]:
    """Ask one rank, given the waiting of its communication kernels."""
    steps = device_steps(rank, split)
    part = PackedPart.of(rank_part(rank, None if steps is None else steps.gaps))
    return rank_facts(rank, steps, split, limits), part


def hosts_in_steps(
    job: Job, limits: TrialLimits, ranks: tuple[int, ...], numbers: tuple[int, ...]
) -> dict[int, HostFacts]:
    """Facts on the hosts of some ranks, in the steps of these numbers only."""
    splits = rank_splits(job)
    found = job.reduce_each(
        _host_in_steps, {rank: (splits[rank], limits, numbers) for rank in ranks}
    )
    return {rank: host for rank, host in found.items() if host is not None}


def _host_in_steps(
    rank: Rank, split: RankSplit, limits: TrialLimits, numbers: tuple[int, ...]
) -> HostFacts | None:
    steps = device_steps(rank, split)
    return None if steps is None else host_facts(rank, steps, limits, numbers)


def answers_of_all(job: Job, limits: TrialLimits) -> RankAnswers:
    """Ask all ranks of a job."""
    splits = rank_splits(job)
    asked = {rank: (splits[rank], limits) for rank in job.ranks}
    answers = job.reduce_each(answer_of, asked, doing="Diagnosing")
    return_freed_memory()  # for 1.5 M events, 100 MB that would add to the memory of the rest
    return RankAnswers(
        {rank: facts for rank, (facts, _) in answers.items()},
        {rank: part for rank, (_, part) in answers.items()},
    )


def replay_of_ranks(
    job: Job, limits: TrialLimits, ranks: tuple[int, ...], steps: tuple[int, ...]
) -> Replay:
    """Replay all ranks of a job; only the steps of some ranks count."""
    facts, packed = job.remember(answers_of_all, limits)
    parts = {rank: part for rank, part in packed.items() if part.has_operations}
    every = Steps.of({rank: facts[rank].steps for rank in ranks}).numbers
    known = every if {*steps} <= {*every} else steps
    return replay_of(job, parts, known, ranks, steps)


def before_cuts(steps: Steps, facts: Mapping[int, RankFacts]) -> Steps:
    """The steps without those after the cut in a file; all of them if none would be left."""
    return steps.without({step for rank in steps.ranks for step in facts[rank].after_cut})


def replay(
    job_or_path: Job | HasJob | TraceSource,
    ranks: Iterable[int] | None = None,
    steps: Iterable[int] | None = None,
) -> Replay:
    """Replay a recorded job, to ask how long a step would be if something were different.

    Built once, and remembered with the job.

    Parameters
    ----------
    job_or_path : Job or path
        The result of `open_trace`, or anything that it accepts.
    ranks : iterable of int, optional
        Ranks whose steps count; all by default. All others are waited for as recorded.
    steps : iterable of int, optional
        Numbers of the ProfilerSteps that count; all analysed ones by default. For an inference
        server with several phases, the default is the phase with the most time, as in a diagnosis.

    Returns
    -------
    Replay

    Raises
    ------
    UnknownRankError
        If the job lacks a rank.
    UnknownStepError
        If a step is not one of those that all ranks have.
    ParameterError
        If the ranks ran no GPU work.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> import hta_widgets
    >>> from hta_widgets.diagnosis.replay.edits import HostSpeed
    >>> with TemporaryDirectory() as folder:
    ...     job = hta_widgets.open_trace(hta_widgets.sample.write_sample(folder), progress=False)
    ...     asked = hta_widgets.replay(job)
    >>> faster = asked.what_if(HostSpeed(2))
    >>> faster.step_ms <= asked.step_ms
    True
    """
    limits = Limits().trials
    job = as_job(job_or_path)
    chosen = job.select_ranks(ranks)
    facts = job.remember(answers_of_all, limits).facts
    compared = compared_ranks({rank: facts[rank].steps for rank in chosen})
    if not compared:
        msg = f"no GPU work was recorded of rank {number_ranges(chosen)}: nothing can be replayed"
        raise ParameterError(msg)
    every = Steps.of({rank: facts[rank].steps for rank in compared})
    if steps is None:
        every = before_cuts(every, facts)
        own = {*phases_of(job).get(main_phase(job), ())}
        asked = tuple(each for each in every.numbers if each in own) or every.numbers
    else:
        asked = tuple(steps)
    if not {*every.numbers} >= {*asked}:
        known = every.numbers if every.are_recorded else ()
        raise UnknownStepError.from_steps(asked, known)
    together = Steps.of({rank: facts[rank].steps for rank in compared}, asked)
    return job.remember(replay_of_ranks, limits, together.ranks, together.numbers)
