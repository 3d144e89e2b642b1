"""``hta.common.trace_filter``: each filter takes a frame of a `Trace` and returns some of its rows.

No filter changes the frame, and a result without rows keeps the columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Real
from typing import TYPE_CHECKING, Final

from hta_widgets.errors import ParameterError
from hta_widgets.hta_trace.symbol_table import TraceSymbolTable
from hta_widgets.trace.loaders.kineto.categories import CATEGORIES
from hta_widgets.trace.model.events import Kind

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "CPUOperatorFilter",
    "CompositeFilter",
    "Filter",
    "FirstIterationFilter",
    "GPUKernelFilter",
    "IterationFilter",
    "IterationIndexFilter",
    "MemCopyEventFilter",
    "NameFilter",
    "NameIdColumnFilter",
    "NameStringColumnFilter",
    "QueryFilter",
    "RankFilter",
    "TimeRangeFilter",
    "ZeroDurationFilter",
]

_WAITS: Final = ("Event Sync", "Context Sync")
"""Names of GPU synchronisations that have no stream."""


class Filter:
    """A function from a frame to some of its rows."""

    def __call__(
        self, df: pd.DataFrame, symbol_table: TraceSymbolTable | None = None
    ) -> pd.DataFrame:
        """Return some rows of a frame.

        Parameters
        ----------
        df : DataFrame
        symbol_table : TraceSymbolTable, optional
            Symbol table of the trace, for frames without the column ``s_name``.
        """
        return self._rows(df, symbol_table)

    def _rows(self, df: pd.DataFrame, symbols: TraceSymbolTable | None) -> pd.DataFrame:
        raise NotImplementedError


class _ValuesFilter(Filter):
    """Rows that have one of the given numbers in a column; all rows without such a column."""

    column = ""

    def __init__(self, numbers: int | Iterable[int]) -> None:
        self.numbers = _numbers(numbers)

    def _rows(self, df: pd.DataFrame, _: TraceSymbolTable | None) -> pd.DataFrame:
        return df[df[self.column].isin(self.numbers)] if self.column in df.columns else df


class IterationFilter(_ValuesFilter):
    """Rows in ProfilerSteps with these numbers."""

    column = "iteration"


class RankFilter(_ValuesFilter):
    """Rows of these ranks, in a frame with a column ``rank``."""

    column = "rank"


class IterationIndexFilter(Filter):
    """Rows in the first, second, … ProfilerStep, counted from 0; all rows without steps."""

    def __init__(self, iteration_index: int | Iterable[int]) -> None:
        self.iteration_index = _numbers(iteration_index)

    def _rows(self, df: pd.DataFrame, _: TraceSymbolTable | None) -> pd.DataFrame:
        if "iteration" not in df.columns:
            return df
        steps = sorted(step for step in df["iteration"].unique().tolist() if step >= 0)
        chosen = [steps[place] for place in self.iteration_index if 0 <= place < len(steps)]
        return df[df["iteration"].isin(chosen)] if steps else df


class FirstIterationFilter(IterationIndexFilter):
    """Rows in the first ProfilerStep of the frame."""

    def __init__(self) -> None:
        super().__init__(0)


class TimeRangeFilter(Filter):
    """Events that start and end between two times (µs), inclusive.

    Raises
    ------
    ParameterError
        If the range is not a pair of numbers, the smaller one first.
    """

    def __init__(self, time_range: tuple[float, float]) -> None:
        if len(time_range) != 2 or not all(isinstance(time, Real) for time in time_range):  # noqa: PLR2004
            msg = f"time_range must be a pair of numbers (µs), got {time_range!r}"
            raise ParameterError(msg)
        self.time_start, self.time_end = time_range
        if self.time_start > self.time_end:
            msg = f"time_range must start before it ends, got {time_range!r}"
            raise ParameterError(msg)

    def _rows(self, df: pd.DataFrame, _: TraceSymbolTable | None) -> pd.DataFrame:
        return df[(df["ts"] >= self.time_start) & (df["ts"] + df["dur"] <= self.time_end)]


class NameFilter(Filter):
    """Rows whose name matches a regular expression from the start.

    Parameters
    ----------
    name_pattern : str
    symbol_table : TraceSymbolTable, optional
        For frames in which ``name`` is a number; without it, the column ``s_name`` is used.
    name_column : str, optional
        Column with the names as text, ``s_name`` or ``name`` by default.
    """

    def __init__(
        self,
        name_pattern: str,
        symbol_table: TraceSymbolTable | None = None,
        name_column: str | None = None,
    ) -> None:
        self.name_pattern = name_pattern
        self.symbol_table = symbol_table
        self.name_column = name_column

    def _rows(self, df: pd.DataFrame, symbols: TraceSymbolTable | None) -> pd.DataFrame:
        symbols = symbols or self.symbol_table
        if symbols is not None and self.name_column is None and df["name"].dtype.kind == "i":
            index = symbols.get_sym_index_series()
            return df[df["name"].isin(index[index.index.str.match(self.name_pattern)])]
        column = self.name_column or ("s_name" if "s_name" in df.columns else "name")
        if df[column].dtype.kind == "i":
            msg = f"{column} holds numbers; give the symbol_table of the trace"
            raise ParameterError(msg)
        return df[df[column].str.match(self.name_pattern).astype(bool)]


class NameIdColumnFilter(NameFilter):
    """`NameFilter` by the numbers in ``name``."""


class NameStringColumnFilter(NameFilter):
    """`NameFilter` by the texts in ``s_name``."""

    def _rows(self, df: pd.DataFrame, _: TraceSymbolTable | None) -> pd.DataFrame:
        return NameFilter(self.name_pattern, name_column=self.name_column)(df)


class QueryFilter(Filter):
    """Rows that satisfy a pandas query, such as ``"dur > 5"``."""

    def __init__(self, query_str: str) -> None:
        self.filter_query = query_str

    def _rows(self, df: pd.DataFrame, _: TraceSymbolTable | None) -> pd.DataFrame:
        return df.query(self.filter_query)


ZeroDurationFilter: Final = QueryFilter("dur > 0")
"""HTA's name for the filter that drops events without a duration."""


