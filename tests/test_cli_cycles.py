"""The command ``hta-widgets`` on folders with several files of a rank."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from types import SimpleNamespace

import pytest

from hta_widgets import cli
from tests.recorded_folders import Recorded, cycles, tensorboard, vllm, write_folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "run", cycles(2, 3))


@pytest.fixture
def two_runs(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "run", [Recorded(pid=pid, start_us=pid * 1e7) for pid in (1, 2)])


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Notebooks that would be served."""
    paths: list[Path] = []
    serving = SimpleNamespace(serve=lambda path, *_, **__: paths.append(path))
    monkeypatch.setattr(cli, "lab", serving)
    return paths


def code(path: Path) -> str:
    return "\n".join("".join(cell["source"]) for cell in json.loads(path.read_text())["cells"])


@pytest.mark.parametrize(
    ("options", "step"), [([], 12), (["--cycle", "0"], 2), (["--cycle", "-2"], 7)]
)
def test_diagnose_takes_a_cycle(
    folder: Path, capsys: pytest.CaptureFixture[str], options: list[str], step: int
) -> None:
    assert cli.main(["diagnose", str(folder), *options]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"step {step} of" in said
    assert f"run, cycle {step // 5}" in said
    assert "in a shell" in said
    assert cli.main(["diagnose", str(folder), *options, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["cycle"], document["steps"]) == (step // 5, [step])


def test_report_takes_cycles(folder: Path, tmp_path: Path) -> None:
    output = tmp_path / "report.html"
    report = ["report", str(folder), "-o", str(output)]
    assert cli.main([*report, "--cycle", "0"]) == 0
    assert "run, cycle 0" in output.read_text(encoding="utf-8")
    assert cli.main([*report, "--cycle", "0", "--compare-cycle", "-1"]) == 0
    assert "run, cycle 0 → run, cycle 2" in output.read_text(encoding="utf-8")
    assert cli.main([*report, "--compare", str(folder), "--compare-cycle", "1"]) == 0
    assert "run, cycle 2 → run, cycle 1" in output.read_text(encoding="utf-8")


def test_open_writes_them_into_the_notebook(
    folder: Path, tmp_path: Path, served: list[Path]
) -> None:
    to = ["--folder", str(tmp_path / "notebooks")]
    open_ = ["open", str(folder), *to]
    assert cli.main([*open_, "--cycle", "1"]) == 0
    assert f'open_trace("{folder}", cycle=1)\n' in code(served[-1])
    assert cli.main([*open_, "--compare-cycle", "0"]) == 0
    assert "Dashboard(job, compare=job.open_cycle(0))\n" in code(served[-1])
    assert cli.main([*open_, "--compare", str(folder), "--compare-cycle", "0"]) == 0
    assert f'compare=open_trace("{folder}", cycle=0))\n' in code(served[-1])


@pytest.mark.parametrize("command", ["open", "diagnose", "report"])
def test_a_cycle_that_is_not_there_is_an_error_with_all_that_are(
    folder: Path,
    served: list[Path],
    capsys: pytest.CaptureFixture[str],
    command: str,
) -> None:
    assert cli.main([command, str(folder), "--cycle", "3"]) == cli.USER_ERROR
    said = capsys.readouterr().err
    assert said.startswith("hta-widgets: there is no cycle 3; there are cycle 0 (2025-07-01")
    assert served == []


@pytest.mark.usefixtures("served")
@pytest.mark.parametrize("command", ["open", "diagnose", "report"])
def test_runs_are_listed_with_what_to_type(
    two_runs: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main([command, str(two_runs)]) == cli.USER_ERROR
    said = capsys.readouterr().err
    assert said.startswith("hta-widgets: the traces come from 2 runs")
    assert "open_trace" not in said
    typed = [line for line in said.splitlines() if line.startswith("  hta-widgets ")]
    assert len(typed) == 2
    for line in typed:
        assert cli.main(shlex.split(line)[1:]) == 0
    assert capsys.readouterr().err == ""


def test_nothing_to_read_is_no_advice_for_python(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = [
        Recorded(rank=rank, pid=pid, world_size=2, start_us=1e6 + pid)
        for rank in range(2)
        for pid in (1, 2)
    ]
    folder = write_folder(tmp_path / "run", made, lambda each: f"p{each.pid}_{vllm(each)}")
    assert cli.main(["diagnose", str(folder)]) == cli.USER_ERROR
    said = capsys.readouterr().err
    assert "- rank 1: " in said
    assert "give one file of each rank: hta-widgets diagnose FILE" in said
    assert "open_trace" not in said


def test_names_cannot_write_to_a_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = [Recorded(pid=pid, start_us=pid * 1e7) for pid in (1, 2)]
    folder = write_folder(tmp_path / "run", made, lambda each: f"\x1b[31m\n{tensorboard(each)}")
    assert cli.main(["diagnose", str(folder)]) == cli.USER_ERROR
    said = capsys.readouterr().err
    assert "\x1b" not in said
    assert len(said.splitlines()) == 6
