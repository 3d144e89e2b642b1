"""Hosts that stop."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hta_widgets import diagnose
from hta_widgets.diagnosis import Limits
from hta_widgets.diagnosis import finding as findings
from hta_widgets.diagnosis.facts.not_recorded import options_not_used
from tests.diagnosis.findings.scripts import START, Host, all_reduce, diagnosed, found, step_of
from tests.diagnosis.findings.thresholds import Case, cases, least_price
from tests.kineto_text import host, kernel

FRAME = "python_function"

SHORT_CALLS = (
    *(("cuda_runtime", name) for name in ("cudaStreamGetCaptureInfo_v2", "cudaStreamIsCapturing")),
    *(("cuda_runtime", name) for name in ("cudaEventQuery", "cudaMalloc", "cudaStreamSynchronize")),
    *(("cuda_driver", name) for name in ("cuStreamGetCaptureInfo", "cuModuleLoadData")),
    *(("cpu_op", name) for name in ("aten::empty", "detach", "dataloader_next")),
    ("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"),
    ("python_function", "train.py(7): log"),
)
"""Kinds and names of calls that are over in no time, whatever they do."""


def job(pause, *, steps=9, ranks=4, name=""):
    """Ranks that launch nothing for so long (µs); a function of rank and step."""
    hosts = [Host() for _ in range(ranks)]
    for number in range(steps):
        with step_of(hosts, number):
            for rank, each in enumerate(hosts):
                each.launch(300, operator="aten::embedding")
                length = pause(rank, number)
                if name and length:
                    each.does(name, length)
                else:
                    each.now += length
                for _ in range(10):
                    each.launch(300, operator="aten::layer_norm")
            all_reduce(hosts)
    return hosts


def test_one_rank_pauses(tmp_path):
    hosts = job(lambda rank, number: 4000 if rank == 1 and number in (3, 6) else 0)
    finding = found(diagnosed(tmp_path, *hosts), "host_pause")
    assert finding.ranks == (1,)
    assert finding.steps == (3, 6)
    assert finding.recoverable_ms == pytest.approx(2 * 3.7 / 8, rel=0.1)
    assert "between aten::embedding and aten::layer_norm" in finding.sentence
    assert "the trace does not show why" in finding.sentence
    row = finding.evidence["pauses"].iloc[0]
    assert row["operator_after"] == "aten::layer_norm"
    assert row["end_ns"] - row["start_ns"] == pytest.approx(3.7e6, rel=0.1)


def test_one_rank_pauses_for_which_the_others_wait_in_kernels_that_nothing_matches(tmp_path):
    """Four V100 in 2023: one rank slept for 1 s, the others sent and received for as long.

    The replay moves none of them with it, and priced 1 of its 1,000 ms.
    """
    hosts = job(lambda rank, _: 4000 if rank == 1 else 0)
    fields = {"Collective name", "Process Group Name", "Process Group Ranks", "Group size"}
    for number, event in enumerate(event for each in hosts for event in each.events):
        if "nccl" in event["name"]:
            if event["dur"] > 1000:
                event["dur"] -= 100 * (number % 7)  # those that end together would be one
            event["name"] = "ncclDevKernel_SendRecv(ncclDevComm*, unsigned long, ncclWork*)"
            event["args"] = {name: v for name, v in event["args"].items() if name not in fields}
    made = diagnosed(tmp_path, *hosts)
    finding = found(made, "host_pause")
    assert made.together([finding]).gain_ms == pytest.approx(finding.recoverable_ms)
    assert "exposed_communication" not in {each.cause for each in made}
    assert finding.ranks == (1,)
    assert finding.recoverable_ms == pytest.approx(3.3, rel=0.1)
    assert finding.lower_ms < 0.2 * finding.recoverable_ms
    assert any(
        "communication for which it is not known which kernels of the ranks belong together" in each
        for each in made.notices
    )


def test_another_rank_in_each_step(tmp_path):
    hosts = job(lambda rank, number: 4000 if rank == (number * 3) % 4 else 0)
    finding = found(diagnosed(tmp_path, *hosts), "host_pause")
    assert finding.ranks == ()
    assert finding.sentence.startswith("A different rank in each step stalls for up to ")
    assert finding.recoverable_ms == pytest.approx(3.7, rel=0.1)


def test_a_rank_that_pauses_somewhat_more_often_is_not_to_blame(tmp_path):
    turns = (0, 1, 0, 2, 0, 3, 0, 1, 2)
    hosts = job(lambda rank, number: 4000 if rank == turns[number] else 0)
    assert found(diagnosed(tmp_path, *hosts), "host_pause").ranks == ()


def test_a_rank_that_pauses_in_most_steps_is(tmp_path):
    turns = (0, 0, 0, 2, 0, 0, 0, 0, 0)
    hosts = job(lambda rank, number: 4000 if rank == turns[number] else 0)
    assert found(diagnosed(tmp_path, *hosts), "host_pause").ranks == (0,)


def pausing_first(*, by_steps, first="aten::item", cat="cpu_op"):
    """One rank whose first step pauses for 60 ms inside one call, the others in another."""
    one = Host()
    for number in range(6):
        with one.step(number):
            one.launch(300, operator="aten::embedding")
            one.does(first if number == 0 else by_steps, 60_000 if number == 0 else 3_000, cat)
            for _ in range(10):
                one.launch(300, operator="aten::layer_norm")
            one.synchronise()
    return one


def test_what_a_step_that_is_left_out_does_is_no_evidence(tmp_path):
    """A first step that compiled had stalled for 83 ms; its calls were named for 5 ms of others."""
    made = diagnosed(tmp_path, pausing_first(by_steps="validate"))
    assert made.left_out_steps == (0,)
    finding = found(made, "host_pause")
    assert finding.sentence.startswith("The host stalls for up to 2.71 ms")
    assert "all of this time inside validate" in finding.sentence
    assert finding.evidence["pauses"]["idle_ms"].max() < 4


def test_steps_that_are_asked_for_have_their_own_evidence(tmp_path):
    made = diagnosed(tmp_path, pausing_first(by_steps="validate"), steps=[3])
    finding = found(made, "host_pause")
    assert "all of this time inside validate" in finding.sentence
    (row,) = finding.evidence["pauses"].to_dict("records")
    assert row["idle_ms"] == pytest.approx(3, rel=0.1)
    first = found(diagnose(made.job, steps=[0]), "host_pause")
    assert "all of this time inside aten::item" in first.sentence


def new(folder, name):
    (folder / name).mkdir()
    return folder / name


def test_what_is_not_recorded_is_to_be_seen_from_outside(tmp_path):
    """Only then: a call whose lines the trace shows does not hide what it does."""
    code = "py-spy record --native --pid PID"
    nameless = found(diagnosed(new(tmp_path, "a"), *job(lambda *_: 4000, ranks=1)), "host_pause")
    assert code in {each.code for each in nameless.advice}
    frames = pausing_first(by_steps="train.py(7): log", first="train.py(7): log", cat=FRAME)
    known = found(diagnosed(new(tmp_path, "b"), frames), "host_pause")
    assert code not in {each.code for each in known.advice}
    assert "all of this time inside train.py(7): log" in known.sentence


@pytest.mark.parametrize("operators", [False, True])
def test_stacks_are_recorded_only_with_operators(tmp_path, operators):
    """With activities=[CUDA], PyTorch ignores with_stack, and records the same again."""
    (one,) = job(lambda *_: 4000, ranks=1)
    one.events = [each for each in one.events if operators or each["cat"] != "cpu_op"]
    made = diagnosed(tmp_path, one)
    advice = found(made, "host_pause").advice
    (code,) = (each.code for each in advice if "with_stack=True" in each.code)
    assert ("ProfilerActivity.CPU" in code) != operators
    frames, shapes, memory = (each.how for each in options_not_used(made.job))
    assert frames.endswith("with_stack=True" if operators else " and ProfilerActivity.CPU")
    assert shapes.endswith("record_shapes=True" if operators else " and ProfilerActivity.CPU")
    assert memory.endswith("profile_memory=True")


def test_all_ranks_pause(tmp_path):
    finding = found(diagnosed(tmp_path, *job(lambda *_: 4000)), "host_pause")
    assert finding.ranks == (0, 1, 2, 3)


def test_what_the_host_does_is_named(tmp_path):
    hosts = job(lambda rank, _: 4000 if rank == 2 else 0, name="Python GC")
    finding = found(diagnosed(tmp_path, *hosts), "host_pause")
    assert finding.ranks == (2,)
    assert "all of this time inside Python GC" in finding.sentence


def test_an_optimizer_on_the_cpu(tmp_path):
    name = "Optimizer.step#DeepSpeedCPUAdam.step"
    finding = found(diagnosed(tmp_path, *job(lambda *_: 4000, name=name)), "host_pause")
    assert finding.action.startswith("Run the optimizer on the GPU, and")


def on_the_cpu(folder, *, around="Optimizer.step#SparseAdam.step", part=0.9, launches=False):
    """Steps in which operators take a part of a pause of 4 ms, one of which may launch a kernel."""
    one = Host()
    for number in range(5):
        with one.step(number):
            one.launch(300)
            with one.inside(around):
                if launches:  # the core is taken away before the kernel is launched
                    with one.inside("aten::linear", "cpu_op"):
                        one.now += 4000 * part
                        one.launch(300, operator="aten::addmm")
                else:
                    one.does("aten::coalesce", 1000 * part)
                    one.does("aten::mul", 3000 * part)
                one.now += 4000 * (1 - part)
            one.launch(300)
            one.synchronise()
    return found(diagnosed(folder, one), "host_pause")


def test_operators_that_run_on_the_cpu(tmp_path):
    finding = on_the_cpu(tmp_path)
    assert finding.sentence.count(" of it in operators on the CPU: ") == 1
    assert finding.evidence["on_cpu_percent"] == pytest.approx(90, abs=8)
    assert finding.action == "Run the optimizer on the GPU: give it parameters that are on the GPU."
    assert all("py-spy" not in each.code for each in finding.advice)


def test_of_other_operators_on_the_cpu_the_inputs_are_to_move(tmp_path):
    finding = on_the_cpu(tmp_path, around="features")
    assert finding.action == "Run these operators on the GPU: keep their inputs there."


def test_an_operator_that_launches_does_not_run_on_the_cpu(tmp_path):
    finding = on_the_cpu(tmp_path, launches=True)
    assert "on_cpu_percent" not in finding.evidence
    assert "on the CPU" not in finding.sentence


def asks_for_long(length_us, call, **work):
    """A host whose call takes so long, until the work begins that it asks for."""
    one = Host()
    for number in range(6):
        with one.step(number):
            one.launch(10)
            one.synchronise()
            with one.inside("ConvolutionBackward0", "cpu_op"):
                one.free = one.now + length_us
                one.queue(5, **work)
                one.events[-2] |= {"name": call, "dur": length_us}
                one.now += length_us + 5
            for _ in range(10):
                one.launch(300)
    return one


FILL = {"call": "cudaMemsetAsync", "cat": "gpu_memset", "name": "Memset (Device)"}
COPY = {"call": "cudaMemcpyAsync", "cat": "gpu_memcpy", "name": "Memcpy HtoD (Pinned -> Device)"}


@pytest.mark.parametrize(
    ("length_us", "work", "is_found"),
    [(999, FILL, False), (1_010, FILL, True), (1_010, COPY, False)],
)
def test_a_call_that_fills_memory_may_hold_the_host_up(tmp_path, length_us, work, is_found):
    """Three of 151 to 165 ms were 49 % of the steps of a ResNet-50, and said to be no host's.

    What the call of a copy does may be about the memory that it copies.
    """
    made = diagnosed(tmp_path, asks_for_long(length_us, **work))
    finding = found(made, "host_pause")
    assert (finding is not None) == is_found
    if finding is not None:
        assert "inside ConvolutionBackward0" in finding.sentence
        assert finding.action.endswith("the trace does not show what the operator does there.")


@pytest.mark.parametrize(
    ("part", "where"),
    [(0.55, ", inside aten::ones_like"), (0.45, ", between aten::mul and aten::ones_like")],
)
def test_a_host_that_stops_in_an_operator_does_not_stop_before_it(tmp_path, part, where):
    """A T4: ``aten::ones_like`` allocated for 2.05 ms, then launched, after ``aten::mul``."""
    one = Host()
    for number in range(6):
        with one.step(number):
            one.launch(300, operator="aten::mul")
            one.now = one.free + 4000 * (1 - part)
            with one.inside("aten::ones_like", "cpu_op"):
                one.does("aten::empty_strided", 4000 * part)
                one.queue(300)
                one.now += 10
            one.synchronise()
    finding = found(diagnosed(tmp_path, one), "host_pause")
    assert where in finding.sentence
    assert ("between" in finding.sentence) == ("between" in where)
    inside = finding.evidence["pauses"]["operator_inside"].tolist()
    assert inside == ["aten::ones_like" * (part > 0.5)] * 5


def test_the_largest_of_several_calls_is_not_where_it_pauses(tmp_path):
    """A range that holds all of a pause is no operator, whatever takes a third of it inside."""
    one = Host()
    for number in range(6):
        with one.step(number):
            one.launch(300)
            with one.inside("model_inference"):
                for operator in ("aten::sort", "aten::unique", "aten::mul"):
                    one.does(operator, 1_000)
                    one.does("python", 500, "user_annotation")
                one.launch(300)
            one.synchronise()
    finding = found(diagnosed(tmp_path, one), "host_pause")
    assert "inside model_inference" in finding.sentence
    assert "in an operator" not in finding.evidence.get("conditions", "")


def unflattens(folder, around="DistributedDataParallel.forward"):
    """Pauses of 3 ms in an operator that makes views of one buffer."""
    one = Host()
    for number in range(5):
        with one.step(number), one.inside(around):
            one.launch(300)
            with one.inside("aten::unflatten_dense_tensors", "cpu_op"):
                for _ in range(150):
                    one.does("aten::narrow", 10)
                    one.does("aten::view", 10)
            one.launch(300, operator="aten::copy_")
            one.synchronise()
    return found(diagnosed(folder, one), "host_pause")


def test_ddp_that_broadcasts_buffers(tmp_path):
    """An A100: 15 of 221 ms in views of 106 buffers, said to be a stall that shows nothing."""
    finding = unflattens(tmp_path)
    assert finding.sentence.startswith("The host launches nothing for up to 2.7")
    assert "inside aten::unflatten_dense_tensors (Dist" in finding.sentence
    assert ", where DDP broadcasts buffers: " in finding.sentence
    assert finding.advice[0].code == "DistributedDataParallel(model, broadcast_buffers=False)"
    assert all("py-spy" not in each.code for each in finding.advice)


def test_others_than_ddp_unflatten_too(tmp_path):
    """ZeRO makes views of parameters, which computes nothing; the trace shows what happens."""
    finding = unflattens(tmp_path, "Optimizer.step#ZeRO.step")
    assert "DDP" not in finding.sentence
    assert "on_cpu_percent" not in finding.evidence
    assert finding.action.startswith("Record Python frames")
    assert all("broadcast_buffers" not in each.code for each in finding.advice)
    assert all("py-spy" not in each.code for each in finding.advice)


def in_short_calls(folder, percent):
    """Steps whose pause is for a part (%) in no call, for the rest in two of the program's."""
    one = Host()
    for number in range(5):
        with one.step(number):
            one.launch(10)
            one.does("first", 20 * (100 - percent), cat="user_annotation")
            one.now += 40 * percent
            one.does("second", 20 * (100 - percent), cat="user_annotation")
            one.launch(300)
            one.synchronise()
    return found(diagnosed(folder, one), "host_pause").sentence


