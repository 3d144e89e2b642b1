"""Flame graphs against brute force, and their limits."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import chain, groupby, permutations
from operator import attrgetter, itemgetter

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hta_widgets import analyses
from hta_widgets.analyses.flame import collapsed_stacks, flame
from hta_widgets.analyses.idle_owners import idle_owners
from hta_widgets.analyses.time.window import window_of
from hta_widgets.errors import ParameterError, UnknownRankError
from hta_widgets.trace.opening.open import open_trace
from tests.analyses.generated_jobs import open_job
from tests.analyses.test_attribution import frame
from tests.analyses.test_modules import NET, modules_and_work
from tests.kineto_text import call, host, kernel, step
from tests.raw_idle import names
from tests.raw_modules import RawModules
from tests.trace.test_memory_events import memory

ALL_OF_THE_TIME = {"window_ns": (-(10**12), 10**15)}
NOBODY = {
    "gpu": "(launch not recorded)",
    "idle": "(no CPU call recorded)",
    "bytes": "(no CPU call recorded)",
}

window_ns = st.builds(
    lambda begin, length: (begin * 1000, (begin + length) * 1000),
    st.integers(-5, 60),
    st.integers(1, 60),
)
allocations = st.builds(
    memory, st.integers(0, 60), st.integers(-99, 99), tid=st.sampled_from([1, 2, 3])
)


def by_path(nodes, unit="ns"):
    """Own time or bytes by path of names below the root; small nodes by a path of their own."""
    paths, found = {0: ()}, Counter()
    for row in nodes.to_dict("records")[1:]:
        paths[row["node"]] = (*paths[row["parent"]], row["name"])
        found[paths[row["node"]]] += row[f"own_{unit}"]
    return Counter({path: ns for path, ns in found.items() if ns})


def innermost(raw, event):
    """The last call to begin of those that run on the thread of an event."""
    at = 1000 * event["ts"]
    running = [
        each
        for thread, calls in raw.threads.items()
        for each in calls
        if thread == (event["pid"], event["tid"]) and each.start <= at < each.cut_end
    ]
    return names(running[-1]) if running else (NOBODY["bytes"],)


def by_brute_force(raw, weight, memories):
    found = Counter()
    if weight == "bytes":
        for event in memories:
            found[innermost(raw, event)] += max(event["args"]["Bytes"], 0)
        return Counter({path: size for path, size in found.items() if size})
    if weight == "gpu":
        for work in raw.analysed:
            path = names(work["call"]) if work["call"] else (NOBODY["gpu"],)
            found[(*path, work["name"])] += work["end"] - work["start"]
    elif weight == "idle":
        for device in raw.devices():
            for row in raw.rows(device):
                found[row["path"] or (NOBODY["idle"],)] += row["ns"]
    else:
        for each in raw._analysed_calls():
            found[names(each)] += each.cut_end - each.start
            if each.parent is not None and raw._is_analysed(each.parent):
                found[names(each.parent)] -= each.cut_end - each.start
    return Counter({path: ns for path, ns in found.items() if ns})


def check(result):
    """Every node is what it holds, and the root is everything."""
    nodes, own, total = result.nodes, f"own_{result.unit}", f"total_{result.unit}"
    inside = nodes[nodes["parent"] >= 0].groupby("parent")[total].sum()
    inside = inside.reindex(nodes["node"], fill_value=0)
    assert (nodes[own].to_numpy() + inside.to_numpy() == nodes[total].to_numpy()).all()
    assert nodes[own].sum() == nodes[total].iloc[0]
    assert result.names[own].sum() == nodes[total].iloc[0]
    seen = nodes[nodes["folded"] == 0].groupby(["name", "kind"])[own].sum()
    names = result.names.set_index(["name", "kind"])[own]
    assert (seen <= names.reindex(seen.index, fill_value=0)).all()
    assert (nodes["parent"] < nodes["node"]).all()
    depth = nodes.set_index("node")["depth"]
    assert (depth[nodes["parent"].iloc[1:]].to_numpy() + 1 == depth.iloc[1:].to_numpy()).all()


def check_sandwich(result, name, expected):
    """The calls of a name from their outermost one on, inwards and outwards."""
    below, above = Counter(), Counter()
    for path, amount in expected.items():
        if name in path:
            at = path.index(name)
            below[path[at + 1 :]] += amount
            above[path[:at][::-1]] += amount
    for nodes, paths in ((result.nodes, below), (result.callers, above)):
        assert nodes["name"].iloc[0] == name
        own = f"own_{result.unit}"
        found = by_path(nodes, result.unit)
        found[()] = nodes[own].iloc[0]
        assert found == paths
    check(result)


@given(
    modules_and_work(),
    st.sampled_from(["gpu", "cpu", "idle", "bytes"]),
    st.lists(allocations, max_size=9),
)
def test_against_brute_force(tmp_path_factory, events, weight, memories):
    job = open_job(tmp_path_factory.mktemp("flame"), [[*events, *memories]])
    expected = by_brute_force(RawModules(events), weight, memories)
    for order in ("merged", "time"):
        result = flame(job, 0, weight=weight, order=order)
        check(result)
        assert by_path(result.nodes, result.unit) == expected
        assert result.total_ns + result.total_bytes == expected.total()
    for name in {name for path in expected for name in path}:
        check_sandwich(flame(job, 0, weight=weight, sandwich=name), name, expected)
    lines = [line.rsplit(" ", 1) for line in collapsed_stacks(job, 0, weight=weight).splitlines()]
    assert {tuple(path.split(";")): int(ns) for path, ns in lines} == {
        tuple(" ".join(name.split()) for name in path): ns for path, ns in expected.items()
    }


def own_cpu_time_in(raw, begin, end):
    """Own CPU time of the analysed calls, of which the part in a window counts."""
    found = Counter()
    for each in raw._analysed_calls():
        ns = max(min(each.cut_end, end) - max(each.start, begin), 0)
        found[each] += ns
        if each.parent is not None:
            found[each.parent] -= ns
    return found


def cpu_runs(raw, own_ns):
    """The runs of each thread with any time in them: name, time and the runs inside."""
    inside = defaultdict(list)
    for calls in raw.threads.values():
        for each in calls:
            inside[each.parent].append(each)

    def runs_of(calls):
        found = []
        for name, alike in groupby(calls, key=attrgetter("name")):
            run = [*alike]
            inner = runs_of([each for call in run for each in inside[call]])
            ns = sum(own_ns[call] for call in run)
            if ns or inner:
                found.append((name, ns, inner))
        return found

    outermost = ([each for each in calls if not each.parent] for calls in raw.threads.values())
    return [runs_of(calls) for calls in outermost]


@given(modules_and_work(), st.integers(-20, 40), window_ns)
def test_cpu_time_of_a_window(tmp_path_factory, events, begin, window):
    """Also before the first step and between steps, but not that of the step left out."""
    events = [*events, *(step(number, begin + 11 * number, 9) for number in range(4))]
    job, raw = open_job(tmp_path_factory.mktemp("flame"), [events]), RawModules(events)
    origin_ns = 1000 * min(event["ts"] for event in events)
    own_ns = own_cpu_time_in(raw, *(origin_ns + edge_ns for edge_ns in window))
    expected = Counter()
    for each, ns in own_ns.items():
        expected[names(each)] += ns
    everything = {"window_ns": (0, 10**9)}
    for order in ("merged", "time"):
        result = flame(job, 0, weight="cpu", order=order, window_ns=window)
        check(result)
        assert by_path(result.nodes) == Counter({path: ns for path, ns in expected.items() if ns})
        whole, again = (flame(job, 0, weight="cpu", order=order, **x) for x in ({}, everything))
        pd.testing.assert_frame_equal(whole.nodes, again.nodes)
    of_threads = cpu_runs(raw, own_ns)
    found = in_order(result.nodes, "own_ns")
    assert found in [[*chain(*each)] for each in permutations(of_threads)]


@pytest.mark.parametrize("name", ["dlrm_2rank", "b200_eager", "mi300_bert", "compare_test"])
def test_all_cpu_time_of_a_real_job_is_in_a_window_of_everything(kineto_jobs, name):
    job = open_trace(kineto_jobs[name], progress=False)
    whole, again = (
        flame(job, job.ranks[0], weight="cpu", **asked) for asked in ({}, ALL_OF_THE_TIME)
    )
    assert whole.total_ns > 0
    pd.testing.assert_frame_equal(whole.nodes, again.nodes)
    assert whole.notices == again.notices


def test_a_window_between_steps_has_cpu_time_and_frames(tmp_path):
    events = [frame(0, 400, "train.py(3): main"), host(10, 20, "load"), step(1, 100, 50)]
    events += [host(110, 20, "aten::mm"), call(170, 10, 1), step(2, 200, 50), step(3, 300, 50)]
    events += [host(310, 30, "aten::add"), kernel(190, 5, correlation=1)]
    job = open_job(tmp_path, [events])
    for order in ("merged", "time"):
        before = flame(job, 0, weight="cpu", order=order, window_ns=(0, 90_000))
        assert by_path(before.nodes) == {
            ("train.py(3): main",): 70_000,
            ("train.py(3): main", "load"): 20_000,
        }
        between = flame(job, 0, weight="cpu", order=order, window_ns=(160_000, 180_000))
        assert between.names["own_ns"].tolist() == [10_000, 10_000]
        last = flame(job, 0, weight="cpu", order=order, window_ns=(300_000, 400_000))
        assert last.names["name"].tolist() == ["train.py(3): main"]


def test_frames_are_recorded_where_none_is_in_the_window(tmp_path):
    """A second thread works after the function has returned."""
    events = [frame(0, 40, "train.py(3): main"), host(50, 20, "aten::mm", tid=2)]
    events += [call(55, 5, 1), kernel(80, 10, correlation=1), kernel(200, 10, correlation=2)]
    events.append(call(150, 5, 2))
    job = open_job(tmp_path, [events])
    for order in ("merged", "time"):
        for weight in ("cpu", "gpu", "idle"):
            found = flame(job, 0, weight=weight, order=order, window_ns=(45_000, 250_000))
            assert not [each for each in found.notices if "with_stack" in each]
    assert not [
        each
        for each in idle_owners(job, window_ns=(45_000, 75_000)).notices
        if "with_stack" in each
    ]


graphs = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(0, 3), st.sampled_from([7, 8])), max_size=10
)


@given(st.tuples(graphs, graphs))
def test_kernels_of_one_launch_are_in_order(tmp_path_factory, launched):
    """Neighbours of one name are one, others are not: a graph runs the same layers many times."""
    events, expected = [], []
    for correlation, kernels in enumerate(launched):
        events += [
            call(2 * correlation, 1, correlation, name="cudaGraphLaunch"),
            *(
                kernel(
                    100 + 50 * correlation + 4 * place,
                    length,
                    name=name,
                    stream=stream,
                    correlation=correlation,
                )
                for place, (name, length, stream) in enumerate(kernels)
            ),
        ]
        expected += [each for each in kernels if each[1]]
    runs_of_name = [
        (name, 1000 * sum(each[1] for each in alike))
        for name, alike in ((name, [*each]) for name, each in groupby(expected, key=itemgetter(0)))
    ]
    job = open_job(tmp_path_factory.mktemp("flame"), [events])
    for asked in ({}, {"window_ns": (0, 10**6)}):
        result = flame(job, 0, order="time", **asked)
        check(result)
        kernels = result.nodes.query("kind == 'kernel'")
        assert [*zip(kernels["name"], kernels["total_ns"], strict=True)] == runs_of_name
        number = Counter(name for name, _ in runs_of_name)
        assert result.names.set_index("name")["nodes"].to_dict() == number
    merged = flame(job, 0).names.set_index("name")["nodes"]
    assert merged.to_dict() == dict.fromkeys(number, 1)


def runs(roots):
    """Paths of a forest in order, where neighbours with one name are one."""
    found = []
    for name, inside in roots:
        if found and found[-1][0] == name:
            found[-1][1].extend(inside)
        else:
            found.append((name, [*inside]))
    return [(name, runs(inside)) for name, inside in found]


def in_order(nodes, *columns):
    """The nodes inside the root as they are drawn: name, other columns and what is inside."""
    children = {}
    for row in nodes.to_dict("records")[1:]:
        children.setdefault(row["parent"], []).append(row)

    def below(node):
        return [
            (row["name"], *(row[column] for column in columns), below(row["node"]))
            for row in children.get(node, [])
        ]

    return below(0)


trees = st.recursive(
    st.sampled_from("ab").map(lambda name: (name, [])),
    lambda inside: st.tuples(st.sampled_from("abc"), st.lists(inside, min_size=1, max_size=3)),
    max_leaves=8,
)


@given(st.lists(trees, min_size=1, max_size=4))
def test_neighbours_of_one_name_are_one(tmp_path_factory, roots):
    events, clock = [], [0]

    def lay_out(name, inside):
        start = clock[0]
        clock[0] += 1
        for each in inside:
            lay_out(*each)
        clock[0] += 1
        events.append(host(start, clock[0] - start, name))

    for each in roots:
        lay_out(*each)
    job = open_job(tmp_path_factory.mktemp("flame"), [events])
    assert in_order(flame(job, 0, weight="cpu", order="time").nodes) == runs(roots)


def check_in_time(job, weight, asked):
    """In order of time, a selection has the runs of the whole, and of each path what is merged."""
    rank = job.ranks[0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(analyses.flame, "SMALLEST", 0.0)
        patch.setattr(analyses.flame, "MOST_NODES", 10**9)
        merged, found, whole = (
            flame(job, rank, weight=weight, order=order, **each)
            for order, each in (("merged", asked), ("time", asked), ("time", ALL_OF_THE_TIME))
        )
    check(found)
    assert by_path(found.nodes, found.unit) == by_path(merged.nodes, found.unit)
    of_names = [each.names.groupby("name")[f"own_{found.unit}"].sum() for each in (merged, found)]
    pd.testing.assert_series_equal(*of_names)
    assert is_part_of(in_order(found.nodes), in_order(whole.nodes))


def is_part_of(some, every):
    """Whether nodes are among others in the same order, each with what is inside it."""
    others = iter(every)
    return all(
        any(name == other and is_part_of(inside, around) for other, around in others)
        for name, inside in some
    )


@given(
    st.builds(list.__add__, modules_and_work(), st.lists(allocations, max_size=9)),
    st.sampled_from(["gpu", "cpu", "idle", "bytes"]),
    window_ns,
)
def test_a_window_in_order_of_time(tmp_path_factory, events, weight, window):
    job = open_job(tmp_path_factory.mktemp("flame"), [events])
    check_in_time(job, weight, {"window_ns": window})


@given(
    st.builds(list.__add__, modules_and_work(), st.lists(allocations, max_size=9)),
    st.sampled_from(["gpu", "cpu", "idle", "bytes"]),
    st.tuples(st.integers(-5, 20), st.sets(st.integers(0, 4), min_size=1), st.none() | window_ns),
)
def test_steps_in_order_of_time(tmp_path_factory, events, weight, selected):
    begin, chosen, window = selected
    marks = [step(number, begin + 10 * number, 9 + number % 2) for number in range(6)]
    job = open_job(tmp_path_factory.mktemp("flame"), [[*events, *marks]])
    known = window_of(job.rank(0)).steps.tolist()
    asked = {"steps": sorted(chosen & {*known}) or known[:1]}
    check_in_time(job, weight, asked if window is None else {**asked, "window_ns": window})


def some_time(job):
    """A window, and if there are steps, some that are not neighbours."""
    rank = job.rank(job.ranks[0])
    span_ns, steps = int(rank.trace.events.end_ns.max()), window_of(rank).steps.tolist()
    yield {"window_ns": (span_ns // 3, span_ns // 2)}
    if len(steps) > 1:
        yield {"steps": steps[::2]}
        yield {"steps": steps[1:], "window_ns": (span_ns // 3, span_ns)}


@pytest.mark.parametrize("name", ["dlrm_2rank", "b200_eager", "mi300_bert", "h100_bert"])
def test_real_windows_in_order_of_time(kineto_jobs, name):
    job = open_trace(kineto_jobs[name], progress=False)
    for weight in ("gpu", "cpu", "idle", "bytes"):
        for asked in some_time(job):
            check_in_time(job, weight, asked)


def test_what_lies_between_two_runs_keeps_them_apart(tmp_path):
    """Also in a window in which it has no time: nodes do not come and go as one moves it."""
    events = [host(0, 10, "a"), host(10, 5, "b"), host(20, 10, "a")]
    events += [call(1, 1, 1), call(11, 1, 2), call(21, 1, 3)]
    works = [kernel(40, 9, correlation=1), kernel(60, 9, correlation=2, stream=8)]
    job = open_job(tmp_path, [[*events, *works, kernel(49, 9, correlation=3)]])
    whole, part = flame(job, 0, order="time"), flame(job, 0, order="time", window_ns=(0, 60_000))
    outermost = [each.nodes.query("depth == 1")["name"].tolist() for each in (whole, part)]
    assert outermost == [["a", "b", "a"], ["a", "a"]]
    assert part.names.set_index("name").loc["kernel"].tolist() == ["kernel", 18_000, 2]


def test_there_is_no_such_root_in_a_window(tmp_path):
    job = open_job(tmp_path, [[host(0, 10, "a"), host(2, 3, "b"), host(10, 5, "b")]])
    with pytest.raises(ParameterError, match="there is no 'c' in b"):
        flame(job, 0, weight="cpu", order="time", root=("b", "c"), window_ns=(0, 12_000))


def test_below_a_root(tmp_path):
    job = open_job(tmp_path, [NET])
    whole = flame(job, 0)
    path = ("nn.Module: Net_0", "nn.Module: Linear_0")
    inner = flame(job, 0, root=path)
    check(inner)
    assert inner.nodes["name"].tolist() == [
        "nn.Module: Linear_0",
        "aten::linear",
        "cudaLaunchKernel",
        "kernel",
    ]
    assert inner.root == path
    assert inner.total_ns == whole.total_ns == 71_000
    assert inner.nodes["total_ns"].tolist() == [10_000] * 4
    assert inner.nodes["kind"].tolist() == ["python", "cpu_op", "runtime", "kernel"]
    assert whole.finding == "71 µs of GPU work on rank 0."


def test_small_nodes_are_one(tmp_path):
    events = [host(100 * each, 50, f"large {each}") for each in range(3)]
    events += [host(1000 + each, 0.05, f"small {each}") for each in range(20)]
    result = flame(open_job(tmp_path, [events]), 0, weight="cpu")
    check(result)
    last = result.nodes.iloc[-1]
    assert (last["name"], last["folded"], last["total_ns"]) == ("(20 smaller)", 20, 1_000)
    assert len(result.nodes) == 1 + 3 + 1
    assert len(result.names) == 23


def test_no_more_nodes_than_a_message_holds(tmp_path, monkeypatch):
    monkeypatch.setattr(analyses.flame, "MOST_NODES", 10)
    events = [host(0, 2000, "outer")]
    events += [host(20 * each, 10 + each / 10, f"op {each}") for each in range(50)]
    result = flame(open_job(tmp_path, [events]), 0, weight="cpu")
    check(result)
    assert len(result.nodes) == 1 + 10 + 1
    assert result.nodes["folded"].max() == 41


def test_idle_time_is_that_of_its_owners(tmp_path):
    job = open_job(tmp_path, [NET])
    expected = idle_owners(job).devices["idle_ns"].sum()
    assert flame(job, 0, weight="idle").total_ns == expected
    part = idle_owners(job, window_ns=(50_000, 220_000)).devices["idle_ns"].sum()
    assert flame(job, 0, weight="idle", window_ns=(50_000, 220_000)).total_ns == part


def test_steps(tmp_path):
    events = [step(1, 0, 100), step(2, 100, 100), step(3, 200, 10)]
    events += [call(10, 1, 1), kernel(20, 10, correlation=1)]
    events += [call(110, 1, 2), kernel(120, 30, correlation=2)]
    job = open_job(tmp_path, [events])
    assert flame(job, 0).total_ns == 40_000
    assert flame(job, 0, steps=[2]).total_ns == 30_000


def test_cpu_time_of_steps_adds_up(tmp_path):
    """On the CPU, steps are those of their marks; work of the last one is not analysed."""
    events = [step(1, 0, 100), step(2, 100, 100), step(3, 200, 50)]
    events += [call(10, 20, 1), kernel(90, 60, correlation=1), call(70, 50, 4)]
    events += [call(130, 20, 2), kernel(220, 30, correlation=2), call(210, 20, 3)]
    events += [kernel(90, 80, correlation=4, device=1), kernel(240, 5, correlation=3)]
    job = open_job(tmp_path, [events])
    of_steps = [flame(job, 0, weight="cpu", steps=[number]).total_ns for number in (1, 2)]
    assert of_steps == [50_000, 40_000]
    assert flame(job, 0, weight="cpu").total_ns == 90_000


def test_names_in_collapsed_stacks_stay_on_one_line(tmp_path):
    events = [frame(0, 9, "f;g\nh"), call(2, 1, 1), kernel(20, 5, correlation=1)]
    text = collapsed_stacks(open_job(tmp_path, [events]), 0)
    assert text == "f,g h;cudaLaunchKernel;kernel 5000\n"


def test_nothing(tmp_path):
    result = flame(open_job(tmp_path, [[host(0, 1, "aten::mm")]]), 0)
    assert result.nodes["total_ns"].tolist() == [0]
    assert result.finding == ""


def test_arguments(tmp_path):
    job = open_job(tmp_path, [NET])
    with pytest.raises(ParameterError, match="there is no 'nothing' in the outermost calls"):
        flame(job, 0, root=["nothing"])
    with pytest.raises(ParameterError, match=r"there is no 'x' in nn\.Module: Net_0"):
        flame(job, 0, root=["nn.Module: Net_0", "x"])
    with pytest.raises(ParameterError, match="weight must be one of 'gpu', 'cpu', 'idle'"):
        flame(job, 0, weight="flop")
    with pytest.raises(UnknownRankError):
        flame(job, 7)


def test_a_name_that_is_not_there_is_no_sandwich(tmp_path):
    with pytest.raises(
        ParameterError, match="sandwich must be a name of the flame graph, got 'mm'"
    ):
        flame(open_job(tmp_path, [NET]), 0, sandwich="mm")


def test_memory_that_calls_allocate(tmp_path_factory):
    """Frees do not count, nor does memory of the CPU where the GPU's was recorded."""
    events = [
        host(0, 20, "train.py(3): main", cat="python_function"),
        host(10, 10, "aten::empty"),
        memory(12, 4096, tid=100),
        memory(14, -4096, tid=100),
        memory(15, 77, tid=100, device=(0, -1)),
        memory(30, 904, tid=100),
    ]
    result = flame(open_job(tmp_path_factory.mktemp("gpu"), [events]), 0, weight="bytes")
    assert result.total_bytes == 5_000
    assert result.total_ns == 0
    assert by_path(result.nodes, "bytes") == {
        ("train.py(3): main", "aten::empty"): 4096,
        ("(no CPU call recorded)",): 904,
    }
    assert result.finding == "5 kB allocated in total on rank 0."
    job = open_job(tmp_path_factory.mktemp("cpu"), [[*events[:2], events[4]]])
    assert flame(job, 0, weight="bytes").total_bytes == 77


def test_stacks_of_a_window(tmp_path):
    job = open_job(tmp_path, [NET])
    window = (0, 30_000)
    inside = flame(job, 0, weight="cpu", window_ns=window)
    text = collapsed_stacks(job, 0, weight="cpu", window_ns=window)
    assert sum(int(line.rsplit(" ", 1)[1]) for line in text.splitlines()) == inside.total_ns
    assert inside.total_ns < flame(job, 0, weight="cpu").total_ns
