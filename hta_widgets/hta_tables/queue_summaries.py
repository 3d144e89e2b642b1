"""What series of queue lengths add up to, as HTA's tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
import pandas as pd

from hta_widgets.quantities import NS_PER_US
from hta_widgets.trace.ranks.rank import Rank

KEYS: Final = ("rank", "stream")
BLOCKED: Final = (
    *KEYS,
    "duration_at_max_queue_length",
    "relative_duration_at_max_queue_length",
    "blocked_calls",
    "blocked (us)",
)


def summary_of_series(series: Mapping[int, pd.DataFrame]) -> pd.DataFrame | None:
    """Return the table that `get_queue_length_summary_from_time_series` documents."""
    frames = [
        frame[[*_keys(frame), "queue_length"]].assign(rank=rank) for rank, frame in series.items()
    ]
    if not frames:
        return None
    every = pd.concat(frames, ignore_index=True)
    every["rank"] = pd.Categorical(every["rank"], categories=[*series], ordered=True)
    keys = ["rank", *_keys(every)]
    described = every.groupby(keys, observed=True)[["queue_length"]].describe()
    ranks = described.index.get_level_values("rank").astype("int64")
    described.index = pd.MultiIndex.from_arrays(
        [ranks, *(described.index.get_level_values(key).astype("int64") for key in keys[1:])],
        names=keys,
    )
    return described


def _keys(frame: pd.DataFrame) -> list[str]:
    return ["stream", *(["device"] if "device" in frame else [])]


def time_at_full_queue(
    series: Mapping[int, pd.DataFrame],
    max_queue_length: float,
    span_us: Callable[[int], float],
    held_up: Callable[[int], Mapping[tuple[int, int | None], tuple[int, float]]],
) -> pd.DataFrame:
    """Return the table that `get_time_spent_blocked_on_full_queue` documents.

    Parameters
    ----------
    series : mapping of rank to DataFrame
    max_queue_length : float
    span_us : callable
        Length of the recording of a rank.
    held_up : callable
        Launch calls of a rank that a full queue holds up and by how much (µs), by stream and
        device, or by stream alone (with None).
    """
    rows = []
    for rank, frame in series.items():
        blocked = held_up(rank)
        for key, of_stream in frame.groupby(_keys(frame), sort=False):
            ids = [int(number) for number in np.atleast_1d(np.array(key))]
            stream, device = ids[0], ids[1] if len(ids) > 1 else None
            full_us = _time_at_least(of_stream, max_queue_length)
            calls, us = blocked.get((stream, device), (0, 0.0))
            if full_us > 0 or calls:
                of_device = {} if device is None else {"device": device}
                numbers = (rank, stream, full_us, full_us / span_us(rank), calls, us)
                rows.append(dict(zip(BLOCKED, numbers, strict=True)) | of_device)
    columns = [*BLOCKED, *(["device"] if any("device" in row for row in rows) else [])]
    table = pd.DataFrame(rows, columns=columns)
    whole = ("rank", "stream", "blocked_calls")
    types = {name: "int64" if name in whole else "float64" for name in BLOCKED}
    return table.astype(types)


def _time_at_least(of_stream: pd.DataFrame, length: float) -> float:
    """Time (µs) from each change on at which the queue is that long, until the next change."""
    until_next = np.diff(of_stream["ts"].to_numpy(dtype=np.float64))
    is_full = of_stream["queue_length"].to_numpy()[:-1] >= length
    return round(float(until_next[is_full].sum()), 3)


def recorded_us(rank: Rank) -> float:
    """From the first start to the last end of what is analysed (µs)."""
    events, analysed = rank.trace.events, rank.analysed
    start, end = events.start_ns[analysed], events.end_ns[analysed]
    return float(end.max() - start.min()) / NS_PER_US if start.size else np.nan
