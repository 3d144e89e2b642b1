"""What to try where the GPU is the bottleneck."""

from __future__ import annotations

import gc
import gzip
from types import SimpleNamespace
from weakref import ref

import pytest

from hta_widgets import diagnose, open_trace
from hta_widgets.cli.diagnose.document import document
from hta_widgets.diagnosis.gpu_bound import worth
from hta_widgets.diagnosis.profile_command import word_for_shell
from hta_widgets.diagnosis.rank_answers import replay_of_ranks
from hta_widgets.diagnosis.report import report
from hta_widgets.panels.bands.gpu_bound import gpu_bound
from tests.diagnosis.findings.scripts import Host, diagnosed
from tests.diagnosis.findings.thresholds import Case, cases
from tests.kineto_text import call, host, kernel, write
from tests.server_loops import DECODE, PREFILL, Step, vllm

H100 = {"name": "NVIDIA H100 80GB HBM3", "computeMajor": 9, "computeMinor": 0}
MI300X = {"id": 0, "name": "AMD Instinct MI300X", "totalGlobalMem": 206_141_652_992}
A100 = {"name": "NVIDIA A100-SXM4-40GB", "computeMajor": 8, "computeMinor": 0}
TENSOR = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64"
FLASH = "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 128> >()"
AT_PEAK_US = 2 * 4096 * 8192 * 1024 / 989e12 * 1e6
NORM_US = 1000.0


def made(folder, *work, norm_us=NORM_US, gpu=H100):
    """The GPU is busy with norms and with other work, all of it launched at once."""
    one = Host()
    for _ in range(10):
        one.launch(norm_us, operator="aten::native_layer_norm", name="norm")
        for options in work:
            one.launch(**options)
    return diagnosed(folder, one, gpu=gpu)


def product(us, columns=1024, name=TENSOR):
    shapes = [[4096, 8192], [8192, columns]]
    return {"length": us, "shapes": shapes, "type_": "c10::BFloat16", "name": name}


def line(result, cause):
    return next((each for each in result.to_try if each.cause == cause), None)


def test_products_name_their_rate_and_what_is_left(tmp_path):
    result = made(tmp_path, product(AT_PEAK_US / 0.5))
    assert not result
    found = line(result, "large_products")
    share = 100 * AT_PEAK_US / 0.5 / (NORM_US + AT_PEAK_US / 0.5)
    assert found.sentence == (
        f"bf16 matrix products take {share:.1f} % of the kernel time and reach 50 % of the peak; "
        "the longest, aten::mm 4096×8192 · 8192×1024, reaches 50 %."
    )
    assert [each.do[:11] for each in found.advice] == ["Let the com", "Try FP8 for"]
    assert found.evidence["products"]["calls"].tolist() == [10]


def test_shares_are_of_the_steps_that_count(tmp_path):
    """What was launched before the recording is of none: 14 ms of it made 27.9 % be 19.5 %."""
    one = Host()
    one.free += 10_000
    one.events.append(kernel(one.free - 10_000, 10_000, name="earlier"))
    one.now = one.free
    with one.step(6):
        for _ in range(10):
            one.launch(NORM_US, operator="aten::native_layer_norm", name="norm")
            one.launch(**product(AT_PEAK_US / 0.5))
    result = diagnosed(tmp_path, one, gpu=H100)
    share = 100 * AT_PEAK_US / 0.5 / (NORM_US + AT_PEAK_US / 0.5)
    said = line(result, "large_products").sentence
    assert said.startswith(f"bf16 matrix products take {share:.1f} % of the kernel time and")
    assert f"norm ({100 - share:.1f} %), GEMM" in result.finding
    listed = gpu_bound(result.job, result)
    assert f" in {share:.1f} % of the kernel time; the MFU over the step is " in listed["label"]
    assert [row[1] for row in listed["table"]["rows"]] == pytest.approx(
        [100 - share, share], rel=1e-4
    )


def test_the_replay_is_forgotten_while_the_diagnosis_is_kept(tmp_path):
    result = made(tmp_path, product(AT_PEAK_US / 0.5))
    said = [each.sentence for each in result.to_try]
    replay = ref(result.gpu_bound.context.replay)
    result.job.forget(replay_of_ranks)
    gc.collect()
    assert replay() is None
    asked_later = made(tmp_path, product(AT_PEAK_US / 0.5))
    asked_later.job.forget(replay_of_ranks)
    assert [each.sentence for each in asked_later.to_try] == said


def test_products_near_the_peak_have_a_faster_type_or_nothing(tmp_path):
    def of(folder, gpu, at_peak_us):
        folder.mkdir()
        us = at_peak_us / 0.7
        return [
            each.do for each in line(made(folder, product(us), gpu=gpu), "large_products").advice
        ]

    nothing = "They run close to the peak of their type: only less work would help."
    fp8 = "Try FP8 for these products: its peak is twice as high on this GPU."
    assert of(tmp_path / "h100", H100, AT_PEAK_US) == [fp8, nothing]
    assert of(tmp_path / "a100", A100, AT_PEAK_US * 989 / 312) == [nothing]


def test_products_for_which_tensor_cores_are_advised_are_not_near_their_peak(tmp_path):
    """TF32 would save 232 of 959 ms, and of the same kernels "only less work would help"."""
    plain = product(2 * 4096 * 8192 * 1024 / 19.5e12 * 1e6 / 0.7, name="ampere_sgemm_128x64_tn")
    result = made(tmp_path, plain | {"type_": "float"}, norm_us=12_000, gpu=A100)
    assert [each.cause for each in result] == ["no_tensor_cores"]
    assert line(result, "large_products") is None


