"""Let a test fail where a job has become worse than its baseline."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from os import PathLike
from pathlib import Path

from hta_widgets.diagnosis.change.baseline import FOLDER, read_baseline
from hta_widgets.diagnosis.change.explain_change import Change, explain_change
from hta_widgets.diagnosis.change.gate import Limit, judge
from hta_widgets.trace.job import Job
from hta_widgets.trace.opening.open import open_trace


def assert_no_regression(
    job_or_path: Job | str | PathLike[str],
    baseline: str,
    *,
    limits: Iterable[str] = ("step:2%", "finding"),
    allowed: Collection[str] = (),
    folder: str | PathLike[str] = FOLDER,
) -> Change:
    """Raise an error where a job is worse than its baseline, or where that cannot be told.

    Parameters
    ----------
    job_or_path : Job or path
    baseline : str
        A name, or an ``.arrow`` file.
    limits : iterable of str
        What must not become worse, such as ``kernel:5%``.
    allowed : collection of str
        Causes that may be found anew.
    folder : path
        Where baselines are kept by name.

    Returns
    -------
    Change

    Raises
    ------
    AssertionError
        With the limits that are broken, or that cannot be checked, and what changed.
    BaselineError
        If there is no such baseline.
    """
    asked = [Limit.parse(each) for each in limits]
    first = read_baseline(baseline, Path(folder))
    job = job_or_path if isinstance(job_or_path, Job) else open_trace(job_or_path, progress=False)
    change = explain_change(first, job)
    judgement = judge(change, asked, allowed)
    if judgement.outcome != "passed":
        cannot = [f"cannot be checked: {each}" for each in judgement.untold]
        raise AssertionError("\n".join([*judgement.broken, *cannot, change.finding]))
    return change
