"""Errors that hta_widgets raises; each message says what was asked, what exists and what to do."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from numbers import Real

from hta_widgets.quantities import NS_PER_US, named_numbers, number_ranges


class HtaWidgetsError(ValueError):
    """Base of every error that hta_widgets raises on purpose."""

    def in_shell(self, command: str) -> list[str]:  # noqa: ARG002
        """Lines for a user who typed a command, such as ``hta-widgets report``."""
        return [str(self)]

    def _render_traceback_(self) -> list[str]:
        """What IPython shows in place of a traceback: the message says what to do.

        The traceback is kept: ``%debug`` still goes to where the error was raised.
        """
        return [f"{type(self).__name__}: {self}"]


class TraceNotFoundError(HtaWidgetsError):
    """A path does not exist, or a folder holds no trace."""


class TraceFormatError(HtaWidgetsError):
    """A file is not a trace that can be read."""


class UnreadableError(HtaWidgetsError):
    """The system refuses to read a file or folder."""


class WriteError(HtaWidgetsError):
    """The system refuses to write a file."""


class TraceChangedError(HtaWidgetsError):
    """A trace was overwritten after it was opened."""


class OutOfMemoryError(HtaWidgetsError, MemoryError):
    """The memory of the machine, or the share that the process may use, is used up."""

    @classmethod
    def while_doing(cls, what: str, error: MemoryError) -> OutOfMemoryError:
        """Build the message from what was done."""
        detail = f" ({error})" if str(error) else ""
        return cls(
            f"memory ran out while {what}{detail}; open fewer ranks, such as "
            "open_trace(…, ranks=[0]) or ranks=RankSample(4), close other notebooks, or use a "
            "machine with more memory"
        )


class RemoteError(HtaWidgetsError):
    """The file or folder at a URL cannot be fetched."""


class RankError(HtaWidgetsError):
    """The rank of a trace is unknown, or two traces have the same rank."""


class UnknownCycleError(HtaWidgetsError):
    """A requested cycle was not recorded."""


class UnknownRankError(HtaWidgetsError):
    """A requested rank is not in the job."""

    @classmethod
    def from_ranks(cls, asked: Iterable[int], available: Sequence[int]) -> UnknownRankError:
        """Build the message from the requested ranks and those of the job."""
        missing = sorted(set(asked) - set(available))
        verb = "is" if len(missing) == 1 else "are"
        return cls(
            f"{named_numbers('rank', missing)} {verb} not in this job; its ranks are "
            f"{number_ranges(available)}"
        )


KEEPS_LAST_STEP = "open_trace(…, include_last_profiler_step=True)"
"""How to keep the last step; a command puts its own option in place of these words."""


class UnknownStepError(HtaWidgetsError):
    """A requested ProfilerStep is not analysed on any of the ranks."""

    @classmethod
    def from_steps(cls, asked: Iterable[int], analysed: Iterable[int]) -> UnknownStepError:
        """Build the message from the requested steps and those that are analysed."""
        steps = set(analysed)
        missing = sorted(set(asked) - steps)
        what = (
            f"step {missing[0]} is" if len(missing) == 1 else f"steps {number_ranges(missing)} are"
        )
        msg = f"{what} not analysed on the selected ranks; "
        if not steps:
            return cls(f"{msg}they have no steps: leave steps out to analyse all time")
        msg += f"their analysed steps are {number_ranges(steps)}"
        if missing[-1] > max(steps):
            msg += f" (the last is left out; {KEEPS_LAST_STEP} keeps it)"
        return cls(msg)


class ParameterError(HtaWidgetsError):
    """An argument has a value that is not allowed."""


def check_choice(name: str, value: object, choices: Iterable[object]) -> None:
    """Raise `ParameterError` unless an argument has one of its values."""
    known = [*choices]
    if value not in known:
        msg = f"{name} must be one of {', '.join(map(repr, known))}, got {value!r}"
        raise ParameterError(msg)


def cutoff_ns(parameter: str, microseconds: float) -> int:
    """Convert a cutoff to whole ns; `ParameterError` if it is negative or not finite.

    Examples
    --------
    >>> cutoff_ns("runtime_cutoff", 2.3)
    2300
    """
    if not math.isfinite(microseconds) or microseconds < 0:
        msg = f"{parameter} must be a time in µs, 0 or more, got {microseconds}"
        raise ParameterError(msg)
    return round(microseconds * NS_PER_US)


def check_least(name: str, value: int, least: int) -> None:
    """Raise `ParameterError` if an argument is less than it may be."""
    if value < least:
        msg = f"{name} must be {least} or more, got {value}"
        raise ParameterError(msg)


class PackageError(HtaWidgetsError, ImportError):
    """A package that hta_widgets needs is missing, or is installed but cannot be imported."""

    @classmethod
    def from_import(cls, package: str, error: ImportError) -> PackageError:
        """Build the message from what importing a package raised.

        pip installs pyarrow 26 and later together with numpy 1.26, because these versions do not
        declare that they need numpy 2.
        """
        name = package.partition(".")[0]
        wanted = f"{name}<26" if name == "pyarrow" and "numpy" in str(error).lower() else name
        return cls(f"{name} cannot be imported ({error}); pip install '{wanted}'")


def unreadable_path(path: object, error: Exception) -> UnreadableError:
    """Error for a path that the system refuses to read."""
    words = getattr(error, "strerror", None) or error
    return UnreadableError(
        f"{path} cannot be read ({words}); check that it exists and that you may read it"
    )


@contextmanager
def os_errors_as_ours(path: object = None) -> Iterator[None]:
    """Replace errors of the system with one that names the file and what to do.

    `path` is what is being read, in case the system's error does not name it.
    """
    try:
        yield
    except OSError as error:
        raise unreadable_path(error.filename or path, error) from error


@contextmanager
def write_errors(target: object) -> Iterator[None]:
    """Replace errors of the system with one that names what it cannot write and what to do."""
    try:
        yield
    except OSError as error:
        msg = (
            f"{target} cannot be written ({error.strerror or error}); "
            "free some space, or write to another folder"
        )
        raise WriteError(msg) from error


@contextmanager
def memory_errors_as_ours(what: str) -> Iterator[None]:
    """Replace an out-of-memory error in a block that does `what`, such as ``reading a.json``."""
    try:
        yield
    except OutOfMemoryError:
        raise
    except MemoryError as error:
        raise OutOfMemoryError.while_doing(what, error) from error


def reason(failure: Exception) -> str:
    """What a widget shows for an exception."""
    if isinstance(failure, MemoryError) and not isinstance(failure, OutOfMemoryError):
        failure = OutOfMemoryError.while_doing("working out what to show", failure)
    known = isinstance(failure, HtaWidgetsError)
    return str(failure) if known else f"{type(failure).__name__}: {failure}"


def whole_numbers(name: str, given: object) -> tuple[int, ...]:
    """The numbers of an argument, each once; empty for None.

    Raises `ParameterError` if it is not a list of whole numbers, such as ``ranks=3``.
    """
    numbers = () if given is None else given
    if not isinstance(numbers, Iterable) or isinstance(numbers, str):
        msg = f"{name} must be a list of numbers such as [{given}], got {given!r}"
        raise ParameterError(msg)
    chosen = tuple(numbers)
    for each in chosen:
        if not (isinstance(each, Real) and float(each).is_integer()):
            msg = f"{name} must be whole numbers, got {each!r}"
            raise ParameterError(msg)
    return tuple(dict.fromkeys(map(int, chosen)))
