"""One rank of a job: its trace, and what is derived from it, each computed only once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Concatenate, Final, NamedTuple, ParamSpec, TypeVar, cast

import numpy as np

from hta_widgets.arrays import Int8Array, Int32Array, Int64Array, Mask
from hta_widgets.errors import KEEPS_LAST_STEP, HtaWidgetsError
from hta_widgets.intervals import Times
from hta_widgets.quantities import number_ranges
from hta_widgets.trace.cache.derived_columns import Columns, DerivedColumnCache
from hta_widgets.trace.cache.trace_file import LoadedTrace, is_sound
from hta_widgets.trace.model.details import DetailGroup, Details, loaded
from hta_widgets.trace.model.events import GPU_WORK, LAUNCH_CALLS, Kind, SideTable, Trace
from hta_widgets.trace.model.formats import Format, Recorded
from hta_widgets.trace.model.health.lost_work import LostOperators, lost_operators, lost_work
from hta_widgets.trace.model.health.rank_health import RankHealth
from hta_widgets.trace.model.health.taken_out import taken_out
from hta_widgets.trace.model.health.unrecorded_waits import Silences, silences_of, unrecorded_waits
from hta_widgets.trace.model.health.wrong_times import wrong_times
from hta_widgets.trace.model.kernels import MIGRATES, MIGRATES_TO_HOST, PREFETCHING, KernelRules
from hta_widgets.trace.model.links import launch_rows
from hta_widgets.trace.model.nesting import parent_rows
from hta_widgets.trace.model.notices import Notice
from hta_widgets.trace.model.questions import Question, read_only
from hta_widgets.trace.model.server_steps import ServerSteps, server_steps
from hta_widgets.trace.model.steps import (
    StepMarks,
    StepSource,
    mark_names,
    marks_of_steps,
    optimizer_steps,
    profiler_steps,
    range_steps,
    request_steps,
    rows_to_analyse,
)
from hta_widgets.trace.model.training import trains
from hta_widgets.trace.ranks.gpu_work import GpuWork
from hta_widgets.trace.ranks.loading import LAUNCH_ROWS, PARENT_ROWS, read_again
from hta_widgets.trace.ranks.source import RankSource

Answer = TypeVar("Answer")
Arguments = ParamSpec("Arguments")
Derived = TypeVar("Derived", bound=Mapping[str, Any])

NEVER: Final = np.iinfo(np.int64).max
_NO_TIMES: Final = "the trace has counters of kernels, and not when they ran"
_NO_GPU_WORK: Final = "the trace has no GPU work"
_UNMATCHED: Final = (
    "{} of {} GPU operations have no launch in the trace (launched before it began, or by a call "
    "that was not recorded)"
)
_MIGRATES: Final = (
    "{} of {} GPU operations move pages of managed memory as the host or a kernel touches them ({} "
    "to the host): cudaMemPrefetchAsync would move them ahead of time"
)
_PREFETCHES: Final = (
    "{} of {} GPU operations move pages of managed memory, ahead of time by cudaMemPrefetchAsync "
    "or as the host or a kernel touches them ({} to the host)"
)
_UNSURE: Final = (
    "{} of {} GPU operations share their correlation id with calls of several processes, so their "
    "launch is not known: the file seems to be merged from several ranks; open the trace of each "
    "rank instead"
)
_COUNTERS: Final = "{} counter values are only in job.events: no analysis uses them"
_MARKS: Final[Mapping[StepSource, str]] = {
    "ProfilerStep": "ProfilerStep",
    "server": "server step",
    "range": "step range",
    "request": "request",
    "optimizer": "training step",
}
_BY_RANGES: Final = "no ProfilerSteps are recorded: ranges such as '{}' mark the steps"
_NAME_CHARACTERS: Final = 40
_BY_OPTIMIZER: Final = (
    "no ProfilerSteps are recorded: steps last from the end of one step of the optimizer to the "
    "end of the next"
)
_REUSED: Final = (
    "{} of {} GPU operations share their correlation id with several launches, so it is not known "
    "which one launched them"
)


@dataclass(frozen=True)
class RankSettings:
    """The user's choices about reading events; the same for all ranks of a job."""

    kernel_rules: KernelRules = field(default_factory=KernelRules)
    include_last_profiler_step: bool = False

    @property
    def described(self) -> str:
        """The settings as text, equal for equal settings."""
        last = self.include_last_profiler_step
        return f"last step {last}, rules {self.kernel_rules.fingerprint}"


class Lacks(NamedTuple):
    """What a rank lacks because its format does."""

    format: Format
    missing: frozenset[Recorded]

    def among(self, needed: Iterable[Recorded]) -> list[Notice]:
        """Notices about what is needed and lacking; if kernels are lacking, only about these."""
        missing = [each for each in needed if each in self.missing]
        said = [each for each in missing if each is Recorded.KERNELS] or missing
        return [Notice(f"{self.format.noun} has no {each.value}") for each in said]


