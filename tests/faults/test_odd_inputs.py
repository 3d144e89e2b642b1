"""Whatever is given opens, or fails with one error that names it and says what to do."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import socket
import tarfile
import zipfile
from pathlib import Path

import pytest

from hta_widgets.analyses import kernel_sequences
from hta_widgets.errors import HtaWidgetsError, RankError, TraceFormatError, UnreadableError
from hta_widgets.export.overlaid_trace import write_overlaid_trace
from hta_widgets.trace.loaders.kineto import packing
from hta_widgets.trace.opening.open import open_trace
from tests.kineto_text import call, host, kernel, write

EVENTS = [call(0, 1, 1), kernel(2, 1, correlation=1)]
DIGITS = "9" * 6000


def ranks_of(source):
    return open_trace(source, progress=False).ranks


@pytest.fixture
def forbid(monkeypatch):
    """Let the system refuse to open a path, also to the superuser."""

    def refuse(forbidden, number=13):
        allowed = Path.open

        def opened(self, *args, **options):
            if self == forbidden:
                raise OSError(number, os.strerror(number), str(self))
            return allowed(self, *args, **options)

        monkeypatch.setattr(Path, "open", opened)

    return refuse


def test_an_unreadable_file_does_not_stop_the_others(tmp_path, forbid):
    for rank in range(3):
        write(tmp_path / f"rank-{rank}.json", EVENTS)
    forbid(tmp_path / "rank-1.json")
    job = open_trace(tmp_path, progress=False)
    assert job.ranks == (0, 2)
    assert job.notices[0] == "rank-1.json cannot be read (Permission denied) and is left out"


@pytest.mark.parametrize("in_folder", [False, True])
@pytest.mark.parametrize("number", [5, 13])
def test_an_unreadable_file_by_itself_is_named(tmp_path, forbid, in_folder, number):
    path = write(tmp_path / "a.json", EVENTS)
    forbid(path, number)
    with pytest.raises(UnreadableError, match=r"a\.json cannot be read \((Perm|Input)"):
        ranks_of(tmp_path if in_folder else path)


def test_a_file_that_cannot_be_read_to_its_end(tmp_path, monkeypatch):
    path = write(tmp_path / "a.json", EVENTS)

    def broken(*_):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("hta_widgets.trace.loaders.kineto.load.decode_events", broken)
    with pytest.raises(UnreadableError, match=r"a\.json cannot be read \(Input/output error\)"):
        ranks_of(path)


def test_a_folder_that_may_not_be_read_is_named_itself(tmp_path, monkeypatch):
    folder = tmp_path / "closed"
    folder.mkdir()
    scan = os.scandir

    def refuse(path):
        if path == folder:
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr("os.scandir", refuse)
    with pytest.raises(UnreadableError, match=r"closed cannot be read \(Permission denied\)"):
        ranks_of(folder)


@pytest.mark.parametrize("name", ["a" * 5000, "~nobody_of_this_name/a.json", "a\0b"])
def test_a_path_that_cannot_be(name):
    with pytest.raises(HtaWidgetsError):
        ranks_of(name)


def packed(kind):
    content = json.dumps(EVENTS).encode()
    file = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("a.json", content)
        return file.getvalue()
    if kind.startswith("tar"):
        with tarfile.open(fileobj=file, mode="w") as archive:
            entry = tarfile.TarInfo("a.json")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
        pack = {"tar": bytes, "tar.gz": gzip.compress, "tar.xz": lzma.compress}[kind]
        return pack(file.getvalue())
    zstd = b"\x28\xb5\x2f\xfd" + content
    return {"bz2": bz2.compress, "zst": lambda _: zstd}[kind](content)


@pytest.mark.parametrize("kind", ["zip", "tar", "tar.gz", "tar.xz", "bz2", "zst"])
def test_packed_traces_must_be_unpacked(tmp_path, kind, monkeypatch):
    monkeypatch.setattr(packing, "ZSTD_MODULES", ["no.such.module"])
    path = tmp_path / f"a.json.{kind}"
    path.write_bytes(packed(kind))
    with pytest.raises(TraceFormatError, match=r"a\.json.* is packed .*; unpack it"):
        ranks_of(path)
    with pytest.raises(HtaWidgetsError, match=rf"a\.json\.{kind} must be unpacked first"):
        ranks_of(tmp_path)


@pytest.mark.skipif(os.name != "posix", reason="pipes and sockets of POSIX")
@pytest.mark.parametrize("kind", ["pipe", "socket"])
def test_pipes_and_sockets_are_not_waited_for(tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)
    if kind == "pipe":
        os.mkfifo("a.json")
    else:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind("a.json")
    with pytest.raises(TraceFormatError, match=r"a\.json is a pipe, a socket or a device"):
        ranks_of("a.json")


@pytest.mark.skipif(os.name != "posix", reason="paths of POSIX are bytes")
def test_a_path_of_any_bytes(tmp_path):
    path = tmp_path / os.fsdecode(b"rank-3\xff.json")
    assert ranks_of(write(path, EVENTS)) == (3,)


@pytest.mark.parametrize("rank", ["²", 10**30, str(10**30), -1, True, [1], None, 1.5])
def test_a_stated_rank_that_is_none(tmp_path, rank):
    path = write(tmp_path / f"rank-{10**30}.json", EVENTS, distributedInfo={"rank": rank})
    assert ranks_of(path) == (0,)


@pytest.mark.parametrize("rank", ["x", "²", 10**30, -1])
def test_a_given_rank_that_is_none(tmp_path, rank):
    with pytest.raises(RankError, match="is not a rank; give a whole number from 0 to 2147483647"):
        ranks_of({rank: write(tmp_path / "a.json", EVENTS)})


@pytest.mark.parametrize("base", ['"²"', f'"{DIGITS}"', DIGITS, str(10**30), "true", "[]"])
def test_a_base_time_that_is_none(tmp_path, base):
    path = tmp_path / "a.json"
    path.write_text(f'{{"baseTimeNanoseconds": {base}, "traceEvents": {json.dumps(EVENTS)}}}')
    assert open_trace(path, progress=False).origin_ns == 0


@pytest.mark.parametrize("args", [[1], 5, "x", True, None])
def test_arguments_that_are_no_object(tmp_path, args):
    events = [host(0, 9, "aten::mm"), *EVENTS, kernel(9, 1) | {"args": args}]
    events[0]["args"] = args
    path = write(tmp_path / "a.json", events, layout="one_line")
    job = open_trace(path, progress=False)
    assert len(job.rank(0).trace.events) == 4
    found = kernel_sequences(job, operator_name="aten", min_pattern_len=1)
    marked = write_overlaid_trace(job, found, tmp_path, compress_other_kernels=False)
    assert "Patterns" in json.loads(marked.read_text())["traceEvents"][0]["args"]
