"""Updates of views after a change: all views are notified first, then each computes once.

They hold one lock, as ipykernel 7 handles messages in parallel to the running cell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from threading import RLock
from typing import Any, Protocol, TypeVar, cast

Method = TypeVar("Method", bound=Callable[..., Any])

PANEL_LOCK = RLock()
"""Held by the thread in which panels compute. There is one lock for all panels because they set
each other's parameters: with one lock per panel, two threads could deadlock."""


def locked(method: Method) -> Method:
    """Decorator: run the method with the lock held."""

    @wraps(method)
    def with_lock(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        with PANEL_LOCK:
            return method(*args, **kwargs)

    return cast("Method", with_lock)


class Updated(Protocol):
    """A view that waits for the end of a change."""

    def _announce(self) -> None:
        """Tell the browser that a newer view is on its way."""

    def _update(self) -> None:
        """Compute, if outdated and visible."""

    def _tell_interrupted(self) -> None:
        """Tell the browser that the view is and remains outdated."""


class Updates:
    """The views that a change outdates, in the order in which they are notified."""

    def __init__(self) -> None:
        self._depth = 0
        self._waiting: dict[Updated, None] = {}

    def ask(self, view: Updated) -> None:
        """Update a view when the change is complete."""
        with self.together():
            self._waiting[view] = None

    @contextmanager
    def together(self) -> Iterator[None]:
        """Treat everything in the block, and in blocks nested in it, as one change.

        After Ctrl-C nothing is computed: the views stay outdated, and the browser is told.
        """
        with PANEL_LOCK:
            self._depth += 1
            try:
                yield
            except Exception:
                self._complete()
                raise
            except BaseException:
                self._interrupt()
                raise
            else:
                self._complete()
            finally:
                self._depth -= 1

    def _complete(self) -> None:
        if self._depth > 1:
            return
        try:
            for view in self._waiting:
                view._announce()  # noqa: SLF001
            while self._waiting:
                view = next(iter(self._waiting))
                view._update()  # noqa: SLF001
                self._waiting.pop(view, None)
        except BaseException:
            self._interrupt()
            raise

    def _interrupt(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for view in waiting:
            view._tell_interrupted()  # noqa: SLF001


UPDATES = Updates()
"""The updates of the kernel, shared because panels set each other's parameters."""
