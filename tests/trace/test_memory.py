"""The memory of a big job does not grow with its ranks, unlike that of a small job."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hta_widgets import open_trace
from hta_widgets.sample import write_sample

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "benchmarks" / "many_ranks.py"
EVENTS = 20_000
FEW, MANY = 16, 48

LEAST_HELD_MB = 1.0
"""Per rank of 20,000 events, whose columns alone take 1.3 MB."""


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    [path] = write_sample(tmp_path_factory.mktemp("sample"), ranks=1, events=EVENTS, progress=False)
    return path


def growth_mb(trace, *options):
    """Peak memory of the process tree with many ranks, over that with few."""
    few, many = (peak_mb(trace, f"--ranks={ranks}", *options) for ranks in (FEW, MANY))
    return many - few


def peak_mb(trace, *options):
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(trace), *options],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=True,
        capture_output=True,
        text=True,
    )
    return json.loads(done.stdout)["peak_mb"]


def test_memory_is_bounded(trace):
    bound = LEAST_HELD_MB * (MANY - FEW)
    assert growth_mb(trace) < bound
    assert growth_mb(trace, "--hold-all") > bound


def test_ranks_share_texts(tmp_path):
    write_sample(tmp_path, ranks=2, events=EVENTS, progress=False)
    job = open_trace(tmp_path, progress=False)
    events = [job.rank(rank).trace.events for rank in job.ranks]
    names = [each.name.values for each in events]
    shapes = [each.side["operators"].columns["input_dims"].values for each in events]
    for first, second in (names, shapes):
        common = {*first} & {*second}
        assert common
        assert len({id(text) for text in (*first, *second) if text in common}) == len(common)
