"""What is closed leaves nothing behind, and what stays open does not grow."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hta_widgets.sample import write_sample

pytestmark = pytest.mark.long

MEGABYTE = 1_000_000
NOISE_BYTES = 25 * MEGABYTE
"""Of the allocator; each dashboard of the job below holds 4 MB and more."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("soaked")
    write_sample(folder, ranks=2, steps=4, progress=False)
    return folder


def soak(run: str, folder: Path, turns: int) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "tests.soak", run, str(folder), str(turns)]
    environment = {**os.environ, "HTA_WIDGETS_CACHE": "off"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def is_flat(footprints: list[dict[str, Any]]) -> None:
    """Nothing grows once each thing was done a few times."""
    settled = footprints[2:]
    assert len({each["widgets"] for each in settled}) == 1, footprints
    assert settled[-1]["rss_bytes"] - settled[0]["rss_bytes"] < NOISE_BYTES, footprints


@pytest.mark.parametrize("run", ["dashboards", "dropped"])
def test_dashboards_leave_nothing(folder: Path, run: str):
    footprints = soak(run, folder, 20)
    assert {(each["jobs"], each["panels"]) for each in footprints} == {(0, 0)}
    is_flat(footprints)


def test_recomputes_leave_nothing(folder: Path):
    footprints = soak("recomputes", folder, 300)
    assert {each["jobs"] for each in footprints} == {1}
    is_flat(footprints)
