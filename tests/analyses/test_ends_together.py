"""Sends and receives whose partners are not recorded: against brute force, and known jobs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hta_widgets.analyses.clocks.aligned import Lanes, ending_together
from hta_widgets.analyses.collectives import Collectives, collectives
from tests.analyses.collective_jobs import (
    Clock,
    Scene,
    expected,
    no_fields,
    open_job,
    write_job,
)

US = 1000
Kernel = tuple[int, int, int, int]
"""Lane, device, start and end (ns)."""

ROUND = st.lists(
    st.one_of(
        st.none(), st.tuples(st.integers(0, 9), st.integers(0, 8), st.sampled_from([0, 0, 0, 1]))
    ),
    min_size=2,
    max_size=4,
)
"""For each rank: nothing, or how long it takes, how late it ends, and on which of two streams."""


def lanes_of(kernels: Iterable[Kernel]) -> Lanes:
    columns = np.array([*kernels], dtype=np.int64).reshape(-1, 4).T
    return Lanes(*columns)


def found(kernels: Iterable[Kernel]) -> set[frozenset[int]]:
    return {frozenset(members.tolist()) for members in ending_together(lanes_of(kernels))}


def by_brute_force(kernels: list[Kernel]) -> set[frozenset[int]]:
    """The same by its definition."""
    everyone = range(len(kernels))
    near = {
        a: {b for b in everyone if abs(kernels[a][3] - kernels[b][3]) <= 30_000} for a in everyone
    }
    likely = set()
    for one in everyone:
        members = {one}
        while (more := members.union(*(near[each] for each in members))) != members:
            members = more
        starts, ends = ([kernels[each][which] for each in members] for which in (2, 3))
        running = {
            each
            for each in everyone
            if kernels[each][2] < min(ends) and kernels[each][3] > max(starts)
        }
        if (
            len(members) == len({kernels[each][1] for each in members}) > 1
            and max(ends) - min(ends) <= 30_000
            and max(starts) < min(ends)
            and running == members
        ):
            likely.add(frozenset(members))
    of_lanes = {each: frozenset(kernels[member][0] for member in each) for each in likely}

    def chance(lanes: frozenset[int]) -> float:
        every = [[k[3] for k in kernels if k[0] == lane] for lane in lanes]
        often = max(len(ends) / max(max(ends) - min(ends), 1) for ends in every)
        return min(60_000 * often, 1) ** sum(other == lanes for other in of_lanes.values())

    kept = {each for each in likely if chance(of_lanes[each]) <= 1e-3}
    for _ in everyone:
        taken = {kernels[member][0] for member in everyone}
        poor = {
            lane
            for lane in taken
            if sum(kernels[m][0] == lane for each in kept for m in each)
            < 0.8 * sum(kernel[0] == lane for kernel in kernels)
        }
        kept = {each for each in kept if not poor & of_lanes[each]}
    return kept


@given(st.lists(ROUND, max_size=7))
def test_groups_are_those_of_their_definition(
    rounds: list[list[tuple[int, int, int] | None]],
) -> None:
    kernels = []
    for number, of_ranks in enumerate(rounds):
        for rank, each in enumerate(of_ranks):
            if each is not None:
                takes, late, stream = each
                end = 1_000_000 * number + 5_000 * late
                kernels.append((2 * rank + stream, rank, end - 100_000 * takes - 1, end))
    assert found(kernels) == by_brute_force(kernels)


def rounds(count: int, *, every_us: int = 1000, apart_ns: int = 0, alone: int = 0) -> list[Kernel]:
    """Two ranks, of which one ends so much later; the last ones are alone on the other."""
    kernels = []
    for number in range(count):
        end = every_us * US * number
        kernels += [(0, 0, end - 300 * US, end)]
        if number < count - alone:
            kernels += [(1, 1, end - 200 * US, end + apart_ns)]
    return kernels


@pytest.mark.parametrize(("apart_ns", "count"), [(30_000, 6), (30_001, 0)])
def test_ends_further_apart_are_not_one_end(apart_ns: int, count: int) -> None:
    assert len(found(rounds(6, apart_ns=apart_ns))) == count


@pytest.mark.parametrize(("every_us", "count"), [(885, 0), (915, 3)])
def test_so_few_or_so_frequent_may_end_together_by_chance(every_us: int, count: int) -> None:
    """Three, of which each lies within 60 µs of two thirds of the distance: 1 in 1,000 jobs."""
    assert len(found(rounds(3, every_us=every_us))) == count


@pytest.mark.parametrize(("alone", "count"), [(2, 8), (3, 0)])
def test_a_stream_in_which_many_end_alone_is_not_divided(alone: int, count: int) -> None:
    assert len(found(rounds(10, alone=alone))) == count


@pytest.mark.parametrize(("end_us", "count"), [(-210, 6), (40, 0)])
def test_another_rank_that_sends_until_later_may_be_a_member(end_us: int, count: int) -> None:
    """As of an all-to-all in which one rank gets more."""
    others = [(2, 2, end - 500 * US, end + end_us * US) for _, _, _, end in rounds(6)[::2]]
    assert len(found([*rounds(6), *others])) == count


def test_two_kernels_of_one_rank_at_once_are_not_divided() -> None:
    again = [(2, 1, start, end) for lane, _, start, end in rounds(6) if lane == 1]
    assert not found([*rounds(6), *again])


def exchanging(*, reducing: bool = True) -> Scene:
    """Four ranks: an all-to-all after each all-reduce, by which clocks are aligned."""
    scene = Scene(4, seed=2)
    for _ in range(12):
        for name in ("allreduce", "all_to_all") if reducing else ("all_to_all",):
            for rank in range(4):
                scene.compute(rank)
            scene.meet(range(4), name=name)
    return scene


OFF = {0: Clock(3_000_000_000), 1: Clock(-2_000_000_000), 2: Clock(17), 3: Clock(40_000_000)}


def divided(folder: Path, scene: Scene, **options: object) -> Collectives:
    return collectives(open_job(write_job(folder, scene, fields=no_fields, **options)))


@pytest.mark.parametrize(("reducing", "clocks"), [(True, OFF), (True, {}), (False, {})])
def test_waits_and_transfers_are_those_of_the_job(
    tmp_path: Path, *, reducing: bool, clocks: dict[int, Clock]
) -> None:
    scene = exchanging(reducing=reducing)
    made = divided(tmp_path, scene, clocks=clocks)
    parts = ["wait_ns", "unexplained_wait_ns", "transfer_ns"]
    assert (made.kernels[parts].sum(axis=1) == made.kernels["duration_ns"]).all()
    truth = expected(scene)
    for rank, table in made.kernels.groupby("rank"):
        rows = zip(table["wait_ns"], table["transfer_ns"], strict=True)
        assert [*rows] == [truth[rank, number] for number in range(len(table))]
    assert any(
        "48 sends and receives whose partners are not recorded are taken for 12 collectives of "
        "ranks 0-3, as they end together" in notice
        for notice in made.notices
    )
    assert "cannot be divided" not in made.finding


class Jumping(Clock):
    """Behind for every other millisecond."""

    def writes(self, time: int) -> int:
        return time - self.offset * (time // 1_000_000 % 2)


@pytest.mark.parametrize(("behind_us", "count"), [(20, 12), (45, 12), (400, 0)])
def test_ends_may_be_as_far_apart_as_those_of_known_collectives(
    tmp_path: Path, behind_us: int, count: int
) -> None:
    made = divided(tmp_path, exchanging(), clocks={3: Jumping(behind_us * US)})
    is_exchange = made.matched["collective"].str.contains("SendRecv")
    assert is_exchange.sum() == count


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"clocks": OFF}, id="clocks are apart"),
        pytest.param({"ranks": (0, 1, 2)}, id="a rank is missing"),
    ],
)
def test_nothing_is_divided_that_is_not_sure(tmp_path: Path, options: dict[str, object]) -> None:
    made = divided(tmp_path, exchanging(reducing=False), **options)
    assert made.kernels["wait_ns"].isna().all()
    assert any("cannot be matched" in notice for notice in made.notices)


def test_what_is_not_divided_is_said_first(tmp_path: Path) -> None:
    scene = exchanging()
    for operation in scene.operations[1::2]:
        operation.name = "broadcast"
    made = divided(tmp_path, scene)
    kernels = made.kernels
    left = kernels["wait_ns"].isna()
    share = 100 * kernels["duration_ns"][left].sum() / kernels["duration_ns"].sum()
    assert 0 < share < 100
    assert made.finding.startswith(f"{share:.1f} % of the ")
    assert "of communication cannot be divided into waiting and transfer. " in made.finding
