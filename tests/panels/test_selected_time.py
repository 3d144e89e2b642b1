"""Panels that follow the selected steps and window, and say so."""

from __future__ import annotations

import pandas as pd
import pytest

from hta_widgets.analyses import temporal_breakdown
from hta_widgets.analyses.time import selection as time_selection
from hta_widgets.errors import UnknownStepError
from hta_widgets.panels import Selection
from hta_widgets.panels.base.selection import TIME_FIELDS
from hta_widgets.panels.dashboard import PANELS
from tests.analyses.generated_jobs import open_job
from tests.analyses.test_attribution import frame
from tests.analyses.test_idle_owners import annotation
from tests.analyses.test_roofline import operator
from tests.analyses.test_time_selection import three_steps
from tests.panels.fakes import FakePanel, send

FOLLOWING = [
    name
    for name, panel in PANELS.items()
    if set(TIME_FIELDS) <= set(panel.follows) and name != "cupti_counters"
]
"""Performance counters are in jobs without GPU work: they have a test of their own."""


@pytest.fixture
def job(tmp_path):
    modules = [frame(ts, 30, "nn.Module: Net_0") for ts in range(0, 300, 30)]
    shared = [annotation(5, 20, "forward")]
    shared += [operator(ts, 5, "aten::mm", [[8, 8], [8, 8]]) for ts in (8, 108)]
    ranks = [[*three_steps(), *shared, *of_rank] for of_rank in (modules, [])]
    return open_job(tmp_path, ranks)


def test_the_panels_of_times_follow():
    assert {"temporal_breakdown", "overlap", "kernel_breakdown", "idle_owners"} <= set(FOLLOWING)


@pytest.mark.parametrize("name", FOLLOWING)
def test_a_panel_counts_the_selected_time_and_says_so(job, name):
    panel = PANELS[name](job)
    selection = Selection.of(job)
    whole = panel.table
    assert panel._view["time"] == ""
    selection.steps = (1,)
    of_step = panel.table
    assert panel._view["time"] == "step 1"
    assert "<p>Only step 1.</p>" in panel.summary()
    assert not of_step.equals(whole)
    with selection.hold():
        selection.steps = (0, 1)
        selection.window_ns = (100_000, 200_000)
    assert panel._view["time"] == "steps 0-1, 100–200 µs"
    pd.testing.assert_frame_equal(panel.table, of_step)
    with selection.hold():
        selection.steps, selection.window_ns = (), None
    assert panel._view["time"] == ""
    pd.testing.assert_frame_equal(panel.table, whole)
    assert "Only" not in panel.summary()


def test_the_result_is_that_of_the_analysis(job):
    panel = PANELS["temporal_breakdown"](job)
    panel.selection.steps = (0,)
    expected = temporal_breakdown(job, steps=[0])
    pd.testing.assert_frame_equal(panel.result.ranks, expected.ranks)
    assert panel.result.finding == expected.finding


def test_an_unknown_step_is_said_beside_the_way_back(job):
    panel = PANELS["overlap"](job)
    panel.selection.steps = (7,)
    assert panel._view["error"].startswith("step 7 is not analysed on the selected ranks")
    assert panel._view["time"] == "step 7"
    with pytest.raises(UnknownStepError):
        _ = panel.result
    panel.selection.set_state({"steps": [], "window_ns": None})
    assert (panel._view["error"], panel._view["time"]) == (None, "")


def test_a_panel_with_its_own_ranks_has_its_own_time(job):
    panel = PANELS["overlap"](job, ranks=[1])
    Selection.of(job).steps = (1,)
    assert panel._view["time"] == ""
    panel.selection.steps = (0,)
    assert Selection.of(job).steps == (1,)
    assert panel._view["time"] == "step 0"


def test_what_does_not_follow_computes_nothing(job):
    panel = FakePanel(job)
    _ = panel.result
    before = panel.runs
    panel.selection.steps = (1,)
    panel.selection.finding = 3
    assert (panel.runs, panel._view["time"]) == (before, "")


def test_work_is_cut_once_for_each_time(job, monkeypatch):
    cuts = []
    cut = time_selection._cut
    monkeypatch.setattr(time_selection, "_cut", lambda *given: cuts.append(given) or cut(*given))
    panel = PANELS["overlap"](job)
    selection = panel.selection
    selection.steps = (1,)
    once = len(cuts)
    assert once == len(job.ranks)
    selection.steps = [1]
    selection.kernel = "gemm"
    selection.ranks = [0]
    send(panel, as_percent=False)
    selection.steps = (0,)
    assert len(cuts) == 2 * once
    with selection.hold():
        selection.steps, selection.ranks = (1,), []
    assert len(cuts) == 2 * once
