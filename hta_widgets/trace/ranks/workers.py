"""Do tasks in an executor; one that fails is replaced, and never loses a task."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor, Future, as_completed
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from hta_widgets.lazy_modules import LazyModule

if TYPE_CHECKING:
    import loky
else:
    loky = LazyModule("loky")

Key = TypeVar("Key")
Answer = TypeVar("Answer")

IDLE_S = 60
"""Seconds after which the processes of the default executor end when there is nothing to do."""

AHEAD = 2
"""Tasks that a worker is given: one to do, one to go on with while this process is at its own."""

_ONE_THREAD_EACH = {"OPENBLAS_NUM_THREADS": "1"}
"""Importing numpy starts a thread per CPU that spins for a while, and nothing here needs them."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Outcome(Generic[Answer]):
    """What a task gave, or the error that it raised.

    So errors of a task are told from errors of the executor, whichever executor it is.
    """

    answer: Answer | None
    error: Exception | None


def attempt(function: Callable[..., Answer], *arguments: Any) -> Outcome[Answer]:  # noqa: ANN401
    """Call a function and return what it returns or raises."""
    try:
        return Outcome(function(*arguments), None)
    except Exception as error:  # noqa: BLE001  # it is raised where the task came from
        return Outcome(None, error)


def cpu_count() -> int:
    """CPUs that this process may use."""
    return int(loky.cpu_count())


def default_executor() -> Executor:
    """Processes of this machine, shared by all jobs: one per CPU but that of this process."""
    executor: Executor = loky.get_reusable_executor(_others(), timeout=IDLE_S, env=_ONE_THREAD_EACH)
    return executor


def fresh_executor() -> Executor:
    """Processes that have done nothing yet."""
    executor: Executor = loky.get_reusable_executor(
        _others(), timeout=IDLE_S, env=_ONE_THREAD_EACH, reuse=False, kill_workers=True
    )
    return executor


def _others() -> int:
    return max(1, cpu_count() - 1)


def results(
    function: Callable[..., Answer],
    tasks: Mapping[Key, tuple[Any, ...]],
    executor: Executor | None = None,
    here: Callable[..., Answer] | None = None,
) -> Iterator[tuple[Key, Answer]]:
    """Call a function for each task, in any order, the first ones first.

    Tasks that `executor` loses (a worker died, a result could not be sent) are done again by new
    processes of this machine, and what these lose, here.

    Parameters
    ----------
    function : callable
        Defined at the top of a module.
    tasks : mapping of key to arguments
    executor : Executor, optional
        When not given, processes of this machine begin with the first tasks and, meanwhile, this
        one with the last: it would only wait, and has all imported that they still have to.
    here : callable, optional
        What this process calls instead of the function, for the tasks that it does.

    Yields
    ------
    key, result

    Raises
    ------
    Exception
        The first that the function raises.
    """
    remaining = dict(tasks)
    here = here or function
    if executor is None:
        yield from _Round(function, here, remaining, default_executor, _others()).answers()
    else:
        yield from _Round(function, here, remaining, lambda: executor).answers()
    if remaining:
        yield from _Round(function, here, remaining, fresh_executor).answers()
    for key in list(remaining):
        yield key, here(*remaining.pop(key))


class _Round(Generic[Key, Answer]):
    """What one executor does of the tasks that remain, and this process beside it.

    Parameters
    ----------
    function, here : callable
        What the executor calls for a task, and what this process does.
    remaining : dict of key to arguments
        What is answered is taken out of it.
    start : callable
        Gives the executor.
    processes : int, optional
        Those of the executor, where this one does what waits; when not given, the executor has all.
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
        self._given: dict[Future[Outcome[Answer]], Key] = {}
        self._lost: Exception | None = None

    def answers(self) -> Iterator[tuple[Key, Answer]]:
        """Do the tasks; those that the executor loses remain."""
        try:
            while self._waiting or self._given:
                self._give()
                if self._waiting:
                    key = self._waiting.pop()
                    yield key, self._here(*self._remaining.pop(key))
                    yield from self._taken([future for future in self._given if future.done()])
                else:
                    yield from self._taken(as_completed(self._given))
        finally:
            for future in self._given:
                future.cancel()
        if self._remaining and self._lost:
            _warn(len(self._remaining), self._lost)

    @cached_property
    def _executor(self) -> Executor:
        return self._start()

    @property
    def _room(self) -> int:
        """Tasks that the executor is to have: the last that waits only where a process is idle."""
        if self._processes is None:
            return len(self._remaining)
        return self._processes * (AHEAD if len(self._waiting) > 1 else 1)

    def _give(self) -> None:
        """Let the executor have as many tasks as it should."""
        try:
            while self._waiting and len(self._given) < self._room:
                key = self._waiting[0]
                future = self._executor.submit(attempt, self._function, *self._remaining[key])
                self._given[future] = self._waiting.popleft()
        except Exception as error:  # noqa: BLE001  # executors differ in what they raise
            self._lost = error
            self._waiting.clear()

    def _taken(self, done: Iterable[Future[Outcome[Answer]]]) -> Iterator[tuple[Key, Answer]]:
        """Take what the executor has answered, or lost."""
        for future in done:
            key = self._given.pop(future)
            try:
                outcome = future.result()
            except Exception as error:  # noqa: BLE001  # executors differ in what they raise
                self._lost = error
                continue
            del self._remaining[key]
            yield key, _unpacked(outcome)


def _unpacked(outcome: Outcome[Answer]) -> Answer:
    if outcome.error is not None:
        raise outcome.error
    return outcome.answer  # type: ignore[return-value]  # it is one where there is no error


def _warn(count: int, lost: Exception) -> None:
    _log.warning(
        "the workers of %d ranks failed (%s: %s); these ranks are processed again elsewhere. If "
        "memory ran out, use fewer workers: open_trace(..., executor=...)",
        count,
        type(lost).__name__,
        str(lost).partition("\n")[0],
    )
