"""HTA's `Trace`: a frame of events for each rank, made on first access."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec
import numpy as np

from hta_widgets.arrays import Int64Array
from hta_widgets.errors import UnknownRankError
from hta_widgets.hta_trace.symbol_table import TraceSymbolTable
from hta_widgets.lazy_modules import LazyModule
from hta_widgets.names.shorten import plain_name
from hta_widgets.quantities import NS_PER_US
from hta_widgets.trace.job import Job
from hta_widgets.trace.loaders.kineto.categories import CATEGORIES
from hta_widgets.trace.loaders.kineto.decode import decode_fields
from hta_widgets.trace.loaders.kineto.text import EventText
from hta_widgets.trace.model.events import Kind, KindSet
from hta_widgets.trace.model.steps import rows_to_analyse
from hta_widgets.trace.opening.open import open_trace
from hta_widgets.trace.ranks.rank import Rank
from hta_widgets.trace.remote.urls import PathLike, TraceSource, is_url, join_url

if TYPE_CHECKING:
    import pandas as pd

    from hta_widgets.hta_tables import event_columns as tables
else:
    pd = LazyModule("pandas")
    tables = LazyModule("hta_widgets.hta_tables.event_columns")

DEFAULT_TRACE_DIR: Final = "/tmp/trace"  # noqa: S108 - HTA's default

TraceFiles: TypeAlias = Mapping[int, PathLike] | Sequence[PathLike] | PathLike

_LASTING: Final = KindSet(set(Kind) - {Kind.COUNTER, Kind.INSTANT})
"""HTA's frames contain no events without a duration."""


