"""Sort the recordings of a folder into runs, and those of a run into cycles.

A *run* is a job that was started once: its ranks state one world size, and each is one process. A
*cycle* is what all ranks of a run recorded at one time. Recordings that belong together are close
in time; those of one rank are apart. So recordings are sorted by time, and cut at the longest
pauses until no part has a rank twice.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from itertools import pairwise
from typing import Final, NamedTuple, TypeVar

from hta_widgets.trace.model.formats import Stated
from hta_widgets.trace.ranks.source import RankSource

_STAMPS: Final = (
    (re.compile(r"\.(1\d{18})(?=\.)"), 1),
    (re.compile(r"\.(1\d{12})(?=\.)"), 10**6),
)
"""Time of writing in the names of ``tensorboard_trace_handler``: in ns, or in ms before 2023."""

_SECONDS: Final = re.compile(r"(1\d{9})(\.\d{1,9})?(?=-)")
"""Time in s at the start of SGLang's names: ``1732611000.1234-TP-0.trace.json.gz``."""

_HOST_AND_PROCESS: Final = re.compile(r"(.+)_(\d{1,10})(?=\.)")
"""Default worker of ``tensorboard_trace_handler``: ``host_1234.<time>.pt.trace.json``."""

_STAGE: Final = re.compile(r"-(EXTEND|DECODE)(?=[-.])")
"""What SGLang was doing, if it records by stage: ``1732611000.1-TP-0-DECODE.trace.json.gz``."""

_FRONT_END: Final = ".async_llm."
"""Part of the file names of vLLM's front end, which launches no GPU work."""

Process = tuple[str, str]


Key = TypeVar("Key", bound=Hashable)

_RESTART_NS: Final = 5 * 10**9
"""A restarted job is recorded at least this much later: importing torch alone takes seconds."""


class Recording(NamedTuple):
    """What is known about one file of a folder."""

    source: RankSource
    name: str
    """Name of the file."""
    rank: int | None
    """Rank in the file, or else in its name."""
    world_size: int | None
    """Number of ranks of the job."""
    process: Process
    """Host and id of the process that recorded it, each empty if unknown; or the name of the file
    without its time, if both are unknown."""
    start_ns: int | None
    """See `Stated`."""
    is_since_epoch: bool
    """See `Stated`."""
    stamp_ns: int | None
    """Time in the name (ns since 1970)."""
    step: int | None
    """Number of an early ProfilerStep."""

    @classmethod
    def of(cls, source: RankSource, rank: int | None, stated: Stated) -> Recording:
        """Combine what a file states with what its name says."""
        name = source.path.name
        return cls(
            source=source,
            name=name,
            rank=rank,
            world_size=stated.world_size,
            process=_process(name, stated.process),
            start_ns=stated.start_ns,
            is_since_epoch=stated.is_since_epoch,
            stamp_ns=stamp_in_name(name),
            step=stated.step,
        )

    @property
    def time_ns(self) -> int | None:
        """When it was recorded (ns since 1970), or if that is not known, when it was written."""
        return self.start_ns if self.is_since_epoch else self.stamp_ns

    @property
    def stage(self) -> str:
        """What a server was doing, if the name says so; empty if it does not."""
        found = _STAGE.search(self.name)
        return found[1] if found else ""

    @property
    def is_of_front_end(self) -> bool:
        """Whether the name says that no GPU work can be in it."""
        return _FRONT_END in self.name


def stamp_in_name(name: str) -> int | None:
    """Time that a profiler wrote into a file name (ns since 1970); None if it has none.

    Examples
    --------
    >>> stamp_in_name("host_12.1751410837000000001.pt.trace.json.gz")
    1751410837000000001
    >>> stamp_in_name("host_12.1669783687464.pt.trace.json")
    1669783687464000000
    >>> stamp_in_name("1732611000.25-TP-0.trace.json.gz"), stamp_in_name("rank0.json")
    (1732611000250000000, None)
    """
    for pattern, unit in _STAMPS:
        if found := pattern.search(name):
            return int(found[1]) * unit
    seconds = _SECONDS.match(name)
    if seconds is None:
        return None
    fraction = (seconds[2] or ".")[1:].ljust(9, "0")
    return int(seconds[1]) * 10**9 + int(fraction)


