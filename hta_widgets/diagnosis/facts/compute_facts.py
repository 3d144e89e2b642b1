"""What the GPU of a rank computes, and how much of it could be saved.

Kernel names show products without tensor cores, layout conversions and unfused chains. Shapes show
unfused attention: a softmax between one batched product and the next, which takes its result.
"""

from __future__ import annotations

import re
from collections import defaultdict
from functools import lru_cache
from math import prod
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hta_widgets.analyses.kernel_sequences import pattern_ids
from hta_widgets.analyses.roofline.formulas import (
    COMPUTING,
    PRODUCTS,
    REFUSED,
    Inputs,
    Shape,
    formula_of,
    inputs_of,
)
from hta_widgets.analyses.roofline.peaks import GIGA, TERA
from hta_widgets.analyses.time.calls import calls_of
from hta_widgets.analyses.time.tensor_cores import ELEMENTWISE, FP32, TENSOR_CORES, is_product
from hta_widgets.analyses.time.window import window_of
from hta_widgets.arrays import Int64Array, IntArray, Mask, narrowed
from hta_widgets.diagnosis.facts.gpus import Gpu, gpu_of
from hta_widgets.diagnosis.facts.kernel_facts import (
    UNKNOWN,
    Operators,
    as_called,
    computing_kernels,
    operators_of,
    shape_codes,
    time_by_module,
)
from hta_widgets.diagnosis.facts.shape_facts import LARGE, USUAL_OF_PEAK, ShapeRow, shape_facts
from hta_widgets.grouping import Groups, grouped, reduce_runs
from hta_widgets.intervals import Times
from hta_widgets.trace.ranks.gpu_work import GpuWork
from hta_widgets.trace.ranks.rank import Rank

MULTIPLE: Final = 8
"""The first generations of tensor cores need 16-bit dimensions that are multiples of this."""


_HALF: Final = re.compile(r"fp16_sgemm|(?<![a-z])hgemm")
"""Products of 16-bit numbers."""

_DOUBLE: Final = re.compile(r"dgemm|d884|f64f64|_DB_")
"""Products of float64, for which some GPUs have tensor cores."""

HALF_TYPES: Final = ("fp16", "bf16")

_ABOVE_PEAK: Final = 1.1
"""A rate above the float32 peak by more than this factor contradicts the shapes."""

SOFTMAX: Final = "aten::_softmax"

BACKWARD: Final = "aten::_softmax_backward_data"

MATH: Final = "aten::_scaled_dot_product_attention_math"
"""What scaled_dot_product_attention calls where it finds no fused kernel."""

_PRODUCTS: Final = {"aten::bmm": 0, "aten::baddbmm": 1}
"""Index of the first matrix among the inputs."""

_MADE: Final = "made"
"""State of scores that a product has just computed."""

_MATRICES: Final = 2

_FEWEST_DIMENSIONS: Final = 3

FEWEST_IN_CHAIN: Final = 3
"""Fewest consecutive elementwise kernels that are worth fusing."""

MOST_FUSED: Final = 10
"""Longer chains work on several tensors, which one kernel cannot read in a single pass."""

FUSED_COST: Final = 1.5
"""A fused kernel reads and writes about as much as 1.5 of the kernels it replaces."""

MOST_LISTED: Final = 5

MOST_CHAINS: Final = 10

MOST_NAMED: Final = 12
"""Most kernels of a chain to name; an optimizer makes chains of hundreds."""

_COMPILED_CODE: Final = re.compile(
    r"^(?:CompiledFunction|## Call CompiledFxGraph|Torch-Compiled Region)"
)
_OF_INDUCTOR: Final = re.compile(r"^triton_")

_REDUCER: Final = re.compile(r"\breducer::")
"""What DDP does to each gradient as it is ready, between the kernels of the backward pass:
``torch::distributed::reducer::mul_out``. No compiler fuses it with them: of chains of 5.5 ms, half
were fused with these only."""

_LAYOUT: Final = re.compile(
    r"\bnc(d?)hwTo(?:Folded)?n\1hwc|\bn(d?)hwcToNc\2hw|\bbatched_transpose_\d+x\d+_", re.IGNORECASE
)
"""Kernels of cuDNN, whose names say what they convert, and of MIOpen, which transposes the last two
of three dimensions with them around its convolutions."""

