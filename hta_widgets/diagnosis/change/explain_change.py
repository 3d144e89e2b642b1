"""Explain what changed between two jobs, and whether it is more than noise.

The mean steps are compared down to the kernel, so that all differences add up to that of the steps.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import nan
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import pandas as pd

from hta_widgets.analyses.budget.classes import CLASS_LABELS, IDLE_CLASSES
from hta_widgets.analyses.compare import job_names
from hta_widgets.analyses.result import Result
from hta_widgets.diagnosis.causes import ALL_CAUSES
from hta_widgets.diagnosis.change.comparable import Difference, Weight, differences
from hta_widgets.diagnosis.change.significance import Significance, significance_of_recordings
from hta_widgets.diagnosis.change.summary import Summary, summary
from hta_widgets.diagnosis.change.waterfall import (
    LEVELS,
    NOTHING_LABELS,
    PART_LABELS,
    Line,
    largest_lines,
    level,
    opposite_line,
    waterfall,
)
from hta_widgets.diagnosis.change.work_done import WORK, WORK_OF_USERS
from hta_widgets.diagnosis.job.health import CLOCKS_APART
from hta_widgets.diagnosis.rules.wording import which_ranks
from hta_widgets.names.shorten import short_name
from hta_widgets.quantities import (
    NS_PER_MS,
    capitalised,
    counted,
    duration,
    number,
    percent,
    signed,
)
from hta_widgets.trace.job import Job

Verdict: TypeAlias = Literal[
    "regression", "improvement", "method changed", "other hardware", "noise", "cannot tell"
]

LEAST_PERCENT: Final = 2.0
"""Least change of a step to report. With five steps a side, the tests find three in four changes of
2 %, but none of 1 %."""

UNEVEN_PERCENT: Final = 5.0
"""A larger difference of the mean steps is not noise, even if the tests do not find it: a GPU that
was throttled in half of the steps made the mean 25 % longer, at p = 0.12."""

_WIDTH: Final = 60
_LEAST_CHANCE: Final = 0.0001
_GREW: Final = 1.05
"""The price of a cause has changed from this factor on."""

_SEEN_IN: Final = {each.name: each.seen_in for each in ALL_CAUSES}

_SAME_WORK_PERCENT: Final = 1.0
"""Up to this difference in the number of kernels and copies, recordings without steps are of the
same work. For recordings of a fixed length, this hides at most a change of half `LEAST_PERCENT`."""

_MOST_SHIFTED: Final = 2
"""Most classes to name for recordings of equal length."""

_LEAST_OF_IT: Final = 0.2
"""Share of the difference from which the verdict names the price of a cause, and what became
shorter although the step became longer."""


class WorkChange(NamedTuple):
    """How much each job does per second of a rank's time."""

    what: str
    """One of `WORK`."""
    first_per_s: float
    second_per_s: float

    @property
    def words(self) -> str:
        """Both rates, and how much they differ."""
        before, after = (number(each) for each in self[1:])
        return f"{self.what}: {before} → {after} per second{self.change}"

    @property
    def change(self) -> str:
        """How much they differ, in brackets; empty if the first is 0."""
        if not self.first_per_s:
            return ""
        return f" ({signed(100 * (self.second_per_s / self.first_per_s - 1), percent)})"


