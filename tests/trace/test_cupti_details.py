"""How kernels are launched, read from CUPTI tables on demand: against the tables themselves."""

from __future__ import annotations

import csv
import json
import random
from collections import Counter
from decimal import Decimal
from pathlib import Path

import pytest

from hta_widgets.analyses import launch_facts
from hta_widgets.errors import TraceFormatError
from hta_widgets.trace.loaders.cupti.format import read_details
from hta_widgets.trace.loaders.cupti.load import load_cupti_csv
from hta_widgets.trace.model.details import DetailGroup
from hta_widgets.trace.opening.open import open_trace
from tests.cupti_folder import COLUMNS, row, write_cupti_folder
from tests.kineto_text import events_of

NOW_NS = 1_732_611_000_000_000_000
AXES = "xyz"
REGISTERS, SHARED = "registers per thread", "shared memory"
FACTS = (
    *(f"{size}_{axis}" for size in ("grid", "block") for axis in AXES),
    "registers",
    "shared_bytes",
)
RUN_TOGETHER = "the recorded grids and blocks of kernels cannot be read"


def counted(folder: Path) -> Counter:
    """How often each start, duration and set of facts occurs."""
    trace = load_cupti_csv(folder, 0)
    table = read_details(folder, trace, None, DetailGroup.LAUNCH_CONFIGURATION)
    starts = (trace.events.start_ns[table.rows] + trace.origin_ns).tolist()
    missing = [-1] * len(starts)
    columns = [table.columns[name].tolist() if name in table.columns else missing for name in FACTS]
    return Counter(
        zip(starts, trace.events.duration_ns[table.rows].tolist(), *columns, strict=True)
    )


def write(folder: Path, rows: list[dict[str, object]], *facts: str) -> Path:
    columns = {"conc_kernel.csv": ("start", *facts, "name", "correlation", "dur")}
    return write_cupti_folder(folder, {"conc_kernel.csv": rows}, columns=columns)


def one(folder: Path, **facts: object) -> dict[str, int]:
    """Facts of a single kernel."""
    [key] = counted(write(folder, [row(NOW_NS, 5_000, "gemm", **facts)], *facts))
    return dict(zip(FACTS, key[2:], strict=True))


def kernels_of(path: Path) -> list[dict]:
    return [each for each in events_of(path) if str(each.get("cat")).lower() == "kernel"]


def sizes(value: object) -> list[int]:
    """The three sizes of a grid or block: a list, or text in old traces."""
    return json.loads(value) if isinstance(value, str) else value or [-1, -1, -1]


def as_rows(kernels: list[dict]) -> tuple[list[dict[str, object]], Counter]:
    """Kernels as rows of a table, and what is to be read from them."""
    rows, expected = [], Counter()
    for kernel in kernels:
        args = kernel["args"]
        start_ns = NOW_NS + int(kernel["ts"] * 1000) % 10**14
        duration_ns = int(kernel["dur"] * 1000)
        grid, block = (sizes(args.get(key)) for key in ("grid", "block"))
        numbers = [int(args.get(key, -1)) for key in (REGISTERS, SHARED)]
        written = ["" if number < 0 else number for number in numbers]
        texts = {"grid": str(grid), "block": str(block)}
        facts = dict(zip((REGISTERS, SHARED), written, strict=True))
        rows.append(row(start_ns, duration_ns, kernel["name"], **texts, **facts))
        expected[(start_ns, duration_ns, *grid, *block, *numbers)] += 1
    return rows, expected


def test_launches_of_real_kernels_against_their_events(tmp_path, kineto_jobs):
    """Written as CUPTI tables in random order, with unreadable rows between."""
    seen = 0
    for name, job in kineto_jobs.items():
        if not job.is_dir() or name == "ddp_rank1of2":
            continue
        rows, expected = as_rows(kernels_of(min(job.glob("*.json*"))))
        if not rows:
            continue
        seen += len(rows)
        rows += [row(NOW_NS, -1_000, "damaged", grid="[7, 7, 7]") for _ in range(5)]
        random.Random(name).shuffle(rows)  # noqa: S311
        folder = write(tmp_path / name, rows, "grid", "block", REGISTERS, SHARED)
        assert counted(folder) == expected, name
    assert seen > 20_000


