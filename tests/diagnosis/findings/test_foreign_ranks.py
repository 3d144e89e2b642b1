"""Traces that do not belong to the others are named, and nothing is concluded from them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from hta_widgets.diagnosis import Diagnosis, diagnosis
from hta_widgets.panels.bands.bands import facts
from hta_widgets.trace.opening.open import open_trace
from tests.diagnosis.findings.thresholds import Case, cases
from tests.diagnosis.findings.training_jobs import US, Compute, Meet, diagnosed, write_training

EVERYBODY = (0, 1, 2, 3)
MINUTE_US = 60e6
LENGTHS = 40
"""Kernels of different lengths in a step, so many that equal times are no chance."""


def slow(rank: int, step: int) -> list[object]:
    """Rank 2 has a slow GPU."""
    factor = 1.3 if rank == 2 else 1.0
    kernels = [
        Compute(round((100 + each + step / 8) * US * factor) + rank, shape=f"[[{each}]]")
        for each in range(LENGTHS)
    ]
    return [*kernels[:20], Meet(EVERYBODY), *kernels[20:], Meet(EVERYBODY)]


def equal(_rank: int, step: int) -> list[object]:
    """As programs make up jobs: all ranks take the same times, of a few lengths."""
    return slow(0, 0 * step)[:21]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_training(tmp_path, 4, slow)
    return tmp_path


def change(folder: Path, rank: int, *, late_us: float = 0, factor: float = 1, **keys: Any) -> None:
    """Write a rank anew: later, slower, or with other keys."""
    path = folder / f"rank-{rank}.json"
    document = json.loads(path.read_text()) | keys
    events = document["traceEvents"]
    first = min(event["ts"] for event in events)
    for event in events:
        event["ts"] = first + (event["ts"] - first) * factor + late_us
        event["dur"] *= factor
    path.write_text(json.dumps(document))


def info(rank: int, **values: Any) -> dict[str, Any]:
    return {"distributedInfo": {"rank": rank, "world_size": 4, "backend": "nccl"} | values}


def copied(folder: Path, rank: int, of: int) -> None:
    document = json.loads((folder / f"rank-{of}.json").read_text()) | info(rank)
    (folder / f"rank-{rank}.json").write_text(json.dumps(document))


def gpus(name: str) -> dict[str, Any]:
    return {"deviceProperties": [{"id": 0, "name": name}]}


def said(found: Diagnosis) -> list[tuple[str, tuple[int, ...]]]:
    return [(each.cause, each.ranks) for each in found]


def notices(found: Diagnosis) -> list[str]:
    ends = (": it is left out", ": it is not compared")
    return [each for each in found.notices if each.endswith(ends)]


def test_ranks_that_belong_together_are_not_named(folder: Path) -> None:
    found = diagnosed(folder)
    assert said(found) == [("slow_gpu", (2,))]
    assert not notices(found)
    assert found.health.is_sound
    assert "⚠ recording unreliable" not in facts(found.job, found)


def test_a_copy_is_named_and_left_out(folder: Path) -> None:
    copied(folder, 3, of=2)
    found = diagnosed(folder)
    assert said(found) == [("slow_gpu", (2,))]
    assert notices(found) == [
        "rank 3 has the same times as rank 2, to the ns, so that one is a copy: it is left out"
    ]
    assert found.ranks == (0, 1, 2)
    assert "recording faults, see notices" in facts(found.job, found)
    assert "Record all ranks" in {each.how for each in found.not_recorded}
    assert not found.proof(found[0]).intervals.empty


def test_equal_ranks_of_a_made_up_job_are_no_copies(tmp_path: Path) -> None:
    write_training(tmp_path, 4, equal)
    found = diagnosed(tmp_path)
    assert not notices(found)
    assert found.ranks == EVERYBODY


@pytest.mark.parametrize("late_us", [7 * MINUTE_US, -2 * MINUTE_US])
@pytest.mark.parametrize("factor", [1.15, 1.4])
def test_a_rank_of_another_run_is_named_and_left_out(
    folder: Path, late_us: float, factor: float
) -> None:
    change(folder, 3, late_us=late_us, factor=factor)
    found = diagnosed(folder)
    assert said(found) == [("slow_gpu", (2,))]
    when = "420 s after" if late_us > 0 else "120 s before"
    (notice,) = notices(found)
    assert notice.startswith(f"rank 3 began {when} the others, and no collective of it ends with")
    assert notice.endswith("so that it is of another run: it is left out")
    assert found.ranks == (0, 1, 2)


def test_a_rank_of_another_run_is_named_where_only_its_kernels_are_recorded(folder: Path) -> None:
    change(folder, 3, late_us=7 * MINUTE_US, factor=1.4)
    path = folder / "rank-3.json"
    document = json.loads(path.read_text())
    work = [each for each in document["traceEvents"] if each.get("cat") == "kernel"]
    path.write_text(json.dumps(document | {"traceEvents": work}))
    found = diagnosed(folder)
    assert found.job.kinds[3].name == "unknown"
    (notice,) = notices(found)
    assert notice.startswith("rank 3 began 420 s after the others")
    assert found.ranks == (0, 1, 2)


@pytest.mark.parametrize("late_us", [30e6, 7 * MINUTE_US, 3 * 365 * 86_400e6])
def test_a_clock_that_is_wrong_makes_no_other_run(folder: Path, late_us: float) -> None:
    """Collectives end together on it, too, once it is aligned."""
    change(folder, 3, late_us=late_us)
    found = diagnosed(folder)
    assert said(found) == [("slow_gpu", (2,))]
    assert not notices(found)
    assert found.ranks == EVERYBODY


def test_another_gpu_is_named_and_not_compared(folder: Path) -> None:
    for rank in EVERYBODY:
        change(folder, rank, **gpus("NVIDIA A100" if rank == 2 else "NVIDIA H100"))
    found = diagnosed(folder)
    assert not [each for each in found if each.confidence == "measured"]
    assert notices(found) == [
        "rank 2 runs on NVIDIA A100, most others on NVIDIA H100: it is not compared"
    ]
    assert found.ranks == (0, 1, 3)
    assert found.unmatched_percent == 0  # the others wait for it


def test_a_rank_that_states_another_size_of_the_job_is_not_compared(folder: Path) -> None:
    change(folder, 2, **info(2, world_size=32))
    job = open_trace({rank: folder / f"rank-{rank}.json" for rank in EVERYBODY}, progress=False)
    found = diagnosis(job)
    assert not [each for each in found if each.confidence == "measured"]
    assert notices(found) == [
        "rank 2 is of a job of 32 ranks, the others of one of 4: it is not compared"
    ]
    assert not any("missing" in each for each in found.notices)


def test_a_chosen_rank_that_does_not_belong_is_diagnosed_alone(folder: Path) -> None:
    copied(folder, 3, of=2)
    assert diagnosed(folder, ranks=[3]).ranks == (3,)
    assert diagnosed(folder, ranks=[2, 3]).ranks == (2,)
    assert said(diagnosed(folder, ranks=[2, 3])) == [("slow_gpu", (2,))]


def test_of_two_ranks_the_second_one_is_left_out(tmp_path: Path) -> None:
    write_training(tmp_path, 2, lambda rank, step: [*slow(rank, step)[:20], Meet((0, 1))])
    shutil.copy(tmp_path / "rank-0.json", tmp_path / "rank-1.json")
    change(tmp_path, 1, **info(1, world_size=2))
    assert diagnosed(tmp_path).ranks == (0,)


def later(folder: Path, late_ns: float) -> bool:
    """Whether a rank that takes longer and began so late is of another run."""
    write_training(folder, 4, slow)
    change(folder, 3, late_us=late_ns / 1000, factor=1.15)
    return bool(notices(diagnosed(folder)))


test_thresholds = cases(Case("health.APART_NS", later, {59.9e9: False, 60.1e9: True}))
