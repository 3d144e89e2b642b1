"""What is known of each file of a folder: which process recorded it, and when."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from hta_widgets.trace.model.formats import Stated
from hta_widgets.trace.ranks.source import RankSource

_STAMPS: Final = (
    (re.compile(r"\.(1\d{18})(?=\.)"), 1),
    (re.compile(r"\.(1\d{12})(?=\.)"), 10**6),
)
"""Time of writing in the names of ``tensorboard_trace_handler``: in ns, or in ms before 2023."""

_SECONDS: Final = re.compile(r"(1\d{9})(\.\d{1,9})?(?=-)")
"""Time in s, with which SGLang begins its names: ``1732611000.1234-TP-0.trace.json.gz``."""

_HOST_AND_PROCESS: Final = re.compile(r"(.+)_(\d{1,10})(?=\.)")
"""Default worker of ``tensorboard_trace_handler``: ``host_1234.<time>.pt.trace.json``."""

_STAGE: Final = re.compile(r"-(EXTEND|DECODE)(?=[-.])")
"""What SGLang was doing, if it records by stage: ``1732611000.1-TP-0-DECODE.trace.json.gz``."""

_FRONT_END: Final = ".async_llm."
"""Part of the names of what vLLM's front end records, which launches no GPU work."""

Process = tuple[str, str]


class Recording(NamedTuple):
    """A file of a folder.

    Attributes
    ----------
    source : RankSource
    name : str
        Name of the file.
    rank : int, optional
        Stated in the file, else in its name.
    world_size : int, optional
        Number of ranks of the job.
    process : tuple of str
        Host and id of the process that recorded it, each empty if it is not known; or the name of
        the file without its time, where neither is.
    start_ns : int, optional
        See `Stated`.
    is_since_epoch : bool
        See `Stated`.
    stamp_ns : int, optional
        Time in the name (ns since 1970).
    step : int, optional
        Number of an early ProfilerStep.
    """

    source: RankSource
    name: str
    rank: int | None
    world_size: int | None
    process: Process
    start_ns: int | None
    is_since_epoch: bool
    stamp_ns: int | None
    step: int | None

    @classmethod
    def of(cls, source: RankSource, rank: int | None, stated: Stated) -> Recording:
        """Put together what a file states and what its name does."""
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
        """When it was recorded (ns since 1970), or written, if the first is not known."""
        return self.start_ns if self.is_since_epoch else self.stamp_ns

    @property
    def stage(self) -> str:
        """What a server was doing, as the name says it; empty if it does not."""
        found = _STAGE.search(self.name)
        return found[1] if found else ""

    @property
    def is_of_front_end(self) -> bool:
        """Whether the name says that no GPU work can be in it."""
        return _FRONT_END in self.name


def stamp_in_name(name: str) -> int | None:
    """Time in the name of a file (ns since 1970), as profilers write it; None if it has none.

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
    """What tells a process from others of the same rank: host and process id, else its name."""
    named = _HOST_AND_PROCESS.match(name)
    is_default = named is not None and process in (None, int(named[2]))
    if named is not None and is_default and stamp_in_name(name) is not None:
        return named[1], named[2]
    if process is not None:
        return "", str(process)
    return "", _without_stamp(name)


def _without_stamp(name: str) -> str:
    """A name without the time in it: what all recordings of a worker share."""
    for pattern, _ in _STAMPS:
        if pattern.search(name):
            return pattern.sub("", name, count=1)
    return name
