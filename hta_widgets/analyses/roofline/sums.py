"""Operators by shape, summed over ranks and devices."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

_KEYS: Final = ["operator", "input_dims", "input_types", "dtype", "counted"]
_SUMS: Final = ["calls", "kernels", "flop", "bytes", "gpu_ns"]
_OF_MOST: Final = ["bound", "module"]


def over_ranks(operators: pd.DataFrame) -> pd.DataFrame:
    """Sum `Roofline.operators` over ranks and devices, longest first.

    Rates and shares are those of the sums; ``bound`` and ``module`` those of most of the time.
    """
    if operators.groupby(["rank", "device"]).ngroups <= 1:
        return operators.drop(columns=["rank", "device"])
    longest_first = operators.sort_values("gpu_ns", ascending=False, kind="stable")
    known = longest_first.assign(
        at_peak_ns=longest_first["percent_of_peak"] * longest_first["gpu_ns"]
    )
    groups = known.groupby(_KEYS, sort=False, dropna=False)
    found = groups[[*_SUMS]].sum()
    found["at_peak_ns"] = groups["at_peak_ns"].sum(min_count=1)
    found = found.join(groups[_OF_MOST].first()).reset_index()
    gpu_ns = found["gpu_ns"].where(found["gpu_ns"] > 0)
    found["tflops"] = (found["flop"] / gpu_ns / 1000).where(found["flop"] > 0, np.nan)
    found["gb_per_s"] = found["bytes"] / gpu_ns
    found["intensity"] = found["flop"] / found["bytes"].where(found["bytes"] > 0)
    found["percent_of_peak"] = found.pop("at_peak_ns") / gpu_ns
    return found.sort_values("gpu_ns", ascending=False, kind="stable", ignore_index=True)
