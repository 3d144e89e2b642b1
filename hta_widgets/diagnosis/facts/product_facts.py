"""Products of matrices of one rank that do not use the tensor cores of its GPU."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hta_widgets.analyses.roofline.formulas import COMPUTING, PRODUCTS, REFUSED, formula_of
from hta_widgets.analyses.roofline.peaks import GIGA, TERA, Peak
from hta_widgets.analyses.roofline.shapes import Inputs, inputs_of
from hta_widgets.analyses.time.tensor_cores import (
    FP32,
    TENSOR_CORES,
    TensorCores,
    is_product,
    tensor_cores,
)
from hta_widgets.arrays import Mask
from hta_widgets.diagnosis.facts.gpus import Gpu
from hta_widgets.diagnosis.facts.kernel_facts import UNKNOWN, shape_codes
from hta_widgets.diagnosis.facts.operators_of_kernels import Operators, operators_of, time_by_module
from hta_widgets.grouping import grouped
from hta_widgets.intervals import Times
from hta_widgets.trace.ranks.gpu_work import GpuWork
from hta_widgets.trace.ranks.rank import Rank

MULTIPLE: Final = 8
"""Tensor cores of the first generations need dimensions of 16 bits that are multiples of this."""

MOST_LISTED: Final = 5

_HALF: Final = re.compile(r"fp16_sgemm|(?<![a-z])hgemm")
"""Products of numbers with 16 bits."""

HALF_TYPES: Final = ("fp16", "bf16")

_ABOVE_PEAK: Final = 1.1
"""What is faster than the peak of float32 by more than this contradicts its shapes."""


class ProductRow(NamedTuple):
    """Kernels of one name, shape and kind, how often they run, and for how long."""

    name: str
    shapes: str
    type: str
    times: int
    total_ns: int


class ProductFacts(NamedTuple):
    """Kernels without tensor cores that multiply matrices or convolve.

    Attributes
    ----------
    is_product : ndarray of bool
        Which of the computing kernels do so, with or without tensor cores.
    plain_ns, half_ns, saved_ns : ndarray of int64
        Of each computing kernel: its time if it does so without tensor cores, if it does so with
        types of 16 bits, and what tensor cores would save of it.
    uneven_ns : int
        Part of ``half_ns`` in which a dimension is no multiple of `MULTIPLE`.
    uneven : str
        The most frequent such dimension, as text; empty if there is none.
    rows : tuple of ProductRow
        Those with most time.
    modules : dict of str to int
        ``plain_ns`` by module, see `time_by_module`.
    """

    is_product: Mask
    plain_ns: Times
    half_ns: Times
    saved_ns: Times
    uneven_ns: int
    uneven: str
    rows: tuple[ProductRow, ...]
    modules: dict[str, int]

    def without_columns(self) -> ProductFacts:
        """The same without the columns of each kernel."""
        nothing = np.zeros(0, dtype=np.int64)
        return self._replace(
            is_product=nothing > 0, plain_ns=nothing, half_ns=nothing, saved_ns=nothing
        )


class Kind(NamedTuple):
    """What is known of an operator by its shapes and types; 0 or empty where it is not."""

    type: str = ""
    flop: int = 0
    bytes: int = 0
    uneven: str = ""


def product_facts(rank: Rank, kernels: GpuWork, gpu: Gpu) -> ProductFacts:
    """Find the products of a rank that do not use tensor cores.

    Parameters
    ----------
    rank : Rank
    kernels : GpuWork
        Those that compute.
    gpu : Gpu
    """
    products, plain = _named(kernels)
    chosen = np.flatnonzero(plain)
    if not chosen.size:
        nothing = np.zeros(len(kernels), dtype=np.int64)
        return ProductFacts(products, nothing, nothing, nothing, 0, "", (), {})
    work = kernels.take(chosen)
    operators = operators_of(rank, work, COMPUTING.get)
    kinds = [kind_of_operator(*each) for each in operators.kinds]
    is_half = np.array([each.type in HALF_TYPES for each in kinds])[operators.kind]
    is_half |= _matches(work, _HALF)
    others = [bool(each.type) and each.type not in ("fp32", *HALF_TYPES) for each in kinds]
    counts = ~np.array(others)[operators.kind]
    plain_ns = work.duration_ns * counts
    uneven_ns, uneven = _uneven(plain_ns * is_half, operators, kinds)

    def in_all(values: Times) -> Times:
        every = np.zeros(len(kernels), dtype=np.int64)
        every[chosen] = values
        return every

    return ProductFacts(
        products,
        plain_ns=in_all(plain_ns),
        half_ns=in_all(plain_ns * is_half),
        saved_ns=in_all(_saved_ns(work, operators, kinds, gpu) * counts),
        uneven_ns=uneven_ns,
        uneven=uneven,
        rows=_rows(rank, work, np.where(is_half, "16 bits", "float32"), counts),
        modules=time_by_module(rank, operators.place, plain_ns),
    )


def _named(work: GpuWork) -> tuple[Mask, Mask]:
    """Which kernels are products, and which of them use no tensor cores, by their names.

    Examples
    --------
    ``ampere_sgemm_32x32_sliced1x4_tn`` uses none, and
    ``cutlass_80_tensorop_s1688tf32gemm_128x128_16x4_nt_align4`` does.
    """
    used, place = np.unique(work.name, return_inverse=True)
    names = [work.names[code] for code in used.tolist()]
    products = np.array([is_product(name) for name in names], dtype=bool)
    plain = np.array([_is_plain(name) for name in names], dtype=bool)
    return products[place], (products & plain)[place]


def _is_plain(name: str) -> bool:
    return bool(FP32.search(name) or _HALF.search(name)) and not TENSOR_CORES.search(name)


def _matches(work: GpuWork, pattern: re.Pattern[str]) -> Mask:
    used, place = np.unique(work.name, return_inverse=True)
    return np.array([bool(pattern.search(work.names[code])) for code in used.tolist()])[place]


def least_ns_of(kind: Kind, kernel: str, peak: Peak) -> float:
    """What a product takes at the peak of its type and of the memory; 0 if it is not known."""
    is_tf32 = kind.type == "fp32" and tensor_cores(kernel) is TensorCores.YES
    rate = peak.tflops.get("tf32" if is_tf32 else kind.type, 0.0)
    if not (kind.flop and rate):
        return 0.0
    return 1e9 * max(kind.flop / (rate * TERA), kind.bytes / (peak.gb_per_s * GIGA))


def kind_of_operator(name: str, dims: str, types: str) -> Kind:
    """What is known of an operator."""
    formula = formula_of(name)
    if formula is None or not dims.strip("[] \n"):
        return Kind()
    inputs = inputs_of(dims, types)
    try:
        cost = formula(inputs)
    except REFUSED:
        first = next((each for each in inputs.tensors if each is not None), None)
        return Kind(first.dtype if first is not None else "")
    return Kind(cost.dtype, cost.flop, cost.bytes, _uneven_size(name, inputs))


def _uneven_size(name: str, inputs: Inputs) -> str:
    """The first dimension of a product's matrices that is no multiple of `MULTIPLE`."""
    if name not in PRODUCTS:
        return ""
    matrices = [each for each in inputs.tensors if each is not None and len(each.shape) > 1]
    sizes = [size for each in matrices for size in each.shape[-2:]]
    return next((str(size) for size in sizes if size % MULTIPLE), "")


