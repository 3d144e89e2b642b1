"""Memory that is freed and asked for again."""

from __future__ import annotations

import pytest

from hta_widgets.diagnosis import diagnose
from hta_widgets.trace.opening.open import open_trace
from tests.diagnosis.findings.scripts import Host, all_reduce, diagnosed, found, step_of
from tests.diagnosis.findings.thresholds import Case, cases, least_price, price
from tests.kineto_text import host, step
from tests.nsys_export import KERNEL, RUNTIME, STRINGS, strings, write_sqlite
from tests.nsys_export import call as sql_call
from tests.nsys_export import kernel as sql_kernel


def job(calls, *, marks=True, steps=6):
    """Two ranks; the second makes calls of the allocator in each step."""
    hosts = [Host(), Host()]
    for number in range(steps):
        with step_of(hosts, number, marks=marks):
            for each in hosts:
                each.launch(500)
            hosts[1].synchronise()
            for name, length in calls(number):
                hosts[1].calls(name, length)
            for each in hosts:
                each.launch(500)
            all_reduce(hosts)
    return hosts


RETRY = [("cudaFree", 200), ("cudaMalloc", 300)]
REFILL_MS = 0.007
"""Until the wait before such calls returns, 2 µs; until the next kernel starts, 6; less 1 between
kernels that wait for nothing."""


@pytest.mark.parametrize("marks", [True, False])
def test_a_rank_that_frees_and_allocates(tmp_path, marks):
    finding = found(diagnosed(tmp_path, *job(lambda _: RETRY, marks=marks)), "allocator_retries")
    assert finding.ranks == (1,)
    assert finding.recoverable_ms == pytest.approx(0.5 if marks else 3, rel=0.1)
    assert "500 µs" in finding.sentence if marks else "3 ms" in finding.sentence
    assert set(finding.evidence["owners"]["owner"]) == {"cudaFree", "cudaMalloc"}


def emptied(folder, frees, *, around=""):
    """Whether a program is said to empty the cache that frees once in each of so many steps."""
    one = Host()
    for number in range(8):
        with one.step(number):
            one.launch(500)
            one.synchronise()
            with one.inside(around or "training", "cpu_op" if around else "user_annotation"):
                for name, length in RETRY if number < frees else []:
                    one.calls(name, length)
            one.launch(500)
            one.synchronise()
    finding = found(diagnosed(folder, one), "allocator_retries")
    return finding.action.startswith("Do not call torch.cuda.empty_cache()")


def test_the_program_itself_empties_the_cache(tmp_path):
    """What is freed in no operator was not freed for one that needs the memory."""
    assert emptied(tmp_path, 8)


def test_an_operator_that_needs_memory_empties_it(tmp_path):
    assert not emptied(tmp_path, 8, around="aten::empty")


def overlapping(loading_us):
    """Kernels of four streams, with a wait and calls of the allocator after each."""
    one = Host()
    for number in range(6):
        begin = one.now
        if loading_us:
            one.does("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", loading_us)
        for stream in range(20, 24):
            one.launch(2000, stream=stream)
            one.synchronise()
            for name, length in RETRY:
                one.calls(name, length)
        one.events.append(step(number, begin, one.now - begin))
    return one


def test_work_on_other_streams_that_could_overlap_without_the_waits_is_no_cost_of_memory(tmp_path):
    """18 kernels of 4 ms, a wait after each, were 100 ms of 114, of which 39 are idle."""
    finding = found(diagnosed(tmp_path, overlapping(0)), "allocator_retries")
    assert finding.recoverable_ms == pytest.approx(4 * 0.5, rel=0.1)


def test_nor_is_it_gained_together_with_another_cause(tmp_path):
    """Without the waits and 3 ms of loading, steps of 13 ms would take 2 if kernels overlapped."""
    made = diagnosed(tmp_path, overlapping(3000))
    costs = [each.recoverable_ms for each in made]
    assert [each.cause for each in made] == ["allocator_retries", "input_starvation"]
    assert costs == pytest.approx([3 + 4 * 0.5, 3], rel=0.1)  # loading runs ahead without waits
    assert "2 ms in all such calls, plus waits for the GPU before them)" in made[0].sentence
    assert costs[0] <= made.joint_ms < sum(costs)
    assert [made.together([each]).gain_ms for each in made] == pytest.approx(costs)


def test_initialising_is_no_retry(tmp_path):
    hosts = job(lambda number: RETRY if number == 0 else [])
    assert found(diagnosed(tmp_path, *hosts), "allocator_retries") is None


def test_a_cache_that_grows_frees_nothing(tmp_path):
    hosts = job(lambda _: [("cudaMalloc", 300)])
    assert found(diagnosed(tmp_path, *hosts), "allocator_retries") is None


def turns(folder, allocating, *, waits=False):
    """A program in C++, as Nsight Systems records it, that allocates in its first turns."""
    calls, kernels, now = [], [], 0
    for turn in range(40):
        if turn < allocating:
            calls.append(sql_call(now, now + 7_000, 3))
            now += 7_000
        calls.append(sql_call(now, now + 5_000, 2, correlation=turn + 1))
        kernels.append(sql_kernel(now + 6_000, now + 9_000, correlation=turn + 1))
        now += 12_000
        if waits:
            calls.append(sql_call(now - 7_000, now, 4))
    names = strings("fill(float*)", "cuLaunchKernel", "cuMemAlloc_v2", "cuStreamSynchronize")
    tables = {STRINGS: names, RUNTIME: calls, KERNEL: kernels}
    job = open_trace(write_sqlite(folder / "export.sqlite", tables), progress=False)
    return found(diagnose(job), "allocator_retries")


