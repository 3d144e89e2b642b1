"""The panels of modules and of the flame graph in a real JupyterLab."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.analyses.test_modules import NET
from tests.browser.lab_pages import Lab
from tests.browser.test_panels import cells, wait_for_charts
from tests.kineto_text import write

LINEAR = "Net_0 › Linear_0"


@pytest.fixture
def network(tmp_path: Path) -> str:
    write(tmp_path / "rank-0.json", NET)
    return str(tmp_path)


def test_a_click_on_a_module_selects_it(lab: Lab, network: str):
    page = lab.open(cells(network, "panel = ModulesPanel(job, merge='instance')\npanel"))
    wait_for_charts(page)
    page.panel().locator(".bars .point path").nth(1).click(force=True)
    page.wait_for("panel.selection.modules", [LINEAR])
    page.screenshot("modules")


def test_a_click_on_an_operator_of_a_shape_selects_both(lab: Lab, job4: str):
    page = lab.open(cells(job4, "panel = OperatorsPanel(job, by='shape')\npanel"))
    wait_for_charts(page)
    page.execute("items = panel._view['figures'][0]['data'][0]['customdata']")
    operator, shape = page.python("items[1]")
    page.panel().locator(".bars .point path").nth(1).click(force=True)
    page.wait_for(
        "[[*panel.selection.operators], [*panel.selection.shapes]]", [[operator], [shape]]
    )
    page.wait_for("panel.figures.popitem()[1].data[0].selectedpoints", [1])
    page.panel().locator(".bars .point path").nth(1).click(force=True)
    page.wait_for("[[*panel.selection.operators], [*panel.selection.shapes]]", [[], []])


def test_the_flame_graph(lab: Lab, network: str):
    """A click selects, a double click zooms in with the kernel's help, and Escape goes back."""
    page = lab.open(cells(network, "panel = FlamePanel(job, weight='cpu')\npanel"))
    canvas = page.panel().locator("canvas")
    box = canvas.bounding_box()
    assert box is not None
    assert box["height"] % 18 == 0
    row = {"x": 20, "y": 27}
    canvas.click(position=row)
    page.wait_for("panel.selection.modules", ["Net_0"])
    canvas.dblclick(position=row)
    page.wait_for("panel.root", ["nn.Module: Net_0"])
    expect(page.panel().locator(".hta-flame-trail")).to_have_text("nn.Module: Net_0")
    canvas.press("Escape")
    page.wait_for("panel.root", [])
    page.panel().get_by_role("searchbox", name="Highlight names in the flame graph").fill("linear")
    expect(page.panel().locator(".hta-flame-sum")).to_contain_text("3 marked")
    canvas.hover(position=row)
    expect(page.panel().locator(".hta-flame-tip")).to_contain_text("nn.Module: Net_0")
    page.screenshot("flame")
