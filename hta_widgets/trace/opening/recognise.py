"""Recognise the format of a path by its content."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from hta_widgets.errors import TraceFormatError, TraceNotFoundError
from hta_widgets.quantities import some_of
from hta_widgets.trace.loaders.formats import FORMATS
from hta_widgets.trace.loaders.kineto.format import KINETO
from hta_widgets.trace.loaders.kineto.refusals import SUFFIX as XPLANE_SUFFIX
from hta_widgets.trace.loaders.nsys.format import RECORDINGS
from hta_widgets.trace.model.formats import Format

ARCHIVES: Final = (".zip", ".xz", ".bz2", ".zst", ".tar", ".tar.gz", ".tgz", ".7z")
_OF_CAPTURES: Final = "execution_details.json"
"""What vLLM and SGLang write next to captures of graphs: their batch sizes and modes."""

_NOT_A_TRACE: Final = "{} is not a trace and is left out"
_EMPTY: Final = "{} is empty and is left out"
_PACKED: Final = "{} must be unpacked first and is left out"

WHAT_IS_A_TRACE: Final = f"a trace is {', '.join(each.example for each in FORMATS[:-1])}, or " + (
    FORMATS[-1].example
)


def format_of(path: Path) -> Format | None:
    """Format of a file, or of a folder that is one trace; None for any other folder.

    A file of no other format counts as a PyTorch-profiler trace; if it is none, the loader says
    what is wrong with it.

    Raises `TraceFormatError` if the path is something that is known to be unreadable.
    """
    for each in FORMATS:
        if each != KINETO and each.matches(path):
            return each
    for each in FORMATS:
        each.refuse(path)
    return None if path.is_dir() else KINETO


def traces_in(folder: Path, notices: list[str]) -> tuple[Format, list[Path]]:
    """List the traces in a folder: its files, or its subfolders if no file is a trace.

    Copies that hta_widgets wrote of other traces count only if there are no other traces.

    Raises `TraceNotFoundError` if there is none and `TraceFormatError` if they have different
    formats.
    """
    entries = sorted(folder.iterdir())
    traces = {each: _trace_files(each, entries, notices) for each in FORMATS if each.suffixes}
    if not any(traces.values()):
        traces = {
            each: _trace_folders(each, entries, notices) for each in FORMATS if each.in_folders
        }
    formats = [each for each, paths in traces.items() if paths]
    if not formats:
        _require_readable(entries)
        for each in entries:
            if each.is_dir() or each.name.endswith(KINETO.suffixes):
                format_of(each)  # raises an error that says what the file is, if that is known
        msg = f"{folder} has no trace: {_describe_contents(entries)}; {WHAT_IS_A_TRACE}"
        raise TraceNotFoundError(msg)
    if len(formats) > 1:
        examples = ", ".join(f"{traces[each][0].name} is {each.noun}" for each in formats)
        msg = f"{folder} has traces of different formats ({examples}); give the traces of one job"
        raise TraceFormatError(msg)
    return formats[0], traces[formats[0]]


def _trace_files(form: Format, entries: Iterable[Path], notices: list[str]) -> list[Path]:
    files = [path for path in entries if path.name.endswith(form.suffixes) and path.is_file()]
    files = [path for path in files if path.name != _OF_CAPTURES]
    traces = [file for file in files if _matches(form, file, notices)]
    copies = [file for file in traces if form.is_copy and form.is_copy(file)]
    if copies and len(copies) < len(traces):
        notices.append(f"copies written by hta_widgets are left out: {_list_names(copies)}")
        traces = [file for file in traces if file not in copies]
    return _without_copies_of_hta(traces, notices)


def _without_copies_of_hta(traces: list[Path], notices: list[str]) -> list[Path]:
    """Leave out copies that HTA writes, by default into the folder of the trace.

    HTA's copies have no mark, and have the rank of their trace: a folder with ``rank-0.json.gz``
    and ``rank-0_with_counters.json.gz`` seems to have two traces of rank 0.
    """
    names = {file.name for file in traces}
    copies = [file for file in traces if _copied_by_hta(file.name) & names - {file.name}]
    if not copies:
        return traces
    notices.append(f"copies that HTA wrote of other traces are left out: {_list_names(copies)}")
    return [file for file in traces if file not in copies]


def _copied_by_hta(name: str) -> set[str]:
    """Names of the traces that a file may be a copy of, judging by its name."""
    return {
        name.replace("_with_counters.json", ".json"),
        name.removeprefix("overlaid_critical_path_"),
        name.removeprefix("overlaid_"),
    }


def _matches(form: Format, file: Path, notices: list[str], *, others: bool = False) -> bool:
    """Whether a path is a trace; a notice says why not, unless `others` are to be expected."""
    try:
        is_trace = form.matches(file)
    except OSError as error:
        words = f"{file.name} cannot be read ({error.strerror}) and is left out"
        notices += [words] if words not in notices else []
        return False
    if not (is_trace or others):
        words = _PACKED if file.name.endswith(ARCHIVES) else _NOT_A_TRACE
        if not file.stat().st_size:
            words = _EMPTY
        notices.append(words.format(file.name))
    return is_trace


def _trace_folders(form: Format, entries: Iterable[Path], notices: list[str]) -> list[Path]:
    folders = [path for path in entries if path.is_dir()]
    return [path for path in folders if _matches(form, path, notices, others=True)]


def _require_readable(entries: Iterable[Path]) -> None:
    """Raise the system's error for the first file that cannot be read."""
    for entry in entries:
        if entry.is_file():
            entry.open("rb").close()


def _list_names(paths: Sequence[Path]) -> str:
    return some_of([path.name for path in paths])


def _describe_contents(entries: Sequence[Path]) -> str:
    recordings = [entry for entry in entries if entry.suffix in RECORDINGS]
    if recordings:
        return f"{_list_names(recordings)} must be exported first (nsys export --type sqlite)"
    xplanes = [entry for entry in entries if entry.name.endswith(XPLANE_SUFFIX)]
    if xplanes:
        return f"{_list_names(xplanes)} is an XPlane profile (JAX, TensorFlow, PyTorch/XLA)"
    archives = [entry for entry in entries if entry.name.endswith(ARCHIVES)]
    if archives:
        return f"{_list_names(archives)} must be unpacked first"
    folders = [entry for entry in entries if entry.is_dir() and not entry.name.startswith(".")]
    if folders:
        return f"if its folders ({_list_names(folders)}) contain traces, give one of them"
    json_files = [entry for entry in entries if entry.name.endswith(KINETO.suffixes)]
    empty = [entry for entry in json_files if not entry.stat().st_size]
    if json_files:
        return (
            f"there is nothing in {_list_names(empty)}; copy or export it again"
            if empty
            else f"there are no 'traceEvents' in {_list_names(json_files)}"
        )
    names = f"it has {_list_names(entries)} (to open a trace with another name, give its path)"
    return names if entries else "it is empty"
