"""Products of matrices in float32 that do not use tensor cores."""

from __future__ import annotations

import pytest

from tests.diagnosis.findings import scripts
from tests.diagnosis.findings.thresholds import Case, cases, least_price, price
from tests.diagnosis.findings.training_jobs import (
    US,
    Compute,
    Meet,
    diagnosed,
    found,
    write_training,
)

EVERYBODY = (0, 1)
SGEMM = "ampere_sgemm_128x64_tn"
USE_TF32 = 'torch.set_float32_matmul_precision("high")'
USE_FP16 = 'with torch.autocast("cuda", dtype=torch.float16):\n    ...'
TENSOR = "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x4_tn"
TF32 = "cutlass_80_tensorop_s1688tf32gemm_128x128_16x4_nt_align4"


def products(name, share=1.0):
    def program(rank, step):
        del rank, step
        slow = round(10 * share)
        return [
            *[Compute(500 * US, name)] * slow,
            *[Compute(500 * US, TENSOR)] * (10 - slow),
            Meet(EVERYBODY),
        ]

    return program


def job(folder, name, share=1.0, major=8):
    properties = [{"id": 0, "name": "NVIDIA A100", "computeMajor": major}]
    return write_training(folder, 2, products(name, share), deviceProperties=properties)


def test_products_in_float32_are_named_with_their_shapes(tmp_path):
    finding = found(diagnosed(job(tmp_path, SGEMM)), "no_tensor_cores")

    assert finding.ranks == EVERYBODY
    assert finding.recoverable_ms == pytest.approx(0.75 * 5.0)
    assert finding.sentence.startswith("100 % of the 5 ms in matrix products per step on all ranks")
    kernels = finding.evidence["kernels"]
    assert kernels[["kernel", "shapes", "count"]].to_numpy().tolist() == [[SGEMM, "[[64, 64]]", 40]]
    assert finding.advice[0].code == USE_TF32


def test_volta_has_tensor_cores_for_float16_only(tmp_path):
    finding = found(diagnosed(job(tmp_path, SGEMM, major=7)), "no_tensor_cores")
    assert [each.code for each in finding.advice] == [USE_FP16]


@pytest.mark.parametrize(("others", "is_said"), [(["NVIDIA A100"], True), (["NVIDIA L4"], False)])
def test_a_gpu_that_is_not_listed_is_like_the_others_if_these_are_alike(tmp_path, others, is_said):
    names = ["NVIDIA A100", *others]
    properties = [
        {"id": 6 + place, "name": name, "computeMajor": 8} for place, name in enumerate(names)
    ]
    made = diagnosed(write_training(tmp_path, 2, products(SGEMM), deviceProperties=properties))
    assert bool(made) is is_said


@pytest.mark.parametrize("name", [TENSOR, TF32])
def test_tensor_cores_are_silent(tmp_path, name):
    assert not diagnosed(job(tmp_path, name))


def test_a_small_share_is_silent(tmp_path):
    assert not diagnosed(job(tmp_path, SGEMM, share=0.1))


def test_what_tensor_cores_save_counts_more_than_the_share(tmp_path):
    finding = found(diagnosed(job(tmp_path, SGEMM, share=0.2)), "no_tensor_cores")
    assert finding.sentence.startswith("20 % of the 5 ms in matrix products per step on all ranks")
    assert finding.recoverable_ms == pytest.approx(0.75 * 1.0)


def test_the_share_is_that_of_the_ranks_to_blame(tmp_path):
    def program(rank, step):
        slow = [Compute(250 * US, SGEMM)] * 4 if rank == 3 else []
        return [*slow, *products(TENSOR)(rank, step)[:-1], Meet((0, 1, 2, 3))]

    properties = [{"id": 0, "name": "NVIDIA A100", "computeMajor": 8}]
    made = diagnosed(write_training(tmp_path, 4, program, deviceProperties=properties))
    finding = found(made, "no_tensor_cores")
    assert finding.ranks == (3,)
    assert finding.sentence.startswith("16.7 % of the 6 ms in matrix products per step on rank 3")


