"""Chains of elementwise kernels that one kernel could replace."""

from __future__ import annotations

import json

import pytest

from hta_widgets.diagnosis import Limits
from hta_widgets.diagnosis.rules.unfused_elementwise import in_words
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
from tests.kineto_text import kernel

EVERYBODY = (0, 1)


def elementwise(name):
    return f"void at::native::vectorized_elementwise_kernel<4, at::native::{name}>"


def chain(names, us=100, layers=5):
    def program(rank, step):
        del rank, step
        items = []
        for _ in range(layers):
            items += [Compute(500 * US, "bf16_s16816gemm")]
            items += [Compute(us * US, elementwise(name)) for name in names]
        return [*items, Meet(EVERYBODY, 20 * US)]

    return program


def test_a_chain_of_different_kernels_would_be_faster_as_one(tmp_path):
    names = ["mul", "add", "tanh", "pow"]
    made = diagnosed(write_training(tmp_path, 2, chain(names)))

    finding = found(made, "unfused_elementwise")
    assert finding.ranks == EVERYBODY
    assert finding.recoverable_ms == pytest.approx(5 * 0.4 * (1 - 1.5 / 4))
    assert "unfused elementwise kernels, up to 4 in a row" in finding.sentence
    assert finding.evidence["chains"].to_numpy().tolist() == [
        [in_words([elementwise(name) for name in names], 4), 20, pytest.approx(8.0)]
    ]


@pytest.mark.parametrize("around", ["aten::mean", "torch::distributed::reducer::mul_out"])
def test_what_ddp_does_to_a_gradient_is_in_no_chain(tmp_path, around):
    """Half of the chains of a ResNet were an addition, DDP's scaling and a threshold."""
    one = scripts.Host()
    for number in range(4):
        with one.step(number):
            for _ in range(10):
                one.launch(500, name="bf16_s16816gemm")
                one.launch(100, name=elementwise("add"))
                with one.inside(around, cat="cpu_op"):
                    one.launch(100, operator="aten::mul", name=elementwise("mul"))
                one.launch(100, name=elementwise("threshold"))
    made = scripts.diagnosed(tmp_path, one)
    assert bool(found(made, "unfused_elementwise")) == (around == "aten::mean")


def test_the_share_of_chains_is_said_where_others_are_in_none(tmp_path):
    """14.5 % were elementwise, and 5.9 in what *Show* marked."""
    items = [*["bf16_s16816gemm", elementwise("pow")] * 3, *map(elementwise, ["mul", "add", "exp"])]

    def program(rank, step):
        del rank, step
        return [*(Compute(100 * US, name) for name in items * 5), Meet(EVERYBODY, 20 * US)]

    finding = found(diagnosed(write_training(tmp_path, 2, program)), "unfused_elementwise")
    # of 9 kernels, 6 are elementwise, and the last of these begin after one of the others
    assert finding.sentence.startswith(
        "66.7 % of the compute time on all ranks is in unfused elementwise kernels, 44.4 % in "
        "chains of up to 4; fusing them would save time"
    )


def test_equal_kernels_work_on_other_tensors(tmp_path):
    made = diagnosed(write_training(tmp_path, 2, chain(["add"] * 8)))
    assert not found(made, "unfused_elementwise")


def test_two_kernels_are_no_chain(tmp_path):
    made = diagnosed(write_training(tmp_path, 2, chain(["mul", "add"], us=400)))
    assert not found(made, "unfused_elementwise")


def test_a_small_share_is_silent(tmp_path):
    made = diagnosed(write_training(tmp_path, 2, chain(["mul", "add", "tanh", "pow"], us=12)))
    assert not made


def test_what_fusing_saves_counts_more_than_the_share(tmp_path):
    names = ["to", "pow", "add", "rsqrt", "mul", "neg", "copy"]
    folder = write_training(tmp_path, 2, chain(names, us=15))

    assert not diagnosed(folder, limits=Limits(elementwise_percent=20))
    finding = found(diagnosed(folder), "unfused_elementwise")
    assert finding.sentence.startswith("17.4 % of the compute time on all ranks is in")
    assert finding.recoverable_ms == pytest.approx(5 * 0.105 * (1 - 1.5 / 7), rel=1e-3)