def test_a_dimension_that_does_not_fit_is_padded_first(tmp_path):
    found = line(made(tmp_path, product(AT_PEAK_US / 0.5, 1025)), "large_products")
    assert found.sentence.endswith("; 1025 is not a multiple of 8.")
    assert found.advice[0].do.startswith("Pad the dimension")


def test_kernels_tell_the_gpu_where_nothing_else_does(tmp_path):
    """Exports of Nsight Systems may lack it: half of the time was in attention, beside nvjet."""
    attention = {"length": 500, "name": FLASH}
    other = {"length": 100, "name": "nvjet_tst_128x64_64x8_1x2_h_bz_coopA_NNT"}
    for name in ("nvjet", "none"):
        (tmp_path / name).mkdir()
    found = line(made(tmp_path / "nvjet", attention, other, gpu=None), "attention")
    assert found.sentence.endswith("it was made for older GPUs than this one.")
    assert line(made(tmp_path / "none", attention, gpu=None), "attention") is None


@pytest.mark.parametrize(
    ("gpu", "operator", "advice"),
    [
        (H100, "aten::_scaled_dot_product_flash_attention", "Use cuDNN attention"),
        (H100, "flash_attn::_flash_attn_forward", "Use FlashAttention-3"),
        (A100, "aten::_scaled_dot_product_flash_attention", None),
    ],
)
def test_attention_that_does_not_know_the_gpu(tmp_path, gpu, operator, advice):
    work = {"length": 500, "operator": operator, "name": FLASH}
    found = line(made(tmp_path, work, gpu=gpu), "attention")
    if advice is None:
        assert found is None
        return
    assert found.sentence == (
        "FlashAttention-2 takes 33.3 % of the compute time; it was made for GPUs before compute "
        "capability 9.0."
    )
    assert found.advice[0].do.startswith(advice)
    assert found.links[0].kernel == FLASH


ATTENTION_AT_PEAK_US = 2 * 8 * 16 * 4096 * 4096 * (128 + 128) / 312e12 * 1e6


def attention_of(reached):
    """Work that computes scores and sums at this part of an A100's peak (%)."""
    return {
        "length": 100 * ATTENTION_AT_PEAK_US / reached,
        "operator": "aten::_scaled_dot_product_flash_attention",
        "name": FLASH,
        "type_": "c10::BFloat16",
        "shapes": [*[[8, 16, 4096, 128]] * 3, [], []],
        "values": ["", "", "", "0.0", "False"],
    }


def test_attention_that_reaches_little_of_the_peak_is_a_line(tmp_path):
    """29 % of a transformer on an MI300X was attention, in no line of what to try."""
    work = attention_of(25)
    found = line(made(tmp_path, work, norm_us=work["length"], gpu=A100), "attention")
    assert found.sentence == (
        "Fused attention takes 50 % of the kernel time and reaches 25 % of the peak; the longest, "
        "aten::_scaled_dot_product_flash_attention 8×16×4096×128 · 8×16×4096×128 · "
        "8×16×4096×128, reaches 25 %."
    )
    assert [each.do[:18] for each in found.advice] == ["Use cuDNN attentio", "Compute less of it"]
    assert found.evidence["products"]["calls"].tolist() == [10]


def attention_taking(folder, percent):
    work = attention_of(25)
    norm_us = work["length"] * (100 / percent - 1)
    return line(made(folder, work, norm_us=norm_us, gpu=A100), "attention") is not None


def attention_reaching(folder, percent):
    work = attention_of(percent)
    return line(made(folder, work, norm_us=work["length"], gpu=A100), "attention") is not None


def served(
    folder,
    *,
    rows: int | None = 16,
    product_us=500.0,
    other_us=500.0,
    other="attention",
    step=DECODE,
    device=MI300X,
):
    """Steps of 1 ms with a product that reads 8,192 × 8,192 × 2 bytes, and another kernel.

    Without rows, no shapes are recorded.
    """
    events, at, number = [], 100.0, 1
    dims = [[rows, 8192], [8192, 8192]]
    for _ in range(5):
        events.append(host(at, 60, vllm(step), cat="user_annotation"))
        inputs = {"Input Dims": dims, "Input type": ["c10::BFloat16", "c10::BFloat16"]}
        events.append(host(at + 5, 20, "aten::mm") | ({"args": inputs} if rows else {}))
        events += [call(at + 10, 5, number), call(at + 40, 5, number + 1)]
        events.append(kernel(at + 50, product_us, correlation=number, name="Cijk_BBS"))
        last_us = at + 50 + product_us
        events.append(kernel(last_us, other_us, correlation=number + 1, name=other))
        at, number = at + product_us + other_us, number + 2
    path = write(folder / "rank-0.json", events, deviceProperties=[device])
    return open_trace(path, progress=False)


WAITING_US = 134.742 / 5.3
"""Microseconds that the product's 134.7 MB take at the full bandwidth of the memory."""


def test_products_of_few_rows_wait_for_their_weights(tmp_path):
    """134.7 MB in 0.5 ms are 5.08 % of 5.3 TB/s, which feeds 1,307 TFLOP/s with 247 rows.

    What all of it would save stood in a notice only, in a server with 2.9 of 10.5 ms."""
    result = diagnose(served(tmp_path))
    found = line(result, "few_rows")
    assert found.sentence == (
        "Matrix products of at most 16 rows take 50 % of the kernel time, reading 134 MB of "
        "weights per decode step at 5.08 % of the memory bandwidth; up to 247 rows cost little "
        "more; faster kernels save time: up to 475 µs of each 1.01 ms decode step (46.9 %)."
    )
    assert 1000 * found.recoverable_ms == pytest.approx(500 - WAITING_US, abs=0.01)
    assert [each.do[:17] for each in found.advice] == ["Serve more concur", "Increase the batc"]
    assert result.to_try[0] is found
    four_steps = gpu_bound(result.job, result)["label"]
    assert "the 2 ms of kernels with known limits would take 1.9 ms less" in four_steps


