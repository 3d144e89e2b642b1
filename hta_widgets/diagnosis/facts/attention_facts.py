"""Attention of one rank that is not fused: a product, a softmax and a product, each a kernel."""

from __future__ import annotations

from collections import defaultdict
from math import prod
from typing import Final, NamedTuple

import numpy as np

from hta_widgets.analyses.roofline.shapes import Shape, inputs_of
from hta_widgets.arrays import Int64Array, Mask
from hta_widgets.diagnosis.facts.operators_of_kernels import Operators, operators_of, time_by_module
from hta_widgets.intervals import Times
from hta_widgets.trace.ranks.gpu_work import GpuWork
from hta_widgets.trace.ranks.rank import Rank

SOFTMAX: Final = "aten::_softmax"
BACKWARD: Final = "aten::_softmax_backward_data"
MATH: Final = "aten::_scaled_dot_product_attention_math"
"""What scaled_dot_product_attention calls where it finds no fused kernel."""

_PRODUCTS: Final = {"aten::bmm": 0, "aten::baddbmm": 1}
"""Place of the first matrix among the inputs."""

_MADE: Final = "made"
"""A product has just computed the scores."""

_MATRICES: Final = 2
_FEWEST_DIMENSIONS: Final = 3


class Scores(NamedTuple):
    """Sizes of the scores of attention, each a number for a query and a key.

    Attributes
    ----------
    elements : int
    queries, keys : int
    """

    elements: int
    queries: int
    keys: int


class AttentionRow(NamedTuple):
    """Scores of one size, how often they are computed, and the time of the kernels on them."""

    scores: Scores
    times: int
    products_ns: int
    others_ns: int


class AttentionFacts(NamedTuple):
    """Kernels that compute, write or read the scores of unfused attention.

    Attributes
    ----------
    total_ns, others_ns : ndarray of int64
        Time of each computing kernel if it is one of these, and if it is no product: a fused kernel
        does at most what the products do.
    is_math : bool
        Whether they run in `MATH`.
    rows : tuple of AttentionRow
        Longest first.
    modules : dict of str to int
        ``total_ns`` by module, see `time_by_module`.
    """

    total_ns: Times
    others_ns: Times
    is_math: bool = False
    rows: tuple[AttentionRow, ...] = ()
    modules: dict[str, int] = {}  # noqa: RUF012  # never changed


class _Kind(NamedTuple):
    """Which scores an operator touches.

    Attributes
    ----------
    name : str
    makes, takes : Scores or None
        Of a product: its output, and its first input; of a softmax, its input.
    width : int
        Of a product: size of the dimension that is summed.
    touches : frozenset of Scores
        Of all of its inputs, and the output of a product; with queries and keys in both orders.
    """

    name: str
    makes: Scores | None
    takes: Scores | None
    width: int
    touches: frozenset[Scores]


def attention_facts(rank: Rank, kernels: GpuWork) -> AttentionFacts:
    """Find the unfused attention of a rank by the shapes of its operators.

    Attention is proved where a product of batches of matrices is followed by a softmax over its
    output, and this by a product with the outcome, and where there are more keys than a head is
    wide: else the scores are no larger than what a fused kernel reads.

    Parameters
    ----------
    rank : Rank
    kernels : GpuWork
        Those that compute.
    """
    nothing = np.zeros(len(kernels), dtype=np.int64)
    if SOFTMAX not in rank.trace.events.name.values:
        return AttentionFacts(nothing, nothing)
    operators = operators_of(rank, kernels, bool)
    kinds = [_kind(*each) for each in operators.kinds]
    proved = _proved(operators, kinds)
    if not proved.times:
        return AttentionFacts(nothing, nothing)
    scores = np.array([_touched(each, proved.times) for each in kinds])[operators.kind]
    is_product = np.array([each.name in _PRODUCTS for each in kinds])[operators.kind]
    scores[~(is_product | proved.holds(operators.place))] = -1
    total_ns = np.where(scores >= 0, kernels.duration_ns, 0)
    others_ns = np.where(is_product, 0, total_ns)
    is_softmax = np.array([each.name == SOFTMAX for each in kinds])[operators.kind]
    softmax = kernels.take(np.flatnonzero(is_softmax & (scores >= 0)))
    in_math = operators_of(rank, softmax, MATH.__eq__).place
    chosen = np.flatnonzero(scores >= 0)
    return AttentionFacts(
        total_ns=total_ns,
        others_ns=others_ns,
        is_math=bool((in_math >= 0).all()),
        rows=_rows(proved.times, scores, total_ns, others_ns),
        modules=time_by_module(rank, operators.place[chosen], total_ns[chosen]),
    )


def _kind(name: str, dims: str, types: str) -> _Kind:
    if not dims.strip("[] \n"):
        return _Kind(name, None, None, 0, frozenset())
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
    return _Kind(name, makes, takes, width, frozenset(touched | turned))


def _scores(shape: Shape) -> Scores | None:
    if len(shape) < _FEWEST_DIMENSIONS:
        return None
    return Scores(prod(shape), shape[-2], shape[-1])


class _Proved(NamedTuple):
    """Attention that is proved.

    Attributes
    ----------
    times : dict of Scores to int
        How often each is computed.
    starts, ends : list of int
        Places of the products before and after each softmax, of both passes.
    """

    times: dict[Scores, int]
    starts: list[int]
    ends: list[int]

    def holds(self, places: Int64Array) -> Mask:
        """Whether places lie between a product and the next one."""
        after = np.searchsorted(np.sort(self.starts), places)
        return np.asarray(after > np.searchsorted(np.sort(self.ends), places))


def _proved(operators: Operators, kinds: list[_Kind]) -> _Proved:
    """Look for attention in the order of places, which is that in which a thread calls."""
    calls, first = np.unique(operators.place, return_index=True)
    tells = np.array([each.name in (*_PRODUCTS, SOFTMAX, BACKWARD) for each in kinds], dtype=bool)
    calls, first = (each[tells[operators.kind[first]]] for each in (calls, first))
    opened: dict[Scores, tuple[int, str]] = {}
    found: list[tuple[Scores, int, int]] = []
    times: dict[Scores, int] = defaultdict(int)
    for at, kind in zip(calls.tolist(), operators.kind[first].tolist(), strict=True):
        each = kinds[kind]
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


def _touched(kind: _Kind, times: dict[Scores, int]) -> int:
    """Position of the scores that an operator touches, -1 for none."""
    return max((place for place, each in enumerate(times) if each in kind.touches), default=-1)


def _rows(
    times: dict[Scores, int], scores: Int64Array, total_ns: Times, others_ns: Times
) -> tuple[AttentionRow, ...]:
    rows = []
    for place, (each, count) in enumerate(times.items()):
        mine = scores == place
        others = int(others_ns[mine].sum())
        rows.append(AttentionRow(each, count, int(total_ns[mine].sum()) - others, others))
    return tuple(sorted(rows, key=lambda row: -(row.products_ns + row.others_ns)))
