"""Every cut and every pair of lacking categories of many traces; it takes minutes."""

from __future__ import annotations

from pathlib import Path

import pytest

from hta_widgets.sample import write_sample
from tests.faults.test_partial_recordings import check
from tests.parts import Recording
from tests.simulator import CAUSES, write_job

pytestmark = pytest.mark.long

LARGEST_BYTES = 1_500_000


def test_every_part_of_the_sample(tmp_path: Path) -> None:
    path = write_sample(tmp_path / "sample", ranks=2, steps=2, progress=False)[0]
    check_every_part(path, tmp_path, pairs=True)


@pytest.mark.parametrize("cause", CAUSES)
def test_every_part_of_a_job_with_a_cause(cause: str, tmp_path: Path) -> None:
    check_every_part(write_job(tmp_path / "job", cause, ranks=2, steps=2)[0], tmp_path, pairs=False)


def check_every_part(path: Path, scratch: Path, *, pairs: bool) -> None:
    recording = Recording.read(path)
    check(recording.cuts(40), scratch)
    check(recording.without_categories(pairs=pairs), scratch)
    check(recording.without_arguments(), scratch)


def test_every_part_of_real_traces(kineto_jobs: dict[str, Path], tmp_path: Path) -> None:
    for folder in kineto_jobs.values():
        path = next(folder.glob("*.json*"))
        if path.stat().st_size < LARGEST_BYTES:
            recording = Recording.read(path)
            check(recording.cuts(13), tmp_path)
            check(recording.without_categories(pairs=True), tmp_path)
            check(recording.without_arguments(), tmp_path)
