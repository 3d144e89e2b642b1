"""Kernels that convert images between NCHW and NHWC."""

from __future__ import annotations

import pytest

from tests.diagnosis.findings import scripts
from tests.diagnosis.findings.thresholds import least_price

TO_LAST = (
    "void cudnn::ops::nchwToNhwcKernel<__half, __half, float, false, true, (cudnnKernelDataType_t)"
    "2>(cudnn::ops::nchw2nhwc_params_t<float>, __half const*, __half*)"
)
TO_FIRST = TO_LAST.replace("nchwToNhwc", "nhwcToNchw").replace("nchw2nhwc", "nhwc2nchw")
MIOPEN = "batched_transpose_16x64_pack_1x4_ediv_1x2_half"
CONVOLUTION = "sm80_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc_tilesize128x128x32"
FIRST = "volta_fp16_scudnn_fp16_128x64_relu_interior_nn_v1"


def made(folder, *names, convolution=CONVOLUTION, us=100, ranks=1, slow=None):
    """Steps of ten convolutions of 900 µs, each with kernels of 100 µs beside it."""
    hosts = [scripts.Host() for _ in range(ranks)]
    for number in range(4):
        for rank, one in enumerate(hosts):
            with one.step(number):
                for _ in range(10):
                    one.launch(900, operator="aten::cudnn_convolution", name=convolution)
                    for name in names if rank in (slow or range(ranks)) else ():
                        one.launch(us, operator="aten::cudnn_convolution", name=name)
                one.synchronise()
        if ranks > 1:
            scripts.all_reduce(hosts)
    return scripts.diagnosed(folder, *hosts)


def finding_of(folder, *names, **options):
    return scripts.found(made(folder, *names, **options), "layout_transposes")


def test_conversions_of_cudnn_cost_all_their_time(tmp_path):
    finding = finding_of(tmp_path, TO_LAST, TO_FIRST, us=50)
    assert finding.recoverable_ms == pytest.approx(1.0)
    assert finding.bound == "at least"
    assert finding.sentence.startswith(
        "10 % of the compute time is in 20 kernels per step that convert images between NCHW and "
        "NHWC, most in cudnn::ops::nchwToNh"
    )
    assert finding.evidence["kernels"][["kernel", "count"]].to_numpy().tolist() == [
        [TO_LAST, 30],
        [TO_FIRST, 30],
    ]
    assert finding.evidence["convolutions_in_nhwc_ms"] == pytest.approx(27)
    assert finding.advice[0].do.startswith("Keep images in NHWC, as the convolutions use it")


@pytest.mark.parametrize(
    "name",
    [
        MIOPEN,
        "nchwToFoldedNhwcKernel",
        "void cudnn::ops::ncdhwToNdhwcKernel<float>(int)",
        "void nhwcToNchwKernel<float>(int)",
    ],
)
def test_other_names_of_conversions(tmp_path, name):
    assert finding_of(tmp_path, name).recoverable_ms == pytest.approx(1.0)


@pytest.mark.parametrize(
    "name",
    [
        "void at::native::(anonymous namespace)::max_pool_forward_nchw<float, float>(int)",
        "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, int, 512, true, 1, true>(int)",
        "void cudnn::ops::nhwcAddPaddingKernel<__half, __half, float, true>(int)",
        "void cudnn::ops::nhwcToFoldedNhwcKernel<__half>(int)",
        "igemm_fwd_gtcx2_nhwc_bf16_bx0_ex1_bt128x128x32",
        "void transpose_readWrite_alignment_kernel<float, float, 1, false, 6, 4, 4>(int)",
        "tensor_batched_transpose_kernel",
    ],
)
def test_kernels_that_compute_in_a_layout_convert_nothing(tmp_path, name):
    assert finding_of(tmp_path, name) is None


def test_one_layout_from_the_input_on_is_silent(tmp_path):
    assert not made(tmp_path)


def test_where_no_convolution_takes_nhwc_one_layout_is_advised(tmp_path):
    finding = finding_of(tmp_path, TO_LAST, convolution=FIRST)
    assert finding.evidence["convolutions_in_nhwc_ms"] == 0
    assert finding.bound == "about"
    assert finding.advice[0].do.startswith("Keep one layout from the input on")


