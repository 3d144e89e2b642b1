from __future__ import annotations

import pandas as pd
import pytest
from traitlets import TraitError

from hta_widgets.analyses.idle_time import idle_time
from hta_widgets.panels import IdleTimePanel
from hta_widgets.trace.job import Job
from hta_widgets.trace.opening.open import open_trace
from tests.kineto_text import host, kernel, write
from tests.panels.fakes import send


def test_the_result_is_that_of_the_analysis(loaded: Job):
    panel = IdleTimePanel(loaded, ranks=[1, 3], consecutive_kernel_delay=2.5)
    expected = idle_time(loaded, [1, 3], consecutive_kernel_delay=2.5)
    pd.testing.assert_frame_equal(panel.result.streams, expected.streams)
    for level, keys, table in (
        ("device", ["rank", "device"], expected.device_split),
        ("stream", ["rank", "device", "stream"], expected.stream_split),
    ):
        panel.level = level
        pd.testing.assert_frame_equal(panel.table.sort_index(), table)
        groups = [group for _, group in panel.table.groupby(keys, sort=False)]
        assert all(each["idle_time_ns"].is_monotonic_decreasing for each in groups)
        assert [*map(len, groups)] == [len(table["split"].unique())] * len(groups)


def test_how_little_the_gpu_is_idle_is_said(tmp_path):
    kernels = [kernel(0, 59), kernel(60, 40)]
    panel = IdleTimePanel(open_trace(write(tmp_path / "rank-0.json", kernels), progress=False))
    assert panel.result.finding == ""
    assert panel._view["finding"] == "The GPU is idle for 1 µs of 100 µs (1 % of the GPU span)."


def test_the_table_says_causes_as_the_chart_does(loaded: Job):
    table = IdleTimePanel(loaded, ranks=[0])._view["table"]
    heading = next(each["label"] for each in table["columns"] if each["name"] == "split")
    assert (heading, table["names"]["host"]) == ("cause", "CPU-bound")
    assert {*table["names"]} == {*IdleTimePanel(loaded, ranks=[0]).table["split"]}


def test_the_delay_moves_intervals_between_causes(loaded: Job):
    panel = IdleTimePanel(loaded, ranks=[0], consecutive_kernel_delay=0)

    def between_kernels() -> int:
        table = panel.table
        return int(table.loc[table["split"] == "between_kernels", "count"].sum())

    assert between_kernels() == 0
    send(panel, consecutive_kernel_delay=10_000)
    assert between_kernels() > 0
    with pytest.raises(TraitError):
        panel.consecutive_kernel_delay = -1


def test_a_linked_panel_draws_all_gpus_and_the_streams_of_the_selected_ranks(loaded: Job):
    panel = IdleTimePanel(loaded, level="stream")
    panel.ranks = [2]
    streams = panel.figures["Idle time of each stream"]
    assert not any("Rank" in label for label in streams.layout.yaxis.ticktext)
    panel.level = "device"
    devices = panel.figures["Idle time of each GPU"]
    assert all(len(bar.x) == 4 for bar in devices.data)
    assert all(tuple(bar.selectedpoints) == (2,) for bar in devices.data)
    panel.ranks = []


def test_shares_or_times(loaded: Job):
    panel = IdleTimePanel(loaded)
    assert "ms" in panel.figures["Idle time of each GPU"].layout.yaxis.title.text
    panel.visualize_pctg = True
    assert "%" in panel.figures["Idle time of each GPU"].layout.yaxis.title.text


def test_times_are_per_step_where_whole_steps_are_counted(loaded: Job):
    panel = IdleTimePanel(loaded)

    def drawn() -> tuple[str, float]:
        figure = panel.figures["Idle time of each GPU"]
        return figure.layout.yaxis.title.text, sum(float(bar.y[0]) for bar in figure.data)

    def idle_ms() -> float:
        table = panel.result.device_split
        return float(table.loc[table["rank"] == 0, "idle_time_ns"].sum()) / 1e6

    steps = len(loaded.rank(0).steps) - 1  # the last mark is not analysed
    assert drawn() == ("Time (ms per step)", pytest.approx(idle_ms() / steps))
    panel.selection.steps = (11,)
    assert drawn() == ("Time (ms per step)", pytest.approx(idle_ms()))
    panel.selection.set(window_ns=(0, 30_000_000))
    assert drawn() == ("Time (ms)", pytest.approx(idle_ms()))
    panel.selection.set()


def test_streams_that_nothing_runs_on_are_said(loaded: Job):
    panel = IdleTimePanel(loaded, streams=[12345], level="stream")
    assert panel._view["empty"] == "No GPU work on the selected streams."
    panel.level = "device"
    assert panel._view["empty"] is None


def test_no_gpu_work_is_said(tmp_path):
    job = open_trace(write(tmp_path / "rank-0.json", [host(0, 1, "op")]), progress=False)
    assert IdleTimePanel(job)._view["empty"] == "No GPU work was recorded on the selected ranks."
