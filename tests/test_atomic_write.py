"""Files and folders are there completely or not at all."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from contextlib import contextmanager

import pytest

from hta_widgets import open_trace
from hta_widgets.atomic_write import PARTIAL_NAME, atomic_folder, atomic_write
from hta_widgets.export.excerpt import write_excerpt
from hta_widgets.sample import write_sample
from tests.serving import ROOT


def test_a_file_is_replaced_at_the_end(tmp_path):
    target = tmp_path / "table"
    target.write_text("old")
    with atomic_write(target) as partial:
        partial.write_text("new")
        assert PARTIAL_NAME.fullmatch(partial.name)
        assert target.read_text() == "old"
    assert target.read_text() == "new"
    assert list(tmp_path.iterdir()) == [target]


def test_a_folder_appears_at_the_end(tmp_path):
    target = tmp_path / "new" / "tables"
    with atomic_folder(target) as partial:
        (partial / "table").write_text("rows")
        assert not target.exists()
    assert [file.name for file in target.iterdir()] == ["table"]
    assert list(target.parent.iterdir()) == [target]


@pytest.mark.parametrize("write", [atomic_write, atomic_folder])
def test_nothing_is_left_after_an_error(tmp_path, write):
    with pytest.raises(ZeroDivisionError), write(tmp_path / "target"):
        _ = 1 / 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
@pytest.mark.parametrize(("private", "mode"), [(False, 0o644), (True, 0o600)])
def test_only_private_files_are_hidden_from_others(tmp_path, private, mode):
    before = os.umask(0o022)
    try:
        with atomic_write(tmp_path / "table", private=private):
            pass
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "table").stat().st_mode) == mode


WRITING = """
import sys
from pathlib import Path
from hta_widgets.atomic_write import atomic_folder, atomic_write
write = atomic_folder if sys.argv[2] == "folder" else atomic_write
with write(Path(sys.argv[1])) as partial:
    (partial / "table" if partial.is_dir() else partial).write_text("half")
    print(partial.name, flush=True)
    sys.stdin.read()
    (partial / "more" if partial.is_dir() else partial).write_text("whole")
"""


@contextmanager
def writing(target, kind="file"):
    """A process that has written half of a file or folder, and that folder or file."""
    command = [sys.executable, "-c", WRITING, str(target), kind]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, cwd=ROOT, text=True, **pipes) as process:
        yield process, target.parent / process.stdout.readline().strip()
        process.kill()


needs_locks = pytest.mark.skipif(os.name != "posix", reason="the locks of POSIX")


@needs_locks
class TestKilledWriters:
    @pytest.mark.parametrize("kind", ["file", "folder"])
    @pytest.mark.parametrize("write", [atomic_write, atomic_folder])
    def test_what_they_left_goes_when_something_is_written_there(self, tmp_path, kind, write):
        with writing(tmp_path / "old", kind) as (process, partial):
            process.send_signal(signal.SIGKILL)
            process.wait()
        assert partial.exists()
        with write(tmp_path / "new"):
            assert not partial.exists()
        assert [path.name for path in tmp_path.iterdir()] == ["new"]

    def test_an_export_goes_on_where_another_was_killed(self, tmp_path):
        write_sample(tmp_path, ranks=1, steps=2, progress=False)
        with writing(tmp_path / "rank-0_excerpt.json.gz") as (process, partial):
            process.kill()
            process.wait()
        assert partial.exists()
        job = open_trace(tmp_path, progress=False)
        (written,) = write_excerpt(job, (0, 10**7), output_dir=tmp_path)
        assert {path.name for path in tmp_path.iterdir()} == {"rank-0.json.gz", written.name}

    @pytest.mark.parametrize("kind", ["file", "folder"])
    def test_what_others_are_writing_stays(self, tmp_path, kind):
        with writing(tmp_path / "theirs", kind) as (process, partial):
            for write in (atomic_write, atomic_folder):
                with write(tmp_path / write.__name__), write(tmp_path / f"{write.__name__}-2"):
                    assert partial.exists()
            process.communicate("go on", timeout=60)
            assert process.returncode == 0
        found = tmp_path / "theirs"
        assert (found / "more" if kind == "folder" else found).read_text() == "whole"
        assert sorted(path.name for path in tmp_path.iterdir()) == [
            *("atomic_folder", "atomic_folder-2", "atomic_write", "atomic_write-2", "theirs"),
        ]

    def test_what_somebody_else_left_stays(self, tmp_path):
        others = [
            *("film.part", ".12345678.part", ".hta_widgets-12345678.part", "trace.json.part"),
            ".hta_widgets-00000000-12345678.part",
        ]
        for name in others:
            (tmp_path / name).touch()
        with atomic_write(tmp_path / "table"):
            pass
        assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*others, "table"])

    def test_where_nothing_can_be_locked_nothing_is_removed(self, tmp_path, monkeypatch):
        with writing(tmp_path / "old") as (process, partial):
            process.kill()
            process.wait()

        def refuse(*_):
            raise OSError(37, "No locks available")

        monkeypatch.setattr("fcntl.flock", refuse)
        with atomic_write(tmp_path / "new") as unfinished:
            unfinished.write_text("new")
        assert (tmp_path / "new").read_text() == "new"
        assert partial.exists()

    @pytest.mark.parametrize("write", [atomic_write, atomic_folder])
    def test_one_that_is_removed_before_it_is_locked_is_made_again(
        self, tmp_path, monkeypatch, write
    ):
        fcntl = pytest.importorskip("fcntl")
        lock, removed = fcntl.flock, []

        def late(opened, kind):
            (partial,) = tmp_path.glob(".*.part")
            if len(removed) < 2:
                removed.append(partial)
                partial.rmdir() if partial.is_dir() else partial.unlink()
            if len(removed) == 1:
                raise BlockingIOError
            lock(opened, kind)

        monkeypatch.setattr(fcntl, "flock", late)
        with write(tmp_path / "new") as partial:
            assert partial.exists()
            assert partial not in removed
        assert len(removed) == 2
        assert [path.name for path in tmp_path.iterdir()] == ["new"]

    def test_an_error_of_the_writer_comes_out(self, tmp_path):
        mine = BlockingIOError("mine")
        with pytest.raises(BlockingIOError, match="mine"), atomic_write(tmp_path / "new"):
            raise mine
        assert list(tmp_path.iterdir()) == []

    def test_no_file_stays_open(self, tmp_path, monkeypatch):
        opened, closed = [], []
        for name, calls in (("open", opened), ("close", closed)):
            call = getattr(os, name)
            monkeypatch.setattr(os, name, lambda *args, c=call, n=calls: n.append(1) or c(*args))
        for number in range(20):
            with atomic_write(tmp_path / str(number)):
                pass
        assert len(opened) == len(closed) > 0
