"""What is said of a change: pairs with something planted, alike pairs, and pairs that differ."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hta_widgets import open_trace
from hta_widgets.diagnosis.change.baseline import read_baseline, write_baseline
from hta_widgets.diagnosis.change.comparable import differences
from hta_widgets.diagnosis.change.explain_change import Change, count_words, explain_change
from hta_widgets.diagnosis.change.gate import Limit, judge
from hta_widgets.diagnosis.change.several import pooled
from hta_widgets.diagnosis.change.summary import Summary, summary
from hta_widgets.diagnosis.change.waterfall import Line
from hta_widgets.diagnosis.job.health import CLOCKS_APART
from tests.diagnosis.change.made import ENVIRONMENT, finding, job_of
from tests.diagnosis.change.score import OTHER_NOISE, pairs
from tests.kineto_text import host, step, write
from tests.simulator.causes import healthy_plan
from tests.simulator.plan import Throttling
from tests.simulator.simulation import write_plan

LONG = ("input_starvation", "slow_host_copies")
PLANTED = [
    *("blocking_sync", "no_tensor_cores"),
    *(pytest.param(each, marks=pytest.mark.long) for each in LONG),
]
SLOWER = 1.034
"""Of kernels that compute, which are nine tenths of a step."""

ROWS = [("compute", "Net_0", "aten::mm", "gemm", 10_000_000)]


@pytest.mark.parametrize("cause", PLANTED)
def test_a_planted_cause_is_named_and_another_noise_is_not(cause):
    for pair in pairs([cause], 1, ranks=2):
        assert pair.is_right, pair.change.finding
        if pair.planted:
            assert f"Cause by replay: {cause}: new" in pair.change.finding


@pytest.mark.long
def test_three_percent_of_a_step_are_found_at_five_steps_a_side(tmp_path):
    found, alarms = 0, 0
    for seed in range(8):
        healthy = healthy_plan(ranks=2, steps=6, seed=seed)
        again = replace(healthy, seed=seed + 2 * OTHER_NOISE)
        slower = replace(again, throttling=Throttling((0, 1), 0, SLOWER))
        jobs = []
        for name, plan in (("a", healthy), ("b", again), ("c", slower)):
            folder = tmp_path / f"{name}{seed}"
            folder.mkdir()
            write_plan(plan, {rank: folder / f"rank-{rank}.json" for rank in range(2)})
            jobs.append(open_trace(folder, progress=False))
        found += explain_change(jobs[0], jobs[2]).step.is_longer(2)
        alarms += explain_change(jobs[0], jobs[1]).verdict != "noise"
    assert (found, alarms) == (8, 0)


def test_another_gpu_is_said_first_and_nothing_is_called_a_regression():
    change = explain_change(job_of(ROWS), job_of([*ROWS, *ROWS], gpus=["other"], world_size=2))
    assert change.verdict == "other hardware"
    assert change.finding.startswith("Different hardware. GPU: GPU → other;")
    assert [each.weight for each in change.differences] == ["hardware", "method"]


def test_gpus_of_another_make_are_other_hardware_where_none_is_named():
    first = job_of(ROWS, versions={"runtime": "CUDA"})
    change = explain_change(first, job_of(ROWS, gpus=[], versions={"runtime": "HIP"}))
    assert change.finding.startswith("Different hardware. GPU: GPU → not recorded (HIP);")
    same = explain_change(first, job_of(ROWS, gpus=[], versions={"runtime": "CUDA"}))
    assert [each.weight for each in same.differences] == ["note"]


@pytest.mark.parametrize(
    ("given", "what", "weight"),
    [
        ({"gpus": []}, "GPU", "note"),
        ({"world_size": 8}, "ranks of the job", "method"),
        ({"ranks": [0, 1]}, "ranks that are compared", "method"),
        ({"ranks": [1]}, "ranks that are compared", "note"),
        ({"steps_marked": False}, "steps", "method"),
        ({"versions": {"torch_version": "2.1"}}, "torch version", "note"),
        ({"left_out": (0,)}, "steps left out", "note"),
        (
            {"recorded": {**ENVIRONMENT["recorded"], "frames": False}},
            "Python frames (with_stack)",
            "method",
        ),
        ({"recorded": {**ENVIRONMENT["recorded"], "memory": True}}, "memory events", "note"),
    ],
)
def test_each_difference_is_said_with_what_it_forbids(given, what, weight):
    first = job_of(ROWS, versions={"torch_version": "2.0"})
    second = job_of(ROWS, **{"versions": {"torch_version": "2.0"}, **given})
    (found,) = differences(first, second)
    assert (found.what, found.weight) == (what, weight)
    assert found.forbids
    verdict = explain_change(first, second).verdict
    assert (verdict == "method changed") == (weight == "method")


def _shaped(shape: str, count: int = 5):
    job = job_of(ROWS)
    return replace(job, spent=job.spent.assign(shape=shape, count=count))


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        ('[[100, 10]] ["float"]', '[[104, 10]] ["float"]', "noise"),
        ('[[100, 10]] ["float"]', '[[106, 10]] ["float"]', "method changed"),
        ('[[100, 10]] ["float"]', '[[100, 10]] ["half"]', "noise"),
        ("[[], []]", "[[1], []]", "method changed"),
    ],
)
def test_other_shapes_are_other_work_but_padding_is_not(before, after, verdict):
    assert explain_change(_shaped(before), _shaped(after)).verdict == verdict


def test_the_same_work_in_other_pieces_is_the_same_work():
    pieces = _shaped("[[100, 10]]", 80), _shaped("[[800, 10]]", 10)
    assert explain_change(*pieces).verdict == "noise"


def test_too_few_steps_and_fixed_lengths_cannot_tell():
    few = explain_change(job_of(ROWS, steps=3), job_of(ROWS))
    assert few.verdict == "cannot tell"
    assert few.finding.startswith("Cannot tell: 3 steps on one side; record six or more, of ")
    alike = explain_change(job_of(ROWS, steps=3), job_of(ROWS, steps=3))
    assert alike.finding.startswith("Cannot tell: 3 steps on each side; ")
    alike = _gpu_time(10, steps=1, steps_marked=False)
    for length, of_both in (
        (10.19, "10 ms and 10.2 ms, there are 10,000 and 14,720 kernels"),
        (10.21, ""),
    ):
        more = _gpu_time(length, steps=1, kernels=150, steps_marked=False)
        said = explain_change(alike, more).finding
        assert (f"In recordings of {of_both} and copies per second (+47.2 %)" in said) == bool(
            of_both
        )
        assert ("it is not known whether both do the same work" in said) != bool(of_both)
    said = explain_change(alike, alike).finding
    assert said.startswith("Cannot tell noise from a change: no steps are marked; mark them, or ")
    assert "with 100 kernels and copies instead of 100." in said


def test_doubts_about_a_recording_come_before_all():
    change = explain_change(job_of(ROWS), job_of(ROWS, doubts=("its clock was set",)))
    assert change.verdict == "cannot tell"
    assert change.notices == ("job (second): its clock was set",)


def test_clocks_that_are_apart_hide_the_cause_but_not_how_long_a_step_takes():
    """TorchRec's steps of 1.3 s that became 0.2 s were no change that could be told."""
    doubts = (CLOCKS_APART,)
    found = (finding("launch_bound", 3.0),)
    slow = job_of([("compute", "Net_0", "aten::mm", "gemm", 13_000_000)], findings=found)
    change = explain_change(job_of(ROWS), replace(slow, doubts=doubts))
    assert change.verdict == "regression"
    assert change.finding.endswith(
        " What caused it is not known, as the clocks of host and GPU differ. 100 % of the "
        "difference: +3 ms compute, Net_0, aten::mm, gemm (10 ms → 13 ms)."
    )
    assert change.notices[-1] == "job (second): the clocks of host and GPU differ"
    worse = replace(slow, doubts=(*doubts, "a file is merged from several ranks"))
    change = explain_change(job_of(ROWS), worse)
    assert change.verdict == "cannot tell"
    assert change.finding.endswith("cannot be trusted (a file is merged from several ranks).")


