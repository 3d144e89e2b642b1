"""Why a job is slow: its causes, on which ranks and steps, their cost, and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from shlex import quote
from typing import NamedTuple

import pandas as pd

from hta_widgets.analyses.server_steps import (
    main_phase,
    phases_of,
    server_notices,
    server_steps,
    step_source,
    steps_in_phase,
)
from hta_widgets.analyses.time.window import NO_STEP
from hta_widgets.diagnosis.causes import ALL_CAUSES, FIRST_CAUSES, RULES, SLOW_HOST_RULES
from hta_widgets.diagnosis.context import Context
from hta_widgets.diagnosis.cpu_work import cpu_work
from hta_widgets.diagnosis.facts.not_recorded import UNTOLD_OF_GPU, NotRecorded, not_recorded
from hta_widgets.diagnosis.facts.step_facts import SHOWN_COLUMNS
from hta_widgets.diagnosis.finding import Finding, in_words_of
from hta_widgets.diagnosis.fine import what_is_fine
from hta_widgets.diagnosis.gpu_bound import GpuBound, hide_kernels
from hta_widgets.diagnosis.job.health import foreign_ranks, job_health
from hta_widgets.diagnosis.job.steps import Steps, common_steps, compared_ranks
from hta_widgets.diagnosis.largest_kernels import GPU_BOUND, on_few_multiprocessors, what_gpus_do
from hta_widgets.diagnosis.limits import Limits
from hta_widgets.diagnosis.notices import (
    after_cut_notices,
    last_step_notices,
    late_begin_notices,
    longest_set_up,
    longest_unrecorded_ns,
    not_counted_notices,
    other_phases,
    phase_notices,
    recording_notices,
    replay_notices,
    slow_step_notices,
)
from hta_widgets.diagnosis.rank_answers import (
    RankFacts,
    answers_of_all,
    before_cuts,
    replay_of_ranks,
)
from hta_widgets.diagnosis.replay.critical_path import THE_HOST, UNEXPLAINED, bound_by
from hta_widgets.diagnosis.report import Diagnosis, Replayed, Status
from hta_widgets.diagnosis.rules.cause_not_found import unseen_work_notices
from hta_widgets.diagnosis.rules.warm_up import slow_first_step
from hta_widgets.errors import ParameterError, UnknownStepError, whole_numbers
from hta_widgets.quantities import (
    NS_PER_MS,
    capitalised,
    duration,
    named_numbers,
    number_ranges,
    percent,
)
from hta_widgets.trace.job import Job, select_ranks
from hta_widgets.trace.loaders.kineto.format import KINETO
from hta_widgets.trace.opening.open import HasJob, as_job
from hta_widgets.trace.ranks.facts import world_size_among, world_size_of
from hta_widgets.trace.ranks.recorded_kind import CAPTURE, by_rank
from hta_widgets.trace.ranks.replayed_calls import capture_notices
from hta_widgets.trace.remote.urls import TraceSource

_CAUSE = {each.name: each for each in ALL_CAUSES}

_AS_RECORDED = ", as far as the step is recorded"
"""For a step of 13.3 s with 1.36 ms recorded, the host set the time of these 1.36 ms only."""


def diagnose(
    job_or_path: Job | HasJob | TraceSource,
    ranks: Iterable[int] | None = None,
    steps: Iterable[int] | None = None,
    limits: Limits | None = None,
    phase: str | None = None,
) -> Diagnosis:
    """Find out why a job is slow.

    Parameters
    ----------
    job_or_path : Job or path
        The result of `open_trace`, or anything that it accepts.
    ranks : iterable of int, optional
        Ranks to diagnose; all by default. All ranks of the job are compared, and the search for
        what the chosen ranks wait for covers all of them. A notice names findings that are on other
        ranks only.
    steps : iterable of int, optional
        ProfilerSteps to diagnose; all analysed ones if not given or empty.
    limits : Limits, optional
        Thresholds above which a cause is worth a finding.
    phase : {"decode", "prefill", "mixed"}, optional
        Phase of an inference server whose steps are diagnosed; by default, unless `steps` is given,
        the one with the most time.

    Returns
    -------
    Diagnosis
        Findings, the most expensive first; empty if no cause costs more than its limit.
    """
    return diagnosis(as_job(job_or_path), ranks, steps=steps, limits=limits, phase=phase)


def diagnosis(
    job: Job,
    ranks: Iterable[int] | None = None,
    *,
    steps: Iterable[int] | None = None,
    limits: Limits | None = None,
    phase: str | None = None,
) -> Diagnosis:
    """Find out why a job is slow, as `diagnose` does.

    Raises
    ------
    UnknownRankError
        If the job lacks a rank.
    ParameterError
        If the job has no steps of the phase.
    UnknownStepError
        If the compared ranks do not have all of the steps, or none of them is of the phase.
    """
    found = _diagnosed(job, ranks, steps, Limits.of(limits), phase)
    if job.hold_at_most is not None:
        job.forget(replay_of_ranks)  # with 1,024 ranks of 24 k events, it takes 1.9 GB
    return found


def diagnosis_of_phase(job: Job, phase: str) -> Diagnosis:
    """The diagnosis of all ranks; if a server has several phases, of its steps in this phase."""
    known = phases_of(job) if phase else {}
    is_usual = not phase or phase == next(iter(known), None)
    return job.remember(diagnosis) if is_usual else job.remember(diagnosis, phase=phase)


class _Scope(NamedTuple):
    """What a diagnosis is about, and what its rules work on."""

    opened: Job
    """The job as it was given; that of the context lacks ranks that do not belong to the others."""
    chosen: tuple[int, ...]
    """Ranks to diagnose, whether or not they have prices."""
    not_priced: Mapping[int, str]
    """Why ranks of the job have none."""
    asked: tuple[int, ...] | None
    """Numbers of the steps asked for, or of those in the phase; None for all."""
    phase: str
    """Phase of a server, if only its steps count."""
    after_cuts: set[int]
    """Numbers of steps that do not count because a file is cut before their end."""
    context: Context

    @property
    def priced(self) -> list[int]:
        """Ranks to diagnose that have prices."""
        return [rank for rank in self.chosen if rank not in self.not_priced]

    @property
    def shown(self) -> Steps:
        """The steps on the ranks to diagnose."""
        return self.context.all_steps.of_ranks(self.chosen)


class _Outcome(NamedTuple):
    """What the rules found, and what there is to say beside it."""

    findings: tuple[Finding, ...]
    """Those on the ranks to diagnose, the most expensive first."""
    elsewhere: str
    """What was found on the other ranks, in words."""
    of_phases: Mapping[str, str]
    """What is found in other phases of a server, in words."""
    kept: Steps
    """The steps that most rules used."""
    slow: tuple[str, ...]
    """Notices on slow steps that no finding names."""
    unseen: tuple[str, ...]
    """Notices on time in which GPUs wait for something that the traces do not show."""


def _diagnosed(
    job: Job,
    ranks: Iterable[int] | None,
    steps: Iterable[int] | None,
    limits: Limits,
    phase: str | None,
) -> Diagnosis:
    chosen, wanted = select_ranks(job, ranks), whole_numbers("steps", steps)
    is_usual = ranks is None and phase is None and not wanted and limits == Limits()
    scope = _scope(job, chosen, wanted, limits, phase)
    context, priced, shown = scope.context, scope.priced, scope.shown
    outcome = _outcome(scope, with_phases=is_usual)
    findings, unseen = outcome.findings, outcome.unseen
    further = unseen_work_notices(context, apart=True) if findings else ()
    shares = context.replay.shares if _is_bottleneck_known(context) else {}
    sure = [each for each in findings if each.confidence == "measured"]
    replayed = _replayed(context, findings)
    joint_ms, sure_ms = (
        replayed.gain_ms([each.cause for each in some]) if replayed else 0.0
        for some in (findings, sure)
    )
    on_cpu = cpu_work(context.job, priced, scope.asked) if priced and not context.ranks else None
    lacks = _lacks(scope)
    if on_cpu is not None and on_cpu.on_cpu:
        lacks = tuple(each for each in lacks if each.untold != UNTOLD_OF_GPU)
    said = _sentence(scope, outcome)
    beyond_ns = longest_unrecorded_ns(context)
    return Diagnosis(
        findings=findings,
        steps=_steps_frame(shown),
        job=scope.opened,
        counted=None if context.job is scope.opened else context.job,
        ranks=shown.ranks or scope.chosen,
        period_ns=shown.period_ns,
        step_ns=context.step_ns,
        profiler_ns=context.replay.profiler_ns if context.ranks else 0.0,
        bound_by=f"{_bound_by(context, shares, unseen)}{_AS_RECORDED if beyond_ns else ''}",
        shares=shares,
        joint_ms=joint_ms,
        replayed=replayed,
        explained_percent=context.replay.explained_percent if context.ranks else 0.0,
        unmatched_percent=context.replay.unmatched_percent if context.ranks else 0.0,
        not_recorded=lacks,
        cpu_work=on_cpu,
        gpu_bound=GpuBound.of(context, sure, sure_ms) if shares else None,
        phase=scope.phase,
        left_out_steps=tuple(sorted({*context.all_steps.numbers} - {*outcome.kept.numbers})),
        status=_status(context, outcome) if priced else "not_applicable",
        health=context.health,
        unrecorded_ns=beyond_ns,
        unexplained=(
            *((*further, *context.not_explained, *outcome.slow) if findings else ()),
            *not_counted_notices(context),
            *late_begin_notices(context),
            *last_step_notices(context, outcome.kept, of_few=True),
        ),
        fine=what_is_fine(context) if findings else "",
        finding=said if on_cpu is None else on_cpu.verdict,
        notices=(
            *_notices_of_scope(scope, outcome, lacks),
            *recording_notices(context),
            *last_step_notices(context, outcome.kept),
            *(each for each in outcome.slow if each[1:] not in said),
            *further,
            *(replay_notices(context) if context.ranks else ()),
        ),
    )


def _scope(
    job: Job, chosen: tuple[int, ...], wanted: tuple[int, ...], limits: Limits, phase: str | None
) -> _Scope:
    """Decide which ranks and steps count, and collect the facts about them."""
    foreign, opened = job.remember(foreign_ranks), job
    if foreign.left_out:
        own = tuple(rank for rank in job.ranks if rank not in foreign.left_out)
        chosen = tuple(rank for rank in chosen if rank in own) or chosen
        job = job.remember(Job.only, own if chosen[0] in own else chosen)
    facts = job.remember(answers_of_all, limits.trials).facts
    asked, phase = _of_phase(job, wanted or None, phase)
    not_priced = _not_priced(job)
    alike = [rank for rank in job.ranks if rank not in {**not_priced, **foreign.not_compared}]
    compared = _compared(facts, alike, [rank for rank in chosen if rank not in not_priced])
    of_ranks = {rank: facts[rank].steps for rank in compared}
    known = common_steps(of_ranks)
    if known and not known.issuperset(wanted):  # else the answer would cover the whole recording
        raise UnknownStepError.from_steps(wanted, known - {NO_STEP})
    every = Steps.of(of_ranks, asked, phase)
    uncut = every if wanted else before_cuts(every, facts)
    health = job_health(opened, foreign, uncut)
    sound = uncut.without(health.left_out_steps)
    return _Scope(
        opened=opened,
        chosen=chosen,
        not_priced=not_priced,
        asked=asked,
        phase=phase,
        after_cuts={*every.numbers} - {*uncut.numbers},
        context=Context(job, sound, uncut, facts, limits, health),
    )


def _outcome(scope: _Scope, *, with_phases: bool) -> _Outcome:
    """Apply the rules; with other phases of a server, each of which replays its own steps."""
    context = scope.context
    of_phases = _in_other_phases(context.job, context.all_steps) if with_phases else {}
    every, kept = _findings(context)
    findings = tuple(each for each in every if _concerns(each, scope.chosen, context.job))
    return _Outcome(
        findings=findings,
        elsewhere=_elsewhere([each for each in every if each not in findings]),
        of_phases=of_phases,
        kept=kept,
        slow=tuple(slow_step_notices(context, kept, findings, context.health.left_out_steps)),
        unseen=unseen_work_notices(context),
    )


def _is_bottleneck_known(context: Context) -> bool:
    """Whether the critical path shows what sets the time of a step."""
    health = context.health
    if not context.ranks or not context.replay.is_sound or health.doubts or health.lacks_waits:
        return False
    # for times without names, "bound by the GPU, 64.9 %" helped nobody
    return context.has_names and not context.lacks_kernels


def _sentence(scope: _Scope, outcome: _Outcome) -> str:
    """The diagnosis in a sentence or two; for ranks without prices, why they have none."""
    if scope.priced:
        return _verdict(scope.context, outcome)
    why = by_rank(_of(scope.chosen, scope.not_priced))
    return in_words_of(why, scope.context.conditions(scope.chosen))


def _notices_of_scope(
    scope: _Scope, outcome: _Outcome, lacks: Iterable[NotRecorded]
) -> Iterator[str]:
    """What is not diagnosed and why: steps, ranks, phases, and what was not recorded of them."""
    context = scope.context
    yield from context.health.notices
    yield from after_cut_notices(scope.after_cuts)
    yield from context.job.notices_for(scope.chosen)
    yield from context.job.noticed(capture_notices, scope.chosen)
    yield from (each.sentence for each in lacks)
    if outcome.elsewhere and outcome.findings:
        yield f"on ranks that were not chosen: {outcome.elsewhere}"
    if scope.priced:
        for rank, why in _of(scope.chosen, scope.not_priced).items():
            yield f"rank {rank} is left out of the diagnosis. {why}"
    yield from phase_notices(context.job, context.all_steps, outcome.of_phases)
    yield from server_notices(server_steps(context.job).steps)


def _not_priced(job: Job) -> dict[int, str]:
    """Why ranks have nothing to price, with the name of what was opened in the command to run."""
    why = {rank: said for rank in job.ranks if (said := job.kinds[rank].why_not_priced)}
    is_all = len(why) == len(job.ranks)
    names = {rank: job.name if is_all else job.sources[rank].path.name for rank in why}
    return {rank: said.replace(CAPTURE, quote(names[rank])) for rank, said in why.items()}


def _of_phase(
    job: Job, steps: tuple[int, ...] | None, phase: str | None
) -> tuple[tuple[int, ...] | None, str]:
    """The steps that count, and their phase if a server has several."""
    known = phases_of(job)
    if phase is not None and phase not in known:
        numbers = number_ranges(steps_in_phase(job, phase))
        msg = (
            f"none of the {phase} steps {numbers} can be diagnosed: their GPU work was not "
            "recorded, or the server may have had no requests before them"
        )
        raise ParameterError(msg)
    chosen = phase or ("" if steps is not None else main_phase(job))
    if not chosen:
        return steps, ""
    own = tuple(each for each in known[chosen] if steps is None or each in steps)
    if not own:
        raise UnknownStepError.from_steps(steps or (), known[chosen])
    return own, chosen


def _in_other_phases(job: Job, steps: Steps) -> dict[str, str]:
    """Say what is found in the phases that are not diagnosed.

    A server with healthy decoding prepared images for 30 of the 43 ms of every eighth step.
    """
    diagnosed = {name: job.remember(diagnosis, phase=name) for name in other_phases(job, steps)}
    return {
        name: ", ".join(
            f"{each.cause}: {duration(each.recoverable_ms * NS_PER_MS)} of each "
            f"{duration(found.step_ns)}"
            for each in found
        )
        for name, found in diagnosed.items()
        if len(found)
    }


def _compared(
    facts: Mapping[int, RankFacts], every: Sequence[int], chosen: Sequence[int]
) -> tuple[int, ...]:
    """Ranks that are compared: always those of all, or causes would depend on the choice of ranks.

    If none of the chosen ranks can be compared with the others, they are compared with each other.
    """
    found = compared_ranks({rank: facts[rank].steps for rank in every})
    if {*found} & {*chosen}:
        return found
    return compared_ranks({rank: facts[rank].steps for rank in chosen})


def _concerns(finding: Finding, chosen: Sequence[int], job: Job) -> bool:
    """Whether a finding is on a chosen rank, or on none that could be chosen."""
    of_job = {*finding.ranks} & {*job.ranks}
    return not of_job or bool(of_job & {*chosen})


def _elsewhere(findings: Sequence[Finding]) -> str:
    """Say what was found on ranks that were not chosen, the most expensive first."""
    said = [
        f"{each.cause} on {named_numbers('rank', each.ranks)} "
        f"({duration(each.recoverable_ms * NS_PER_MS)})"
        for each in findings
    ]
    return ", ".join(said)


def _of(ranks: Sequence[int], why: Mapping[int, str]) -> dict[int, str]:
    return {rank: why[rank] for rank in ranks if rank in why}


def _status(context: Context, outcome: _Outcome) -> Status:
    if outcome.findings or outcome.of_phases:
        return "findings"
    if not context.ranks:
        return "no_gpu_work"
    is_known = any(context.facts[rank].records.kernels for rank in context.ranks)
    is_known &= context.replay.is_sound and context.replay.is_explained
    is_known &= not context.lacks_kernels
    is_known &= not (context.health.doubts or _lost_to_unrecorded_waits(context))
    return "healthy" if is_known and not outcome.unseen else "cannot_tell"


def _lost_to_unrecorded_waits(context: Context) -> float:
    """Share (%) of the time in which GPUs are idle if waits of the host are not recorded.

    0 if it is too little for a finding.
    """
    idle, whole = context.steps["idle"].sum(), context.steps["period"].sum()
    share = 100 * float(idle) / max(float(whole), 1) if context.health.lacks_waits else 0.0
    return share if share > context.limits.least_percent_unexplained else 0.0


def _lacks(scope: _Scope) -> tuple[NotRecorded, ...]:
    """What the traces of all ranks lack; nothing if they are no recordings to diagnose."""
    context = scope.context
    job, facts, health = context.job, context.facts, context.health
    if not scope.priced or health.is_no_recording:
        return ()
    busy = [
        rank
        for rank in scope.priced
        if rank not in health.foreign.not_compared and facts[rank].steps["step"].size
    ]
    steps = scope.shown
    found = not_recorded(
        {rank: of_rank.records for rank, of_rank in facts.items()},
        world_size=world_size_among(job.reduce(world_size_of, job.ranks)),
        with_steps=steps.are_recorded or job.kind == "request",  # which is not one of many
        left_out=[rank for rank in busy if rank not in steps.ranks],
        not_opened=job.unopened_ranks,
        serves=step_source(job) == "server",
        lost_most=health.lost_most,
    )
    is_of_pytorch = any(source.format == KINETO for source in job.sources.values())
    return found if is_of_pytorch else tuple(each.in_nsys for each in found)


def _findings(context: Context) -> tuple[tuple[Finding, ...], Steps]:
    """Apply all rules; return findings by cost, and the steps that most rules used."""
    if context.lacks_kernels or context.health.lost_most:
        return (), context.steps
    for cause in FIRST_CAUSES:
        found = cause(context)
        if found is not None:
            context.found[cause] = found
            context = context.without_trials() if not found.steps else context
            context = context.without_steps(found.steps)
    context = context.without_steps(slow_first_step(context))
    for rule in RULES:
        if rule in SLOW_HOST_RULES and context.health.lacks_waits:
            continue
        found = rule(context)
        if found is not None:
            context.found[_CAUSE[found.cause]] = found
    return tuple(sorted(context.found.values(), key=_place)), context.steps


def _place(found: Finding) -> tuple[bool, float]:
    """Order of a finding: by price, but last if a loop would lose none of it.

    Of the recording of one iteration, "0 ns to 625 µs" stood above "at least 494 µs".
    """
    return found.less_by == "end", -found.recoverable_ms


def _replayed(context: Context, findings: Iterable[Finding]) -> Replayed | None:
    """The replay without the causes of findings; None if they are not replayed."""
    prices = {cause.name: price for cause, price in context.prices.items()}
    found = {each.cause: prices[each.cause] for each in findings if each.cause in prices}
    if not found or not context.replay.is_sound:
        return None
    return Replayed(context.job, context.asked_of_replay, found)


def _verdict(context: Context, outcome: _Outcome) -> str:
    if outcome.findings or outcome.elsewhere:
        others = f"Nothing stands out on the chosen ranks; on others: {outcome.elsewhere}."
        return outcome.findings[0].sentence if outcome.findings else others
    if untold := _no_cause_told(context):
        return untold
    unseen = _as_clauses((*outcome.unseen, *context.not_explained))
    if outcome.of_phases:
        others = "; ".join(f"in {name} steps, {said}" for name, said in outcome.of_phases.items())
        own = f"Nothing stands out in {context.steps.phase} steps{unseen}"
        return f"{own}, but {others}.{what_gpus_do(context)}"
    # a job whose first step loads data for 200 of 220 ms must not read as one without problems
    there = "".join(f"{capitalised(lost)}. There, " for lost in outcome.slow)
    does = what_gpus_do(context)
    if few := on_few_multiprocessors(context):
        return f"{there}{few}{unseen}.{does}"
    nothing = (
        f"othing stands out: none of {len(ALL_CAUSES)} checks exceeds its threshold (3 to 15 % of "
        f"a step){unseen}."
    )
    is_hidden = hide_kernels(context)  # no check can say anything
    if is_hidden or (does.startswith(GPU_BOUND) and not there):
        # "nothing stands out" came before the 54.7 % in elementwise kernels, and denied them
        return f"{there}{does.lstrip()}{'' if is_hidden else f' Otherwise, n{nothing}'}"
    return f"{there}{'n' if there else 'N'}{nothing}{does}"


def _as_clauses(notices: Iterable[str]) -> str:
    return "".join(f"; {notice}" for notice in notices)


def _no_cause_told(context: Context) -> str:
    """Say why no cause can be named if none was found; empty if one could be."""
    if not context.has_names:
        return (
            "No cause can be named: the traces do not hold the kernels. Open the export that they "
            f"come from.{what_gpus_do(context)}"
        )
    if context.lacks_kernels:
        copies = duration(float(context.steps["memory"].mean(axis=0).sum()))
        return (
            "No cause can be named: of the job's GPU work, only copies and memsets were recorded "
            f"({copies}), and no kernels."
        )
    doubt = next(iter(context.health.doubts), "")
    if doubt or not context.replay.is_sound:
        why = doubt or "the recorded times contradict each other"
        return f"No cause can be named: {why}. {context.health.do_instead}".rstrip()
    if lost := _lost_to_unrecorded_waits(context):
        return (
            f"No cause can be named: the GPU is idle for {percent(lost)} of "
            f"{'each step' if context.steps.are_recorded else 'the GPU span'}, and calls that wait "
            "for the GPU are not recorded."
        )
    if not context.replay.is_explained:
        share = percent(context.replay.shares[UNEXPLAINED])
        is_known = any(context.facts[rank].records.launches for rank in context.ranks)
        why = "" if is_known else ", as calls of the CUDA API are not recorded"
        return (
            f"No cause can be named{why}: in {share} of the critical path, nothing recorded says "
            f"why work that was ready had to wait{_as_clauses(unseen_work_notices(context))}."
        )
    return ""


def _bound_by(context: Context, shares: Mapping[str, float], unseen: Sequence[str]) -> str:
    """Say what the bottleneck is, and how much of the path is unexplained; empty without shares."""
    if not shares:
        return ""
    words, doubts = bound_by(shares), ""
    before_ns = longest_set_up(context).hot_path.whole_ns
    if before_ns > context.step_ns:
        # a job that loaded its first batch for 8.6 s before 67.3 ms on the GPU was bound by the GPU
        first = f"{'up to ' if len(context.ranks) > 1 else ''}{duration(before_ns)}"
        words = f"after {first} in which the GPU has no work, {words}"
    if unseen and next(iter(shares)) == THE_HOST:
        # a recommender has no recorded wait while its GPU is idle with launched work, 30 % of the
        # step
        doubts += ", if all its waits are recorded"
    if not (context.replay.is_explained or UNEXPLAINED in words):
        # so was a bare table of kernels (64.9 %), though its job was bound by the host
        doubts += f"; nothing recorded explains {percent(shares[UNEXPLAINED])} of it"
    return words.replace("path)", f"path{doubts})")


def _steps_frame(steps: Steps) -> pd.DataFrame:
    """The steps as a table with a row for each rank and step."""
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
