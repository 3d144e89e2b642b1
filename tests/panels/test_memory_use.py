from __future__ import annotations

import pandas as pd
import pytest

from hta_widgets.analyses.clocks.aligned import common_offsets_ns
from hta_widgets.analyses.memory_use import memory_use
from hta_widgets.analyses.time.modules import SEPARATOR
from hta_widgets.panels import Dashboard, MemoryPanel
from hta_widgets.panels.base.selection import MODULE_SEPARATOR
from hta_widgets.trace.job import Job
from hta_widgets.trace.opening.open import open_trace
from tests.analyses.test_memory_use import NO_MEMORY, with_totals
from tests.kineto_text import host, kernel, write
from tests.panels.fakes import send
from tests.trace.test_memory_events import memory

CURVE = "Allocated and reserved memory"


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Job:
    """Two ranks with memory of a GPU and of the CPU."""
    folder = tmp_path_factory.mktemp("memory")
    for rank in range(2):
        changes = [(10 * n, 10**6 * (1 + rank), n + 1) for n in range(9)]
        cpu = with_totals([(5, 64, 1)], device=(0, -1))
        calls = [host(0, 40, "aten::mm"), host(40, 60, "aten::add"), kernel(2, 30)]
        write(folder / f"rank-{rank}.json", [*calls, *with_totals(changes, start=500), *cpu])
    return open_trace(folder, progress=False)


def test_the_tables_are_those_of_the_analysis(job: Job):
    panel, expected = MemoryPanel(job, ranks=[1]), memory_use(job, [1])
    for listed, name in {
        "alive": "alive_at_peak",
        "devices": "peak",
        "steps": "steps",
        "survivors": "survivors",
    }.items():
        panel.listed = listed
        table = getattr(expected, name)
        of_gpu = table[table["device"] >= 0].reset_index(drop=True)
        pd.testing.assert_frame_equal(panel.table, of_gpu)
    panel.memory, panel.listed = "cpu", "devices"
    assert panel.table["bytes"].tolist() == [64]


def test_what_is_drawn_follows_the_parameters(job: Job):
    panel = MemoryPanel(job, ranks=[0, 1])
    assert list(panel.figures) == [CURVE, "Alive at the peak of GPU 0 of rank 1"]
    assert len(panel.figures[CURVE].data) == 4
    send(panel, num_owners=1)
    bars = panel.figures["Alive at the peak of GPU 0 of rank 1"]
    assert len(bars.layout.yaxis.ticktext) == 1
    send(panel, by="module")
    bars = panel.figures["Alive at the peak of GPU 0 of rank 1"]
    assert list(bars.layout.yaxis.ticktext) == ["(no module)"]
    assert panel._view["finding"] == panel.result.finding
    send(panel, memory="cpu")
    assert list(panel.figures)[1] == "Alive at the peak of the CPU of rank 0"
    curve, *_ = panel.figures[CURVE].layout.annotations
    assert curve.text == "CPU of rank 0: allocated, and reserved (grey), in TB"
    assert panel._view["finding"].startswith("The memory of the CPU of rank 0 peaks at 64 B ")


def test_nothing_is_drawn_of_what_is_alive_if_nothing_is_known_of_it(tmp_path):
    events = [kernel(0, 1), *(memory(ts, 100, address=None) for ts in (1, 2))]
    panel = MemoryPanel(open_trace(write(tmp_path / "rank-0.json", events), progress=False))
    assert list(panel.figures) == [CURVE]
    assert panel._view["finding"].startswith("The memory of GPU 0 peaks 200 B above its lowest ")


def test_a_selected_window_zooms(job: Job):
    panel = MemoryPanel(job)
    panel.selection.window_ns = (10_000, 40_000)
    assert panel.window_us == [10, 40]
    assert tuple(panel.figures[CURVE].layout.xaxis.range) == (10, 40)
    shift_us = (common_offsets_ns(job)[1] - job.offset_ns(1)) / 1000
    assert min(panel.figures[CURVE].data[2].x) >= 10 + min(shift_us, 0)
    panel.selection.window_ns = None
    assert panel.window_us == []


def test_no_memory_events_are_said_and_the_dashboard_does_without(tmp_path):
    path = write(tmp_path / "rank-0.json", [host(0, 9, "aten::mm"), kernel(1, 1)])
    job = open_trace(path, progress=False)
    assert MemoryPanel(job)._view["empty"] == f"{NO_MEMORY} Recipes: docs/recording.md."
    assert "memory_use" not in Dashboard(job).panels


def test_only_memory_of_the_gpu(tmp_path, job: Job):
    events = [host(0, 9, "aten::mm"), *with_totals([(1, 8, 1)])]
    path = write(tmp_path / "rank-0.json", events)
    panel = MemoryPanel(open_trace(path, progress=False), memory="cpu")
    assert panel._view["empty"] == "No events of CPU memory were recorded on the selected ranks."
    assert "memory_use" in Dashboard(job).panels


def test_paths_of_modules_are_those_of_the_selection():
    assert SEPARATOR == MODULE_SEPARATOR
