"""User annotations against brute force, and what is said where there are none."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hta_widgets.analyses import flame, gpu_annotations, idle_owners, operators
from hta_widgets.analyses.gpu_annotations import NO_ANNOTATIONS
from hta_widgets.errors import ParameterError
from tests.analyses.generated_jobs import open_job
from tests.analyses.test_idle_owners import annotation
from tests.kineto_text import call, host, kernel, step
from tests.raw_idle import RawIdle

COLUMNS = (
    *("calls", "cpu_sum_ns", "gpu_work", "gpu_ns", "gpu_busy_ns", "gpu_span_ns", "gpu_self_ns"),
    "idle_ns",
)


def covered(stretches):
    """Time that stretches cover together."""
    total, reached = 0, None
    for start, end in sorted(stretches):
        begin = start if reached is None else max(start, reached)
        total += max(end - begin, 0)
        reached = end if reached is None else max(reached, end)
    return total


class RawAnnotations(RawIdle):
    """User annotations straight from the events."""

    def annotations_at(self, caller):
        """Annotations at and around a call, the innermost first."""
        path = [] if caller is None else caller.path
        return [each for each in reversed(path) if each.kind == "annotation"]

    def counts(self, caller):
        """Whether it is not of the step that is left out."""
        return self.last_start is None or caller.start < self.last_start

    def by_name(self):
        """Rows by name."""
        found = defaultdict(Counter)
        every = [one for calls in self.threads.values() for one in calls]
        for each in (one for one in every if one.kind == "annotation" and self.counts(one)):
            inside_another = each.name in {other.name for other in self.annotations_at(each)[1:]}
            own = 0 if inside_another else each.cut_end - each.start
            found[each.name] += Counter(calls=1, cpu_sum_ns=own)
        self.add_work(found)
        for row in (row for device in self.devices() for row in self.rows(device)):
            for name in {other.name for other in self.annotations_at(row["owner"])}:
                found[name]["idle_ns"] += row["ns"]
        return {name: {key: each[key] for key in COLUMNS} for name, each in found.items()}

    def add_work(self, found):
        """Add the GPU work that is launched in each."""
        work, of_call = defaultdict(list), defaultdict(list)
        for each in self.analysed:
            around, ns = self.annotations_at(each["call"]), each["end"] - each["start"]
            for inner in around[:1]:
                found[inner.name]["gpu_self_ns"] += ns
            for name in {other.name for other in around}:
                found[name] += Counter(gpu_work=1, gpu_ns=ns)
                work[name, each["device"]].append((each["start"], each["end"]))
                outermost = [other for other in around if other.name == name][-1]
                of_call[outermost].append((each["start"], each["end"]))
        for (name, _), stretches in work.items():
            found[name]["gpu_busy_ns"] += covered(stretches)
        for outermost, stretches in of_call.items():
            ends = [end for _, end in stretches]
            found[outermost.name]["gpu_span_ns"] += max(ends) - min(stretches)[0]


@st.composite
def annotated(draw):
    starts, lengths = st.integers(0, 60), st.integers(0, 40)
    threads = st.sampled_from([1, 1, 2])
    names = st.sampled_from(["forward", "forward", "loss", "ProfilerStep#1", "ProfilerStep#2"])
    categories = st.sampled_from(["user_annotation", "user_annotation", "cpu_op"])
    events = [
        host(draw(starts), draw(lengths), draw(names), cat=draw(categories), tid=draw(threads))
        for _ in range(draw(st.integers(1, 8)))
    ]
    for number in range(draw(st.integers(0, 6))):
        if draw(st.integers(0, 5)):
            events.append(call(draw(starts), draw(lengths), number, tid=draw(threads)))
        events += [
            kernel(
                draw(st.integers(0, 90)),
                draw(st.integers(0, 20)),
                device=draw(st.sampled_from([0, 0, 1])),
                stream=draw(st.sampled_from([7, 9])),
                correlation=number,
            )
            for _ in range(draw(st.integers(1, 2)))
        ]
    return draw(st.permutations(events))


def check_sums(result):
    own = result.annotations.groupby("rank")["gpu_self_ns"].sum()
    ranks = result.ranks.set_index("rank")
    rest = ranks["outside_annotations_ns"] + ranks["launch_not_recorded_ns"]
    assert (own.reindex(ranks.index, fill_value=0) + rest == ranks["gpu_ns"]).all()


@given(annotated())
def test_against_brute_force(tmp_path_factory, events):
    job = open_job(tmp_path_factory.mktemp("annotations"), [events])
    result = gpu_annotations(job)
    rows = result.annotations.set_index("annotation")[[*COLUMNS]].to_dict("index")
    assert rows == RawAnnotations(events).by_name()
    check_sums(result)
    assert job.gpu_work(0).duration_ns.sum() == result.ranks["gpu_ns"].sum()


def two_calls():
    return [
        annotation(0, 50, "forward"),
        annotation(10, 10, "loss"),
        call(2, 2, 1),
        call(12, 2, 2),
        call(60, 2, 3),
        kernel(100, 20, correlation=1),
        kernel(110, 30, correlation=2, stream=9),
        kernel(150, 5, correlation=3),
        kernel(170, 6),
    ]


def test_one_annotation_in_another(tmp_path):
    result = gpu_annotations(open_job(tmp_path, [two_calls()]))
    rows = result.annotations.set_index("annotation")
    assert rows.loc[
        "forward", ["gpu_ns", "gpu_self_ns", "gpu_busy_ns", "gpu_span_ns"]
    ].tolist() == [*(50_000, 20_000, 40_000, 40_000)]
    assert rows.loc["loss", ["gpu_ns", "gpu_self_ns", "gpu_work"]].tolist() == [30_000, 30_000, 1]
    assert result.ranks.to_dict("records") == [
        {
            "rank": 0,
            "gpu_ns": 61_000,
            "outside_annotations_ns": 5_000,
            "launch_not_recorded_ns": 6_000,
        }
    ]
    assert result.finding == (
        "Of 61 µs of GPU time, 50 µs (82 %) is launched in forward (1 call); 8.2 % is launched "
        "outside user annotations."
    )


def test_an_annotation_in_another_of_its_name_counts_once(tmp_path):
    """As in a function that calls itself: its CPU time lies in that of the outermost call."""
    events = [annotation(start, 100 - 2 * start, "solve") for start in (0, 10, 20)]
    events += [call(30, 2, 1), kernel(40, 5, correlation=1)]
    job = open_job(tmp_path, [events])
    assert gpu_annotations(job).annotations[
        ["calls", "cpu_sum_ns", "gpu_ns"]
    ].to_numpy().tolist() == [[3, 100_000, 5_000]]
    inner = gpu_annotations(job, window_ns=(25_000, 28_000)).annotations
    assert inner["cpu_sum_ns"].tolist() == [3_000]


def test_the_gpu_may_wait_for_the_step_that_is_left_out(tmp_path):
    """Its calls own idle time while work of the steps before is not done, but no CPU time."""
    events = [step(1, 0, 100), step(2, 100, 100), step(3, 200, 90)]
    events += [call(10, 5, 1), kernel(20, 10, correlation=1)]
    events += [call(110, 5, 2), kernel(300, 10, correlation=2)]
    events += [annotation(210, 60, "last"), host(220, 40, "aten::mm"), call(225, 5, 3)]
    events += [kernel(250, 20, correlation=3)]
    job = open_job(tmp_path, [events])
    nodes = flame(job, 0, weight="idle").nodes.set_index("name")["total_ns"]
    row = gpu_annotations(job).annotations.set_index("annotation").loc["last"]
    operator = operators(job).operators.set_index("operator").loc["aten::mm"]
    owned = idle_owners(job).owners.groupby("owner")["idle_ns"].sum()
    assert (owned["last"], owned["aten::mm"]) == (10_000, 5_000)
    assert row["idle_ns"] == nodes["last"] == 40_000
    assert operator["idle_ns"] == nodes["aten::mm"] == 30_000
    assert row[["calls", "cpu_sum_ns", "gpu_work"]].tolist() == [0, 0, 0]
    assert operator[["calls", "cpu_total_ns", "gpu_work"]].tolist() == [0, 0, 0]
    assert flame(job, 0, weight="cpu").total_ns == 10_000


def test_ranges_on_the_gpu_are_counted_as_they_were_recorded(tmp_path):
    on_gpu = [
        kernel(100 + 50 * place, 40, name=name, cat="gpu_user_annotation")
        for place, name in enumerate(["forward", "forward", "ProfilerStep#1", "only on the GPU"])
    ]
    rows = gpu_annotations(open_job(tmp_path, [[*two_calls(), *on_gpu]])).annotations
    rows = rows.set_index("annotation")[["calls", "recorded_ranges", "recorded_range_ns"]]
    assert rows.loc["forward"].tolist() == [1, 2, 80_000]
    assert rows.loc["only on the GPU"].tolist() == [0, 1, 40_000]
    assert "ProfilerStep#1" not in rows.index


def test_order_and_finding_of_the_cpu(tmp_path):
    events = [annotation(0, 5, "short"), annotation(10, 50, "long"), *two_calls()[6:7]]
    result = gpu_annotations(open_job(tmp_path, [events]), on="cpu")
    assert result.annotations["annotation"].tolist() == ["long", "short"]
    assert result.finding == "The longest user annotation is long (1 call): 50 µs on the CPU."


def test_steps_and_windows_add_up(tmp_path):
    marks = [step(number, number * 50, 50) for number in range(3)]
    job = open_job(tmp_path, [[*marks, *two_calls()]])
    parts = [gpu_annotations(job, window_ns=window) for window in ((0, 115_000), (115_000, 10**9))]
    whole = gpu_annotations(job, window_ns=(0, 10**9))
    for name in ("gpu_ns", "gpu_self_ns", "gpu_busy_ns", "cpu_sum_ns", "idle_ns"):
        assert sum(part.annotations[name].sum() for part in parts) == whole.annotations[name].sum()
    of_step = gpu_annotations(job, steps=[1])
    assert "forward" not in set(of_step.annotations.query("calls > 0")["annotation"])


def test_work_that_runs_on_between_chosen_steps_is_one_piece(tmp_path):
    events = [annotation(1, 40, "forward"), call(10, 5, 9)]
    events.append(kernel(20, 160, name="ncclDevKernel_AllReduce", correlation=9, stream=20))
    for number in range(5):
        at = number * 50
        events += [step(number, at, 50), call(at + 42, 2, number)]
        events.append(kernel(at + 45, 4, correlation=number))
    found = gpu_annotations(open_job(tmp_path, [events]), steps=[1, 3]).annotations
    assert found[["annotation", "gpu_work", "gpu_ns"]].to_numpy().tolist() == [
        ["forward", 1, 81_000]
    ]


def test_none_are_recorded(tmp_path):
    job = open_job(tmp_path, [[host(0, 5, "aten::mm")]])
    result = gpu_annotations(job)
    assert result.annotations.empty
    assert result.finding == "No user annotations were recorded on the selected ranks."
    assert NO_ANNOTATIONS in result.notices
    with pytest.raises(ParameterError, match="on must be one of 'gpu', 'cpu', got 'both'"):
        gpu_annotations(job, on="both")


def test_work_that_was_launched_before_the_window_is_in_no_call(tmp_path):
    events = [annotation(0, 10, "step"), call(2, 2, 1), kernel(20, 60, correlation=1)]
    job = open_job(tmp_path, [events])
    assert gpu_annotations(job, window_ns=(40_000, 60_000)).finding == (
        "Of 20 µs of GPU time, 20 µs (100 %) is launched in step."
    )
