"""Time and memory of loading are bounded by the length of the text."""

from __future__ import annotations

import gzip
import json
import lzma
import tracemalloc
from pathlib import Path

import pytest

from hta_widgets.errors import TraceFormatError
from hta_widgets.sample import write_sample
from hta_widgets.trace.loaders import decompression_limit
from hta_widgets.trace.loaders.kineto import text as event_text
from hta_widgets.trace.loaders.kineto.brackets import closing_bracket, length_without
from hta_widgets.trace.loaders.kineto.load import load_kineto
from hta_widgets.trace.loaders.kineto.packing import ZSTD_MODULES
from hta_widgets.trace.loaders.kineto.text import EventText
from hta_widgets.trace.opening.open import open_trace
from tests.kineto_text import host, kernel

LONG = 1 << 21
EVENTS = ",".join(json.dumps(kernel(10 * number, 5)) for number in range(50))
SHAPES = {
    "blanks before the key": ["{", " " * LONG, '"traceEvents":[', EVENTS, "]}"],
    "blanks before the first event": ['{"traceEvents":[', " " * LONG, EVENTS, "]}"],
    "blanks before a comma": ['{"traceEvents":[', EVENTS, " " * LONG, ",", EVENTS, "]}"],
    "blanks after a comma": ['{"traceEvents":[', EVENTS, ",", " " * LONG, EVENTS, "]}"],
    "a long header": ['{"note":"', "n" * LONG, '","traceEvents":[', EVENTS, "]}"],
    "a long name": ["[", EVENTS, ",", json.dumps(host(1, 1, "n" * LONG)), ",", EVENTS, "]"],
    "a long last name": ["[", EVENTS, ",", json.dumps(host(1, 1, "n" * LONG)), "]"],
    "a last name of quotes": ["[", EVENTS, ",", json.dumps(host(1, 1, '"' * LONG)), "]"],
    "a last name of backslashes": ["[", EVENTS, ",", json.dumps(host(1, 1, "\\" * LONG)), "]"],
    "numbers before the events": ['{"traceEvents":[', "5," * (LONG // 2), EVENTS, "]}"],
}


@pytest.mark.parametrize("shape", SHAPES)
def test_text_is_looked_at_a_bounded_number_of_times(tmp_path, monkeypatch, shape):
    text = "".join(SHAPES[shape]).encode()
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.compress(text, 1))
    monkeypatch.setattr(event_text, "BLOCK_BYTES", 1 << 14)
    looked_at = []
    for name in ("_cut", "_is_head"):
        look = getattr(EventText, name)

        def counting(self, text, look=look):
            looked_at.append(len(text))
            return look(self, text)

        monkeypatch.setattr(EventText, name, counting)
    assert b"".join(piece.replace(b" ", b"") for piece in EventText(path))
    assert sum(looked_at) <= 4 * len(text)


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if "numbers" not in shape])
def test_memory_is_a_small_multiple_of_the_text(tmp_path, shape):
    path = tmp_path / "trace.json"
    path.write_text("".join(SHAPES[shape]))
    tracemalloc.start()
    try:
        trace = load_kineto(path, 0)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(trace.events) in {50, 51, 100, 101}
    assert peak < 10 * path.stat().st_size


@pytest.mark.parametrize(
    ("text", "depth", "expected"),
    [
        (b'{"a": "]}"} x', 0, 11),
        (b'{"a": "\\"}"}', 0, 12),
        (b'{"a": "\\\\"} "', 0, 11),
        (b'"]"], 1', 1, 4),
        (b'{"a": "}', 0, None),
        (b'{"a": "\\', 0, None),
        (b"[[]", 0, None),
    ],
)
def test_closing_bracket(text, depth, expected):
    assert closing_bracket(text, depth) == expected


@pytest.mark.parametrize("blanks", [0, 1, 63, 64, 65, 1000])
def test_length_without(blanks):
    text = b"ab" + b" " * blanks
    assert length_without(text, len(text), b" ") == 2
    assert length_without(text[2:], blanks, b" ") == 0


class TestPackedText:
    """A packed file is no longer, unpacked, than a trace of its size can be."""

    EQUAL = b",".join([json.dumps(kernel(1, 1)).encode()] * 20_000)

    @pytest.fixture(params=["gz", "xz", "zst"])
    def packed(self, request, tmp_path, monkeypatch):
        """Write text as a packed file."""
        pack = {"gz": gzip.compress, "xz": lzma.compress}.get(request.param)
        if pack is None:
            zstd = next(map(pytest.importorskip, ZSTD_MODULES[-1:]))
            pack = zstd.compress
        monkeypatch.setattr(decompression_limit, "ANY_FILE_BYTES", 1 << 20)

        def write(text: bytes) -> Path:
            path = tmp_path / f"trace.json.{request.param}"
            path.write_bytes(pack(text))
            return path

        return write

    @pytest.mark.parametrize("text", [b'{"traceEvents": [%s]}', b"[%s]", b'{"traceEvents": [%s'])
    def test_equal_events_are_refused(self, packed, monkeypatch, text):
        monkeypatch.setattr(decompression_limit, "TIMES_LONGER", 30)
        path = packed(text % self.EQUAL)
        for read in (
            lambda: load_kineto(path, 0),
            lambda: EventText(path).metadata_around_events(),
            lambda: open_trace(path, progress=False).load(progress=False),
        ):
            with pytest.raises(TraceFormatError, match=r"unpack to more text than .*open the"):
                read()

    def test_short_text_is_read_whatever_it_was_packed_to(self, packed):
        text = b'{"traceEvents": [%s]}' % self.EQUAL[: self.EQUAL.index(b"},{", 1_000_000) + 1]
        path = packed(text)
        assert 1_000_000 < len(text) < 1 << 20
        assert len(text) > 100 * path.stat().st_size
        assert len(load_kineto(path, 0).events) > 1000

    def test_events_of_a_job_are_read(self, packed, tmp_path):
        write_sample(tmp_path / "job", ranks=1, steps=3, progress=False)
        (whole,) = (tmp_path / "job").iterdir()
        text = gzip.decompress(whole.read_bytes())
        path = packed(text)
        assert len(text) > decompression_limit.ANY_FILE_BYTES
        assert len(text) * 5 < decompression_limit.TIMES_LONGER * path.stat().st_size
        assert len(load_kineto(path, 0).events) == len(load_kineto(whole, 0).events)
