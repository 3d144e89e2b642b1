"""The findings and the budgets of two jobs, side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias

import pandas as pd

from hta_widgets.analyses.budget.classes import BUDGET
from hta_widgets.analyses.compare.sides import job_names
from hta_widgets.analyses.result import Result
from hta_widgets.diagnosis import Diagnosis, Finding, diagnosis
from hta_widgets.diagnosis.budget_table import budget
from hta_widgets.quantities import counted, duration, percent
from hta_widgets.trace.job import Job

Outcome: TypeAlias = Literal["still", "gone", "new", "untold"]

_NS_PER_MS: Final = 1e6
_ALIKE_PERCENT: Final = 0.05
_ANOTHER: Final = 1.05
"""A price is another from this factor on."""


class ComparedFinding(NamedTuple):
    """A cause of lost time in one of two jobs, or in both.

    Attributes
    ----------
    first, second : Finding or None
        None where the job does not have it.
    outcome : str
        ``still`` there in the second job, ``gone``, ``new``, or ``untold``: the second trace lacks
        something that the first has, without which it may not be seen.
    words : str
        The outcome with its prices, such as ``fell to 2.1 ms (was 3 ms)``.
    """

    first: Finding | None
    second: Finding | None
    outcome: Outcome
    words: str

    @property
    def finding(self) -> Finding:
        """That of the second job, or where it is gone, of the first."""
        found = self.second or self.first
        if found is None:
            msg = "one of the jobs has the finding"
            raise TypeError(msg)
        return found

    @property
    def most_ms(self) -> float:
        """The higher of its prices (ms)."""
        return max(each.recoverable_ms for each in (self.first, self.second) if each is not None)


@dataclass(frozen=True, kw_only=True, eq=False)
class ComparedFindings(Result):
    """What became of the findings of a job in a second one, and where the time of both goes.

    Attributes
    ----------
    findings : tuple of ComparedFinding
        By cause, of which a diagnosis has one finding each; the most expensive first.
    classes : DataFrame
        One row per class of the budget that occurs, then ``all``: ``class``, ``first_ns``,
        ``second_ns`` (of the mean step of all ranks, or without steps of the GPU span; float) and
        ``delta_ns``, their difference.
    first, second : str
        Names of the jobs.
    units : tuple of str
        What the times of each are of: ``per step`` or ``of the GPU span``.
    """

    findings: tuple[ComparedFinding, ...]
    classes: pd.DataFrame
    first: str
    second: str
    units: tuple[str, str]

    @property
    def has_work(self) -> bool:
        """Whether both jobs have GPU work."""
        every = self.classes.iloc[-1:][["first_ns", "second_ns"]]
        return len(every) > 0 and bool((every > 0).all(axis=None))


def compare_findings(first: Job, second: Job) -> ComparedFindings:
    """Compare the diagnoses of all ranks of two jobs.

    Parameters
    ----------
    first, second : Job

    Returns
    -------
    ComparedFindings
    """
    one, other = first.remember(diagnosis), second.remember(diagnosis)
    units = _unit(one), _unit(other)
    causes = dict.fromkeys(each.cause for each in (*one, *other))
    by_cause = [{each.cause: each for each in found} for found in (one, other)]
    pairs = [tuple(found.get(cause) for found in by_cause) for cause in causes]
    lacks = _only_lacks(one, other)
    found = [_compared(before, after, units, lacks) for before, after in pairs]
    names = job_names(first, second)
    findings = tuple(sorted(found, key=lambda each: -each.most_ms))
    return ComparedFindings(
        findings=findings,
        classes=_classes(one, other),
        first=names[0],
        second=names[1],
        units=units,
        finding=_sentence(one, other, findings, names),
        notices=tuple(
            f"{name}: {notice}"
            for name, each in zip(names, (one, other), strict=True)
            for notice in each.notices
        ),
    )


def _unit(found: Diagnosis) -> str:
    return "per step" if (found.steps["step"] >= 0).any() else "of the GPU span"


def _only_lacks(one: Diagnosis, other: Diagnosis) -> str:
    """What the second trace lacks and the first has, in words."""
    known = {each.how for each in one.not_recorded}
    lacks = [each for each in other.not_recorded if each.how not in known]
    return "; ".join(each.lack for each in lacks)


def _compared(
    before: Finding | None, after: Finding | None, units: tuple[str, str], lacks: str
) -> ComparedFinding:
    was, now = (_price(each) for each in (before, after))
    if before is None:
        return ComparedFinding(before, after, "new", f"new: {now}")
    if after is None and lacks:
        words = f"cannot tell whether it is gone (was {was}): {lacks} in the second job"
        return ComparedFinding(before, after, "untold", words)
    if after is None:
        return ComparedFinding(before, after, "gone", f"gone (was {was})")
    if units[0] != units[1]:
        words = f"still {now} {units[1]} (was {was} {units[0]})"
        return ComparedFinding(before, after, "still", words)
    return ComparedFinding(before, after, "still", f"{_became(before, after)} {now} (was {was})")


def _became(before: Finding, after: Finding) -> str:
    """What became of the price of a finding that both jobs have."""
    prices = before.recoverable_ms, after.recoverable_ms
    if min(prices) <= 0 or max(prices) <= _ANOTHER * min(prices):
        return "still"
    return "grew to" if prices[1] > prices[0] else "fell to"


def _price(found: Finding | None) -> str:
    if found is None or found.recoverable_ms <= 0:
        return "an unknown time"
    return duration(found.recoverable_ms * _NS_PER_MS)


def _classes(one: Diagnosis, other: Diagnosis) -> pd.DataFrame:
    means = [_means(each) for each in (one, other)]
    names = [*(each.name for each in BUDGET), "period"]
    table = pd.DataFrame(
        {
            "class": [*(each.label for each in BUDGET), "all"],
            "first_ns": [means[0][name] for name in names],
            "second_ns": [means[1][name] for name in names],
        }
    )
    table["delta_ns"] = table["second_ns"] - table["first_ns"]
    occurs = (table["first_ns"] > 0) | (table["second_ns"] > 0)
    return table[occurs].reset_index(drop=True)


def _means(found: Diagnosis) -> dict[str, float]:
    table = budget(found.steps)
    names = (*(each.name for each in BUDGET), "period")
    return {name: float(table[f"{name}_ns"].mean()) if len(table) else 0.0 for name in names}


def _sentence(
    one: Diagnosis, other: Diagnosis, findings: tuple[ComparedFinding, ...], names: tuple[str, str]
) -> str:
    """How much longer the second takes, and how many findings are left."""
    for each in (one, other):
        if each.status == "not_applicable":
            return f"There is nothing to compare. {each.finding}"
    idle = [name for name, each in zip(names, (one, other), strict=True) if each.period_ns <= 0]
    if idle:
        return f"There is no GPU work in {' and '.join(idle)}, so there is nothing to compare."
    return f"{_lengths(one, other, names)} {_counts(findings)}"


def _lengths(one: Diagnosis, other: Diagnosis, names: tuple[str, str]) -> str:
    before, after = (f"{duration(each.period_ns)} {_unit(each)}" for each in (one, other))
    if _unit(one) != _unit(other):
        return f"{names[1]} takes {after}, {names[0]} {before}."
    change = 100 * (other.period_ns / one.period_ns - 1)
    if abs(change) < _ALIKE_PERCENT:
        return f"{names[1]} takes as long as {names[0]}: {after}."
    takes = f"takes {percent(abs(change))} {'longer' if change > 0 else 'less time'} than"
    return f"{names[1]} {takes} {names[0]}: {after} instead of {duration(one.period_ns)}."


def _counts(findings: tuple[ComparedFinding, ...]) -> str:
    """How many findings are gone, remain, and are new."""
    outcomes = [each.outcome for each in findings]
    before = len(outcomes) - outcomes.count("new")
    words = {"gone": "gone", "still": "remain", "untold": "not to be told"}
    said = [f"{outcomes.count(each)} {word}" for each, word in words.items() if each in outcomes]
    new = counted(outcomes.count("new"), "new finding")
    if not outcomes:
        return "Neither has a finding."
    if not before:
        return f"{new[0].upper()}{new[1:]}."
    text = f"Of {counted(before, 'finding')}: {', '.join(said)}"
    return f"{text}; {new}." if "new" in outcomes else f"{text}."