def _process(name: str, process: int | None) -> Process:
    """What distinguishes a process from others of its rank: host and process id, or its name."""
    named = _HOST_AND_PROCESS.match(name)
    is_default = named is not None and process in (None, int(named[2]))
    if named is not None and is_default and stamp_in_name(name) is not None:
        return named[1], named[2]
    if process is not None:
        return "", str(process)
    return "", _without_stamp(name)


def _without_stamp(name: str) -> str:
    """A name without its time, which all recordings of a worker share."""
    for pattern, _ in _STAMPS:
        if pattern.search(name):
            return pattern.sub("", name, count=1)
    return name


class Run(NamedTuple):
    """The recordings of a job that was started once."""

    cycles: list[list[Recording]] | None
    """In order of time; each has a recording of all ranks, or of some. None if it is not known
    which recordings belong together."""
    recordings: list[Recording]
    """All recordings, in order of time as far as that is known."""

    @property
    def ranks(self) -> set[int]:
        """Ranks of the run; a recording without a rank counts as rank 0."""
        return {each.rank or 0 for each in self.recordings}

    @property
    def world_size(self) -> int | None:
        """Number of ranks that the job had, if a recording states it."""
        return max((each.world_size or 0 for each in self.recordings), default=0) or None


class _Timed(NamedTuple):
    """An item to sort by time: one recording, or all recordings of a process."""

    time_ns: int
    rank: int
    recordings: list[Recording]


def runs_of(recordings: Sequence[Recording]) -> list[Run]:
    """Sort the recordings of a folder into runs, in order of time as far as that is known.

    A recording without a rank has the rank of others from its process. If there is none, each
    process is a run of its own.
    """
    ranked = _with_ranks(_with_hosts(recordings))
    alone = _grouped((each.process, each) for each in ranked if each.rank is None)
    worlds = [*_worlds([each for each in ranked if each.rank is not None]), *alone]
    runs = [run for world in worlds for run in _runs_of_world(world)]
    return sorted(runs, key=lambda run: min(each.time_ns or 0 for each in run.recordings))


def _with_hosts(recordings: Sequence[Recording]) -> list[Recording]:
    """Add the host to a process if only another file name states it.

    Users rename, unpack and copy files.
    """
    hosts: dict[tuple[int | None, str], set[str]] = defaultdict(set)
    for each in recordings:
        host, number = each.process
        hosts[each.rank, number].update({host} - {""})
    known = {key: next(iter(each)) for key, each in hosts.items() if len(each) == 1}
    return [
        each._replace(process=(each.process[0] or known.get(key, ""), each.process[1]))
        for each in recordings
        for key in [(each.rank, each.process[1])]
    ]


def _with_ranks(recordings: Sequence[Recording]) -> list[Recording]:
    """Add the rank of its process to a recording that does not state it."""
    ranks: dict[Process, set[int]] = defaultdict(set)
    for each in recordings:
        if each.rank is not None:
            ranks[each.process].add(each.rank)
    return [
        each._replace(rank=next(iter(ranks[each.process])))
        if each.rank is None and len(ranks[each.process]) == 1
        else each
        for each in recordings
    ]


def _worlds(recordings: Sequence[Recording]) -> list[list[Recording]]:
    """Recordings by job size; one that states no size gets the size that its process states."""
    sizes = {each.world_size for each in recordings if each.world_size}
    if not recordings:
        return []
    if len(sizes) <= 1:
        return [[*recordings]]
    of_process = {
        (each.rank, each.process): each.world_size for each in recordings if each.world_size
    }
    return _grouped(
        (each.world_size or of_process.get((each.rank, each.process)), each) for each in recordings
    )


def _runs_of_world(recordings: Sequence[Recording]) -> list[Run]:
    """Sort the recordings of jobs with one size into runs."""
    timed = _timed(recordings)
    ordered = (
        [*recordings] if timed is None else [each for part in timed for each in part.recordings]
    )
    processes = _grouped(((each.rank or 0, each.process), each) for each in ordered)
    ranks = {group[0].rank or 0 for group in processes}
    if len(ranks) == len(processes):
        return [Run(_cycles(ordered), ordered)]
    if len(ranks) == 1:  # there is nothing that they could belong together with
        return [Run(_cycles(group), group) for group in processes]
    if timed is None:
        return [Run(None, ordered)]
    first = {(each.rank, each.recordings[0].process): each.time_ns for each in reversed(timed)}
    starts = [
        _Timed(first[rank, group[0].process], rank, group)
        for group in processes
        for rank in [group[0].rank or 0]
    ]
    parts = _apart(sorted(starts, key=lambda each: each.time_ns))
    if parts is None or not _are_far_apart(parts):
        return [Run(None, ordered)]
    return [Run(_cycles(of_run), of_run) for of_run in map(_recordings, parts)]