_CHANNELS_LAST: Final = re.compile(r"nd?hwc", re.IGNORECASE)

_LAYERS_LAST: Final = re.compile(r"(?:pool|batch_?norm)\w*(?:nd?hwc|channels_last)", re.IGNORECASE)
_LAYERS_FIRST: Final = re.compile(
    r"pool_\w*nchw|\bbatch_norm_(?!\w*channels_last)\w*kernel|\bbn_\w*nchw", re.IGNORECASE
)
"""Pooling and batch norm take images in the layout of the program, whatever convolutions choose:
cuDNN converts NHWC images for float32 convolutions that have no kernels for NHWC."""


class ProductRow(NamedTuple):
    """Kernels of one name, shape and kind, how often they run, and for how long."""

    name: str
    shapes: str
    type: str
    times: int
    total_ns: int


class OfKernels(NamedTuple):
    """Time (ns) of each computing kernel by what it does, and how much of it could be saved."""

    taken: dict[str, Times]
    """Columns of `ComputeFacts.taken`; 0 for kernels that do something else."""
    saved: dict[str, Times]
    """Columns of `Savings`."""


class ProductFacts(NamedTuple):
    """Kernels that multiply matrices or convolve, without tensor cores or in float64."""

    convolution_ns: int = 0
    """Time of those that convolve."""
    uneven_ns: int = 0
    """Time of those in 16-bit types with a dimension that is not a multiple of `MULTIPLE`."""
    uneven: str = ""
    """The most frequent such dimension, as text; empty if there is none."""
    rows: tuple[ProductRow, ...] = ()
    """Those that take the most time."""
    names: frozenset[str] = frozenset()
    """Names of all of them."""
    modules: dict[str, int] = {}  # noqa: RUF012  # never changed
    """Their time by module, see `time_by_module`."""


class OperatorCost(NamedTuple):
    """What shapes and types show about an operator; 0 or empty where unknown."""

    type: str = ""
    flop: int = 0
    bytes: int = 0
    uneven: str = ""


def product_facts(rank: Rank, kernels: GpuWork, gpu: Gpu) -> tuple[OfKernels, ProductFacts]:
    """Find the products that use no tensor cores, by the names of their kernels.

    Large products of float64 count too: they would be faster in float32.

    Examples
    --------
    ``ampere_sgemm_32x32_sliced1x4_tn`` uses none, and
    ``cutlass_80_tensorop_s1688tf32gemm_128x128_16x4_nt_align4`` does.
    """
    products = kernels.named(is_product)
    chosen = np.flatnonzero(products & kernels.named(_is_plain))

    def of_all(values: Times) -> Times:
        every = np.zeros(len(kernels), dtype=np.int64)
        every[chosen] = values
        return every

    product_ns = kernels.duration_ns * products
    if not chosen.size:
        nothing = of_all(chosen)
        taken = {"product": product_ns, "plain": nothing, "half": nothing, "double": nothing}
        return OfKernels(taken, {"plain": nothing}), ProductFacts()
    work = kernels.take(chosen)
    operators = operators_of(calls_of(rank), work, COMPUTING.get)
    costs = [operator_cost(*each) for each in operators.kinds]
    is_half = np.array([each.type in HALF_TYPES for each in costs])[operators.kind]
    is_half |= work.named(_HALF.search)
    others = [bool(each.type) and each.type not in ("fp32", *HALF_TYPES) for each in costs]
    saved_ns = _saved_ns(work, operators, costs, gpu)
    is_double = work.named(_DOUBLE.search)
    counts = ~np.array(others)[operators.kind] & ~is_double
    is_double &= np.array([each.type == "fp64" for each in costs])[operators.kind] & (saved_ns > 0)
    counts |= is_double
    convolves = np.array(["convolution" in each[0] for each in operators.kinds])[operators.kind]
    plain_ns = work.duration_ns * counts
    half_ns = plain_ns * is_half
    uneven_ns, uneven = _uneven(half_ns, operators, costs)
    return OfKernels(
        {
            "product": product_ns,
            "plain": of_all(plain_ns),
            "half": of_all(half_ns),
            "double": of_all(plain_ns * is_double),
        },
        {"plain": of_all(saved_ns * counts)},
    ), ProductFacts(
        convolution_ns=int(plain_ns[convolves].sum()),
        uneven_ns=uneven_ns,
        uneven=uneven,
        rows=_product_rows(
            rank,
            work,
            np.where(is_half, "16 bits", np.where(is_double, "float64", "float32")),
            counts,
        ),
        names=frozenset(work.names[code] for code in np.unique(work.name[counts])),
        modules=time_by_module(rank, operators.place, plain_ns),
    )


