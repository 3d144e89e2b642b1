"""Folders of CUPTI tables: columns, times, names, and what is left out."""

from __future__ import annotations

import csv
import json
import math
import random
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hta_widgets.errors import HtaWidgetsError, TraceFormatError
from hta_widgets.trace.loaders.cupti import csv_table
from hta_widgets.trace.loaders.cupti.load import FLOAT_STEP_NS, is_cupti_folder, load_cupti_csv
from hta_widgets.trace.model.events import RESOLUTION, Kind
from hta_widgets.trace.model.links import launch_rows
from tests.cupti_folder import COLUMNS, exact, row, through_float, write_cupti_folder

NOW_NS = 1_732_611_000_000_000_000
ROUNDING_NS = FLOAT_STEP_NS / 2
"""Maximum error of one time as float64; the two times of a gap can both have it."""

KINDS = {
    "conc_kernel.csv": Kind.KERNEL,
    "cuda_runtime.csv": Kind.RUNTIME,
    "cuda_driver.csv": Kind.DRIVER,
    "gpu_memcpy.csv": Kind.MEMCPY,
    "gpu_memset.csv": Kind.MEMSET,
}


def events_of(trace):
    """Kind, name, start since 1970 and duration of each event."""
    events = trace.events
    names = events.names_at(np.arange(len(events)))
    starts = (events.start_ns + trace.origin_ns).tolist()
    kinds = [Kind(kind) for kind in events.kind.tolist()]
    return list(zip(kinds, names, starts, events.duration_ns.tolist(), strict=True))


def notices_of(trace):
    return [notice.text() for notice in trace.notices]


def write_text(folder, text, file="conc_kernel.csv"):
    (folder / file).write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder


def load_text(folder, text, file="conc_kernel.csv"):
    return load_cupti_csv(write_text(folder, text, file), 0)


def test_one_of_each_kind(tmp_path):
    tables = {
        "conc_kernel.csv": [row(NOW_NS + 5, 60_512, "gemm", device=1, stream=7, correlation=3)],
        "cuda_runtime.csv": [
            row(NOW_NS, 4, "cudaLaunchKernelExC_v11060", pid=40, tid=41, correlation=3)
        ],
        "cuda_driver.csv": [row(NOW_NS + 9, 1, "cuLaunchKernel", pid=40, tid=42, correlation=4)],
        "gpu_memcpy.csv": [row(NOW_NS + 7, 8, "Memcpy HtoD", device=1, stream=2**32 - 1, bytes=64)],
        "gpu_memset.csv": [row(NOW_NS + 8, 0, "Memset", bytes=2)],
    }
    trace = load_cupti_csv(write_cupti_folder(tmp_path, tables), 3)
    events = trace.events
    assert events_of(trace) == [
        (Kind.RUNTIME, "cudaLaunchKernelExC", NOW_NS, 4),
        (Kind.KERNEL, "gemm", NOW_NS + 5, 60_512),
        (Kind.MEMCPY, "Memcpy HtoD", NOW_NS + 7, 8),
        (Kind.MEMSET, "Memset", NOW_NS + 8, 0),
        (Kind.DRIVER, "cuLaunchKernel", NOW_NS + 9, 1),
    ]
    assert (trace.rank, trace.origin_ns) == (3, NOW_NS)
    assert events.pid.tolist() == [40, 0, 0, 0, 40]
    assert events.tid.tolist() == [41, 0, 0, 0, 42]
    assert events.device.tolist() == [-1, 1, 1, -1, -1]
    assert events.stream.tolist() == [-1, 7, -1, -1, -1]
    assert launch_rows(events).tolist() == [-1, 0, -1, -1, -1]
    transfers = events.side["transfers"]
    assert transfers.rows.tolist() == [2, 3]
    assert transfers.columns["bytes"].tolist() == [64, 2]
    fast, instant = transfers.columns["bandwidth_gb_per_s"].tolist()
    assert fast == 8.0
    assert math.isnan(instant)
    assert trace.notices == ()
    assert trace.metadata == {}


