"""A host that launches too slowly."""

from __future__ import annotations

import math
import re
from contextlib import nullcontext

import numpy as np
import pytest

from hta_widgets import diagnose, open_trace
from hta_widgets.diagnosis import Limits
from hta_widgets.diagnosis.analysis import answers_of_all
from hta_widgets.diagnosis.facts.gap_owners import waits_by_operator
from hta_widgets.diagnosis.rules.launch_bound import few_of, may_be_stacks
from hta_widgets.trace.model.events import Kind
from tests import nsys_export
from tests.diagnosis.findings.scripts import Host, all_reduce, diagnosed, found, step_of
from tests.diagnosis.findings.test_advice import known_of
from tests.diagnosis.findings.thresholds import Case, cases, least_price
from tests.kineto_text import call, host, kernel, write
from tests.server_loops import Loop, Step, sglang, vllm

CAUSE = "launch_bound"


def job(takes, *, steps=5, ranks=1, **work):
    """Long kernels, then a hundred short ones, each launched by an operator that takes so long."""
    hosts = [Host() for _ in range(ranks)]
    for number in range(steps):
        with step_of(hosts, number):
            for rank, each in enumerate(hosts):
                for _ in range(5):
                    each.launch(200)
                each.synchronise()
                with each.inside("Optimizer.step#AdamW.step"):
                    for _ in range(100):
                        each.launch(2, operator="aten::mul", takes=takes(rank), **work)
            if ranks > 1:
                all_reduce(hosts)
    return hosts


def test_a_slow_host(tmp_path):
    finding = found(diagnosed(tmp_path, *job(lambda _: 15)), "launch_bound")
    assert finding.recoverable_ms == pytest.approx(1.3, rel=0.1)
    assert finding.steps == (0, 1, 2, 3)
    assert finding.advice[0].code == "torch.optim.AdamW(model.parameters(), fused=True)"
    assert finding.evidence["conditions"] == "training, AdamW, in the optimizer"
    assert "105 kernels per step" in finding.sentence
    assert "before the 100 kernels of AdamW (median 2 µs)" in finding.sentence
    row = finding.evidence["launching"].iloc[0]
    assert row["region"] == "AdamW"
    assert row["region_percent"] > 90
    assert row["median_launch_us"] == 4
    # The GPU waits for all but 2 of the 15 µs between kernels, and 4 of them are a call.
    assert row["in_calls_percent"] == pytest.approx(100 * 4 / 13, rel=0.01)


def test_only_the_slow_host_is_named(tmp_path):
    """Not the ranks that wait for it: they launch as many kernels in time."""
    finding = found(diagnosed(tmp_path, *job(lambda rank: 15 if rank == 2 else 2, ranks=4)), CAUSE)
    assert finding.ranks == (2,)
    assert finding.sentence.startswith("Launch-bound on rank 2: the CPU cannot keep up with 106")
    assert "(median 2 µs) that other ranks launch in time; " in finding.sentence
    assert finding.advice[0].do.startswith("Find out what slows some of the hosts")


def test_all_slow_hosts_are_alike(tmp_path):
    finding = found(diagnosed(tmp_path, *job(lambda _: 15, ranks=4)), CAUSE)
    assert finding.ranks == (0, 1, 2, 3)
    assert "other ranks" not in finding.sentence
    assert not any("slows some of the hosts" in each.do for each in finding.advice)


def advises_to_compare(folder, late=0.0, ratio=1.0):
    """Whether it is advised to find out why one of two hosts is slower.

    The faster one is late for a part of the time of the other, which may launch more kernels.
    """
    hosts = [Host(), Host()]
    for number in range(4):
        with step_of(hosts, number):
            for _ in range(round(400 * ratio)):
                hosts[0].launch(5, takes=12)
            hosts[0].launch(1_000)  # so that nobody waits for the faster one
            for count in range(400):
                hosts[1].launch(5, takes=12 if count < 400 * late else 3)
            all_reduce(hosts)
    finding = found(diagnosed(folder, *hosts), CAUSE)
    assert finding.ranks == (0,)
    return "slows some of the hosts" in finding.advice[0].do


test_hosts_that_are_not_late = cases(
    Case("launch_bound.LEAST_LATE", advises_to_compare, {0.095: True, 0.105: False}),
    Case(
        "launch_bound.AS_MANY",
        lambda folder, value: advises_to_compare(folder, ratio=value),
        {1.09: True, 1.11: False},
    ),
)


def test_a_slow_host_that_is_ahead_is_not_late_yet(tmp_path):
    """The recording would be as short if only the other one were faster, but not a longer one."""
    hosts = [Host(), Host()]
    for each in hosts:
        each.launch(30_000)
    hosts[0].now = hosts[0].free
    for number in range(4):
        with step_of(hosts, number, waits=False):
            for each in hosts:
                for _ in range(400):
                    each.launch(5, takes=12)
            all_reduce(hosts)
    finding = found(diagnosed(tmp_path, *hosts), CAUSE)
    assert finding.ranks == (0, 1)
    assert ", though rank 1 is still ahead" in finding.sentence
    assert finding.advice[0].do.startswith("Find out what slows some of the hosts")


