"""Recognise by its content what a path holds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from hta_widgets.errors import TraceFormatError, TraceNotFoundError
from hta_widgets.trace.loaders.formats import FORMATS
from hta_widgets.trace.loaders.kineto.format import KINETO
from hta_widgets.trace.loaders.nsys.format import RECORDINGS
from hta_widgets.trace.model.formats import Format

_NAMED_AT_MOST: Final = 5
_NOT_A_TRACE: Final = "{} is not a trace and is left out"

WHAT_IS_A_TRACE: Final = f"a trace is {', '.join(each.example for each in FORMATS[:-1])}, or " + (
    FORMATS[-1].example
)


def format_of(path: Path) -> Format | None:
    """Format of a file or of a folder that is one trace; None for a folder of something else.

    A file that is nothing else is taken for a PyTorch-profiler trace, whose loader says what is
    wrong with it.

    Raises
    ------
    TraceFormatError
        If it is known what it is, and that it cannot be read.
    """
    for each in FORMATS:
        if each is not KINETO and each.holds(path):
            return each
    for each in FORMATS:
        each.refuse(path)
    return None if path.is_dir() else KINETO


def traces_in(folder: Path, notices: list[str]) -> tuple[Format, list[Path]]:
    """List what a folder holds that is a trace: files, and where there are none, folders.

    Traces that hta_widgets has written from others count only where there are no others.

    Raises
    ------
    TraceNotFoundError
        If there are none.
    TraceFormatError
        If they are of several formats.
    """
    entries = sorted(folder.iterdir())
    found = {each: _files_of(each, entries, notices) for each in FORMATS if each.suffixes}
    if not any(found.values()):
        found = {each: _folders_of(each, entries) for each in FORMATS if each.in_folders}
    formats = [each for each, paths in found.items() if paths]
    if not formats:
        msg = f"{folder} has no trace: {_what_is_there(entries)}; {WHAT_IS_A_TRACE}"
        raise TraceNotFoundError(msg)
    if len(formats) > 1:
        examples = ", ".join(f"{found[each][0].name} is {each.noun}" for each in formats)
        msg = f"{folder} has traces of different formats ({examples}); give the traces of one job"
        raise TraceFormatError(msg)
    return formats[0], found[formats[0]]


def _files_of(form: Format, entries: Iterable[Path], notices: list[str]) -> list[Path]:
    files = [path for path in entries if path.name.endswith(form.suffixes) and path.is_file()]
    traces = [file for file in files if form.holds(file)]
    notices += [_NOT_A_TRACE.format(file.name) for file in files if file not in traces]
    copies = [file for file in traces if form.is_copy and form.is_copy(file)]
    if not copies or len(copies) == len(traces):
        return traces
    notices.append(f"copies written by hta_widgets are left out: {_names(copies)}")
    return [file for file in traces if file not in copies]


def _folders_of(form: Format, entries: Iterable[Path]) -> list[Path]:
    return [path for path in entries if path.is_dir() and form.holds(path)]


def _names(paths: Sequence[Path]) -> str:
    surplus = len(paths) - _NAMED_AT_MOST
    more = f" and {surplus} more" if surplus > 0 else ""
    return f"{', '.join(path.name for path in paths[:_NAMED_AT_MOST])}{more}"


def _what_is_there(entries: Sequence[Path]) -> str:
    recordings = [entry for entry in entries if entry.suffix in RECORDINGS]
    if recordings:
        return f"{_names(recordings)} must be exported first (nsys export --type sqlite)"
    folders = [entry for entry in entries if entry.is_dir()]
    if folders:
        return f"if its folders ({_names(folders)}) hold traces, give one of them"
    json_files = [entry for entry in entries if entry.name.endswith(KINETO.suffixes)]
    if json_files:
        return f"{_names(json_files)} have no 'traceEvents'"
    return f"it has {_names(entries)}" if entries else "it is empty"
