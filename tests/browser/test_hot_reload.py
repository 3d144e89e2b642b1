"""A rebuilt front end reaches the panels of an open JupyterLab while its kernel keeps running."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest
import watchfiles  # noqa: F401  # anywidget watches with it, if it is there
from playwright.sync_api import expect

import hta_widgets
from tests.browser.lab_pages import Lab, LabPage

JS = Path(os.environ.get("HTA_WIDGETS_JS", Path(__file__).parents[2] / "js"))


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the package and of its front end, which may be changed."""
    package = Path(hta_widgets.__file__).parent
    ignored = shutil.ignore_patterns("__pycache__", "node_modules")
    shutil.copytree(package, tmp_path / "hta_widgets", ignore=ignored)
    shutil.copytree(JS, tmp_path / "js", ignore=ignored)
    (tmp_path / "js" / "node_modules").symlink_to(JS / "node_modules")
    return tmp_path


def wait_for_line(lines: IO[str], beginning: str) -> None:
    seen = []
    for line in lines:
        seen.append(line)
        if line.startswith(beginning):
            return
    pytest.fail("".join(seen))


@contextmanager
def watching(checkout: Path) -> Iterator[None]:
    """Run `npm run watch` until the block ends."""
    command = ["npm", "--prefix", str(checkout / "js"), "run", "watch"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as watch:
        assert watch.stdout
        try:
            wait_for_line(watch.stdout, "Watching js/src")
            yield
        finally:
            os.killpg(watch.pid, signal.SIGTERM)


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))


def open_panels(lab: Lab, checkout: Path, folder: str) -> LabPage:
    development = f"""
import os, sys
os.environ["ANYWIDGET_HMR"] = "1"
sys.path.insert(0, {str(checkout)!r})
from hta_widgets import open_trace
from hta_widgets.panels import *
job = open_trace({folder!r})
"""
    shown = [development, "panel = KernelBreakdownPanel(job)\npanel", "OverlapPanel(job)"]
    return lab.open(shown, alone=True)


def test_open_panels_are_redrawn_by_a_rebuilt_front_end(lab: Lab, job8: str, checkout: Path):
    with watching(checkout):
        page = open_panels(lab, checkout, job8)
        kernel = page.python("os.getpid()")
        field = page.panel().get_by_role("spinbutton", name="Top kernels")
        field.fill("7")
        field.press("Enter")
        page.wait_for("panel.num_kernels", 7)

        replace(checkout / "js/src/table.ts", "`Data table (", "`Rebuilt table (")
        replace(
            checkout / "js/src/panel.css",
            "font-size: 14px; font-weight: 600; }",
            "font-size: 14px; }",
        )

        for number in range(2):
            panel = page.panel(number)
            expect(panel.locator("summary").last).to_contain_text("Rebuilt table")
            expect(panel.locator(".js-plotly-plot .main-svg").first).to_be_visible()
        expect(page.page.locator(".hta-panel")).to_have_count(2)
        heading_of_browser = "700"
        expect(page.panel().locator(".hta-title")).to_have_css("font-weight", heading_of_browser)
        page.screenshot("hot_reload")

        expect(field).to_have_value("7")
        assert page.python("os.getpid()") == kernel
        page.panel().get_by_role("slider", name="Top kernels").press("ArrowRight")
        page.wait_for("panel.num_kernels", 8)