def test_a_host_that_launches_just_before_the_gpu_runs_dry(tmp_path):
    """Kernels of 4 µs start 8 µs apart, as they are launched: none tells what starting takes.

    As if the 4 µs between them were the GPU's own, the price was 0.1 of 1.2 ms.
    """
    one = Host()
    for number in range(5):
        with one.step(number):
            for _ in range(300):
                one.launch(4, takes=8)
            one.synchronise()
    finding = found(diagnosed(tmp_path, one), "launch_bound")
    assert finding.recoverable_ms == pytest.approx(1.2, rel=0.05)  # in a graph, all of 4 µs each
    alone_ms = finding.evidence["without_launching_ms"]
    assert alone_ms == pytest.approx(0.9, rel=0.05)  # 1 µs of 4 to start each


def decoding(name, batches, captured=16):
    """Steps of a server, which replay a graph where one is captured for their batch."""
    one = Host()
    for batch in batches:
        with one.inside(name(Step(generation=batch))):
            if batch == captured:
                one.queue(1_000)
                one.events[-2]["name"] = "cudaGraphLaunch"
                one.now += 10
            for _ in range(100 * (batch != captured)):
                one.launch(2, takes=12)
        one.synchronise()
    return one


@pytest.mark.parametrize(("name", "engine"), [(vllm, "vLLM"), (sglang, "SGLang")])
def test_batches_that_are_not_captured(tmp_path, name, engine):
    some, none = (
        found(diagnosed(tmp_path / folder, decoding(name, batches)), "launch_bound").advice[0].do
        for folder, batches in (("some", [16, 17] * 8), ("none", [17] * 16))
        if not (tmp_path / folder).mkdir()
    )
    assert some == (
        "Capture graphs for the batch sizes of these steps too: other steps replay theirs."
    )
    assert none.startswith(f"Let {engine} capture CUDA graphs: start it without")


def captures_more(folder, tokens):
    """Whether vLLM is to capture graphs for more tokens than it does by default."""
    finding = found(diagnosed(folder, decoding(vllm, [tokens] * 16)), "launch_bound")
    assert finding.advice[0].do.startswith("Let vLLM capture CUDA graphs")
    return finding.advice[0].code == "vllm serve MODEL --max-cudagraph-capture-size 1024"


@pytest.mark.parametrize(("tokens", "more"), [(888, True), (1024, True), (1025, False)])
def test_steps_of_many_tokens_have_no_graph_by_default(tmp_path, tokens, more):
    """A B200 prefilled 888 tokens, and only ``enforce_eager`` was to go."""
    assert captures_more(tmp_path, tokens) == more


@pytest.mark.parametrize("kernel_us", [1.0, 3.0, 8.0])
def test_the_price_of_eager_decoding_is_what_a_graph_of_it_saves(tmp_path, kernel_us):
    """More than the GPU waits for its host: the calls before the first kernel go, too."""
    plan = [Step(generation=16, kernel_us=kernel_us)] * 12
    took_ns = []
    for graphs in (False, True):
        loop = Loop(kernels=100, graphs=graphs, ahead=True, launch_us=8)
        path = write(tmp_path / f"{graphs}.json", loop.record(plan))
        took_ns.append(diagnose(path).step_ns)
    made = diagnose(tmp_path / "False.json")
    (finding,) = (each for each in made if each.cause == "launch_bound")
    assert finding.bound == "at most"
    assert finding.recoverable_ms > made.steps["gap_op_ns"].mean() / 1e6
    assert finding.recoverable_ms == pytest.approx(-np.diff(took_ns)[0] / 1e6, rel=0.03)


def test_a_region_that_only_copies_has_no_kernels(tmp_path):
    copies = {"name": "Memcpy DtoD (Device -> Device)", "cat": "gpu_memcpy"}
    finding = found(diagnosed(tmp_path, *job(lambda _: 15, **copies)), "launch_bound")
    assert " is lost before copies of AdamW: " in finding.sentence


@pytest.mark.parametrize(
    ("name", "is_read"),
    [("Memcpy DtoH (Device -> Pinned)", True), ("Memcpy HtoD (Pinned -> Device)", False)],
)
def test_only_copies_to_the_host_are_for_what_the_gpu_could_compute(tmp_path, name, is_read):
    """LeNet's parameters, copied to the GPU one after another, were to be computed there."""
    hosts = job(lambda _: 15, name=name, cat="gpu_memcpy")
    finding = found(diagnosed(tmp_path, *hosts), "launch_bound")
    assert " before copies of AdamW" in finding.sentence
    assert any(each.do.startswith("Do on the GPU") for each in finding.advice) == is_read


