"""Move sliders in a real JupyterLab, and time each step until its charts are drawn."""

from __future__ import annotations

import json
import sys
from statistics import median
from typing import Any

from playwright.sync_api import expect

from benchmarks.children import CHECKOUT
from benchmarks.stopwatch import answer
from tests.browser.conftest import lab_of_its_own
from tests.browser.lab_pages import Lab, LabPage

MANY_SEQUENCES = {"operator_name": "aten::", "whole_name": False, "min_pattern_len": 1}
PANELS: dict[str, dict[str, Any]] = {
    "RankOverlapPanel": {},
    "KernelBreakdownPanel": {},
    "IdleTimePanel": {"level": "stream"},  # of one GPU, a bar is no chart
    "IdleOwnersPanel": {},
    "LaunchStatsPanel": {},
    "DurationTailsPanel": {},
    "KernelSequencesPanel": MANY_SEQUENCES,
}
"""Panels whose sliders are moved, and their settings."""

CELL = """
import sys
sys.path.insert(0, {checkout!r})
from benchmarks.big_job import with_kernels
from hta_widgets import open_trace
from hta_widgets.panels import {panel}
job = with_kernels(open_trace({files!r}, progress=False), {kernels})
panel = {panel}(job, **{settings!r})
panel
"""

QUIET_MS = 150
"""Charts count as drawn when none is drawn for this long (ms)."""

UNCHANGED_MS = 2000
"""A step that draws nothing for this long (ms) changes no chart."""

MOVE = """async ([place, share, quiet, unchanged]) => {
    const panel = document.querySelector('.hta-panel');
    const slider = panel.querySelectorAll('input[type=range]')[place];
    const [low, high] = [Number(slider.min), Number(slider.max)];
    let last = 0;
    const note = () => { last = performance.now(); };
    const charts = [...panel.querySelectorAll('.js-plotly-plot')];
    charts.forEach((chart) => chart.on('plotly_afterplot', note));
    const start = performance.now();
    slider.value = String(low + share * (high - low));
    slider.dispatchEvent(new Event('input', { bubbles: true }));
    while (performance.now() - Math.max(last, start) < (last ? quiet : unchanged)) {
        await new Promise((done) => setTimeout(done, 10));
    }
    // A chart that is gone has no listeners.
    charts.forEach((chart) => chart.removeListener?.('plotly_afterplot', note));
    return last ? last - start : null;
}"""


def redraws(files: dict[int, str], kernels: int, steps: int) -> dict[str, Any]:
    """Median and worst time (s) of the steps of each slider."""
    times = {}
    with lab_of_its_own() as lab:
        for panel in PANELS:
            times |= _of_panel(lab, panel, files, kernels, steps)
    return {"controls": times}


def _of_panel(
    lab: Lab, panel: str, files: dict[int, str], kernels: int, steps: int
) -> dict[str, Any]:
    page = lab.open(
        [
            CELL.format(
                checkout=str(CHECKOUT),
                files=files,
                kernels=kernels,
                panel=panel,
                settings=PANELS[panel],
            )
        ]
    )
    expect(page.panel().locator(".main-svg").first).to_be_visible(timeout=120_000)
    page.page.wait_for_timeout(1000)
    sliders = page.panel().locator("input[type=range]")
    found = {}
    for place in range(sliders.count()):
        slider = sliders.nth(place)
        label = slider.evaluate("slider => slider.labels[0].textContent")
        before = slider.input_value()
        drawn = _drawn(page, place, steps)
        slider.fill(before)
        page.page.wait_for_timeout(1000)
        if drawn:
            found[f"{panel}, {label}"] = {
                "median": median(drawn),
                "worst": max(drawn),
                "steps": len(drawn),
            }
    lab.close_pages(shared=True)
    return found


def _drawn(page: LabPage, place: int, steps: int) -> list[float]:
    """Times (s) of those steps that change what is drawn."""
    shares = [step / (steps + 1) for step in range(1, steps + 1)]
    moves = [[place, share, QUIET_MS, UNCHANGED_MS] for share in shares]
    times_ms = [page.page.evaluate(MOVE, move) for move in moves]
    return [time_ms / 1000 for time_ms in times_ms if time_ms is not None]


def main() -> None:
    arguments = json.loads(sys.argv[2])
    files = {int(rank): path for rank, path in arguments["files"].items()}
    answer(redraws(files, arguments["kernels"], arguments["steps"]))


if __name__ == "__main__":
    main()
