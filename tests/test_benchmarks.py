"""What the results of the benchmarks say they are of."""

from __future__ import annotations

import subprocess
import sys

import pytest

from benchmarks import __main__ as benchmarks
from benchmarks import diagnose, diagnosing
from benchmarks.children import Child, Outcome
from benchmarks.environments import RESULTS, revision
from hta_widgets.trace.opening import open as opening


@pytest.fixture
def checkout(tmp_path):
    """A commit with results, and with nothing changed since."""
    (tmp_path / RESULTS).parent.mkdir()
    (tmp_path / RESULTS).write_text("# How fast\n")
    name = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    for arguments in (["init", "-q"], ["add", "."], [*name, "commit", "-qm", "Measure"]):
        subprocess.run(["git", *arguments], check=True, cwd=tmp_path)
    return tmp_path


def test_results_that_are_saved_leave_a_commit_clean(checkout):
    clean = revision(checkout)
    (checkout / RESULTS).write_text("# How fast\n\n## First load\n")
    assert revision(checkout) == clean
    (checkout / "new.py").touch()
    assert revision(checkout) == f"{clean}-dirty"


def test_no_results_are_saved_of_what_is_no_commit(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--save"])
    monkeypatch.setattr(benchmarks, "revision", lambda: "commit 1234567-dirty")
    with pytest.raises(SystemExit, match="uncommitted changes"):
        benchmarks.main()


def test_a_diagnosis_is_measured_beside_loading(tmp_path, monkeypatch):
    asked = []

    def run(child, task, *, folder, sample_tree):
        asked.append((child.script, task))
        return Outcome(diagnosing.TASKS[task](folder), 0, 0, 100.0, 200.0 * sample_tree)

    monkeypatch.setattr(Child, "run", run)
    monkeypatch.setattr(diagnose, "FEW", (2, 3))
    monkeypatch.setattr(opening, "RANKS_HELD", 1)
    monkeypatch.setattr(opening, "BYTES_AT_ONCE", opening.BYTES_AT_ONCE)  # the task changes it
    table = [*diagnose.rows(tmp_path, 1, tiny=True)]
    tasks = ["held", "on_demand", "on_demand", "compared"]
    assert asked == [("diagnosing", task) for task in tasks]
    assert [len(cells) for cells in table] == [len(diagnose.HEADINGS)] * 4
    assert [cells[0] for cells in table[:3]] == [
        "8 ranks of 400 events",
        "2 ranks of 400 events, 8 held",
        "3 ranks of 400 events, 8 held",
    ]
    assert all(float(cells[3]) > 0 for cells in table)
    assert [cells[4] for cells in table] == ["100 MB", "200 MB", "200 MB", "100 MB"]
    assert [cells[6] for cells in table[1:3]] == ["", "yes"]
    assert table[3][0].startswith("2 × 2 ranks of 400 events compared (")
