"""Convert between rows (dicts) and small tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hta_widgets.arrays import Mask
from hta_widgets.trace.model.events import TextColumn

if TYPE_CHECKING:
    from pandas.api.extensions import ExtensionArray as Texts

Row = dict[str, Any]
Columns = dict[str, Any]
"""Columns by name: arrays, and texts as `TextColumn`."""


def table_of(rows: Sequence[Mapping[str, Any]], types: Mapping[str, type]) -> pd.DataFrame:
    """Put rows into columns of the given types; without rows, the columns are empty."""
    return pd.DataFrame(
        {name: np.array([row[name] for row in rows], dtype=of) for name, of in types.items()}
    )


def stacked(
    tables: Sequence[pd.DataFrame], types: Mapping[str, type] | None = None
) -> pd.DataFrame:
    """All rows of some tables; tables without rows do not decide the types of columns.

    If none has rows, the columns have the given types, or are those of the first table.
    """
    filled = [table for table in tables if len(table)]
    if not filled and types is not None:
        return table_of([], types)
    filled = filled or [*tables[:1]]
    if len(filled) > 1:
        return pd.concat(filled, ignore_index=True)
    return filled[0].set_axis(pd.RangeIndex(len(filled[0])))


def columns_of(rows: Sequence[Mapping[str, Any]], types: Mapping[str, type]) -> Columns:
    """The columns of `table_of`, for `joined` with those of other ranks."""
    return {
        name: TextColumn.of(row[name] for row in rows)
        if of is object
        else np.array([row[name] for row in rows], dtype=of)
        for name, of in types.items()
    }


def joined(ranks: Sequence[Columns]) -> Columns:
    """Join the columns of all ranks: a table for each would take several times the memory."""
    return {name: _joined([of[name] for of in ranks]) for name in ranks[0]}


def _joined(columns: Sequence[Any]) -> NDArray[Any] | TextColumn:
    if not isinstance(columns[0], TextColumn):
        return np.concatenate(columns)
    return TextColumn.joined(columns)


def joined_table(ranks: Sequence[Columns]) -> pd.DataFrame:
    """A table of all rows of all ranks."""
    return table_of_columns(joined(ranks))


def table_of_columns(columns: Columns) -> pd.DataFrame:
    """A table made from columns."""
    found = {
        name: texts_at([*each.values], each.codes) if isinstance(each, TextColumn) else each
        for name, each in columns.items()
    }
    return pd.DataFrame(found, copy=False)


class TablesOfRanks(Mapping[int, pd.DataFrame]):
    """A table for each rank, made from its columns each time it is requested."""

    def __init__(self, columns: Mapping[int, Mapping[str, NDArray[Any]]]) -> None:
        self.columns = columns

    def __getitem__(self, rank: int) -> pd.DataFrame:
        """A new table, which the caller may change."""
        return pd.DataFrame(self.columns[rank])

    def __iter__(self) -> Iterator[int]:
        """The ranks."""
        return iter(self.columns)

    def __len__(self) -> int:
        """Number of ranks."""
        return len(self.columns)


def texts_at(values: Sequence[str], codes: NDArray[np.integer[Any]]) -> Texts:
    """A column of texts by code; -1 stands for the last text. Texts given as a tuple are cached.

    Examples
    --------
    >>> list(texts_at(["a", "b", ""], np.array([1, -1, 0])))
    ['b', '', 'a']
    """
    texts = _column(values) if isinstance(values, tuple) else shared_texts(values)
    return texts.take(codes)


@lru_cache(maxsize=64)
def _column(values: tuple[str, ...]) -> Texts:
    return shared_texts(values)


def shared_texts(values: Iterable[str]) -> Texts:
    """A column in which equal texts are one object, where Arrow has a copy for each row."""
    is_str = isinstance(pd.Series([""]).dtype, pd.StringDtype)  # from pandas 3 on
    return pd.array(
        [*values], dtype=pd.StringDtype("python", na_value=np.nan) if is_str else object
    )


def largest_first(table: pd.DataFrame, by: str | list[str]) -> pd.DataFrame:
    """The rows of a table, those with the largest number in a column first, or in several."""
    return table.sort_values(by, ascending=False, kind="stable", ignore_index=True)


def sums_by_text(texts: pd.Series[str], values: pd.Series[int]) -> dict[str, int]:
    """Sum of the values at each text; the texts ascend.

    Examples
    --------
    >>> sums_by_text(pd.Series(["b", "a", "b"]), pd.Series([2, 3, 2]))
    {'a': 3, 'b': 4}
    """
    code, distinct = pd.factorize(texts)
    sums = np.zeros(len(distinct), dtype=np.int64)
    np.add.at(sums, code, values.to_numpy())
    return dict(sorted(zip(map(str, distinct), sums.tolist(), strict=True)))


def of_largest_sum(texts: pd.Series[str], values: pd.Series[int]) -> Mask:
    """Rows with the text whose values have the largest sum; the first of several.

    Examples
    --------
    >>> of_largest_sum(pd.Series(["a", "b", "a"]), pd.Series([2, 3, 2])).tolist()
    [True, False, True]
    """
    code, distinct = pd.factorize(texts)
    sums = np.zeros(max(len(distinct), 1), dtype=np.int64)
    np.add.at(sums, code, values.to_numpy())
    return np.asarray(code == sums.argmax())


def records(table: pd.DataFrame) -> list[Row]:
    """Rows of a table as dicts by column name, made column by column.

    Examples
    --------
    >>> records(pd.DataFrame({"rank": [0, 1], "name": ["a", "b"]}))
    [{'rank': 0, 'name': 'a'}, {'rank': 1, 'name': 'b'}]
    """
    names = list(table.columns)
    columns = [table[name].tolist() for name in names]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
