"""Files of other tools say what they are; they do not load as empty traces."""

from __future__ import annotations

import json

import pytest

from hta_widgets.errors import TraceFormatError, TraceNotFoundError
from hta_widgets.trace.loaders.kineto.load import load_kineto
from hta_widgets.trace.opening.open import open_trace
from tests.kineto_text import call, host, kernel, write

TIMELINES = [
    [[0, 1, 2], [[5, 6], [7, 8]]],
    [["a", 1]],
    [1, 2, 3],
    ["a"],
    [None],
]
HATCHET = [{"children": [], "frame": {"name": "ROOT"}, "metrics": {}}, {"CUDA": {}}]


def notices(tmp_path, events):
    path = write(tmp_path / "trace.json", events)
    return [notice.text() for notice in load_kineto(path, 0).notices]


@pytest.mark.parametrize("content", TIMELINES)
def test_lists_of_other_things_are_refused(tmp_path, content):
    path = tmp_path / "memory.json"
    path.write_text(json.dumps(content))
    with pytest.raises(TraceFormatError, match=r"memory\.json is a list of something other"):
        open_trace(path)


@pytest.mark.parametrize("indent", [None, 2])
def test_proton_profiles_are_refused(tmp_path, indent):
    path = tmp_path / "profile.hatchet"
    path.write_text(json.dumps(HATCHET, indent=indent))
    with pytest.raises(TraceFormatError, match=r"profile\.hatchet is a Proton profile"):
        open_trace(path)


XPLANE = b"\n\xb4\x8c\x02\x08\x01\x12\x09/host:CPU\x1a\x10" + bytes(64)


def test_xplane_profiles_say_what_they_are(tmp_path):
    path = tmp_path / "host.xplane.pb"
    path.write_bytes(XPLANE)
    words = r"host\.xplane\.pb is an XPlane profile .*JAX.* XProf, or .*nsys export"
    for given in (path, [path], {0: path}):
        with pytest.raises(TraceFormatError, match=words):
            open_trace(given, progress=False)


def test_a_folder_of_xplane_profiles_says_what_they_are(tmp_path):
    (tmp_path / "host.xplane.pb").write_bytes(XPLANE)
    with pytest.raises(TraceNotFoundError, match=r"host\.xplane\.pb is an XPlane profile"):
        open_trace(tmp_path, progress=False)
    write(tmp_path / "rank-0.json", [kernel(0, 1)])
    assert open_trace(tmp_path, progress=False).ranks == (0,)


def test_a_url_of_an_xplane_profile_is_refused_before_it_is_fetched():
    with pytest.raises(TraceFormatError, match="is an XPlane profile"):
        open_trace("memory://nowhere/host.xplane.pb", progress=False)


def test_in_a_folder_they_are_left_out(tmp_path):
    write(tmp_path / "rank-0.json", [kernel(0, 1)])
    (tmp_path / "memory.json").write_text(json.dumps(TIMELINES[0]))
    job = open_trace(tmp_path, progress=False)
    assert job.notices[0] == "memory.json is not a trace and is left out"


def test_categories_of_another_tool_are_named(tmp_path):
    events = [host(number, 1, "op", cat=f"tool {number}{{}}") for number in range(7)]
    (notice,) = notices(tmp_path, [*events, {"ph": "X", "name": "n", "ts": 1, "dur": 1}])
    words = "there are events without a category and of the categories 'tool 0()', 'tool 1()'"
    assert words in notice
    assert "and 2 more. This looks like a trace of another tool" in notice


