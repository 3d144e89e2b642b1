"""Ctrl-C while a panel computes: it never pairs new parameters with the old result."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from hta_widgets.panels import KernelBreakdownPanel
from hta_widgets.sample import write_sample
from hta_widgets.trace.job import Job
from hta_widgets.trace.opening.open import open_trace
from tests.soak import open_widgets


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Job:
    folder: Path = tmp_path_factory.mktemp("interrupted")
    write_sample(folder, ranks=2, steps=3, progress=False)
    return open_trace(folder, progress=False)


def test_after_an_interrupt_a_panel_shows_what_a_fresh_one_does(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    panel = KernelBreakdownPanel(job, num_kernels=20)
    before = panel.result
    with monkeypatch.context() as until:
        until.setattr(KernelBreakdownPanel, "analyse", interrupted)
        with pytest.raises(KeyboardInterrupt):
            panel.num_kernels = 3
    fresh = KernelBreakdownPanel(job, num_kernels=3)
    assert panel.num_kernels == 3
    assert panel._activity == "interrupted"
    assert panel.result is not before
    assert panel.table.equals(fresh.table)
    assert panel._view["finding"] == fresh._view["finding"]
    assert [*panel.figures] == [*fresh.figures]
    assert panel._activity == "idle"
    panel.close()
    fresh.close()


def test_a_panel_that_is_interrupted_at_first_leaves_nothing(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    KernelBreakdownPanel(job).close()
    before, alive = {*open_widgets()}, panels()
    with monkeypatch.context() as until:
        until.setattr(KernelBreakdownPanel, "analyse", interrupted)
        with pytest.raises(KeyboardInterrupt):
            KernelBreakdownPanel(job)
    assert panels() == alive
    assert {*open_widgets()} <= before
    again = KernelBreakdownPanel(job)
    assert len(again.table)
    again.close()


def panels() -> int:
    gc.collect()
    return sum(isinstance(each, KernelBreakdownPanel) for each in gc.get_objects())


def interrupted(*_: object) -> None:
    """What the kernel raises where it computes when the user presses *interrupt*."""
    raise KeyboardInterrupt
