"""Figures of the launch statistics."""

from __future__ import annotations

import json

import numpy as np
import pytest

from hta_widgets.analyses.launch_stats import DISTRIBUTIONS, launch_stats
from hta_widgets.figures.base.style import TYPE_COLORS
from hta_widgets.figures.launch_stats import launch_histogram, launches_by_api
from hta_widgets.trace.opening.open import open_trace
from tests.kineto_text import call, host, kernel, write

HOSTILE = '<img src=x onerror="alert(1)">'


@pytest.fixture
def job(tmp_path):
    events = [
        *(call(0, 9, 1), kernel(10, 1, correlation=1)),
        *(call(20, 60, 2), kernel(290, 70, correlation=2, name="ncclDevKernel")),
        *(call(400, 9, 3, name=HOSTILE), kernel(410, 1, correlation=3)),
    ]
    write(tmp_path / "rank-0.json", events)
    write(tmp_path / "rank-1.json", events[:2])
    return open_trace(tmp_path, progress=False)


def test_histograms(job):
    result = launch_stats(job)
    short, long_calls, long_delays = (
        launch_histogram(result, name).figure() for name in DISTRIBUTIONS
    )
    assert sum(short.data[0].y) == 3
    assert short.layout.xaxis.title.text == "Launch call duration (µs), up to 50 µs"
    assert list(long_calls.data[0].y)[-1] == 1
    assert long_calls.layout.yaxis.title.text == "Calls"
    assert sum(long_delays.data[0].y) == 1
    assert long_delays.data[0].hovertext[-1].endswith("<br>Calls: 1")


def test_at_most_300_bins_travel(tmp_path):
    events = [
        event
        for n in range(1, 500)
        for event in (call(n, n / 7, n), kernel(600 + n * n, 0.001 * n, correlation=n))
    ]
    job = open_trace(write(tmp_path / "rank-0.json", events), progress=False)
    result = launch_stats(job, runtime_cutoff=5, launch_delay_cutoff=0)
    for name in DISTRIBUTIONS:
        assert 20 < len(launch_histogram(result, name).figure().data[0].x) <= 300


def test_empty_bins_get_no_bar_but_the_axis_is_that_of_all_bins(tmp_path):
    delays = [300, *range(40_000, 40_005), 90_000]
    events = [
        event
        for n, delay in enumerate(delays, 1)
        for event in (call(10 * n, 1, n), kernel(10 * n + 1 + delay, 1, correlation=n))
    ]
    job = open_trace(write(tmp_path / "rank-0.json", events), progress=False)
    result = launch_stats(job, launch_delay_cutoff=200)
    bins = result.distributions[result.distributions["distribution"] == "launch_delay_outliers"]
    (bars,) = launch_histogram(result, "launch_delay_outliers").figure().data
    assert len(bins) > 100
    assert list(bars.y) == [1, 5, 1]
    assert bars.x[0] - bars.width[0] / 2 == pytest.approx(bins["start_ns"].iloc[0] / 1e6)
    assert bars.x[-1] + bars.width[-1] / 2 == pytest.approx(bins["end_ns"].iloc[-1] / 1e6)


def test_what_each_api_launches(job):
    figure = launches_by_api(launch_stats(job)).figure()
    assert [bar.name for bar in figure.data] == ["Compute", "Communication"]
    assert [bar.marker.color for bar in figure.data] == list(TYPE_COLORS.values())[:2]
    assert figure.layout.yaxis.ticktext[0] == "cudaLaunchKernel"
    assert dict(zip(figure.data[0].y, figure.data[0].x, strict=True)) == {0: 2, 1: 1}
    assert figure.data[0].hovertext[-1].startswith("cudaLaunchKernel<br>Calls: 3<br>Comp")
    assert "<img" not in json.dumps(figure.to_plotly_json(), default=np.ndarray.tolist)


def test_nothing_to_draw(tmp_path):
    job = open_trace(write(tmp_path / "rank-0.json", [host(0, 1, "op")]), progress=False)
    result = launch_stats(job)
    assert len(launches_by_api(result).figure().data) == 0
