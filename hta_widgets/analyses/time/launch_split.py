"""An idle interval, split where the call that launches the next work begins and ends."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hta_widgets.analyses.time.patterns import GRAPH_LAUNCH
from hta_widgets.grouping import distinct
from hta_widgets.intervals import Times
from hta_widgets.trace.model.events import Events

LAUNCH_NS: Final = 15_000
"""A late launch call counts at least this long: the GPU cannot start the moment it begins."""

NO_CALL: Final = -1


class LaunchSplit(NamedTuple):
    """Idle intervals in three parts.

    ::

        interval     |----------------------------------|
        launch call           |------|
                     |==host==|=call=|=======GPU========|
                              host_until_ns
                                     call_until_ns

    Attributes
    ----------
    late : ndarray of bool
        Whether the launch call began after the GPU had run dry.
    host_until_ns : ndarray of int64
        Until then the host is late, in whatever it does.
    call_until_ns : ndarray of int64
        Until then it is the launch call's time; the rest is not the host's.
    """

    late: NDArray[np.bool_]
    host_until_ns: Times
    call_until_ns: Times


def split_by_launch(
    start_ns: Times, end_ns: Times, launch: NDArray[np.int64], events: Events
) -> LaunchSplit:
    """Split idle intervals by their launch calls.

    Parameters
    ----------
    start_ns, end_ns : ndarray of int64
        Of the intervals.
    launch : ndarray of int64
        Row of the call that launches what follows; where it is `NO_CALL`, nothing is the host's.
    events : Events
    """
    known = launch != NO_CALL
    begin = np.where(known, events.start_ns[launch], start_ns)
    end = np.where(known, begin + events.duration_ns[launch], start_ns)
    late = begin > start_ns
    reach = np.where(late, np.maximum(end, begin + LAUNCH_NS), end)
    host_until = np.minimum(end_ns, np.maximum(start_ns, begin))
    call_until = np.maximum(host_until, np.minimum(end_ns, reach))
    return LaunchSplit(late, host_until, call_until)


def are_of_one_graph(
    before: NDArray[np.int64], after: NDArray[np.int64], events: Events
) -> NDArray[np.bool_]:
    """Whether the work on both sides of each interval was launched by one call, of a graph.

    Parameters
    ----------
    before, after : ndarray of int64
        Rows of the launch calls, `NO_CALL` for none.
    """
    same = (before == after) & (after != NO_CALL)
    codes = events.name.codes[after]
    names = events.name.values
    graphs = [code for code in distinct(codes[same]).tolist() if GRAPH_LAUNCH.search(names[code])]
    return np.asarray(same & np.isin(codes, graphs))
