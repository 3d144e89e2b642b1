"""What the traces lack that a diagnosis needs."""

from __future__ import annotations

import re

import pytest

from hta_widgets.diagnosis import diagnosis
from hta_widgets.diagnosis.facts.not_recorded import not_recorded
from hta_widgets.trace.opening.open import open_trace
from hta_widgets.trace.ranks.facts import RankRecords, rank_records
from tests.analyses.collective_jobs import all_fields, ddp, no_fields, open_job, write_job
from tests.kineto_text import call, host, kernel, step, write

ALL = RankRecords(*(True for _ in RankRecords._fields))


def lacking(records, *, world_size=0, with_steps=True):
    found = not_recorded(records, world_size=world_size, with_steps=with_steps)
    return [each.what for each in found]


def test_nothing_is_said_where_all_is_recorded():
    assert lacking({0: ALL, 1: ALL}, world_size=2) == []
    assert lacking({0: ALL._replace(communication=False, collectives=False)}, world_size=8) == []


def test_each_lack_is_named_with_the_ranks_that_have_it():
    without = ALL._replace(host_code=False)
    assert lacking({0: without, 1: without}) == ["Operators are"]
    assert lacking({0: ALL, 1: without, 2: without}) == ["Operators of ranks 1-2 are"]
    assert lacking({0: ALL, 1: ALL._replace(collectives=False)}) == [
        "Process groups and message sizes of rank 1 are"
    ]
    common = ["Step marks that all ranks have in common are"]
    assert lacking({0: ALL, 1: ALL}, with_steps=False) == common
    alone = ALL._replace(communication=False, collectives=False)
    assert lacking({0: alone}, with_steps=False) == ["Step marks are"]


def test_nobody_marks_the_steps_of_a_server():
    said = not_recorded({0: ALL, 1: ALL}, world_size=2, with_steps=False, left_out=[1], serves=True)
    assert all("profiler.step" not in each.sentence for each in said)
    assert {each.how for each in said} == {"Record all ranks of the server at the same time"}


def test_what_to_do_is_for_the_profiler_that_recorded_the_job():
    bare = ALL._replace(host_code=False, launches=False, communication=False)
    found = not_recorded({0: bare}, world_size=1, with_steps=False)
    assert len(found) == 3
    assert not any(re.search("nsys|NVTX", each.how) for each in found)
    assert not any(
        re.search(r"profiler\.step|ProfilerActivity", each.in_nsys.how) for each in found
    )


def test_groups_are_not_recorded_of_kernels_in_graphs_as_those_of_servers_are():
    lacks = ALL._replace(collectives=False)
    said, *_ = not_recorded({0: lacks}, world_size=1, with_steps=True, serves=True)
    assert said.what == "Process groups and message sizes are"
    assert "without CUDA graphs" in said.how
    said, *_ = not_recorded({0: lacks}, world_size=1, with_steps=True)
    assert "CUDA graphs" not in said.how


@pytest.mark.parametrize("serves", [False, True])
def test_operators_are_asked_for_only_where_some_rank_lacks_them(serves):
    """A recording with all of them was told to record ProfilerActivity.CPU."""
    lacks = ALL._replace(collectives=False)
    said, *_ = not_recorded({0: lacks}, world_size=1, with_steps=True, serves=serves)
    assert "PyTorch 2.4 or newer" in said.how
    assert "ProfilerActivity" not in said.how
    both = {0: lacks, 1: lacks._replace(host_code=False)}
    *_, said = not_recorded(both, world_size=2, with_steps=True, serves=serves)
    assert "PyTorch 2.4 or newer and ProfilerActivity.CPU" in said.how


@pytest.mark.parametrize(("ranks", "world_size"), [([0], 0), ([0], 8), ([0, 1, 3], 4)])
def test_ranks_without_a_trace(ranks, world_size):
    (what,) = lacking(dict.fromkeys(ranks, ALL), world_size=world_size)
    assert what == f"Ranks other than {'0-1, 3' if len(ranks) > 1 else '0'} are"