@pytest.mark.parametrize(
    "name",
    [
        "void cudnn::winograd_nonfused::winogradForwardData4x4<float, float>(Params<float, float>)",
        "void cudnn::winograd::generateWinogradTilesKernel<0, float, float>(Params)",
    ],
)
def test_transforms_of_float32_convolutions_are_in_float32(tmp_path, name):
    """They were 28.8 % of a ResNet's convolutions, of which "71.2 %" were in float32."""
    finding = found(diagnosed(job(tmp_path, name)), "no_tensor_cores")
    assert finding.sentence.startswith("100 % of the 5 ms in matrix products per step on all ranks")


def test_transforms_in_16_bits_are_silent(tmp_path):
    name = "void cudnn::winograd_nonfused::winogradForwardData4x4<__half, float>(Params)"
    assert not diagnosed(job(tmp_path, name))


@pytest.mark.parametrize("major", [6, None])
def test_devices_without_tensor_cores_or_of_unknown_kind_are_silent(tmp_path, major):
    assert not diagnosed(job(tmp_path, SGEMM, major=major))


@pytest.mark.parametrize(
    "name",
    [
        "cutlass_80_simt_dgemm_128x64_tn_align1",
        "flash_fwd_kernel<float, simt_sgemm>",
        "void at::native::vectorized_elementwise_kernel<4, ffma>",
    ],
)
def test_other_kernels_are_no_float32_products(tmp_path, name):
    assert not found(diagnosed(job(tmp_path, name)), "no_tensor_cores")


A100 = {"name": "NVIDIA A100-SXM4-40GB", "computeMajor": 8, "computeMinor": 0}
V100_HALF = "volta_fp16_sgemm_fp16_128x64_nn"


def finding_of(folder, gpu, *, name=SGEMM, module="nn.Module: Head_0", **operator):
    """Ten products of 500 µs in a module of a model, and one beside it, in each of three steps."""
    one = scripts.Host()
    for number in range(4):
        with one.step(number), one.inside("nn.Module: Model_0", "python_function"):
            with one.inside(module, "python_function"):
                for _ in range(10):
                    one.launch(500, name=name, **operator)
            one.launch(500, name=name, **operator)
            one.synchronise()
    return scripts.found(scripts.diagnosed(folder, one, gpu=gpu), "no_tensor_cores")


def test_memory_bounds_what_tensor_cores_save(tmp_path):
    """They read 406.4 MB, at 1,555 GB/s."""
    finding = finding_of(tmp_path, A100, shapes=[[200_000, 500], [500, 8]])
    assert finding.recoverable_ms == pytest.approx(11 * (0.5 - 0.2613), rel=0.01)


def test_shapes_that_no_gpu_could_compute_are_not_believed(tmp_path):
    finding = finding_of(tmp_path, A100, shapes=[[8192, 8192], [8192, 8192]])
    assert finding.recoverable_ms == pytest.approx(11 * 0.75 * 0.5, rel=0.01)


def test_the_module_that_owns_most_of_them_is_named(tmp_path):
    assert ", 90.9 % of it in Head: " in finding_of(tmp_path, A100).sentence


@pytest.mark.parametrize(
    ("name", "major", "minor", "saved"),
    [
        ("NVIDIA L4", 8, 9, 0.5),
        ("NVIDIA GeForce RTX 3090", 8, 6, 0.5),
        ("NVIDIA unheard of", 9, 0, 0.75),
    ],
)
def test_gpus_with_many_float32_units_gain_less(tmp_path, name, major, minor, saved):
    gpu = {"name": name, "computeMajor": major, "computeMinor": minor}
    finding = finding_of(tmp_path, gpu)
    assert finding.recoverable_ms == pytest.approx(11 * 0.5 * saved, rel=0.01)
    has_tf32 = finding.advice[0].code == USE_TF32
    assert has_tf32 == ("GeForce" not in name)


def test_a_gpu_of_that_generation_without_tensor_cores_is_silent(tmp_path):
    gpu = {"name": "NVIDIA GeForce GTX 1660 Ti", "computeMajor": 7, "computeMinor": 5}
    assert finding_of(tmp_path, gpu) is None


