"""Figure of the operators that take the most of some time, by phase."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd

from hta_widgets.analyses.operators.operator_calls import collectives_in
from hta_widgets.analyses.time.modules import PHASES, SEPARATOR
from hta_widgets.arrays import Int64Array
from hta_widgets.figures.base.drawing import Drawing, PlotlyTrace, objects
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
    bars = _Bars(sums.reset_index(), collectives, shown, whole_ns, unit.ns)
    chosen = [place for place, item in enumerate(bars.items) if selected.has(*item)]
    traces = [
        bars.of_phase(name, times) | emphasis(chosen)
        for name, times in zip(PHASES, by_phase, strict=True)
        if times.any()
    ]
    return rows_drawing(
        traces,
        bars.labels(),
        axis(f"{shown.title} ({unit.symbol})", rangemode="tozero"),
        barmode="stack",
    )


class _Bars:
    """Bars of some operators, the longest first."""

    def __init__(
        self,
        rows: pd.DataFrame,
        collectives: list[str],
        shown: Weight,
        whole_ns: int,
        scale: float,
    ) -> None:
        self.names: list[str] = rows["operator"].tolist()
        by = ["operator", *(["input_dims"] if "input_dims" in rows else [])]
        self.select = SELECT_BY_SHAPE if "input_dims" in rows else SELECT_BY_NAME
        self.items: list[list[str]] = rows[by].to_numpy(dtype=object).tolist()
        self.collectives = collectives
        self.details = _details(rows)
        self.short_details = _short_details(rows)
        self.calls: list[int] = rows["calls"].tolist()
        self.totals: list[int] = rows[shown.column].tolist()
        self.shown = shown
        self.whole_ns = whole_ns
        self.scale = scale

    def labels(self) -> list[str]:
        """Names, extended so that different rows have different labels."""
        short = distinct_names(self.names, _NAME_WIDTH)
        parts = zip(self.names, short, self.collectives, self.short_details, strict=True)
        return plot_names([_label(*each) for each in parts], _LABEL_WIDTH)

    def of_phase(self, phase: str, times: Int64Array) -> PlotlyTrace:
        """The bars of one phase."""
        return row_bars(
            times / self.scale,
            [self._hover(place, phase, ns) for place, ns in enumerate(times.tolist())],
            name=phase.capitalize(),
            marker={"color": PHASE_COLORS[phase]},
            customdata=objects(self.items),
            meta=self.select,
        )

    def _hover(self, place: int, phase: str, ns: int) -> str:
        about = (self.collectives[place], self.details[place])
        details = "".join(f"<br>{hover_name(each)}" for each in about if each)
        whole = f"{percent(100 * self.totals[place] / self.whole_ns)} of " if self.whole_ns else ""
        return (
            f"{hover_name(self.names[place])}{details}<br>{phase.capitalize()}: {duration(ns)}"
            f"<br>All phases: {duration(self.totals[place])} in "
            f"{counted(self.calls[place], 'call')}, {whole}{duration(self.whole_ns)} "
            f"{self.shown.noun}"
        )


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
        return [" ‹ ".join(reversed(path.split(SEPARATOR))) for path in rows["path"].tolist()]
    if "input_dims" not in rows:
        return [""] * len(rows)
    texts = zip(rows["input_dims"].tolist(), rows["input_types"].tolist(), strict=True)
    short = [f"{_shapes(dims)} {_types(types)}".strip() for dims, types in texts]
    seen = Counter(zip(rows["operator"].tolist(), short, strict=True))
    return [
        whole if seen[name, text] > 1 else text
        for name, text, whole in zip(rows["operator"], short, _details(rows), strict=True)
    ]


def _types(types: str) -> str:
    """The distinct types of tensors, without their namespaces.

    Examples
    --------
    >>> _types('["c10::BFloat16", "c10::BFloat16", "Scalar", ""]')
    'BFloat16'
    """
    names = dict.fromkeys(text.rpartition("::")[2] for text in _TEXT.findall(types))
    return ", ".join(name for name in names if name not in ("Scalar", ""))


def _shapes(dims: str) -> str:
    """Shapes as they are written by hand.

    Examples
    --------
    >>> _shapes("[[64, 128], [128, 512], []]")
    '64×128, 128×512'
    """
    found = [re.sub(", ?", "×", shape) for shape in _SHAPE.findall(dims)]
    return ", ".join(found) if found else dims
