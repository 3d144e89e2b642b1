"""Whose turn it is: JupyterLab has a thread of its own answer the browser while cells run."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from threading import RLock
from typing import Any, TypeVar, cast

Method = TypeVar("Method", bound=Callable[..., Any])

TURN = RLock()
"""Held by the thread in which panels compute. One for all of them, since panels set each other's
parameters: with a lock each, two threads could wait for one another."""


def in_turn(method: Method) -> Method:
    """Let one thread at a time into the methods that are so marked."""

    @wraps(method)
    def waiting(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        with TURN:
            return method(*args, **kwargs)

    return cast("Method", waiting)
