"""What is computed again, or as in training: said, with what it takes."""

from __future__ import annotations

import pytest

from tests.diagnosis.findings.scripts import Host, diagnosed
from tests.diagnosis.findings.thresholds import Case, cases

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


@pytest.mark.parametrize(
    ("names", "operator", "says"),
    [
        (["void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float>"], "aten::batch_norm", True),
        (["void at::native::batch_norm_collect_statistics_kernel"], "aten::batch_norm", True),
        (["void cudnn::bn_fw_tr_1C11_kernel_NCHW<float>", "winograd_nt"], "aten::mm", True),
        (["void cudnn::bn_fw_tr_1C11_kernel_NCHW<float>", "wgrad_nt"], "aten::mm", False),
        (["void cudnn::bn_fw_inf_1C11_kernel_NCHW<float>"], "aten::batch_norm", False),
        (["MIOpenBatchNormFwdTrainSpatial", "MIOpenBatchNormBwdSpatial"], "aten::mm", False),
        (["void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float>"], BACKWARD, False),
    ],
)
def test_a_model_that_is_not_in_evaluation_mode(tmp_path, names, operator, says):
    """Of a ResNet that only answers, 58 of 252 ms were statistics of batches."""
    one = Host()
    for number in range(3):
        with one.step(number):
            for name in names:
                one.launch(200, name=name, operator=operator)
            one.launch(1000)
            one.synchronise()
    notices = [each for each in diagnosed(tmp_path, one).notices if "in training mode" in each]
    said = "batch norm or dropout runs in training mode, 200 µs per step"
    assert notices == says * [f"{said}: if nothing is trained here, call model.eval() first"]


test_thresholds = cases(
    Case("Limits.least_percent_with_evidence", is_said, {2.9: False, 3.1: True}),
)
