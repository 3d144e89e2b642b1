"""The knobs of the what-if panel."""

from __future__ import annotations

from pathlib import Path

import pytest

from hta_widgets import open_trace
from hta_widgets.diagnosis import diagnose
from hta_widgets.diagnosis.what_if import what_if
from hta_widgets.panels import Selection, WhatIfPanel
from hta_widgets.trace.job import Job

KNOBS = {
    "input_starvation": {"without_loading": True},
    "launch_bound": {"host_speed": float("inf")},
    "exposed_communication": {"hidden_percent": 100},
    "slow_gpu": {"equal_ranks": "slower"},
}
"""What takes out all that a cause can be about."""


def test_a_knob_brings_about_what_the_cause_of_its_kind_costs(loaded: Job):
    found = [each for each in diagnose(loaded) if each.cause in KNOBS]
    assert len(found) >= 3
    for each in found:
        gain_ms = what_if(loaded, **KNOBS[each.cause]).answer.gain_ms
        assert gain_ms == pytest.approx(each.recoverable_ms, rel=0.2), each.cause


def test_a_finding_that_is_shown_turns_no_knob(loaded: Job):
    panel = WhatIfPanel(loaded, selection=Selection())
    panel.host_speed = 2
    faster = panel.result
    panel.selection.finding = [each.cause for each in diagnose(loaded)].index("input_starvation")
    assert (panel.host_speed, panel.without_loading) == (2, False)
    assert panel.result is faster


def test_a_knob_that_the_job_has_nothing_for_is_left_out(loaded: Job, real_traces: Path):
    def knobs(job: Job) -> set[str]:
        return {each["name"] for each in WhatIfPanel(job)._spec["controls"]}

    alone = open_trace(real_traces / "kineto" / "ns_resolution", progress=False)
    assert knobs(loaded) - knobs(alone) == {"equal_ranks", "hidden_percent"}


def test_a_capture_that_is_not_priced_has_no_knobs(real_traces: Path):
    assert not WhatIfPanel.concerns(
        open_trace(real_traces / "kineto" / "sglang_capture", progress=False)
    )