def test_the_dimension_that_defeats_tensor_cores_is_named(tmp_path):
    finding = finding_of(
        tmp_path,
        {"name": "Tesla V100-SXM2-16GB", "computeMajor": 7, "computeMinor": 0},
        name=V100_HALF,
        shapes=[[1024, 1024], [1024, 1705]],
        type_="c10::Half",
    )
    assert (
        "is in 16-bit kernels that use no tensor cores, because dimensions are not multiples "
        "of 8, such as 1705"
    ) in finding.sentence
    assert "multiples of 8" in finding.action
    assert finding.evidence["kernels"]["type"].tolist() == ["16 bits"]


DGEMM = "void cutlass::Kernel2<cutlass_80_tensorop_d884gemm_128x64_16x3_tn_align1>(Params)"
XMMA = "sm90_xmma_gemm_f64f64_f64f64_f64_nt_n_tilesize64x64x16_stage4_tensor16x8x8_execute_kernel"
LARGE = [[2048, 2048], [2048, 2048]]


def in_float64(folder, gpu=A100, *, name=DGEMM, shapes=LARGE, type_="double"):
    return finding_of(folder, gpu, name=name, shapes=shapes, type_=type_)


@pytest.mark.parametrize("name", [DGEMM, XMMA, "volta_dgemm_128x64_nt", "Cijk_Ailk_Bljk_DB_MT64"])
def test_large_products_of_float64_cost_what_float32_would_not_take(tmp_path, name):
    finding = in_float64(tmp_path, name=name)
    as_tf32_us = 2 * 2048**3 / (0.5 * 156e6)
    assert finding.recoverable_ms == pytest.approx(11 * (0.5 - as_tf32_us / 1000), rel=0.01)
    assert finding.bound == "about"
    assert finding.sentence.startswith(
        "100 % of the 5.5 ms in matrix products per step is in float64, which takes longer than "
    )
    assert finding.evidence["kernels"]["type"].tolist() == ["float64"]
    assert finding.advice[0].code.startswith(USE_TF32)
    assert "model.float()" in finding.advice[0].code


def test_without_tf32_float64_is_compared_with_float32(tmp_path):
    gpu = {"name": "Tesla V100-SXM2-16GB", "computeMajor": 7, "computeMinor": 0}
    shapes = [[1024, 1024], [1024, 1024]]
    finding = in_float64(tmp_path, gpu, shapes=shapes)
    as_float32_us = 2 * 1024**3 / (0.5 * 15.7e6)
    assert finding.recoverable_ms == pytest.approx(11 * (0.5 - as_float32_us / 1000), rel=0.01)
    assert finding.advice[0].code == "model, inputs = model.float(), inputs.float()"
    assert in_float64(tmp_path, gpu, shapes=[[2048, 1024], [1024, 2048]]) is None


@pytest.mark.parametrize(
    "options",
    [
        {"shapes": [[64, 64], [64, 64]]},
        {"shapes": ()},
        {"type_": "float"},
        {"name": SGEMM},
        {"gpu": {"name": "NVIDIA unheard of", "computeMajor": 9, "computeMinor": 0}},
        {"shapes": [[400_000, 1024], [1024, 8]]},
    ],
    ids=["small", "no shapes", "shapes of float32", "another kernel", "no peak", "bound by memory"],
)
def test_float64_is_not_blamed_where_float32_may_not_be_faster(tmp_path, options):
    assert in_float64(tmp_path, **options) is None


@pytest.mark.parametrize(("rows", "is_said"), [(1016, False), (1024, True)])
def test_products_of_float64_are_large_from_so_many_operations_on(tmp_path, rows, is_said):
    found = in_float64(tmp_path, shapes=[[rows, 1024], [1024, 1024]])
    assert (found is not None) == is_said