def test_what_faster_kernels_for_few_rows_save_in_a_real_server_with_its_capture(real_traces):
    kineto = real_traces / "kineto"
    job = open_trace(
        kineto / "sglang_decode_graph", captures=kineto / "sglang_capture", progress=False
    )
    result = diagnose(job)
    found = line(result, "few_rows")
    assert "up to 2.9 ms of each 10.5 ms decode step (27.7 %)" in found.sentence
    assert found.advice[0].code.startswith("export PYTORCH_TUNABLEOP_ENABLED=1")
    assert "would take 2.9 ms less" in gpu_bound(job, result)["label"]


def test_products_at_the_memorys_limit_are_as_fast_as_they_can_be(tmp_path):
    found = line(diagnose(served(tmp_path, product_us=WAITING_US / 0.7)), "few_rows")
    assert found.sentence.endswith("up to 247 rows cost little more.")
    assert found.recoverable_ms == 0
    assert found.advice[0].do.startswith("Serve more concurrent requests")


@pytest.mark.parametrize(("part", "causes"), [(0.3, ["few_rows"]), (0.7, [])])
def test_what_faster_kernels_for_few_rows_save_is_said_beside_any_finding(tmp_path, part, causes):
    weights = {"shapes": [[16, 8192], [8192, 8192]], "type_": "c10::BFloat16", "name": TENSOR}
    one = Host()
    for _ in range(10):
        one.launch(2_000, name="ampere_sgemm_32x32_tn")
        one.launch(8192 * 8192 * 2 / (part * 1.555e12) * 1e6, **weights)
    result = diagnosed(tmp_path, one, gpu=A100)
    assert [each.cause for each in result] == ["no_tensor_cores"]
    assert [each.cause for each in result.to_try] == causes


def decoded(folder, requests, percent=60, **options):
    """A server whose products, of no recorded shapes, take a part of the time."""
    lengths = {"product_us": 10 * percent, "other_us": 1000 - 10 * percent}
    options = {"step": Step(generation=requests), **lengths, **options}
    return line(diagnose(served(folder, rows=None, **options)), "few_rows")


def test_few_requests_tell_what_shapes_would(tmp_path):
    """vLLM replays its products from graphs: of 4 requests, only faster kernels were advised."""
    found = decoded(tmp_path, 4)
    assert found.sentence == (
        "Each step decodes for 4 requests, and matrix products take 60 % of the compute time: they "
        "read all weights, however few the rows."
    )
    assert found.advice[0].do.startswith("Serve more concurrent requests")


def of_vectors(folder, percent):
    """Two kernels that multiply by a vector, which take a part of the time together."""
    one = Host()
    for name in ("7", "6"):
        one.launch(5 * percent, name=f"internal::gemvx::kernel<int, __half, {name}>")
    one.launch(1000 - 10 * percent, name="norm")
    return line(diagnosed(folder, one, gpu=H100), "few_rows")


def test_products_with_a_vector_count_together(tmp_path):
    """Of Llama in a graph, only the larger one of two was named, to record what has its shapes."""
    found = of_vectors(tmp_path, 94)
    assert found.sentence == (
        "Products of a matrix and a vector (GEMV) take 94 % of the compute time (2 launches): each "
        "reads its whole matrix for one row, as in decoding a single sequence."
    )
    assert found.advice[0].do.startswith("Quantise the weights")


@pytest.mark.parametrize("options", [{"step": PREFILL}, {"other": "fused_moe_kernel"}])
def test_more_requests_cost_more_of_prompts_and_of_experts(tmp_path, options):
    assert decoded(tmp_path, 4, **options) is None


NETWORK = "aten::cudnn_convolution", "aten::cudnn_batch_norm", "aten::clamp_min_", "aten::add_"
"""Of which no chain is long enough to be worth fusing."""


def of_network(folder, us=(400, 213, 168, 163), *, trains=False, compiled=False, norms="norms"):
    """Convolutions with norms, activations and additions between them, without shapes."""
    one = Host()
    for number in range(12):
        for name, length in zip(NETWORK, us, strict=True):
            kernel = "triton_poi_fused_0" if compiled and number == 0 else f"of_{name[6:]}"
            kernel = norms if name.endswith("norm") else kernel
            one.launch(length, operator=name, name=kernel)
    if trains:
        one.launch(10, operator="autograd::engine::evaluate_function: MmBackward0", name="mm")
    return diagnosed(folder, one, gpu=H100)


def test_operators_that_only_move_data_are_named(tmp_path):
    found = line(of_network(tmp_path), "memory_bound")
    assert found.sentence == (
        "Operators that only read and write memory take 57.6 % of the kernel time, most in "
        "aten::cudnn_batch_norm 22.6 %, aten::clamp_min_ 17.8 %, aten::add_ 17.3 %."
    )
    assert found.evidence["operators"]["gpu_ms"].round(6).tolist() == [2.556, 2.016, 1.956]
    assert [each.do.split()[0] for each in found.advice] == ["Compile", "Fold", "Use"]


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        ({"trains": True}, ["Compile", "Use"]),
        ({"compiled": True}, ["Find", "Fold", "Use"]),
        ({"norms": "bn_fw_tr_1C11_kernel_NCHW"}, ["If", "Compile", "Fold"]),
        ({"norms": "bn_fw_tr_1C11_kernel_NCHW", "trains": True}, ["Compile", "Use"]),
    ],
)
def test_what_helps_operators_that_only_move_data(tmp_path, options, advice):
    found = line(of_network(tmp_path, **options), "memory_bound")
    assert [each.do.split()[0] for each in found.advice] == advice


