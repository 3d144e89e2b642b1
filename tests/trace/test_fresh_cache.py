"""The cache is never stale: code that would give other results does not read it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest

from hta_widgets.trace.cache import derived_columns
from hta_widgets.trace.cache import files as cache_files
from hta_widgets.trace.cache.code_version import DERIVING, LOADING, PACKAGE, code_version
from hta_widgets.trace.model import kernels
from hta_widgets.trace.model.kernels import KernelType
from hta_widgets.trace.opening.open import open_trace
from tests.kineto_text import call, kernel, write

EVENTS = [
    event
    for number in range(1, 5)
    for event in (
        call(number * 20, 3, number),
        kernel(number * 20 + 6, 9, name="gemm", correlation=number),
    )
]

LOOK = """
import json, sys
from pathlib import Path
from hta_widgets.analyses.budget.idle_gaps import gaps_of
from hta_widgets.analyses.launch_stats import launch_stats
from hta_widgets.trace.cache import derived_columns
from hta_widgets.trace.opening.open import open_trace
from hta_widgets.trace.ranks import cache
from hta_widgets.trace.ranks.source import RankSource

cache.WORTH_KEEPING = derived_columns.WORTH_KEEPING = 0
loaded, load = [], RankSource.load
RankSource.load = lambda *args: loaded.append(args) or load(*args)
job = open_trace(Path(sys.argv[1]), progress=False)
work = job.gpu_work(0)
print(json.dumps({
    "type": work.type.tolist(),
    "duration_ns": work.duration_ns.tolist(),
    "delay_ns": launch_stats(job).launches[0]["launch_delay_ns"].tolist(),
    "gap_launch": gaps_of(job.rank(0)).launch.tolist(),
    "loaded": len(loaded),
}))
"""
"""Numbers that come from a rule, a loader and a derivation, and how often the loader ran."""

USUAL = {
    "type": [0] * 4,
    "duration_ns": [9_000] * 4,
    "delay_ns": [3_000] * 4,
    "gap_launch": [0, 2, 4, 6],
}

RULE = """
_BUILT_IN = ((KernelType.COMMUNICATION, re.compile("gemm")),)
"""

LOADER = """
exact = durations_to_ns
def durations_to_ns(texts):
    return 2 * exact(texts)
"""

DERIVATION = """
exact = _gaps
def _gaps(rank):
    columns = exact(rank)
    return {**columns, "launch": columns["launch"] + 5}
"""


def look(folder):
    """Open a trace with the copy of the package in a folder, in a separate process."""
    environment = os.environ | {
        cache_files.VARIABLE: str(folder / "cache"),
        "PYTHONPATH": str(folder / "code"),
    }
    command = [sys.executable, "-c", LOOK, str(folder / "rank0.json")]
    done = subprocess.run(command, env=environment, cwd=folder, check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)


def test_changed_code_shows_its_own_numbers(tmp_path):
    """One change after another, then the code as it was: each look is a process."""
    code = tmp_path / "code" / PACKAGE.name
    shutil.copytree(PACKAGE, code)
    write(tmp_path / "rank0.json", EVENTS)
    assert look(tmp_path) == USUAL | {"loaded": 1}
    assert look(tmp_path) == USUAL | {"loaded": 0}
    now = dict(USUAL)
    for module, added, changed in (
        ("analyses/budget/idle_gaps.py", DERIVATION, {"gap_launch": [5, 7, 9, 11]}),
        ("trace/model/kernels.py", RULE, {"type": [1] * 4}),
        ("trace/loaders/timestamps.py", LOADER, {"duration_ns": [18_000] * 4, "delay_ns": [0] * 4}),
    ):
        with (code / module).open("a", encoding="utf-8") as file:
            file.write(added)
        now |= changed
        assert look(tmp_path) == now | {"loaded": int(module.startswith("trace"))}
    shutil.rmtree(code)
    shutil.copytree(PACKAGE, code)
    again = look(tmp_path)
    assert {name: again[name] for name in USUAL} == USUAL


@pytest.mark.usefixtures("cached")
def test_types_are_kept_under_all_rules(tmp_path, monkeypatch):
    """Rules that change while the process runs, such as those that a user patches."""
    monkeypatch.setattr(derived_columns, "WORTH_KEEPING", 0)
    trace = write(tmp_path / "rank0.json", EVENTS)

    def types():
        return set(open_trace(trace, progress=False).gpu_work(0).type.tolist())

    assert types() == {KernelType.COMPUTATION}
    built_in = ((KernelType.MEMORY, kernels.re.compile("gemm")),)
    monkeypatch.setattr(kernels, "_BUILT_IN", built_in)
    assert types() == {KernelType.MEMORY}


def test_the_version_covers_all_that_computes():
    """Every module that a loaded rank or a derivation imports is among those hashed."""
    code = (
        "import sys, hta_widgets.analyses, pkgutil, importlib;"
        "[importlib.import_module(each.name) for each in pkgutil.walk_packages("
        "hta_widgets.analyses.__path__, 'hta_widgets.analyses.')];"
        "print(*(name for name in sys.modules if name.startswith('hta_widgets.')))"
    )
    printed = subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE)
    parts = {name.split(".")[1] for name in printed.stdout.decode().split()}
    computing = {part.removesuffix(".py") for part in DERIVING}
    others = {"arrays", "atomic_write", "errors", "garbage_collection", "lazy_modules"}
    others |= {"numpy_on_wasm", "progress", "version"}
    assert parts - computing == others
    assert set(LOADING) < set(DERIVING)
    assert code_version(LOADING) != code_version(DERIVING)
