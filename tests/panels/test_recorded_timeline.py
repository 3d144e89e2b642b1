"""What a saved timeline knows without a kernel: what Python would have answered."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hta_widgets.panels import TimelinePanel
from hta_widgets.panels.timeline import panel as module
from hta_widgets.panels.timeline.requests import answer
from hta_widgets.trace.job import Job
from tests.report_models import models_in


def test_it_is_what_python_answers(loaded: Job):
    panel = TimelinePanel(loaded)
    lanes, home = panel.result.lanes, panel._timeline["home"]
    ranks = panel.report_state()["_recorded"]
    assert [each["rank"] for each in ranks] == [0, 1, 2, 3]
    for each in ranks:
        asked = answer(lambda: lanes, {"kind": "lanes", "rank": each["rank"]})
        assert each["lanes"] == asked.content["lanes"]
        inside = [lane["key"] for lane in each["lanes"] if lane["kind"] != "rank"]
        assert sorted(window["key"] for window in each["windows"]) == sorted(inside)
        for window in each["windows"]:
            question = {"kind": "window", "lanes": [[each["rank"], window["key"], 0]]}
            question |= {"start": home[0], "end": home[1], "pixels": 1_200, "id": 0}
            expected = answer(lambda: lanes, question)
            assert (window["content"], window["buffers"]) == expected


def test_all_kernels_are_in_it(loaded: Job):
    panel = TimelinePanel(loaded)
    (first, *_) = panel.report_state()["_recorded"]
    streams = {lane["key"] for lane in first["lanes"] if lane["kind"] == "stream"}
    rows = [
        np.cumsum(np.frombuffer(window["buffers"][3], np.int32))
        for window in first["windows"]
        if window["key"] in streams
    ]
    assert {*loaded.rank(0).gpu_work.rows.tolist()} <= {*np.concatenate(rows).tolist()}


def test_where_there_is_little_room_the_first_lanes_of_all_ranks_are_there(
    loaded: Job, monkeypatch: pytest.MonkeyPatch
):
    panel = TimelinePanel(loaded)
    whole = panel.report_state()["_recorded"]
    phases = sum(len(data) for each in whole for data in each["windows"][0]["buffers"])
    monkeypatch.setattr(module, "MOST_BYTES", phases)
    for some, every in zip(panel.report_state()["_recorded"], whole, strict=True):
        assert some["windows"] == every["windows"][:1]
        assert some["lanes"] == every["lanes"]


def test_a_report_has_it_with_its_bytes(loaded: Job, tmp_path: Path):
    panel = TimelinePanel(loaded)
    text = panel.to_html(tmp_path / "a.html").read_text(encoding="utf-8")
    model = models_in(text)[0]
    found = model["bytes"]
    for place, rank in enumerate(panel.report_state()["_recorded"]):
        for number, window in enumerate(rank["windows"]):
            path = ("_recorded", place, "windows", number, "buffers")
            there = model["state"]["_recorded"][place]["windows"][number]
            assert there["content"] == window["content"]
            assert there["buffers"] == [None] * len(window["buffers"])
            assert [found[(*path, at)] for at in range(len(window["buffers"]))] == window["buffers"]
