"""The operators of one rank, summed by what tells their rows apart."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hta_widgets.analyses.operators.communication import UNKNOWN
from hta_widgets.analyses.operators.grouped_calls import (
    OPERATION,
    CallGroups,
    RowsBy,
    grouped_calls,
)
from hta_widgets.analyses.operators.operator_calls import RankTotals, listed_calls
from hta_widgets.analyses.operators.shapes import SHAPES, shapes_of
from hta_widgets.analyses.operators.stacks import stacks_of
from hta_widgets.analyses.time.calls import calls_of
from hta_widgets.analyses.time.collectives.operations import OPERATIONS
from hta_widgets.analyses.time.excerpt import Excerpt
from hta_widgets.analyses.time.modules import PHASES
from hta_widgets.analyses.time.rows import texts_at
from hta_widgets.trace.ranks.rank import Rank

if TYPE_CHECKING:
    from pandas.api.extensions import ExtensionArray as Texts

_TIMES: Final = ("cpu_self_ns", "cpu_total_ns", "gpu_self_ns", "gpu_total_ns", "gpu_work")

MAY_USE_TENSOR_CORES: Final = re.compile(
    r"^aten::_?_?(scaled_mm|(add)?(mm|bmm|mv)|baddbmm|addr|matmul|linear|einsum"
    r"|(cudnn|miopen|mkldnn|thnn|slow)?_?conv(?!ert)\w*|chain_matmul|linalg_multi_dot"
    r"|(scaled_dot_product|flash|efficient)\w*attention\w*|\w*(lstm|gru|rnn_tanh|rnn_relu)\w*)$"
)
"""Operators that multiply matrices or convolve."""


class OperatorRows(NamedTuple):
    """Rows of one rank.

    Attributes
    ----------
    table : DataFrame
        As `OperatorTable.operators`.
    are_operators : bool
        Whether the rows are operators, or else calls that launch GPU work.
    totals : RankTotals
    has_shapes, has_frames : bool
        Whether these were recorded.
    """

    table: pd.DataFrame
    are_operators: bool
    totals: RankTotals
    has_shapes: bool
    has_frames: bool


def operator_rows(
    rank: Rank, excerpt: Excerpt | None, by: RowsBy, modules: tuple[str, ...] = ()
) -> OperatorRows:
    """The operators of a rank in some of its time, of all modules if none is named."""
    listed = listed_calls(rank)
    parts, totals = grouped_calls(rank, excerpt, by, modules)
    keys = ["name", "phase"] if by == "name" else [key for key in parts.keys if key != OPERATION]
    groups = (parts if keys == [*parts.keys] else parts.by(*keys)).longest_first()
    return OperatorRows(
        table=_table(rank, groups, by, _collectives(parts, groups)),
        are_operators=listed.are_operators,
        totals=totals,
        has_shapes=any(shapes_of(rank)[SHAPES[0]].texts),
        has_frames=calls_of(rank).has_frames or (by == "stack" and any(stacks_of(rank).texts)),
    )


def _collectives(parts: CallGroups, groups: CallGroups) -> NDArray[np.object_]:
    """What each group communicates, that with most GPU time first."""
    texts = np.full(groups.sums.calls.size, "", dtype=object)
    if OPERATION not in parts.keys:
        return texts
    keys, sums = parts.by(*groups.keys, OPERATION)
    known = np.flatnonzero(keys[OPERATION] != UNKNOWN)
    known = known[np.lexsort((-sums.calls[known], -sums.gpu_self_ns[known]))]
    found: dict[tuple[int, ...], list[str]] = {}
    for *key, operation in zip(*(codes[known].tolist() for codes in keys.values()), strict=True):
        found.setdefault((*key,), []).append(OPERATIONS[operation])
    every = zip(*(codes.tolist() for codes in groups.keys.values()), strict=True)
    texts[:] = [", ".join(found.get(key, ())) for key in every]
    return texts


def _table(
    rank: Rank, groups: CallGroups, by: RowsBy, collectives: NDArray[np.object_]
) -> pd.DataFrame:
    sums, keys = groups.sums, groups.keys
    known_ns = sums.tensor_core_ns + sums.no_tensor_core_ns
    names, of_rows = np.unique(keys["name"], return_inverse=True)
    operators = [rank.trace.events.name.values[code] for code in names.tolist()]
    may_use = np.array([_may_use_tensor_cores(name) for name in operators], dtype=np.bool_)
    columns: dict[str, Any] = {
        "rank": np.full(of_rows.size, rank.trace.rank),
        "operator": texts_at(operators, of_rows),
        "collectives": collectives,
        "phase": texts_at(PHASES, keys["phase"]),
        "calls": sums.calls,
        **{name: getattr(sums, name) for name in _TIMES},
        "kernels_per_call": _ratio(sums.kernels, sums.calls),
        "tensor_core_ns": sums.tensor_core_ns,
        "tensor_core_percent": 100 * _ratio(sums.tensor_core_ns, known_ns),
        "eligible": may_use[of_rows] | (known_ns > 0),
        "backward_gpu_ns": sums.backward_gpu_ns,
        "idle_ns": sums.idle_ns,
    }
    if by == "shape":
        for name, each in shapes_of(rank).items():
            codes, of_rows = np.unique(keys[name], return_inverse=True)
            columns[name] = texts_at([each.texts[code] for code in codes.tolist()], of_rows)
    if by == "stack":
        columns["path"] = rank.remember(_paths).take(keys["path"])
    return pd.DataFrame(columns)


@lru_cache(maxsize=1 << 16)
def _may_use_tensor_cores(operator: str) -> bool:
    return MAY_USE_TENSOR_CORES.search(operator) is not None


def _paths(rank: Rank) -> Texts:
    """All stacks as a column: their texts are long."""
    return pd.Series([*stacks_of(rank).texts]).array


def _ratio(part: NDArray[np.int64], whole: NDArray[np.int64]) -> NDArray[np.float64]:
    return part / np.where(whole != 0, whole, np.nan)
