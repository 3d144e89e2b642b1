"""Time the operator table of a long trace: the first one, and each change of a parameter.

``python -m benchmarks.operators TRACE [EVENTS]`` repeats a real trace to at least so many events.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median

from benchmarks.stopwatch import timed
from benchmarks.table import quantity
from benchmarks.tiling import tile
from hta_widgets.analyses.idle_owners import idle_owners
from hta_widgets.analyses.operators import operators
from hta_widgets.analyses.time.calls import calls_of
from hta_widgets.analyses.time.modules import phases
from hta_widgets.trace.job import Job
from hta_widgets.trace.opening.open import open_trace

DEFAULT_EVENTS = 2_000_000
REPEATS = 5


def measure(job: Job) -> dict[str, float]:
    """Times (s) on one rank."""
    rank = job.rank(job.ranks[0])
    found = {
        "nesting of the calls (kept on disk)": _once(lambda: calls_of(rank)),
        "idle owners (kept on disk)": _once(lambda: idle_owners(job)),
        "forward links and phases": _once(lambda: phases(rank)),
        "operators, first time": _once(lambda: operators(job)),
        "by shape, first time": _once(lambda: operators(job, by="shape")),
        "by stack, first time": _once(lambda: operators(job, by="stack")),
    }
    for by in ("name", "shape", "stack"):
        for phase in (None, "backward"):
            times = [_once(lambda by=by, phase=phase: operators(job, by=by, phase=phase))]
            times += [_once(lambda by=by, phase=phase: operators(job, by=by, phase=phase))]
            found[f"by {by}, phase {phase or 'all'}, again"] = median(times * REPEATS)
    span_ns = int(rank.gpu_work.end_ns.max(initial=1))
    found["a window"] = _once(lambda: operators(job, window_ns=(span_ns // 4, span_ns // 2)))
    found["another window"] = _once(lambda: operators(job, window_ns=(span_ns // 3, span_ns // 2)))
    return found


def _once(function: Callable[[], object]) -> float:
    return timed(function)["wall_s"]


def main() -> None:
    source = Path(sys.argv[1])
    events = int(sys.argv[2]) if len(sys.argv) > 2 else DEFAULT_EVENTS  # noqa: PLR2004
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "rank-0.json.gz"
        tile(source, target, events=events, rank=0, world=1)
        job = open_trace(target, progress=False)
        print(f"{len(job.rank(0).trace.events):,} events of {source.name}")
        for what, seconds in measure(job).items():
            print(f"{what:45} {quantity(seconds, 's'):>10}")


if __name__ == "__main__":
    main()
