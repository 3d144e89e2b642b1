"""Figure of the steps of an inference server, by phase."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import numpy as np
import pandas as pd

from hta_widgets.analyses.server_steps import SERVED_PHASES
from hta_widgets.figures.base.drawing import Drawing, PlotlyTrace, selecting, trace
from hta_widgets.figures.base.style import SERVED_COLORS, axis, drawing, faded_but
from hta_widgets.figures.base.text import hover_name
from hta_widgets.quantities import TimeUnit, counted, duration, time_unit

_HEIGHT: Final = 220
_GAP: Final = 0.2
_WIDEST: Final = 8  # with fewer steps, bars are as wide as with this many


def served_steps(
    steps: pd.DataFrame, *, phase: str = "", selected: Collection[int] = ()
) -> Drawing:
    """Draw the length of each step of `ServerStepTable.steps`, in the colour of its phase.

    The length of a step that several ranks have is their mean; a click selects the step. Steps of
    another phase, and steps that are not selected, are faded.
    """
    unit = time_unit(float(steps["period_ns"].max())) if len(steps) else time_unit(0.0)
    numbers = sorted({*steps["step"].tolist()})
    width = min(1 - _GAP, len(numbers) / _WIDEST)
    return drawing(
        [
            _bars(own, name, unit, phase, selected) | {"width": width}
            for name in SERVED_PHASES
            if len(own := steps[steps["phase"] == name])
        ],
        barmode="overlay",
        height=_HEIGHT,
        showlegend=True,
        meta={"wide": False},
        yaxis=axis(f"Step on the GPU ({unit.symbol})", rangemode="tozero"),
        xaxis=axis(
            "Step",
            range=[min(numbers, default=0) - 0.5, max(numbers, default=0) + 0.5],
            showgrid=False,
            **({"tickvals": numbers} if len(numbers) <= _WIDEST else {}),
        ),
    )


def _bars(
    own: pd.DataFrame, name: str, unit: TimeUnit, phase: str, selected: Collection[int]
) -> PlotlyTrace:
    by_step = own.groupby("step").agg(
        period_ns=("period_ns", "mean"), ranks=("rank", "size"), label=("label", "first")
    )
    numbers, times = by_step.index.to_numpy(), by_step["period_ns"].to_numpy()
    chosen = np.isin(numbers, [*(selected or numbers)]) & (phase in ("", name))
    return trace(
        "bar",
        name=name,
        x=numbers,
        y=times / unit.ns,
        marker={"color": SERVED_COLORS[name]},
        hovertext=[
            f"{name} step {step}: {duration(ns)}{_of_ranks(ranks)}<br>{hover_name(label)}"
            for step, ns, ranks, label in zip(
                numbers.tolist(), times.tolist(), by_step["ranks"], by_step["label"], strict=True
            )
        ],
        **selecting("steps", numbers.tolist()),
        **({} if chosen.all() else faded_but(np.flatnonzero(chosen).tolist())),
    )


def _of_ranks(ranks: int) -> str:
    return f", mean of {counted(ranks, 'rank')}" if ranks > 1 else ""
