"""A panel over a job without files: what it analyses is made up, and counted."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from traitlets import Bool, Float, Int, List

from hta_widgets.analyses.result import Result
from hta_widgets.errors import HtaWidgetsError
from hta_widgets.figures.base.drawing import Drawing, trace
from hta_widgets.panels import Panel
from hta_widgets.panels.base.controls import Picker, Slider, Toggle
from hta_widgets.trace.job import Job
from hta_widgets.trace.ranks.source import RankSource

EVIL = "<img src=x onerror=alert(1)>"


def fake_job(ranks: int = 4, name: str = "fake") -> Job:
    return Job({rank: RankSource(Path(f"rank-{rank}.json")) for rank in range(ranks)}, name=name)


@dataclass(frozen=True, kw_only=True, eq=False)
class FakeResult(Result):
    bars: pd.DataFrame


class FakePanel(Panel[FakeResult]):
    title = "Fake"
    follows = ("kernel",)

    bars = Int(3, min=1).tag(sync=True, control=Slider("Bars", max=100))
    ratio = Float(0.8, min=0, max=1).tag(sync=True, control=Slider("Ratio", step=0.01))
    named = Bool(True).tag(sync=True, control=Toggle("Names"))

    runs = 0

    def analyse(self, ranks):
        self.runs += 1
        chosen = self.job.select_ranks(ranks)
        if self.ratio == 0.13:
            msg = "13 brings bad luck; choose another ratio"
            raise HtaWidgetsError(msg)
        if self.ratio == 0.66:
            msg = "a mistake of ours"
            raise KeyError(msg)
        names = [EVIL if self.named else str(bar) for bar in range(self.bars)]
        bars = pd.DataFrame({"name": names, "sum_ns": np.arange(self.bars) * 1_000_000})
        return FakeResult(
            bars=bars, finding=f"{self.bars} bars on {len(chosen)} ranks.", notices=("made up",)
        )

    def draw(self, result):  # noqa: ARG002
        ranks = self.job.ranks
        bar = trace(
            "bar",
            x=np.arange(len(ranks)),
            y=np.full(len(ranks), self.bars, dtype=float),
            customdata=[[rank] for rank in ranks],
            meta={"select": "ranks"},
        )
        return {"Bars": Drawing([bar], {"height": 300})}

    def tabulate(self, result):
        return result.bars

    def nothing_to_show(self, result):  # noqa: ARG002
        return "No bars at a ratio of 0." if self.ratio == 0 else None


STREAMS = Picker("Streams", "stream", lambda _: [7, 9, 20])


class StreamsPanel(FakePanel):
    streams = List(Int()).tag(sync=True, control=STREAMS)


def send(panel: Panel, **state) -> dict:
    """What the browser does when the user moves something: values and a number, then a view."""
    panel.set_state({**state, "_req": panel._req + 1})
    return panel._view
