"""How close operators come to what their GPU can do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pandas as pd

from hta_widgets.analyses.result import Result
from hta_widgets.analyses.roofline.finding import roofline_finding
from hta_widgets.analyses.roofline.peaks import Peak, peak_of
from hta_widgets.analyses.roofline.rank_tables import (
    DEVICES,
    OPERATORS,
    UNCOUNTED,
    records_shapes,
    roofline_tables,
)
from hta_widgets.analyses.time.rows import stacked
from hta_widgets.trace.job import Job
from hta_widgets.trace.model.formats import Recorded
from hta_widgets.trace.model.notices import merge_notices


@dataclass(frozen=True, kw_only=True, eq=False)
class Roofline(Result):
    """FLOP and bytes of operators by shape, beside the peaks of their GPU.

    For each rank and device, the GPU time of `operators` and of `uncounted` adds up to the sum of
    the durations of all analysed kernels, exactly. Durations and not wall time: kernels of several
    streams add up. FLOP and bytes are those of all calls; all times are int64 ns.

    Attributes
    ----------
    operators : DataFrame
        One row per operator and shape, longest first: ``rank``, ``device``, ``operator``,
        ``input_dims``, ``input_types`` (JSON), ``calls`` (that launched kernels), ``kernels``,
        ``flop``, ``bytes`` (the least that can be moved), ``gpu_ns``, ``tflops`` (TFLOP/s, NaN
        where only bytes are counted), ``gb_per_s``, ``intensity`` (FLOP per byte), ``bound``
        (``compute``, ``memory``, ``launch`` or, where no peak is known, ``unknown``),
        ``percent_of_peak`` (the time that the peak rates take, of ``gpu_ns``; NaN if unknown),
        ``dtype``, ``module`` (path of the one with most of the time), ``counted`` (``flop``,
        ``bytes`` or, for compiled operators, ``inputs only``).
    uncounted : DataFrame
        The other kernels, longest first: ``rank``, ``device``, ``operator`` (empty for none),
        ``reason``, ``kernels``, ``gpu_ns``, ``share_percent`` (of the kernels of the device).
    devices : DataFrame
        One row per rank and device: ``name`` (empty if not recorded), ``memory_bytes``
        (of the device, 0 if not recorded), ``kernels``, ``kernel_ns``,
        ``flop``, ``flop_ns`` (GPU time of operators whose FLOP are counted), ``bytes_ns`` (of those
        of which only the bytes are), ``uncounted_ns``, ``window_ns`` (the analysed
        time, see `IdleOwners`), ``tflops`` (over ``flop_ns``), ``mfu_percent`` (the time that the
        counted FLOP take at the dense peaks of their types, of the window; NaN without a known
        peak), ``coverage_percent`` (``flop_ns`` of ``kernel_ns``).
    """

    operators: pd.DataFrame
    uncounted: pd.DataFrame
    devices: pd.DataFrame

    @property
    def peak(self) -> Peak | None:
        """The peak that all GPUs have; None if it is not known, or they have several."""
        peaks = {peak_of(name, size) for name, size in self._described()}
        return next(iter(peaks)) if len(peaks) == 1 else None

    def _described(self) -> list[tuple[str, int]]:
        columns = (self.devices["name"], self.devices["memory_bytes"])
        return list(zip(*(column.tolist() for column in columns), strict=True))


def roofline(job: Job, ranks: Iterable[int] | None = None) -> Roofline:
    """Compare what operators compute and move with what their GPU can do.

    A kernel belongs to the nearest product, convolution or attention around its launch, or else to
    the innermost operator; each call counts once, however many kernels it launches. Of products,
    convolutions and attention the FLOP are counted, of elementwise operators, norms and copies the
    bytes. What lacks shapes, or values that the formula needs, is not counted, and never guessed.

    Parameters
    ----------
    job : Job
    ranks : iterable of int, optional
        All ranks when not given.

    Returns
    -------
    Roofline

    Raises
    ------
    UnknownRankError
        If the job lacks a rank.
    """
    chosen = job.select_ranks(ranks)
    by_rank = job.reduce(roofline_tables, chosen)
    operators, uncounted, devices = (
        stacked([getattr(each, name) for each in by_rank.values()], types)
        for name, types in (
            ("operators", OPERATORS),
            ("uncounted", UNCOUNTED),
            ("devices", DEVICES),
        )
    )
    notices = {rank: each.notices for rank, each in by_rank.items()}
    can_have_shapes = any(records_shapes(job.sources[rank].format) for rank in chosen)
    finding = roofline_finding(devices, uncounted, can_have_shapes=can_have_shapes)
    said_in_finding = operators.empty and "record_shapes" in finding
    return Roofline(
        operators=operators.sort_values(
            "gpu_ns", ascending=False, kind="stable", ignore_index=True
        ),
        uncounted=uncounted.sort_values(
            "gpu_ns", ascending=False, kind="stable", ignore_index=True
        ),
        devices=devices,
        finding=finding,
        notices=(
            *job.notices_for(chosen),
            *job.lacking(chosen, Recorded.KERNELS, Recorded.OPERATORS),
            *(() if said_in_finding else merge_notices(notices, name_ranks=len(job.ranks) > 1)),
        ),
    )