def test_causes_have_both_prices_and_what_became_of_them():
    first = [finding("launch_bound", 5.0), finding("host_pause", 2.0), finding("slow_gpu", 1.0)]
    second = [finding("launch_bound", 5.2), finding("host_pause", 3.0), finding("warm_up", 4.0)]
    change = explain_change(
        job_of(ROWS, findings=tuple(first)), job_of(ROWS, findings=tuple(second))
    )
    assert change.causes_title == "Findings, before and after: 2 of 3 remain, 1 new"
    assert [each.words for each in change.causes] == [
        "warm_up: new, 4 ms",
        "host_pause: grew, 2 ms → 3 ms",
        "slow_gpu: gone (was 1 ms)",
        "launch_bound: same, 5 ms → 5.2 ms",
    ]
    lacking = job_of(ROWS, lacks=("Operators are not recorded",))
    change = explain_change(job_of(ROWS, findings=tuple(first[:1])), lacking)
    assert change.causes_title == "Findings, before and after: 0 of 1 remain, 1 unclear"
    untold = change.causes
    assert untold[0].words == "launch_bound: cannot tell whether it is gone (was 5 ms)"


def test_jobs_of_which_one_rank_each_was_recorded_lack_the_same():
    """Of a rank 3 and a rank 1, both findings of the first were unclear in the second."""
    before, after = (
        job_of(ROWS, findings=found, lacks=(f"Ranks other than {rank} are not recorded",))
        for rank, found in ((3, (finding("launch_bound", 5.0),)), (1, ()))
    )
    assert explain_change(before, after).causes[0].outcome == "gone"


