"""What the launch statistics mean, in a few sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from hta_widgets.quantities import counted, duration, percent

FREE_STREAM_OUTLIERS: Final = "free_stream_outliers"
_SUMMED = (
    *("calls", "operations", "short_kernels", "runtime_outliers"),
    *("launch_delay_outliers", FREE_STREAM_OUTLIERS),
)


def launch_stats_finding(ranks: Sequence[Mapping[str, Any]], runtime_ns: int, delay_ns: int) -> str:
    """Summarise the calls of some ranks.

    Parameters
    ----------
    ranks : sequence of mapping
        Rows of `LaunchStats.ranks`.
    runtime_ns, delay_ns : int
        Cutoffs of long calls and long delays.
    """
    total = Counter[str]()
    for row in ranks:
        total.update({name: row[name] for name in _SUMMED})
    if not total["operations"]:
        return "No launches of GPU work were recorded on the selected ranks."
    where = f"rank {ranks[0]['rank']}" if len(ranks) == 1 else f"{len(ranks)} ranks"
    launched = (
        f"On {where}, {counted(total['calls'], 'call')} launched "
        f"{counted(total['operations'], 'operation')}."
    )
    return f"{launched} {_calls(total, runtime_ns)} {_delays(total, delay_ns)}"


def _calls(total: Mapping[str, int], runtime_ns: int) -> str:
    """Calls longer than the cutoff, and, of the others, those longer than their work."""
    calls, short, long = (total[name] for name in ("calls", "short_kernels", "runtime_outliers"))
    longer = f"took more than {duration(runtime_ns)}"
    if long == calls:
        return f"{'It' if calls == 1 else 'All of them'} {longer}."
    share = f" ({percent(100 * short / (calls - long))})" if short else ""
    than_work = f"{share} took longer than the work launched"
    if long:
        others = f"{short:,} of the others" if short else "none of the others"
        return f"{counted(long, 'call')} {longer}; {others}{than_work}."
    return f"{f'{short:,}' if short else 'None'}{than_work}, and none {longer}."


def _delays(total: Mapping[str, int], delay_ns: int) -> str:
    """Calls whose work started late, and how many of them had a free stream."""
    late, free = total["launch_delay_outliers"], total[FREE_STREAM_OUTLIERS]
    if not late:
        return f"No work started more than {duration(delay_ns)} after its call."
    said = (
        f"The work of {counted(late, 'call')} ({percent(100 * late / total['calls'])}) started "
        f"more than {duration(delay_ns)} after the call"
    )
    if not free:
        return f"{said}, behind earlier work of its stream: the CPU runs ahead."
    if free == late:
        return f"{said}, although its stream was free."
    return f"{said}, {free:,} of them although the stream was free, the others behind earlier work."
