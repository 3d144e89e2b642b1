"""``hta-widgets report``: what it writes, says and refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hta_widgets import cli
from hta_widgets.cli import html_report
from hta_widgets.panels.dashboard import PANELS, Dashboard
from hta_widgets.sample import write_sample
from tests.report_models import models_in


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("jobs") / "run 7"
    write_sample(folder, ranks=3, steps=2, progress=False)
    return folder


def states(file: Path) -> list[dict[str, Any]]:
    return [model["state"] for model in models_in(file.read_text(encoding="utf-8"))]


def findings(file: Path) -> Iterator[str]:
    for state in states(file):
        if "_view" in state:
            yield json.loads(state["_view"])["finding"]


def test_a_report_of_some_ranks(
    traces: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a report.html"
    assert cli.main(["report", str(traces), "-o", str(file), "--ranks", "1-2"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith(f"Wrote {file} (")
    assert out.endswith((" kB)\n", " MB)\n"))
    assert err == ""
    said = list(findings(file))
    assert "3 ranks: 0-2." in said
    board = Dashboard(traces)
    board.selection.ranks = [1, 2]
    for panel in board.panels.values():
        assert panel.sentence(panel.result) in said
    assert [1, 2] in [state.get("ranks") for state in states(file)]


@pytest.fixture
def working(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_it_is_written_to_the_working_folder_and_no_panel_computes_twice(
    traces: Path,
    working: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    counts = dict.fromkeys(PANELS, 0)
    for name, panel in PANELS.items():

        def counted(self: Any, ranks: list[int], name: str = name, was: Any = panel.analyse) -> Any:
            counts[name] += 1
            return was(self, ranks)

        monkeypatch.setattr(panel, "analyse", counted)
    assert cli.main(["report", *map(str, sorted(traces.iterdir()))]) == 0
    assert set(counts.values()) <= {0, 1}
    assert sum(counts.values()) > 5
    assert capsys.readouterr().out.startswith("Wrote report.html (")
    assert [file.name for file in working.iterdir()] == ["report.html"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nothing-here", "-o", "a.html"], "nothing-here does not exist"),
        (["TRACES", "-o", "a.json"], "the name of a report must end in .html, got 'a.json'"),
        (["TRACES", "-o", "none/a.html"], "none is not a folder"),
        (["TRACES", "-o", "mine.html"], "mine.html exists and is not an hta_widgets report"),
        (["TRACES", "-o", "a.html", "--ranks", "1,7"], "rank 7"),
    ],
)
def test_errors_are_one_line(
    traces: Path,
    working: Path,
    arguments: list[str],
    words: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (working / "mine.html").write_text("<p>mine</p>")
    given = [str(traces) if each == "TRACES" else each for each in arguments]
    assert cli.main(["report", *given]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("hta-widgets: ")
    assert words in err
    assert err.count("\n") == 1
    assert [file.name for file in working.iterdir()] == ["mine.html"]


def test_a_place_that_does_not_suit_is_refused_before_traces_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(html_report, "open_given", lambda *_, **__: pytest.fail("was read"))
    assert cli.main(["report", str(tmp_path), "-o", str(tmp_path / "a.json")]) == 2


def test_after_ctrl_c_an_earlier_report_is_there_still(
    traces: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a.html"
    before = PANELS["overlap"](traces).to_html(file).read_bytes()

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(PANELS["kernel_breakdown"], "analyse", interrupted)
    assert cli.main(["report", str(traces), "-o", str(file)]) == cli.INTERRUPTED
    assert file.read_bytes() == before
    assert list(tmp_path.iterdir()) == [file]


def test_a_report_compares_with_a_later_run(traces: Path, working: Path) -> None:
    arguments = ["report", str(traces), "--compare", str(traces), "-o", "a.html"]
    assert cli.main(arguments) == 0
    assert any("(second) takes as long as" in each for each in findings(working / "a.html"))
    assert str(traces.parent) not in str(states(working / "a.html"))


def test_help_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        cli.main(["report", "--help"])
    assert "hta-widgets report path/to/traces -o report.html" in " ".join(
        capsys.readouterr().out.split()
    )


def test_it_says_nothing_else_and_leaves_no_widget(traces: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hta_widgets", "report", str(traces)]
    done = subprocess.run(
        [*command, "-o", str(tmp_path / "a.html")], check=True, capture_output=True, text=True
    )
    assert done.stdout.startswith("Wrote ")
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""
