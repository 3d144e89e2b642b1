"""What the idle time of GPUs says, in a sentence."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import pandas as pd

from hta_widgets.analyses.idle_time.split import IDLE_SPLIT
from hta_widgets.analyses.time.gpu_time import GpuTime, over_steps, span_in_words
from hta_widgets.quantities import duration, percent

WORTH_SAYING: Final = 0.03
"""Idle share of the span from which it is worth a sentence."""

PART_WORTH_SAYING: Final = 0.01
"""Share of the idle time from which one of its parts is in the sentence."""

_PHRASES: Final = {
    "host": "before the launch call began (CPU late)",
    "launch_call": "during the launch call (CPU late)",
    "between_kernels": "in gaps between kernels",
    "inside_graph": "inside CUDA graphs",
    "dependency": "after the launch, held back on the GPU",
    "launch_not_recorded": "of unknown cause (launch not recorded)",
}


def idle_finding(
    streams: pd.DataFrame,
    devices: pd.DataFrame,
    wanted: Collection[int],
    times: Sequence[GpuTime],
    *,
    is_excerpt: bool = False,
) -> str:
    """Say how long the GPUs are idle and why; empty below `WORTH_SAYING`.

    Where the analysed time lasts longer than the GPU span and is idle for another share, a second
    sentence says that share.

    Parameters
    ----------
    streams, devices : DataFrame
        `IdleTime.stream_split` and `IdleTime.device_split`.
    wanted : collection of int
        The streams that were asked for.
    times : sequence of GpuTime
        Of the devices.
    is_excerpt : bool
        Whether only the part of the GPU spans in the selected time counts.
    """
    if devices.empty:
        return "No GPU work was recorded on the selected ranks."
    if streams.empty:
        noun = "stream" if len(wanted) == 1 else "streams"
        return f"No selected rank has GPU work on {noun} {', '.join(map(str, sorted(wanted)))}."
    by_part = devices["idle_time_ns"].to_numpy().reshape(-1, len(IDLE_SPLIT)).sum(axis=0)
    span_ns = int(devices["span_ns"].to_numpy()[:: len(IDLE_SPLIT)].sum())
    idle_ns, gpus = int(by_part.sum()), len(devices) // len(IDLE_SPLIT)
    longer = over_steps(times)
    is_worth_saying = idle_ns > 0 and idle_ns >= WORTH_SAYING * span_ns
    if not is_worth_saying and not longer:
        return ""
    who = f"The GPU of rank {devices['rank'].iloc[0]} is" if gpus == 1 else f"The {gpus} GPUs are"
    whole = span_in_words(gpus, is_excerpt=False) + (" in the selected time" * is_excerpt)
    why = f": {_causes(by_part.tolist())}" if is_worth_saying else ""
    return (
        f"{who} idle {percent(100 * idle_ns / span_ns)} of {whole} ({duration(idle_ns)} of "
        f"{duration(span_ns)}){why}.{longer}"
    )


def _causes(by_part: Sequence[int]) -> str:
    """Parts of the idle time, the largest first, without those too small to matter."""
    idle_ns = sum(by_part)
    parts = sorted(zip(by_part, IDLE_SPLIT, strict=True), key=lambda part: -part[0])
    said = [
        f"{percent(100 * part_ns / idle_ns)} {_PHRASES[name]}"
        for part_ns, name in parts
        if part_ns >= PART_WORTH_SAYING * idle_ns
    ]
    return ", ".join(said)