def _saved_ns(work: GpuWork, operators: Operators, kinds: list[Kind], gpu: Gpu) -> Times:
    """What tensor cores save of each kernel: all but what their peak and the memory take.

    All kernels of a call are one product. Shapes that would make it faster than the peak of float32
    are not believed, and then only the peaks count.
    """
    calls, which = np.unique(operators.place, return_inverse=True)
    call_ns = np.bincount(which, work.duration_ns)
    kind = np.zeros(calls.size, dtype=np.int64)
    kind[which] = operators.kind
    at_peak = call_ns / gpu.faster
    left_ns = at_peak
    peak = gpu.peak
    if peak is not None and "fp32" in peak.tflops:
        flop = np.array([each.flop for each in kinds], dtype=np.float64)[kind]
        moved = np.array([each.bytes for each in kinds], dtype=np.float64)[kind]
        bytes_ns = moved / (peak.gb_per_s * GIGA) * 1e9
        is_believed = flop * 1e9 <= _ABOVE_PEAK * peak.tflops["fp32"] * TERA * call_ns
        left_ns = np.where(is_believed, np.clip(bytes_ns, at_peak, call_ns), at_peak)
    left_ns = np.where(calls < 0, at_peak, left_ns)
    saved = 1 - left_ns / np.maximum(call_ns, 1)
    return (work.duration_ns * saved[which]).astype(np.int64)


def _uneven(half_ns: Times, operators: Operators, kinds: list[Kind]) -> tuple[int, str]:
    by_kind = np.bincount(operators.kind, half_ns, minlength=len(kinds))
    by_size: dict[str, int] = {}
    for each, ns in zip(kinds, by_kind.tolist(), strict=True):
        if each.uneven:
            by_size[each.uneven] = by_size.get(each.uneven, 0) + int(ns)
    most = max(by_size, key=lambda size: by_size[size], default="")
    whole_ns = sum(by_size.values())
    return whole_ns, most if whole_ns else ""


def _rows(
    rank: Rank, work: GpuWork, types: NDArray[np.str_], counts: Mask
) -> tuple[ProductRow, ...]:
    chosen = np.flatnonzero(counts)
    shapes, texts = shape_codes(rank, work)
    alike = grouped(work.name[chosen], shapes[chosen])
    totals = alike.reduce(np.add, work.duration_ns[chosen])
    rows = []
    for group in np.argsort(-totals, kind="stable")[:MOST_LISTED].tolist():
        first = int(chosen[alike.first[group]])
        shape = "" if shapes[first] == UNKNOWN else texts[shapes[first]]
        name, size = work.names[work.name[first]], int(alike.sizes[group])
        rows.append(ProductRow(name, shape, str(types[first]), size, int(totals[group])))
    return tuple(rows)