def test_an_optimizer_is_one_whatever_it_marks_inside(tmp_path):
    """A model was to be compiled for the 224 launches of its own optimizer."""
    one = Host()
    for number in range(5):
        with one.step(number):
            one.launch(300)
            one.synchronise()
            with one.inside("Optimizer.step#Mine.step"), one.inside("Mine.step"):
                for _ in range(100):
                    one.launch(2, operator="aten::mul", takes=15)
    finding = found(diagnosed(tmp_path, one), "launch_bound")
    assert "before the 100 kernels of Mine (median 2 µs)" in finding.sentence
    assert finding.advice[0].code.startswith("torch._foreach_add_(")


def test_an_optimizer_in_a_range_of_the_user_is_named_though_nsight_marks_it_as_an_operator(
    tmp_path,
):
    """The range hid it, and the advice was to compile the model."""
    one = Host()
    for number in range(5):
        with one.step(number):
            one.launch(300)
            one.synchronise()
            with (
                one.inside("optimizer step"),
                one.inside("Optimizer.step#AdamW.step", cat="cpu_op"),
            ):
                for _ in range(100):
                    one.launch(2, operator="aten::mul", takes=15)
    finding = found(diagnosed(tmp_path, one), "launch_bound")
    assert "before the 100 kernels of AdamW (median 2 µs)" in finding.sentence
    assert finding.advice[0].code == "torch.optim.AdamW(model.parameters(), fused=True)"


def outside_backward(folder, percent):
    """Whether a host that spends so much of its time in the backward pass is late outside, too."""
    one = Host()
    for number in range(3):
        with one.step(number):
            for count in range(200):
                name = f"aten::op{count % 4}"
                if count < 2 * percent:
                    of = ("MmBackward0", "AddBackward0")[count % 2]
                    name = f"autograd::engine::evaluate_function: {of}"
                one.launch(2, operator=name, takes=15)
            one.synchronise()
    said = found(diagnosed(folder, one), "launch_bound").sentence
    assert f" is lost in the backward pass ({2 * percent:g} kernels, median 2 µs)" in said
    return " outside it: up to " in said


def test_the_slow_rank_is_blamed(tmp_path):
    hosts = job(lambda rank: 30 if rank == 1 else 3, ranks=4)
    finding = found(diagnosed(tmp_path, *hosts), "launch_bound")
    assert finding.ranks == (1,)
    assert finding.sentence.startswith("Launch-bound on rank 1: ")


@pytest.mark.parametrize("length", [2, 14, 20, 200])
def test_a_late_host_is_late_without_operators_however_long_kernels_take(tmp_path, length):
    """With 15 µs and more, 53.7 % of a step became 21.1 % in a recording of Nsight Systems."""
    made = []
    for name in ("cpu_op", "nothing"):
        one, folder = Host(), tmp_path / name
        folder.mkdir()
        for _ in range(200):
            one.launch(length, takes=max(2 * length, 10))
        one.events = [each for each in one.events if name == "cpu_op" or each["cat"] != "cpu_op"]
        made.append(found(diagnosed(folder, one), "launch_bound"))
    with_operators, without = made
    assert without.recoverable_ms == pytest.approx(with_operators.recoverable_ms, rel=0.01)
    assert without.confidence == "measured"
    assert "% of the lost time is in launch calls (" in without.sentence


def test_a_host_is_late_behind_fills_without_a_launch(tmp_path):
    """Idle 19 of 40 µs each, with a fill before each kernel whose call the recorder left out."""
    one = Host()
    for _ in range(200):
        one.events.append(
            kernel(one.now + 7, 1, name="Memset (Device)", cat="gpu_memset", correlation=None)
        )
        one.free = one.now + 8
        one.launch(20, takes=40)
    finding = found(diagnosed(tmp_path, one), "launch_bound")
    assert finding.percent == pytest.approx(47, abs=2)
    assert finding.evidence["launching"].iloc[0]["idle_ms"] > 200 * 0.015


@pytest.mark.parametrize("has_operators", [True, False])
def test_a_host_that_pauses_while_the_gpu_is_still_busy_does_not_launch_slowly(
    tmp_path, has_operators
):
    """The first 200 of 2,200 µs of each pause pass behind a kernel: 9 % were launch-bound."""
    starts = [20 + 2_200 * number for number in range(8)]
    calls = [call(start - 10, 5, number) for number, start in enumerate(starts)]
    kernels = [kernel(start, 200, correlation=number) for number, start in enumerate(starts)]
    operators = [host(start - 12, 9, "aten::mm") for start in starts] if has_operators else []
    made = diagnose(write(tmp_path / "rank-0.json", [*operators, *calls, *kernels]))
    assert [each.cause for each in made] == ["host_pause"]
    assert made[0].confidence == ("measured" if has_operators else "inconclusive")
    assert made[0].recoverable_ms == pytest.approx(7 * 2, rel=0.02)


