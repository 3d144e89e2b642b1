"""The steps of an optimizer mark those of a training that nothing else marks."""

from __future__ import annotations

import pytest

from hta_widgets import open_trace
from hta_widgets.analyses import step_table
from tests.kineto_text import call, host, kernel, step, write

ADAM, SGD = "Optimizer.step#AdamW.step", "Optimizer.step#SGD.step"
HALF = 90
"""Where in each turn of 200 µs the optimizer begins; it takes 10 µs."""


def turns(count, name=ADAM, *, begin=100, tid=1):
    return [
        host(begin + 200 * turn + HALF, 10, name, cat="user_annotation", tid=tid)
        for turn in range(count)
    ]


def job_of(folder, marks, *, count=6):
    """Turns of 200 µs: a kernel in each, launched before the optimizer, and another one by it."""
    events = []
    for turn in range(count):
        begin = 100 + 200 * turn
        for place, at in enumerate((10, HALF + 1)):
            number = 2 * turn + place + 1
            events += [
                call(begin + at, 5, number),
                kernel(begin + at + 6, 40, correlation=number),
            ]
    return open_trace(write(folder / "trace.json", [*events, *marks]), progress=False)


def rank_of(folder, marks):
    return job_of(folder, marks).rank(0)


def test_a_step_lasts_from_the_end_of_an_optimizers_to_the_next(tmp_path):
    rank = rank_of(tmp_path, turns(6))
    assert (rank.steps.source, rank.steps.distinct) == ("optimizer", (1, 2, 3, 4, 5))
    first_ns = 1000 * (100 + HALF + 10 - 110)  # the first call is at 110 µs
    assert rank.steps.start_ns.tolist() == [first_ns + 200_000 * turn for turn in range(5)]
    assert rank.steps.end_ns.tolist()[:-1] == rank.steps.start_ns.tolist()[1:]
    said = [str(each) for each in rank.notices]
    assert any(
        "from the end of one step of the optimizer to the end of the next" in each for each in said
    )
    assert any("the last training step, 5, is left out" in each for each in said)


def test_a_step_has_the_work_of_its_turn(tmp_path):
    steps = step_table(job_of(tmp_path, turns(6))).steps
    assert steps["step"].tolist() == [1, 2, 3, 4]
    assert steps["gpu_work"].tolist() == [2, 2, 2, 2]
    assert steps["period_ns"].tolist()[1:] == [200_000] * 3


@pytest.mark.parametrize(
    ("name", "count"),
    [
        *((name, 5) for name in ("opt.step()", "optimizer", "Optimizer step", "optim_step")),
        *((name, 0) for name in ("opt", "my optimizer", "optimizer.zero_grad()", "optimize")),
    ],
)
def test_ranges_of_the_program_around_its_optimizer(tmp_path, name, count):
    """As in recordings of Nsight Systems, in which PyTorch writes none."""
    assert len(rank_of(tmp_path, turns(6, name)).steps) == count


@pytest.mark.parametrize(
    ("marks", "distinct"),
    [
        ([*turns(6), *turns(4, SGD)], (1, 2, 3, 4, 5)),  # the one that is called most often
        ([*turns(6), *[{**each, "dur": 6} for each in turns(6)]], (1, 2, 3, 4, 5)),  # inside
        ([*turns(3), *turns(3, begin=800, tid=2)], ()),  # of two threads
        ([*turns(6), *[{**each, "pid": 2} for each in turns(6, begin=101)]], ()),  # of two ranks
        (turns(6, "Optimizer.step#AdamW.step_2"), ()),
        (turns(6, "Optimizer.zero_grad#AdamW.zero_grad"), ()),
    ],
)
def test_which_calls_mark_steps(tmp_path, marks, distinct):
    assert rank_of(tmp_path, marks).steps.distinct == distinct


@pytest.mark.parametrize(
    ("mark", "source"),
    [
        (step(3, 90, 900), "ProfilerStep"),
        (host(90, 9, "execute_context_0(0)_generation_4(4)", cat="user_annotation"), "server"),
    ],
)
def test_other_marks_come_before(tmp_path, mark, source):
    assert rank_of(tmp_path, [*turns(6), mark]).steps.source == source


@pytest.mark.parametrize(("count", "marks"), [(3, 0), (4, 3)])
def test_few_calls_mark_none(tmp_path, count, marks):
    assert len(rank_of(tmp_path, turns(count)).steps) == marks
