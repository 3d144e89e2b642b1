"""Communication kernels of one rank: what is recorded about them, and what their names say."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hta_widgets.arrays import Int64Array, Mask
from hta_widgets.grouping import grouped
from hta_widgets.intervals import Intervals, Times
from hta_widgets.trace.loaders.columns import whole_number
from hta_widgets.trace.model.events import Kind, SideTable, TextColumn
from hta_widgets.trace.model.formats import RANK_LIMIT
from hta_widgets.trace.model.kernels import KernelType
from hta_widgets.trace.ranks.gpu_work import GpuWork
from hta_widgets.trace.ranks.rank import NEVER, Rank

MOST_MEMBERS: Final = 2**20
"""A larger number of ranks in a group is an error in the trace."""

NOTHING: Final = -1

NO_DESCRIPTION: Final = "undefined"
"""What PyTorch records for a process group that was made without a description."""

MOST_ELEMENTS: Final = 2**48
"""A larger number of elements is an error in the trace."""

_ANONYMOUS = "(anonymous namespace)"
_FIRST = np.iinfo(np.int64).min
SEND, RECEIVE = "send", "recv"

SEND_RECEIVE: Final = "send_recv"
"""Operation of kernels whose partners are not recorded, but shown by their common ends."""

POINT_TO_POINT: Final = frozenset({SEND, RECEIVE})

_WORDS = (
    ("crossdevicereduce", "all_reduce"),
    ("reducescatter", "reduce_scatter"),
    ("allreduce", "all_reduce"),
    ("allgather", "all_gather"),
    ("alltoall", "all_to_all"),
    ("broadcast", "broadcast"),
    ("barrier", "barrier"),
    ("sendrecv", ""),
    ("send", SEND),
    ("recv", RECEIVE),
    ("reduce", "reduce"),
    ("gather", "gather"),
    ("scatter", "scatter"),
)
"""Words in names without punctuation; the first that occurs decides. A ``SendRecv`` kernel sends,
receives, or does both with many ranks: its name does not say which."""

OPERATIONS: Final = tuple(dict.fromkeys(operation for _, operation in _WORDS if operation))

MEETING: Final = frozenset(
    {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier", "p2p", SEND_RECEIVE}
)
"""Operations that no member can finish before all have started, and that end together. The root of
a broadcast may be done before the others start."""

_BYTES_BY_PREFIX = (
    (r"complexdouble|complex128", 16),
    (r"complexfloat|complex64|double|float64|u?int64|u?long|cdouble", 8),
    (r"complexhalf|complex32|bfloat16|half|float16|u?int16|u?short", 2),
    (r"float8|fp8|f8|char|byte|u?int8|bool|qu?int8", 1),
    (r"float|float32|u?int|u?int32|qint32", 4),
)

_ELEMENT_BYTES = tuple((re.compile(rf"(?:{names})"), size) for names, size in _BYTES_BY_PREFIX)
_NOT_A_LETTER = re.compile(r"[^a-z]")
_NAMESPACE = re.compile(r"^(?:c10::|torch\.|nccl)")
_FLOAT8 = re.compile(r"(?:float8|fp8|f8)_?e\d+m\d+\w*")


def exposed_times(start_ns: Times, end_ns: Times, hidden: Intervals) -> Times:
    """Split the exposed communication time (ns) of a device among its kernels, ascending by start.

    Each instant belongs to the first kernel to start of those that run then. So the parts add up to
    the time in which communication runs and is not `hidden`, that is, in which the device neither
    computes nor runs a graph that was recorded as a whole.
    """
    owned_from, owned_to = owned_by_first(start_ns, end_ns)
    hidden_ns = hidden.covered_until(owned_to) - hidden.covered_until(owned_from)
    return np.asarray(owned_to - owned_from - hidden_ns)


def owned_by_first(start_ns: Times, end_ns: Times) -> tuple[Times, Times]:
    """Where each event is the first to start of those that run; events ascend by start."""
    # first   |-----------|              owns all of its time
    # second     |----|                  owns nothing: the first ends later
    # third             |------|         owns what comes after `reached`, the latest end so far
    if not start_ns.size:
        return start_ns, end_ns
    reached = np.maximum.accumulate(end_ns)
    owned_from = start_ns.copy()
    np.maximum(start_ns[1:], reached[:-1], out=owned_from[1:])
    return owned_from, np.maximum(end_ns, owned_from)


class Group(NamedTuple):
    """A process group of one rank."""

    name: str
    """Name as in the trace; sibling groups may share it."""
    description: str = ""
    """Such as ``DATA_PARALLEL_GROUP``; empty if not recorded."""
    ranks: tuple[int, ...] = ()
    """Global ranks in the order of the group; empty if not recorded."""
    size: int = 0
    """Number of ranks; 0 if not recorded."""

    def global_rank(self, number: int) -> int:
        """Global rank of a peer, which some traces record as its rank in the group."""
        if number in self.ranks or not 0 <= number < len(self.ranks):
            return number
        return self.ranks[number]


@lru_cache(maxsize=1024)
def ranks_in(text: str) -> tuple[int, ...]:
    """Ranks of a group from the JSON text of a trace; none if it is shortened or not a list.

    Examples
    --------
    >>> ranks_in('"[0, 4]"'), ranks_in("[0, 4]"), ranks_in('"[0, 1, ..., 63]"')
    ((0, 4), (0, 4), ())
    """
    value: Any = text
    for _ in range(2):
        if not isinstance(value, str):
            break
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return ()
    return _as_ranks(value)


def configured_groups(metadata: Mapping[str, object]) -> dict[str, tuple[int, ...]]:
    """Ranks of each group by name, from ``distributedInfo.pg_config``.

    PyTorch writes an empty list for a group of all ranks. A name of different groups is left out.
    """
    info = metadata.get("distributedInfo")
    entries = info.get("pg_config") if isinstance(info, Mapping) else None
    if isinstance(entries, str):
        try:
            entries = json.loads(entries)
        except (ValueError, RecursionError):
            return {}
    found: dict[str, set[tuple[int, ...]]] = {}
    for entry in entries if isinstance(entries, list) else []:
        if isinstance(entry, Mapping) and isinstance(info, Mapping):
            name = str(entry.get("pg_name", ""))
            found.setdefault(name, set()).add(_configured_ranks(entry, info.get("world_size")))
    return {name: next(iter(ranks)) for name, ranks in found.items() if len(ranks) == 1}


def _configured_ranks(entry: Mapping[str, Any], world_size: object) -> tuple[int, ...]:
    ranks = entry.get("ranks")
    if isinstance(ranks, str):
        return ranks_in(ranks)
    if ranks:
        return _as_ranks(ranks)
    world = whole_number(world_size, MOST_MEMBERS) or 0
    size = whole_number(entry.get("group_size", entry.get("pg_size")), MOST_MEMBERS)
    return tuple(range(world)) if size in (None, world) else ()


def _as_ranks(value: object) -> tuple[int, ...]:
    if not isinstance(value, list) or not 0 < len(value) <= MOST_MEMBERS:
        return ()
    numbers = [whole_number(each, RANK_LIMIT) for each in value]
    ranks = tuple(number for number in numbers if number is not None and number >= 0)
    return ranks if len(ranks) == len(set(ranks)) == len(value) else ()


@dataclass(frozen=True, eq=False)
class RankCollectives:
    """Communication kernels of one rank, in the order in which they were launched."""

    rank: int
    stated_rank: int
    """Rank in ``distributedInfo``; -1 if not recorded."""
    start_ns: Times
    """Times on the clock of the rank."""
    duration_ns: Times
    exposed_ns: Times
    device: Int64Array
    stream: Int64Array
    row: Int64Array
    """Row in the rank's events."""
    kernel: TextColumn
    """Name up to the parameter list; empty for work that is not a kernel."""
    collective: TextColumn
    """Collective as recorded; code -1 without fields."""
    dtype: TextColumn
    """Type as recorded; code -1 without fields."""
    group: Int64Array
    """Position in `groups`; -1 without fields."""
    groups: tuple[Group, ...]
    in_elements: Int64Array
    """Elements of the input, -1 if not recorded."""
    out_elements: Int64Array
    """Elements of the output, -1 if not recorded."""
    size_bytes: Int64Array
    """Bytes of the larger of input and output; -1 if unknown, 0 for kernels whose record is counted
    for a longer kernel."""
    group_size: Int64Array
    """Number of ranks of the group, -1 if not recorded."""
    peer: Int64Array
    """Rank that a send goes to or a receive comes from; -1 for other operations."""

    def __len__(self) -> int:
        """Number of kernels."""
        return int(self.start_ns.size)


