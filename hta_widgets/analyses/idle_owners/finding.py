"""What the idle time of a job means, in a sentence."""

from __future__ import annotations

from operator import itemgetter
from typing import Final

import numpy as np
import pandas as pd

from hta_widgets.analyses.idle_owners.paths import MergedPaths
from hta_widgets.analyses.time.call_sums import sums_at
from hta_widgets.analyses.time.causes import Share, idle_cause
from hta_widgets.analyses.time.rows import sums_by_text
from hta_widgets.arrays import Int64Array, Mask
from hta_widgets.intervals import Times
from hta_widgets.names.shorten import short_name
from hta_widgets.quantities import duration, percent

WORTH_SAYING: Final = 0.03
"""Idle share of the time from which idle time is worth a sentence."""

UNKNOWN_WORTH_SAYING: Final = 0.1
"""Share of the idle time from which the one of unknown cause is in the sentence."""

LINE_WORTH_SAYING: Final = 0.05
"""Share of the idle time from which the line of Python with most of it is in the sentence."""

NAME_WIDTH: Final = 60

_UNKNOWN = "launch_not_recorded"
_STACKS_ADVICE = (
    "no Python frames were recorded; with_stack=True shows which code runs outside operators"
)


def idle_owner_finding(
    devices: pd.DataFrame,
    causes: pd.DataFrame,
    owners: pd.DataFrame,
    paths: MergedPaths,
    whole: str,
) -> str:
    """Sentence on the largest cause, its owner and the line with most; empty below `WORTH_SAYING`.

    ``whole`` names the time that is selected. A line of Python counts for what is inside it, but in
    no other line.
    """
    if devices.empty:
        return "No GPU work was recorded on the selected ranks."
    idle_ns, window_ns = int(devices["idle_ns"].sum()), int(devices["window_ns"].sum())
    if idle_ns < WORTH_SAYING * window_ns or not idle_ns:
        return ""
    gpus = f" on {len(devices)} GPUs" if len(devices) > 1 else ""
    of = f"Of {duration(idle_ns)} idle{gpus} ({percent(100 * idle_ns / window_ns)} of {whole})"
    known = sums_by_text(causes["cause"], causes["idle_ns"])
    unknown_ns = known.pop(_UNKNOWN, 0)
    if not known or unknown_ns > sum(known.values()):
        return (
            f"{of}, the cause of {percent(100 * unknown_ns / idle_ns)} is unknown: the launch of "
            "the next work is not in the trace."
        )
    largest, largest_ns = max(known.items(), key=itemgetter(1))
    cause = idle_cause(largest)
    said = cause.phrase.format(percent(100 * largest_ns / idle_ns))
    if cause.share is not Share.GPU:
        said += _most_in((owners["cause"] == cause.name).to_numpy(), owners, paths)
    if unknown_ns >= UNKNOWN_WORTH_SAYING * idle_ns:
        said += f"; {percent(100 * unknown_ns / idle_ns)} is of unknown cause (launch not recorded)"
    return f"{of}, {said}{_line(owners, paths, idle_ns)}."


def _line(owners: pd.DataFrame, paths: MergedPaths, idle_ns: int) -> str:
    most, most_ns = _most(owners["idle_ns"].to_numpy(), owners, paths, paths.line)
    if not most_ns or most_ns < LINE_WORTH_SAYING * idle_ns:
        return ""
    return f"; the line of Python with the most is {most} ({duration(most_ns)})"


def _most_in(chosen: Mask, owners: pd.DataFrame, paths: MergedPaths) -> str:
    """The owner with most of the time of some rows."""
    idle_ns = np.where(chosen, owners["idle_ns"].to_numpy(), 0)
    most, most_ns = _most(idle_ns, owners, paths, paths.name)
    return f", most in {most} ({duration(most_ns)})" if most_ns else ""


def _most(
    idle_ns: Times, owners: pd.DataFrame, paths: MergedPaths, name: Int64Array
) -> tuple[str, int]:
    """Which of the names of paths has most of the idle time of the rows, and how much (ns)."""
    of_path = sums_at(owners["path"].to_numpy(), idle_ns, name.size)
    of_name = sums_at(name, of_path, len(paths.names))
    if not of_name.any():
        return "", 0
    most = int(of_name.argmax())
    return short_name(paths.names[most], NAME_WIDTH), int(of_name[most])


def stacks_advice(causes: pd.DataFrame) -> list[str]:
    """Notice on what to record, where Python frames would tell more of the largest cause."""
    if causes.empty:
        return []
    largest, _ = max(sums_by_text(causes["cause"], causes["idle_ns"]).items(), key=itemgetter(1))
    return [_STACKS_ADVICE] if largest in {"host_code", "operator"} else []
