"""Idle time by what the host did: every rule, and sums."""

from __future__ import annotations

import pandas as pd
import pytest
from hypothesis import given

from hta_widgets import diagnose
from hta_widgets.analyses.budget.classes import BUDGET
from hta_widgets.analyses.budget.device_steps import GAPS, device_steps
from hta_widgets.analyses.collectives import rank_splits
from hta_widgets.analyses.communication.partition import PARTS
from hta_widgets.analyses.time import patterns
from hta_widgets.diagnosis.budget_table import named_classes
from hta_widgets.diagnosis.facts.step_facts import step_facts
from hta_widgets.trace.opening.open import open_trace
from tests.analyses.generated_jobs import open_job
from tests.analyses.test_idle_owners import annotation, api, calls_and_work, frame, overhead
from tests.diagnosis.findings.thresholds import Case, cases
from tests.kineto_text import call, host, kernel, step, write

COPY = "Memcpy HtoD (Pageable -> Device)"
OPERATORS = [host(-50, 1, "aten::add"), host(-40, 1, "aten::mul"), host(-30, 1, "aten::sum")]


def facts_of(job):
    splits = rank_splits(job)
    return [
        step_facts(rank, device_steps(rank, splits[rank.trace.rank]))
        for rank in map(job.rank, job.ranks)
    ]


def gaps(tmp_path, events):
    """Idle time (µs) by kind, without those that have none."""
    facts = facts_of(open_job(tmp_path, [events]))[0]
    return {name: facts[name].sum() / 1000 for name in GAPS if facts[name].any()}


def late(idle, *, length=5, **work):
    """A kernel until 10, and the next after some idle time; launched 6 µs before it starts."""
    end = 10 + idle
    return [
        call(0, 1, 1),
        kernel(2, 8, correlation=1),
        call(end - 6, 2, 2),
        kernel(end, length, correlation=2, **work),
    ]


@pytest.mark.parametrize(
    ("name", "events"),
    [
        ("gap_op", [*OPERATORS, *late(500)]),
        ("gap_op", [*OPERATORS, *late(900), host(15, 480, "aten::mm")]),
        ("gap_profiler", [*late(2000), overhead(9, 2000)]),
        ("gap_loader", [*late(2000), annotation(8, 1990, "enumerate(DataLoader)#Next")]),
        ("gap_loader", [*late(2000), host(8, 1990, "train_dataloader_next")]),
        ("gap_loader", [*late(2000), frame(8, 1990, "data.py(8): preprocess")]),
        ("gap_loader", [*late(2000), frame(8, 1990, "data.py(8): tokenize")]),
        ("gap_alloc", [*late(2000), api(8, 1990, "cudaFree")]),
        ("gap_init", [*late(2000), api(8, 1990, "cuModuleLoadData", cat="cuda_driver")]),
        ("gap_init", [*late(2000), api(8, 1990, "cudaStreamCreate")]),
        ("gap_init", [*late(2000), frame(8, 1990, "torch/_dynamo/convert_frame.py(1): f")]),
        ("gap_init", [*OPERATORS, *late(2000), api(50, 5, "cudaStreamBeginCapture")]),
        ("gap_pause", [*OPERATORS, *late(2000)]),
        ("gap_pause", [*OPERATORS, *late(2000), host(9, 1990, "aten::mm")]),
        ("gap_pause", [*OPERATORS, *late(900), host(9, 890, "Python GC")]),
        ("gap_sync", [*OPERATORS, *late(500), api(5, 30, "cudaStreamSynchronize")]),
        ("gap_pause", [*OPERATORS, *late(2000), api(5, 30, "cudaStreamSynchronize")]),
        ("gap_depend", [*OPERATORS, *late(2000), api(12, 1980, "cudaDeviceSynchronize")]),
        ("gap_depend", [*late(2000)]),
        ("gap_op", [*late(900, length=50)]),
        ("gap_op", [*late(900, length=50, name=COPY, cat="gpu_memcpy")]),
        ("gap_op", [*late(900)]),
        ("gap_depend", [*OPERATORS, *late(1)]),
    ],
)
def test_what_the_host_did(tmp_path, name, events):
    found = gaps(tmp_path, events)
    assert found[name] >= 0.9 * sum(found.values()), found


def test_only_the_first_15_us_of_a_launch_call_are_the_hosts(tmp_path):
    events = [*OPERATORS, call(0, 1, 1), kernel(2, 8, correlation=1)]
    events += [call(40, 400, 2), kernel(500, 5, correlation=2)]
    assert gaps(tmp_path, events) == {"gap_op": 45, "gap_depend": 445}


