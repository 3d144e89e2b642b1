"""The brute force of the replay: what must hold of it, and its rules on hand-made recordings."""

from __future__ import annotations

import json
import random
from itertools import islice
from pathlib import Path

import pytest

from hta_widgets import open_trace
from hta_widgets.diagnosis.rank_answers import replay
from hta_widgets.sample import write_sample
from tests.analyses.collective_jobs import KERNELS
from tests.diagnosis.replay import brute_force
from tests.diagnosis.replay.brute_force import (
    critical_length_ns,
    critical_path,
    drag,
    earliest,
    graph,
    latest,
    slack,
    step_ns,
)
from tests.diagnosis.replay.random_jobs import open_plan, open_random, plan, write_plan
from tests.kineto_text import call, kernel, step, write

EXACT_NS = 1e-6
SEEDS = 100
SEEDS_EACH = 20
REAL = (
    "h100_bert",
    "mi210_gpu_only",
    "mi300_bert",
    "torch_compile",
    "triton",
    "event_sync_multi_stream",
    "h100_qwen",
)
REFERENCE = (
    *(f"kineto/{name}" for name in REAL),
    *(f"kineto/{name}" for name in ("alexnet", "dlrm_2rank", "mi250_toy")),
    *(f"kineto/{name}" for name in ("mi300_timesformer", "simple_add")),
    "kineto/vllm_piecewise",
    "more/dlrm_8rank",
    "nsys/healthy_1pct.sqlite",
)
"""Traces of the reference values that take less than a second; those of b200_eager are of the whole
recording, not of the step of its server."""


def largest_error_ns(built):
    """How far the replay of what was recorded is from that."""
    times = earliest(built)
    return max(abs(times[node] - built.recorded[node]) for node in built.order)


@pytest.fixture(scope="module", params=range(0, SEEDS, SEEDS_EACH))
def some_graphs(request, tmp_path_factory):
    """Replays of some random jobs."""
    folder = tmp_path_factory.mktemp("jobs")
    seeds = range(request.param, request.param + SEEDS_EACH)
    return {seed: graph(open_random(folder, seed)) for seed in seeds}


def test_unedited_random_jobs_give_the_recorded_times(some_graphs):
    assert {seed: largest_error_ns(each) for seed, each in some_graphs.items()} == pytest.approx(
        dict.fromkeys(some_graphs, 0), abs=EXACT_NS
    )
    assert not any(each.dropped for each in some_graphs.values())


def test_random_jobs_have_every_kind_of_edge(tmp_path):
    graphs = [graph(open_random(tmp_path, seed)) for seed in range(40)]
    kinds = {edge.kind for each in graphs for edge in each.edges}
    assert kinds == {*brute_force.PREFERRED}
    assert {len(each.lines[0]) for each in graphs} == {1, 2}
    assert {True, False} == {waited for each in graphs for waited in each.waited.values()}
    assert {len(each.ends) for each in graphs} == {1, 2, 3}
    assert {len(each.ends[0]) for each in graphs} == {1, 2, 3}


def test_less_weight_never_makes_a_step_longer(some_graphs):
    for seed, built in some_graphs.items():
        rng = random.Random(seed)  # noqa: S311
        before = step_ns(built)
        shorter = before
        for share in (0.1, 0.5, 1):

            def less(weights, share=share, rng=rng):
                for table in (weights.d, weights.dur, weights.transfer, weights.delay, weights.ret):
                    for key, value in table.items():
                        if rng.random() < share:
                            table[key] = value - abs(value) * rng.random()

            shorter = step_ns(built.edited(less))
            assert shorter <= before + EXACT_NS, seed
        no_waits = step_ns(built.edited(lambda weights: weights.ret.clear()))
        assert no_waits <= before + EXACT_NS, seed


def test_an_edit_leaves_the_graph_as_it_was(tmp_path):
    built = graph(open_random(tmp_path, 3))
    before = earliest(built)
    faster = built.edited(lambda weights: weights.d.update(dict.fromkeys(weights.d, 0)))
    assert step_ns(faster) < step_ns(built)
    assert earliest(built) == before


