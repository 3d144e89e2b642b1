"""Files that hold a hundredth of what was recorded."""

from __future__ import annotations

import pytest

from hta_widgets import diagnose, open_trace
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
    found = diagnose(path)
    assert (found.status, list(found)) == ("cannot_tell", [])
    assert found.finding == (
        "No cause can be named: most events were taken out of the traces, so that idle time may be "
        "none."
    )
    assert not found.not_recorded
    there_were = 101 * (FEWEST_CALLS - 1) + 1
    assert open_trace(path, progress=False).notices[0] == (
        f"the file has only 500 of {there_were:,} CUDA API calls, by their numbers: most events "
        "were removed from it, and time that looks idle may not be idle; open the original trace"
    )


def test_numbers_that_are_far_apart_take_no_memory(tmp_path):
    path = filtered(tmp_path, apart=10**12)
    assert "500 of 499,000,000,000,001 CUDA" in open_trace(path, progress=False).notices[0]


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
