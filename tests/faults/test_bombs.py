"""Small files take little time and memory, whatever they unpack to.

Each is opened by a process of its own, with a limit on its memory and its CPU time.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.faults import bombs
from tests.nsys_export import KERNEL

pytestmark = pytest.mark.long

resource = pytest.importorskip("resource")

MEMORY_BYTES = 4 << 30
"""Address space: the libraries map about 1.5 GB, and 256 MiB of text are in memory three times."""

CPU_S = 60
OPEN = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, ({memory}, {memory}))
resource.setrlimit(resource.RLIMIT_CPU, ({cpu}, {cpu}))
from hta_widgets.errors import HtaWidgetsError
from hta_widgets.trace.opening.open import open_trace
try:
    job = open_trace(sys.argv[1], progress=False)
    print(len(job.rank(0).trace.events), "events;", *job.notices)
except HtaWidgetsError as error:
    print("refused:", error)
"""


def outcome(path):
    program = OPEN.format(memory=MEMORY_BYTES, cpu=CPU_S)
    command = [sys.executable, "-c", program, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=10 * CPU_S)
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:])
    return done.stdout


def test_what_does_not_fit_fails():
    program = OPEN.format(memory=1 << 20, cpu=CPU_S)
    done = subprocess.run([sys.executable, "-c", program, "x"], capture_output=True, check=False)
    assert done.returncode != 0


@pytest.mark.parametrize("make", [bombs.blanks, bombs.one_string, bombs.opening_brackets])
def test_text_without_an_event(tmp_path, make):
    path = make(tmp_path / "trace.json.gz", 320)
    assert path.stat().st_size < 1 << 21
    said = outcome(path)
    assert said.startswith("refused:")
    assert "trace.json.gz is not a trace: " in said
    assert "256 MiB of its text contain no complete event" in said or "unpack to more text" in said


@pytest.mark.parametrize(("packing", "packed_bytes"), [("gz", 1 << 21), ("xz", 1 << 17)])
def test_equal_events(tmp_path, packing, packed_bytes):
    path = bombs.equal_events(tmp_path / f"trace.json.{packing}", 320)
    assert path.stat().st_size < packed_bytes
    said = outcome(path)
    assert said.startswith("refused:")
    assert f"trace.json.{packing} is not a trace: its " in said
    assert "bytes unpack to more text than a trace of that size has (256 MiB at most)" in said


def test_pages_that_contain_each_other(tmp_path):
    path = bombs.pages_in_pages(tmp_path / "report.sqlite")
    assert path.stat().st_size < 1 << 18
    said = outcome(path)
    assert said.startswith("refused:")
    assert "report.sqlite cannot be read as an Nsight Systems export" in said


@pytest.mark.parametrize("recipe", [False, True])
def test_rows_that_take_no_bytes(tmp_path, recipe):
    columns = {"start": 1, "end": 2, **({"OverlapType": "Compute"} if recipe else {})}
    folder = tmp_path / "report_pqtdir"
    folder.mkdir()
    name = "type_x.parquet" if recipe else f"{KERNEL}.parquet"
    path = bombs.rows_of_nothing(folder / name, columns, 60_000_000)
    assert path.stat().st_size < 1 << 21
    said = outcome(path if recipe else folder)
    assert said.startswith("refused:")
    assert Path(path).name in said
    assert "rows" in said


@pytest.mark.parametrize("name", ["StringIds.parquet", "type_x.parquet"])
def test_one_text_in_every_row(tmp_path, name):
    folder = tmp_path / "report_pqtdir"
    folder.mkdir()
    numbers = pa.array(range(10_000))
    columns = {"start": numbers, "end": pa.array(range(1, 10_001))}
    if name == "StringIds.parquet":
        kernels = pa.table({**columns, "shortName": numbers, "deviceId": numbers})
        pq.write_table(kernels, folder / f"{KERNEL}.parquet")
        path = bombs.one_long_text(folder / name, "value", 10_000, id=numbers)
    else:
        path = bombs.one_long_text(folder / name, "OverlapType", 10_000, **columns)
    assert path.stat().st_size < 1 << 18
    said = outcome(path if name == "type_x.parquet" else folder)
    assert said.startswith("refused:")
    assert name in said
    assert "bytes hold more text than a trace of that size can" in said
