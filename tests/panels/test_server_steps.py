"""The steps of a server by phase, and a selected phase in all panels of a dashboard."""

from __future__ import annotations

import pytest

from hta_widgets import Dashboard, diagnose, open_trace
from hta_widgets.panels import ServerStepsPanel
from tests.kineto_text import write
from tests.server_loops import DECODE, Loop, Step

SLOW = [Step(generation=16, kernel_us=3.0)] * 12
PROMPTS = Step(context=2, tokens=4096, kernel_us=200.0)
PHASES = {"decode": (0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 12, 14), "prefill": (6, 13)}


@pytest.fixture
def board(tmp_path):
    plan = [*SLOW[:6], PROMPTS, *SLOW[6:], PROMPTS, *SLOW[:2]]
    path = write(tmp_path / "rank-0.json", Loop(graphs=False, ahead=True).record(plan))
    board = Dashboard(open_trace(path, progress=False))
    yield board
    board.close()


def steps_of(board):
    return tuple(sorted({*board.panels["steps"].table["step"]}))


def test_each_phase_has_its_colour_and_its_row(board):
    panel = board.panels["server_steps"]
    (drawn,) = panel.draw(panel.result).values()
    assert {each["name"]: tuple(each["x"]) for each in drawn.data} == PHASES
    assert len({each["marker"]["color"] for each in drawn.data}) == 2
    assert panel.table["phase"].tolist() == ["decode", "prefill"]
    assert panel.table["output_tokens"].tolist() == [13 * 16, 0]
    assert panel.table["prompt_tokens"].tolist() == [0, 2 * 4096]


@pytest.mark.parametrize("phase", PHASES)
def test_a_selected_phase_counts_in_all_panels(board, phase):
    whole = board.panels["kernel_breakdown"].result.kernels["count"].sum()
    assert board.panels["server_steps"].table_selects["phase"] == "phase"
    board.selection.phase = phase
    share = board.panels["kernel_breakdown"].result.kernels["count"].sum() / whole
    assert share == len(PHASES[phase]) / 15
    assert board.panels["kernel_breakdown"]._view["time"] == f"{phase} steps"
    assert {*board.events["step"]} == {*PHASES[phase]} == {*steps_of(board)}
    assert board.panels["critical_path"].result.finding
    board.compute_all()
    assert f"{len(PHASES[phase])} {phase} steps" in board._bands["budget"]["whose"]


@pytest.mark.parametrize("phase", PHASES)
def test_the_findings_are_of_the_selected_phase(board, phase):
    found = diagnose(board.job, phase=phase)
    board.selection.phase = phase
    assert [(each.cause, each.recoverable_ms) for each in board.findings] == [
        (each.cause, each.recoverable_ms) for each in found
    ]
    assert board.findings.phase == phase
    board.compute_all()
    for row in board._bands["findings"]:  # *Show* keeps the phase, of which the place is
        assert row["show"]["phase"] == phase
    board.selection.undo()
    assert board.findings.phase == diagnose(board.job).phase == "decode"  # which prompts hold up


def test_a_window_in_steps_of_another_phase_is_said_to_be_so(board):
    table = board.panels["server_steps"].result.steps
    (prompts,) = table[table["step"] == 6].to_dict("records")
    board.selection.window_ns = (prompts["gpu_start_ns"] - 100_000, prompts["gpu_end_ns"])
    board.compute_all()
    assert board._bands["budget"]["whose"].endswith(" is in no decode step")


@pytest.mark.parametrize(("opened", "shown"), [("steps", "steps"), ("", "idle")])
def test_a_tab_that_is_chosen_stays_open_though_it_was_the_first(tmp_path, opened, shown):
    path = write(tmp_path / "rank-0.json", Loop(host_us=800).record([DECODE] * 8))
    board = Dashboard(open_trace(path, progress=False))
    assert board.tab == "steps"
    if opened:
        board.tab = opened
    board.compute_all()
    assert board.tab == shown  # else that of the first finding
    board.close()


def test_without_a_phase_all_steps_are_shown_and_those_of_another_fade(board):
    panel = board.panels["server_steps"]
    (drawn,) = panel.draw(panel.result).values()
    assert not any("selectedpoints" in each for each in drawn.data)
    board.selection.phase = "prefill"
    (drawn,) = panel.draw(panel.result).values()
    assert [each.get("selectedpoints") for each in drawn.data] == [[], None]
    assert panel._view["time"] == ""


def test_a_phase_and_a_step_of_another_have_nothing_in_common(board):
    board.selection.set(phase="decode", steps=(6,))
    board.compute_all()
    assert board._bands["error"].startswith("step 6 is not analysed on the selected ranks")
    board.selection.steps = (5, 6)
    assert {*board.events["step"]} == {5}


def test_a_phase_that_the_server_was_not_in_is_said(board):
    board.selection.phase = "mixed"
    board.compute_all()
    said = "the job has no steps of phase 'mixed'; it has decode and prefill steps"
    assert board._bands["error"] == said
    board.selection.phase = "forward"  # of code, which limits no time
    assert board.panels["kernel_breakdown"]._view["time"] == ""


def test_ticks_of_findings_are_those_of_a_phase(board):
    board.unticked = (0,)
    board.selection.phase = "prefill"
    assert board.unticked == ()


def test_a_recording_of_no_server_has_no_such_panel(tmp_path):
    events = [
        each for each in Loop().record(SLOW[:3]) if not each["name"].startswith("execute_context")
    ]
    job = open_trace(write(tmp_path / "rank-0.json", events), progress=False)
    assert not ServerStepsPanel.concerns(job)
    assert "server_steps" not in Dashboard(job).panels
    panel = ServerStepsPanel(job)
    assert panel.nothing_to_show(panel.result) == "No steps of an inference server were recorded."
