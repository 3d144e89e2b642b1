"""What panels draw is what plotly would send of it, and plotly knows every attribute."""

from __future__ import annotations

import json
from base64 import b64decode

import numpy as np
import pytest

from hta_widgets.figures.base.drawing import Drawing, trace
from hta_widgets.figures.base.style import drawing
from hta_widgets.panels import ComparePanel, CuptiCountersPanel
from hta_widgets.panels.base.panel import Panel
from hta_widgets.panels.dashboard import PANELS
from hta_widgets.trace.job import Job
from tests.analyses.generated_jobs import open_job
from tests.analyses.test_cupti_counters import measured
from tests.kineto_text import call, host


def drawn(panel: Panel) -> list[dict]:
    return spelled_out(panel._view["figures"])


def by_plotly(panel: Panel) -> list[dict]:
    figures = []
    for name, figure in panel.figures.items():
        content = spelled_out(json.loads(figure.to_json()))
        content["layout"].pop("template")
        figures.append({"name": name, **content})
    return figures


def spelled_out(content):
    """The same with lists for arrays, which panels and plotly 6 send as bytes, and plotly 5 not."""
    if isinstance(content, list):
        return [spelled_out(each) for each in content]
    if not isinstance(content, dict):
        return content
    if "bdata" not in content:
        return {key: spelled_out(value) for key, value in content.items()}
    numbers = np.frombuffer(b64decode(content["bdata"]), content["dtype"])
    shape = [int(size) for size in content.get("shape", str(numbers.size)).split(",")]
    known = np.where(np.isfinite(numbers), numbers.astype(object), None)
    return known.reshape(shape).tolist()


def steps(panel: Panel):
    """Each value of each control, but only the ends of sliders."""
    for control in panel._spec["controls"]:
        name = control["name"]
        before = getattr(panel, name)
        values = []
        if control["kind"] == "slider":
            values = [type(before)(control[end]) for end in ("min", "max")]
        elif control["kind"] == "choice":
            values = [value for _, value in control["options"]]
        elif control["kind"] == "toggle":
            values = [False, True]
        for value in values:
            setattr(panel, name, value)
            yield
        setattr(panel, name, before)


@pytest.mark.parametrize("name", sorted(PANELS.keys() - {"cupti_counters"}))
def test_a_panel_sends_what_plotly_would(loaded: Job, name):
    panel = PANELS[name](loaded)
    kernels = panel.result.every_kernel["name"] if name == "kernel_breakdown" else [""]
    for ranks in ([1, 2], []):
        with panel.selection.hold_trait_notifications():
            panel.selection.ranks, panel.selection.kernel = ranks, str(next(iter(kernels)))
        assert drawn(panel) == by_plotly(panel)
    for _ in steps(panel):
        assert drawn(panel) == by_plotly(panel)
    panel.selection.ranks, panel.selection.kernel = [], ""


def test_counters_are_sent_as_plotly_would(tmp_path):
    events = [host(0, 9, "outer"), host(1, 7, "inner"), call(2, 1, 1), measured(50, a=1, b=4)]
    job = open_job(tmp_path, [events])
    panel = CuptiCountersPanel(job)
    for _ in steps(panel):
        assert drawn(panel) == by_plotly(panel) != []


def test_a_comparison_sends_what_plotly_would(loaded: Job):
    panel = ComparePanel(loaded, loaded)
    for _ in steps(panel):
        assert drawn(panel) == by_plotly(panel)


@pytest.mark.parametrize(
    "wrong",
    [
        Drawing([trace("bar", heights=[1])], {}),
        Drawing([trace("baar", y=[1])], {}),
        Drawing([trace("bar", y=[1], orientation="x")], {}),
        drawing([], x_axis={}),
        drawing([], xaxis={"headline": "Time"}),
    ],
)
def test_plotly_refuses_what_it_does_not_know(wrong):
    with pytest.raises(ValueError, match=r"(?i)invalid"):
        wrong.figure()
