"""Golden tests go through the cache: the first to open a trace writes it, the others map it."""

from __future__ import annotations

import pytest

from hta_widgets.trace.cache.files import VARIABLE
from tests.golden.reference import JOBS, analysis_of


@pytest.fixture(scope="package", autouse=True)
def _cached(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, str(tmp_path_factory.mktemp("cache")))
        patch.setattr("hta_widgets.trace.ranks.cache.WORTH_KEEPING", 0)
        yield


@pytest.fixture(scope="module", params=JOBS)
def job_name(request):
    return request.param


@pytest.fixture(scope="module")
def analysis(job_name):
    return analysis_of(job_name)


@pytest.fixture(
    scope="module",
    params=[(job, rank) for job in JOBS for rank in ((0, 1) if job == "dlrm_2rank" else (0,))],
    ids=lambda case: f"{case[0]}-{case[1]}",
)
def case(request):
    """A job, and one of its ranks."""
    return request.param