OF_EXPERTS = "_matmul_ogs_NNT_bf16xbf16xmxfp4_128x128x128x1"


def of_experts(folder, percent):
    """Half of the products are followed by an activation."""
    length = NORM_US * percent / (100 - percent) / 2
    names = OF_EXPERTS, f"{OF_EXPERTS}_swiglu"
    return line(made(folder, *({"length": length, "name": each} for each in names)), "experts")


def test_the_kernels_of_experts_are_added_up(tmp_path, real_traces):
    """Two kernels took 78.6 % of the step of a server, and only the larger one had a line."""
    found = of_experts(tmp_path, 50)
    assert found.sentence == (
        "Kernels of experts take 50 % of the compute time "
        "(20 launches: 10 with a median of 500 µs, 10 with a median of 500 µs)."
    )
    assert [each.do[:16] for each in found.advice] == ["Give each expert"]
    (recorded,) = (real_traces / "kineto/vllm_piecewise").glob("*.json*")
    text = gzip.decompress(recorded.read_bytes()).decode()
    others = "vllm serve MODEL --help=moe-backend"
    for name, codes in (
        ("ck_tile", [others, ""]),  # norms of AITER, which has nothing for these experts
        ("vllm", ["VLLM_ROCM_USE_AITER=1 vllm serve MODEL", others, ""]),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "rank-0.json").write_text(text.replace("ck_tile", name))
        served = diagnose(open_trace(tmp_path / name, progress=False))
        assert [each.code for each in line(served, "experts").advice] == codes


GROUPED = "void cutlass::device_kernel<dpsk::grouped_gemm::cuda::{0}::Kernel>({0}::Kernel::Params)"


@pytest.mark.parametrize(
    ("kernel", "is_one"),
    [
        (GROUPED.format("m_grouped_fp8"), True),
        (GROUPED.format("fp8"), False),  # 61 % of them were projections of attention
        ("void cutlass::device_kernel<cutlass::gemm::kernel::GroupProblemShape<int>>(int)", True),
        ("_grouped_gemm_kernel", True),
    ],
)
def test_a_namespace_does_not_make_a_kernel_one_of_experts(tmp_path, kernel, is_one):
    result = made(tmp_path, {"length": NORM_US, "name": kernel})
    assert (line(result, "experts") is not None) == is_one


def test_experts_in_training_are_not_short_of_tokens(tmp_path):
    """Of 1.43 ms, an H800 needs 0.05 to read the weights of its four experts."""
    one = Host()
    for _ in range(10):
        one.launch(1_000, name=OF_EXPERTS)
    one.launch(10, operator="autograd::engine::evaluate_function: MmBackward0", name="mm")
    (advice,) = line(diagnosed(tmp_path, one, gpu=H100), "experts").advice
    assert advice.do.startswith("Time a step with other kernels for grouped matrix products")


def copying(folder, percent, *, beside=False):
    """Half of the copies are made by what code that was compiled without Inductor calls."""
    one, us = Host(), 10 * percent
    for number in range(10):
        one.launch(1000 - us, operator="aten::native_layer_norm", name="norm")
        copy = {"cat": "gpu_memcpy", "name": "Memcpy DtoD (Device -> Device)"}
        with one.inside("CompiledFunction" if number % 2 else "aten::cat", "cpu_op"):
            one.launch(us, operator="aten::clone", stream=9 if beside else 7, **copy)
            one.free -= us * beside
    return diagnosed(folder, one, gpu=A100)


def test_copies_within_the_gpu_name_who_makes_them(tmp_path):
    """One rank spent 13 % of its steps in 768 copies, of which no line said anything."""
    result = copying(tmp_path, 20)
    found = line(result, "device_copies")
    assert found.sentence == (
        "10 copies within the GPU take 2 ms of the GPU span (20 %), 50 % of it in aten::cat."
    )
    assert [each.do[:7] for each in found.advice] == ["Write r"]
    assert result.proof(found).ms == pytest.approx(2)


def test_copies_around_graphs_are_for_what_these_read_and_return(tmp_path):
    """766 of 768 copies of a step fill and empty two CUDA graphs; another operator has one."""
    one = Host()
    copy = {
        "cat": "gpu_memcpy",
        "name": "Memcpy DtoD (Device -> Device)",
        "operator": "aten::clone",
    }
    for _ in range(10):
        with one.inside("CompiledFunction", "cpu_op"):
            for _ in range(4):
                one.launch(20, **copy)
            one.calls("cudaGraphLaunch", 10)
        with one.inside("aten::cat", "cpu_op"):
            one.launch(10, **copy)
        one.launch(900, operator="aten::native_layer_norm", name="norm")
    result = diagnosed(tmp_path, one, gpu=A100)
    found = line(result, "device_copies")
    assert ", 40 of them for what CUDA graphs read and return: up to " in found.sentence
    assert found.recoverable_ms == pytest.approx(10 * (4 * 20 + 10) / 1000, rel=0.2)


def test_copies_beside_kernels_cost_nothing(tmp_path):
    assert line(copying(tmp_path, 20, beside=True), "device_copies") is None


def test_the_largest_kernel_is_named_with_what_measures_it(tmp_path):
    result = made(tmp_path)
    _, found = result.to_try
    assert found.sentence == (
        "norm is the largest kernel, with 100 % of the compute time (10 launches, median 1 ms), "
        "all of it in aten::native_layer_norm."
    )
    (advice,) = found.advice
    assert advice.do.startswith("The trace cannot tell how to speed it up: profile it with Nsight")
    assert advice.code == "ncu --set full -k regex:norm -c 3 python script.py"


