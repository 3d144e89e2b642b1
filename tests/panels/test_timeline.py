"""The panel of the timeline: what it carries, what it answers, what it refuses."""

from __future__ import annotations

import gzip
import re
from html import escape
from io import BytesIO
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from traitlets import TraitError

from hta_widgets.analyses.budget.classes import BUDGET_CLASSES
from hta_widgets.analyses.time.modules import module_paths
from hta_widgets.analyses.timeline.added import LANE_KINDS
from hta_widgets.analyses.timeline.classes import CLASSES, CODE
from hta_widgets.analyses.timeline.lanes_of_job import LaneAsked
from hta_widgets.analyses.timeline.overview import OVERVIEW_CLASSES, RankOverview
from hta_widgets.analyses.timeline.window import pixel_edges
from hta_widgets.diagnosis.critical_path import critical_path
from hta_widgets.diagnosis.replay.pieces import CLASSES as PATH_CLASSES
from hta_widgets.figures.base.style import CLASS_COLORS
from hta_widgets.figures.timeline import class_looks
from hta_widgets.figures.timeline_picture import MOST_LANES, PICTURE_BYTES, timeline_picture
from hta_widgets.panels import TimelinePanel
from hta_widgets.panels.timeline.bands import most_band_pixels
from hta_widgets.panels.timeline.encoding import MOST_BYTES, in_runs
from hta_widgets.sample import write_sample
from hta_widgets.trace.job import Job
from hta_widgets.trace.model.events import Kind
from hta_widgets.trace.opening.open import open_trace
from tests.kineto_text import call, host, kernel, write


@pytest.fixture
def panel(loaded: Job) -> TimelinePanel:
    panel = TimelinePanel(loaded)
    yield panel
    with panel.selection.hold():
        for field in ("ranks", "steps"):
            setattr(panel.selection, field, [])
        panel.selection.window_ns = None
    panel.close()


def ask(panel: TimelinePanel, **request: Any) -> tuple[dict, list[bytes]]:
    """What a browser sends, and what it gets, with its buffers unpacked."""
    sent: list[tuple[dict, list[bytes]]] = []
    panel.send = lambda content, buffers=None: sent.append((content, buffers or []))
    message = {"method": "custom", "content": request}
    panel._handle_msg({"content": {"data": message}, "buffers": []})
    del panel.send
    [(content, buffers)] = sent
    if "sizes" in content:
        whole = BytesIO(gzip.decompress(buffers[0]))
        buffers = [whole.read(size) for size in content["sizes"]]
        assert not whole.read()
    return content, buffers


def test_the_first_message_holds_all_ranks_and_steps(panel):
    layout = panel.get_state()["_timeline"]
    names = [*CLASSES, *(f"path {name}" for name in PATH_CLASSES)]
    assert [each["name"] for each in layout["classes"]] == names
    assert [row["rank"] for row in layout["ranks"]] == [0, 1, 2, 3]
    for row in layout["ranks"]:
        starts = [start for _, start, _ in row["steps"]]
        ends = [end for *_, end in row["steps"]]
        assert [number for number, *_ in row["steps"]] == [10, 11]
        assert starts[1:] == ends[:-1]
        assert 0 <= row["waiting"] < 1
    waiting = [row["waiting"] for row in layout["ranks"]]
    assert min(waiting) == waiting[3]