def test_the_first_use_of_a_library_is_no_launching(tmp_path):
    """Of 11.6 ms, 1.3 were the first call of cuBLAS: a finding of its own claimed them, too."""
    one = Host()
    for number in range(200):
        if number == 100:
            one.calls("cudaFuncGetAttributes", 3_000)
        one.launch(20, takes=60)
    made = diagnosed(tmp_path, one)
    launching, first = (found(made, each) for each in ("launch_bound", "warm_up"))
    assert first.recoverable_ms == pytest.approx(3, rel=0.02)
    assert launching.recoverable_ms == pytest.approx(199 * 0.04, rel=0.02)
    assert made.joint_ms == pytest.approx(first.recoverable_ms + launching.recoverable_ms)


def test_pauses_are_no_launching_where_no_operators_are_recorded(tmp_path):
    """They hold 267 ms of a request that loads its images, which was called launch-bound."""
    one = Host()
    for number in range(200):
        one.launch(20, takes=40)
        one.now += 5_000 if number % 20 == 19 else 0
    one.events = [each for each in one.events if each["cat"] != "cpu_op"]
    made = diagnosed(tmp_path, one)
    finding = found(made, "launch_bound")
    assert finding is None or finding.recoverable_ms <= 200 * 0.04
    pauses = found(made, "host_pause")
    assert pauses.confidence == "inconclusive"
    launching_ms = made.steps["gap_op_ns"].sum() / 1e6
    assert launching_ms > 3
    assert made.proof(pauses).ms == made.steps["idle_ns"].sum() / 1e6 - launching_ms
    assert "what it does is not recorded" in pauses.sentence


def solver(folder, *, own_us=0.0, waits=0, flags=0, flag_bytes=4):
    """A program without PyTorch, whose 100 kernels the CPU launches late, under Nsight Systems."""
    rows = {nsys_export.KERNEL: [], nsys_export.MEMCPY: [], nsys_export.RUNTIME: []}
    now, names = 0, ("smooth(double*)", "cuLaunchKernel", "cudaDeviceSynchronize", "cudaMemcpy")

    def calls(name, length):
        number = len(rows[nsys_export.RUNTIME])
        call = nsys_export.call(now, now + length, name=name, correlation=number)
        rows[nsys_export.RUNTIME].append(call)
        return number

    for count in range(100):
        number = calls(2, 10_000)
        work = nsys_export.kernel(now + 9_000, now + 11_000, correlation=number)
        rows[nsys_export.KERNEL].append(work)
        now += 12_000
        if count < waits:
            calls(3, 1_000)
            now += 1_000
        if count < flags:
            number = calls(4, 8_000)
            copy = nsys_export.on_gpu(now + 3_000, now + 4_000, correlation=number)
            rows[nsys_export.MEMCPY].append({**copy, "bytes": flag_bytes, "copyKind": 2})
            now += 8_000
        now += round(1_000 * own_us)
    rows[nsys_export.STRINGS] = nsys_export.strings(*names)
    return nsys_export.write_sqlite(folder / "solver.sqlite", rows)


def is_in_no_call(folder, part):
    """Whether a solver is said to spend so much of the time that its GPU waits in no call."""
    finding = found(diagnose(solver(folder, own_us=(10 * part - 1) / (1 - part))), "launch_bound")
    is_said = finding.advice[0].do.startswith("Sample the CPU")
    assert is_said == ("outside_calls_percent" in finding.evidence)
    return is_said


def test_a_wait_after_each_launch_is_named_before_the_cpu_is_sampled(tmp_path):
    """Of 193 ms, 130 followed one of 5,108 waits: without them, the program took 68 ms."""
    finding = found(diagnose(solver(tmp_path, waits=100, own_us=20)), "launch_bound")
    said = finding.sentence
    assert "100 kernels (median 2 µs), after most of which it waits for the GPU; for " in said
    assert "of the time that the GPU waits, the CPU is in no call" in said
    first, second = (each.do for each in finding.advice[:2])
    assert first.startswith("Wait only where the host reads a result")
    assert second.startswith("Sample the CPU")


def ends_by_a_flag(folder, **loop):
    """Whether the loop of a solver is known to end by a flag."""
    return "a few bytes are read at a time" in known_of_solver(folder, **loop)


def waits_each_time(folder, part):
    return "waits after most launches" in known_of_solver(folder, waits=round(100 * part))


def known_of_solver(folder, **loop):
    return {each.value for each in known_of(open_trace(solver(folder, **loop), progress=False))}


def test_the_limit_can_be_changed(tmp_path):
    hosts = job(lambda _: 15)
    limits = Limits(least_percent=60)
    assert found(diagnosed(tmp_path, *hosts, limits=limits), "launch_bound") is None


