"""Kernel types by category, collective fields, names and the user's rules."""

from __future__ import annotations

import re

import pytest

from hta_widgets.errors import ParameterError
from hta_widgets.trace.loaders.kineto.load import load_kineto
from hta_widgets.trace.model import kernels
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
    "void dpsk::ep::internode::dispatch<false, 8, true, 8>(int4*, float*, long*)",
    "void userbuffers_fp16_sum_inplace_gpu_rw_ag<2>(int, int, int, void**, int, unsigned long)",
    "void userbuffers_fp16_sum_inplace_gpu_mc_rs_oop<8>(int, int, int, int, int, int)",
    "kuserbuffers_pushsend(int*, int*, int4*, int4*, int)",
    "void mori::moe::EpDispatchIntraNodeKernel<hip_bfloat16>(mori::moe::EpDispatchCombineArgs)",
    "EpCombineInterNodeV1Kernel_bf16",
    "void uccl::internode_ll::dispatch<true, false, 7168>(void*, void*, int*, long*, int*)",
    "void uccl::intranode::combine<__nv_bfloat16, 8, 768>(__nv_bfloat16*, float*)",
    "triton_all_reduce",
    "c10d::symmetric_memory::barrier_kernel(unsigned int**, int, int, int, unsigned long)",
    "void a2a_dispatch_send_kernel<true, 16, 8>(unsigned long, unsigned long, unsigned long)",
    "void tensorrt_llm::kernels::fused_moe_impl::moeAllToAllKernel<1, true>(int)",
    "void moeA2ADispatchKernel<8, false, true>(int const*)",
    "void moeA2ACombineKernel<8, true>(int)",
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
    "triton_poi_fused_all_reduce_0",
    "triton_poi_fused_all_reduce_lift_fresh_0",
    "triton_red_fused__to_copy_all_gather_into_tensor_native_layer_norm_3.kd",
    "model_triton_per_fused_add_reduce_scatter_tensor_1",
    "triton_fused_wait_tensor_all_to_all_single_0d1d2d",
    "StepCombineKernel",
]
MEMORY = ["__amd_rocclr_copyBuffer", "FillBuffer", "CopyDeviceToHost", "hipMemcpyDtoD", "dma_read"]


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


@pytest.mark.parametrize(
    ("names", "patterns"),
    [
        (COMMUNICATION, kernels.COMMUNICATION_NAMES),
        (COMPUTATION, kernels.COMPUTATION_NAMES),
        (MEMORY, kernels.MEMORY_NAMES),
    ],
)
def test_every_rule_has_a_real_name(names, patterns):
    text = "\n".join(names)
    flags = re.IGNORECASE | re.MULTILINE
    assert [pattern for pattern in patterns if not re.search(pattern, text, flags)] == []


def test_copies_between_gpus_are_memory_unless_a_rule_says_otherwise(tmp_path):
    events = [kernel(0, 1, name="Memcpy PtoP (Device -> Device)", cat="gpu_memcpy")]
    assert types_of(tmp_path, events) == [KernelType.MEMORY]
    rules = {"COMMUNICATION": "^Memcpy PtoP"}
    assert types_of(tmp_path, events, rules) == [KernelType.COMMUNICATION]


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
        ({"COMMS": ["x"]}, "COMPUTATION, COMMUNICATION, MEMORY, CUDA_GRAPH, OTHER"),
        ({"MEMORY": ["("]}, "not a valid regular expression"),
    ],
)
def test_wrong_rules_say_what_is_wrong(rules, words):
    with pytest.raises(ParameterError, match=words):
        KernelRules.from_user(rules)
