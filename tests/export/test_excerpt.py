"""A window of time as small traces."""

from __future__ import annotations

import gzip

import numpy as np
import pytest

from hta_widgets.analyses.clocks.aligned import common_offsets_ns
from hta_widgets.errors import ParameterError, UnknownRankError, WriteError
from hta_widgets.export import excerpt
from hta_widgets.export.excerpt import CATEGORIES, write_excerpt
from hta_widgets.sample import write_sample
from hta_widgets.trace.job import Job
from hta_widgets.trace.model.events import Kind
from hta_widgets.trace.opening.open import open_trace
from tests.kineto_text import call, host, kernel, read, write


@pytest.fixture(scope="module")
def sample(tmp_path_factory) -> Job:
    folder = tmp_path_factory.mktemp("sample")
    write_sample(folder, ranks=2, steps=2, progress=False)
    return open_trace(folder, progress=False)


def events_of(job: Job, rank: int, window: tuple[int, int] | None = None) -> list[tuple]:
    """Name, kind, exact times on the recording clock, and where, of what is in a window."""
    trace = job.rank(rank).trace
    events, offset_ns = trace.events, common_offsets_ns(job)[rank]
    found = []
    for row in range(len(events)):
        start, length = int(events.start_ns[row]), int(events.duration_ns[row])
        if Kind(int(events.kind[row])) not in CATEGORIES:
            continue
        if window is not None:
            first, last = start + offset_ns, start + offset_ns + length
            if first >= window[1] or (last <= window[0] and first < window[0]):
                continue
        name = events.name.values[events.name.codes[row]]
        columns = (events.kind, events.device, events.stream, events.correlation)
        where = tuple(int(column[row]) for column in columns)
        found.append((name, start + trace.origin_ns, length, *where))
    return sorted(found)


def test_it_holds_exactly_what_overlaps_the_window(sample, tmp_path):
    window = (3_000_000, 9_000_001)
    files = write_excerpt(sample, window, output_dir=tmp_path)
    assert [file.name for file in files] == [
        f"rank-{rank}_3000-9000us.json.gz" for rank in sample.ranks
    ]
    again = open_trace(files, progress=False)
    assert again.ranks == sample.ranks
    for rank in sample.ranks:
        assert events_of(again, rank) == events_of(sample, rank, window)
        assert len(events_of(again, rank)) > 20


def test_arrows_lead_from_calls_to_work_inside(tmp_path):
    events = [
        host(0, 100, "aten::mm"),
        call(10, 5, 1),
        call(60, 5, 2),
        kernel(70, 10, correlation=1),
        kernel(80, 10, correlation=2),
    ]
    job = open_trace(write(tmp_path / "trace.json", events), progress=False)
    [file] = write_excerpt(job, (50_000, 90_000), output_dir=tmp_path)
    written = read(file)
    arrows = [each for each in written["traceEvents"] if each["ph"] in "sf"]
    assert [(each["ph"], each["ts"]) for each in arrows] == [("s", 60), ("f", 80)]
    assert len({each["id"] for each in arrows}) == 1
    names = {each["name"] for each in written["traceEvents"] if each["ph"] == "X"}
    assert "aten::mm" in names
    assert written["hta_widgets"] == {"derived_from": "trace.json"}


def test_hostile_names_are_data(tmp_path):
    name = '</script>"\\ \u2028 \x00 \ud800'
    job = open_trace(write(tmp_path / "trace.json", [kernel(0, 5, name=name)]), progress=False)
    [file] = write_excerpt(job, (0, 10_000), output_dir=tmp_path)
    again = open_trace(file, progress=False)
    assert again.rank(0).trace.events.name.values[0] == job.rank(0).trace.events.name.values[0]


def test_mistakes_are_told_before_anything_is_written(sample, tmp_path):
    with pytest.raises(ParameterError, match="start < end"):
        write_excerpt(sample, (5, 5), output_dir=tmp_path)
    with pytest.raises(ParameterError, match="does not exist"):
        write_excerpt(sample, (0, 5), output_dir=tmp_path / "nowhere")
    with pytest.raises(UnknownRankError):
        write_excerpt(sample, (0, 5), [9], output_dir=tmp_path)
    assert not [*tmp_path.iterdir()]


def test_a_trace_of_the_job_is_never_replaced(tmp_path):
    trace = write(tmp_path / "a_0-10us.json", [kernel(0, 5)])
    packed = tmp_path / "a_0-10us.json.gz"
    packed.write_bytes(gzip.compress(trace.read_bytes()))
    other = write(tmp_path / "a.json", [kernel(0, 5)])
    job = open_trace({0: other, 1: packed}, progress=False)
    with pytest.raises(ParameterError, match="never overwritten"):
        write_excerpt(job, (0, 10_000), [0], output_dir=tmp_path)


def test_a_full_disk_leaves_nothing(sample, tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(excerpt, "_parts", refuse)
    with pytest.raises(WriteError, match="No space left"):
        write_excerpt(sample, (0, 10_000), output_dir=tmp_path)
    assert not [*tmp_path.iterdir()]


def test_exports_of_other_formats_are_written_as_well(real_traces, tmp_path):
    source = next((real_traces / "nsys").rglob("*.sqlite"), None)
    if source is None:
        pytest.skip("no export")
    job = open_trace(source, progress=False)
    rank = job.ranks[0]
    length = int(job.rank(rank).trace.events.end_ns.max())
    window = (length // 3, length // 3 + length // 50)
    [file] = write_excerpt(job, window, [rank], output_dir=tmp_path)
    again = open_trace(file, progress=False)
    found = events_of(again, again.ranks[0])
    expected = events_of(job, rank, window)
    assert [(each[0], each[2]) for each in found] == [(each[0], each[2]) for each in expected]
    assert np.unique([e[1] - f[1] for e, f in zip(expected, found, strict=True)]).size <= 1