@pytest.mark.parametrize(
    ("name", "length", "kind"),
    [
        ("new", 1001, "gap_init"),  # HIP and CUDA load the code of a kernel when it is first used
        ("kernel", 1001, "gap_pause"),
        ("new", 1000, "gap_depend"),
    ],
)
def test_a_long_launch_call_that_an_idle_gpu_waits_for_is_the_hosts(tmp_path, name, length, kind):
    events = [*OPERATORS, call(0, 1, 1), kernel(2, 8, correlation=1), call(40, length, 2)]
    events += [kernel(40 + length + 3, 5, correlation=2, name=name)]
    found = gaps(tmp_path, events)
    assert found[kind] == pytest.approx(length, abs=20), found


def in_call(begins, length, starts):
    """A kernel until 10, and one of another name, with its launch call."""
    kernels = [kernel(2, 8, correlation=1), kernel(starts, 5, correlation=2, name="new")]
    return [call(0, 1, 1), call(begins, length, 2), *kernels]


def test_a_long_launch_call_that_began_while_the_gpu_was_busy_is_the_hosts(tmp_path):
    """Of SwitchTransformers; the kernel starts a while after its call, as clocks are apart."""
    for after in (0, 2, 500):
        folder = tmp_path / str(after)
        folder.mkdir()
        found = gaps(folder, [*OPERATORS, *in_call(5, 3000, 3005 + after)])
        assert found["gap_init"] == 2995
        assert found.get("gap_depend", 0) == after


def test_a_launch_call_that_blocks_after_its_kernel_began_does_not_hold_it_up(tmp_path):
    found = gaps(tmp_path, [*OPERATORS, *in_call(5, 6000, 2000)])
    assert found == {"gap_depend": 1990}


def test_a_long_launch_call_into_a_full_queue_is_not_the_hosts(tmp_path):
    events = [*OPERATORS, call(0, 1, 1), kernel(2, 8, correlation=1), call(40, 1500, 2)]
    events += [kernel(3000, 5, correlation=2, name="new")]
    assert gaps(tmp_path, events)["gap_depend"] > 1400


def test_launched_before_the_gpu_ran_dry(tmp_path):
    events = [*OPERATORS, call(0, 1, 1), call(2, 1, 2), kernel(2, 8, correlation=1)]
    events += [kernel(900, 5, correlation=2), overhead(9, 890)]
    assert gaps(tmp_path, events) == {"gap_depend": 890}


def test_launches_of_other_threads_end_a_stretch(tmp_path):
    """Two times 0.8 ms without a launch are no pause."""
    others = [call(800, 2, 3, tid=7), kernel(4000, 5, correlation=3)]
    assert gaps(tmp_path, [*OPERATORS, *late(1600), *others])["gap_op"] > 1500


def test_a_batch_that_the_main_thread_prepares(tmp_path):
    copy = late(3000, name=COPY, cat="gpu_memcpy", length=40)
    told = [*OPERATORS, host(20, 1800, "aten::index")]
    assert gaps(tmp_path, [*copy, *told])["gap_loader"] > 2900
    assert gaps(tmp_path, [*copy, *OPERATORS])["gap_pause"] > 2900
    short = late(3000, name=COPY, cat="gpu_memcpy", length=4)
    assert gaps(tmp_path, [*short, *told])["gap_pause"] > 2900


@pytest.mark.parametrize(
    "around", ["Optimizer.step#Adam.step", "autograd::engine::evaluate_function: MulBackward0"]
)
def test_parameters_that_an_optimizer_on_the_cpu_hands_back_are_no_batch(tmp_path, around):
    """Of an Adam on the CPU, 58 ms before the copies were called waiting for data."""
    copy = late(3000, name=COPY, cat="gpu_memcpy", length=40)
    updates = [host(18, 2900, around), host(20, 1800, "aten::addcdiv_")]
    assert gaps(tmp_path, [*copy, *OPERATORS, *updates])["gap_pause"] > 2900


def test_a_program_with_a_telling_name_prepares_no_batches(tmp_path):
    program = frame(-1, 4000, "image_processing/train.py(3): main")
    assert "gap_loader" not in gaps(tmp_path, [*OPERATORS, *late(2000), program])


