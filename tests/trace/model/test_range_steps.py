"""Ranges by which a program counts its steps mark them, as in most recordings of Nsight Systems."""

from __future__ import annotations

import gzip
import json
from itertools import pairwise

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hta_widgets import anonymise, diagnose, open_trace
from hta_widgets.analyses import gpu_annotations, step_table
from hta_widgets.sample import write_sample
from hta_widgets.trace.model.steps import FEWEST_RANGES, LEAST_CALLS, NUMBERED_RANGE
from tests.kineto_text import call, host, kernel, step, write

LENGTH = 100
"""µs from one range to the next; each is open for 80 of them."""


def ranges(names, *, begin=0, every=LENGTH, length=80, tid=1):
    return [
        host(begin + every * place, length, name, cat="user_annotation", tid=tid)
        for place, name in enumerate(names)
    ]


def numbered(text, count=4, first=0):
    return [text.format(number) for number in range(first, first + count)]


def work(count=4, *, begin=10, first=1):
    """A kernel for each range, launched by a call in it."""
    return [
        event
        for turn in range(count)
        for event in (
            call(LENGTH * turn + begin, 1, first + turn),
            kernel(LENGTH * turn + begin + 5, 20, correlation=first + turn),
        )
    ]


def rank_of(folder, marks, others=()):
    events = [*marks, *(others or work())]
    return open_trace(write(folder / "trace.json", events), progress=False).rank(0)


@pytest.mark.parametrize(
    "text",
    [
        *("iteration{}", "iteration_{}", "Iteration: {}", "iter#{}", "iterations{}", "STEP {}"),
        *("step_{}", "Step::{}", "train_step_{}", "Training step {}", "epoch 0 batch {}"),
        *("frame {}", "request-{}", "decode token {}"),
    ],
)
def test_names_that_count(tmp_path, text):
    rank = rank_of(tmp_path, ranges(numbered(text, first=7)))
    assert (rank.steps.source, rank.steps.distinct) == ("range", (7, 8, 9, 10))
    said = [each.text() for each in rank.notices]
    assert any(f"ranges such as '{text.format(7)}' mark the steps" in each for each in said)
    assert any("the last step range, 10, is left out" in each for each in said)


PROGRAM = "XlaModule:#hlo_module=pjit__wrapped_step_fn,program_id=40#"


@pytest.mark.parametrize(
    "name", ["step", "Iteration", "train_step", "Training step", "batch", PROGRAM, f"TSL:{PROGRAM}"]
)
def test_ranges_without_numbers_are_counted(tmp_path, name):
    assert rank_of(tmp_path, ranges([name] * 4)).steps.distinct == (0, 1, 2, 3)


@pytest.mark.parametrize(
    "name",
    [
        *("forward", "step of optimizer", "backward_step", "steps", "epoch"),
        "XlaModule:#hlo_module=gemm_fusion_dot.411#",  # tried, to choose a kernel
    ],
)
def test_other_ranges_without_numbers_mark_no_steps(tmp_path, name):
    assert not len(rank_of(tmp_path, ranges([name] * 4)).steps)


@pytest.mark.parametrize(
    "name",
    [
        *("step", "step 1 of 3", "step -", "layer_3", "timestep", "bf16", "batch 1234567890"),
        *("steppe 4", "iterate 2", "step      1"),
    ],
)
def test_names_that_count_nothing(name):
    assert not NUMBERED_RANGE.search(name)


@pytest.mark.parametrize(
    "marks",
    [
        ranges(numbered("step {}", FEWEST_RANGES - 1)),
        ranges(["batch_8", "batch_16", "batch_32", "batch_64"]),
        ranges(["step 3", "step 2", "step 1", "step 0"]),
        ranges(["step 1", "step 1", "step 2", "step 3"]),
        ranges(numbered("step {}"), length=101),  # open at once
        [*ranges(numbered("step {}", 2)), *ranges(numbered("step {}", 2, 2), begin=200, tid=2)],
        ranges(numbered("warmup step {}")),
        ranges(numbered("Warm-up Step {}")),
        ranges(numbered("layer {}")),
        ranges(numbered("epoch {}")),
    ],
)
def test_ranges_that_mark_no_steps(tmp_path, marks):
    assert not len(rank_of(tmp_path, marks).steps)


