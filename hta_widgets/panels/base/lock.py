"""The lock that all panels share: ipykernel 7 handles messages in parallel to the running cell."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from threading import RLock
from typing import Any, TypeVar, cast

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
