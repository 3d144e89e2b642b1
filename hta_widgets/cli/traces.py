"""Traces and ranks given on the command line: paths, URLs without credentials, numbers."""

from __future__ import annotations

import re
import sys
from argparse import ArgumentTypeError
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from hta_widgets.errors import ParameterError, RemoteError, TraceNotFoundError
from hta_widgets.trace.ranks.facts import MOST_RANKS
from hta_widgets.trace.remote.files import RemoteFiles
from hta_widgets.trace.remote.urls import is_url, local_path, name_in, redacted

if TYPE_CHECKING:
    from hta_widgets.diagnosis.change.summary import Summary
    from hta_widgets.trace.job import Job

_RUN: Final = re.compile(r"(\d{1,10})(?:-(\d{1,10}))?", re.ASCII)


class GivenTrace(NamedTuple):
    """An existing trace or folder of traces."""

    source: str
    """The absolute path, or the URL."""
    name: str
    """Name for display."""

    @classmethod
    def from_argument(cls, given: str) -> GivenTrace:
        """Check that the given path or URL exists.

        Raises `TraceNotFoundError` if it does not exist; `RemoteError` if a URL contains
        credentials, or its file system does not respond.
        """
        path = local_path(given) if is_url(given) else Path(given)
        if path is None:
            return cls._remote(given)
        if not path.exists():
            msg = f"{path} does not exist"
            raise TraceNotFoundError(msg)
        return cls(str(path.resolve()), path.resolve().name)

    @classmethod
    def _remote(cls, url: str) -> GivenTrace:
        if redacted(url) != url:
            msg = (
                f"{redacted(url)}: the notebook would store the user, password or query string of "
                "this URL; pass credentials through the environment or the configuration of the "
                "file-system package"
            )
            raise RemoteError(msg)
        RemoteFiles(url).root()
        return cls(url, name_in(url))


def open_given(
    traces: Sequence[str],
    *,
    cycle: int | None,
    captures: str | None = None,
    include_last_profiler_step: bool = False,
) -> Job:
    """Open the traces of one job, with a progress bar on a terminal."""
    from hta_widgets.trace.opening.open import open_trace  # noqa: PLC0415  # needs numpy

    source = traces[0] if len(traces) == 1 else traces
    return open_trace(
        source,
        cycle=cycle,
        captures=captures,
        include_last_profiler_step=include_last_profiler_step,
        progress=sys.stderr.isatty(),
    )


def require_cycle(traces: Sequence[GivenTrace], cycle: int | None) -> None:
    """Raise now, worded for a shell, what would stop the notebook from opening the traces."""
    from hta_widgets.trace.opening.open import find_cycle  # noqa: PLC0415  # needs numpy

    sources = [trace.source for trace in traces]
    if not any(map(is_url, sources)):
        find_cycle(sources[0] if len(sources) == 1 else sources, cycle)


def require_second(later: GivenTrace, cycle: int | None) -> None:
    """Do the same for the traces to compare with, which may be a baseline."""
    if given_baseline(later.source, cycle) is None:
        require_cycle([later], cycle)


def given_baseline(source: str, cycle: int | None) -> Summary | None:
    """Read what traces are compared with, if it is a baseline; None if it is not."""
    from hta_widgets.diagnosis.change.baseline import (  # noqa: PLC0415  # needs numpy
        SUFFIX,
        read_baseline,
    )

    if not source.endswith(SUFFIX):
        return None
    if cycle is not None:
        msg = "a baseline has no cycles: leave out --compare-cycle"
        raise ParameterError(msg)
    return read_baseline(source)


def rank_list(text: str) -> tuple[int, ...]:
    """Read ranks in the form that messages write them.

    Raises `ArgumentTypeError` if the text is something else.

    Examples
    --------
    >>> rank_list("0-2, 12")
    (0, 1, 2, 12)
    """
    ranks: list[int] = []
    for part in text.split(","):
        found = _RUN.fullmatch(part.strip())
        if found is None or len(ranks) > MOST_RANKS:
            raise _unclear(text)
        first, last = int(found[1]), int(found[2] or found[1])
        if not first <= last < first + MOST_RANKS:
            raise _unclear(text)
        ranks += range(first, last + 1)
    return tuple(ranks)


def _unclear(text: str) -> ArgumentTypeError:
    return ArgumentTypeError(f"ranks must be numbers such as 0-7,12, got {text[:80]!r}")