def loses_its_core(folder, count, *, length=1500, steps=6):
    """The finding on a host that stops in so many operators before they launch (µs)."""
    one = Host()
    for number in range(steps):
        with one.step(number):
            for each in range(count):
                one.launch(20)
                with one.inside(f"aten::op{each}", "cpu_op"):
                    one.now += length
                    one.queue(20)
                    one.now += 6
            one.synchronise()
    return found(diagnosed(folder, one), "host_pause")


def test_a_host_that_loses_its_core(tmp_path):
    finding = loses_its_core(tmp_path, 7)
    assert "; it stops in 7 different operators, as a process that " in finding.sentence
    assert finding.action.startswith("Leave a core for the")


def test_two_pauses_in_different_operators_are_two(tmp_path):
    """One in ``aten::ones_like``, 34.7 % of whose time was said to be in ``aten::mm``.

    Frames of Python would not show what an operator does.
    """
    finding = loses_its_core(tmp_path, 2, steps=3)
    assert ", mostly inside aten::op0 or aten::op1: " in finding.sentence
    assert " of this time" not in finding.sentence
    assert finding.advice[0].code == "py-spy record --native --pid PID"


def scripted(folder, *, call, inside):
    """A host that pauses in or before the last call of a TorchScript function."""
    one = Host()
    for number in range(call + 1):
        pause = 60_000 if number == call else 0
        one.launch(300, operator="aten::cat")
        one.now += 0 if inside else pause
        with one.inside("delta", cat="cpu_op"):
            one.launch(100, operator="aten::linear")
            one.now += pause if inside else 1
            with one.inside("fallback_function", cat="cpu_op"):
                one.now += 1
                one.launch(300, operator="aten::mul")
            one.now += 1
        one.synchronise()
    return found(diagnosed(folder, one), "host_pause")