TENSORRT = "sm80_xmma_fprop_implicit_gemm_f16f16_f16f16_f16_nhwckrsc_nhwc_tilesize128x128x32_stage4"
TENSILE = "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x192x64_MI16x16x1"


@pytest.mark.parametrize(
    ("name", "others", "word"),
    [
        (f"{TENSILE}_UL1", [f"{TENSILE}_UL0"], "UL1"),
        (f"{TENSILE}_UL1", ["norm"], "Cijk_Alik_Bljk_BBS_B"),
        ("gemm_a", ["gemm_a_long"], "gemm_a"),  # each part is in the other
        (
            "void at::native::norm_kernel<float>(int)",
            ["at::native::norm_kernel<half>"],
            "norm_kernel",
        ),
        ("$(reboot)", [], ""),
        (f"{TENSORRT}_t1r3s3", [TENSORRT, f"{TENSORRT}_t1r3s3_aACCESS"], f"{TENSORRT}_t1r3s3"),
        ("__omp_offloading_31_18a80bc__Z_2...", [], "__omp_offloading_31_18a80bc"),
        ("__omp_offloading_31_18a80bc__Z2mmlllid_l28", [], "__omp_offloading_31_"),
    ],
)
def test_the_word_by_which_a_profiler_finds_one_kernel(name, others, word):
    assert word_for_shell(name, [name, *others]) == word


@pytest.mark.parametrize(
    ("name", "other", "options"),
    [
        ("norm", "add", "-k regex:norm"),
        ("norm", "norm_2", "-k norm"),
        (
            "void norm_kernel<4, c10::BFloat16>(int)",
            "void norm_kernel<2, c10::Half>(int)",
            '--kernel-name-base demangled -k "regex:norm_kernel.*BFloat16"',
        ),
        ("void norm_kernel<4>(int)", "void norm_kernel<2>(int)", "-k regex:norm_kernel"),
        ("_Z11norm_kernelILi4EEvi", "add", "-k regex:norm_kernel"),
        (
            "_Z11norm_kernelILi4EEvi",
            "_Z11norm_kernelILi2EEvi",
            "--kernel-name-base mangled -k regex:kernelILi4EEvi",
        ),
        ("_Z4normv$PATH", "_Z4normi", "-k regex:_Z4normv"),  # nothing for the shell
        ("_Z30cut", "add", "--kernel-name-base mangled -k regex:Z30cut"),
        (
            "void cutlass::Kernel<cutlass_80_relu_f16_128x256>(Params)",
            "void cutlass::Kernel<cutlass_80_relu_f16_64x64>(Params)",
            "--kernel-name-base demangled -k regex:cutlass_80_relu_f16_128x256",
        ),
    ],
)
def test_kernels_of_other_names_are_not_profiled(tmp_path, name, other, options):
    """The first three launches that matched a kernel of TensorRT were all of others."""
    result = made(tmp_path, {"length": 2 * NORM_US, "name": name}, {"length": 500, "name": other})
    (advice,) = line(result, "largest_kernel").advice
    assert advice.code == f"ncu --set full {options} -c 3 python script.py"


def test_a_lambda_is_profiled_with_those_of_its_function_only(tmp_path):
    """In CloverLeaf, one template has 36 kernels around lambdas, two of them in PdV_kernel."""
    name = "void par_ranged<PdV_kernel(int)::[lambda(int) (instance {})]>(Range)"
    other = "void par_ranged<build_field(int)::[lambda(int) (instance 1)]>(Range)"
    lengths = {name.format(2): 2 * NORM_US, name.format(1): 400, other: 500}
    kernels = [{"length": length, "name": each} for each, length in lengths.items()]
    (advice,) = line(made(tmp_path, *kernels), "largest_kernel").advice
    assert '--kernel-name-base demangled -k "regex:par_ranged.*PdV_kernel"' in advice.code


def test_kernels_around_lambdas_of_one_function_count_together(tmp_path):
    """In CloverLeaf, twelve of advec_mom_kernel take 33.9 %; one of PdV_kernel was named, 6.6 %."""
    name = "void par_ranged<{}(Buffer<int> &)::[lambda(int) (instance {})]>(Range)"
    lengths = {name.format("advect", place): 400 for place in range(3)}
    lengths |= {name.format("PdV", 1): 900, name.format("PdV", 2): 100}
    one = Host()
    for each, length in lengths.items():
        one.launch(length, name=each, operator="")
    found = line(diagnosed(tmp_path, one), "largest_kernel")
    assert found.sentence.startswith(
        "3 kernels around lambdas of advect take 54.5 % of the compute time (3 launches, median "
        "400 µs)"
    )
    assert '-k "regex:par_ranged.*advect"' in found.advice[0].code
    assert {name for name in lengths if "advect" in name} == found.seen.what.names


def has_whole_name(_, characters):
    name = f"n_{'x' * (characters - 2)}"
    return word_for_shell(name, [name, f"{name}_2"]) == name


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ((7, 3), ", 70 % of it in aten::mm."),
        ((5, 5), " median 1 ms)."),
        ((0, 7), ", all of it in b."),
    ],
)
def test_most_of_the_largest_kernel_is_in_one_operator(tmp_path, parts, said):
    one = Host()
    for operator, count in zip(("aten::mm", "b"), parts, strict=True):
        for _ in range(count):
            one.launch(1_000, name="norm", operator=operator)
    (found,) = diagnosed(tmp_path, one, gpu=H100).to_try
    assert found.sentence.endswith(said)


