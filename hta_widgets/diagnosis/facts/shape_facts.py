"""Matrix products that are slower than other products of the same rank show they could be.

How fast a product can be depends on its size, its type and the GPU. Smaller products of the same
rank measure it: what is smaller in every dimension has less to reuse and fewer blocks for the
multiprocessors, so it is faster only because its sizes fit. In a recommendation job on an A100,
products with a dimension of 1705 reach 28 TFLOP/s, and those of 1300 73 TFLOP/s. If no large one
fits, the peak of the GPU is the measure: on an H200, 8192 × 4097 × 4097 reaches 13 to 15 % of it,
and 8192 × 4096 × 4096 80 to 83 %.

Large products keep a GPU as busy as it can be, whatever their shape, so one that is slower than its
sisters has a kernel that does not suit it: prompts of a server on an MI300X spend half of their
time in a product of 457 TFLOP/s, whose three sisters reach 543 to 629.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hta_widgets.analyses.roofline.formulas import REFUSED, inputs_of
from hta_widgets.analyses.roofline.peaks import TERA, Peak
from hta_widgets.analyses.time.calls import Calls
from hta_widgets.arrays import Float64Array, Int64Array, Mask
from hta_widgets.diagnosis.facts.kernel_facts import operators_of
from hta_widgets.intervals import Times
from hta_widgets.trace.ranks.gpu_work import GpuWork

ALIGNED_BYTES: Final = 16
"""Tensor cores are fed with loads of this size, which rows that are not aligned to it prevent."""

SLOWER: Final = 1.5
"""A product is slow if it takes this many times as long as its size and the best rate of smaller
ones that fit suggest. Of 156 products that fit, in seven real jobs, 4 do, and of 67 others 23."""

ABOVE_PEAK: Final = 1.1
"""A rate above the peak by more than this factor contradicts the shapes."""

USUAL_OF_PEAK: Final = 0.5
"""Share of the peak that large 16-bit products whose sizes fit usually reach, or more: 0.6 to 0.83
on an H100 and an H200, 0.42 to 0.48 on an MI300X."""

LARGE: Final = 1024
"""Smallest of the three sizes from which a product keeps all multiprocessors busy."""

FEWEST_LARGE: Final = 3
"""Fewest shapes of large products that show the usual rate, including the slow one."""

FEWEST_CALLS: Final = 3
"""Fewest calls of a shape that show how long it usually takes: one may be interrupted."""

LEAST_OF_TIME: Final = 0.02
"""Share of the compute time that a shape needs for its rate to count."""

LEAST_SLOW: Final = 0.1
"""Share of the compute time from which a slow sister is worth reporting."""

SLOW_SISTER: Final = 0.85
"""A sister is slow below this share of the median rate of the others. Sisters differ by 7 % in
prompts on an MI300X, and the slow one is at 0.78."""

_BYTES: Final = {"fp16": 2, "bf16": 2, "fp32": 4}
"""Bytes of an element by type; float32 is multiplied as TF32."""

_PLACES: Final = {"aten::mm": 0, "aten::addmm": 1, "aten::bmm": 0, "aten::baddbmm": 1}
"""Index of the first matrix among the inputs."""

MOST_LISTED: Final = 5


class Product(NamedTuple):
    """A product of two matrices, or of batches of them."""

    type: str
    sizes: tuple[int, int, int, int]
    """Number of products, rows and columns of the output, and the size that is summed."""

    @property
    def multiple(self) -> int:
        """The number that its sizes should be a multiple of."""
        return ALIGNED_BYTES // _BYTES[self.type]

    @property
    def uneven(self) -> int:
        """The first of its sizes that is not such a multiple, 0 if all are."""
        _, rows, columns, summed = self.sizes
        return next((size for size in (summed, columns, rows) if size % self.multiple), 0)

    @property
    def flop(self) -> int:
        """Number of floating-point operations."""
        return 2 * prod(self.sizes)

    @property
    def padded_flop(self) -> int:
        """The same with its sizes rounded up to such multiples."""
        batch, *sizes = self.sizes
        return 2 * batch * prod(-(-size // self.multiple) * self.multiple for size in sizes)


class ShapeRow(NamedTuple):
    """Products of one shape, the rate (FLOP/s) that they reach, and that of others.

    The others are smaller products that fit, or what such products usually reach on the GPU; for a
    product that fits, the median of its sisters.
    """

    operator: str
    product: Product
    times: int
    total_ns: int
    rate: float
    others_rate: float
    of_peak: bool
    """Whether the rate of others is not in the recording, but `USUAL_OF_PEAK` of the GPU's peak."""


