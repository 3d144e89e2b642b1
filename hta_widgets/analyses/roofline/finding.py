"""What the roofline of a job means, in sentences."""

from __future__ import annotations

from typing import Final

import pandas as pd

from hta_widgets.analyses.roofline.counted import (
    NO_SHAPES,
    NO_VALUES,
    NOT_UNDERSTOOD,
    REASONS,
)
from hta_widgets.names.shorten import short_name
from hta_widgets.quantities import number, percent

WORTH_SAYING_PERCENT: Final = 3
"""Share of the kernel time from which what is not counted is named."""

NAME_WIDTH: Final = 60

_MISSED: Final = tuple(REASONS[code] for code in (NO_SHAPES, NO_VALUES, NOT_UNDERSTOOD))
_OPTIONS: Final = {
    REASONS[NO_SHAPES]: "record_shapes=True",
    REASONS[NO_VALUES]: "record_shapes=True in PyTorch 2.2 or later",
}


def roofline_finding(
    devices: pd.DataFrame, uncounted: pd.DataFrame, *, can_have_shapes: bool = True
) -> str:
    """The rate of what is counted, the MFU with what it covers, and what is not counted.

    Parameters
    ----------
    devices, uncounted : DataFrame
        Those of `Roofline`.
    can_have_shapes : bool
        Whether the format of any trace has shapes.
    """
    kernel_ns = int(devices["kernel_ns"].sum())
    if not kernel_ns:
        return "No kernels were recorded on the selected ranks."
    flop, flop_ns = int(devices["flop"].sum()), int(devices["flop_ns"].sum())
    if not flop_ns:
        return _nothing_counted(uncounted, can_have_shapes=can_have_shapes)
    rate, share = number(flop / flop_ns / 1000), percent(100 * flop_ns / kernel_ns)
    said = (
        f"Products, convolutions and attention reach {rate} TFLOP/s in {share} of the kernel time"
    )
    rest = _largest_rest(uncounted, kernel_ns)
    mfu = devices["mfu_percent"]
    if mfu.notna().all():
        windows = devices["window_ns"]
        of_all = float((mfu * windows).sum() / windows.sum())
        at_least = "at least " if rest else ""
        said += (
            f"; the MFU over the analysed time is {at_least}{percent(of_all)} of {_name(devices)}"
        )
    return f"{said}. {rest}".rstrip() if rest else f"{said}."


def _nothing_counted(uncounted: pd.DataFrame, *, can_have_shapes: bool) -> str:
    by_reason = uncounted[uncounted["reason"].isin(_MISSED)].groupby("reason")["gpu_ns"].sum()
    reason = str(by_reason.idxmax()) if len(by_reason) and can_have_shapes else ""
    option = _OPTIONS.get(reason)
    said = "No products, convolutions or attention with recorded shapes ran on the selected ranks"
    return f"{said} ({option} records them)." if option else f"{said}."


def _name(devices: pd.DataFrame) -> str:
    names = sorted(set(devices["name"]))
    return f"the peak of {names[0]}" if len(names) == 1 else "the peaks of the devices"


def _largest_rest(uncounted: pd.DataFrame, kernel_ns: int) -> str:
    """The largest reason for which kernels are not counted, with its largest operator."""
    by_reason = uncounted.groupby("reason")["gpu_ns"].sum()
    if by_reason.empty or 100 * by_reason.sum() < WORTH_SAYING_PERCENT * kernel_ns:
        return ""
    reason, most_ns = str(by_reason.idxmax()), int(by_reason.max())
    said = (
        f"{percent(100 * by_reason.sum() / kernel_ns)} of the kernel time is not counted: "
        f"{percent(100 * most_ns / kernel_ns)} for “{reason}”"
    )
    mine = uncounted[(uncounted["reason"] == reason) & (uncounted["operator"] != "")]
    by_operator = mine.groupby("operator")["gpu_ns"].sum()
    if len(by_operator):
        said += f", most of it {short_name(str(by_operator.idxmax()), NAME_WIDTH)}"
    return f"{said}."