def rank_collectives(rank: Rank) -> RankCollectives:
    """Communication kernels of a rank."""
    work = rank.gpu_work
    positions = np.flatnonzero(work.type == KernelType.COMMUNICATION)
    exposed_ns = _exposed(work, positions)
    order = _launch_order(rank, positions)
    positions, exposed_ns = positions[order], exposed_ns[order]
    rows = work.rows[positions]
    fields = _Fields.of(rank, rows, work.launch[positions])
    groups, group = fields.groups(configured_groups(rank.trace.metadata))
    return RankCollectives(
        rank=rank.trace.rank,
        stated_rank=_stated_rank(rank),
        start_ns=work.start_ns[positions],
        duration_ns=work.duration_ns[positions],
        exposed_ns=exposed_ns,
        device=work.device[positions],
        stream=work.stream[positions],
        row=rows,
        kernel=_kernel_names(rank, rows),
        collective=fields.text("collective"),
        dtype=fields.text("dtype"),
        group=group,
        groups=groups,
        in_elements=fields.number("in_elements"),
        out_elements=fields.number("out_elements"),
        size_bytes=fields.size_bytes(work.duration_ns[positions]),
        group_size=fields.number("group_size"),
        peer=fields.peers(),
    )


def _exposed(work: GpuWork, positions: Int64Array) -> Times:
    exposed_ns = np.zeros(positions.size, dtype=np.int64)
    for device, part in work.by_device().items():
        here = np.flatnonzero(work.device[positions] == device)
        of_device = positions[here]
        computes = np.isin(part.type, (KernelType.COMPUTATION, KernelType.CUDA_GRAPH))
        hidden = Intervals.union(part.start_ns[computes], part.end_ns[computes])
        exposed_ns[here] = exposed_times(work.start_ns[of_device], work.end_ns[of_device], hidden)
    return exposed_ns


