"""What the first steps of a job prepare: idle and computing time that its other steps do not need.

More work is no preparation: a longer batch, or a validation that later steps repeat.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hta_widgets.diagnosis.context import Context
from hta_widgets.diagnosis.facts.kernel_facts import LikeKernelFacts, like_kernel_facts
from hta_widgets.diagnosis.job.steps import Matrix

ALIKE: Final = 0.9
"""A step runs the kernels of another one if it launches this part of them, as large."""

_NOT_PREPARING: Final = ("gap_loader", "gap_profiler", "gap_depend")
_SETTING_UP: Final = ("gap_init", "gap_alloc")


def preparing_idle_ns(context: Context, count: int) -> Matrix:
    """Idle time of the first steps that prepares, by rank and step.

    That in calls that set up or allocate, and while code is loaded, above the median of the later
    steps; and of the rest what no later step has, nor its usual idle time would be with as many
    kernels. The step that follows the first ones is not asked, as it may prepare, too.
    """
    steps = context.steps
    rest = steps["idle"] - sum(steps[name] for name in (*_NOT_PREPARING, *_SETTING_UP))
    sets_up = np.asarray(sum(steps[name] for name in (*_SETTING_UP, "loading_code")))
    later = rest[:, count + 1 :] if rest.shape[1] > count + 1 else rest[:, count:]
    more_kernels = steps["kernels"][:, :count] / np.maximum(_usual(steps["kernels"], count), 1)
    usual = np.maximum(_usual(rest, count) * more_kernels, later.max(axis=1, keepdims=True))
    above = np.maximum(rest[:, :count] - usual, 0)
    return np.asarray(above + np.maximum(sets_up[:, :count] - _usual(sets_up, count), 0))


def preparing_compute_ns(context: Context, count: int) -> Matrix:
    """Computing time of the first steps that prepares, by rank and step.

    By how much the same kernels with the same work take longer than later, and kernels that no
    later step runs: where the work is known to be that of a later step, and at most by how much
    the step computes longer, or what runs once.
    """
    steps = context.steps
    facts = context.job.reduce(like_kernel_facts, steps.ranks)
    rows = [_of_rank(facts[rank], steps.numbers, count) for rank in steps.ranks]
    found = np.array(rows, dtype=np.float64).reshape(len(rows), count)
    above = np.maximum(steps["compute"][:, :count] - _usual(steps["compute"], count), 0)
    return np.asarray(np.minimum(found, np.maximum(above, steps["once"][:, :count])))


def _usual(matrix: Matrix, count: int) -> Matrix:
    return np.asarray(np.median(matrix[:, count:], axis=1, keepdims=True))


def _of_rank(facts: LikeKernelFacts, numbers: Sequence[int], count: int) -> NDArray[np.float64]:
    table = pd.DataFrame(
        {
            "key": facts.key,
            "kind": facts.kind,
            "step": facts.step,
            "counts": facts.counts,
            "ns": facts.total_ns / facts.counts,
            "is_sized": np.isfinite(facts.size),
        }
    )
    later = table[table["step"].isin(numbers[count:])]
    first = [table[table["step"] == number].set_index("key") for number in numbers[:count]]
    return np.array([_more_ns(each, later) for each in first])


def _more_ns(first: pd.DataFrame, later: pd.DataFrame) -> float:
    """What kernels of a first step take that prepares; 0 if no later step does the same work."""
    there = first["counts"].reindex(later["key"], fill_value=0).to_numpy()
    counts, step = later["counts"], later["step"]
    part = np.minimum(there, counts).groupby(step).sum() / counts.groupby(step).sum()
    like = later[step.isin(part.index[part >= ALIKE])]
    if like.empty:
        return 0.0
    usual_ns = like.groupby("key")["ns"].median()
    same = first[first.index.isin(usual_ns.index) & first["is_sized"]]
    slower = (same["counts"] * (same["ns"] - usual_ns.reindex(same.index))).sum()
    once = first[~first["kind"].isin(later["kind"])]
    return max(float(slower), 0.0) + float((once["counts"] * once["ns"]).sum())
