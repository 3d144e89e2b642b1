"""First steps."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from hta_widgets import diagnose
from hta_widgets.analyses.idle_owners import idle_owners
from hta_widgets.analyses.idle_owners.sums import causes_by_device
from tests.analyses.generated_jobs import open_job
from tests.diagnosis.findings.scripts import Host, diagnosed, found
from tests.diagnosis.findings.thresholds import Case, cases, least_price, share
from tests.kineto_text import call, kernel
from tests.kineto_text import host as event

COMPILES = "backend_compile (dynamo_timed)"


def job(first, *, steps=6, marks=True):
    """One rank; before its steps it does what is given for some of them."""
    one = Host()
    for number in range(steps):
        begin = one.now
        for name, length in first.get(number, ()):
            one.calls(name, length) if name.startswith("cu") else one.does(name, length)
        for _ in range(10):
            one.launch(200)
        one.synchronise()
        if marks:
            mark = f"ProfilerStep#{number}"
            one.events.append(event(begin, one.now - begin, mark, cat="user_annotation"))
    return one


def test_a_first_step_that_initialises(tmp_path):
    result = diagnosed(tmp_path, job({0: [("cuModuleLoadData", 3000), ("aten::conv2d", 4000)]}))
    finding = found(result, "warm_up")
    assert finding.steps == (0,)
    assert finding.recoverable_ms == pytest.approx(7 / 5, rel=0.05)
    assert "7 ms longer than the others, 7 ms more idle" in finding.sentence
    assert [each.cause for each in result] == ["warm_up"]


def test_steps_that_still_compile(tmp_path):
    one = job({0: [(COMPILES, 9000)], 1: [(COMPILES, 5000)], 4: [("aten::add", 3000)]}, steps=9)
    result = diagnosed(tmp_path, one)
    assert found(result, "warm_up").steps == (0, 1)
    assert found(result, "host_pause").steps == (4,)


@pytest.mark.parametrize(
    ("call", "words", "do"),
    [
        (COMPILES, "The host compiles for up to 9 ms in step 4", 'TORCH_LOGS="recompiles"'),
        ("cuModuleLoadData", "The host initialises for up to 9 ms in step 4", "MODULE_LOADING"),
    ],
)
def test_a_later_step_that_compiles_or_loads_code(tmp_path, call, words, do):
    """It was idle time whose cause is not found, or a finding only where stacks are recorded."""
    result = diagnosed(tmp_path, job({4: [(call, 9000)]}, steps=9))
    assert [each.cause for each in result] == ["host_pause"]
    assert result[0].steps == (4,)
    assert result[0].sentence.startswith(words)
    assert result[0].recoverable_ms == pytest.approx(9 / 8, rel=0.05)
    assert result[0].confidence == "measured"
    assert do in result[0].advice[0].code


def test_compiling_in_two_steps_is_the_warm_up_of_one(tmp_path):
    assert "host_pause" not in {
        each.cause for each in diagnosed(tmp_path, job({1: [(COMPILES, 9000)]}, steps=3))
    }


def test_kernels_that_only_the_first_step_runs(tmp_path):
    one = Host()
    for number in range(6):
        with one.step(number):
            for _ in range(10):
                one.launch(200, name="gemm")
            for each in range(10 if number == 0 else 0):
                one.launch(200, name=f"init_{each}")
            one.synchronise()
    finding = found(diagnosed(tmp_path, one), "warm_up")
    assert "2 ms more compute" in finding.sentence


def batches(first, later, *, repeats=(), steps=7):
    """One rank; some steps run ``first``, the others ``later``: options of ten launches."""
    one = Host()
    for number in range(steps):
        with one.step(number):
            for options in first if number in (0, *repeats) else later:
                for _ in range(10):
                    one.launch(**options)
            one.synchronise()
    return one


def batch(tokens, length, name="gemm"):
    return {"length": length, "shapes": [[tokens, 1024], [1024, 1024]], "name": name}


USUAL = batch(2048, 200)


def test_the_same_kernels_take_longer_in_the_first_step(tmp_path):
    """With some more of them, which is more work."""
    first = [batch(2048, 400), {"length": 50, "name": "norm"}, {"length": 50, "name": "norm"}]
    one = batches(first, [USUAL, {"length": 50, "name": "norm"}])
    finding = found(diagnosed(tmp_path, one), "warm_up")
    assert "2.5 ms longer than the others, 2 ms more compute:" in finding.sentence


@pytest.mark.parametrize(
    ("first", "later"),
    [
        ([batch(4096, 400)], [USUAL]),
        ([{"length": 400}], [{"length": 200}]),
        ([batch(4096, 400, "gemm_256")], [USUAL]),
        ([USUAL, USUAL], [USUAL]),
        (
            [batch(4096, 30, "norm"), {"length": 400, "grid": [132, 1, 1], "block": [384, 1, 1]}],
            [batch(2048, 15, "norm"), {"length": 200, "grid": [132, 1, 1], "block": [384, 1, 1]}],
        ),
    ],
    ids=["larger", "sizes unknown", "larger, other kernels", "more kernels", "grids of all SMs"],
)
def test_a_first_step_with_more_work_does_not_warm_up(tmp_path, first, later):
    assert not diagnosed(tmp_path, batches(first, later))


@pytest.mark.parametrize("repeats", [(), (3, 6)], ids=["once", "repeated"])
def test_a_validation_with_late_launches_does_not_warm_up(tmp_path, repeats):
    validates = {"length": 100, "takes": 200}
    train = {"length": 200, "takes": 220}
    one = batches([train, validates], [train], repeats=repeats)
    assert found(diagnosed(tmp_path, one), "warm_up") is None


def test_a_pause_that_later_steps_repeat_does_not_warm_up(tmp_path):
    """As to save a checkpoint every third step."""
    one = job({each: [("aten::contiguous", 5000)] for each in (0, 3, 6)}, steps=8)
    assert found(diagnosed(tmp_path, one), "warm_up") is None


def test_code_that_is_loaded_at_first_use(tmp_path):
    """In the calls that launch it first; the profiler takes no part in it."""
    one = Host()
    for number in range(6):
        with one.step(number):
            for _ in range(10):
                if number == 0:
                    load = event(one.now + 1, 700, "Lazy Function Loading", cat="overhead", tid=3)
                    one.events.append(load)
                    one.calls("cudaLaunchKernel", 700)
                    one.events.append(kernel(one.now, 1, correlation=one.launched))
                one.launch(200)
            one.synchronise()
    result = diagnosed(tmp_path, one)
    finding = found(result, "warm_up")
    assert finding.recoverable_ms == pytest.approx(5.2 / 5, rel=0.1)
    assert [each.cause for each in result] == ["warm_up"]


def test_a_first_step_that_waits_for_data_does_not_warm_up(tmp_path):
    one = job({0: [("train_dataloader_next", 7000)]})
    assert not diagnosed(tmp_path, one)


def test_a_slow_first_step_is_left_out_whatever_its_cause(tmp_path):
    loads = [("train_dataloader_next", 1000)]
    one = job({0: [("train_dataloader_next", 9000)], **dict.fromkeys(range(1, 6), loads)})
    finding = found(diagnosed(tmp_path, one), "input_starvation")
    assert finding.steps == (1, 2, 3, 4)
    assert finding.recoverable_ms == pytest.approx(1, rel=0.05)


def test_work_of_earlier_steps_is_not_of_the_first(tmp_path):
    """The GPU is behind the host when the first step begins."""
    one = Host()
    for _ in range(20):
        one.launch(200)
    for number in range(6):
        with one.step(number):
            for _ in range(10):
                one.launch(200)
            one.now = max(one.now, one.free - 4000)
    assert not diagnosed(tmp_path, one)


def test_a_recording_that_begins_with_initialising(tmp_path):
    calls = [("cudaFree", 5000), ("cuModuleLoadData", 2000), ("aten::conv2d", 3000)]
    one = job({0: [*calls, ("aten::a", 1)], 1: [("cudaMalloc", 500)]}, marks=False)
    one.events.append(event(0, 1, "aten::empty"))
    first = Host()
    first.launch(10)
    one.events += [
        {**each, "args": {**each.get("args", {}), "correlation": 999}} if "args" in each else each
        for each in first.events
    ]
    result = diagnosed(tmp_path, one)
    assert [each.cause for each in result] == ["warm_up"]
    assert found(result, "warm_up").steps == ()


@pytest.mark.parametrize("apart", [2, 500])
def test_launch_calls_that_load_code_and_begin_while_the_gpu_computes(tmp_path, apart):
    """Of two, for 10 ms each, the GPU waits 9; the kernels start after them, as clocks tell it."""
    one, begin = Host(), 1_000
    for number, name in enumerate(["a", "b", "c"]):
        length = 10_000 if number else 4
        start = begin + length + apart
        one.events += [event(begin - 1, length + 2, "aten::mm")]
        one.events += [
            call(begin, length, number),
            kernel(start, 1_000, correlation=number, name=name),
        ]
        begin = start
    finding = found(diagnosed(tmp_path, one), "warm_up")
    assert finding.recoverable_ms == pytest.approx(18, rel=0.02)


def uses(one, first_us, later_us=50, *, count=7, allocations=0):
    """An operator that launches a kernel at the end of each call."""
    for number in range(count):
        begin, length = one.now, later_us if number else first_us
        for _ in range(0 if number else allocations):
            one.calls("cudaMalloc", 500)
        while one.now < begin + length - 500:  # else a clock may have been set forward
            one.now += 400
            one.calls("cudaGetDevice", 1)
        one.now = begin + length - 10
        one.queue(20)
        one.now = begin + length
        one.events.append(event(begin, length, "aten::cudnn_convolution"))


def test_what_the_first_call_of_an_operator_sets_up(tmp_path):
    """As of cuDNN in an AlexNet: 2.88 s of 15.6 s of its first convolution are in no call."""
    one = Host()
    one.launch(100)
    uses(one, 9000, allocations=8)
    finding = found(diagnosed(tmp_path, one), "warm_up")
    assert finding.sentence.startswith(
        "The host initialises while the GPU is idle (first calls of operators, mostly "
        "aten::cudnn_convolution): "
    )
    assert finding.recoverable_ms == pytest.approx(8.9, rel=0.02)
    assert finding.advice[0].do == "Record after a few warm-up iterations."


def test_one_long_first_call_is_all_that_is_named(tmp_path):
    """One launch call of 6.54 ms was "contexts, modules, first allocations", and the panel of idle
    time called it launching."""
    one = Host()
    one.launch(100, operator="aten::add", name="add")
    one.now = one.free + 10
    one.events.append(call(one.now, 8_000, 90))
    one.events.append(kernel(one.now + 8_010, 100, name="first", correlation=90))
    one.now, one.free = one.now + 8_005, one.now + 8_110
    for _ in range(10):
        one.launch(100, operator="aten::add", name="add")
    result = diagnosed(tmp_path, one)
    words = "The host initialises while the GPU is idle, in one cudaLaunchKernel: "
    assert found(result, "warm_up").sentence.startswith(words)
    idle = idle_owners(result.job)
    assert " initialising (contexts, modules, libraries), most in cudaLaunchKernel (8 m" in (
        idle.finding
    )
    shown = causes_by_device(idle.devices, idle.causes)["initialising"].sum() / 1e6
    assert shown == pytest.approx(found(result, "warm_up").recoverable_ms, rel=0.01)


def test_a_warm_up_of_the_job_s_own(tmp_path):
    """Two AlexNets that warm up while they are recorded were told to warm up."""
    one = Host()
    one.launch(100)
    begin = one.now
    uses(one, 9000, allocations=8)
    passes = {"cat": "user_annotation", "name": "[alex_net|warmup|forward]"}
    one.events.append(event(begin - 1, one.now - begin + 2, "") | passes)
    finding = found(diagnosed(tmp_path, one), "warm_up")
    assert ", most of it in the job's own warm-up: " in finding.sentence
    assert [each.do for each in finding.advice] == [
        "Start the profiler after the job's own warm-up."
    ]


@pytest.mark.parametrize(
    ("why", "marked", "count", "later_us"),
    [
        ("the steps before were not recorded", 2, 7, 50),
        ("too few calls tell", None, 5, 50),
        ("each call takes as long", None, 7, 1500),
    ],
)
def test_a_first_call_that_is_not_known_to_set_up(tmp_path, why, marked, count, later_us):
    one = Host()
    with one.step(marked) if marked else nullcontext():
        one.launch(100)
        uses(one, 9000, later_us, count=count)
    assert found(diagnosed(tmp_path, one), "warm_up") is None, why


def test_silent_where_all_steps_are_alike(tmp_path):
    assert not diagnosed(tmp_path, job({}))


MODULE = "cuModuleLoadData"


def longer_by(folder, percent):
    """The first step loads modules for this part of the 2 ms that the others take."""
    result = diagnosed(folder, job({0: [(MODULE, 20.2 * percent)]}, steps=4))
    return found(result, "warm_up") is not None


def explained(folder, percent):
    """A first step that is 2 ms longer, and loads modules for this part of it, and then data."""
    setting_up = 20 * percent
    calls = [(MODULE, setting_up), ("train_dataloader_next", 2000 - setting_up)]
    return found(diagnosed(folder, job({0: calls}, steps=4)), "warm_up") is not None


def initialising(folder, percent):
    """Of a recording without steps of 10 ms of kernels, and what is set up before the second."""
    one = Host()
    one.launch(5000)
    one.synchronise()
    one.calls(MODULE, 10_000 * percent / (100 - percent))
    one.launch(5000)
    one.synchronise()
    return share(diagnosed(folder, one), "warm_up")


def of_steps(folder, count):
    """Steps that the finding is on, and are left out: none, where too few can be compared."""
    made = diagnosed(folder, job({0: [(MODULE, 4000)]}, steps=count + 1))
    return found(made, "warm_up").steps, made.left_out_steps


def also_computing(folder, part):
    """Of what the first step takes longer, a part is computing."""
    one = Host()
    for number in range(4):
        with one.step(number):
            if number == 0:
                one.calls(MODULE, 4000 * (1 - part))
                one.launch(4000 * part, name="init")
            for _ in range(10):
                one.launch(200)
            one.synchronise()
    return "more compute" in found(diagnosed(folder, one), "warm_up").sentence


def alike(folder, part):
    """The first step launches this part of what the later steps do, each twice as long."""
    one = Host()
    for number in range(4):
        with one.step(number):
            for name, count in (("gemm", round(100 * part)), ("other", round(100 * (1 - part)))):
                if number or name == "gemm":
                    for _ in range(count):
                        one.launch(20 if number else 40, name=name, shapes=[[2048, 1024]])
            one.synchronise()
    return found(diagnosed(folder, one), "warm_up") is not None


def as_long(folder, part):
    """This part of 50 later steps take as long as the first one."""
    repeats = range(2, 2 + round(50 * part))
    one = batches([batch(2048, 4000)], [USUAL], repeats=repeats, steps=52)
    return found(diagnosed(folder, one), "warm_up") is not None


test_what_warming_up_must_cost = least_price(
    "warm_up",
    "least_percent",
    lambda folder: diagnosed(folder, job({0: [(MODULE, 3000)]}, steps=5)),
)

test_thresholds = cases(
    Case("Limits.longer_first_step_percent", longer_by, {29: False, 31: True}),
    Case("Limits.warm_up_explained_percent", explained, {49: False, 51: True}),
    Case("Limits.initialising_percent", initialising, {4.9: None, 5.1: 5.1}),
    Case("warm_up.FEWEST_STEPS", of_steps, {2: ((), ()), 3: ((0,), (0,))}),
    Case("warm_up.WORTH_SAYING", also_computing, {0.095: False, 0.105: True}),
    Case("warm_up.AS_LONG", as_long, {0.24: True, 0.26: False}),
    Case("warm_up.ALIKE", alike, {0.89: False, 0.91: True}),
)


def test_a_first_launch_that_loads_code_is_worth_all_that_the_gpu_waits_for_it(tmp_path):
    """As on an MI250: 6.5 of 9.2 ms of a step are one ``hipLaunchKernel``."""
    events = [event(-50, 1, "aten::add"), event(-40, 1, "aten::mul"), call(0, 5, 1)]
    events += [kernel(10, 1000, correlation=1), call(1100, 6500, 2)]
    events += [kernel(7603, 1400, correlation=2, name="new")]
    largest = diagnose(open_job(tmp_path, [events]))[0]
    assert largest.cause == "warm_up"
    assert largest.recoverable_ms == pytest.approx(6.5, abs=0.02)
