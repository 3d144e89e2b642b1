"""What the CPUs did without GPU work, against what each thread does in each microsecond."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hta_widgets.diagnosis import diagnosis
from hta_widgets.diagnosis.facts.gap_owners import is_line_of_users
from hta_widgets.diagnosis.report import report
from hta_widgets.trace.opening.open import open_trace
from tests.diagnosis.findings.thresholds import Case, cases
from tests.kineto_text import Event, call, host, kernel, step, write
from tests.nsys_export import NVTX, STRINGS, nvtx, strings, write_sqlite

NAMES = (
    ("aten::mm", "cpu_op"),
    ("aten::softmax", "cpu_op"),
    ("train.py(3): step", "python_function"),
    ("model.py(9): forward", "python_function"),
    ("torch/nn/functional.py(1): linear", "python_function"),
    ("threading.py(5): wait", "python_function"),
    ("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "user_annotation"),
    ("collate_batch", "cpu_op"),
    ("nn.Module: Net_0", "python_function"),
)
LINES = ("train.py(3): step", "model.py(9): forward")
US = 1000


@st.composite
def calls(draw: st.DrawFn, begin: int, end: int, depth: int = 0) -> list[Event]:
    """Calls side by side and in each other, in whole microseconds."""
    events: list[Event] = []
    while begin < end and depth < 4 and draw(st.booleans()):
        first = draw(st.integers(begin, end - 1))
        last = draw(st.integers(first + 1, end))
        name, category = draw(st.sampled_from(NAMES))
        events.append(host(first, last - first, name, cat=category))
        events += draw(calls(first, last, depth + 1))
        begin = last
    return events


@st.composite
def recordings(draw: st.DrawFn) -> list[Event]:
    events = [event | {"tid": tid} for tid in (100, 200) for event in draw(calls(0, 40))]
    edges = sorted(draw(st.sets(st.integers(0, 40), max_size=4)))
    marks = [step(at, first, last - first) for at, (first, last) in enumerate(pairwise(edges))]
    return events + marks


def stack(events: list[Event], at: int) -> list[Event]:
    """The calls around a moment, the innermost first; of equal ones, that written last."""
    around = [each for each in events if each["ts"] <= at < each["ts"] + each["dur"]]
    order = {id(each): place for place, each in enumerate(events)}
    return sorted(around, key=lambda each: (each["dur"], -each["ts"], -order[id(each)]))


def expected(events: list[Event]) -> dict[str, Any]:
    """The numbers, by what the innermost calls are in each microsecond."""
    marks = [each for each in events if each["name"].startswith("ProfilerStep")]
    every = [each for each in events if each not in marks]
    counted = {at for each in marks[:-1] for at in range(each["ts"], each["ts"] + each["dur"])}
    if len(marks) == 1:
        first = marks[0]
        counted = {*range(first["ts"], first["ts"] + first["dur"])}
    operators = Counter[str]()
    in_operators, loading, threads = Counter[int](), Counter[int](), {}
    steps = len(marks)
    found: dict[str, Any] = {}
    for of_steps in (True, False) if steps else (False,):
        time = counted if of_steps else {*range(41)}
        operators.clear(), in_operators.clear(), loading.clear()
        in_lines = {tid: Counter[str]() for tid in (100, 200)}
        for tid in (100, 200):
            mine = [each for each in every if each["tid"] == tid]
            span = [0, 0]
            if mine:
                span = [min(e["ts"] for e in mine), max(e["ts"] + e["dur"] for e in mine)]
            threads[tid] = len([at for at in time if span[0] <= at < span[1]])
            for at in time:
                names = stack(mine, at)
                operator = next((e["name"] for e in names if e["cat"] == "cpu_op"), None)
                line = next((e["name"] for e in names if e["name"] in LINES), None)
                operators[operator] += operator is not None
                in_operators[tid] += operator is not None
                in_lines[tid][line] += line is not None
                loading[tid] += any("DataLoader" in e["name"] for e in names)
        lines = Counter[str]()
        for tid, own in in_lines.items():
            lines += own if in_operators[tid] or not in_operators.total() else Counter()
        found = {"operators": +operators, "lines": +lines, "in": in_operators, "loading": loading}
        if operators.total():
            break
    return {**found, "recorded": threads}


@given(recordings())
def test_against_each_microsecond(tmp_path_factory: Any, events: list[Event]) -> None:
    folder: Path = tmp_path_factory.mktemp("cpu")
    without = [each for each in events if each["name"] not in ("collate_batch", NAMES[-1][0])]
    work = diagnosis(open_trace(write(folder / "a.json", without), progress=False)).cpu_work
    assert work is not None
    wanted = expected(without)
    has_last_step = sum(each["name"].startswith("ProfilerStep") for each in without) > 1
    if has_last_step and not work.steps:
        return  # nothing runs in the steps: calls count whole, which begin before the last one
    assert work.operators_ns == US * wanted["operators"].total()
    assert {each.name: each.own_ns for each in work.operators if each.own_ns} == {
        name: US * count for name, count in wanted["operators"].items()
    }
    if not wanted["operators"]:
        return
    assert work.lines_ns == US * wanted["lines"].total()
    assert {each.name: each.own_ns for each in work.lines} == {
        name: US * count for name, count in wanted["lines"].items()
    }
    most = max(wanted["in"].values())
    threads = [tid for tid in (100, 200) if wanted["in"][tid] == most]
    told = (work.recorded_ns, work.loading_ns)
    assert told in [(US * wanted["recorded"][t], US * wanted["loading"][t]) for t in threads]


def answered(folder: Path, *ranks: list[Event], **options: Any) -> Any:
    for rank, events in enumerate(ranks):
        write(folder / f"rank-{rank}.json", events)
    return diagnosis(open_trace(folder, progress=False), **options)


def allocates(at: int, device_type: int = 0) -> Event:
    args = {"Device Type": device_type, "Device Id": 0, "Addr": 1, "Bytes": 512}
    event = {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "ts": at, "args": args}
    return event | {"pid": 100, "tid": 100}


def test_operators_are_listed_by_line_if_there_are_lines(tmp_path: Path) -> None:
    """ "By line" stood above "which lines take the time cannot be told"."""
    operator, line = host(1, 4, "aten::mm"), host(0, 9, "train.py(3): step", cat="python_function")
    for events, said in (([operator], "by shape."), ([line, operator], "by shape and by line.")):
        folder = tmp_path / str(len(events))
        folder.mkdir()
        assert answered(folder, events).cpu_work.what_to_do("operators").endswith(said)


def test_ranks_are_summed_up(tmp_path: Path) -> None:
    events = [host(0, 9, "train.py(3): step", cat="python_function"), host(1, 4, "aten::mm")]
    made = answered(tmp_path, events, events)
    assert [*made.cpu_work.operators] == [("aten::mm", 8000, 2, 4000)]
    assert [*made.cpu_work.lines] == [("train.py(3): step", 18000, 2, 9000)]
    assert made.cpu_work.parts["lines"] == (
        "Of 18 µs of CPU time in Python functions, added up over 2 ranks, train.py(3): step takes "
        "the most: 18 µs (100 %) in 2 calls, up to 9 µs each."
    )
    assert made.finding == made.cpu_work.verdict


def test_preparing_batches_is_loading_unless_the_model_runs_in_it(tmp_path: Path) -> None:
    whole = host(0, 100, "image_processing.py(1): main", cat="python_function")
    batch = host(10, 20, "collate_batch", cat="python_function")
    model = host(40, 30, "nn.Module: Net_0", cat="python_function")
    inner = host(45, 5, "aten::mm")
    assert answered(tmp_path, [whole, model, inner]).cpu_work.loading_ns == 0
    made = answered(tmp_path, [whole, batch, model, inner])
    assert (made.cpu_work.loading_ns, made.cpu_work.recorded_ns) == (20_000, 100_000)
    assert "Loading data takes 20 µs (20 %) of the 100 µs" in made.finding


def loads(folder: Path, part: float) -> bool:
    batch = host(10, round(10_000 * part), "collate_batch", cat="python_function")
    made = answered(folder, [host(0, 10_000, "train.py(1): main", cat="python_function"), batch])
    return any("Loading data" in each for each in made.cpu_work.sentences)


def says_calls(folder: Path, part: float) -> bool:
    free = call(20, round(10_000 * part), 1, name="cudaFree")
    made = answered(folder, [host(0, 10, "aten::mm"), free, host(9_990, 10, "aten::mm")])
    return "calls" in made.cpu_work.parts


test_thresholds = cases(
    Case("cpu_work.LEAST_LOADING", loads, {0.0099: False, 0.0101: True}),
    Case("cpu_work.LEAST_IN_CALLS", says_calls, {0.0099: False, 0.0101: True}),
)


def test_calls_of_cuda_outside_of_operators_are_listed(tmp_path: Path) -> None:
    events = [host(0, 10, "aten::mm"), call(2, 3, 1, name="cudaMalloc")]
    events += [call(20, 30, 2, name="cudaFree"), call(60, 4, 3, name="cudaFree")]
    made = answered(tmp_path, events)
    assert [*made.cpu_work.calls] == [("cudaFree", 34_000, 2, 30_000)]
    assert [*made.cpu_work.operators] == [("aten::mm", 10_000, 1, 10_000)]
    assert [*made.cpu_work.parts] == ["calls", "operators"]
    assert "in CUDA calls outside operators:\n    - 34 µs (100 %): cudaFree, 2" in report(made)
    assert made.finding.startswith(
        "No GPU work was recorded: the job allocates memory of a GPU, but no recorded call of the "
        "CUDA API (3 in all) launches any. Of 34 µs of CPU time in CUDA calls outside operators, "
        "cudaFree takes the most: 34 µs (100 %) in 2 calls, up to 30 µs each."
    )


def test_an_export_of_ranges_alone_says_which_take_the_time(tmp_path: Path) -> None:
    ranges = [nvtx(0, 900, "forward"), nvtx(100, 700, "find"), nvtx(900, 1000, "ProfilerStep#1")]
    made = diagnosis(open_trace(write_sqlite(tmp_path / "a.sqlite", {NVTX: ranges})))
    assert [*made.cpu_work.ranges] == [("find", 600, 1, 600), ("forward", 300, 1, 300)]
    assert made.finding == (
        "No GPU work was recorded: no CUDA calls were traced (nsys profile --trace=cuda,nvtx "
        "traces them). Of 900 ns of CPU time in annotated ranges, find takes the most: 600 ns "
        "(66.7 %) in 1 call."
    )
    empty = diagnosis(open_trace(write_sqlite(tmp_path / "b.sqlite", {STRINGS: strings("a")})))
    assert empty.finding.endswith("traces them). No operators or ranges were recorded, either.")


@pytest.mark.parametrize(("part", "is_said"), [(0.49, True), (0.51, False)])
def test_ranges_that_hold_more_than_all_operators_are_listed(tmp_path, part, is_said):
    """A backward pass whose operators were not recorded had 34.1 of 74.6 ms, and no line."""
    backward = host(0, 1000, "## backward ##", cat="user_annotation")
    inside = host(10, 1000 * part, "aten::mm")
    made = answered(tmp_path, [backward, inside, host(20, 50, "inner", cat="user_annotation")])
    said = f"Of {1000 * (1 - part):.3g} µs of CPU time in annotated ranges outside operators, "
    assert (said in made.finding) == is_said
    assert made.cpu_work.operators_ns == 1_000_000 * part
    assert [each.name for each in made.cpu_work.ranges] == ["## backward ##"]


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (host(0, 9, "aten::cudnn_convolution"), "calls aten::cudnn_convolution, which runs on GPU"),
        (allocates(1, 1), "allocates memory of a GPU"),
    ],
)
def test_what_shows_a_gpu_excludes_that_the_job_ran_on_the_cpu(
    tmp_path: Path, event: Event, words: str
) -> None:
    found = answered(tmp_path, [host(0, 9, "aten::mm"), event]).finding
    assert found.startswith(f"No GPU work was recorded: the job {words}")
    assert ", but was recorded without the GPU (activities=" in found


def test_the_work_of_a_gpu_may_be_in_the_end_of_a_cut_file(tmp_path: Path) -> None:
    """A file of 1 MiB that ended in its operators "was recorded without the GPU"."""
    file = write(tmp_path / "rank-0.json", [host(10 * n, 9, "aten::mkldnn_mm") for n in range(99)])
    text = file.read_text(encoding="utf-8")
    file.write_text(text[: len(text) // 2], encoding="utf-8")
    found = diagnosis(open_trace(file, progress=False))
    assert found.finding.startswith("No GPU work was recorded: the file is cut, and what a ")
    assert "activities=" not in found.finding


@pytest.mark.parametrize(
    ("events", "words"),
    [
        ([host(0, 9, "aten::mkldnn_convolution")], "runs only there"),
        ([host(0, 9, "aten::mkldnn_convolution"), allocates(1, 20)], None),
        ([host(0, 9, "aten::mkldnn_convolution"), host(9, 10, "aten::mm")], None),
        ([host(0, 9, "aten::mm"), allocates(1)], "allocates memory there"),
        ([host(0, 9, "aten::mm"), host(9, 2, "aten::empty"), allocates(10)], None),
        ([host(0, 9, "aten::_local_scalar_dense"), allocates(1)], None),
    ],
)
def test_what_shows_that_the_job_ran_on_the_cpu(
    tmp_path: Path, events: list[Event], words: str | None
) -> None:
    made, longest = answered(tmp_path, events), max(events, key=lambda each: each.get("dur", 0))
    said = f"The job ran on the CPU: {longest['name']}, which takes the most time, {words}."
    assert made.finding.startswith(said) is (words is not None)
    lacks = [each.lack for each in made.not_recorded]
    assert ("GPU work is not recorded" in lacks) is (words is None)


def test_the_largest_part_of_the_time_is_said_first(tmp_path: Path) -> None:
    main = host(0, 1000, "train.py(1): main", cat="python_function")
    batch = host(10, 900, "collate_batch", cat="python_function")
    work = answered(tmp_path, [main, batch, host(950, 5, "aten::mm")]).cpu_work
    assert [*work.parts] == ["loading", "operators", "lines"]
    text = report(answered(tmp_path, [main, batch, host(950, 5, "aten::mm")]))
    assert text.index("Loading data takes") < text.index("What to do: Load batches")
    assert text.index("What to do: Load batches") < text.index("in operators")


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 30), st.booleans()), max_size=8))
def test_collectives_on_any_thread(tmp_path_factory: Any, runs: list[tuple[int, int, bool]]):
    """Gloo runs them in threads of its own, which may do so at the same time."""
    names = {False: "gloo:all_reduce", True: "gloo:broadcast"}
    events = [host(0, 5, "aten::empty"), host(95, 5, "aten::empty")]
    events += [
        {**host(start, length, names[which], cat="user_annotation"), "tid": 300 + place}
        for place, (start, length, which) in enumerate(runs)
    ]
    folder: Path = tmp_path_factory.mktemp("gloo")
    work = answered(folder, events).cpu_work
    covered = {at for start, length, _ in runs for at in range(start, start + length)}
    assert (work.collectives_ns, work.analysed_ns) == (US * len(covered), US * 100)
    if runs:
        assert work.of_collectives.startswith(f"Collectives run on the CPU for {len(covered)} µs")
        assert next(iter(work.parts)) == ("collectives" if len(covered) > 10 else "operators")


def test_collectives_of_gpus_are_only_launched_by_the_cpu(tmp_path: Path) -> None:
    events = [host(0, 50, "nccl:all_to_all", cat="user_annotation"), host(10, 5, "aten::empty")]
    made = answered(tmp_path, events)
    assert made.finding.startswith("No GPU work was recorded: the job calls NCCL, which runs on GP")
    assert not made.cpu_work.of_collectives


def test_chosen_steps_count(tmp_path: Path) -> None:
    events = [host(at, 2 + at // 10, "aten::mm") for at in (0, 10, 20)]
    events += [step(number, 10 * number, 10) for number in range(3)]
    assert answered(tmp_path, events).cpu_work.steps == (0, 1)
    one = answered(tmp_path, events, steps=[1]).cpu_work
    assert (one.steps, one.operators_ns) == ((1,), 3000)
    assert (
        "in operators in step 1 of 10 µs, aten::mm takes the most: 3 µs" in one.parts["operators"]
    )


def test_a_line_that_runs_on_from_before_the_steps_is_called_once(tmp_path: Path) -> None:
    script = host(0, 40, "train.py(1): <module>", cat="python_function")
    events = [script, *(host(at, 4, "aten::mm") for at in (1, 11, 21))]
    events += [step(number, 10 + 10 * number, 10) for number in range(3)]
    made = answered(tmp_path, events).cpu_work
    assert [*made.lines] == [("train.py(1): <module>", 20_000, 1, 20_000)]


def test_with_gpu_work_there_is_none(tmp_path: Path) -> None:
    assert answered(tmp_path, [host(0, 9, "aten::mm"), kernel(3, 4)]).cpu_work is None


@pytest.mark.parametrize("name", [name for name, _ in NAMES])
def test_lines_of_users(name: str) -> None:
    assert is_line_of_users(name) == (name in LINES)


def test_counters_are_named_where_they_were_measured_instead_of_times(tmp_path: Path) -> None:
    measured = kernel(20, 1, cat="cuda_profiler_range", **{"inst.sum": 10})
    made = answered(tmp_path, [host(0, 50, "aten::mm"), call(10, 5, 1), measured])
    assert made.finding.startswith("CUPTI's range profiler measured 1 kernel and did not record ")
    assert made.cpu_work.measured == 1
    assert made.cpu_work.beginning("operators").endswith(", with the profiler's replays of kernels")
    assert not any("launches" in said for said in made.notices)  # which are not lost


def test_calls_of_cuda_that_launch_nothing_show_that_the_gpu_was_recorded(tmp_path):
    events = [host(0, 50, "aten::mm"), call(60, 5, 1, name="cudaDeviceSynchronize")]
    made = diagnosis(open_trace(write(tmp_path / "rank-0.json", events), progress=False))
    assert made.finding.startswith(
        "The job ran on the CPU: no recorded call of the CUDA API (1 in all) launches GPU work. "
    )
    assert "GPU work is" not in [each.what for each in made.not_recorded]
