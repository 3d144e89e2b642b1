"""Collectives against jobs whose waits and transfers are known, and against brute force."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given

from hta_widgets.analyses.clocks import clocks
from hta_widgets.analyses.collectives import collectives
from hta_widgets.analyses.overlap import overlap
from hta_widgets.quantities import percent
from hta_widgets.sample import write_sample
from hta_widgets.sample.training import transfer_ns
from tests.analyses import generated_jobs
from tests.analyses.collective_jobs import (
    KERNELS,
    Clock,
    Scene,
    all_fields,
    ddp,
    expected,
    no_fields,
    one_name,
    open_job,
    pipeline,
    sharded,
    without,
    write_job,
)
from tests.kineto_text import call, host, kernel, write

OFF = {0: Clock(3_000_000_000), 1: Clock(-2_000_000_000), 2: Clock(17), 3: Clock(40_000_000)}
SPLIT = ["wait_ns", "unexplained_wait_ns", "transfer_ns"]


def splits(result):
    """Wait and transfer of each rank's n-th kernel."""
    found = {}
    for rank, table in result.kernels.groupby("rank"):
        rows = table[["wait_ns", "transfer_ns"]].itertuples(index=False)
        found |= {(rank, number): tuple(row) for number, row in enumerate(rows)}
    return found


def split_of(folder, scene, **options):
    return collectives(open_job(write_job(folder, scene, **options)))


@pytest.mark.parametrize(
    "scene", [ddp(), sharded(), pipeline()], ids=["ddp", "sharded", "pipeline"]
)
@pytest.mark.parametrize("clocks", [{}, OFF], ids=["one clock", "clocks apart"])
def test_waits_and_transfers_are_those_of_the_job(tmp_path, scene, clocks):
    result = split_of(tmp_path, scene, clocks=clocks)
    assert splits(result) == expected(scene)
    assert (result.kernels["unexplained_wait_ns"] == 0).all()
    assert (result.kernels[SPLIT].sum(axis=1) == result.kernels["duration_ns"]).all()


def test_drifting_clocks_cost_less_than_a_microsecond(tmp_path):
    scene = ddp(operations=200, seed=3)
    clocks = {0: Clock(0, 11.0), 1: Clock(5_000_000_000, -12.0), 3: Clock(-70_000, 4.0)}
    result = split_of(tmp_path, scene, clocks=clocks)
    truth = expected(scene)
    for key, (wait, transfer) in splits(result).items():
        assert abs(wait - truth[key][0]) < 1000
        assert abs(transfer - truth[key][1]) < 1000


@pytest.mark.parametrize("fields", [one_name, without("Process Group Ranks")])
def test_names_of_sibling_groups_change_nothing(tmp_path, fields):
    """Names may be shared if the ranks are there; the ranks may be missing if names differ."""
    scene = sharded()
    assert splits(split_of(tmp_path, scene, fields=fields, clocks=OFF)) == expected(scene)


def test_siblings_with_neither_ranks_nor_names_are_not_matched(tmp_path):
    def fields(operation, rank):
        kept = one_name(operation, rank)
        del kept["Process Group Ranks"]
        return kept

    scene = Scene(4)
    for _ in range(10):
        for pair in ((0, 1), (2, 3)):
            scene.compute(pair[0])
            scene.meet(pair)
    result = split_of(tmp_path, scene, fields=fields)
    assert result.kernels["wait_ns"].isna().all()
    assert result.matched.empty
    assert any("several process groups with one name (g)" in each for each in result.notices)


def test_ranks_of_a_group_from_the_metadata(tmp_path):
    def fields(operation, rank):
        return all_fields(operation, rank) | {"Process Group Ranks": "[0, 1, ..., 7]"}

    groups = {each.group: each.ranks for each in sharded().operations}
    config = [{"pg_name": name, "ranks": list(ranks)} for name, ranks in groups.items()]
    config[-1]["ranks"] = []
    scene = sharded()
    result = split_of(tmp_path, scene, fields=fields, pg_config=config)
    assert splits(result) == expected(scene)
    assert set(result.kernels["group_ranks"]) == {
        "0-1", "2-3", "4-5", "6-7", "0, 2, 4, 6", "1, 3, 5, 7", "0-7"
    }  # fmt: skip