def test_the_real_pair_is_of_two_gpus(kineto_jobs):
    jobs = [
        open_trace(kineto_jobs[f"compare_{name}"], progress=False) for name in ("control", "test")
    ]
    change = explain_change(*jobs)
    assert change.verdict == "other hardware"
    assert change.delta_ns == change.waterfall["delta_ns"].sum() == 41_179_400


@pytest.mark.parametrize(
    ("longer", "verdict"), [(0, "noise"), (1, "noise"), (2, "cannot tell"), (5, "regression")]
)
def test_a_change_in_some_of_the_steps_is_not_called_noise(longer, verdict):
    """A GPU that was throttled in the second half of a recording."""
    before, after = job_of(ROWS, noise=0.001), job_of(ROWS, noise=0.001)
    times = after.steps["job_ns"].to_numpy().copy()
    times[:longer] = times[:longer] * 1.24
    after = replace(after, steps=after.steps.assign(job_ns=times))
    assert explain_change(before, after).verdict == verdict


def test_work_is_counted_as_gpu_operations_and_idle_time_as_gaps():
    change = explain_change(job_of(ROWS), job_of(ROWS))
    lines = (("compute",), ("data_loading",), ())
    counted = [count_words(Line(path, 1, 2, 918, 5.75)) for path in lines]
    what = ("GPU operations", "gaps", "GPU operations and gaps")
    assert counted == [f"918 → 5.75 {each}" for each in what]
    said = [_words(change, Line(path, 1_000, 2_000, 918, 5.75)) for path in lines[:2]]
    assert said == [
        "+1 µs compute (1 µs → 2 µs, 918 → 5.75 GPU operations)",
        "+1 µs data loading (1 µs → 2 µs)",
    ]


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ((), (5,), "slow_gpu on rank 5: new, 2 ms"),
        ((5,), (), "slow_gpu on rank 5: gone (was 1 ms)"),
        ((5,), (5,), "slow_gpu on rank 5: grew, 1 ms → 2 ms"),
        ((5,), (2, 3), "slow_gpu on ranks 2-3 (before: rank 5): grew, 1 ms → 2 ms"),
        (range(8), (3,), "slow_gpu on rank 3 (before: all ranks): grew, 1 ms → 2 ms"),
        ((3,), range(8), "slow_gpu on all ranks (before: rank 3): grew, 1 ms → 2 ms"),
        (range(8), range(8), "slow_gpu: grew, 1 ms → 2 ms"),
    ],
)
def test_the_ranks_that_cause_it_are_named_unless_all_do(first, second, words):
    jobs = [
        job_of(
            ROWS,
            ranks=[*range(8)],
            findings=(finding("slow_gpu", ms, *ranks),) if ranks else (),
        )
        for ms, ranks in ((1.0, first), (2.0, second))
    ]
    assert [each.words for each in explain_change(*jobs).causes] == [words]


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        ([0], [0], "the mean step takes"),
        ([0, 1], [0, 1], "the mean step of 2 ranks takes"),
        ([0, 1], [0, 1, 2], "The mean step of all ranks takes"),
    ],
)
def test_the_mean_step_is_said_to_be_that_of_several_ranks(first, second, said):
    change = explain_change(job_of(ROWS, ranks=first), job_of(ROWS, ranks=second))
    assert said in change.finding


