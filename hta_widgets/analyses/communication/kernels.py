"""Communication kernels of all ranks, and the series in which they are issued."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from hta_widgets.analyses.communication.recorded import (
    NOTHING,
    POINT_TO_POINT,
    SEND,
    Group,
    RankCollectives,
    bus_factor,
    operation_of,
)
from hta_widgets.arrays import Float64Array, Int64Array
from hta_widgets.grouping import grouped
from hta_widgets.intervals import Times
from hta_widgets.trace.model.events import TextColumn

P2P = "p2p"
_PAIR = 2
_OF_UNKNOWN_MEMBERS = ("sendrecv", "broadcast", "generic", "main_kernel")
"""Parts of kernel names that several groups of ranks use, each in its own order."""


class Series(NamedTuple):
    """Collectives that some ranks issue in the same order."""

    operation: str
    """Such as ``all_reduce``; ``p2p`` for sends and their receives; ``send_recv`` for kernels that
    end together and whose partners are not recorded; or an unknown name."""
    group: str = ""
    """Name of the process group; empty if not recorded."""
    ranks: tuple[int, ...] = ()
    """Global ranks that take part, ascending, or sender and receiver; empty if not known."""
    size: int = 0
    """Number of ranks that take part; 0 if not known."""
    kernel: str = ""
    """Name of the kernels if no fields are recorded."""


@dataclass(frozen=True, eq=False)
class JobCollectives:
    """Communication kernels of all ranks: rank by rank, in the order of their launches."""

    ranks: tuple[int, ...]
    place: Int64Array
    """Position of each kernel's rank in `ranks`."""
    row: Int64Array
    start_ns: Times
    duration_ns: Times
    exposed_ns: Times
    device: Int64Array
    stream: Int64Array
    in_elements: Int64Array
    out_elements: Int64Array
    size_bytes: Int64Array
    group_size: Int64Array
    """This column and those above are as in `RankCollectives`; times are on each rank's clock."""
    name: TextColumn
    """Collective as recorded, or else the name of the kernel up to its parameter list."""
    dtype: TextColumn
    label: TextColumn
    """Description of the group, or else its name."""
    series: Int64Array
    """Position in `all_series`; -1 for kernels whose partners cannot be known."""
    all_series: tuple[Series, ...]

    def __len__(self) -> int:
        """Number of kernels."""
        return int(self.place.size)

    @cached_property
    def end_ns(self) -> Times:
        """End of each kernel on the clock of its rank."""
        return self.start_ns + self.duration_ns

    @cached_property
    def elements(self) -> Int64Array:
        """Elements of the larger of input and output; -1 if not recorded."""
        return np.maximum(self.in_elements, self.out_elements)

    @cached_property
    def bus_factors(self) -> Float64Array:
        """Ratio of bus bandwidth to algorithm bandwidth; NaN if the group is not known."""
        factors = [
            bus_factor(each.operation, each.size) if each.size > 1 else np.nan
            for each in self.all_series
        ]
        return np.array([*factors, np.nan])[self.series]

    @classmethod
    def of(cls, parts: Sequence[RankCollectives]) -> JobCollectives:
        """Join the kernels of all ranks."""
        known: dict[Series, int] = {}
        numbers = global_ranks(parts)
        series = [
            _series_of_rank(part, number, known)
            for part, number in zip(parts, numbers, strict=True)
        ]
        sizes = [len(part) for part in parts]
        return cls(
            ranks=tuple(part.rank for part in parts),
            place=np.repeat(np.arange(len(parts), dtype=np.int64), sizes),
            row=_joined(part.row for part in parts),
            start_ns=_joined(part.start_ns for part in parts),
            duration_ns=_joined(part.duration_ns for part in parts),
            exposed_ns=_joined(part.exposed_ns for part in parts),
            device=_joined(part.device for part in parts),
            stream=_joined(part.stream for part in parts),
            in_elements=_joined(part.in_elements for part in parts),
            out_elements=_joined(part.out_elements for part in parts),
            size_bytes=_joined(part.size_bytes for part in parts),
            group_size=_joined(part.group_size for part in parts),
            name=TextColumn.joined([_name_of(part) for part in parts]),
            dtype=TextColumn.joined([part.dtype for part in parts]),
            label=TextColumn.joined([_label_of(part) for part in parts]),
            series=_joined(series),
            all_series=tuple(known),
        )


def global_ranks(parts: Sequence[RankCollectives]) -> list[int]:
    """Rank of each trace in the process groups: as stated by each, if all state different ones."""
    stated = [part.stated_rank for part in parts]
    is_said = min(stated, default=NOTHING) >= 0 and len(set(stated)) == len(stated)
    return stated if is_said else [part.rank for part in parts]


def _series_of_rank(part: RankCollectives, number: int, known: dict[Series, int]) -> Int64Array:
    """Series of each kernel of a rank; new series are added to ``known``."""
    found = np.full(len(part), NOTHING, dtype=np.int64)
    alike = grouped(part.collective.codes, part.group, part.peer, part.kernel.codes)
    for rows in alike.parts:
        series = _series_of(part, int(rows[0]), number)
        if series is not None:
            found[rows] = known.setdefault(series, len(known))
    return found


def _series_of(part: RankCollectives, row: int, number: int) -> Series | None:
    kernel = part.kernel.values[part.kernel.codes[row]]
    code = int(part.collective.codes[row])
    if code < 0:
        return _series_by_name(kernel)
    group = part.groups[part.group[row]]
    name = part.collective.values[code]
    operation = operation_of(name)
    if operation in POINT_TO_POINT:
        return _series_of_pair(group, number, int(part.peer[row]), is_send=operation == SEND)
    if not operation and "sendrecv" in kernel.lower():
        return None
    ranks = tuple(sorted(group.ranks))
    return Series(operation or name.lower(), group.name, ranks, len(ranks) or group.size)


def _series_by_name(kernel: str) -> Series | None:
    """Series of kernels without fields; None for those that only some ranks issue."""
    lower = kernel.lower()
    if not kernel or any(word in lower for word in _OF_UNKNOWN_MEMBERS):
        return None
    return Series(operation_of(kernel) or lower, kernel=kernel)


def _series_of_pair(group: Group, number: int, peer: int, *, is_send: bool) -> Series | None:
    if peer >= 0:
        other = group.global_rank(peer)
    elif len(group.ranks) == _PAIR and number in group.ranks:
        other = sum(group.ranks) - number
    else:
        return None
    pair = (number, other) if is_send else (other, number)
    return None if other == number else Series(P2P, group.name, pair, _PAIR)


def _name_of(part: RankCollectives) -> TextColumn:
    """Collective as recorded, or else the kernel's name."""
    collective, kernel = part.collective, part.kernel
    of_kernel = kernel.codes.astype(np.int64) + len(collective.values)
    codes = np.where(collective.codes >= 0, collective.codes, of_kernel)
    return TextColumn(codes.astype(np.int32), (*collective.values, *kernel.values))


def _label_of(part: RankCollectives) -> TextColumn:
    labels = tuple(group.description or group.name for group in part.groups)
    return TextColumn(part.group.astype(np.int32), labels)


def _joined(columns: Iterable[Int64Array]) -> Int64Array:
    return np.concatenate([np.zeros(0, dtype=np.int64), *columns])