def test_without_kernels_nothing_else_is_said():
    busy = ALL._replace(kernels=False, host_code=False, collectives=False)
    assert lacking({0: busy, 1: busy}, with_steps=False, world_size=8) == ["Kernels are"]
    assert lacking({0: busy, 1: ALL}) == ["Kernels of rank 0 are"]


@pytest.mark.parametrize(
    ("launches", "said"), [(False, "no recorded call launches any"), (True, "no cause can be told")]
)
def test_kernels_that_were_never_launched_are_not_lost(launches, said):
    """One memset, and another profiler or WSL was blamed: no call had launched a kernel."""
    copies = ALL._replace(kernel_work=False, launches_kernels=launches, measured=False)
    (found,) = not_recorded({0: copies}, world_size=1, with_steps=True)
    assert (found.what, found.untold) == ("Kernels are", said)
    assert ("WSL" in found.how) == launches


def test_without_gpu_work_it_is_said_what_tells_more_of_the_cpus():
    measured = ALL._replace(gpu_work=False, communication=False, collectives=False)
    launched = measured._replace(measured=False)
    on_cpu = launched._replace(calls=False, launches=False, waited_for=False)
    assert lacking({0: on_cpu}) == ["GPU work is"]
    assert lacking({0: on_cpu._replace(calls=True)}) == []  # it was recorded: there is none
    alone = on_cpu._replace(calls=True, host_code=False)
    (said,) = not_recorded({0: alone}, world_size=1, with_steps=True)
    assert said.untold == "no recorded call launches any"
    assert lacking({0: launched}) == ["Launched GPU work is"]
    assert lacking({0: measured}) == ["Times of kernels are"]
    assert lacking({0: on_cpu, 1: launched, 2: ALL}) == [
        "GPU work of rank 0 is",
        "Launched GPU work of rank 1 is",
    ]
    bare = on_cpu._replace(frames=False, memory=False)
    assert lacking({0: bare}) == ["GPU work is", "Python frames are", "Memory events are"]
    assert lacking({0: bare, 1: on_cpu}) == ["GPU work is"]
    assert lacking({0: bare._replace(host_code=False)}, with_steps=False) == ["GPU work is"]
    assert lacking({0: ALL, 1: bare, 2: bare}) == ["GPU work of ranks 1-2 is"]


def test_steps_that_ranks_do_not_have_in_common():
    records, said = dict.fromkeys(range(5), ALL), "in common with the others are"
    one, several = (
        not_recorded(records, world_size=5, with_steps=True, left_out=each)
        for each in ([2], [3, 4])
    )
    assert [each.what for each in (*one, *several)] == [
        f"Steps that rank 2 has {said}",
        f"Steps that ranks 3-4 have {said}",
    ]


def test_of_traces(tmp_path):
    for name, fields in (("new", all_fields), ("old", no_fields)):
        (tmp_path / name).mkdir()
        job = open_job(write_job(tmp_path / name, ddp(2, 4), fields=fields))
        found = diagnosis(job)
        assert ("Process groups" in str(found.not_recorded)) == (name == "old")
        assert "Operators are" in str(found.not_recorded)
        assert "Ranks other" not in str(found.not_recorded)
        assert {each.sentence for each in found.not_recorded} <= {*found.notices}


def test_a_loop_that_only_replays_a_graph_runs_no_operator(tmp_path):
    """Its annotations show that the CPU was recorded; without them, only the GPU was.

    A kernel that is launched otherwise has an operator, which may be lost.
    """
    events = []
    for number in range(4):
        begin = 100 * number
        events += [call(begin + 2, 5, number, name="cudaGraphLaunch")]
        events += [kernel(begin + 10, 80, correlation=number)]
    marks = [step(number, 100 * number, 99) for number in range(4)]
    other = [*marks, call(192, 1, 9), kernel(194, 1, correlation=9)]
    for name, more in (("cpu", marks), ("gpu", []), ("lost", other)):
        found = diagnosis(open_job(write(tmp_path / f"{name}.json", [*more, *events])))
        assert ("Operators are" in str(found.not_recorded)) == (name != "cpu")


def test_it_is_of_the_whole_job_whatever_ranks_are_chosen(tmp_path):
    job = open_job(write_job(tmp_path, ddp(2, 4)))
    assert diagnosis(job, [0]).not_recorded == diagnosis(job).not_recorded