def test_steps_end_with_their_last_kernel_and_add_up(tmp_path):
    events = [*OPERATORS, step(1, 0, 1000), step(2, 1000, 1000), step(3, 2000, 1000)]
    for begin in (100, 1100, 2100):
        events += [host(begin - 20, 60, "aten::mm"), call(begin, 5, begin)]
        events += [kernel(begin + 10, 300, correlation=begin)]
    copy = {"name": "Memcpy DtoH (Device -> Pageable)", "cat": "gpu_memcpy"}
    events += [call(1500, 5, 9), kernel(1600, 500, correlation=9, **copy)]
    facts = facts_of(open_job(tmp_path, [events]))[0]
    assert facts["step"].tolist() == [1, 2]
    assert facts["period"].tolist() == [410_000, 1_000_000]
    assert facts["kernels"].tolist() == [1, 1]
    assert facts["memory"].tolist() == [0, 0]
    assert sum(facts[name] for name in PARTS).tolist() == facts["period"].tolist()


def test_work_of_the_last_step_keeps_the_gpu_busy(tmp_path):
    """A copy that the step after the analysed ones launches runs before these end."""
    events = [*OPERATORS, step(1, 0, 400), step(2, 400, 600)]
    events += [call(5, 1, 1), kernel(10, 20, correlation=1), call(300, 5, 2)]
    copy = {"name": COPY, "cat": "gpu_memcpy", "stream": 9}
    events += [call(410, 5, 3), kernel(450, 300, correlation=3, **copy)]
    events += [kernel(800, 20, correlation=2)]
    facts = facts_of(open_job(tmp_path, [events]))[0]
    assert facts["memory"].tolist() == [300_000]
    assert sum(facts[name] for name in GAPS).tolist() == facts["idle"].tolist()


@given(calls_and_work())
def test_gaps_add_up_to_the_idle_time(tmp_path_factory, events):
    facts = facts_of(open_job(tmp_path_factory.mktemp("gaps"), [events]))[0]
    assert sum(facts[name] for name in GAPS).tolist() == facts["idle"].tolist()
    assert sum(facts[name] for name in PARTS).tolist() == facts["period"].tolist()


def test_the_hosts_own_time(tmp_path):
    events = [*OPERATORS, step(1, 0, 1000), step(2, 1000, 500)]
    events += [call(5, 1, 1), kernel(10, 20, correlation=1)]
    events += [api(100, 200, "cudaStreamSynchronize"), host(300, 100, "dataloader_next")]
    events += [api(600, 50, "cudaStreamSynchronize", tid=7), overhead(700, 10, tid=3)]
    assert facts_of(open_job(tmp_path, [events]))[0]["host"].tolist() == [690_000]


def test_a_blocking_call_that_begins_inside_another_by_rounding_waits_all_the_same(tmp_path):
    calls = [api(10, 20.25, "cudaEventRecord"), api(30, 400, "cudaEventSynchronize")]
    events = [*OPERATORS, call(0, 1, 1), *calls, kernel(2, 998, correlation=1)]
    assert facts_of(open_job(tmp_path, [events]))[0]["host"].tolist() == [998_000 - 400_000]


@pytest.mark.parametrize(
    ("pattern", "fitting", "others"),
    [
        (patterns.PREPROCESSING, ["video_processor", "Tokenizer", "imdecode"], ["detokenize"]),
        (
            patterns.CAPTURING,
            ["cudaStreamBeginCapture", "hipGraphInstantiate"],
            ["cudaGraphLaunch", "cudaStreamGetCaptureInfo_v2", "cudaStreamIsCapturing"],
        ),
        (patterns.HOST_TO_DEVICE, [COPY, "CopyHostToDevice"], ["Memcpy DtoH (Device -> Pinned)"]),
        (patterns.DEVICE_TO_HOST, ["Memcpy DtoH (Device -> Pinned)"], [COPY]),
    ],
)
def test_patterns(pattern, fitting, others):
    assert all(pattern.search(name) for name in fitting)
    assert not any(pattern.search(name) for name in others)


def test_a_job_without_gpu_work_is_diagnosed(tmp_path):
    path = write(tmp_path / "rank-0.json", [host(0, 5, "aten::add")])
    assert len(diagnose(open_trace(path))) == 0


def kind_of(folder, events):
    """The kind of most idle time."""
    found = gaps(folder, [*OPERATORS, *events])
    return max(found, key=found.get)


def after_launches(folder, latency_us, late_ones=5):
    """Idle time (µs) of no host: before a kernel that was launched while the one before ran.

    It starts so long after its launch; some other kernels start 8 µs after launches that were late.
    """
    events = [call(0, 1, 1), kernel(2, 8, correlation=1)]
    for number in range(2, 2 + late_ones):
        at = 100 * number
        events += [call(at, 1, number), kernel(at + 8, 20, correlation=number)]
    launched = 100 * (1 + late_ones) + 28 - 2
    events += [call(launched, 1, 99), kernel(launched + latency_us, 20, correlation=99)]
    return gaps(folder, [*OPERATORS, *events]).get("gap_depend", 0)