@pytest.mark.parametrize(
    ("inside", "where"),
    [(True, "all of this time inside delta"), (False, "between aten::cat and delta")],
)
def test_torchscript_compiles_in_first_calls(tmp_path, inside, where):
    """Of two recordings of a model, one paused in its first call, the other one before it."""
    for name in ("first", "later"):
        (tmp_path / name).mkdir()
    finding = scripted(tmp_path / "first", call=0, inside=inside)
    assert f", {where}, as while TorchScript compiles: " in finding.sentence
    assert finding.advice[0].do.startswith("Call the scripted function three times")
    assert "Record Python frames" not in " ".join(each.do for each in finding.advice)
    later = scripted(tmp_path / "later", call=3, inside=inside)
    assert f", {where}" in later.sentence
    assert "TorchScript" not in later.sentence
    assert not any("script" in each.do for each in later.advice)


def test_operators_that_are_somewhat_slow_do_not_stop(tmp_path):
    finding = loses_its_core(tmp_path, 7, length=1010)  # 996 µs after the GPU ran dry
    assert finding is None or "it stops in" not in finding.sentence


def code_loads(folder, ns):
    """Whether steps are said to load code that call one of its functions for so long each time."""
    one = Host()
    for number in range(5):
        with one.step(number):
            for _ in range(20):
                one.launch(5)
                one.now += 20
                one.calls("cudaFuncGetAttributes", ns / 1000)
            one.synchronise()
    finding = found(diagnosed(folder, one), "host_pause")
    return finding is not None and finding.confidence == "measured"