def test_the_overview_is_the_coverage_of_its_bins(panel):
    layout, content = panel._timeline, panel._overview
    start, end = layout["home"]
    bins = layout["bins"]
    edges = (start + np.arange(2_001) * (end - start) // 2_000)[:: 2_000 // bins]
    assert bins == 1_000
    for row in layout["ranks"]:
        [found] = panel.result.lanes.window(
            [LaneAsked(row["rank"], "rank")], start, end, bins, most_events=0
        )
        exact = dict(zip(found.codes, found.covered_ns, strict=True))
        assert {plane["code"] for plane in row["planes"]} == set(exact)
        for plane in row["planes"]:
            sent = np.frombuffer(content, np.uint8, bins, plane["at"]) / 255
            share = exact[plane["code"]] / np.diff(edges)
            assert np.abs(sent - share).max() <= 1 / 255
            assert np.array_equal(sent == 0, share == 0)
            assert np.array_equal(sent == 1, share == 1)


@given(st.lists(st.tuples(st.integers(0, 255), st.integers(1, 600)), max_size=9))
def test_runs_are_the_bytes_again_and_never_longer(drawn):
    content = b"".join(bytes([value]) * count for value, count in drawn)
    sent = in_runs(content)
    assert len(sent) <= len(content)
    if len(sent) < len(content):
        values, less_one = sent[: len(sent) // 2], sent[len(sent) // 2 :]
        runs = zip(values, less_one, strict=True)
        assert b"".join(bytes([value]) * (count + 1) for value, count in runs) == content
    else:
        assert sent == content


def test_the_overview_travels_in_runs(panel):
    sent = panel.get_state("_overview")["_overview"]
    assert len(sent) < len(panel._overview) / 2
    assert sent == in_runs(panel._overview)


def assert_bands_are_those_of_all_ranks(panel: TimelinePanel, first: int) -> None:
    layout, bins = panel._timeline, panel._timeline["band_bins"]
    overviews = panel.result.overviews.values()
    ends = [each["at"] + 3 * bins for each in layout["bands"]]
    assert [each["at"] for each in layout["bands"]] == [first, *ends[:-1]]
    assert ends[-1] == len(panel._overview) < 80_000
    start, end = layout["home"]
    width = (end - start) / bins
    occurring = [
        code
        for code in OVERVIEW_CLASSES
        if sum(row_of(each, code).sum() for each in overviews)
        > 0.001 * len(overviews) * (end - start)
    ]
    assert [each["code"] for each in layout["bands"]] == occurring
    for band in layout["bands"]:
        shares = [
            row_of(each, band["code"]).reshape(bins, -1).sum(axis=1) / width for each in overviews
        ]
        sent = np.frombuffer(panel._overview, np.uint8, 3 * bins, band["at"]).reshape(3, bins) / 255
        for statistic, plane in zip((np.min, np.median, np.max), sent, strict=True):
            assert np.abs(plane - statistic(shares, axis=0)).max() <= 1.01 / 255


def row_of(overview: RankOverview, code: int) -> np.ndarray:
    return overview.covered_ns[OVERVIEW_CLASSES.index(code)]


@pytest.fixture(scope="module")
def many(tmp_path_factory) -> TimelinePanel:
    folder = tmp_path_factory.mktemp("many")
    write_sample(folder, ranks=48, steps=1, progress=False)
    panel = TimelinePanel(open_trace(folder, progress=False))
    yield panel
    panel.close()


def test_that_of_many_ranks_stays_small(many):
    assert len(many._timeline["ranks"]) == 48
    last = many._timeline["ranks"][-1]["planes"][-1]
    of_ranks = last["at"] + many._timeline["bins"]
    assert 0.8 * MOST_BYTES < of_ranks <= MOST_BYTES
    assert_bands_are_those_of_all_ranks(many, of_ranks)
    picture = timeline_picture(many.result)
    assert 0 < len(picture.encode()) <= PICTURE_BYTES
    assert f"rank {MOST_LANES - 1}<" in picture


def test_the_picture_of_thousands_of_steps_counts_them(tmp_path):
    """Boxes of each of 20,000 time steps took all of its bytes, and there was no picture."""
    events = [
        event
        for number in range(5000)
        for event in (
            host(10 * number, 9, f"step {number}", cat="user_annotation"),
            call(10 * number + 1, 1, number + 1),
            kernel(10 * number + 3, 5, correlation=number + 1),
        )
    ]
    panel = TimelinePanel(open_trace(write(tmp_path / "trace.json", events), progress=False))
    picture = timeline_picture(panel.result)
    assert ">4,999 steps<" in picture
    assert "step 17" not in picture
    assert len(picture.encode()) < 10_000
    panel.close()


def test_bands_of_a_window_are_those_of_all_ranks(many):
    layout, lanes = many._timeline, many.result.lanes
    first, last = layout["home"]
    start, end = first + (last - first) // 3, first + 2 * (last - first) // 3
    ranks = [*many.job.ranks]
    content, [planes] = ask(many, kind="bands", id=1, ranks=ranks, start=start, end=end, pixels=150)
    assert [band["code"] for band in content["bands"]] == [*OVERVIEW_CLASSES]
    exact = lanes.window([LaneAsked(r, "rank") for r in ranks], start, end, 150, most_events=0)
    width = np.diff(pixel_edges(start, end, content["bins"]))
    occurring = 0
    for band in content["bands"]:
        sent = np.frombuffer(planes, np.uint8, 3 * 150, band["at"]).reshape(3, 150) / 255
        of_ranks = [
            each.covered_ns[each.codes.index(band["code"])] / width
            if band["code"] in each.codes
            else np.zeros(150)
            for each in exact
        ]
        occurring += bool(np.any(of_ranks))
        for statistic, plane in zip((np.min, np.median, np.max), sent, strict=True):
            assert np.abs(plane - statistic(of_ranks, axis=0)).max() <= 1 / 255
    assert occurring > 3


def test_bands_have_no_more_pixels_than_their_ranks_have_time_for(many):
    most = many._timeline["band_pixels"]
    assert most == most_band_pixels(48) == 1_365
    request = {"kind": "bands", "id": 1, "ranks": [], "start": 0, "end": 10**9, "pixels": 10**6}
    content, _ = ask(many, **request)
    assert content["bins"] == most
    big = Job(many.job.sources, name="big", hold_at_most=2)
    panel = TimelinePanel(big)
    assert panel._timeline["band_pixels"] == 0
    refused, _ = ask(panel, **request)
    assert refused["error"].startswith("48 ranks are too many")
    panel.close()


def test_a_window_is_answered_as_bytes(panel):
    lanes = [[0, "rank", 0], [9, "rank", 0], [0, "stream 0 7", 0]]
    start, end = panel._timeline["home"]
    with pytest.raises(KeyError):
        _ = panel._timeline["lanes"]
    content, buffers = ask(
        panel, kind="window", id=7, lanes=[lanes[0], lanes[2]], start=start, end=end, pixels=300
    )
    assert (content["kind"], content["id"], content["bins"]) == ("window", 7, 300)
    planes, starts, durations, rows, codes, names, curves = buffers
    assert curves == b""
    exact = panel.result.lanes.window(
        [LaneAsked(0, "rank"), LaneAsked(0, "stream 0 7")], start, end, 300, most_events=1_500
    )
    width = np.diff(pixel_edges(start, end, 300))
    for lane, expected in zip(content["lanes"], exact, strict=True):
        span = slice(lane["first"], lane["first"] + lane["count"])
        assert np.array_equal(np.cumsum(np.frombuffer(starts))[span] + start, expected.start_ns)
        assert np.array_equal(np.frombuffer(durations)[span], expected.duration_ns)
        assert np.array_equal(np.cumsum(np.frombuffer(rows, np.int32))[span], expected.row)
        assert np.array_equal(np.frombuffer(codes, np.uint8)[span], expected.code)
        assert [plane["code"] for plane in lane["planes"]] == [*expected.codes]
        for plane, covered in zip(lane["planes"], expected.covered_ns, strict=True):
            sent = np.frombuffer(planes, np.uint8, 300, plane["at"])
            assert np.abs(sent / 255 - covered / width).max() <= 1 / 255
        events = panel.job.rank(0).trace.events
        for row, name in zip(
            expected.row, np.frombuffer(names, np.int32)[span].tolist(), strict=True
        ):
            told = "" if name < 0 else content["names"][name]
            assert told == ("" if row < 0 else events.names_at(np.array([row]))[0])


def test_what_is_looked_for_has_a_plane_of_its_own(panel):
    start, end = panel._timeline["home"]
    request = {"kind": "window", "id": 1, "start": start, "end": end, "pixels": 100}
    lanes = [[0, "rank", 0], [0, "stream 0 7", 0], [0, "stream 0 20", 0]]
    content, buffers = ask(panel, **request, lanes=lanes, find="NCCL", whole=False)
    found = [
        np.frombuffer(buffers[0], np.uint8, 100, lane["found"]).any() for lane in content["lanes"]
    ]
    assert found == [True, False, True]
    whole, _ = ask(panel, **request, lanes=lanes, find="NCCL", whole=True)
    assert whole["lanes"][0]["found"] is not None
    nothing, _ = ask(panel, **request, lanes=lanes)
    assert [lane["found"] for lane in nothing["lanes"]] == [None] * 3


def test_lanes_and_events_are_told(panel):
    content, _ = ask(panel, kind="lanes", id=2, rank=1)
    kinds = [lane["kind"] for lane in content["lanes"]]
    assert kinds[:2] == ["rank", "phases"]
    assert {"stream", "thread"} <= set(kinds)
    work = panel.job.rank(1).gpu_work
    row = int(work.rows[np.flatnonzero(work.launch >= 0)[3]])
    event, _ = ask(panel, kind="event", id=3, rank=1, row=row)
    assert event["launch"]["name"].startswith("cuda")
    back, _ = ask(panel, kind="event", id=4, rank=1, row=event["launch"]["row"])
    assert row in [each["row"] for each in back["launched"]]


def test_an_event_says_what_a_click_on_it_selects(panel):
    rank = panel.job.rank(0)
    events, paths = rank.trace.events, module_paths(rank)
    names = events.name.values
    for row in (int(events.rows_of(Kind.CPU_OP)[5]), int(events.rows_of(Kind.RUNTIME)[5])):
        facts, _ = ask(panel, kind="event", id=1, rank=0, row=row)
        name = names[events.name.codes[row]]
        is_operator = events.kind[row] == Kind.CPU_OP
        assert facts["pick"] == ({"field": "operators", "item": name} if is_operator else None)
    kernel = int(rank.gpu_work.rows[0])
    facts, _ = ask(panel, kind="event", id=1, rank=0, row=kernel)
    assert facts["pick"] == {"field": "kernel", "item": names[events.name.codes[kernel]]}
    frames = [
        row
        for row in events.rows_of(Kind.PYTHON).tolist()
        if "nn.Module" in names[events.name.codes[row]]
    ]
    for row in frames[:40:3]:
        facts, _ = ask(panel, kind="event", id=1, rank=0, row=row)
        assert facts["pick"]["field"] == "modules"
        assert facts["pick"]["item"] in paths.paths
        own = names[events.name.codes[row]].removeprefix("nn.Module: ")
        assert facts["pick"]["item"].split(" › ")[-1] == own
    assert len(frames) > 3


def test_next_and_previous_are_events_of_the_same_name(panel):
    work = panel.job.rank(0).gpu_work
    [name, count] = np.unique(work.name, return_counts=True)
    rows = work.rows[work.name == name[count.argmax()]]
    stream = int(work.stream[work.name == name[count.argmax()]][0])
    where = {"rank": 0, "key": f"stream 0 {stream}"}
    same = [int(row) for row in rows if panel.job.rank(0).trace.events.stream[row] == stream]
    after, _ = ask(panel, kind="next", id=1, **where, row=same[0], forward=True)
    assert after["event"]["row"] == same[1]
    before, _ = ask(panel, kind="next", id=2, **where, row=same[1], forward=False)
    assert before["event"]["row"] == same[0]
    end, _ = ask(panel, kind="next", id=3, **where, row=same[0], forward=False)
    assert end == {"kind": "none", "id": 3}


def test_the_first_event_of_a_lane_is_found_whatever_is_drawn(panel):
    rank = panel.job.rank(1)
    work, events = rank.gpu_work, rank.trace.events
    rows = np.sort(work.rows[work.stream == 7])
    start = events.start_ns[rows] + panel.result.lanes.offsets_ns[1]
    where = {"kind": "first", "rank": 1, "key": "stream 1 7"}
    middle = int(start[10])
    for time, forward, row in (
        (middle, True, rows[10]),
        (middle + 1, True, rows[10]),
        (middle, False, rows[9]),
        (0, True, rows[0]),
        (int(start[-1]) + 1, False, rows[-1]),
    ):
        found, _ = ask(panel, id=1, **where, time=time, forward=forward)
        assert (found["kind"], found["event"]["row"]) == ("event", row)
        assert found["event"]["key"] == "stream 1 7"
    for lane in ({"time": 0, "forward": False}, {"key": "phases", "time": 0, "forward": True}):
        assert ask(panel, id=2, **{**where, **lane})[0] == {"kind": "none", "id": 2}


WINDOW = {"kind": "window", "lanes": [[0, "rank", 0]], "start": 0, "end": 100, "pixels": 10}


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ({}, "a request must be one of window, bands, lanes, added, kinds, event, first, next"),
        ({"kind": ["window"]}, "a request must be one of"),
        ({**WINDOW, "lanes": 3}, "lanes must be at most"),
        ({**WINDOW, "lanes": [[0, "rank"]]}, "lanes must be at most"),
        ({**WINDOW, "lanes": [["0", "rank", 0]]}, "lanes must be at most"),
        ({**WINDOW, "lanes": [[0, "rank", 2**60]]}, "lanes must be at most"),
        ({**WINDOW, "lanes": [[0, "rank", 0]] * 1_000}, "lanes must be at most"),
        ({**WINDOW, "lanes": [[99, "rank", 0]]}, "rank 99 is not in this job"),
        ({**WINDOW, "start": 100}, "start < end"),
        ({**WINDOW, "start": "0"}, "start must be a whole number"),
        ({**WINDOW, "end": 1e9}, "end must be a whole number"),
        ({**WINDOW, "end": 10**30}, "end must be a whole number"),
        ({**WINDOW, "pixels": 0}, "at least one pixel"),
        ({**WINDOW, "pixels": True}, "pixels must be a whole number"),
        ({**WINDOW, "find": 3}, "find must be a text"),
        ({"kind": "bands", "ranks": 3}, "ranks must be whole numbers"),
        ({"kind": "bands", "ranks": [True]}, "ranks must be whole numbers"),
        ({**WINDOW, "kind": "bands", "ranks": [99]}, "rank 99 is not in this job"),
        ({**WINDOW, "kind": "bands", "ranks": [0], "end": 0}, "bands need start < end"),
        ({"kind": "lanes", "rank": None}, "rank must be a whole number"),
        ({"kind": "event", "rank": 0, "row": -1}, "row must be that of one of"),
        ({"kind": "event", "rank": 0, "row": 10**9}, "row must be that of one of"),
        ({"kind": "next", "rank": 0, "row": 0, "key": "x", "forward": True}, "has no lane 'x'"),
        ({"kind": "next", "rank": 0, "row": 0, "key": 3, "forward": True}, "key must be a text"),
        ({"kind": "first", "rank": 0, "time": 0, "key": "x", "forward": True}, "has no lane 'x'"),
        ({"kind": "first", "rank": 0, "time": 0, "key": "rank", "forward": 1}, "forward true or"),
        ({"kind": "first", "rank": 0, "time": 0.5, "key": "x", "forward": True}, "time must be"),
        ({"kind": "added", "rank": 0, "lanes": ["watts"]}, "lanes must be among path, modules"),
        ({"kind": "added", "rank": 0, "lanes": [["queue"]]}, "lanes must be among path, modules"),
        ({"kind": "added", "rank": 0}, "lanes must be among path, modules"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(panel, request_, words):
    content, buffers = ask(panel, id=5, **request_)
    assert content["kind"] == "refused"
    assert words in content["error"]
    assert len(content["error"]) <= 300
    assert (content["id"], buffers) == (5, [])


def test_nor_do_other_messages_harm(panel):
    for content in ("text", 7, None, [], {"id": {"a": 1}, "kind": "lanes", "rank": 0}):
        panel._handle_msg({"content": {"data": {"method": "custom", "content": content}}})
    assert panel._view["error"] is None


def test_a_job_that_cannot_be_read_any_more_is_told(panel, monkeypatch):
    def fail(*_):
        msg = "the disk is gone"
        raise OSError(msg)

    monkeypatch.setattr(panel, "analyse", fail)
    panel._computed = None
    content, _ = ask(panel, **WINDOW, id=1)
    assert content == {"kind": "refused", "id": 1, "error": "OSError: the disk is gone"}


def test_huge_windows_have_few_pixels_and_events(panel):
    content, buffers = ask(panel, **{**WINDOW, "end": 2**50, "pixels": 2**40, "id": 1})
    assert content["bins"] <= 16_384
    assert len(buffers[1]) <= 8 * 1_500


def test_its_table_is_the_budget_of_each_rank(panel):
    table = panel.table
    classes = [f"{name}_ns" for name in BUDGET_CLASSES if f"{name}_ns" in table]
    assert table["rank"].tolist() == [0, 1, 2, 3]
    assert (table[classes].sum(axis=1) == table["period_ns"]).all()


def test_selecting_ranks_dims_the_others_and_computes_nothing(panel):
    result, layout = panel.result, panel._timeline
    panel.selection.ranks = [1]
    assert panel.result is result
    assert panel._timeline is layout
    alone = TimelinePanel(panel.job, ranks=[1])
    assert [row["rank"] for row in alone._timeline["ranks"]] == [1]
    alone.close()


def test_the_button_writes_the_selected_window(panel, tmp_path):
    panel.selection.ranks = [1]
    panel.selection.window_ns = (1_000_000, 2_000_000)
    [file] = panel.write_excerpt(tmp_path)
    assert file.name == "rank-1_1000-2000us.json.gz"
    panel.selection.window_ns = None
    panel.selection.steps = (11,)
    steps = panel.result.steps
    chosen = steps[steps["step"] == 11]
    assert panel._window() == (chosen["start_ns"].min(), chosen["end_ns"].max())
    panel.selection.steps = ()
    assert panel._window() == tuple(panel._timeline["home"])


def picture_of(page: str) -> ET.Element:
    [address] = re.findall(r'src="data:image/svg\+xml,([^"]+)"', page)
    return ET.fromstring(unquote(address))  # noqa: S314


def test_a_page_without_a_kernel_has_finding_lanes_and_rows(panel):
    page = panel._repr_mimebundle_()[0]["text/html"]
    assert escape(panel.result.finding) in page
    assert "<table>" in page
    text = "".join(picture_of(page).itertext())
    for words in ("rank 0", "rank 3", "step 10", "step 11", "compute", "waiting"):
        assert words in text
    assert panel.summary(3_000).count("<img") == 0


def test_the_picture_fills_as_much_as_is_covered(panel):
    picture = picture_of(panel.summary())
    looks = {each["color"]: code for code, each in enumerate(class_looks()[:1])}
    area = 0.0
    for path in picture.iter():
        if looks.get(path.get("fill", "")) == CODE["compute"]:
            for width, height in re.findall(r"h([\d.]+)v([\d.]+)", path.get("d")):
                area += float(width) * float(height)
    start, end = panel._timeline["home"]
    shown = (760 - 64) * 16 * panel.table["compute_ns"].sum() / (end - start)
    assert area == pytest.approx(shown, rel=0.06)


def test_hostile_names_stay_text(tmp_path):
    name = "<img src=x onerror=alert(1)>"
    events = [host(0, 100, name), call(10, 5, 1), kernel(70, 10, name=name, correlation=1)]
    panel = TimelinePanel(write(tmp_path / "trace.json", events))
    assert name not in panel.summary()
    content, _ = ask(panel, **{**WINDOW, "lanes": [[0, "stream 0 7", 0]], "end": 100_000, "id": 1})
    assert content["names"] == [name]
    panel.close()


def test_no_gpu_work_is_said(tmp_path):
    panel = TimelinePanel(write(tmp_path / "trace.json", [host(0, 10, "aten::mm")]))
    assert panel._view["empty"] == "No GPU work was recorded on the selected ranks."
    assert "<img" not in panel.summary()
    panel.close()


# Added lanes


def test_added_lanes_are_told_and_answered(panel):
    content, _ = ask(panel, kind="added", id=1, rank=0, lanes=["memory", "queue"])
    curves = [lane for lane in content["lanes"] if lane["key"].startswith("queue ")]
    assert all(lane["kind"] == "curve" and lane["unit"] == "operations" for lane in curves)
    start, end = panel._timeline["span"]
    lanes = [[0, "rank", 0], *([0, lane["key"], 0] for lane in curves)]
    window, buffers = ask(panel, kind="window", id=2, lanes=lanes, start=start, end=end, pixels=50)
    extremes = np.frombuffer(buffers[-1], np.float32)
    assert extremes.size == 2 * 50 * len(curves)
    assert window["lanes"][0]["curves"] == []
    for lane, told in zip(curves, window["lanes"][1:], strict=True):
        [at] = told["curves"]
        least, most = extremes[at:][:50], extremes[at + 50 :][:50]
        assert (np.nanmax(most),) == lane["most"]
        assert np.all((least <= most) | np.isnan(least))


def test_the_critical_path_is_a_lane_of_the_ranks_that_it_runs_through(panel):
    pieces = critical_path(panel.job).pieces
    through = {*pieces["rank"].tolist()}
    start, end = panel._timeline["span"]
    where = {"start": start, "end": end, "pixels": 50}
    for rank in panel.job.ranks:
        content, _ = ask(panel, kind="added", id=1, rank=rank, lanes=["path"])
        assert [lane["kind"] for lane in content["lanes"]] == ["path"] * (rank in through)
        if rank not in through:
            ranks = ", ".join(map(str, sorted(through)))
            assert content["none"][0].split(" runs through rank")[1].lstrip("s ") == ranks
            continue
        [lane] = content["lanes"]
        window, _ = ask(panel, kind="window", id=2, lanes=[[rank, lane["key"], 0]], **where)
        of_rank = pieces[pieces["rank"] == rank]
        looks = panel._timeline["classes"]
        drawn = {looks[plane["code"]]["label"] for plane in window["lanes"][0]["planes"]}
        assert drawn == {*of_rank["class"]}
        first, _ = ask(panel, kind="first", id=3, rank=rank, key=lane["key"], time=0, forward=True)
        assert first["event"]["start"] == of_rank["start_ns"].min()


def test_classes_of_the_path_have_the_colours_of_the_budget():
    looks = {look["label"]: look for look in class_looks()[len(CLASSES) :]}
    assert [*looks] == [*PATH_CLASSES]
    expected = {
        "host": "late_launching",
        "loading": "data_loading",
        "compute": "compute",
        "transfer": "transfer",
        "room on the GPU": "other_idle",
        "unexplained": "other_idle",
    }
    assert {label: looks[label]["color"] for label in expected} == {
        label: CLASS_COLORS[name] for label, name in expected.items()
    }
    assert all(look["fill"] != "outline" for look in looks.values())


def test_kinds_of_lanes_say_why_there_are_none(panel):
    content, _ = ask(panel, kind="kinds", id=3)
    assert [each["name"] for each in content["kinds"]] == ["path", *LANE_KINDS]
    found = {each["name"]: each["why_none"] for each in content["kinds"]}
    assert (found["path"], found["queue"], found["modules"]) == ("", "", "")
    missing, _ = ask(
        panel, kind="added", id=4, rank=0, lanes=[k for k, why in found.items() if why]
    )
    assert missing["lanes"] == []
    assert missing["none"] == [why for why in found.values() if why]


def test_the_lanes_of_a_panel_are_checked_and_reproduced(panel):
    panel.lanes = ["memory", "queue", "queue"]
    assert panel.lanes == ("queue", "memory")
    assert "lanes=('queue', 'memory')" in panel.code()
    with pytest.raises(TraitError, match=r"lanes must be among path, modules, .* got 'watts'"):
        panel.lanes = ["watts"]
    [first, *_] = panel.report_state()["_recorded"]
    assert first["lanes"][0]["key"].startswith("queue ")
    assert first["windows"][0]["key"] == first["lanes"][0]["key"]