@pytest.mark.parametrize(
    ("longer", "said"),
    [
        (1.0, "No difference beyond noise: "),
        (1.015, "No difference of 2 % or more: "),
        (1.025, "Regression: "),
    ],
)
def test_a_small_change_that_is_real_is_not_called_noise_in_words(longer, said):
    before = job_of(ROWS, noise=0.001)
    times = before.steps["job_ns"].to_numpy() * longer
    after = replace(before, steps=before.steps.assign(job_ns=times.astype(np.int64)))
    assert explain_change(before, after).verdict_sentence.startswith(said)


def _words(change: Change, line: Line) -> str:
    """What is said of a line of two jobs that are alike, whose classes do not change."""
    return change.line_words(line).replace(" (0 ns in all)", "")


@pytest.mark.parametrize(("copied", "said"), [(0, ""), (1, " (+6 ms in all)")])
def test_a_part_of_a_class_is_said_with_the_whole_that_its_bar_shows(copied, said):
    """The bar said −11 ms, the sentence −8.85 ms, both of “CPU-bound: launch”."""
    other = ("compute", "", "aten::add", "add", 1_000_000 * copied)
    after = [("compute", "Net_0", "aten::mm", "gemm", 15_000_000), other]
    finding = explain_change(job_of(ROWS), job_of(after)).finding
    assert f"+5 ms compute{said}, Net_0, aten::mm, gemm (10 ms → 15 ms)" in finding


def test_a_line_without_names_says_where_it_is_not():
    """Kernels outside of the annotations were blamed as all of compute, with other times."""
    change = explain_change(job_of(ROWS), job_of(ROWS))
    lines = (
        (("compute", "compute", ""), "compute, outside of modules"),
        (("compute", "compute", "", ""), "compute, outside of operators"),
        (("compute", "compute", "", "aten::mm"), "compute, aten::mm"),
        (("waiting", "wait", "", "", "", "nccl"), "waiting, nccl"),
        (("compute", "compute", "Net_0", ""), "compute, Net_0, outside of operators"),
        (("compute", "compute"), "compute"),
    )
    for path, where in lines:
        assert _words(change, Line(path, 1, 2, 1, 1)) == f"+1 ns {where} (1 ns → 2 ns)"
    bare = job_of([("compute", "", "", "gemm", 10)])
    said = _words(explain_change(bare, bare), Line(lines[0][0], 1, 2, 1, 1))
    assert said == "+1 ns compute (1 ns → 2 ns)"


def test_one_of_several_parts_of_a_class_is_named():
    """Of 13.2 ms more in launching, 11.2 ms were said as if they were all of it."""
    change = explain_change(job_of(ROWS), job_of(ROWS))
    both = change.waterfall.assign(**{"class": "late_launching", "part": "gap_op"})
    one = replace(change, waterfall=both)
    several = replace(change, waterfall=pd.concat((both, both.assign(part="gap_pause"))))
    line = Line(("late_launching", "gap_op", ""), 1, 2, 1, 1)
    assert "+1 ns CPU-bound: launch, outside of modules (" in _words(one, line)
    line = Line(("late_launching", "gap_op"), 1, 2, 1, 1)
    assert _words(one, line).startswith("+1 ns CPU-bound: launch (")
    assert _words(several, line).startswith("+1 ns CPU-bound: launch, the host launches (")


def _gpu_time(ms: float, *, steps: int = 5, kernels: int = 100, **given: Any) -> Summary:
    """A job that computes for some ms; its shortest kernels are without a module."""
    short = [("compute", "", "", f"add{n}", 1_000) for n in range(kernels - 1)]
    whole = ("compute", "Net_0", "aten::mm", "gemm", round(ms * 1e6) - 1_000 * len(short))
    return job_of([whole, *short], steps=steps, **given)


@pytest.mark.parametrize(("longer", "is_told"), [(1.045, False), (1.055, True)])
def test_of_a_single_step_each_the_lines_are_said_if_they_differ_clearly(longer, is_told):
    change = explain_change(_gpu_time(10, steps=1), _gpu_time(10 * longer, steps=1))
    assert change.verdict == "cannot tell"
    assert ("compute, Net_0, aten::mm, gemm (" in change.finding) == is_told


@pytest.mark.parametrize(("kernels", "is_same"), [(101, True), (102, False)])
def test_without_steps_it_is_said_whether_the_work_is_the_same(kernels, is_same):
    first = _gpu_time(10, steps=1, steps_marked=False)
    second = _gpu_time(12, steps=1, kernels=kernels, steps_marked=False)
    change = explain_change(first, second)
    assert change.verdict == "cannot tell"
    assert "The GPU span is 12 ms instead of 10 ms (+20 %)" in change.finding
    assert ("it is not known whether both do the same work" in change.finding) != is_same
    assert change.lines


