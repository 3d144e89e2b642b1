"""Reports opened from the disk: alive without kernel or network, silent, and readable as text."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from hta_widgets.panels import Dashboard, Panel
from hta_widgets.panels.kernel_breakdown import KernelBreakdownPanel
from hta_widgets.panels.queue_length import QueueLengthPanel
from hta_widgets.sample import write_sample
from hta_widgets.trace.job import Job
from hta_widgets.trace.opening.open import open_trace
from tests.browser.test_accessibility import AXE, THEMES
from tests.kineto_text import call, kernel, write

SCREENSHOTS = os.environ.get("HTA_WIDGETS_SCREENSHOTS")
EVIL = (
    "</script><img src=x onerror=\"document.title='owned'\"><b>gemm</b>"
    "<a href='https://example.org/h'>x</a>\u2028\u202e"
)
VIOLATIONS = """window.violations = [];
document.addEventListener("securitypolicyviolation", ({violatedDirective}) =>
    window.violations.push(violatedDirective));
window.beyond = [];  // what no policy forbids
for (const name of ["RTCPeerConnection", "open"])
    window[name] = new Proxy(window[name], {
        apply: () => void window.beyond.push(name),
        construct: () => (window.beyond.push(name), {}),
    });"""
INSIDE = 'use, [*|href^="data:"]'
"""What shows a part of the document: an icon, or the picture of a heatmap."""
ELSEWHERE = f":is([href], [*|href]):not({INSIDE})"
LINKS = f"a, area, link, form, iframe, meta[http-equiv=refresh], {ELSEWHERE}"
RUN_AXE = """async () => (await axe.run(document)).violations.map(
    ({id, nodes}) => [id, nodes.map(({html}) => html.slice(0, 160))])"""


@dataclass
class Opened:
    """A report in a browser that has no network."""

    page: Page
    said: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def is_silent(self) -> None:
        assert self.said == []
        assert self.page.evaluate("[...window.violations, ...window.beyond]") == []
        assert self.page.locator(LINKS).count() == 0
        beyond = [url for url in self.requests if not url.startswith(("blob:", "data:"))]
        assert beyond == [self.page.url.partition("#")[0]]

    def panel(self, name: str) -> Locator:
        return self.page.get_by_role("region", name=name, exact=True)

    def screenshot(self, name: str) -> None:
        if SCREENSHOTS:
            self.page.screenshot(path=Path(SCREENSHOTS) / f"report {name}.png", full_page=True)


class Reader:
    """Opens files."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self.opened: list[Opened] = []

    def open(self, file: Path, **options) -> Opened:
        context = self._browser.new_context(
            **{"offline": True, "viewport": {"width": 1100, "height": 900}, **options}
        )
        context.add_init_script(VIOLATIONS)
        opened = Opened(context.new_page())
        opened.page.on("console", lambda message: opened.said.append(message.text))
        opened.page.on("pageerror", lambda error: opened.said.append(str(error)))
        opened.page.on("request", lambda request: opened.requests.append(request.url))
        opened.page.goto(file.as_uri())
        self.opened.append(opened)
        return opened


@pytest.fixture
def reader(chromium: Browser) -> Iterator[Reader]:
    made = Reader(chromium)
    yield made
    for opened in made.opened:
        opened.page.context.close()


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Job:
    folder = tmp_path_factory.mktemp("report") / "sample"
    write_sample(folder, ranks=2, progress=False)
    return open_trace(folder, progress=False)


