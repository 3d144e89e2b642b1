"""Computing kernels of one rank: which operators they belong to, and which are alike.

Two kernels are alike if they have the same name, grid and block, and operators with the same
shapes launched them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from hashlib import blake2b
from math import log
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hta_widgets.analyses.time.calls import Calls
from hta_widgets.analyses.time.modules import SEPARATOR, module_paths
from hta_widgets.analyses.time.window import NO_STEP, window_of
from hta_widgets.arrays import Float64Array, Int32Array, Int64Array, Mask
from hta_widgets.grouping import Groups, grouped, numbered
from hta_widgets.intervals import Times
from hta_widgets.trace.model.events import TextColumn
from hta_widgets.trace.model.kernels import KernelType
from hta_widgets.trace.model.questions import asked_once
from hta_widgets.trace.ranks.gpu_work import GpuWork
from hta_widgets.trace.ranks.launch_configuration import launch_configuration
from hta_widgets.trace.ranks.rank import Rank
from hta_widgets.trace.ranks.replayed_calls import with_replayed_calls

MOST_PARENTS: Final = 6
"""Most calls to search from a launch call outwards for the shapes of an operator."""

WINDOW_NS: Final = 10_000_000
"""Length of the windows in which the pace of a GPU is compared with itself."""

FEWEST_IN_WINDOW: Final = 5
"""Fewer kernels do not show the pace of a window."""

FEWEST_WINDOWS: Final = 5
"""Fewest windows that show whether a GPU changes its clock."""

_SIZES: Final = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")
_FACTORS: Final = np.array(
    [0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93],
    dtype=np.uint64,
)
_DIMENSION: Final = re.compile(r"[1-9]\d*")

_NUMBER: Final = re.compile(r"_\d+$")

_IN_ALL_MODELS: Final = re.compile(
    r"^(Linear|Conv\d?d|Identity|Dropout|Sequential|ModuleList|DataParallel"
    r"|DistributedDataParallel|FullyShardedDataParallel|OptimizedModule)$"
)
"""Classes of modules that do not show where in a model they are."""

UNKNOWN: Final = -1

Keys = NDArray[np.uint64]


class LikeKernelFacts(NamedTuple):
    """Computing kernels of one rank: a row for each kind of alike kernels in each step."""

    key: Keys
    """Equal for alike kernels, on any rank."""
    step: Int64Array
    """Number of the ProfilerStep that launched them."""
    counts: Int64Array
    """Number of kernels."""
    total_ns: Times
    median_ns: Times
    """Sum and median of their durations."""
    kind: Keys
    """Equal for kernels of one name, on any rank."""
    size: Float64Array
    """Size of the work of each, see `sizes_of_shapes`; NaN if not recorded."""
    is_shaped: Mask
    """Whether the shapes of the operator are part of the key."""
    names: dict[int, str]
    """Name of the kernels of each key."""
    described_ns: int
    kernels_ns: int
    """Time of the kernels whose grid or shapes are recorded, and of all kernels."""


class _Kernels(NamedTuple):
    work: GpuWork
    key: Keys
    kind: Keys
    size: Float64Array
    is_shaped: Mask
    is_described: Mask


def like_kernel_facts(rank: Rank) -> LikeKernelFacts:
    """Group the computing kernels of a rank; reads the grids from the source of the trace."""
    kernels = _kernels(rank)
    work, key = kernels.work, kernels.key
    window = window_of(rank)
    step = window.steps[window.step_of(rank, work)]
    order = np.lexsort((work.duration_ns, step, key))
    groups = Groups.in_order(order, key, step)
    duration_ns, edges = work.duration_ns[order], groups.edges
    lower = duration_ns[edges[:-1] + (groups.sizes - 1) // 2]
    upper = duration_ns[edges[:-1] + groups.sizes // 2]
    first = groups.first
    kinds = dict(zip(key[first].tolist(), work.name[first].tolist(), strict=True))
    names = {code: work.names[name] for code, name in kinds.items()}
    return LikeKernelFacts(
        key=key[first],
        step=step[first],
        counts=groups.sizes,
        total_ns=groups.reduce(np.add, work.duration_ns),
        median_ns=lower + (upper - lower) // 2,
        kind=kernels.kind[first],
        size=kernels.size[first],
        is_shaped=kernels.is_shaped[first],
        names=names,
        described_ns=int(work.duration_ns[kernels.is_described].sum()),
        kernels_ns=int(work.duration_ns.sum()),
    )


def pace_in_windows(rank: Rank) -> Float64Array:
    """Duration of a rank's kernels relative to alike ones at other times: median of each 10 ms.

    Windows are ascending by time; those with too few kernels are left out.
    """
    kernels = _kernels(rank)
    work = kernels.work
    order = np.lexsort((work.duration_ns, kernels.key))
    alike = Groups.in_order(order, kernels.key)
    usual_ns = work.duration_ns[order][alike.edges[:-1] + (alike.sizes - 1) // 2]
    pace = np.empty(len(work))
    pace[order] = work.duration_ns[order] / np.repeat(np.maximum(usual_ns, 1), alike.sizes)
    windows = grouped(work.start_ns // WINDOW_NS)
    return np.array(
        [np.median(pace[part]) for part in windows.parts if part.size >= FEWEST_IN_WINDOW]
    )


def pace_range(rank: Rank) -> float:
    """Ratio of the slowest to the fastest tenth of a rank's windows; 1 if there are few."""
    pace = pace_in_windows(rank)
    if pace.size < FEWEST_WINDOWS:
        return 1.0
    low, high = np.quantile(pace, (0.1, 0.9))
    return float(high / low) if low > 0 else 1.0


