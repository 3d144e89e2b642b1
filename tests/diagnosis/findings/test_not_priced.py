"""Captures of graphs and compilation: nothing runs that a later step runs again."""

from __future__ import annotations

import pytest

from hta_widgets.analyses.timeline.overview import spans_of
from hta_widgets.cli.diagnose.document import document
from hta_widgets.diagnosis import diagnose
from hta_widgets.diagnosis.change.explain_change import explain_change
from hta_widgets.diagnosis.report import report
from hta_widgets.panels import DiagnosisPanel
from hta_widgets.trace.opening.open import open_trace
from tests.kineto_text import call, host, kernel, write

STARTS = range(0, 100_000, 1000)

WARM_UP = ("warm_up", "launch_bound", "idle", "profiler.step()", "bound by")


def eager(*, name="cudaLaunchKernel"):
    """A hundred launches 1 ms apart of kernels that take 10 µs: the host is slow."""
    calls = [call(at, 5, number, name=name) for number, at in enumerate(STARTS, 1)]
    work = [kernel(at + 10, 10, correlation=number) for number, at in enumerate(STARTS, 1)]
    return [*calls, *work, host(0, 99_000, "aten::mm")]


def capturing():
    """The same, most of it inside a capture."""
    begin = call(500, 1, 0, name="cudaStreamBeginCapture")
    return [*eager(), begin, call(60_500, 1, 0, name="cudaStreamEndCapture")]


def compiling():
    """The same, while code is compiled."""
    frame = host(0, 30_000, "torch/_dynamo/convert_frame.py(9): f", cat="python_function")
    return [*eager(), frame]


WHY = {
    capturing: "This recording captures 1 CUDA graph of 60 operations: captured work does not",
    compiling: "This recording compiles code in 30 % of its time. Later steps do not repeat",
}


@pytest.mark.parametrize("events", WHY)
def test_nothing_is_priced(tmp_path, events):
    assert diagnose(write(tmp_path / "eager.json", eager())).status != "not_applicable"
    found = diagnose(write(tmp_path / "rank-0.json", events()))
    assert (found.status, list(found), found.not_recorded) == ("not_applicable", [], ())
    assert found.finding.startswith(WHY[events])
    assert events is compiling or found.finding.endswith(
        "Open it with the trace that replays this graph: hta-widgets open REPLAY --captures "
        "rank-0.json."
    )
    written = document(found)
    assert (written["kind"], written["bound_by"]) == (found.job.kind, "")
    text = report(found)
    assert f"rank-0.json ({found.job.kind})" in text
    assert not [word for word in WARM_UP if word in text]
    panel = DiagnosisPanel(found.job)
    panel.compute_all()
    assert panel._view["empty"].lower() == f"{found.job.kind}: {found.finding}".lower()


@pytest.mark.parametrize("recording", ["sglang_capture", "vllm_piecewise_capture"])
def test_a_real_capture_gets_no_words_of_a_job(real_traces, recording):
    found = diagnose(real_traces / "kineto" / recording)
    assert found.status == "not_applicable"
    assert not [word for word in WARM_UP if word in report(found)]


def test_a_rank_that_captures_is_left_out(tmp_path):
    write(tmp_path / "rank-0.json", eager())
    alone = diagnose(tmp_path)
    write(tmp_path / "rank-1.json", capturing())
    found = diagnose(tmp_path)
    assert found.ranks == (0,)
    assert [each.cause for each in found] == [each.cause for each in alone]
    (said,) = [each for each in found.notices if each.startswith("rank 1 is left out")]
    assert said.startswith(f"rank 1 is left out of the diagnosis. {WHY[capturing]}")
    assert said.endswith(" --captures rank-1.json.")


def test_a_capture_is_not_compared(tmp_path):
    one = open_trace(write(tmp_path / "one.json", eager()), progress=False)
    other = open_trace(write(tmp_path / "other.json", capturing()), progress=False)
    said = explain_change(one, other).finding
    assert said.startswith(f"There is nothing to compare in other.json: {WHY[capturing]}")


def test_a_capture_is_drawn_whole(tmp_path):
    """Of one of 34 ms, the 1 ms before it began, in which kernels ran, was all that was drawn."""
    events = [each for each in capturing() if each["cat"] != "kernel" or each["ts"] < 1000]
    spans = spans_of(open_trace(write(tmp_path / "rank-0.json", events), progress=False).rank(0))
    assert spans.analysed == spans.whole
