"""Fixtures that all tests share."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from hta_widgets.sample import write_sample
from hta_widgets.trace.cache.files import VARIABLE
from hta_widgets.trace.job import Job
from hta_widgets.trace.loaders.kineto.load import load_kineto
from hta_widgets.trace.model.events import Kind
from hta_widgets.trace.opening.open import open_trace
from hta_widgets.trace.ranks.source import RankSource
from tests.cause_pages import LAYOUTS
from tests.kineto_text import write
from tests.server_loops import OF_INFERENCE
from tests.simulator import write_job

collect_ignore = ["adding"]  # belongs to a package that has an analysis more

os.environ[VARIABLE] = "off"
settings.register_profile("ci", derandomize=True, deadline=None, max_examples=15)
settings.register_profile("fewer", settings.get_profile("ci"), max_examples=5)
settings.register_profile("many", deadline=None, max_examples=300)
settings.load_profile("ci")
gc.set_threshold(50_000)  # looking through 10,000 tests and their traces took 8 % of the time

REAL_TRACES = Path(
    os.environ.get("HTA_WIDGETS_TRACES", Path(__file__).parents[2] / "shared" / "traces")
)
REFERENCE = REAL_TRACES.parent / "reference" / "hta.json"

KINETO_FOLDERS = ("kineto", "more")
"""Folders of the real traces that hold jobs of the PyTorch profiler, one folder per job."""

MATRIX = "what every method gives"
"""Property of a test that is printed at the end, whichever process ran the test."""


def traces_or_skip() -> Path:
    """Folder of real traces; where there is none, the test is skipped."""
    if not REAL_TRACES.is_dir():
        pytest.skip(f"no real traces at {REAL_TRACES}")
    return REAL_TRACES


@pytest.fixture(scope="session")
def real_traces() -> Path:
    """Folder of real traces, which lies beside the project where there is one."""
    return traces_or_skip()


@pytest.fixture(scope="session")
def kineto_jobs(real_traces: Path) -> dict[str, Path]:
    """Folder of each real job of the PyTorch profiler, by name."""
    folders = [path for each in KINETO_FOLDERS for path in sorted((real_traces / each).iterdir())]
    return {path.name: path for path in folders}


@pytest.fixture(scope="session")
def real_kernels(kineto_jobs: dict[str, Path]) -> dict[str, list[str]]:
    """Names of the kernels of each real job: loading all of them takes seconds."""
    found = {}
    for name, folder in kineto_jobs.items():
        names: set[str] = set()
        for file in folder.glob("*.json.gz"):
            events = load_kineto(file, rank=0).events
            names |= {*events.names_at(events.rows_of(Kind.KERNEL))}
        found[name] = sorted(names)
    return found


@pytest.fixture(scope="session")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Folder of the simulated job of a cause: writing it takes longer than a diagnosis."""

    @cache
    def folder_of(cause: str) -> Path:
        folder = tmp_path_factory.mktemp(cause)
        if cause in OF_INFERENCE:
            write(folder / "rank-0.json", OF_INFERENCE[cause](healthy=False))
        else:
            write_job(folder, cause, layout=LAYOUTS.get(cause))
        return folder

    return folder_of


@pytest.fixture(scope="session")
def sample_traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Traces of four ranks that no test may change: writing them takes longer than a panel."""
    folder = tmp_path_factory.mktemp("sample")
    write_sample(folder, ranks=4, steps=3, progress=False)
    return folder


@pytest.fixture(scope="module")
def loaded(sample_traces: Path) -> Job:
    """A job of four ranks whose selection the tests of one module share."""
    return open_trace(sample_traces, progress=False)


@pytest.fixture
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a cache that is on, and keeps small traces too."""
    folder = tmp_path / "cache"
    monkeypatch.setenv(VARIABLE, str(folder))
    monkeypatch.setattr("hta_widgets.trace.ranks.cache.WORTH_KEEPING", 0)
    return folder


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The source files that traces are read from, as often as they are."""
    found: list[Path] = []
    load = RankSource.load

    def noted(source: RankSource, *args: Any) -> Any:
        found.append(source.path)
        return load(source, *args)

    monkeypatch.setattr(RankSource, "load", noted)
    return found


@pytest.fixture(scope="module")
def only_new_objects() -> Iterator[None]:
    """Let gc see nothing that other modules made, which is slow to look through many times."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    properties = [each.user_properties for each in terminalreporter.getreports("passed")]
    lines = sorted(str(value) for of in properties for name, value in of if name == MATRIX)
    if lines:
        terminalreporter.section(MATRIX)
        terminalreporter.write_line("\n".join(lines))
