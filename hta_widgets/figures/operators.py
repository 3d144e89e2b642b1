"""Figure of the operators that take the most of some time, by phase."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd

from hta_widgets.analyses.operators.operator_calls import collectives_in
from hta_widgets.analyses.time.modules import PHASES, SEPARATOR
from hta_widgets.figures.base.drawing import Drawing
from hta_widgets.figures.base.style import PHASE_COLORS, axis, emphasis, row_bars, rows_drawing
from hta_widgets.figures.base.text import hover_name, plot_names
from hta_widgets.figures.selected_operators import (
    NO_OPERATORS,
    SELECT_BY_NAME,
    SELECT_BY_SHAPE,
    SelectedOperators,
)
from hta_widgets.names.shorten import distinct_names
from hta_widgets.quantities import counted, duration, percent, time_unit

_NAME_WIDTH: Final = 40
_LABEL_WIDTH: Final = 72
_TEXT: Final = re.compile(r'"([^"]*)"')
_SHAPE: Final = re.compile(r"\[(\d+(?:, ?\d+)*)\]")


class Weight(NamedTuple):
    """A time of operators that the bars can show."""

    column: str
    title: str
    noun: str


WEIGHTS: Final = {
    "gpu": Weight("gpu_self_ns", "Self GPU time", "GPU time"),
    "cpu": Weight("cpu_self_ns", "Self CPU time", "CPU time"),
    "idle": Weight("idle_ns", "GPU idle time caused", "idle time"),
}


def operators(
    table: pd.DataFrame,
    whole_ns: int,
    *,
    weight: str = "gpu",
    num_operators: int = 15,
    selected: SelectedOperators = NO_OPERATORS,
) -> Drawing:
    """Draw the operators of an `OperatorTable` with the most of some time, summed over the ranks.

    The time is one of `WEIGHTS`; hover texts give its share of `whole_ns`.
    """
    shown = WEIGHTS[weight]
    keys = [key for key in ("operator", "input_dims", "input_types", "path") if key in table]
    sums = table.groupby(keys, sort=False)[[shown.column, "calls"]].sum()
    sums = sums.sort_values(shown.column, ascending=False, kind="stable")
    sums = sums[sums[shown.column] > 0].iloc[:num_operators]
    position = pd.Series(np.arange(len(sums)), index=sums.index, dtype=np.int64)
    rows = table.join(position.rename("position"), on=keys, how="inner")
    named = rows[rows["collectives"] != ""]
    collectives = [collectives_in(named[named["position"] == at]) for at in range(len(sums))]
    by_phase = np.zeros((len(PHASES), len(sums)), dtype=np.int64)
    phase = pd.Index(PHASES).get_indexer(pd.Index(rows["phase"]))
    np.add.at(by_phase, (phase, rows["position"].to_numpy()), rows[shown.column].to_numpy())
    unit = time_unit(float(sums[shown.column].max())) if len(sums) else time_unit(0.0)
    sums = sums.reset_index()
    items = sums[[key for key in ("operator", "input_dims") if key in sums]].to_numpy(dtype=object)
    texts = [*zip(_heads(sums, collectives), _totals(sums, shown, whole_ns), strict=True)]
    traces = [
        row_bars(
            times / unit.ns,
            [
                f"{head}<br>{name.capitalize()}: {duration(ns)}<br>{total}"
                for (head, total), ns in zip(texts, times.tolist(), strict=True)
            ],
            name=name.capitalize(),
            marker={"color": PHASE_COLORS[name]},
            customdata=items,
            meta=SELECT_BY_SHAPE if "input_dims" in sums else SELECT_BY_NAME,
            **emphasis([place for place, item in enumerate(items) if selected.has(*item)]),
        )
        for name, times in zip(PHASES, by_phase, strict=True)
        if times.any()
    ]
    return rows_drawing(
        traces,
        _labels(sums, collectives),
        axis(f"{shown.title} ({unit.symbol})", rangemode="tozero"),
        barmode="stack",
    )


def _labels(rows: pd.DataFrame, collectives: list[str]) -> list[str]:
    """Names, extended so that different rows have different labels."""
    names = rows["operator"].tolist()
    short = distinct_names(names, _NAME_WIDTH)
    parts = zip(names, short, collectives, _short_details(rows), strict=True)
    return plot_names([_label(*each) for each in parts], _LABEL_WIDTH)


def _heads(rows: pd.DataFrame, collectives: list[str]) -> list[str]:
    """What each row is, for hover texts."""
    about = zip(rows["operator"].tolist(), collectives, _details(rows), strict=True)
    return ["<br>".join(hover_name(each) for each in lines if each) for lines in about]


def _totals(rows: pd.DataFrame, shown: Weight, whole_ns: int) -> list[str]:
    """The time of each row in all phases, for hover texts."""
    whole = f"{duration(whole_ns)} {shown.noun}"
    return [
        f"All phases: {duration(ns)} in {counted(calls, 'call')}, "
        f"{f'{percent(100 * ns / whole_ns)} of ' if whole_ns else ''}{whole}"
        for ns, calls in zip(rows[shown.column].tolist(), rows["calls"].tolist(), strict=True)
    ]


def _label(name: str, short: str, *details: str) -> str:
    given = [detail for detail in details if detail]
    return " · ".join([short, *given]) if given else name


def _details(rows: pd.DataFrame) -> list[str]:
    if "path" in rows:
        return rows["path"].tolist()
    if "input_dims" in rows:
        texts: Any = zip(rows["input_dims"].tolist(), rows["input_types"].tolist(), strict=True)
        return [" ".join(text for text in both if text) for both in texts]
    return [""] * len(rows)


def _short_details(rows: pd.DataFrame) -> list[str]:
    """What tells rows of one name apart, the most important first."""
    if "path" in rows:
        short = _frames_apart(rows)
    elif "input_dims" in rows:
        texts = zip(rows["input_dims"].tolist(), rows["input_types"].tolist(), strict=True)
        short = [f"{_shapes(dims)} {_types(types)}".strip() for dims, types in texts]
    else:
        return [""] * len(rows)
    seen = Counter(zip(rows["operator"].tolist(), short, strict=True))
    return [
        whole if seen[name, text] > 1 else text
        for name, text, whole in zip(rows["operator"], short, _details(rows), strict=True)
    ]


def _frames_apart(rows: pd.DataFrame) -> list[str]:
    """The frames of each row, the innermost first, without those of all rows of its operator."""
    names = rows["operator"].tolist()
    paths = [path.split(SEPARATOR) for path in rows["path"].tolist()]
    shared: dict[str, set[str]] = {}
    for name, path in zip(names, paths, strict=True):
        shared[name] = shared.get(name, {*path}) & {*path}
    return [
        " ‹ ".join(reversed([frame for frame in path if frame not in shared[name]] or path))
        for name, path in zip(names, paths, strict=True)
    ]


def _types(types: str) -> str:
    """The distinct types of tensors, without their namespaces; those of other values have capitals.

    Examples
    --------
    >>> _types('["c10::BFloat16", "c10::BFloat16", "float", "Scalar", "GenericList", ""]')
    'BFloat16, float'
    """
    of_tensors = [text for text in _TEXT.findall(types) if "::" in text or text[:1].islower()]
    return ", ".join(dict.fromkeys(text.rpartition("::")[2] for text in of_tensors))


def _shapes(dims: str) -> str:
    """Shapes as they are written by hand.

    Examples
    --------
    >>> _shapes("[[64, 128], [128, 512], []]")
    '64×128, 128×512'
    """
    found = [re.sub(", ?", "×", shape) for shape in _SHAPE.findall(dims)]
    return ", ".join(found) if found else dims
