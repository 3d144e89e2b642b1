"""What is kept of a job to compare it with another, much smaller than its traces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import nan
from typing import Any, Final

import numpy as np
import pandas as pd

from hta_widgets.analyses.budget.device_steps import GAPS
from hta_widgets.analyses.collectives import rank_splits
from hta_widgets.analyses.communication.partition import PARTS
from hta_widgets.analyses.memory_use import may_record_memory
from hta_widgets.analyses.memory_use.recorded import recorded_memory
from hta_widgets.diagnosis.analysis import diagnosis
from hta_widgets.diagnosis.change.time_spent import KEYS, TimeSpent, kept_name, time_spent
from hta_widgets.diagnosis.change.work_done import WORK, Amounts
from hta_widgets.diagnosis.report import Diagnosis
from hta_widgets.trace.job import Job
from hta_widgets.trace.model.questions import asked_once
from hta_widgets.trace.ranks.facts import (
    RankRecords,
    rank_records,
    unprofiled_among,
    unprofiled_step_ns,
    world_size_among,
    world_size_of,
)
from hta_widgets.trace.ranks.identity import identity_of
from hta_widgets.trace.ranks.rank import Rank
from hta_widgets.version import __version__

MOST_ROWS: Final = 1_000
"""Most rows of time to keep; smaller rows are summed by operator, module and part."""

MOST_FOLDED: Final = 200
"""Most operators, and most modules, by which smaller rows are summed."""

MOST_KERNELS: Final = 100
"""Kernels whose time is kept by step: those that take the most."""

MOST_STEPS: Final = 25
"""Steps to keep, from the first: more do not make the tests for noise better."""

RUNTIME: Final = "runtime"
"""Key among the versions: ``CUDA`` or ``HIP``, which shows the make of GPUs that are not named."""

SMALLER: Final = "(smaller ones)"

_OF_FINDINGS: Final = (
    *("cause", "ranks", "recoverable_ms", "bound", "percent", "sentence", "confidence"),
)

COLUMNS: Final = tuple(dict.fromkeys((*PARTS[:-1], *GAPS)))
"""Parts into which the time of a step is divided."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Summary:
    """What is kept of a job to compare it."""

    name: str
    environment: dict[str, Any]
    """What jobs must have in common to be compared: ``world_size`` (0 if not stated), ``ranks``
    (analysed), ``gpus`` (names), ``steps_marked``, ``versions``, ``recorded`` (what the traces
    hold), ``hta_widgets``."""
    steps: pd.DataFrame
    """One row per step that counts: ``step``, ``job_ns`` (of the slowest rank), ``period_ns`` and
    `COLUMNS`, which add up to it (ns, sums over the ``ranks`` of the environment)."""
    spent: pd.DataFrame
    """See `TimeSpent.table`; sums over ranks and steps, as many as `rows`."""
    kernels: pd.DataFrame
    """See `TimeSpent.kernels`; sums over ranks."""
    labels: dict[str, str]
    """Names of kernels on screen."""
    findings: tuple[dict[str, Any], ...]
    """`Finding.to_dict` of each finding, without advice and evidence."""
    status: str
    """`Diagnosis.status`."""
    doubts: tuple[str, ...]
    """Why times cannot be trusted, or why there are none."""
    left_out: tuple[int, ...]
    """Steps that do not count, such as warm-up and steps that lack work."""
    lacks: tuple[str, ...]
    """What the traces lack, in words."""
    memory_bytes: int
    """Most memory that any GPU had allocated; -1 if not recorded."""
    work: Amounts
    """What is done in these steps; sums over ranks and steps, as many as `rows`."""
    cpu_step_ns: int = 0
    """Length of the mean step of all ranks on the CPU, if there is no GPU work and steps are
    marked; otherwise 0."""
    unprofiled_step_ns: int = 0
    """Mean length of a step before the profiler ran; 0 if not stated."""
    recordings: tuple[int, ...] = ()
    """Number of steps of each recording, in order, if there are several; see `pooled`."""

    def by_recording(self, values: Sequence[float]) -> list[Sequence[float]]:
        """Split values of the steps by recording."""
        ends = [*accumulate(self.recordings or (len(self.steps),), initial=0)]
        return [values[start:end] for start, end in pairwise(ends)]

    @property
    def rows(self) -> int:
        """Number of steps times ranks, by which sums are divided for the mean step."""
        return len(self.steps) * len(self.environment["ranks"])

    @property
    def mean_ns(self) -> int:
        """Length of the mean step of all ranks, rounded."""
        return rounded(int(self.steps["period_ns"].sum()), self.rows)

    def per_second(self, what: str) -> float:
        """How much a rank does per second of its steps; NaN if not stated."""
        return (
            1e9 * self.work[what] / int(self.steps["period_ns"].sum()) if what in self.work else nan
        )

    @property
    def unit(self) -> str:
        """What times refer to, in words."""
        return "per step" if self.environment["steps_marked"] else "of the GPU span"


