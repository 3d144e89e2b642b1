"""The healthy twins of the jobs with a cause, each once."""

from __future__ import annotations

from tests.diagnosis.labelled.causes import sick_jobs
from tests.diagnosis.labelled.job import Kind, LabelledJob, true_without_a_cause
from tests.simulator.plan import Plan


def healthy_jobs() -> list[LabelledJob]:
    """Return the healthy twins; jobs with the same one share it."""
    twins: list[Plan] = []
    jobs = []
    for sick in sick_jobs():
        if sick.twin in twins:
            continue
        twins.append(sick.twin)
        seed = sick.twin.seed
        jobs.append(
            LabelledJob(
                name=f"healthy twin {len(twins)}, {sick.layout}, {sick.recording}, seed {seed}",
                kind=Kind.HEALTHY,
                layout=sick.layout,
                recording=sick.recording,
                plan=sick.twin,
                twin=sick.twin,
                causes=true_without_a_cause(sick.twin),
            )
        )
    return jobs
