"""Correlation between CPU calls and GPU work."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hta_widgets.trace.loaders.kineto.load import load_kineto
from hta_widgets.trace.model.events import GPU_SIDE, LAUNCH_CALLS, Kind
from hta_widgets.trace.model.links import NO_LAUNCH, launch_rows
from hta_widgets.trace.opening.open import open_trace
from tests.kineto_text import call, host, kernel, write


def load(folder, events):
    return load_kineto(write(folder / "trace.json", events), rank=0).events


def test_each_kernel_finds_its_call(tmp_path):
    table = load(tmp_path, [call(0, 1, 5), kernel(2, 1, correlation=5), kernel(3, 1)])
    assert launch_rows(table).tolist() == [NO_LAUNCH, 0, NO_LAUNCH]


def test_graph_launch_has_many_kernels(tmp_path):
    table = load(tmp_path, [call(0, 1, 5), *(kernel(2 + i, 1, correlation=5) for i in range(3))])
    assert launch_rows(table).tolist() == [NO_LAUNCH, 0, 0, 0]


def test_outermost_call_counts(tmp_path):
    runtime = call(0, 5, 5)
    driver = call(0, 3, 5, cat="cuda_driver", name="cuLaunchKernel")
    table = load(tmp_path, [driver, runtime, kernel(9, 1, correlation=5)])
    assert table.names_at(launch_rows(table)[-1:]) == ["cudaLaunchKernel"]


def test_a_driver_call_that_ends_a_moment_later_is_inside(tmp_path):
    driver = call(1, 4.05, 5, cat="cuda_driver", name="cuLaunchKernel")
    table = load(tmp_path, [call(0, 5, 5), driver, kernel(9, 1, correlation=5)])
    assert table.names_at(launch_rows(table)[-1:]) == ["cudaLaunchKernel"]


def test_an_operator_is_no_launch(tmp_path):
    operator = host(0, 1, "triton") | {"args": {"correlation": 5, "stream": 7}}
    table = load(tmp_path, [operator, kernel(2, 1, correlation=5)])
    assert launch_rows(table).tolist() == [NO_LAUNCH, NO_LAUNCH]


ids = st.sampled_from([None, -1, 0, 1, 2, 3, 2**40])


def launches_of(table, number):
    """Calls with an id that are in no other of the same thread."""
    rows = range(len(table))
    calls = [row for row in rows if table.kind[row] in LAUNCH_CALLS]
    calls = [row for row in calls if table.correlation[row] == number >= 0]
    calls.sort(key=lambda row: (table.start_ns[row], -table.duration_ns[row], row))
    return [
        row
        for place, row in enumerate(calls)
        if not any(
            table.tid[other] == table.tid[row]
            and (
                table.end_ns[other] >= table.end_ns[row]
                or table.end_ns[other] > table.start_ns[row]
            )
            for other in calls[:place]
        )
    ]


def paired(table, works, calls):
    """The launch of each piece of work, if the order of both tells it."""
    start_ns = table.start_ns
    pairs = [*zip(works, calls, strict=False)]
    if len(works) != len(calls) or any(start_ns[call] > start_ns[work] for work, call in pairs):
        return {}
    is_one = len({(table.device[row], table.stream[row]) for row in works}) == 1
    following = zip(works, calls[1:], strict=False)
    if not is_one and any(start_ns[call] <= start_ns[work] for work, call in following):
        return {}
    return dict(pairs)


@given(
    st.lists(
        st.tuples(
            st.booleans(), st.integers(0, 20), st.integers(0, 4), ids, st.sampled_from([7, 7, 8])
        ),
        max_size=15,
    )
)
def test_against_brute_force(tmp_path_factory, items):
    events = [
        kernel(ts, dur, correlation=number, stream=place)
        if on_gpu
        else call(ts, dur, number, tid=place)
        for on_gpu, ts, dur, number, place in items
    ]
    table = load(tmp_path_factory.mktemp("links"), events)
    expected = dict.fromkeys(range(len(table)), NO_LAUNCH)
    for number in {*table.correlation.tolist()}:
        calls = launches_of(table, number)
        works = [row for row in expected if table.kind[row] in GPU_SIDE]
        works = [row for row in works if table.correlation[row] == number]
        of_work = dict.fromkeys(works, *calls) if len(calls) == 1 else paired(table, works, calls)
        expected.update(of_work)
    assert launch_rows(table).tolist() == [*expected.values()]


def test_ids_that_are_all_0_are_paired_in_order(tmp_path):
    """Copies and kernels of one stream; a call that gives no work has the id, too."""
    events = [
        call(0, 1, 0),
        call(1, 1, 0, name="cudaMemcpyAsync"),
        call(2, 1, 0, name="cudaStreamIsCapturing"),
        call(3, 1, 0),
        kernel(10, 5, correlation=0),
        kernel(15, 5, correlation=0, cat="gpu_memcpy"),
        kernel(20, 5, correlation=0),
    ]
    assert launch_rows(load(tmp_path, events)).tolist() == [-1, -1, -1, -1, 0, 1, 3]
    assert launch_rows(load(tmp_path, events[1:])).tolist() == [-1] * 6
    events[-1]["args"]["stream"] = 9
    assert launch_rows(load(tmp_path, events)).tolist() == [-1] * 7


def test_one_id_in_two_processes_follows_the_process_of_the_device(tmp_path):
    first = [call(0, 1, 1, pid=100), kernel(5, 1, correlation=1, device=0)]
    second = [call(1, 1, 2, pid=200), kernel(6, 1, correlation=2, device=1)]
    both = [call(10, 1, 7, pid=100), call(11, 1, 7, pid=200)]
    work = [kernel(20, 1, correlation=7, device=1), kernel(21, 1, correlation=7, device=0)]
    table = load(tmp_path, [*first, *second, *both, *work])
    launches = launch_rows(table)
    assert table.pid[launches[-2:]].tolist() == [200, 100]


def test_one_id_in_unknown_processes_is_the_only_call_before_the_work(tmp_path):
    calls = [call(0, 1, 7, pid=100), call(10, 1, 7, pid=200)]
    table = load(tmp_path, [*calls, kernel(5, 1, correlation=7), kernel(8, 1, correlation=7)])
    assert launch_rows(table).tolist() == [NO_LAUNCH, 0, 0, NO_LAUNCH]


def ranks_merged(devices, later, *, count=20):
    """Two ranks with the same ids in one file, the second a little later."""
    return [
        event
        for rank, device in enumerate(devices)
        for number in range(count)
        for start in [100 * number + rank * later]
        for event in (
            call(start, 2, number, pid=100 + rank),
            kernel(start + 20, 5, correlation=number, device=device, rank=rank),
        )
    ]


@pytest.mark.parametrize("devices", [(0, 1), (0, 0)])
@pytest.mark.parametrize("later", [0, 5, 30, 300])
def test_work_of_merged_ranks_is_never_linked_to_calls_of_another(tmp_path, devices, later):
    table = load(tmp_path, ranks_merged(devices, later))
    launches = launch_rows(table)
    for row in table.rows_of(Kind.KERNEL):
        of_first = (table.start_ns[row] // 1000 - 20) % 100 == 0
        expected = 100 if of_first else 101
        if launches[row] != NO_LAUNCH and later in {5, 30}:
            assert table.pid[launches[row]] == expected
    if later == 0:
        assert (launches == NO_LAUNCH).all()
    if devices == (0, 1) and later == 30:
        assert (launches[(table.kind == Kind.KERNEL) & (table.device == 0)] != NO_LAUNCH).all()


def test_work_with_several_possible_calls_is_counted_apart(tmp_path):
    lost = kernel(1, 1, correlation=99)
    path = write(tmp_path / "trace.json", [*ranks_merged((0, 1), 0), lost])
    unmatched, unsure = open_trace(path, progress=False).notices_for([0])
    assert unmatched.startswith("1 of 41 GPU operations have no launch in the trace")
    assert unsure == (
        "40 of 41 GPU operations share their correlation id with calls of several processes, so "
        "their launch is not known: the file seems to be merged from several ranks; open the trace "
        "of each rank instead"
    )