@pytest.mark.parametrize("part", [0.49, 0.51])
def test_the_larger_part_tells_whether_float64_is_named(tmp_path, part):
    one = scripts.Host()
    for number in range(3):
        with one.step(number):
            for us, name, type_ in ((part, DGEMM, "double"), (1 - part, SGEMM, "float")):
                one.launch(5000 * us, name=name, shapes=LARGE, type_=type_)
            one.synchronise()
    finding = scripts.found(scripts.diagnosed(tmp_path, one, gpu=A100), "no_tensor_cores")
    assert ("is in float64" in finding.sentence) == (part > 0.5)


def test_convolutions_of_float32_have_a_setting_of_their_own(tmp_path):
    finding = finding_of(tmp_path, A100, operator="aten::convolution", shapes=[[8, 8, 8, 8]])
    assert " in convolutions and matrix products per step " in finding.sentence
    assert finding.advice[0].code == "torch.backends.cudnn.allow_tf32 = True"
    assert not any(each.code == USE_TF32 for each in finding.advice)


def mixed(folder, part, *, slow=SGEMM, other=TENSOR):
    """A part of the time in products is in slow ones, the rest in others."""

    def program(rank, step):
        del rank, step
        times = {slow: part, other: 1 - part}
        return [Compute(round(5000 * US * of), name) for name, of in times.items()]

    properties = [{"id": 0, "name": "NVIDIA A100", "computeMajor": 8}]
    made = diagnosed(write_training(folder, 1, program, steps=2, deviceProperties=properties))
    return found(made, "no_tensor_cores")


def as_fast_as(folder, times):
    """Products of 43 GFLOP and 1.5 GB, at so many times the peak of an A100 in float32."""
    shapes = [[672_000, 500], [500, 64]]
    us = 2 * 672_000 * 500 * 64 / (times * 19.5e6)
    one = scripts.Host()
    for number in range(3):
        with one.step(number):
            one.launch(us, name=SGEMM, shapes=shapes)
            one.synchronise()
    made = scripts.diagnosed(folder, one, gpu=A100)
    return price(made, "no_tensor_cores") / (us / 1000)


def uneven(folder, multiple):
    shapes = [[1024, 1024], [1024, 1024 + multiple]]
    gpu = {"name": "Tesla V100-SXM2-16GB", "computeMajor": 7}
    finding = finding_of(folder, gpu, name=V100_HALF, shapes=shapes, type_="c10::Half")
    return "not multiples" in finding.sentence


def kind_of_products(folder, part):
    finding = mixed(folder, part, slow="ampere_fp16_sgemm_fp16_128x64_nn", other=SGEMM)
    return "16-bit kernels" in finding.sentence


def faster(folder, name, minor):
    gpu = {"name": name, "computeMajor": 8, "computeMinor": minor}
    return finding_of(folder, gpu).recoverable_ms / (11 * 0.5)


test_what_tensor_cores_must_save = least_price(
    "no_tensor_cores",
    "least_percent",
    lambda folder: diagnosed(job(folder, SGEMM, share=0.3)),
)

test_thresholds = cases(
    Case(
        "Limits.float32_percent",
        lambda folder, percent: mixed(folder, percent / 100) is not None,
        {9.9: False, 10.1: True},
    ),
    Case("no_tensor_cores.HALF", kind_of_products, {0.49: False, 0.51: True}),
    Case("compute_facts.MULTIPLE", uneven, {7: True, 8: False}),
    Case("compute_facts._ABOVE_PEAK", as_fast_as, {1.09: 1 - 0.975 / 2.023, 1.11: 0.75}),
    Case("gpus.LEAST_FASTER", lambda folder, _: faster(folder, "NVIDIA A100", 0), {4.0: 0.75}),
    Case(
        "gpus.LEAST_FASTER_ON_GRAPHICS",
        lambda folder, _: faster(folder, "NVIDIA RTX 3090", 6),
        {2.0: 0.5},
    ),
    Case(
        "gpus._FIRST_WITH_TENSOR_CORES",
        lambda folder, major: bool(diagnosed(job(folder, SGEMM, major=major))),
        {6: False, 7: True},
    ),
    Case(
        "gpus._FIRST_WITH_TF32",
        lambda folder, major: diagnosed(job(folder, SGEMM, major=major))[0].advice[0].code,
        {7: USE_FP16, 8: USE_TF32},
    ),
)