def test_with_no_weights_only_fixed_times_are_left(some_graphs):
    def nothing(weights):
        for table in vars(weights).values():
            if table is not weights.at:
                table.update(dict.fromkeys(table, 0))

    for seed, built in some_graphs.items():
        times = earliest(built.edited(nothing))
        assert {*times.values()} <= {0, *built.weights.at.values()}, seed


def test_late_times_are_never_early_and_exact_on_the_critical_path(some_graphs):
    for seed, built in some_graphs.items():
        times, late = earliest(built), latest(built)
        assert all(late[node] >= times[node] - EXACT_NS for node in built.order), seed
        path = critical_path(built)
        assert all(late[edge.target] == pytest.approx(times[edge.target]) for edge in path), seed
        end = max(times[sink] for sink in built.sinks)
        assert critical_length_ns(built) == pytest.approx(end, abs=EXACT_NS), seed


def test_drag_is_for_critical_items_only(some_graphs):
    found = 0
    for seed, built in islice(some_graphs.items(), 3):  # it is solved again for each item
        spare = slack(built)
        critical = {edge.target for edge in critical_path(built)}
        for item, length in built.weights.dur.items():
            cost = drag(built, item)
            assert -EXACT_NS <= cost <= max(length - spare[item], 0) + EXACT_NS, (seed, item)
            assert item in critical or cost == pytest.approx(0, abs=EXACT_NS), (seed, item)
            found += cost > 0
    assert found


@pytest.mark.parametrize("seed", range(6))
def test_a_shifted_clock_changes_nothing(tmp_path, seed):
    made = plan(seed, ranks=3, collectives=9)
    built = graph(open_plan(write_plan(tmp_path / "as it is", made), made))
    moved = graph(open_plan(write_plan(tmp_path / "shifted", made, {1: 7_654_321}), made))

    def faster(weights):
        weights.d.update({point: length / 2 for point, length in weights.d.items()})

    assert any(edge.kind == "meeting" for edge in built.edges)
    assert step_ns(moved) == pytest.approx(step_ns(built), abs=EXACT_NS)
    assert step_ns(moved.edited(faster)) == pytest.approx(step_ns(built.edited(faster)), abs=0.01)


@pytest.mark.parametrize("peers_fixed", [False, True])
def test_ranks_alone_and_fixed_peers_give_the_recorded_times(tmp_path, peers_fixed):
    for seed in range(20):
        job = open_random(tmp_path, seed)
        alone = graph(job, ranks=job.ranks[:1], peers_fixed=peers_fixed)
        assert largest_error_ns(alone) == pytest.approx(0, abs=EXACT_NS)
        assert len(alone.ends) == 1


def test_the_sample_job_gives_the_recorded_times(tmp_path):
    write_sample(tmp_path, ranks=2, steps=3, progress=False)
    built = graph(open_trace(tmp_path, progress=False))
    assert largest_error_ns(built) == pytest.approx(0, abs=EXACT_NS)
    assert not built.dropped
    assert any(edge.kind == "transfer" for edge in built.edges)


@pytest.mark.parametrize("name", REAL)
def test_real_traces_give_the_recorded_times(real_traces, name):
    built = graph(open_trace(real_traces / "kineto" / name, progress=False))
    assert largest_error_ns(built) == pytest.approx(0, abs=EXACT_NS)
    times, late = earliest(built), latest(built)
    assert all(late[node] >= times[node] - EXACT_NS for node in built.order)


def test_two_of_eight_real_ranks_give_the_recorded_times(real_traces):
    job = open_trace(real_traces / "more" / "dlrm_8rank", progress=False)
    built = graph(job, ranks=job.ranks[:2])
    assert largest_error_ns(built) == pytest.approx(0, abs=EXACT_NS)
    assert len(built.ends) == 2


