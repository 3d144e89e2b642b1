"""Run tasks in an executor; if it fails, its tasks run elsewhere, so that none is lost."""

from __future__ import annotations

import logging
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor, Future, as_completed
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from hta_widgets.lazy_modules import LazyModule

if TYPE_CHECKING:
    import loky
else:
    loky = LazyModule("loky")

Key = TypeVar("Key")
Answer = TypeVar("Answer")

IDLE_S = 60
"""Seconds without work after which the processes of the default executor exit."""

AHEAD = 2
"""Tasks per worker: one that runs, and one that waits while this process is busy with its own."""

_ONE_THREAD_EACH = {"OPENBLAS_NUM_THREADS": "1"}
"""Importing numpy would start a spinning BLAS thread per CPU, which nothing here needs."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Outcome(Generic[Answer]):
    """Result or error of a task.

    It distinguishes errors of a task from errors of the executor, whatever its type.
    """

    answer: Answer | None
    error: Exception | None


def attempt(function: Callable[..., Answer], *arguments: Any) -> Outcome[Answer]:  # noqa: ANN401
    """Call a function and return its result or error."""
    try:
        return Outcome(function(*arguments), None)
    except Exception as error:  # noqa: BLE001  # raised again by the caller
        return Outcome(None, error)


@cache
def processes_start() -> bool:
    """Whether this Python can start processes, which a browser and some sandboxes do not allow.

    Python for WebAssembly lacks `_multiprocessing`, and a sandbox without shared memory, such as
    that of a serverless function, has no `sem_open`. Both fail in this import, which loky also
    makes.
    """
    try:
        import multiprocessing.synchronize  # noqa: F401, PLC0415  # milliseconds, for many ranks only
    except ImportError:
        return False
    return sys.platform not in {"emscripten", "wasi"}


def cpu_count() -> int:
    """CPUs that this process may use; 1 if it cannot start others and loads all ranks itself."""
    return int(loky.cpu_count()) if processes_start() else 1


def default_executor(**options: bool) -> Executor:
    """Processes of this machine that all jobs share: one per CPU, except for this process's."""
    executor: Executor = loky.get_reusable_executor(
        _worker_count(), timeout=IDLE_S, env=_ONE_THREAD_EACH, **options
    )
    return executor


def fresh_executor() -> Executor:
    """New processes that replace those of the default executor."""
    return default_executor(reuse=False, kill_workers=True)


def _worker_count() -> int:
    return max(1, cpu_count() - 1)


def results(
    function: Callable[..., Answer],
    tasks: Mapping[Key, tuple[Any, ...]],
    executor: Executor | None = None,
    here: Callable[..., Answer] | None = None,
) -> Iterator[tuple[Key, Answer]]:
    """Yield key and result of a function for each task, in any order; earlier ones start first.

    Tasks that `executor` loses (a worker died or ran out of memory, a result could not be sent) are
    run again by new processes of this machine, and tasks that these lose, by this process::

        executor or default_executor --lost tasks--> fresh_executor --lost tasks--> this process

    The function is defined at module level; its first error is raised. Without an executor,
    processes of this machine take tasks from the front, and this process, which would only wait and
    has already imported everything, takes tasks from the back. `here` is what it calls instead of
    the function.
    """
    remaining = dict(tasks)
    here = here or function
    if executor is None:
        yield from _Round(function, here, remaining, default_executor, _worker_count()).answers()
    else:
        yield from _Round(function, here, remaining, lambda: executor).answers()
    if remaining:
        yield from _Round(function, here, remaining, fresh_executor).answers()
    for key in list(remaining):
        yield key, here(*remaining.pop(key))


class _Round(Generic[Key, Answer]):
    """One attempt at the remaining tasks by an executor, with the help of this process.

    Tasks without a result are left in `remaining`. `here` is what this process calls for a task,
    `start` returns the executor. This process runs waiting tasks, too, if the number of `processes`
    of the executor is given.
    """

    def __init__(
        self,
        function: Callable[..., Answer],
        here: Callable[..., Answer],
        remaining: dict[Key, tuple[Any, ...]],
        start: Callable[[], Executor],
        processes: int | None = None,
    ) -> None:
        self._function = function
        self._here = here
        self._remaining = remaining
        self._start = start
        self._processes = processes
        self._waiting = deque(remaining)
        self._running: dict[Future[Outcome[Answer]], Key] = {}
        self._failure: Exception | None = None

    def answers(self) -> Iterator[tuple[Key, Answer]]:
        """Run the tasks; those that the executor loses stay in `remaining`."""
        try:
            while self._waiting or self._running:
                self._submit()
                if self._waiting:
                    key = self._waiting.pop()
                    yield key, self._here(*self._remaining.pop(key))
                    yield from self._collect([future for future in self._running if future.done()])
                else:
                    yield from self._collect(as_completed(self._running))
        finally:
            for future in self._running:
                future.cancel()
        if self._remaining and self._failure:
            _log_failures(len(self._remaining), self._failure)

    @cached_property
    def _executor(self) -> Executor:
        return self._start()

    @property
    def _capacity(self) -> int:
        """Tasks to submit at a time; the last waiting task only goes to an idle process."""
        if self._processes is None:
            return len(self._remaining)
        return self._processes * (AHEAD if len(self._waiting) > 1 else 1)

    def _submit(self) -> None:
        """Submit waiting tasks up to the capacity of the executor."""
        try:
            while self._waiting and len(self._running) < self._capacity:
                key = self._waiting[0]
                future = self._executor.submit(attempt, self._function, *self._remaining[key])
                self._running[future] = self._waiting.popleft()
        except Exception as error:  # noqa: BLE001  # executors differ in what they raise
            self._failure = error
            self._waiting.clear()

    def _collect(self, done: Iterable[Future[Outcome[Answer]]]) -> Iterator[tuple[Key, Answer]]:
        """Yield the results of finished tasks; tasks that the executor lost stay in `remaining`."""
        for future in done:
            key = self._running.pop(future)
            try:
                outcome = future.result()
            except Exception as error:  # noqa: BLE001  # executors differ in what they raise
                self._failure = error
                continue
            if isinstance(outcome.error, MemoryError):  # memory may suffice for fewer at once
                self._failure = outcome.error
                continue
            del self._remaining[key]
            yield key, _unwrap(outcome)


def _unwrap(outcome: Outcome[Answer]) -> Answer:
    if outcome.error is not None:
        raise outcome.error
    return outcome.answer  # type: ignore[return-value]  # there is one unless there is an error


def _log_failures(count: int, failure: Exception) -> None:
    _log.warning(
        "the workers of %d ranks failed (%s: %s); these ranks are processed elsewhere. If memory "
        "ran out, use fewer workers: open_trace(..., executor=...)",
        count,
        type(failure).__name__,
        str(failure).partition("\n")[0],
    )