@lru_cache(maxsize=4096)  # ranks of a job share most names
def _is_plain(name: str) -> bool:
    is_plain = bool(FP32.search(name) or _HALF.search(name)) and not TENSOR_CORES.search(name)
    return is_plain or bool(_DOUBLE.search(name))


@lru_cache(maxsize=4096)
def operator_cost(name: str, dims: str, types: str) -> OperatorCost:
    """What shapes and types show about an operator."""
    formula = formula_of(name)
    if formula is None or not dims.strip("[] \n"):
        return OperatorCost()
    inputs = inputs_of(dims, types)
    try:
        cost = formula(inputs)
    except REFUSED:
        first = next((each for each in inputs.tensors if each is not None), None)
        return OperatorCost(first.dtype if first is not None else "")
    return OperatorCost(cost.dtype, cost.flop, cost.bytes, _uneven_size(name, inputs))


def _uneven_size(name: str, inputs: Inputs) -> str:
    """The first dimension of a product's matrices that is not a multiple of `MULTIPLE`."""
    if name not in PRODUCTS:
        return ""
    matrices = [each for each in inputs.tensors if each is not None and len(each.shape) > 1]
    sizes = [size for each in matrices for size in each.shape[-2:]]
    return next((str(size) for size in sizes if size % MULTIPLE), "")


def _saved_ns(work: GpuWork, operators: Operators, costs: list[OperatorCost], gpu: Gpu) -> Times:
    """Time that tensor cores save of each kernel: all but what their peak and the memory take.

    All kernels of a call are one product. Shapes that would make it faster than the float32 peak
    are not believed; then only the peaks count. Large products of float64 keep the time that they
    usually take in TF32, or in float32 on GPUs without TF32.
    """
    calls, which = np.unique(operators.place, return_inverse=True)
    call_ns = np.bincount(which, work.duration_ns)
    kind = np.zeros(calls.size, dtype=np.int64)
    kind[which] = operators.kind
    at_peak = call_ns / gpu.faster
    left_ns, as_float32 = at_peak, call_ns
    peak = gpu.peak
    if peak is not None and "fp32" in peak.tflops:
        flop = np.array([each.flop for each in costs], dtype=np.float64)[kind]
        moved = np.array([each.bytes for each in costs], dtype=np.float64)[kind]
        bytes_ns = moved / (peak.gb_per_s * GIGA) * 1e9
        is_believed = flop * 1e9 <= _ABOVE_PEAK * peak.tflops["fp32"] * TERA * call_ns
        left_ns = np.where(is_believed, np.clip(bytes_ns, at_peak, call_ns), at_peak)
        rate = USUAL_OF_PEAK * TERA * peak.tflops.get("tf32", peak.tflops["fp32"])
        as_float32 = np.minimum(np.maximum(1e9 * flop / rate, bytes_ns), call_ns)
        as_float32 = np.where(flop < 2 * LARGE**3, call_ns, as_float32)
    is_double = np.array([each.type == "fp64" for each in costs])[kind]
    left_ns = np.where(is_double, as_float32, left_ns)
    left_ns = np.where(calls < 0, at_peak, left_ns)
    saved = 1 - left_ns / np.maximum(call_ns, 1)
    return (work.duration_ns * saved[which]).astype(np.int64)


def _uneven(half_ns: Times, operators: Operators, costs: list[OperatorCost]) -> tuple[int, str]:
    by_kind = np.bincount(operators.kind, half_ns, minlength=len(costs))
    by_size: dict[str, int] = {}
    for each, ns in zip(costs, by_kind.tolist(), strict=True):
        if each.uneven:
            by_size[each.uneven] = by_size.get(each.uneven, 0) + int(ns)
    most = max(by_size, key=lambda size: by_size[size], default="")
    whole_ns = sum(by_size.values())
    return whole_ns, most if whole_ns else ""


