"""The cause of time in which the host decides, from the calls that are running."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hta_widgets.analyses.time import patterns
from hta_widgets.analyses.time.calls import Calls
from hta_widgets.analyses.time.causes import CODE
from hta_widgets.arrays import Int8Array, Int64Array, Mask
from hta_widgets.trace.model.events import Kind

UNDECIDED = -1

_BY_PATH = {
    "profiler": patterns.PROFILER,
    "data_loading": patterns.DATA_LOADING,
    "garbage_collection": patterns.GARBAGE_COLLECTION,
    "compiling": patterns.COMPILING,
}
_BY_API_CALL = {
    "allocating": patterns.ALLOCATING,
    "initialising": patterns.INITIALISING,
    "synchronising": patterns.BLOCKING,
}


@dataclass(frozen=True, eq=False)
class HostCauses:
    """What a call, or a call around it, says of the time in which it is innermost.

    Attributes
    ----------
    named : ndarray of int8
        By place: cause that the name of the call or of one around it decides, else `UNDECIDED`.
    usual : ndarray of int8
        By place: cause of the rest, by the kind of call.
    """

    named: Int8Array
    usual: Int8Array

    @classmethod
    def of(cls, calls: Calls) -> HostCauses:
        """Decide for every call."""
        named = np.full(calls.kind.size, UNDECIDED, dtype=np.int8)
        for cause, decides in reversed(_deciding(calls)):
            if decides.any():
                named[calls.forest.at_or_below(decides)] = CODE[cause]
        usual = np.full(calls.kind.size, CODE["host_code"], dtype=np.int8)
        usual[calls.forest.at_or_below(calls.kind == Kind.CPU_OP)] = CODE["operator"]
        usual[calls.is_launch_call] = CODE["launching"]
        return cls(named, usual)

    def decide(self, owner: Int64Array, *, overhead: Mask, drained: Mask) -> Int8Array:
        """Cause of each segment of time.

        Parameters
        ----------
        owner : ndarray of int64
            Place of the innermost call, -1 for none.
        overhead : ndarray of bool
            Whether the profiler was at work on any thread.
        drained : ndarray of bool
            Whether the idle interval followed a blocking call that had drained the GPU.
        """
        named = np.append(self.named, UNDECIDED)
        usual = np.append(self.usual, CODE["nothing_recorded"])
        cause = np.where(drained, CODE["synchronising"], usual[owner])
        cause = np.where(named[owner] == UNDECIDED, cause, named[owner])
        return np.where(overhead, CODE["profiler"], cause).astype(np.int8)


def _deciding(calls: Calls) -> list[tuple[str, Mask]]:
    """Calls that decide the cause of all time inside them; the first in the list decides first."""
    api = calls.is_launch_call
    duration_ns = calls.events.duration_ns[calls.forest.rows]
    sets_up = api & (duration_ns >= patterns.SLOW_NS)
    if sets_up.any():
        sets_up &= ~calls.named(patterns.GIVES_WORK.search)
    return [
        *((cause, calls.named(pattern.search)) for cause, pattern in _BY_PATH.items()),
        *((cause, calls.named(pattern.search) & api) for cause, pattern in _BY_API_CALL.items()),
        ("initialising", sets_up),
    ]
