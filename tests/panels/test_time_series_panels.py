"""Panels of quantities over time: windows, choices, and counters written out."""

from __future__ import annotations

import math

import pytest
from traitlets import TraitError

from hta_widgets.figures.queue_length import queue_lines
from hta_widgets.panels import Dashboard, MemoryBandwidthPanel, QueueLengthPanel
from hta_widgets.trace.opening.open import open_trace
from tests.analyses.collective_jobs import Clock, ddp, write_job
from tests.kineto_text import call, host, kernel, write
from tests.panels.fakes import send

COPY = "Memcpy HtoD (a -> b)"


@pytest.fixture
def job(tmp_path):
    for rank in (0, 1):
        events = [call(0, 1, 1), call(2, 1, 2), kernel(5, 9, correlation=1)]
        copy = kernel(10, 5, name=COPY, cat="gpu_memcpy", stream=20, correlation=2, bytes=10_000)
        write(tmp_path / f"rank-{rank}.json", [*events, copy])
    return open_trace(tmp_path, progress=False)


@pytest.fixture(params=[QueueLengthPanel, MemoryBandwidthPanel])
def panel(request, job):
    return request.param(job)


def axis_of(panel):
    (figure,) = panel.figures.values()
    return figure.layout.xaxis


def test_the_figure_tells_the_front_end_what_a_zoom_sets(panel):
    (figure,) = panel._view["figures"]
    assert figure["layout"]["meta"] == {"zoom": "window_us"}
    assert panel.window_us == []


def test_a_zoom_sets_the_window(panel):
    view = send(panel, window_us=[1.5, 6])
    assert view["error"] is None
    assert list(axis_of(panel).range) == [1.5, 6]
    send(panel, window_us=[])
    assert axis_of(panel).range[1] > 6


@pytest.mark.parametrize("window", [[5, 5], [6, 5], [1], [1, 2, 3], [float("nan"), 1]])
def test_a_window_is_a_start_before_an_end(panel, window):
    with pytest.raises(TraitError, match=r"must be \[start, end\] in µs, or \[\] for all"):
        panel.window_us = window
    wrong = "a message must be UTF-8 JSON" if math.isnan(window[0]) else "must be [start, end]"
    assert wrong in send(panel, window_us=window)["error"]
    assert panel.window_us == []


def test_counters_are_written_for_the_selected_ranks(panel, tmp_path):
    panel.ranks = [1]
    paths = panel.write_counters()
    assert paths == [tmp_path / "rank-1_with_counters.json"]
    text = paths[0].read_text()
    assert "Queue Length" in text
    assert "Memcpy BW" in text
    assert [path.name for path in panel.write_counters("_again")] == ["rank-1_again.json"]


def test_streams(job):
    panel = QueueLengthPanel(job, ranks=[0])
    assert panel.table["stream"].tolist() == [7, 20]
    assert panel._spec["controls"][1]["options"] == [7, 20]
    panel.streams = [20]
    assert panel.table["stream"].tolist() == [20]
    assert len(next(iter(panel.figures.values())).data) == 1
    panel.streams = [99]
    assert panel._view["empty"] == "No launched operations on the selected streams."


def test_transfers(job):
    panel = MemoryBandwidthPanel(job)
    assert panel._spec["controls"][1]["options"] == [("All", "all"), ("Memcpy HtoD", "Memcpy HtoD")]
    assert panel.table["rank"].tolist() == [0, 1]
    panel.transfer = "Memset"
    assert panel._view["empty"] == "No Memset on the selected ranks."


def test_nothing_to_show(tmp_path):
    job = open_trace(write(tmp_path / "rank-0.json", [host(0, 1, "op")]), progress=False)
    assert QueueLengthPanel(job)._view["empty"] == "No GPU work was recorded on the selected ranks."
    words = "No copies or memsets were recorded on the selected ranks."
    assert MemoryBandwidthPanel(job)._view["empty"] == words


def test_they_are_on_the_dashboard(job):
    assert {"queue_length", "memory_bandwidth"} <= set(Dashboard(job).panels)


def test_the_selected_window_zooms_the_panels(panel):
    panel.selection.window_ns = (1_500, 6_000)
    assert list(axis_of(panel).range) == [1.5, 6]
    send(panel, window_us=[2, 3])
    assert panel.selection.window_ns == (1_500, 6_000)
    panel.selection.kernel = "gemm"
    assert panel.window_us == [2, 3]
    panel.selection.window_ns = (4_000, 6_000)
    assert panel.window_us == [4, 6]
    panel.selection.window_ns = None
    assert panel.window_us == []


def test_a_later_panel_begins_with_the_selected_window(panel):
    panel.selection.window_ns = (1_500, 6_000)
    assert type(panel)(panel.job).window_us == [1.5, 6]
    assert type(panel)(panel.job, window_us=[2, 3]).window_us == [2, 3]
    assert type(panel)(panel.job, ranks=[0]).window_us == []


def test_lines_and_windows_are_on_the_aligned_clock(tmp_path):
    """The recorded clock of rank 1 is 4 ms ahead, and the panel says that it is corrected."""
    write_job(tmp_path, ddp(2, 20), clocks={1: Clock(4_000_000)})
    job = open_trace(tmp_path, progress=False)
    panel = QueueLengthPanel(job)
    lines = [line.time_ns[0] for line in queue_lines(panel.result, panel.shift_ns)]
    recorded = [line.time_ns[0] for line in queue_lines(panel.result)]
    apart = {1: 4_000_000}
    of_rank = panel.result.streams["rank"].tolist()
    for first, own, rank in zip(lines, recorded, of_rank, strict=True):
        assert abs((own - first) - (recorded[0] - lines[0]) - apart.get(rank, 0)) < 10_000
    assert any("clock" in notice for notice in panel._view["notices"])
    panel.selection.window_ns = (1_000_000, 2_000_000)
    panel.ranks = [1]
    assert panel.window_us == [1_000, 2_000]


def test_without_copies_and_operators_there_is_no_tab_of_them(tmp_path):
    """A recording of kernels alone had a tab *Memory* without anything in it."""
    bare = [call(0, 5, 1), kernel(10, 10, correlation=1)]
    copy = kernel(30, 10, name="Memcpy HtoD", cat="gpu_memcpy", bytes=8)
    inside = [host(0, 9, "aten::mm"), *bare, copy]
    boards = [
        Dashboard(open_trace(write(tmp_path / f"{n}.json", events), progress=False))
        for n, events in enumerate((bare, inside))
    ]
    for name in ("memory_bandwidth", "kernel_sequences"):
        assert [name in board.panels for board in boards] == [False, True]
    assert [any(tab["name"] == "memory" for tab in board._spec["tabs"]) for board in boards] == [
        False,
        True,
    ]
