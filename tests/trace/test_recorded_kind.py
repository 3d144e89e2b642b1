"""What a recording is of, by its names; which evidence goes before which, and where it begins."""

from __future__ import annotations

import pytest

from hta_widgets.trace.model.captures import captures_of
from hta_widgets.trace.opening.open import open_trace
from hta_widgets.trace.ranks.recorded_kind import by_rank
from tests.kineto_text import call, host, kernel, step, write

BEGIN, END = "cudaStreamBeginCapture", "cudaStreamEndCapture"
WORK = [call(10, 5, 1), kernel(20, 50, correlation=1)]
OPERATOR = host(5, 20, "aten::mm")
SPAN = host(0, 100, "execute_new_0_cached_3", cat="user_annotation")
OPTIMIZER = host(60, 5, "Optimizer.step#AdamW.step", cat="user_annotation")


def backward(count, name="MmBackward0"):
    return [host(100 + each, 0.5, name) for each in range(count)]


def captured(inside, outside, *, ask="x"):
    """Launches inside a capture, and after it."""
    launches = [call(100 + each, 0.5, 0, name="cudaLaunchKernel") for each in range(inside)]
    launches += [call(500 + each, 0.5, 0, name="cudaLaunchKernel") for each in range(outside)]
    return [call(99, 0.5, 0, name=BEGIN), *launches, call(400, 0.5, 0, name=END), host(0, 1, ask)]


def compiling(percent, by="torch/_inductor/compile_fx.py(1): f"):
    """A recording of 1000 µs, with work in the first."""
    frame = host(0, 10 * percent, by, cat="python_function")
    return [call(0, 0.5, 1), kernel(1, 999, correlation=1), OPERATOR, frame]


