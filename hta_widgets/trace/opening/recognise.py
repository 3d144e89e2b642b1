"""Recognise by its content what a path holds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hta_widgets.errors import TraceFormatError, TraceNotFoundError
from hta_widgets.trace.loaders.cupti.load import is_cupti_folder
from hta_widgets.trace.loaders.kineto.mark import is_derived
from hta_widgets.trace.loaders.kineto.text import EventText
from hta_widgets.trace.loaders.nsys.load import gpu_processes, is_nsys_export
from hta_widgets.trace.loaders.nsys.overlap_recipe import (
    is_recipe_folder,
    recipe_files,
    recipe_name,
)
from hta_widgets.trace.loaders.nsys.sqlite import is_sqlite
from hta_widgets.trace.model.formats import TraceFormat
from hta_widgets.trace.opening.rank_numbers import Candidate
from hta_widgets.trace.ranks.source import RankSource

KINETO_SUFFIXES = (".json", ".json.gz", ".gz")
SQLITE_SUFFIXES = (".sqlite", ".sqlite3", ".db")
RECORDINGS = (".nsys-rep", ".qdrep")
_PARQUET_MAGIC = b"PAR1"
_SAID_AT_MOST = 5
_NOT_A_TRACE = "{} is not a trace and is left out"

WHAT_IS_A_TRACE = (
    "a trace is a PyTorch-profiler file (*.json, *.json.gz), an Nsight Systems export (*.sqlite, "
    "or a folder *_pqtdir), a folder of the overlap recipe, or a folder of CUPTI tables "
    "(conc_kernel.csv, cuda_runtime.csv, ...)"
)


def format_of(path: Path) -> TraceFormat | None:
    """Format of a file or of a folder that is one trace; None for a folder of something else.

    Raises
    ------
    TraceFormatError
        If it is known what it is, and that it cannot be read.
    """
    refuse_recording(path)
    if is_nsys_export(path):
        return TraceFormat.NSYS
    if path.is_dir():
        return _format_of_folder(path)
    _refuse_other_database(path)
    return TraceFormat.NSYS_RECIPE if _is_parquet(path) else TraceFormat.KINETO


def candidates_at(path: Path, trace_format: TraceFormat, notices: list[str]) -> list[Candidate]:
    """Find the ranks in one export, recipe folder or folder of tables."""
    if trace_format is TraceFormat.NSYS:
        stem = path.stem if path.is_file() else path.name.removesuffix("_pqtdir")
        return [
            Candidate(RankSource(path, trace_format, process.process), stem, process.devices)
            for process in gpu_processes(path)
        ]
    if trace_format is TraceFormat.NSYS_RECIPE and path.is_dir():
        files, missing = recipe_files(path)
        notices += [f"{name} is listed in files.parquet and missing" for name in missing]
        return [_recipe_candidate(file) for file in files]
    if trace_format is TraceFormat.NSYS_RECIPE:
        return [_recipe_candidate(path)]
    return [Candidate(RankSource(path, trace_format), path.stem)]


def traces_in(folder: Path, notices: list[str]) -> tuple[TraceFormat, list[Path]]:
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
    json_files = [file for file in entries if file.name.endswith(KINETO_SUFFIXES)]
    databases = [file for file in entries if file.suffix in SQLITE_SUFFIXES]
    exports = [file for file in databases if is_nsys_export(file)]
    notices += [_NOT_A_TRACE.format(file.name) for file in databases if file not in exports]
    found = {
        TraceFormat.KINETO: _kineto_files([f for f in json_files if f.is_file()], notices),
        TraceFormat.NSYS: exports,
    }
    if not any(found.values()):
        found = _folders_in(entries)
    formats = [each for each, paths in found.items() if paths]
    if not formats:
        msg = f"{folder} holds no trace: {_what_is_there(entries, json_files)}; {WHAT_IS_A_TRACE}"
        raise TraceNotFoundError(msg)
    if len(formats) > 1:
        examples = ", ".join(f"{found[each][0].name} is {each.value}" for each in formats)
        msg = f"{folder} holds traces of several formats ({examples}); give those of one job"
        raise TraceFormatError(msg)
    return formats[0], found[formats[0]]


def _format_of_folder(path: Path) -> TraceFormat | None:
    if is_recipe_folder(path):
        return TraceFormat.NSYS_RECIPE
    recipe = recipe_name(path)
    if recipe is not None:
        msg = (
            f"{path} is the output of the Nsight Systems recipe {recipe!r}, which holds results, "
            "not events; give the export that it was made from (nsys export --type sqlite), or the "
            "folder of the overlap recipe (files.parquet and type_*.parquet)"
        )
        raise TraceFormatError(msg)
    return TraceFormat.CUPTI_CSV if is_cupti_folder(path) else None


def _folders_in(entries: Sequence[Path]) -> dict[TraceFormat, list[Path]]:
    folders = [entry for entry in entries if entry.is_dir()]
    exports = [folder for folder in folders if is_nsys_export(folder)]
    tables = [folder for folder in folders if is_cupti_folder(folder)]
    return {TraceFormat.NSYS: exports, TraceFormat.CUPTI_CSV: tables}


def refuse_recording(path: Path) -> None:
    """Refuse what only the tools of Nsight Systems read, by its name."""
    if path.suffix in RECORDINGS:
        msg = (
            f"{path} is a recording of Nsight Systems, which only its own tools read; export it: "
            f"nsys export --type sqlite '{path.name}'"
        )
        raise TraceFormatError(msg)


def _refuse_other_database(path: Path) -> None:
    if is_sqlite(path):
        gpu_processes(path)  # says what is wrong with a damaged one
        msg = (
            f"{path} is a SQLite database, but no export of Nsight Systems; "
            "make one with nsys export --type sqlite"
        )
        raise TraceFormatError(msg)


def _is_parquet(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(_PARQUET_MAGIC)) == _PARQUET_MAGIC


def _recipe_candidate(file: Path) -> Candidate:
    return Candidate(RankSource(file, TraceFormat.NSYS_RECIPE), file.stem.removeprefix("type_"))


def _kineto_files(files: Sequence[Path], notices: list[str]) -> list[Path]:
    recorded: list[Path] = []
    derived: list[Path] = []
    for file in files:
        text = EventText(file)
        try:
            text.header()
        except TraceFormatError:
            notices.append(_NOT_A_TRACE.format(file.name))
        else:
            (derived if is_derived(text.head) else recorded).append(file)
    if recorded and derived:
        notices.append(f"copies written by hta_widgets are left out: {_names(derived)}")
    return recorded or derived


def _names(paths: Sequence[Path]) -> str:
    more = f" and {len(paths) - _SAID_AT_MOST} more" if len(paths) > _SAID_AT_MOST else ""
    return f"{', '.join(path.name for path in paths[:_SAID_AT_MOST])}{more}"


def _what_is_there(entries: Sequence[Path], json_files: Sequence[Path]) -> str:
    recordings = [entry for entry in entries if entry.suffix in RECORDINGS]
    if recordings:
        return f"{_names(recordings)} must be exported first (nsys export --type sqlite)"
    folders = [entry for entry in entries if entry.is_dir()]
    if folders:
        return f"give one of its folders, if it holds some ({_names(folders)})"
    if json_files:
        return f"{_names(json_files)} have no 'traceEvents'"
    return f"it has {_names(entries)}" if entries else "it is empty"
