"""In Pyodide, where indices have 32 bits, a job has the same numbers.

It needs node and a folder of ``docs/browser/collect.py``, which HTA_WIDGETS_PYODIDE names;
``tests/wasm/from_registries.py`` collects one for CI, which leaves most recordings out.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
from pathlib import Path

import pytest

import hta_widgets
from hta_widgets.sample import write_sample
from tests.conftest import REAL_TRACES
from tests.wasm.all_numbers import all_numbers

PYODIDE = os.environ.get("HTA_WIDGETS_PYODIDE")
pytestmark = pytest.mark.skipif(not PYODIDE, reason="HTA_WIDGETS_PYODIDE names no Pyodide")
ROUNDING = 1e-9
"""Relative: sums of floats are rounded in another order there."""
CONVERTED = [
    f"converted/dlrm_2rank/{name}" for name in ("cupti_csv", "nsys_parquetdir", "nsys_recipe")
]
SMALL = "nsys/healthy_1pct.sqlite"
PARTS = 4
"""No test may take 300 s, and each of these starts Python anew."""


def recordings():
    """All real ones."""
    found = [*REAL_TRACES.glob("kineto/*"), *REAL_TRACES.glob("nsys/*.sqlite")]
    return [*sorted(found), *(job for job in map(REAL_TRACES.joinpath, CONVERTED) if job.exists())]


def differences(first, second, where=""):
    if isinstance(first, dict) and isinstance(second, dict):
        assert first.keys() == second.keys(), where
        for key in first:
            yield from differences(first[key], second[key], f"{where}/{key}")
    elif isinstance(first, list) and isinstance(second, list):
        assert len(first) == len(second), where
        for number, pair in enumerate(zip(first, second, strict=True)):
            yield from differences(*pair, f"{where}[{number}]")
    elif isinstance(first, float) and isinstance(second, float):
        same = math.isclose(first, second, rel_tol=ROUNDING, abs_tol=1e-12)
        if not (same or (math.isnan(first) and math.isnan(second))):
            yield where, first, second
    elif first != second or type(first) is not type(second):
        yield where, first, second


def check(jobs, out):
    out.mkdir()
    here = Path(__file__).parent
    engine = Path(hta_widgets.__file__).parent
    script = [here / "pyodide.mjs", PYODIDE, engine, here.parent, out, *jobs]
    run = subprocess.run(["node", *map(str, script)], capture_output=True, text=True, check=False)
    assert run.returncode == 0, (run.stdout + run.stderr)[-3000:]
    for number, job in enumerate(jobs):
        found = json.loads((out / f"{number}.json").read_text())
        assert list(differences(all_numbers(job), found)) == [], job.name


def test_a_job_of_each_format(tmp_path):
    write_sample(tmp_path / "sample", ranks=2, steps=3, events=3000)
    real = [job for job in map(REAL_TRACES.joinpath, (SMALL, *CONVERTED)) if job.exists()]
    check([tmp_path / "sample", *real], tmp_path / "out")


@pytest.mark.parametrize("part", range(PARTS))
def test_all_recordings(tmp_path, part):
    check(recordings()[part::PARTS], tmp_path / "out")
