"""Paths in what a notebook is saved with: relative to the traces, or not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from hta_widgets.panels.base.shown_paths import distinct_endings, without_folders

RUN = Path("/data/team/run.7")


def shorten(text: str, *folders: Path) -> str:
    return without_folders(frozenset(folders))(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/data/team/run.7/rank-0.json has changed", "rank-0.json has changed"),
        ("read /data/team/run.7/a/b.json twice", "read a/b.json twice"),
        ("/data/team/run.7 is read-only", "run.7 is read-only"),
        ("output_dir '/data/team/run.7' is a file", "output_dir 'run.7' is a file"),
        ("see /data/team/run.7.", "see run.7."),
        ("(/data/team/run.7/a.json)", "(a.json)"),
        ("/data/team/run.70/a.json", "/data/team/run.70/a.json"),
        ("/mnt/data/team/run.7/a.json", "/mnt/data/team/run.7/a.json"),
        ("no path at all", "no path at all"),
    ],
)
def test_a_folder_is_left_out(text, shown):
    assert shorten(text, RUN) == shown


def test_the_home_becomes_a_tilde(monkeypatch, tmp_path):
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "somebody")
    without_folders.cache_clear()
    traces = tmp_path / "somebody" / "runs"
    assert shorten(f"{tmp_path}/somebody/x/y.json", traces) == "~/x/y.json"
    assert shorten(f"{traces}/a.json", traces) == "a.json"
    without_folders.cache_clear()


def test_a_link_is_known_by_both_names(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    text = f"{tmp_path}/link/a.json is {tmp_path}/real/a.json"
    assert shorten(text, tmp_path / "link") == "a.json is a.json"


def test_files_are_told_apart_by_as_little_as_possible():
    assert distinct_endings([]) == []
    assert distinct_endings(["/r/one.sqlite", "/r/one.sqlite"]) == ["one.sqlite", "one.sqlite"]
    assert distinct_endings(["/r/0/a.json", "/r/1/a.json", "/r/1/b.json"]) == [
        "0/a.json",
        "1/a.json",
        "1/b.json",
    ]
