"""Whether the recording of one rank can be trusted, and the notices that say why not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from hta_widgets.quantities import duration
from hta_widgets.trace.model.events import Faults
from hta_widgets.trace.model.health.lost_work import LostOperators, LostWork
from hta_widgets.trace.model.health.taken_out import TakenOut
from hta_widgets.trace.model.health.unrecorded_waits import UnrecordedWaits
from hta_widgets.trace.model.health.wrong_times import MOST_AGAINST_ORDER, WrongTimes
from hta_widgets.trace.model.notices import Notice

_LOST: Final = (
    "{} of {} kernel launches have no kernel in the trace, although later launches do: the "
    "recorder lost the kernels, and time that looks idle there may not be idle"
)
_ALL_LOST: Final = (
    "none of {} launches has GPU work in the trace: the recording ended before it ran, or the "
    "recorder could not see the GPU"
)
_UNSEEN: Final = (
    "none of {} launches has GPU work in the trace, although the host waited for it: the recorder "
    "could not see the GPU"
)
_REPLAYS: Final = (
    "{} of {} graph launches have no recorded GPU work: the recorder lost it, and time that looks "
    "idle there may not be idle"
)
_UNFINISHED: Final = (
    "the last {} of {} launches have no GPU work in the trace: the recording ended before the GPU "
    "was done"
)
_OPERATORS: Final = (
    "{} of {} kernel launches come before the first operator or after the last, and operators make "
    "nearly all others: the recorder lost operators there"
)
_REPEATED: Final = "{} events are in the file twice, as in a merged file, and count once"
_IMPOSSIBLE: Final = (
    "{} GPU operations are left out: they are far outside the recording, or longer than it"
)
_EARLY: Final = (
    "{} of {} GPU operations start before the call that launches them, because the clocks of host "
    "and GPU differ"
)
_LATE: Final = (
    "{} of {} calls that wait for the GPU return before it is done, because the clocks of host and "
    "GPU differ"
)
_OVERLAP: Final = (
    "{} GPU operations start while others on their stream run, which no GPU does: the recorded "
    "durations of kernels are too long"
)
_STANDSTILL: Final = (
    "nothing starts or ends for {} while an operator runs that is usually short: a clock may have "
    "been set forward"
)
_TAKEN_OUT: Final = (
    "the file has only {} of {} CUDA API calls, by their numbers: most events were removed from "
    "it, and time that looks idle may not be idle; open the original trace"
)
_MERGED: Final = (
    "{} processes launch the GPU work in this file, which may be merged from several ranks: open "
    "the traces of the ranks instead"
)


@dataclass(frozen=True, kw_only=True)
class RankHealth:
    """What the recorder of one rank got wrong."""

    lost: LostWork = field(default_factory=LostWork)
    """Kernels that were launched and are not in the trace."""
    operators: LostOperators = field(default_factory=LostOperators)
    """Launches in the part of the recording without operators."""
    faults: Faults = field(default_factory=Faults)
    """Faults that were found while loading the file."""
    times: WrongTimes = field(default_factory=WrongTimes)
    """Times that contradict others."""
    unsure: int = 0
    """Analysed GPU operations whose launch is unknown, because several launches share their id."""
    taken_out: TakenOut = field(default_factory=TakenOut)
    """CUDA API calls, if most events are missing in the file."""
    processes: int = 1
    """Number of processes that launch the analysed GPU work."""
    waits: UnrecordedWaits = field(default_factory=UnrecordedWaits)
    """Silences of the host that look like waits: nothing is wrong, but the waits are not
    recorded."""

    @property
    def is_sound(self) -> bool:
        """Whether nothing is wrong."""
        return not (self.notices or self.faults.is_cut or self.unsure)

    @property
    def lacks_end(self) -> bool:
        """Whether the recording, and not the file, ended long before the GPU was done."""
        return self.lost.lacks_end and not self.faults.is_cut

    @property
    def lacks_launches(self) -> bool:
        """Whether too many launches are unknown to find the causes of idle time."""
        return self.unsure > MOST_AGAINST_ORDER * (self.times.linked + self.unsure)

    @property
    def is_merged(self) -> bool:
        """Whether several processes, each a rank of its own, launch the work."""
        return self.processes > 1

    @property
    def hides_idle_time(self) -> str:
        """Why what looks idle may have been busy; empty if the file is as recorded on one rank."""
        if self.taken_out.left:
            return "most events were taken out of the traces"
        return "the traces are merged from several ranks" if self.is_merged else ""

    @property
    def notices(self) -> tuple[Notice, ...]:
        """What is wrong, how often, and what that means; empty if nothing is wrong."""
        return tuple(self._notices())

    def _of_the_file(self) -> Iterator[Notice]:
        if self.taken_out.left:
            yield Notice(_TAKEN_OUT, self.taken_out)
        counts = {_REPEATED: self.faults.repeated, _IMPOSSIBLE: self.faults.impossible}
        yield from (Notice(words, (count,)) for words, count in counts.items() if count)
        if self.is_merged:
            yield Notice(_MERGED, (self.processes,))

    def _notices(self) -> Iterator[Notice]:
        if self.lost.is_all:
            words = _UNSEEN if self.lost.waited_for else _ALL_LOST
            yield Notice(words, (self.lost.launches,))
        elif self.lost.lost_kernels and not self.is_merged:  # it looks for later launches of a rank
            kernels = self.lost.launches - self.lost.replays
            yield Notice(_LOST, (self.lost.lost_kernels, kernels))
        if self.lost.lacks_replays and not self.lost.is_all:
            yield Notice(_REPLAYS, (self.lost.lost_replays, self.lost.replays))
        if self.lacks_end:
            yield Notice(_UNFINISHED, (self.lost.at_end, self.lost.launches))
        if self.operators.outside:
            yield Notice(_OPERATORS, (self.operators.outside, self.operators.launches))
        yield from self._of_the_file()
        times = self.times
        if times.early:
            yield Notice(_EARLY, (times.early, times.linked))
        if times.late:
            yield Notice(_LATE, (times.late, times.waits))
        if times.kernels_overlap:
            yield Notice(_OVERLAP, (times.overlapping,))
        if times.standstill_ns:
            yield Notice(_STANDSTILL.format(duration(times.standstill_ns)))
