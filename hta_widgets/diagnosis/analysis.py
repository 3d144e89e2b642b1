"""Why a job is slow: the causes, who, when, what they cost, what to do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any, Literal, overload

import pandas as pd

from hta_widgets.analyses.clocks import Clocks, clocks
from hta_widgets.analyses.collectives import Collectives, collectives
from hta_widgets.analyses.collectives.rank_splits import rank_splits
from hta_widgets.analyses.result import Result
from hta_widgets.diagnosis.causes import ALL_CAUSES, FIRST_CAUSES, RULES
from hta_widgets.diagnosis.context import NS_PER_MS, Context
from hta_widgets.diagnosis.cpu_work import CpuWork, cpu_work
from hta_widgets.diagnosis.facts.not_recorded import NotRecorded, not_recorded
from hta_widgets.diagnosis.facts.rank_facts import RankFacts, rank_facts
from hta_widgets.diagnosis.facts.step_facts import SHOWN_COLUMNS
from hta_widgets.diagnosis.finding import Finding
from hta_widgets.diagnosis.job.steps import Steps, compared_ranks
from hta_widgets.diagnosis.job.waiting import CollectiveWaits
from hta_widgets.diagnosis.largest_kernels import only_faster_kernels
from hta_widgets.diagnosis.limits import Limits, TrialLimits
from hta_widgets.diagnosis.rules.cause_not_found import unseen_work_notices
from hta_widgets.diagnosis.rules.missing_rank import missing_rank
from hta_widgets.diagnosis.rules.warm_up import slow_first_step
from hta_widgets.errors import number_ranges
from hta_widgets.quantities import duration
from hta_widgets.trace.job import Job
from hta_widgets.trace.opening.open import open_trace
from hta_widgets.trace.ranks.facts import world_size_of

MOST_SHOWN = 3
"""Findings that are shown at once; the others are folded."""

Status = Literal["findings", "healthy", "cannot_tell", "no_gpu_work"]
"""What a diagnosis comes to."""

Workload = Literal["training", "cpu_only", "other"]
"""What kind of work was recorded, as far as it shows."""

_CAUSE = {each.name: each for each in ALL_CAUSES}


@dataclass(frozen=True, kw_only=True, eq=False)
class Diagnosis(Result, Sequence[Finding]):
    """Findings, the most expensive first; empty if nothing costs more than its limit.

    Attributes
    ----------
    findings : tuple of Finding
    steps : DataFrame
        One row per rank and analysed step that all ranks have in common: ``rank``, ``step`` (-1
        without steps), ``own_ns`` (what the rank needs itself), ``host_ns`` (what its host needs
        outside blocking calls, data loading and the profiler), ``kernels`` (launched), and in ns
        what the GPU did and why it did nothing. `budget` makes the classes of it that add up to
        ``period_ns``.
    job : Job
    ranks : tuple of int
        Those that were diagnosed: of the chosen ones those with GPU work that have the same steps,
        or all if none has GPU work. `not_recorded` says why a rank is not among them.
    period_ns : float
        Length of the mean step of all diagnosed ranks (without steps: of their GPU spans), which
        the classes of the budget add up to.
    not_recorded : tuple of NotRecorded
        What the traces lack that a diagnosis needs; also among the notices.
    cpu_work : CpuWork or None
        What the CPUs did, where none of the chosen ranks has GPU work; else None.
    left_out_steps : tuple of int
        Analysed steps that only the finding on them counts (of warm-up or autotuning), or a notice
        (of a slow first step whose cause is not known): the prices of all other findings are found
        in the other steps.
    status : {"findings", "healthy", "cannot_tell", "no_gpu_work"}
        ``healthy`` if nothing costs more than its limit, ``cannot_tell`` if that cannot be known:
        no kernels are recorded, or the GPUs wait for what the traces do not show.
    workload : {"training", "cpu_only", "other"}
        ``training`` if a backward pass or the step of an optimizer is recorded; ``other`` is GPU
        work without: inference, a server, a benchmark, or a trace without operators.
    """

    findings: tuple[Finding, ...]
    steps: pd.DataFrame
    job: Job
    ranks: tuple[int, ...]
    period_ns: float
    not_recorded: tuple[NotRecorded, ...]
    left_out_steps: tuple[int, ...]
    status: Status
    workload: Workload
    cpu_work: CpuWork | None = None

    def __len__(self) -> int:
        """Number of findings."""
        return len(self.findings)

    @overload
    def __getitem__(self, place: int) -> Finding: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Finding]: ...
    def __getitem__(self, place: int | slice) -> Finding | Sequence[Finding]:
        """Finding at a place, the most expensive one at 0."""
        return self.findings[place]

    def __iter__(self) -> Iterator[Finding]:
        """All findings."""
        return iter(self.findings)

    @property
    def collectives(self) -> Collectives:
        """The collectives of the diagnosed ranks."""
        return collectives(self.job, self.ranks)

    @property
    def clocks(self) -> Clocks:
        """The clocks of all ranks."""
        return clocks(self.job)

    def to_frame(self) -> pd.DataFrame:
        """The findings as a table: ``cause``, ``ranks``, ``steps``, ``recoverable_ms``, …."""
        names = ("cause", "ranks", "steps", "recoverable_ms", "percent", "sentence", "action")
        rows: list[dict[str, Any]] = [
            {name: getattr(each, name) for name in (*names, "confidence")} for each in self
        ]
        return pd.DataFrame(rows, columns=[*names, "confidence"])


def diagnose(
    job_or_path: Job | str | PathLike[str],
    ranks: Iterable[int] | None = None,
    steps: Iterable[int] | None = None,
    limits: Limits | None = None,
) -> Diagnosis:
    """Find out why a job is slow.

    Parameters
    ----------
    job_or_path : Job or path
        What `open_trace` returned, or what it takes.
    ranks : iterable of int, optional
        Ranks to diagnose, all when not given. What they wait for is looked for on all ranks.
    steps : iterable of int, optional
        ProfilerSteps to diagnose, all analysed ones when not given.
    limits : Limits, optional
        From when on a cause is worth a finding.

    Returns
    -------
    Diagnosis
        Findings, the most expensive first; empty if nothing costs more than its limit.
    """
    job = job_or_path if isinstance(job_or_path, Job) else open_trace(job_or_path)
    return diagnosis(job, ranks, steps=steps, limits=limits)


def diagnosis(
    job: Job,
    ranks: Iterable[int] | None = None,
    *,
    steps: Iterable[int] | None = None,
    limits: Limits | None = None,
) -> Diagnosis:
    """Find out why a job is slow.

    Parameters
    ----------
    job : Job
    ranks : iterable of int, optional
        Ranks to diagnose, all when not given. What they wait for is looked for on all ranks.
    steps : iterable of int, optional
        ProfilerSteps to diagnose, all analysed ones when not given.
    limits : Limits, optional
        From when on a cause is worth a finding.

    Returns
    -------
    Diagnosis

    Raises
    ------
    UnknownRankError
        If the job lacks a rank.
    """
    chosen = job.select_ranks(ranks)
    limits = limits or Limits()
    facts = job.remember(_facts_of_all, limits.trials)
    asked = None if steps is None else tuple(steps)
    compared = compared_ranks({rank: facts[rank].steps for rank in chosen})
    together = Steps.of({rank: facts[rank].steps for rank in compared}, asked)
    waits = job.remember(_collective_waits, limits.trials)
    context = Context(job, together, together, facts, limits, waits)
    findings, kept = _findings(context)
    unseen = unseen_work_notices(context)
    lacks = _lacks(job, facts, together, chosen)
    on_cpu = None if together.ranks else cpu_work(job, chosen, asked)
    return Diagnosis(
        findings=findings,
        steps=_steps_frame(together),
        job=job,
        ranks=together.ranks or chosen,
        period_ns=together.period_ns,
        not_recorded=lacks,
        cpu_work=on_cpu,
        left_out_steps=tuple(each for each in together.numbers if each not in kept.numbers),
        status=_status(context, findings, unseen),
        workload=_workload(context),
        finding=_verdict(context, findings) if on_cpu is None else on_cpu.verdict,
        notices=(
            *job.notices_for(chosen),
            *(each.sentence for each in lacks),
            *_left_out_notices(together, kept, findings),
            *(unseen if findings else ()),
        ),
    )


def _status(context: Context, findings: Sequence[Finding], unseen: Sequence[str]) -> Status:
    if findings:
        return "findings"
    if not context.ranks:
        return "no_gpu_work"
    is_known = any(context.facts[rank].records.kernels for rank in context.ranks)
    return "healthy" if is_known and not unseen else "cannot_tell"


def _workload(context: Context) -> Workload:
    if not context.ranks:
        return "cpu_only"
    trains = any(context.facts[rank].records.trains for rank in context.ranks)
    return "training" if trains else "other"


def _left_out_notices(together: Steps, kept: Steps, findings: Sequence[Finding]) -> tuple[str, ...]:
    """What is lost in a step that is left out, and in no finding."""
    named = {step for finding in findings for step in finding.steps if step not in kept.numbers}
    silent = [each for each in together.numbers if each not in kept.numbers and each not in named]
    if not silent or not kept.period_ns:
        return ()
    lost = together.without([each for each in together.numbers if each not in silent])
    which = f"{'step' if len(silent) == 1 else 'steps'} {number_ranges(silent)}"
    takes, others = duration(lost.period_ns), duration(kept.period_ns)
    words = "causes are looked for in the others only"
    return (f"{which} took {takes}, the others {others} on average: {words}",)


def _lacks(
    job: Job, facts: Mapping[int, RankFacts], together: Steps, chosen: Sequence[int]
) -> tuple[NotRecorded, ...]:
    """What the traces of all ranks lack."""
    busy = [rank for rank in chosen if facts[rank].steps["step"].size]
    return not_recorded(
        {rank: of_rank.records for rank, of_rank in facts.items()},
        world_size=max(job.reduce(world_size_of, job.ranks).values(), default=0),
        with_steps=together.are_recorded,
        left_out=[rank for rank in busy if rank not in together.ranks],
    )


def _facts_of_all(job: Job, limits: TrialLimits) -> dict[int, RankFacts]:
    splits = rank_splits(job)
    return job.reduce_each(rank_facts, {rank: (splits[rank], limits) for rank in job.ranks})


def _collective_waits(job: Job, limits: TrialLimits) -> CollectiveWaits:
    facts = job.remember(_facts_of_all, limits)
    before = {
        rank: each.host.before_collectives for rank, each in facts.items() if each.host is not None
    }
    return CollectiveWaits.of(job, before)


def _findings(context: Context) -> tuple[tuple[Finding, ...], Steps]:
    """Ask all rules, and sort what they find by its cost; and the steps that most were asked of."""
    if not context.ranks:
        return (), context.steps
    for cause in FIRST_CAUSES:
        found = cause(context)
        if found is not None:
            context.found[cause] = found
            context = context.without_trials() if not found.steps else context
            context = context.without_steps(found.steps)
    of_first_steps = [each for each in context.found.values() if each.steps]
    context = context.without_steps(slow_first_step(context))
    for rule in RULES:
        found = rule(context)
        if found is not None:
            context.found[_CAUSE[found.cause]] = found
    others = [each for each in context.found.values() if each not in of_first_steps]
    every = (*of_first_steps, *within_the_step(context, others))
    return tuple(sorted(every, key=lambda found: -found.recoverable_ms)), context.steps


def within_the_step(context: Context, findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Findings on the same steps, the most expensive first, with prices that fit into a step.

    Each price is that of its cause alone. Where causes overlap, they may add up to more than the
    step: then the cheaper ones cost no more than what the more expensive ones leave of it, and
    those of which less than their limit is left explain nothing else, and go. Missing ranks, of
    which something else is to be said than a price, stay.
    """
    left_ns = context.steps.period_ns
    kept = []
    for finding in sorted(findings, key=lambda each: -each.recoverable_ms):
        cause, price_ns = _CAUSE[finding.cause], finding.recoverable_ms * NS_PER_MS
        if price_ns <= left_ns:
            kept.append(finding)
        elif cause is missing_rank or context.is_worth_it(cause, left_ns):
            kept.append(_repriced(context, finding, left_ns))
        else:
            continue
        left_ns -= min(price_ns, left_ns)
    return tuple(kept)


