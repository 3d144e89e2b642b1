"""Load the output of the Nsight Systems overlap recipe: when computation and communication ran."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import numpy as np

from hta_widgets.arrays import Mask
from hta_widgets.errors import TraceFormatError
from hta_widgets.intervals import Intervals, Times
from hta_widgets.lazy_modules import pa, pc
from hta_widgets.names.shorten import cut_in_the_middle
from hta_widgets.trace.loaders.event_blocks import EventBlocks
from hta_widgets.trace.loaders.parquet_texts import TextBudget, opened_parquet
from hta_widgets.trace.model.events import Kind, Trace
from hta_widgets.trace.model.notices import Notice

FILES = "files.parquet"
_TEXTS: Final = ("OverlapType", "File")
MOST_ROWS = 50_000_000
"""Files with more rows are refused: compressed, any number of rows can take a few bytes."""

_BUSY = {"Compute": ("Compute", "Overlap"), "Communicate": ("Communicate", "Overlap")}
_EMPTY = "Empty"
_TYPES = ("Compute", "Communicate", "Overlap", _EMPTY)
_TIMES = ("start", "end")
_LONGEST_NAME = 100
_LARGEST_DESCRIPTION = 2**20
_LARGEST_NS = 2**61

_TIMELESS_NOTICE = "{} segments without a readable start and end are left out"
_UNKNOWN_NOTICE = (
    f"{{}} segments with an unknown OverlapType (not one of {', '.join(_TYPES)}) are left out of "
    "the busy time"
)
_OVERLAPPING_NOTICE = (
    "{} of {} segments overlap an earlier one; shared time counts once, and as overlap if one "
    "computes and the other communicates"
)
_OUTER_NOTICE = "{} Empty segments before the first or after the last kernel are left out"


class RecipeFiles(NamedTuple):
    """The ranks of a recipe folder."""

    files: list[Path]
    """One file per rank, in the order of ``files.parquet``."""
    missing: list[str]
    """Names in ``files.parquet`` without a file."""


class _Description(msgspec.Struct):
    recipe: str | None = msgspec.field(default=None, name="RecipeName")


class _Segments(NamedTuple):
    start_ns: Times
    end_ns: Times
    of_type: dict[str, Mask]

    def take(self, kept: Mask) -> _Segments:
        of_type = {name: is_type[kept] for name, is_type in self.of_type.items()}
        return _Segments(self.start_ns[kept], self.end_ns[kept], of_type)


def is_recipe_folder(path: Path) -> bool:
    """Whether a folder is the output of the overlap recipe with at least one rank."""
    if not (path / FILES).is_file():
        return False
    try:
        return bool(recipe_files(path).files)
    except TraceFormatError:
        return False


def recipe_files(path: Path) -> RecipeFiles:
    """Find the file of each rank in a folder of the overlap recipe.

    Only files in the folder itself count, whatever paths ``files.parquet`` lists.

    Raises `TraceFormatError` if ``files.parquet`` cannot be read.
    """
    table = _read(path / FILES, ["File"])
    with _name_file_in_errors(path / FILES):
        stems = table.column("File").cast(pa.large_string()).to_pylist()
    there = {file.name: file for file in path.iterdir() if file.is_file()}
    listed = {str(stem): there.get(f"type_{stem}.parquet") for stem in stems}
    return RecipeFiles(
        files=[file for file in listed.values() if file is not None],
        missing=[cut_in_the_middle(stem, _LONGEST_NAME) for stem in listed if listed[stem] is None],
    )


def recipe_name(path: Path) -> str | None:
    """Name of the Nsight Systems recipe that wrote a folder; None if it is not recorded."""
    for file in sorted(path.glob("*.nsys-analysis")):
        try:
            with file.open("rb") as opened:
                text = opened.read(_LARGEST_DESCRIPTION)
            found = msgspec.json.decode(text, type=_Description).recipe
        except (OSError, msgspec.MsgspecError, ValueError, RecursionError):
            continue
        if found:
            return cut_in_the_middle(found, _LONGEST_NAME)
    return None


def load_nsys_recipe(
    path: Path, rank: int, on_read: Callable[[int], object] | None = None
) -> Trace:
    """Load one ``type_*.parquet`` of the overlap recipe.

    Time in which any kernel computes becomes ``Compute`` events, and time in which any kernel
    communicates becomes ``Communicate`` events; both include what the recipe calls ``Overlap``.
    ``Empty`` is the time between them. The origin is the start of the first kernel, in ns since the
    start of the recipe's session, which all ranks share.

    `on_read` is called with the number of bytes of the file. Raises `TraceFormatError` if it is not
    such a file.
    """
    segments, notices = _keep_readable(_segments(path))
    blocks = EventBlocks()
    for name, types in _BUSY.items():
        wanted = np.logical_or.reduce([segments.of_type[each] for each in types])
        busy = Intervals.union(segments.start_ns[wanted], segments.end_ns[wanted])
        names = [name] * len(busy)
        blocks.add(Kind.BUSY, busy.starts, busy.ends - busy.starts, names, pid=0, tid=0)
    events, first_ns = blocks.finish()
    if on_read:
        on_read(path.stat().st_size)
    return Trace(
        rank=rank,
        source=str(path),
        events=events,
        origin_ns=first_ns,
        metadata={},
        notices=tuple(notices),
    )


def _segments(path: Path) -> _Segments:
    table = _read(path, [*_TIMES, "OverlapType"])
    with _name_file_in_errors(path):
        start_ns, end_ns = (
            table.column(name).cast(pa.int64()).fill_null(-_LARGEST_NS).to_numpy()
            for name in _TIMES
        )
        kinds = table.column("OverlapType")
        if pa.types.is_dictionary(kinds.type):
            kinds = kinds.cast(kinds.type.value_type)
        kinds = kinds.cast(pa.large_binary()).fill_null(b"")
        of_type = {name: pc.equal(kinds, name.encode()).to_numpy() for name in _TYPES}
    return _Segments(start_ns, end_ns, of_type)


def _read(path: Path, columns: list[str]) -> pa.Table:
    with _name_file_in_errors(path), opened_parquet(path, _TEXTS) as file:
        lacking = [name for name in columns if name not in file.schema_arrow.names]
        if lacking:
            msg = f"it has no column {' or '.join(lacking)}"
            raise pa.ArrowInvalid(msg)
        if file.metadata.num_rows > MOST_ROWS:
            msg = f"it has {file.metadata.num_rows:,} rows; the limit is {MOST_ROWS:,}"
            raise pa.ArrowInvalid(msg)
        table = file.read(columns, use_threads=False)
        budget = TextBudget(path)
        for chunk in (each for column in table.columns for each in column.chunks):
            budget.spend(chunk)
        return table


@contextmanager
def _name_file_in_errors(path: Path) -> Iterator[None]:
    """Add the file's name to errors raised while reading it."""
    try:
        yield
    except (OSError, ValueError, TypeError, MemoryError, pa.ArrowException) as error:
        reason = cut_in_the_middle(str(error), 2 * _LONGEST_NAME)
        msg = f"{path} cannot be read as output of the Nsight Systems overlap recipe: {reason}"
        raise TraceFormatError(msg) from error


