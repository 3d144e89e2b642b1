"""Files that hold a hundredth of what was recorded."""

from __future__ import annotations

import pytest

from hta_widgets import diagnose, open_trace
from hta_widgets.analyses import idle_owners, idle_time
from hta_widgets.diagnosis.critical_path import critical_path
from hta_widgets.diagnosis.what_if import what_if
from hta_widgets.panels.bands.budget import budget_band
from hta_widgets.panels.base.selection import Selection
from hta_widgets.panels.what_if import WhatIfPanel
from hta_widgets.trace.model.health.taken_out import FEWEST_CALLS
from tests.kineto_text import call, host, kernel, write


def filtered(folder, *, calls=FEWEST_CALLS, apart=101, also=()):
    """Calls with kernels, each with a number that is so far from the one before."""
    events = [host(0, 100 * calls, "aten::mm"), *also]
    for number in range(calls):
        correlation = 7_000 + number * apart
        events.append(call(100 * number + 1, 5, correlation))
        events.append(kernel(100 * number + 10, 20, correlation=correlation))
    return write(folder / "rank-0.json", events)


def test_nothing_is_told_of_a_hundredth(tmp_path):
    """A "stall of 27 ms" of HTA's filtered sample was 7,636 calls long."""
    path = filtered(tmp_path)
    there_were = 101 * (FEWEST_CALLS - 1) + 1
    found = diagnose(path)
    assert (found.status, list(found)) == ("cannot_tell", [])
    assert found.finding == (
        "No cause can be named: most events were taken out of the traces (by their numbers, 500 of "
        f"{there_were:,} CUDA API calls are left), so what looks idle may have been busy. Open the "
        "original traces."
    )
    assert not found.not_recorded
    assert open_trace(path, progress=False).notices[0] == (
        f"the file has only 500 of {there_were:,} CUDA API calls, by their numbers: most events "
        "were removed from it, and time that looks idle may not be idle; open the original trace"
    )


def test_numbers_that_are_far_apart_take_no_memory(tmp_path):
    path = filtered(tmp_path, apart=10**12)
    assert "500 of 499,000,000,000,001 CUDA" in open_trace(path, progress=False).notices[0]


def test_what_looks_idle_has_no_cause(tmp_path):
    """A bar of a step said "CPU-bound: launch 145" below a verdict that no cause can be named."""
    job = open_trace(filtered(tmp_path), progress=False)
    band = budget_band(diagnose(job), Selection(), [])
    assert [part["label"] for part in band["parts"]] == ["compute", "looks idle"]
    assert what_if(job, host_speed=4).finding == critical_path(job).finding
    assert not WhatIfPanel.concerns(job)  # nor is it asked what would change
    assert critical_path(job).finding == (
        "What the bottleneck is cannot be told: most events were taken out of the traces."
    )
    assert idle_time(job).finding.endswith(
        "), but may have been busy: most events were taken out of the traces."
    )
    assert idle_owners(job).finding == (
        "39.9 ms (80 % of the GPU span) look idle, but may have been busy: most events were taken "
        "out of the traces."
    )


@pytest.mark.parametrize(
    "whole",
    [
        {"apart": 100},
        {"calls": FEWEST_CALLS - 1},
        {"also": [call(90, 5, 6_999, name="cudaStreamSynchronize")]},
        {"apart": 5, "also": [call(90, 5, 10**11), kernel(95, 2, correlation=10**11)]},
    ],
    ids=["all numbers of a profiler", "few calls", "a call that launches nothing", "one number"],
)
def test_a_recording_that_leaves_calls_out_is_whole(tmp_path, whole):
    found = diagnose(filtered(tmp_path, **whole))
    assert "taken out" not in found.finding
    assert not any("taken out" in notice for notice in found.notices)