class Trace:
    """The traces of a job as HTA's frames, one for each rank.

    A frame is made on first access, and kept. A job too big to hold all ranks in memory keeps as
    many frames as ranks, the most recently used. You may change a frame: no analysis reads it.

    Parameters
    ----------
    trace_files : mapping of rank to path, list of paths, path, or Job, optional
        All traces of `trace_dir` by default.
    trace_dir : path
        Folder of the traces.

    Attributes
    ----------
    job : Job
    """

    def __init__(
        self, trace_files: TraceFiles | Job | None = None, trace_dir: PathLike = DEFAULT_TRACE_DIR
    ) -> None:
        self.job: Job = (
            trace_files
            if isinstance(trace_files, Job)
            else open_trace(traces_of(trace_files, trace_dir))
        )
        self._symbols = TraceSymbolTable()
        self._frames: dict[int, pd.DataFrame] = {}
        self._as_recorded = False
        self._include_last = self.job.include_last_profiler_step
        self._shorten_names = False

    def __repr__(self) -> str:
        """Name and ranks of the job."""
        return f"Trace({self.job!r})"

    @property
    def traces(self) -> Mapping[int, pd.DataFrame]:
        """Frame of each rank, made on first access; see `get_trace`."""
        return _Frames(self)

    @property
    def trace_files(self) -> dict[int, str]:
        """File of each rank."""
        return {rank: source.name for rank, source in self.job.sources.items()}

    @property
    def meta_data(self) -> dict[int, dict[str, Any]]:
        """Everything in the file of each rank except the events."""
        return {
            rank: dict(each) for rank, each in self.job.reduce(_metadata, self.job.ranks).items()
        }

    @property
    def min_ts(self) -> float:
        """Time in the file (µs) at which ``ts`` is 0; 0 after `parse_traces`."""
        if self._as_recorded or not self.job.ranks:
            return 0.0
        first = self.job.ranks[0]
        origin_ns = self.job.reduce(_origin_in_file_ns, [first])[first]
        return (origin_ns - self.job.offset_ns(first)) / NS_PER_US

    @property
    def symbol_table(self) -> TraceSymbolTable:
        """Numbers of the names and categories of all ranks."""
        for kinds, names in self.job.reduce(_kinds_and_names, self.job.ranks).values():
            self._symbols.add_symbols(CATEGORIES[Kind(kind)] for kind in kinds)
            self._symbols.add_symbols(names)
        return self._symbols

    def codes_of(self, rank: Rank) -> Int64Array:
        """Numbers in `symbol_table` of the names of a rank, then of all categories."""
        return self._symbols.codes_of([*rank.trace.events.name.values, *tables.CATEGORY_NAMES])

    def get_ranks(self) -> list[int]:
        """All ranks, ascending."""
        return list(self.job.ranks)

    def get_trace(self, rank: int) -> pd.DataFrame:
        """Return the analysed events of a rank that have a duration, in file order.

        Parameters
        ----------
        rank : int

        Returns
        -------
        DataFrame
            Indexed by ``index``, the position in the file, so that
            ``df.loc[df["index_correlation"]]`` finds the linked event. HTA's columns: see
            `event_columns`; then one column per performance counter, if there are any, and
            ``device``, ``s_name``, ``s_cat``. Times in µs since the first event of all ranks, or
            as in the file after `parse_traces`.

        Raises
        ------
        UnknownRankError
            If the job lacks the rank.
        """
        if rank not in self.job.ranks:
            raise UnknownRankError.from_ranks([rank], self.job.ranks)
        frame = self._frames.pop(rank, None)
        self._frames[rank] = self._made(rank) if frame is None else frame
        limit = self.job.hold_at_most
        for oldest in [] if limit is None else [*self._frames][:-limit]:
            del self._frames[oldest]
        return self._frames[rank]

    def get_trace_df(self, rank: int) -> pd.DataFrame:
        """Return the same as `get_trace`."""
        return self.get_trace(rank)

    def get_all_traces(self) -> Mapping[int, pd.DataFrame]:
        """Return the frame of each rank, made on first access."""
        return self.traces

    def get_raw_trace_for_one_rank(self, rank: int = 0) -> dict[str, Any]:
        """Return the content of a rank's file: ``traceEvents``, by ``index``, and the rest.

        Raises
        ------
        UnknownRankError
            If the job lacks the rank.
        TraceFormatError
            If its trace is not a Kineto trace.
        """
        (number,) = self.job.select_ranks([rank])
        text, events = EventText(self.job.sources[number].kineto_file), []
        for piece in text:
            fields = decode_fields(piece, text.separator, text.hold_back).events
            events += msgspec.json.decode(msgspec.json.encode(fields))
        return {**_metadata(self.job.rank(number)), "traceEvents": events}

    def get_iterations(self, rank: int | None = None) -> list[int]:
        """Numbers of the ProfilerSteps with events of a rank, by default the first rank."""
        found = self._frame_of(rank)["iteration"].unique().tolist()
        return sorted(number for number in found if number >= 0)

    def get_trace_duration(self, rank: int | None = None) -> float:
        """Time (µs) from the first to the last start of a rank's events; default: first rank."""
        start = self._frame_of(rank)["ts"]
        return float(start.max() - start.min())

    def parse_traces(
        self,
        max_ranks: int = -1,  # noqa: ARG002
        use_multiprocessing: bool = True,  # noqa: ARG002, FBT001, FBT002
        use_memory_profiling: bool = True,  # noqa: ARG002, FBT001, FBT002
    ) -> None:
        """Start over with all events, and times as in the file.

        The parameters exist for HTA's sake and have no effect.
        """
        self._frames.clear()
        self._as_recorded = True

    def align_and_filter_trace(
        self,
        include_last_profiler_step: bool = False,  # noqa: FBT001, FBT002
    ) -> None:
        """Start over with the analysed events, and times since the first event of all ranks."""
        self._frames.clear()
        self._as_recorded = False
        self._include_last = bool(include_last_profiler_step)

    def load_traces(
        self,
        include_last_profiler_step: bool = False,  # noqa: FBT001, FBT002
        use_multiprocessing: bool = True,  # noqa: ARG002, FBT001, FBT002
        use_memory_profiling: bool = True,  # noqa: ARG002, FBT001, FBT002
    ) -> None:
        """Do the same as `align_and_filter_trace`; traces are read on demand.

        `use_multiprocessing` and `use_memory_profiling` exist for HTA's sake and have no effect.
        """
        self.align_and_filter_trace(include_last_profiler_step)

    def decode_symbol_ids(self, use_shorten_name: bool = True) -> None:  # noqa: FBT001, FBT002
        """Shorten ``s_name`` in all frames to names without template arguments and signatures.

        Parameters
        ----------
        use_shorten_name : bool
            False restores the full names, which are the default.
        """
        self._shorten_names = bool(use_shorten_name)
        for frame in self._frames.values():
            self._decode(frame)

    def _frame_of(self, rank: int | None) -> pd.DataFrame:
        return self.get_trace(self.job.ranks[0] if rank is None else rank)

    def _made(self, number: int) -> pd.DataFrame:
        rank = self.job.rank(number)
        rows = self._rows(rank)
        offset_ns = _origin_in_file_ns(rank) if self._as_recorded else self.job.offset_ns(number)
        frame = tables.event_frame(
            {
                **tables.event_columns(rank, rows, self.codes_of(rank), offset_ns),
                **tables.counter_columns(rank, rows),
                "device": rank.trace.events.device[rows].astype(np.int64),
            }
        )
        self._decode(frame)
        return frame.set_index("index", drop=False).rename_axis(None)

    def _rows(self, rank: Rank) -> Int64Array:
        events = rank.trace.events
        kept = _LASTING.among(events.kind)
        if not self._as_recorded:
            kept = kept & (
                rank.analysed
                if self._include_last == self.job.include_last_profiler_step
                and rank.steps.source == "ProfilerStep"
                else rows_to_analyse(
                    events,
                    rank.launches,
                    rank.profiler_steps,
                    include_last_profiler_step=self._include_last,
                )
            )
        rows = np.flatnonzero(kept)
        return rows[np.argsort(events.index[rows], kind="stable")]

    def _decode(self, frame: pd.DataFrame) -> None:
        symbols = self._symbols.sym_table
        shown = map(plain_name, symbols) if self._shorten_names else symbols
        frame["s_name"] = tables.decoded(frame["name"].to_numpy(), [*shown])
        frame["s_cat"] = tables.decoded(frame["cat"].to_numpy(), symbols)


