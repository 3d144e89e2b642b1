"""Products of matrices in float32 that do not use tensor cores."""

from __future__ import annotations

import pytest

from tests.analyses.diagnosis import scripts
from tests.analyses.diagnosis.training_jobs import (
    US,
    Compute,
    Meet,
    diagnosed,
    found,
    write_training,
)

EVERYBODY = (0, 1)
SGEMM = "ampere_sgemm_128x64_tn"
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
    assert finding.sentence.startswith("100 % of the time in matrix products on all ranks is in")
    kernels = finding.evidence["kernels"]
    assert kernels[["kernel", "shapes", "count"]].to_numpy().tolist() == [[SGEMM, "[[64, 64]]", 40]]
    assert "set_float32_matmul_precision" in finding.action


def test_volta_has_tensor_cores_for_float16_only(tmp_path):
    finding = found(diagnosed(job(tmp_path, SGEMM, major=7)), "no_tensor_cores")
    assert "set_float32_matmul_precision" not in finding.action
    assert "autocast" in finding.action


@pytest.mark.parametrize("name", [TENSOR, TF32])
def test_tensor_cores_are_silent(tmp_path, name):
    assert not diagnosed(job(tmp_path, name))


def test_a_small_share_is_silent(tmp_path):
    assert not diagnosed(job(tmp_path, SGEMM, share=0.1))


def test_what_tensor_cores_save_counts_more_than_the_share(tmp_path):
    finding = found(diagnosed(job(tmp_path, SGEMM, share=0.2)), "no_tensor_cores")
    assert finding.sentence.startswith("20 % of the time in matrix products on all ranks is in")
    assert finding.recoverable_ms == pytest.approx(0.75 * 1.0)


def test_the_share_is_that_of_the_ranks_to_blame(tmp_path):
    def program(rank, step):
        slow = [Compute(250 * US, SGEMM)] * 4 if rank == 3 else []
        return [*slow, *products(TENSOR)(rank, step)[:-1], Meet((0, 1, 2, 3))]

    properties = [{"id": 0, "name": "NVIDIA A100", "computeMajor": 8}]
    made = diagnosed(write_training(tmp_path, 4, program, deviceProperties=properties))
    finding = found(made, "no_tensor_cores")
    assert finding.ranks == (3,)
    assert finding.sentence.startswith("16.7 % of the time in matrix products on rank 3 is in")


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
    has_tf32 = "set_float32_matmul_precision" in finding.action
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
        "is in kernels of 16 bits that use no tensor cores for dimensions that are no multiples of "
        "8, such as 1705"
    ) in finding.sentence
    assert "multiples of 8" in finding.action
    assert finding.evidence["kernels"]["type"].tolist() == ["16 bits"]


def test_float64_is_meant_to_be_exact(tmp_path):
    shapes = [[64, 64], [64, 64]]
    assert finding_of(tmp_path, A100, shapes=shapes, type_="double") is None
