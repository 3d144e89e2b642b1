"""Make the pictures of the docs that show a dashboard of a real trace.

    python -m tests.browser.pictures TRACE FOLDER --lines TRACE_WITH_STACKS

opens a dashboard of TRACE in JupyterLab, uses it as a reader would, and writes dashboard.png and
dashboard.webp to FOLDER; of TRACE_WITH_STACKS, such as b200_eager, idle-lines.png. It needs Pillow
(``pip install '.[pictures]'``).
"""

from __future__ import annotations

import argparse
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from playwright.sync_api import Locator, expect

from tests.browser.conftest import lab_of_its_own
from tests.browser.lab_pages import Lab, LabPage
from tests.browser.test_dashboard import MARGINS, dashboard

if TYPE_CHECKING:
    from PIL.Image import Image

WIDTH, HEIGHT = 1100, 1600
SHOWN_HEIGHT = 860
SMALLER = 0.75
MS = 60
"""Shortest time that a frame is shown."""

POINTER = """() => {
    const pointer = document.createElement('div');
    pointer.id = 'pointer';
    pointer.style.cssText = `position: fixed; z-index: 99999; width: 16px; height: 16px;
        border: 2px solid #fff; border-radius: 50%; background: #222c; pointer-events: none;`;
    document.body.append(pointer);
    document.addEventListener('pointermove', ({ clientX, clientY }) => {
        pointer.style.left = `${clientX - 8}px`;
        pointer.style.top = `${clientY - 8}px`;
    }, true);
}"""


class Film:
    """Frames of a dashboard, and how long each is shown."""

    def __init__(self, page: LabPage, board: Locator) -> None:
        self._page = page.page
        self._board = board
        self._place = (WIDTH / 2, HEIGHT / 2)
        self._frames: list[Image] = []
        self._times: list[int] = []

    def take(self, ms: int = MS) -> None:
        from PIL import Image  # noqa: PLC0415

        box = self._board.bounding_box()
        assert box is not None
        shown = {**box, "height": min(box["height"], SHOWN_HEIGHT)}
        picture = Image.open(io.BytesIO(self._page.screenshot(clip=shown)))
        self._frames.append(picture.convert("RGB"))
        self._times.append(ms)

    def hold(self, ms: int) -> None:
        """Wait for what was asked for, and show it."""
        self._page.wait_for_timeout(900)
        self.take(ms)

    def glide(self, x: float, y: float, frames: int = 4) -> None:
        from_x, from_y = self._place
        for frame in range(1, frames + 1):
            way = frame / frames
            self._page.mouse.move(from_x + way * (x - from_x), from_y + way * (y - from_y))
            self.take()
        self._place = (x, y)

    def point_at(self, target: Locator) -> None:
        box = target.bounding_box()
        assert box is not None
        self.glide(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)

    def click(self, target: Locator, ms: int) -> None:
        self.point_at(target)
        target.click()
        self.hold(ms)

    @contextmanager
    def dragging(self) -> Iterator[None]:
        self._page.mouse.down()
        yield
        self._page.mouse.up()

    def write(self, path: Path) -> None:
        from PIL import Image  # noqa: PLC0415

        height = max(frame.height for frame in self._frames)
        size = (round(WIDTH * SMALLER), round(height * SMALLER))
        frames = []
        for frame in self._frames:
            sheet = Image.new("RGB", (frame.width, height), "white")
            sheet.paste(frame)
            frames.append(sheet.resize(size, Image.Resampling.LANCZOS))
        frames[0].save(
            path,
            save_all=True,
            append_images=frames[1:],
            duration=self._times,
            loop=0,
            quality=70,
            method=6,
        )


def play(page: LabPage, film: Film) -> None:
    """Show the most expensive finding, select a window, open a tab, and go back."""
    board = dashboard(page)
    film.hold(2200)
    film.click(board.get_by_role("button", name="Show").first, 2500)
    lanes = board.locator(".hta-band-timeline canvas")
    box = lanes.bounding_box()
    assert box is not None
    film.glide(box["x"] + 0.45 * box["width"], box["y"] + 60)
    with film.dragging():
        film.glide(box["x"] + 0.72 * box["width"], box["y"] + 60, frames=7)
    film.hold(2500)
    film.click(board.get_by_role("tab", name="Kernels"), 2500)
    film.click(board.get_by_role("button", name="Clear the selection"), 1500)


def opened(lab: Lab, trace: Path) -> tuple[LabPage, Locator]:
    """A notebook with a dashboard whose open tab is drawn."""
    opening = f"from hta_widgets import Dashboard\ndash = Dashboard({str(trace.resolve())!r})\ndash"
    page = lab.open([opening], width=WIDTH + MARGINS, height=HEIGHT)
    board = dashboard(page)
    expect(board.locator(".hta-tab-page .main-svg").first).to_be_visible()
    page.page.wait_for_timeout(2000)
    return page, board


def show_lines(lab: Lab, trace: Path, path: Path) -> None:
    """What the page on idle time shows: the lines of Python behind a part of the budget."""
    page, board = opened(lab, trace)
    board.locator(".hta-budget").get_by_role("button", name="CPU-bound: launch").click()
    expect(board.locator(".hta-tab-page .main-svg").first).to_be_visible()
    page.page.wait_for_timeout(2000)
    board.screenshot(path=path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trace", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--lines", type=Path, metavar="TRACE_WITH_STACKS")
    asked = parser.parse_args()
    with lab_of_its_own() as lab:
        if asked.lines:
            show_lines(lab, asked.lines, asked.folder / "idle-lines.png")
        page, board = opened(lab, asked.trace)
        board.screenshot(path=asked.folder / "dashboard.png")
        page.page.evaluate(POINTER)
        film = Film(page, board)
        play(page, film)
        film.write(asked.folder / "dashboard.webp")


if __name__ == "__main__":
    main()
