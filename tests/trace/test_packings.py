"""Traces packed with xz and Zstandard are those that were packed."""

from __future__ import annotations

import lzma
import sys
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

from hta_widgets import open_trace
from hta_widgets.analyses import kernel_breakdown
from hta_widgets.export.trace_with_counters import write_traces_with_counters
from hta_widgets.panels import KernelSequencesPanel
from hta_widgets.trace.loaders.kineto import packing
from hta_widgets.trace.loaders.kineto import text as event_text
from hta_widgets.trace.loaders.kineto.text import EventText
from tests.kineto_text import call, host, kernel, write

MAGIC = b"\x28\xb5\x2f\xfd"
EVENTS = [
    event
    for number in range(500)
    for event in (
        host(number * 40, 30, "aten::mm"),
        call(number * 40 + 1, 3, number + 1),
        kernel(number * 40 + 9, 20, name=f"gemm_{number % 7}", correlation=number + 1),
    )
]


class StandIn:
    """The interface of `compression.zstd`: zlib behind the magic bytes."""

    def __init__(self) -> None:
        self._stream, self._is_first = zlib.decompressobj(), True
        self.eof, self.needs_input, self.unused_data = False, True, b""

    def decompress(self, data: bytes, max_length: int) -> bytes:
        if self._is_first and data:
            data, self._is_first = data.removeprefix(MAGIC), False
        try:
            text = self._stream.decompress(self._stream.unconsumed_tail + data, max_length)
        except zlib.error as error:
            raise ArithmeticError from error
        self.eof, self.unused_data = self._stream.eof, self._stream.unused_data
        self.needs_input = not self._stream.unconsumed_tail
        return text


STAND_IN = SimpleNamespace(
    ZstdDecompressor=StandIn,
    ZstdError=ArithmeticError,
    compress=lambda text: MAGIC + zlib.compress(text),
)

Pack = Callable[[bytes], bytes]


@pytest.fixture(params=["xz", "zst", "zst, by its module"])
def pack(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Pack:
    """How to pack, under the name of its suffix; Zstandard without its module too."""
    if request.param == "xz":
        return lzma.compress
    if request.param == "zst":
        monkeypatch.setitem(sys.modules, "stand_in", STAND_IN)
        monkeypatch.setattr(packing, "ZSTD_MODULES", ["stand_in"])
    elif packing._zstd() is None:
        pytest.skip("no module for Zstandard: pip install 'hta_widgets[zstd]'")
    modules = [sys.modules[name] for name in packing.ZSTD_MODULES if name in sys.modules]
    compress: Pack = modules[0].compress
    return compress


@pytest.fixture
def suffix(pack: Pack) -> str:
    return "json.xz" if pack is lzma.compress else "json.zst"


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    (tmp_path / "plain").mkdir()
    return write(tmp_path / "plain" / "rank-3.json", EVENTS, baseTimeNanoseconds=5_000)


@pytest.fixture
def packed(tmp_path: Path, plain: Path, pack: Pack, suffix: str) -> Path:
    (tmp_path / "packed").mkdir()
    path = tmp_path / "packed" / f"rank-3.{suffix}"
    path.write_bytes(pack(plain.read_bytes()))
    return path


def test_a_folder_of_them_is_a_job_with_the_same_numbers(plain, packed):
    theirs, ours = open_trace(plain, progress=False), open_trace(packed.parent, progress=False)
    assert ours.ranks == (3,)
    assert ours.rank(3).trace.base_ns == 5_000
    assert ours.notices == theirs.notices
    first, second = (kernel_breakdown(job).kernels for job in (theirs, ours))
    pd.testing.assert_frame_equal(first, second)


def test_several_streams_in_one_file_and_padding_behind_them(packed, plain, pack):
    text = plain.read_bytes()
    packed.write_bytes(pack(text[:9_000]) + pack(text[9_000:]) + b"\0" * 8)
    assert b"".join(EventText(packed)) == b"".join(EventText(plain))


def test_a_truncated_file_gives_what_is_whole(packed):
    packed.write_bytes(packed.read_bytes()[:-300])
    job = open_trace(packed, progress=False)
    assert 0 < len(job.rank(3).trace.events) < len(EVENTS)
    assert any("truncated" in notice for notice in job.notices)


def test_a_damaged_file_says_so(packed, monkeypatch):
    monkeypatch.setattr(event_text, "BLOCK_BYTES", 4096)
    content = bytearray(packed.read_bytes())
    content[-40:-20] = bytes(byte ^ 0x5A for byte in content[-40:-20])
    packed.write_bytes(content)
    (notice,) = open_trace(packed, progress=False).notices
    assert "compressed file is damaged" in notice
    assert "copy it again" in notice


def test_a_small_file_of_much_text_takes_little_memory(packed, plain, pack):
    text = plain.read_bytes()
    end = text.rindex(b"]")
    packed.write_bytes(pack(text[:end] + b" " * (1 << 26) + text[end:]))
    assert packed.stat().st_size < 1 << 20
    tracemalloc.start()
    stream = packing.packing_of(file := packed.open("rb"))
    longest = max(map(len, packing.unpacked(iter(lambda: file.read(4096), b""), 65_536, stream)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    file.close()
    assert longest <= 65_536
    assert peak < 16 << 20  # xz keeps the last 8 MB


def test_copies_are_gzipped_and_named_so(packed, tmp_path):
    job = open_trace(packed, progress=False)
    (copy,) = write_traces_with_counters(job)
    assert copy == packed.parent / "rank-3_with_counters.json.gz"
    assert copy.read_bytes().startswith(b"\x1f\x8b")
    assert len(open_trace(copy, progress=False).rank(3).trace.events) > len(EVENTS)
    assert open_trace(packed.parent, progress=False).ranks == (3,)
    marked = KernelSequencesPanel(job, operator_name="aten::mm", min_pattern_len=1)
    assert marked.write_overlay(tmp_path).name == "overlaid_rank-3.json.gz"


def test_without_a_module_zstandard_must_be_unpacked(plain, monkeypatch):
    monkeypatch.setattr(packing, "ZSTD_MODULES", ["no.such.module"])
    (plain.parent / "rank-4.json.zst").write_bytes(MAGIC + b"anything")
    job = open_trace(plain.parent, progress=False)
    assert job.ranks == (3,)
    assert "rank-4.json.zst must be unpacked first and is left out" in job.notices
