"""Forward operators that run again in the backward pass: said, with what they take."""

from __future__ import annotations

import pytest

from tests.analyses.diagnosis.scripts import Host, diagnosed
from tests.analyses.diagnosis.thresholds import Case, cases

BACKWARD = "autograd::engine::evaluate_function: AddmmBackward0"
LAYERS = ("aten::linear", "aten::gelu")


def job(again=LAYERS, *, length=200, computing=1000, steps=5):
    """A forward and a backward pass, in which some operators run again for so long (µs)."""
    one = Host()
    for number in range(steps):
        with one.step(number):
            for operator in LAYERS:
                one.launch(length, operator=operator)
            with one.inside(BACKWARD, "cpu_op"):
                for operator in again:
                    one.launch(length, operator=operator, takes=12)
                one.launch(computing, operator="aten::mm")
            one.synchronise()
    return one


def said(made):
    """The notice on it; none."""
    return [each for each in made.notices if each.startswith("forward operators run again")]


def test_activations_that_are_computed_again(tmp_path):
    (notice,) = said(diagnosed(tmp_path, job()))
    assert ": 2 kernels per step, 400 µs on the GPU and 24 µs on the host; keeping " in notice


@pytest.mark.parametrize(
    "again",
    [
        (),
        ("aten::mm", "aten::native_layer_norm_backward"),  # what gradients are computed by
        ("aten::linear", "aten::linear"),  # a backward pass that is written by hand
        ("aten::gelu",),
    ],
)
def test_other_backward_passes_are_silent(tmp_path, again):
    assert not said(diagnosed(tmp_path, job(again)))


def test_a_forward_pass_alone_is_silent(tmp_path):
    one = job()
    one.events = [each for each in one.events if each["name"] != BACKWARD]
    assert not said(diagnosed(tmp_path, one))


def is_said(folder, percent):
    """Whether so much of a step is worth a notice: of 2 ms, all but 24 µs on the GPU."""
    length = 10 * percent
    return bool(said(diagnosed(folder, job(length=length, computing=2_000 - 40 * percent - 8))))


test_thresholds = cases(
    Case("Limits.least_percent_with_evidence", is_said, {2.9: False, 3.1: True}),
)
