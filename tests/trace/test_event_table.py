"""The documented table of events against the events themselves."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from hta_widgets.errors import UnknownRankError
from hta_widgets.trace.opening.open import open_trace
from tests.kineto_text import call, host, kernel, step, write

ROOT = Path(__file__).parents[2]

EVENTS = [
    step(7, 0, 100),
    step(8, 100, 100),
    step(9, 200, 10),
    {**host(10, 30, "aten::mm"), "args": {"Input Dims": [[2, 3]], "Sequence number": 5}},
    call(12, 4, 1),
    call(112, 4, 2),
    kernel(20, 5, correlation=1),
    kernel(130, 6, correlation=2, name="ncclDevKernel_AllReduce"),
    kernel(205, 1, name="Memcpy HtoD", cat="gpu_memcpy", bytes=1024),
]


@pytest.fixture
def job(tmp_path):
    write(tmp_path / "rank-0.json", EVENTS)
    write(tmp_path / "rank-1.json", [kernel(50, 5), *EVENTS])
    return open_trace(tmp_path, progress=False)


def test_what_is_in_it(job):
    events = job.events(0)
    by_index = events.set_index("index").sort_index()
    assert events["start_ns"].is_monotonic_increasing
    assert by_index["start_ns"].to_dict() == {
        place: 1000 * event["ts"] for place, event in enumerate(EVENTS)
    }
    assert by_index["duration_ns"].to_dict() == {
        place: 1000 * event["dur"] for place, event in enumerate(EVENTS)
    }
    assert by_index["step"].tolist() == [7, 8, 9, 7, 7, 8, 7, 8, -1]
    assert by_index["analysed"].tolist() == [True, True, False, *[True] * 5, False]
    assert by_index["kernel_type"].tolist()[6:] == ["COMPUTATION", "COMMUNICATION", "MEMORY"]
    assert by_index["kernel_type"][:6].isna().all()
    assert by_index["bytes"].tolist() == [*[-1] * 8, 1024]
    assert by_index["input_dims"].dropna().to_dict() == {3: "[[2, 3]]"}
    assert by_index["sequence_number"].tolist()[3] == 5
    launched = events[events["launch"] >= 0]
    assert events.loc[launched["launch"], "name"].tolist() == ["cudaLaunchKernel"] * 2
    assert (
        events.loc[launched["launch"], "correlation"].tolist() == launched["correlation"].tolist()
    )
    (inner,) = events.index[(events["index"] == 4)]
    assert events.loc[events.loc[inner, "parent"], "name"] == "aten::mm"


def test_times_of_ranks_are_on_one_clock(tmp_path):
    write(tmp_path / "rank-0.json", [kernel(5, 1)], baseTimeNanoseconds=1_000_000)
    write(tmp_path / "rank-1.json", [kernel(5, 1)], baseTimeNanoseconds=1_002_500)
    job = open_trace(tmp_path, progress=False)
    assert [job.events(rank)["start_ns"].item() for rank in (0, 1)] == [0, 2500]


def test_arrow_has_the_same(job):
    table = job.arrow_events(1)
    assert table.schema.field("start_ns").type == pa.int64()
    assert pa.types.is_dictionary(table.schema.field("name").type)
    pd.testing.assert_frame_equal(
        table.to_pandas().astype(object), job.events(1).astype(object), check_dtype=False
    )


def test_changing_it_changes_nothing_else(job):
    before = job.events(0)
    changed = job.events(0)
    for name in changed.columns:
        column = changed[name].array
        values = column._ndarray if isinstance(column, pd.Categorical) else changed[name].to_numpy()
        values = np.asarray(values)
        values.setflags(write=True)
        values[:] = 0
    table = job.arrow_events(0)
    for name in ("start_ns", "device"):
        buffer = np.frombuffer(table[name].chunk(0).buffers()[1], dtype=np.int64)
        assert not np.shares_memory(buffer, getattr(job.rank(0).trace.events, name))
    pd.testing.assert_frame_equal(job.events(0), before)


def test_labels_of_old_traces_are_text(tmp_path):
    events = [{**kernel(0, 5), "pid": 0, "tid": "stream 7"}, {**host(0, 5, "a"), "tid": "python"}]
    job = open_trace(write(tmp_path / "rank-0.json", events))
    assert set(job.events(0)["tid"]) == {"stream 7", "python"}
    assert set(job.arrow_events(0)["tid"].to_pylist()) == {"stream 7", "python"}


def test_a_rank_that_is_not_there(job):
    for ask in (job.events, job.arrow_events):
        with pytest.raises(UnknownRankError, match="2"):
            ask(2)


def test_the_page_lists_its_columns(job):
    page = (ROOT / "docs" / "events.md").read_text()
    rows = re.findall(r"^\| (`.*?) \|", page, re.MULTILINE)
    listed = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert listed == [*job.events(0).columns]


def test_every_real_trace(kineto_jobs):
    for name in ("alexnet", "dlrm_2rank", "mi250_toy", "cupti_counters", "cpu_only"):
        job = open_trace(kineto_jobs[name], progress=False)
        for rank in job.ranks:
            events, recorded = job.events(rank), job.rank(rank).trace.events
            assert events["start_ns"].tolist() == [
                start + job.offset_ns(rank) for start in recorded.start_ns.tolist()
            ]
            assert events["name"].tolist() == recorded.names_at(np.arange(len(recorded)))
            busy = events[events["kernel_type"].notna() & events["analysed"]]
            assert busy["duration_ns"].sum() == job.rank(rank).gpu_work.duration_ns.sum()
            assert job.arrow_events(rank).num_rows == len(events)