POOL_LAST = "void at::native::(anonymous namespace)::max_pool_forward_nhwc<float, int>(int)"
POOL_FIRST = POOL_LAST.replace("nhwc", "nchw")
NORM_LAST = "void at::native::batch_norm_transform_input_channels_last_kernel<float, 4>(int)"
NORM_FIRST = "void at::native::batch_norm_transform_input_kernel<float, true>(int)"
CUDNN_LAST = "void cudnn::batchnorm_fwtr_nhwc_semiPersist<float, 512>(int)"
CUDNN_FIRST = "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, int, 512>(int)"
FLOAT32 = "sm80_xmma_dgrad_implicit_gemm_f32f32_f32f32_f32_nchwkcrs_nchw_tilesize32x32x8_ffma_cudnn"
TOO = "; pools and norms of NHWC are often faster, too: "


@pytest.mark.parametrize("layer", [POOL_FIRST, NORM_FIRST, CUDNN_FIRST])
def test_where_the_images_are_nchw_their_other_kernels_are_named_as_well(tmp_path, layer):
    finding = finding_of(tmp_path, TO_LAST, layer)
    assert finding.bound == "at least"
    assert TOO in finding.sentence
    assert finding.evidence["layers_in_nchw_ms"] == pytest.approx(3)
    assert finding.advice[0].do.startswith("Keep images in NHWC,")


@pytest.mark.parametrize("layer", [POOL_LAST, NORM_LAST, CUDNN_LAST])
def test_images_that_are_nhwc_already_need_convolutions_that_take_them(tmp_path, layer):
    one = scripts.Host()
    for number in range(4):
        with one.step(number):
            for _ in range(10):
                for name in (FLOAT32, FLOAT32, CONVOLUTION, layer, TO_LAST):
                    one.launch(100, operator="aten::cudnn_convolution", name=name)
            one.synchronise()
    gpu = {"name": "NVIDIA A100-SXM4-40GB", "computeMajor": 8, "computeMinor": 0}
    finding = scripts.found(scripts.diagnosed(tmp_path, one, gpu=gpu), "layout_transposes")
    assert finding.bound == "about"
    assert TOO not in finding.sentence
    assert finding.evidence["layers_in_nhwc_ms"] == pytest.approx(3)
    assert finding.advice[0].do.startswith("Compute the convolutions in 16 bits:")
    assert not any("channels_last" in each.code for each in finding.advice)


@pytest.mark.parametrize(
    ("first_us", "last_us", "is_last"), [(10, 9, False), (10, 11, True)], ids=["NCHW", "NHWC"]
)
def test_most_of_the_time_of_other_layers_tells_the_layout(tmp_path, first_us, last_us, is_last):
    one = scripts.Host()
    for number in range(4):
        with one.step(number):
            for name, us in ((CONVOLUTION, 900), (TO_LAST, 300)):
                one.launch(us, operator="aten::cudnn_convolution", name=name)
            one.launch(first_us, name=NORM_FIRST)
            one.launch(last_us, name=NORM_LAST)
            one.synchronise()
    finding = scripts.found(scripts.diagnosed(tmp_path, one), "layout_transposes")
    assert (finding.bound == "about") == is_last
    assert any("channels_last" in each.code for each in finding.advice) != is_last


def test_the_rank_that_converts_is_named(tmp_path):
    finding = finding_of(tmp_path, TO_LAST, ranks=3, slow=(1,))
    assert finding.ranks == (1,)
    assert "10 % of the compute time on rank 1 is in 10 kernels per step" in finding.sentence


def test_behind_a_slow_host_it_is_a_notice(tmp_path):
    one = scripts.Host()
    for number in range(4):
        with one.step(number):
            for _ in range(10):
                one.launch(20, name=CONVOLUTION, takes=200)
                one.launch(100, name=TO_LAST, takes=10)
            one.synchronise()
    result = scripts.diagnosed(tmp_path, one)
    assert scripts.found(result, "layout_transposes") is None
    assert any(each.startswith("one layout of images would save") for each in result.notices)


test_least_price = least_price(
    "layout_transposes", "least_percent_with_evidence", lambda folder: made(folder, TO_LAST)
)
