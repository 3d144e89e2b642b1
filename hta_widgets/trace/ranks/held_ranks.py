"""The ranks of a job: some are held in memory, and workers answer questions about the others.

A small job holds all its ranks. A big one holds those used last, and collects small answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import AbstractContextManager
from dataclasses import replace
from threading import RLock
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, cast

from hta_widgets.errors import UnknownRankError, whole_numbers
from hta_widgets.progress import OnRead, byte_bar
from hta_widgets.trace.cache.trace_file import LoadedTrace
from hta_widgets.trace.model.events import Trace
from hta_widgets.trace.model.questions import Question
from hta_widgets.trace.model.read_only import read_only
from hta_widgets.trace.ranks.facts import ALWAYS_ASKED
from hta_widgets.trace.ranks.gpu_work import GpuWork
from hta_widgets.trace.ranks.loader import RankLoader
from hta_widgets.trace.ranks.rank import Rank, RankSettings
from hta_widgets.trace.ranks.source import RankSource

if TYPE_CHECKING:
    from typing_extensions import Self

Answer = TypeVar("Answer")
Arguments = ParamSpec("Arguments")

ANSWERS_KEPT = 64
"""Most questions whose answers are remembered; each width of time slices is one, for example."""


class HeldRanks:
    """Ranks that are loaded when first asked for; workers answer for ranks that are not loaded.

    Threads may share them: one waits while another loads. The parameters are those of `Job`.
    """

    def __init__(
        self,
        sources: Mapping[int, RankSource],
        *,
        name: str,
        settings: RankSettings,
        executor: Executor | None,
        hold_at_most: int | None,
        progress: bool,
    ) -> None:
        self.name = name
        self.sources = dict(sorted(sources.items()))
        self.settings = settings
        self.hold_at_most = hold_at_most
        self._progress = progress
        self._loader = RankLoader(
            settings, executor, all_held=hold_at_most is None, progress=progress
        )
        self._lock = RLock()
        self._loaded: dict[int, Rank] = {}
        self._given: set[int] = set()
        self._texts: dict[str, str] = {}
        self._reduced: dict[Question, dict[int, Any]] = {}

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

    def add_trace(self, trace: Trace) -> None:
        """Use a trace that is already loaded."""
        self.add(LoadedTrace(trace, {}))

    def add(self, loaded: LoadedTrace) -> None:
        """Use a loaded trace, with what was derived from it, for as long as the job lives."""
        with self._lock:
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

    def _number_steps(self, first_steps: Mapping[int, int]) -> None:
        """Count the steps of a server from other numbers, before anything is asked."""
        with self._lock:
            for rank, number in first_steps.items():
                source = self.sources[rank] = replace(self.sources[rank], first_step=number)
                self._loaded[rank] = self._loaded[rank].of_source(source)
            self._reduced.clear()

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
