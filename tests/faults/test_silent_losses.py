"""Nothing is lost in silence."""

from __future__ import annotations

import gzip
import json
import sqlite3

import pytest

from hta_widgets.errors import TraceFormatError
from hta_widgets.trace.loaders.kineto import text as event_text
from hta_widgets.trace.loaders.kineto.load import load_kineto
from hta_widgets.trace.loaders.nsys.load import load_nsys
from tests.kineto_text import host, kernel
from tests.nsys_export import kernel as nsys_kernel
from tests.nsys_export import strings, write_sqlite

EVENTS = [kernel(10 * number, 5, name=f"kernel {number}") for number in range(2000)]


def notices(path):
    return [notice.words for notice in load_kineto(path, 0).notices]


def packed(path, *, level=0, **metadata):
    path.write_bytes(gzip.compress(json.dumps({"traceEvents": EVENTS, **metadata}).encode(), level))
    return bytearray(path.read_bytes())


@pytest.mark.parametrize("block_bytes", [1 << 12, 1 << 16])
def test_a_wrong_checksum_is_damage(tmp_path, monkeypatch, block_bytes):
    monkeypatch.setattr(event_text, "BLOCK_BYTES", block_bytes)
    path = tmp_path / "trace.json.gz"
    content = packed(path, note="x" * 70_000)
    at = content.index(b'"dur": ', len(content) // 2) + len(b'"dur": ')
    content[at] = ord("9")
    path.write_bytes(content)
    (notice,) = notices(path)
    assert "is damaged" in notice
    assert "copy it again" in notice


def test_deflated_text_that_is_damaged(tmp_path, monkeypatch):
    monkeypatch.setattr(event_text, "BLOCK_BYTES", 1 << 14)
    path = tmp_path / "trace.json.gz"
    content = packed(path, level=6)
    content[len(content) // 2] ^= 0xFF
    content[len(content) // 2 + 1] ^= 0xFF
    path.write_bytes(content)
    assert "is damaged" in notices(path)[0]


def test_a_damaged_file_of_which_nothing_is_readable(tmp_path):
    path = tmp_path / "trace.json.gz"
    content = packed(path)
    content[-8] ^= 1
    path.write_bytes(content)
    with pytest.raises(TraceFormatError, match=r"trace\.json\.gz is empty or .* copy or export it"):
        load_kineto(path, 0)


@pytest.mark.parametrize(
    "behind",
    [b"", bytes(600), b"not gzip", gzip.compress(b"\n")],
    ids=["nothing", "zeros", "text", "another member"],
)
def test_what_follows_a_whole_file_is_no_damage(tmp_path, behind):
    path = tmp_path / "trace.json.gz"
    path.write_bytes(packed(path) + behind)
    assert notices(path) == []


def test_a_truncated_gzip_file_is_not_damaged(tmp_path):
    path = tmp_path / "trace.json.gz"
    content = packed(path, level=6)
    path.write_bytes(content[: len(content) // 2])
    assert notices(path) == ["the file is truncated; its {} complete events are loaded"]


def test_phases_that_are_missing_or_not_read(tmp_path):
    odd = [
        {key: value for key, value in EVENTS[0].items() if key != "ph"},
        EVENTS[0] | {"ph": "?"},
        EVENTS[0] | {"ph": "b", "id": 1},
        EVENTS[0] | {"ph": None},
    ]
    quiet = [{"ph": phase, "name": "n", "ts": 1} for phase in "MstfCiI"]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps([*odd, *quiet, *EVENTS, host(1, 2, "span", cat="Trace")]))
    (notice,) = load_kineto(path, 0).notices
    assert notice.text() == (
        "4 events without a phase (ph), or of a phase that is not read, are left out"
    )


def test_a_table_of_an_export_that_is_a_view(tmp_path):
    tables = {"CUPTI_ACTIVITY_KIND_KERNEL": [nsys_kernel(1, 2)], "StringIds": strings("", "k")}
    path = write_sqlite(tmp_path / "a.sqlite", tables)
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE VIEW NVTX_EVENTS AS SELECT * FROM CUPTI_ACTIVITY_KIND_KERNEL")
    connection.close()
    trace = load_nsys(path, 0)
    assert next(notice.text() for notice in trace.notices) == (
        "NVTX_EVENTS is a view, which may show tables with secrets; it is not read"
    )
