"""The knobs of the what-if panel, and the findings that set them."""

from __future__ import annotations

from pathlib import Path

import pytest

from hta_widgets import open_trace
from hta_widgets.diagnosis import diagnose
from hta_widgets.diagnosis.causes import ALL_CAUSES
from hta_widgets.diagnosis.what_if import what_if
from hta_widgets.panels import Selection, WhatIfPanel
from hta_widgets.trace.job import Job

WITH_KNOBS = {each.name: each for each in ALL_CAUSES if each.what_if}


@pytest.fixture
def panel(loaded: Job):
    return WhatIfPanel(loaded, selection=Selection())


def place_of(job: Job, cause: str) -> int:
    return [each.cause for each in diagnose(job)].index(cause)


def test_the_knob_of_a_cause_takes_out_what_it_costs(loaded: Job):
    found = [each for each in diagnose(loaded) if each.cause in WITH_KNOBS]
    assert len(found) >= 3
    for each in found:
        gain_ms = what_if(loaded, **WITH_KNOBS[each.cause].what_if).answer.gain_ms
        assert gain_ms == pytest.approx(each.recoverable_ms, rel=0.2), each.cause


def test_a_selected_finding_sets_its_knob_until_it_is_let_go_of(panel: WhatIfPanel):
    panel.selection.finding = place_of(panel.job, "input_starvation")
    assert panel.without_loading
    assert [*panel.figures]
    panel.selection.finding = place_of(panel.job, "launch_bound")
    assert (panel.without_loading, panel.host_speed) == (False, 16)
    panel.selection.finding = None
    assert panel.host_speed == 1
    assert panel.figures == {}  # nothing is changed


def test_knobs_that_somebody_turned_stay_when_a_finding_is_let_go_of(panel: WhatIfPanel):
    panel.selection.finding = place_of(panel.job, "launch_bound")
    panel.host_speed = 2
    panel.selection.finding = None
    assert panel.host_speed == 2


@pytest.mark.parametrize(
    ("trace", "cause"),
    [
        ("ns_resolution", "no_tensor_cores"),
        ("mi300_timesformer", "unfused_elementwise"),
        ("mi210_gpu_only", "layout_transposes"),
    ],
)
def test_kernels_that_could_be_faster_have_a_knob(real_traces: Path, trace: str, cause: str):
    job = open_trace(real_traces / "kineto" / trace, progress=False)
    panel = WhatIfPanel(job, selection=Selection())
    assert panel.result.answer.gain_ms == 0
    place = place_of(job, cause)
    panel.selection.finding = place
    price_ms = diagnose(job)[place].recoverable_ms
    assert panel.kernels == "finding"
    assert panel.result.answer.gain_ms == pytest.approx(price_ms)
    left = panel.kernel_percent
    panel.kernel_percent = (100 + left) / 2  # half as much
    assert panel.result.answer.gain_ms == pytest.approx(price_ms / 2, rel=0.2)
    panel.kernel_percent = left
    panel.selection.finding = None
    assert (panel.kernels, panel.kernel_percent) == ("products", 100)


def test_a_knob_that_the_job_has_nothing_for_is_left_out(loaded: Job, real_traces: Path):
    def knobs(job: Job) -> set[str]:
        return {each["name"] for each in WhatIfPanel(job)._spec["controls"]}

    alone = open_trace(real_traces / "kineto" / "ns_resolution", progress=False)
    assert knobs(loaded) - knobs(alone) == {"equal_ranks", "hidden_percent"}


def test_a_capture_that_is_not_priced_has_no_knobs(real_traces: Path):
    assert not WhatIfPanel.concerns(
        open_trace(real_traces / "kineto" / "sglang_capture", progress=False)
    )