class GPUKernelFilter(Filter):
    """What runs on the GPU: kernels, copies, memsets and synchronisations."""

    def _rows(self, df: pd.DataFrame, symbols: TraceSymbolTable | None) -> pd.DataFrame:
        return df[_on_gpu(df, symbols)]


class CPUOperatorFilter(Filter):
    """Everything that `GPUKernelFilter` leaves out."""

    def _rows(self, df: pd.DataFrame, symbols: TraceSymbolTable | None) -> pd.DataFrame:
        return df[~_on_gpu(df, symbols)]


class CompositeFilter(Filter):
    """Several filters, applied one after the other.

    Raises
    ------
    ParameterError
        If one of them is not a filter.
    """

    def __init__(self, filters: Sequence[Filter]) -> None:
        wrong = [each for each in filters if not isinstance(each, Filter)]
        if wrong:
            msg = f"CompositeFilter takes filters, got {wrong[0]!r}"
            raise ParameterError(msg)
        self.filters = list(filters)

    def _rows(self, df: pd.DataFrame, symbols: TraceSymbolTable | None) -> pd.DataFrame:
        for each in self.filters:
            df = each(df, symbols)
        return df


class MemCopyEventFilter(Filter):
    """Copies with the given name, such as ``"Memcpy DtoH (Device -> Pinned)"``."""

    def __init__(self, memory_copy_type: str, symbol_table: TraceSymbolTable | None = None) -> None:
        self.memory_copy_type = memory_copy_type
        self.symbol_table = symbol_table

    def _rows(self, df: pd.DataFrame, symbols: TraceSymbolTable | None) -> pd.DataFrame:
        symbols = symbols or self.symbol_table
        wanted = {"name": self.memory_copy_type, "cat": CATEGORIES[Kind.MEMCPY]}
        for column, text in wanted.items():
            df = df[_equal(df, column, (text,), symbols)]
        return df


def _on_gpu(df: pd.DataFrame, symbols: TraceSymbolTable | None) -> pd.Series:
    return (df["stream"] >= 0) | _equal(df, "name", _WAITS, symbols)


def _equal(
    df: pd.DataFrame, column: str, texts: Sequence[str], symbols: TraceSymbolTable | None
) -> pd.Series:
    """Whether a name or category is one of the given texts."""
    if symbols is not None and df[column].dtype.kind == "i":
        return df[column].isin([symbols.sym_index.get(text) for text in texts])
    decoded = f"s_{column}"
    return df[decoded if decoded in df.columns else column].isin(texts)


def _numbers(numbers: int | Iterable[int]) -> list[int]:
    return [int(each) for each in numbers] if isinstance(numbers, Iterable) else [int(numbers)]
