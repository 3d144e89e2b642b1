"""A question about a rank or a job: a function and its arguments, which are also its name."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import wraps
from typing import Any, Concatenate, NamedTuple, ParamSpec, Protocol, TypeVar, cast

from hta_widgets.errors import HtaWidgetsError, memory_errors_as_ours
from hta_widgets.trace.model.read_only import read_only

_log = logging.getLogger(__name__)


class Keeping(Protocol):
    """What is asked, if it may answer with columns that were kept on disk."""

    @property
    def kept(self) -> object | None:
        """Where they are; None if none are read."""

    def forget_kept(self) -> None:
        """Read none from now on, and forget what was made of those read so far."""


class Question(NamedTuple):
    """A function, asked of a rank or a job, with its further arguments.

    Questions are equal if their functions and arguments are, so that an answer is found again
    without a name that somebody has to think of and keep apart from others.
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
        """Put a question together from the arguments of a call."""
        return cls(function, tuple(arguments), tuple(sorted(named.items())))

    @property
    def text(self) -> str:
        """The question in words, equal for equal questions of any process.

        Raises `TypeError` if the function is a lambda, or defined in another one: its name may be
        any other's.
        """
        function = self.function
        if "<" in function.__qualname__:
            msg = (
                f"{function.__qualname__} has no importable name; define it at the top of a module"
            )
            raise TypeError(msg)
        return f"{function.__module__}.{function.__qualname__}{self.arguments}{self.named or ''}"

    def asked_of(self, subject: object) -> Any:  # noqa: ANN401
        """Call the function; once more without what was kept on disk, where that may be wrong.

        The answer may be shared, so nobody can write into it.

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
        _log.warning("%s could not use what the cache keeps; it is derived again", self.text)
        return answer


class Remembering(Protocol):
    """A rank or a job, which calls a function of it once."""

    def remember(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:  # noqa: ANN401
        """Return what the function returned of it, or returns now."""


Subject = TypeVar("Subject", bound=Remembering)
Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")


def asked_once(
    function: Callable[Concatenate[Subject, Arguments], Answer],
) -> Callable[Concatenate[Subject, Arguments], Answer]:
    """Have a function of a rank or job called once for the same arguments, by its ``remember``.

    For those whose answer is always worth keeping, whoever asks. Name a default value or leave it
    out everywhere: these are two questions.
    """

    @wraps(function)
    def ask(subject: Subject, /, *arguments: Arguments.args, **named: Arguments.kwargs) -> Answer:
        return cast("Answer", subject.remember(function, *arguments, **named))

    return ask