def test_a_host_that_is_just_too_slow(tmp_path):
    """Each launch begins while the kernel before runs, but that is done before the next starts."""
    one = Host()
    for number in range(5):
        with one.step(number):
            for _ in range(10):
                one.launch(20, takes=40)
            for _ in range(200):
                one.launch(4, takes=8.5)
    finding = found(diagnosed(tmp_path, one), "launch_bound")
    idle_us = 10 * (40 - 20) + 200 * (8.5 - 4)
    assert finding.recoverable_ms == pytest.approx(idle_us / 1000, rel=0.02)
    started_us = 210  # as no kernel tells that it could start sooner than 1 µs after another
    alone_ms = finding.evidence["without_launching_ms"]
    assert alone_ms == pytest.approx((idle_us - started_us) / 1000, rel=0.02)


def test_silent_where_the_host_is_ahead(tmp_path):
    one = Host()
    for number in range(5):
        with one.step(number):
            for _ in range(50):
                one.launch(100)
            one.synchronise()
    assert not diagnosed(tmp_path, one)


@pytest.mark.parametrize(("takes", "cost_ms"), [(8, 0.5), (3, 0)])
def test_a_host_that_is_busy_all_the_time_with_short_kernels(tmp_path, takes, cost_ms):
    """The GPU is behind at all times, but starting so many kernels takes long, too."""
    one = Host(starting=2)
    for number in range(5):
        with one.step(number):
            for _ in range(50):
                one.launch(30)
            for _ in range(250):
                one.launch(2, takes=takes)
            one.synchronise()
    finding = found(diagnosed(tmp_path, one), "launch_bound")
    assert (finding.recoverable_ms if finding else 0) == pytest.approx(cost_ms, rel=0.2)


def test_a_host_that_waits_for_a_place_in_the_queue_is_not_slow(tmp_path):
    one = Host(starting=2)
    for number in range(5):
        with one.step(number):
            for _ in range(500):
                one.launch(10, takes=3)
            length = one.free - one.now - 100
            one.events.append(call(one.now, length, 10_000 + number))
            one.now += length
    assert found(diagnosed(tmp_path, one), "launch_bound") is None


def region_of(folder, part):
    """The part of the program that is named, if one inside another has a part of its time."""
    one = Host()
    for number in range(3):
        with one.step(number):
            one.launch(1000)
            one.synchronise()
            with one.inside("outer"):
                for place in range(100):
                    if place == 100 - round(100 * part):
                        begin = one.now
                    one.launch(2, operator="aten::mul", takes=15)
                one.events.append(host(begin, one.now - begin, "inner", cat="user_annotation"))
            one.synchronise()
    sentence = found(diagnosed(folder, one), "launch_bound").sentence
    return "inner" if "of inner" in sentence else "outer"


def has_region(folder, part):
    """Whether a region is named where the GPU waits a part of 10 ms for launches."""
    one = Host()
    with one.inside("region"):
        one.launch(10_000 * (1 - part) / 2)
        one.synchronise()
        one.now = one.free + 10_000 * part - 6
        one.launch(10_000 * (1 - part) / 2)
    made = diagnosed(folder, one)
    return (
        made.job.remember(answers_of_all, Limits().trials).facts[0].host.launching.region
        is not None
    )


def checking(checks):
    """A host that makes a check in each of many functions before each launch."""
    one = Host()
    for number in range(5):
        with one.step(number):
            for kernel in range(40):
                with one.inside(f"graph.py({kernel}): call_{kernel}", "python_function"):
                    if checks:
                        one.does("<built-in function assert_size_stride>", 150, "python_function")
                    one.now += 40
                    one.launch(20)
    return one


def test_a_call_that_is_made_everywhere_is_named(tmp_path):
    """It is on no path that holds most of the time."""
    finding = found(diagnosed(tmp_path, checking(checks=True)), "launch_bound")
    assert "% of the idle time inside assert_size_stride" in finding.sentence
    assert finding.evidence["inside_call_percent"] >= 60
    assert "Turn off Inductor's checks" in finding.action


def test_no_call_is_named_where_none_is_made_everywhere(tmp_path):
    finding = found(diagnosed(tmp_path, checking(checks=False)), "launch_bound")
    assert "of the idle time" not in finding.sentence
    assert "Inductor" not in finding.action


test_what_slow_launches_must_cost = least_price(
    "launch_bound", "least_percent", lambda folder: diagnosed(folder, *job(lambda _: 15, steps=3))
)


def reading(count, *, operator="aten::is_nonzero", late=90):
    """A host that is late with 20 kernels, and reads so many numbers in each step."""
    one = Host()
    for number in range(5):
        with one.step(number):
            for launch in range(20):
                for _ in range(count if launch == 9 else 0):
                    one.reads(operator, 2)
                one.launch(20)
                one.now += late
        one.events.append(host(one.now, 1, "Optimizer.step#AdamW.step"))
    return one


