"""Jobs built from literal kernels or other events, without files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from hta_widgets.trace.cache.trace_file import LoadedTrace
from hta_widgets.trace.job import Job
from hta_widgets.trace.loaders.event_blocks import EventBlocks
from hta_widgets.trace.loaders.formats import NSYS
from hta_widgets.trace.model.events import Kind, Trace
from hta_widgets.trace.model.formats import Format
from hta_widgets.trace.ranks.source import RankSource

COMPUTE = "gemm"
COMMUNICATE = "ncclDevKernel_SendRecv"
"""Not matched over ranks, so that clocks stay as they are."""

COPY = "Memcpy DtoD (Device -> Device)"
WHOLE_GRAPH = "CUDA graph 4"

Kernel = tuple[str, int, int, int, int]
"""Name, start and duration in ns, device, stream."""


def kernels_job(
    ranks: Mapping[int, Sequence[Kernel]],
    *,
    origins: Mapping[int, int] | None = None,
    kind: Kind = Kind.KERNEL,
) -> Job:
    """Build a job from the kernels of each rank; origins in ns."""
    columns = {
        rank: [np.array(column) for column in zip(*kernels, strict=True)]
        for rank, kernels in ranks.items()
    }
    return columns_job(columns, origins=origins, kind=kind)


def columns_job(
    ranks: Mapping[int, Sequence[np.ndarray]],
    *,
    origins: Mapping[int, int] | None = None,
    sources: Mapping[int, str] | None = None,
    kind: Kind = Kind.KERNEL,
) -> Job:
    """Build a job from columns: name, start, duration, device and stream of each rank's kernels."""
    files = sources or {rank: f"rank{rank}.json" for rank in ranks}
    job = Job({rank: RankSource(Path(file)) for rank, file in files.items()}, name="kernels")
    for rank, columns in ranks.items():
        blocks = EventBlocks()
        if columns:
            name, start, duration, device, stream = columns
            kinds = np.where(name == COPY, Kind.MEMCPY, kind)
            kinds = np.where(name == WHOLE_GRAPH, Kind.GRAPH, kinds).astype(np.int8)
            blocks.add(kinds, start, duration, name.tolist(), device=device, stream=stream)
        events, first_ns = blocks.finish()
        trace = Trace(
            rank=rank,
            source=files[rank],
            events=events,
            origin_ns=(origins or {}).get(rank, 0) + first_ns,
            metadata={},
            notices=(),
        )
        job.add(LoadedTrace(trace, {}))
    return job


def job_of(blocks: EventBlocks, form: Format = NSYS, **metadata: object) -> Job:
    """Build a job of one rank of a format from its events."""
    events, origin_ns = blocks.finish()
    job = Job({0: RankSource(Path("recording"), form)}, name="job")
    job.add(LoadedTrace(Trace(0, "recording", events, origin_ns, metadata), {}))
    return job


def computing(form: Format) -> Job:
    """The same of a format, in which compute kernels ran for 10 ns."""
    blocks = EventBlocks()
    blocks.add(Kind.BUSY, np.array([0]), np.array([10]), ["Compute"])
    return job_of(blocks, form)


def busy_rank(seed: int, kernels: int, communication: float = 0.1) -> list[np.ndarray]:
    """Columns of a rank with this many kernels on a computation and a communication stream."""
    random = np.random.default_rng(seed)
    gap, duration = random.integers(0, 2000, (2, kernels))
    communicates = random.random(kernels) < communication
    start = np.cumsum(gap + duration // 2)
    name = np.where(communicates, COMMUNICATE, COMPUTE)
    return [name, start, duration, np.zeros(kernels, int), np.where(communicates, 20, 7)]
