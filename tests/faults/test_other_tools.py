"""Files of other tools say what they are; they do not load as empty traces."""

from __future__ import annotations

import json

import pytest

from hta_widgets.errors import TraceFormatError
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
    with pytest.raises(TraceFormatError, match=r"memory\.json is a list of other things"):
        open_trace(path)


@pytest.mark.parametrize("indent", [None, 2])
def test_proton_profiles_are_refused(tmp_path, indent):
    path = tmp_path / "profile.hatchet"
    path.write_text(json.dumps(HATCHET, indent=indent))
    with pytest.raises(TraceFormatError, match=r"profile\.hatchet is a Proton profile"):
        open_trace(path)


def test_in_a_folder_they_are_left_out(tmp_path):
    write(tmp_path / "rank-0.json", [kernel(0, 1)])
    (tmp_path / "memory.json").write_text(json.dumps(TIMELINES[0]))
    job = open_trace(tmp_path, progress=False)
    assert job.notices[0] == "memory.json is not a trace and is left out"


def test_categories_of_another_tool_are_named(tmp_path):
    events = [host(number, 1, "op", cat=f"tool {number}{{}}") for number in range(7)]
    (notice,) = notices(tmp_path, [*events, {"ph": "X", "name": "n", "ts": 1, "dur": 1}])
    assert "other categories are: none, 'tool 0()', 'tool 1()'" in notice
    assert "and 3 more" in notice


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
