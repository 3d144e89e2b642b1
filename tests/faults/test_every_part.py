"""Every cut and every pair of lacking categories of many traces; it takes minutes."""

from __future__ import annotations

from pathlib import Path

import pytest

from hta_widgets.sample import CAUSES, write_sample
from tests.faults.test_partial_recordings import check
from tests.parts import Recording

LARGEST_BYTES = 1_500_000


@pytest.mark.parametrize("cause", [None, *CAUSES])
def test_every_part_of_a_sample(cause: str | None, tmp_path: Path) -> None:
    path = write_sample(tmp_path / "sample", ranks=2, steps=2, cause=cause, progress=False)[0]
    recording = Recording.read(path)
    check(recording.cuts(40), tmp_path)
    check(recording.without_categories(pairs=cause is None), tmp_path)
    check(recording.without_arguments(), tmp_path)


def test_every_part_of_real_traces(kineto_jobs: dict[str, Path], tmp_path: Path) -> None:
    for folder in kineto_jobs.values():
        path = next(folder.glob("*.json*"))
        if path.stat().st_size < LARGEST_BYTES:
            recording = Recording.read(path)
            check(recording.cuts(13), tmp_path)
            check(recording.without_categories(pairs=True), tmp_path)
            check(recording.without_arguments(), tmp_path)
