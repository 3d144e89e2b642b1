"""Kernels in the field's words: right for real names, and never the same for two of them."""

from __future__ import annotations

import re
from itertools import chain, combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hta_widgets.names.readable import distinct_labels, readable_name

ADD = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>, "
    "std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<c10::BFloat16>)"
)
FLASH = (
    "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<128, 64, 64, 4, "
    "false, false, cutlass::bfloat16_t> >(pytorch_flash::Flash_fwd_params)"
)
CUTLASS = (
    "void cutlass::Kernel2<cutlass_80_{}_32x3_nn_align8>(cutlass_80_{}_32x3_nn_align8::Params)"
)


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x)", "all-reduce ring LL bf16 · nccl"),
        ("ncclDevKernel_AllReduce_Max_f32_TREE_LL128(x)", "all-reduce max tree LL128 fp32 · nccl"),
        (
            "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
            "all-gather ring LL · nccl",
        ),
        ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(x)", "send/receive ring simple · nccl"),
        (
            (
                "void at::native::vectorized_elementwise_kernel<4, at::native::addcdiv_cuda_kernel("
                "at::TensorIteratorBase&)::{lambda(float, float)#1} >(int)"
            ),
            "elementwise addcdiv · at::native",
        ),
        (
            (
                "void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl_nocast<"
                "at::native::<unnamed>::masked_fill_kernel(at::TensorIterator &)> >(int)"
            ),
            "elementwise masked fill · at::native",
        ),
        (
            "void cub::DeviceRadixSortOnesweepKernel<cub::Policy800, false, long>(int*)",
            "radix sort onesweep · cub",
        ),
        ("void gemmSN_TN_kernel<float, 128, 16>(x)", "GEMM few columns fp32 tn · cublas"),
        ("void epilogue::impl::globalKernel<float, float>(int)", "epilogue fp32 · cublas"),
        (
            CUTLASS.replace("{}", "tensorop_bf16_s16816gemm_bf16_256x128"),
            "GEMM 256×128 bf16 nn · cutlass",
        ),
        (CUTLASS.replace("{}", "tensorop_s1688gemm_128x64"), "GEMM 128×64 tf32 nn · cutlass"),
        (CUTLASS.replace("{}", "simt_sgemm_64x64"), "GEMM 64×64 fp32 nn · cutlass"),
        ("ampere_sgemm_32x32_sliced1x4_tn", "GEMM 32×32 fp32 tn · cublas"),
        ("ampere_fp16_s16816gemm_fp16_128x64_ldg8_stages_64x3_nn", "GEMM 128×64 fp16 nn · cublas"),
        ("volta_h884gemm_64x64_ldg8_nn", "GEMM 64×64 fp16 nn · cublas"),
        ("nvjet_tst_192x192_64x4_2x1_v_bz_coopA_bias_TNT", "GEMM 192×192 bf16 tn · cublas"),
        (
            "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize64x64x64_execute_kernel__5x_cublas",
            "GEMM 64×64×64 bf16 · cublas",
        ),
        (
            "Cijk_Alik_Bljk_BBS_BH_Bias_MT256x192x64_MI16x16x1_SN",
            "GEMM 256×192×64 bf16 tn · tensile",
        ),
        (
            "igemm_wrw_gtcx2_nhwc_bf16_bx0_ex1_bt64x32x32_wt16x16x16",
            "conv wgrad 64×32×32 bf16 · miopen",
        ),
        (ADD, "elementwise add bf16 · at::native"),
        (
            "void at::native::(anonymous namespace)::cunn_SoftMaxForward<8, c10::BFloat16, float>",
            "softmax forward bf16 · at::native",
        ),
        ("triton_red_fused_add_mean_0", "fused reduction add_mean · triton"),
        ("triton_poi_fused__unsafe_view_mul_2", "fused unsafe_view_mul · triton"),
        (
            FLASH,
            "FlashAttention fwd bf16 hd128",
        ),
        (
            FLASH.replace("flash_fwd_k", "flash_bwd_dq_dk_dv_loop_seqk_parallel_k"),
            "FlashAttention bwd bf16 hd128",
        ),
        (
            (
                "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<"
                "flash::CollectiveMainloopFwdSm90<2, cutlass::bfloat16_t, float>>>>(int)"
            ),
            "FlashAttention-3 fwd bf16",
        ),
        (
            "void cutlass::device_kernel<flash::FlashAttnBwdPostprocessConvertdQ<cutlass::half_t>>",
            "FlashAttention-3 bwd postprocess fp16",
        ),
        (
            (
                "sm80_xmma_fprop_implicit_gemm_f16f16_f16f16_f16_nhwckrsc_nhwc_tilesize128x64x64_stage3"
                "_warpsize2x2x1_g1_tensor16x8x16_t1r3s3_aACCESS_execute_kernel_trt"
            ),
            "conv fwd 128×64×64 fp16 · tensorrt",
        ),
        ("_5x_cudnn_ampere_scudnn_128x32_relu_small_nn_v1", "conv 128×32 fp32 · cudnn"),
        ("Memcpy HtoD (Pinned -> Device)", ""),
        ("my_gemm_kernel", ""),
        ("aten::add", ""),
        ("void other::elementwise_kernel<float>(float)", ""),
    ],
)
def test_labels(name, label):
    assert readable_name(name) == label