def test_a_group_without_a_description_has_its_name(tmp_path):
    def fields(operation, rank):
        return all_fields(operation, rank) | {"Process Group Description": "undefined"}

    result = split_of(tmp_path, sharded(), fields=fields)
    assert set(result.kernels["group"]) == {each.group for each in sharded().operations}


def test_the_order_of_ranks_changes_nothing(tmp_path):
    """Rank r becomes rank 7 - r everywhere."""
    one, other = sharded(), sharded()
    for operation in other.operations:
        operation.ranks = tuple(7 - rank for rank in operation.ranks)
        operation.group_ranks = tuple(sorted(operation.ranks))
        operation.arrivals = {7 - rank: time for rank, time in operation.arrivals.items()}
    there, back = tmp_path / "there", tmp_path / "back"
    there.mkdir()
    back.mkdir()
    straight = splits(split_of(there, one, clocks=OFF))
    mirrored = splits(split_of(back, other, clocks=OFF))
    assert straight == {(7 - rank, number): split for (rank, number), split in mirrored.items()}


def test_recordings_that_begin_apart(tmp_path):
    scene = ddp(operations=40)
    first = {0: 3, 2: 1}
    result = split_of(tmp_path, scene, first=first, clocks=OFF)
    truth, found = expected(scene), splits(result)
    for rank in range(4):
        for number in range(40 - first.get(rank, 0)):
            true_number = number + first.get(rank, 0)
            if true_number >= 3:  # all four have recorded it
                assert found[rank, number] == truth[rank, true_number]


def test_what_runs_before_the_first_launch_is_matched_from_its_end(tmp_path):
    """On eight H100, 20 to 28 kernels that were launched before the recording, without fields."""
    scene = ddp(operations=20)
    launched_before = 6

    def fields(operation, rank):
        is_before = operation in scene.operations[:launched_before]
        return {} if is_before else all_fields(operation, rank)

    first = {0: 4, 2: 2}
    result = split_of(tmp_path, scene, first=first, fields=fields, clocks=OFF)
    truth, found = expected(scene), splits(result)
    for rank in range(4):
        for number in range(20 - first.get(rank, 0)):
            true_number = number + first.get(rank, 0)
            if true_number >= 4:  # all four have recorded it
                assert found[rank, number] == truth[rank, true_number]


def test_shifted_regular_operations_are_left_alone(tmp_path):
    """Operations at equal distances look the same when shifted."""
    scene = Scene(2)
    for _ in range(20):
        for rank in range(2):
            scene.now[rank] += 1_000_000
        scene.meet((0, 1))
    assert splits(split_of(tmp_path, scene)) == expected(scene)


def test_a_missing_rank_leaves_waiting_that_nobody_explains(tmp_path):
    scene = ddp(slow=3)
    for operation in scene.operations:
        operation.elements = 4096
    result = split_of(tmp_path, scene, ranks=[0, 1, 2])
    kernels = result.kernels
    assert (kernels[SPLIT].sum(axis=1) == kernels["duration_ns"]).all()
    assert (kernels["class"] == "inconclusive").all()
    assert kernels["late_rank"].isna().all()
    longest_ns = kernels["transfer_ns"].max()
    known = [max(op.arrivals[rank] for rank in range(3)) for op in scene.operations]
    shortest = min(op.end - last for op, last in zip(scene.operations, known, strict=True))
    assert longest_ns == shortest * 105 // 100
    for number, (operation, last) in enumerate(zip(scene.operations, known, strict=True)):
        row = kernels[kernels["rank"] == 1].iloc[number]
        assert row["wait_ns"] == last - operation.arrivals[1]


def test_half_of_the_ranks_of_whole_groups_are_complete(tmp_path):
    scene = sharded()
    result = split_of(tmp_path, scene, ranks=[0, 1])
    gathers = result.kernels[result.kernels["collective"] == "_allgather_base"]
    assert (gathers["unexplained_wait_ns"] == 0).all()
    truth = [op for op in scene.operations if op.ranks == (0, 1)]
    assert gathers[gathers["rank"] == 0]["wait_ns"].tolist() == [op.wait(0) for op in truth]


