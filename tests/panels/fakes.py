"""A panel over a job without files, with made-up results; and messages as a page sends them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ipywidgets
import numpy as np
import pandas as pd
import pytest
from ipywidgets.widgets import widget as ipywidgets_widget
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


def arrive(widget: ipywidgets.Widget, state: Any, **more: Any) -> None:
    """What ipykernel does with a message of the browser."""
    data = {"method": "update", "state": state, "buffer_paths": [], **more}
    widget._handle_msg({"content": {"data": data}, "buffers": [b"x"]})


def ask(widget: ipywidgets.Widget, content: Any) -> None:
    """What ipykernel does with a custom message of the browser."""
    data = {"method": "custom", "content": content}
    widget._handle_msg({"content": {"data": data}, "buffers": []})


def take_wrapper_off(patch: pytest.MonkeyPatch) -> list[tuple[ipywidgets.Widget, dict[str, Any]]]:
    """Let what a message handler raises out, and what is sent fail if it is not JSON in UTF-8.

    ipywidgets 7.7 and 8 catch both in `_show_traceback` and in `CallbackDispatcher`, and hand it to
    the shell, or log it where there is none.

    Returns
    -------
    list of (Widget, dict)
        What widgets send from now on.
    """

    class Shell:
        def showtraceback(self) -> None:
            raise  # noqa: PLE0704  # it is called where an exception is handled

    sent = []

    def send(widget: ipywidgets.Widget, message: dict[str, Any], buffers: Any = None) -> None:  # noqa: ARG001
        json.dumps(message, allow_nan=False, ensure_ascii=False).encode()
        sent.append((widget, message))

    patch.setattr(ipywidgets_widget, "get_ipython", Shell)
    patch.setattr(ipywidgets.Widget, "_send", send)
    return sent
