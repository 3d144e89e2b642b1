"""Answer the first question of a user: why it is slow."""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike

from hta_widgets.analyses.diagnosis import Diagnosis, Limits, diagnosis
from hta_widgets.trace.job import Job
from hta_widgets.trace.opening.open import open_trace


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
