"""Build the lanes of a big job, ask for windows of them, and count frames in a real JupyterLab.

By hand: ``python -m benchmarks.timeline FILE [KERNELS]``, where FILE is a trace or a folder of
traces; the first rank is repeated until it has so many kernels.
"""

from __future__ import annotations

import json
import sys
import time
from random import Random
from statistics import median
from typing import Any

from playwright.sync_api import expect

from benchmarks.big_job import with_kernels
from benchmarks.children import CHECKOUT
from hta_widgets import open_trace
from hta_widgets.analyses.timeline.lanes import RankLanes
from hta_widgets.analyses.timeline.lanes_of_job import JobLanes, LaneAsked, job_lanes
from hta_widgets.trace.job import Job
from tests.browser.conftest import lab_of_its_own

KERNELS = 250_000
"""About 2 million events, with the calls that launch them."""

WINDOWS = 60
PIXELS, MOST_EVENTS = 3_300, 1_500
SECONDS = 5

CELL = """
import sys
sys.path.insert(0, {checkout!r})
from benchmarks.big_job import with_kernels
from hta_widgets import open_trace
from hta_widgets.panels import TimelinePanel
job = with_kernels(open_trace({files!r}, progress=False), {events})
panel = TimelinePanel(job)
panel
"""

MOVE = """async (seconds) => {
    const canvas = document.querySelector('.hta-lanes canvas');
    const box = canvas.getBoundingClientRect();
    const zoom = (deltaY) => canvas.dispatchEvent(new WheelEvent('wheel', {
        deltaY, ctrlKey: true, cancelable: true, clientX: box.left + box.width * 0.6,
    }));
    const press = (key) => canvas.dispatchEvent(new KeyboardEvent('keydown', { key }));
    const frames = [];
    const start = performance.now();
    for (let turn = 0; performance.now() - start < seconds * 1000; turn += 1) {
        if (turn % 40 < 20) zoom(turn % 80 < 40 ? -60 : 60);
        else press(turn % 80 < 40 ? 'd' : 'a');
        await new Promise(requestAnimationFrame);
        await new Promise((done) => setTimeout(done));  // after the frame that was asked for
        frames.push(performance.now());
    }
    return frames.slice(1).map((end, place) => end - frames[place]);
}"""
"""Zooms and pans in turn as fast as frames are drawn; gives the time (ms) from frame to frame."""


def big_job(folder: str, events: int) -> Job:
    return with_kernels(open_trace(folder, progress=False), events)


def building(job: Job) -> dict[str, float]:
    """Time (s) to build all lanes of the first rank, and bytes for each segment."""
    began = time.perf_counter()
    lanes: RankLanes = job_lanes(job).of(job.ranks[0])
    names = lanes.names
    seconds = time.perf_counter() - began
    tracks = [track for name in names for track in lanes.tracks(name.key) or ()]
    held = sum(
        track.start_ns.nbytes + track.sums_ns.nbytes + track.row.nbytes + track.longest_ns.nbytes
        for track in tracks
    )
    segments = sum(track.start_ns.size for track in tracks)
    return {"build_s": seconds, "segments": segments, "bytes_per_segment": held / segments}


def answering(job: Job) -> dict[str, float]:
    """Time (ms) to answer for windows of any length anywhere, for all lanes of the first rank."""
    lanes: JobLanes = job_lanes(job)
    rank = job.ranks[0]
    asked = [LaneAsked(rank, name.key) for name in lanes.of(rank).names]
    random, taken = Random(1), []  # noqa: S311
    start, end = lanes.span
    for _ in range(WINDOWS):
        length = int((end - start) * 10 ** random.uniform(-6, 0))
        first = random.randint(start, end - length)
        began = time.perf_counter()
        lanes.window(asked, first, first + max(length, 1), PIXELS, most_events=MOST_EVENTS)
        taken.append(1e3 * (time.perf_counter() - began))
    return {"lanes": len(asked), "median_ms": median(taken), "longest_ms": max(taken)}


def drawing(folder: str, events: int, seconds: float = SECONDS) -> dict[str, Any]:
    """Frames a second while zooming and panning, in headless Chromium."""
    with lab_of_its_own() as lab:
        cell = CELL.format(checkout=str(CHECKOUT), files=folder, events=events)
        page = lab.open([cell])
        canvas = page.panel().locator(".hta-lanes canvas")
        expect(canvas).to_be_visible()
        canvas.click(position={"x": 6, "y": 35})
        page.page.wait_for_timeout(2_000)
        times = page.page.evaluate(MOVE, seconds)
    ascending = sorted(times)
    return {
        "frames": len(times),
        "per_second": 1e3 * len(times) / sum(times),
        "slowest_5_percent_ms": ascending[int(0.95 * len(ascending))],
    }


def main() -> None:
    folder = sys.argv[1]
    events = int(sys.argv[2]) if len(sys.argv) > 2 else KERNELS  # noqa: PLR2004
    job = big_job(folder, events)
    for name, found in (
        ("building", building(job)),
        ("answering", answering(job)),
        ("drawing", drawing(folder, events)),
    ):
        print(name, json.dumps(found))


if __name__ == "__main__":
    main()
