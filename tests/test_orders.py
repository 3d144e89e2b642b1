"""The answer to a question is the same whatever was asked before.

A diagnosis once wrote into step edges that eleven analyses share, in every dashboard and report.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hta_widgets import Dashboard, analyses, open_trace
from hta_widgets.analyses.timeline.lanes_of_job import JobLanes
from hta_widgets.sample import write_sample
from hta_widgets.trace.cache.trace_file import LoadedTrace
from hta_widgets.trace.job import Job
from tests.conftest import KINETO_FOLDERS, REAL_TRACES

SAMPLE = "sample job"
UNLIKE = {"cpu_only", "cupti_counters", "dlrm_2rank", "h100_qwen"}
"""Real jobs that are unlike each other: all of them took a minute, and found nothing else."""
REAL = {
    path.name: path
    for each in KINETO_FOLDERS
    for path in sorted(REAL_TRACES.glob(f"{each}/*"))
    if path.name in UNLIKE
}

IN_TIME = ("idle_owners", "kernel_breakdown", "overlap", "step_table", "temporal_breakdown")

ARGUMENTS: dict[str, Callable[[Job], tuple[Any, ...]]] = {
    "compare": lambda job: (job,),
    "flame": lambda job: (job.ranks[0],),
}
"""What some analyses are asked with, besides the job."""

NAMED: dict[str, list[dict[str, Any]]] = {
    "flame": [{"weight": weight} for weight in ("gpu", "cpu", "idle", "bytes")],
    "kernel_sequences": [{"operator_name": "aten::"}],
    "rank_overlap": [{"by": "stream", "slices": 7}, {"common_window": True}],
}


def questions(job: Job) -> dict[str, Callable[[Job], Any]]:
    """Every analysis, and those of some time also of the first step and of a window."""
    steps = analyses.step_table(job).steps
    times = [{"window_ns": (0, int(steps["end_ns"].max()) // 2 + 1)}] if len(steps) else []
    times += [{"steps": [number]} for number in sorted({*steps["step"]} - {-1})[:1]]
    asked = {}
    for name in analyses.__all__:
        analyse = getattr(analyses, name)
        if isinstance(analyse, type):
            continue
        for named in [*NAMED.get(name, [{}]), *(times if name in IN_TIME else [])]:
            asked[f"{name} {named}"] = partial(_ask, analyse, ARGUMENTS.get(name), named)
    return asked


def _ask(
    analyse: Callable[..., Any],
    arguments: Callable[[Job], tuple[Any, ...]] | None,
    named: Mapping[str, Any],
    job: Job,
) -> Any:
    return analyse(job, *(arguments(job) if arguments else ()), **named)


def again(job: Job) -> Job:
    """The same ranks, of which nothing is known yet."""
    fresh = Job(job.sources, name=job.name)
    for rank in job.ranks:
        fresh.add(LoadedTrace(job.rank(rank).trace, {}))
    return fresh


def check_equal(one: Any, other: Any, where: str) -> None:
    """Compare tables, numbers and texts, exactly."""
    assert type(one) is type(other), where
    if isinstance(one, pd.DataFrame):
        pd.testing.assert_frame_equal(one, other, check_exact=True, obj=where)
    elif isinstance(one, np.ndarray):
        np.testing.assert_array_equal(one, other, err_msg=where)
    elif isinstance(one, Job | JobLanes) or callable(one):
        return
    elif is_dataclass(one):
        for field in fields(one):
            check_equal(
                getattr(one, field.name), getattr(other, field.name), f"{where}.{field.name}"
            )
    elif isinstance(one, Mapping):
        assert one.keys() == other.keys(), where
        for key in one:
            check_equal(one[key], other[key], f"{where}[{key!r}]")
    elif isinstance(one, tuple | list):
        assert len(one) == len(other), where
        for place, pair in enumerate(zip(one, other, strict=True)):
            check_equal(*pair, f"{where}[{place}]")
    else:
        assert one == other or (one != one and other != other), where  # noqa: PLR0124


@pytest.fixture(params=[SAMPLE, *REAL])
def job(request, tmp_path):
    if request.param == SAMPLE:
        folder = write_sample(tmp_path, ranks=2, steps=4, progress=False)
    else:
        folder = REAL[request.param]
    return open_trace(folder, progress=False)


def test_answers_in_any_order_are_those_of_a_job_that_is_asked_nothing_else(job):
    """Each question is asked before and after each other."""
    asked = questions(job)
    alone = {name: ask(again(job)) for name, ask in asked.items()}
    for order in (asked, reversed(asked)):
        shared = again(job)
        for name in order:
            check_equal(asked[name](shared), alone[name], name)


IDS = re.compile(r"[0-9a-f]{32}")


def anonymous(text: str) -> str:
    """The text with numbers for the ids of widgets, which are never the same."""
    ids: dict[str, str] = {}
    return IDS.sub(lambda found: ids.setdefault(found[0], f"id {len(ids)}"), text)


def test_a_report_after_a_dashboard_was_used(job, tmp_path):
    """The first report has all panels computed, of a job of which nothing was known."""
    texts = []
    for name in ("alone.html", "after.html"):
        with closing(Dashboard(job)) as board:
            texts.append(anonymous(board.to_html(tmp_path / name).read_text()))
    assert texts[0] == texts[1]