def test_any_form_of_csv(tmp_path):
    text = (
        b'\xef\xbb\xbf"dur" , NAME,"what, else","start"\r\n'
        b'1.500,"f<int, ""x"">(a,\r\n b)","1,2",1732611000000000.001\r\n'
        b"\r\n"
        b'"2",\xff kernel,,"1732611000000002"'
    )
    assert events_of(load_text(tmp_path, text)) == [
        (Kind.KERNEL, 'f<int, "x">(a,\r\n b)', NOW_NS + 1, 1500),
        (Kind.KERNEL, "? kernel", NOW_NS + 2000, 2000),
    ]


def test_missing_tables_are_named(tmp_path):
    trace = load_text(tmp_path, "start,name,dur\n1,cudaMalloc,1\n", "cuda_runtime.csv")
    assert notices_of(trace) == [
        "conc_kernel.csv is missing, so there are no kernels",
        "cuda_driver.csv is missing, so there are no CUDA driver API calls",
        "gpu_memcpy.csv is missing, so there are no copies",
        "gpu_memset.csv is missing, so there are no memsets",
    ]


def test_serial_kernels(tmp_path):
    write_text(tmp_path, "start,name,dur\n1,serial,1\n", "kernel.csv")
    serial = load_cupti_csv(tmp_path, 0)
    assert [event[1] for event in events_of(serial)] == ["serial"]
    assert "not comparable" in notices_of(serial)[0]
    both = load_text(tmp_path, "start,name,dur\n1,concurrent,1\n")
    assert [event[1] for event in events_of(both)] == ["concurrent"]
    assert notices_of(both)[0] == "kernel.csv is ignored because conc_kernel.csv has the kernels"


def test_tables_without_what_is_needed(tmp_path):
    write_text(tmp_path, "start,name,dur\n1,gemm,1\n")
    write_text(tmp_path, "", "cuda_driver.csv")
    write_text(tmp_path, "start,name\n1,cudaMalloc\n", "cuda_runtime.csv")
    assert notices_of(load_cupti_csv(tmp_path, 0))[:2] == [
        "cuda_runtime.csv is left out: it needs the columns start, name, and dur or end",
        "cuda_driver.csv is left out: it needs the columns start, name, and dur or end",
    ]


def test_end_where_there_is_no_duration(tmp_path):
    text = "name,start,end\na,1.250,3.5\nb,5,4\n"
    trace = load_text(tmp_path, text)
    assert events_of(trace) == [(Kind.KERNEL, "a", 1250, 2250)]
    assert "1 unreadable rows of conc_kernel.csv are left out" in notices_of(trace)


def test_duration_goes_before_end(tmp_path):
    trace = load_text(tmp_path, "name,start,end,dur\na,100.25,241.0,140.736\n")
    assert events_of(trace) == [(Kind.KERNEL, "a", 100_250, 140_736)]


def test_rows_that_cannot_be_read(tmp_path):
    rows = ["1,a,2", "x,b,2", "1,c,", "1,d,-2", ",e,1", "nan,f,1", "inf,h,1", "9,i,1"]
    text = "\n".join(["start,name,dur", *rows, "1,too,many,columns", "12"])
    trace = load_text(tmp_path, text)
    assert [event[1] for event in events_of(trace)] == ["a", "i"]
    assert "8 unreadable rows of conc_kernel.csv are left out" in notices_of(trace)


def test_ids_that_are_no_numbers(tmp_path):
    text = "start,name,dur,stream,correlation,device\n1,a,1,7.0,x,\n2,b,1,,4.5,1\n3,c,1,8,5,2\n"
    events = load_text(tmp_path, text).events
    assert events.stream.tolist() == [7, -1, 8]
    assert events.correlation.tolist() == [-1, -1, 5]
    assert events.device.tolist() == [-1, 1, 2]


