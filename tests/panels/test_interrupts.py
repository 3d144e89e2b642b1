"""Ctrl-C while panels compute: no panel pairs parameters with the result of others."""

from __future__ import annotations

import pytest

from hta_widgets.panels import Selection
from hta_widgets.trace.job import Job
from tests.panels.fakes import FakePanel, FakeResult, fake_job, send


class Interrupted(FakePanel):
    """Is interrupted, instead of computing, when it is told to."""

    interrupt = False

    def analyse(self, ranks: list[int]) -> FakeResult:
        if self.interrupt:
            raise KeyboardInterrupt
        return super().analyse(ranks)


@pytest.fixture
def panel() -> Interrupted:
    return Interrupted(fake_job())


def interrupted(panel: Interrupted, **values: object) -> None:
    def change() -> None:
        with panel.hold():
            for name, value in values.items():
                setattr(panel, name, value)

    panel.interrupt = True
    with pytest.raises(KeyboardInterrupt):
        change()
    panel.interrupt = False


def test_a_result_is_that_of_the_parameters(panel):
    interrupted(panel, bars=5)
    assert (panel.bars, len(panel.result.bars), len(panel.table)) == (5, 5, 5)
    assert panel._activity == "idle"


def test_the_page_is_told_until_it_is_computed(panel):
    interrupted(panel, bars=5)
    assert panel._activity == "interrupted"
    assert panel._view["finding"] == "3 bars on 4 ranks."
    assert send(panel)["finding"] == "5 bars on 4 ranks."
    assert panel._activity == "idle"


def test_values_that_are_taken_back_need_no_computation(panel):
    interrupted(panel, bars=5)
    runs = panel.runs
    panel.bars = 3
    assert (panel.runs, panel._activity) == (runs, "idle")


def test_a_request_is_answered(panel):
    panel.interrupt = True
    with pytest.raises(KeyboardInterrupt):
        send(panel, bars=5)
    assert panel._view["rev"] == panel._req == 1
    assert panel._activity == "interrupted"


def test_an_interrupt_in_a_block_computes_nothing(panel):
    runs = panel.runs

    def change() -> None:
        with panel.hold():
            panel.bars = 5
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        change()
    assert (panel.runs, panel._activity) == (runs, "interrupted")


@pytest.mark.parametrize("place", [0, 1, 2])
def test_an_interrupted_selection_reaches_every_panel(place):
    job = fake_job()
    panels = [Interrupted(job) for _ in range(3)]
    panels[place].interrupt = True
    with pytest.raises(KeyboardInterrupt):
        panels[0].selection.ranks = [1]
    panels[place].interrupt = False
    assert [panel.ranks for panel in panels] == [[1]] * 3
    computed = ["idle"] * place + ["interrupted"] * (3 - place)
    assert [panel._activity for panel in panels] == computed
    assert {panel.result.finding for panel in panels} == {"3 bars on 1 ranks."}


def test_an_interrupt_before_any_panel_hears_of_it_reaches_every_panel():
    job = fake_job()
    panels = [FakePanel(job) for _ in range(3)]

    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    selection = Selection.of(job)
    selection.observe(interrupt, "ranks")
    with pytest.raises(KeyboardInterrupt):
        selection.ranks = [1]
    assert [panel.ranks for panel in panels] == [[1]] * 3
    assert [panel._activity for panel in panels] == ["interrupted"] * 3


class TestActivity:
    def test_a_panel_is_busy_while_a_cell_computes_it(self, panel):
        told = []
        panel.observe(lambda change: told.append(change.new), "_activity")
        panel.bars = 5
        assert told == ["computing", "idle"]

    def test_so_are_those_that_wait_for_others(self):
        job, told = fake_job(), []
        panels = [FakePanel(job) for _ in range(3)]
        for number, panel in enumerate(panels):
            panel.observe(lambda change, n=number: told.append((n, change.new)), "_activity")
        panels[0].selection.ranks = [1]
        assert [each for each in told if each[1] == "computing"] == told[:3]

    def test_the_browser_knows_of_its_own_request(self, panel):
        told = []
        panel.observe(lambda change: told.append(change.new), "_activity")
        send(panel, bars=5)
        assert told == []

    def test_an_unseen_panel_is_not_busy(self, panel):
        panel.set_state({"_visible": False})
        panel.bars = 5
        assert panel._activity == "idle"


def test_a_dashboard_that_is_interrupted_leaves_no_panel(loaded: Job, monkeypatch):
    from hta_widgets.panels import dashboard  # noqa: PLC0415

    made = []

    class Never(FakePanel):
        def __init__(self, *_, **__):
            raise KeyboardInterrupt

    class Noted(FakePanel):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            made.append(self)

    monkeypatch.setattr(dashboard, "PANELS", {"noted": Noted, "never": Never})
    with pytest.raises(KeyboardInterrupt):
        dashboard.Dashboard(loaded)
    assert [panel.comm for panel in made] == [None]