@pytest.mark.parametrize("name", REFERENCE)
def test_the_reference_counts_the_same(real_traces, name):
    path = real_traces.parent / "reference" / "replay.json"
    expected = json.loads(path.read_text())[name]
    built = graph(open_trace(real_traces / name, progress=False))
    assert step_ns(built) / 1e6 == pytest.approx(expected["step_ms"], abs=1e-6)
    finishes = sum(edge.kind == "transfer" for edge in built.edges)
    assert {
        "points": sum(len(line) for lines in built.lines.values() for line in lines),
        "items": len(built.operations) + finishes,
        "waiting_calls": len(built.waited),
        # the reference does not tell apart what waits for room
        "unexplained_percent": round(
            built.percent_late(built.unexplained | built.for_room | built.behind), 2
        ),
        "unmatched_percent": round(built.unmatched_percent, 2),
    } == {each: expected[each] for each in COUNTED}


COUNTED = ("points", "items", "waiting_calls", "unexplained_percent", "unmatched_percent")


# Rules, on recordings that are made by hand (µs)


def replayed(folder: Path, *ranks):
    """The replay of some ranks, each a list of events."""
    folder.mkdir(exist_ok=True)
    for number, events in enumerate(ranks):
        write(folder / f"rank-{number}.json", events, distributedInfo={"rank": number})
    return graph(open_trace(folder, progress=False))


def row_of(built, start, rank=0):
    """Item that starts at a time (µs)."""
    found = [
        item
        for item, each in built.operations.items()
        if item[0] == rank and each.start == start * 1000
    ]
    assert len(found) == 1
    return found[0]


def point_at(built, time, what):
    """Point of rank 0 at a time (µs)."""
    found = [
        point
        for lines in built.lines[0]
        for point in lines
        if built.recorded[point] == time * 1000 and point[-1] == what
    ]
    assert len(found) == 1
    return found[0]


def launched(at, start, duration, number, *, stream=7, **more):
    """A launch of 4 µs and its kernel."""
    return [call(at, 4, number), kernel(start, duration, correlation=number, stream=stream, **more)]


def waits(built):
    """Start of what each point waits for, and when that point is, in µs."""
    return {
        (built.operations[edge.source[:2]].start / 1000, built.recorded[edge.target] / 1000)
        for edge in built.edges
        if edge.kind == "wait"
    }


def test_the_later_of_launch_and_stream_binds(tmp_path):
    events = [*launched(0, 6, 50, 1), *launched(10, 58, 5, 2), *launched(90, 97, 5, 3)]
    built = replayed(tmp_path, events)
    second, third = row_of(built, 58), row_of(built, 97)
    assert built.weights.gap[second] == 2_000
    assert built.weights.lat[second] == 5_000
    assert built.weights.lat[third] == 7_000
    assert built.weights.gap[third] == 2_000
    assert not built.unexplained
    points = [point_at(built, time, "start") for time in (0, 10, 90)]
    assert [built.weights.d[point] for point in points] == [0, 10_000, 80_000]


def test_a_late_start_without_a_reason_is_unexplained(tmp_path):
    built = replayed(tmp_path, [*launched(0, 6, 50, 1), *launched(100, 160, 5, 2)])
    assert built.unexplained == {row_of(built, 160): 35_000}
    assert built.weights.lat[row_of(built, 160)] == 60_000


@pytest.mark.parametrize(("begun", "is_for_room"), [(128.4, True), (128.6, False)])
def test_a_late_start_while_another_stream_runs_waits_for_room(tmp_path, begun, is_for_room):
    """35 µs late, from 125 to 160; the other kernel runs for 90 % of that, or hardly less."""
    events = [*launched(0, 6, 50, 1), *launched(100, 160, 5, 2)]
    events += launched(begun - 10, begun, 200, 3, stream=13)
    built = replayed(tmp_path, events)
    late = built.for_room if is_for_room else built.unexplained
    assert late == {row_of(built, 160): 35_000}
    job = replay(open_trace(tmp_path, progress=False)).job
    assert job.waits_for_room.sum() == is_for_room