LOADER = host(0, 9, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__")
PIPELINE = host(0, 9, "transformers/pipelines/base.py(85): no_collate_fn", cat="python_function")

KINDS = [
    ([], "CPU only"),
    ([OPERATOR, OPTIMIZER], "CPU only"),
    (WORK, "unknown"),
    ([*WORK, OPERATOR], "inference without marks"),
    ([*WORK, OPERATOR, step(1, 0, 100)], "request"),
    ([*WORK, OPERATOR, step(1, 0, 100), LOADER], "inference steps"),
    ([*WORK, OPERATOR, step(1, 0, 100), LOADER, PIPELINE], "request"),
    ([*WORK, OPERATOR, step(1, 0, 50), step(2, 50, 50)], "inference steps"),
    ([*WORK, host(0, 9, "execute_diffusion_3_64x64", cat="user_annotation")], "request"),
    ([*WORK, OPTIMIZER], "training"),
    ([*WORK, host(0, 9, "## backward ##", cat="user_annotation")], "training"),
    ([*WORK, host(0, 9, "backward_pass", cat="user_annotation")], "training"),
    ([*WORK, host(0, 9, "loss.Backward()", cat="user_annotation"), OPERATOR], "training"),
    ([*WORK, host(0, 9, "Thunk:#transpose(jvp(lm.apply))#", cat="user_annotation")], "training"),
    (
        [*WORK, host(0, 9, "feedbackward", cat="user_annotation"), OPERATOR],
        "inference without marks",
    ),
    ([*WORK, host(0, 9, "opt.step()", cat="user_annotation"), OPERATOR], "training"),
    ([*WORK, host(0, 9, "opt.step()")], "inference without marks"),
    ([*WORK, host(0, 9, "backward")], "inference without marks"),  # an operator of that name
    # kernels, where no operators are recorded
    ([*WORK, kernel(0, 9, name="ampere_sgemm_wgrad")], "training"),
    ([*WORK, kernel(0, 9, name="flash_bwd_dot_kernel")], "training"),
    ([*WORK, kernel(0, 9, name="void (anonymous namespace)::AdamFunctor<float>")], "training"),
    ([*WORK, kernel(0, 9, name="adamw_kernel3")], "training"),
    (
        [*WORK, kernel(0, 9, name="cudnn::bn_bw_dgrad"), *[kernel(0, 9, name="hadamard_w")]],
        "unknown",
    ),
    ([*WORK, kernel(0, 9, name="layer_norm_backward"), OPERATOR], "inference without marks"),
    ([*WORK, host(0, 9, "aten::_fused_adamw_")], "training"),
    ([*WORK, OPTIMIZER, step(1, 0, 100)], "training"),
    # a backward pass: the name of one operator may be anything
    ([*WORK, *backward(4)], "inference without marks"),
    ([*WORK, *backward(5)], "training"),
    # the forward pass prepares it: of FSDP, and of activation checkpoints
    ([*WORK, *backward(4, "RegisterPostBackwardFunction")], "inference without marks"),
    ([*WORK, *backward(5, "RegisterPostBackwardFunction")], "training"),
    ([*WORK, *backward(5, "_NoopSaveInputs")], "training"),
    ([*WORK, *backward(5, "_NoopSaveInputsOfMine")], "inference without marks"),
    ([*WORK, OPERATOR, SPAN, step(1, 0, 100)], "server"),
    ([*WORK, SPAN, OPTIMIZER], "rollout + training"),
    ([*WORK, OPERATOR, host(0, 100, "step[idle]")], "inference without marks"),
    # captures
    (captured(20, 80), "graph capture"),
    (captured(19, 81), "inference without marks"),
    (captured(1, 99, ask="capture_8_PIECEWISE"), "graph capture"),
    ([*captured(20, 80), SPAN, OPTIMIZER], "graph capture"),
    # what asks whether a stream is capturing is no evidence, and neither is half a capture
    ([*WORK, call(1, 1, 2, name="cudaStreamGetCaptureInfo_v2")], "unknown"),
    ([*WORK, call(1, 1, 2, name="cudaStreamIsCapturing")], "unknown"),
    ([*WORK, call(1, 1, 2, name=BEGIN)], "unknown"),
    ([*WORK, call(90, 1, 2, name=END)], "unknown"),
    # compilation
    (compiling(20), "compilation"),
    (compiling(20, by="executor_utils::NVRTC"), "compilation"),
    (compiling(19.9), "inference without marks"),
    ([*compiling(50), OPTIMIZER], "training"),
    ([*compiling(50), SPAN], "server"),
]


@pytest.mark.parametrize(("events", "kind"), KINDS)
def test_what_is_recorded(tmp_path, events, kind):
    assert open_trace(write(tmp_path / "rank-0.json", events), progress=False).kind == kind


def test_annotations_of_the_gpu_are_not_needed(tmp_path):
    mirrored = [*WORK, kernel(0, 90, name=SPAN["name"], cat="gpu_user_annotation")]
    assert open_trace(write(tmp_path / "rank-0.json", mirrored), progress=False).kind == "unknown"


def test_a_capture_counts_the_outer_launches_of_its_own_thread(tmp_path):
    inner = call(100.1, 0.2, 0, name="cuLaunchKernel", cat="cuda_driver")
    elsewhere = call(102, 0.5, 0, tid=7)
    trace = write(tmp_path / "rank-0.json", [*captured(3, 1), inner, elsewhere])
    found = captures_of(open_trace(trace, progress=False).rank(0).trace.events)
    assert found.operations == (3,)
    assert found.launches == 5


def test_ranks_that_differ_are_listed(tmp_path):
    write(tmp_path / "rank-0.json", [*WORK, SPAN])
    write(tmp_path / "rank-1.json", [*WORK, OPTIMIZER])
    write(tmp_path / "rank-2.json", [*WORK, OPTIMIZER])
    job = open_trace(tmp_path, progress=False)
    assert job.kind == "rank 0: server; ranks 1-2: training"
    assert job.kind_in_words == "rank 0: vLLM server; ranks 1-2: training"


def test_many_ranks_alike_are_named_once():
    assert by_rank(dict.fromkeys(range(64), "training")) == "training"
    assert by_rank({}) == ""
