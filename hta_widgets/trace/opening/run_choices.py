"""Say which runs a folder has to choose from, and what to type to open each."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from hta_widgets.errors import RankError
from hta_widgets.names.shorten import in_common
from hta_widgets.quantities import named_numbers, some_of
from hta_widgets.terminal import printable
from hta_widgets.trace.opening.runs import Recording, Run
from hta_widgets.trace.ranks.cycle import utc

_MOST_RUNS: Final = 10
_MOST_RANKS: Final = 5
_MOST_NAMES: Final = 3
_MOST_PATHS: Final = 8
"""Most files that are written out one by one in a line to type."""

_PLAIN: Final = re.compile(r"[\w.+-]+", re.ASCII)
"""Names for which a pattern means the same to a shell and to Python."""

_TIME: Final = re.compile(r"(?<!\d)1\d{9,18}(?!\d)")
_SHORTEST_PART: Final = 3


class SeveralRunsError(RankError):
    """The traces come from several runs, or it is not known which of them belong together."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self._choices = [choice for run in runs for choice in _choices(run)]
        self._without_rank = sum(run.recordings[0].rank is None for run in runs) > 1
        self._reason = (
            f"the traces come from {len(runs)} runs, judging by process, host and size of the job; "
            "open one of them:"
            if len(runs) > 1
            else "the traces have several files of one rank, and neither their times nor the "
            "processes that recorded them say how they are related; open one of them:"
            if len(self._choices) > 1
            else "the traces have several files of one rank, and neither their times nor the "
            "processes that recorded them say which belong together:"
        )
        lines = self._lines(_Choice.in_python, _RANKS_IN_PYTHON, _ONE_OF_EACH_IN_PYTHON)
        super().__init__("\n".join(lines))

    def in_shell(self, command: str) -> list[str]:
        """The choices, each with a line for a shell that repeats the user's command."""
        one_of_each = _ONE_OF_EACH_IN_SHELL.format(command)
        return self._lines(partial(_Choice.in_shell, command=command), _RANKS_IN_SHELL, one_of_each)

    def _lines(self, line: Callable[[_Choice], str], ranks: str, one_of_each: str) -> list[str]:
        choices, lines = self._choices, [self._reason]
        for choice in choices[:_MOST_RUNS]:
            lines += [f"- {about}" for about in choice.about]
            lines.append(f"  {line(choice) if choice.is_whole else one_of_each}")
        if len(choices) > _MOST_RUNS:
            lines.append(f"- and {len(choices) - _MOST_RUNS} more")
        return [*lines, *([ranks] if self._without_rank else [])]


_RANKS_IN_PYTHON: Final = (
    "If they are the ranks of one job, say which is which: open_trace({rank: path, …})"
)
_RANKS_IN_SHELL: Final = (
    "If they are the ranks of one job, put the rank into their names: rank-0.json, rank-1.json, …"
)
_ONE_OF_EACH_IN_PYTHON: Final = "give one file of each rank: open_trace([path, …])"
_ONE_OF_EACH_IN_SHELL: Final = "give one file of each rank: {} FILE …"
_OWN_FOLDER: Final = "move its files to a folder of their own, and open that"


class _Choice(NamedTuple):
    """Something that can be opened."""

    about: list[str]
    """Ranks, time and files; or the files of each rank that has several, if they do not all belong
    together."""
    paths: list[str]
    """Paths, or URLs."""
    folder: str
    """Folder of all the files; empty if there is none, or for a URL."""
    is_whole: bool
    """Whether all files belong together."""

    def in_python(self) -> str:
        if len(self.paths) == 1:
            return f"open_trace({self.paths[0]!r})"
        if pattern := _pattern(self.folder, self.paths):
            return f"open_trace(sorted(pathlib.Path({self.folder!r}).glob({pattern!r})))"
        return f"open_trace({self.paths!r})" if len(self.paths) <= _MOST_PATHS else _OWN_FOLDER

    def in_shell(self, command: str) -> str:
        pattern = _pattern(self.folder, self.paths) if len(self.paths) > 1 else ""
        if pattern and self.folder.isprintable():
            return f"{command} {shlex.quote(self.folder)}/{pattern}"
        if len(self.paths) > _MOST_PATHS or not all(map(str.isprintable, self.paths)):
            return _OWN_FOLDER
        return " ".join([command, *map(shlex.quote, self.paths)])


def _choices(run: Run) -> list[_Choice]:
    """What can be opened of a run: all of it, or each file if no files belong together."""
    if run.cycles is None and len(run.ranks) == 1:
        return [_choice([each], run, is_whole=True) for each in run.recordings]
    return [_choice(run.recordings, run, is_whole=run.cycles is not None)]


def _choice(recordings: Sequence[Recording], run: Run, *, is_whole: bool) -> _Choice:
    paths = [each.source.name for each in recordings]
    is_local = all(each.source.remote is None for each in recordings)
    folders = {os.path.dirname(path) for path in paths} if is_local else set()  # noqa: PTH120
    return _Choice(
        about=[_about(recordings, run)] if is_whole else _doubled(recordings),
        paths=paths,
        folder=(folders.pop() or ".") if len(folders) == 1 else "",
        is_whole=is_whole,
    )


def _doubled(recordings: Sequence[Recording]) -> list[str]:
    """The files of each rank that has several."""
    files: dict[int, list[str]] = {}
    for each in recordings:
        files.setdefault(each.rank or 0, []).append(each.source.name)
    doubled = {rank: names for rank, names in sorted(files.items()) if len(names) > 1}
    lines = [f"rank {rank}: {_some(names)}" for rank, names in doubled.items()]
    more = len(lines) - _MOST_RANKS
    return lines[:_MOST_RANKS] + ([f"and {more} more ranks"] if more > 0 else [])


def _some(names: Sequence[str]) -> str:
    """The first of some names, each on one line."""
    return some_of([*map(printable, names)], _MOST_NAMES)


def _about(recordings: Sequence[Recording], run: Run) -> str:
    """Ranks, time, number of cycles and names of files."""
    ranks = "no rank" if recordings[0].rank is None else named_numbers("rank", run.ranks)
    size = "" if run.world_size is None else f" of {run.world_size:,}"
    cycles = run.cycles if len(recordings) > 1 else None
    many = f"{len(cycles)} cycles" if cycles and len(cycles) > 1 else ""
    known = filter(None, [ranks + size, utc(recordings[0].time_ns), many])
    return f"{', '.join(known)}: {_some([each.name for each in recordings])}"


def _pattern(folder: str, paths: Sequence[str]) -> str:
    """A pattern that matches these names and no others in their folder; empty if there is none."""
    names = [Path(path).name for path in paths]
    if not folder or not all(map(_PLAIN.fullmatch, names)):
        return ""
    start = _common_start(names)
    end = _common_start([name[::-1] for name in names])[::-1]
    times = [found[-1] for name in names if (found := _TIME.findall(name))]
    time = _common_start(times) if len(times) == len(names) else ""
    parts = [
        (start, f"{start}*"),
        (end, f"*{end}"),
        (start and end, f"{start}*{end}"),
        (time, f"*{time}*"),
    ]
    wanted = set(names)
    every = os.listdir(folder)  # noqa: PTH208
    for part, pattern in parts:
        if len(part) < _SHORTEST_PART:
            continue
        if {name for name in every if fnmatchcase(name, pattern)} == wanted:
            return pattern
    return ""


def _common_start(texts: Sequence[str]) -> str:
    """The start that all texts share."""
    first, last = min(texts), max(texts)
    return first[: in_common(first, last)]
