"""Of each real recording and labelled job, one diagnosis: its sentences, advice and document."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hta_widgets import diagnose, open_trace
from hta_widgets.diagnosis import CAUSES, Diagnosis
from tests.analyses.diagnosis.test_advice import contradicted
from tests.conftest import REAL_TRACES
from tests.explained.findings import explain_finding
from tests.golden.test_verdicts import recordings
from tests.test_cli_diagnose import check_document


@pytest.mark.parametrize("cause", CAUSES)
def test_a_labelled_job(planted: Callable[[str], Path], cause: str) -> None:
    found = diagnose(open_trace(planted(cause), progress=False))
    assert found
    check(found)


@pytest.mark.parametrize("recording", recordings())
def test_a_real_trace(recording: str) -> None:
    check(diagnose(open_trace(REAL_TRACES / recording, progress=False)))


def check(found: Diagnosis) -> None:
    """Each sentence is that of its evidence, no advice contradicts what was recorded."""
    wrong = [explain_finding(each, found) for each in found]
    assert not [*filter(None, wrong)], "\n".join(filter(None, wrong))
    assert not contradicted(found)
    check_document(found.job)
