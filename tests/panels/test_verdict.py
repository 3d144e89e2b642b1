"""What programs and hosts read that see nothing but traits, and what an assistant reads."""

from __future__ import annotations

import json

import pytest
from IPython.core.formatters import BaseFormatter, DisplayFormatter
from traitlets import ObjectName, TraitError, Unicode

from hta_widgets.analyses import kernel_breakdown
from hta_widgets.analyses.plain_text import MOST_CHARACTERS
from hta_widgets.diagnosis import diagnose
from hta_widgets.diagnosis.rank_answers import replay
from hta_widgets.diagnosis.report import report
from hta_widgets.panels import Dashboard, KernelBreakdownPanel, Selection
from hta_widgets.panels.base.selection import plain_selection
from hta_widgets.trace.job import Job
from tests.panels.fakes import FakePanel


def public(widget):
    """What a host makes of a widget: its synced traits, without those of the host itself."""
    of_host = {"layout", "tabbable", "tooltip"}
    state = {name: each for name, each in widget.get_state().items() if name[0] != "_"}
    return {name: each for name, each in state.items() if name not in of_host}


def test_a_host_sees_what_was_found_and_what_is_selected(loaded: Job):
    board = Dashboard(loaded)
    assert public(board) == {
        "panel": board.panel,
        "unticked": (),
        "verdict": "",
        "selected": {},
    }
    board.selection.set(ranks=[3], steps=(11,), window_ns=(0, 30_000_000))
    assert board.selected == {"ranks": [3], "steps": [11], "window_ns": [0, 30_000_000]}
    board.compute_all()
    for found in diagnose(loaded):
        assert f"{found.cause}, " in board.verdict
    assert len(json.dumps(public(board))) < MOST_CHARACTERS
    board.selection.set()
    assert board.selected == {}


def test_those_who_observe_are_told_of_a_selection(loaded: Job):
    board, told = Dashboard(loaded), []
    board.observe(lambda change: told.append(change["new"]), "selected")
    with board.selection.hold():
        board.selection.ranks, board.selection.kernel = [1, 2], "k"
    board.selection.undo()
    assert told == [{"ranks": [1, 2], "kernel": "k"}, {}]


def test_a_panel_tells_what_its_verdict_is_of(loaded: Job):
    selection = Selection()
    panel = KernelBreakdownPanel(loaded, selection=selection)
    said = kernel_breakdown(loaded).finding
    assert panel.verdict.startswith(said)
    assert panel.selected == {}
    assert not {"verdict", "selected"} & {*panel.parameters()}
    selection.set(ranks=[2], steps=(11,), finding=0)
    assert panel.selected == {"ranks": [2], "steps": [11], "finding": 0}
    assert panel.verdict.startswith(kernel_breakdown(loaded, [2], steps=[11]).finding)
    selection.steps = (99,)
    assert panel.verdict.startswith("step 99 is not analysed")
    panel.close()


def test_nobody_sets_them(loaded: Job):
    for widget in (Dashboard(loaded), FakePanel(loaded)):
        before = public(widget)
        for name in ("verdict", "selected"):
            with pytest.raises(TraitError, match="read-only"):
                setattr(widget, name, getattr(widget, name))
        widget.set_state({"verdict": "<b>", "selected": {"ranks": [9]}})
        assert public(widget) == before
        with pytest.raises(TypeError, match="no parameter verdict"):
            FakePanel(loaded, verdict="x")


def test_all_that_can_be_selected_has_a_limited_size():
    selection = Selection()
    names = [f"{place:03}{'名' * 5_000}" for place in range(100)]
    selection.set(
        streams=[*range(5_000)],
        kernel=names[0],
        operators=names,
        shapes=names,
        modules=names,
        steps=[*range(2**60, 2**60 + 5_000)],
        window_ns=(0, 2**60),
    )
    told = plain_selection(selection)
    assert told["streams"] == [*range(60)]
    assert told["more"] == {
        "streams": 4_940,
        "operators": 95,
        "shapes": 95,
        "modules": 95,
        "steps": 4_940,
    }
    assert told["kernel"].startswith("000")
    assert len(json.dumps(told, ensure_ascii=False)) < MOST_CHARACTERS - 6_500
    assert json.loads(json.dumps(told)) == told


def test_results_are_shown_in_sentences_and_not_as_their_tables(loaded: Job):
    found = diagnose(loaded)
    result = kernel_breakdown(loaded, [1])
    assert repr(found).startswith(report(found))
    assert repr(found[0]) == f"Finding({found[0].cause}: {found[0].sentence})"
    assert repr(result).startswith(f"KernelBreakdown\n{result.finding}\n")
    assert repr(replay(loaded)).startswith("Replay(step_ms=")
    rows = f"types: {len(result.types)} rows of kernel_type, sum_ns, percentage\n"
    assert rows in repr(result)


class _ForAssistants(BaseFormatter):
    """As package repr_llm registers one."""

    format_type = Unicode("text/llm+plain")
    print_method = ObjectName("_repr_llm_")


@pytest.fixture
def formatted():
    formatter = DisplayFormatter()
    formatter.formatters["text/llm+plain"] = _ForAssistants(parent=formatter)
    return lambda each: formatter.format(each)[0]["text/llm+plain"]


def test_what_is_shown_has_a_text_for_assistants(loaded: Job, formatted):
    selection = Selection(ranks=[1])
    panel = KernelBreakdownPanel(loaded, selection=selection)
    found = diagnose(loaded)
    board = Dashboard(loaded)
    texts = [formatted(each) for each in (panel, panel.result, found, board)]
    assert all(0 < len(text) <= MOST_CHARACTERS for text in texts)
    of_panel, of_result, of_diagnosis, of_board = texts
    finding = kernel_breakdown(loaded, [1]).finding
    assert finding in of_panel
    assert finding in of_result
    assert 'Selected: {"ranks": [1]}' in of_panel
    assert of_panel.count("COMPUTATION") >= 3  # rows of the table
    types = kernel_breakdown(loaded, [1]).types
    assert f"types: {len(types)} rows\nkernel_type,sum_ns" in of_result
    for each in found:
        assert f"{each.cause}, " in of_diagnosis
        assert f"{each.cause}, " in of_board
    panel.close()


def test_the_text_of_a_panel_that_fails_says_why(loaded: Job, formatted):
    panel = KernelBreakdownPanel(loaded, selection=Selection(steps=(99,)))
    assert "step 99 is not analysed" in formatted(panel)
    panel.close()