class ShapeFacts(NamedTuple):
    """Products that are slow because of their sizes or kernels."""

    total_ns: Times
    saved_ns: Times
    """For each computing kernel: its time if it belongs to one of these, and how much of it is
    saved at the rate of the others, with sizes rounded up if they do not fit."""
    rows: tuple[ShapeRow, ...] = ()
    """Those that take the most time."""


def shape_facts(calls: Calls, kernels: GpuWork, plain: Mask, peak: Peak | None) -> ShapeFacts:
    """Find the products of a rank, among its computing kernels, that are slow for their sizes.

    ``plain`` marks kernels that multiply without tensor cores, and are slow for that reason.
    """
    nothing = np.zeros(len(kernels), dtype=np.int64)
    operators = operators_of(calls, kernels, _PLACES.__contains__)
    known = [_product(*each) for each in operators.kinds]
    if not any(known):
        return ShapeFacts(nothing, nothing)
    # For each shape, an index into `known`: its time, and how often it is called.
    size = len(known)
    total_ns = np.bincount(operators.kind, kernels.duration_ns, minlength=size)
    _, first, call = np.unique(operators.place, return_index=True, return_inverse=True)
    kind_of_call, call_ns = operators.kind[first], np.bincount(call, kernels.duration_ns)
    times = np.bincount(kind_of_call, minlength=size)
    # The shapes to compare, by `places`; kernels without tensor cores have another reason.
    is_plain = np.bincount(operators.kind, plain, minlength=size) > 0
    places = [
        place
        for place, each in enumerate(known)
        if each is not None and total_ns[place] and not is_plain[place]
    ]
    products = [each for place in places if (each := known[place]) is not None]
    flop = np.array([each.flop for each in products], dtype=np.float64)
    rates = 1e9 * flop * times[places] / total_ns[places]
    peaks = _peaks(products, peak)
    believed = np.where(rates > ABOVE_PEAK * peaks, 0, rates)
    share = total_ns[places] / max(int(kernels.duration_ns.sum()), 1)
    padded = np.array([each.padded_flop for each in products], dtype=np.float64)
    # What does not fit is compared, as if it was padded, with smaller ones that do; what fits, with
    # the other large ones, by medians, as one call may be interrupted.
    smaller, is_of_peak = _fitting(products, believed, USUAL_OF_PEAK * peaks)
    usual_ns = _medians(call_ns, kind_of_call, places)
    usual = np.where(times[places] >= FEWEST_CALLS, 1e9 * flop / np.maximum(usual_ns, 1), 0)
    sisters = _sisters(products, np.where(believed > 0, usual, 0), share)
    is_uneven = smaller * flop >= SLOWER * rates * padded
    others = np.where(is_uneven, smaller, sisters)
    # Then back to all shapes, and from these to their kernels.
    as_long = np.ones(len(products))  # share of their time now, at the rate of the others
    slow = np.flatnonzero(others > 0)
    as_long[slow] = rates[slow] / others[slow] * np.where(is_uneven, padded / flop, 1)[slow]
    left = np.ones(size)
    left[places] = as_long
    rows = [
        ShapeRow(
            operators.kinds[places[each]][0],
            products[each],
            int(times[places[each]]),
            int(total_ns[places[each]]),
            float(rates[each]),
            float(others[each]),
            bool(is_uneven[each] and is_of_peak[each]),
        )
        for each in slow.tolist()
    ]
    of_kernels = left[operators.kind]
    return ShapeFacts(
        total_ns=np.where(of_kernels < 1, kernels.duration_ns, 0),
        saved_ns=(kernels.duration_ns * (1 - of_kernels)).astype(np.int64),
        rows=tuple(sorted(rows, key=lambda row: -row.total_ns)[:MOST_LISTED]),
    )


