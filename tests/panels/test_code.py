"""The code of a panel, run, shows the same."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from hta_widgets import open_trace
from hta_widgets.panels import ComparePanel, KernelBreakdownPanel, LaunchStatsPanel, Selection
from hta_widgets.panels.base.code import PLACE
from hta_widgets.panels.dashboard import PANELS
from hta_widgets.trace.job import Job
from tests.panels.fakes import FakePanel, fake_job

CHANGES: dict[str, dict[str, Any]] = {
    "kernel_breakdown": {"num_kernels": 3, "kernel_type": "COMPUTATION"},
    "idle_time": {"level": "device", "consecutive_kernel_delay": 12.5, "streams": [7]},
    "rank_overlap": {"by": "device", "as_percent": False},
    "queue_length": {"streams": [7], "window_us": [5, 90]},
    "launch_stats": {"worst_by": "cpu_duration"},
}


def run(code: str, **folders: Job) -> Any:
    """Run the code as a cell would, with jobs in place of the placeholders; gives its panel."""
    places = {PLACE if name == "job" else f"{PLACE}/{name}": job for name, job in folders.items()}
    *lines, last = code.replace("from hta_widgets import open_trace", "").splitlines()
    assert last == "panel"
    names: dict[str, Any] = {"open_trace": places.__getitem__}
    exec("\n".join(lines), names)  # noqa: S102
    return names["panel"]


def same(one: Any, other: Any) -> None:
    assert type(one).__name__ == type(other).__name__
    assert one.result.finding == other.result.finding
    pd.testing.assert_frame_equal(one.table, other.table)
    assert one._inputs() == other._inputs()


def selection_of(panel: Any, field: str) -> object:
    return getattr(panel.selection, field)


@pytest.mark.parametrize("name", PANELS)
@pytest.mark.parametrize("selected", [{}, {"ranks": [1], "kernel": "gemm", "window_ns": (5, 900)}])
def test_every_panel_is_made_again(loaded: Job, name, selected):
    panel = PANELS[name](loaded, selection=Selection(**selected))
    for parameter, value in CHANGES.get(name, {}).items():
        setattr(panel, parameter, value)
    code = panel.code()
    same(run(code, job=loaded), panel)
    depends = {*panel.follows, *panel._linked}
    assert ("Selection" in code) == any(selection_of(panel, name) for name in depends)


def test_what_is_as_by_default_is_left_out(loaded: Job):
    assert KernelBreakdownPanel(loaded, selection=Selection()).code().splitlines() == [
        "from hta_widgets import open_trace",
        "from hta_widgets.panels import KernelBreakdownPanel",
        "",
        "job = open_trace('path/to/traces')",
        "panel = KernelBreakdownPanel(job)",
        "panel",
    ]


def test_a_panel_with_ranks_of_its_own(loaded: Job):
    panel = KernelBreakdownPanel(loaded, ranks=[1])
    panel.selection.window_ns = (5, 900)
    code = panel.code()
    assert "KernelBreakdownPanel(job, ranks=[1])\npanel.selection.window_ns = (5, 900)\n" in code
    again = run(code, job=loaded)
    same(again, panel)
    assert not again.linked


def test_two_jobs(loaded: Job):
    panel = ComparePanel(loaded, loaded, listed="times")
    code = panel.code()
    assert "first = open_trace('path/to/traces/first')" in code
    same(run(code, first=loaded, second=loaded), panel)


def test_names_of_a_trace_are_quoted(loaded: Job):
    evil = "'); import os; os.abort() #\n"
    panel = LaunchStatsPanel(loaded, selection=Selection())
    kernels = KernelBreakdownPanel(loaded, selection=Selection(kernel=evil))
    assert "abort" not in panel.code()
    assert run(kernels.code(), job=loaded).selection.kernel == evil


def test_how_the_job_was_opened(loaded: Job):
    source = next(iter(loaded.sources.values())).path
    whole = open_trace(source, include_last_profiler_step=True)
    code = KernelBreakdownPanel(whole).code()
    assert "open_trace('path/to/traces', include_last_profiler_step=True)" in code
    assert str(source.parent) not in code


def test_a_panel_of_a_user_is_imported_from_its_module():
    panel = FakePanel(fake_job(), bars=4, ratio=0.25, named=False, selection=Selection(ranks=[0]))
    code = panel.code()
    assert "from tests.panels.fakes import FakePanel" in code
    assert "    bars=4,\n" in code or "bars=4, " in code
    assert run(code, job=panel.job).bars == 4