def test_mangled_names(tmp_path):
    rows = [row(NOW_NS + i, 1, name) for i, name in enumerate(("_Z4gemmIfEvPT_", "relu", "_Zx"))]
    events = load_cupti_csv(write_cupti_folder(tmp_path, {"conc_kernel.csv": rows}), 0).events
    assert events.names_at(np.arange(3)) == ["void gemm<float>(float*)", "relu", "_Zx"]
    mangled = events.side["mangled"].to_frame()["mangled"].tolist()
    assert mangled == ["_Z4gemmIfEvPT_", "", "_Zx"]


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("cudaMemcpyAsync_v3020", "cudaMemcpyAsync"),
        ("cudaLaunchKernel_ptsz_v7000", "cudaLaunchKernel"),
        ("cuLaunchKernel_ptsz", "cuLaunchKernel"),
        ("cudaGraphLaunch_v10000_ptds", "cudaGraphLaunch"),
        ("my_vector", "my_vector"),
    ],
)
def test_versions_of_calls(tmp_path, written, name):
    trace = load_text(tmp_path, f"start,name,dur\n1,{written},1\n", "cuda_runtime.csv")
    assert events_of(trace)[0][1] == name


times = st.lists(
    st.tuples(
        st.sampled_from(sorted(KINDS)),
        st.integers(0, 10**9),
        st.integers(0, 10**6),
        st.sampled_from(["a", "b<int, 2>"]),
    ),
    min_size=1,
    max_size=12,
)


def folder_of(tmp_path_factory, drawn, text=exact, columns=COLUMNS):
    tables = {}
    for file, start, length, name in drawn:
        tables.setdefault(file, []).append(row(NOW_NS + start, length, name))
    return write_cupti_folder(tmp_path_factory.mktemp("cupti"), tables, text=text, columns=columns)


@example([("conc_kernel.csv", 1800, 0, "a")])
@given(times)
def test_exact_text_is_read_exactly(tmp_path_factory, drawn):
    trace = load_cupti_csv(folder_of(tmp_path_factory, drawn), 0)
    written = [(KINDS[file], name, NOW_NS + at, length) for file, at, length, name in drawn]
    assert Counter(events_of(trace)) == Counter(written)
    starts = trace.events.start_ns
    assert starts[0] == 0
    assert np.all(np.diff(starts) >= 0)


def as_float(ns):
    """A time after a conversion of its µs to float64."""
    return int(Fraction(ns / 1000) * 1000)


@given(times)
def test_float_text_means_the_floats_that_were_written(tmp_path_factory, drawn):
    trace = load_cupti_csv(folder_of(tmp_path_factory, drawn, through_float), 0)
    meant = [(KINDS[file], name, as_float(NOW_NS + at), length) for file, at, length, name in drawn]
    assert Counter(events_of(trace)) == Counter(meant)
    is_rounded = any(start % 1000 for _, _, start, _ in meant)
    assert trace.metadata == ({RESOLUTION: 250} if is_rounded else {})
    assert any("0.25 µs" in notice for notice in notices_of(trace)) == is_rounded
    written = sorted(NOW_NS + at for _, at, _, _ in drawn)
    read = sorted(start for _, _, start, _ in events_of(trace))
    assert all(abs(a - b) <= ROUNDING_NS for a, b in zip(read, written, strict=True))


@given(times)
def test_float_text_without_durations(tmp_path_factory, drawn):
    columns = dict.fromkeys(COLUMNS, ("name", "end", "start"))
    folder = folder_of(tmp_path_factory, drawn, through_float, columns)
    trace = load_cupti_csv(folder, 0)
    meant = []
    for file, at, length, name in drawn:
        start, end = (as_float(time) for time in (NOW_NS + at, NOW_NS + at + length))
        meant.append((KINDS[file], name, start, end - start))
    if trace.metadata:
        assert Counter(events_of(trace)) == Counter(meant)


