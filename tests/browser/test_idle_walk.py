"""From the first screen of a dashboard to the line of Python that the GPU waits for: one click."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from hta_widgets.figures.idle_owners import NO_OWNER
from tests.browser.lab_pages import Lab
from tests.browser.test_dashboard import dashboard


def walk(lab: Lab, source: str, part: str, line: str, idle_ms: float) -> None:
    """Click on a part of where the time goes; the first bar of a call is of the line."""
    page = lab.open(["from hta_widgets import Dashboard", f"dash = Dashboard({source!r})\ndash"])
    budget = dashboard(page).locator(".hta-budget")
    budget.get_by_role("button", name=re.compile(f"^{part}")).click()
    page.wait_for("dash.tab", "idle")
    dashboard(page).locator(".hta-tab-page").scroll_into_view_if_needed()  # drawn once it is seen
    chart = dashboard(page).locator(".hta-tab-page .hta-figure").first
    expect(chart.locator(".ytick text").first).to_be_visible()
    expect(dashboard(page).locator(".hta-tab-page .hta-legend:visible").first).to_be_visible()
    page.page.wait_for_timeout(500)
    ticks = chart.locator(".ytick").evaluate_all(
        "ticks => ticks.map(tick => [tick.getBoundingClientRect().top, tick.textContent])"
    )
    _, shown = min(tick for tick in ticks if tick[1] != NO_OWNER)
    assert line.endswith(shown.lstrip("…"))
    page.execute(
        "from hta_widgets.analyses.idle_owners.paths import with_lines\n"
        "found = dash.panels['idle_owners'].result\n"
        "lines = with_lines(found.owners, found.paths)\n"
        "lines = lines[lines['line'] != ''].groupby('line')['idle_ns'].sum()"
    )
    assert page.python("lines.idxmax()") == line
    assert page.python("int(lines.max())") / 1e6 == pytest.approx(idle_ms, rel=0.01)
    page.screenshot(f"idle walk {Path(source).name}")


@pytest.mark.parametrize(
    ("job", "part", "line", "idle_ms"),
    [
        (
            *("b200_eager", "CPU-bound: launch"),
            *("vllm/model_executor/parameter.py(122): __torch_function__", 10.6),
        ),
        pytest.param(
            *("mi300_bert", "CPU-bound: launch"),
            *("transformers/models/bert/modeling_bert.py(364): forward", 1.05),
            marks=pytest.mark.long,
        ),
        pytest.param(
            *("h100_qwen", "other idle"),
            *("transformers/models/qwen2/modeling_qwen2.py(218): forward", 0.609),
            marks=pytest.mark.long,
        ),
    ],
)
def test_real_traces(lab: Lab, real_traces: Path, *, job, part, line, idle_ms):
    walk(lab, str(real_traces / "kineto" / job), part, line, idle_ms)


def test_the_sample_job(lab: Lab, job4: str):
    walk(lab, job4, "data loading", "train.py(41): load_batch", 48.1)
