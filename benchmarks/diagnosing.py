"""Load and diagnose one job, in a process of its own."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd  # what it costs to import belongs to neither

from benchmarks.ours import make_ready
from benchmarks.stopwatch import Stopwatch, answer
from hta_widgets import diagnose, open_trace
from hta_widgets.diagnosis.change.baseline import write_baseline
from hta_widgets.diagnosis.change.explain_change import explain_change
from hta_widgets.trace.opening import open as opening
from hta_widgets.trace.ranks.facts import world_size_of


def held(folder: str) -> dict[str, Any]:
    """All ranks are held in memory: from the files to all that analyses begin with, and on."""
    watch = Stopwatch()
    job = open_trace(folder, progress=False)
    make_ready(job)
    loaded = watch.lap()
    found = diagnose(job)
    diagnosed = watch.lap()
    events = [len(job.rank(rank).trace.events) for rank in job.ranks]
    return {"load": loaded, "diagnose": diagnosed, "findings": len(found), "events": max(events)}


def on_demand(folder: str) -> dict[str, Any]:
    """At most eight ranks are held: a question about each rank, then the diagnosis."""
    opening.BYTES_AT_ONCE = 0
    job = open_trace(folder, progress=False)
    watch = Stopwatch()
    job.reduce(world_size_of, job.ranks)
    loaded = watch.lap()
    found = diagnose(job)
    return {"load": loaded, "diagnose": watch.lap(), "findings": len(found)}


def compared(folder: str) -> dict[str, Any]:
    """A job is compared with itself, opened twice, after loading; and kept as a baseline."""
    watch = Stopwatch()
    jobs = [open_trace(folder, progress=False) for _ in range(2)]
    for job in jobs:
        make_ready(job)
    loaded = watch.lap()
    change = explain_change(*jobs)
    explained = watch.lap()
    with TemporaryDirectory() as kept:
        size = write_baseline(change.first, Path(kept) / "baseline.arrow")
    return {"load": loaded, "diagnose": explained, "baseline_bytes": size}


TASKS = {"held": held, "on_demand": on_demand, "compared": compared}

if __name__ == "__main__":
    del pd
    answer(TASKS[sys.argv[1]](**json.loads(sys.argv[2])))
