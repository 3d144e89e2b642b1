"""Clocks of ranks against those that the traces were written with."""

from __future__ import annotations

import numpy as np
import pytest

from hta_widgets.analyses.clocks import clocks
from hta_widgets.analyses.collectives import collectives
from tests.analyses.collective_jobs import (
    Clock,
    Scene,
    all_fields,
    ddp,
    open_job,
    pipeline,
    sharded,
    write_job,
)
from tests.kineto_text import kernel, write


def clocks_of(folder, scene, **options):
    return clocks(open_job(write_job(folder, scene, **options)))


def first_starts(scene, first=None):
    """True time of the first event of each rank: the launch of the first computation."""
    found = {}
    for rank in range(scene.ranks):
        own = [op.arrivals[rank] for op in scene.operations if rank in op.ranks]
        found[rank] = own[(first or {}).get(rank, 0)] - 9_000
    return found


@pytest.mark.parametrize("scene", [ddp(), sharded(), pipeline(8)], ids=["ddp", "sharded", "pipe"])
def test_offsets_are_exact_without_drift(tmp_path, scene):
    written = {0: Clock(7_000_000_000), 3: Clock(-123_456), 2: Clock(100_000_000_000_000)}
    result = clocks_of(tmp_path, scene, clocks=written)
    starts = first_starts(scene)
    offsets = dict(zip(result.ranks["rank"], result.ranks["offset_ns"], strict=True))
    assert offsets == {rank: start - min(starts.values()) for rank, start in starts.items()}
    assert (result.ranks["clock"] == "aligned").all()
    assert (result.ranks["drift_ppm"] == 0).all()
    assert (result.ranks["error_ns"] == 0).all()
    assert result.spread_ns == 0
    assert result.are_aligned


def test_drift_is_found(tmp_path):
    drifts = [0.0, 9.0, -12.0, 3.0]
    written = {rank: Clock(1000 * rank, drift) for rank, drift in enumerate(drifts)}
    result = clocks_of(tmp_path, ddp(operations=300, seed=5), clocks=written)
    found = result.ranks["drift_ppm"].to_numpy()
    expected = -np.array(drifts)
    np.testing.assert_allclose(found - np.median(found), expected - np.median(expected), atol=0.1)
    assert (result.ranks["error_ns"] < 100).all()


def test_drift_of_a_chain_of_pairs(tmp_path):
    """Each rank only meets its neighbours."""
    drifts = [0.0, 9.0, -12.0, 3.0, 8.0, -5.0, 1.0, 11.0]
    written = {rank: Clock(0, drift) for rank, drift in enumerate(drifts)}
    result = clocks_of(tmp_path, pipeline(8, microbatches=60), clocks=written)
    found = result.ranks["drift_ppm"].to_numpy()
    expected = -np.array(drifts)
    np.testing.assert_allclose(found - np.median(found), expected - np.median(expected), atol=0.2)


def test_short_recordings_show_no_drift(tmp_path):
    scene = ddp(operations=40)
    for operation in scene.operations:
        for rank in operation.arrivals:
            operation.arrivals[rank] //= 10
        operation.end = operation.last + 200_000
    result = clocks_of(tmp_path, scene, clocks={1: Clock(0, 100.0)})
    assert (result.ranks["drift_ppm"] == 0).all()


def test_a_third_of_odd_ends_does_not_matter(tmp_path):
    scene = ddp(operations=60, seed=8)
    job = open_job(write_job(tmp_path, scene, clocks={1: Clock(4_000_000)}))
    exact = clocks(job).ranks["offset_ns"].tolist()
    odd = tmp_path / "odd"
    odd.mkdir()
    for rank in range(4):
        events = []
        for number, op in enumerate(scene.operations):
            late = 50_000 if rank == 3 and number % 3 == 1 else 0
            clock = Clock(4_000_000 if rank == 1 else 0)
            start, end = clock.writes(op.arrivals[rank]), clock.writes(op.end + late)
            events.append(
                kernel(
                    start / 1000,
                    (end - start) / 1000,
                    name="ncclDevKernel_AllReduce(x)",
                    **all_fields(op, rank),
                )
            )
        write(odd / f"rank-{rank}.json", events)
    assert clocks(open_job(odd)).ranks["offset_ns"].tolist() == exact


def test_ranks_that_share_nothing_stay_on_their_clocks(tmp_path):
    scene = Scene(4)
    for _ in range(12):
        for pair in ((0, 1), (2, 3)):
            scene.compute(pair[0])
            scene.meet(pair, group=f"tp{pair[0]}")
    job = open_job(write_job(tmp_path, scene, clocks={3: Clock(10_000)}))
    result = clocks(job)
    assert result.ranks["component"].tolist() == [0, 0, 1, 1]
    assert not result.are_aligned
    assert any("2 sets of ranks share no collective" in notice for notice in result.notices)
    recorded = job.offsets_ns([0, 2])
    offsets = result.ranks["offset_ns"].tolist()
    assert offsets[2] - offsets[0] == recorded[2] - recorded[0]


