"""What a notebook is saved with names no folder of the user's machine."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from hta_widgets.export import extended_trace
from hta_widgets.panels import ComparePanel, Dashboard, Panel
from hta_widgets.panels.dashboard import PANELS
from hta_widgets.sample import write_sample
from hta_widgets.trace.job import Job
from hta_widgets.trace.opening.open import open_trace
from tests.kineto_text import kernel, write
from tests.panels.fakes import send


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sample")
    write_sample(folder, ranks=2, steps=2, progress=False)
    return folder


@pytest.fixture
def folder(sample: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "of a user" / "run 7"
    shutil.copytree(sample, folder)
    counted = kernel(0, 1, cat="cuda_profiler_range", **{"inst.sum": 10})
    write(folder / "rank-2.json", [kernel(0, 5), counted], distributedInfo={"rank": 2})
    (folder / "notes.json").write_text("{}")
    return folder


def saved(widget: Panel | Dashboard) -> Iterator[str]:
    """Everything of a widget that a notebook keeps."""
    yield json.dumps({key: str(value) for key, value in widget.get_state().items()})
    yield from map(str, widget._repr_mimebundle_()[0].values())
    yield repr(widget)


def names_no_folder(widget: Panel | Dashboard, folder: Path) -> None:
    for text in saved(widget):
        for part in (folder, folder.parent, Path.home(), Path.cwd()):
            assert str(part) not in text


def press(panel: Panel, **into: str) -> str:
    for name in panel.buttons:
        number = panel._answer.get("number", 0) + 1
        send(panel, _action={"name": name, "number": number, **into})
    return panel._answer.get("text", "")


@pytest.mark.parametrize("name", PANELS)
def test_a_panel_names_none(folder, name, monkeypatch):
    monkeypatch.chdir(folder.parent)
    panel = PANELS[name](open_trace(folder, progress=False))
    names_no_folder(panel, folder)
    text = press(panel)
    assert text.startswith("Wrote " if panel.buttons else "")
    names_no_folder(panel, folder)


def test_nor_does_one_that_wrote_into_a_chosen_folder(folder, tmp_path):
    chosen = tmp_path / "chosen by the user"
    chosen.mkdir()
    panel = PANELS["queue_length"](open_trace(folder, progress=False))
    assert press(panel, folder=str(chosen)).endswith("to chosen by the user")
    assert list(chosen.iterdir())
    names_no_folder(panel, folder)
    press(panel, folder=str(chosen / "missing"))
    assert "does not exist" in panel._answer["text"]
    assert not any(str(chosen) in text for text in saved(panel))


def test_nor_do_dashboards_and_comparisons(folder):
    job = open_trace(folder, progress=False)
    board = Dashboard(job)
    names_no_folder(board, folder)
    for panel in [board.header, *board.panels.values()]:
        names_no_folder(panel, folder)
    assert board.header.table["file"].tolist()[2] == "rank-2.json"
    names_no_folder(ComparePanel(job, folder / "rank-2.json"), folder)


@pytest.mark.parametrize("name", ["overlap", "timeline"])
def test_errors_name_the_file_alone(folder, name):
    class Broken(PANELS[name]):
        def analyse(self, ranks):  # noqa: ARG002
            return self.job.sources[2].load(2)

    job = open_trace(folder, progress=False)
    (folder / "rank-2.json").write_text("[]")
    panel = Broken(job)
    assert panel._view["error"].startswith("rank-2.json has changed")
    names_no_folder(panel, folder)
    with pytest.raises(Exception, match="changed") as error:
        _ = panel.result
    assert str(folder) in str(error.value)


@pytest.fixture
def read_only(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Job:
    write_to = extended_trace.atomic_write

    def refuse(target, **options):
        if target.parent == folder:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(target))
        return write_to(target, **options)

    monkeypatch.setattr(extended_trace, "atomic_write", refuse)
    return open_trace(folder, progress=False)


def test_a_read_only_folder_of_traces_is_named_with_the_cure(read_only, folder, tmp_path):
    board = Dashboard(read_only)
    panel = board.panels["queue_length"]
    text = press(panel)
    assert "cannot be written (Read-only file system)" in text
    assert "write to another folder" in text
    names_no_folder(panel, folder)
    out = tmp_path / "written here"
    out.mkdir()
    board.output_dir = out
    assert press(panel).endswith(" to written here")
    assert {panel.output_dir for panel in board.panels.values()} == {out}
    assert len(list(out.iterdir())) == len(read_only.ranks) - 1
    names_no_folder(panel, out)


def test_a_panel_and_a_dashboard_take_a_folder(read_only, tmp_path):
    for panel in (
        PANELS["memory_bandwidth"](read_only, output_dir=tmp_path),
        Dashboard(read_only, output_dir=tmp_path).panels["kernel_sequences"],
    ):
        assert press(panel).startswith("Wrote ")
    assert any("overlaid" in path.name for path in tmp_path.iterdir())
