"""Jobs of which the cause, the ranks to blame and the cost are known; nothing is stored.

Whoever writes rules should not read how the jobs are made: see `labelled_jobs` and `Label`.
"""

from __future__ import annotations

from tests.diagnosis.labelled.causes import sick_jobs
from tests.diagnosis.labelled.healthy import healthy_jobs
from tests.diagnosis.labelled.job import Kind, Label, LabelledJob
from tests.diagnosis.labelled.traps import trap_jobs

__all__ = [
    "Kind",
    "Label",
    "LabelledJob",
    "healthy_jobs",
    "labelled_jobs",
    "sick_jobs",
    "trap_jobs",
]


def labelled_jobs() -> list[LabelledJob]:
    """Return all labelled jobs: with a cause, their healthy twins, and traps."""
    return [*sick_jobs(), *healthy_jobs(), *trap_jobs()]