@pytest.fixture(scope="module")
def board(job: Job, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Dashboard(job).to_html(tmp_path_factory.mktemp("board") / "report.html")


def of(panel: Panel, folder: Path) -> Path:
    return panel.to_html(folder / "report.html")


def drawn(place: Locator) -> Locator:
    expect(place.locator(".main-svg").first).to_be_visible()
    return place


def test_a_dashboard_is_drawn_without_a_network_and_in_silence(reader: Reader, board: Path):
    report = reader.open(board)
    drawn(report.page.locator("#widget"))
    expect(report.page.locator("#summary")).to_be_hidden()
    expect(report.page.get_by_role("heading", name="Saved report")).to_be_visible()
    report.page.wait_for_timeout(500)
    report.screenshot("dashboard")
    report.is_silent()


def test_a_panel_is_alive(reader: Reader, job: Job, tmp_path: Path):
    report = reader.open(of(KernelBreakdownPanel(job), tmp_path))
    panel = drawn(report.panel("Kernel breakdown"))
    panel.locator(".hta-figure .bars .point").first.hover(force=True)
    expect(panel.locator(".hovertext").first).to_be_visible()
    panel.get_by_text("Data table").click()
    expect(panel.locator(".hta-table tbody tr[data-place]").first).to_be_visible()
    for control in panel.locator(".hta-controls").locator("input, select, button").all():
        expect(control).to_be_disabled()
    with report.page.expect_download() as saved:
        panel.locator(".hta-figure").first.hover()
        panel.locator(".modebar-btn").first.click()
    assert saved.value.suggested_filename.endswith(".png")
    report.is_silent()


def test_closed_tabs_open(reader: Reader, board: Path):
    report = reader.open(board)
    drawn(report.page.locator("#widget"))
    for name, panel in (("Kernels", "Kernel breakdown"), ("Communication", "Collectives")):
        report.page.get_by_role("tab", name=name).click()
        drawn(report.panel(panel))
        expect(report.panel(panel).locator(".hta-finding")).not_to_be_empty()
    report.is_silent()


def test_the_timeline_opens_ranks_and_names_their_events(reader: Reader, board: Path):
    report = reader.open(board)
    canvas = drawn(report.page.locator("#widget")).locator(".hta-band-timeline canvas")
    closed = canvas.bounding_box()
    assert closed
    report.page.mouse.click(closed["x"] + 6, closed["y"] + 34)
    expect(canvas).not_to_have_css("height", f"{closed['height']}px")
    report.screenshot("timeline")
    seen = set()
    for across in range(200, 900, 50):
        report.page.mouse.move(closed["x"] + across, closed["y"] + 71)  # its first stream
        report.page.wait_for_timeout(30)
        seen.add(" ".join(report.page.locator(".hta-band-timeline").all_inner_texts()))
    assert any("::" in text or "nccl" in text for text in seen)
    report.is_silent()


def test_search_selects_and_what_needs_python_is_not_offered(reader: Reader, board: Path):
    report = reader.open(board)
    widget = drawn(report.page.locator("#widget"))
    search = widget.get_by_role("combobox", name="Search")
    search.fill("rank 1")
    report.page.get_by_role("option").first.click()
    expect(widget.locator(".hta-chip").first).to_contain_text("rank 1")
    for name in ("undo", "Previous event", "Next event"):
        assert widget.get_by_role("button", name=name).count() == 0
    for button in widget.get_by_role("button", name="Perfetto").all():
        expect(button).to_be_disabled()
    report.is_silent()


def test_knobs_are_shown_where_somebody_turned_them(reader: Reader, board: Path, tmp_path: Path):
    """Without Python they cannot be turned: what they say is worth showing only if it was asked."""
    asked = tmp_path / "sample"
    write_sample(asked, ranks=2, progress=False)
    dash = Dashboard(open_trace(asked, progress=False))
    dash.panels["what_if"].host_speed = 2
    for file, is_shown in ((board, False), (dash.to_html(tmp_path / "asked.html"), True)):
        report = reader.open(file)
        drawn(report.page.locator("#widget"))
        expect(report.panel("What if")).to_be_visible(visible=is_shown)
        report.is_silent()


def test_a_table_sorts_what_is_there(reader: Reader, job: Job, tmp_path: Path):
    report = reader.open(of(KernelBreakdownPanel(job), tmp_path))
    panel = drawn(report.panel("Kernel breakdown"))
    panel.get_by_text("Data table").click()
    panel.get_by_role("searchbox").fill("gemm")
    rows = panel.locator(".hta-table tbody tr[data-place]")
    expect(rows.first).to_contain_text(re.compile("gemm", re.IGNORECASE))
    expect(rows.last).to_contain_text(re.compile("gemm", re.IGNORECASE))
    expect(panel.get_by_text("Python is not responding")).to_have_count(0)
    report.is_silent()


def test_a_click_selects_and_asks_nobody(reader: Reader, board: Path):
    report = reader.open(board)
    shows = drawn(report.page.locator("#widget")).get_by_role("button", name="Show")
    shows.first.click()
    expect(shows.first).to_have_attribute("aria-pressed", "true")
    report.page.wait_for_timeout(400)
    expect(report.page.get_by_text("Computing…")).to_have_count(0)
    report.is_silent()


def test_a_zoom_enlarges_and_leads_back(reader: Reader, job: Job, tmp_path: Path):
    report = reader.open(of(QueueLengthPanel(job), tmp_path))
    panel = drawn(report.panel("Queue length"))
    labels = panel.locator(".xtick")
    before = labels.all_text_contents()
    box = panel.locator(".nsewdrag").first.bounding_box()
    assert box
    middle = box["y"] + box["height"] / 2
    report.page.mouse.move(box["x"] + 100, middle)
    report.page.mouse.down()
    report.page.mouse.move(box["x"] + 160, middle, steps=5)
    report.page.mouse.up()
    whole = panel.get_by_role("button", name="Show all")
    expect(whole).to_be_visible()
    assert len(labels.all_text_contents()) >= 3
    assert labels.all_text_contents() != before
    whole.click()
    expect(whole).to_be_hidden()
    expect(labels).to_have_text(before)
    report.is_silent()


@pytest.mark.parametrize("theme", THEMES)
def test_axe(reader: Reader, board: Path, theme: str):
    report = reader.open(board, color_scheme=theme.lower(), bypass_csp=True)
    drawn(report.page.locator("#widget"))
    background = report.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(255, 255, 255)") == (theme == "Light")
    scheme = "getComputedStyle(document.querySelector('.hta-panel')).colorScheme"
    assert report.page.evaluate(scheme) == theme.lower()
    report.page.wait_for_timeout(500)
    report.screenshot(f"axe {theme}")
    report.page.add_script_tag(path=str(AXE))
    assert report.page.evaluate(RUN_AXE) == []


@pytest.mark.parametrize("theme", THEMES)
def test_it_reads_without_scripts(reader: Reader, board: Path, theme: str):
    report = reader.open(board, java_script_enabled=False, color_scheme=theme.lower())
    summary = report.page.locator("#summary")
    expect(summary).to_be_visible()
    expect(summary.get_by_text("Kernel breakdown")).to_be_visible()
    assert summary.locator("img").count() > 5
    expect(report.page.get_by_role("heading", name="Saved report")).to_be_hidden()
    report.screenshot(f"static {theme}")


def test_it_prints_the_summary(reader: Reader, board: Path):
    report = reader.open(board)
    drawn(report.page.locator("#widget"))
    report.page.emulate_media(media="print")
    expect(report.page.locator("#summary")).to_be_visible()
    expect(report.page.locator("#widget")).to_be_hidden()
    report.screenshot("printed")


def test_where_it_cannot_run_the_summary_stays(reader: Reader, board: Path, tmp_path: Path):
    file = tmp_path / "old.html"
    html = board.read_text(encoding="utf-8").replace("blob:;", "'none';", 1)
    file.write_text(html, encoding="utf-8")
    report = reader.open(file)
    expect(report.page.locator("#summary")).to_be_visible()
    expect(report.page.locator("#widget")).to_be_hidden()


def test_its_policy_forbids_every_request(reader: Reader, board: Path):
    report = reader.open(board)
    drawn(report.page.locator("#widget"))
    tried = """async () => {
        const add = (tag, attributes) =>
            document.body.append(Object.assign(document.createElement(tag), attributes));
        await fetch("https://example.org/a").catch(() => {});
        navigator.sendBeacon("https://example.org/b", "x");
        try { new WebSocket("wss://example.org/c"); } catch {}
        add("img", {src: "https://example.org/d"});
        add("script", {src: "https://example.org/e"});
        add("iframe", {src: "https://example.org/f"});
        add("link", {rel: "stylesheet", href: "https://example.org/g"});
        add("script", {textContent: "window.ran = true"});
        document.body.insertAdjacentHTML("beforeend", "<p onclick='window.ran = true'>x</p>");
        document.body.lastElementChild.click();
        setTimeout(() => eval("window.ran = true"));  // in a call of its own: a debugger's may eval
        await new Promise((done) => setTimeout(done, 300));
        return [window.ran ?? false, new Set(window.violations).size];
    }"""
    ran, violated = report.page.evaluate(tried)
    assert not ran
    assert violated >= 6


def test_what_no_policy_forbids_would_be_seen(reader: Reader, board: Path):
    report = reader.open(board)
    drawn(report.page.locator("#widget"))
    report.is_silent()
    report.page.evaluate("""() => {
        new RTCPeerConnection();
        window.open("https://example.org");
        document.body.insertAdjacentHTML("beforeend",
            "<a href='#'>x</a><area href='#'><svg><a xlink:href='#'></a></svg>");
    }""")
    assert report.page.evaluate("window.violations") == []
    assert report.page.evaluate("window.beyond") == ["RTCPeerConnection", "open"]
    assert report.page.locator(LINKS).count() == 3


def test_hostile_names_stay_names(reader: Reader, tmp_path: Path):
    folder = tmp_path / EVIL.replace("/", "|")
    folder.mkdir()
    events = [call(0, 1, 1), kernel(5, 10, name=EVIL, correlation=1)]
    write(folder / "rank-0.json", events)
    report = reader.open(Dashboard(open_trace(folder, progress=False)).to_html(tmp_path / "a.html"))
    largest = report.page.get_by_role("grid", name="Largest kernels")
    expect(largest.get_by_role("gridcell").first).to_have_attribute("title", EVIL)
    assert report.page.title().startswith("<|script><img src=x")
    assert report.page.locator("img[src=x], h1 b, #widget p b b").count() == 0
    report.is_silent()
