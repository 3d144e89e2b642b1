"""The input of a request is prepared on the CPU."""

from __future__ import annotations

import pytest

from hta_widgets import diagnose, open_trace
from tests.diagnosis.findings.scripts import Host, diagnosed, found
from tests.diagnosis.findings.thresholds import least_price
from tests.kineto_text import host, write
from tests.server_loops import request

WORKERS = "torch/utils/data/dataloader.py(1420): _MultiProcessingDataLoaderIter.__next__"
ALONE = "torch/utils/data/dataloader.py(733): _SingleProcessDataLoaderIter.__next__"


def of(folder, events):
    return diagnose(open_trace(write(folder / "trace.json", events), progress=False))


def test_the_cpu_prepares_a_request(tmp_path):
    made = of(tmp_path, request(30_000))
    finding = found(made, "preprocessing")
    assert finding.recoverable_ms == pytest.approx(30, rel=0.02)
    assert finding.sentence.startswith("The CPU prepares the input for up to 30 ms while the GPU ")
    assert "videomae.py(235): preprocess" in finding.sentence
    assert finding.advice[0].do.startswith(
        "Prepare images on the GPU: use a processor that works on tensors"
    )
    assert found(made, "input_starvation") is None


def test_random_input_needs_no_processor_of_images(tmp_path):
    """A batch that ``torch.randn`` makes on the CPU, with two kernels a step."""
    one = Host()
    copies = {"cat": "gpu_memcpy", "name": "Memcpy HtoD (Pageable -> Device)"}
    for number in range(4):
        with one.step(number):
            with one.inside("aten::randn", "cpu_op"):
                one.does("aten::normal_", 4000)
            one.launch(100, operator="aten::to", **copies)
            one.launch(1000)
            one.synchronise()
    made = diagnosed(tmp_path, one)
    assert [each.cause for each in made] == ["preprocessing"]
    assert made[0].advice[0].code == 'inputs = torch.randn(size, device="cuda")'
    assert "image" not in str(made[0].advice)


@pytest.mark.parametrize(
    "name",
    [
        "transformers/feature_extraction_whisper.py(90): __call__",
        "transformers/video_utils.py(600): load_video",
        "transformers/image_transforms.py(300): normalize",
        "scipy/ndimage/_interpolation.py(700): zoom",
        "tokenizers/encode: tokenize",
        "torchvision/io/video.py(200): read_video",
        ALONE,
    ],
)
def test_what_prepares(tmp_path, name):
    """Also a DataLoader without workers, which in a request does nothing ahead."""
    assert found(of(tmp_path, request(30_000, name=name)), "preprocessing")


@pytest.mark.parametrize("name", ["detokenize", "torch/nn/modules/module.py(1700): forward"])
def test_what_prepares_nothing(tmp_path, name):
    assert found(of(tmp_path, request(30_000, name=name)), "preprocessing") is None


def test_silent_on_a_little(tmp_path):
    assert found(of(tmp_path, request(500)), "preprocessing") is None


def test_nobody_marks_steps_in_one_request(tmp_path):
    """Not where its own span is recorded in place of a ProfilerStep."""
    events = request(30_000)
    events[-1]["name"] = "execute_diffusion_1_256x256"
    made = of(tmp_path, events)
    assert made.job.kind == "request"
    assert not made.not_recorded
    assert found(made, "preprocessing")


def test_workers_of_a_loader_could_do_it_ahead(tmp_path):
    made = of(tmp_path, request(30_000, name=WORKERS))
    assert found(made, "preprocessing") is None
    assert "workers" in found(made, "input_starvation").advice[0].do


def test_training_loads_data(tmp_path):
    events = request(30_000)
    events.append(host(40_000, 10, "Optimizer.step#AdamW.step", cat="user_annotation"))
    made = of(tmp_path, events)
    assert found(made, "preprocessing") is None
    assert "executor" in found(made, "input_starvation").advice[0].code


@pytest.mark.parametrize(("name", "cause"), [(ALONE, "input_starvation"), (None, "preprocessing")])
def test_several_requests(tmp_path, name, cause):
    """A DataLoader in the process could be given workers, where there are more batches to come."""
    events = []
    for number in range(3):
        made = request(30_000, **({"name": name} if name else {}))
        for event in made:
            event["ts"] += number * 60_000
            args = event.get("args", {})
            if "correlation" in args:
                args["correlation"] += number * 1_000
        made[-1]["name"] = f"ProfilerStep#{number}"
        events += made
    assert {each.cause for each in of(tmp_path, events)} == {cause}


test_what_it_must_cost = least_price(
    "preprocessing", "least_percent_with_evidence", lambda folder: of(folder, request(30_000))
)
