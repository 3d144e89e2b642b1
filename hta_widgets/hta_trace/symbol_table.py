"""HTA's table of symbols: names and categories as numbers, which are the same on all ranks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from hta_widgets.arrays import Int64Array
from hta_widgets.lazy_modules import pd
from hta_widgets.trace.loaders.kineto.categories import CATEGORIES
from hta_widgets.trace.model.events import GPU_WORK, LAUNCH_CALLS, Kind

_STEP: Final = re.compile(r"ProfilerStep")
_MEMORY: Final = re.compile(r"(hip)?Mem(cpy|set)|dma")
_CPU_KINDS: Final = (Kind.CPU_OP, Kind.ANNOTATION, *LAUNCH_CALLS)


class TraceSymbolTable:
    """The number of each name and category; it is the same on all ranks.

    Attributes
    ----------
    sym_table : list of str
        Symbols by number.
    sym_index : dict of str to int
        Numbers by symbol.
    """

    def __init__(self) -> None:
        self.sym_table: list[str] = []
        self.sym_index: dict[str, int] = {}

    def add_symbols(self, symbols: Iterable[str]) -> None:
        """Add new symbols, with the next numbers."""
        for symbol in symbols:
            if symbol not in self.sym_index:
                self.sym_index[symbol] = len(self.sym_table)
                self.sym_table.append(symbol)

    def codes_of(self, symbols: Sequence[str]) -> Int64Array:
        """Numbers of symbols; new symbols are added."""
        self.add_symbols(symbols)
        return np.array([self.sym_index[symbol] for symbol in symbols], dtype=np.int64)

    def is_empty(self) -> bool:
        """Whether the table has no symbols."""
        return not self.sym_table

    def get_sym_id_map(self) -> dict[str, int]:
        """Return `sym_index`."""
        return self.sym_index

    def get_sym_index(self) -> dict[str, int]:
        """Return `sym_index`."""
        return self.sym_index

    def get_sym_table(self) -> list[str]:
        """Return `sym_table`."""
        return self.sym_table

    def get_sym_index_series(self) -> pd.Series:
        """Return numbers indexed by symbol."""
        return pd.Series(self.sym_index, dtype="int64")

    def get_sym_table_series(self) -> pd.Series:
        """Return symbols indexed by number."""
        return pd.Series(self.sym_table, dtype=object)

    def find_matches(self, patterns: Iterable[str]) -> list[int]:
        """Numbers of the symbols that contain any of these texts."""
        return [self.sym_index[symbol] for symbol in self.find_matched_symbols(patterns)]

    def find_matched_symbols(self, patterns: Iterable[str]) -> list[str]:
        """Symbols that contain any of these texts (not regular expressions), as in HTA."""
        texts = tuple(patterns)
        return [symbol for symbol in self.sym_table if any(text in symbol for text in texts)]

    def get_symbol_names(self, symbol_ids: Iterable[int]) -> dict[int, str]:
        """Symbols by number; unknown numbers are left out."""
        known = range(len(self.sym_table))
        return {number: self.sym_table[number] for number in symbol_ids if number in known}

    def get_events_mask(self, df: pd.DataFrame, events: Iterable[str] | None) -> pd.Series:
        """Mask of events whose name contains any of these texts."""
        return df["name"].isin(self.find_matches(events or ()))

    def get_operator_or_cuda_runtime_mask(self, df: pd.DataFrame) -> pd.Series:
        """Mask of operators and of runtime and driver calls."""
        return df["cat"].isin(self._categories(Kind.CPU_OP, *LAUNCH_CALLS))

    def get_runtime_launch_events_mask(self, df: pd.DataFrame) -> pd.Series:
        """Mask of the calls whose GPU work is in the trace, whatever their names are."""
        return df["cat"].isin(self._categories(*LAUNCH_CALLS)) & (df["index_correlation"] > 0)

    def get_cpu_event_cat_ids(self) -> list[int]:
        """Numbers of the categories of operators, annotations and calls."""
        return self._categories(*_CPU_KINDS)

    def get_gpu_kernel_cat_ids(self) -> list[int]:
        """Numbers of the categories of kernels, copies and memsets."""
        return self._categories(*GPU_WORK)

    def get_profiler_step_ids(self) -> list[int]:
        """Numbers of the names of ProfilerSteps."""
        return self._matching(_STEP)

    def get_memory_name_ids(self) -> list[int]:
        """Numbers of the names of copies and memsets."""
        return self._matching(_MEMORY)

    def add_symbols_to_trace_df(self, trace_df: pd.DataFrame, col: str) -> None:
        """Replace the numbers in a column of a frame by symbols; "" for numbers without one."""
        trace_df[col] = [self._symbol(number) for number in trace_df[col].tolist()]

    def encode_df(self, df: pd.DataFrame) -> None:
        """Replace names and categories that are text by their numbers.

        Raises
        ------
        KeyError
            If one of them is not in the table.
        """
        for column in ("name", "cat"):
            if column in df.columns and df[column].dtype.kind != "i":
                df[column] = np.array(
                    [self.sym_index[each] for each in df[column].tolist()], dtype=np.int64
                )

    def decode_df(self, df: pd.DataFrame, create_new_columns: bool = True) -> None:  # noqa: FBT001, FBT002
        """Add columns ``s_name`` and ``s_cat``, or replace the numbers by them."""
        for column in ("name", "cat"):
            if column in df.columns and df[column].dtype.kind == "i":
                target = f"s_{column}" if create_new_columns else column
                df[target] = [self._symbol(number) for number in df[column].tolist()]

    def _symbol(self, number: int) -> str:
        return self.sym_table[number] if 0 <= number < len(self.sym_table) else ""

    def _matching(self, pattern: re.Pattern[str]) -> list[int]:
        return [number for symbol, number in self.sym_index.items() if pattern.match(symbol)]

    def _categories(self, *kinds: Kind) -> list[int]:
        names = [CATEGORIES[kind] for kind in kinds]
        return [self.sym_index[name] for name in names if name in self.sym_index]
