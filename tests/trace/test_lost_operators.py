"""Operators that are recorded for a part of the time only, and counters that nothing looks at."""

from __future__ import annotations

import numpy as np
import pytest

from hta_widgets.trace.model.events import Kind
from hta_widgets.trace.opening.open import open_trace
from hta_widgets.trace.ranks.facts import health_of
from tests import nsys_export
from tests.kineto_text import call, host, kernel, step, write


def lost_in(folder, events):
    job = open_trace(write(folder / "rank-0.json", events), progress=False)
    found = job.reduce(health_of, [0])[0].operators
    assert any("come before the first operator" in each for each in job.notices) == bool(
        found.outside
    )
    return found.launches, found.outside


def launched(count, has_operator, every=100):
    """Launches one after another, each inside an operator of which this is true."""
    return [
        event
        for number in range(count)
        for event in (
            *([host(every * number, 30, "aten::mm")] if has_operator(number) else []),
            call(every * number + 5, 5, number + 1),
            call(every * number + 6, 3, 10_000 + number, name="cuLaunchKernel", cat="cuda_driver"),
            kernel(every * number + 20, 50, correlation=number + 1),
        )
    ]


@pytest.mark.parametrize(
    ("has_operator", "outside"),
    [
        pytest.param(lambda _: True, 0, id="all"),
        pytest.param(lambda _: False, 0, id="none"),
        pytest.param(lambda number: number >= 40, 40, id="the second part"),
        pytest.param(lambda number: number < 70, 30, id="the first part"),
        pytest.param(lambda number: 20 <= number < 70, 50, id="the middle"),
        pytest.param(lambda number: number >= 40 and number % 2, 0, id="not of all others"),
    ],
)
def test_operators_of_a_part_of_the_time(tmp_path, has_operator, outside):
    marks = [step(0, 0, 5_000), step(1, 5_000, 5_000)]
    assert lost_in(tmp_path, [*marks, *launched(100, has_operator)]) == (100, outside)


def test_ranges_that_a_program_sets_from_somewhere_on_are_not_lost(tmp_path):
    """NVTX ranges are there where the program sets them, and nowhere else."""
    rows = range(0, 10_000, 100)
    tables = {
        nsys_export.STRINGS: nsys_export.strings("gemm", "cudaLaunchKernel_v7000"),
        nsys_export.KERNEL: [nsys_export.kernel(at + 20, at + 70, correlation=at) for at in rows],
        nsys_export.RUNTIME: [nsys_export.call(at + 5, at + 10, correlation=at) for at in rows],
        nsys_export.NVTX: [
            nsys_export.nvtx(at, at + 30, f"aten::mm, seq = {at}, op_id = {at}")
            for at in rows[len(rows) // 2 :]
        ],
    }
    path = tmp_path / "half.sqlite"
    nsys_export.write_sqlite(path, tables)
    job = open_trace(path, progress=False)
    assert np.count_nonzero(job.rank(0).trace.events.kind == Kind.CPU_OP) == 50
    assert job.reduce(health_of, [0])[0].is_sound


def test_values_of_counters_are_said_to_be_ignored(tmp_path):
    sample = {"ph": "C", "name": "GPU power", "pid": 1, "ts": 15, "args": {"W": 300}}
    path = write(tmp_path / "rank-0.json", [*launched(3, lambda _: True), sample, sample])
    job = open_trace(path, progress=False)
    assert job.notices == ("2 counter values are only in job.events: no analysis uses them",)
    assert job.reduce(health_of, [0])[0].is_sound