class CauseChange(NamedTuple):
    """What became of a cause of lost time."""

    cause: str
    outcome: Literal["gone", "new", "grew", "fell", "same", "untold"]
    """``untold``: the second trace lacks something that may show the cause."""
    first_ms: float
    second_ms: float
    """How much shorter a step would be without it, by replay; 0 in a job without it."""
    sentence: str
    """Sentence of the finding in the second job, or in the first if it is gone."""
    first_ranks: tuple[int, ...] = ()
    second_ranks: tuple[int, ...] = ()
    """Ranks that cause it in each job; empty if all do."""

    @property
    def words(self) -> str:
        """The cause with the ranks that cause it, and both prices."""
        return f"{self.cause}{self._where}: {self.became}"

    @property
    def _where(self) -> str:
        ranks = self.first_ranks if self.outcome in ("gone", "untold") else self.second_ranks
        where = f" on {which_ranks(ranks)}" if ranks else ""
        if self.outcome in ("gone", "untold", "new") or self.first_ranks == self.second_ranks:
            return where
        before = which_ranks(self.first_ranks) if self.first_ranks else "all ranks"
        return f"{where or ' on all ranks'} (before: {before})"

    @property
    def became(self) -> str:
        """What became of it, with both prices."""
        before, after = (duration(each * NS_PER_MS) for each in (self.first_ms, self.second_ms))
        if self.outcome == "new":
            return f"new, {after}"
        if self.outcome in ("gone", "untold"):
            said = "gone" if self.outcome == "gone" else "cannot tell whether it is gone"
            return f"{said} (was {before})"
        return f"{self.outcome}, {before} → {after}"


@dataclass(frozen=True, kw_only=True, eq=False)
class Change(Result):
    """What changed from one job to another."""

    verdict: Verdict
    """``regression`` or ``improvement`` (steps differ by more than `LEAST_PERCENT` and more than
    noise), ``noise`` (they do not, nor their means by more than `UNEVEN_PERCENT`), ``other
    hardware`` or ``method changed`` (they may, but see `differences`), ``cannot tell``."""
    verdict_sentence: str
    """The same in words, with both times; `finding` adds the cause and the largest lines."""
    first: Summary
    second: Summary
    differences: tuple[Difference, ...]
    """How the jobs differ other than in their times; what forbids most comes first."""
    step: Significance
    """Test of the steps; each is as long as on its slowest rank."""
    waterfall: pd.DataFrame
    """See `waterfall`: one row per class, part, module, operator, shape and kernel; ``delta_ns`` of
    all rows is the difference of the mean steps, exactly."""
    lines: tuple[Line, ...]
    """The few parts of the waterfall that explain most."""
    causes: tuple[CauseChange, ...]
    """What became of the findings, largest change of price first."""
    work: tuple[WorkChange, ...]
    """Work per time, most telling first: what the jobs are run for, as far as both recordings state
    it; for equally long recordings without marked steps, also what their GPUs do."""

    @property
    def delta_ns(self) -> int:
        """How much longer the mean step of the second job is."""
        return self.second.mean_ns - self.first.mean_ns

    @property
    def percent(self) -> float:
        """The same as a percentage of the first; NaN without steps."""
        return 100 * (self.second.mean_ns / self.first.mean_ns - 1) if self.first.mean_ns else nan

    @property
    def main_cause(self) -> CauseChange | None:
        """The cause whose price explains most, if that is a considerable share."""
        towards = [
            each
            for each in self.causes
            if (each.second_ms - each.first_ms) * self.delta_ns > 0 and each.outcome != "untold"
        ]
        most = max(towards, key=self._seen_ns, default=None)
        if most is None:
            return None
        change_ns = abs(most.second_ms - most.first_ms) * NS_PER_MS
        return most if change_ns >= _LEAST_OF_IT * abs(self.delta_ns) else None

    @property
    def causes_title(self) -> str:
        """How many of the first job's findings remain, and how many are new."""
        outcomes = [each.outcome for each in self.causes]
        new, untold = outcomes.count("new"), outcomes.count("untold")
        of_first = len(outcomes) - new
        remain = of_first - untold - outcomes.count("gone")
        told = [
            *([f"{remain} of {of_first} remain{'s' * (remain == 1)}"] if of_first else []),
            *([f"{untold} unclear"] if untold else []),
            *([f"{new} new"] if new else []),
        ]
        return f"Findings, before and after: {', '.join(told)}"

    def _seen_ns(self, cause: CauseChange) -> float:
        """How much of the change of its price shows where the cause is, or in waiting for it.

        One cause may hide another: once a loader is no longer waited for, a host that launches
        slowly costs less too, but what changed is the loader.
        """
        classes = level(self.waterfall, "class").set_index("class")["delta_ns"]
        sign = 1 if self.delta_ns > 0 else -1
        where = {_SEEN_IN.get(cause.cause, ""), "waiting"}
        seen_ns = sum(max(sign * int(classes.get(each, 0)), 0) for each in where)
        return min(abs(cause.second_ms - cause.first_ms) * NS_PER_MS, seen_ns)

    def label(self, path: tuple[str, ...]) -> str:
        """Name of a row of the waterfall; an empty path is all of it."""
        if not path:
            return "a step" if self.second.environment["steps_marked"] else "the GPU span"
        name, text = LEVELS[len(path) - 1], path[-1]
        if name in ("class", "part"):
            return CLASS_LABELS.get(text) or PART_LABELS[text]
        if name == "kernel":
            text = self.second.labels.get(text) or self.first.labels.get(text, text)
        return text or NOTHING_LABELS[name]

    def line_words(self, line: Line) -> str:
        """A part of the difference in words, with both times."""
        labels = {**self.first.labels, **self.second.labels}
        texts = dict(zip(LEVELS, line.path, strict=False))
        said = signed(line.delta_ns, duration)
        of_class = self.waterfall[self.waterfall["class"] == texts["class"]]
        whole = signed(int(of_class["delta_ns"].sum()), duration)
        in_all = f" ({whole} in all)" if whole != said else ""  # which its bar shows
        where = [f"{CLASS_LABELS[texts['class']]}{in_all}"]
        if "part" in texts and len({*of_class["part"]}) > 1:
            where.append(PART_LABELS[texts["part"]])
        around = (texts.get(name, "") for name in ("module", "operator"))
        where += [short_name(each, _WIDTH) for each in around if each]
        outside = "operator" if "operator" in texts else "module"
        is_named = len(where) > 1 and not texts.get("module")
        is_outside = texts.get(outside) == "" and not is_named and not texts.get("kernel")
        if is_outside and self.waterfall[outside].any():  # or else, there are none to be outside of
            where.append(NOTHING_LABELS[outside])
        kernel = texts.get("kernel", "")
        if kernel and kernel not in (texts.get("operator"), texts.get("module")):
            where.append(labels.get(kernel, short_name(kernel, _WIDTH)))
        said += f" {', '.join(where)}"
        if line.outcome in ("new", "gone"):
            return f"{said} ({line.outcome})"
        times = f"{duration(line.first_ns)} → {duration(line.second_ns)}"
        is_work = texts["class"] not in IDLE_CLASSES  # the number of gaps explains nothing
        counts = (
            f", {count_words(line)}" if is_work and line.first_count != line.second_count else ""
        )
        return f"{said} ({times}{counts})"


