"""Memory and widgets over many dashboards and recomputes.

By hand, in half an hour, where FOLDER has traces::

    python -m tests.soak dashboards FOLDER 50
    python -m tests.soak dropped FOLDER 50
    python -m tests.soak recomputes FOLDER 5000

`tests.panels.test_soak` has shorter runs.
"""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import cycle, islice

import ipywidgets
import psutil

from hta_widgets.panels import Dashboard
from hta_widgets.panels.base.panel import Panel
from hta_widgets.trace.job import Job

LINES = 10
"""Measurements of a run."""


@dataclass(frozen=True)
class Footprint:
    """What a process holds after some turns.

    Parameters
    ----------
    turns : int
    rss_bytes : int
        Memory that is resident.
    widgets, jobs, panels : int
        Widgets that ipywidgets knows, and jobs and panels that are alive.
    """

    turns: int
    rss_bytes: int
    widgets: int
    jobs: int
    panels: int

    @classmethod
    def now(cls, turns: int) -> Footprint:
        """Measure this process, without its garbage."""
        gc.collect()
        alive = gc.get_objects()
        return cls(
            turns=turns,
            rss_bytes=psutil.Process().memory_info().rss,
            widgets=len(open_widgets()),
            jobs=sum(type(each) is Job for each in alive),
            panels=sum(isinstance(each, Panel) for each in alive),
        )


def open_widgets() -> dict[str, ipywidgets.Widget]:
    """Widgets that ipywidgets keeps: all that were made and not closed."""
    module = ipywidgets.widgets.widget
    return module._instances if hasattr(module, "_instances") else ipywidgets.Widget.widgets


def dashboards(folder: str) -> Iterator[None]:
    """Make a dashboard and close it, again and again."""
    while True:
        Dashboard(folder).close()
        yield


def dropped(folder: str) -> Iterator[None]:
    """Make a dashboard, forget it, and close what ipywidgets still has."""
    while True:
        Dashboard(folder)
        ipywidgets.Widget.close_all()
        yield


def recomputes(folder: str) -> Iterator[None]:
    """Change parameters and the selection of one dashboard; a turn is a recompute of one panel."""
    board = Dashboard(folder)
    for each in (board, *board.panels.values()):
        each.set_state({"_visible": True})
    ranks = cycle([[rank] for rank in board.job.ranks])
    numbers = cycle(range(1, 21))
    while True:
        board.panels["kernel_breakdown"].num_kernels = next(numbers)
        yield
        board.selection.ranks = next(ranks)
        yield from [None] * len(board.panels)


RUNS: dict[str, Callable[[str], Iterator[None]]] = {
    "dashboards": dashboards,
    "dropped": dropped,
    "recomputes": recomputes,
}


def footprints(run: str, folder: str, turns: int) -> Iterator[Footprint]:
    """Measure `LINES` times while something is done over and over."""
    running = RUNS[run](folder)
    every = turns // LINES
    for line in range(LINES):
        for _ in islice(running, every):
            pass
        yield Footprint.now((line + 1) * every)


def main() -> None:
    run, folder, turns = sys.argv[1:]
    for footprint in footprints(run, folder, int(turns)):
        print(json.dumps(asdict(footprint)), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