def first_of(folder, first_us, later_us, *, later=5, inputs=None):
    """The GPU waits for the first call of an operator, of which there are more later."""
    every = [host(50, first_us, "aten::conv2d")]
    every += [host(3000 + 400 * number, later_us, "aten::conv2d") for number in range(later)]
    every.append(host(6000, 1, "aten::conv2d"))  # of other inputs
    for each in every[:-1]:
        each["args"] = {"Input Dims": inputs} if inputs else {}
    return kind_of(folder, [*OPERATORS, *late(2000), *(every if inputs else every[:-1])])


def short_gap(folder, ns):
    """A launch just after the GPU ran dry, and idle time of some length."""
    after = 10 + ns / 1000
    events = [call(0, 1, 1), kernel(2, 8, correlation=1), call(10.1, 0.5, 2)]
    return kind_of(folder, [*events, kernel(after, 5, correlation=2)])


def in_operators(folder, part):
    """A host that is in operators for a part of 2,994 µs before it copies a batch."""
    copy = late(3000, name=COPY, cat="gpu_memcpy", length=40)
    return kind_of(folder, [*copy, host(20, 2994 * part, "aten::index")])


def beside_the_optimizer(folder, part):
    """The same, the rest of it in operators of an optimizer on the CPU."""
    copy = late(3000, name=COPY, cat="gpu_memcpy", length=40)
    edge = 2994 * part
    updates = [host(20 + edge, 2994 - 20 - edge, "Optimizer.step#SGD.step", cat="user_annotation")]
    updates += [host(20 + edge, 2994 - 20 - edge, "aten::add_")]
    return kind_of(folder, [*copy, host(20, edge, "aten::index"), *updates])


def operators_per_launch(folder, part):
    """Fifty launches, and nine or ten operators."""
    launches = [call(1 + number / 50, 0.01, 10 + number) for number in range(48)]
    works = [kernel(3 + number / 50, 0.01, correlation=10 + number) for number in range(48)]
    told = [host(-50 + 2 * number, 1, "aten::add") for number in range(round(50 * part))]
    found = gaps(folder, [*late(2000), *launches, *works, *told])
    return max(found, key=found.get)


def starting_us(folder, ns, length_ns=5_000):
    """Time that starting a short kernel takes, launched while the one before ran."""
    events = [call(0, 1, 1), call(2, 1, 2), kernel(2, 8, correlation=1)]
    events += [kernel(10 + ns / 1000, length_ns / 1000, correlation=2)]
    return float(facts_of(open_job(folder, [[*OPERATORS, *events]]))[0]["starting"][0]) / 1000


def host_us(folder, length_us, usual_us=2):
    """Time of a host that is at work for 1 ms, of which one launch call takes long."""
    calls = [call(10 * number, usual_us, number) for number in range(1, 6)]
    kernels = [kernel(11 + 10 * number, 1, correlation=number) for number in range(1, 6)]
    last = [call(200, length_us, 9), kernel(990, 10, correlation=9)]
    events = [*OPERATORS, step(1, 0, 1000), step(2, 1000, 10), *calls, *kernels, *last]
    return float(facts_of(open_job(folder, [events]))[0]["host"][0]) / 1000


def host_in_words(_, share):
    """What a host does that allocates for a share of its idle time, and launches in the rest."""
    steps = pd.DataFrame({name: [0.0] for each in BUDGET for name in each.columns})
    steps["gap_alloc_ns"], steps["gap_op_ns"] = share, 1 - share
    return next(each.label for each in named_classes(steps) if each.name == "late_launching")