def test_no_more_than_ten_kernels_are_taken_for_one(tmp_path):
    names = [f"op{number}" for number in range(40)]
    made = diagnosed(write_training(tmp_path, 2, chain(names, us=20)))
    assert found(made, "unfused_elementwise").recoverable_ms == pytest.approx(
        5 * 0.8 * (1 - 1.5 / 10)
    )


def test_kernels_that_run_before_the_first_step_are_of_no_step(tmp_path):
    shifts = dict.fromkeys(EVERYBODY, 10_000 * US)
    program = chain(["mul", "add", "tanh", "pow"], us=12)
    folder = write_training(tmp_path, 2, program, shifts_ns=shifts)
    for path in folder.glob("*.json"):
        content = json.loads(path.read_text())
        first = min(each["ts"] for each in content["traceEvents"] if each["cat"] == "kernel")
        content["traceEvents"] += [
            kernel(
                first - 5010 + 50 * place, 50, name=elementwise(("mul", "add", "pow")[place % 3])
            )
            for place in range(100)
        ]
        path.write_text(json.dumps(content))

    assert not found(diagnosed(folder), "unfused_elementwise")


HEADS = 32
BMM, SOFTMAX = "bf16_s16816gemm", "void (anonymous namespace)::softmax_warp_forward<float, 10>"
MATH = "aten::_scaled_dot_product_attention_math"


def attention(one, *, keys=512, width=64, softmax="aten::_softmax", order="psv"):
    """Products of 100 µs, and between them a division and a softmax of 150 µs each."""
    queries, value = [HEADS, keys, width], [HEADS, keys, width]
    scores, other = [HEADS, keys, keys], [HEADS, width, keys]
    parts = {
        "p": ("aten::bmm", [queries, other], BMM, 100),
        "d": ("aten::div", [scores], elementwise("div"), 150),
        "s": (softmax, [[1, *scores]], SOFTMAX, 150),
        "v": ("aten::bmm", [scores, value], BMM, 100),
        "b": ("aten::_softmax_backward_data", [[1, *scores]], SOFTMAX, 150),
    }
    for part in order:
        operator, shapes, name, us = parts[part]
        one.launch(us, operator=operator, shapes=shapes, name=name)


def job(around=(), **options):
    """Three steps of four such layers and a product of 1 ms each."""
    one = scripts.Host()
    for number in range(4):
        with one.step(number), one.inside("nn.Module: Model_0", "python_function"):
            for layer in range(4):
                with one.inside(f"nn.Module: SelfAttention_{layer}", "python_function"):
                    begin = one.now
                    attention(one, **options)
                    one.events += [scripts.host(begin, one.now - begin, name) for name in around]
                one.launch(1000, name=BMM)
            one.synchronise()
    return one


def unfused(folder, **options):
    return scripts.found(scripts.diagnosed(folder, job(**options)), "unfused_elementwise")


def test_attention_that_is_not_fused_costs_what_is_between_its_products(tmp_path):
    finding = unfused(tmp_path, order="pdsv")

    assert finding.recoverable_ms == pytest.approx(4 * 0.3)
    assert finding.sentence.startswith(
        "Unfused attention (bmm + softmax + bmm) takes 2 ms of 6 ms computing per step, all of it "
        "in SelfAttention; FlashAttention or SDPA would save time: at least 1.2 ms of each 6"
    )
    assert "scaled_dot_product_attention" in finding.advice[0].code
    assert finding.evidence["attention"].to_numpy().tolist() == [[512, 512, 12, 2.4, 3.6]]


def test_its_backward_pass_counts(tmp_path):
    finding = unfused(tmp_path, order="pdsvpbdv")
    assert "(bmm + softmax + bmm) takes 4 ms of 8 ms" in finding.sentence
    assert finding.recoverable_ms == pytest.approx(4 * 0.6)


