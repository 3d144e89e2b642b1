"""The registry of formats; a new format needs one `Format` and a line in `FORMATS`."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from hta_widgets.analyses.temporal_breakdown import temporal_breakdown
from hta_widgets.errors import TraceFormatError
from hta_widgets.trace.loaders.event_blocks import EventBlocks
from hta_widgets.trace.loaders.formats import FORMATS
from hta_widgets.trace.model.events import Kind, Trace
from hta_widgets.trace.model.formats import Format, Recorded
from hta_widgets.trace.opening import fetch, recognise
from hta_widgets.trace.opening.open import open_trace

HEAD = "start_ns,duration_ns,kernel\n"


def is_tiny(path):
    return path.is_file() and path.read_text(encoding="utf-8").startswith(HEAD)


def load_tiny(path, rank, _process, on_read):
    rows = [line.split(",") for line in path.read_text(encoding="utf-8").splitlines()[1:]]
    start_ns, duration_ns = (np.array([int(row[place]) for row in rows]) for place in (0, 1))
    blocks = EventBlocks()
    blocks.add(Kind.KERNEL, start_ns, duration_ns, [row[2] for row in rows])
    events, first_ns = blocks.finish()
    if on_read:
        on_read(path.stat().st_size)
    return Trace(rank, str(path), events, first_ns, {})


TINY = Format(
    name="TINY",
    noun="a tiny table",
    example="a tiny table (*.tiny)",
    matches=is_tiny,
    load=load_tiny,
    lacks=frozenset({Recorded.OPERATORS}),
    suffixes=(".tiny",),
)


@pytest.fixture
def with_tiny(monkeypatch):
    for module in (recognise, fetch):
        monkeypatch.setattr(module, "FORMATS", (*FORMATS, TINY))


def write_tiny(path, shift_ns=0):
    rows = [f"{1_000 + shift_ns},500,gemm", f"{2_000 + shift_ns},300,ncclKernel"]
    path.write_text(HEAD + "\n".join(rows), encoding="utf-8")
    return path


@pytest.mark.usefixtures("with_tiny")
def test_a_new_format_takes_one_object_and_one_line(tmp_path):
    for rank in range(2):
        write_tiny(tmp_path / f"rank{rank}.tiny", shift_ns=rank)
    job = open_trace(tmp_path, progress=False)
    assert job.ranks == (0, 1)
    table = temporal_breakdown(job).ranks
    assert table["compute_time_ns"].tolist() == [500, 500]
    assert table["non_compute_time_ns"].tolist() == [300, 300]
    assert job.lacking([0], Recorded.OPERATORS) == ("rank 0: a tiny table has no operators",)


@pytest.mark.usefixtures("with_tiny")
def test_a_new_format_is_opened_alone_and_by_url(tmp_path):
    path = write_tiny(tmp_path / "profile_rank7.tiny")
    assert open_trace(path, progress=False).ranks == (7,)
    fsspec = pytest.importorskip("fsspec")
    with fsspec.open("memory://tiny/rank3.tiny", "wb") as file:
        file.write(path.read_bytes())
    assert open_trace("memory://tiny", progress=False).ranks == (3,)


@pytest.mark.usefixtures("with_tiny")
def test_a_folder_of_two_formats_is_refused(tmp_path):
    write_tiny(tmp_path / "rank0.tiny")
    (tmp_path / "rank0.json").write_text('{"traceEvents": []}', encoding="utf-8")
    with pytest.raises(TraceFormatError, match=r"different formats.*a tiny table"):
        open_trace(tmp_path)


def test_formats_go_to_workers_and_have_names_of_their_own():
    assert pickle.loads(pickle.dumps(FORMATS)) == FORMATS  # noqa: S301  # our own
    names = [each.name for each in FORMATS]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("form", FORMATS, ids=repr)
def test_each_is_recognised_by_its_content_alone(form, tmp_path):
    """Other files and folders are not matched, whatever their name."""
    folder = tmp_path / "folder"
    folder.mkdir()
    file = tmp_path / f"file{(*form.suffixes, '.x')[0]}"
    file.write_bytes(b"something else")
    assert not form.matches(file)
    assert not form.matches(folder)