test_thresholds = cases(
    Case(
        "budget_table.WORTH_NAMING",
        host_in_words,
        {0.19: "CPU-bound: launch", 0.21: "CPU-bound: launch and allocation"},
    ),
    Case(
        "idle_gaps.AT_ONCE_NS",
        lambda folder, ns: kind_of(
            folder,
            [*OPERATORS, *late(500), api(10 - ns / 1000, 30, "cudaStreamSynchronize")],
        ),
        {2_000: "gap_op", 2_001: "gap_sync"},
    ),
    Case("idle_gaps.SHORTEST_GAP_NS", short_gap, {1000: "gap_depend", 1001: "gap_op"}),
    Case(
        "idle_gaps.STRETCH_NS",
        lambda folder, ns: kind_of(folder, late(ns / 1000 + 6)),
        {1_000_000: "gap_op", 1_000_001: "gap_pause"},
    ),
    Case(
        "idle_gaps.STRETCH_NS",
        lambda folder, ns: kind_of(
            folder, [*late(1800), api(12, ns / 1000, "cudaDeviceSynchronize")]
        ),
        {1_000_000: "gap_pause", 1_000_001: "gap_depend"},
    ),
    Case(
        "idle_gaps.STRETCH_NS",
        lambda folder, ns: kind_of(folder, in_call(5, 5 + ns / 1000, 12 + ns / 1000)),
        {1_000_000: "gap_depend", 1_000_001: "gap_init"},
    ),
    Case(
        "idle_gaps.LAST_PART",
        lambda folder, part: kind_of(folder, in_call(40, 9000, 40 + 9000 * (1 - part))),
        {0.099: "gap_init", 0.101: "gap_depend"},
    ),
    Case(
        "device_steps.SHORT_KERNEL_NS",
        lambda folder, ns: starting_us(folder, 2_000, length_ns=ns),
        {14_999: 2.0, 15_000: 0.0},
    ),
    Case("device_steps.START_NS", starting_us, {3000: 3.0, 3001: 0.0}),
    Case(
        "device_steps.FEWEST_LATE",
        lambda folder, count: after_launches(folder, 8, count),
        {4: 6.0, 5: 0},
    ),
    Case(
        "device_steps.PROMPT",
        lambda folder, times: after_launches(folder, 8 * times),
        {1.25: 0, 1.251: 8.008},
    ),
    Case(
        "device_steps.FIRST_CALL",
        lambda folder, times: first_of(folder, 1900, 1900 / times, inputs=[[8]]),
        {9.9: "gap_pause", 10.1: "gap_init"},
    ),
    Case(
        "device_steps.FEWEST_LIKE",
        lambda folder, later: first_of(folder, 1900, 50, later=later, inputs=[[8]]),
        {0: "gap_pause", 1: "gap_init"},
    ),
    Case(
        "device_steps.FEWEST_NAMED",
        lambda folder, later: first_of(folder, 1900, 50, later=later),
        {4: "gap_pause", 5: "gap_init"},
    ),
    Case(
        "device_steps.BATCH_COPY_NS",
        lambda folder, ns: kind_of(
            folder,
            [
                *late(3000, name=COPY, cat="gpu_memcpy", length=ns / 1000),
                host(20, 1800, "aten::index"),
            ],
        ),
        {20_000: "gap_pause", 20_001: "gap_loader"},
    ),
    Case("device_steps.BATCH_IN_CALLS", in_operators, {0.49: "gap_pause", 0.51: "gap_loader"}),
    Case(
        "device_steps.BATCH_IN_CALLS", beside_the_optimizer, {0.49: "gap_pause", 0.51: "gap_loader"}
    ),
    Case(
        "device_steps.OPERATORS_PER_LAUNCH",
        operators_per_launch,
        {0.18: "gap_depend", 0.2: "gap_pause"},
    ),
    Case(
        "step_facts.HELD_UP_NS",
        lambda folder, ns: host_us(folder, ns / 1000),
        {100_000: 1000.0, 100_001: 899.999},
    ),
    Case(
        "step_facts.HELD_UP",
        lambda folder, times: host_us(folder, 8 * times, usual_us=8),
        {20: 1000.0, 20.1: 1000 - 160.8},
    ),
)


def graph(*starts):
    """Kernels of a launched graph, five of whose launches were late."""
    events = [call(0, 1, 1), kernel(2, 8, correlation=1)]
    for number in range(2, 7):
        at = 100 * number
        events += [call(at, 1, number), kernel(at + 8, 20, correlation=number)]
    events += [call(1000, 1, 99, name="cudaGraphLaunch")]
    return [*events, *(kernel(1000 + start, 1, correlation=99) for start in starts)]


def test_what_passes_between_the_kernels_of_a_graph_is_not_the_hosts(tmp_path):
    """However soon after its launch it starts, and however short they are."""
    one, both = (tmp_path / name for name in ("one", "both"))
    one.mkdir()
    both.mkdir()
    before, after = gaps(one, [*OPERATORS, *graph(3)]), gaps(both, [*OPERATORS, *graph(3, 6)])
    assert after["gap_op"] == before["gap_op"]
    assert after.get("gap_depend", 0) == before.get("gap_depend", 0) + 2
    facts = facts_of(open_job(tmp_path, [[*OPERATORS, *graph(3, 6)]]))[0]
    assert facts["starting"].sum() == 0