def test_ends_too_far_apart_for_their_waits(tmp_path):
    """Ends that differ by 100 µs: aligning would make late ranks of them."""
    written = np.random.default_rng(0)
    scene = ddp(operations=40)
    for rank in range(4):
        events = []
        for op in scene.operations:
            start = op.last - 20_000 + int(written.integers(0, 20_000))
            end = op.end + int(written.integers(-150_000, 150_000))
            events.append(
                kernel(
                    start / 1000, (end - start) / 1000, name="ncclAllReduce", **all_fields(op, rank)
                )
            )
        write(tmp_path / f"rank-{rank}.json", events)
    result = clocks(open_job(tmp_path))
    assert (result.ranks["clock"] == "recorded").all()
    assert any("the recorded clocks are used" in notice for notice in result.notices)


def test_times_that_cannot_be(tmp_path):
    """Every tenth operation has ended on rank 0 before rank 1 has begun it."""
    scene = ddp(2, operations=60)
    for rank in range(2):
        events = []
        for number, op in enumerate(scene.operations):
            moved = 400_000 if number % 10 == 5 and rank == 1 else 0
            start, end = op.arrivals[rank] + moved, op.end + moved
            start = max(start, end - 100_000) if moved else start
            events.append(
                kernel(
                    start / 1000, (end - start) / 1000, name="ncclAllReduce", **all_fields(op, rank)
                )
            )
        write(tmp_path / f"rank-{rank}.json", events)
    job = open_job(tmp_path)
    result = clocks(job)
    assert (result.ranks["clock"] == "contradictory").all()
    assert any("the clocks cannot be aligned" in notice for notice in result.notices)
    assert collectives(job).kernels["wait_ns"].isna().all()


def test_one_rank(tmp_path):
    result = clocks_of(tmp_path, ddp(), ranks=[1])
    assert result.ranks["offset_ns"].tolist() == [0]
    assert result.ranks["clock"].tolist() == ["recorded"]
    assert np.isnan(result.spread_ns)
    assert result.finding.startswith("The job has one rank")


def test_no_operation_of_several_ranks(tmp_path):
    for rank in range(2):
        write(tmp_path / f"rank-{rank}.json", [kernel(5 * rank + 3, 5)])
    job = open_job(tmp_path)
    result = clocks(job)
    assert result.ranks["offset_ns"].tolist() == [*job.offsets_ns([0, 1]).values()]
    assert any("the recorded clocks are used" in each for each in result.notices)


@pytest.mark.parametrize(
    ("second_us", "apart_us"), [(1_001_105, 1_000_105), (1_001_106, 0), (7_000_000, 0)]
)
def test_recordings_that_lie_seconds_apart_begin_together(tmp_path, second_us, apart_us):
    """The first lasts from 1,000 to 1,105 µs."""
    write(tmp_path / "rank-0.json", [kernel(1_000, 105)])
    write(tmp_path / "rank-1.json", [kernel(second_us, 105)])
    for job in (open_job(tmp_path), open_job([tmp_path / f"rank-{n}.json" for n in (1, 0)])):
        result = clocks(job)
        offsets = result.ranks["offset_ns"].tolist()
        assert abs(offsets[1] - offsets[0]) == 1_000 * apart_us
        assert any("taken to begin together" in each for each in result.notices) == (apart_us == 0)


def test_some_ranks(tmp_path):
    job = open_job(write_job(tmp_path, ddp(), clocks={1: Clock(5000)}))
    assert clocks(job, [2, 1]).ranks["rank"].tolist() == [1, 2]


def test_findings(tmp_path):
    job = open_job(write_job(tmp_path, ddp(), clocks={1: Clock(5_000_000), 3: Clock(-1_000_000)}))
    assert clocks(job).finding.startswith("The recorded clocks of 4 ranks are up to 6 ms apart; ")
    ends = " those of most ranks, as 30 collectives show."
    assert clocks(job, [1]).finding == f"The recorded clock of rank 1 is 5 ms ahead of{ends}"
    assert clocks(job, [3]).finding == f"The recorded clock of rank 3 is 1 ms behind{ends}"
    assert clocks(job, [0]).finding == f"The recorded clock of rank 0 agrees with{ends}"
    alike = tmp_path / "alike"
    alike.mkdir()
    found = clocks_of(alike, ddp())
    assert found.finding == "The recorded clocks of 4 ranks agree in 30 collectives."


def test_two_collectives_are_too_few(tmp_path):
    scene = ddp(2, operations=2)
    result = clocks_of(tmp_path, scene, clocks={1: Clock(60_000)})
    assert (result.ranks["clock"] == "recorded").all()
    assert any("2 collectives of a rank are too few" in notice for notice in result.notices)


def test_ends_as_far_apart_as_collectives_take(tmp_path):
    """Ends that differ by 8 µs say nothing if kernels take 12 µs."""
    written = np.random.default_rng(0)
    scene = ddp(operations=40)
    for rank in range(4):
        events = []
        for op in scene.operations:
            start = op.last + int(written.integers(0, 12_000))
            events.append(kernel(start / 1000, 12, name="ncclAllReduce", **all_fields(op, rank)))
        write(tmp_path / f"rank-{rank}.json", events)
    assert (clocks(open_job(tmp_path)).ranks["clock"] == "recorded").all()