@pytest.mark.parametrize("digits", [2, 3, 6])
def test_floats_written_with_more_digits(tmp_path, digits):
    rows = [row(NOW_NS + 250 * i, 7, "a") for i in range(5)]
    folder = write_cupti_folder(
        tmp_path, {"conc_kernel.csv": rows}, text=lambda ns: f"{ns / 1000:.{digits}f}"
    )
    trace = load_cupti_csv(folder, 0)
    assert [start for _, _, start, _ in events_of(trace)] == [NOW_NS + 250 * i for i in range(5)]
    assert trace.metadata == {RESOLUTION: 250}


def test_times_of_another_clock_are_taken_as_they_are(tmp_path):
    trace = load_text(tmp_path, "start,name,dur\n100.2,a,1\n200.8,b,1\n")
    assert [start for _, _, start, _ in events_of(trace)] == [100_200, 200_800]
    assert trace.metadata == {}


def test_times_with_too_few_digits_are_refused(tmp_path):
    coarse = "start,name,dur\n1.732611e+15,a,1\n1.732611E15,b,1\n"
    with pytest.raises(TraceFormatError, match="write all digits of the µs"):
        load_text(tmp_path, coarse)
    trace = load_text(tmp_path, f"{coarse}1.732611000000000125e15,c,1\n")
    assert events_of(trace) == [(Kind.KERNEL, "c", NOW_NS + 125, 1000)]
    assert any(notice.startswith("2 events are left out") for notice in notices_of(trace))


def test_block_by_block(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_table, "BLOCK_BYTES", 4096)
    rows = [row(NOW_NS + i, i, f"kernel {i % 7}", correlation=i) for i in range(1000)]
    folder = write_cupti_folder(tmp_path, {"conc_kernel.csv": rows})
    read = []
    trace = load_cupti_csv(folder, 0, read.append)
    assert events_of(trace) == [
        (Kind.KERNEL, f"kernel {i % 7}", NOW_NS + i, i) for i in range(1000)
    ]
    assert trace.events.correlation.tolist() == list(range(1000))
    assert len(read) > 10
    assert sum(read) == (folder / "conc_kernel.csv").stat().st_size


def test_a_row_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_table, "BLOCK_BYTES", 4096)
    text = 'start,name,dur\n1,"never closed,2\n' + "3,a,4\n" * 5000
    with pytest.raises(TraceFormatError, match=r"conc_kernel\.csv"):
        load_text(tmp_path, text)


def test_a_table_that_ends_in_the_middle(tmp_path):
    rows = [row(NOW_NS + i, i, "kernel") for i in range(10)]
    file = write_cupti_folder(tmp_path, {"conc_kernel.csv": rows}) / "conc_kernel.csv"
    file.write_bytes(file.read_bytes()[:-30])
    trace = load_cupti_csv(tmp_path, 0)
    assert len(trace.events) == 9
    assert notices_of(trace)[-1] == "1 unreadable rows of conc_kernel.csv are left out"


def test_tables_without_rows(tmp_path):
    trace = load_cupti_csv(write_cupti_folder(tmp_path, dict.fromkeys(KINDS, ())), 0)
    assert len(trace.events) == 0
    assert trace.notices == ()


@pytest.mark.parametrize(
    ("file", "text", "is_folder"),
    [
        ("conc_kernel.csv", "start,name,end", True),
        ("gpu_memset.csv", '\ufeff"dur","name","start"\r\n', True),
        ("kernel.csv", "\n\nStart, Name ,END\n", True),
        ("kernel.csv", "start,dur\n", False),
        ("kernel.csv", "", False),
        ("kernel.csv", '"' + "x" * 200_000, False),
        ("kernels.csv", "start,name,dur\n", False),
    ],
)
def test_what_is_a_folder_of_tables(tmp_path, file, text, is_folder):
    write_text(tmp_path, text, file)
    assert is_cupti_folder(tmp_path) is is_folder
    if not is_folder:
        with pytest.raises(TraceFormatError, match="no CUPTI activity table"):
            load_cupti_csv(tmp_path, 0)