def computing_kernels(rank: Rank) -> GpuWork:
    """Computing kernels of the analysed steps, on the device with the most work.

    Kernels that run before any of the steps belong to none if they were launched before the first
    step, or by an unknown call.
    """
    device, window = rank.gpu_work.main_device, window_of(rank)
    work = rank.gpu_work if device is None else rank.gpu_work.by_device()[device]
    work = work.take(np.flatnonzero(work.type == KernelType.COMPUTATION))
    launched_ns = rank.trace.events.start_ns[work.launch]
    is_launched = (work.launch >= 0) & (launched_ns >= window.start_ns)
    if NO_STEP in window.steps or not is_launched.any():
        return work
    first_ns = work.start_ns[is_launched].min()
    return work.take(np.flatnonzero(is_launched | (work.start_ns >= first_ns)))


EXPERT_KERNELS: Final = re.compile(
    r"^(?!triton_(?:[a-z]{3}_)?fused_).*(?:"  # not what Inductor puts next to them
    r"moe(?![^\W\d_])|expert|group(?:ed)?_?(?:gemm|mm|problem|masked)(?!::)|m_grouped_"
    r"|matmul_ogs|matmul_scatter)",
    re.IGNORECASE,
)
"""Kernels of experts, which launch the same number of blocks for any number of tokens: of four
ranks, the one with the popular experts seemed to have a GPU 3.67 times as slow."""


@asked_once
def _kernels(rank: Rank) -> _Kernels:
    work = computing_kernels(rank)
    work = work.take(np.flatnonzero(~work.named(lambda name: bool(EXPERT_KERNELS.search(name)))))
    codes, texts = shape_codes(rank, work)
    sizes, grid = _launch_sizes(rank, work)
    kind = _hashes(work.name, work.names)
    key = np.zeros(len(work), dtype=np.uint64)
    for part, factor in zip((kind, _hashes(codes, texts), sizes), _FACTORS, strict=False):
        key = _mixed(key, part, factor)
    of_shapes = np.append(sizes_of_shapes(texts), np.nan)[codes]
    size = np.where(codes >= 0, of_shapes, np.log(np.maximum(grid, 1)))
    is_described = (codes >= 0) | (grid > 0)
    size[~is_described] = np.nan
    return _Kernels(work, key, kind, size, codes >= 0, is_described)


def shape_codes(rank: Rank, work: GpuWork) -> tuple[Int64Array, tuple[str, ...]]:
    """Input shapes of the nearest operator around each launch that records some.

    Returns positions in texts of the trace, -1 where no shapes are recorded, and these texts.
    """
    table = rank.trace.events.side.get("operators")
    dims = None if table is None else table.columns.get("input_dims")
    found = np.full(len(work), UNKNOWN, dtype=np.int64)
    if table is None or not isinstance(dims, TextColumn):
        return found, ()
    says = np.array([any(map(str.isdigit, text)) for text in dims.values] or [False])
    codes = np.append(np.where(says[dims.codes], dims.codes, UNKNOWN), UNKNOWN)
    waiting = np.flatnonzero(work.launch >= 0)
    calls = rank.parents[work.launch[waiting]].astype(np.int64)
    for _ in range(MOST_PARENTS):
        found[waiting] = codes[table.places_of(calls)]
        further = (found[waiting] < 0) & (calls >= 0)
        waiting, calls = waiting[further], rank.parents[calls[further]].astype(np.int64)
    return found, dims.values


def sizes_of_shapes(texts: Sequence[str]) -> Float64Array:
    """How much work shapes stand for: the logarithm of the product of all their dimensions.

    If one dimension is longer than elsewhere, this differs at least as much as the work does.

    Examples
    --------
    >>> np.exp(sizes_of_shapes(["[[2, 3], [3, 4]]", "[[8], []]"])).round().tolist()
    [72.0, 8.0]
    """
    found = [sum(log(int(each)) for each in _DIMENSION.findall(text)) for text in texts]
    return np.array(found)


def _launch_sizes(rank: Rank, work: GpuWork) -> tuple[Keys, Float64Array]:
    """Hash of the grid and block of each kernel, and its number of threads; 0 if not recorded."""
    sizes = launch_configuration(rank, work, _SIZES)
    mixed, threads = np.zeros(len(work), dtype=np.uint64), np.ones(len(work))
    has = np.ones(len(work), dtype=np.bool_)
    for size in sizes.values():
        mixed = _mixed(mixed, size.view(np.uint64), _FACTORS[-1])
        threads *= np.maximum(size, 1)
        has &= size >= 0
    mixed[~has], threads[~has] = 0, 0
    return mixed, threads


