"""Whatever a trace lacks, the diagnosis says something about the rest of it.

`test_every_part.py` tries more of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from pathlib import Path

import pytest

from hta_widgets.cli.diagnose.document import json_text
from hta_widgets.diagnosis import diagnosis
from hta_widgets.diagnosis.report import report
from hta_widgets.errors import HtaWidgetsError
from hta_widgets.sample import write_sample
from hta_widgets.trace.opening.open import open_trace
from tests.kineto_text import Event, host, kernel, write
from tests.parts import Recording, cpu_side

SMALL = ("mi210_gpu_only", "event_sync_multi_stream", "cpu_only")


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    folder = tmp_path_factory.mktemp("sample")
    return Recording.read(write_sample(folder, ranks=1, steps=2, progress=False)[0])


def verdict(path: Path) -> str:
    """The verdict on a trace, or the error that says why there is none."""
    try:
        found = diagnosis(open_trace(path, progress=False))
    except HtaWidgetsError as error:
        assert path.name in str(error)  # noqa: PT017
        return str(error)
    assert report(found).strip()
    assert json_text(found).isascii()
    assert found.finding.endswith(".")
    return found.finding


def check(parts: Iterable[tuple[str, bytes]], folder: Path) -> int:
    """Ask for the verdict on each part, and count them."""
    path, count = folder / "rank-0.json", 0
    for what, content in parts:
        path.write_bytes(content)
        try:
            verdict(path)
        except Exception as failure:
            raise AssertionError(what) from failure
        count += 1
    return count


def test_cuts_of_the_sample(sample: Recording, tmp_path: Path) -> None:
    assert check(sample.cuts(10), tmp_path) == 10


def test_the_sample_without_categories(sample: Recording, tmp_path: Path) -> None:
    assert check(sample.without_categories(), tmp_path) == 2 * len(sample.categories) > 20


def test_the_sample_without_arguments(sample: Recording, tmp_path: Path) -> None:
    assert check(islice(sample.without_arguments(), 6), tmp_path) == 6 < len(sample.arguments)


def test_cuts_of_a_recording_of_the_cpu_alone(sample: Recording, tmp_path: Path) -> None:
    path = tmp_path / "rank-0.json"
    path.write_bytes(cpu_side(sample))
    assert "aten::_softmax" in path.read_text()
    recording = Recording.read(path)
    assert check(recording.cuts(4), tmp_path) == 4
    assert check(recording.without_categories(), tmp_path) > 5


@pytest.mark.parametrize("name", SMALL)
def test_parts_of_a_real_trace(kineto_jobs: dict[str, Path], name: str, tmp_path: Path) -> None:
    recording = Recording.read(next(kineto_jobs[name].glob("*.json*")))
    check(recording.cuts(2), tmp_path)
    check(islice(recording.without_categories(), 4), tmp_path)
    check(islice(recording.without_arguments(), 4), tmp_path)


@pytest.mark.parametrize(
    "events", [[], [host(0, 5, "aten::_softmax")], [kernel(0, 900, name="volta_sgemm_128x64_nn")]]
)
def test_next_to_nothing(events: list[Event], tmp_path: Path) -> None:
    assert verdict(write(tmp_path / "rank-0.json", events))
