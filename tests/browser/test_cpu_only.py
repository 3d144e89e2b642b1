"""The dashboard of a recording without GPU work, as of a first try on a laptop."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
from playwright.sync_api import expect

from hta_widgets.quantities import percent
from hta_widgets.sample import write_sample
from tests.browser.lab_pages import Lab
from tests.browser.test_dashboard import MARGINS, dashboard
from tests.browser.test_panels import cells
from tests.parts import Recording, cpu_side
from tests.raw_idle import events_of


@pytest.fixture(scope="module")
def laptop(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Folder of a job of one rank, recorded without the GPU."""
    folder = tmp_path_factory.mktemp("laptop")
    (path,) = write_sample(tmp_path_factory.mktemp("sample"), ranks=1, steps=3, progress=False)
    (folder / "rank-0.json").write_bytes(cpu_side(Recording.read(Path(path))))
    return str(folder)


def test_it_says_what_the_cpu_did(lab: Lab, laptop: str) -> None:
    page = lab.open(cells(laptop, "dash = Dashboard(job)\ndash"), width=1100 + MARGINS, height=1400)
    shown = dashboard(page)
    expect(shown.locator(".hta-board-header")).to_contain_text("no GPU work")
    verdict = shown.locator(".hta-band-verdict")
    expect(verdict).to_contain_text("ProfilerActivity.CUDA")
    expect(verdict.locator(".hta-findings li").first).to_contain_text("of CPU time in operators")
    expect(shown.locator(".hta-tab-page .main-svg").first).to_be_visible()
    assert page.python("dash.tab") == "operators"
    labels = shown.get_by_role("tab").all_inner_texts()
    assert not {*labels} & {"Kernels", "Steps", "Idle & launch", "Critical path"}
    page.screenshot("cpu only")
    verdict.locator(".hta-findings summary").first.click()
    expect(verdict.locator(".hta-findings table").first).to_contain_text("aten::")
    verdict.get_by_role("button", name="Show").first.click()
    chosen = page.python("dash.findings.cpu_work.operators[0].name")
    page.wait_for("list(dash.selection.operators)", [chosen])
    search = shown.locator(".hta-search-field")
    search.fill("forward")
    shown.get_by_role("option").filter(has_text="annotation").first.click()
    page.wait_for("dash.selection.window_ns is not None", True)
    page.screenshot("cpu only, selected")


def test_a_collective_on_the_cpu_has_a_show_and_advice(lab: Lab, real_traces: Path) -> None:
    """It took 87 % of a job, of which nothing else was shown than 4 µs of an operator."""
    job = str(real_traces / "kineto/cpu_only")
    page = lab.open(cells(job, "dash = Dashboard(job)\ndash"), width=1100 + MARGINS, height=1400)
    row = dashboard(page).locator(".hta-findings li").filter(has_text="Collectives run on the CPU")
    expect(row).to_contain_text("Compare all ranks, recorded at the same time")
    expect(row).not_to_contain_text("async_op=True")  # they run on threads of their own
    expect(dashboard(page).locator(".hta-board-header")).to_contain_text("1.26 s analysed")
    row.get_by_role("button", name="Show").click()
    page.wait_for("dash.selection.window_ns is not None", True)
    edges_ns = page.python("list(dash.selection.window_ns)")
    recorded = events_of(next(Path(job).glob("*.json*")))
    first_us = min(each["ts"] for each in recorded if each.get("cat") == "user_annotation")
    window_us = [first_us + Decimal(each) / 1000 for each in edges_ns]
    reduced = [
        (each["ts"], each["ts"] + each["dur"])
        for each in recorded
        if each.get("name") == "gloo:all_reduce"
    ]
    shown = [max(min(end, window_us[1]) - max(start, window_us[0]), 0) for start, end in reduced]
    part = 100 * sum(shown) / sum(end - start for start, end in reduced)
    expect(row).to_contain_text(
        f"{sum(each > 0 for each in shown)} of {len(reduced)} intervals on rank 34 · this window "
        f"holds {percent(float(part))}"
    )
    page.screenshot("collective on the cpu")
