"""A dashboard with a second job or a baseline: what changed, and how one is picked."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import replace
from html import unescape
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pandas as pd
import pytest

from hta_widgets import diagnose, open_trace
from hta_widgets.diagnosis.change.baseline import write_baseline
from hta_widgets.diagnosis.change.explain_change import explain_change
from hta_widgets.diagnosis.change.one_step import one_step
from hta_widgets.diagnosis.change.summary import summary
from hta_widgets.diagnosis.change.waterfall import LEVELS
from hta_widgets.figures.svg.frame import WIDTH
from hta_widgets.figures.timeline_picture import steps_picture
from hta_widgets.panels import Dashboard
from hta_widgets.panels.bands import second_job
from hta_widgets.panels.bands.change_panel import WATERFALL
from hta_widgets.panels.bands.second_job import offers
from hta_widgets.panels.dashboard import OF_TWO_JOBS
from hta_widgets.trace.job import Job
from tests.kineto_text import kernel, write
from tests.recorded_folders import cycles, write_folder
from tests.simulator import write_job
from tests.simulator.causes import healthy_plan
from tests.simulator.plan import Throttling
from tests.simulator.simulation import write_plan

PICKER = "second_job"


@pytest.fixture(scope="module")
def later(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("later")
    write_job(folder, "input_starvation", ranks=2, steps=3)
    return folder


@pytest.fixture
def runs(tmp_path) -> Path:
    """Two runs beside each other, and what is no run."""
    for name in ("one", "two"):
        write_folder(tmp_path / name, cycles(2, 2 if name == "one" else 1))
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "read.me").write_text("")
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "rank-0.json").write_text("{}")
    return tmp_path


def compared(board: Dashboard) -> list[str]:
    tabs = [each for each in board._spec["tabs"] if each["name"] == "compare"]
    return [board._spec["names"][place - 1] for tab in tabs for place in tab["panels"]]


def ask(board: Dashboard, asked: str, value: object = None, *buffers: bytes) -> list[dict]:
    """Send what a page sends, and return the answers."""
    panel, sent = board.panels[PICKER], []
    panel.send = sent.append
    panel._handle_custom_msg({"second": asked, "value": value}, [*map(memoryview, buffers)])
    return sent


def test_without_a_second_job_the_tab_offers_to_pick_one(loaded: Job):
    board = Dashboard(loaded, tab="compare")
    assert (compared(board), board.panel) == ([PICKER], PICKER)
    assert board.panels[PICKER].summary()


def test_every_cause_says_what_became_of_it(loaded: Job, later: Path):
    board = Dashboard(loaded, compare=later, tab="compare")
    assert compared(board) == [*OF_TWO_JOBS, PICKER]
    panel = board.panels["change"]
    found = explain_change(loaded, board.compare)
    assert panel.result.finding == found.finding
    assert panel._view["findings_title"] == found.causes_title
    rows = panel._view["findings"]
    assert [row["price"] == "gone" for row in rows] == [
        each.outcome == "gone" for each in found.causes
    ]
    for row, each in zip(rows, found.causes, strict=True):
        assert row["sentence"].lower().startswith(each.became.lower())
        assert bool(row["advice"]) == (each.outcome != "gone")  # which needs none
        causes = [finding.cause for finding in board.findings]
        is_of_second = each.cause not in causes
        if is_of_second:
            causes = [finding.cause for finding in diagnose(board.compare)]
        assert row["show"]["finding"] == causes.index(each.cause)
        assert row["of_second"] == is_of_second
    names = [bar.name for bar in panel.figures["Where a step goes, before and after"].data]
    assert {*names} == {*board.table["class"]}
    assert board.panels["compare"].result.first == loaded.name


@pytest.mark.parametrize("is_gone", [False, True])
def test_the_steps_of_the_rank_with_the_cause_are_shown(tmp_path, is_gone):
    """Rank 1 is slow in one of the jobs; a rank that is selected counts more."""
    jobs = []
    for name, planted in (("healthy", ()), ("slow", (1,))):
        (tmp_path / name).mkdir()
        plan = healthy_plan(ranks=2, steps=6, seed=len(planted))
        if planted:
            plan = replace(plan, throttling=Throttling(planted, 0, 1.5))
        write_plan(plan, {rank: tmp_path / name / f"rank-{rank}.json" for rank in range(2)})
        jobs.append(open_trace(tmp_path / name, progress=False))
    first, second = jobs[:: -1 if is_gone else 1]
    panel = Dashboard(first, compare=second).panels["change"]
    assert panel.result.main_cause.words.startswith("slow_gpu on rank 1: ")
    assert [each.rank for each in panel.steps] == [1, 1]
    assert {row["of_second"] for row in panel._view["findings"]} == {not is_gone}
    panel.selection.ranks = [0]
    assert [each.rank for each in panel.steps] == [0, 0]


def test_the_other_one_may_be_the_earlier(loaded: Job, later: Path):
    panel = Dashboard(loaded, compare=later).panels["change"]
    delta = panel.result.delta_ns
    panel.reverse = True
    assert panel.result.delta_ns == -delta != 0


def bars_of(panel):
    """Begin and length of the visible bars, and the paths of all rows."""
    row, bar = panel.figures[WATERFALL].data
    return np.array(bar.base), np.array(bar.x), [tuple(each[0]) for each in row.customdata]


def test_a_row_opens_what_it_is_the_sum_of(loaded: Job, later: Path):
    board = Dashboard(loaded, compare=later)
    panel = board.panels["change"]
    table = panel.result.waterfall
    for _ in LEVELS:
        base, length, paths = bars_of(panel)
        opened = panel.opened[: len(LEVELS) - 1]  # one of the lowest level is among those beside it
        above = sum(path == opened[: len(path)] for path in paths)
        delta = table
        for name, text in zip(LEVELS, panel.opened[: len(paths[above - 1])], strict=False):
            delta = delta[delta[name] == text]
        whole_ns = delta["delta_ns"].sum()
        assert panel.table["delta_ns"].sum() == whole_ns
        assert length[above:].sum() == pytest.approx(length[above - 1])
        assert base[above:] == pytest.approx(np.cumsum([0, *length[above:-1]]))
        deeper = [path for path in paths if len(path) > len(panel.opened)]
        if not deeper:
            break
        panel.opened = deeper[0]
    assert panel.opened[0] in {*table["class"]}


def test_what_is_opened_is_selected(loaded: Job, later: Path):
    board = Dashboard(loaded, compare=later)
    panel = board.panels["change"]
    own = panel.result.waterfall
    row = own[(own["first_ns"] > 0) & (own["part"] == "compute") & (own["operator"] != "")].iloc[0]
    panel.opened = tuple(row[[*LEVELS]])
    assert board.selection.operators == (row["operator"],)
    assert board.selection.kernel
    panel.opened = ("compute",)
    assert (board.selection.operators, board.selection.kernel) == ((), "")
    panel.opened = ("compute", "nothing like it")
    assert {*panel.table} >= {"delta_ns"}
    panel.opened = ()


def test_what_only_the_second_has_is_seen_in_its_step(loaded: Job, later: Path):
    board = Dashboard(loaded, compare=later)
    panel = board.panels["change"]
    table = panel.result.waterfall
    new = table[(table["first_ns"] == 0) & (table["part"] == "compute") & (table["kernel"] != "")]
    steps = [len(each.seen) for each in panel.steps]
    assert steps == [0, 0]
    panel.opened = tuple(new.iloc[0][[*LEVELS]])
    first, second = panel.steps
    assert (len(first.seen), len(second.seen) > 0) == (0, True)
    assert (first.job, second.job) == (loaded.name, later.name)
    panel.compute_all()
    said = [each["said"] for each in panel._stacked]
    assert said[0].startswith("0 ns in 0 pieces: ")
    assert said[1].partition(": ")[2] == said[0].partition(": ")[2]
    assert [each["second"] for each in panel._stacked] == [False, True]
    board.selection.steps = (int(board.findings.steps["step"].max()),)
    assert panel.steps[0].step == board.selection.steps[0]
    panel.reverse = True
    assert [each.job for each in panel.steps] == [later.name, loaded.name]


def test_a_page_without_a_kernel_has_the_verdict_and_a_step_of_both(loaded: Job, later: Path):
    board = Dashboard(loaded, compare=later)
    panel = board.panels["change"]
    html = unquote(unescape(panel.summary()))
    assert panel.result.causes
    assert html.count(panel.result.finding) == 1
    picture = html[html.index("Chart: A step of each job") :].partition("<p>")[0]
    assert html.index(panel.result.finding) < html.index(picture) < html.index("Where a step goes")
    assert picture.count(", rank 0, step ") == 2
    assert "pieces" not in picture
    panel.opened = ("compute",)
    picture = unquote(panel.summary())
    assert picture.count(": compute</text>") == 2
    assert len(panel.summary(2_000).encode()) <= 2_000


def test_steps_of_two_jobs_are_drawn_on_one_axis(loaded: Job):
    step = one_step(loaded)
    half = step._replace(length_ns=step.length_ns // 2, job="half")
    times = {"start_ns": [0, half.length_ns // 2], "end_ns": [1, half.length_ns]}
    half = half._replace(seen=pd.DataFrame(times))
    picture = steps_picture([(step, ""), (half, "seen here")])
    assert f"{loaded.name}, rank 0, step {step.step}: " in picture
    assert "half, rank 0" in picture
    assert " · seen here</text>" in picture
    lit = re.findall(r'<path d="([^"]*)"/>', picture)[-1]  # those of the lanes have a colour
    (one, first), (other, last) = re.findall(r"M([\d.]+) [\d.]+h([\d.]+)v4", lit)
    assert (one, first) == ("0", "1")
    assert float(other) == pytest.approx(WIDTH / 4, abs=1)
    assert float(other) + float(last) == pytest.approx(WIDTH / 2, abs=1)
    assert steps_picture([]) == ""


def test_a_second_job_can_be_given_and_taken_away(loaded: Job, later: Path, tmp_path):
    board = Dashboard(loaded, output_dir=tmp_path)
    board.tab = "kernels"
    board.compare = str(later)
    assert board.tab == "compare"
    made = [board.panels[name] for name in OF_TWO_JOBS]
    assert compared(board) == [*OF_TWO_JOBS, PICKER]
    assert board.panels[PICKER]._second == later.name
    assert [each.output_dir for each in made] == [tmp_path] * 2
    assert board.get_state()["_panels"][-2:] == [f"anywidget:{each.model_id}" for each in made]
    board.compare = None
    assert (compared(board), board.panel) == ([PICKER], PICKER)
    assert [each.comm for each in made] == [None, None]
    assert len(board._panels) == 1 + len(board.panels)


def test_a_baseline_is_compared_as_the_earlier_one(loaded: Job, later: Path, tmp_path):
    other = open_trace(later, progress=False)
    write_baseline(summary(other), tmp_path / "main.arrow")
    board = Dashboard(loaded, compare=tmp_path / "main.arrow")
    assert compared(board) == ["change", PICKER]
    result = board.panels["change"].result
    assert (result.first.name, result.second.name) == (later.name, loaded.name)
    assert board.panels["change"].code()
    assert [each.job for each in board.panels["change"].steps] == [loaded.name]
    board.panels["change"].to_html(tmp_path / "report.html")


def test_what_lies_beside_is_offered_and_nothing_is_read(runs: Path, monkeypatch):
    job = open_trace(runs / "one", progress=False)
    monkeypatch.setattr(second_job, "open_trace", pytest.fail)
    found = [(each.label, each.detail.partition(",")[0]) for each in offers(job)]
    assert [label.partition(" (")[0] for label, _ in found] == ["cycle 0", "two"]
    assert [detail for _, detail in found] == ["cycle of the same run", "folder"]
    single = open_trace(next((runs / "two").iterdir()), progress=False)
    assert {"one"} < {each.label for each in offers(single)}


def test_what_is_named_like_the_job_is_offered_first(runs: Path):
    for at, name in enumerate(("one_fixed", "two_later", "other")):
        shutil.copytree(runs / "two", runs / name)
        os.utime(runs / name, (at, at))
    job = open_trace(runs / "one", progress=False)
    labels = [each.label for each in offers(job) if each.detail.startswith("folder")]
    assert labels.index("one_fixed") < labels.index("other") < labels.index("two_later")


def test_captures_of_graphs_are_not_offered(tmp_path: Path):
    """They belong to the job that replays them."""
    for name in ("serving/run.json", "serving/capture_traces/rank-0.json", "later/run.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        write(tmp_path / name, [kernel(0, 10)])
    job = open_trace(tmp_path / "serving", progress=False)
    assert "later" in (labels := {each.label for each in offers(job)})
    assert "capture_traces" not in labels


def test_a_part_of_a_trace_is_not_offered(real_traces):
    job = open_trace(real_traces / "converted" / "h100_bert" / "nsys_recipe", progress=False)
    assert {each.label for each in offers(job)} == {"nsys_sqlite"}


def test_json_that_is_no_trace_is_not_offered(tmp_path: Path):
    """Results that lay next to an export were offered, and to open them failed."""
    folder = tmp_path / "runs"  # next to which nothing else is
    folder.mkdir()
    for name in ("run", "run_2"):
        write(folder / f"{name}.json", [kernel(0, 10)])
    (folder / "run_expected.json").write_text('{"step_ms": 3}')
    (folder / "run_long.json").write_text(" " * second_job.SMALL + "{}")
    job = open_trace(folder / "run.json", progress=False)
    assert {"run_2.json", "run_long.json"} == {
        each.label for each in offers(job) if each.detail.startswith("file")
    }


def test_a_dashboard_does_not_begin_by_asking_for_another_job(real_traces):
    """An overlap recipe of one rank has no panel of its own."""
    board = Dashboard(real_traces / "converted" / "h100_bert" / "nsys_recipe")
    board.compute_all()
    assert (board.panel, board.tab, board.table.empty) == ("", "", True)
    assert compared(board) == [PICKER]
    board.tab = "compare"
    assert board.panel == PICKER


def test_a_page_picks_by_a_click(runs: Path):
    board = Dashboard(runs / "one")
    assert board.compare is None
    (listed,) = ask(board, "offers")
    labels = [label for label, _ in listed["offers"]]
    assert board.compare is None
    assert str(runs) not in str(listed)
    assert "two" not in str(board.panels[PICKER].get_state())
    assert ask(board, "offer", labels.index("two")) == [{"second": "picked", "error": ""}]
    assert (board.compare.name, board.panel) == ("two", "change")
    assert ask(board, "nothing") == [{"second": "picked", "error": ""}]
    assert board.compare is None


@pytest.mark.parametrize(
    ("asked", "value", "said"),
    [
        ("offer", 99, "nothing to open"),
        ("offer", "0", "nothing to open"),
        ("offer", True, "nothing to open"),
        ("path", "  ", "nothing to open"),
        ("path", 7, "nothing to open"),
        ("path", "nowhere/at/all", "nowhere"),
        ("path", "none.arrow", "there is no baseline"),
        ("file", "main.arrow", "nothing to open"),
        ("anything", None, "nothing to open"),
        (["offer"], 0, "nothing to open"),
    ],
)
def test_what_cannot_be_opened_is_said(runs: Path, asked, value, said):
    board = Dashboard(runs / "two")
    (answer,) = ask(board, asked, value)
    assert said in answer["error"]
    assert board.compare is None


def test_a_file_that_is_no_baseline_is_said(runs: Path):
    board = Dashboard(runs / "two")
    for name in ("notes.txt", "main.arrow", "../" * 50 + "main.arrow"):
        (answer,) = ask(board, "file", name, b"nothing")
        assert " baseline" in answer["error"]
        assert ".." not in answer["error"]
    write_baseline(summary(board.job), runs / "main.arrow")
    data = (runs / "main.arrow").read_bytes()
    assert ask(board, "file", "main.arrow", data) == [{"second": "picked", "error": ""}]
    assert board.panels["change"].result.verdict in ("noise", "cannot tell")
