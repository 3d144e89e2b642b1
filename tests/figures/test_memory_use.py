"""Figures of the memory use: few points with all peaks, and bars that add up."""

from __future__ import annotations

import numpy as np
import pytest

from hta_widgets.analyses.memory_use import memory_use
from hta_widgets.figures.base.step_lines import STRIPS_AT_MOST
from hta_widgets.figures.memory_use import POINTS_AT_MOST, alive_at_peak, memory_curve, memory_lines
from hta_widgets.trace.opening.open import open_trace
from tests.analyses.test_memory_use import with_totals
from tests.kineto_text import host, write


def used(folder, *ranks):
    for number, events in enumerate(ranks):
        write(folder / f"rank-{number}.json", events)
    return memory_use(open_trace(folder, progress=False))


@pytest.fixture
def result(tmp_path):
    rng = np.random.default_rng(1)
    sizes = rng.integers(1, 2**20, 5000).tolist()
    changes = [
        each
        for place, size in enumerate(sizes)
        for each in ((2 * place, size, 1 + place), (2 * place + 1, -size, 1 + place))
    ]
    calls = [host(0, 6000, "aten::mm"), host(6000, 4000, "<b>aten</b>::add")]
    return used(tmp_path, [*calls, *with_totals(changes, start=10**6, reserved=2 * 10**6)])


def test_the_curve_has_few_points_and_all_peaks(result):
    figure = memory_curve(memory_lines(result)).figure()
    reserved, allocated = figure.data
    assert len(reserved.x) + len(allocated.x) <= POINTS_AT_MOST + 4
    assert max(allocated.y) == result.curve["allocated_bytes"].max() / 10**6
    assert min(allocated.y) == result.curve["allocated_bytes"].min() / 10**6
    assert set(reserved.y) == {2.0}
    assert reserved.yaxis == allocated.yaxis == "y", "one strip"
    assert figure.layout.annotations[0].text == "GPU 0: allocated, and reserved (grey), in MB"
    assert len(figure.layout.annotations) == 1
    assert figure.layout.meta == {"zoom": "window_us"}


def test_a_window_shows_more_of_it(result):
    figure = memory_curve(memory_lines(result), window_us=[100, 200]).figure()
    inside = result.curve["time_ns"].between(100_000, 200_000).sum()
    assert len(figure.data[1].x) == inside + 1  # the last value holds to the end
    assert tuple(figure.layout.xaxis.range) == (100, 200)


def test_a_shift_of_the_clock(result):
    plain, shifted = (memory_lines(result, each).drawn[1] for each in ({}, {0: 5000}))
    assert (shifted.time_ns - plain.time_ns == 5000).all()


def test_devices_have_strips_of_their_own(tmp_path):
    ranks = [with_totals([(0, 10 * (1 + n), 1)], reserved=-1) for n in range(STRIPS_AT_MOST + 1)]
    lines = memory_lines(used(tmp_path, *[[host(0, 1, "op"), *each] for each in ranks]))
    assert len(lines.drawn) == STRIPS_AT_MOST
    assert lines.in_all == STRIPS_AT_MOST + 1
    assert lines.drawn[0].name == "GPU 0 of rank 1: allocated, in B", "the highest peaks"
    assert len({bar.yaxis for bar in memory_curve(lines).figure().data}) == STRIPS_AT_MOST


def test_bars_add_up_to_the_peak(result):
    figure = alive_at_peak(result.alive_at_peak).figure()
    drawn = sum(np.sum(bar.x) for bar in figure.data)
    assert drawn * 10**6 == pytest.approx(result.peak["bytes"].iloc[0])
    assert {bar.name for bar in figure.data} <= {"Before the recording", "Temporary", "Other"}
    assert "<b>" not in str(figure.layout.yaxis.ticktext)
    assert figure.data[0].meta == {"select": "operators"}
    assert "of the peak" in figure.data[0].hovertext[0]


def test_bars_by_module_and_their_number(tmp_path):
    frames = [
        each
        for n in range(6)
        for each in (
            host(10 * n, 9, f"nn.Module: Net_{n}", cat="python_function"),
            host(10 * n + 1, 7, "aten::mm"),
        )
    ]
    changes = [(10 * n + 2, 2**n, n + 1) for n in range(6)]
    table = used(tmp_path, [*frames, *with_totals(changes)]).alive_at_peak
    figure = alive_at_peak(table, by="module", num_owners=3).figure()
    assert list(figure.layout.yaxis.ticktext) == ["Net_5", "Net_4", "Net_3"]
    assert [owner[0] for owner in figure.data[0].customdata] == ["Net_5", "Net_4", "Net_3"]
    assert figure.data[0].meta == {"select": "modules"}
    assert list(figure.data[0].x) == [32, 16, 8]


def test_what_was_allocated_before_is_named(tmp_path):
    table = used(tmp_path, [host(0, 1, "op"), *with_totals([(5, 1, 1)], start=7)]).alive_at_peak
    figure = alive_at_peak(table[table["bytes"] == 7]).figure()
    assert list(figure.layout.yaxis.ticktext) == ["(before the recording)"]
    figure = alive_at_peak(table).figure()
    assert list(figure.layout.yaxis.ticktext) == ["(no operator)"], "of both"
