"""A job: the ranks that were traced together, loaded when they are first asked for."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import cached_property
from typing import NoReturn, TypeVar, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from tqdm.auto import tqdm

from hta_widgets.errors import UnknownRankError, number_ranges
from hta_widgets.trace.arrow_file import StoredTrace
from hta_widgets.trace.events import GPU_WORK, Kind, Trace
from hta_widgets.trace.formats import Recorded
from hta_widgets.trace.gpu_work import GpuWork
from hta_widgets.trace.kernels import KernelRules
from hta_widgets.trace.links import launch_rows
from hta_widgets.trace.loading import LAUNCHES, PARENTS, load_rank
from hta_widgets.trace.nesting import parent_rows
from hta_widgets.trace.notices import Notice, summed_over_ranks
from hta_widgets.trace.rank_source import RankSource
from hta_widgets.trace.steps import profiler_steps, rows_to_analyse

Built = TypeVar("Built")

PROGRESS_DELAY_S = 0.5
"""Loads that are over sooner show no progress bar."""


class Rank:
    """One rank of a job: its trace, and what is derived from it once."""

    def __init__(
        self,
        loaded: StoredTrace,
        rules: KernelRules,
        *,
        include_last_profiler_step: bool,
    ) -> None:
        self.trace = loaded.trace
        self._links = loaded.links
        self._rules = rules
        self._include_last_step = include_last_profiler_step

    @cached_property
    def launches(self) -> NDArray[np.int64]:
        """Row of the launching call of each event, -1 for none."""
        known = self._links.get(LAUNCHES)
        return launch_rows(self.trace.events) if known is None else known

    @cached_property
    def parents(self) -> NDArray[np.int64]:
        """Row of the call around each call of the CPU, -1 for none."""
        known = self._links.get(PARENTS)
        return parent_rows(self.trace.events) if known is None else known

    @cached_property
    def steps(self) -> pd.DataFrame:
        """ProfilerSteps: ``step``, ``start_ns``, ``end_ns``."""
        return profiler_steps(self.trace.events)

    @cached_property
    def analysed(self) -> NDArray[np.bool_]:
        """Tell which events take part in the analyses (the step filter)."""
        return rows_to_analyse(
            self.trace.events,
            self.launches,
            self.steps,
            include_last_profiler_step=self._include_last_step,
        )

    @cached_property
    def gpu_work(self) -> GpuWork:
        """GPU work that takes part in the analyses."""
        events = self.trace.events
        rows = events.rows_of(*GPU_WORK)
        rows = rows[self.analysed[rows]]
        return GpuWork(
            rows=rows,
            start_ns=events.start_ns[rows],
            duration_ns=events.duration_ns[rows],
            type=self._rules.types(events, rows),
            name=events.name.codes[rows],
            device=events.device[rows],
            stream=events.stream[rows],
            launch=self.launches[rows],
            names=events.name.values,
        )

    @cached_property
    def notices(self) -> tuple[Notice, ...]:
        """What was left out or not matched on this rank."""
        return (*self.trace.notices, *self._gpu_notices(), *self._step_notices())

    def lacking(self, needed: Iterable[Recorded]) -> list[Notice]:
        """Name what is needed and not recorded, since the format of the trace does not hold it."""
        lacks = self.trace.format.lacks
        missing = [each for each in needed if each in lacks and not self._has(each)]
        said = [each for each in missing if each is Recorded.KERNELS] or missing
        return [Notice(f"{self.trace.format.value} holds no {each.value}") for each in said]

    def _has(self, what: Recorded) -> bool:
        """Tell whether NVTX ranges make up for what the format does not hold of its own."""
        if what is Recorded.OPERATORS:
            return bool((self.trace.events.kind == Kind.CPU_OP).any())
        return what is Recorded.PROFILER_STEPS and len(self.steps) > 0

    def _gpu_notices(self) -> list[Notice]:
        if not len(self.gpu_work):
            return [Notice("no GPU work is in the trace")]
        if Recorded.KERNELS in self.trace.format.lacks:
            return []
        unmatched = int((self.gpu_work.launch < 0).sum())
        words = (
            "{} of {} GPU operations have no launch in the trace (launched before it began, or by "
            "a call that was not recorded)"
        )
        return [Notice(words, (unmatched, len(self.gpu_work)))] if unmatched else []

    def _step_notices(self) -> list[Notice]:
        if self.lacking([Recorded.PROFILER_STEPS]):
            words = f"{self.trace.format.value} holds no ProfilerSteps; the whole recording is used"
            return [Notice(words)]
        distinct = sorted(set(self.steps["step"].tolist()))
        if len(distinct) < 2 or self._include_last_step:  # noqa: PLR2004
            return []
        words = (
            f"ProfilerStep {distinct[-1]}, the last, is left out ({{}} events), "
            f"{number_ranges(distinct[:-1])} used (include_last_profiler_step=True keeps all)"
        )
        return [Notice(words, (int((~self.analysed).sum()),))]


class Job:
    """The ranks of one job.

    Parameters
    ----------
    sources : mapping of int to RankSource
        Where the trace of each rank is.
    name : str
        What the job is called on screen.
    kernel_rules : KernelRules, optional
    include_last_profiler_step : bool
    notices : iterable of str
        What was noticed while looking for the ranks.
    """

    def __init__(
        self,
        sources: Mapping[int, RankSource],
        *,
        name: str,
        kernel_rules: KernelRules | None = None,
        include_last_profiler_step: bool = False,
        notices: Iterable[str] = (),
    ) -> None:
        self.name = name
        self.sources = dict(sorted(sources.items()))
        self.kernel_rules = kernel_rules or KernelRules()
        self.include_last_profiler_step = include_last_profiler_step
        self._notices = tuple(notices)
        self._loaded: dict[int, Rank] = {}
        self._remembered: dict[Hashable, object] = {}

    def __repr__(self) -> str:
        """Name and ranks."""
        return f"Job({self.name!r}, ranks {number_ranges(self.ranks)})"

    @property
    def ranks(self) -> tuple[int, ...]:
        """All ranks, ascending."""
        return tuple(self.sources)

    def select_ranks(self, ranks: Iterable[int] | None) -> tuple[int, ...]:
        """Return the given ranks, or all for None or none given.

        Raises
        ------
        UnknownRankError
            If the job lacks one of them.
        """
        chosen = tuple(dict.fromkeys(ranks)) if ranks is not None else ()
        if not self.sources.keys() >= set(chosen):
            raise UnknownRankError.from_ranks(chosen, self.ranks)
        return chosen or self.ranks

    def rank(self, rank: int) -> Rank:
        """Return one rank, loading it when it is first asked for."""
        self.select_ranks([rank])
        if rank not in self._loaded:
            self.add(load_rank(self.sources[rank], rank))
        return self._loaded[rank]

    def add_trace(self, trace: Trace) -> None:
        """Take over a trace that has been loaded already."""
        self.add(StoredTrace(trace, {}))

    def add(self, loaded: StoredTrace) -> None:
        """Take over a trace with what was derived from it."""
        self._loaded[loaded.trace.rank] = Rank(
            loaded,
            self.kernel_rules,
            include_last_profiler_step=self.include_last_profiler_step,
        )

    def load(self, ranks: Iterable[int] | None = None, *, progress: bool = True) -> Job:
        """Load ranks that are not loaded yet, with a progress bar over the bytes read."""
        missing = [rank for rank in self.select_ranks(ranks) if rank not in self._loaded]
        total = sum(self.sources[rank].size for rank in missing)
        with progress_bar(total, self.name, show=progress) as bar:
            for rank in missing:
                self.add(load_rank(self.sources[rank], rank, bar.update))
        return self

    def gpu_work(self, rank: int) -> GpuWork:
        """GPU work of one rank that takes part in the analyses."""
        return self.rank(rank).gpu_work

    def remember(self, key: Hashable, build: Callable[[], Built]) -> Built:
        """Return what was built under the key before, or build it now.

        For what an analysis derives from a rank and no parameter changes.
        """
        if key not in self._remembered:
            self._remembered[key] = build()
        return cast("Built", self._remembered[key])

    @property
    def origin_ns(self) -> int:
        """Time on the recording clock (ns) from which aligned times of all ranks count."""
        return self.remember("origin", self._first_origin_ns)

    def _first_origin_ns(self) -> int:
        traces = [self.rank(rank).trace for rank in self.ranks]
        return min((trace.origin_ns for trace in traces if len(trace.events)), default=0)

    def offset_ns(self, rank: int) -> int:
        """Time (ns) to add to a rank's own times to align it with the others."""
        return self.rank(rank).trace.origin_ns - self.origin_ns

    @property
    def notices(self) -> tuple[str, ...]:
        """What was dropped, left out or not matched in the whole job, in words."""
        return self.notices_for(self.ranks)

    def lacking(self, ranks: Iterable[int], *needed: Recorded) -> tuple[str, ...]:
        """Say which ranks lack what an analysis needs, since their format does not hold it."""
        by_rank = {rank: self.rank(rank).lacking(needed) for rank in ranks}
        return tuple(summed_over_ranks(by_rank, name_ranks=len(self.ranks) > 1))

    def notices_for(self, ranks: Iterable[int]) -> tuple[str, ...]:
        """Notices on the given ranks; one that several ranks share is said once."""
        by_rank = {rank: self.rank(rank).notices for rank in ranks}
        return (*self._notices, *summed_over_ranks(by_rank, name_ranks=len(self.ranks) > 1))


def progress_bar(total_bytes: int, name: str, *, show: bool) -> tqdm[NoReturn]:
    """Progress over the bytes of the files that are read."""
    return tqdm(
        total=total_bytes,
        desc=f"Loading {name}",
        unit="B",
        unit_scale=True,
        unit_divisor=1024,
        leave=False,
        delay=PROGRESS_DELAY_S,
        disable=not show,
    )
