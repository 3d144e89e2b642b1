"""Do tasks in an executor; one that fails is replaced, and never loses a task."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, Future, as_completed
from dataclasses import dataclass
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
    """Processes of this machine, one per CPU, shared by all jobs."""
    executor: Executor = loky.get_reusable_executor(timeout=IDLE_S)
    return executor


def fresh_executor() -> Executor:
    """Processes that have done nothing yet."""
    executor: Executor = loky.get_reusable_executor(timeout=IDLE_S, reuse=False, kill_workers=True)
    return executor


def results(
    function: Callable[..., Answer],
    tasks: Mapping[Key, tuple[Any, ...]],
    executor: Executor | None = None,
) -> Iterator[tuple[Key, Answer]]:
    """Call a function for each task, in any order.

    Tasks that `executor` loses (a worker died, a result could not be sent) are done again by new
    processes of this machine, and what these lose, here.

    Parameters
    ----------
    function : callable
        Defined at the top of a module.
    tasks : mapping of key to arguments
    executor : Executor, optional
        The processes of this machine when not given.

    Yields
    ------
    key, result

    Raises
    ------
    Exception
        The first that the function raises.
    """
    remaining = dict(tasks)
    for start in ((lambda: executor) if executor else default_executor), fresh_executor:
        yield from _answers(function, remaining, start)
        if not remaining:
            return
    for key in list(remaining):
        yield key, function(*remaining.pop(key))


def _answers(
    function: Callable[..., Answer],
    remaining: dict[Key, tuple[Any, ...]],
    start: Callable[[], Executor],
) -> Iterator[tuple[Key, Answer]]:
    """Take out of `remaining` what the executor answers."""
    futures: dict[Future[Outcome[Answer]], Key] = {}
    lost: Exception | None = None
    try:
        executor = start()
        for key, arguments in remaining.items():
            futures[executor.submit(attempt, function, *arguments)] = key
    except Exception as error:  # noqa: BLE001  # executors differ in what they raise
        lost = error
    try:
        for future in as_completed(futures):
            try:
                outcome = future.result()
            except Exception as error:  # noqa: BLE001  # executors differ in what they raise
                lost = error
                continue
            key = futures[future]
            del remaining[key]
            yield key, _unpacked(outcome)
    finally:
        for future in futures:
            future.cancel()
    if remaining and lost:
        _warn(len(remaining), lost)


def _unpacked(outcome: Outcome[Answer]) -> Answer:
    if outcome.error is not None:
        raise outcome.error
    return outcome.answer  # type: ignore[return-value]  # it is one where there is no error


def _warn(count: int, lost: Exception) -> None:
    _log.warning(
        "%d ranks were lost by their workers (%s: %s) and are done again elsewhere; if memory ran "
        "out, use fewer workers: open_trace(..., executor=...)",
        count,
        type(lost).__name__,
        str(lost).partition("\n")[0],
    )
