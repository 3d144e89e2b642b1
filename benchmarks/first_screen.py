"""CPU time and memory of a Dashboard, from the file to the first screen, all tabs and a window.

By hand, on Linux: ``python -m benchmarks.first_screen FILE``. It opens the trace, or the folder of
traces, twice, each time in a process of its own: without a cache, and from the one that was made.
Machines differ by a factor of two, and one of them from day to day. So a script that only puts the
events of a file into a table with msgspec (see `peers`) is timed before and after.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks.children import NO_BYTE_CODE, Child

MB = 1024
"""kB, in which the kernel counts."""

WINDOWED = ("operators", "flame", "modules", "idle_owners")
"""Tabs that a window is dragged over."""


class Stage(NamedTuple):
    """What one stage cost, and the memory of the process when it was over."""

    name: str
    cpu_s: float
    peak_mb: int
    held_mb: int


def memory_mb() -> tuple[int, int]:
    """Most memory of this process so far, and what it has now."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    kb = {name: value for name, _, value in (line.partition(":") for line in lines)}
    peak, held = (int(kb[name].split()[0]) // MB for name in ("VmHWM", "VmRSS"))
    return peak, held


def stages(source: str) -> Iterator[Stage]:
    """One stage after the other; the first is what Python and the package need."""
    began = 0.0

    def over(name: str) -> Stage:
        nonlocal began
        stage = Stage(name, time.process_time() - began, *memory_mb())
        began = time.process_time()
        return stage

    from hta_widgets import Dashboard, open_trace  # noqa: PLC0415

    yield over("imports")
    job = open_trace(source, progress=False)
    yield over("load")
    dash = Dashboard(job)
    dash._repr_mimebundle_()
    yield over("first screen: header, bands, timeline, the open tab")
    start_ns, end_ns = dash.job.rank(job.ranks[0]).trace.events.start_ns[[0, -1]].tolist()
    third_ns = (end_ns - start_ns) // 3
    for name in ("first", "second"):
        start_ns += third_ns // 2
        dash.selection.set(window_ns=(start_ns, start_ns + third_ns))
        for tab in WINDOWED:
            if tab in dash.panels:
                assert dash.panels[tab].table is not None  # noqa: S101
        yield over(f"{name} window of {', '.join(WINDOWED)}")
    for panel in dash.panels.values():
        panel.compute_all()
    yield over("all tabs")


def main() -> None:
    source = sys.argv[1]
    if len(sys.argv) > 2:  # noqa: PLR2004  # in a process of its own
        for stage in stages(source):
            print(f"| {stage.name} | {stage.cpu_s:.2f} s | {stage.peak_mb} | {stage.held_mb} |")
        return
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "HTA_WIDGETS_CACHE": cache}
        environment.pop(NO_BYTE_CODE, None)  # what pip installed, as users have it, has byte code
        is_file = Path(source).is_file()
        script = Child(Path(sys.executable), "peers")
        peers = [script.run("msgspec", path=source)] if is_file else []
        importing = [sys.executable, "-c", "from hta_widgets import Dashboard"]
        subprocess.run(importing, env=environment, check=True)
        command = [sys.executable, "-m", "benchmarks.first_screen", source, "child"]
        for how in ("without a cache", "from the cache"):
            print(f"\n| {how} | CPU | peak MB | held MB |\n|---|---:|---:|---:|", flush=True)
            subprocess.run(command, env=environment, check=True)
        peers += [script.run("msgspec", path=source)] if is_file else []
        size = sum(each.stat().st_size for each in Path(cache).rglob("*") if each.is_file())
    files = [Path(source)] if is_file else Path(source).rglob("*")
    given = sum(each.stat().st_size for each in files)
    if taken := [each.cpu_s for each in peers if each]:
        print(f"\nThe script with msgspec takes {' and '.join(f'{s:.2f}' for s in taken)} s.")
    print(f"\nThe cache has {size / 1e6:.0f} MB, {size / given:.1f} times the traces.")


if __name__ == "__main__":
    main()
