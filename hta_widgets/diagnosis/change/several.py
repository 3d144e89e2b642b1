"""Several recordings of one side of a comparison, and the comparison of several jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import pandas as pd

from hta_widgets.analyses.budget.classes import BUDGET, CLASS_OF
from hta_widgets.analyses.result import Result
from hta_widgets.diagnosis.change.baseline import SUFFIX, read_baseline
from hta_widgets.diagnosis.change.comparable import differences
from hta_widgets.diagnosis.change.explain_change import Change, explain_change
from hta_widgets.diagnosis.change.summary import Summary, added, folded, rounded, summary
from hta_widgets.diagnosis.change.waterfall import shares
from hta_widgets.errors import ParameterError
from hta_widgets.quantities import counted, duration, number_ranges, percent
from hta_widgets.trace.job import Job
from hta_widgets.trace.opening.open import HasJob, open_trace
from hta_widgets.trace.remote.urls import PathLike as TracePath

Recording: TypeAlias = Job | HasJob | Summary | TracePath
Side: TypeAlias = Recording | Sequence[Recording]
"""A job, or several recordings of it."""

ONE: Final = (Job, HasJob, Summary, str, PathLike)
"""Types of a recording: anything else is several."""

FEWEST: Final = 2
"""Fewest jobs to compare."""


@dataclass(frozen=True, kw_only=True, eq=False)
class SeveralJobs(Result):
    """Several jobs, each compared with the first."""

    jobs: tuple[Summary, ...]
    changes: tuple[Change, ...]
    """From the first to each of the others."""
    table: pd.DataFrame
    """One row per job: ``job``, ``steps`` (that count), ``mean_ns`` (of the mean step; int64),
    ``change_percent`` (of the mean step, from the first job; NaN for the first), ``verdict`` (empty
    for the first), and the classes of the budget in ns, which add up to ``mean_ns``."""

    @property
    def times(self) -> pd.DataFrame:
        """The classes that occur, by label, with one column per job (ns of its mean step)."""
        names = {f"{each.name}_ns": each.label for each in BUDGET}
        by_class = self.table.set_index("job")[[name for name in names if name in self.table]]
        return by_class.rename(columns=names).T


def side(source: Side, *, progress: bool = False) -> Summary:
    """Summarise one side of a comparison: a job, a baseline, or several recordings.

    Parameters
    ----------
    source : Job, TraceAnalysis, path, Summary, or list of them
        A path that ends in ``.arrow`` is a baseline. The items of a list are recordings of the same
        job, each a run of its own; for a job with several files, give their folder.
    progress : bool
        Show a progress bar while loading takes longer than half a second.

    Raises
    ------
    ParameterError
        If the list is empty, or its recordings are not of the same ranks.
    """
    if isinstance(source, Summary):
        return source
    if isinstance(source, Job):
        return summary(source)
    if isinstance(source, HasJob):
        return summary(source.job)
    if isinstance(source, str | PathLike):
        if str(source).endswith(SUFFIX):
            return read_baseline(str(Path(source).expanduser()))
        return summary(open_trace(source, progress=progress))
    return pooled([side(each, progress=progress) for each in source])


def pooled(every: Sequence[Summary]) -> Summary:
    """Join several recordings of one job, so that all their steps count.

    A cause counts if more than half of them have it, at its median price (the lower of two).

    Raises
    ------
    ParameterError
        If there is none, they are not of the same ranks, or only some have marked steps.
    """
    if not every:
        msg = "a side of a comparison has no recording: give a job, or several recordings of one"
        raise ParameterError(msg)
    first = every[0]
    if len(every) == 1:
        return first
    for each in every[1:]:
        if any(
            each.environment[key] != first.environment[key] for key in ("ranks", "steps_marked")
        ):
            msg = (
                f"{each.name} is not another recording of {first.name}, which has ranks "
                f"{number_ranges(first.environment['ranks'])} and "
                f"{'' if first.environment['steps_marked'] else 'no '}marked steps; compare "
                "recordings of one program on the same ranks"
            )
            raise ParameterError(msg)
    counts = [len(each.steps) for each in every]
    steps = pd.concat([each.steps for each in every], ignore_index=True)
    starts = np.cumsum([0, *counts[:-1]]).tolist()
    kernels = [_renumbered(each, start) for each, start in zip(every, starts, strict=True)]
    recorded = [each.environment["recorded"] for each in every]
    alike = {name: all(each[name] for each in recorded) for name in recorded[0]}
    findings = tuple(_usual_findings(every))
    unsure = (each.status for each in every if each.status not in ("findings", "healthy"))
    return replace(
        first,
        name=f"{first.name} ({len(every)} recordings)",
        environment={**first.environment, "recorded": alike},
        steps=steps.assign(step=np.arange(len(steps))),
        spent=folded([each.spent for each in every]),
        kernels=pd.concat(kernels, ignore_index=True),
        labels={key: text for each in every for key, text in each.labels.items()},
        findings=findings,
        status=next(unsure, "findings" if findings else "healthy"),
        doubts=tuple(_doubts(every)),
        left_out=(),
        lacks=tuple(dict.fromkeys(lack for each in every for lack in each.lacks)),
        memory_bytes=max(each.memory_bytes for each in every),
        work=added([each.work for each in every]),
        cpu_step_ns=_mean([each.cpu_step_ns for each in every]),
        unprofiled_step_ns=_mean([each.unprofiled_step_ns for each in every]),
        recordings=tuple(counts),
    )


def _mean(lengths_ns: Sequence[int]) -> int:
    """Mean of the lengths; 0 if any recording does not state its own."""
    return rounded(sum(lengths_ns), len(lengths_ns)) if all(lengths_ns) else 0


def _renumbered(each: Summary, start: int) -> pd.DataFrame:
    places = {step: start + place for place, step in enumerate(each.steps["step"].tolist())}
    return each.kernels.assign(step=each.kernels["step"].map(places))


def _usual_findings(every: Sequence[Summary]) -> Iterable[dict[str, Any]]:
    by_cause: dict[str, list[dict[str, Any]]] = {}
    for each in every:
        for found in each.findings:
            by_cause.setdefault(found["cause"], []).append(found)
    for alike in by_cause.values():
        if 2 * len(alike) > len(every):
            by_price = sorted(alike, key=lambda found: float(found["recoverable_ms"]))
            yield by_price[(len(by_price) - 1) // 2]


def _doubts(every: Sequence[Summary]) -> Iterable[str]:
    for each in every:
        yield from each.doubts
    for each in every[1:]:
        for found in differences(every[0], each):
            if found.weight != "note":
                yield f"its recordings differ: {found.sentence}"


def several_jobs(sources: Iterable[Side], *, progress: bool = False) -> SeveralJobs:
    """Compare several jobs with the first of them.

    Parameters
    ----------
    sources : iterable of what `side` takes
    progress : bool
        Show progress bars while loading takes longer than half a second.

    Raises
    ------
    ParameterError
        If there is only one.
    """
    jobs = [side(each, progress=progress) for each in sources]
    if len(jobs) < FEWEST:
        msg = f"{counted(len(jobs), 'job')} cannot be compared: give two or more"
        raise ParameterError(msg)
    jobs = [replace(job, name=name) for job, name in zip(jobs, _told_apart(jobs), strict=True)]
    changes = tuple(explain_change(jobs[0], each) for each in jobs[1:])
    table = _table(jobs, changes)
    return SeveralJobs(
        jobs=tuple(jobs),
        changes=changes,
        table=table,
        finding=_sentence(table, changes),
        notices=tuple(dict.fromkeys(notice for each in changes for notice in each.notices)),
    )


def _told_apart(jobs: Sequence[Summary]) -> list[str]:
    """Names of the jobs, numbered where several are the same."""
    times = Counter(each.name for each in jobs)
    seen: Counter[str] = Counter()
    names = []
    for each in jobs:
        seen[each.name] += 1
        is_one_of_many = times[each.name] > 1
        names.append(f"{each.name} ({seen[each.name]})" if is_one_of_many else each.name)
    return names


def _table(jobs: Sequence[Summary], changes: Sequence[Change]) -> pd.DataFrame:
    table = pd.DataFrame(
        {
            "job": [each.name for each in jobs],
            "steps": [len(each.steps) for each in jobs],
            "mean_ns": [each.mean_ns for each in jobs],
            "change_percent": [np.nan, *(each.percent for each in changes)],
            "verdict": ["", *(each.verdict for each in changes)],
        }
    )
    classes = pd.DataFrame([_classes(each) for each in jobs])
    occurring = classes.columns[(classes > 0).any()]
    return pd.concat([table, classes[occurring]], axis=1)


def _classes(each: Summary) -> dict[str, int]:
    parts = shares(each.steps[[*CLASS_OF]].sum().to_numpy(dtype=np.int64), each.rows)
    found = {f"{one.name}_ns": 0 for one in BUDGET}
    for part, ns in zip(CLASS_OF, parts.tolist(), strict=True):
        found[f"{CLASS_OF[part]}_ns"] += ns
    return found


def _sentence(table: pd.DataFrame, changes: Sequence[Change]) -> str:
    """Which job has the shortest step, and the verdicts of the others against the first."""
    with_work = table[table["mean_ns"] > 0]
    if with_work.empty:
        return "None of the jobs has GPU work."
    rows = with_work.sort_values("mean_ns", kind="stable").to_dict("records")
    best, first = rows[0], table.iloc[0]
    said = f"Of {counted(len(table), 'job')}, {best['job']} has the shortest mean step: "
    said += duration(best["mean_ns"])
    if best["job"] != first["job"] and first["mean_ns"]:
        said += f", {percent(-best['change_percent'])} less than {first['job']}"
    verdicts = Counter(each.verdict for each in changes)
    counts = [f"{verdict}: {count}" for verdict, count in verdicts.items()]
    return f"{said}. Against the first, {', '.join(counts)}."