def test_shared_memory_of_the_shared_tables(real_traces):
    """Their grids are digits that run together, so only the shared memory can be read."""
    folders = sorted((real_traces / "converted").glob("*/cupti_csv/*"))
    assert len(folders) == 4
    for folder in folders:
        with (folder / "conc_kernel.csv").open(newline="", encoding="utf-8") as file:
            expected = Counter(
                (
                    int(Decimal(each["start"]) * 1000),
                    int(Decimal(each["dur"]) * 1000),
                    *[-1] * 7,
                    int(each["shared memory"]),
                )
                for each in csv.DictReader(file)
            )
        assert counted(folder) == expected
        assert len({key[-1] for key in expected}) > 3
        assert launch_facts(open_trace(folder, progress=False)).notices.count(RUN_TOGETHER) == 1


@pytest.mark.parametrize(
    "facts",
    [
        {"grid": "[4, 2, 1]", "block": "(128,1,1)", "registers": 0, "shared memory": "96"},
        {"Grid": "4x2x1", "BLOCK": "128×1×1", "Shared_Memory": "96.0"},
        {
            **{f"grid{axis.upper()}": size for axis, size in zip(AXES, (4, 2, 1), strict=True)},
            **{f"block_{axis}": size for axis, size in zip(AXES, (128, 1, 1), strict=True)},
            "staticSharedMemory": 64,
            "dynamicSharedMemory": 32,
        },
    ],
    ids=["lists", "signs", "columns"],
)
def test_columns_are_named_and_written_in_several_ways(tmp_path, facts):
    found = one(tmp_path, **facts, registersPerThread=40)
    assert found == dict(zip(FACTS, (4, 2, 1, 128, 1, 1, 40, 96), strict=True))


def test_what_cannot_be_read_is_not_guessed(tmp_path):
    """25611 may be [256, 1, 1], [25, 61, 1] or [2, 56, 11]."""
    facts = {"grid": "25611", "block": "", "registersPerThread": "many", "shared memory": "-7"}
    assert set(one(tmp_path, **facts).values()) == {-1}


def test_each_kernel_of_a_graph_has_its_own_launch(tmp_path):
    rows = [
        row(
            NOW_NS + 1_000 * at,
            500,
            "gemm",
            correlation=7,
            grid=f"[{at}, 1, 1]",
            block="[32, 1, 1]",
        )
        for at in (3, 1, 2)
    ]
    kernels = launch_facts(
        open_trace(write(tmp_path, rows, "grid", "block"), progress=False), by="configuration"
    ).kernels
    assert sorted(kernels["blocks"].tolist()) == [1, 2, 3]
    assert kernels["threads"].tolist() == [32, 32, 32]


def test_serial_kernels_are_read_where_there_are_no_others(tmp_path):
    columns = {**COLUMNS, "kernel.csv": ("start", "grid", "name", "dur")}
    tables = {"kernel.csv": [row(NOW_NS, 5_000, "gemm", grid="[9, 1, 1]")]}
    [key] = counted(write_cupti_folder(tmp_path, tables, columns=columns))
    assert key[2:5] == (9, 1, 1)


def test_tables_without_launches_or_kernels(tmp_path):
    bare = write(tmp_path / "bare", [row(NOW_NS, 5_000, "gemm")])
    assert not counted(bare)
    notices = launch_facts(open_trace(bare, progress=False)).notices
    assert "no grids and blocks of kernels were recorded" in notices
    calls = {"cuda_runtime.csv": [row(NOW_NS, 5_000, "cudaLaunchKernel")]}
    assert not counted(write_cupti_folder(tmp_path / "calls", calls))


def test_other_fields_are_refused(tmp_path):
    folder = write(tmp_path, [row(NOW_NS, 5_000, "gemm")])
    with pytest.raises(TraceFormatError, match="a folder of CUPTI tables has no memory events"):
        read_details(folder, load_cupti_csv(folder, 0), None, DetailGroup.MEMORY)