def test_a_program_that_allocates_in_each_turn(tmp_path):
    """OpenACC's runtime did, 1,934 times: of this it was said that the host initialises."""
    finding = turns(tmp_path, 40)
    assert finding.sentence.startswith(
        "The host allocates GPU memory while the GPU is idle (273 µs in all such calls)"
    )
    assert finding.action.startswith("Allocate the memory once, before the loop")


def test_what_a_program_waits_for_before_it_allocates_is_no_cost_of_memory(tmp_path):
    """Calls of 14.1 ms in all were priced at 20 ms, with the waits for copies before them."""
    finding = turns(tmp_path, 40, waits=True)
    assert "(273 µs in all such calls)" in finding.sentence
    assert finding.recoverable_ms <= 0.273


def test_what_a_program_allocates_first_is_no_retry(tmp_path):
    assert turns(tmp_path, 8) is None


def test_one_marked_step_is_not_enough(tmp_path):
    hosts = job(lambda number: RETRY if number == 3 else [])
    assert found(diagnosed(tmp_path, *hosts), "allocator_retries") is None


def freeing(folder, frees, launches):
    """A second rank that makes so many calls that free, between so many launches."""
    hosts = job(lambda _: RETRY)
    for number in range(launches - 30):
        hosts[1].launch(5)
        if number < frees - 6:
            hosts[1].calls("cudaFree", 300)
    return found(diagnosed(folder, *hosts), "allocator_retries").action


def test_without_a_caching_allocator_it_is_asked_for(tmp_path):
    assert freeing(tmp_path, 200, 400).startswith("Turn PyTorch's caching allocator back")


def test_silent_without_calls(tmp_path):
    assert not diagnosed(tmp_path, *job(lambda _: []))


def test_the_call_inside_which_memory_is_freed_is_named(tmp_path):
    hosts = job(lambda _: RETRY)
    for event in list(hosts[1].events):
        if event["name"] == "cudaFree":
            hosts[1].events.append(host(event["ts"], 500, "model.py(12): resize"))
            hosts[1].events[-1]["cat"] = "python_function"
    sentence = found(diagnosed(tmp_path, *hosts), "allocator_retries").sentence
    assert ", all of this time inside model.py(12): resize: 5" in sentence


def one_small(folder, percent):
    """Calls take half of a step once, and this part of the mean step in another one."""
    mean_us = 1066 + (1000 + 11 * percent) / 5
    lengths = {1: 1000, 3: mean_us * percent / 100}
    return price(
        diagnosed(folder, *job(lambda number: calls_of(lengths.get(number, 0)))),
        "allocator_retries",
    )


def calls_of(us):
    return [("cudaFree", us)] if us else []


def longest(folder, part):
    """Without steps, an interval takes a part of all time in such calls."""
    lengths = {2: 2000 * part, 3: 1000 * (1 - part), 4: 1000 * (1 - part)}
    hosts = job(lambda number: calls_of(lengths.get(number, 0)), marks=False)
    return price(diagnosed(folder, *hosts), "allocator_retries") is not None


def first_at(folder, place):
    """Calls at a part of the recording, 1 / place, and near its end."""
    one = Host()
    first_us = 20_000 / place
    for number, length in enumerate((first_us, 16_500 - first_us, 2500)):
        if number:
            one.calls("cudaFree", 500)
        one.launch(length)
        one.synchronise()
    return price(diagnosed(folder, one), "allocator_retries") is not None


test_what_retries_must_cost = least_price(
    "allocator_retries",
    "least_percent_with_evidence",
    lambda folder: diagnosed(folder, *job(lambda _: RETRY, steps=4)),
)

test_thresholds = cases(
    Case(
        "Limits.allocating_percent", one_small, {0.98: None, 1.02: (1 + 0.0129 + 2 * REFILL_MS) / 5}
    ),
    Case(
        "allocator_retries.FEWEST",
        lambda folder, count: price(
            diagnosed(folder, *job(lambda number: RETRY if number in range(1, 1 + count) else [])),
            "allocator_retries",
        ),
        {1: None, 2: 2 * (0.5 + REFILL_MS) / 5},
    ),
    Case(
        "conditions.FEWEST_FREES",
        lambda folder, count: "caching allocator" in freeing(folder, count, 300),
        {99: False, 100: True},
    ),
    Case("conditions.FEWEST_OUTSIDE", emptied, {4: False, 5: True}),
    Case(
        "conditions.FREES_A_LAUNCH",
        lambda folder, part: "caching allocator" in freeing(folder, round(600 * part), 600),
        {0.195: False, 0.205: True},
    ),
    Case("allocator_retries.LARGEST", longest, {0.49: True, 0.51: False}),
    Case("host_facts.QUARTERS", first_at, {3.9: True, 4.1: False}, moved=5),
)
