"""Loading a trace, by turns: hta_widgets, a script with msgspec, and Perfetto's trace processor.

By hand: ``python -m benchmarks.peers FILE``. The trace processor, a program in C++, takes part if
``trace_processor_shell`` is found; it loads the file and counts its slices. What the script
makes is less than either: a table of the events, of which it is not known which call launched which
kernel, or what is inside of what.
"""

from __future__ import annotations

import gc
import gzip
import json
import resource
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import msgspec
import numpy as np
import pandas as pd

from benchmarks.children import Child, Outcome, Run, by_turns, middle
from benchmarks.stopwatch import answer

REPEATS = 3
PERFETTO = "trace_processor_shell"
COUNTED = "SELECT COUNT(*) FROM slice"


class Args(msgspec.Struct, gc=False):
    """What joins launches with kernels."""

    correlation: int = 0


class Event(msgspec.Struct, gc=False):
    """What any script asks of an event."""

    ph: str = ""
    name: str = ""
    cat: str = ""
    pid: int | str = 0
    tid: int | str = 0
    ts: float = 0.0
    dur: float = 0.0
    args: Args | None = None


class File(msgspec.Struct, gc=False):
    """The part of a file that has them."""

    traceEvents: list[Event]  # noqa: N815


def by_msgspec(path: str) -> int:
    """Put what takes time in a file into a table; the number of its events."""
    gc.disable()  # nothing is garbage, and to look at millions of events takes longer than all else
    content = gzip.decompress(Path(path).read_bytes())
    events = [each for each in msgspec.json.decode(content, type=File).traceEvents if each.dur]
    table = pd.DataFrame(
        {
            "name": np.array([each.name for each in events], dtype=object),
            "cat": np.array([each.cat for each in events], dtype=object),
            "ts": np.array([each.ts for each in events]),
            "dur": np.array([each.dur for each in events]),
            "tid": np.array([each.tid for each in events], dtype=object),
            "correlation": np.array([each.args.correlation if each.args else 0 for each in events]),
        },
        copy=False,
    )
    return len(table)


def by_perfetto(path: str) -> int:
    """Let the trace processor load a file; the number of its slices."""
    asked = [PERFETTO, "query", path, COUNTED]
    said = subprocess.run(asked, check=True, capture_output=True, text=True).stdout
    return int(said.split()[-1])


def main() -> None:
    path, *child = sys.argv[1:]
    if child:  # in a process of its own: ``perfetto FILE`` or ``msgspec FILE`` as JSON
        of = {"msgspec": by_msgspec, "perfetto": by_perfetto}[path]
        count = of(json.loads(child[0])["path"])
        below = resource.getrusage(resource.RUSAGE_CHILDREN)
        answer({"events": count, "below_mb": below.ru_maxrss / 1024})
        return
    python = Path(sys.executable)
    peers = Child(python, "peers")
    ours = partial(Child(python, "ours").run, "load", files={0: path}, with_pandas=True)
    runs: dict[str, Run] = {
        "hta_widgets": ours,
        "a script with msgspec": partial(peers.run, "msgspec", path=path),
    }
    if shutil.which(PERFETTO):
        runs["Perfetto's trace processor"] = partial(peers.run, "perfetto", path=path)
    found = by_turns(runs, REPEATS)
    print("| | CPU of the process | peak memory |\n|---|---:|---:|")
    for name, outcomes in found.items():
        cpu_s, peak_mb = middle(outcomes, _cpu), middle(outcomes, _peak)
        if cpu_s is not None and peak_mb is not None:
            print(f"| {name} | {cpu_s:.1f} s | {peak_mb:,.0f} MB |")


def _cpu(outcome: Outcome) -> float:
    return outcome.cpu_s


def _peak(outcome: Outcome) -> float:
    return float(outcome.answer.get("below_mb") or outcome.peak_mb)


if __name__ == "__main__":
    main()
