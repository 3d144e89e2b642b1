"""The page that opens a trace in the browser: the verdict of an install, and nothing is sent.

It needs a folder of ``docs/browser/collect.py``, which HTA_WIDGETS_PYODIDE names.
"""

from __future__ import annotations

import os
import runpy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from playwright.sync_api import Browser, Page, expect

from hta_widgets.diagnosis import diagnosis
from hta_widgets.diagnosis.report import report as verdict_text
from hta_widgets.sample import write_sample
from hta_widgets.trace.opening.open import open_trace
from tests.kineto_text import call, kernel, write

PYODIDE = os.environ.get("HTA_WIDGETS_PYODIDE")
SCREENSHOTS = os.environ.get("HTA_WIDGETS_SCREENSHOTS")
pytestmark = pytest.mark.skipif(not PYODIDE, reason="HTA_WIDGETS_PYODIDE names no Pyodide")
PAGE = Path(__file__).parents[2] / "docs" / "browser" / "page.py"
STARTS_MS = 60_000
EVIL = "</pre><img src=x onerror=\"document.title='owned'\"><b>gemm</b>"
ASK = """async ([address, of]) => {
    const ask = `fetch("${address}", {method: "POST", body: "trace"})`;
    const sent = [() => "sent", () => "refused"];
    if (of === "page") return fetch(address, {method: "POST", body: "trace"}).then(...sent);
    const text = `${ask}.then(() => postMessage("sent"), () => postMessage("refused"))`;
    const script = URL.createObjectURL(new Blob([text], {type: "text/javascript"}));
    const worker = new Worker(script, {type: "module"});
    return new Promise((done) => (worker.onmessage = ({data}) => done(data)));
}"""


@dataclass
class Site:
    """A server of files that writes down what it is asked."""

    address: str
    asked: list[tuple[str, str, str | None]] = field(default_factory=list)


@contextmanager
def served(folder: Path) -> Iterator[Site]:
    site = Site("")

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *_arguments: object) -> None:
            site.asked.append((self.command, self.path, self.headers.get("Content-Length")))

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=folder)) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        site.address = f"http://127.0.0.1:{server.server_port}"
        yield site
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    runpy.run_path(str(PAGE))["write_page"](Path(PYODIDE), folder)
    with served(folder) as found:
        yield found


@pytest.fixture(scope="module")
def page(chromium: Browser, site):
    with chromium.new_context(accept_downloads=True) as context:
        found = context.new_page()
        found.said = []
        found.on("console", lambda message: found.said.append(message.text))
        found.on("pageerror", lambda error: found.said.append(str(error)))
        found.goto(f"{site.address}/try.html")
        yield found


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    folder = tmp_path_factory.mktemp("traces") / "a sample"
    write_sample(folder, ranks=2, steps=3, events=3000)
    return folder


def choose(page: Page, button: str, files) -> None:
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name=button).click()
    chooser.value.set_files(files)


def answered(page: Page) -> str:
    expect(page.locator("#report")).to_be_visible(timeout=STARTS_MS)
    return page.locator("#verdict").text_content()


def expected(path) -> str:
    return verdict_text(diagnosis(open_trace(path, progress=False)))


def test_before_a_trace_is_opened_nothing_is_downloaded(page, site):
    assert page.get_by_role("heading", name="Open a trace in this browser").is_visible()
    assert {path for _, path, _ in site.asked} <= {"/try.html", "/browser/page.js", "/favicon.ico"}


def test_a_folder_of_several_ranks(page, site, sample):
    choose(page, "Choose a folder", sample)
    assert answered(page) == expected(sample)
    report = page.frame_locator("#report")
    expect(report.locator("html.live")).to_be_attached()
    expect(report.get_by_role("tab", name="Idle & launch")).to_be_visible()
    report.get_by_role("tab", name="Ranks").click()
    if SCREENSHOTS:
        page.screenshot(path=Path(SCREENSHOTS) / "open_here.png", full_page=True)
    assert page.said == []
    assert {(method, length) for method, _, length in site.asked} == {("GET", None)}
    started = len(site.asked)
    choose(page, "Choose files", sorted(sample.iterdir()))
    assert answered(page) == expected(sample).replace("a sample", "job")
    assert site.asked[started:] == []
    with page.expect_download() as download:
        page.get_by_role("button", name="Save").click()
    assert "<title>job</title>" in Path(download.value.path()).read_text("utf-8")


def test_files_that_are_dropped(page, sample):
    """By the browser's own events: a script cannot make any that hold files of the disk."""
    page.locator("#drop").scroll_into_view_if_needed()
    box = page.locator("#drop").bounding_box()
    devtools = page.context.new_cdp_session(page)
    data = {"items": [], "files": [str(sample)], "dragOperationsMask": 1}
    for kind in ("dragEnter", "dragOver", "drop"):
        place = {"x": box["x"] + 20, "y": box["y"] + 20}
        devtools.send("Input.dispatchDragEvent", {"type": kind, "data": data, **place})
    expect(page.locator("#verdict")).to_contain_text("a sample", timeout=STARTS_MS)
    assert answered(page) == expected(sample)


def test_what_is_no_trace_is_said_and_another_opens(page, tmp_path):
    (tmp_path / "notes.txt").write_text("no trace")
    choose(page, "Choose files", tmp_path / "notes.txt")
    expect(page.locator("#said")).to_contain_text("notes.txt", timeout=STARTS_MS)
    assert page.locator("#said.failed").is_visible()
    assert not page.locator("#report").is_visible()
    write(tmp_path / "evil.json", [call(0, 1, 1, name=EVIL), kernel(0, 3, name=EVIL)])
    choose(page, "Choose files", tmp_path / "evil.json")
    assert answered(page) == expected(tmp_path / "evil.json")
    assert page.title() != "owned"
    assert page.locator("#verdict *, #said *").count() == 0


@pytest.mark.parametrize("of", ["page", "worker"])
def test_nothing_can_be_sent_to_another_site(page, of, tmp_path):
    with served(tmp_path) as elsewhere:
        assert page.evaluate(ASK, [f"{elsewhere.address}/", of]) == "refused"
    assert elsewhere.asked == []