class Rank:
    """One rank of a job: its trace, and what is derived from it once.

    `remember` keeps an answer as long as the rank is held, `derive` keeps large columns on disk.
    What is small, and asked of many ranks, is for `Job.reduce`, which does not hold these.
    """

    def __init__(
        self,
        stored: LoadedTrace,
        form: Format,
        settings: RankSettings,
        source: RankSource | None = None,
    ) -> None:
        self._stored = stored
        self._source = source
        self.format = form
        self.settings = settings
        self._reads_kept = stored.derived is not None
        self.remembered: dict[Question, object] = {}

    @cached_property
    def _sound(self) -> LoadedTrace:
        """What was loaded, from its source again if the cached data cannot be a trace."""
        stored, source = self._stored, self._source
        if stored.derived is None or source is None or is_sound(stored):
            return stored
        return read_again(source, stored.trace.rank, folder=stored.derived.folder)

    def having(self, stored: LoadedTrace) -> Rank:
        """A rank with other events that reads what it needs from the same source."""
        return Rank(stored, self.format, self.settings, self._source)

    def of_source(self, source: RankSource) -> Rank:
        """The same rank, read with the captures and first step of another source."""
        return Rank(self._stored, self.format, self.settings, source)

    @property
    def _first_step(self) -> int:
        return 0 if self._source is None else self._source.first_step

    @property
    def captures(self) -> tuple[RankSource, ...]:
        """Recordings of the captures of the graphs that it replays."""
        return () if self._source is None else self._source.captures

    @property
    def captures_given(self) -> bool:
        """Whether the user named the captures."""
        return self._source is not None and self._source.captures_given

    @property
    def kept(self) -> DerivedColumnCache | None:
        """Where derived columns are read from; None if none are."""
        return self._stored.derived if self._reads_kept else None

    def forget_kept(self) -> None:
        """Derive all columns again from now on, because the kept ones do not fit together."""
        if not self._reads_kept:
            return
        self._reads_kept = False
        self.remembered.clear()
        for name in {*vars(self)} - {"_sound", "trace"}:
            if isinstance(getattr(type(self), name, None), cached_property):
                delattr(self, name)

    @cached_property
    def trace(self) -> Trace:
        """The trace."""
        return read_only(self._sound.trace)

    def remember(
        self,
        function: Callable[Concatenate[Rank, Arguments], Answer],
        *arguments: Arguments.args,
        **named: Arguments.kwargs,
    ) -> Answer:
        """Return what a function of the rank returns, calling it once in the rank's life.

        Its arguments must be small and hashable.
        """
        question = Question.of(function, arguments, named)
        if question not in self.remembered:
            self.remembered[question] = question.asked_of(self)
        return cast("Answer", self.remembered[question])

    def derive(
        self,
        function: Callable[Concatenate[Rank, Arguments], Derived],
        *arguments: Arguments.args,
        **named: Arguments.kwargs,
    ) -> Derived:
        """Return the columns that a function derives from the rank, and keep large ones on disk.

        The function must be defined at the top of a module, because it is found again by its name.
        Its arguments must be small and hashable, because they are part of the name.
        """
        question = Question.of(function, arguments, named)
        kept_as = f"{question.text}; {self.settings.described}"
        if self._first_step:
            kept_as += f", steps from {self._first_step}"
        columns = cast("Derived | None", self.kept.read(kept_as) if self.kept else None)
        if columns is None:
            columns = cast("Derived", question.asked_of(self))
            if self._stored.derived is not None:
                self._stored.derived.write(kept_as, columns)
        return columns

    def details(self, group: DetailGroup) -> Details:
        """Bulky fields, read once from the source unless loading did, or why they are missing."""
        found = loaded(self.trace.events, group) if group is DetailGroup.MEMORY else None
        if found is not None:  # 22 MB for 280 k allocations, rarely asked for, rebuilt in 10 ms
            return Details(found)
        return self.remember(Rank._read_details, group)

    def has_read(self, group: DetailGroup) -> bool:
        """Whether these fields are already read."""
        if Question.of(Rank._read_details, (group,), {}) in self.remembered:
            return True
        return loaded(self.trace.events, group) is not None

    def _read_details(self, group: DetailGroup) -> Details:
        found = loaded(self.trace.events, group)
        if found is not None:
            return Details(found)
        try:
            columns = dict(self.derive(Rank._detail_columns, group))
        except HtaWidgetsError as error:
            return Details.missing(f"the {group.value} cannot be read: {error}")
        return Details(SideTable(columns.pop("rows"), columns))

    def _detail_columns(self, group: DetailGroup) -> Mapping[str, Any]:
        if self._source is None:
            msg = "the trace was not opened from a file"
            raise HtaWidgetsError(msg)
        table = self._source.details(self.trace, group)
        return {"rows": table.rows, **table.columns}

    @cached_property
    def launches(self) -> Int32Array:
        """Row of the launch call of each event, -1 for none."""
        known = self._sound.links.get(LAUNCH_ROWS)
        return read_only(launch_rows(self.trace.events) if known is None else known)

    @cached_property
    def parents(self) -> Int32Array:
        """Row of the call around each CPU call, -1 for none."""
        known = self._sound.links.get(PARENT_ROWS)
        return read_only(parent_rows(self.trace.events) if known is None else known)

    @cached_property
    def server_steps(self) -> ServerSteps:
        """Steps of an inference server that the CPU recorded; empty for other jobs."""
        found = server_steps(self.trace.events)
        return read_only(replace(found, number=found.number + self._first_step))

    @cached_property
    def profiler_steps(self) -> StepMarks:
        """ProfilerSteps that the CPU recorded."""
        return read_only(profiler_steps(self.trace.events))

    @cached_property
    def steps(self) -> StepMarks:
        """Marks of steps: of the profiler, a server, ranges, requests or an optimizer."""
        events, server, profiler = self.trace.events, self.server_steps, self.profiler_steps
        if len(server):
            return read_only(marks_of_steps(profiler, server, is_training=trains(events)))
        if len(profiler):
            return profiler
        # a request holds more than the steps that it counts, such as what decodes its images
        looks = (range_steps, optimizer_steps) if trains(events) else (request_steps, range_steps)
        found = looks[0](events)
        return read_only(found if len(found) else looks[1](events))

    @cached_property
    def names_of_marks(self) -> Mask:
        """Which names, by code, mark steps: no call is inside these marks (see `mark_names`)."""
        return mark_names(self.trace.events, self.steps)

    @cached_property
    def analysed(self) -> Mask:
        """Mask of the events that pass the step filter."""
        return self.derive(Rank._analysed)["analysed"].view(np.bool_)

    def _analysed(self) -> Columns:
        analysed = rows_to_analyse(
            self.trace.events,
            self.launches,
            self.steps,
            include_last_profiler_step=self.settings.include_last_profiler_step,
        )
        return {"analysed": analysed.view(np.uint8)}

    @cached_property
    def gpu_work(self) -> GpuWork:
        """GPU work that passes the step filter."""
        return self.remember(Rank._analysed_work)

    def _analysed_work(self) -> GpuWork:
        rows, types = self.derive(Rank._gpu_work).values()
        return self._work(rows, types)

    @cached_property
    def left_out_work(self) -> GpuWork:
        """GPU work that does not pass the step filter."""
        rows = self.trace.events.rows_of(*GPU_WORK)
        rows = rows[~self.analysed[rows]]
        types = self.settings.kernel_rules.types(self.trace.events, rows)
        return self._work(rows, types)

    def all_work(self, device: int) -> GpuWork:
        """Work of a device, including steps that are not analysed, which keep it busy, too."""
        return GpuWork.joined(self.analysed_and_left_out(device))

    def analysed_and_left_out(self, device: int) -> list[GpuWork]:
        """Work of a device that passes the step filter, and any work that does not."""
        others = np.flatnonzero(self.left_out_work.device == device)
        left_out = [self.left_out_work.take(others)] if others.size else []
        return [self.gpu_work.by_device()[device], *left_out]

    def _work(self, rows: Int64Array, types: Int8Array) -> GpuWork:
        events = self.trace.events
        return GpuWork(
            rows=rows,
            start_ns=events.start_ns[rows],
            duration_ns=events.duration_ns[rows],
            type=types,
            name=events.name.codes[rows].astype(np.int32),
            device=events.device[rows],
            stream=events.stream[rows],
            launch=self.launches[rows].astype(np.int64),
            names=events.name.values,
        )

    @cached_property
    def launched_ns(self) -> Times:
        """Start of the launch call of each piece of `gpu_work`, `NEVER` if there is none."""
        launch = self.gpu_work.launch
        return read_only(np.where(launch >= 0, self.trace.events.start_ns[launch], NEVER))

    def _gpu_work(self) -> Columns:
        rows = self.trace.events.rows_of(*GPU_WORK)
        rows = rows[self.analysed[rows]]
        return {"rows": rows, "type": self.settings.kernel_rules.types(self.trace.events, rows)}

    @cached_property
    def notices(self) -> tuple[Notice, ...]:
        """What was left out or not matched on this rank."""
        found = (*self.trace.notices, *self._gpu_notices(), *self._step_notices())
        counters = np.count_nonzero(self.trace.events.kind == Kind.COUNTER)
        of_counters = [Notice(_COUNTERS, (int(counters),))] if counters else []
        return (*self.health.notices, *found, *of_counters)

    @cached_property
    def health(self) -> RankHealth:
        """What the recorder got wrong."""
        trace, events = self.trace, self.trace.events
        has_marks = Recorded.OPERATORS in self.format.lacks  # only if a program sets them
        return RankHealth(
            lost=lost_work(events, self.launches, self.parents, self.steps),
            operators=LostOperators() if has_marks else lost_operators(events, self.parents),
            faults=trace.faults,
            times=wrong_times(events, self.launches, trace.resolution_ns),
            unsure=self._unsure(),
            taken_out=taken_out(events, self.launches),
            processes=self._processes(),
            waits=unrecorded_waits(self.silences),
        )

    @cached_property
    def silences(self) -> Silences | None:
        """Times in which the host does nothing that is recorded."""
        return silences_of(self.trace.events, self.launches)

    @cached_property
    def lacks(self) -> Lacks:
        """What is not recorded because the format of the trace lacks it."""
        return Lacks(self.format, frozenset(x for x in self.format.lacks if not self._has(x)))

    def lacking(self, needed: Iterable[Recorded]) -> list[Notice]:
        """Notices about what is needed but not recorded because the format lacks it."""
        return self.lacks.among(needed)

    def _has(self, what: Recorded) -> bool:
        """Whether NVTX ranges supply what the format lacks."""
        is_operators = what is Recorded.OPERATORS
        return is_operators and bool((self.trace.events.kind == Kind.CPU_OP).any())

    def _gpu_notices(self) -> list[Notice]:
        if self.trace.events.rows_of(Kind.PROFILER_RANGE).size and not len(self.gpu_work):
            return [Notice(_NO_TIMES)]
        if not len(self.gpu_work):
            has_others = bool((self.trace.events.kind == Kind.OTHER).any())
            return [Notice("no GPU work was recognised" if has_others else _NO_GPU_WORK)]
        if Recorded.KERNELS in self.format.lacks:
            return []
        is_alone = self.gpu_work.launch < 0
        moved, to_host = (
            int(np.count_nonzero(is_alone & self.gpu_work.named(pages.search)))
            for pages in (MIGRATES, MIGRATES_TO_HOST)
        )
        unmatched = int(np.count_nonzero(is_alone)) - moved
        unsure = self.health.unsure
        words = _UNSURE if self._has_several_processes else _REUSED
        whole = len(self.gpu_work)
        notices = [
            Notice(_UNMATCHED, (unmatched - unsure, whole)),
            Notice(words, (unsure, whole)),
            Notice(self._words_of_pages, (moved, whole, to_host)),
        ]
        return [each for each in notices if each.counts[0]]

    @property
    def _words_of_pages(self) -> str:
        """Words on pages that move: a program may call already what would move them ahead."""
        events = self.trace.events
        calls = events.rows_of(*LAUNCH_CALLS)
        return _PREFETCHES if events.named(calls, PREFETCHING).any() else _MIGRATES

    @property
    def _has_several_processes(self) -> bool:
        pid = self.trace.events.pid[self.trace.events.rows_of(*LAUNCH_CALLS)]
        return bool((pid != pid[:1]).any())

    def _processes(self) -> int:
        """Number of processes whose calls launch the work; without calls, it is 1."""
        launch = self.gpu_work.launch
        process = self.trace.events.pid[launch[launch >= 0]]
        return int(np.unique(process).size) if (process[:1] != process).any() else 1

    def _unsure(self) -> int:
        """Number of operations without a launch that have several candidates."""
        events = self.trace.events
        ids = events.correlation[self.gpu_work.rows[self.gpu_work.launch < 0]]
        ids = ids[ids >= 0]
        calls = events.rows_of(*LAUNCH_CALLS) if ids.size else ids
        return int(np.isin(ids, events.correlation[calls]).sum())

    def _step_notices(self) -> list[Notice]:
        distinct = self.steps.distinct
        found = []
        if distinct and self.steps.source == "optimizer":
            found = [Notice(_BY_OPTIMIZER)]
        elif distinct and self.steps.source == "range":
            (name,) = self.trace.events.names_at(self.steps.rows[:1])
            name = name[:_NAME_CHARACTERS].replace("{", "(").replace("}", ")")
            found = [Notice(_BY_RANGES.format(name))]
        if len(distinct) < 2 or self.settings.include_last_profiler_step:  # noqa: PLR2004
            return found
        kept = f"steps {number_ranges(distinct[:-1])} are"
        if len(distinct) == 2:  # noqa: PLR2004
            kept = f"step {distinct[0]} is"
        mark = _MARKS[self.steps.source]
        words = (
            f"the last {mark}, {distinct[-1]}, is left out ({{}} events); {kept} analysed "
            f"({KEEPS_LAST_STEP} keeps all)"
        )
        return [*found, Notice(words, (int((~self.analysed).sum()),))]
