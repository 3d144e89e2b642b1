"""The same checks in every host: the first example of the README, and a panel in a second cell."""

from __future__ import annotations

import os
import re
from pathlib import Path

from playwright.sync_api import FrameLocator, Locator, Page, expect

from hta_widgets.figures.svg.frame import WIDTH

CHARTS = 2
"""Charts of a dashboard with its first tab open."""

DRAWN_MS = 60_000
LIGHT_TEXT = 150
THUMB = 16


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
        self.alone = _kernel_breakdowns(second).last

    def draws(self) -> None:
        """All charts are drawn, and the last one has its styles."""
        board = self.first.locator(".hta-dashboard")
        charts = board.locator(".js-plotly-plot .main-svg:first-child")
        expect(charts).to_have_count(CHARTS, timeout=DRAWN_MS)
        expect(board.locator(".hta-findings li").first).to_be_visible()
        expect(board.locator(".hta-budget button").first).to_be_visible()
        expect(board.get_by_role("tab", selected=True)).to_have_text("Idle & launch")
        expect(self._bars(self.alone).first).to_be_visible(timeout=DRAWN_MS)
        expect(board).to_have_css("display", "grid")
        expect(self.first.locator(".hta-figures", has_text="cannot")).to_have_count(0)

    def moves(self) -> None:
        """Dragging a slider with the mouse redraws a chart."""
        before = self._bars(self.alone).count()
        slider = self.alone.get_by_role("slider", name="Top kernels")
        share = slider.evaluate("slider => (slider.value - slider.min) / (slider.max - slider.min)")
        box = slider.bounding_box()
        assert box
        middle = box["height"] / 2
        # Waits until the slider stays where it is: a dashboard above it grows while it is drawn.
        slider.drag_to(
            slider,
            source_position={"x": share * (box["width"] - THUMB) + THUMB / 2, "y": middle},
            target_position={"x": 1, "y": middle},
        )
        expect(slider).to_have_value("1")
        expect(self._bars(self.alone)).not_to_have_count(before)

    def answers_keys(self) -> None:
        """A key on a slider redraws a chart."""
        before = self._bars(self.alone).count()
        slider = self.alone.get_by_role("slider", name="Top kernels")
        slider.press("PageUp")
        expect(slider).not_to_have_value("1")
        expect(self._bars(self.alone)).not_to_have_count(before)

    def links(self) -> None:
        """A rank that is left out in one cell is left out in the other."""
        picker = self.alone.locator(".hta-open").first
        expect(picker).to_have_text("all 4 ranks")
        board = self.first.locator(".hta-dashboard")
        expect(board.locator(".hta-chips")).to_have_text("Selected:everything")
        picker.click()
        self.alone.get_by_role("checkbox", name="0", exact=True).click()
        expect(picker).not_to_have_text("all 4 ranks")
        self.page.keyboard.press("Escape")
        expect(board.locator(".hta-chip")).to_have_text("ranks 1–3 ×")
        expect(board.locator(".hta-band-budget .hta-aside")).to_contain_text("ranks 1-3")

    def opens_a_tab(self) -> None:
        """The panels of another tab take the place of those of the first."""
        board = self.first.locator(".hta-dashboard")
        board.get_by_role("tab", name="Kernels").click()
        breakdown = _kernel_breakdowns(board)
        expect(self._bars(breakdown).first).to_be_visible(timeout=DRAWN_MS)
        expect(breakdown.locator(".hta-open").first).to_be_hidden()

    def is_dark(self) -> None:
        """Panels and charts have light text on the dark page."""
        expect(self.alone).to_have_css("color-scheme", "dark")
        tick = self.alone.locator(".js-plotly-plot .xtick text").first
        for element in (self.alone, self.alone.locator(".hta-control label").first):
            assert min(rgb(element, "color")) > LIGHT_TEXT
        assert min(rgb(tick, "fill")) > LIGHT_TEXT

    def screenshot(self, name: str) -> None:
        """Keep a picture of the page where it is asked for."""
        keep_picture(self.page, name)

    @staticmethod
    def _bars(panel: Locator) -> Locator:
        return panel.locator(".hta-figure").nth(1).locator(".bars .point")


def keep_picture(page: Page, name: str) -> None:
    """Keep a picture of a page where HTA_WIDGETS_SCREENSHOTS says, if it does."""
    folder = os.environ.get("HTA_WIDGETS_SCREENSHOTS")
    if folder:
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)


def shows_summary(page: Page) -> None:
    """Where no widget runs there are findings, charts that the browser can read, and rows."""
    expect(page.get_by_text(re.compile("4 ranks: 0-3"))).to_be_visible()
    charts = page.locator("img[alt^='Chart: ']")
    expect(charts.first).to_be_visible()
    widths = charts.evaluate_all("images => images.map(image => image.naturalWidth)")
    assert set(widths) == {WIDTH}
    expect(page.locator("td", has_text="gemm").first).to_be_visible()


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