def says_that_it_reads(folder, percent):
    """Whether a late host is said to wait for numbers, for so much of its steps."""
    idle_us, others_us = 5 * 14, 261.5
    late_us = (100 * idle_us / percent - others_us) / 20
    made = diagnosed(folder, reading(5, late=late_us))
    finding = found(made, "launch_bound")
    said = [each for each in made.notices if "the host waits for the GPU" in each]
    has_advice = any(each.do.startswith("Keep values on the GPU,") for each in finding.advice)
    assert has_advice == bool(said) == ("reads_per_step" in finding.evidence)
    return bool(said)


def test_a_late_host_that_waits_as_well(tmp_path):
    """Of 69 ms of a step, 149 checks of gradients for NaN took 11: only launches were named."""
    made = diagnosed(tmp_path, reading(10))
    finding = found(made, "launch_bound")
    assert finding.evidence["reads_in"] == "aten::is_nonzero"
    assert finding.evidence["reads_per_step"] == 10
    (said,) = (each for each in made.notices if "waits for the GPU" in each)
    assert said.startswith("the host waits for the GPU 10 times per step in aten::is_nonzero, and ")


def test_an_operator_that_does_not_wait_reads_nothing(tmp_path):
    one = reading(10, operator="aten::index")
    for each in one.events:
        each["name"] = each["name"].replace("cudaMemcpy", "cudaMemcpyAsync")
    finding = found(diagnosed(tmp_path, one), "launch_bound")
    assert "reads_in" not in finding.evidence


def test_copies_that_a_host_is_late_with_are_no_kernels_to_compile(tmp_path):
    copies = {"name": "Memcpy DtoH (Device -> Pinned)", "cat": "gpu_memcpy"}
    finding = found(diagnosed(tmp_path, *job(lambda _: 15, **copies)), "launch_bound")
    does = [each.do for each in finding.advice]
    assert any(each.startswith("Do on the GPU what these copies are for,") for each in does)
    other = found(diagnosed(tmp_path, *job(lambda _: 15)), "launch_bound")
    assert not any("copies" in each.do for each in other.advice)


def ends_ahead(folder, kernels, *, steps=False):
    """What is told of a host that is late, and then so many kernels of 100 µs ahead."""
    one = Host()
    with one.step(1) if steps else nullcontext():
        for _ in range(100):
            one.launch(2, takes=12)
        for _ in range(kernels):
            one.launch(100, takes=5)
    return found(diagnosed(folder, one), "launch_bound")


def test_a_host_that_is_ahead_in_the_end_may_lose_nothing_in_a_loop(tmp_path):
    """An MI210 waited for 0.6 ms of one turn, whose host ended 1.4 ms ahead."""
    for name in ("ahead", "behind", "step"):
        (tmp_path / name).mkdir()
    finding = ends_ahead(tmp_path / "ahead", 50)
    assert "; at the end, the CPU is 4.76 ms ahead: 0 ns to " in finding.sentence
    assert (finding.lower_ms, finding.confidence) == (0, "inconclusive")
    assert finding.advice[0].do.startswith("Record several iterations,")
    for other in (
        ends_ahead(tmp_path / "behind", 5),
        ends_ahead(tmp_path / "step", 50, steps=True),
    ):
        assert "ahead" not in other.sentence
        assert other.lower_ms == other.recoverable_ms


def test_what_a_loop_would_not_lose_comes_last(tmp_path):
    """Of an MI210, "0 ns to 625 µs" stood above "at least 494 µs"."""
    one = Host()
    one.launch(500, name="Memcpy HtoD (Pinned -> Device)", cat="gpu_memcpy", bytes=8_000_000)
    one.synchronise()
    for _ in range(100):
        one.launch(2, takes=12)
    for _ in range(50):
        one.launch(100, takes=5)
    copies, late = diagnosed(tmp_path, one)
    assert (copies.cause, late.cause, late.less_by) == ("slow_host_copies", "launch_bound", "end")
    assert late.recoverable_ms > copies.recoverable_ms


def says_few_rows(folder, rows, operator="aten::addmm", shapes=None, layers=60):
    """Whether it is said that linear layers get so few rows, and a larger batch is advised."""
    hosts = job(lambda _: 15)  # 525 kernels
    shapes = shapes or [[512], [rows, 512], [512, 512]]
    for _ in range(layers):
        hosts[0].launch(2, operator=operator, shapes=shapes)
    finding = found(diagnosed(folder, *hosts), "launch_bound")
    said = f", at most {rows} rows in linear layers)" in finding.sentence
    assert any(each.do.startswith("Use a larger batch per GPU:") for each in finding.advice) == said
    return said