def has_long_one(folder, part, count=20):
    """Whether it is said that one of so many launches takes such a part of their time."""
    one = Host()
    for number in range(count):
        length = 10_000 * (part if number == 0 else (1 - part) / (count - 1))
        one.launch(length, name="norm")
    said = line(diagnosed(folder, one, gpu=H100), "largest_kernel").sentence
    assert (f", one of {10 * part:.1f} ms" in said) == (", one of" in said)
    return ", one of" in said


def test_one_of_few_launches_is_not_long(tmp_path):
    """Of two, one has half of the time."""
    assert not has_long_one(tmp_path, 0.6, count=2)


def test_launches_of_two_kinds_are_told_apart(tmp_path):
    """Of a mean of 1.05 ms, most launches took half, and few took 20 times as much."""
    one = Host()
    for number in range(100):
        one.launch(10_000 if number < 5 else 500, name="norm")
    said = line(diagnosed(tmp_path, one, gpu=H100), "largest_kernel").sentence
    assert "(100 launches, median 500 µs, 51.3 % of it in 5 of 10 ms or more)" in said


def is_longer(folder, times):
    """Whether two of eight launches are said to be longer, if they take so many times as long."""
    one = Host()
    for number in range(8):
        one.launch(1_000 * (times if number < 2 else 1), name="norm")
    return " of it in 2 of " in line(diagnosed(folder, one, gpu=H100), "largest_kernel").sentence


def test_what_takes_more_of_the_time_is_tried_first(real_traces):
    """Products with 11 % of it stood above kernels of experts with 80 %."""
    kineto = real_traces / "kineto"
    trace, captures = kineto / "vllm_piecewise", kineto / "vllm_piecewise_capture"
    found = diagnose(open_trace(trace, captures=captures, progress=False))
    causes = [each.cause for each in found.to_try]
    assert causes == ["experts", "large_products", "largest_kernel"]


@pytest.mark.parametrize(
    ("recording", "capture", "said", "advice"),
    [
        ("sglang_decode_graph", "sglang_capture", ", all of it in aten::mm.", "The trace cannot"),
        (
            "vllm_piecewise",
            "vllm_piecewise_capture",
            ", all of it in vllm::moe",
            "The trace cannot",
        ),
        ("vllm_piecewise", "sglang_capture", "HIP graphs, without shapes.", "Record the captures"),
        ("vllm_piecewise", None, "HIP graphs, without shapes.", "Record the graph capture as"),
    ],
)
def test_kernels_of_graphs_have_the_operators_of_captures(
    real_traces, recording, capture, said, advice
):
    kineto = real_traces / "kineto"
    captures = None if capture is None else kineto / capture
    job = open_trace(kineto / recording, captures=captures, progress=False)
    made = diagnose(job)
    found = line(made, "largest_kernel")
    assert said in found.sentence
    assert found.advice[0].do.startswith(advice)
    is_refused = "captures of other graphs" in found.evidence["conditions"]
    assert is_refused == (advice == "Record the captures")
    joined = [each for each in made.notices if "graph replays" in each]
    assert len(joined) == (capture is not None)


def has_few_blocks(folder, part):
    blocks = round(1_000 * part)
    one = Host()
    for _ in range(10):
        one.launch(1000, name="norm", grid=[blocks, 1, 1], block=[32, 1, 1])
    (found,) = diagnosed(folder, one, gpu={**H100, "numSms": 1_000}).to_try
    said = f"{blocks} of 1,000 multiprocessors" in found.sentence
    assert found.advice[0].do.startswith("Launch at least as many blocks") == said
    return said


def has_few_threads(folder, threads, blocks=132):
    one = Host()
    for _ in range(10):
        one.launch(1000, name="norm", grid=[blocks, 1, 1], block=[threads, 1, 1])
    found = line(diagnosed(folder, one, gpu={**H100, "numSms": 132}), "largest_kernel")
    said = f", {threads} threads in each block)" in found.sentence
    assert found.advice[0].do.startswith("Launch blocks of 128 to 256 threads") == said
    return said


SM = {
    "numSms": 132,
    "warpSize": 32,
    "maxThreadsPerMultiprocessor": 2048,
    "regsPerMultiprocessor": 65_536,
    "sharedMemPerMultiprocessor": 233_472,
}


def filling(folder, threads, registers=128, shared=0, *, blocks=1_320, name="fit_lines"):
    """What is told of a kernel whose block needs so much of a multiprocessor."""
    one = Host()
    needs = {"registers per thread": registers, "shared memory": shared}
    for _ in range(10):
        one.launch(1000, name=name, grid=[blocks, 1, 1], block=[threads, 1, 1], **needs)
    return line(diagnosed(folder, one, gpu={**H100, **SM}), "largest_kernel")


def is_kept_out(folder, occupancy):
    found = filling(folder, round(20.48 * occupancy))
    said = "occupancy, as 1 block fits on a multiprocessor with 128 registers/thread"
    is_said = said in found.sentence
    assert found.advice[0].do.startswith("Let more blocks run at a time") == is_said
    return is_said


@pytest.mark.parametrize(
    ("needs", "said", "do"),
    [
        (
            {"threads": 192, "registers": 188},
            "as 1 block fits on a multiprocessor with 188 registers/thread",
            "limit the registers of a thread",
        ),
        (
            {"threads": 64, "registers": 32, "shared": 100_000},
            "as 2 blocks fit on a multiprocessor with 100 kB shared memory/block",
            "use less shared memory in each",
        ),
    ],
)
def test_what_keeps_more_blocks_out_is_said(tmp_path, needs, said, do):
    """188 registers/thread were recorded: “the trace cannot tell how to speed it up”."""
    found = filling(tmp_path, **needs)
    assert f" occupancy, {said})" in found.sentence
    assert do in found.advice[0].do
    assert found.advice[-1].code.startswith("ncu ")