class _Frames(Mapping[int, "pd.DataFrame"]):
    """Frame of each rank."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace

    def __getitem__(self, rank: int) -> pd.DataFrame:
        if rank not in self._trace.job.ranks:
            raise KeyError(rank)
        return self._trace.get_trace(rank)

    def __iter__(self) -> Iterator[int]:
        return iter(self._trace.get_ranks())

    def __len__(self) -> int:
        return len(self._trace.job.ranks)


def _kinds_and_names(rank: Rank) -> tuple[list[int], tuple[str, ...]]:
    events = rank.trace.events
    return np.unique(events.kind).tolist(), events.name.values


def _metadata(rank: Rank) -> Mapping[str, object]:
    return rank.trace.metadata


def _origin_in_file_ns(rank: Rank) -> int:
    """Time of the rank's first event on the clock of its file."""
    return rank.trace.origin_ns - (rank.trace.base_ns or 0)


def traces_of(trace_files: TraceFiles | None, trace_dir: PathLike) -> TraceSource:
    """All traces of the folder, or the given ones.

    Relative paths are looked up in the folder, then in the current directory.
    """
    folder = trace_dir if is_url(trace_dir) else Path(trace_dir).expanduser()

    def locate(path: PathLike) -> PathLike:
        if is_url(path):
            return path
        if is_url(folder):
            return join_url(os.fspath(folder), os.fspath(path))
        inside = Path(folder) / Path(path).expanduser()
        return inside if inside.exists() else Path(path).expanduser()

    if trace_files is None:
        return folder
    if isinstance(trace_files, Mapping):
        return {rank: locate(path) for rank, path in trace_files.items()}
    if isinstance(trace_files, str | os.PathLike):
        return locate(trace_files)
    return [locate(path) for path in trace_files]
