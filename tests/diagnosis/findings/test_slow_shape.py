"""Products of matrices that are slow for their shapes."""

from __future__ import annotations

import pytest

from tests.diagnosis.findings import scripts
from tests.diagnosis.findings.thresholds import Case, cases, least_price

TENSOR = "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x4_tn"
SGEMM = "ampere_sgemm_128x64_tn"
TF32 = "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_128x128_16x4_nn_align1>(Params)"
BF16 = "c10::BFloat16"
A100 = {"name": "NVIDIA A100-SXM4-40GB", "computeMajor": 8, "computeMinor": 0}
ROWS, SUMMED, WIDTH = 4096, 1024, 4096
FLOP = 2 * ROWS * SUMMED * WIDTH
US = 200
"""Of a product that fits: 172 TFLOP/s."""


def padded(size, multiple=8):
    return -(-size // multiple) * multiple


def made(
    folder, *, columns=WIDTH + 1, factor=2.0, other=WIDTH, rows=ROWS, ranks=1, slow=None, **work
):
    """Ten products that fit, and ten of another width that take a factor longer for their FLOP."""
    hosts = [scripts.Host() for _ in range(ranks)]
    work = {"name": TENSOR, "type_": BF16, "gpu": A100, **work}
    gpu = work.pop("gpu")
    for number in range(3):
        for rank, one in enumerate(hosts):
            width = columns if rank in (slow or range(ranks)) else other
            us = US * (factor if width == columns else 1) * padded(width) / WIDTH
            with one.step(number):
                for _ in range(10):
                    fits = [[rows, SUMMED], [SUMMED, other]]
                    one.launch(US * other / WIDTH * rows / ROWS, shapes=fits, **work)
                    one.launch(us, shapes=[[ROWS, SUMMED], [SUMMED, width]], **work)
                one.synchronise()
        if ranks > 1:
            scripts.all_reduce(hosts)
    return scripts.diagnosed(folder, *hosts, gpu=gpu)


def finding_of(folder, **options):
    return scripts.found(made(folder, **options), "slow_shape")


def test_a_width_that_does_not_fit_costs_what_smaller_products_do_not_take(tmp_path):
    finding = finding_of(tmp_path)
    us = US * padded(WIDTH + 1) / WIDTH
    assert finding.recoverable_ms == pytest.approx(10 * us / 1000, rel=0.001)
    assert finding.bound == "about"
    assert finding.sentence.startswith(
        "66.7 % of the compute time is in matrix products whose dimensions do not fit: with "
        "4097, not a multiple of 8, they reach 85.8 TFLOP/s, smaller ones up to 172: about 2 ms of "
    )
    table = finding.evidence["products"]
    assert table[["operator", "type", "columns", "uneven", "count"]].to_numpy().tolist() == [
        ["aten::mm", "bf16", WIDTH + 1, WIDTH + 1, 20]
    ]
    assert finding.advice[0].do.startswith("Pad the dimension")


def test_the_rank_whose_products_do_not_fit_is_named(tmp_path):
    finding = finding_of(tmp_path, ranks=3, slow=(1,))
    assert finding.ranks == (1,)
    assert " of the compute time on rank 1 is in matrix products" in finding.sentence


@pytest.mark.parametrize(
    "options",
    [
        {"columns": WIDTH + 8},
        {"columns": 50_257, "factor": 1.0},
        {"other": WIDTH + 8, "gpu": {"name": "?"}},
        {"type_": "double"},
        {"type_": "float", "name": SGEMM},
        {"type_": "float", "name": TF32, "columns": WIDTH + 4},
        {"gpu": {"name": "NVIDIA L4", "computeMajor": 8, "computeMinor": 9}},
    ],
    ids=[
        "a width that fits",
        "as fast as the others",
        "no other is narrower, and the peak is not known",
        "float64",
        "no tensor cores",
        "a multiple of 4 in TF32",
        "faster than the GPU can be",
    ],
)
def test_silent(tmp_path, options):
    assert finding_of(tmp_path, **options) is None


def test_tf32_needs_multiples_of_4(tmp_path):
    finding = finding_of(tmp_path, type_="float", name=TF32, columns=WIDTH + 2, gpu={"name": "?"})
    assert "with 4098, not a multiple of 4, they reach" in finding.sentence


def test_without_shapes_nothing_is_said(tmp_path):
    one = scripts.Host()
    for number in range(3):
        with one.step(number):
            for us in (100, 900) * 5:
                one.launch(us, name=TENSOR)
            one.synchronise()
    assert scripts.found(scripts.diagnosed(tmp_path, one, gpu=A100), "slow_shape") is None


def test_behind_a_slow_host_it_is_a_notice(tmp_path):
    one = scripts.Host()
    for number in range(4):
        with one.step(number):
            for width, us in ((WIDTH, US), (WIDTH + 1, 2.1 * US)) * 5:
                shapes = [[ROWS, SUMMED], [SUMMED, width]]
                one.launch(us, takes=500, shapes=shapes, name=TENSOR, type_=BF16)
            one.synchronise()
    result = scripts.diagnosed(tmp_path, one, gpu=A100)
    assert scripts.found(result, "slow_shape") is None
    assert any(each.startswith("faster matrix products would save") for each in result.notices)


def aligned(folder, size):
    """A width that is a multiple of a number of bytes, of 2 each."""
    return finding_of(folder, columns=WIDTH + int(size) // 2) is not None


def above_peak(folder, times):
    """Smaller products that are as many times as fast as an A100 can be."""
    us = FLOP / (312e6 * times)
    one = scripts.Host()
    for number in range(3):
        with one.step(number):
            for width, length in ((WIDTH, us), (WIDTH + 1, 3 * us)) * 5:
                shapes = [[ROWS, SUMMED], [SUMMED, width]]
                one.launch(length, shapes=shapes, name=TENSOR, type_=BF16)
            one.synchronise()
    return scripts.found(scripts.diagnosed(folder, one, gpu=A100), "slow_shape") is not None


def alone(folder, part, *, rows=ROWS, gpu=A100, **work):
    """Products that do not fit, and take 1.5 times as long as at a part of the peak of an A100."""
    width = WIDTH + 1
    us = 1.5 * 2 * rows * SUMMED * padded(width) / (312e6 * part)
    one = scripts.Host()
    for number in range(3):
        with one.step(number):
            for size, length in ((width, us), (64, 20)) * 5:
                shapes = [[rows, SUMMED], [SUMMED, size]]
                one.launch(length, shapes=shapes, **{"name": TENSOR, "type_": BF16, **work})
            one.synchronise()
    return scripts.found(scripts.diagnosed(folder, one, gpu=gpu), "slow_shape")


def test_where_no_large_product_fits_the_peak_of_the_gpu_tells(tmp_path):
    finding = alone(tmp_path, 0.25)
    assert (
        " with 4097, not a multiple of 8, they reach 51.9 TFLOP/s, where half of the peak (156) "
        in (finding.sentence)
    )
    us = 1.5 * 2 * ROWS * SUMMED * padded(WIDTH + 1) / (312e6 * 0.25)
    assert finding.recoverable_ms == pytest.approx(5 * us * (1 - 0.5 / 1.5) / 1000, rel=0.001)
    assert finding.bound == "about"


@pytest.mark.parametrize(
    "options",
    [{"rows": 1016}, {"type_": "float", "name": TF32}, {"gpu": {"name": "?"}}],
    ids=["few rows", "float32, whose kernels may be others", "no known peak"],
)
def test_alone_they_are_not_blamed(tmp_path, options):
    assert alone(tmp_path, 0.25, **options) is None


SISTERS = ((4096, 4096, 4096), (8192, 4096, 4096), (4096, 4096, 8192))
"""Rows, columns and summed size of large products that all reach 172 TFLOP/s."""
SICK = (4096, 8192, 4096)


def with_sisters(
    folder, *, factor=1.3, sick=SICK, sisters=SISTERS, share=None, steps=3, calls=2, **work
):
    """Large products, of which one takes a factor longer for its FLOP; of this part of the time."""
    one = scripts.Host()
    rate = FLOP / US
    lengths = [2 * m * n * k / rate for m, n, k in sisters]
    own = 2 * sick[0] * sick[1] * sick[2] / rate * factor
    more = 0 if share is None else own / share - own - sum(lengths)
    for number in range(steps):
        with one.step(number):
            for (m, n, k), us in [*zip((*sisters, sick), (*lengths, own), strict=True)] * calls:
                one.launch(us, shapes=[[m, k], [k, n]], **{"name": TENSOR, "type_": BF16, **work})
            if more > 0:
                one.launch(calls * more, name="softmax")
            one.synchronise()
    return scripts.diagnosed(folder, one, gpu=A100)


def test_a_product_that_is_slower_than_its_sisters(tmp_path):
    finding = scripts.found(with_sisters(tmp_path), "slow_shape")
    sick_us = 2 * 4096**2 * 8192 / (FLOP / US) * 1.3
    assert finding.recoverable_ms == pytest.approx(2 * sick_us * (1 - 1 / 1.3) / 1000, rel=0.001)
    assert (
        "is in slow matrix products: those of 4,096 × 8,192 × 4,096 reach 132 TFLOP/s, other large "
        "ones 172: about " in finding.sentence
    )
    assert finding.advice[0].do.startswith("Let the compiler time other kernels")
    assert finding.evidence["products"]["uneven"].tolist() == [0]


@pytest.mark.parametrize(
    "options",
    [
        {"factor": 0.9},
        {"sisters": SISTERS[:1]},
        {"sisters": (SISTERS[0], SISTERS[0])},
        {"type_": "double"},
        {"sick": (4096, 8192, 4096), "sisters": ((512, 4096, 4096),) * 3},
    ],
    ids=["a fast one", "one sister", "the same shape twice", "float64", "sisters of few rows"],
)
def test_silent_without_slow_sisters(tmp_path, options):
    assert scripts.found(with_sisters(tmp_path, **options), "slow_shape") is None


def is_slow(folder, **options):
    return scripts.found(with_sisters(folder, **options), "slow_shape") is not None


def a_sister_of(folder, share):
    """The third shape that is needed takes this part of the time."""
    own_us, third_us = US * 2 * 4 * 1.3, US
    whole_us = third_us / share
    return is_slow(folder, sisters=(SISTERS[0], (1024, 4096, 4096)), share=own_us / whole_us)


test_least_price = least_price("slow_shape", "least_percent", made)

test_thresholds = cases(
    Case(
        "shape_facts.SLOWER",
        lambda folder, factor: finding_of(folder, factor=factor) is not None,
        {1.49: False, 1.51: True},
    ),
    Case(
        "shape_facts.SLOW_SISTER",
        lambda folder, part: is_slow(folder, factor=1 / part, sisters=SISTERS[:2]),
        {0.84: True, 0.86: False},
    ),
    Case(
        "shape_facts.LEAST_SLOW",
        lambda folder, share: is_slow(folder, share=share, factor=4, sisters=SISTERS),
        {0.095: False, 0.105: True},
    ),
    Case(
        "shape_facts.FEWEST_CALLS",
        lambda folder, count: is_slow(folder, steps=2, calls=int(count)),
        {2: False, 3: True},
    ),
    Case("shape_facts.LEAST_OF_TIME", a_sister_of, {0.019: False, 0.021: True}),
    Case(
        "shape_facts.LARGE",
        lambda folder, rows: is_slow(folder, sisters=(SISTERS[0], (int(rows), 4096, 4096))),
        {1016: False, 1024: True},
    ),
    Case(
        "shape_facts.FEWEST_LARGE",
        lambda folder, count: is_slow(folder, sisters=SISTERS[: int(count) - 1]),
        {2: False, 3: True},
    ),
    Case(
        "shape_facts.USUAL_OF_PEAK",
        lambda folder, part: alone(folder, part) is not None,
        {0.49: True, 0.51: False},
    ),
    Case("shape_facts.ABOVE_PEAK", above_peak, {1.09: True, 1.11: False}),
    Case("shape_facts.ALIGNED_BYTES", aligned, {15: True, 16: False}, moved=32),
)