def rounded(total: int, count: int) -> int:
    """Quotient of whole numbers, rounded; 0 if ``count`` is 0."""
    return (2 * total + count) // (2 * count) if count else 0


@asked_once
def summary(job: Job) -> Summary:
    """Summarise a job; computed once."""
    found = job.remember(diagnosis)
    own = found.counted or job
    numbers = sorted({*found.steps["step"].tolist()})
    counted = [each for each in numbers if each not in found.left_out_steps] or numbers
    counted = counted[:MOST_STEPS]
    splits = rank_splits(own)
    ranks = found.ranks if counted else ()
    answers = own.reduce_each(time_spent, {rank: (splits[rank], (*counted,)) for rank in ranks})
    records = own.reduce(rank_records, own.ranks)
    kernels = _kernels(answers)
    spent = folded([each.table for each in answers.values()])
    named = {*kernels["kernel"], *spent["kernel"]}
    findings = [each.to_dict() for each in found]
    labels = {key: text for each in answers.values() for key, text in each.labels.items()}
    return Summary(
        name=job.name,
        environment=_environment(own, [*ranks], [*records.values()], counted),
        steps=_steps(found, counted),
        spent=spent,
        kernels=kernels,
        labels={key: kept_name(text) for key, text in labels.items() if key in named},
        findings=tuple({name: each[name] for name in _OF_FINDINGS} for each in findings),
        status=found.status,
        # or why there is nothing to diagnose, as in a recording that captures graphs
        doubts=found.health.doubts or (found.finding,) * (found.status == "not_applicable"),
        left_out=tuple(each for each in numbers if each not in counted),
        lacks=tuple(each.lack for each in found.not_recorded),
        memory_bytes=_memory(own),
        work=added([each.work for each in answers.values()]),
        cpu_step_ns=found.cpu_work.step_ns if found.cpu_work is not None else 0,
        unprofiled_step_ns=unprofiled_among(own.reduce(unprofiled_step_ns, own.ranks)),
    )


def added(every: Sequence[Amounts]) -> Amounts:
    """Sum the amounts of several ranks or recordings, leaving out what not all of them state."""
    stated = [name for name in WORK if every and all(name in each for each in every)]
    return {name: sum(each[name] for each in every) for name in stated}


def _steps(found: Diagnosis, counted: list[int]) -> pd.DataFrame:
    kept = found.steps[found.steps["step"].isin(counted)]
    sums = [f"{name}_ns" for name in COLUMNS]
    by_step = kept.groupby("step")
    table = by_step[["period_ns", *sums]].sum()
    table.insert(0, "job_ns", by_step["period_ns"].max())
    table = table.rename(columns={f"{name}_ns": name for name in COLUMNS})
    return table.reset_index().astype(np.int64)


