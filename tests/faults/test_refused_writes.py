"""What the system refuses to write is named, and nothing is left of it."""

from __future__ import annotations

import errno
import os
from functools import partial
from pathlib import Path

import pytest

from hta_widgets import TraceAnalysis
from hta_widgets.errors import ParameterError, WriteError
from hta_widgets.export import extended_trace
from hta_widgets.export.trace_with_counters import write_traces_with_counters
from tests.kineto_text import call, host, kernel, write

EVENTS = [host(0, 9, "aten::mm"), call(1, 1, 1), kernel(5, 3, correlation=1)]


@pytest.fixture
def analysis(tmp_path):
    folder = tmp_path / "traces"
    folder.mkdir()
    write(folder / "rank-0.json.gz", EVENTS)
    return TraceAnalysis(trace_dir=str(folder), progress=False)


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_read_only_folder(tmp_path, monkeypatch, analysis):
    touch = Path.touch

    def refuse(self, *args, **options):
        if self.parent.name == "traces":
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(self))
        touch(self, *args, **options)

    monkeypatch.setattr(Path, "touch", refuse)
    with pytest.raises(WriteError, match=r"rank-0_with_counters\.json\.gz cannot .* folder"):
        analysis.generate_trace_with_counters()
    analysis.generate_trace_with_counters(output_dir=tmp_path)
    assert names_in(tmp_path) == ["rank-0_with_counters.json.gz", "traces"]


@pytest.mark.parametrize("overlay", [False, True])
def test_a_full_disk(tmp_path, monkeypatch, analysis, overlay):
    class Full:
        def __init__(self, path, *_args, **_options):
            self.file = open(path, "wb")  # noqa: SIM115, PTH123

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self.file.close()

        def write(self, _content):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(extended_trace.gzip, "open", Full)
    export = analysis.generate_trace_with_counters
    if overlay:
        method = analysis.get_frequent_cuda_kernel_sequences
        export = partial(method, "aten", tmp_path, min_pattern_len=1)
    with pytest.raises(WriteError, match=r"cannot be written \(No space left on device\)"):
        export()
    assert names_in(tmp_path) == ["traces"]
    assert names_in(tmp_path / "traces") == ["rank-0.json.gz"]


def test_an_output_folder_that_is_none(tmp_path, analysis):
    with pytest.raises(ParameterError, match="does not exist; give an existing folder"):
        write_traces_with_counters(analysis.job, output_dir=tmp_path / "nowhere")


def test_the_trace_itself_is_not_overwritten(tmp_path, analysis):
    other = write(tmp_path / "rank-0_with_counters.json.gz", EVENTS)
    before = other.read_bytes()
    with pytest.raises(ParameterError, match="is not overwritten"):
        write_traces_with_counters(analysis.job, output_dir=tmp_path)
    assert other.read_bytes() == before
