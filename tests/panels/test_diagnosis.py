"""Rows of findings, what *Show* selects, and the budget of what is selected."""

from __future__ import annotations

import dataclasses
from html import escape

import pandas as pd
import pytest

from hta_widgets.analyses.budget.device_steps import GAPS
from hta_widgets.diagnosis import Finding, Link, diagnosis
from hta_widgets.diagnosis.finding import Advice
from hta_widgets.diagnosis.limits import Limits
from hta_widgets.diagnosis.own_time import own_time
from hta_widgets.diagnosis.proof.what import Idle, Seen
from hta_widgets.panels import Dashboard, DiagnosisPanel, Selection
from hta_widgets.panels import diagnosis as panel_module
from hta_widgets.panels.base.finding_rows import INCONCLUSIVE
from hta_widgets.quantities import percent
from hta_widgets.trace.job import Job
from hta_widgets.trace.opening.open import open_trace
from tests.kineto_text import host, write
from tests.panels.fakes import EVIL

SEEN = Seen(Idle(GAPS), (0, 1), (11,), Limits().trials)
KERNELS = pd.DataFrame({"name": [EVIL], "median_us": [81.5]})


def found(place: int, **changes) -> Finding:
    values = {
        "cause": "slow_gpu",
        "ranks": (3,),
        "steps": (),
        "sentence": f"Finding {place}.",
        "recoverable_ms": 4.0 - place,
        "percent": 10.0,
        "advice": (Advice("Exchange it."),),
    }
    return Finding(**{**values, **changes})


@pytest.fixture
def several(monkeypatch):
    """A diagnosis that finds five causes, whatever the job."""
    findings = (
        found(0, links=(Link(panel="rank_overlap", ranks=(3, 1), kernel="gemm"),)),
        found(1, steps=(1, 2), evidence={"kernels": KERNELS, "slower_percent": 25.12}),
        found(2, sentence=EVIL, advice=(Advice(EVIL),)),
        found(3, links=(Link(panel="idle_owners", steps=(2,), streams=(7,)),), seen=SEEN),
        found(4, recoverable_ms=0.0, confidence="inconclusive"),
    )

    def made(job, ranks=None, phase=None):
        return dataclasses.replace(diagnosis(job, ranks, phase=phase), findings=findings)

    monkeypatch.setattr(panel_module, "diagnosis", made)
    monkeypatch.setattr(panel_module, "diagnosis_of_phase", lambda job, _: made(job))
    return findings


def test_the_result_is_that_of_the_analysis(loaded: Job):
    panel = DiagnosisPanel(loaded)
    expected = diagnosis(loaded)
    assert panel.result.to_frame().equals(expected.to_frame())
    assert [row["sentence"] for row in panel._view["findings"]] == [
        each.sentence for each in expected
    ]


def test_it_is_the_first_of_the_dashboard(loaded: Job):
    assert next(iter(Dashboard(loaded).panels)) == "diagnosis"


MEDIAN = ("median_us", "median", "µs")


def column(name: str, label: str, unit: str, kind: str) -> dict:
    return {
        "name": name,
        "label": label,
        "unit": unit,
        "scale": 1,
        "kind": kind,
        "select": "",
        "besides": [],
    }


@pytest.mark.usefixtures("several")
def test_rows(loaded: Job):
    rows = DiagnosisPanel(loaded)._view["findings"]
    assert [row["price"] for row in rows] == ["4 ms", "3 ms", "2 ms", "1 ms", ""]
    assert [row["share"] for row in rows] == [1, 0.75, 0.5, 0.25, 0]
    assert [row["folded"] for row in rows] == [False, False, False, True, True]
    assert [row["doubt"] for row in rows] == ["", "", "", "", INCONCLUSIVE]
    assert rows[1]["numbers"] == [
        {
            "label": "kernels",
            "text": "",
            "table": {
                "columns": [column("name", "name", "", "text"), column(*MEDIAN, "number")],
                "rows": [[EVIL, 81.5]],
                "total": 1,
                "names": {},
            },
        },
        {"label": "slower", "text": "25.1 %", "table": None},
    ]


def test_what_show_selects(loaded: Job, several):
    panel = DiagnosisPanel(loaded)
    shown = [row["show"] for row in panel._view["findings"]]
    nothing = {"ranks": [], "streams": [], "kernel": "", "steps": [], "window_ns": None}
    nothing |= {"operators": [], "shapes": [], "modules": [], "phase": ""}
    assert shown == [
        {**nothing, "ranks": [1, 3], "kernel": "gemm", "finding": 0},
        {**nothing, "ranks": [3], "steps": [1, 2], "finding": 1},
        {**nothing, "ranks": [3], "finding": 2},
        {**nothing, "streams": [7], "steps": [2], "finding": 3},
        {**nothing, "ranks": [3], "finding": 4},
    ]
    for fields in shown:
        panel.selection.set_state(fields)
        for name, value in fields.items():
            chosen = getattr(panel.selection, name)
            assert (list(chosen) if isinstance(value, list) else chosen) == value
        assert panel.result.findings == several
    panel.selection.set_state({**nothing, "finding": None})


