"""What cannot be made says so in one message, and leaves nothing behind."""

from __future__ import annotations

import gc
import sys

import ipywidgets
import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets import TraitError

from hta_widgets import Dashboard
from hta_widgets.analyses.diagnosis.budget import class_of
from hta_widgets.analyses.diagnosis.vocabulary import CAUSES
from hta_widgets.errors import HtaWidgetsError, ParameterError
from hta_widgets.panels import OverlapPanel
from hta_widgets.sample import write_sample


def open_widgets() -> set[str]:
    gc.collect()
    return {*ipywidgets.Widget.widgets}


@pytest.fixture
def ignored(monkeypatch):
    """Exceptions that Python could only print, such as those of `__del__`."""
    found = []
    monkeypatch.setattr(sys, "unraisablehook", found.append)
    return found


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # ipywidgets 8: Widget.widgets
def test_a_widget_that_cannot_be_made_leaves_nothing(tmp_path, ignored):
    folder = write_sample(tmp_path / "job", ranks=1, steps=2, progress=False)
    OverlapPanel(folder).close()  # what all widgets share is made
    before = open_widgets()
    for make in (
        lambda: Dashboard(tmp_path / "nothing"),
        lambda: Dashboard(folder, compare=tmp_path / "nothing"),
        lambda: Dashboard(folder, tab="nothing"),
        lambda: OverlapPanel(tmp_path / "nothing"),
        lambda: OverlapPanel(folder, ranks=[7]),
        lambda: OverlapPanel(folder, nothing=1),
    ):
        with pytest.raises((HtaWidgetsError, TraitError, TypeError)):
            make()
    assert open_widgets() == before
    assert ignored == []


def test_a_notebook_shows_one_message(tmp_path, capsys):
    shell = InteractiveShell.instance()
    try:
        shell.run_cell(
            "from hta_widgets import Dashboard\n"
            "def show(path):\n"
            "    return Dashboard(path)\n"
            f"show({str(tmp_path / 'nothing')!r})"
        )
        out, err = capsys.readouterr()
        lines = [line for line in (out + err).splitlines() if line.strip()]
        assert lines[0].startswith(f"TraceNotFoundError: {tmp_path / 'nothing'} does not exist; ")
        assert lines[1:] == ["  line 3: return Dashboard(path)"]
        assert isinstance(sys.last_value, HtaWidgetsError)  # what %debug looks at
    finally:
        InteractiveShell.clear_instance()


def test_every_cause_is_seen_in_a_class_of_time_and_others_are_named():
    assert {class_of(cause).name for cause in CAUSES} >= {"compute", "waiting", "data_loading"}
    with pytest.raises(ParameterError, match=r"^no cause is called 'new'; there are .*slow_gpu"):
        class_of("new")
