"""Golden tests go through the cache: the first to open a trace writes it, the others map it."""

from __future__ import annotations

import pytest

from hta_widgets.trace.cache.files import VARIABLE
from hta_widgets.trace_analysis import TraceAnalysis
from tests.golden.reference import JOBS, trace_files


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def _cached(cache, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(cache))
    monkeypatch.setattr("hta_widgets.trace.ranks.cache.WORTH_KEEPING", 0)


@pytest.fixture(scope="module", params=JOBS)
def job_name(request):
    return request.param


@pytest.fixture(scope="module")
def analysis(job_name):
    return TraceAnalysis(trace_files(job_name), progress=False)


@pytest.fixture(
    scope="module",
    params=[(job, rank) for job in JOBS for rank in ((0, 1) if job == "dlrm_2rank" else (0,))],
    ids=lambda case: f"{case[0]}-{case[1]}",
)
def case(request):
    """A job, and one of its ranks."""
    return request.param
