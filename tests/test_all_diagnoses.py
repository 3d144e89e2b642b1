"""Of each labelled job and recording, one diagnosis: its sentences, advice and document.

Those of the PyTorch profiler's real traces are looked at in `test_sentences`, which opens them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hta_widgets import diagnose, open_trace
from hta_widgets.diagnosis import Diagnosis
from hta_widgets.diagnosis.cause import Cause
from hta_widgets.diagnosis.causes import ALL_CAUSES
from tests.cause_pages import measured, measured_on, page_of
from tests.conftest import KINETO_FOLDERS, REAL_TRACES
from tests.diagnosis.findings.test_advice import contradicted
from tests.explained.findings import explain_finding
from tests.golden.test_verdicts import recordings
from tests.test_cli_diagnose import check_document


@pytest.mark.long
@pytest.mark.parametrize("cause", ALL_CAUSES, ids=lambda each: each.name)
def test_a_labelled_job(planted: Callable[[str], Path], cause: Cause) -> None:
    """The page of its cause also says what it takes, before and after."""
    found = diagnose(open_trace(planted(cause.name), progress=False))
    assert found
    check_diagnosis(found)
    said, now = measured_on(page_of(cause).read_text(encoding="utf-8")), measured(cause, found)
    assert said[:2] == pytest.approx(now[:2], abs=0.006)
    assert said.price_ms == pytest.approx(now.price_ms, rel=0.05, abs=0.006)


@pytest.mark.parametrize(
    "recording", [each for each in recordings() if not each.startswith(KINETO_FOLDERS)]
)
def test_a_recording_of_another_tool(recording: str) -> None:
    check_diagnosis(diagnose(open_trace(REAL_TRACES / recording, progress=False)))


def check_diagnosis(found: Diagnosis) -> None:
    """Each sentence is that of its evidence, no advice contradicts what was recorded."""
    wrong = [explain_finding(each, found) for each in (*found, *found.to_try)]
    assert not [*filter(None, wrong)], "\n".join(filter(None, wrong))
    assert not contradicted(found)
    check_document(found.job)
