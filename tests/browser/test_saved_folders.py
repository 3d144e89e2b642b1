"""A notebook with every panel, as JupyterLab saves it: it names no folder of the user's machine."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import expect

from tests.browser.lab_pages import Lab

OPEN = """
from pathlib import Path
from hta_widgets import open_trace
from hta_widgets.panels import *
from hta_widgets.panels.dashboard import PANELS
job = open_trace(Path("where.txt").read_text(), progress=True)
board = Dashboard(job)
board
"""
PANELS = """
from IPython.display import display
panels = [kind(job) for kind in PANELS.values()] + [ComparePanel(job, job)]
display(*panels)
"""


def test_a_saved_notebook_names_no_folder(lab: Lab, job8: str, tmp_path_factory):
    (lab.root / "where.txt").write_text(job8)
    page = lab.open([OPEN, PANELS], height=2000, alone=True)
    expect(page.page.locator(".hta-panel .main-svg").first).to_be_visible()
    for name in ("Export for Perfetto…", "Write marked trace"):
        button = page.page.get_by_role("button", name=name, exact=True).last
        button.scroll_into_view_if_needed()
        button.click()
        expect(page.page.get_by_role("status").filter(has_text="Wrote")).not_to_have_count(0)
    page.execute("board.selection.steps = (42,)")
    expect(page.page.get_by_role("alert").filter(has_text="step 42")).not_to_have_count(0)
    page.save()
    page.wait_until(lambda: "step 42" in page.path.read_text())
    saved = page.path.read_text()
    assert "Wrote " in saved
    assert saved.count("_view_module") > 2 * len(page.python("[*PANELS]"))
    for folder in (job8, str(tmp_path_factory.getbasetemp()), str(Path.home())):
        assert folder not in saved