@pytest.mark.parametrize(("inside", "marks"), [(4, 4), (3, 0)])
def test_half_of_the_calls_are_inside(tmp_path, inside, marks):
    """Those of another thread, or around an optimizer alone, hold few."""
    assert (inside / 8 >= LEAST_CALLS) == bool(marks)
    outside = work(8 - inside, begin=90, first=20)  # after each range is closed
    events = [*work(inside), *outside]
    assert len(rank_of(tmp_path, ranges(numbered("step {}")), events).steps) == marks


def test_of_several_series_the_longest_counts(tmp_path):
    """Parts of a step that count from 0 in each are no steps, and a warm-up is not the job."""
    parts = [
        host(LENGTH * turn + 20 * part, 15, f"micro_batch {part}", cat="user_annotation")
        for turn in range(4)
        for part in range(4)
    ]
    loads = ranges(numbered("load batch {}", 6), every=60, length=50, tid=2)
    warm = ranges(["warmup iteration 0"], begin=-2000, length=1900)
    of_optimizer = ranges(["step"] * 4, begin=70, length=8)
    marks = [*parts, *loads, *warm, *of_optimizer, *ranges(numbered("step {}"))]
    rank = rank_of(tmp_path, marks)
    assert rank.steps.distinct == (0, 1, 2, 3)


@pytest.mark.parametrize(
    ("mark", "source"),
    [
        (step(3, 0, 900), "ProfilerStep"),
        (host(0, 9, "execute_context_0(0)_generation_4(4)", cat="user_annotation"), "server"),
        (host(0, 900, "model_inference", cat="user_annotation"), "request"),
        (host(0, 9, "Optimizer.step#SGD.step", cat="user_annotation"), "range"),
    ],
)
def test_which_marks_come_before(tmp_path, mark, source):
    assert rank_of(tmp_path, [mark, *ranges(numbered("step {}"))]).steps.source == source


@pytest.mark.parametrize("text", ["<b>{{0}}</b> step {}", "{{}}\n{{a}} step {}", "{{ step {}"])
def test_names_are_only_text(tmp_path, text):
    rank = rank_of(tmp_path, ranges(numbered(text)))
    assert rank.steps.source == "range"
    assert any("mark the steps" in each.text() for each in rank.notices)


@pytest.mark.parametrize("text", ["Client's iteration {}", "train_step"])
def test_an_anonymous_copy_has_the_same_steps(tmp_path, text):
    rank = rank_of(tmp_path, [*ranges(["warmup step 1"] * 3, begin=-900), *ranges(numbered(text))])
    anonymise(tmp_path / "trace.json", tmp_path / "copy")
    copy = open_trace(tmp_path / "copy", progress=False).rank(0)
    assert copy.steps.source == "range"
    pd.testing.assert_frame_equal(copy.steps.to_frame(), rank.steps.to_frame())
    assert not any("Client" in name for name in copy.trace.events.name.values)


COUNTED = ("step ", "iter_", "outer batch ")


def spans_by_count(marks, calls, text):
    """Total length and spans of a series that may mark steps, one condition after the other."""
    own = [each for each in marks if each["name"].startswith(text)]
    spans = [(each["ts"], each["ts"] + each["dur"]) for each in own]
    counts = [int(each["name"].removeprefix(text)) for each in own]
    inside = sum(any(begin <= at < end for begin, end in spans) for at in calls)
    rises = all(after == before + 1 for before, after in pairwise(counts))
    apart = all(after[0] >= before[1] for before, after in pairwise(spans))
    if len(own) < FEWEST_RANGES or not (rises and apart and 0 < inside >= LEAST_CALLS * len(calls)):
        return 0, []
    return sum(end - begin for begin, end in spans), [*zip(counts, spans, strict=True)]


