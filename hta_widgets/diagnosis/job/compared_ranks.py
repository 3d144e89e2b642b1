"""The ranks that a diagnosis compares: those of which the same time is analysed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from hta_widgets.analyses.time.window import NO_STEP
from hta_widgets.diagnosis.facts.step_facts import Columns


def compared_ranks(by_rank: Mapping[int, Columns]) -> tuple[int, ...]:
    """Ranks with GPU work that have a step in common, most of them if not all have one.

    A rank without ProfilerSteps is analysed as a whole, and the others without their last step:
    beside them, it would seem to compute longer. Where all ranks have steps, and no two of them the
    same, the steps are numbered differently, and all are compared as recordings.

    Parameters
    ----------
    by_rank : mapping of int to dict
        `step_facts` of each rank.

    Examples
    --------
    >>> import numpy as np
    >>> steps = {0: [3, 4], 1: [3, 4], 2: [-1], 3: []}
    >>> compared_ranks({rank: {"step": np.array(each)} for rank, each in steps.items()})
    (0, 1)
    """
    sets = {rank: {*facts["step"].tolist()} for rank, facts in by_rank.items()}
    busy = {rank: numbers for rank, numbers in sets.items() if numbers}
    having = Counter(number for numbers in busy.values() for number in numbers)
    if not having or (having.most_common(1)[0][1] == 1 and NO_STEP not in having):
        return tuple(busy)
    common = max(having, key=lambda number: (having[number], number))
    return tuple(rank for rank, numbers in busy.items() if common in numbers)
