"""What each rank is asked for a diagnosis, once, and the replays that are made of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from hta_widgets.analyses.budget.device_steps import device_steps
from hta_widgets.analyses.collectives.analysis import rank_splits
from hta_widgets.analyses.communication.partition import RankSplit
from hta_widgets.analyses.server_steps import main_phase, phases_of
from hta_widgets.diagnosis.facts.rank_facts import RankFacts, rank_facts
from hta_widgets.diagnosis.job.steps import Steps, compared_ranks
from hta_widgets.diagnosis.limits import Limits, TrialLimits
from hta_widgets.diagnosis.replay.edits import ShorterOperations
from hta_widgets.diagnosis.replay.rank_part import PackedPart, rank_part
from hta_widgets.diagnosis.replay.recorded_job import RecordedJob
from hta_widgets.diagnosis.replay.replay import Replay, replay_of
from hta_widgets.errors import ParameterError, UnknownStepError, number_ranges
from hta_widgets.trace.job import Job
from hta_widgets.trace.loaders.freed_memory import return_freed_memory
from hta_widgets.trace.opening.open import HasJob, as_job
from hta_widgets.trace.ranks.rank import Rank
from hta_widgets.trace.remote.urls import TraceSource


class RankAnswer(NamedTuple):
    """Facts on a rank, and its part of a replay."""

    facts: RankFacts
    part: PackedPart


def answer_of(rank: Rank, split: RankSplit, limits: TrialLimits) -> RankAnswer:
    """Ask one rank, with the waiting of its communication kernels known."""
    steps = device_steps(rank, split)
    gaps = None if steps is None else steps.gaps
    part = PackedPart.of(rank_part(rank, gaps))
    return RankAnswer(rank_facts(rank, steps, split, limits), part)


def answers_of_all(job: Job, limits: TrialLimits) -> dict[int, RankAnswer]:
    """Ask all ranks of a job."""
    splits = rank_splits(job)
    answers = job.reduce_each(answer_of, {rank: (splits[rank], limits) for rank in job.ranks})
    return_freed_memory()  # of 1.5 M events, 100 MB that the rest would be on top of
    return answers


def replay_of_ranks(
    job: Job, limits: TrialLimits, ranks: tuple[int, ...], steps: tuple[int, ...]
) -> Replay:
    """Replay all ranks of a job; what counts is the steps of some."""
    answers = job.remember(answers_of_all, limits)
    parts = {
        rank: each.part.unpacked() for rank, each in answers.items() if each.part.has_operations
    }
    every = Steps.of({rank: answers[rank].facts.steps for rank in ranks}).numbers
    known = every if {*steps} <= {*every} else steps
    return replay_of(job, parts, known, ranks, steps)


def before_cuts(steps: Steps, facts: Mapping[int, RankFacts]) -> Steps:
    """The steps without those behind the cut of a file; all of them if none would be left."""
    return steps.without({step for rank in steps.ranks for step in facts[rank].behind_cut})


def replay(
    job_or_path: Job | HasJob | TraceSource,
    ranks: Iterable[int] | None = None,
    steps: Iterable[int] | None = None,
) -> Replay:
    """Replay a recorded job, to ask what a step would take if something were different.

    Built once, and remembered with the job.

    Parameters
    ----------
    job_or_path : Job or path
        What `open_trace` returned, or what it takes.
    ranks : iterable of int, optional
        Ranks whose steps count, all when not given; all others are waited for as recorded.
    steps : iterable of int, optional
        Numbers of the ProfilerSteps that count, all analysed ones when not given; of an inference
        server with several phases those of the one with most time, as in a diagnosis.

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
    answers = job.remember(answers_of_all, limits)
    compared = compared_ranks({rank: answers[rank].facts.steps for rank in chosen})
    if not compared:
        msg = f"no GPU work was recorded of rank {number_ranges(chosen)}: nothing can be replayed"
        raise ParameterError(msg)
    every = Steps.of({rank: answers[rank].facts.steps for rank in compared})
    if steps is None:
        every = before_cuts(every, {rank: answers[rank].facts for rank in compared})
        own = {*phases_of(job).get(main_phase(job), ())}
        asked = tuple(each for each in every.numbers if each in own) or every.numbers
    else:
        asked = tuple(steps)
    if not {*every.numbers} >= {*asked}:
        known = every.numbers if every.are_recorded else ()
        raise UnknownStepError.from_steps(asked, known)
    together = Steps.of({rank: answers[rank].facts.steps for rank in compared}, asked)
    return job.remember(replay_of_ranks, limits, together.ranks, together.numbers)


def shorter_kernels(
    job: RecordedJob, facts: Mapping[int, RankFacts], columns: Sequence[str]
) -> ShorterOperations:
    """The edit in which kernels take as much less as columns of `Savings` say."""
    less_ns = np.zeros(job.stream.size)
    for place, (rank, part) in enumerate(zip(job.ranks, job.parts, strict=True)):
        savings = facts[rank].compute.savings
        own = np.flatnonzero((job.operation_rank == place) & ~job.is_finish)
        rows = part.row[job.operation[own]]
        for column in columns:
            less_ns[own] += savings.of_rows(column, rows)
    return ShorterOperations(less_ns)


def percent_left(job: RecordedJob, shorter: ShorterOperations) -> float:
    """What is left (%) of the time of the kernels that are shorter; 100 if none is."""
    whole_ns = float(job.weights.duration[shorter.less_ns > 0].sum())
    return 100 - 100 * float(shorter.less_ns.sum()) / whole_ns if whole_ns else 100.0