def test_rows_of_a_linear_layer_are_those_of_all_samples(tmp_path):
    """Eight GPUs waited for launches with 16 samples each, of which no line said anything."""
    linear = [[4, 8, 512], [64, 512]]
    assert says_few_rows(tmp_path, 32, operator="aten::linear", shapes=linear)
    assert not says_few_rows(tmp_path, 32, operator="aten::mm")


def waiting(length, times=1, then=0, last=("aten::to",) * 6):
    """Steps of one large kernel, waits for it, and 100 small ones that are launched slowly.

    At the end may be a second large one, which another operator of each step waits for.
    """
    one = Host()
    for number in range(6):
        with one.step(number):
            one.launch(length)
            for _ in range(times):
                one.synchronise("aten::item")
            for _ in range(100):
                one.launch(2, takes=12)
            if then:
                one.launch(then)
                one.synchronise(last[number])
        one.events.append(host(one.now, 1, "Optimizer.step#AdamW.step"))
    return one


def is_late_by_waits(folder, part):
    """Whether the waits are said to be why the host is late, if so much is gained without them.

    Without waits, a step saves the time of the large kernel; with launches that take no time, it
    would save 0.9 ms.
    """
    finding = found(diagnosed(folder, waiting(6.5 + 899.4 * part)), "launch_bound")
    waits_ms, all_ms = (finding.evidence[f"without_{each}_ms"] for each in ("waits", "launching"))
    assert waits_ms == pytest.approx(part * all_ms, rel=1e-3)
    said = "once it has waited for the GPU" in finding.sentence
    assert said == finding.action.startswith("Read values only after the step has launched")
    return said


@pytest.mark.parametrize("times", [1, 3])
def test_a_host_that_is_late_only_as_it_has_waited(tmp_path, times):
    """An optimizer of 248 small kernels came after ``loss.item()``, 17 ms of a step of 20.

    Of several waits, the first drains the GPU: without it, the next one would.
    """
    finding = found(diagnosed(tmp_path, waiting(2_000, times)), "launch_bound")
    assert "once it has waited for the GPU in aten::item" in finding.sentence
    assert finding.links[0].panel == "queue_length"  # the owners of idle time show no wait
    without = finding.evidence["without_waits_ms"]
    assert without == pytest.approx(finding.evidence["without_launching_ms"], rel=0.05)
    assert not any("CUDA graphs" in each.do for each in finding.advice)


def waits_in(folder, part):
    """The operators that a host is said to have waited in, one of them so long by the other."""
    finding = found(diagnosed(folder, waiting(2_000, then=2_000 * part)), "launch_bound")
    return finding.sentence.partition("for the GPU in ")[2].partition(";")[0]


def waits_elsewhere(folder, part):
    """The operator that a host is said to have waited in, with this part of all waits in it."""
    one = waiting(4_000 * part, then=4_000 * (1 - part), last=[f"aten::to_{n}" for n in range(6)])
    sentence = found(diagnosed(folder, one), "launch_bound").sentence
    return sentence.partition("once it has waited for the GPU")[2].partition(";")[0]


def test_ranges_stand_in_for_operators_where_there_are_none(tmp_path):
    """Of an export with NVTX ranges only, all waits were in ``cudaMemcpyAsync``."""

    def waits(folder, operator):
        folder.mkdir()
        one = Host()
        with one.inside("forward"):
            one.now += 5
            with one.inside("lookup"):
                one.queue(1_000)
                one.now += 5
                one.synchronise(operator)
        write(folder / "rank-0.json", one.events)
        rank = open_trace(folder, progress=False).rank(0)
        rows = rank.trace.events.rows_of(Kind.RUNTIME)
        rows = rows[rank.trace.events.named(rows, re.compile("Synchronize"))]
        return {*waits_by_operator(rank, rows, np.array([1.0]))}

    assert waits(tmp_path / "ranges", "") == {"lookup"}
    assert waits(tmp_path / "operators", "aten::item") == {"aten::item"}


@pytest.mark.parametrize("name", ["cudaDeviceSynchronize", "cudaThreadSynchronize"])
def test_a_host_that_waits_after_each_kernel_does_not_set_the_pace(tmp_path, name):
    """Of 2.94 s, one kernel took 2.8, and the host waited for it by the call's old name."""
    one = Host()
    for _ in range(30):
        one.launch(1_000)
        one.calls(name, one.free - one.now + 2)
    made = diagnosed(tmp_path, one)
    assert not made
    assert made.bound_by.startswith("bound by the GPU (9")


def is_late_with(folder, kernels):
    one = Host()
    for _ in range(kernels):
        one.launch(2, takes=50)
    return found(diagnosed(folder, one), "launch_bound") is not None


def pausing(late, *, kernels=200):
    """A host that waits for data in its own queue, and then launches as fast as the GPU computes.

    The GPU waits `late` µs of each step for launches.
    """
    one = Host()
    for number in range(6):
        with one.step(number):
            one.does("queue.py(154): get", 20_000, "python_function")
            one.launch(2)
            one.launch(48, takes=10 + late)
            for _ in range(kernels - 2):
                one.launch(50)
    return one


