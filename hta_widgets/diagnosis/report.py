"""What a diagnosis found, also as text for a terminal or a pull request.

In the text, everything that may contain names from a trace is indented by four spaces, so that
Markdown shows it unchanged.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, overload

import pandas as pd

from hta_widgets.analyses.clocks import Clocks, clocks
from hta_widgets.analyses.collectives import Collectives, collectives
from hta_widgets.analyses.plain_text import bounded
from hta_widgets.analyses.result import Result
from hta_widgets.analyses.server_steps import recording_in_words
from hta_widgets.diagnosis.cpu_work import CpuWork
from hta_widgets.diagnosis.facts.not_recorded import NotRecorded
from hta_widgets.diagnosis.finding import MOST_SHOWN, WHAT_TO_TRY, Finding, Price
from hta_widgets.diagnosis.gpu_bound import GpuBound
from hta_widgets.diagnosis.job.health import JobHealth
from hta_widgets.diagnosis.limits import TrialLimits
from hta_widgets.diagnosis.proof.proof import Proof, proofs, put_together
from hta_widgets.diagnosis.rank_answers import replay_of_ranks
from hta_widgets.diagnosis.replay.critical_path import bound_by
from hta_widgets.diagnosis.replay.edits import Edit, is_covered
from hta_widgets.diagnosis.replay.replay import Replay
from hta_widgets.errors import KEEPS_LAST_STEP
from hta_widgets.quantities import NS_PER_MS, capitalised, counted, duration, named_numbers, percent
from hta_widgets.terminal import MARGIN, MOST_CHARACTERS, MOST_NOTICES, cut, item, section, wrapped
from hta_widgets.trace.job import Job
from hta_widgets.trace.ranks.facts import world_size_among, world_size_of

_NEXT: Final = (
    "Next: to_frame() gives the findings as a table, proof(finding).windows the times where one is "
    "seen (ns), together(findings) the step without some of them."
)

UNLIKE_STEPS: Final = 1.3
"""Ratio of the longest to the shortest step above which a mean does not stand alone."""

LAST_STEP_OPTION: Final = "--last-step"
"""Option of ``hta-widgets diagnose`` that keeps the last step."""

Status = Literal["findings", "healthy", "cannot_tell", "not_applicable", "no_gpu_work"]
"""The outcome of a diagnosis."""


class Together(NamedTuple):
    """The mean step without some causes."""

    gain_ms: float
    """By how much it is shorter (ms)."""
    bound_by: str
    """What sets its time then; empty if nothing is replayed."""


NOT_REPLAYED: Final = Together(0.0, "")


@dataclass(frozen=True, eq=False)
class Replayed:
    """A replay, and its edits for each cause.

    The job remembers the replay until it is told to forget it: for 1.5 M events it takes 60 MB, and
    is rebuilt in 65 ms.
    """

    job: Job
    asked: tuple[TrialLimits, tuple[int, ...], tuple[int, ...]]
    """The arguments of `replay_of_ranks`."""
    prices: Mapping[str, Price]
    """Price by cause, for each finding that is replayed."""

    @property
    def replay(self) -> Replay:
        """The replay."""
        return self.job.remember(replay_of_ranks, *self.asked)

    def gain_ms(self, causes: Collection[str]) -> float:
        """By how much the mean step is shorter without several causes together (ms).

        It is at least the price of each. If a price is lower than its replay (allocating, for
        example, can cost no more than the idle time of the GPU), the total is lower by the same
        amount. Nor does it count what prices leave out: a host that launched without delay would
        hide its pauses, too, and a finding of 32.4 % was said to bring 44.4 %.
        """
        prices = [self.prices[each] for each in causes if each in self.prices]
        if not prices:
            return 0.0
        after = dict.fromkeys(
            edit
            for each in prices
            for edit in each.after
            if not any(is_covered(edit, other.edits) for other in prices if other is not each)
        )
        ns = self._gain_ns(self._of(causes), [*after])
        ns -= sum(max(self._gain_ns(each.edits, each.after) - each.ns, 0) for each in prices)
        return max(ns, *(each.ns for each in prices)) / NS_PER_MS

    def _gain_ns(self, edits: Sequence[Edit], after: Sequence[Edit]) -> float:
        """By how much the mean step is shorter without what some edits remove, after others."""
        return self.replay.gain_ns((*after, *edits)) - self.replay.gain_ns(after)

    def without(self, causes: Collection[str]) -> Together:
        """The mean step without some causes together."""
        shares = self.replay.shares_with(self._of(causes))
        return Together(self.gain_ms(causes), bound_by(shares))

    def _of(self, causes: Collection[str]) -> Sequence[Edit]:
        """Their edits, in the order found, so that earlier replays are reused."""
        return [
            edit for cause, each in self.prices.items() if cause in causes for edit in each.edits
        ]


@dataclass(frozen=True, kw_only=True, eq=False)
class Diagnosis(Result, Sequence[Finding]):
    """Findings, the most expensive first; empty if no cause costs more than its limit."""

    findings: tuple[Finding, ...]
    steps: pd.DataFrame
    """One row per rank and analysed step that all ranks have in common: ``rank``, ``step`` (-1
    without steps), ``own_ns`` (time that the rank needs itself), ``host_ns`` (time that its host
    needs outside blocking calls, data loading and the profiler), ``kernels`` (launched), and, in
    ns, what the GPU did and why it was idle. `budget` sums these up into classes that add up to
    ``period_ns``."""
    job: Job
    ranks: tuple[int, ...]
    """The diagnosed ranks: of the chosen ones, those with GPU work and the same steps, or all if
    none has GPU work. `not_recorded` says why a rank is not among them."""
    period_ns: float
    """Length of the mean step of all diagnosed ranks (without steps, of their GPU spans); the
    classes of the budget add up to it."""
    step_ns: float
    """Length of the mean step of the job, from the first start of a rank to the last end; prices
    refer to it. It is longer than the mean step of its ranks if these start at different times."""
    bound_by: str
    """What sets the time of a step, such as ``bound by the host (89 % of the critical path)``;
    empty if the replay is not sound."""
    shares: Mapping[str, float]
    """Percent of the critical path by what sets its time, the largest first."""
    joint_ms: float
    """By how much (ms) the step would be shorter without all findings together, see `together`."""
    explained_percent: float
    """Percentage of the steps of all ranks in which it is known what operations wait for."""
    unmatched_percent: float
    """Percentage of them in communication whose partners are not recorded."""
    not_recorded: tuple[NotRecorded, ...]
    """What a diagnosis needs but the traces lack; also among the notices."""
    left_out_steps: tuple[int, ...]
    """Analysed steps that count only in the finding on them (warm-up or autotuning) or in a notice
    (a slow first step of unknown cause, or a step that lacks GPU work). The prices of all other
    findings come from the other steps."""
    status: Status
    """``findings``, also if they are only on another phase of a server, which the verdict and a
    notice name. ``healthy`` if nothing on these ranks costs more than its limit. ``cannot_tell`` if
    that is not known, because no kernels are recorded or the GPUs wait for something that the
    traces do not show. ``no_gpu_work`` if none is recorded. ``not_applicable`` if only captures of
    graphs or compilation are recorded, which have no prices."""
    health: JobHealth = field(default_factory=JobHealth)
    """What the recorders got wrong, and how that affects the findings."""
    replayed: Replayed | None = None
    """Used by `together`; None if nothing is replayed."""
    counted: Job | None = None
    """The ``job`` without ranks that do not belong to the others; None if all do."""
    cpu_work: CpuWork | None = None
    """What the CPUs did if none of the chosen ranks has GPU work; else None."""
    gpu_bound: GpuBound | None = None
    """Used by `to_try`; None if something other than the GPU is the bottleneck."""
    phase: str = ""
    """Phase of an inference server whose steps were diagnosed; empty if all steps were."""
    unrecorded_ns: int = 0
    """How long the last analysed step goes on, by its mark, with nothing recorded, if that is long;
    no step counts it."""
    profiler_ns: float = 0.0
    """By how much the profiler makes a step longer than ``step_ns``, if that is known."""
    unexplained: tuple[str, ...] = ()
    """Considerable time that no finding covers: GPUs that wait for something the traces do not
    show, losses without a cause, and time that no step counts; also among the notices."""
    fine: str = ""
    """With findings, what needs no attention; empty if nothing is known to."""

    def __len__(self) -> int:
        """Number of findings."""
        return len(self.findings)

    @overload
    def __getitem__(self, place: int) -> Finding: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Finding]: ...
    def __getitem__(self, place: int | slice) -> Finding | Sequence[Finding]:
        """Finding by position; the most expensive one is at 0."""
        return self.findings[place]

    def __iter__(self) -> Iterator[Finding]:
        """All findings."""
        return iter(self.findings)

    @property
    def profiled(self) -> str:
        """How long a step is with the profiler, in words; empty if that is not known."""
        with_it = duration(self.step_ns + self.profiler_ns)
        return f" ({with_it} with the profiler)" if self.profiler_ns else ""

    @property
    def varied(self) -> str:
        """The shortest and the longest step, in words, if they differ much; else empty.

        A mean of 268 ms stood above one step of 390 ms that freed memory, and one of 145 ms.
        """
        by_step = self.steps[self.steps["step"] >= 0].groupby("step")["period_ns"].mean()
        least_ns, most_ns = by_step.min(), by_step.max()
        differ = len(by_step) > 1 and most_ns > UNLIKE_STEPS * least_ns
        return f" ({duration(least_ns)} to {duration(most_ns)})" if differ else ""

    @property
    def unrecorded(self) -> str:
        """Words for time that no step counts, to follow the steps; empty if there is none."""
        time = duration(self.unrecorded_ns)
        return f" (and {time} with nothing recorded)" if self.unrecorded_ns else ""

    @property
    def collectives(self) -> Collectives:
        """The collectives of the diagnosed ranks."""
        return collectives(self.counted or self.job, self.ranks)

    def proof(self, finding: Finding) -> Proof:
        """Where a finding, or something to try, is seen: all intervals, and the densest windows.

        Computed on request, and remembered.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> import hta_widgets
        >>> with TemporaryDirectory() as folder:
        ...     job = hta_widgets.open_trace(hta_widgets.sample.write_sample(folder))
        ...     found = hta_widgets.diagnose(job)
        ...     proof = found.proof(found[0])
        >>> proof.windows.columns.tolist()
        ['start_ns', 'end_ns', 'ranks', 'intervals', 'ms', 'percent']
        """
        seen = _checked(finding).seen
        if seen is None:
            return put_together({}, 0, (0, 0))
        beside = self if any(each is finding for each in self) else self.to_try
        asked = tuple(each.seen for each in beside if each.seen)
        return (self.counted or self.job).remember(proofs, asked)[asked.index(seen)]

    def together(self, findings: Iterable[Finding]) -> Together:
        """How long a step would be without some of the findings together, by replay.

        Findings on warm-up, autotuning and missing ranks may be differences of steps, which are not
        replayed: removing them changes nothing.
        """
        causes = [_checked(each).cause for each in findings]
        return self.replayed.without(causes) if self.replayed else NOT_REPLAYED

    @property
    def to_try(self) -> tuple[Finding, ...]:
        """What to try, besides the findings, if the GPU is the bottleneck.

        Causes in kernels that cost less than their limits, and lines without a price; those that
        promise most first. Computed on request, and remembered.
        """
        return self.gpu_bound.to_try if self.gpu_bound else ()

    def shown(self, place: int) -> Finding | None:
        """The finding at a position on a page, on which what to try follows the findings."""
        if place < len(self):
            return self[place]
        return next(iter(self.to_try[place - len(self) :]), None)

    @property
    def clocks(self) -> Clocks:
        """The clocks of all ranks."""
        return clocks(self.counted or self.job)

    def __repr__(self) -> str:
        """The report of ``hta-widgets diagnose``, and what to call next."""
        return f"{report(self)}\n{_NEXT}" if self.findings else report(self)

    def _repr_llm_(self) -> str:
        """The same, cut to a length that an assistant reads."""
        return bounded(report(self), _NEXT if self.findings else "")

    def to_frame(self) -> pd.DataFrame:
        """The findings as a table: ``cause``, ``ranks``, ``steps``, ``recoverable_ms``, …."""
        costs = ("recoverable_ms", "lower_ms", "bound", "percent")
        names = ("cause", "ranks", "steps", *costs, "sentence", "action")
        rows: list[dict[str, Any]] = [
            {name: getattr(each, name) for name in (*names, "confidence")} for each in self
        ]
        return pd.DataFrame(rows, columns=[*names, "confidence"])


def _checked(finding: object) -> Finding:
    if isinstance(finding, Finding):
        return finding
    msg = f"give findings of the diagnosis, such as diagnosis[0], got {finding!r}"
    raise TypeError(msg)


def report(diagnosis: Diagnosis, *, in_full: bool = False, in_shell: bool = False) -> str:
    """Write the findings, what to do about them, and what was not recorded.

    `in_full` includes all findings with their sentences, and all notices. `in_shell` names options
    of ``hta-widgets diagnose`` instead of Python arguments.
    """
    most = len(diagnosis) if in_full else MOST_SHOWN
    nothing = "No finding" if diagnosis.cpu_work is None else "No GPU work"
    lines = [counted(len(diagnosis), "finding") if diagnosis else nothing, ""]
    lines += wrapped(_what_was_looked_at(diagnosis))
    lines += wrapped(_what_sets_the_time(diagnosis)) if diagnosis.bound_by else []
    if diagnosis.cpu_work is not None:
        lines += _cpu_work(diagnosis.cpu_work)
    elif not diagnosis:
        lines += wrapped(diagnosis.finding)
    for number, finding in enumerate(diagnosis[:most], start=1):
        lines += ["", *_finding(diagnosis, number, finding)]
    if len(diagnosis) > most:
        lines += ["", f"{MARGIN}And, at lower cost{' (--all shows them in full)' * in_shell}:"]
        for number, finding in enumerate(diagnosis[most:], start=most + 1):
            lines += item(f"{number}. ", _heading(diagnosis, finding))
    if diagnosis.to_try:
        lines += ["", f"{MARGIN}{WHAT_TO_TRY}"]
    for number, finding in enumerate(diagnosis.to_try, start=1):
        lines += ["", *_advised(f"{number}. ", finding)]
    lines += ["", *wrapped(f"Fine: {diagnosis.fine}.")] if diagnosis.fine else []
    lacks = [each.sentence for each in diagnosis.not_recorded]
    others = [each for each in diagnosis.notices if each not in lacks]
    if in_shell:
        others = [each.replace(KEEPS_LAST_STEP, LAST_STEP_OPTION) for each in others]
    rest = "--all" if in_shell else "job.notices"
    most_listed = len(diagnosis.notices) if in_full else MOST_NOTICES
    lines += section("What was not recorded, and how to record it:", lacks, most_listed, rest)
    lines += section("Notices:", others, most_listed, rest)
    return "\n".join(lines) + "\n"


def _what_was_looked_at(diagnosis: Diagnosis) -> str:
    steps, name = _recorded_steps(diagnosis), cut(diagnosis.job.name, MOST_CHARACTERS)
    kind = recording_in_words(diagnosis.job)
    name += f" ({kind})" if kind else ""
    if not len(diagnosis.steps):
        return name
    parts = [
        *([] if _is_alone(diagnosis) else [named_numbers("rank", diagnosis.ranks)]),
        f"{named_numbers('step', steps)} of {duration(diagnosis.step_ns)}"
        f"{diagnosis.varied}{diagnosis.profiled}{diagnosis.unrecorded}"
        if steps
        else f"a GPU span of {duration(diagnosis.step_ns)}",
    ]
    return f"{name}: {', '.join(parts)}"


def _what_sets_the_time(diagnosis: Diagnosis) -> str:
    """Say what steps are bound by, and what all findings cost together."""
    bound_by = capitalised(diagnosis.bound_by)
    if len(diagnosis) < 2 or diagnosis.joint_ms <= 0:  # noqa: PLR2004
        return f"{bound_by}."
    left_ns = diagnosis.step_ns - diagnosis.joint_ms * NS_PER_MS
    before, after = duration(diagnosis.step_ns), duration(left_ns)
    return f"{bound_by}. With all findings fixed: {before} → {after}."


def _cpu_work(work: CpuWork) -> Iterator[str]:
    """List what the CPUs did, in the order of `CpuWork.parts`."""
    yield from wrapped(work.no_gpu_work if work.sentences else work.verdict)
    lists = work.lists
    for part, text in work.parts.items():
        if part not in lists:
            do = work.what_to_do(part)
            yield from ("", *wrapped(text), *(wrapped(f"What to do: {do}") if do else ()))
            continue
        yield from ("", *wrapped(f"{work.beginning(part)}:"))
        for owner in lists[part].owners:
            share = percent(100 * owner.own_ns / lists[part].ns)
            line = f"{duration(owner.own_ns)} ({share}): {cut(owner.name, MOST_CHARACTERS)}"
            yield from item("- ", f"{line}, {owner.in_calls}")


def _finding(diagnosis: Diagnosis, number: int, finding: Finding) -> Iterator[str]:
    mark = f"{number}. "
    yield from item(mark, _heading(diagnosis, finding))
    yield from _advised(" " * len(mark), finding)


def _advised(mark: str, finding: Finding) -> Iterator[str]:
    """The sentence, and what to do first."""
    code = finding.advice[0].code.splitlines()
    yield from item(mark, finding.sentence)
    for text in (f"What to do: {finding.action}", *code):
        yield from item(" " * len(mark), text)


def _heading(diagnosis: Diagnosis, finding: Finding) -> str:
    """The price, if known, the cause, the ranks and the steps."""
    price = f"{duration(finding.recoverable_ms * NS_PER_MS)} ({percent(finding.percent)}): "
    cost = f"{finding.sign} {price}".lstrip() if finding.recoverable_ms > 0 else ""
    words = [f"{cost}{finding.cause}"]
    if not _is_alone(diagnosis):
        words.append(_who(diagnosis, finding.ranks))
    known = {*_recorded_steps(diagnosis)}
    if {*finding.steps} == known:
        words += ["every step"] * (len(known) > 1)
    elif finding.steps:
        words.append(named_numbers("step", finding.steps))
    if finding.confidence == "inconclusive":
        words.append("inconclusive")
    return ", ".join(words)


def _is_alone(diagnosis: Diagnosis) -> bool:
    """Whether the job is a single process, of which nobody would say that it is rank 0."""
    job = diagnosis.job
    world = world_size_among(job.reduce(world_size_of, job.ranks))
    return job.recorded_ranks == (0,) and world <= 1


def _who(diagnosis: Diagnosis, ranks: Sequence[int]) -> str:
    if not ranks:
        return "a different rank in each step"
    everybody = len(ranks) > 1 and {*ranks} == {*diagnosis.job.ranks}
    if everybody and {*diagnosis.ranks} < {*ranks}:  # the first lines name the chosen ones
        return f"all {len(ranks)} ranks of the job"
    return "all ranks" if everybody else named_numbers("rank", ranks)


def _recorded_steps(diagnosis: Diagnosis) -> list[int]:
    """Numbers of the analysed ProfilerSteps; none if none are recorded."""
    return sorted(number for number in {*diagnosis.steps["step"].tolist()} if number >= 0)
