"""Click a rank, a step and a kernel of a Dashboard over a big job, and time its bands until drawn.

By hand: ``python -m benchmarks.dashboard FOLDER [KERNELS]``, where FOLDER has traces of several
ranks, which are repeated until they have so many kernels.
"""

from __future__ import annotations

import json
import os
import sys
from collections import defaultdict
from statistics import median
from typing import Any

from playwright.sync_api import expect

from benchmarks.children import CHECKOUT
from tests.browser.conftest import lab_of_its_own
from tests.browser.lab_pages import Lab, LabPage

KERNELS = 1_000_000
TURNS = 6
QUIET_MS = 1_000
START_MS = 600_000

CELL = """
import sys
sys.path.insert(0, {checkout!r})
from benchmarks.big_job import long_job
from hta_widgets import Dashboard, open_trace
job = long_job(open_trace({files!r}, progress=False), {kernels})
dash = Dashboard(job)
dash
"""

CLICK = """async ([what, place, quiet]) => {
    const root = document.querySelector('.hta-dashboard');
    const bands = {
        verdict: '.hta-board-header, .hta-chips, .hta-band-verdict, .hta-footer, .hta-drawer',
        budget: '.hta-budget',
        tab: '.hta-tab-page',
    };
    const drawn = {};
    const start = performance.now();
    const note = (name) => { drawn[name] = performance.now() - start; };
    const observers = Object.entries(bands).map(([name, selector]) => {
        const observer = new MutationObserver(() => note(name));
        const all = { childList: true, subtree: true, characterData: true, attributes: true };
        root.querySelectorAll(selector).forEach((part) => observer.observe(part, all));
        return observer;
    });
    const { prototype } = CanvasRenderingContext2D;
    const clear = prototype.clearRect;
    prototype.clearRect = function (...box) { note('timeline'); return clear.apply(this, box); };
    const canvas = root.querySelector('.hta-lanes canvas');
    const pointer = (type, x, y) => {
        const { left, top } = canvas.getBoundingClientRect();
        const at = { clientX: left + x, clientY: top + y, button: 0, pointerId: 1, bubbles: true };
        canvas.dispatchEvent(new PointerEvent(type, at));
    };
    const click = (x, y) => { pointer('pointerdown', x, y); pointer('pointerup', x, y); };
    if (what === 'rank') click(40, 35 + 28 * place);
    if (what === 'step') click(84 + (canvas.clientWidth - 84) * (0.2 + 0.3 * place), 10);
    if (what === 'kernel') root.querySelector(`.hta-tab-page tr[data-place="${place}"]`).click();
    do {
        await new Promise((done) => setTimeout(done, 20));
    } while (performance.now() - start < Math.max(0, ...Object.values(drawn)) + quiet);
    observers.forEach((observer) => observer.disconnect());
    prototype.clearRect = clear;
    return drawn;
}"""
"""Clicks, and gives the time (ms) after which each of the bands changed for the last time."""

TABS = {"rank": "ranks", "step": "steps", "kernel": "kernels"}
"""The tab that is open when each is clicked."""


def opened(lab: Lab, folder: str, kernels: int) -> LabPage:
    """A dashboard of a big job, all of which has been drawn once."""
    page = lab.open([CELL.format(checkout=str(CHECKOUT), files=folder, kernels=kernels)])
    shown = page.page.locator(".hta-dashboard")
    expect(shown.locator(".hta-budget button").first).to_be_visible(timeout=START_MS)
    for tab in TABS.values():
        page.execute(f"dash.panel = {tab!r}")
        expect(shown.locator(".hta-tab-page .main-svg").first).to_be_visible(timeout=START_MS)
    page.page.wait_for_timeout(3 * QUIET_MS)
    return page


def clicks(page: LabPage) -> dict[str, list[dict[str, float]]]:
    """Times (ms) until each band is drawn, by what is clicked; each selects, then no more."""
    found: dict[str, list[dict[str, float]]] = defaultdict(list)
    for what, tab in TABS.items():
        page.execute(f"dash.panel = {tab!r}")
        if what == "kernel":
            page.page.locator(".hta-tab-page").get_by_text("Data table").first.click()
        page.page.wait_for_timeout(3 * QUIET_MS)
        for turn in range(TURNS):
            found[what].append(page.page.evaluate(CLICK, [what, turn // 2 % 2, QUIET_MS]))
        page.execute("dash.selection.set()")
    return found


def summary(found: dict[str, list[dict[str, float]]]) -> dict[str, Any]:
    """Median and worst time (ms) until all bands are drawn."""
    last = {
        what: [max(each.values(), default=0.0) for each in turns] for what, turns in found.items()
    }
    every = [each for turns in last.values() for each in turns]
    return {
        **{what: round(median(turns)) for what, turns in last.items()},
        "median_ms": round(median(every)),
        "worst_ms": round(max(every)),
        "load": [round(each, 1) for each in os.getloadavg()],
    }


def main() -> None:
    folder = sys.argv[1]
    kernels = int(sys.argv[2]) if len(sys.argv) > 2 else KERNELS  # noqa: PLR2004
    with lab_of_its_own() as lab:
        page = opened(lab, folder, kernels)
        found = clicks(page)
        for what, turns in found.items():
            for bands in turns:
                print(what, json.dumps({name: round(ms) for name, ms in bands.items()}))
        print(json.dumps(summary(found)))


if __name__ == "__main__":
    main()
