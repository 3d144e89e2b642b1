"""Nobody can write into an answer that several share."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest

from hta_widgets.trace.job import Job
from hta_widgets.trace.ranks.rank import Rank
from tests.analyses.generated_jobs import open_job
from tests.kineto_text import call, kernel


class Pair(NamedTuple):
    number: int
    times: np.ndarray


@dataclass(frozen=True)
class Table:
    frame: pd.DataFrame
    by_name: dict[str, Pair]


def everything(rank: Rank, size: int) -> list[Table]:
    times = np.arange(size)
    frame = pd.DataFrame({"a": np.arange(size), "name": ["x"] * size, "b": np.ones(size)})
    return [Table(frame, {"all": Pair(rank.trace.rank, times)})]


def columns(_: Rank) -> dict[str, np.ndarray]:
    return {"some": np.arange(3)}


def check(answer: list[Table]) -> None:
    (table,) = answer
    with pytest.raises(ValueError, match="read-only"):
        table.by_name["all"].times[0] = 1
    with pytest.raises(ValueError, match="read-only"):
        table.frame["b"].to_numpy()[0] = 7
    with pytest.raises(ValueError, match="read-only"):
        table.frame.loc[0, "a"] = 7


def of_all(job: Job) -> list[Table]:
    return job.reduce(everything, [0], 3)[0]


def reduced(job: Job) -> list[Table]:
    return job.reduce(everything, [1], 3)[1]


@pytest.fixture
def job(tmp_path):
    return open_job(tmp_path, [[call(0, 5, 1), kernel(10, 5, correlation=1)]] * 2)


def test_what_ranks_and_jobs_answer(job):
    rank = job.rank(0)
    of_job = partial(job.remember, of_all)
    for ask in (partial(rank.remember, everything, 3), partial(reduced, job), of_job):
        check(ask())
        check(ask())
        assert ask()[0].frame.equals(everything(rank, 3)[0].frame)
    check(job.reduce_each(everything, {0: (4,)})[0])
    with pytest.raises(ValueError, match="read-only"):
        rank.derive(columns)["some"][0] = 1


class _Sending(ThreadPoolExecutor):
    """Answers are pickled on their way, as those of other processes are."""

    def submit(self, function, /, *args, **kwargs):
        return super().submit(lambda: pickle.loads(pickle.dumps(function(*args, **kwargs))))  # noqa: S301


def test_what_workers_send(tmp_path):
    """What comes from another process is a copy that could be written into."""
    events = [call(0, 5, 1), kernel(10, 5, correlation=1)]
    with _Sending(1) as pool:
        opened = open_job(tmp_path, [events] * 3)
        job = Job(opened.sources, name="three", executor=pool, hold_at_most=1)
        for answer in job.reduce(everything, job.ranks, 3).values():
            check(answer)


def test_what_all_analyses_read(job):
    rank = job.rank(0)
    events, work = rank.trace.events, rank.gpu_work
    shared = [events.start_ns, events.duration_ns, events.name.codes, rank.launches, rank.parents]
    shared += [rank.analysed, rank.launched_ns, work.start_ns, work.end_ns, work.type]
    assert not any(each.flags.writeable for each in shared)