JAX = [
    {"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "/device:GPU:0"}},
    {"ph": "X", "pid": 1, "tid": 2, "ts": 10.5, "dur": 3.2, "name": "fusion_1"},
]
ASCEND = [
    {"ph": "M", "pid": 32, "name": "process_name", "args": {"name": "Ascend Hardware"}},
    {"ph": "X", "pid": 32, "tid": 5, "ts": "1718180918997042.123", "dur": 38.5, "name": "MatMulV2"},
    {"ph": "X", "pid": 1, "tid": 7, "ts": "17", "dur": 9, "name": "aten::mm", "cat": "cpu_op"},
]
ROCPROF = [
    {"args": {"name": "CPU HIP API"}, "ph": "M", "pid": "2", "name": "process_name"},
    {"ph": "X", "name": "Cijk_Ailk", "pid": "6", "tid": "0", "ts": "123460", "dur": "50"},
]
TRITON = [
    {"id": 1, "model_name": "resnet50", "model_version": 1},
    {"id": 1, "timestamps": [{"name": "REQUEST_START", "ns": 5294383808197}]},
]
ASYNC = [
    {"cat": "resnet50", "name": "1", "id": "1", "ph": phase, "ts": 2432907408.6, "pid": 0}
    for phase in "be"
]
LEGACY = [
    {"ph": "X", "name": "aten::mm", "ts": 1.5, "dur": 10.0, "tid": 1, "pid": "CPU functions"},
    {"ph": "X", "name": "mm", "ts": 20.5, "dur": 5.0, "tid": "cuda:0", "pid": "CUDA functions"},
]


@pytest.mark.parametrize(
    ("events", "tool"),
    [
        (JAX, "JAX or TensorFlow"),
        (ASCEND[:2], "Ascend's profiler"),
        (ROCPROF, "rocprof"),
        (LEGACY, "the old autograd profiler"),
        (TRITON, "Triton Inference Server"),
        (ASYNC, "another tool"),
    ],
)
def test_traces_of_other_tools_are_refused(tmp_path, events, tool):
    """They were jobs that ran on the CPU, with an exit code of 0."""
    (tmp_path / "a").mkdir()
    path = tmp_path / "a" / "rank-1.json"
    path.write_text(json.dumps(events))
    says = rf"rank-1\.json looks like a trace of {tool} and "
    for given in (path, [path], {0: path}, tmp_path / "a"):
        with pytest.raises(TraceFormatError, match=says):
            open_trace(given, progress=False)
    write(tmp_path / "a" / "rank-0.json", [kernel(0, 1)])
    job = open_trace(tmp_path / "a", progress=False)
    assert job.ranks == (0,)
    assert job.notices[0] == "rank-1.json is not a trace and is left out"


@pytest.mark.parametrize(
    "ours",
    [
        host(9, 1, "aten::mm"),
        host(9, 1, "x", cat="Operator"),
        host(9, 1, "x", cat="privateuse1_runtime"),
        host(9, 1, "PyTorch Profiler (0)", cat="Trace"),
        {"ph": "i", "name": "[memory]", "ts": 1},
        kernel(9, 1),
    ],
)
def test_one_event_of_the_profiler_makes_a_trace(tmp_path, ours):
    others = [host(number, 1, "x", cat="") for number in range(9_000)]
    path = write(tmp_path / "rank-0.json", [*others, ours], bare=True)
    assert open_trace(path, progress=False).ranks == (0,)
    path = write(tmp_path / "rank-0.json", others)  # its head is the profiler's
    assert open_trace(path, progress=False).ranks == (0,)
    marks = [{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "x"}}]
    path = write(tmp_path / "rank-0.json", marks, bare=True)
    assert open_trace(path, progress=False).ranks == (0,)


def test_a_known_tool_is_named_beside_operators(tmp_path):
    job = open_trace(write(tmp_path / "rank-0.json", ASCEND), progress=False)
    notice, nothing = job.notices_for([0])
    assert nothing == "no GPU work was recognised"
    assert notice == (
        "no event has a category of GPU work (kernel, gpu_memcpy, gpu_memset); there are events "
        "without a category. This looks like a trace of Ascend's profiler, which is not "
        "supported; give a trace of torch.profiler or an export of Nsight Systems"
    )


@pytest.mark.parametrize(
    "events",
    [
        [host(0, 1, "aten::mm"), call(1, 1, 1)],
        [host(0, 1, "what", cat="what"), kernel(1, 1)],
        [],
    ],
)
def test_a_trace_of_the_profiler_needs_no_such_notice(tmp_path, events):
    assert notices(tmp_path, events) == []
