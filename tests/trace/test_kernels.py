"""Kernel types by category, collective fields, names and the user's rules."""

from __future__ import annotations

import pytest

from hta_widgets.errors import ParameterError
from hta_widgets.trace.loaders.kineto.load import load_kineto
from hta_widgets.trace.model.kernels import KernelRules, KernelType
from tests.kineto_text import kernel, write

COMMUNICATION = [
    "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)",
    "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)",
    "ncclAllReduceRingLLKernel_sum_f32(ncclColl)",
    "void ncclKernel_x",
    "nccl:all_reduce",
    "void mscclKernel_Sum_half_LL<false>(mscclDevComm*)",
    "mscclpp::allreduce7",
    "void nvshmemi_transfer_rma_block",
    "void deep_ep::internode::dispatch<8>(int)",
    "void ep::intranode::combine<8>(int)",
    "void vllm::cross_device_reduce_1stage<float, 2>(vllm::RankData*)",
    "void sglang::cross_device_reduce_2stage<half, 8>()",
    "void quick_reduce::allreduce_prototype_twoshot<int>()",
    "void tensorrt_llm::kernels::oneShotAllReduceKernel<half, 8>()",
    "multimem_all_reduce_kernel<float>",
    "two_shot_all_reduce_kernel",
    "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<1>()",
    "rcclGenericKernel<1>",
    "oneccl_reduce_scatter",
    "hcclAllGather",
]
COMPUTATION = [
    "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float> >(int)",
    "ampere_sgemm_128x64_nn",
    "fusedmax_kernel",
    "void batch_norm_SyncBatchNorm_kernel",
    "hipblas_gemm",
    "void cub::DeviceReduceKernel<int>()",
    "void at::native::reduce_kernel<512, 1>()",
    "void at::native::(anonymous namespace)::gather_kernel()",
    "scatter_gather_elementwise_kernel",
    "moe_align_block_size_kernel",
]
MEMORY = ["__amd_rocclr_copyBuffer", "CopyDeviceToHost", "hipMemcpyDtoD", "dma_read"]


def types_of(tmp_path, events, rules=None):
    table = load_kineto(write(tmp_path / "trace.json", events), rank=0).events
    rows = table.rows_of(*range(4))
    return [KernelType(t) for t in KernelRules.from_user(rules).types(table, rows)]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (COMMUNICATION, KernelType.COMMUNICATION),
        (COMPUTATION, KernelType.COMPUTATION),
        (MEMORY, KernelType.MEMORY),
    ],
)
def test_by_name(tmp_path, names, expected):
    types = types_of(tmp_path, [kernel(i, 1, name=name) for i, name in enumerate(names)])
    assert {name: t for name, t in zip(names, types, strict=True) if t != expected} == {}


def test_category_decides_before_the_name(tmp_path):
    copies = [
        kernel(0, 1, name="ncclKernel", cat="gpu_memcpy"),
        kernel(1, 1, name="x", cat="gpu_memset"),
    ]
    assert types_of(tmp_path, copies) == [KernelType.MEMORY] * 2


def test_collective_fields_decide_before_the_name(tmp_path):
    fused = kernel(0, 1, name="mystery", **{"Collective name": "allreduce"})
    assert types_of(tmp_path, [fused, kernel(1, 1, name="mystery")]) == [
        KernelType.COMMUNICATION,
        KernelType.COMPUTATION,
    ]


def test_own_rules_come_first(tmp_path):
    events = [kernel(0, 1, name="my_ring_kernel"), kernel(1, 1, name="ncclKernel")]
    rules = {"communication": "my_ring", "OTHER": ["^nccl"]}
    assert types_of(tmp_path, events, rules) == [KernelType.COMMUNICATION, KernelType.OTHER]


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ({"COMMS": ["x"]}, "COMPUTATION, COMMUNICATION, MEMORY, OTHER"),
        ({"MEMORY": ["("]}, "not a valid regular expression"),
    ],
)
def test_wrong_rules_say_what_is_wrong(rules, words):
    with pytest.raises(ParameterError, match=words):
        KernelRules.from_user(rules)