def count_words(line: Line) -> str:
    """How many GPU operations, or gaps between them, a row has in the mean step of each job."""
    counts = " → ".join(number(each) for each in (line.first_count, line.second_count))
    what = "gaps" if line.path and line.path[0] in IDLE_CLASSES else "GPU operations"
    return f"{counts} {what}" if line.path else f"{counts} GPU operations and gaps"


def explain_change(first: Job | Summary, second: Job | Summary) -> Change:
    """Explain what changed from one job to another.

    Parameters
    ----------
    first, second : Job or Summary
        From `open_trace`, or a baseline.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> import hta_widgets
    >>> from hta_widgets.diagnosis.change.explain_change import explain_change
    >>> with TemporaryDirectory() as folder:
    ...     path = hta_widgets.sample.write_sample(folder, ranks=2, steps=6, progress=False)
    ...     job = hta_widgets.open_trace(path, progress=False)
    ...     change = explain_change(job, job)
    >>> change.verdict, change.delta_ns
    ('noise', 0)
    """
    one, other = (each if isinstance(each, Summary) else summary(each) for each in (first, second))
    names = job_names(one.name, other.name)
    one, other = (replace(each, name=name) for each, name in zip((one, other), names, strict=True))
    found = differences(one, other)
    values = [each.by_recording(each.steps["job_ns"].tolist()) for each in (one, other)]
    step = significance_of_recordings(*values)
    table = waterfall(one, other)
    verdict, why = _verdict(one, other, found, step)
    is_told = verdict not in ("noise", "cannot tell")
    doubts = {*one.doubts, *other.doubts}
    have_times = one.mean_ns and other.mean_ns and doubts <= {CLOCKS_APART}
    if verdict == "cannot tell" and have_times:
        # a single step proves nothing, but it is a fact: say what took longer in it
        is_told = abs(other.mean_ns / one.mean_ns - 1) > UNEVEN_PERCENT / 100
        if not one.environment["steps_marked"] and _are_equally_long(one, other):
            why += _shifted(one, table)
    why += _unprofiled(one, other)
    lines = largest_lines(table) if is_told else ()
    change = Change(
        verdict=verdict,
        verdict_sentence=why,
        first=one,
        second=other,
        differences=found,
        step=step,
        waterfall=table,
        lines=lines,
        causes=_causes(one, other),
        work=_work(one, other),
        finding=why,
        notices=(
            *(each.sentence for each in found),
            *(f"{each.name}: {doubt}" for each in (one, other) for doubt in each.doubts),
            *_priced_apart(one, other),
        ),
    )
    if not lines:
        return change
    if doubts:
        why += f" What caused it is not known, as {CLOCKS_APART}."
    elif change.main_cause is not None:
        why += f" Cause by replay: {change.main_cause.words}."
    said = "; ".join(change.line_words(each) for each in lines)
    share = 100 * sum(each.delta_ns for each in lines) / change.delta_ns if change.delta_ns else 0
    of_it = f"{percent(share)} of the difference" if share <= 100 else "Most of it"  # noqa: PLR2004
    against = opposite_line(table)
    if against and abs(against.delta_ns) >= _LEAST_OF_IT * abs(change.delta_ns):
        said += f"; against it {change.line_words(against)}"
    return replace(change, finding=f"{why} {of_it}: {said}.")


