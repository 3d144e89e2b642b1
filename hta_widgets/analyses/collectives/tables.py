"""Tables of the collectives: kernels, matched collectives, and groups of kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from hta_widgets.analyses.clocks.aligned import JobClocks
from hta_widgets.analyses.collectives.owners import RankOwners, owner_columns
from hta_widgets.analyses.collectives.waits import CLASSES, INCONCLUSIVE, NOBODY, Waits
from hta_widgets.analyses.communication.kernels import JobCollectives, Series
from hta_widgets.analyses.communication.operations import bus_factor
from hta_widgets.arrays import Float64Array, Int64Array, Mask
from hta_widgets.errors import number_ranges
from hta_widgets.trace.model.events import TextColumn

KEYS = ("collective", "dtype", "bytes", "group", "group_ranks")

_CLASS_INDEX = pd.Index(CLASSES, dtype=object)
_BANDWIDTHS = pd.Index(["transfer", "duration"], dtype=object)
_GROUP_BANDWIDTHS = _BANDWIDTHS.append(pd.Index(["both"], dtype=object))


def kernel_table(clocks: JobClocks, waits: Waits, owners: Sequence[RankOwners]) -> pd.DataFrame:
    """One row per communication kernel of all ranks; see `Collectives`."""
    kernels, matches = clocks.matches.kernels, waits.matches
    of_kernel = np.full(len(kernels), NOBODY, dtype=np.int64)
    of_kernel[matches.rows] = matches.of_row
    split = _Split(len(kernels), matches.rows)
    transfer = split.column(waits.transfer_ns)
    series = _SeriesColumns(kernels)
    columns: dict[str, Any] = {
        "rank": np.array(kernels.ranks, dtype=np.int64)[kernels.place],
        "device": kernels.device,
        "stream": kernels.stream,
        "start_ns": clocks.alignment.aligned(kernels.start_ns, kernels.place),
        "duration_ns": kernels.duration_ns,
        "collective": kernels.name.to_categorical(),
        "dtype": _text(kernels.dtype),
        "bytes": _nullable(kernels.size_bytes, kernels.size_bytes >= 0),
        "group": _text(kernels.label),
        "group_ranks": series.ranks(),
        "group_size": series.sizes(),
        "match": of_kernel,
        "wait_ns": split.column(waits.wait_ns),
        "unexplained_wait_ns": split.column(waits.unexplained_ns),
        "transfer_ns": transfer,
    }
    columns |= _bandwidths(kernels, transfer, series)
    columns["exposed_ns"] = kernels.exposed_ns
    columns["late_rank"] = _late_ranks(waits, of_kernel)
    columns["class"] = _classes(waits, of_kernel)
    columns |= owner_columns(kernels, owners)
    table = pd.DataFrame(columns)
    order = np.lexsort((np.arange(len(table)), table["start_ns"], table["rank"]))
    return table.iloc[order].reset_index(drop=True)


def match_table(waits: Waits) -> pd.DataFrame:
    """One row per collective that was matched over ranks; see `Collectives`."""
    matches = waits.matches
    kernels, first = matches.kernels, matches.rows[matches.edges[:-1]]
    series = _SeriesColumns(kernels)
    late = np.array([*kernels.ranks, NOBODY], dtype=np.int64)[waits.late_place]
    return pd.DataFrame(
        {
            "match": np.arange(len(matches)),
            "collective": kernels.name.take(first).to_categorical(),
            "dtype": _text(kernels.dtype.take(first)),
            "bytes": _nullable(kernels.size_bytes[first], kernels.size_bytes[first] >= 0),
            "group": _text(kernels.label.take(first)),
            "group_ranks": series.ranks()[first],
            "group_size": series.sizes()[first],
            "ordinal": matches.ordinal,
            "members": matches.members,
            "first_arrival_ns": waits.first_ns,
            "last_arrival_ns": waits.last_ns,
            "end_ns": waits.median_end_ns,
            "lateness_ns": waits.lateness_ns,
            "transfer_ns": waits.transfer_of_all_ns,
            "late_rank": _nullable(late, waits.late_place >= 0),
            "class": pd.Categorical.from_codes(waits.classes, _CLASS_INDEX),
        }
    )


def group_table(kernels: pd.DataFrame) -> pd.DataFrame:
    """One row per collective, type, size and group; see `Collectives`."""
    keys = list(KEYS)
    grouped = kernels.groupby(keys, sort=False, dropna=False, observed=True)
    split = grouped[["wait_ns", "unexplained_wait_ns", "transfer_ns"]].sum(min_count=1)
    table = pd.concat(
        [
            grouped.agg(
                count=("duration_ns", "size"),
                total_ns=("duration_ns", "sum"),
                median_ns=("duration_ns", "median"),
            ),
            split,
            grouped.agg(
                exposed_ns=("exposed_ns", "sum"),
                algbw_gb_per_s=("algbw_gb_per_s", "median"),
                busbw_gb_per_s=("busbw_gb_per_s", "median"),
            ),
        ],
        axis=1,
    ).reset_index()
    table["bandwidth_of"] = _bandwidths_of(kernels, grouped.ngroup(), len(table))
    total_ns = int(table["total_ns"].sum())
    table["share_percent"] = 100 * table["total_ns"] / total_ns if total_ns else np.nan
    return table.sort_values("total_ns", ascending=False, kind="stable", ignore_index=True)


def _bandwidths_of(kernels: pd.DataFrame, group: pd.Series[int], groups: int) -> pd.Categorical:
    """What time the bandwidths of each group are of."""
    codes = kernels["bandwidth_of"].cat.codes.to_numpy()
    place = group.to_numpy()
    has = [np.bincount(place[codes == code], minlength=groups) > 0 for code in range(2)]
    found = np.select([has[0] & has[1], *has], [2, 0, 1], default=-1)
    return pd.Categorical.from_codes(found, _GROUP_BANDWIDTHS)


class _Split:
    """Spreads values of the matched kernels over all kernels."""

    def __init__(self, count: int, rows: Int64Array) -> None:
        self._count = count
        self._rows = rows

    def column(self, values: Int64Array) -> pd.arrays.IntegerArray:
        """The values where there are any."""
        every = np.zeros(self._count, dtype=np.int64)
        known = np.zeros(self._count, dtype=bool)
        every[self._rows], known[self._rows] = values, True
        return _nullable(every, known)


class _SeriesColumns:
    """What is known of the process group of each kernel."""

    def __init__(self, kernels: JobCollectives) -> None:
        self._kernels = kernels

    def ranks(self) -> pd.Categorical:
        """Ranks of the group, such as ``0-7``; of a pair, ``0 to 1``; missing if unknown."""
        texts = [_ranks_text(each) for each in self._kernels.all_series]
        known: dict[str, int] = {}
        codes = [known.setdefault(text, len(known)) if text else -1 for text in texts]
        return pd.Categorical.from_codes(
            np.array([*codes, -1], dtype=np.int32)[self._kernels.series],
            pd.Index(list(known), dtype=object),
        )

    def sizes(self) -> pd.arrays.IntegerArray:
        """Number of ranks of the group; missing if unknown."""
        by_series = [each.size for each in self._kernels.all_series]
        sizes = np.array([*by_series, 0], dtype=np.int64)[self._kernels.series]
        recorded = self._kernels.group_size
        sizes = np.where(sizes > 0, sizes, np.maximum(recorded, 0))
        return _nullable(sizes, sizes > 0)

    def factors(self) -> Float64Array:
        """Bus bandwidth by algorithm bandwidth; NaN where there is no such thing."""
        factors = [
            bus_factor(each.operation, each.size) if each.size > 1 else np.nan
            for each in self._kernels.all_series
        ]
        return np.array([*factors, np.nan])[self._kernels.series]


def _bandwidths(
    kernels: JobCollectives, transfer: pd.arrays.IntegerArray, series: _SeriesColumns
) -> dict[str, Any]:
    """Bandwidths from the transfer; from the duration, waiting included, where it is not known."""
    is_split = ~np.asarray(transfer.isna())
    time_ns = np.where(is_split, transfer.to_numpy(np.int64, na_value=0), kernels.duration_ns)
    known = (kernels.size_bytes > 0) & (time_ns > 0)
    algbw = np.full(len(kernels), np.nan)
    np.divide(kernels.size_bytes, time_ns, out=algbw, where=known)
    return {
        "algbw_gb_per_s": algbw,
        "busbw_gb_per_s": algbw * series.factors(),
        "bandwidth_of": pd.Categorical.from_codes(
            np.where(known, np.where(is_split, 0, 1), -1), _BANDWIDTHS
        ),
    }


def _late_ranks(waits: Waits, of_kernel: Int64Array) -> pd.arrays.IntegerArray:
    places = np.array([*waits.late_place.tolist(), NOBODY], dtype=np.int64)[of_kernel]
    ranks = np.array([*waits.matches.kernels.ranks, NOBODY], dtype=np.int64)[places]
    return _nullable(ranks, places >= 0)


def _classes(waits: Waits, of_kernel: Int64Array) -> pd.Categorical:
    codes = np.append(waits.classes, np.int8(CLASSES.index(INCONCLUSIVE)))[of_kernel]
    return pd.Categorical.from_codes(codes, _CLASS_INDEX)


def _ranks_text(series: Series) -> str:
    if series.operation == "p2p":
        return f"{series.ranks[0]} to {series.ranks[1]}"
    return number_ranges(series.ranks)


def _nullable(values: Int64Array, known: Mask) -> pd.arrays.IntegerArray:
    """Integers, missing where they are not known."""
    return pd.arrays.IntegerArray(np.where(known, values, 0).astype(np.int64), ~known)


def _text(column: TextColumn) -> pd.Categorical:
    """Texts, missing where they are empty."""
    values: Sequence[str] = column.values
    known = [place for place, text in enumerate(values) if text]
    places = np.full(len(values) + 1, -1, dtype=np.int32)
    places[known] = np.arange(len(known))
    texts = pd.Index([values[place] for place in known], dtype=object)
    return pd.Categorical.from_codes(places[column.codes], texts)