@given(
    st.lists(
        st.tuples(st.sampled_from([*COUNTED, "layer "]), st.booleans(), st.integers(1, 200)),
        max_size=12,
    ),
    st.integers(0, 3),
)
def test_marks_are_what_a_loop_over_all_series_finds(tmp_path_factory, drawn, repeated):
    marks, at, count = [], 0, 0
    for place, (text, overlaps, length) in enumerate(drawn):
        count += place != repeated
        marks += ranges([f"{text}{count}"], begin=at, length=length)
        at += length // 2 if overlaps and place == repeated else length + 1
    others = work(max(at // LENGTH, 1))
    steps = rank_of(tmp_path_factory.mktemp("ranges"), marks, others).steps
    origin = min(each["ts"] for each in [*marks, *others])
    calls = [each["ts"] for each in others if each["cat"] == "cuda_runtime"]
    found = [spans_by_count(marks, calls, text) for text in COUNTED]
    longest = max(length for length, _ in found)
    begins, ends = (
        [ns // 1000 + origin for ns in each.tolist()] for each in (steps.start_ns, steps.end_ns)
    )
    marked = [*zip(steps.number.tolist(), zip(begins, ends, strict=True), strict=True)]
    assert marked in [spans for length, spans in found if length == longest]


def test_a_job_that_counts_its_steps_has_the_verdict_of_profiler_steps(tmp_path):
    write_sample(tmp_path / "profiler", ranks=2, steps=6, progress=False)
    (tmp_path / "own").mkdir()
    for path in (tmp_path / "profiler").glob("*.json.gz"):
        text = gzip.decompress(path.read_bytes()).replace(b"ProfilerStep#", b"training iteration ")
        (tmp_path / "own" / path.name).write_bytes(gzip.compress(text, 1))
    jobs = [open_trace(tmp_path / name, progress=False) for name in ("profiler", "own")]
    assert [job.rank(0).steps.source for job in jobs] == ["ProfilerStep", "range"]
    expected, found = (step_table(job).steps for job in jobs)
    pd.testing.assert_frame_equal(found, expected)
    expected, found = (gpu_annotations(job).annotations for job in jobs)
    pd.testing.assert_frame_equal(found, expected)
    expected, found = (
        [(each.cause, str(each), each.recoverable_ms) for each in diagnose(job).findings]
        for job in jobs
    )
    assert expected
    assert found == expected


def test_what_is_lost_between_the_ranges_belongs_to_the_next_one(tmp_path):
    """Most loops ask their loader for the next batch outside the range."""
    write_sample(tmp_path / "profiler", ranks=2, steps=6, progress=False)
    (tmp_path / "own").mkdir()
    for path in (tmp_path / "profiler").glob("*.json.gz"):
        trace = json.loads(gzip.decompress(path.read_bytes()))
        events = [each for each in trace["traceEvents"] if each["ph"] == "X"]
        loads = [each for each in events if "DataLoader" in each["name"]]
        for mark in events:
            if mark["name"].startswith("ProfilerStep#") and mark["cat"] == "user_annotation":
                mark["name"] = mark["name"].replace("ProfilerStep#", "iteration ")
                end = mark["ts"] + mark["dur"]
                inside = [each for each in loads if mark["ts"] <= each["ts"] < end]
                mark["ts"] = max(each["ts"] + each["dur"] for each in inside)
                mark["dur"] = end - mark["ts"]
        text = json.dumps(trace).encode()
        (tmp_path / "own" / path.name).write_bytes(gzip.compress(text, 1))
    jobs = [open_trace(tmp_path / name, progress=False) for name in ("profiler", "own")]
    assert jobs[1].rank(0).steps.source == "range"
    expected, found = (
        {each.cause: each.recoverable_ms for each in diagnose(job).findings} for job in jobs
    )
    assert "input_starvation" in expected
    assert found == pytest.approx(expected, rel=0.02)