@pytest.mark.parametrize(("ended", "starts_after"), [(1000, True), (950, False)])
def test_behind_what_it_is_asked_to_wait_for_a_kernel_waits_for_room(tmp_path, ended, starts_after):
    """Asked to wait for what ends at 1,000 µs, it starts at 1,500, when there is room beside
    others; with 50 µs in which nothing runs before them, that is not why."""
    events = [*launched(0, 6, 50, 1), *launched(60, 1000, 490, 2, stream=20)]
    events += launched(70, 76, ended - 76, 3, stream=13)
    events += [call(90, 1, 50, name="cudaStreamWaitEvent"), *launched(100, 1500, 5, 4)]
    built = replayed(tmp_path, events)
    delay_ns = built.weights.delay[row_of(built, 76), row_of(built, 1500)]
    assert delay_ns == (500_000 if starts_after else 1500)
    job = replay(open_trace(tmp_path, progress=False)).job
    assert delay_ns in job.weights.delay


def test_a_late_start_after_another_stream_depends_on_it(tmp_path):
    events = [*launched(0, 6, 150, 1), *launched(100, 160, 5, 2, stream=13)]
    built = replayed(tmp_path, events)
    assert not built.unexplained
    assert built.weights.delay == {(row_of(built, 6), row_of(built, 160)): 4_000}
    assert built.weights.lat[row_of(built, 160)] == 5_000


def test_a_call_that_waits_keeps_its_own_work(tmp_path):
    wait = call(20, 200, 9, name="cudaStreamSynchronize")
    built = replayed(tmp_path, [*launched(0, 6, 205, 1), wait])
    point = point_at(built, 220, "end")
    assert waits(built) == {(6, 220)}
    assert built.weights.d[point] == 20_000 + 4_000
    assert built.weights.ret[row_of(built, 6), point] == 9_000
    assert built.own_until[point] == 24_000


def test_a_call_that_does_not_wait_keeps_its_whole_length(tmp_path):
    wait = call(50, 12, 9, name="cudaDeviceSynchronize")
    built = replayed(tmp_path, [*launched(0, 6, 20, 1), wait])
    point = point_at(built, 62, "end")
    assert not built.waited[point]
    assert built.weights.d[point] == 62_000
    assert built.weights.ret[row_of(built, 6), point] == 3_000


def test_an_event_is_waited_for_where_something_ends_inside(tmp_path):
    events = [*launched(0, 6, 44, 1), *launched(10, 50, 300, 2)]
    wait = call(20, 35, 9, name="cudaEventSynchronize")
    assert waits(replayed(tmp_path / "inside", [*events, wait])) == {(6, 55)}
    wait = call(60, 35, 9, name="cudaEventSynchronize")
    assert not waits(replayed(tmp_path / "nothing inside", [*events, wait]))


@pytest.mark.parametrize(("end", "is_waited_for"), [(100, True), (90, True), (60, False)])
def test_a_copy_returns_up_to_half_of_it_before_its_end(tmp_path, end, is_waited_for):
    copy = "Memcpy HtoD (Pageable -> Device)"
    events = [
        call(0, end, 1, name="cudaMemcpyAsync"),
        kernel(20, 100, name=copy, cat="gpu_memcpy", correlation=1),
    ]
    built = replayed(tmp_path, events)
    assert waits(built) == ({(20, end)} if is_waited_for else set())
    if is_waited_for:
        assert built.weights.ret[row_of(built, 20), point_at(built, end, "end")] == 1000 * (
            end - 120
        )


@pytest.mark.parametrize(("end", "is_waited_for"), [(70, True), (40, False)])
def test_freeing_waits_for_all_streams_or_for_none(tmp_path, end, is_waited_for):
    events = [*launched(0, 6, 20, 1), *launched(5, 12, 50, 2, stream=13)]
    built = replayed(tmp_path, [*events, call(20, end - 20, 9, name="cudaFree")])
    assert waits(built) == ({(6, end), (12, end)} if is_waited_for else set())