@given(
    kind_and_name=st.sampled_from(SHORT_CALLS),
    at_us=st.floats(1, 3600),
    length_us=st.floats(0, 9.9),
)
def test_a_short_call_anywhere_in_a_pause_changes_nothing(
    tmp_path_factory, kind_and_name, at_us, length_us
):
    """The capture info of a stream is asked for before each collective, and hid pauses."""
    (one,) = job(lambda _, number: 4000 if number in (1, 3) else 0, steps=5, ranks=1)
    kind, name = kind_and_name
    before = found(diagnosed(tmp_path_factory.mktemp("before"), one), "host_pause")
    row = before.evidence["pauses"].iloc[0]
    begin = START + row["start_ns"] / 1000 + at_us
    one.events.append(host(round(begin, 3), round(length_us, 3), name, cat=kind))
    after = diagnosed(tmp_path_factory.mktemp("after"), one)
    assert [each.cause for each in after] == ["host_pause"]
    assert after[0].steps == before.steps
    assert after[0].recoverable_ms == pytest.approx(before.recoverable_ms, rel=0.01)


def test_silent_without_pauses(tmp_path):
    assert not diagnosed(tmp_path, *job(lambda *_: 0))


def test_numbers_of_ranks_and_clocks_change_nothing(tmp_path):
    hosts = job(lambda rank, number: 4000 if rank == 1 and number in (3, 6) else 0)
    (tmp_path / "one").mkdir()
    (tmp_path / "other").mkdir()
    first = found(diagnosed(tmp_path / "one", *hosts), "host_pause")
    for shift, each in zip((0, 2e6, -500, 7e6), hosts, strict=True):
        each.events = [event | {"ts": event["ts"] + shift} for event in each.events]
    second = found(diagnosed(tmp_path / "other", *hosts[::-1]), "host_pause")
    assert second.ranks == (2,)
    assert second.steps == first.steps
    assert second.recoverable_ms == pytest.approx(first.recoverable_ms, rel=0.001)


