"""Move every control of every panel as a browser does, and time the replies."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from itertools import cycle, islice
from typing import Any, NamedTuple

import numpy as np
from traitlets import Int

from hta_widgets.panels.base.panel import Panel
from hta_widgets.panels.base.protocol import ControlSpec
from hta_widgets.panels.base.time_series import TimeSeriesPanel
from hta_widgets.panels.dashboard import PANELS
from hta_widgets.trace.job import Job

WINDOW = "window_us"


class Steps(NamedTuple):
    """Steps of one control.

    Attributes
    ----------
    name : str
        ``panel.parameter``.
    slides : bool
        Each step gives another value of a range; not a choice, which has something new to derive
        when it is first made.
    cpu_s : list of float
        CPU seconds of each step, the view's JSON included.
    """

    name: str
    slides: bool
    cpu_s: list[float]


def time_controls(job: Job, steps: int) -> Iterator[Steps]:
    """Move every control of every panel that concerns the job."""
    for name, panel_class in PANELS.items():
        if not panel_class.concerns(job):
            continue
        panel = panel_class(job)
        controls = panel._spec["controls"]  # noqa: SLF001  # as the browser has them
        sliders = {control["name"] for control in controls if control["kind"] == "slider"}
        for parameter, values in _moves(panel, job, steps):
            if len(values) > 1:
                before = getattr(panel, parameter)
                _step(panel, parameter, values[-1])
                times = [_step(panel, parameter, value) for value in islice(cycle(values), steps)]
                _step(panel, parameter, before)
                yield Steps(f"{name}.{parameter}", parameter in {*sliders, WINDOW}, times)
        panel.close()


def _step(panel: Panel[Any], parameter: str, value: object) -> float:
    began = time.process_time()
    panel.set_state({parameter: value, "_req": panel._req + 1})  # noqa: SLF001  # as the browser
    json.dumps(panel.get_state(["_view"]))
    spent = time.process_time() - began
    if panel._view["error"]:  # noqa: SLF001
        msg = f"{panel!r}: {panel._view['error']}"  # noqa: SLF001
        raise RuntimeError(msg)
    return spent


def _moves(panel: Panel[Any], job: Job, steps: int) -> Iterator[tuple[str, Sequence[object]]]:
    for control in panel._spec["controls"]:  # noqa: SLF001  # as the browser has them
        yield control["name"], _values(panel, control, steps)
    if isinstance(panel, TimeSeriesPanel):
        yield WINDOW, _windows(job, steps)


def _values(panel: Panel[Any], control: ControlSpec, steps: int) -> Sequence[object]:
    """Different values of a control; as many as there are, and at most one per step."""
    if control["kind"] == "slider":
        whole = isinstance(panel.traits()[control["name"]], Int)
        spread = np.linspace(control["min"], control["max"], steps)
        stepped = (np.round(spread / control["step"]) * control["step"]).tolist()
        return sorted({int(value) if whole else round(value, 6) for value in stepped})
    if control["kind"] == "search":
        return [value for _, value, _ in control["options"]][:steps]
    if control["kind"] == "choice":
        return [value for _, value in control["options"]]
    if control["kind"] == "picker" and control["name"] == "streams":
        return [[], *([stream] for stream in control["options"])][:steps]
    return [False, True] if control["kind"] == "toggle" else []


def _windows(job: Job, steps: int) -> list[list[float]]:
    """Windows of all widths, anywhere."""
    end_us = int(job.rank(job.ranks[0]).trace.events.end_ns.max()) / 1000
    random = np.random.default_rng(0)
    widths = end_us * 10.0 ** -random.uniform(0, 4, steps)
    starts = random.uniform(0, end_us - widths)
    return [
        [float(start), float(start + width)] for start, width in zip(starts, widths, strict=True)
    ]
