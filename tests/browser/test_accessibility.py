"""axe-core finds nothing to complain about in the panels, light and dark."""

from __future__ import annotations

import os
from pathlib import Path

from playwright.sync_api import expect

from hta_widgets.sample import write_sample
from tests.browser.lab_pages import Lab, LabPage
from tests.browser.test_panels import cells

JS = Path(os.environ.get("HTA_WIDGETS_JS", Path(__file__).parents[2] / "js"))
AXE = JS / "node_modules" / "axe-core" / "axe.min.js"

RUN_AXE = """async (given) => {
    const [rules, inside] = given ?? [];
    const { violations } = await axe.run(inside ?? '.hta-panel', rules ? { runOnly: rules } : {});
    return violations.map(({ id, nodes }) => [id, nodes.map(({ html }) => html.slice(0, 160))]);
}"""


BROKEN = """
def fail(*_):
    raise ValueError("it cannot be shown")
broken = TemporalBreakdownPanel(panel.job, ranks=[0])
broken.analyse = fail
broken.ranks = [1]
broken
"""

THEMES = ["Light", "Dark"]


def test_axe(lab: Lab, job4: str):
    assert AXE.is_file(), "axe-core is missing: run `npm ci` in js/"
    page = lab.open(
        [
            "from hta_widgets.panels import *",
            f"panel = KernelBreakdownPanel({job4!r})\npanel",
            "panel.selection.kernel = panel.result.kernels['name'][0]\nOverlapPanel(panel.job)",
            BROKEN,
            "DiagnosisPanel(panel.job)",
        ]
    )
    expect(page.panel(1).locator(".main-svg").first).to_be_visible()
    page.page.get_by_role("button", name="Show").first.click()
    page.wait_for("panel.selection.finding", 0)
    for summary in page.page.locator(".hta-panel summary:visible").all():
        summary.click()
    check_in_both_themes(page, "axe")


def check_in_both_themes(page: LabPage, name: str) -> None:
    """Axe has nothing to say of what is open, nor do its colours change that."""
    page.page.add_script_tag(path=str(AXE))
    for theme in THEMES:
        with page.theme(theme):
            page.screenshot(f"{name} {theme}")
            assert page.page.evaluate(RUN_AXE) == []


def test_axe_with_popovers_open(lab: Lab, job4: str):
    page = lab.open(
        [
            "from hta_widgets.panels import *",
            f"panel = KernelSequencesPanel({job4!r})\npanel",
            "QueueLengthPanel(panel.job, window_us=[20_000, 40_000])",
        ],
        width=900,
        height=1400,
    )
    expect(page.panel(1).locator(".main-svg").first).to_be_visible()
    page.page.add_script_tag(path=str(AXE))
    operators = page.panel(0).get_by_role("combobox", name="Operator")
    streams = page.panel(1).get_by_role("button", name="all 3 streams")
    for theme in THEMES:
        with page.theme(theme):
            operators.fill("aten")
            page.page.wait_for_timeout(300)
            page.screenshot(f"combobox {theme}")
            assert page.page.evaluate(RUN_AXE) == []
            streams.click()
            page.page.wait_for_timeout(300)
            page.screenshot(f"streams {theme}")
            assert page.page.evaluate(RUN_AXE) == []
            streams.click()


IS_DRAWN = """() => {
    const panels = [...document.querySelectorAll('.hta-tab-page .hta-panel')];
    const isIdle = (panel) => panel.getAttribute('aria-busy') !== 'true'
        && panel.querySelector(
            '.main-svg, canvas, table, .hta-offers li, .hta-empty:not([hidden])');
    return panels.length > 0 && panels.every(isIdle);
}"""


def complaints(page: LabPage, rules: list[str] | None) -> list[str]:
    """What axe says of a dashboard with its menu of lanes, each of its panels, and details open."""
    said = {}
    menu = page.page.get_by_role("button", name="+ lanes")
    menu.click()
    expect(page.page.get_by_role("checkbox", name="queue length")).to_be_visible()
    said["all"] = page.page.evaluate(RUN_AXE, [rules])
    menu.press("Escape")
    for panel in page.python("[name for name, panel in dash.panels.items() if panel.tab]"):
        page.execute(f"dash.panel = {panel!r}")
        page.page.wait_for_function(IS_DRAWN)
        said[panel] = page.page.evaluate(RUN_AXE, [rules, ".hta-tab-page"])
        page.screenshot(f"axe {panel}")
    page.execute("dash.selection.set(kernel=dash.events['name'].iloc[0], finding=0)")
    expect(page.page.get_by_role("complementary", name="Details")).to_be_visible()
    said["details"] = page.page.evaluate(RUN_AXE, [rules, ".hta-drawer"])
    page.execute("dash.selection.set()")
    return [f"{where}: {found}" for where, every in said.items() for found in every]


def test_axe_with_each_tab_of_a_dashboard_open(lab: Lab, job4: str, tmp_path):
    write_sample(tmp_path, ranks=2, progress=False)
    page = lab.open(cells(job4, f"dash = Dashboard(job, compare={str(tmp_path)!r})\ndash"))
    expect(page.page.locator(".hta-tab-page .main-svg").first).to_be_visible()
    page.page.add_script_tag(path=str(AXE))
    assert complaints(page, None) == []
    with page.theme("Dark"):
        assert complaints(page, ["color-contrast"]) == []