def test_kernels_beside_its_products_are_no_part_of_it(tmp_path):
    """They have the shape of the scores by chance."""
    assert unfused(tmp_path, order="dpdsvd").recoverable_ms == pytest.approx(4 * 0.3)


def test_attention_that_finds_no_fused_kernel_is_told_why(tmp_path):
    finding = unfused(tmp_path, order="pdsv", around=[MATH])
    assert "warns about what they refuse" in finding.action


@pytest.mark.parametrize(
    "options",
    [
        {"order": "vdsp"},
        {"order": "pdv"},
        {"order": "dsd"},
        {"order": "pdsv", "softmax": "aten::_log_softmax"},
        {"order": "pdsv", "keys": 64},
    ],
    ids=["other order", "no softmax", "no products", "log", "few keys"],
)
def test_what_is_no_attention_is_silent(tmp_path, options):
    assert unfused(tmp_path, **options) is None


def chains(folder, names, us=100, rest_us=2500):
    """One chain a step, and a product."""

    def program(rank, step):
        del rank, step
        items = [Compute(round(us * US), elementwise(name)) for name in names]
        return [Compute(round(rest_us * US), "bf16_s16816gemm"), *items]

    return diagnosed(write_training(folder, 1, program, steps=2))


def left_by_compiler(folder, part):
    """This part of the elementwise kernels is launched by a function of `torch.compile`."""
    one = scripts.Host()
    for number in range(3):
        with one.step(number):
            one.launch(500, name="bf16_s16816gemm")
            with one.inside("CompiledFunction", cat="cpu_op"):
                for name in operations(4):
                    one.launch(250 * part, name=elementwise(name))
            one.launch(500, name="bf16_s16816gemm")
            for name in operations(4):
                one.launch(250 * (1 - part), name=elementwise(name))
    finding = scripts.found(scripts.diagnosed(folder, one), "unfused_elementwise")
    return finding.action.startswith("Compile with Inductor")


def operations(count):
    return [f"op{number}" for number in range(count)]


def also_attention(folder, percent):
    """Attention is this part of what fusing saves, and too little alone; the rest are chains."""
    one = scripts.Host()
    for number in range(3):
        with one.step(number):
            attention(one, order="pdsv")
            one.launch(6000, name=BMM)
            for name in operations(10):
                one.launch(300 * (100 / percent - 1) / 10 / 0.85, name=elementwise(name))
            one.launch(6000, name=BMM)
            one.synchronise()
    limits = Limits(least_percent_in_every_job=3, elementwise_percent=2)
    made = scripts.diagnosed(folder, one, limits=limits)
    return "Unfused attention" in scripts.found(made, "unfused_elementwise").sentence


test_what_fusing_must_save = least_price(
    "unfused_elementwise",
    "least_percent_in_every_job",
    lambda folder: chains(folder, operations(10)),
)

test_thresholds = cases(
    Case(
        "Limits.elementwise_percent",
        lambda folder, percent: price(
            chains(folder, operations(10), 10 * percent, 10_000 - 100 * percent),
            "unfused_elementwise",
        ),
        {9.9: None, 10.1: 1.01 * 0.85},
    ),
    Case(
        "compute_facts.FEWEST_IN_CHAIN",
        lambda folder, count: price(chains(folder, operations(count), 600), "unfused_elementwise"),
        {2: None, 3: 0.9},
    ),
    Case(
        "compute_facts.MOST_FUSED",
        lambda folder, _: price(chains(folder, operations(12)), "unfused_elementwise"),
        {10: 1.2 * 0.85},
    ),
    Case(
        "compute_facts.FUSED_COST",
        lambda folder, _: price(chains(folder, operations(6)), "unfused_elementwise"),
        {1.5: 0.6 * 0.75},
    ),
    Case("unfused_elementwise.LEFT_BY_COMPILER", left_by_compiler, {0.48: False, 0.52: True}),
    Case("Limits.owner_percent", also_attention, {59: False, 61: True}),
)
