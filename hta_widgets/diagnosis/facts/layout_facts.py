"""Kernels of a rank that only change the layout of images, between channels first and last."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

import numpy as np

from hta_widgets.analyses.time.tensor_cores import is_product
from hta_widgets.intervals import Times
from hta_widgets.trace.ranks.gpu_work import GpuWork

_LAYOUT: Final = re.compile(
    r"\bnc(d?)hwTo(?:Folded)?n\1hwc|\bn(d?)hwcToNc\2hw|\bbatched_transpose_\d+x\d+_", re.IGNORECASE
)
"""Of cuDNN, which says what it converts, and of MIOpen, which transposes the last two of three
dimensions with these around its convolutions."""

_CHANNELS_LAST: Final = re.compile(r"nd?hwc", re.IGNORECASE)


class LayoutRow(NamedTuple):
    """Kernels of one name, how often they run, and for how long."""

    name: str
    times: int
    total_ns: int


class LayoutFacts(NamedTuple):
    """Kernels that convert between NCHW and NHWC.

    Attributes
    ----------
    total_ns : ndarray of int64
        Time of each computing kernel if it is one of these.
    channels_last_ns : int
        Time of the convolutions whose kernels are named after NHWC: what they are converted for.
    rows : tuple of LayoutRow
        Longest first.
    """

    total_ns: Times
    channels_last_ns: int
    rows: tuple[LayoutRow, ...]


def layout_facts(kernels: GpuWork) -> LayoutFacts:
    """Find the conversions of layouts among the computing kernels of a rank, by their names.

    Examples
    --------
    ``void cudnn::ops::nchwToNhwcKernel<float, …>(…)`` and ``batched_transpose_64x16_pack_4x1_half``
    are some; ``sm80_xmma_fprop_implicit_gemm_…_nhwckrsc_nhwc_…`` is a convolution.
    """
    codes, place = np.unique(kernels.name, return_inverse=True)
    names = [kernels.names[code] for code in codes.tolist()]
    converts = np.array([bool(_LAYOUT.search(name)) for name in names], dtype=bool)
    is_last = [bool(_CHANNELS_LAST.search(name)) and is_product(name) for name in names]
    by_name = np.bincount(place, kernels.duration_ns, minlength=codes.size).astype(np.int64)
    times = np.bincount(place, minlength=codes.size)
    rows = [
        LayoutRow(names[each], int(times[each]), int(by_name[each]))
        for each in np.flatnonzero(converts).tolist()
    ]
    return LayoutFacts(
        total_ns=np.where(converts[place], kernels.duration_ns, 0),
        channels_last_ns=int(by_name[~converts & np.array(is_last, dtype=bool)].sum()),
        rows=tuple(sorted(rows, key=lambda row: -row.total_ns)),
    )