def _cycles(recordings: Sequence[Recording]) -> list[list[Recording]] | None:
    """Sort the recordings of a run into cycles; None if it is not known which belong together."""
    counts = Counter(each.rank for each in recordings)
    if max(counts.values()) == 1:
        return [[*recordings]]
    timed = _timed(recordings)
    parts = None if timed is None else _apart(timed)
    if timed is None or parts is None:
        return None
    cycles = [_recordings(part) for part in parts]
    if len(set(counts.values())) == 1 and len(cycles) > max(counts.values()):
        in_order = _in_order(_recordings(timed))
        if _steps_agree(in_order):  # the host clocks differ by more than the time between cycles
            return in_order
    return cycles


def _apart(ordered: Sequence[_Timed]) -> list[list[_Timed]] | None:
    """Cut at the longest pauses between two items of one rank, until no part has a rank twice.

    Returns None if two items of one rank have the same time.
    """
    parts: list[list[_Timed]] = []
    waiting = [[*ordered]]
    while waiting:
        part = waiting.pop()
        place = _longest_pause(part)
        if place is None:
            parts.append(part)
        elif part[place].time_ns == part[place - 1].time_ns:
            return None
        else:
            waiting += [part[place:], part[:place]]
    return parts


def _longest_pause(part: Sequence[_Timed]) -> int | None:
    """Place after the longest pause between two items of one rank; None if no rank is twice."""
    last: dict[int, int] = {}
    following = [len(part)] * len(part)  # for each place, the next of its rank
    for place in range(len(part) - 1, -1, -1):
        following[place] = last.get(part[place].rank, len(part))
        last[part[place].rank] = place
    longest, found, reach = -1, None, 0
    for place in range(1, len(part)):
        if following[place - 1] < len(part):
            reach = max(reach, following[place - 1])
        pause = part[place].time_ns - part[place - 1].time_ns
        if place <= reach and pause > longest:
            longest, found = pause, place
    return found


def _are_far_apart(parts: Sequence[Sequence[_Timed]]) -> bool:
    """Whether the pauses between parts are longer than any part, and longer than a start takes.

    Two jobs that run at the same time, such as two replicas of a server, start as close together as
    their own ranks.
    """
    longest = max(part[-1].time_ns - part[0].time_ns for part in parts)
    pauses = [later[0].time_ns - earlier[-1].time_ns for earlier, later in pairwise(parts)]
    return min(pauses, default=0) > max(longest, _RESTART_NS)


def _in_order(ordered: Sequence[Recording]) -> list[list[Recording]]:
    """The first of each rank, the second of each, and so on."""
    of_rank = _grouped((each.rank, each) for each in ordered)
    return [[*cycle] for cycle in zip(*of_rank, strict=True)]


def _steps_agree(cycles: Sequence[Sequence[Recording]]) -> bool:
    """Whether all ranks state the same ProfilerStep in a cycle, and a different one in each."""
    steps = [{each.step for each in cycle} for cycle in cycles]
    known = {step for of_cycle in steps for step in of_cycle if step is not None}
    return all(len(of_cycle) == 1 for of_cycle in steps) and len(known) == len(cycles)


def _timed(recordings: Sequence[Recording]) -> list[_Timed] | None:
    """Recordings in order of the times of early events, or in the names; None if neither exist.

    Times with a zero other than 1970 are on one clock only if all of them are such times.
    """
    is_of_events = len({each.is_since_epoch for each in recordings}) == 1 and all(
        each.start_ns is not None for each in recordings
    )
    times = [each.start_ns if is_of_events else each.stamp_ns for each in recordings]
    timed = [
        _Timed(time, each.rank or 0, [each])
        for time, each in zip(times, recordings, strict=True)
        if time is not None
    ]
    if len(timed) < len(recordings):
        return None
    return sorted(timed, key=lambda each: each.time_ns)


def _recordings(part: Iterable[_Timed]) -> list[Recording]:
    return [each for timed in part for each in timed.recordings]


def _grouped(pairs: Iterable[tuple[Key, Recording]]) -> list[list[Recording]]:
    """Recordings with the same key, in the order of the first of each."""
    groups: dict[Key, list[Recording]] = defaultdict(list)
    for key, each in pairs:
        groups[key].append(each)
    return [*groups.values()]
