"""What the launches of kernels mean, in a sentence."""

from __future__ import annotations

from typing import Final

import pandas as pd

from hta_widgets.names.shorten import short_name
from hta_widgets.quantities import counted, percent

WORTH_SAYING: Final = 0.03
"""Share of the time of all kernels from which one that leaves multiprocessors empty is named."""

NAME_WIDTH: Final = 60


def launch_finding(kernels: pd.DataFrame, few: pd.DataFrame) -> str:
    """Sentence on kernels that compute with fewer blocks than their GPU has multiprocessors.

    Parameters
    ----------
    kernels : DataFrame
        `LaunchFacts.kernels`.
    few : DataFrame
        `RankLaunches.few` of all ranks.
    """
    whole_ns = int(kernels["gpu_ns"].sum())
    times = few.groupby("name", sort=False)["gpu_ns"].sum().sort_values(ascending=False)
    times = times[times > WORTH_SAYING * whole_ns]
    if times.empty:
        return ""
    name, most_ns = str(times.index[0]), int(times.iloc[0])
    named = few[few["name"] == name].groupby(["blocks", "sms"], as_index=False)["gpu_ns"].sum()
    most = named["gpu_ns"].to_numpy().argmax()
    blocks, sms = (int(named[column].iloc[most]) for column in ("blocks", "sms"))
    has = "mostly has" if len(named) > 1 else "has"
    said = (
        f"{short_name(name, NAME_WIDTH)} fills {blocks:,} of {sms:,} SMs in "
        f"{_share(most_ns, whole_ns)}, because its grid {has} {counted(blocks, 'block')}"
    )
    others = times.iloc[1:]
    if len(others):
        more = counted(len(others), "other kernel")
        leave = "leaves" if len(others) == 1 else "leave"
        said += f"; {more} {leave} SMs empty in {_share(int(others.sum()), whole_ns)}"
    return f"{said}."


def _share(ns: int, whole_ns: int) -> str:
    return f"{percent(100 * ns / whole_ns)} of the kernel time"
