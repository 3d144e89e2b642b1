"""A file that was cut off has lost the zero of its times, which is written behind the events."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hta_widgets.export.trace_with_counters import write_traces_with_counters
from hta_widgets.trace.job import Job
from hta_widgets.trace.opening.open import open_trace
from tests.kineto_text import call, kernel

BASE_NS = 1_727_784_000_000_000_000
LOST = "has lost the zero of its times"


def write_rank(path: Path, start_us: int, *, base_ns: int | None = BASE_NS, cut: bool = False):
    events = [
        event
        for number in range(20)
        for event in (
            call(start_us + 10 * number, 2, number),
            kernel(start_us + 10 * number + 5, 3, correlation=number),
        )
    ]
    behind = {} if base_ns is None else {"baseTimeNanoseconds": base_ns}
    text = json.dumps({"traceEvents": events, **behind})
    path.write_text(text[: text.rindex('{"ph"')] if cut else text)


def job_of(folder: Path) -> Job:
    return open_trace(folder, progress=False)


def test_a_cut_rank_takes_the_base_of_the_others(tmp_path):
    write_rank(tmp_path / "rank-0.json", 1_000)
    write_rank(tmp_path / "rank-1.json", 1_007, cut=True)
    write_rank(tmp_path / "rank-2.json", 1_002)
    job = job_of(tmp_path)
    assert job.offsets_ns(job.ranks) == {0: 0, 1: 7_000, 2: 2_000}
    (notice,) = [notice for notice in job.notices if LOST in notice]
    assert notice.startswith("rank 1: the truncated file")
    assert not any(LOST in notice for notice in job.notices_for([0, 2]))


def test_a_cut_rank_takes_the_base_that_most_others_have(tmp_path):
    for rank, base_ns in enumerate((5, BASE_NS, BASE_NS)):
        write_rank(tmp_path / f"rank-{rank}.json", 1_000, base_ns=base_ns)
    write_rank(tmp_path / "rank-3.json", 1_000, cut=True)
    offsets = job_of(tmp_path).offsets_ns(range(4))
    assert offsets[3] == offsets[1] == BASE_NS - 5


@pytest.mark.parametrize("cut", [(0, 1), (1,)])
def test_without_any_recorded_base_all_count_from_0(tmp_path, cut):
    for rank, start_us in enumerate((1_000, 1_004)):
        write_rank(tmp_path / f"rank-{rank}.json", start_us, base_ns=None, cut=rank in cut)
    job = job_of(tmp_path)
    assert job.offsets_ns(job.ranks) == {0: 0, 1: 4_000}
    assert not any(LOST in notice for notice in job.notices)


def test_counters_of_a_cut_rank_lie_on_the_clock_of_its_file(tmp_path):
    write_rank(tmp_path / "rank-0.json", 1_000)
    write_rank(tmp_path / "rank-1.json", 1_007, cut=True)
    (copy,) = write_traces_with_counters(job_of(tmp_path), ranks=[1])
    counters = [
        event["ts"] for event in json.loads(copy.read_text())["traceEvents"] if event["ph"] == "C"
    ]
    assert min(counters) == 1_007
