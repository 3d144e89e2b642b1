"""What every real trace is a recording of: told apart by hand, from the raw files."""

from __future__ import annotations

import pytest

from tests.golden.reference import opened
from tests.golden.test_verdicts import recordings

KINDS = {
    "training": [
        "converted/compare_control/cupti_csv",
        "converted/compare_control/nsys_sqlite",
        "converted/dlrm_2rank/cupti_csv",
        "converted/dlrm_2rank/nsys_parquetdir",
        "converted/dlrm_2rank/nsys_sqlite",
        "converted/dlrm_2rank/nsys_sqlite_node",
        "kineto/compare_control",
        "kineto/compare_test",
        "kineto/ddp_rank1of2",
        "kineto/dlrm_2rank",
        "kineto/mi210_gpu_only",
        "kineto/mi250_toy",
        "kineto/ns_resolution",
        "more/dlrm_8rank",
    ],
    "server": ["kineto/b200_eager", "kineto/sglang_decode_graph", "kineto/vllm_piecewise"],
    "request": [
        "converted/h100_bert/nsys_sqlite",
        "kineto/h100_bert",
        "kineto/h100_qwen",
        "kineto/mi300_bert",
        "kineto/mi300_timesformer",
        "kineto/triton",
    ],
    "inference without marks": [
        "kineto/alexnet",
        "kineto/cupti_counters",
        "kineto/event_sync_multi_stream",
        "kineto/simple_add",
        "kineto/torch_compile",
        "nsys/h100_2gpu_1s.sqlite",
    ],
    "graph capture": ["kineto/sglang_capture", "kineto/vllm_piecewise_capture"],
    "CPU only": ["kineto/cpu_only", "kineto/no_distributed_info", "kineto/no_rank"],
    # GPU work without operators: kernels, or sums of them
    "unknown": [
        "converted/compare_control/nsys_recipe",
        "converted/dlrm_2rank/nsys_recipe",
        "converted/h100_bert/cupti_csv",
        "converted/h100_bert/nsys_recipe",
        "nsys/healthy_1pct.sqlite",
    ],
}

IN_WORDS = {
    "kineto/b200_eager": "vLLM server",
    "kineto/sglang_decode_graph": "SGLang server",
    "kineto/vllm_piecewise": "vLLM server",
    "kineto/alexnet": "inference, steps not marked",
    "kineto/dlrm_2rank": "training",
    "kineto/mi210_gpu_only": "training",
}

GRAPHS = {"sglang_capture": (544,), "vllm_piecewise_capture": (4, *[15] * 23, 12)}


def test_every_real_trace_has_a_kind(real_traces):  # noqa: ARG001
    assert sorted(each for names in KINDS.values() for each in names) == recordings()


@pytest.mark.parametrize(
    ("kind", "recording"), [(kind, each) for kind, names in KINDS.items() for each in names]
)
def test_the_kind_of_a_real_trace(real_traces, kind, recording):
    assert opened(real_traces / recording).kind == kind


@pytest.mark.parametrize(("recording", "words"), IN_WORDS.items())
def test_a_header_names_the_engine(real_traces, recording, words):
    assert opened(real_traces / recording).kind_in_words == words


@pytest.mark.parametrize(("recording", "operations"), GRAPHS.items())
def test_operations_of_captured_graphs(real_traces, recording, operations):
    job = opened(real_traces / "kineto" / recording)
    assert job.kinds[job.ranks[0]].captures.operations == operations
