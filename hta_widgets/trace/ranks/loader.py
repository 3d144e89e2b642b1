"""Load or query ranks, several at a time in workers."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from hta_widgets.progress import OnRead
from hta_widgets.trace.cache.files import cache_folder
from hta_widgets.trace.cache.trace_file import LoadedTrace
from hta_widgets.trace.model.questions import Question
from hta_widgets.trace.ranks import cache, workers
from hta_widgets.trace.ranks.loading import load_rank, with_links
from hta_widgets.trace.ranks.rank import Rank, RankSettings
from hta_widgets.trace.ranks.source import RankSource


class RankTask(NamedTuple):
    """One rank for a worker, small enough to send anywhere."""

    source: RankSource
    rank: int
    settings: RankSettings
    folder: Path | None
    """Folder for the rank's Arrow file; a worker without this folder uses its own cache."""


def store_rank(task: RankTask) -> None:
    """Load a rank to store its Arrow file in the folder."""
    load_rank(task.source, task.rank, folder=task.folder)


def hold_rank(task: RankTask) -> LoadedTrace:
    """Load a rank into this process, without storing a file outside the cache."""
    source = task.source.fetch()
    held = with_links(load_rank(source, task.rank))
    if held.derived is None:
        source.drop_copy()
    return held


def reduce_rank(task: RankTask, questions: tuple[Question, ...]) -> list[Any]:
    """Load a rank and answer questions about it."""
    loaded = load_rank(task.source, task.rank, folder=task.folder)
    rank = Rank(loaded, task.source.format, task.settings, task.source)
    return [question.asked_of(rank) for question in questions]


def _reduce_here(
    held: Mapping[int, Rank], task: RankTask, questions: tuple[Question, ...]
) -> list[Any]:
    rank = held.get(task.rank)
    if rank is None:
        return reduce_rank(task, questions)
    return [question.asked_of(rank) for question in questions]


PARALLEL_BYTES: Final = 150 * 2**20
"""Decompressed bytes to read below which starting processes takes longer than it saves."""

INFLATED: Final = 12
"""Typical ratio of a trace's text to its gzip file."""

PACKED: Final = (".gz", ".xz", ".zst")


class RankLoader:
    """Loads ranks of one job in this process or an executor, and stores their Arrow files.

    An executor is used whenever there is anything to load; without one, processes of this machine
    are used if that is faster. If not all ranks are held in memory, they are opened again from
    their Arrow files, which are stored even if the cache is off. A progress bar covers the bytes
    that this process fetches from a URL.
    """

    def __init__(
        self,
        settings: RankSettings,
        executor: Executor | None = None,
        *,
        all_held: bool = True,
        progress: bool = False,
    ) -> None:
        self._settings = settings
        self._executor = executor
        self._all_held = all_held
        self._progress = progress

    def load(
        self, sources: Mapping[int, RankSource], on_read: OnRead
    ) -> Iterator[tuple[int, LoadedTrace]]:
        """Load ranks: cached ones immediately, the others in workers if that is faster."""
        waiting: dict[int, RankSource] = {}
        for rank, source in sources.items():
            found = cache.load(source, rank, self._worker_folder(source))
            if found is None:
                waiting[rank] = source
            else:
                on_read(source.size)
                yield rank, found
        if self._executor is None and not self.is_worth_workers(waiting):
            for rank, source in waiting.items():
                fetched = source.fetch(progress=self._progress)
                yield rank, self.load_here(fetched, rank, on_read)
            return
        tasks = {rank: (self._task(waiting[rank], rank),) for rank in biggest_first(waiting)}
        here = hold_rank if self._all_held else store_rank
        for rank, held in workers.results(store_rank, tasks, self._executor, here):
            yield rank, held or self.load_here(waiting[rank], rank)
            on_read(waiting[rank].size)

    def load_here(
        self, source: RankSource, rank: int, on_read: OnRead | None = None
    ) -> LoadedTrace:
        """Load one rank in this process."""
        folder = self._worker_folder(source)
        loaded = load_rank(source, rank, on_read, folder)
        return loaded._replace(derived=None) if folder and self._all_held else loaded

    def ask(
        self,
        sources: Mapping[int, RankSource],
        questions: Mapping[int, tuple[Question, ...]],
        held: Mapping[int, Rank],
        on_read: OnRead,
    ) -> Iterator[tuple[int, list[Any]]]:
        """Answer questions about ranks in the workers that load them, or here if they are held."""
        tasks = {
            rank: (self._task(sources[rank], rank), questions[rank])
            for rank in biggest_first({rank: sources[rank] for rank in questions})
        }
        here = partial(_reduce_here, held)
        for rank, answers in workers.results(reduce_rank, tasks, self._executor, here):
            yield rank, answers
            on_read(sources[rank].size)

    @property
    def has_workers(self) -> bool:
        """Whether loading in other processes can be faster."""
        return self._executor is not None or workers.cpu_count() > 1

    def is_worth_workers(self, sources: Mapping[int, RankSource]) -> bool:
        """Whether these ranks are so much work that other processes save time."""
        in_parallel = len(sources) > 1 and self.has_workers
        return in_parallel and sum(map(inflated_size, sources.values())) >= PARALLEL_BYTES

    def _task(self, source: RankSource, rank: int) -> RankTask:
        folder = cache_folder() if cache.should_cache(source) else self._job_folder
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        located = replace(source, path=source.path.absolute())
        return RankTask(located, rank, self._settings, folder and folder.absolute())

    def _worker_folder(self, source: RankSource) -> Path | None:
        """Folder where a worker may have stored a rank that is not cached."""
        return self.__dict__.get("_job_folder") if not cache.should_cache(source) else None

    @cached_property
    def _job_folder(self) -> Path:
        """Folder that is removed together with the job."""
        folder = Path(tempfile.mkdtemp(prefix="hta_widgets-"))
        remove: Callable[..., object] = shutil.rmtree
        weakref.finalize(self, remove, folder, ignore_errors=True)
        return folder


def biggest_first(sources: Mapping[int, RankSource]) -> list[int]:
    """Ranks by size, so that no process is still busy with a big one when the others are done."""
    return sorted(sources, key=lambda rank: sources[rank].size, reverse=True)


def inflated_size(source: RankSource) -> int:
    """Decompressed bytes to read for a rank; an estimate for compressed files."""
    return source.size * (INFLATED if source.path.suffix in PACKED else 1)
