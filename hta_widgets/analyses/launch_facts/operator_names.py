"""The innermost operator of each call of a rank."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hta_widgets.analyses.time.calls import calls_of, nearest_at_or_above
from hta_widgets.trace.model.events import Kind
from hta_widgets.trace.ranks.rank import Rank


def operator_names(rank: Rank) -> NDArray[np.int64]:
    """Code of the name of the innermost operator at or around each call, by place, -1 for none.

    The last value is -1 as well, for place -1.
    """
    calls = calls_of(rank)
    operator = nearest_at_or_above(calls.forest, calls.kind == Kind.CPU_OP)
    names = np.append(calls.name.astype(np.int64), -1)
    return np.append(names[operator], -1)
