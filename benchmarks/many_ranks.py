"""Analyse a job of many ranks; report wall time and peak memory of the process tree.

    python benchmarks/many_ranks.py TRACE [TRACE ...] --ranks 256

Each rank is a hard link to one of the traces, such as those that `hta_widgets.sample` writes.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil

from hta_widgets.analyses.kernel_breakdown import kernel_breakdown
from hta_widgets.analyses.overlap import overlap
from hta_widgets.analyses.rank_overlap import rank_overlap
from hta_widgets.analyses.temporal_breakdown import temporal_breakdown
from hta_widgets.trace.job import Job
from hta_widgets.trace.opening import open as opening
from hta_widgets.trace.opening.open import open_trace
from hta_widgets.trace.ranks import workers

ANALYSES: tuple[Callable[[Job], object], ...] = (
    temporal_breakdown,
    overlap,
    rank_overlap,
    kernel_breakdown,
)
EVERY_S = 0.02
MB = 2**20


class PeakMemory:
    """Greatest sum of the resident memory of this process and all that it started."""

    bytes = 0

    def sample(self, over: threading.Event) -> None:
        """Look again and again."""
        this = psutil.Process()
        while not over.wait(EVERY_S):
            tree = [this, *this.children(recursive=True)]
            self.bytes = max(self.bytes, sum(map(_resident, tree)))


@contextmanager
def peak_memory() -> Iterator[PeakMemory]:
    """Sample the memory until the block ends."""
    peak, over = PeakMemory(), threading.Event()
    sampling = threading.Thread(target=peak.sample, args=(over,), daemon=True)
    sampling.start()
    try:
        yield peak
    finally:
        over.set()
        sampling.join()


def _resident(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0


def linked(traces: Sequence[Path], ranks: int, folder: Path) -> dict[int, Path]:
    """Link as many ranks to the traces, in turn."""
    paths = {rank: folder / f"rank-{rank}_{traces[0].name}" for rank in range(ranks)}
    for rank, path in paths.items():
        os.link(traces[rank % len(traces)], path)
    return paths


def measured(paths: dict[int, Path], *, hold_all: bool) -> dict[str, float]:
    """Open the ranks and summarise them twice."""
    if hold_all:
        opening.RANKS_HELD = len(paths)
    else:
        opening.BYTES_AT_ONCE = 0
    spent: dict[str, float] = {}
    before_mb = _resident(psutil.Process()) / MB
    with peak_memory() as peak:
        began = time.perf_counter()
        job = open_trace(paths, progress=False)
        spent["open_s"] = time.perf_counter() - began
        for analysis in ANALYSES:
            began = time.perf_counter()
            analysis(job)
            spent[f"{analysis.__name__}_s"] = time.perf_counter() - began
    total_s = sum(spent.values())
    return {
        "ranks": len(paths),
        "cpus": workers.cpu_count(),
        **{name: round(seconds, 2) for name, seconds in spent.items()},
        "total_s": round(total_s, 2),
        "ms_per_rank": round(1000 * total_s / len(paths), 1),
        "before_mb": round(before_mb),
        "peak_mb": round(peak.bytes / MB),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("traces", nargs="+", type=Path)
    parser.add_argument("--ranks", type=int, default=256)
    parser.add_argument("--hold-all", action="store_true", help="load and keep all, for comparison")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.traces[0].parent) as folder:
        paths = linked(given.traces, given.ranks, Path(folder))
        print(json.dumps(measured(paths, hold_all=given.hold_all)))


if __name__ == "__main__":
    main()