@pytest.mark.parametrize(
    ("longer", "verdict", "said"),
    [
        (1.0, "noise", "No difference beyond noise: the GPU span is 10 ms instead of 10 ms"),
        (1.1, "regression", "Regression: the GPU span is 11 ms instead of 10 ms (+10 %)"),
    ],
)
def test_five_recordings_without_steps_tell_a_change_from_noise(longer, verdict, said):
    def recordings(ms: float) -> Summary:
        lengths = (ms, 1.001 * ms, 0.999 * ms, 1.002 * ms, 0.998 * ms)
        return pooled([_gpu_time(each, steps=1, steps_marked=False) for each in lengths])

    change = explain_change(recordings(10), recordings(10 * longer))
    assert (change.verdict, change.verdict_sentence.startswith(said)) == (verdict, True)
    assert "(5 and 5 recordings, p = " in change.verdict_sentence
    broken = judge(change, [Limit.parse("step:2%")]).broken
    said = ("step: the median GPU span takes 10 % longer; the limit is 2 %",)
    assert broken == (said if verdict == "regression" else ())


def test_the_cause_is_that_whose_class_changed_most():
    """Workers of a loader: the host's launches were hidden behind it, and its price fell more."""
    before = [("gap_loader", "", "", "", 46_000_000), ("gap_op", "", "", "", 57_000_000)]
    after = [("gap_loader", "", "", "", 300_000), ("gap_op", "", "", "", 30_000_000)]
    causes = ((100.0, 46.0), (30.0, 0.0))
    jobs = [
        job_of(
            [*ROWS, *rows],
            findings=tuple(
                finding(name, ms)
                for name, ms in zip(("launch_bound", "input_starvation"), prices, strict=True)
                if ms
            ),
        )
        for rows, prices in zip((before, after), causes, strict=True)
    ]
    change = explain_change(*jobs)
    assert "Cause by replay: input_starvation: gone (was 46 ms)." in change.finding
    assert "Cause by replay: input_starvation: new, 46 ms." in explain_change(*jobs[::-1]).finding


def test_a_cause_that_others_wait_for_is_seen_in_waiting():
    before = [("wait", "", "", "", 1_000_000), ("gap_op", "", "", "", 1_000_000)]
    after = [("wait", "", "", "", 5_000_000), ("gap_op", "", "", "", 3_000_000)]
    found = (finding("slow_gpu", 4.0), finding("launch_bound", 2.0))
    change = explain_change(job_of([*ROWS, *before]), job_of([*ROWS, *after], findings=found))
    assert change.main_cause.words == "slow_gpu: new, 4 ms"


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ('["float"]', '["half"]', ['types of inputs: ["float"] of aten::mm → ["half"]; ']),
        ("", '["half"]', []),
    ],
)
def test_types_of_inputs_are_compared_where_both_have_them(before, after, said):
    """PyTorch 1.8 recorded no types: all of them were said to have changed."""
    jobs = (_shaped(f"[[8, 8]] {each}".strip()) for each in (before, after))
    found = [each.sentence for each in explain_change(*jobs).differences]
    assert [each.startswith(text) for each, text in zip(found, said, strict=True)] == [True] * len(
        said
    )


@pytest.mark.parametrize(("less", "is_told"), [(0.9, False), (1.1, True)])
def test_what_became_shorter_in_a_longer_step_is_said_if_it_is_a_fifth_of_it(less, is_told):
    """A fifth of the 5 ms is 1 ms."""
    before = [*ROWS, ("gap_loader", "", "", "", 1_000_000)]
    shorter = ("compute", "Net_0", "aten::mm", "gemm", round((10 - less) * 1e6))
    after = [shorter, ("gap_loader", "", "", "", round((6 + less) * 1e6))]
    finding = explain_change(job_of(before), job_of(after)).finding
    said = f"; against it −{less * 1e3:,.0f} µs compute" if less < 1 else "; against it −1.1 ms"
    assert (said in finding) == is_told
    assert ("against it" in finding) == is_told
    back = explain_change(job_of(after), job_of(before)).finding
    assert ("; against it +1.1 ms compute, Net_0, aten::mm, gemm (" in back) == is_told


