"""A job is freed with the last widget that shows it, however these end."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hta_widgets import TraceAnalysis, open_trace
from hta_widgets.panels import Dashboard, KernelBreakdownPanel
from hta_widgets.sample import write_sample
from hta_widgets.trace.job import Job

pytestmark = pytest.mark.usefixtures("only_new_objects")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("freed")
    write_sample(folder, ranks=2, steps=3, progress=False)
    return folder


def jobs() -> int:
    gc.collect()
    return sum(type(each) is Job for each in gc.get_objects())


def open_and_forget(folder: Path) -> None:
    open_trace(folder, progress=False)


def analyse(folder: Path) -> None:
    TraceAnalysis(trace_dir=str(folder), progress=False).get_gpu_kernel_breakdown(visualize=False)


def close_panel(folder: Path) -> None:
    KernelBreakdownPanel(folder).close()


def close_dashboard(folder: Path) -> None:
    Dashboard(folder).close()


def close_each_widget(folder: Path) -> None:
    board = Dashboard(folder)
    for each in (*board.panels.values(), board.header, board.selection, board):
        each.close()


@pytest.mark.parametrize(
    "use", [open_and_forget, analyse, close_panel, close_dashboard, close_each_widget]
)
def test_the_job_is_freed(use: Callable[[Path], None], folder: Path) -> None:
    before = jobs()
    use(folder)
    assert jobs() == before


CLOSE_ALL = """
import gc, ipywidgets
from hta_widgets import Dashboard
from hta_widgets.trace.job import Job
Dashboard({folder!r})
ipywidgets.Widget.close_all()
gc.collect()
print(sum(type(each) is Job for each in gc.get_objects()))
"""


def test_the_job_is_freed_where_all_widgets_are_closed(folder: Path) -> None:
    """In a process of its own: the widgets of other tests are closed as well."""
    code = CLOSE_ALL.format(folder=str(folder))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "0"


def test_an_open_panel_keeps_its_job(folder: Path) -> None:
    before = jobs()
    panel = KernelBreakdownPanel(folder)
    assert jobs() == before + 1
    panel.close()