def test_a_name_without_a_label_is_told_apart_from_all_that_it_is_among():
    """One batch norm was `bn_fw<…>` in a table, and in the chart below it also had its numbers."""
    names = [
        f"void cudnn::bn_fw_kernel<float, float, int, {size}, true, 1>()" for size in (128, 32)
    ]
    (alone,) = distinct_labels(names[:1], among=names)
    assert alone == distinct_labels(names)[0] != distinct_labels(names[:1])[0]


@pytest.mark.parametrize("width", [24, 48])
def test_kernels_of_every_real_trace_stay_different(real_kernels: dict[str, list[str]], width: int):
    known = every = 0
    for names in real_kernels.values():
        labels = distinct_labels(names, width)
        assert len(set(labels)) == len(names)
        assert all(len(label) <= width for label in labels)
        known += sum(bool(readable_name(name)) for name in names)
        every += len(names)
    assert known > every / 2


def test_a_type_of_a_label_is_in_the_name(real_kernels: dict[str, list[str]]):
    spelt = {"bf16": "bf16|bfloat16|b_?b?s|nvjet_t", "fp64": "double|dgemm|f64", "fp8": "8"}
    for name in chain.from_iterable(real_kernels.values()):
        for kind, pattern in spelt.items():
            if kind in readable_name(name).split():
                assert re.search(pattern, name, re.IGNORECASE), (name, kind)


parts = st.sampled_from(["float", "c10::BFloat16", "long", "4", "8", "AddFunctor<float>"])
kernels = st.one_of(
    st.builds(
        "void at::native::vectorized_elementwise_kernel<{}, {}>({})".format, parts, parts, parts
    ),
    st.builds("triton_poi_fused_add_{}".format, st.integers(0, 99)),
    st.builds("ampere_sgemm_{}x64_{}_nn".format, st.integers(1, 9), st.sampled_from(["a", "b"])),
    st.text("triton_poi_fused_ab<>:()· ", max_size=60),
    st.text(max_size=80),
)


@given(st.lists(kernels, max_size=30), st.integers(8, 60))
def test_different_names_have_different_labels(names: list[str], width: int):
    labels = distinct_labels(names, width)
    assert len(set(zip(names, labels, strict=True))) == len(set(labels)) == len(set(names))
    assert all(len(label) <= width for label in labels)


def test_a_name_that_looks_like_the_label_of_another():
    names = ["triton_poi_fused_add_0", "fused add · triton"]
    assert len(set(distinct_labels(names))) == 2


@pytest.mark.parametrize("name", ["_Z" + "N" * 5000, "nccl" * 5000, "a" * 100_000, "<" * 3000])
def test_odd_names_have_no_label(name):
    assert readable_name(name) == ""


def test_a_label_is_the_same_for_one_name_as_for_all_that_it_is_among():
    """A sentence named a GEMM by a part of its name that the chart gave to another one."""
    names = [
        f"Cijk_Ailk_Bljk_BBS_BH_MT256x192x64_LB{lb}_UL{ul}" for lb, ul in ((1, 1), (1, 0), (2, 0))
    ]
    all_labels = distinct_labels(names)
    assert len({*all_labels}) == 3
    for name, label in zip(names, all_labels, strict=True):
        assert distinct_labels([name], among=names) == [label]


def test_parts_that_tell_names_apart_are_those_for_which_there_is_room():
    """One of three GEMMs kept its raw name, as its label with the first two parts was too long."""
    start = "Cijk_Alik_Bljk_BBS_BH_MT256x192x64_MI16x16x1_"
    ends = ("LBSPPA1024_MIWT8_6_ULSGRO0", "LBSPPA1024_MIWT8_6_ULSGRO1", "LBSPPA512_ULSGRO0")
    labels = distinct_labels([f"{start}{end}" for end in ends])
    assert [label.partition("(")[2] for label in labels] == [
        "6, ULSGRO0)",
        "ULSGRO1)",
        "LBSPPA512)",
    ]


def test_a_label_among_some_names_is_none_of_another_among_all():
    """The bar of one GEMM of three had the label of another, as a window lacked the third."""
    start = "Cijk_Alik_Bljk_BBS_BH_MT256x192x64_MI16x16x1_"
    names = [f"{start}{end}" for end in ("LB1024_UL0", "LB1024_UL1", "LB512_UL0")]
    among_all = dict(zip(distinct_labels(names), names, strict=True))
    assert [label.partition("(")[2] for label in among_all] == ["LB1024, UL0)", "UL1)", "LB512)"]
    for some in combinations(names, 2):
        for name, label in zip(some, distinct_labels(some), strict=True):
            assert among_all.get(label, name) == name
