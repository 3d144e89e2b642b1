"""Idle time by what the host did: every rule, and sums."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from hta_widgets import diagnose
from hta_widgets.analyses.budget.device_steps import device_steps
from hta_widgets.analyses.budget.host_gaps import GAPS
from hta_widgets.analyses.collectives.rank_splits import rank_splits
from hta_widgets.analyses.communication.partition import PARTS
from hta_widgets.analyses.time import patterns
from hta_widgets.diagnosis.facts.step_facts import step_facts
from hta_widgets.trace.opening.open import open_trace
from tests.analyses.generated_jobs import open_job
from tests.analyses.test_idle_owners import annotation, api, calls_and_work, frame, overhead
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
        ("gap_depend", [*late(900, length=50)]),
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


@settings(max_examples=40)
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
            ["cudaGraphLaunch"],
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
