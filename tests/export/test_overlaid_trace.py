"""The overlaid trace: what is marked, what is kept, and that nothing is overwritten."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hta_widgets.analyses.kernel_sequences import kernel_sequences
from hta_widgets.errors import HtaWidgetsError, ParameterError, WriteError
from hta_widgets.export import extended_trace, overlaid_trace
from hta_widgets.export.overlaid_trace import write_overlaid_trace
from hta_widgets.trace.opening.open import open_trace
from tests.kineto_text import LAYOUTS, call, host, kernel, read, write

PROFILER = {
    "ph": "X",
    "cat": "Trace",
    "name": "PyTorch Profiler (0)",
    "pid": "Spans",
    "tid": "PyTorch Profiler",
    "ts": 0,
    "dur": 99,
    "args": {"Op count": 0},
}
ARROW = {"ph": "s", "id": 1, "pid": 100, "tid": 100, "ts": 1, "cat": "ac2g", "name": "ac2g"}
EVENTS = [
    {"ph": "M", "name": "process_name", "pid": 100, "tid": 0, "ts": 0, "args": {"name": "python"}},
    host(0, 9, "aten::linear"),
    host(1, 5, "aten::addmm") | {"args": {"External id": 3}},
    call(2, 1, 1),
    ARROW,
    host(20, 9, "aten::relu") | {"args": {"External id": 4}},
    call(21, 1, 2),
    kernel("30.125", 5, name="gemm<float>", correlation=1),
    kernel(40, 5, name="relu", correlation=2),
    {"ph": "C", "name": "memory", "pid": 0, "ts": 5, "args": {"bytes": 7}},
    PROFILER,
]
PATTERN = {"aten::linear|gemm<float>": 1}


def overlay(source, folder, *, operator_name="aten::linear", min_pattern_len=1, **settings):
    job = open_trace(source, progress=False)
    result = kernel_sequences(
        job, operator_name=operator_name, min_pattern_len=min_pattern_len, whole_name=True
    )
    return write_overlaid_trace(job, result, folder, **settings)


@pytest.fixture
def out(tmp_path):
    folder = tmp_path / "out.json.d"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("layout", sorted(LAYOUTS))
@pytest.mark.parametrize("bare", [False, True])
@pytest.mark.parametrize("suffix", [".json", ".json.gz"])
def test_events_of_the_pattern_are_marked_and_the_others_as_they_were(
    tmp_path, out, layout, bare, suffix
):
    source = write(tmp_path / f"rank-0{suffix}", EVENTS, layout=layout, bare=bare)
    before = source.read_bytes()
    target = overlay(source, out, compress_other_kernels=False)
    assert target == out / f"overlaid_rank-0{suffix}"
    assert source.read_bytes() == before
    assert target.read_bytes()[:2] == before[:2] or suffix == ".json"
    written = read(target)["traceEvents"]
    for position, event in enumerate(EVENTS):
        marked = position in (1, 2, 3, 7)
        args = {**event.get("args", {}), "Patterns": PATTERN} if marked else event.get("args")
        assert written[position] == event | ({"args": args} if args else {})
    assert [path.name for path in out.iterdir()] == [target.name]


def test_other_events_are_compressed(tmp_path, out):
    target = overlay(write(tmp_path / "rank-0.json", EVENTS), out)
    written = read(target)["traceEvents"]
    assert (
        written[:5]
        == read(overlay(tmp_path / "rank-0.json", out, compress_other_kernels=False))[
            "traceEvents"
        ][:5]
    )
    names = written[10]["args"]
    assert written[10]["name"] == PROFILER["name"]
    assert sorted(names.values()) == ["aten::relu", "cudaLaunchKernel", "relu"]
    for position in (5, 6, 8):
        assert "args" not in written[position]
        assert names[written[position]["name"]] == EVENTS[position]["name"]
        assert written[position]["ts"] == EVENTS[position]["ts"]
    assert written[9] == EVENTS[9]


def test_without_a_span_of_the_profiler_the_names_stand_at_the_end(tmp_path, out):
    for bare in (False, True):
        source = write(tmp_path / "rank-0.json", EVENTS[:-1], bare=bare)
        written = read(overlay(source, out))
        names = written["hta_widgets_names"]
        assert sorted(names.values()) == ["aten::relu", "cudaLaunchKernel", "relu"]
        assert ("traceName" in written) is not bare
    assert "hta_widgets_names" not in read(overlay(source, out, compress_other_kernels=False))


def test_the_copy_loads_and_is_left_out_of_a_folder_with_its_original(tmp_path):
    source = write(tmp_path / "rank-0.json.gz", EVENTS, baseTimeNanoseconds=17)
    target = overlay(source, tmp_path, compress_other_kernels=False)
    assert next(iter(read(target))) == "hta_widgets"
    assert read(target)["hta_widgets"] == {"derived_from": "rank-0.json.gz"}
    original, copy = (open_trace(path, progress=False).rank(0).trace for path in (source, target))
    assert copy.origin_ns == original.origin_ns
    assert copy.events.to_frame().equals(original.events.to_frame())
    job = open_trace(tmp_path, progress=False)
    assert [each.path for each in job.sources.values()] == [source]
    assert any("overlaid_rank-0.json.gz" in notice for notice in job.notices)


def test_an_overlay_of_an_overlay(tmp_path, out):
    first = overlay(write(tmp_path / "rank-0.json", EVENTS), out, compress_other_kernels=False)
    job = open_trace(first, progress=False)
    result = kernel_sequences(job, operator_name="aten::relu", min_pattern_len=1)
    second = write_overlaid_trace(job, result, out, compress_other_kernels=False)
    written = read(second)["traceEvents"]
    assert written[1]["args"]["Patterns"] == PATTERN
    assert written[8]["args"]["Patterns"] == {"aten::relu|relu": 1}


def test_events_are_found_by_their_position_also_in_repaired_text(tmp_path, out):
    source = write(tmp_path / "rank-0.json", [host(50, 1, "broken"), *EVENTS], layout="one_line")
    text = source.read_text()
    source.write_text(
        text.replace('"broken"', '"C:\\new \x01 \\q"', 1).replace('"External id": 4', '"x": NaN')
    )
    written = read(overlay(source, out, compress_other_kernels=False))["traceEvents"]
    assert [each["name"] for each in written if "Patterns" in each.get("args", {})] == [
        *("aten::linear", "aten::addmm", "cudaLaunchKernel", "gemm<float>")
    ]
    assert written[6]["args"] == {"x": None}


def test_a_file_that_ends_in_the_middle_is_closed(tmp_path, out):
    source = write(tmp_path / "rank-0.json", EVENTS)
    source.write_text(source.read_text()[:-180])
    written = read(overlay(source, out))["traceEvents"]
    assert 8 <= len(written) < len(EVENTS)


def test_only_the_most_frequent_patterns(tmp_path, out):
    events = []
    for number, name in enumerate(["a", "b", "b"], start=1):
        ts = 20 * number
        events += [host(ts, 9, "op"), call(ts + 1, 1, number)]
        events += [kernel(ts + 5, 1, name=name, correlation=number)]
    source = write(tmp_path / "rank-0.json", events)
    written = read(overlay(source, out, operator_name="op", top_k=1))["traceEvents"]
    assert [each.get("args", {}).get("Patterns") for each in written] == [
        *[None] * 3,
        *[{"op|b": 2}] * 6,
    ]


def test_long_patterns_are_cut(tmp_path, out):
    events = [host(0, 9, "op"), call(1, 1, 1), kernel(5, 1, name="k" * 9000, correlation=1)]
    written = read(overlay(write(tmp_path / "rank-0.json", events), out, operator_name="op"))
    for event in written["traceEvents"]:
        (pattern,) = event["args"]["Patterns"]
        assert len(pattern) == overlaid_trace.LONGEST_PATTERN


@given(st.integers(0, 400))
def test_pieces(tmp_path_factory, block):
    """Wherever the text is cut into pieces, the events are those of the file."""
    folder = tmp_path_factory.mktemp("trace")
    source = write(folder / "rank-0.json", EVENTS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hta_widgets.trace.loaders.kineto.text.BLOCK_BYTES", 64 + block)
        written = read(overlay(source, folder, compress_other_kernels=False))["traceEvents"]
    names = [event["name"] for event in written]
    assert names == [event["name"] for event in EVENTS]
    assert sum("Patterns" in event.get("args", {}) for event in written) == 4


class TestRefusals:
    def test_a_folder_that_is_none(self, tmp_path):
        source = write(tmp_path / "rank-0.json", EVENTS)
        with pytest.raises(ParameterError, match="does not exist; give an existing folder"):
            overlay(source, tmp_path / "nowhere")
        with pytest.raises(ParameterError, match="is a file"):
            overlay(source, source)
        with pytest.raises(HtaWidgetsError, match="output_dir ''"):
            overlay(source, "")

    def test_a_folder_that_cannot_be_written_to(self, tmp_path, out, monkeypatch):
        source = write(tmp_path / "rank-0.json", EVENTS)
        monkeypatch.setattr(os, "access", lambda path, _: path != out)
        with pytest.raises(ParameterError, match="is not writable"):
            overlay(source, out)

    def test_nothing_to_mark(self, tmp_path, out):
        source = write(tmp_path / "rank-0.json", EVENTS)
        with pytest.raises(ParameterError, match="no pattern to mark: The only occurrence"):
            overlay(source, out, min_pattern_len=5)
        with pytest.raises(ParameterError, match="top_k must be 1 or more, got 0"):
            overlay(source, out, top_k=0)
        assert not list(out.iterdir())

    def test_a_trace_of_the_job_is_never_overwritten(self, tmp_path):
        source = write(tmp_path / "rank-0.json", EVENTS)
        other = write(tmp_path / "overlaid_rank-0.json", EVENTS)
        job = open_trace({0: source, 1: other}, progress=False)
        result = kernel_sequences(job, operator_name="aten::linear", min_pattern_len=1)
        with pytest.raises(ParameterError, match="is a trace of this job"):
            write_overlaid_trace(job, result, tmp_path)

    def test_a_failure_leaves_nothing_behind(self, tmp_path, out, monkeypatch):
        source = write(tmp_path / "rank-0.json", EVENTS)

        def fails(*_):
            msg = "full"
            raise OSError(msg)

        monkeypatch.setattr(extended_trace, "decode_fields", fails)
        with pytest.raises(WriteError, match=r"overlaid_rank-0\.json cannot be written \(full\)"):
            overlay(source, out)
        assert not list(out.iterdir())
