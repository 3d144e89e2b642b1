"""The knobs of the what-if panel, and the findings that set them."""

from __future__ import annotations

import pytest

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