def _repriced(context: Context, finding: Finding, price_ns: float) -> Finding:
    """The finding at another price."""
    words = finding.words
    if price_ns < 1:
        sentence = words.sentence("counted in other findings")
        return replace(finding, sentence=sentence, recoverable_ms=0.0, percent=0.0)
    share, text = context.cost(price_ns, is_lower_bound=words.is_lower_bound)
    return replace(
        finding,
        sentence=words.sentence(text),
        recoverable_ms=price_ns / NS_PER_MS,
        percent=share,
    )


def _verdict(context: Context, findings: Sequence[Finding]) -> str:
    if findings:
        return findings[0].sentence
    if not any(context.facts[rank].records.kernels for rank in context.ranks):
        return "No cause can be told: the traces do not hold the kernels."
    unseen = "".join(f"; {notice}" for notice in unseen_work_notices(context))
    return (
        "No cause found that costs more than its limit (3 to 15 % of a step, by cause); looked for "
        f"{len(ALL_CAUSES)}{unseen}.{only_faster_kernels(context)}"
    )


def _steps_frame(steps: Steps) -> pd.DataFrame:
    """The steps as a table, a row for each rank and step."""
    size = len(steps.numbers)
    table = {
        "rank": [rank for rank in steps.ranks for _ in range(size)],
        "step": [*steps.numbers] * len(steps.ranks),
        "own_ns": steps.own.ravel().astype("int64"),
    }
    for name in SHOWN_COLUMNS:
        has_unit = name.endswith("_ns") or name == "kernels"
        table[name if has_unit else f"{name}_ns"] = steps[name].ravel().astype("int64")
    return pd.DataFrame(table)