@pytest.mark.parametrize(
    "needs",
    [
        {"threads": 32, "registers": 32},  # 32 blocks at a time, whatever they need
        {"threads": 192, "registers": 188, "blocks": 100},  # a small grid
        {"threads": 192, "registers": 188, "name": TENSOR},  # written for few threads
    ],
)
def test_nothing_is_kept_out_of_a_multiprocessor(tmp_path, needs):
    found = filling(tmp_path, **needs)
    assert " fit" not in found.sentence.replace("fit_lines", "")
    assert not any(each.do.startswith("Let more blocks run") for each in found.advice)


def is_long(folder, ns):
    """Three launches of 50 s were to be repeated about 40 times each."""
    one = Host()
    one.launch(ns / 1000, name="step")
    (*_, advice) = line(diagnosed(folder, one), "largest_kernel").advice
    says = advice.do.startswith("Profile it on a smaller")
    assert advice.code.endswith("-c 1 python script.py") == says
    return says


def test_one_thread_on_a_gpu_stands_out(tmp_path):
    """It kept an A100 for 51 s, and the advice was to launch 108 of them."""
    one = Host()
    one.launch(1_000, name="add", grid=[1, 1, 1], block=[1, 1, 1])
    made = diagnosed(tmp_path, one, gpu={**A100, "numSms": 108})
    assert made.finding.startswith(
        "add uses only 1 of 108 multiprocessors, and one thread of it, for 100 % of the GPU span. "
    )
    (found,) = made.to_try
    assert ", 1 of 108 multiprocessors, 1 thread in each block), all of" in found.sentence
    assert found.advice[0].do.startswith("Split the work into blocks of 128 to 256 threads, and ")


@pytest.mark.parametrize(
    ("operator", "command"),
    [
        ("vllm::rms_norm", "vllm serve MODEL"),
        ("sglang::norm", "python script.py"),
        ("sglang/norm", "python -m sglang.launch_server --model-path MODEL"),
    ],
)
def test_a_server_is_profiled_as_it_is_started(tmp_path, operator, command):
    one = Host()
    for _ in range(10):
        one.launch(1000, operator=operator, name="norm")
    (found,) = diagnosed(tmp_path, one).to_try
    assert found.advice[0].code == f"ncu --set full -k regex:norm -c 3 {command}"


@pytest.mark.parametrize("name", ["$(touch x)", "'; touch x", "ядро"])
def test_a_name_does_not_become_a_command(tmp_path, name):
    one = Host()
    for _ in range(10):
        one.launch(1000, name=name)
    (found,) = diagnosed(tmp_path, one).to_try
    assert found.advice[0].code == ""


def test_causes_below_their_limits_come_first_with_their_price(tmp_path):
    """Chains take 60 of 1,060 µs, of which fusing saves half: 2.8 %, and 8 % is a finding."""
    adds = [
        {"length": 20, "name": f"void at::native::elementwise_kernel<{each}>()"} for each in "abc"
    ]
    result = made(tmp_path, *adds, norm_us=500)
    assert not result
    found = result.to_try[0]
    assert (found.cause, found.bound) == ("unfused_elementwise", "at least")
    assert found.percent == pytest.approx(100 * 30 / 560, rel=0.01)
    assert found.advice[0].code == "model = torch.compile(model)"
    text = report(result)
    assert "What to try: the GPU is the bottleneck" in text
    assert text.index("unfused elementwise") < text.index("norm is the largest kernel")
    assert [each["cause"] for each in document(result)["to_try"]] == [
        "unfused_elementwise",
        "largest_kernel",
    ]


def test_in_graphs_the_capture_has_the_shapes(real_traces):
    kineto = real_traces / "kineto"
    alone = diagnose(open_trace(kineto / "sglang_decode_graph", progress=False))
    rows, found = alone.to_try
    assert rows.sentence.startswith(
        "Each step decodes for 32 requests, and matrix products take 59.2"
    )
    assert found.sentence.endswith("; 98.9 % of the kernel time is in HIP graphs, without shapes.")
    assert found.advice[0].do.startswith("Record the graph capture")
    both = open_trace(
        kineto / "sglang_decode_graph", captures=kineto / "sglang_capture", progress=False
    )
    assert line(diagnose(both), "few_rows").sentence.startswith(
        "Matrix products of at most 32 rows take 59.2 % of the kernel time"
    )


@pytest.mark.parametrize(
    ("trace", "causes"),
    [
        (
            "h100_qwen",
            ["unfused_elementwise", "large_products", "attention", "largest_kernel"],
        ),
        ("ns_resolution", ["memory_bound"]),  # beside a finding of 42 %
        ("torch_compile", ["large_products", "attention", "largest_kernel"]),
        ("vllm_piecewise", ["experts", "largest_kernel"]),
        ("h100_bert", []),  # the host is the bottleneck
    ],
)
def test_on_real_traces(real_traces, trace, causes):
    found = diagnose(open_trace(real_traces / "kineto" / trace, progress=False))
    assert [each.cause for each in found.to_try] == causes


def with_finding(folder, percent):
    """Whether the largest kernel is named beside a finding that brings this part of the step."""
    sgemm_us = percent / 0.75 * 10  # tensor cores take a quarter of it
    work = {"length": sgemm_us, "name": "ampere_sgemm_32x32_tn"}
    result = made(folder, work, norm_us=1000 - sgemm_us, gpu=A100)
    assert [each.cause for each in result] == ["no_tensor_cores"]
    return "largest_kernel" in {each.cause for each in result.to_try}