def test_launches_without_gpu_work_do_not_make_a_job_of_the_cpu(tmp_path):
    calls = [host(0, 50, "aten::mm"), *(call(10 * each, 2, each + 1) for each in range(4))]
    found = diagnosis(open_job(write(tmp_path / "rank-0.json", calls)))
    assert found.finding.startswith("The GPU work of 4 launches was not recorded: the recording ")
    assert "torch.cuda.synchronize()" in found.not_recorded[0].how
    assert found.job.kind != "CPU only"


@pytest.mark.parametrize(("part", "is_said"), [(0.009, True), (0.011, False)])
def test_a_few_copies_are_not_what_a_job_does(tmp_path, part, is_said):
    """Of a model that was recorded for 0.5 s, one memset of 1.5 µs: it was bound by copying."""
    fill_us = 10_000 * part
    events = [host(0, 5_000, "aten::mm"), call(9_000, 2, 1, name="cudaMemsetAsync")]
    fill = kernel(10_000 - fill_us, fill_us, cat="gpu_memset", name="Memset", correlation=1)
    found = diagnosis(open_job(write(tmp_path / "rank-0.json", [*events, fill])))
    said = "No cause can be named: of the job's GPU work, only copies and memsets were recorded (90"
    assert found.finding.startswith(said) == is_said
    assert (found.status == "cannot_tell", not found.bound_by) == (is_said, is_said)
    lacks = [each.what for each in found.not_recorded]
    assert (lacks == ["Kernels are"]) == is_said


@pytest.mark.parametrize(("at", "is_seen"), [(5, True), (60, False)])
def test_launched_work_that_the_host_waited_for_was_not_cut_off(tmp_path, at, is_seen):
    """A wait before the first launch is for nothing that is launched here."""
    calls = [host(9, 50, "aten::mm"), *(call(10 * each, 2, each) for each in (1, 2))]
    wait = call(at, 3, 9, name="cudaStreamSynchronize")
    found = diagnosis(open_job(write(tmp_path / "rank-0.json", [*calls, wait])))
    why = ": the recording ended before it ran, or " if is_seen else ", though the host waited for"
    assert found.finding.startswith(f"The GPU work of 2 launches was not recorded{why}")
    (notice,) = (each for each in found.notices if each.startswith("none of 2 launches has GPU"))
    assert ("though the host waited for it" in notice) != is_seen
    assert ("torch.cuda.synchronize()" in found.not_recorded[0].how) == is_seen


def test_a_rank_without_gpu_work_has_no_steps(tmp_path):
    write(tmp_path / "rank-0.json", [step(1, 0, 9), host(0, 5, "aten::mm"), step(2, 9, 9)])
    alone = diagnosis(open_job(tmp_path))
    assert alone.finding.startswith("No GPU work was recorded: the job ran on the CPU, or ")
    assert (len(alone), alone.steps.empty, alone.period_ns) == (0, True, 0.0)
    work = [step(1, 0, 9), call(1, 1, 1), kernel(3, 4, correlation=1), step(2, 9, 9)]
    write(tmp_path / "rank-1.json", work)
    both = open_job(tmp_path)
    assert diagnosis(both).steps["rank"].tolist() == [1]
    chosen = diagnosis(both, [0])
    assert chosen.finding.startswith("No GPU work was recorded on the selected ranks. Of 5 µs of ")
    assert chosen.not_recorded[0].what == "GPU work of rank 0 is"


def test_a_program_that_only_copies_has_recorded_its_calls(tmp_path):
    """Of one that made 617 copies and memsets it was said that its CUDA calls are not recorded."""
    copies = [(10, "cudaMemcpyAsync", "gpu_memcpy"), (200, "cudaMemsetAsync", "gpu_memset")]
    events = [call(start, 5, number, name=name) for number, (start, name, _) in enumerate(copies)]
    events += [
        kernel(start + 10, 100, correlation=number, cat=cat, name=cat)
        for number, (start, _, cat) in enumerate(copies)
    ]
    job = open_trace(write(tmp_path / "rank-0.json", events), progress=False)
    assert rank_records(job.rank(0)).launches