@pytest.mark.parametrize(("moved", "is_told"), [(0.49, False), (0.51, True)])
def test_of_equally_long_recordings_it_is_said_what_takes_another_part(moved, is_told):
    """Of 10 ms, 5 % are 0.5 ms."""
    first, second = (
        job_of(
            [
                ("compute", "", "", "gemm", round(1e6 * (8 - more))),
                *(("compute", "", "", f"add{number}", 1) for number in range(kernels)),
                ("gap_op", "", "", "", round(1e6 * (2 + more)) - kernels),
            ],
            steps=1,
            steps_marked=False,
        )
        for more, kernels in ((0.0, 10), (moved, 20))
    )
    finding = explain_change(first, second).finding
    said = (
        "Of that time, compute takes 7.49 ms instead of 8 ms, and CPU-bound: launch takes 2.51 ms"
    )
    assert (said in finding) == is_told
    assert ("Of that time" in finding) == is_told


@pytest.mark.parametrize("swapped", [False, True])
def test_a_job_without_gpu_work_is_compared_with_nothing(swapped):
    jobs = [job_of(ROWS), job_of([])]
    change = explain_change(*(jobs[::-1] if swapped else jobs))
    which = "first" if swapped else "second"
    assert change.finding == f"There is nothing to compare in job ({which}): it has no GPU work."


def on_the_cpu(path, length_us):
    """Six steps of this length without GPU work; the last is not analysed."""
    begins = [length_us * number for number in range(6)]
    marks = [step(number, begin, length_us) for number, begin in enumerate(begins)]
    operators = [host(begin, length_us - 1, "aten::mm") for begin in begins]
    return summary(open_trace(write(path, [*marks, *operators]), progress=False))


def test_steps_on_the_cpu_are_compared_in_a_sentence(tmp_path):
    one, other = (
        on_the_cpu(tmp_path / name, us) for name, us in (("a.json", 10_000), ("b.json", 50_000))
    )
    change = explain_change(one, other)
    assert change.verdict == "cannot tell"
    assert change.finding == (
        "Cannot tell: neither job has GPU work, which a comparison needs. On the CPU, the mean "
        "step takes 50 ms instead of 10 ms (+400 %)."
    )
    assert judge(change, [Limit.parse("step:2%")]).outcome == "cannot_tell"
    write_baseline(one, tmp_path / "one.arrow")
    assert read_baseline(str(tmp_path / "one.arrow")).cpu_step_ns == one.cpu_step_ns
    assert "it has no GPU work" in explain_change(one, job_of(ROWS)).finding


def test_a_line_says_which_part_of_a_class_it_is_of():
    rows = [("compute", "", "", "gemm", 10_000_000), ("gap_pause", "", "", "", 400_000)]
    jobs = [job_of([*rows, ("gap_op", "", "", "", ns)]) for ns in (16_000_000, 27_000_000)]
    said = explain_change(*jobs).finding
    assert "+11 ms CPU-bound: launch, the host launches (16 ms" in said


def test_times_without_the_profiler_are_compared_where_both_are_known(tmp_path):
    fewer = [(*row[:4], row[4] // 2) for row in ROWS]
    one = job_of(ROWS, name="one", unprofiled_step_ns=42_500_000)
    other = job_of(fewer, name="other", unprofiled_step_ns=30_500_000)
    change = explain_change(one, other)
    said = " Without the profiler: 30.5 ms instead of 42.5 ms (−28.2 %)."
    assert said in change.finding
    assert change.verdict_sentence.endswith(said)
    assert not change.notices
    assert "ithout the profiler" not in explain_change(one, job_of(fewer)).finding
    (notice,) = explain_change(job_of(ROWS, name="else"), other).notices
    assert notice.startswith("only other says how long a step takes without the profiler")
    write_baseline(one, tmp_path / "one.arrow")
    assert read_baseline(str(tmp_path / "one.arrow")).unprofiled_step_ns == 42_500_000
    recordings = [job_of(ROWS, unprofiled_step_ns=ns) for ns in (40_000_000, 45_000_001)]
    assert pooled(recordings).unprofiled_step_ns == 42_500_001
    assert pooled([*recordings, job_of(ROWS)]).unprofiled_step_ns == 0


def test_steps_on_the_cpu_of_several_recordings_are_their_mean():
    """They were those of the first one."""
    recordings = [replace(job_of(ROWS), cpu_step_ns=ns) for ns in (40_000_000, 45_000_000)]
    assert pooled(recordings).cpu_step_ns == 42_500_000
    assert pooled([*recordings, job_of(ROWS)]).cpu_step_ns == 0