@lru_cache(maxsize=4096)
def _product(name: str, dims: str, types: str) -> Product | None:
    """The product that an operator computes; None if its shapes do not show it."""
    if name not in _PLACES or not dims.strip("[] \n"):
        return None
    try:
        inputs, place = inputs_of(dims, types), _PLACES[name]
        left, right = inputs.tensor(place), inputs.tensor(place + 1)
        *batch, rows, summed = left.shape
        *_, inner, columns = right.shape
        kind = left.dtype
    except REFUSED:
        return None
    if kind not in _BYTES or inner != summed or not prod(left.shape) * columns:
        return None
    return Product(kind, (prod(batch), rows, columns, summed))


def _peaks(products: list[Product], peak: Peak | None) -> Float64Array:
    """Peak of the GPU (FLOP/s) in the type of each product; NaN if not known."""
    known = {} if peak is None else peak.tflops
    most = {"fp32": known.get("tf32", np.nan)}
    peaks = [most.get(each.type, known.get(each.type, np.nan)) for each in products]
    return TERA * np.array(peaks, float)


def _medians(values: NDArray[Any], group: Int64Array, wanted: list[int]) -> Float64Array:
    """The median of the values of each wanted group; none is empty."""
    order = np.lexsort((values, group))
    first, end = (np.searchsorted(group, wanted, side, sorter=order) for side in ("left", "right"))
    middle = values[order][np.stack(((first + end - 1) // 2, (first + end) // 2))]
    return np.asarray(middle.mean(axis=0))


def _fitting(
    products: list[Product], rates: Float64Array, usual: Float64Array
) -> tuple[Float64Array, Mask]:
    """The best rate of products that fit and are smaller in all sizes, for those that do not fit.

    And whether it is the usual rate instead, for large 16-bit products if no smaller one is large.
    Not every kernel that multiplies float32 as float32 says so: it has no usual rate.
    """
    types = np.unique([each.type for each in products], return_inverse=True)[1]
    sizes: Int64Array = np.array([each.sizes for each in products], dtype=np.int64)
    fits = np.array([not each.uneven for each in products], dtype=np.bool_)
    large = np.array([min(each.sizes[1:]) >= LARGE for each in products], dtype=np.bool_)
    found, is_usual = np.zeros(len(products)), np.zeros(len(products), dtype=np.bool_)
    for place in np.flatnonzero(~fits).tolist():
        smaller = (sizes <= sizes[place]).all(axis=1) & fits & (types == types[place]) & (rates > 0)
        found[place] = rates[smaller].max(initial=0.0)
        is_alone = large[place] and not large[smaller].any() and products[place].type != "fp32"
        if is_alone and usual[place] > found[place]:
            found[place], is_usual[place] = usual[place], True
    return found, is_usual


def _sisters(products: list[Product], rates: Float64Array, share: Float64Array) -> Float64Array:
    """The median rate of the other large products, for those that are slower; 0 for all others."""
    types = np.unique([each.type for each in products], return_inverse=True)[1]
    is_large = [min(each.sizes[1:]) >= LARGE and not each.uneven for each in products]
    counts = np.array(is_large, dtype=np.bool_) & (share >= LEAST_OF_TIME) & (rates > 0)
    found = np.zeros(len(products))
    for place in np.flatnonzero(counts & (share >= LEAST_SLOW)).tolist():
        same = np.flatnonzero(counts & (types == types[place]))
        if len({products[each].sizes for each in same.tolist()}) < FEWEST_LARGE:
            continue
        usual = float(np.median(rates[same[same != place]]))
        if rates[place] < SLOW_SISTER * usual:
            found[place] = usual
    return found