def _launch_order(rank: Rank, positions: Int64Array) -> Int64Array:
    """Launch order, in which all ranks issue the collectives of a group.

    Kernels of one group may run on several streams, and start in another order. A kernel without a
    recorded launch was launched after the previous one on its stream, or before the recording.
    """
    work, launched_ns = rank.gpu_work, rank.launched_ns[positions].copy()
    unknown = launched_ns == NEVER
    if unknown.any():
        launched_ns[unknown] = _FIRST
        for run in grouped(work.device[positions], work.stream[positions]).parts:
            before = np.maximum.accumulate(launched_ns[run])
            launched_ns[run] = np.where(unknown[run], before, launched_ns[run])
    return np.lexsort((work.start_ns[positions], launched_ns))


def _stated_rank(rank: Rank) -> int:
    info = rank.trace.metadata.get("distributedInfo")
    stated = info.get("rank") if isinstance(info, Mapping) else None
    number = whole_number(stated, RANK_LIMIT)
    return NOTHING if number is None or number < 0 else number


def _kernel_names(rank: Rank, rows: Int64Array) -> TextColumn:
    """Names up to the parameter list; there are few different ones."""
    events = rank.trace.events
    codes, places = np.unique(events.name.codes[rows], return_inverse=True)
    names = [_without_parameters(events.name.values[code]) for code in codes.tolist()]
    column = TextColumn(places.astype(np.int32), (*names, ""))
    column.codes[events.kind[rows] != Kind.KERNEL] = len(names)
    return column


def _without_parameters(name: str) -> str:
    """Name of a kernel up to its parameter list.

    Examples
    --------
    >>> _without_parameters("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage)")
    'ncclDevKernel_AllReduce_Sum_f32_RING_LL'
    >>> _without_parameters("void (anonymous namespace)::one_shot_all_reduce<8>(float*)")
    'void (anonymous namespace)::one_shot_all_reduce<8>'
    """
    before = name.startswith(_ANONYMOUS, name.find("("))
    start = name.find("(") + len(_ANONYMOUS) if before else 0
    return name[:start] + name[start:].partition("(")[0]


