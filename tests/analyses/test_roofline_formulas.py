"""FLOP and bytes of operators, counted by hand, and the peaks of GPUs."""

from __future__ import annotations

import json
from math import prod

import pytest

from hta_widgets.analyses.roofline.formulas import Cost, formula_of, inputs_of
from hta_widgets.analyses.roofline.peaks import PEAKS, peak_of

HALF = "c10::BFloat16"


def cost(name, dims, types=None, values=()):
    types = types or [HALF if each else "" for each in dims]
    return formula_of(name)(inputs_of(*(json.dumps(each) for each in (dims, types, values))))


@pytest.mark.parametrize(
    ("name", "dims", "flop", "elements"),
    [
        ("aten::mm", [[2, 3], [3, 5]], 60, 6 + 15 + 10),
        ("aten::mm", [[2, 3], [3, 5], [2, 5]], 60, 6 + 15 + 10),
        ("aten::addmm", [[5], [2, 3], [3, 5], [], []], 60, 5 + 6 + 15 + 10),
        ("aten::bmm", [[7, 2, 3], [7, 3, 5]], 7 * 60, 7 * 31),
        ("aten::baddbmm", [[7, 2, 5], [7, 2, 3], [7, 3, 5]], 7 * 60, 7 * 41),
        ("aten::add", [[4, 1, 6], [5, 6], []], 0, 24 + 30 + 120),
        ("aten::copy_", [[4, 6], [6]], 0, 24 + 6),
        ("aten::fill_", [[4, 6], []], 0, 24),
        ("aten::native_layer_norm", [[4, 6], [], [6], [6], []], 0, 24 + 6 + 6 + 24),
        ("aten::native_batch_norm", [[4, 6], [6], [6], [6], [6]], 0, 24 + 4 * 6 + 24),
        ("aten::miopen_batch_norm_backward", [[4, 6], [4, 6], [6]], 0, 24 + 24 + 6 + 24),
        ("_C::rms_norm", [[4, 6], [4, 6], [6], []], 0, 24 + 24 + 6),
        ("_C::fused_add_rms_norm", [[4, 6], [4, 6], [6], []], 0, 2 * 24 + 6 + 2 * 24),
        ("triton_poi_fused_add_0", [[4, 6], [24], []], 0, 48),
    ],
)
def test_formulas_that_need_shapes_only(name, dims, flop, elements):
    assert cost(name, dims) == Cost(flop, 2 * elements, "bf16")


def test_products_of_8_bits_are_written_with_16():
    types = ["c10::Float8_e4m3fn"] * 2
    assert cost("aten::_scaled_mm", [[2, 3], [3, 5]], types) == Cost(60, 6 + 15 + 20, "fp8")


@pytest.mark.parametrize(
    ("left", "right", "written"),
    [((10, 3), (4, 3, 5), (10, 5)), ((4, 7, 3), (3, 10), (7, 10)), ((5, 10), (10, 3), (4, 5, 3))],
)
def test_grouped_products_agree_with_their_loops(left, right, written):
    """Multiplications of ten tokens of four experts, one by one; the third is of the weights."""
    ends = [2, 5, 5, 10]
    tokens = [(e, token) for e, end in enumerate(ends) for token in range([0, *ends][e], end)]
    kept = {(10, 3): 3 * 5, (4, 7, 3): 7 * 3, (5, 10): 5 * 3}[left]
    types = [HALF, HALF, "int"]
    found = cost("aten::_grouped_mm", [left, right, [4]], types)
    assert found.flop == 2 * kept * len(tokens)
    assert found.bytes == 2 * (prod(left) + prod(right) + prod(written))


@pytest.mark.parametrize(
    ("left", "right"),
    [((10, 3), (4, 2, 5)), ((4, 7, 3), (4, 3, 5)), ((5, 10), (10, 3)), ((3,), (3,))],
)
def test_no_grouped_products(left, right):
    """Other sizes, three dimensions on both sides, no offsets, and no matrices."""
    with pytest.raises(ValueError, match=r"groups|unpack"):
        cost("aten::_grouped_mm", [left, right])


