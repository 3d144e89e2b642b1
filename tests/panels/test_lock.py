"""A cell and the browser at once: JupyterLab answers the browser in a thread beside the cells."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from threading import Event

import pytest

from hta_widgets.panels import Selection
from tests.panels.fakes import FakePanel, fake_job, send

SOON_S = 20
A_WHILE_S = 0.2


class SlowPanel(FakePanel):
    """Computes, once it is told to be slow, only when it may."""

    slow = False

    def analyse(self, ranks):
        if self.slow:
            self.computing.set()
            assert self.may_go_on.wait(SOON_S)
        return super().analyse(ranks)


@pytest.fixture
def panel() -> SlowPanel:
    panel = SlowPanel(fake_job(), selection=Selection())
    panel.computing, panel.may_go_on, panel.slow = Event(), Event(), True
    return panel


def while_computing(panel, change, ask):
    """Ask in one thread while another computes what a change asks for; the answer."""
    with ThreadPoolExecutor() as threads:
        changed = threads.submit(change)
        assert panel.computing.wait(SOON_S)
        asked = threads.submit(ask)
        try:
            with pytest.raises(NotYet):
                asked.result(A_WHILE_S)
        finally:
            panel.may_go_on.set()
        changed.result(SOON_S)
        return asked.result(SOON_S)


def test_a_cell_reads_the_result_of_the_value_that_it_sees(panel):
    bars = while_computing(
        panel, lambda: send(panel, bars=8), lambda: (panel.bars, len(panel.result.bars))
    )
    assert bars == (8, 8)


def test_so_it_does_of_the_ranks_that_it_sees_selected(panel):
    finding = while_computing(
        panel,
        lambda: panel.selection.set_state({"ranks": [1, 2]}),
        lambda: panel.result.finding,
    )
    assert finding == "3 bars on 2 ranks."


def test_a_change_in_a_cell_waits_and_is_not_lost(panel):
    while_computing(panel, lambda: send(panel, bars=8), lambda: setattr(panel, "ratio", 0.5))
    assert panel.runs == 3
    assert (panel.bars, panel.ratio, len(panel.result.bars)) == (8, 0.5, 8)


def test_a_held_panel_is_left_alone(panel):
    panel.slow = False
    with ThreadPoolExecutor() as threads, panel.hold():
        panel.bars = 8
        sent = threads.submit(send, panel, ratio=0.5)
        with pytest.raises(NotYet):
            sent.result(A_WHILE_S)
        assert panel.runs == 1
    assert (panel.runs, panel.bars, panel.ratio) == (3, 8, 0.5)