def test_damaged_tables_raise_no_other_error(tmp_path):
    tables = {
        "conc_kernel.csv": [row(NOW_NS + i, i, "a, b", correlation=i) for i in range(9)],
        "gpu_memcpy.csv": [row(NOW_NS + i, i, "Memcpy", bytes=i) for i in range(9)],
    }
    folder = write_cupti_folder(tmp_path, tables)
    originals = {file: (folder / file).read_bytes() for file in tables}
    chance = random.Random(0)  # noqa: S311
    for _ in range(100):
        for file, original in originals.items():
            data = bytearray(original)
            for _ in range(chance.randrange(1, 9)):
                at = chance.randrange(len(data))
                data[at : at + chance.randrange(3)] = bytes(
                    chance.choices(b'",\n\r\0e9-.\xff', k=2)
                )
            (folder / file).write_bytes(data)
        try:
            trace = load_cupti_csv(folder, 0)
        except HtaWidgetsError:
            continue
        assert np.all(trace.events.duration_ns >= 0)
        assert np.all(np.diff(trace.events.start_ns) >= 0)
        assert all(notices_of(trace))


def converted(real_traces):
    for job in ("dlrm_2rank", "compare_control", "h100_bert"):
        folder = real_traces / "converted" / job
        expected = json.loads((folder / "expected.json").read_text())
        for name, numbers in expected.items():
            yield folder / "cupti_csv" / name, numbers


def statistics(durations):
    return {
        "n": durations.size,
        "sum": int(durations.sum()),
        "max": int(durations.max()) if durations.size else None,
        "min": int(durations.min()) if durations.size else None,
    }


def assert_durations(events, expected):
    for kind in KINDS.values():
        found = statistics(events.duration_ns[events.kind == kind])
        assert found == {key: expected[kind.name.lower()][key] for key in found}


def launches_of(events):
    launch = launch_rows(events)
    kernels = events.rows_of(Kind.KERNEL)
    kernels = kernels[launch[kernels] >= 0]
    return kernels, launch[kernels]


def test_converted_traces(real_traces):
    for folder, expected in converted(real_traces):
        trace = load_cupti_csv(folder, 0)
        events = trace.events
        assert_durations(events, expected)
        kernels, calls = launches_of(events)
        delays = events.start_ns[kernels] - events.end_ns[calls]
        assert int(delays.sum()) == expected["launch_delay_sum_ns"]
        assert int((delays < 0).sum()) == expected["launch_before_return"]
        assert Counter(events.names_at(calls)) == Counter(expected["launched_by"])
        kernel = events.kind == Kind.KERNEL
        assert len(set(events.name.codes[kernel].tolist())) == expected["kernel_names"]
        by_stream = {
            str(stream): int(events.duration_ns[kernel & (events.stream == stream)].sum())
            for stream in np.unique(events.stream[kernel]).tolist()
        }
        assert by_stream == expected["by_stream_ns"]
        assert trace.notices == ()


def rewrite_through_float(source, target):
    """Copy a folder of exact tables as pandas would after reading them."""
    for file in source.iterdir():
        with file.open(newline="") as opened:
            rows = list(csv.DictReader(opened))
        for each in rows:
            each |= {key: repr(float(each[key])) for key in ("start", "end", "dur")}
        with (target / file.name).open("w", newline="") as opened:
            writer = csv.DictWriter(opened, COLUMNS[file.name])
            writer.writeheader()
            writer.writerows(rows)


def test_converted_traces_through_float(real_traces, tmp_path):
    for number, (folder, expected) in enumerate(converted(real_traces)):
        target = tmp_path / str(number)
        target.mkdir()
        rewrite_through_float(folder, target)
        events = load_cupti_csv(target, 0).events
        assert_durations(events, expected)
        kernels, calls = launches_of(events)
        assert Counter(events.names_at(calls)) == Counter(expected["launched_by"])
        delay_ns = int((events.start_ns[kernels] - events.end_ns[calls]).sum())
        moved_ns = abs(delay_ns - expected["launch_delay_sum_ns"])
        assert moved_ns <= 2 * ROUNDING_NS * kernels.size
        whole_us = "h100" not in folder.name
        assert moved_ns == 0 or not whole_us
