"""The scorer gives an oracle everything, a liar and silence what they deserve."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.diagnosis.labelled import Kind, LabelledJob, labelled_jobs
from tests.diagnosis.score import Diagnose, Score, score


@dataclass(frozen=True)
class Claim:
    """A finding."""

    cause: str
    ranks: tuple[int, ...]
    recoverable_ms: float
    sentence: str = "It costs 1 ms."
    confidence: str = "measured"


@pytest.fixture(scope="module")
def jobs() -> list[LabelledJob]:
    """Two jobs of each kind, small ones."""
    kinds = [
        [job for job in labelled_jobs() if job.kind is kind and job.layout == "data_parallel"][:2]
        for kind in Kind
    ]
    small = [
        replace(job, plan=replace(job.plan, steps=2), twin=replace(job.twin, steps=2))
        for of_kind in kinds
        for job in of_kind
    ]
    assert len(small) == 8
    return small


Say = Callable[[LabelledJob], Sequence[Claim]]


def scored(jobs: list[LabelledJob], say: Say) -> Score:
    """Score what is said of each job."""
    remaining = iter(jobs)
    diagnose: Diagnose = lambda _: say(next(remaining))  # noqa: E731
    return score(diagnose, jobs)


def truth(job: LabelledJob) -> list[Claim]:
    label = job.label
    if not label.causes:
        return []
    return [Claim(label.causes[0], tuple(label.ranks[0]), label.loss_ms)]


def test_an_oracle_is_always_right(jobs: list[LabelledJob]) -> None:
    result = scored(jobs, truth)
    assert all(answer.is_right for answer in result.answers)
    lines = result.report().splitlines()
    assert lines[:3] == [
        "cause and ranks in the first 3    2 of 2",
        "cause without the ranks           0",
        "false alarms                      0 of 4",
    ]
    assert "cost within a factor of two       2 of 2" in lines
    assert result.misses() == ""


def test_silence_is_right_on_healthy_jobs_only(jobs: list[LabelledJob]) -> None:
    result = scored(jobs, lambda _: [])
    assert len(result.hits) == 0
    assert [answer.is_right for answer in result.answers] == [False] * 2 + [True] * 6
    assert [answer.is_silent for answer in result.answers] == [
        answer.label.percent >= 15 and answer.job.kind is Kind.CAUSE for answer in result.answers
    ]
    assert any(answer.is_silent for answer in result.answers)


def test_a_liar_who_blames_hardware_is_never_right(jobs: list[LabelledJob]) -> None:
    lie = Claim("gpu_throttling", (0,), 5.0, "It is hot.")
    result = scored(jobs, lambda _: [lie])
    software = [a for a in result.answers if set(a.label.causes) != {"slow_gpu"}]
    assert software
    assert all(
        answer.blames_hardware for answer in software if "slow_link" not in answer.label.causes
    )
    assert [answer.is_right for answer in result.answers if answer.job.kind is not Kind.HINT] == (
        [False] * 6
    )
    assert "false alarms                      4 of 4" in result.report()
    assert "flaws of form                     8" in result.report()
    assert "gpu_throttling [0] 5.00 ms: It is hot." in result.misses()


def test_right_cause_of_wrong_ranks_is_no_hit(jobs: list[LabelledJob]) -> None:
    result = scored(jobs, lambda job: [replace(claim, ranks=(7,)) for claim in truth(job)])
    assert len(result.hits) == 0
    assert "cause without the ranks           2" in result.report()


def test_only_the_first_three_findings_count(jobs: list[LabelledJob]) -> None:
    other = Claim("autotuning", (0,), 99.0)
    assert len(scored(jobs, lambda job: [*[other] * 2, *truth(job)]).hits) == 2
    result = scored(jobs, lambda job: [*[other] * 3, *truth(job)])
    assert len(result.hits) == 0


@pytest.mark.parametrize(("factor", "right"), [(0.4, 0), (0.6, 2), (1.9, 2), (2.1, 0)])
def test_costs_count_within_a_factor_of_two(
    jobs: list[LabelledJob], factor: float, right: int
) -> None:
    result = scored(
        jobs,
        lambda job: [replace(c, recoverable_ms=factor * c.recoverable_ms) for c in truth(job)],
    )
    assert f"cost within a factor of two       {right} of 2" in result.report()


def test_saying_what_was_not_recorded_accuses_nobody(jobs: list[LabelledJob]) -> None:
    unsure = Claim("slow_link", (), 0.0, "Transfer or waiting: record all ranks.", "inconclusive")
    result = scored(jobs, lambda _: [unsure])
    assert not any(answer.is_false_alarm or answer.blames_hardware for answer in result.answers)


def test_a_diagnosis_that_fails_is_never_right(jobs: list[LabelledJob]) -> None:
    def fail(path: Path) -> Sequence[Claim]:
        msg = f"no {path.name}"
        raise KeyError(msg)

    result = score(fail, jobs[-1:])
    assert [answer.is_right for answer in result.answers] == [False]
    assert "KeyError: 'no job-0'" in result.misses()