def test_a_diagnosis_of_some_ranks(tmp_path):
    hosts = job(lambda rank, _: 4000 if rank == 1 else 0)
    assert found(diagnosed(tmp_path, *hosts, ranks=[1, 2]), "host_pause").ranks == (1,)
    assert found(diagnosed(tmp_path, *hosts, ranks=[0, 2]), "host_pause") is None


def test_of_a_wait_in_the_standard_library_the_caller_is_named(tmp_path):
    one = Host()
    for number in range(5):
        with one.step(number):
            one.launch(300)
            with one.inside("my_prefetch.py(33): __next__", "python_function"):
                one.now += 5
                one.does("queue.py(154): get", 5_000, "python_function")
            one.launch(300)
            one.synchronise()
    finding = found(diagnosed(tmp_path, one), "host_pause")
    assert "inside queue.py(154): get (my_prefetch.py(33): __next__)" in finding.sentence


def test_a_sentence_that_gets_too_long_does_not_say_inside_what(tmp_path, monkeypatch):
    hosts = job(lambda rank, _: 4000 if rank == 2 else 0, name="Python GC")
    monkeypatch.setattr(findings, "LONGEST_SENTENCE", 130)
    finding = found(diagnosed(tmp_path, *hosts), "host_pause")
    assert "between aten::embedding and aten::layer_norm: 3.7 ms of each" in finding.sentence


