"""Step lines are reduced without losing a peak, and say how much is drawn."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hta_widgets.analyses.memory_bandwidth import memory_bandwidth
from hta_widgets.analyses.queue_length import queue_length
from hta_widgets.figures.base.step_lines import (
    POINTS_AT_MOST,
    STRIPS_AT_MOST,
    StepLine,
    StepLines,
    step_lines,
    steps_to_draw,
)
from hta_widgets.figures.memory_bandwidth import bandwidth_lines, lines_of_transfer
from hta_widgets.figures.queue_length import lines_of_streams, queue_lines
from hta_widgets.trace.opening.open import open_trace
from tests.kineto_text import call, kernel, write


def line(times, values, name="line"):
    return StepLine(name, "things", "#000000", np.array(times), np.array(values))


def value_at(times, values, moment):
    held = [value for time, value in zip(times, values, strict=True) if time <= moment]
    return held[-1] if held else None


@given(st.data())
def test_reduction_keeps_peaks_and_heights(data):
    steps = data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=60))
    times = np.cumsum(steps)
    values = np.array(data.draw(st.lists(st.integers(0, 9), min_size=60)))[: times.size]
    start = data.draw(st.integers(-5, int(times[-1]) + 5))
    end = start + data.draw(st.integers(1, 60))
    points = data.draw(st.integers(3, 30))
    kept = steps_to_draw(times, values, start, end, points)
    assert (np.diff(kept) > 0).all()
    assert len(kept) <= points + 1
    seen = values[(times > start) & (times <= end)]
    if seen.size:
        assert values[kept].max() >= seen.max()
        assert values[kept].min() <= seen.min()
    for moment in (start, end):
        drawn = value_at(np.maximum(times[kept], start), values[kept], moment)
        true = value_at(times, values, moment)
        assert drawn == true or (true is None and not kept.size) or moment < times[0]


def test_few_changes_are_drawn_as_they_are():
    figure = step_lines(StepLines([line([1000, 5000, 9000], [1, 2, 0])])).figure()
    (drawn,) = figure.data
    assert list(drawn.x) == [1, 5, 9, 9]
    assert list(drawn.y) == [1, 2, 0, 0]
    assert drawn.line.shape == "hv"
    assert figure.layout.xaxis.title.text == "Time (µs) · 3 changes"
    assert figure.layout.meta == {"zoom": "window_us"}
    assert not figure.layout.xaxis.fixedrange


def test_a_window_begins_with_the_value_that_holds():
    figure = step_lines(StepLines([line([1000, 5000, 9000], [1, 2, 0])]), window_us=[6, 8]).figure()
    assert list(figure.data[0].x) == [6, 8]
    assert list(figure.data[0].y) == [2, 2]
    assert list(figure.layout.xaxis.range) == [6, 8]


def test_many_changes_are_reduced_and_counted():
    many = np.arange(1_000_000)
    lines = [line(many * 100, many % 7, "long"), line([0, 10], [1, 0], "short")]
    figure = step_lines(StepLines(lines)).figure()
    assert sum(len(each.x) for each in figure.data) <= POINTS_AT_MOST + 4
    assert len(figure.data[1].x) == 3
    caption = figure.layout.xaxis.title.text
    drawn = sum(len(each.x) - 1 for each in figure.data)
    assert drawn > POINTS_AT_MOST * 0.9
    assert caption.startswith(f"Time (ms) · {drawn:,} of 1,000,002 changes drawn")
    zoomed = step_lines(StepLines(lines), window_us=[50, 60]).figure()
    assert zoomed.layout.xaxis.title.text == "Time (µs) · 101 changes"


def test_ticks_are_round_in_the_unit_that_reads_best():
    axis = step_lines(StepLines([line([0, 2_000_000_000], [1, 0])])).figure().layout.xaxis
    assert list(axis.ticktext) == ["0.0", "0.5", "1.0", "1.5", "2.0"]
    assert list(axis.tickvals) == [0, 500_000, 1_000_000, 1_500_000, 2_000_000]


@pytest.mark.parametrize("times", [[], [5]])
def test_hardly_anything_to_draw(times):
    figure = step_lines(StepLines([line(times, [1] * len(times))])).figure()
    first, last = figure.layout.xaxis.range
    assert first < last


def test_strips_do_not_overlap():
    figure = step_lines(StepLines([line([0, 1], [1, 0], name) for name in "abc"])).figure()
    domains = [figure.layout[f"yaxis{place}"].domain for place in ("", 2, 3)]
    assert all(above[0] >= below[1] for above, below in pairwise(domains))
    assert [label.text for label in figure.layout.annotations] == ["a", "b", "c"]
    assert [trace.yaxis for trace in figure.data] == ["y", "y2", "y3"]


@pytest.mark.parametrize(
    ("strips", "most", "ticks"),
    [
        (5, 0.75, None),
        (6, 0.75, (0, 0.5)),
        (8, 0.0042, (0, 0.002)),
        (8, 1000, (0, 1000)),
        (8, 0, (0,)),
    ],
)
def test_ticks_of_low_strips_are_not_printed_over_each_other(strips, most, ticks):
    lines = [line([0, 1], [most, 0.0], str(place)) for place in range(strips)]
    shown = step_lines(StepLines(lines)).figure().layout.yaxis.tickvals
    assert shown == (ticks and pytest.approx(ticks))


@pytest.fixture
def job(tmp_path):
    for rank in (0, 1):
        events = [call(0, 1, number) for number in range(6)]
        events += [
            kernel(5 + number, 1, stream=number, correlation=number, device=number % 2)
            for number in range(6)
        ]
        name = "Memcpy HtoD (a -> b)"
        events.append(kernel(20, 5, name=name, cat="gpu_memcpy", bytes=10_000 * (rank + 1)))
        write(tmp_path / f"rank-{rank}.json", events)
    return open_trace(tmp_path, progress=False)


def queue_figure(result, streams=(), window_us=()):
    return step_lines(lines_of_streams(queue_lines(result), result, streams), window_us=window_us)


def bandwidth_figure(result, name=""):
    return step_lines(lines_of_transfer(bandwidth_lines(result), result, name))


def test_streams_are_named_and_those_with_most_operations_drawn(job):
    figure = queue_figure(queue_length(job)).figure()
    assert len(figure.data) == STRIPS_AT_MOST
    assert figure.data[0].name == "Rank 0 · GPU 0 · Stream 0"
    assert "8 of 12 lines" in figure.layout.xaxis.title.text
    chosen = queue_figure(queue_length(job, [0]), streams=[3]).figure()
    assert [trace.name for trace in chosen.data] == ["GPU 1 · Stream 3"]
    assert list(chosen.data[0].x) == [0, 8, 8]
    assert (max(chosen.data[0].y), chosen.layout.yaxis.dtick) == (1, 1)


def test_kinds_of_transfers_are_named(job):
    figure = bandwidth_figure(memory_bandwidth(job)).figure()
    assert [trace.name for trace in figure.data] == [
        "Rank 0 · Memcpy HtoD (GB/s)",
        "Rank 1 · Memcpy HtoD (GB/s)",
    ]
    assert list(figure.data[1].y) == [4, 0, 0]
    assert not bandwidth_figure(memory_bandwidth(job), name="Memset").figure().data


def test_a_window_shorter_than_a_nanosecond_shows_one(job):
    figure = queue_figure(queue_length(job), window_us=[1, 1.0001]).figure()
    assert list(figure.layout.xaxis.range) == [1, 1.001]


def test_ticks_are_those_of_the_window():
    """A stream with 20 operations at most had the ticks 0, 0.5 and 1 where it has one or none."""
    lines = StepLines([line([0, 1000, 2000, 3000], [20, 1, 0, 0])])
    axes = [
        step_lines(lines, window_us=window).figure().layout.yaxis
        for window in ([0, 3], [1, 2], [2, 3])
    ]
    assert [(each.dtick, each.tickvals) for each in axes] == [(None, None), (1, None), (None, (0,))]
