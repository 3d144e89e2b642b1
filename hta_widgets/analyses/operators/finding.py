"""What the times of operators mean, in a sentence."""

from __future__ import annotations

from typing import Final

import pandas as pd

from hta_widgets.analyses.operators.communication import collectives_in
from hta_widgets.analyses.time.rows import of_largest_sum
from hta_widgets.names.shorten import short_name
from hta_widgets.quantities import counted, duration, percent

UNATTRIBUTED_WORTH_SAYING: Final = 0.1
"""Share of the GPU time from which the part without an operator is in the sentence."""

NAME_WIDTH: Final = 60

_UNATTRIBUTED: Final = {
    "launch_not_recorded_ns": "has no recorded launch",
    "outside_operators_ns": "was launched outside operators",
}


def operators_finding(
    operators: pd.DataFrame, launch_calls: pd.DataFrame, ranks: pd.DataFrame, place: str
) -> str:
    """Sentence on the operator with most GPU time, or most CPU time where there is none."""
    listed = operators if len(operators) else launch_calls
    if listed.empty:
        return f"No operators or launch calls were recorded {place}."
    on_gpu = bool(listed["gpu_self_ns"].any())
    time, where = ("gpu_self_ns", "GPU") if on_gpu else ("cpu_self_ns", "CPU")
    whole_ns = int(ranks["gpu_ns"].sum() if on_gpu else listed[time].sum())
    if not whole_ns:
        return ""
    of_name = listed[of_largest_sum(listed["operator"], listed[time])]
    name, own_ns = str(of_name["operator"].iloc[0]), int(of_name[time].sum())
    calls = int(of_name["calls"].sum())
    began = f" in {counted(calls, 'call')}" if calls else ""
    which = collectives_in(of_name)
    most = (
        f"{short_name(name, NAME_WIDTH)}{f' ({which})' * bool(which)} takes the most: "
        f"{duration(own_ns)} "
        f"({percent(100 * own_ns / whole_ns)}){began}"
    )
    others = _unattributed(ranks, whole_ns) if on_gpu and len(operators) else []
    clauses = [text for _, text in others]
    largest = max((ns for ns, _ in others), default=0)
    said = [*clauses, most] if largest > own_ns else [most, *clauses]
    return f"Of {duration(whole_ns)} of {where} time, {'; '.join(said)}."


def _unattributed(ranks: pd.DataFrame, gpu_ns: int) -> list[tuple[int, str]]:
    """GPU time (ns) that no operator is known to have launched, with what is said of it."""
    times = [(int(ranks[name].sum()), said) for name, said in _UNATTRIBUTED.items()]
    return [
        (ns, f"{percent(100 * ns / gpu_ns)} {said}")
        for ns, said in times
        if ns >= UNATTRIBUTED_WORTH_SAYING * gpu_ns
    ]
