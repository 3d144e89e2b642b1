"""The same checks in every host: the first example of the README, and a panel in a second cell."""

from __future__ import annotations

import os
import re
from pathlib import Path

from playwright.sync_api import FrameLocator, Locator, Page, expect

CHARTS = 10
DRAWN_MS = 60_000
LIGHT_TEXT = 150


def cells(folder: str) -> list[str]:
    """Two cells that share a selection."""
    return [
        f"from hta_widgets import Dashboard\nboard = Dashboard({folder!r})\nboard",
        "from hta_widgets.panels import KernelBreakdownPanel\nKernelBreakdownPanel(board.job)",
    ]


class Shown:
    """A dashboard and, below it, a panel of kernels by itself."""

    def __init__(self, page: Page, *frames: FrameLocator) -> None:
        self.page = page
        self.first, second = frames or (page, page)
        self.in_dashboard = _kernel_breakdowns(self.first).first
        self.alone = _kernel_breakdowns(second).last

    def draws(self) -> None:
        """All charts are drawn, and the last one has its styles."""
        charts = self.first.locator(".js-plotly-plot .main-svg:first-child")
        expect(charts.nth(CHARTS)).to_be_attached(timeout=DRAWN_MS)
        expect(self._bars(self.alone).first).to_be_visible(timeout=DRAWN_MS)
        expect(self.first.locator(".hta-dashboard")).to_have_css("display", "grid")
        expect(self.first.locator(".hta-figures", has_text="cannot")).to_have_count(0)

    def moves(self) -> None:
        """A key on a slider redraws a chart."""
        before = self._bars(self.alone).count()
        slider = self.alone.get_by_role("slider", name="Kernels")
        slider.press("Home")
        expect(slider).to_have_value("1")
        expect(self._bars(self.alone)).not_to_have_count(before)

    def links(self) -> None:
        """A rank that is left out in one cell is left out in the other."""
        picker = self.alone.locator(".hta-open").first
        expect(picker).to_have_text("all 4 ranks")
        finding = self.in_dashboard.locator(".hta-finding").inner_text()
        picker.click()
        self.alone.get_by_role("checkbox", name="0", exact=True).click()
        expect(picker).not_to_have_text("all 4 ranks")
        self.page.keyboard.press("Escape")
        followed = self.in_dashboard.locator(".hta-open").first
        expect(followed).to_have_text(picker.inner_text())
        self.in_dashboard.scroll_into_view_if_needed()
        expect(self.in_dashboard.locator(".hta-finding")).not_to_have_text(finding)

    def is_dark(self) -> None:
        """Panels and charts have light text on the dark page."""
        expect(self.alone).to_have_css("color-scheme", "dark")
        tick = self.alone.locator(".js-plotly-plot .xtick text").first
        for element in (self.alone, self.alone.locator(".hta-control label").first):
            assert min(rgb(element, "color")) > LIGHT_TEXT
        assert min(rgb(tick, "fill")) > LIGHT_TEXT

    def screenshot(self, name: str) -> None:
        """Keep a picture where HTA_WIDGETS_SCREENSHOTS says, if it does."""
        folder = os.environ.get("HTA_WIDGETS_SCREENSHOTS")
        if folder:
            self.page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)

    @staticmethod
    def _bars(panel: Locator) -> Locator:
        return panel.locator(".hta-figure").nth(1).locator(".bars .point")


def _kernel_breakdowns(within: Page | FrameLocator) -> Locator:
    return within.locator(".hta-panel").filter(has_text=re.compile("^Kernel breakdown"))


PAINTED = """(element, property) => {
    const canvas = new OffscreenCanvas(1, 1).getContext('2d');
    canvas.fillStyle = getComputedStyle(element)[property];
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
}"""


def rgb(element: Locator, name: str) -> list[int]:
    """A colour of an element, whichever way the browser writes it."""
    return element.evaluate(PAINTED, name)