def _verdict(
    one: Summary, other: Summary, found: tuple[Difference, ...], step: Significance
) -> tuple[Verdict, str]:
    """The verdict, and a sentence that gives it."""
    if said := _on_cpus(one, other) or _no_times(one) or _no_times(other):
        return "cannot tell", said
    takes = _takes(one, other)
    for weight, verdict, said in _NOT_ALIKE:
        differs = next((each for each in found if each.weight == weight), None)
        if differs is not None:
            return verdict, f"{said} {capitalised(differs.sentence)}. {capitalised(takes)}"
    if not (one.environment["steps_marked"] or _is_same_work(one, other)):
        if _are_equally_long(one, other):  # fixed lengths
            return "cannot tell", f"Cannot tell: no steps are marked. {_rates(one, other)}"
        said = "no steps are marked, and it is not known whether both do the same work"
        return "cannot tell", f"Cannot tell: {said}. {capitalised(takes)}"
    if not step.can_tell:
        return "cannot tell", f"{_too_few(one, step)} {capitalised(takes)}"
    verdict, said = _of_steps(one, other, step)
    proof = f"p = {number(step.chance)}"
    if step.is_apart:
        proof = "further apart than they vary"
    elif step.chance < _LEAST_CHANCE:  # smaller numbers say nothing more
        proof = f"p < {_LEAST_CHANCE}"
    return verdict, f"{said}: {takes[:-1]} ({_counted(one, other)}, {proof})."


def _on_cpus(one: Summary, other: Summary) -> str:
    """How long steps take if neither job has GPU work; empty if one has, or has no steps."""
    if not (one.cpu_step_ns and other.cpu_step_ns):
        return ""
    return (
        "Cannot tell: neither job has GPU work, which a comparison needs. On the CPU, the mean "
        f"step takes {_instead(one.cpu_step_ns, other.cpu_step_ns)}."
    )


def _unprofiled(one: Summary, other: Summary) -> str:
    """How long steps take without the profiler; empty unless both recordings state it."""
    before, after = one.unprofiled_step_ns, other.unprofiled_step_ns
    return f" Without the profiler: {_instead(before, after)}." if before and after else ""


