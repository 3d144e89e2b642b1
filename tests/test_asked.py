"""What an assistant is told holds the answers; `tests.asked` says to which questions."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from tests.asked import QUESTIONS, Answered, Planted, ask, write_jobs

DOCS = Path(__file__).parent.parent / "docs" / "ask.md"


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Planted]:
    return write_jobs(tmp_path_factory.mktemp("jobs"))


@pytest.mark.long
def test_all_questions_can_be_answered_from_what_the_tools_say(jobs: dict[str, Planted]) -> None:
    answered = asyncio.run(ask(jobs, QUESTIONS))
    wrong = [
        f"{each.question.words} {each.read} instead of {each.known}"
        for each in answered
        if not each.is_right
    ]
    assert not wrong


@pytest.mark.long
def test_an_answer_that_is_beside_what_was_planted_is_wrong(jobs: dict[str, Planted]) -> None:
    for question in QUESTIONS:
        known = question.known(jobs[question.job])
        assert Answered(question, known, known).is_right
        if isinstance(known, float):
            beside = known * (1 + 2 * question.within) + 1e-6
            assert not Answered(question, beside, known).is_right
        assert not Answered(question, None, known).is_right


def test_no_folder_tells_what_was_planted(jobs: dict[str, Planted]) -> None:
    assert all(re.fullmatch(r"job-\d+", each.folder.name) for each in jobs.values())
    assert len({each.folder for each in jobs.values()}) == len(jobs)


def test_the_page_says_what_was_asked() -> None:
    said = DOCS.read_text()
    assert f"{len(QUESTIONS)} of {len(QUESTIONS)} questions" in said
    assert all(each.words in said for each in QUESTIONS)


def test_what_is_known_is_counted_in_the_trace_itself(jobs: dict[str, Planted]) -> None:
    planted = jobs["cold"]
    assert sorted(planted.steps_us) == [10, 11, 12, 13, 14]
    assert all(len(each) == planted.job.plan.ranks for each in planted.steps_us.values())