@pytest.mark.parametrize("is_sure", [False, True])
def test_a_finding_that_may_bring_nothing_hides_no_kernel(tmp_path, is_sure):
    """A pause of unknown cause may bring 40 %, and nothing was said of the only kernel, with 60."""
    one = Host()
    for number in range(10):
        one.queue(1_000, name="norm")
        one.now += 10
        if number == 4:
            one.synchronise()
            if is_sure:
                one.does("aten::unique", 6_000)
            else:
                one.now += 6_000
    result = diagnosed(tmp_path, one, gpu=H100)
    assert [each.confidence for each in result] == ["measured" if is_sure else "inconclusive"]
    assert [each.cause for each in result.to_try] == ["largest_kernel"] * (not is_sure)


@pytest.mark.parametrize(
    ("norm", "products", "causes"),
    [
        ({"name": "norm"}, 0.7, []),
        ({"name": "norm", "grid": [16, 1, 1], "block": [256, 1, 1]}, 0.7, ["largest_kernel"]),
        (attention_of(25), 2.9, ["attention"]),
        (attention_of(25), 3.1, []),
    ],
)
def test_what_is_known_to_be_slow_is_said_beside_any_finding(tmp_path, norm, products, causes):
    """Findings of 25.4 % hid a kernel of 26 % on 16 of 68 multiprocessors, but attention that takes
    less than a quarter made the page of 33 ranks longer than a screen."""
    sgemm = {"length": products * norm.get("length", 1_000), "name": "ampere_sgemm_32x32_tn"}
    one = Host()
    for _ in range(10):
        one.launch(**{"length": 1_000, **norm})
        one.launch(**sgemm)
    result = diagnosed(tmp_path, one, gpu={**A100, "numSms": 68})
    assert [each.cause for each in result] == ["no_tensor_cores"]
    assert result[0].percent > 25
    assert [each.cause for each in result.to_try] == causes


def products_taking(folder, percent):
    us = AT_PEAK_US / 0.5
    return (
        line(made(folder, product(us), norm_us=us * (100 / percent - 1)), "large_products") is None
    )


def says_moving(folder, percent):
    us = 1000 - 10 * percent, 10 * percent, 0, 0
    return line(of_network(folder, us), "memory_bound") is not None


def first_advice(folder, percent):
    found = line(made(folder, product(100 * AT_PEAK_US / percent)), "large_products")
    return found.advice[0].do[:3]


def few_rows_cost(folder, percent):
    result = diagnose(served(folder, product_us=100 * WAITING_US / percent))
    return line(result, "few_rows").recoverable_ms > 0


def comes_first(_, part):
    """Whether a price of this part of the share of another line stands above that line."""
    priced = SimpleNamespace(cause="slow_shape", percent=50 * part, evidence={})
    other = SimpleNamespace(cause="memory_bound", percent=0.0, evidence={"share_percent": 50.0})
    return worth(priced) > worth(other)


test_thresholds = cases(
    Case("gpu_bound.GAIN_OF_SHARE", comes_first, {0.099: False, 0.101: True}),
    Case("gpu_bound.ONE_LONG", has_long_one, {0.24: False, 0.26: True}),
    Case("gpu_bound.LONGER", is_longer, {4.9: False, 5.1: True}),
    Case("gpu_bound.LITTLE_PERCENT", with_finding, {24.8: True, 25.2: False}),
    Case("profile_command.MOST_CHARACTERS", has_whole_name, {200: True, 201: False}),
    Case("gpu_bound.LONG_NS", is_long, {10**9 - 1: False, 10**9: True}),
    Case("gpu_bound.WARP", has_few_threads, {31: True, 32: False}),
    Case("gpu_bound.LOW_OCCUPANCY", is_kept_out, {23.4375: True, 25: False}),
    Case("gpu_bound.FEW_BLOCKS", has_few_blocks, {0.49: True, 0.51: False}),
    Case("gpu_bound.LEAST_SHARE", products_taking, {4.9: True, 5.1: False}),
    Case(
        "gpu_bound.LEAST_SHARE",
        lambda folder, percent: line(copying(folder, percent), "device_copies") is not None,
        {4.8: False, 5.2: True},
    ),
    Case(
        "gpu_bound.FEW_REQUESTS",
        lambda folder, requests: decoded(folder, requests) is not None,
        {64: True, 65: False},
    ),
    Case(
        "gpu_bound.PRODUCTS_SHARE",
        lambda folder, percent: decoded(folder, 4, percent) is not None,
        {49.9: False, 50.1: True},
    ),
    Case(
        "gpu_bound.PRODUCTS_SHARE",
        lambda folder, percent: of_vectors(folder, percent) is not None,
        {49.9: False, 50.1: True},
    ),
    Case(
        "gpu_bound.EXPERTS_SHARE",
        lambda folder, percent: of_experts(folder, percent) is not None,
        {24.9: False, 25.1: True},
    ),
    Case("gpu_bound.ATTENTION_SHARE", attention_taking, {9.9: False, 10.1: True}),
    Case("gpu_bound.SLOW_ATTENTION", attention_reaching, {49.0: True, 51.0: False}),
    Case("gpu_bound.MOVING_SHARE", says_moving, {24.8: False, 25.2: True}),
    Case("gpu_bound.NEAR_ROOF", few_rows_cost, {59.0: True, 61.0: False}),
    Case("gpu_bound.NEAR_ROOF", first_advice, {59.0: "Let", 61.0: "Try"}),
)