@dataclass(frozen=True, eq=False)
class _Fields:
    """The recorded fields of some kernels."""

    table: SideTable | None
    at: Int64Array
    """Position in the table of each kernel's fields; -1 if it has none."""
    is_shared: Mask
    """Whether the fields are those of a CPU record, which several kernels may share."""

    @classmethod
    def of(cls, rank: Rank, rows: Int64Array, launch: Int64Array) -> _Fields:
        """Fields of each kernel, or else of the operator around its launch that recorded them.

        Kernels recorded before 2024 have none, but ``record_param_comms`` around the launch does.
        """
        table = rank.trace.events.side.get("collectives")
        at = np.full(rows.size, NOTHING, dtype=np.int64)
        if table is None:
            return cls(None, at, at >= 0)
        at = table.places_of(rows)
        own = at >= 0
        waiting = np.flatnonzero(~own & (launch >= 0))
        calls = rank.parents[launch[waiting]].astype(np.int64)
        while waiting.size:
            at[waiting] = table.places_of(calls)
            further = (at[waiting] < 0) & (calls >= 0)
            waiting, calls = waiting[further], rank.parents[calls[further]].astype(np.int64)
        return cls(table, at, (at >= 0) & ~own)

    def number(self, column: str) -> Int64Array:
        """Numbers of a column; -1 for kernels without fields."""
        return self._taken(self.table.columns[column] if self.table else None).astype(np.int64)

    def text(self, column: str) -> TextColumn:
        """Texts of a column; code -1 for kernels without fields."""
        found = self.table.columns[column] if self.table else None
        if not isinstance(found, TextColumn):
            return TextColumn(np.full(self.at.size, NOTHING, dtype=np.int32), ())
        return TextColumn(self._taken(found.codes).astype(np.int32), found.values)

    def peers(self) -> Int64Array:
        """The other rank of each send and receive."""
        operations = self._operations()
        is_send = operations == SEND
        to, source = self.number("destination_rank"), self.number("source_rank")
        peers = np.where(is_send, to, source)
        peers[~is_send & (operations != "recv")] = NOTHING
        return peers

    def size_bytes(self, duration_ns: Times) -> Int64Array:
        """Bytes of each kernel's buffer; if several share a record, only for the longest one."""
        dtype = self.text("dtype")
        sizes = np.array([*map(element_bytes, dtype.values), 0], dtype=np.int64)[dtype.codes]
        elements = np.maximum(self.number("in_elements"), self.number("out_elements"))
        known = (elements >= 0) & (elements < MOST_ELEMENTS) & (sizes > 0)
        total = np.where(known, elements * sizes, NOTHING)
        shared = np.flatnonzero(self.is_shared & known)
        order = shared[np.lexsort((-duration_ns[shared], self.at[shared]))]
        follows = np.zeros(order.size, dtype=bool)
        follows[1:] = self.at[order[1:]] == self.at[order[:-1]]
        total[order[follows]] = 0
        return total

    def groups(
        self, configured: dict[str, tuple[int, ...]]
    ) -> tuple[tuple[Group, ...], Int64Array]:
        """The distinct groups, and the group of each kernel."""
        columns = [self.text(name) for name in ("group", "group_description", "group_ranks")]
        sizes = self.number("group_size")
        keys = np.stack([*(column.codes.astype(np.int64) for column in columns), sizes])
        distinct, of = np.unique(keys[:, self.at >= 0], axis=1, return_inverse=True)
        found = np.full(self.at.size, NOTHING, dtype=np.int64)
        found[self.at >= 0] = of.ravel()
        groups = []
        for *codes, size in distinct.T.tolist():
            name, description, ranks = (
                column.values[code] if code >= 0 else ""
                for column, code in zip(columns, codes, strict=True)
            )
            of_group = ranks_in(ranks) or configured.get(name, ())
            said = "" if description == NO_DESCRIPTION else description
            groups.append(Group(name, said, of_group, size if size > 0 else len(of_group)))
        return tuple(groups), found

    def _operations(self) -> NDArray[np.object_]:
        column = self.text("collective")
        names = [*map(operation_of, column.values), ""]
        return np.array(names, dtype=object)[column.codes]

    def _taken(self, values: object) -> Int64Array:
        taken = np.full(self.at.size, NOTHING, dtype=np.int64)
        if isinstance(values, np.ndarray):
            has = self.at >= 0
            taken[has] = values[self.at[has]]
        return taken


@cache
def operation_of(name: str) -> str:
    """Operation that a collective name, or the name of a kernel, stands for; empty if unknown.

    Examples
    --------
    >>> operation_of("_allgather_base"), operation_of("all_to_allv"), operation_of("wait")
    ('all_gather', 'all_to_all', '')
    >>> operation_of("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL")
    'reduce_scatter'
    """
    letters = _NOT_A_LETTER.sub("", name.lower())
    return next((operation for word, operation in _WORDS if word in letters), "")


@cache
def element_bytes(dtype: str) -> int:
    """Bytes of one element, by the names of PyTorch and NCCL; 0 for an unknown name.

    Examples
    --------
    >>> [element_bytes(name) for name in ("BFloat16", "Float", "int8", "Float8_e4m3fn", "?")]
    [2, 4, 1, 1, 0]
    """
    name = _NAMESPACE.sub("", dtype.strip().lower())
    if _FLOAT8.fullmatch(name):
        return 1
    return next((size for names, size in _ELEMENT_BYTES if names.fullmatch(name)), 0)


def bus_factor(operation: str, members: int) -> float:
    """Ratio of the bytes that cross the busiest link to the bytes of the buffer.

    In a ring, all members but one pass each part of the buffer on once, in an all-reduce twice
    (https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md).

    Examples
    --------
    >>> bus_factor("all_reduce", 8), bus_factor("all_gather", 8), bus_factor("p2p", 2)
    (1.75, 0.875, 1.0)
    """
    if operation == "all_reduce":
        return 2 * (members - 1) / members
    if operation in {"all_gather", "reduce_scatter", "all_to_all"}:
        return (members - 1) / members
    return 1.0
