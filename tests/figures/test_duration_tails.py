"""Figures of the duration tails."""

from __future__ import annotations

import numpy as np
import pytest

from hta_widgets.analyses.duration_tails import CURVE_POINTS, duration_tails
from hta_widgets.figures.base.style import NEUTRAL, TYPE_COLORS
from hta_widgets.figures.duration_tails import category_shares, tail_curves
from hta_widgets.trace.opening.open import open_trace
from tests.kineto_text import call, host, kernel, write


@pytest.fixture
def job(tmp_path):
    """200 kernels and calls, in each rank one of them long, and a copy."""
    for rank in range(2):
        events = [
            event
            for n in range(200)
            for event in (
                call(10 * n, 100 if n == 7 else 1, n),
                kernel(10 * n + 3, 3 if n else 603, correlation=n),
            )
        ]
        copy = kernel(5000, 20, cat="gpu_memcpy", name="Memcpy HtoD")
        write(tmp_path / f"rank-{rank}.json", [*events, copy])
    return open_trace(tmp_path, progress=False)


def test_shares_of_all_time(job):
    figure = category_shares(duration_tails(job)).figure()
    (bars,) = figure.data
    assert list(figure.layout.yaxis.ticktext) == [
        *("Kernels (device)", "Copies (device)", "Runtime API calls (host)")
    ]
    assert list(bars.x) == pytest.approx([100 * ns / 1519 for ns in (1200, 20, 299)])
    assert figure.layout.xaxis.title.text == "Share of host and device time (%)"
    assert bars.hovertext[2] == (
        "Runtime API calls: 400, 598 µs<br>100 % of host time, 19.7 % of host and device time<br>"
        "1 µs to 100 µs, mean 1.5 µs"
    )


def test_the_longest_category_of_a_side_stands_first(tmp_path):
    copy = kernel(100, 70, cat="gpu_memcpy", name="Memcpy HtoD", correlation=2)
    events = [call(0, 99, 1), kernel(3, 30, correlation=1), call(100, 1, 2), copy]
    write(tmp_path / "rank-0.json", events)
    figure = category_shares(duration_tails(open_trace(tmp_path, progress=False))).figure()
    assert list(figure.layout.yaxis.ticktext) == [
        *("Copies (device)", "Kernels (device)", "Runtime API calls (host)")
    ]
    assert list(figure.data[0].x) == pytest.approx([35, 15, 50])


def test_shares_of_one_side(job):
    figure = category_shares(duration_tails(job), side="device").figure()
    assert list(figure.data[0].x) == pytest.approx([100 * ns / 1220 for ns in (1200, 20)])
    assert list(figure.layout.yaxis.ticktext) == ["Kernels", "Copies"]
    assert figure.layout.xaxis.title.text == "Share of device time (%)"


def test_curves_with_the_percentage_marked(job):
    figure = tail_curves(duration_tails(job, percent=0.5)).figure()
    lines = [trace for trace in figure.data if trace.mode == "lines"]
    marks = [trace for trace in figure.data if trace.mode == "markers"]
    assert [line.name for line in lines] == ["Kernels", "Copies", "Runtime API calls"]
    assert [line.line.color for line in lines] == [
        *(TYPE_COLORS["COMPUTATION"], TYPE_COLORS["MEMORY"], NEUTRAL)
    ]
    assert all(len(line.x) <= CURVE_POINTS for line in lines)
    assert (lines[0].x[0], lines[0].y[0]) == pytest.approx((0.25, 100 * 603 / 2400))
    assert (lines[0].x[-1], lines[0].y[-1]) == (100, 100)
    assert [(*mark.x, *mark.y) for mark in marks] == [
        pytest.approx((0.5, 100 * 1206 / 2400)),
        pytest.approx((0.5, 100 * 200 / 598)),
    ]
    for line, mark in zip([lines[0], lines[2]], marks, strict=True):  # on its curve
        assert mark.y[0] == pytest.approx(np.interp(mark.x[0], line.x, line.y))
    assert marks[0].hovertext[0] == (
        "Kernels<br>Longest 0.5 % (2 events): 50.2 % of the time<br>mean 603 µs, shortest 603 µs"
    )
    assert figure.layout.shapes[0].x0 == 0.5


def test_curves_of_one_side(job):
    figure = tail_curves(duration_tails(job), side="host").figure()
    assert [trace.name for trace in figure.data if trace.mode == "lines"] == ["Runtime API calls"]


def test_nothing_to_draw(tmp_path):
    job = open_trace(write(tmp_path / "rank-0.json", [host(0, 1, "op")]), progress=False)
    result = duration_tails(job)
    assert len(category_shares(result).figure().data[0].x) == 0
    assert len(tail_curves(result).figure().data) == 0
