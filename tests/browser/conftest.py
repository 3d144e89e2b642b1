"""Fixtures of the browser tests: one JupyterLab and one Chromium for all of them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from playwright.sync_api import Browser, sync_playwright

from hta_widgets.sample import write_sample
from tests.browser.lab_pages import Lab, jupyter

HERE = Path(__file__).parent
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
NAMED = "HTA_WIDGETS_CHROMIUM"
SKIP = "HTA_WIDGETS_SKIP_BROWSER"
FAILED = pytest.StashKey[bool]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave the browser tests out only where that was asked for."""
    if os.environ.get(SKIP) == "1":
        for item in items:
            if HERE in item.path.parents:
                item.add_marker(pytest.mark.skip(reason=f"{SKIP}=1"))


def chromium_path() -> str | None:
    """The Chromium that HTA_WIDGETS_CHROMIUM or the system names."""
    names = [os.environ.get(NAMED), "chromium", "chromium-browser", "google-chrome"]
    return next((found for name in names if name and (found := shutil.which(name))), None)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """Headless Chromium."""
    path = chromium_path()
    if path is None:
        pytest.fail(
            "No Chromium was found: install it (apt-get install chromium), name one in "
            f"{NAMED}, or set {SKIP}=1 to leave out the browser tests."
        )
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield browser
        browser.close()


@contextmanager
def lab_of_its_own() -> Iterator[Lab]:
    """JupyterLab and Chromium for a program, which has no fixtures."""
    with (
        sync_playwright() as playwright,
        TemporaryDirectory() as home,
        jupyter("lab", Path(home)) as (url, token, root),
    ):
        browser = playwright.chromium.launch(executable_path=chromium_path(), args=list(FLAGS))
        yield Lab(browser, url, token, root)
        browser.close()


@pytest.fixture(scope="session")
def lab_session(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """One JupyterLab for the whole run."""
    with jupyter("lab", tmp_path_factory.mktemp("lab")) as (url, token, root):
        yield Lab(chromium, url, token, root)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Remember which tests failed."""
    report = yield
    if report.failed:
        item.stash[FAILED] = True
    return report


@pytest.fixture
def lab(lab_session: Lab, request: pytest.FixtureRequest) -> Iterator[Lab]:
    """JupyterLab without the pages of the tests before."""
    yield lab_session
    lab_session.close_pages(shared=FAILED in request.node.stash)


@pytest.fixture(scope="session")
def job8(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Folder of a job of eight ranks."""
    folder = tmp_path_factory.mktemp("job8")
    write_sample(folder, ranks=8, progress=False)
    return str(folder)


@pytest.fixture(scope="session")
def job4(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Folder of a job of four ranks."""
    folder = tmp_path_factory.mktemp("job4")
    write_sample(folder, progress=False)
    return str(folder)