def test_copies_to_another_type():
    assert cost("aten::copy_", [[6], [6]], ["float", HALF]).bytes == 6 * 4 + 6 * 2


CONVOLUTION = ["", "", "", "[2, 1]", "[1, 1]", "[1, 2]", "False", "[0, 0]", "4"]


def test_convolution():
    """Sizes by hand: 9 + 2 - 2 - 1 in steps of 2, and 10 + 2 - 4 - 1 in steps of 1, each plus 1."""
    dims = [[3, 8, 9, 10], [16, 2, 3, 3], [16], [], [], [], [], [], []]
    found = cost("aten::convolution", dims, ["float"] * 3 + [""] * 6, CONVOLUTION)
    output = 3 * 16 * 5 * 8
    assert found.flop == 2 * output * 2 * 9
    assert found.bytes == 4 * (3 * 8 * 90 + 16 * 2 * 9 + output)


def test_convolution_agrees_with_its_loops():
    """Multiplications of a small convolution, counted one by one."""
    batch, channels, size, out, groups, width, pad, step = 2, 4, 7, 6, 2, 3, 1, 2
    starts = range(0, size + 2 * pad - width + 1, step)
    places = [
        (n, o, y, x, c, i, j)
        for n in range(batch)
        for o in range(out)
        for y in starts
        for x in starts
        for c in range(channels // groups)
        for i in range(width)
        for j in range(width)
    ]
    dims = [[batch, channels, size, size], [out, channels // groups, width, width], []]
    values = ["", "", "", f"[{step}]", f"[{pad}, {pad}]", "[1, 1]", "False", "[0, 0]", f"{groups}"]
    assert cost("aten::_convolution", dims, ["float"] * 2, values).flop == 2 * len(places)


def test_transposed_convolution():
    """The reverse of a convolution: as many multiplications, input and output exchanged."""
    values = ["", "", "", "[2, 2]", "[1, 1]", "[1, 1]", "True", "[1, 1]", "1"]
    dims = [[3, 16, 5, 5], [16, 8, 3, 3], []]
    found = cost("aten::convolution", dims, ["float"] * 2, values)
    assert found.flop == 2 * 3 * 25 * 16 * 8 * 9
    assert found.bytes == 4 * (3 * 16 * 25 + 16 * 8 * 9 + 3 * 8 * 100)


@pytest.mark.parametrize(("mask", "products"), [("True, True", 2), ("False, True", 1)])
def test_convolution_backward(mask, products):
    dims = [[3, 16, 5, 8], [3, 8, 9, 10], [16, 2, 3, 3], [], [], [], [], [], [], [], []]
    values = ["", "", "", "[16]", *CONVOLUTION[3:], f"[{mask}, True]"]
    found = cost("aten::convolution_backward", dims, ["float"] * 3 + [""] * 8, values)
    assert found.flop == products * 2 * (3 * 16 * 5 * 8) * 2 * 9


@pytest.mark.parametrize(
    ("name", "first", "causal", "products"),
    [
        ("flash_attention", 0, 4, 4),
        ("efficient_attention", 0, 6, 4),
        ("cudnn_attention", 0, 6, 4),
        ("flash_attention_backward", 1, 11, 10),
        ("efficient_attention_backward", 1, 11, 8),
        ("cudnn_attention_backward", 1, 14, 8),
    ],
)
def test_attention(name, first, causal, products):
    query, key = [2, 8, 64, 32], [2, 4, 64, 32]
    shapes = [query] * (first + 1) + [key, key]
    dims = shapes + [[]] * (15 - len(shapes))
    types = [HALF] * len(shapes) + ["Scalar"] * (15 - len(shapes))
    values = [""] * 15
    full = products * 2 * 8 * 64 * 64 * 32
    for flag, flop in (("False", full), ("True", full // 2)):
        values[causal] = flag
        found = cost(f"aten::_scaled_dot_product_{name}", dims, types, values)
        assert found.flop == flop
    dims[first + 1] = dims[first + 2] = [2, 4, 128, 32]
    assert cost(f"aten::_scaled_dot_product_{name}", dims, types, values).flop == 2 * full


@pytest.mark.parametrize("causal", [True, False])
def test_attention_of_libraries(causal):
    """As recorded of FLUX.1 on an MI300X, but smaller; a window leaves an unknown part out."""
    dims = [[2, 96, 8, 32], [2, 64, 4, 32], [2, 64, 4, 16], *[[]] * 8]
    types = [HALF] * 3 + ["Scalar"] * 8
    values = ["", "", "", "0.", "0.088", str(causal), "-1", "-1", "True", "False", "2"]
    found = cost("aiter::fmha_v3_fwd", dims, types, values)
    assert found.flop == 2 * (2 * 8) * 96 * 64 * (32 + 16)
    read = 2 * 96 * 8 * 32 + 2 * 64 * 4 * 32 + 2 * 64 * 4 * 16
    assert found.bytes == 2 * (read + 2 * 96 * 8 * 16)
    dims[0][1] = 64
    square = cost("flash_attn::_flash_attn_forward", dims, types, values).flop
    assert square == 2 * (2 * 8) * 64 * 64 * (32 + 16) // (2 if causal else 1)
    values[6] = "127"
    with pytest.raises(ValueError, match="window"):
        cost("aiter::mha_fwd", dims, types, values)


@pytest.mark.parametrize(
    ("name", "memory", "dtype", "rates"),
    [
        ("NVIDIA H100 80GB HBM3", 0, "bf16", (989, 3350)),
        ("NVIDIA H100 PCIe", 0, "bf16", (756, 2000)),
        ("NVIDIA H200", 0, "bf16", (989, 4800)),
        ("NVIDIA B200", 0, "fp8", (4500, 8000)),
        ("NVIDIA A100-SXM4-40GB", 42 * 10**9, "tf32", (156, 1555)),
        ("NVIDIA A100-SXM4-80GB", 85 * 10**9, "tf32", (156, 2039)),
        ("NVIDIA A100 80GB PCIe", 85 * 10**9, "tf32", (156, 1935)),
        ("Tesla V100-SXM2-32GB", 0, "fp16", (125, 900)),
        ("Tesla V100-DGXS-32GB", 0, "fp16", (125, 900)),
        ("Tesla T4", 0, "fp16", (65, 320)),
        ("NVIDIA A10", 0, "tf32", (62.5, 600)),
        ("NVIDIA A40", 0, "bf16", (149.7, 696)),
        ("NVIDIA RTX A6000", 0, "bf16", (154.8, 768)),
        ("NVIDIA GeForce RTX 3090", 0, "bf16", (71, 936)),
        ("NVIDIA GeForce RTX 4090", 0, "fp8", (330.3, 1008)),
        ("NVIDIA L4", 0, "bf16", (121, 300)),
        ("NVIDIA L40S", 0, "bf16", (362, 864)),
        ("AMD Instinct MI300X VF", 0, "bf16", (1307, 5300)),
        ("AMD Instinct MI250X", 0, "bf16", (191.5, 1638)),
    ],
)
def test_peaks_by_name(name, memory, dtype, rates):
    peak = peak_of(name, memory)
    assert (peak.tflops[dtype], peak.gb_per_s) == rates


@pytest.mark.parametrize(
    "name",
    [
        *("", "NVIDIA H200 NVL", "NVIDIA GB200", "NVIDIA H100 NVL", "NVIDIA L40", "MI300A"),
        *("NVIDIA A10G", "NVIDIA GeForce RTX 3090 Ti", "NVIDIA GeForce RTX 4090 Laptop GPU"),
    ],
)
def test_unknown_names_have_no_peak(name):
    assert peak_of(name) is None


def test_peaks_are_of_dense_products():
    for peak in PEAKS:
        rates = peak.tflops
        assert rates["fp16"] > rates["fp32"]
        if "fp8" in rates:
            assert 1.9 < rates["fp8"] / rates["bf16"] < 2.1