def _product_rows(
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


class Scores(NamedTuple):
    """Sizes of attention scores, which have one number for each query and key."""

    elements: int
    queries: int
    keys: int


class AttentionRow(NamedTuple):
    """Scores of one size: how often they are computed, and the time of the kernels on them."""

    scores: Scores
    times: int
    products_ns: int
    others_ns: int


class AttentionFacts(NamedTuple):
    """Kernels that compute, write or read the scores of unfused attention."""

    is_math: bool = False
    """Whether they run in `MATH`."""
    rows: tuple[AttentionRow, ...] = ()
    """Rows by size of scores, longest first."""
    modules: dict[str, int] = {}  # noqa: RUF012  # never changed
    """Their time by module, see `time_by_module`."""


class _ScoreUse(NamedTuple):
    """Which scores an operator touches."""

    name: str
    makes: Scores | None
    takes: Scores | None
    """Output and first input of a product; input of a softmax."""
    width: int
    """Size of the dimension that a product sums over."""
    touches: frozenset[Scores]
    """All inputs, and the output of a product, each with queries and keys in both orders."""


def attention_facts(rank: Rank, kernels: GpuWork) -> tuple[OfKernels, AttentionFacts]:
    """Find the unfused attention among computing kernels by the shapes of their operators.

    A batched product, a softmax over its output and a product with the result prove attention if
    there are more keys than a head is wide: otherwise the scores are no larger than what a fused
    kernel reads. Fused attention takes at most the time of the products; the rest is saved.
    """
    nothing = np.zeros(len(kernels), dtype=np.int64)
    none = OfKernels({"attention": nothing}, {"attention": nothing}), AttentionFacts()
    if SOFTMAX not in rank.trace.events.name.values:
        return none
    operators = operators_of(calls_of(rank), kernels, bool)
    uses = [_score_use(*each) for each in operators.kinds]
    proved = _proved(operators, uses)
    if not proved.times:
        return none
    scores = np.array([_touched(each, proved.times) for each in uses])[operators.kind]
    is_product = np.array([each.name in _PRODUCTS for each in uses])[operators.kind]
    scores[~(is_product | proved.holds(operators.place))] = -1
    total_ns = np.where(scores >= 0, kernels.duration_ns, 0)
    others_ns = np.where(is_product, 0, total_ns)
    is_softmax = np.array([each.name == SOFTMAX for each in uses])[operators.kind]
    softmax = kernels.take(np.flatnonzero(is_softmax & (scores >= 0)))
    in_math = operators_of(calls_of(rank), softmax, MATH.__eq__).place
    chosen = np.flatnonzero(scores >= 0)
    return OfKernels({"attention": total_ns}, {"attention": others_ns}), AttentionFacts(
        is_math=bool((in_math >= 0).all()),
        rows=_attention_rows(proved.times, scores, total_ns, others_ns),
        modules=time_by_module(rank, operators.place[chosen], total_ns[chosen]),
    )


@lru_cache(maxsize=4096)
def _score_use(name: str, dims: str, types: str) -> _ScoreUse:
    if not dims.strip("[] \n"):
        return _ScoreUse(name, None, None, 0, frozenset())
    shapes = [each.shape for each in inputs_of(dims, types).tensors if each is not None]
    touched = {found for shape in shapes if (found := _scores(shape)) is not None}
    makes, width = None, 0
    takes = _scores(shapes[0]) if shapes else None
    first = _PRODUCTS.get(name)
    if first is not None and len(shapes) >= first + _MATRICES:
        left, right = shapes[first], shapes[first + 1]
        takes, width = _scores(left), left[-1]
        makes = _scores((*left[:-1], right[-1]))
        touched |= {makes} if makes is not None else set()
    turned = {each._replace(queries=each.keys, keys=each.queries) for each in touched}
    return _ScoreUse(name, makes, takes, width, frozenset(touched | turned))


def _scores(shape: Shape) -> Scores | None:
    if len(shape) < _FEWEST_DIMENSIONS:
        return None
    return Scores(prod(shape), shape[-2], shape[-1])


class _Proved(NamedTuple):
    """Proved attention."""

    times: dict[Scores, int]
    """How often the scores of each size are computed."""
    starts: list[int]
    ends: list[int]
    """Places of the products before and after each softmax, in both passes."""

    def holds(self, places: Int64Array) -> Mask:
        """Which places lie between the two products of an attention."""
        after = np.searchsorted(np.sort(self.starts), places)
        return np.asarray(after > np.searchsorted(np.sort(self.ends), places))


def _proved(operators: Operators, uses: list[_ScoreUse]) -> _Proved:
    """Find attention in the order of places, which is the order in which a thread calls."""
    calls, first = np.unique(operators.place, return_index=True)
    tells = np.array([each.name in (*_PRODUCTS, SOFTMAX, BACKWARD) for each in uses], dtype=bool)
    calls, first = (each[tells[operators.kind[first]]] for each in (calls, first))
    opened: dict[Scores, tuple[int, str]] = {}
    found: list[tuple[Scores, int, int]] = []
    times: dict[Scores, int] = defaultdict(int)
    for at, kind in zip(calls.tolist(), operators.kind[first].tolist(), strict=True):
        each = uses[kind]
        if each.name in _PRODUCTS:
            for scores in each.touches:
                start, last = opened.get(scores, (at, ""))
                if last == BACKWARD or (last == SOFTMAX and scores == each.takes):
                    found.append((scores, start, at))
                    times[scores] += last == SOFTMAX
                is_made = scores == each.makes and scores.keys > each.width
                opened[scores] = at, _MADE if is_made else ""
        elif each.takes in opened:
            start, last = opened[each.takes]
            if each.name == BACKWARD or (each.name == SOFTMAX and last == _MADE):
                opened[each.takes] = start, each.name
    proved = {scores: count for scores, count in times.items() if count}
    kept = [(start, end) for scores, start, end in found if scores in proved]
    return _Proved(proved, [start for start, _ in kept], [end for _, end in kept])


def _touched(use: _ScoreUse, times: dict[Scores, int]) -> int:
    """Position of the scores that an operator touches, -1 for none."""
    return max((place for place, each in enumerate(times) if each in use.touches), default=-1)


def _attention_rows(
    times: dict[Scores, int], scores: Int64Array, total_ns: Times, others_ns: Times
) -> tuple[AttentionRow, ...]:
    rows = []
    for place, (each, count) in enumerate(times.items()):
        mine = scores == place
        others = int(others_ns[mine].sum())
        rows.append(AttentionRow(each, count, int(total_ns[mine].sum()) - others, others))
    return tuple(sorted(rows, key=lambda row: -(row.products_ns + row.others_ns)))


class LayoutRow(NamedTuple):
    """Kernels of one name, how often they run, and for how long."""

    name: str
    times: int
    total_ns: int


class LayoutFacts(NamedTuple):
    """Kernels that convert between NCHW and NHWC."""

    channels_last_ns: int
    """Time of the convolutions with NHWC in their kernel names: what images are converted for."""
    layers_last_ns: int
    layers_first_ns: int
    """Time of pooling and batch norm on images in NHWC, and in NCHW, by kernel name: the layout
    that the program uses."""
    rows: tuple[LayoutRow, ...]
    """Rows by kernel name, longest first."""


def layout_facts(kernels: GpuWork) -> tuple[OfKernels, LayoutFacts]:
    """Find the computing kernels that convert layouts, by their names.

    Examples
    --------
    ``void cudnn::ops::nchwToNhwcKernel<float, …>(…)`` and ``batched_transpose_64x16_pack_4x1_half``
    convert; ``sm80_xmma_fprop_implicit_gemm_…_nhwckrsc_nhwc_…`` is a convolution.
    """
    converts = kernels.named(_LAYOUT.search)
    is_last = kernels.named(lambda name: _CHANNELS_LAST.search(name) and is_product(name))
    total_ns = np.where(converts, kernels.duration_ns, 0)
    chosen = np.flatnonzero(converts)
    alike = grouped(kernels.name[chosen])
    sums = alike.reduce(np.add, kernels.duration_ns[chosen]).tolist()
    codes = kernels.name[chosen[alike.first]].tolist()
    rows = map(LayoutRow, map(kernels.names.__getitem__, codes), alike.sizes.tolist(), sums)
    return OfKernels({"layout": total_ns}, {"layout": total_ns}), LayoutFacts(
        channels_last_ns=int(kernels.duration_ns[~converts & is_last].sum()),
        layers_last_ns=int(kernels.duration_ns[kernels.named(_LAYERS_LAST.search)].sum()),
        layers_first_ns=int(kernels.duration_ns[kernels.named(_LAYERS_FIRST.search)].sum()),
        rows=tuple(sorted(rows, key=lambda row: -row.total_ns)),
    )


class ChainRow(NamedTuple):
    """Chains of the same kernels in the same order."""

    names: tuple[str, ...]
    """The first kernels, in order; a run of equal kernels is one entry."""
    kernels: int
    """Number of kernels in each chain."""
    times: int
    """How often the chain runs."""
    total_ns: int
    saved_ns: int
    """Time of all runs, and how much of it fused kernels would save."""


class Savings(NamedTuple):
    """Time (ns) that kernels of a rank could save, a row for each kernel that could."""

    row: IntArray
    """Rows in the events of the rank, ascending."""
    columns: dict[str, IntArray]
    """Saved with tensor cores (``plain``); fused with neighbours (``chains``); in fused attention
    (``attention``); in one layout of images (``layout``); in products whose sizes fit
    (``shape``)."""

    @classmethod
    def of(cls, kernels: GpuWork, columns: dict[str, Times]) -> Savings:
        """Keep the kernels that save something, from columns with a value for every kernel."""
        chosen = np.flatnonzero(np.bitwise_or.reduce([*columns.values()]))
        chosen = chosen[np.argsort(kernels.rows[chosen], kind="stable")]
        kept = {name: narrowed(each[chosen]) for name, each in columns.items()}
        return cls(narrowed(kernels.rows[chosen]), kept)

    def of_rows(self, column: str, rows: Int64Array) -> Times:
        """Values of a column at some rows, 0 where nothing is saved."""
        if not self.row.size:
            return np.zeros(rows.size, dtype=np.int64)
        at = np.minimum(np.searchsorted(self.row, rows), self.row.size - 1)
        return np.where(self.row[at] == rows, self.columns[column][at], np.int64(0))


class ComputeFacts(NamedTuple):
    """What the computing kernels of one rank do in each step, and what they could save."""

    step: Int64Array
    """Numbers of the analysed ProfilerSteps, ascending."""
    taken: dict[str, Times]
    """Time (ns) of each step in matrix products and convolutions (``product``), of these without
    tensor cores or in float64 (``plain``), and of the latter in 16-bit types (``half``) and in
    float64 (``double``); in elementwise kernels (``elementwise``), of these in chains that could be
    fused (``chains``), and in compiled code that fuses none (``compiled``); in unfused attention
    (``attention``); in kernels that convert images between NCHW and NHWC (``layout``); in products
    that are slow because their sizes do not fit (``shape``)."""
    saved: dict[str, Times]
    """Columns of `Savings`, summed over the kernels of each step. Elementwise kernels of unfused
    attention save nothing as ``chains``."""
    savings: Savings
    gpu: Gpu
    products: ProductFacts
    attention: AttentionFacts
    layout: LayoutFacts
    shapes: tuple[ShapeRow, ...]
    """Products that are slow because of their sizes, those that take the most time."""
    chains: tuple[ChainRow, ...]
    """Those that take the most time."""


def compute_facts(rank: Rank) -> ComputeFacts:
    """Collect what the computing kernels of a rank do."""
    kernels, window = computing_kernels(rank), window_of(rank)
    numbers, place = np.unique(window.steps, return_inverse=True)
    step = place[window.step_of(rank, kernels)]
    gpu = gpu_of(rank.trace.metadata, rank.gpu_work.main_device)
    elementwise = kernels.named(ELEMENTWISE.search)
    fusable = elementwise & ~_launched_in(rank, kernels, calls_of(rank).named(_REDUCER.search))
    chains, different = _chains(kernels, step, fusable)
    caller, called = as_called(rank, kernels)
    of_products, products = product_facts(caller, called, gpu)
    of_attention, attention = attention_facts(caller, called)
    of_layout, layout = layout_facts(kernels)
    shapes = shape_facts(calls_of(caller), called, of_products.taken["plain"] > 0, gpu.peak)
    fused = np.repeat(np.minimum(different, MOST_FUSED), chains.sizes)
    rows = chains.order
    chains_ns = np.zeros(len(kernels), dtype=np.int64)
    chains_ns[rows] = kernels.duration_ns[rows] * (1 - FUSED_COST / fused)
    chains_ns[of_attention.taken["attention"] > 0] = 0
    taken = {
        "elementwise": kernels.duration_ns * elementwise,
        "chains": kernels.duration_ns * (chains_ns > 0),
        "compiled": kernels.duration_ns * (elementwise & _are_left_by_compiler(rank, kernels)),
        "shape": shapes.total_ns,
    }
    saved = {"chains": chains_ns, "shape": shapes.saved_ns}
    for each in (of_products, of_attention, of_layout):
        taken |= each.taken
        saved |= each.saved

    def in_steps(columns: dict[str, Times]) -> dict[str, Times]:
        sums = {name: np.bincount(step, ns, numbers.size) for name, ns in columns.items()}
        return {name: ns.astype(np.int64) for name, ns in sums.items()}

    return ComputeFacts(
        step=numbers.astype(np.int64),
        taken=in_steps(taken),
        saved=in_steps(saved),
        savings=Savings.of(kernels, saved),
        gpu=gpu,
        products=products,
        attention=attention,
        layout=layout,
        shapes=shapes.rows,
        chains=_largest_chains(kernels, chains, chains_ns),
    )


def _are_left_by_compiler(rank: Rank, kernels: GpuWork) -> Mask:
    """Which kernels compiled code launches, if its compiler fuses none.

    In one job, CUDA graphs in compiled functions launched 61 of 110 ms of elementwise kernels, and
    the diagnosis asked why these ran outside compiled functions.
    """
    compiled = calls_of(rank).named(_COMPILED_CODE.search)
    if kernels.named(_OF_INDUCTOR.search).any():
        compiled = np.zeros_like(compiled)
    return _launched_in(rank, kernels, compiled)


def _launched_in(rank: Rank, kernels: GpuWork, chosen: Mask) -> Mask:
    """Which kernels are launched in some calls."""
    found = np.zeros(len(kernels), dtype=np.bool_)
    if chosen.any():
        calls, launched = calls_of(rank), np.flatnonzero(kernels.launch >= 0)
        places = calls.places_of(kernels.launch[launched])
        found[launched] = calls.forest.at_or_below(chosen)[places]
    return found


def _chains(work: GpuWork, step: Int64Array, elementwise: Mask) -> tuple[Groups, Int64Array]:
    """Runs of consecutive elementwise kernels in a stream and step, with enough different ones.

    And how many kernels of each differ from the one before: equal ones work on other tensors.
    """
    order = np.lexsort((work.start_ns, work.stream))
    runs, name = Groups.in_order(order, work.stream, step, elementwise), work.name[order]
    changes = np.diff(name, prepend=name[:1]) != 0
    changes[runs.edges[:-1]] = True
    different = reduce_runs(np.add, changes.astype(np.int64), runs.edges[:-1])
    chosen = elementwise[runs.first] & (different >= FEWEST_IN_CHAIN)
    rows = order[np.repeat(chosen, runs.sizes)]
    edges = np.concatenate(([0], np.cumsum(runs.sizes[chosen])))
    return Groups(rows, edges), different[chosen]


def _largest_chains(work: GpuWork, runs: Groups, saved_ns: Times) -> tuple[ChainRow, ...]:
    """Chains with equal kernels as one row, those that take the most time."""
    if not runs.order.size:
        return ()
    sums_ns = [runs.reduce(np.add, each) for each in (work.duration_ns, saved_ns)]
    names = work.name[runs.order].astype(np.int64)
    alike = grouped(pattern_ids(np.zeros(runs.sizes.size, np.int32), names, runs.sizes))
    total_ns, less_ns = (alike.reduce(np.add, each) for each in sums_ns)
    rows = []
    for place in np.argsort(-total_ns, kind="stable")[:MOST_CHAINS].tolist():
        chain = int(alike.first[place])
        codes = names[runs.edges[chain] : runs.edges[chain + 1]]
        different = codes[np.diff(codes, prepend=-1) != 0][:MOST_NAMED].tolist()
        rows.append(
            ChainRow(
                names=tuple(work.names[code] for code in different),
                kernels=codes.size,
                times=int(alike.sizes[place]),
                total_ns=int(total_ns[place]),
                saved_ns=int(less_ns[place]),
            )
        )
    return tuple(rows)