@pytest.mark.parametrize(
    ("name", "end", "is_waited_for"),
    [
        ("cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", 3060, True),
        ("cuModuleLoadData", 3100, True),
        ("cuModuleLoadData", 3101, False),
        ("cuModuleLoadData", 2900, False),
        ("cudaGetDevice", 3060, False),
    ],
)
def test_code_that_is_loaded_until_the_gpu_is_done_waits_for_it(tmp_path, name, end, is_waited_for):
    """Of one request it was 19 ms, and the host was said to set its pace."""
    events = [*launched(0, 6, 20, 1), *launched(5, 12, 2988, 2, stream=13)]
    built = replayed(tmp_path, [*events, call(20, end - 20, 9, name=name)])
    assert waits(built) == ({(6, end), (12, end)} if is_waited_for else set())


def test_a_stream_that_contradicts_is_not_waited_for(tmp_path):
    events = [*launched(0, 6, 20, 1), *launched(5, 12, 500, 2, stream=13)]
    built = replayed(tmp_path, [*events, call(20, 20, 9, name="cudaStreamSynchronize")])
    assert waits(built) == {(6, 40)}


def stream_wait(*, recorded: bool):
    """Stream 13 is told to wait for the first of two kernels of stream 7."""
    events = [
        *launched(0, 6, 40, 1),
        call(10, 1, 2, name="cudaEventRecord"),
        *launched(12, 47, 2, 3),
        call(17, 1, 4, name="cudaStreamWaitEvent"),
        *launched(20, 51, 8, 5, stream=13),
    ]
    row = kernel(17, 1, name="Stream Wait Event", cat="cuda_sync", stream=13, correlation=4)
    row["args"] |= {"wait_on_stream": 7, "wait_on_cuda_event_record_corr_id": 2}
    return [*events, row] if recorded else events


@pytest.mark.parametrize(("recorded", "source"), [(True, (6, 5_000)), (False, (47, 2_000))])
def test_streams_that_are_told_to_wait_depend_on_others(tmp_path, recorded, source):
    built = replayed(tmp_path, stream_wait(recorded=recorded))
    start, delay = source
    assert built.weights.delay == {(row_of(built, start), row_of(built, 51)): delay}
    assert built.weights.lat[row_of(built, 51)] == 5_000


def test_only_what_starts_first_in_a_graph_has_a_launch(tmp_path):
    events = [
        call(0, 10, 1, name="cudaGraphLaunch"),
        kernel(8, 20, correlation=1),
        kernel(30, 20, correlation=1),
        kernel(31, 20, correlation=1, stream=13),
        kernel(100, 20, correlation=1, stream=17),
    ]
    built = replayed(tmp_path, events)
    kinds = {
        built.operations[edge.target[:2]].start / 1000: edge.kind
        for edge in built.edges
        if edge.target in built.weights.dur
    }
    assert kinds == {8: "launch", 30: "stream", 31: "dependency", 100: "launch"}
    assert built.unexplained == {row_of(built, 100): 75_000}


def test_work_without_a_recorded_launch(tmp_path):
    events = [
        kernel(0, 3),
        kernel(10, 3),
        *launched(18, 24, 4, 1),
        kernel(30, 4),
        *launched(58, 64, 4, 2, stream=13),
        kernel(198, 4),
    ]
    built = replayed(tmp_path, events)
    assert built.weights.at[row_of(built, 0)] == 0
    assert built.weights.gap[row_of(built, 10)] == 7_000
    assert built.weights.gap[row_of(built, 30)] == 2_000
    assert built.weights.lat[row_of(built, 198)] == 198_000 - 58_000
    before = [edge for edge in built.edges if edge.target == row_of(built, 198)]
    assert {edge.kind for edge in before} == {"stream", "launch"}


