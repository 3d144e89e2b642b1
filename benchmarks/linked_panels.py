"""Change the selection of 40 panels in a real JupyterLab, and time what is visible until drawn.

By hand: ``python -m benchmarks.linked_panels FOLDER``, where FOLDER has traces of several ranks.
"""

from __future__ import annotations

import json
import sys
from statistics import median
from typing import Any

from playwright.sync_api import expect

from tests.browser.conftest import lab_of_its_own
from tests.browser.lab_pages import LabPage

PANELS = 40
CHANGES = 12

OPEN = """
from hta_widgets import open_trace
from hta_widgets.panels.dashboard import PANELS
from IPython.display import display
job = open_trace({folder!r}, progress=False)
kinds = [kind for kind in PANELS.values() if kind.concerns(job)]
panels = [kinds[number % len(kinds)](job) for number in range({panels})]
computed = []
for number, panel in enumerate(panels):
    panel.observe(lambda change, number=number: computed.append(number), "_view")
"""

SELECT = """async ([rank, quiet]) => {
    const inSight = [...document.querySelectorAll('.hta-panel')].filter((panel) => {
        const { top, bottom, height } = panel.getBoundingClientRect();
        return height > 0 && bottom > 0 && top < innerHeight;
    });
    const drawn = new Map();
    const start = performance.now();
    const note = (panel) => drawn.set(panel, performance.now() - start);
    const observers = inSight.map((panel) => {
        const observer = new MutationObserver(() => note(panel));
        const parts = panel.querySelectorAll('.hta-figures, .hta-finding');
        const all = { childList: true, subtree: true, characterData: true, attributes: true };
        parts.forEach((part) => observer.observe(part, all));
        return observer;
    });
    const box = [...document.querySelectorAll('.hta-popover input[type=checkbox]')][rank];
    box.click();
    do {
        await new Promise((done) => setTimeout(done, 20));
    } while (performance.now() - start < Math.max(0, ...drawn.values()) + quiet);
    observers.forEach((observer) => observer.disconnect());
    return { inSight: inSight.length, drawn: [...drawn.values()] };
}"""
"""Ticks a rank; gives the times (ms) after which the panels in sight change for the last time."""

QUIET_MS = 1500


def changes(page: LabPage) -> list[dict[str, Any]]:
    """Tick and untick ranks, and note when the panels in sight were drawn and which computed."""
    page.panel(0).get_by_role("button", name="ranks").first.click()
    found = []
    for number in range(CHANGES):
        page.execute("computed.clear()")
        seen = page.page.evaluate(SELECT, [number % 2, QUIET_MS])
        found.append({**seen, "computed": page.python("sorted(set(computed))")})
    return found


def main() -> None:
    folder = sys.argv[1]
    with lab_of_its_own() as lab:
        cells = [OPEN.format(folder=folder, panels=PANELS)]
        cells += [f"panels[{number}]" for number in range(PANELS)]
        page = lab.open(cells)
        expect(page.panel().locator(".main-svg").first).to_be_visible(timeout=120_000)
        page.page.wait_for_timeout(3000)
        page.page.locator(".jp-WindowedPanel-outer").first.evaluate("node => node.scrollTo(0, 0)")
        page.page.wait_for_timeout(3000)
        for change in (found := changes(page)):
            print(json.dumps(change))
        last = [max(change["drawn"], default=0.0) for change in found]
        print(json.dumps({"median_ms": median(last), "worst_ms": max(last)}))


if __name__ == "__main__":
    main()
