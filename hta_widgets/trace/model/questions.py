"""A question about a rank or a job: a function and its arguments, which also identify it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import wraps
from typing import Any, Concatenate, NamedTuple, ParamSpec, Protocol, TypeVar, cast

from hta_widgets.errors import HtaWidgetsError, memory_errors_as_ours
from hta_widgets.trace.model.read_only import read_only

_log = logging.getLogger(__name__)


class Keeping(Protocol):
    """A subject that may answer with columns kept on disk."""

    @property
    def kept(self) -> object | None:
        """Where the columns are; None if none are read."""

    def forget_kept(self) -> None:
        """Read none from now on, and forget what was made from those already read."""


class Question(NamedTuple):
    """A function to call with a rank or a job, and its further arguments.

    Questions are equal if their functions and arguments are equal, so an answer is found again
    without a unique name that somebody has to invent.
    """

    function: Callable[..., Any]
    """Defined at the top of a module, so that workers find it."""
    arguments: tuple[Hashable, ...] = ()
    """Positional arguments after the rank or job; hashable."""
    named: tuple[tuple[str, Hashable], ...] = ()
    """Keyword arguments."""

    @classmethod
    def of(
        cls, function: Callable[..., Any], arguments: Sequence[Any], named: Mapping[str, Any]
    ) -> Question:
        """Build a question from the arguments of a call."""
        return cls(function, tuple(arguments), tuple(sorted(named.items())))

    @property
    def text(self) -> str:
        """The question in words, which are the same in every process.

        Raises `TypeError` if the function is a lambda or defined inside another function, because
        such names are not unique.
        """
        function = self.function
        if "<" in function.__qualname__:
            msg = (
                f"{function.__qualname__} has no importable name; define it at the top of a module"
            )
            raise TypeError(msg)
        return f"{function.__module__}.{function.__qualname__}{self.arguments}{self.named or ''}"

    def asked_of(self, subject: object) -> Any:  # noqa: ANN401
        """Call the function; call it again without what is kept on disk, if that may be wrong.

        The answer may be shared, so it is read-only.

        Raises `OutOfMemoryError` if memory runs out.
        """
        with memory_errors_as_ours("analysing the traces"):
            return read_only(self._asked_of(subject))

    def _asked_of(self, subject: object) -> Any:  # noqa: ANN401
        named = dict(self.named)
        kept = getattr(subject, "kept", None)
        try:
            return self.function(subject, *self.arguments, **named)
        except HtaWidgetsError:
            raise
        except Exception:
            if kept is None:
                raise
            cast("Keeping", subject).forget_kept()
        answer = self.function(subject, *self.arguments, **named)
        _log.warning("%s could not use the cached data; it is computed again", self.text)
        return answer


class Remembering(Protocol):
    """A rank or a job, which calls each function once and keeps the answer."""

    def remember(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:  # noqa: ANN401
        """Return what the function returned before, or else what it returns now."""


Subject = TypeVar("Subject", bound=Remembering)
Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")


def asked_once(
    function: Callable[Concatenate[Subject, Arguments], Answer],
) -> Callable[Concatenate[Subject, Arguments], Answer]:
    """Make a function of a rank or job be called once per arguments, through ``remember``.

    It is for functions whose answer is always worth keeping. Either pass a default value everywhere
    or nowhere: these are two questions.
    """

    @wraps(function)
    def ask(subject: Subject, /, *arguments: Arguments.args, **named: Arguments.kwargs) -> Answer:
        return cast("Answer", subject.remember(function, *arguments, **named))

    return ask
