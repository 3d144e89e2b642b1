"""Streams run in order, and meetings end together, whoever is simulated first."""

from __future__ import annotations

import pytest

from hta_widgets.sample.execution import Execution, Meeting, Program, Stream, run_programs


def test_work_starts_when_it_is_issued_and_its_stream_is_free() -> None:
    stream = Stream(100)
    first, second, third = Execution(50, 1_000), Execution(200, 10), Execution(5_000, 10)
    for work in (first, second, third):
        stream.append(work, gap_ns=3)
    spans = [(work.start_ns, work.end_ns) for work in (first, second, third)]
    assert spans == [(103, 1_103), (1_106, 1_116), (5_000, 5_010)]
    assert stream.end_ns == 5_010


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
def test_members_of_a_meeting_end_after_the_last_has_come(order: tuple[int, ...]) -> None:
    meeting = Meeting(3)
    streams = [Stream(0) for _ in range(3)]
    members = [
        Execution(issued_ns, late_ns, meeting)
        for issued_ns, late_ns in ((7, 500), (90, 502), (40, 501))
    ]
    following = [Execution(0, 10) for _ in range(3)]
    for place in order:
        assert not any(member.is_settled for member in members)
        streams[place].append(members[place], 0)
        streams[place].append(following[place], 0)
    assert [member.start_ns for member in members] == [7, 90, 40]
    assert [member.end_ns for member in members] == [590, 592, 591]
    assert [work.start_ns for work in following] == [590, 592, 591]


def test_a_stream_that_waits_for_another_lets_its_own_earlier_work_run() -> None:
    meeting = Meeting(2)
    communication, computation = Stream(0), Stream(0)
    member, before, after = Execution(10, 100, meeting), Execution(0, 30), Execution(0, 5)
    communication.append(member, 0)
    computation.append(before, 0)
    computation.wait_for(communication)
    computation.append(after, 0)
    assert before.end_ns == 30
    assert not after.is_settled
    Stream(0).append(Execution(400, 100, meeting), 0)
    assert (member.end_ns, after.start_ns, after.end_ns) == (500, 500, 505)


def test_a_stream_can_wait_for_one_execution_of_another() -> None:
    communication, computation = Stream(0), Stream(0)
    first, second, work = Execution(0, 10), Execution(0, 1_000), Execution(0, 1)
    communication.append(first, 0)
    communication.append(second, 0)
    computation.follow(first)
    computation.append(work, 2)
    assert work.start_ns == 12


def test_programs_wait_for_work_and_take_turns() -> None:
    meeting = Meeting(2)
    log: list[str] = []

    def program(name: str, issued_ns: int) -> Program:
        member = Execution(issued_ns, 10, meeting)
        Stream(0).append(member, 0)
        log.append(f"{name} joins")
        yield None
        yield member
        log.append(f"{name} goes on at {member.end_ns}")

    run_programs([program("a", 5), program("b", 70)])
    assert log == ["a joins", "b joins", "a goes on at 80", "b goes on at 80"]


def test_ranks_that_wait_for_each_other_are_named() -> None:
    def program() -> Program:
        member = Execution(0, 10, Meeting(2))
        Stream(0).append(member, 0)
        yield member

    with pytest.raises(RuntimeError, match=r"ranks \[0, 1\] wait for each other"):
        run_programs([program(), program()])
