"""A question about a rank or a job: a function and its arguments, which also identify it."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import lru_cache, wraps
from typing import Any, Concatenate, Final, NamedTuple, ParamSpec, Protocol, TypeVar, cast

import numpy as np

from hta_widgets.errors import HtaWidgetsError, memory_errors_as_ours

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


LONG: Final = 100
"""Length from which a list that starts with a name or a number is not searched."""


_PLAIN: Final = (str, int, float, Enum)
_WITHOUT_ARRAYS: Final = frozenset({str, int, float, bool, type(None)})
"""Most common types inside answers; asking each for a table or dataclass takes longer."""


def read_only(answer: Answer) -> Answer:
    """Make the arrays inside an answer read-only, and return it.

    A diagnosis once set the first and last entry of an array of step edges that eleven analyses
    share, so their answers depended on whether the diagnosis had run before. The search covers
    arrays and tables, and tuples, lists, mappings and dataclasses that hold them; anything else is
    left as it is.
    """
    if isinstance(answer, np.ndarray):
        answer.flags.writeable = False
    elif answer is None or isinstance(answer, _PLAIN):
        pass
    elif _is_table(answer):
        for block in cast("Any", answer)._mgr.blocks:  # noqa: SLF001  # there is no public way
            read_only(block.values)
    else:
        for each in _inside(answer):
            if type(each) is np.ndarray:  # the usual case, which saves a call
                each.flags.writeable = False
            elif type(each) not in _WITHOUT_ARRAYS:
                read_only(each)
    return answer


def _is_table(answer: object) -> bool:
    """Whether the answer is a pandas table, without importing pandas."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(answer, pandas.DataFrame | pandas.Series)


def _inside(answer: object) -> list[Any]:
    if isinstance(answer, tuple | list):
        is_long = len(answer) > LONG and isinstance(answer[0], str | int | float)
        return [] if is_long else [*answer]
    if isinstance(answer, Mapping):
        return [*answer.values()]
    names = _fields_of(type(answer))  # type: ignore[arg-type]  # classes are hashable
    return [getattr(answer, name) for name in names]


@lru_cache(maxsize=256)
def _fields_of(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind)) if is_dataclass(kind) else ()