def test_a_host_that_pauses_does_not_launch_slowly(tmp_path):
    """Its launches take 2 ms of a step of 22 ms, but the GPU does not wait for them."""
    assert "launch_bound" not in [each.cause for each in diagnosed(tmp_path, pausing(0))]


def late_before_some(folder, late_us):
    """A host that is ahead of 300 kernels, and late before some of them; how many are said."""
    one = Host()
    for number in range(300):
        if 0 < number <= len(late_us):
            one.now = one.free
            with one.inside("aten::slow", cat="cpu_op"):
                one.now += late_us[number - 1]
                one.launch(20)
        else:
            one.launch(20)
    sentence = found(diagnosed(folder, one), "launch_bound").sentence
    said = re.search(
        r"the CPU (?:is late mainly with (\d+) of|cannot keep up with) 300 kernels", sentence
    )
    return int(said[1] or 0)


def test_a_host_that_is_late_for_few_kernels_keeps_up_with_the_others(tmp_path):
    """Of 562 kernels it was late with eleven, and launched one every 1.31 µs."""
    assert late_before_some(tmp_path, [300] * 5) == 4


def keeps_up(folder, length):
    """Whether it is the number of kernels that a host is late with, given how long they take."""
    one = Host()
    for _ in range(50):
        one.launch(length, takes=2 * length)
    return "cannot keep up" in found(diagnosed(folder, one), "launch_bound").sentence


test_thresholds = cases(
    Case("Limits.least_percent_with_evidence", says_that_it_reads, {2.95: False, 3.05: True}),
    Case("launch_bound.MOST_CAPTURED", captures_more, {512: False, 513: True}),
    Case("launch_bound.FEW_ROWS", says_few_rows, {64: True, 65: False}),
    Case(
        "host_facts.LEAST_LINEAR",
        # 25 of the 525 others are products, too
        lambda folder, part: says_few_rows(
            folder, 32, layers=round((525 * part - 25) / (1 - part))
        ),
        {0.097: False, 0.103: True},
    ),
    Case("launch_bound.FEWEST_KERNELS", is_late_with, {11: False, 12: True}),
    Case("launch_bound.LONG_KERNEL_US", keeps_up, {49: True, 51: False}),
    Case(
        "launch_bound.FEW_LATE",
        lambda folder, part: late_before_some(folder, [100] * round(450 * part)),
        {0.049: 15, 0.053: 0},
    ),
    Case(
        "host_facts.MOST_LATE",
        lambda folder, part: late_before_some(folder, [900 * part, 900 * (1 - part)]),
        {0.64: 2, 0.69: 1},
    ),
    Case("host_evidence.MOST_WAITING", waits_elsewhere, {0.48: "", 0.52: " in aten::item"}),
    Case("host_evidence.AS_LONG", waits_in, {0.48: "aten::item", 0.52: "aten::item and aten::to"}),
    Case("host_evidence.MOST_BY_WAITS", is_late_by_waits, {0.79: False, 0.81: True}),
    Case(
        "launch_bound.MOST_BY_STACKS",
        lambda _, part: may_be_stacks(part, 1.0),
        {0.49: False, 0.51: True},
    ),
    Case("host_facts.DOMINATES", region_of, {0.58: "outer", 0.62: "inner"}),
    Case("launch_bound.MOST_OUTSIDE", is_in_no_call, {0.49: False, 0.51: True}),
    Case("launch_bound.MINORITY", outside_backward, {48: True, 52: False}),
    Case("conditions.OFTEN_WAITS", waits_each_time, {0.49: False, 0.5: True}),
    Case(
        "conditions.FLAG_BYTES",
        lambda folder, size: ends_by_a_flag(folder, flags=20, flag_bytes=size),
        {16: True, 17: False},
    ),
    Case(
        "conditions.FEWEST_FLAGS",
        lambda folder, count: ends_by_a_flag(folder, flags=count),
        {9: False, 10: True},
    ),
    Case("host_facts.WORTH_NAMING", has_region, {0.0099: False, 0.0101: True}),
)


@pytest.mark.parametrize(
    ("region_kernels", "region_percent", "words"),
    [
        (161, 37.8, ""),
        (161, 66.9, ""),
        (161, 67.1, "64 of "),
        (64, 37.8, "64 of "),
        (math.nan, math.nan, "64 of "),
    ],
)
def test_few_kernels_are_not_named_beside_more_of_another_part(
    region_kernels, region_percent, words
):
    """64 of a backward pass stood beside 161 of zero_grad, which *Show* lit."""
    late = {"late_per_step": 64.0, "kernels_per_step": 1462.0}
    region = {"region_kernels_per_step": region_kernels, "region_percent": region_percent}
    assert few_of({**late, **region}) == words
