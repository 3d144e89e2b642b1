"""The reference outputs of HTA, and the exact values computed independently beside them."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from hta_widgets.diagnosis import Diagnosis, diagnosis
from hta_widgets.trace.job import Job
from hta_widgets.trace.opening.open import open_trace
from hta_widgets.trace_analysis import TraceAnalysis
from tests.conftest import REAL_TRACES, REFERENCE, traces_or_skip

ATTRIBUTION = REFERENCE.with_name("attribution.json")
NO_ATTRIBUTION = f"no reference results at {ATTRIBUTION}"

JOBS = (
    "dlrm_2rank",
    "ddp_rank1of2",
    "ns_resolution",
    "compare_control",
    "compare_test",
    "cupti_counters",
    "alexnet",
    "h100_qwen",
    "h100_bert",
    "b200_eager",
    "event_sync_multi_stream",
    "mi250_toy",
)


@cache
def reference() -> dict[str, Any]:
    """All jobs of the reference file, by name."""
    if not REFERENCE.is_file():
        pytest.skip(f"no reference results at {REFERENCE}")
    jobs: dict[str, Any] = json.loads(REFERENCE.read_text())["jobs"]
    assert set(jobs) == set(JOBS)
    return jobs


def trace_files(job: str) -> dict[int, Path]:
    """Trace file of each rank."""
    files = reference()[job]["files"]
    return {int(rank): REAL_TRACES.parent / path for rank, path in files.items()}


def hta_result(job: str, method: str) -> Any:
    """What HTA returned."""
    return reference()[job]["methods"][method]["result"]


def exact(job: str, rank: int) -> dict[str, Any]:
    """Exact values of one rank, in µs."""
    values: dict[str, Any] = reference()[job]["exact"][str(rank)]
    return values


@cache
def attribution(part: str) -> dict[str, Any]:
    """One part of what is known of each trace; empty where there are no reference results."""
    found = json.loads(ATTRIBUTION.read_text()) if ATTRIBUTION.is_file() else {}
    return {trace: each[part] for trace, each in found.items()}


def attributed(part: str) -> dict[str, Any]:
    """The same, without which a test is skipped."""
    return attribution(part) or pytest.skip(NO_ATTRIBUTION)


def place_of(trace: str) -> Path:
    """The file of a trace."""
    return next(traces_or_skip().glob(f"*/{trace}"))


@cache
def opened(place: Path) -> Job:
    """A job, opened once in each process: it remembers what was asked of it."""
    return open_trace(place, progress=False)


@cache
def diagnosed(place: Path) -> Diagnosis:
    """The diagnosis of that job."""
    return diagnosis(opened(place))


@cache
def analysis_of(job: str) -> TraceAnalysis:
    """All ranks of a job of the reference file, opened once in each process."""
    return TraceAnalysis(trace_files(job), progress=False)


def job_of(name: str) -> Job:
    """The same, for functions that analyse a job."""
    return analysis_of(name).job