def test_late_rank_and_class(tmp_path):
    scene = ddp(slow=2, operations=12)
    result = split_of(tmp_path, scene, clocks=OFF)
    assert (result.matched["late_rank"] == 2).all()
    truth = scene.operations
    assert result.matched["transfer_ns"].tolist() == [op.transfer for op in truth]
    for row, op in zip(result.matched.to_dict("records"), truth, strict=True):
        arrivals = sorted(op.arrivals.values())
        assert row["lateness_ns"] == op.last - (arrivals[1] + (arrivals[2] - arrivals[1]) // 2)
        duration = np.mean([op.end - each for each in arrivals])
        wait = np.mean([op.wait(rank) for rank in op.ranks])
        skew, moved = wait >= 0.8 * duration, op.transfer >= 0.8 * duration
        expected_class = (
            "arrival-skew-dominated" if skew else "transfer-dominated" if moved else "mixed"
        )
        assert row["class"] == expected_class
    together = Scene(2)
    for _ in range(9):
        together.now = dict.fromkeys((0, 1), together.now[0] + together.random.randint(1000, 9000))
        together.meet((0, 1))
    other = tmp_path / "together"
    other.mkdir()
    result = split_of(other, together)
    assert set(result.matched["class"]) == {"transfer-dominated"}
    assert result.matched["late_rank"].isna().all()


def test_bandwidths_come_from_the_transfer(tmp_path):
    scene = ddp(operations=5)
    result = split_of(tmp_path, scene)
    bytes_ = result.kernels["bytes"].to_numpy(np.int64)
    assert bytes_.tolist()[:5] == [2 * op.elements for op in scene.operations]
    gb_per_s = bytes_ / 200_000
    np.testing.assert_allclose(result.kernels["algbw_gb_per_s"], gb_per_s)
    np.testing.assert_allclose(result.kernels["busbw_gb_per_s"], gb_per_s * 2 * 3 / 4)
    assert (result.kernels["bandwidth_of"] == "transfer").all()
    alone = collectives(open_job(tmp_path, ranks=[0]))
    assert (alone.kernels["bandwidth_of"] == "duration").all()
    durations = alone.kernels["duration_ns"].to_numpy()
    np.testing.assert_allclose(alone.kernels["algbw_gb_per_s"], bytes_[:5] / durations)
    assert alone.kernels["wait_ns"].isna().all()
    assert "cannot be told apart" in alone.finding


def test_kernels_without_fields_are_matched_by_name(tmp_path):
    scene = ddp(operations=12)
    assert splits(split_of(tmp_path, scene, fields=no_fields, clocks=OFF)) == expected(scene)


def test_sends_without_fields_are_not_matched(tmp_path):
    result = split_of(tmp_path, pipeline(), fields=no_fields)
    assert result.kernels["wait_ns"].isna().all()
    assert any("cannot be matched" in notice for notice in result.notices)


def test_sums_of_kernels_that_are_not_matched_are_missing(tmp_path):
    result = split_of(tmp_path, pipeline(), fields=no_fields)
    assert result.groups["wait_ns"].isna().all()
    assert result.groups["transfer_ns"].isna().all()
    assert (result.groups["exposed_ns"] > 0).all()


def test_kernels_in_anonymous_namespaces(tmp_path):
    names = ["one_shot_all_reduce<8>", "multimem_all_reduce<8>"]
    for rank in range(2):
        events = [
            kernel(
                1000 * number + 10 * rank,
                50 - 10 * rank,
                name=f"void (anonymous namespace)::{names[number % 2]}(float*, int)",
            )
            for number in range(8)
        ]
        write(tmp_path / f"rank-{rank}.json", events)
    result = collectives(open_job(tmp_path))
    assert set(result.kernels["collective"]) == {
        f"void (anonymous namespace)::{name}" for name in names
    }
    waits = result.kernels[result.kernels["rank"] == 0]["wait_ns"].tolist()
    assert waits == [10_000] * 8


def test_peers_that_are_places_in_the_group(tmp_path):
    def fields(operation, rank):
        args = all_fields(operation, rank)
        ranks = [4, 5, 6, 7]
        args["Process Group Ranks"] = str(ranks)
        return args

    scene = pipeline()
    for rank in range(4):
        write_job(tmp_path, scene, ranks=[rank], fields=fields, rank=rank + 4, world_size=8)
    assert splits(collectives(open_job(tmp_path))) == expected_as(scene, [4, 5, 6, 7])


def expected_as(scene, numbers):
    return {(numbers[rank], number): split for (rank, number), split in expected(scene).items()}


def test_a_pair_needs_no_peer(tmp_path):
    def fields(operation, rank):
        args = all_fields(operation, rank) | {"Process Group Ranks": "[0, 1]", "Group size": 2}
        return {key: value for key, value in args.items() if key not in ("Src Rank", "Dst Rank")}

    scene = pipeline(stages=2)
    assert splits(split_of(tmp_path, scene, fields=fields)) == expected(scene)
    three = pipeline(stages=3)
    other = tmp_path / "three"
    other.mkdir()
    unknown = split_of(other, three, fields=without("Src Rank", "Dst Rank"))
    assert unknown.kernels["wait_ns"].isna().all()


def test_different_operations_in_one_group_are_named(tmp_path):
    def fields(operation, rank):
        args = all_fields(operation, rank)
        return args | {"In msg nelems": 7, "Out msg nelems": 7} if rank == 2 else args

    result = split_of(tmp_path, ddp(), fields=fields)
    assert result.kernels["wait_ns"].isna().all()
    assert any(
        "ranks 0, 2 issue different collectives in process group 'world', first at all_reduce 0 "
        "(elements)" in notice
        for notice in result.notices
    )


def test_few_different_operations_cost_only_themselves(tmp_path):
    scene = ddp()

    def fields(operation, rank):
        args = all_fields(operation, rank)
        odd = rank == 2 and operation is scene.operations[7]
        return args | {"dtype": "Float"} if odd else args

    result = split_of(tmp_path, scene, fields=fields)
    assert result.kernels["wait_ns"].isna().sum() == 4
    assert any(notice.startswith("1 collective that differ") for notice in result.notices)


def test_order_of_launches_decides_over_streams(tmp_path):
    """Two all-reduces on two streams start in another order on rank 1."""
    for rank, first in ((0, "a"), (1, "b")):
        events = []
        for number in range(10):
            time = 1000 * number + 37 * number**2
            for place, (stream, elements) in enumerate(((20, 100), (21, 200))):
                correlation = 2 * number + place + 1
                start = time + (5 if (place == 0) == (first == "a") else 15)
                events += [
                    call(time + place - 5, 0.5, correlation),
                    kernel(
                        start,
                        time + 60 + 200 * place - start,
                        name=KERNELS["allreduce"],
                        stream=stream,
                        correlation=correlation,
                        **{
                            "Collective name": "allreduce",
                            "In msg nelems": elements,
                            "Out msg nelems": elements,
                            "Group size": 2,
                            "dtype": "Float",
                            "Process Group Name": "0",
                            "Process Group Ranks": "[0, 1]",
                        },
                    ),
                ]
        write(tmp_path / f"rank-{rank}.json", events)
    result = collectives(open_job(tmp_path))
    assert len(result.matched) == 20
    assert result.kernels["wait_ns"].notna().all()


def test_fields_of_the_record_around_the_launch(tmp_path):
    """Two kernels of one record: its bytes count once, on the longer."""
    fields = {
        "Collective name": "allreduce",
        "In msg nelems": 1000,
        "Out msg nelems": 1000,
        "Group size": 2,
        "dtype": "Float",
        "Process Group Name": 3,
    }
    record = host(0, 100, "record_param_comms") | {"args": fields}
    inner = host(5, 80, "c10d::allreduce_")
    events = [record, inner]
    for number, (start, duration) in enumerate(((200, 10), (220, 30))):
        events += [
            call(10 + 20 * number, 5, number + 1),
            kernel(start, duration, name=KERNELS["allreduce"], correlation=number + 1),
        ]
    write(tmp_path / "rank-0.json", events)
    kernels = collectives(open_job(tmp_path)).kernels
    assert kernels["bytes"].tolist() == [0, 4000]
    assert kernels["group"].tolist() == ["3", "3"]
    assert kernels["collective"].tolist() == ["allreduce", "allreduce"]
    assert kernels["busbw_gb_per_s"].iloc[1] == pytest.approx(4000 / 30_000)


@given(generated_jobs.jobs)
def test_exposed_time_against_brute_force(tmp_path_factory, ranks):
    job = generated_jobs.open_job(tmp_path_factory.mktemp("job"), ranks)
    kernels = collectives(job).kernels
    for row in overlap(job).ranks.to_dict("records"):
        here = (kernels["rank"] == row["rank"]) & (kernels["device"] == row["device"])
        assert kernels[here]["exposed_ns"].sum() == row["exposed_communication_ns"]
    for rank, events in enumerate(ranks):
        for device in generated_jobs.devices_of(events):
            work = generated_jobs.gpu_work(events, device)
            computing = generated_jobs.microseconds(work, "COMPUTATION")
            taken: set[int] = set(computing)
            here = (kernels["rank"] == rank) & (kernels["device"] == device)
            exposed = []
            for event in sorted(work, key=lambda each: each["ts"]):
                if generated_jobs.NAMES[event["name"]] == "COMMUNICATION":
                    own = generated_jobs.microseconds([event]) - taken
                    taken |= own
                    exposed.append((event["ts"], 1000 * len(own)))
            assert sorted(value for _, value in exposed) == sorted(kernels[here]["exposed_ns"])


def test_some_ranks_are_matched_with_all(tmp_path):
    job = open_job(write_job(tmp_path, ddp(), clocks=OFF))
    whole, part = collectives(job), collectives(job, [2])
    pd.testing.assert_frame_equal(
        part.kernels, whole.kernels[whole.kernels["rank"] == 2].reset_index(drop=True)
    )
    assert part.groups["count"].sum() == 30


def test_groups_add_up(tmp_path):
    result = collectives(open_job(write_job(tmp_path, sharded())))
    for column in ("wait_ns", "transfer_ns", "exposed_ns"):
        assert result.groups[column].sum() == result.kernels[column].sum()
    assert result.groups["total_ns"].sum() == result.kernels["duration_ns"].sum()
    assert result.groups["count"].sum() == len(result.kernels)
    assert result.groups["share_percent"].sum() == pytest.approx(100)


def test_a_job_with_itself_has_no_late_rank(tmp_path):
    scene = ddp()
    for operation in scene.operations:
        operation.arrivals = dict.fromkeys(operation.arrivals, operation.arrivals[0])
        operation.end = max(operation.end, operation.arrivals[0])
    result = split_of(tmp_path, scene)
    assert (result.kernels["wait_ns"] == 0).all()
    assert result.matched["late_rank"].isna().all()


def test_no_communication(tmp_path):
    write(tmp_path / "rank-0.json", [kernel(0, 5)])
    write(tmp_path / "rank-1.json", [])
    result = collectives(open_job(tmp_path))
    assert result.kernels.empty
    assert result.groups.empty
    assert result.finding.startswith("No communication kernels were recognised")


def test_ten_times_slower_is_the_same_job(tmp_path):
    scene, slower = ddp(slow=1), ddp(slow=1)
    for operation in slower.operations:
        operation.arrivals = {rank: 10 * time for rank, time in operation.arrivals.items()}
        operation.end *= 10
    there, back = tmp_path / "there", tmp_path / "back"
    there.mkdir()
    back.mkdir()
    one, other = split_of(there, scene, clocks=OFF), split_of(back, slower, clocks=OFF)
    assert splits(other) == {key: (10 * w, 10 * t) for key, (w, t) in splits(one).items()}
    for column in ("late_rank", "class"):
        pd.testing.assert_series_equal(one.matched[column], other.matched[column])


@pytest.mark.parametrize(
    "odd",
    [
        {"Process Group Ranks": "[" * 5000},
        {"Process Group Ranks": {"a": 1}},
        {"Process Group Ranks": "[0, 0, 1, 2]"},
        {"Process Group Ranks": [True, -1, 2**70]},
        {"Process Group Name": None},
        {"In msg nelems": 2**62, "Out msg nelems": -5},
        {"Group size": "four"},
        {"dtype": 7},
        {"Collective name": "<img src=x onerror=alert(1)>"},
        {"Collective name": 3, "dtype": "?"},
    ],
    ids=lambda odd: next(iter(odd)),
)
def test_odd_fields_break_nothing(tmp_path, odd):
    scene = ddp(operations=6)
    write_job(tmp_path, scene, pg_config=[7, {"ranks": "x"}, {"pg_name": []}, None])
    for rank in range(4):
        path = tmp_path / f"rank-{rank}.json"
        content = json.loads(path.read_text())
        for event in content["traceEvents"]:
            if "Collective name" in event["args"]:
                event["args"] |= odd
        path.write_text(json.dumps(content))
    kernels = collectives(open_job(tmp_path)).kernels
    assert len(kernels) == 24
    split = kernels[kernels["wait_ns"].notna()]
    assert (split[SPLIT].sum(axis=1) == split["duration_ns"]).all()
    assert not (kernels["bytes"].dropna() < 0).any()


@pytest.mark.parametrize("info", [{"rank": "2"}, {"rank": None}, {"rank": -1}, {"rank": 2**70}, 7])
def test_odd_ranks_in_the_metadata(tmp_path, info):
    write(
        tmp_path / "rank-2.json",
        [kernel(0, 5, name=KERNELS["allreduce"])],
        distributedInfo=info,
    )
    assert collectives(open_job(tmp_path)).kernels["duration_ns"].tolist() == [5000]


def test_sample_job(tmp_path):
    """The straggler comes last every time, and transfers take what was simulated."""
    write_sample(tmp_path, ranks=4, steps=4, progress=False)
    job = open_job(tmp_path)
    result = collectives(job)
    assert (result.matched["late_rank"] == 3).all()
    assert len(result.matched) == 2 * 3
    elements = result.matched["bytes"].to_numpy(np.int64) // 2
    simulated = [transfer_ns(int(count), 4) for count in elements]
    assert result.matched["transfer_ns"].tolist() == simulated
    straggler = result.kernels[result.kernels["rank"] == 3]
    assert (straggler["wait_ns"] == 0).all()
    waiting = 100 * result.kernels["wait_ns"].sum() / result.kernels["duration_ns"].sum()
    assert result.finding.startswith(f"{percent(waiting)} of the ")
    assert result.finding.endswith("is transfer.")
    assert clocks(job).finding == "The recorded clocks of 4 ranks agree in 6 collectives."


def test_what_bandwidths_of_a_group_are_of(tmp_path):
    scene = ddp(operations=40)
    for operation in scene.operations[:10]:
        operation.elements = 4096
    write_job(tmp_path, scene, ranks=[0, 1], first={1: 2})
    result = collectives(open_job(tmp_path))
    of = dict(zip(result.groups["bytes"], result.groups["bandwidth_of"], strict=True))
    assert of.pop(2 * 4096) == "both"
    assert set(of.values()) == {"transfer"}
    alone = collectives(open_job(tmp_path, ranks=[0]))
    assert set(alone.groups["bandwidth_of"]) == {"duration"}


def frames(*parts):
    """Python functions that nest, as (name, start, duration) in µs."""
    return [host(start, length, name, cat="python_function") for name, start, length in parts]


def communication(start, correlation):
    name = KERNELS["allreduce"]
    return [
        call(start, 1, correlation),
        kernel(start + 2_000, 10, name=name, correlation=correlation),
    ]


def test_modules_and_phases_of_the_launches(tmp_path):
    events = [
        *frames(("nn.Module: Net_0", 0, 100), ("forward", 5, 90), ("nn.Module: Linear_1", 10, 50)),
        *communication(20, 1),  # inside both
        *communication(70, 2),  # inside the outer one
        *communication(200, 3),  # in no module
        host(300, 50, "autograd::engine::evaluate_function: AccumulateGrad"),
        *communication(310, 4),
        *frames(("Optimizer.step#SGD.step", 400, 50)),
        *communication(410, 5),
        kernel(3_000, 10, name=KERNELS["allreduce"]),  # launched before the recording
    ]
    write(tmp_path / "rank-0.json", events)
    kernels = collectives(open_job(tmp_path)).kernels
    found = [
        (None if pd.isna(module) else module, None if pd.isna(phase) else phase)
        for module, phase in zip(kernels["module"], kernels["phase"], strict=True)
    ]
    assert found == [
        ("Net_0 › Linear_1", "forward"),
        ("Net_0", "forward"),
        (None, "other"),
        (None, "backward"),
        (None, "optimizer"),
        (None, None),
    ]


def test_owners_belong_to_their_kernels_whatever_the_order_of_launches(tmp_path):
    """Kernels that start in another order than their launches, on two ranks."""
    for rank in range(2):
        events = [
            *frames(*((f"nn.Module: M_{n}", 100 * n, 90) for n in range(8))),
            *(call(100 * n + 10, 1, n + 1) for n in range(8)),
            *(
                kernel(
                    2_000 + 50 * ((3 * n + rank) % 8),
                    10,
                    name=KERNELS["allreduce"],
                    stream=7 + n,
                    correlation=n + 1,
                )
                for n in range(8)
            ),
        ]
        write(tmp_path / f"rank-{rank}.json", events)
    kernels = collectives(open_job(tmp_path)).kernels
    assert len(kernels) == 16
    for row in kernels.to_dict("records"):
        assert row["module"] == f"M_{row['stream'] - 7}"