def _instead(before_ns: int, after_ns: int) -> str:
    """Two times in words, the second one first, and how much they differ."""
    change = signed(100 * (after_ns / before_ns - 1), percent)
    return f"{duration(after_ns)} instead of {duration(before_ns)} ({change})"


def _priced_apart(one: Summary, other: Summary) -> Iterator[str]:
    """Warn if the prices of causes are not of the same kind."""
    known = [each for each in (one, other) if each.unprofiled_step_ns]
    if len(known) == 1:
        yield (
            f"only {known[0].name} says how long a step takes without the profiler, so only its "
            "prices exclude the profiler: compare prices of causes on the host with care"
        )


def _no_times(job: Summary) -> str:
    """Why the times of a job cannot be compared; empty if they can."""
    if not job.mean_ns:
        why = job.doubts[0] if job.doubts else "it has no GPU work."
        return f"There is nothing to compare in {job.name}: {why}"
    doubts = [each for each in job.doubts if each != CLOCKS_APART]
    if not doubts:
        return ""
    return f"Cannot tell: the times of {job.name} cannot be trusted ({doubts[0]})."


def _too_few(one: Summary, step: Significance) -> str:
    if not one.environment["steps_marked"]:
        return (
            "Cannot tell noise from a change: no steps are marked; mark them, or give five "
            "recordings or more of each side."
        )
    steps = counted(min(step.counts), "step")
    where = "each side" if len(set(step.counts)) == 1 else "one side"
    return (
        f"Cannot tell: {steps} on {where}; record six or more, of which five are analysed, to tell "
        "noise from a change."
    )


def _counted(one: Summary, other: Summary) -> str:
    """Number of steps of each job; and of recordings, if one was recorded several times."""
    if not one.environment["steps_marked"]:
        return f"{len(one.steps):,} and {counted(len(other.steps), 'recording')}"
    if not one.recordings and not other.recordings:
        return f"{number(len(one.steps))} and {number(len(other.steps))} steps"
    each = [
        f"{counted(len(side.steps), 'step')} in {counted(len(side.recordings) or 1, 'recording')}"
        for side in (one, other)
    ]
    return " and ".join(each)


_NOT_ALIKE: Final[tuple[tuple[Weight, Verdict, str], ...]] = (
    ("hardware", "other hardware", "Different hardware."),
    ("method", "method changed", "Not comparable as they are."),
)


def _of_steps(one: Summary, other: Summary, step: Significance) -> tuple[Verdict, str]:
    if step.is_longer(LEAST_PERCENT):
        return "regression", "Regression"
    if step.is_shorter(LEAST_PERCENT):
        return "improvement", "Improvement"
    before, after = (float(each.steps["job_ns"].mean()) for each in (one, other))
    if abs(after / before - 1) > UNEVEN_PERCENT / 100:
        nouns = "steps" if one.environment["steps_marked"] else "recordings"
        return "cannot tell", f"Cannot tell (only some {nouns} changed; record more)"
    if step.is_longer(0) or step.is_shorter(0):
        return "noise", f"No difference of {LEAST_PERCENT:.0f} % or more"
    return "noise", "No difference beyond noise"


def _takes(one: Summary, other: Summary) -> str:
    before, after = one.mean_ns, other.mean_ns
    if one.unit != other.unit:
        return f"{other.name} takes {duration(after)} {other.unit}, {duration(before)} {one.unit}."
    rate = _most_telling(_work(one, other))
    rates = ""
    if rate is not None and rate.what in WORK_OF_USERS:
        then, now = (number(each) for each in rate[1:])
        rates = f", with {now} {rate.what} per second instead of {then}{rate.change}"
    if not one.environment["steps_marked"]:
        works = [number(_operations(each) / each.rows) for each in (one, other)]
        return (
            f"the GPU span is {_instead(before, after)}, with {works[1]} kernels and copies "
            f"instead of {works[0]}{rates}."
        )
    ranks = {len(each.environment["ranks"]) for each in (one, other)}
    of_ranks = f" of {min(ranks)} ranks" if len(ranks) == 1 else " of all ranks"
    of_ranks = "" if ranks == {1} else of_ranks
    return f"the mean step{of_ranks} takes {_instead(before, after)}{rates}."


