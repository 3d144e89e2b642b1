"""A job: the ranks that were traced together, and what is known about all of them.

Analyses are functions of a job, which remembers small answers that combine several ranks. A small
job holds all its ranks. A big one holds those used last, and workers answer questions about the
others.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager, suppress
from copy import copy
from dataclasses import replace
from inspect import unwrap
from operator import index
from threading import RLock
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, cast

import msgspec

from hta_widgets.errors import UnknownRankError, whole_numbers
from hta_widgets.progress import OnRead, byte_bar
from hta_widgets.quantities import counted, named_numbers, number_ranges
from hta_widgets.trace.cache.code_version import EVERYTHING, code_version
from hta_widgets.trace.cache.trace_file import LoadedTrace
from hta_widgets.trace.loaders.freed_memory import return_freed_memory
from hta_widgets.trace.model.formats import Recorded
from hta_widgets.trace.model.kernels import KernelRules
from hta_widgets.trace.model.notices import Notice, merge_notices
from hta_widgets.trace.model.questions import Question, read_only
from hta_widgets.trace.model.server_steps import first_steps
from hta_widgets.trace.ranks.clock import JobClock, origin_of
from hta_widgets.trace.ranks.cycle import Cycle, number_of_cycle
from hta_widgets.trace.ranks.event_table import event_arrow_table, event_frame
from hta_widgets.trace.ranks.facts import (
    ALWAYS_ASKED,
    has_gpu_work,
    health_of,
    lacks_of,
    may_communicate,
    missing_ranks,
    notices_of,
    step_names,
    world_size_of,
)
from hta_widgets.trace.ranks.gpu_work import GpuWork
from hta_widgets.trace.ranks.loader import RankLoader
from hta_widgets.trace.ranks.rank import Rank, RankSettings
from hta_widgets.trace.ranks.recorded_kind import RecordedKind, by_rank, recorded_kind
from hta_widgets.trace.ranks.source import RankSource

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from typing_extensions import Self

Answer = TypeVar("Answer")
Arguments = ParamSpec("Arguments")

ANSWERS_KEPT = 64
"""Most questions whose answers are remembered; each width of time slices is one, for example."""


class Job:
    """The ranks of one job.

    Threads may share it, as a notebook's cells and panels do: one waits while another loads.

    It keeps answers: `reduce` those about each rank, `remember` those about the job, and `recall`
    some on disk. Each rank keeps others: see `Rank`.

    Parameters
    ----------
    sources : mapping of int to RankSource
        Where the trace of each rank is.
    name : str
        Name of the job on screen.
    kernel_rules : KernelRules, optional
    include_last_profiler_step : bool
    notices : iterable of str
        Notices from looking for the ranks.
    executor : Executor, optional
        Loads ranks; by default, processes of this machine.
    hold_at_most : int, optional
        Most ranks to hold at a time, those used last; by default, all.
    progress : bool
        Show a progress bar when an analysis reads many ranks.
    recorded_ranks : iterable of int
        Ranks with a trace in addition to those of `sources`, such as those that were not chosen.
    cycles : sequence of Cycle
        All cycles of these ranks, in order of time; by default, only this one.
    cycle : int
        Number of this cycle among them, from 0.
    open_cycle : callable, optional
        Opens another cycle, given its number.
    """

    def __init__(
        self,
        sources: Mapping[int, RankSource],
        *,
        name: str,
        kernel_rules: KernelRules | None = None,
        include_last_profiler_step: bool = False,
        notices: Iterable[str] = (),
        executor: Executor | None = None,
        hold_at_most: int | None = None,
        progress: bool = False,
        recorded_ranks: Iterable[int] = (),
        cycles: Sequence[Cycle] = (),
        cycle: int = 0,
        open_cycle: Callable[[int], Job] | None = None,
    ) -> None:
        self.name = name
        self.sources = dict(sorted(sources.items()))
        self.settings = RankSettings(kernel_rules or KernelRules(), include_last_profiler_step)
        self.hold_at_most = hold_at_most
        self._progress = progress
        self._loader = RankLoader(
            self.settings, executor, all_held=hold_at_most is None, progress=progress
        )
        self._lock = RLock()
        self._loaded: dict[int, Rank] = {}
        self._given: set[int] = set()
        self._texts: dict[str, str] = {}
        self._reduced: dict[Question, dict[int, Any]] = {}
        self.recorded_ranks = tuple(sorted({*recorded_ranks, *sources}))
        self._opened = frozenset(sources)
        self.cycles = tuple(cycles) or (Cycle(self.sources),)
        self.cycle = cycle
        self._open_cycle = open_cycle
        self._notices = tuple(notices)
        self._remembered: dict[Question, Any] = {}

    @property
    def unopened_ranks(self) -> tuple[int, ...]:
        """Ranks with a trace that were not chosen when the job was opened."""
        return tuple(rank for rank in self.recorded_ranks if rank not in self._opened)

    def __repr__(self) -> str:
        """Name and ranks."""
        return f"Job({self.name!r}, ranks {number_ranges(self.ranks)})"

    @property
    def kinds(self) -> dict[int, RecordedKind]:
        """What the recording of each rank is of."""
        return self.reduce(recorded_kind, self.ranks)

    @property
    def kind(self) -> str:
        """What was recorded, by `KIND_NAMES`: ``training``, ``server``, ``graph capture``, ….

        If ranks differ, it is a list: ``rank 0: server; ranks 1-3: training``.
        """
        return by_rank({rank: each.name for rank, each in self.kinds.items()})

    @property
    def kind_in_words(self) -> str:
        """The kind for a header, such as ``SGLang server``; empty if it is not known."""
        return by_rank({rank: each.words for rank, each in self.kinds.items()})

    @property
    def include_last_profiler_step(self) -> bool:
        """Whether the last ProfilerStep is kept."""
        return self.settings.include_last_profiler_step

    def only(self, ranks: Iterable[int]) -> Job:
        """The same job without its other ranks; it shares the loaded ranks with this one."""
        kept = {*self.select_ranks(ranks)}
        job = copy(self)
        job.sources = {rank: each for rank, each in self.sources.items() if rank in kept}
        job._remembered = {}  # noqa: SLF001
        return job

    def with_like_steps(self) -> Self:
        """Number the steps of a server alike on all ranks whose recordings start apart.

        It is for a job that was just opened, whose ranks are held.
        """
        if len(self.ranks) == 1:
            return self
        names = {rank: each for rank, each in self.reduce(step_names, self.ranks).items() if each}
        first = first_steps(names)
        with self._lock:
            for rank, number in first.items():
                source = self.sources[rank] = replace(self.sources[rank], first_step=number)
                self._loaded[rank] = self._loaded[rank].of_source(source)
            self._reduced.clear()
        later = [rank for rank, number in first.items() if number]
        if later:
            notice = (
                f"the recording of {named_numbers('rank', later)} starts up to "
                f"{counted(max(first.values()), 'step')} later: steps have the numbers of the same "
                "steps on other ranks"
            )
            self._notices = (*self._notices, notice)
        return self

    def open_cycle(self, cycle: int) -> Job:
        """Open another cycle of the same ranks, as this one was opened.

        0 is the oldest, -1 the newest. For its own cycle, the job returns itself. Raises an
        `UnknownCycleError` if there is none.
        """
        number = number_of_cycle(self.cycles, index(cycle))
        if number == self.cycle or self._open_cycle is None:
            return self
        return self._open_cycle(number)

    @property
    def ranks(self) -> tuple[int, ...]:
        """All ranks, ascending."""
        return tuple(self.sources)

    def select_ranks(self, ranks: Iterable[int] | None) -> tuple[int, ...]:
        """Return the given ranks, or all of them for None or an empty list.

        Raises `UnknownRankError` if the job lacks one of them.
        """
        chosen = whole_numbers("ranks", ranks)
        if not self.sources.keys() >= set(chosen):
            raise UnknownRankError.from_ranks(chosen, self.ranks)
        return chosen or self.ranks

    def too_many_to_hold(self, ranks: Iterable[int] | None = None) -> bool:
        """Whether these ranks are too many to hold in memory at once."""
        limit = self.hold_at_most
        return limit is not None and len(self.select_ranks(ranks)) > limit

    def rank(self, rank: int) -> Rank:
        """Return one rank, loading it when it is first asked for."""
        self.select_ranks([rank])
        with self._lock:
            if rank not in self._loaded:
                self._hold(self._loader.load_here(self.sources[rank], rank))
            self._loaded[rank] = self._loaded.pop(rank)
            return self._loaded[rank]

    def add(self, loaded: LoadedTrace) -> None:
        """Use a loaded trace, with what was derived from it, for as long as the job lives."""
        with self._lock:
            self._remembered.clear()
            self._given.add(loaded.trace.rank)
            for known in self._reduced.values():
                known.pop(loaded.trace.rank, None)
            self._hold(loaded)

    def _hold(self, loaded: LoadedTrace) -> None:
        number = loaded.trace.rank
        source = self.sources[number]
        if self.hold_at_most is None and len(self.sources) > 1:
            events = loaded.trace.events.sharing(self._texts)
            loaded = loaded._replace(trace=replace(loaded.trace, events=events))
        is_other = number in self._given and loaded.trace.source != source.name
        held = self._loaded[number] = Rank(
            loaded, source.format, self.settings, None if is_other else source
        )
        if self.hold_at_most is not None:  # the rank may be gone when these are asked
            for question in ALWAYS_ASKED:
                known = self._reduced.setdefault(question, {})
                if number not in known:
                    known[number] = question.asked_of(held)
        evictable = [rank for rank in self._loaded if rank not in self._given]
        surplus = 0 if self.hold_at_most is None else len(evictable) - self.hold_at_most
        for rank in evictable[: max(surplus, 0)]:
            del self._loaded[rank]

    def load(self, ranks: Iterable[int] | None = None, *, progress: bool = True) -> Self:
        """Load ranks that are not loaded yet, with a progress bar over the bytes read."""
        chosen = self.select_ranks(ranks)
        with self._lock:
            missing = {rank: self.sources[rank] for rank in chosen if rank not in self._loaded}
            if missing:
                with self._bar(missing, "Loading", show=progress) as advance:
                    for _, loaded in self._loader.load(missing, advance):
                        self._hold(loaded)
        return self

    def _bar(
        self, ranks: Iterable[int], doing: str, *, show: bool
    ) -> AbstractContextManager[OnRead]:
        total = sum(self.sources[rank].size for rank in ranks)
        return byte_bar(f"{doing} {self.name}", total, show=show)

    def gpu_work(self, rank: int) -> GpuWork:
        """GPU work of one rank that takes part in the analyses."""
        return self.rank(rank).gpu_work

    def reduce(
        self,
        function: Callable[Concatenate[Rank, Arguments], Answer],
        ranks: Iterable[int],
        *arguments: Arguments.args,
        **named: Arguments.kwargs,
    ) -> dict[int, Answer]:
        """Apply a function to each rank and collect small answers, without holding the ranks.

        Loaded ranks answer here, the others in the workers that load them. Answers are remembered
        either way. The function must be defined at the top of a module, so that workers find it.
        Its answers must be small compared with a rank, its arguments small and hashable.
        """
        chosen = self.select_ranks(tuple(ranks))
        question = Question.of(function, arguments, named)
        with self._lock:
            known = self._known(question)
            missing = [rank for rank in chosen if rank not in known]
            self._ask_workers(question, self._away(missing))
            for rank in missing:
                if rank not in known:
                    known[rank] = question.asked_of(self.rank(rank))
            return {rank: cast("Answer", known[rank]) for rank in chosen}

    def reduce_each(
        self,
        function: Callable[Concatenate[Rank, Arguments], Answer],
        arguments: Mapping[int, tuple[Any, ...]],
        *,
        doing: str = "",
    ) -> dict[int, Answer]:
        """Apply a function to each rank as `reduce` does, with separate arguments for each rank.

        The answers are not remembered; `remember` the result that you make of them. `doing` names a
        function that takes long, for a progress bar: workers help with the ranks held here, too.
        """
        chosen = self.select_ranks(arguments) if arguments else ()
        asked = {rank: Question(function, arguments[rank]) for rank in chosen}
        with self._lock:
            away = self._away(chosen) or (self._shared(chosen) if doing else [])
            answers = self._answers_of_workers({rank: (asked[rank],) for rank in away}, doing)
            found = {rank: of_rank[0] for rank, of_rank in answers}
            for rank in asked.keys() - found.keys():
                found[rank] = asked[rank].asked_of(self.rank(rank))
        return {rank: cast("Answer", found[rank]) for rank in chosen}

    def _known(self, question: Question) -> dict[int, Any]:
        """Answers so far to a question; the oldest questions are forgotten."""
        known = self._reduced[question] = self._reduced.pop(question, {})
        for oldest in [*self._reduced][: max(len(self._reduced) - ANSWERS_KEPT, 0)]:
            if oldest not in ALWAYS_ASKED:
                del self._reduced[oldest]
        return known

    def _away(self, ranks: Iterable[int]) -> list[int]:
        """Ranks that workers load and answer for; the others are loaded here."""
        absent = [rank for rank in ranks if rank not in self._loaded]
        if self.hold_at_most is not None and self._loader.has_workers:
            return absent
        if absent and self.hold_at_most is None:
            self.load(absent, progress=self._progress)
        return []

    def _shared(self, ranks: Iterable[int]) -> list[int]:
        """Ranks held here that workers can open again, if there is enough to do for them.

        For 256 small ranks, a diagnosis took 6.2 s in one process, and 4.3 with a second one.
        """
        held = [rank for rank in ranks if rank not in self._given]
        as_opened = {rank: self.sources[rank] for rank in held if self.sources[rank].is_as_opened}
        return [*as_opened] if self._loader.is_worth_workers(as_opened) else []

    def _ask_workers(self, question: Question, ranks: list[int]) -> None:
        """Ask the question, and what every analysis needs to know about a rank."""
        asked = {
            rank: tuple(
                each
                for each in dict.fromkeys((question, *ALWAYS_ASKED))
                if rank not in self._reduced.get(each, {})
            )
            for rank in ranks
        }
        for rank, answers in self._answers_of_workers(asked):
            for each, answer in zip(asked[rank], answers, strict=True):
                self._reduced.setdefault(each, {})[rank] = answer

    def _answers_of_workers(
        self, asked: Mapping[int, tuple[Question, ...]], doing: str = ""
    ) -> Iterator[tuple[int, list[Any]]]:
        if asked:
            with self._bar(asked, doing or "Loading", show=self._progress) as advance:
                for rank, answers in self._loader.ask(self.sources, asked, self._loaded, advance):
                    yield rank, read_only(answers)  # answers sent by a process are writable

    def remember(
        self,
        function: Callable[Concatenate[Job, Arguments], Answer],
        *arguments: Arguments.args,
        **named: Arguments.kwargs,
    ) -> Answer:
        """Return what a function of the job returns, calling it once for these arguments.

        It is for something small that an analysis combines from several ranks. What it derives from
        one rank belongs to that rank (`Rank.remember`). Arguments must be small and hashable.
        """
        question = Question.of(function, arguments, named)
        with self._lock:
            known = self._remembered
            answer = known.pop(question) if question in known else question.asked_of(self)
            known[question] = answer
            for oldest in [*known][:-ANSWERS_KEPT]:
                del known[oldest]
        return cast("Answer", answer)

    def recall(self, function: Callable[[Job], Answer], form: type[Answer]) -> Answer:
        """Return what a function of the job returns, from this or an earlier session.

        If all ranks are held and cached, the answer is kept next to the first rank, as JSON; a file
        that holds anything but the form is ignored. Its key has all that the answer can depend on:
        what was given, the state of all files, and the package's code.
        """
        ranks = [self.rank(each) for each in self.ranks] if self.hold_at_most is None else []
        kept = [each.kept for each in ranks if each.kept and not each.captures]
        if not kept or self._given or len(kept) < len(ranks):
            return function(self)
        ranks_given = (self.ranks, self.recorded_ranks, self.unopened_ranks, self.cycle)
        name = f"{Question(function).text}; {self.settings.described}; {ranks_given}"
        files = [code_version(EVERYTHING), self.name, self._notices, *(each.key for each in kept)]
        made_of = json.dumps(files)
        with suppress(msgspec.MsgspecError):
            return msgspec.json.decode(kept[0].read_text(name, made_of), type=form)
        answer = function(self)
        kept[0].write_text(name, made_of, json.dumps(answer))
        return answer

    def forget(self, function: Callable[..., object]) -> None:
        """Forget what a function returned for the job or any rank; it is computed again when asked.

        It is for answers that are large, quick to compute and seldom asked, and includes jobs with
        some of the ranks (`only`). Their memory returns to the system, in 5 ms.
        """
        function = unwrap(function)  # a function declared `asked_once` is remembered unwrapped
        with self._lock:
            for part in [each for each in self._remembered.values() if isinstance(each, Job)]:
                part.forget(function)
            for known in (self._remembered, *(rank.remembered for rank in self._loaded.values())):
                for question in [each for each in known if each.function == function]:
                    del known[question]
        return_freed_memory()

    def events(self, rank: int) -> pd.DataFrame:
        """Return everything that was recorded on a rank, for questions that no analysis answers.

        Parameters
        ----------
        rank : int

        Returns
        -------
        DataFrame
            One row per event, by start. You may change it. ``index`` (position in the source),
            ``kind``, ``name``, ``start_ns`` (since the first event of all ranks, on the recorded
            clocks), ``duration_ns`` (int64 ns), ``pid``, ``tid``, ``device``, ``stream``,
            ``correlation``; ``launch`` (row of the call that launched it), ``parent`` (row of the
            CPU call around it), ``step`` (ProfilerStep in which it starts or was launched), all -1
            for none; ``analysed`` (whether analyses count it), ``kernel_type``; and fields of only
            some events: ``bytes``, ``bandwidth_gb_per_s``, ``collective``, ``in_elements``,
            ``out_elements``, ``dtype``, ``group``, ``group_size``, ``input_dims``,
            ``input_types``, ``sequence_number`` (-1 or missing for the others).

        Raises
        ------
        UnknownRankError
            If the job lacks the rank.
        """
        return event_frame(self.rank(rank), self.offset_ns(rank))

    def arrow_events(self, rank: int) -> pa.Table:
        """Return the columns of `events` as an Arrow table, with texts as dictionaries."""
        return event_arrow_table(self.rank(rank), self.offset_ns(rank))

    @property
    def clock(self) -> JobClock:
        """Clock on which the ranks are aligned."""
        return JobClock.of(self.reduce(origin_of, self.ranks).values())

    @property
    def origin_ns(self) -> int:
        """Time on the recording clock (ns) from which aligned times of all ranks count."""
        return self.clock.origin_ns

    def offset_ns(self, rank: int) -> int:
        """Time (ns) to add to a rank's own times to align it with the others."""
        return self.offsets_ns([rank])[rank]

    def offsets_ns(self, ranks: Iterable[int]) -> dict[int, int]:
        """Time (ns) to add to each rank's own times to align it with the others."""
        clock, origins = self.clock, self.reduce(origin_of, ranks)
        return {rank: clock.offset_of(origin) for rank, origin in origins.items()}

    @property
    def notices(self) -> tuple[str, ...]:
        """What was dropped, left out or not matched in the whole job."""
        return self.notices_for(self.ranks)

    def holds(self, *needed: Recorded) -> bool:
        """Whether any rank has everything that an analysis needs."""
        by_rank = self.reduce(lacks_of, self.ranks).values()
        return any(not lacks.among(needed) for lacks in by_rank)

    def has_gpu_work(self, ranks: Iterable[int] | None = None) -> bool:
        """Whether any GPU work of the given ranks, or of all, is analysed."""
        return any(self.reduce(has_gpu_work, self.select_ranks(ranks)).values())

    def may_communicate(self) -> bool:
        """Whether any rank communicates, as far as is known; a single GPU does not."""
        return any(self.reduce(may_communicate, self.ranks).values())

    def doubt_of_idle_time(self, ranks: Iterable[int]) -> str:
        """Why what looks idle on some ranks may have been busy; empty if nothing speaks for it."""
        every = self.reduce(health_of, ranks).values()
        return next((each.hides_idle_time for each in every if each.hides_idle_time), "")

    def lacking(self, ranks: Iterable[int], *needed: Recorded) -> tuple[str, ...]:
        """Notices about ranks whose format lacks something that an analysis needs."""
        lacks = self.reduce(lacks_of, ranks)
        return self.merged({rank: each.among(needed) for rank, each in lacks.items()})

    def noticed(
        self, function: Callable[[Rank], tuple[Notice, ...]], ranks: Iterable[int]
    ) -> tuple[str, ...]:
        """Notices that a function returns for each of the ranks, merged across them."""
        return self.merged(self.reduce(function, ranks))

    def merged(self, notices: Mapping[int, Iterable[Notice]]) -> tuple[str, ...]:
        """Notices by rank, merged across ranks; each starts with its ranks if there are several."""
        return tuple(merge_notices(notices, name_ranks=len(self.ranks) > 1))

    def notices_for(self, ranks: Iterable[int], *needed: Recorded) -> tuple[str, ...]:
        """Notices about the given ranks, and what they lack of what is needed; merged."""
        by_rank = self.reduce(notices_of, ranks)
        for rank, origin in self.reduce(origin_of, by_rank).items():
            if origin.base_ns is None:  # only then is the clock of all ranks needed
                by_rank[rank] += self.clock.notices(origin)
        is_whole = len(by_rank) == len(self.ranks)
        sizes = self.reduce(world_size_of, by_rank) if is_whole else {}
        missing = missing_ranks(sizes, self.recorded_ranks)
        lacking = self.lacking(by_rank, *needed) if needed else ()
        return (*self._notices, *missing, *self.merged(by_rank), *lacking)


def select_ranks(job: object, ranks: Iterable[int] | None) -> tuple[int, ...]:
    """The ranks of a job that an analysis is asked for, as `Job.select_ranks` returns them.

    Raises a `TypeError` if the analysis was given something other than a job, such as a path.
    """
    if isinstance(job, Job):
        return job.select_ranks(ranks)
    holds_one = isinstance(getattr(job, "job", None), Job)
    instead = "its attribute job" if holds_one else "open_trace(path)"
    msg = f"an analysis takes a job, got {type(job).__name__}; give it {instead}"
    raise TypeError(msg)
