"""A baseline is what was kept, whole; anything else in its place is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from hta_widgets import open_trace
from hta_widgets.diagnosis.change import baseline as module
from hta_widgets.diagnosis.change.baseline import (
    SCHEMA_VERSION,
    BaselineError,
    baseline_file,
    baselines,
    read_baseline,
    write_baseline,
)
from hta_widgets.diagnosis.change.explain_change import explain_change
from hta_widgets.diagnosis.change.summary import summary
from hta_widgets.errors import WriteError
from hta_widgets.sample import write_sample
from tests.diagnosis.change.made import finding, job_of

ROWS = [
    ("compute", "Net_0 › Linear_3", "aten::mm", "gemm", 10_000_000),
    ("gap_op", "", "", "cudaLaunchKernel", 3_000_001),
]
LARGEST = 200_000


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    """What is kept of the sample job."""
    folder = tmp_path_factory.mktemp("sample")
    write_sample(folder, ranks=4, steps=6, progress=False)
    return summary(open_trace(folder, progress=False))


def _same(one, other):
    for name in ("steps", "spent", "kernels"):
        ours, theirs = getattr(one, name), getattr(other, name)
        keys = [*ours.columns]
        assert sorted(ours[keys].to_numpy().tolist()) == sorted(theirs[keys].to_numpy().tolist())
    for name in ("name", "environment", "labels", "findings", "status", "doubts", "left_out"):
        assert getattr(one, name) == getattr(other, name)
    assert (one.lacks, one.memory_bytes) == (other.lacks, other.memory_bytes)


def test_what_is_read_is_what_was_kept(sample, tmp_path):
    path = tmp_path / "baselines" / "nightly.arrow"
    size = write_baseline(sample, path)
    assert path.stat().st_size == size <= LARGEST
    _same(sample, read_baseline("nightly", path.parent))
    _same(sample, read_baseline(str(path)))
    assert baselines(path.parent) == ("nightly",)
    change = explain_change(read_baseline(str(path)), sample)
    assert (change.verdict, change.delta_ns) == ("noise", 0)
    assert not change.waterfall["delta_ns"].any()


@pytest.mark.parametrize("name", ["compare_control", "compare_test", "dlrm_2rank", "h100_qwen"])
def test_baselines_of_real_jobs_are_small(kineto_jobs, tmp_path, name):
    kept = summary(open_trace(kineto_jobs[name], progress=False))
    assert write_baseline(kept, tmp_path / "real.arrow") <= LARGEST
    _same(kept, read_baseline(str(tmp_path / "real.arrow")))


@pytest.mark.parametrize("name", ["", "../up", "a/b", ".hidden", "x" * 65, "a b"])
def test_names_are_no_paths(name):
    with pytest.raises(BaselineError, match="not a baseline name"):
        baseline_file(name)


def test_a_path_may_be_a_text(tmp_path):
    """As the docs write one: ``write_baseline(summary(job), "before.arrow")``."""
    path = f"{tmp_path}/runs/one.arrow"
    assert write_baseline(job_of(ROWS), path) == Path(path).stat().st_size
    assert read_baseline(path).name == job_of(ROWS).name


def test_a_baseline_that_is_not_there_is_said_with_those_that_are(tmp_path):
    write_baseline(job_of(ROWS), tmp_path / "one.arrow")
    with pytest.raises(BaselineError, match=r"no baseline .*other\.arrow.* are: one\. "):
        read_baseline("other", tmp_path)


def test_a_file_that_is_cut_anywhere_is_refused(tmp_path):
    path = tmp_path / "cut.arrow"
    write_baseline(job_of(ROWS), path)
    whole = path.read_bytes()
    for size in range(0, len(whole) - 16, 97):
        path.write_bytes(whole[:size])
        with pytest.raises(BaselineError, match="damaged"):
            read_baseline(str(path))


def test_a_file_that_is_too_large_is_not_read(tmp_path, monkeypatch):
    path = tmp_path / "large.arrow"
    size = write_baseline(job_of(ROWS), path)
    monkeypatch.setattr(module, "LARGEST_FILE", size - 1)
    with pytest.raises(BaselineError, match="more than"):
        read_baseline(str(path))
    monkeypatch.setattr(module, "LARGEST_FILE", size)
    assert read_baseline(str(path)).name == "job"


def _rewritten(path, change=None, options=None):
    """Write a baseline again, with other metadata or other ways to write."""
    table = pa.ipc.open_stream(path.read_bytes()).read_all()
    document = json.loads(table.schema.metadata[b"hta_widgets.baseline"])
    if change is not None:
        change(document)
    schema = table.schema.with_metadata({b"hta_widgets.baseline": json.dumps(document).encode()})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema, options=options) as stream:
        stream.write_table(table.cast(schema))
    path.write_bytes(sink.getvalue().to_pybytes())


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
def test_compression_is_refused_before_anything_is_decompressed(tmp_path, codec):
    path = tmp_path / "packed.arrow"
    write_baseline(job_of(ROWS), path)
    _rewritten(path)
    assert read_baseline(str(path)).mean_ns == 13_000_001
    _rewritten(path, options=pa.ipc.IpcWriteOptions(compression=codec))
    with pytest.raises(BaselineError, match="compressed"):
        read_baseline(str(path))


def _without(name):
    return lambda document: document.pop(name)


def _with(value, *names):
    def change(document):
        *around, last = names
        for name in around:
            document = document[name]
        document[last] = value

    return change


@pytest.mark.parametrize(
    "change",
    [
        *(
            map(
                _without,
                ["name", "environment", "steps", "kernels", "findings", "work", "schema_version"],
            )
        ),
        _with(SCHEMA_VERSION - 1, "schema_version"),
        _with({"applause": 1}, "work"),
        _with({"samples": 0.5}, "work"),
        _with(["x"], "name"),
        _with("x" * 10_000, "name"),
        _with([{}], "findings"),
        _with(["a"], "environment", "ranks"),
        _with(1.5, "memory_bytes"),
        _with(2**60, "memory_bytes"),
        _with(True, "memory_bytes"),
        _with([1], "steps", "period_ns"),
        _with([1] * 5, "steps", "period_ns"),
        _with({"a": {"step": [1]}}, "kernels"),
        _with({"a": 1}, "labels"),
        _with(float("nan"), "findings", 0, "recoverable_ms"),
        _with("high", "findings", 0, "percent"),
    ],
)
def test_what_is_not_as_written_is_refused(tmp_path, change):
    path = tmp_path / "other.arrow"
    write_baseline(job_of(ROWS, findings=(finding("launch_bound", 1.0),)), path)
    _rewritten(path, change)
    with pytest.raises(BaselineError, match="no baseline, or is damaged"):
        read_baseline(str(path))


def test_other_tables_are_refused(tmp_path):
    path = tmp_path / "other.arrow"
    sink = pa.BufferOutputStream()
    table = pa.table({"a": [1]})
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    path.write_bytes(sink.getvalue().to_pybytes())
    with pytest.raises(BaselineError, match="no metadata"):
        read_baseline(str(path))
    bad = replace(job_of(ROWS), spent=job_of([("unknown", "", "", "k", 13_000_001)]).spent)
    write_baseline(bad, path)
    with pytest.raises(BaselineError, match="not known"):
        read_baseline(str(path))


def test_a_folder_that_cannot_be_written_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(WriteError, match="cannot be written"):
        write_baseline(job_of(ROWS), tmp_path / "file" / "x.arrow")
