"""Actions of the buttons of a panel, and their status messages."""

from __future__ import annotations

from pathlib import Path

import pytest

from hta_widgets.errors import HtaWidgetsError
from hta_widgets.panels.base.declarations import button
from hta_widgets.panels.base.written_files import describe
from tests.panels.fakes import FakePanel, fake_job, send


class WritingPanel(FakePanel):
    calls = 0

    @button("Write")
    def write(self):
        self.calls += 1
        return Path(f"/out/{len(self.result.bars)} bars.json")

    @button("Fail")
    def fail(self):
        msg = "there is nothing to write; choose another rank"
        raise HtaWidgetsError(msg)

    @button("Write into a folder")
    def write_into(self, output_dir: str | None = None) -> str:
        return f"into {output_dir or 'the usual place'}"

    def secret(self):
        self.calls += 1


@pytest.fixture
def panel() -> WritingPanel:
    return WritingPanel(fake_job())


def press(
    panel: WritingPanel, name: str, number: int = 1, folder: str = "", **values: object
) -> dict:
    chosen = {"folder": folder} if folder else {}
    send(panel, _action={"name": name, "number": number, **chosen}, **values)
    return panel._answer


def test_a_button_calls_its_method_and_its_answer_is_said(panel):
    assert press(panel, "write") == {
        "number": 1,
        "text": "Wrote 3 bars.json to out",
        "failed": False,
        "files": ["3 bars.json"],
    }
    assert panel._view["rev"] == panel._req == 1
    assert panel.runs == 1


def test_values_that_come_with_it_count(panel):
    assert press(panel, "write", bars=7)["text"] == "Wrote 7 bars.json to out"
    assert panel.runs == 2


def test_an_error_is_said_and_leaves_the_picture(panel):
    assert press(panel, "fail") == {
        "number": 1,
        "text": "there is nothing to write; choose another rank",
        "failed": True,
        "files": [],
    }
    assert panel._view["error"] is None


def test_a_method_that_is_overridden_without_a_button_has_none():
    class Silent(WritingPanel):
        def write(self):
            return super().write()

    panel = Silent(fake_job())
    assert press(panel, "write")["text"] == "Silent has no button 'write'"
    assert panel.calls == 0


@pytest.mark.parametrize("name", ["secret", "close", "analyse", "__init__", ""])
def test_other_methods_cannot_be_called(panel, name):
    answer = press(panel, name)
    assert answer["failed"]
    assert answer["text"] == f"WritingPanel has no button {name!r}"
    assert panel.calls == 0


def test_one_press_is_one_call(panel):
    press(panel, "write")
    press(panel, "write")
    send(panel, bars=4)
    assert panel.calls == 1
    press(panel, "write", number=2)
    assert panel.calls == 2


@pytest.mark.parametrize(
    ("returned", "text"),
    [
        (None, "Done."),
        ("Three kernels renamed.", "Three kernels renamed."),
        ([], "Nothing to write."),
        (Path("/r/a/b.json"), "Wrote b.json to a"),
        ([Path(f"/a/{n}.json") for n in range(8)], "Wrote 0.json, 1.json, 2.json and 5 more to a"),
    ],
)
def test_what_was_done_in_words(returned, text):
    assert describe(returned) == text


def test_the_folder_is_said_as_the_notebook_sees_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert describe(Path("a.json")) == "Wrote a.json to the working folder"
    assert describe(Path("out/of/a.json")) == "Wrote a.json to out/of"
    assert describe(tmp_path / "traces/a.json", [Path("traces")]) == (
        "Wrote a.json next to the traces"
    )


def test_a_folder_reaches_the_method_and_is_forgotten(panel):
    assert press(panel, "write_into")["text"] == "into the usual place"
    assert press(panel, "write_into", 2, "~/copies")["text"] == "into ~/copies"
    assert panel._action == {"name": "write_into", "number": 2}


def test_a_folder_for_a_button_that_takes_none_is_refused(panel):
    answer = press(panel, "write", folder="/anywhere")
    assert answer["failed"]
    assert answer["text"] == "'Write' of WritingPanel does not write into a folder"
    assert panel.calls == 0


def test_the_page_knows_which_buttons_take_a_folder(panel):
    takes = {each["name"]: each["takes_folder"] for each in panel._spec["controls"][-3:]}
    assert takes == {"write": False, "fail": False, "write_into": True}