def _operations(job: Summary) -> int:
    """Number of kernels and copies in all steps and ranks."""
    return job.work.get("kernels and copies", 0)


def _is_same_work(one: Summary, other: Summary) -> bool:
    """Whether recordings run about the same number of kernels, so that their lengths compare.

    Recordings of a fixed length take equally long, whatever the program does.
    """
    few, many = sorted(_operations(each) / max(each.rows, 1) for each in (one, other))
    return few > 0 and many <= (1 + _SAME_WORK_PERCENT / 100) * few


def _are_equally_long(one: Summary, other: Summary) -> bool:
    return abs(other.mean_ns / one.mean_ns - 1) <= LEAST_PERCENT / 100


def _shifted(one: Summary, table: pd.DataFrame) -> str:
    """What takes a different share of equally long recordings, as a sentence to append."""
    least_ns = UNEVEN_PERCENT / 100 * one.mean_ns
    said = [
        f"{CLASS_LABELS[row['class']]} takes {duration(row['second_ns'])} instead of "
        f"{duration(row['first_ns'])}"
        for row in level(table, "class").head(_MOST_SHIFTED).to_dict("records")
        if abs(row["delta_ns"]) > least_ns
    ]
    return f" Of that time, {', and '.join(said)}." if said else ""


def _rates(one: Summary, other: Summary) -> str:
    """Work per time, which is how recordings of a fixed length differ."""
    said = f"In recordings of {duration(one.mean_ns)} and {duration(other.mean_ns)}"
    rate = _most_telling(_work(one, other))
    if rate is None:
        return f"{said}, it is not known what was done."
    before, after = (number(each) for each in rate[1:])
    return f"{said}, there are {before} and {after} {rate.what} per second{rate.change}."


def _most_telling(work: tuple[WorkChange, ...]) -> WorkChange | None:
    """The first kind of work that both jobs do."""
    return next((each for each in work if min(each.first_per_s, each.second_per_s) > 0), None)


def _work(one: Summary, other: Summary) -> tuple[WorkChange, ...]:
    """Work per time; what GPUs do counts only for recordings of a fixed length.

    A program that fuses its kernels runs fewer of them, and does as much.
    """
    are_marked = one.environment["steps_marked"] or other.environment["steps_marked"]
    have_one_length = not are_marked and one.mean_ns and _are_equally_long(one, other)
    found = (
        WorkChange(what, one.per_second(what), other.per_second(what))
        for what in (WORK if have_one_length else WORK_OF_USERS)
    )
    return tuple(each for each in found if each.first_per_s + each.second_per_s > 0)


def _causes(one: Summary, other: Summary) -> tuple[CauseChange, ...]:
    jobs = (one, other)
    by_cause = [{each["cause"]: each for each in job.findings} for job in jobs]
    lacks = [{re.sub(r"\d+", "", text) for text in job.lacks} for job in jobs]  # of any rank
    found = []
    for cause in dict.fromkeys([*by_cause[0], *by_cause[1]]):
        before, after = (each.get(cause) for each in by_cause)
        was, now = (each["recoverable_ms"] if each else 0.0 for each in (before, after))
        kept = after or before or {}
        outcome: Any
        if before is None:
            outcome = "new"
        elif after is None:
            outcome = "untold" if lacks[1] - lacks[0] else "gone"
        elif now > was * _GREW:
            outcome = "grew"
        else:
            outcome = "fell" if was > now * _GREW else "same"
        ranks = (_few(each, job) for each, job in zip((before, after), jobs, strict=True))
        found.append(CauseChange(cause, outcome, was, now, kept["sentence"], *ranks))
    return tuple(sorted(found, key=lambda each: -abs(each.second_ms - each.first_ms)))


def _few(finding: dict[str, Any] | None, job: Summary) -> tuple[int, ...]:
    """The ranks of a finding, empty if it is all ranks of the job."""
    ranks = tuple(finding["ranks"]) if finding else ()
    return ranks if len(ranks) < len(job.environment["ranks"]) else ()