def _hashes(codes: Int64Array | Int32Array, texts: Sequence[str]) -> Keys:
    """Hash of each text by its code, the same in any process; 0 for the code -1."""
    used, places = np.unique(codes, return_inverse=True)
    by_code = [
        blake2b(texts[code].encode(errors="replace"), digest_size=8).digest() if code >= 0 else b""
        for code in used.tolist()
    ]
    hashes = [int.from_bytes(digest, "little") for digest in by_code]
    return np.array(hashes, dtype=np.uint64)[places]


def _mixed(one: Keys, other: Keys, factor: np.uint64) -> Keys:
    """Join two hashes of each row into one; products wrap around."""
    product = (one ^ (other + factor)) * factor
    return np.asarray(product ^ (product >> np.uint64(29)))


class Operators(NamedTuple):
    """The operator of each of some kernels."""

    place: Int64Array
    """Place of the operator's call, -1 for none."""
    kind: Int64Array
    """Position in `kinds`, which operators with the same name, shapes and types share."""
    kinds: list[tuple[str, str, str]]
    """Name, shapes and types, as in the trace; empty where they are not recorded."""


def as_called(rank: Rank, work: GpuWork) -> tuple[Rank, GpuWork]:
    """A rank and some of its GPU work, with the calls of the graph captures given for its trace."""
    if not rank.captures:
        return rank, work
    joined = with_replayed_calls(rank)
    return joined, joined.gpu_work.take(np.flatnonzero(np.isin(rank.gpu_work.rows, work.rows)))


def operators_of(calls: Calls, work: GpuWork, is_meant: Callable[[str], object]) -> Operators:
    """The nearest operator around the launch of each kernel whose name is meant."""
    is_named = calls.named(is_meant)
    found, launched_by = numbered(calls.operator[calls.places_of(work.launch)])
    climbing = np.flatnonzero(found >= 0)
    while climbing.size:
        climbing = climbing[~is_named[found[climbing]]]
        found[climbing] = calls.operator[calls.forest.parent[found[climbing]]]
        climbing = climbing[found[climbing] >= 0]
    place = found[launched_by]
    used, which = numbered(place)
    rows = np.append(calls.forest.rows, -1)[used]
    events = calls.events
    (dims, dim_texts), (types, type_texts) = (
        events.texts_at("operators", column, rows) for column in ("input_dims", "input_types")
    )
    names = events.name.values
    has_operator = used >= 0
    name, dims, types = (
        np.where(has_operator, codes, -1)
        for codes in (np.append(calls.name, -1)[used], dims, types)
    )
    alike = grouped(name, dims, types)
    kind = alike.of_rows
    kinds = [
        (
            _text(names, int(name[row])),
            _text(dim_texts, int(dims[row])),
            _text(type_texts, int(types[row])),
        )
        for row in alike.first.tolist()
    ]
    return Operators(place, kind[which], kinds)


def _text(texts: Sequence[str], code: int) -> str:
    return texts[code] if code >= 0 else ""


def time_by_module(rank: Rank, places: Int64Array, length_ns: Times) -> dict[str, int]:
    """Time (ns) inside each class of module of the user's model, outermost first.

    Each piece of time belongs to the call at its place, or to none (-1). A single outermost module
    holds everything, and is left out. Empty if no modules are recorded.
    """
    paths = module_paths(rank)
    codes = paths.at(places)
    sums = np.bincount(codes[codes >= 0], length_ns[codes >= 0], minlength=len(paths.paths))
    found: dict[str, int] = {}
    outermost = set()
    for code in np.flatnonzero(sums).tolist():
        every = [_NUMBER.sub("", name) for name in paths.paths[code].split(SEPARATOR)]
        names = [name for name in dict.fromkeys(every) if not _IN_ALL_MODELS.search(name)]
        outermost.update(names[:1])
        for name in names:
            found[name] = found.get(name, 0) + int(sums[code])
    if len(outermost) == 1:
        del found[outermost.pop()]
    return found


_NORMS_IN_TRAINING: Final = r"bn_fw_tr_|batch_norm_collect_statistics|BatchNormFwdTrain"
NORMS_IN_TRAINING: Final = re.compile(_NORMS_IN_TRAINING)
AS_IN_TRAINING: Final = re.compile(rf"{_NORMS_IN_TRAINING}|fused_dropout")
"""Kernels of batch norm that compute statistics; and with kernels of dropout."""

_OF_GRADIENTS: Final = ("backward", "bwd", "dgrad", "wgrad", "bn_bw_")
"""Parts of kernel names; none of them is in ``winograd``."""


def as_in_training_ns(rank: Rank, fits: re.Pattern[str] = AS_IN_TRAINING) -> int:
    """Time in such kernels; 0 with gradients, which show training without operators."""
    work = rank.gpu_work
    if work.named(lambda name: any(part in name.lower() for part in _OF_GRADIENTS)).any():
        return 0
    return int(work.duration_ns[work.named(fits.search)].sum())
