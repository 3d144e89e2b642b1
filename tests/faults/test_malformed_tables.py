"""Malformed exports, recipe folders and CUPTI tables: the whole is loaded and the rest counted."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hta_widgets.errors import HtaWidgetsError
from hta_widgets.trace.opening.open import open_trace
from tests.cupti_folder import row, write_cupti_folder
from tests.nsys_export import (
    KERNEL,
    NVTX,
    RUNTIME,
    SESSION,
    STRINGS,
    call,
    kernel,
    nvtx,
    strings,
    write_parquetdir,
    write_sqlite,
)
from tests.recipe_folder import write_segments

TABLES = {
    KERNEL: [kernel(100 * at + 50, 100 * at + 90, correlation=at) for at in range(1, 400)],
    RUNTIME: [call(100 * at, 100 * at + 20, correlation=at) for at in range(1, 400)],
    NVTX: [nvtx(100 * at, 100 * at + 99, f"range {at}") for at in range(1, 200)],
    STRINGS: strings("gemm", "cudaLaunchKernel_v7000"),
    SESSION: [{"utcEpochNs": 10**18}],
}
EVENTS = 399 + 399 + 199
SEGMENTS = [
    (1000 * at, 1000 * at + 900, ("Compute", "Overlap", "Communicate", "Empty")[at % 4])
    for at in range(400)
]
KERNELS = [
    row(1000 * at, 500, f"kernel {at % 5}", device=0, stream=7, correlation=at) for at in range(100)
]
SEEDS = range(60)


def outcome(path):
    """Number of events, or None if the trace is refused with its name."""
    try:
        job = open_trace(path, progress=False)
    except HtaWidgetsError as error:
        assert path.name in str(error)  # noqa: PT017
        return None
    return len(job.rank(job.ranks[0]).trace.events)


def damaged(content, random):
    """Bytes of which some are flipped, a page is zero, or the end is missing."""
    changed = bytearray(content)
    kind = random.choice(["flips", "page", "cut", "copied page"])
    begin = random.randrange(len(content)) // 4096 * 4096
    if kind == "flips":
        for _ in range(random.choice([1, 4, 64])):
            changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
    elif kind == "page":
        changed[begin : begin + 4096] = bytes(len(changed[begin : begin + 4096]))
    elif kind == "copied page":
        other = random.randrange(len(content)) // 4096 * 4096
        size = min(4096, len(content) - max(begin, other))
        changed[begin : begin + size] = changed[other : other + size]
    else:
        del changed[random.randrange(len(changed)) :]
    return bytes(changed)


@pytest.fixture(scope="module")
def whole_export(tmp_path_factory):
    path = write_sqlite(tmp_path_factory.mktemp("nsys") / "report.sqlite", TABLES)
    assert outcome(path) == EVENTS
    return path.read_bytes()


@pytest.mark.parametrize("seed", SEEDS)
def test_pages_of_an_export_are_corrupted(tmp_path, whole_export, seed):
    path = tmp_path / "report.sqlite"
    path.write_bytes(damaged(whole_export, Random(seed)))  # noqa: S311
    outcome(path)  # SQLite has no checksums: a page that takes the place of another is not noticed


@pytest.mark.parametrize("seed", SEEDS)
def test_a_parquet_table_of_an_export_is_corrupted(tmp_path, seed):
    random = Random(seed)  # noqa: S311
    folder = write_parquetdir(tmp_path / "report_pqtdir", TABLES)
    file = folder / f"{random.choice([KERNEL, RUNTIME, NVTX, STRINGS])}.parquet"
    file.write_bytes(damaged(file.read_bytes(), random))
    found = outcome(folder)
    assert found is None or found <= EVENTS


@pytest.mark.parametrize("seed", SEEDS)
def test_a_table_of_a_recipe_is_corrupted(tmp_path, seed):
    path = write_segments(tmp_path / "type_run_rank0.parquet", SEGMENTS)
    path.write_bytes(damaged(path.read_bytes(), Random(seed)))  # noqa: S311
    outcome(path)


STATEMENTS = {
    "a trigger": f"CREATE TRIGGER t AFTER INSERT ON {KERNEL} BEGIN DELETE FROM {KERNEL}; END",  # noqa: S608
    "a view beside": f"CREATE VIEW mine AS SELECT * FROM {KERNEL}",  # noqa: S608
    "an index on an expression": f"CREATE INDEX i ON {KERNEL} (start + 1)",
    "a generated column": f"ALTER TABLE {KERNEL} ADD COLUMN graphId AS (abs(start))",
    "a check": f"ALTER TABLE {KERNEL} ADD COLUMN odd INTEGER CHECK (odd > 5)",
    "no rows": f"DELETE FROM {NVTX}",  # noqa: S608
    "no names": f"DROP TABLE {STRINGS}",
    "a table that is empty": "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start, end)",
    "a virtual table": "CREATE VIRTUAL TABLE CUPTI_ACTIVITY_KIND_MEMSET USING fts5(start, end)",
}
EVENTS_AFTER = {"no rows": EVENTS - 199}


@pytest.mark.parametrize("name", STATEMENTS)
def test_what_else_is_in_an_export(tmp_path, name):
    path = write_sqlite(tmp_path / "report.sqlite", TABLES)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(STATEMENTS[name])
        connection.commit()
    before = path.read_bytes()
    found = outcome(path)
    assert found in {EVENTS_AFTER.get(name, EVENTS), None if name == "a virtual table" else -1}
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["report.sqlite"]


def test_a_table_without_row_numbers(tmp_path):
    path = write_sqlite(tmp_path / "report.sqlite", {**TABLES, NVTX: []})
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f'CREATE TABLE {NVTX} (start PRIMARY KEY, "end", text) WITHOUT ROWID')
        connection.execute(f"INSERT INTO {NVTX} VALUES (5, 9, 'range')")  # noqa: S608
        connection.commit()
    assert outcome(path) == EVENTS - 199 + 1


ODD_NUMBERS = {
    "null": None,
    "text": "soon",
    "digits": "150",
    "a fraction": 150.5,
    "infinite": float("inf"),
    "far": 2**63 - 1,
    "far before": -(2**63),
    "bytes": b"\x01",
}


@pytest.mark.parametrize("column", ["start", "end", "streamId", "correlationId", "demangledName"])
@pytest.mark.parametrize("value", ODD_NUMBERS)
def test_odd_values_in_an_export(tmp_path, column, value):
    odd = kernel(140, 160, correlation=7) | {column: ODD_NUMBERS[value]}
    path = write_sqlite(tmp_path / "report.sqlite", {**TABLES, KERNEL: [*TABLES[KERNEL], odd]})
    job = open_trace(path, progress=False)
    found = len(job.rank(job.ranks[0]).trace.events)
    untimed = "1 rows without a valid start and end are left out"
    assert (found, untimed in job.notices) in {(EVENTS + 1, False), (EVENTS, True)}


@pytest.mark.parametrize("pid", [None, -1, 2**63 - 1, "x"])
def test_odd_processes_in_an_export(tmp_path, pid):
    odd = kernel(140, 160) | {"globalPid": pid}
    path = write_sqlite(tmp_path / "report.sqlite", {**TABLES, KERNEL: [*TABLES[KERNEL], odd]})
    job = open_trace(path, progress=False)
    total = sum(len(job.rank(rank).trace.events) for rank in job.ranks)
    left_out = any("without a process id" in notice for notice in job.notices)
    assert total + left_out == EVENTS + 1


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"start": [1], "end": [2]}, "OverlapType"),
        ({"start": ["a"], "end": [2], "OverlapType": ["Compute"]}, "cannot be read"),
        ({"start": [[1]], "end": [2], "OverlapType": ["Compute"]}, "cannot be read"),
        ({"start": [1.5], "end": [2], "OverlapType": ["Compute"]}, "cannot be read"),
        ({"start": [1], "end": [2], "OverlapType": [5]}, "cannot be read"),
    ],
)
def test_a_recipe_of_other_columns(tmp_path, columns, words):
    path = tmp_path / "type_a_rank0.parquet"
    pq.write_table(pa.table(columns), path)
    with pytest.raises(HtaWidgetsError, match=rf"(?s)type_a_rank0\.parquet .*{words}"):
        open_trace(path, progress=False)


def test_a_recipe_counts_what_it_lost(tmp_path):
    odd = [(5, 4, "Compute"), (None, 9, "Compute"), (1, 2, "what"), (1, 2, None)]
    path = write_segments_of_any(tmp_path / "type_a_rank0.parquet", [*SEGMENTS, *odd])
    notices = open_trace(path, progress=False).notices
    assert "2 segments without a readable start and end are left out" in notices
    assert any(notice.startswith("2 segments with an unknown OverlapType") for notice in notices)


def write_segments_of_any(path, segments):
    start, end, kind = zip(*segments, strict=True)
    pq.write_table(pa.table({"start": start, "end": end, "OverlapType": kind}), path)
    return path


def cupti_text(tmp_path):
    folder = write_cupti_folder(tmp_path / "rank0", {"conc_kernel.csv": KERNELS})
    file = folder / "conc_kernel.csv"
    return folder, file, file.read_text().splitlines(keepends=True)


ODD_LINES = {
    "nothing": ("\n", 0),
    "a field too few": ("1,2,3\n", 1),
    "a field too many": (",".join("x" * 13) + "\n", 1),
    "words": (",".join("abcdefghijkl") + "\n", 1),
    "no time": (",0,0,0,k,7,0,0,,kernel,5,\n", 1),
    "a negative duration": ("5.000,0,0,0,k,7,0,0,4.000,kernel,5,-1.000\n", 1),
    "far away": ("1e30,0,0,0,k,7,0,0,1e30,kernel,5,1.000\n", 1),
    "40 digits": (f"{'9' * 40},0,0,0,k,7,0,0,{'9' * 40},kernel,5,1.000\n", 1),
    "not a number": ("NaN,0,0,0,k,7,0,0,NaN,kernel,5,NaN\n", 1),
    "a zero byte": ("5.\0,0,0,0,k,7,0,0,6.000,kernel,5,1.000\n", 1),
    "an odd stream": ("5.000,0,0,0,k,x,0,0,6.000,kernel,y,1.000\n", -1),
    "quotes": ('5.000,0,0,0,"k, ""x""\ny",7,0,0,6.000,kernel,5,1.000\n', -1),
}


@pytest.mark.parametrize("name", ODD_LINES)
def test_odd_lines_of_a_table_are_counted(tmp_path, name):
    line, lost = ODD_LINES[name]
    folder, file, lines = cupti_text(tmp_path)
    file.write_text("".join([*lines[:50], line, *lines[50:]]))
    job = open_trace(folder, progress=False)
    assert len(job.rank(0).trace.events) == len(KERNELS) + (lost < 0)
    said = "1 unreadable rows of conc_kernel.csv are left out" in job.notices
    said = said or any("1 events are left out: timestamps" in notice for notice in job.notices)
    assert said == (lost > 0)


def test_a_quote_that_nothing_closes(tmp_path):
    folder, file, lines = cupti_text(tmp_path)
    lines[90] = lines[90].replace("kernel 4", '"kernel 4')
    file.write_text("".join(lines))
    job = open_trace(folder, progress=False)
    lost = len(KERNELS) - len(job.rank(0).trace.events)
    assert 0 < lost <= 11
    assert f"{lost} unreadable rows of conc_kernel.csv are left out" in job.notices


@pytest.mark.parametrize("encoding", ["utf-8-sig", "latin-1"])
@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_tables_in_other_encodings(tmp_path, encoding, ending):
    folder, file, lines = cupti_text(tmp_path)
    text = "".join(lines).replace("kernel 4", "kernel é").replace("\n", ending)
    file.write_bytes(text.encode(encoding))
    assert outcome(folder) == len(KERNELS)


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"a,b\n1,2\n", b"\xff\xfes\0t\0", b"start;name;dur\n"]
)
def test_tables_of_other_things(tmp_path, content):
    folder = tmp_path / "rank0"
    folder.mkdir()
    (folder / "conc_kernel.csv").write_bytes(content)
    assert outcome(folder) is None