def who(folder, pause, *, steps, ranks=4):
    """The ranks that a pause is put down to; the last step is not analysed."""
    hosts = job(lambda *at: pause(*at) + 300, steps=steps + 1, ranks=ranks)
    return found(diagnosed(folder, *hosts), "host_pause").ranks


def short_pauses(folder, percent):
    """Rank 0 pauses in one step, and rank 1 in all of them for a part of the mean step."""
    step_us = 61_700 / (1 - 0.8 * percent / 100)

    def pause(rank, number):
        if rank == 1:
            return step_us * percent / 100
        return 8000 if rank == 0 and number == 2 else 0

    hosts = [Host(), Host(), Host()]
    for number in range(6):
        with step_of(hosts, number):
            for rank, each in enumerate(hosts):
                each.launch(10)
                each.now = each.free + pause(rank, number)
                each.launch(10)
            all_reduce(hosts, 10)
            for each in hosts:
                each.launch(60_000)
    return found(diagnosed(folder, *hosts, limits=Limits(least_percent=0.1)), "host_pause").ranks


def test_one_of_three_ranks_at_a_time_is_not_to_blame(tmp_path):
    assert who(tmp_path, lambda rank, number: 4000 * (rank == number), steps=3, ranks=3) == ()


def in_turns(lasts):
    """Two ranks whose hosts do something for so long, one before each all-reduce, one behind it."""
    hosts = [Host(), Host()]
    for number in range(4):
        with step_of(hosts, number):
            for each in hosts:
                each.launch(200)
            hosts[0].does("aten::mm", lasts)
            all_reduce(hosts)
            hosts[1].does("aten::mm", lasts)
            for each in hosts:
                for _ in range(20):
                    each.launch(50)
            all_reduce(hosts)
    return hosts