def _keep_readable(segments: _Segments) -> tuple[_Segments, list[Notice]]:
    """Keep the segments with a valid time and type; notices count the others."""
    start_ns, end_ns, of_type = segments
    count = start_ns.size
    timed = (start_ns <= end_ns) & (start_ns > -_LARGEST_NS) & (end_ns < _LARGEST_NS)
    known = np.logical_or.reduce(list(of_type.values()))
    segments = segments.take(timed & known)
    early = _count_overlapping(segments)
    notices = [
        Notice(_TIMELESS_NOTICE, (count - int(timed.sum()),)),
        Notice(_UNKNOWN_NOTICE, (int((timed & ~known).sum()),)),
        Notice(_OVERLAPPING_NOTICE, (early, segments.start_ns.size)),
        Notice(_OUTER_NOTICE, (_count_outside(segments),)),
    ]
    return segments, [notice for notice in notices if notice.counts[0]]


def _count_overlapping(segments: _Segments) -> int:
    """Number of segments that start before an earlier one ends."""
    order = np.argsort(segments.start_ns, kind="stable")
    reached = np.maximum.accumulate(segments.end_ns[order])
    return int((segments.start_ns[order][1:] < reached[:-1]).sum())


def _count_outside(segments: _Segments) -> int:
    """Number of empty segments before the first or after the last kernel."""
    empty = segments.of_type[_EMPTY]
    if empty.all():
        return 0
    first, last = segments.start_ns[~empty].min(), segments.end_ns[~empty].max()
    return int((empty & ((segments.end_ns <= first) | (segments.start_ns >= last))).sum())
