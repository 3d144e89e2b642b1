"""What the results of the benchmarks say they are of."""

from __future__ import annotations

import subprocess
import sys

import pytest

from benchmarks import __main__ as benchmarks
from benchmarks.environments import RESULTS, revision


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