def _summed(tables: list[pd.DataFrame], keys: list[str]) -> pd.DataFrame:
    tables = [each for each in tables if len(each)]
    if not tables:
        columns: dict[str, Any] = {name: pd.Series(dtype=object) for name in keys}
        return pd.DataFrame(columns).assign(count=np.int64(0), time_ns=np.int64(0))
    table = pd.concat(tables).groupby(keys, as_index=False)[["count", "time_ns"]].sum()
    return table.sort_values(["time_ns", *keys], ascending=[False, *(True for _ in keys)])


def folded(tables: list[pd.DataFrame]) -> pd.DataFrame:
    """Keep the largest rows; sum the others to one row for each operator, module or part."""
    table = _summed(tables, [*KEYS])
    kept, rest = [table.iloc[:MOST_ROWS]], table.iloc[MOST_ROWS:]
    for level in range(len(KEYS) - 2, 0, -1):
        if rest.empty:
            break
        keys = [*KEYS[:level]]
        sums = _summed([rest], keys).assign(**dict.fromkeys(KEYS[level:], SMALLER))
        most = MOST_FOLDED if level > 1 else len(sums)
        largest = sums.iloc[:most][keys]
        kept.append(sums.iloc[:most][table.columns.tolist()])
        rest = rest[~pd.MultiIndex.from_frame(rest[keys]).isin(pd.MultiIndex.from_frame(largest))]
    return pd.concat(kept, ignore_index=True)


def _kernels(answers: dict[int, TimeSpent]) -> pd.DataFrame:
    tables = [each.kernels for each in answers.values() if len(each.kernels)]
    if not tables:
        none = pd.DataFrame({"kernel": pd.Series(dtype=object)})
        return none.assign(step=np.int64(0), count=np.int64(0), total_ns=np.int64(0))
    table = pd.concat(tables).groupby(["kernel", "step"], as_index=False)[["count", "total_ns"]]
    sums = table.sum()
    largest = sums.groupby("kernel")["total_ns"].sum().nlargest(MOST_KERNELS).index
    return sums[sums["kernel"].isin(largest)].reset_index(drop=True)


def versions_of(rank: Rank) -> tuple[tuple[str, str], ...]:
    """Versions of what recorded the trace, as far as it states them, and the runtime called."""
    metadata, calls = rank.trace.metadata, rank.trace.events.name.values
    names = ("pytorch_version", "torch_version", "cuda_runtime_version", "cuda_driver_version")
    known = [(name, metadata.get(name)) for name in names]
    launches = [name for name in calls if "Launch" in name]
    runtimes = ("HIP", "CUDA")
    known += [
        (RUNTIME, word)
        for word in runtimes
        if any(name.startswith(word.lower()) for name in launches)
    ][:1]
    return tuple((name, str(value)[:40]) for name, value in known if value is not None)


def _environment(
    job: Job, ranks: list[int], records: list[RankRecords], counted: list[int]
) -> dict[str, Any]:
    gpus = {name for each in job.reduce(identity_of, job.ranks).values() for name in each.gpus}
    versions = dict(pair for each in job.reduce(versions_of, job.ranks).values() for pair in each)
    return {
        "world_size": world_size_among(job.reduce(world_size_of, job.ranks)),
        "ranks": ranks,
        "gpus": sorted(kept_name(name) for name in gpus),
        "steps_marked": bool(counted) and min(counted) >= 0,
        "versions": versions,
        "recorded": {
            name: all(getattr(each, name) for each in records)
            for name in ("kernels", "host_code", "frames", "memory", "collectives")
        },
        "hta_widgets": __version__,
    }


def _memory(job: Job) -> int:
    if not may_record_memory(job):
        return -1
    return max(job.reduce(_most_allocated, job.ranks).values(), default=-1)


def _most_allocated(rank: Rank) -> int:
    """The same for one rank, without what `memory_use` finds about its owners."""
    on_gpus = (each for each in recorded_memory(rank) if not each.is_of_cpu)
    return max((int(each.allocated.max()) for each in on_gpus), default=-1)