def test_a_host_pauses_while_its_gpu_waits_for_the_others_too(tmp_path):
    """Without that, the pause of the other rank looked like slow launches of both."""
    made = diagnosed(tmp_path, *in_turns(5000))
    assert [each.cause for each in made] == ["host_pause"]
    assert made[0].recoverable_ms == pytest.approx(5, rel=0.05)


test_what_a_pause_must_cost = least_price(
    "host_pause",
    "least_percent",
    lambda folder: diagnosed(folder, *job(lambda _, number: 4000 * (number == 4), ranks=2)),
)


def checks_sizes(folder, ns):
    """Whether Inductor's checks are to go, which take so long of the pauses of compiled code."""
    one = Host()
    for number in range(5):
        with one.step(number):
            one.launch(300)
            with one.inside("torchinductor_me/c3.py(2533): call", FRAME):
                one.now += 5_000
                one.does("<built-in function assert_size_stride>", ns / 1000, FRAME)
                for _ in range(10):
                    one.launch(300)
            one.synchronise()
    finding = found(diagnosed(folder, one), "host_pause")
    return "TORCHINDUCTOR_SIZE_ASSERTS=0 python train.py" in [each.code for each in finding.advice]


test_thresholds = cases(
    Case("host_pause.CHECKS_NS", checks_sizes, {49_000: False, 51_000: True}),
    Case("host_pause.LOOKUP_NS", code_loads, {99_900: False, 100_100: True}),
    Case(
        "Limits.pausing_steps_percent",
        lambda folder, percent: who(
            folder,
            lambda rank, number: 4000 * (rank == (number in {0, 3, 6})),
            steps=round(300 / (100 - percent)),
        ),
        {70.0: (), 72.7: (0,)},
    ),
    Case(
        "Limits.pausing_ranks_percent",
        lambda folder, percent: who(
            folder,
            lambda rank, number: 4000 * (rank in {number, number + 4}),
            steps=3,
            ranks=round(200 / percent),
        ),
        {25.0: (), 28.6: tuple(range(7))},
    ),
    Case(
        "Limits.owner_percent",
        lambda folder, percent: (
            "on_cpu_percent"  # the GPU is at work for the first 300 µs
            in on_the_cpu(folder, part=(37 * percent + 300) / 4000, around="features").evidence
        ),
        {59: False, 61: True},
    ),
    Case(
        "host_pause.FEWEST_OPERATORS",
        lambda folder, count: "it stops in" in loses_its_core(folder, count).sentence,
        {4: False, 5: True},
    ),
    Case(
        "Limits.owner_percent",
        lambda folder, percent: "the trace does not show why" in in_short_calls(folder, percent),
        {59: False, 61: True},
    ),
    Case("Limits.pausing_percent", short_pauses, {1.97: (0,), 2.03: (0, 1)}),
)


def graph_launch(folder, begins, *, before=100.0):
    """A launch that takes 6 ms of a graph whose kernels begin so long after it has (µs)."""
    one = Host()
    one.launch(before)
    one.now += 200
    called = one.now
    one.calls("cudaGraphLaunch", 6_000)
    one.events += [
        kernel(called + begins + 1_000 * n, 1_000, correlation=one.launched) for n in range(20)
    ]
    one.free = called + begins + 20_000
    one.synchronise()
    return found(diagnosed(folder, one), "host_pause")


def test_a_graph_begins_while_its_launch_still_hands_over_nodes(tmp_path):
    """For 5.7 to 9.2 ms of 109 in a decoding step on eight H200, which was said of nobody."""
    finding = graph_launch(tmp_path, 4_000)
    assert finding.recoverable_ms == pytest.approx(4.1, rel=0.05)
    assert "stalls for up to 4" in finding.sentence
    assert " of this time in cudaGraphLaunch: " in finding.sentence
    assert finding.action.startswith("Record several launches of this graph")


def test_a_graph_that_waits_for_a_busy_gpu_is_launched_in_time(tmp_path):
    assert graph_launch(tmp_path, 4_000, before=4_100) is None


@pytest.mark.parametrize(("begins", "is_found"), [(900, False), (1_300, True)])
def test_a_graph_may_begin_a_little_later(tmp_path, begins, is_found):
    assert (graph_launch(tmp_path, begins) is not None) == is_found
