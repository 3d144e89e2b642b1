"""ProfilerStep boundaries and the step filter."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hta_widgets.trace.events import GPU_SIDE, Events, Kind

_STEP_NAME = re.compile(r"ProfilerStep\s*#\s*(\d+)")


def profiler_steps(events: Events) -> pd.DataFrame:
    """List the ProfilerSteps that the CPU recorded.

    Returns
    -------
    DataFrame
        ``step`` (number), ``start_ns``, ``end_ns`` (int64, ns since the trace's origin), ascending
        by start.
    """
    numbers = {
        code: int(found[1])
        for code, name in enumerate(events.name.values)
        if (found := _STEP_NAME.match(name))
    }
    rows = events.rows_of(Kind.ANNOTATION, Kind.CPU_OP)
    rows = rows[np.isin(events.name.codes[rows], list(numbers))]
    return pd.DataFrame(
        {
            "step": np.array([numbers[code] for code in events.name.codes[rows]], dtype=np.int64),
            "start_ns": events.start_ns[rows],
            "end_ns": events.end_ns[rows],
        }
    )


def analysed_steps(steps: pd.DataFrame, *, include_last_profiler_step: bool) -> tuple[int, ...]:
    """Numbers of the ProfilerSteps that take part in the analyses (see `rows_to_analyse`)."""
    if steps["step"].nunique() >= 2 and not include_last_profiler_step:  # noqa: PLR2004
        steps = steps[steps["start_ns"] < steps["start_ns"].max()]
    return tuple(sorted(set(steps["step"].tolist())))


def rows_to_analyse(
    events: Events,
    launches: NDArray[np.int64],
    steps: pd.DataFrame,
    *,
    include_last_profiler_step: bool,
) -> NDArray[np.bool_]:
    """Tell which events take part in the analyses.

    With two or more ProfilerSteps the last one is left out, as in HTA: CPU events from its start
    on, and GPU work that they launched. GPU work launched before stays, however late it runs; GPU
    work whose launch is not in the trace stays when it starts before the last step does. With
    `include_last_profiler_step` the bound is the end of the last step instead of its start. With
    fewer steps everything takes part.

    Parameters
    ----------
    events : Events
    launches : ndarray of int64
        Row of the launching call per event, -1 for none (see `links.launch_rows`).
    steps : DataFrame
        As `profiler_steps` gives them.
    include_last_profiler_step : bool

    Returns
    -------
    ndarray of bool, one per event
    """
    if steps["step"].nunique() < 2:  # noqa: PLR2004
        return np.ones(len(events), dtype=bool)
    if include_last_profiler_step:
        in_time = events.start_ns <= int(steps["end_ns"].max())
    else:
        in_time = events.start_ns < int(steps["start_ns"].max())
    launched = np.isin(events.kind, GPU_SIDE) & (launches >= 0)
    return np.where(launched, in_time[launches], in_time)