def test_a_long_launch_waits_for_room_in_a_full_queue(tmp_path):
    events = [call(0, 4, 1), kernel(6, 3_000, correlation=1)]
    for number in range(2, 502):
        events += launched(number * 5, 3_010 + 10 * number, 10, number)
    events += launched(4_000, 9_000, 10, 502)
    events[-2]["dur"] = 70
    assert not waits(replayed(tmp_path / "few", events))
    for number in range(503, 700):
        events += launched(2_505 + number, 9_000 + 10 * number, 10, number)
    late = [each for each in events if each["args"]["correlation"] == 502]
    rest = [each for each in events if each["args"]["correlation"] != 502]
    late[0]["ts"], late[1]["ts"] = 3_500, 20_000
    built = replayed(tmp_path / "many", [*rest, *late])
    assert waits(built) == {(3_560, 3_570)}
    assert built.weights.d[point_at(built, 3_570, "end")] == 4_000


def test_threads_that_run_at_once_have_lines_of_their_own(tmp_path):
    events, other = [], []
    for number in range(6):
        events += launched(20 * number, 20 * number + 6, 5, number + 1)
        other += [
            call(20 * number + 2, 4, number + 11, tid=101),
            kernel(20 * number + 7, 5, correlation=number + 11, stream=13),
        ]
    assert len(replayed(tmp_path / "both", [*events, *other]).lines[0]) == 2
    assert len(replayed(tmp_path / "some", [*events, *other[:6]]).lines[0]) == 1


def test_members_of_a_collective_meet(tmp_path):
    fields = {"Collective name": "allreduce", "Process Group Name": "0", "Group size": 2}
    fields["Process Group Ranks"] = "[0, 1]"
    name = KERNELS["allreduce"]
    early = launched(20, 30, 90, 2, name=name, **fields)
    late = launched(80, 90, 30, 2, name=name, **fields)
    first = launched(0, 6, 4, 1)
    built = replayed(tmp_path, [*first, *early], [*first, *late])
    one, other = row_of(built, 30), row_of(built, 90, rank=1)
    assert built.weights.transfer == {(*one, "finish"): 30_000, (*other, "finish"): 30_000}
    times = earliest(built.edited(lambda weights: weights.d.update(dict.fromkeys(weights.d, 0))))
    assert times[(*one, "finish")] == 10_000 + 1_000 + 30_000


@pytest.mark.parametrize(("length", "meets"), [(35, True), (70, False)])
def test_broadcasts_meet_where_all_end_together(tmp_path, length, meets):
    name = KERNELS["broadcast"]
    ranks = [launched(0, 10, 110, 1, name=name), launched(80, 90, length, 1, name=name)]
    built = replayed(tmp_path, *ranks)
    assert any(edge.kind == "meeting" for edge in built.edges) == meets
    assert bool(built.unmatched) != meets


def test_fixed_peers_keep_communication_from_ending_earlier(tmp_path):
    name = KERNELS["allreduce"]
    write(tmp_path / "rank-0.json", launched(0, 6, 4, 1) + launched(100, 110, 40, 2, name=name))
    job = open_trace(tmp_path, progress=False)

    def no_host(weights):
        weights.d.update(dict.fromkeys(weights.d, 0))

    alike, fixed = graph(job).edited(no_host), graph(job, peers_fixed=True).edited(no_host)
    assert step_ns(alike) < step_ns(fixed) == step_ns(graph(job))


def test_steps_begin_at_their_mark_and_end_with_their_last_computation(tmp_path):
    events = [step(number, 100 * number, 100) for number in range(3)]
    for number in range(3):
        events += launched(100 * number + 5, 100 * number + 15, 40, number + 1)
    built = replayed(tmp_path, events)
    assert built.ends[0] == [row_of(built, 15), row_of(built, 115)]
    assert step_ns(built) == (155_000 - 0) / 2
    assert critical_length_ns(built) == 155_000
    assert drag(built, row_of(built, 115)) == 40_000
    assert slack(built)[row_of(built, 15)] == pytest.approx(155_000 - 55_000 - 40_000 - 1_000)
