"""Figures of the idle time."""

from __future__ import annotations

import pytest

from hta_widgets.analyses.idle_time import idle_time
from hta_widgets.figures.idle_time import (
    STREAMS_AT_MOST,
    idle_time_of_devices,
    idle_time_of_streams,
)
from hta_widgets.trace.opening.open import open_trace
from tests.kineto_text import call, host, kernel, write


def late(ts, correlation, **where):
    """An operation launched 1 µs before it starts."""
    return [call(ts - 1, 1, correlation), kernel(ts, 5, correlation=correlation, **where)]


@pytest.fixture
def job(tmp_path):
    first = [kernel(0, 5), kernel(10, 5), *late(30, 1), kernel(0, 1, stream=20)]
    write(tmp_path / "rank-3.json", first)
    write(tmp_path / "rank-8.json", [kernel(0, 5), kernel(105, 5)])
    return open_trace(tmp_path, progress=False)


def bars(figure):
    return {bar.name: list(bar.x) for bar in figure.data}


def test_streams_by_share(job):
    figure = idle_time_of_streams(idle_time(job)).figure()
    assert list(figure.layout.yaxis.ticktext) == [
        "Rank 3 · stream 7",
        "Rank 3 · stream 20",
        "Rank 8 · stream 7",
    ]
    assert bars(figure)["CPU-bound"][::2] == [70, 0]
    assert bars(figure)["CPU-bound: launch call and latency"][::2] == [5, 0]
    assert bars(figure)["Launch not recorded"][::2] == [25, 100]
    assert figure.data[0].hovertext[0] == (
        "Rank 3 · stream 7<br>CPU-bound: 14 µs, 70 % of 20 µs idle time<br>Idle intervals: 1"
    )
    assert figure.data[0].hovertext[1] == "Rank 3 · stream 20: never idle"
    assert [point[0] for point in figure.data[0].customdata] == [3, 3, 8]


def test_streams_by_time(job):
    figure = idle_time_of_streams(idle_time(job), as_percent=False).figure()
    assert bars(figure)["Launch not recorded"] == [5, 0, 100]
    assert figure.layout.xaxis.title.text == "Idle time (µs)"


def test_streams_of_one_rank_are_not_labelled_with_it(job):
    figure = idle_time_of_streams(idle_time(job, [3])).figure()
    assert list(figure.layout.yaxis.ticktext) == ["stream 7", "stream 20"]
    assert figure.data[1].hovertext[0].startswith("Rank 3 · stream 7<br>")


def test_devices_are_labelled_where_there_are_several(tmp_path):
    events = [kernel(0, 1), kernel(5, 1), kernel(0, 1, device=1), kernel(8, 1, device=1)]
    job = open_trace(write(tmp_path / "rank-0.json", events), progress=False)
    labels = idle_time_of_streams(idle_time(job)).figure().layout.yaxis.ticktext
    assert list(labels) == ["GPU 0 · stream 7", "GPU 1 · stream 7"]


def test_the_least_idle_of_too_many_streams_share_a_bar(tmp_path):
    streams = range(STREAMS_AT_MOST + 10)
    events = [kernel(ts, 1, stream=s) for s in streams for ts in (0, 2 + s)]
    job = open_trace(write(tmp_path / "rank-0.json", events), progress=False)
    figure = idle_time_of_streams(idle_time(job), as_percent=False).figure()
    assert len(figure.data[0].x) == STREAMS_AT_MOST
    assert figure.layout.yaxis.ticktext[0] == "stream 11"
    assert figure.layout.yaxis.ticktext[-1] == "11 other streams"
    assert figure.data[-1].x[-1] == sum(1 + s for s in range(11))
    assert figure.data[-1].customdata[-1][0] is None
    assert figure.data[-1].hovertext[-1].endswith("Idle intervals: 11")


def test_devices(job):
    figure = idle_time_of_devices(idle_time(job), selected=[3]).figure()
    assert list(figure.layout.xaxis.ticktext) == ["3", "8"]
    assert {bar.name: list(bar.y) for bar in figure.data} == {
        "CPU-bound": [70, 0],
        "CPU-bound: launch call and latency": [5, 0],
        "Kernel-to-kernel gap": [0, 0],
        "Launched, not yet started": [0, 0],
        "Launch not recorded": [25, 100],
    }
    assert list(figure.data[0].selectedpoints) == [0]


@pytest.mark.parametrize("draw", [idle_time_of_devices, idle_time_of_streams])
@pytest.mark.parametrize("as_percent", [True, False])
def test_nothing_to_draw(tmp_path, draw, as_percent):
    job = open_trace(write(tmp_path / "rank-0.json", [host(0, 1, "op")]), progress=False)
    assert not any(
        bar.y.size * bar.x.size for bar in draw(idle_time(job), as_percent=as_percent).figure().data
    )
