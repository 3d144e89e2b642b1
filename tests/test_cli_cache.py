"""``hta-widgets cache`` shows the content of the cache and removes nothing else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hta_widgets import cli
from hta_widgets.trace.cache import files as cache_files
from hta_widgets.trace.ranks.loading import load_rank
from hta_widgets.trace.ranks.source import RankSource
from tests.kineto_text import kernel, write


@pytest.fixture
def folder(cached: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(cache_files.SIZE_VARIABLE, "3")
    return cached


def keep(path: Path, rank: int = 0) -> Path:
    load_rank(RankSource(write(path, [kernel(0, 1)], comment="a secret")), rank)
    return path


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert cli.main(["cache", *arguments]) == 0
    return capsys.readouterr().out


def test_what_it_holds(tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = keep(tmp_path / "a.json"), keep(tmp_path / "b\x1b.json", rank=3)
    for age, entry in enumerate(cache_files.entries(folder)):
        os.utime(entry.path, (86_400 * (9 - age),) * 2)
    lines = said(capsys).splitlines()
    total = sum(path.stat().st_size for path in folder.iterdir())
    assert lines[0].split() == ["folder", str(folder), "(HTA_WIDGETS_CACHE)"]
    assert lines[1].split() == ["traces", "2"]
    assert f"{total / 1000:.3g} kB of at most 3 GB" in lines[2]
    assert lines[5].endswith(f" {str(second).replace(chr(27), '?')} (rank 3)")
    assert lines[6].endswith(f" {first} (rank 0)")
    assert lines[6].startswith("1970-01-0")
    assert "secret" not in "".join(lines)


def test_only_the_newest_are_listed(
    tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for rank in range(12):
        keep(tmp_path / "a.json", rank)
    lines = said(capsys).splitlines()
    assert lines[-1] == "and 2 more, used earlier"
    assert len(lines) == 3 + 2 + 10 + 1
    assert folder.is_dir()


def test_clear_leaves_what_is_not_its_own(
    tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keep(tmp_path / "a.json")
    (folder / ".abcd_123.part").write_bytes(bytes(1000))
    foreign = ["film.part", "notes.txt", "table.arrow", "remote/mine/url.txt", "remote/a.hta.arrow"]
    for name in foreign:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    [entry] = cache_files.entries(folder)
    text = said(capsys, "--clear")
    assert text == f"removed 1 trace ({(entry.size + 1000) / 1000:.3g} kB) from {folder}\n"
    left = [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()]
    assert sorted(left) == sorted(foreign)
    assert said(capsys, "--clear").startswith("removed 0 traces (0 B)")


def test_files_of_others_and_damaged_ones_are_named_as_such(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder.mkdir()
    (folder / f"x{cache_files.SUFFIX}").write_bytes(b"no Arrow")
    assert "damaged, or written by another version" in said(capsys)
    said(capsys, "--clear")
    assert not list(folder.iterdir())


def test_left_over_files_go_after_a_day(folder: Path) -> None:
    folder.mkdir()
    old, new = folder / ".aaaaaaaa.part", folder / ".bbbbbbbb.part"
    for path in (old, new):
        path.write_bytes(b"12345")
    os.utime(old, (0, 0))
    assert cache_files.prune(folder, 10**9) == 5
    assert [path.name for path in folder.iterdir()] == [new.name]


@pytest.mark.parametrize("arguments", [[], ["--clear"]])
def test_off(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(cache_files.VARIABLE, "off")
    assert said(capsys, *arguments).startswith("The cache is off (HTA_WIDGETS_CACHE=off)")


def test_absent(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "find_spec", lambda _: None)
    assert "traces  0\n" in said(capsys)
    assert said(capsys, "--clear").startswith("removed 0 traces")
    assert not folder.exists()
