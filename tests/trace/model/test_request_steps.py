"""Spans of whole requests mark steps where nothing else does."""

from __future__ import annotations

import pytest

from hta_widgets import open_trace
from tests.kineto_text import call, host, kernel, step, write

DIFFUSION = "execute_diffusion_1_256x256"


def rank_of(folder, *spans, also=()):
    """A kernel each 100 µs, and spans of a name, start and length."""
    events = []
    for number in range(1, 10):
        events += [call(100 * number, 5, number), kernel(100 * number + 20, 50, correlation=number)]
    events += [host(start, length, name, cat="user_annotation") for name, start, length in spans]
    return open_trace(write(folder / "trace.json", [*events, *also]), progress=False).rank(0)


def test_requests_are_steps_and_the_last_is_left_out(tmp_path):
    rank = rank_of(tmp_path, (DIFFUSION, 90, 250), (DIFFUSION, 390, 250), (DIFFUSION, 690, 250))
    assert (rank.steps.source, rank.steps.distinct) == ("request", (0, 1, 2))
    assert rank.steps.start_ns.tolist() == [0, 300_000, 600_000]
    assert any("the last request, 2, is left out" in str(each) for each in rank.notices)


def test_what_is_inside_of_a_request_is_none(tmp_path):
    rank = rank_of(
        tmp_path, (DIFFUSION, 90, 500), ("model_inference", 190, 100), (DIFFUSION, 590, 9)
    )
    assert rank.steps.end_ns.tolist() == [500_000, 509_000]


@pytest.mark.parametrize("name", ["execute_diffusion", "model_inferences", f"x {DIFFUSION}"])
def test_other_names_mark_nothing(tmp_path, name):
    assert len(rank_of(tmp_path, (name, 90, 900)).steps) == 0


@pytest.mark.parametrize(
    ("also", "source"),
    [
        (step(3, 90, 900), "ProfilerStep"),
        (host(90, 9, "execute_context_0(0)_generation_4(4)", cat="user_annotation"), "server"),
    ],
)
def test_others_come_before(tmp_path, also, source):
    assert rank_of(tmp_path, (DIFFUSION, 90, 900), also=[also]).steps.source == source


def test_training_has_no_requests(tmp_path):
    also = host(100, 9, "Optimizer.step#SGD.step", cat="user_annotation")
    assert len(rank_of(tmp_path, ("model_inference", 90, 900), also=[also]).steps) == 0
