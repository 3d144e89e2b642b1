"""When GPU work runs: after the work that it waits for, and together with other ranks' work."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import TypeAlias

UNKNOWN_NS = -1


class Execution:
    """One execution of GPU work, whose times are known once everything it waits for has ended.

    It is issued (ns) when the launch reaches the GPU. A member of a meeting (a collective, or a
    send and its receive) runs for its duration once the last member has arrived.
    """

    __slots__ = ("_duration_ns", "_followers", "_meeting", "_unknown", "end_ns", "start_ns")

    def __init__(self, issued_ns: int, duration_ns: int, meeting: Meeting | None = None) -> None:
        self.start_ns = issued_ns
        self.end_ns = UNKNOWN_NS
        self._duration_ns = duration_ns
        self._meeting = meeting
        self._unknown = 0
        self._followers: list[tuple[Execution, int]] = []

    @property
    def is_settled(self) -> bool:
        """Whether start and end are known."""
        return self.end_ns != UNKNOWN_NS

    def start_after(self, other: Execution, gap_ns: int) -> None:
        """Do not start before ``gap_ns`` after the end of another one."""
        if other.is_settled:
            self.start_ns = max(self.start_ns, other.end_ns + gap_ns)
        else:
            self._unknown += 1
            other._followers.append((self, gap_ns))

    def settle(self) -> None:
        """Find its times, and the times of everything that waits for it, as far as they follow."""
        ready = [] if self._unknown else [self]
        while ready:
            for ended in ready.pop()._run():  # noqa: SLF001
                ready += ended._release()  # noqa: SLF001

    def _run(self) -> Sequence[Execution]:
        """Start; return the executions that this ends."""
        if self._meeting:
            return self._meeting.arrive(self)
        self.end_ns = self.start_ns + self._duration_ns
        return (self,)

    def _release(self) -> list[Execution]:
        """Return the followers that waited for nothing else."""
        free = []
        for follower, gap_ns in self._followers:
            if follower._may_start(self.end_ns + gap_ns):  # noqa: SLF001
                free.append(follower)
        self._followers.clear()
        return free

    def _may_start(self, after_ns: int) -> bool:
        """Note that it can start after something; return whether nothing else is unknown."""
        self.start_ns = max(self.start_ns, after_ns)
        self._unknown -= 1
        return not self._unknown

    def end_after(self, arrived_ns: int) -> None:
        """Run its full time from a moment on."""
        self.end_ns = arrived_ns + self._duration_ns


class Meeting:
    """A collective, or a send and its receive: nothing moves before all members have arrived."""

    __slots__ = ("_missing", "expected", "members")

    def __init__(self, size: int) -> None:
        self._missing = size
        self.expected = size
        self.members: list[Execution] = []

    def arrive(self, member: Execution) -> Sequence[Execution]:
        """Take a member that starts to wait; return all of them if it was the last."""
        self.members.append(member)
        self._missing -= 1
        if self._missing:
            return ()
        arrived_ns = max(each.start_ns for each in self.members)
        for each in self.members:
            each.end_after(arrived_ns)
        return self.members


class Stream:
    """A queue of GPU work that runs in order."""

    def __init__(self, start_ns: int) -> None:
        self._end_ns = start_ns
        self._unsettled: list[Execution] = []

    def append(self, execution: Execution, gap_ns: int) -> None:
        """Let work run ``gap_ns`` after everything in the queue."""
        execution.start_ns = max(execution.start_ns, self._end_ns + gap_ns)
        for earlier in self._unsettled:
            execution.start_after(earlier, gap_ns)
        execution.settle()
        self._unsettled = [execution]

    def follow(self, execution: Execution) -> None:
        """Let later work of this queue run after one execution."""
        self._unsettled.append(execution)

    def wait_for(self, other: Stream) -> None:
        """Let later work of this queue run after everything that is now in another one."""
        self._forget_settled()
        self._end_ns = max(self._end_ns, other.end_ns)
        self._unsettled += other.unsettled

    @property
    def unsettled(self) -> Sequence[Execution]:
        """The work at the end of the queue whose times are not known yet."""
        self._forget_settled()
        return tuple(self._unsettled)

    @property
    def end_ns(self) -> int:
        """When the work with known times has ended, in ns."""
        self._forget_settled()
        return self._end_ns

    def _forget_settled(self) -> None:
        ends_ns = [each.end_ns for each in self._unsettled if each.is_settled]
        if ends_ns:
            self._end_ns = max(self._end_ns, *ends_ns)
            self._unsettled = [each for each in self._unsettled if not each.is_settled]


Program: TypeAlias = Generator[Execution | None, None, None]
"""What the CPU of a rank does. It yields GPU work to wait for its end, or None to let the other
ranks catch up, which costs no simulated time."""


def run_programs(programs: Sequence[Program], turn: Callable[[], object] = lambda: None) -> None:
    """Run programs to their ends in turns; each turn takes a rank to its next wait.

    Raises `RuntimeError` if all ranks wait for each other.
    """
    waiting: dict[int, Execution | None] = dict.fromkeys(range(len(programs)))
    while waiting:
        ready = [rank for rank, awaited in waiting.items() if not awaited or awaited.is_settled]
        if not ready:
            msg = f"ranks {list(waiting)} wait for each other"
            raise RuntimeError(msg)
        for rank in ready:
            try:
                waiting[rank] = next(programs[rank])
            except StopIteration:
                del waiting[rank]
        turn()
