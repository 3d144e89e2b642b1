"""A panel or dashboard that cannot be made leaves nothing open, and says why in one message."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from traitlets import TraitError

from hta_widgets.errors import HtaWidgetsError
from hta_widgets.panels import ComparePanel, Dashboard, KernelBreakdownPanel
from hta_widgets.panels.every import PANELS
from hta_widgets.trace.job import Job
from tests.panels.fakes import FakePanel, fake_job
from tests.soak import open_widgets

Make = Callable[[Path], object]

NOWHERE: dict[str, Make] = {
    "Dashboard": Dashboard,
    "the second job of a Dashboard": lambda nowhere: Dashboard(fake_job(), compare=nowhere),
    "the second job of a panel": lambda nowhere: ComparePanel(fake_job(), nowhere),
    "a panel of its own ranks": lambda nowhere: KernelBreakdownPanel(nowhere, ranks=[0]),
    **{name: lambda nowhere, make=make: make(nowhere) for name, make in PANELS.items()},
}

REFUSED: dict[str, Make] = {
    "a cycle that is none": lambda _: Dashboard(fake_job(), cycle=7),
    "a rank that is none": lambda _: FakePanel(fake_job(), ranks=[9]),
    "a value of another kind": lambda _: FakePanel(fake_job(), bars="x"),
    "a value of another kind, beside streams": lambda _: FakePanel(fake_job(), ranks=[1], bars=0),
    "a parameter that is none": lambda _: FakePanel(fake_job(), nope=1),
}


@pytest.fixture
def unraisable(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What goes wrong where Python can only say so: above the user's own error."""
    found: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda problem: found.append(problem.exc_value))
    return found


def alive() -> int:
    gc.collect()
    return sum(isinstance(each, Dashboard | Job) for each in gc.get_objects())


@pytest.mark.usefixtures("only_new_objects")
@pytest.mark.parametrize("make", [*NOWHERE.values(), *REFUSED.values()], ids=[*NOWHERE, *REFUSED])
def test_nothing_is_left(make: Make, tmp_path: Path, unraisable: list[object]) -> None:
    FakePanel(fake_job()).close()  # with the first widget, the assets that all share are made
    count, before = alive(), {*open_widgets()}
    with pytest.raises((HtaWidgetsError, TraitError, TypeError)):
        make(tmp_path / "nowhere")
    assert alive() == count
    assert {*open_widgets()} <= before
    assert unraisable == []


def run_in_ipython(cell: str, then: str = "") -> str:
    """What a cell shows, colours off; `then` is Python that runs after it."""
    code = (
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "shell = InteractiveShell.instance(colors='nocolor')\n"
        f"shell.run_cell({cell!r})\n{then}"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout + done.stderr


CELL = "import hta_widgets\nhta_widgets.Dashboard('/nowhere')"
SAID = "TraceNotFoundError: /nowhere does not exist; give a trace, a folder of traces, or several "


def test_a_cell_that_fails_shows_one_message() -> None:
    (line,) = run_in_ipython(CELL).splitlines()
    assert line.startswith(SAID)


def test_the_debugger_still_finds_where_it_was_raised() -> None:
    said = run_in_ipython(
        CELL, "import sys, traceback\ntraceback.print_tb(sys.last_value.__traceback__)\n"
    )
    assert said.splitlines()[0].startswith(SAID)
    assert "hta_widgets.Dashboard('/nowhere')" in said or "in <module>" in said
    assert "in as_job" in said


def test_python_itself_shows_the_whole_traceback() -> None:
    done = subprocess.run([sys.executable, "-c", CELL], capture_output=True, text=True, check=False)
    assert done.stderr.startswith("Traceback (most recent call last)")
    assert SAID in done.stderr.splitlines()[-1]
    assert "Exception ignored" not in done.stderr