@pytest.mark.usefixtures("several")
def test_show_sets_all_fields_of_a_selection(loaded: Job):
    (row, *_) = DiagnosisPanel(loaded)._view["findings"]
    assert row["show"].keys() == {*Selection.fields()}


@pytest.mark.usefixtures("several")
def test_occurrences_are_the_windows_of_the_proof(loaded: Job):
    """Without the steps of the link: a window may be in another one, and both hold nothing then."""
    panel = DiagnosisPanel(loaded)
    rows = panel._view["findings"]
    assert [len(row["occurrences"]) > 0 for row in rows] == [False, False, False, True, False]
    shown = rows[3]["occurrences"]
    proof = panel.result.proof(panel.result[3])
    assert [each["fields"]["window_ns"] for each in shown] == [
        [*proof.shown_ns(place)] for place in range(len(proof.windows))
    ]
    assert all(each["fields"]["steps"] == [] for each in shown)
    first = proof.windows.iloc[0]
    start, end = shown[0]["fields"]["window_ns"]
    assert start <= first["start_ns"] < first["end_ns"] <= end
    assert f"this window holds {percent(first['percent'])}" in shown[0]["words"]


def test_findings_stay_while_ranks_are_selected(loaded: Job):
    panel = DiagnosisPanel(loaded)
    before = panel.result
    panel.ranks = [1]
    assert panel.result is before
    panel.ranks = []


@pytest.mark.usefixtures("several")
def test_a_panel_of_its_own_diagnoses_its_ranks_and_shows_nothing_elsewhere(loaded: Job):
    panel = DiagnosisPanel(loaded, ranks=[1, 2])
    assert panel.result.ranks == (1, 2)
    assert all(row["show"] is None for row in panel._view["findings"])


def test_the_budget_is_that_of_the_selected_ranks_and_steps(loaded: Job):
    panel = DiagnosisPanel(loaded)
    steps = panel.result.steps
    numbers = sorted(steps["step"].unique().tolist())
    with panel.selection.hold():
        panel.selection.ranks, panel.selection.steps = [1, 3], (numbers[0],)
    chosen = steps[steps["rank"].isin([1, 3]) & (steps["step"] == numbers[0])]
    assert panel.table["period_ns"].tolist() == chosen["period_ns"].tolist()
    bar, cells = panel.figures.values()
    assert sum(part.x[0] for part in bar.data) == pytest.approx(chosen["period_ns"].mean() / 1e6)
    assert f"ranks 1, 3, step {numbers[0]}" in bar.layout.xaxis.title.text
    assert len(cells.data[0].z) == 1 + len(loaded.ranks)
    assert len(cells.layout.shapes) == 2
    panel.selection.steps = (99,)
    assert len(panel.table) == 2 * len(numbers)
    with panel.selection.hold():
        panel.selection.ranks, panel.selection.steps = [], ()
    assert panel.figures[panel_module.OWN_TIME].data[0].z.shape == (
        1 + len(loaded.ranks),
        own_time(steps).percent.shape[1],
    )


def test_its_summary_lists_all_findings_as_text(loaded: Job, several):
    page = DiagnosisPanel(loaded).summary()
    assert EVIL not in page
    assert escape(EVIL) in page
    for each in several:
        assert escape(each.sentence) in page
    assert INCONCLUSIVE in page
    assert len(page.encode()) <= 60_000


def test_a_healthy_job_has_one_line(loaded: Job, monkeypatch):
    def healthy(job, _):
        return dataclasses.replace(diagnosis(job), findings=(), finding="All is well.")

    monkeypatch.setattr(panel_module, "diagnosis_of_phase", healthy)
    panel = DiagnosisPanel(loaded)
    assert panel._view["findings"] == []
    assert panel._view["finding"] == "Training: All is well."
    assert "<p>Training: All is well.</p>" in panel.summary()
    assert len(panel.figures) == 2


def test_without_gpu_work_it_says_so(tmp_path):
    write(tmp_path / "rank0.json", [host(0, 9, "aten::mm")])
    panel = DiagnosisPanel(open_trace(tmp_path, progress=False))
    assert panel._view["error"] is None
    assert panel._view["empty"] == panel._view["finding"]
    assert panel.figures == {}
