"""Losses without a known cause are named as such."""

from __future__ import annotations

import pytest

from hta_widgets.diagnosis import Limits, diagnose
from hta_widgets.panels.base.finding_rows import finding_rows
from tests.diagnosis.findings.scripts import ALL_REDUCE, Host, all_reduce
from tests.diagnosis.findings.scripts import diagnosed as scripted
from tests.diagnosis.findings.thresholds import Case, cases, share
from tests.diagnosis.findings.training_jobs import (
    US,
    Meet,
    diagnosed,
    found,
    layers,
    write_training,
)
from tests.explained.findings import explain_finding
from tests.kineto_text import call, host, kernel, step, write

EVERYBODY = (0, 1, 2, 3)


def talking(transfer_us):
    def program(rank, step):
        del rank, step
        return [*layers(9, 500 * US), Meet(EVERYBODY, transfer_us * US), *layers(1, 500 * US)]

    return program


def varying(folder, *lengths_us, elements=()):
    """A finding on a rank alone: of two all-reduces per step, the first takes these times."""
    one = Host()
    for number, length in enumerate((*lengths_us, lengths_us[-1])):  # the last step is left out
        fields = {}
        if elements:
            size = elements[number % len(elements)]
            fields = {"Collective name": "allreduce", "In msg nelems": size, "dtype": "Float"}
            fields |= {"Out msg nelems": size, "Group size": 2}
        with one.step(number):
            one.launch(1000)
            one.queue(length, name=ALL_REDUCE, stream=20, **fields)
            one.queue(500, name=ALL_REDUCE, stream=20, **fields)
            one.launch(1000)
    return found(scripted(folder, one), "exposed_communication")


SHORTEST = "at most 1 ms of 2.25 ms is transfer, by the shortest of each in any step"


@pytest.mark.parametrize(
    ("elements", "said"),
    [
        ((), f"{SHORTEST}, if sizes are equal: "),
        ((4096,), f"{SHORTEST}: "),
        ((4096, 8192), "waiting and transfer cannot be told apart"),
    ],
)
def test_operations_that_vary_by_step_are_not_all_transfer(tmp_path, elements, said):
    """16 to 34 ms on one of eight ranks "cannot be told apart", for a reader who saw them vary."""
    finding = varying(tmp_path, 500, 1500, 2500, 2500, elements=elements)
    assert f"; cause not found: {said}" in finding.sentence
    times = {name: finding.evidence.get(name) for name in ("shortest_ms", "communication_ms")}
    is_said = said.startswith(SHORTEST)
    assert times == (
        {"shortest_ms": 1.0, "communication_ms": 2.25} if is_said else dict.fromkeys(times)
    )


def is_said_of_steps(folder, *lengths_us):
    return "by the shortest of each in any step" in varying(folder, *lengths_us).sentence


def is_short_enough(folder, part):
    """Of four steps, one has the shortest all-reduces, with 1.5 ms: this part of the mean."""
    others_us = (4 * (1500 / part - 500) - 1000) / 3
    return is_said_of_steps(folder, 1000, *[others_us] * 3)


def test_communication_of_one_rank_cannot_be_divided(tmp_path):
    made = diagnosed(write_training(tmp_path, 4, talking(2000), only=[2]))

    finding = found(made, "exposed_communication")
    assert finding.confidence == "inconclusive"
    assert finding.ranks == (2,)
    assert finding.recoverable_ms == pytest.approx(2.0, rel=0.02)
    assert (
        "cause not found: waiting and transfer cannot be told apart with rank 2 of 4 alone:"
        in finding.sentence
    )
    assert finding.action.startswith("Record all ranks at the same time")


def test_a_small_loss_is_not_named(tmp_path):
    assert not diagnosed(write_training(tmp_path, 4, talking(500), only=[2]))


def test_the_limit_is_the_callers(tmp_path):
    folder = write_training(tmp_path, 4, talking(500), only=[2])
    assert diagnosed(folder, limits=Limits(least_percent_unexplained=5))


def test_it_is_silent_beside_a_finding(tmp_path):
    made = diagnosed(write_training(tmp_path, 4, talking(2000)))
    assert [(each.cause, each.confidence) for each in made] == [
        ("exposed_communication", "measured")
    ]


def one_rank_of_a_slow_host(transfer_us, *, is_hidden=False, late_us=0, operations=1, gradients=0):
    """A host that launches 20 kernels of 20 µs every 100 µs, and communication without partners."""
    one = Host()
    for number in range(5):
        with one.step(number):
            for kernel_number in range(20):
                one.launch(20)
                one.now += 90
                if kernel_number == 9:
                    before = one.free
                    for _ in range(operations):
                        one.queue(transfer_us / operations, name=ALL_REDUCE, stream=20)
                    for _ in range(gradients):
                        one.does("torch::autograd::AccumulateGrad", 1)
                    if is_hidden:
                        one.free = before
                        one.launch(transfer_us + 20)
                    one.now += late_us
    return one


def test_communication_is_named_beside_a_host_that_is_slow(tmp_path):
    made = scripted(tmp_path, one_rank_of_a_slow_host(1000))

    assert {each.cause for each in made} == {"launch_bound", "exposed_communication"}
    finding = found(made, "exposed_communication")
    assert finding.confidence == "inconclusive"
    assert finding.lower_ms == pytest.approx(0, abs=0.1)  # the host would be as late without it
    assert finding.recoverable_ms > 0.15 * 2
    assert "cause not found: waiting and transfer cannot be told apart" in finding.sentence


def test_communication_that_the_host_hides_is_a_notice(tmp_path):
    made = scripted(tmp_path, one_rank_of_a_slow_host(600))

    assert [each.cause for each in made] == ["launch_bound"]
    assert (
        "in a further 30 % of the mean step, the GPU communicates without overlapping compute, "
        "mostly 1 all_reduce per step; waiting and transfer cannot be told apart with rank 0 "
        "alone: at most 250 µs to gain beyond the findings"
    ) in made.notices


def test_a_price_above_the_idle_time_says_why(tmp_path):
    """In one of eight ranks, 14.9 ms beside 12.5 ms of idle time looked wrong."""
    made = scripted(tmp_path, one_rank_of_a_slow_host(600))
    (row,) = finding_rows([*made], made)
    assert row["doubt"] == (
        "Inconclusive: 30 µs if other ranks are the bottleneck, 1.33 ms if not; the GPU waits in "
        "communication for at most 600 µs. 1.33 ms is more than the 982 µs in which the GPU is "
        "idle, as communication would be hidden as well."
    )


def is_one_each(folder, gradients, operations):
    one = one_rank_of_a_slow_host(1000, operations=operations, gradients=gradients)
    finding = found(scripted(folder, one), "exposed_communication")
    each = f"mostly {operations} all_reduce per step, one for each gradient, launched "
    said = each in finding.sentence
    assert said == ("cause not found" not in finding.sentence)
    assert said == finding.action.startswith("Reduce gradients in buckets")
    return said


def test_gradients_that_are_reduced_one_by_one_are_said(tmp_path):
    """404 in each step of a compiled model; to record the other rank was all the advice."""
    assert is_one_each(tmp_path, 30, 30)


def test_waiting_that_goes_with_the_findings_is_said(real_traces):
    """Eight ranks of DLRM wait for 37 % of a step, which no finding was about."""
    made = diagnose(str(real_traces / "more" / "dlrm_8rank"))
    (said,) = (each for each in made.unexplained if "communicates" in each)
    waited_ns = made.steps[["wait_ns", "wait_p2p_ns"]].sum(axis=1).mean()
    assert f"{waited_ns / 1e6:.2f} ms of waiting (77.8 % of it for rank 7)" in said
    assert said.endswith(": at most 282 µs to gain beyond the findings")
    assert said in made.notices


def test_communication_that_costs_nothing_is_said_to(tmp_path):
    made = scripted(tmp_path, one_rank_of_a_slow_host(600, late_us=900))
    (said,) = (each for each in made.notices if "communicates" in each)
    assert said.endswith("nothing to gain beyond the findings, as something else is the bottleneck")


def test_communication_beside_computation_is_not_named(tmp_path):
    made = scripted(tmp_path, one_rank_of_a_slow_host(600, is_hidden=True))
    assert [each.cause for each in made] == ["launch_bound"]
    assert not any("communicates" in notice for notice in made.notices)


def test_ranks_that_wait_for_one_that_was_found_are_not_said_to_wait(tmp_path):
    """All ranks and fields are recorded: how long they wait is known, and for whom."""

    def program(rank, step):
        del step
        return [*layers(10, (900 if rank == 1 else 500) * US), Meet(EVERYBODY, 10 * US)]

    made = diagnosed(write_training(tmp_path, 4, program))
    assert [(each.cause, each.ranks) for each in made] == [("slow_gpu", (1,))]
    assert not any("communicates" in notice for notice in made.notices)


def late_by_turns(extra_us):
    """Every rank computes as long as the others in a step, and another one is late each time."""

    def program(rank, step):
        del step
        return [
            piece
            for meeting in range(8)
            for piece in (
                *layers(1, (500 + extra_us * (rank == meeting % 4)) * US),
                Meet(EVERYBODY, 20 * US),
            )
        ]

    return program


def test_ranks_that_take_turns_to_be_late_are_told(tmp_path):
    """Experts of a layer are on one rank, those of the next on another: 3.4 of 27 ms once."""
    made = diagnosed(write_training(tmp_path, 4, late_by_turns(400)))
    finding = found(made, "exposed_communication")
    assert finding.confidence == "measured"
    assert finding.ranks == EVERYBODY
    assert (
        "communicates without overlapping compute: 155 µs of transfer per step, 2.33 ms of waiting "
        "for ranks that take turns being late ("
    ) in finding.sentence
    late = finding.evidence["late"].set_index("rank")["waited_for_ms"]
    assert late.tolist() == pytest.approx([8 * 0.4 * 0.75 / 4] * 4, rel=0.01)
    assert not explain_finding(finding, made)


def test_a_rank_that_is_late_most_times_is_named_and_not_explained(tmp_path):
    folder = write_training(tmp_path, 4, late_by_turns(400))
    finding = found(diagnosed(folder, limits=Limits(owner_percent=20)), "exposed_communication")
    assert " of waiting (25 % of it for rank " in finding.sentence
    assert "), and why it is late is not known" in finding.sentence
    assert finding.confidence == "inconclusive"


def test_turns_that_cost_little_are_not_told(tmp_path):
    assert not diagnosed(write_training(tmp_path, 4, late_by_turns(30)))


def copies(folder, copy_us, *, beside):
    """Each step computes 800 µs, and copies within the device, perhaps at the same time."""
    one = Host()
    for number in range(4):
        with one.step(number):
            one.launch(400)
            before = one.free
            one.queue(copy_us, cat="gpu_memcpy", name="Memcpy DtoD (Device -> Device)", stream=9)
            one.free = before if beside else one.free
            one.launch(400)
    return scripted(folder, one)


def test_copies_that_nothing_explains_are_a_notice(tmp_path):
    made = copies(tmp_path, 200, beside=False)
    assert not made
    assert any("the GPU copies or fills memory without" in each for each in made.notices)


def test_copies_beside_computation_are_none(tmp_path):
    assert not any("copies" in each for each in copies(tmp_path, 200, beside=True).notices)


def in_pieces(*, inside_one, busy=0):
    """A step in which the host is late, waits and pauses for 3 % each, perhaps in one function."""
    one = Host()
    for number in range(5):
        with one.step(number), one.inside("train.py(5): epoch", "python_function"):
            for _ in range(60):
                one.launch(300)
            names = ["model.py(9): share"] * 3 if inside_one else ["a.py(1): a", "a.py(2): b", "c"]
            with one.inside(names[0], "python_function"):
                one.does("aten::plan", busy)
            one.synchronise("aten::item")
            with one.inside(names[0], "python_function"):
                one.now += 600
                one.launch(10)
            with one.inside(names[1], "python_function"):
                one.now += 1_100
                one.launch(10)
            with one.inside(names[2], "python_function"):
                for _ in range(10):
                    one.now += 90
                    one.launch(10)
            for _ in range(60):
                one.launch(300)
                one.now -= 8
            one.now += 8  # the function ends after the last launch in it
    return one


LITTLE = Limits(least_percent=8, least_percent_with_evidence=8, least_percent_unexplained=5)


def test_a_function_that_holds_idle_time_of_several_kinds_is_named(tmp_path):
    (finding,) = scripted(tmp_path, in_pieces(inside_one=True), limits=LITTLE)
    assert finding.cause == "host_pause"
    assert finding.confidence == "measured"
    assert finding.sentence.startswith("The GPU is idle while the host works, ")
    assert "of the idle time inside model.py(9): share" in finding.sentence


def test_functions_that_share_the_idle_time_are_not(tmp_path):
    (finding,) = scripted(tmp_path, in_pieces(inside_one=False), limits=LITTLE)
    assert finding.confidence == "inconclusive"
    assert "cause not found" in finding.sentence


def confidence(folder, part):
    """What is said of a function that holds all idle time, and takes so much of all time."""
    from_first_to_last_us = 136_908
    busy_us = part * from_first_to_last_us / 4 - 2_718
    one = in_pieces(inside_one=True, busy=busy_us)
    return scripted(folder, one, limits=LITTLE)[0].confidence


def compiling(folder, part):
    """A server that compiles for most of the time, with so much of the GPU's work beside it."""
    one, busy_us = Host(), 17 * 8_000  # from the first gap to the last
    for number in range(20):
        if number == 10:
            with one.inside("triton::compile"):
                one.launch(part / (1 - part) * busy_us, operator="aten::tune")
                one.now += 500_000
        with one.inside("execute_context_0(0)_generation_32(32)"):
            one.launch(8_000)
            one.synchronise()
        one.now += 200
    return scripted(folder, one)[0].confidence


test_thresholds_of_owners = cases(
    Case("gap_owners.LITTLE_WORK", compiling, {0.098: "measured", 0.102: "inconclusive"}),
    Case("gap_owners.MOST_OF_THE_TIME", confidence, {0.47: "measured", 0.53: "inconclusive"}),
)


def test_a_rank_without_gpu_work_has_no_steps(tmp_path):
    write(tmp_path / "rank-0.json", [step(1, 0, 1000), step(2, 1000, 1000), host(10, 50, "op")])

    made = diagnosed(tmp_path)
    assert not made
    assert made.finding.startswith("No GPU work was recorded: the job ran on the CPU, or ")
    assert made.steps.empty


def test_without_launches_work_belongs_to_the_step_in_which_it_runs(tmp_path):
    """Steps of 0 ns, of which nothing stood out, on a GPU that was idle for half of the time."""
    one = Host()
    for number in range(4):
        with one.step(number):
            for _ in range(20):
                one.launch(50, takes=100)
            one.synchronise()
    one.events = [each for each in one.events if each["cat"] != "cuda_runtime"]
    made = diagnosed(write(tmp_path / "rank-0.json", one.events))
    assert made.status == "cannot_tell"
    assert made.finding.startswith(
        "No cause can be named, as calls of the CUDA API are not recorded: in "
    )
    assert "Calls of the CUDA API are not recorded" in [each.lack for each in made.not_recorded]
    assert made.step_ns == pytest.approx(2_000_000, rel=0.05)


LAUNCHED = "the GPU is idle with its next work already launched (blocked on a dependency)"


IN_ONE_STREAM = (
    "within one stream, held back by something unrecorded, such as another process or a driver "
    "that submits in batches"
)


@pytest.mark.parametrize(
    ("held_back_us", "doubt"), [(120, ""), (180, ", if all its waits are recorded")]
)
def test_a_host_may_wait_where_work_is_held_back(tmp_path, held_back_us, doubt):
    """No call of a recommender waits, and its GPU is idle for 30 % with work launched."""
    one = Host()
    for _ in range(40):
        one.free = one.now + held_back_us
        one.launch(10, takes=1000)
    bound_by = diagnosed(write(tmp_path / "rank-0.json", one.events)).bound_by
    assert bound_by.startswith("bound by the host (")
    assert bound_by.endswith(f" % of the critical path{doubt})")


@pytest.mark.parametrize(
    ("launch", "stream", "words"),
    [
        ("cudaLaunchKernel", 8, LAUNCHED),
        (
            "cudaLaunchKernel",
            7,
            f"{LAUNCHED}, all of it {IN_ONE_STREAM}",
        ),
        (
            "cudaGraphLaunch",
            7,
            f"{LAUNCHED}, all of it before CUDA graphs or inside them",
        ),
        (None, 7, "the GPU is idle before work whose launch is not recorded"),
    ],
)
def test_work_that_was_held_back_is_said_and_blames_nobody(tmp_path, launch, stream, words):
    events = [call(0, 5, 1), kernel(20, 100, correlation=1, stream=7)]
    events += [call(10, 5, 2, name=launch)] if launch else []
    last = kernel(920, 100, correlation=2, stream=stream)
    made = diagnosed(write(tmp_path / "rank-0.json", [*events, last]))
    assert not made
    assert made.status == "cannot_tell"
    assert made.finding.startswith("No cause can be named: in ")
    assert made.finding.endswith(
        " % of the critical path, nothing recorded says why work that was ready had to wait; in "
        f"80 % of the GPU span, {words}."
    )


def test_without_launches_nobody_knows_what_was_ready(real_traces):
    """Of a BERT whose host had not launched it, a recipe's table said that its work was ready."""
    (said,) = (
        each
        for each in diagnose(str(real_traces / "converted/h100_bert/nsys_recipe")).notices
        if "of the critical path" in each
    )
    assert said == (
        "in 86.1 % of the critical path, work may not have been launched yet, or may have waited "
        "for other work: launches are not recorded, so prices may be too low"
    )


def test_a_launch_that_takes_long_holds_its_own_work_back(tmp_path):
    """As the first of a kernel, which loads its code; another process was blamed."""
    events = [call(0, 5, 1), kernel(20, 100, correlation=1), call(110, 800, 2)]
    events.append(kernel(920, 100, correlation=2))
    made = diagnosed(write(tmp_path / "rank-0.json", events))
    assert "of it inside the call that launches its next work" in made.finding


def migrating(kernels):
    """A host that is never late, before each of whose kernels pages of managed memory move."""
    events = []
    for number in range(kernels):
        begin = 1000 * number
        pages = {"cat": "gpu_memcpy", "name": "Memcpy HtoD (Unified)", "stream": 0}
        events += [
            call(begin + 5, 5, number),
            kernel(begin + 900, 10, **pages),
            kernel(begin + 950, 60, correlation=number),
        ]
    return events


def test_pages_of_managed_memory_are_moved_by_no_call(tmp_path):
    """Of 21,303 operations of a tutorial, 21,302 were said to lack the call that launches them."""
    made = diagnosed(write(tmp_path / "rank-0.json", migrating(20)))
    assert not made
    assert "the GPU is idle until the next pages of managed memory move" in made.finding
    notices = " ".join(made.notices)
    assert "20 of 40 GPU operations move pages of managed memory" in notices
    assert "have no launch" not in notices


def touching(*, before_us=0, inside="", device=0, prefetched=False):
    """A host that reads what a kernel wrote: pages move to it every 100 µs, until a last kernel.

    It may have done something else before, or be inside a CUDA call, or there is another GPU, or it
    has asked for the pages.
    """
    begin, moving = 200 + before_us, 20
    events = [cuda_call(5, 5, 1), kernel(20, 100, correlation=1), cuda_call(30, 95, 2, SYNC)]
    for number in range(moving):
        pages = {"cat": "gpu_memcpy", "name": "Memcpy DtoH (Unified)", "stream": 0}
        events.append(kernel(begin + 100 * number, 10, **pages))
    last = begin + 100 * moving
    if inside:
        events.append(cuda_call(126, last - 150, 3, inside))
    events += [cuda_call(last - 10, 5, 4), kernel(last, 100, correlation=4)]
    if prefetched:
        events.append(cuda_call(190, 5, 6, "cudaMemPrefetchAsync"))
    if device:
        events += [cuda_call(15, 5, 5), kernel(25, 10, correlation=5, device=device)]
    return events


def cuda_call(start, length, correlation, name="cudaLaunchKernel"):
    return call(start, length, correlation, name=name)


SYNC = "cudaDeviceSynchronize"


def test_a_host_that_touches_managed_memory_is_said(tmp_path):
    """A host read 1 GB in 1.84 s, the copies took 79 ms, and no cause could be named."""
    made = diagnosed(write(tmp_path / "rank-0.json", touching()))
    finding = found(made, "host_pause")
    told = "the host works on managed memory, whose pages move to it as it touches them"
    assert (
        f"The GPU is idle: for 95.2 % of the idle time, {told} (20 times, 200 µs of copying); page "
        "faults cannot be told from its own work: up to 1.88 ms"
    ) in finding.sentence
    assert finding.confidence == "inconclusive"
    assert finding.recoverable_ms == pytest.approx(1.88, rel=0.005)
    assert finding.advice[0].do.startswith("Do on the GPU what the host does with this memory")
    assert made.bound_by.startswith("bound by the host (9")
    assert not explain_finding(finding, made)
    assert "(20 to the host): cudaMemPrefetchAsync would move" in " ".join(made.notices)


def compiled_after(pause_us, name):
    """Two other kernels, a time of which nothing is recorded, and two of compiled code."""
    starts = [20, 120, 200 + pause_us, 300 + pause_us]
    kernels = ["copy", "fill", name, "triton_red_fused_sum_1"]
    return [
        event
        for number, (start, each) in enumerate(zip(starts, kernels, strict=True), 1)
        for event in (
            cuda_call(start - 15, 5, number),
            kernel(start, 60, name=each, correlation=number),
        )
    ]


def test_idle_time_before_the_first_kernel_of_compiled_code_is_compiling(tmp_path):
    """2.65 s before a first ``triton_poi_fused_copy_zeros_0`` had no cause."""
    events = compiled_after(5_000, "triton_poi_fused_copy_zeros_0")
    made = diagnosed(write(tmp_path / "rank-0.json", events))
    finding = found(made, "host_pause")
    assert (
        "The GPU is idle: 98.4 % of the idle time (5.02 ms) precedes the first kernel of compiled "
        "code, triton_poi_fused_copy_zeros_0, as while torch.compile compiles: up to 5."
    ) in finding.sentence
    assert finding.advice[0].do.startswith("Call the compiled function once before")
    assert not explain_finding(finding, made)


@pytest.mark.parametrize(("pause", "name"), [(5_000, "triton_mine"), (40, "triton_poi_fused_a_0")])
def test_other_idle_time_is_not_called_compiling(tmp_path, pause, name):
    """Before a kernel that somebody wrote, or where it is not most of the idle time."""
    made = diagnosed(write(tmp_path / "rank-0.json", compiled_after(pause, name)))
    assert "compiled code" not in " ".join((made.finding, *(each.sentence for each in made)))


@pytest.mark.parametrize(
    "changed", [{"inside": "cudaMemPrefetchAsync"}, {"prefetched": True}, {"device": 1}]
)
def test_what_may_have_moved_pages_is_not_the_host_that_reads_them(tmp_path, changed):
    """A call that moves pages ahead, also one that has returned, or the kernel of another GPU."""
    made = diagnosed(write(tmp_path / "rank-0.json", touching(**changed)))
    assert not made
    assert "the GPU is idle until the next pages of managed memory move" in made.finding


def test_a_program_that_moves_pages_ahead_is_not_told_to(tmp_path):
    events = touching(inside="cudaMemPrefetchAsync")
    notices = " ".join(diagnosed(write(tmp_path / "rank-0.json", events)).notices)
    assert (
        "20 of 22 GPU operations move pages of managed memory, ahead of time by "
        "cudaMemPrefetchAsync or as the host or a kernel touches them (20 to the host)"
    ) in notices


@pytest.mark.parametrize(("before_us", "is_told"), [(1_500, True), (2_000, False)])
def test_most_of_the_idle_time_has_to_be_spent_on_managed_memory(tmp_path, before_us, is_told):
    events = touching(before_us=before_us)
    events.append(cuda_call(before_us + 90, 5, 9))
    events.append(kernel(before_us + 100, 10, correlation=9))
    sentence = found(diagnosed(write(tmp_path / "rank-0.json", events)), "host_pause").sentence
    assert ("the host works on managed memory" in sentence) == is_told


def test_most_of_what_is_held_back_has_to_be_of_one_kind(tmp_path):
    """300 µs within a stream, 300 before another one."""
    events = [call(10 * number, 5, number) for number in range(3)]
    for number, (begin, stream) in enumerate([(50, 7), (450, 7), (850, 8)]):
        events.append(kernel(begin, 100, correlation=number, stream=stream))
    assert LAUNCHED + "." in diagnosed(write(tmp_path / "rank-0.json", events)).finding


def launched_late_without_operators(
    folder, idle_us, kernel_us=200, *, mpi_us=0, call_us=0, os_call=("", 0), names=("EventQuery",)
):
    """Eight kernels, each launched so long after the one before, without operators.

    The host is in MPI for a part of that time, which a range shows, in a CUDA call, or in one of
    the operating system.
    """
    starts = [20 + number * (kernel_us + idle_us) for number in range(8)]
    calls = [call(start - 10, 5, number) for number, start in enumerate(starts)]
    kernels = [kernel(start, kernel_us, correlation=number) for number, start in enumerate(starts)]
    each_us = call_us / len(names)
    calls += [
        call(start - 20 - (place + 1) * each_us, each_us, -1, name=f"cuda{name}")
        for start in starts[1:]
        for place, name in enumerate(names)
        if call_us
    ]
    mpi = [host(start - 500, mpi_us, "MPI_Recv", cat="user_annotation") for start in starts[1:]]
    os_name, os_us = os_call
    os_calls = [host(start - 1_500, os_us, os_name, cat="os_call") for start in starts[1:] if os_us]
    return write(folder / "rank-0.json", [*calls, *kernels, *os_calls, *(mpi if mpi_us else ())])


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("getc", "Read ahead on another thread"),
        ("fwrite", "Write in larger pieces"),
        ("usleep", "Block until the result arrives instead"),
        ("poll", "Look at what the threads and processes do that it waits"),
    ],
)
def test_what_the_host_asks_of_the_operating_system_is_a_cause(tmp_path, name, advice):
    """Of a database that waited for its user, it was said that nothing tells what it does."""
    path = launched_late_without_operators(tmp_path, 2_000, os_call=(name, 1_400))
    finding = found(diagnosed(path), "host_pause")
    where = f"between two cudaLaunchKernel calls, 70.4 % of this time inside {name}"
    assert f"The host stalls for up to 1.99 ms, {where}: " in finding.sentence
    assert finding.confidence != "inconclusive"
    assert finding.advice[0].do.startswith(advice)


def test_a_host_that_asks_nothing_of_the_operating_system_runs_code_of_its_own(tmp_path):
    path = launched_late_without_operators(tmp_path, 2_000, os_call=("fwrite", 100))
    assert (
        "for 94.5 % of the idle time, the host is in no CUDA call, nor in one of the operating "
        "system: it runs code of its own"
    ) in found(diagnosed(path), "host_pause").sentence


def is_told_by_the_operating_system(folder, part):
    path = launched_late_without_operators(folder, 2_000, os_call=("read", 1_990 * part))
    return "stalls" in found(diagnosed(path), "host_pause").sentence


def is_outside_calls(folder, part):
    """Whether the host is said to be in no CUDA call for this part of the idle time."""
    names, call_us = ("EventQuery", "StreamQuery", "GetDevice"), 2_000 * (1 - part) - 5
    path = launched_late_without_operators(folder, 2_000, call_us=call_us, names=names)
    sentence = found(diagnosed(path), "host_pause").sentence
    assert "; the largest recorded share is in cuda" in sentence
    return "the host is in no CUDA call" in sentence


def says_mpi(folder, part):
    path = launched_late_without_operators(folder, 2000, mpi_us=2000 * part)
    sentence = found(diagnosed(path), "host_pause").sentence
    return "the largest recorded share is in MPI calls (" in sentence


def test_calls_of_mpi_are_named_where_nothing_else_shows_what_the_host_does(tmp_path):
    path = launched_late_without_operators(tmp_path, 2000, mpi_us=480)
    assert (
        "for 99.5 % of the idle time, the host is in no CUDA call, and what it does is not "
        "recorded; the largest recorded share is in MPI calls (24 % of the idle time)"
    ) in diagnosed(path)[0].sentence


def test_a_host_that_is_late_for_what_is_not_recorded_is_said(tmp_path):
    finding = found(diagnosed(launched_late_without_operators(tmp_path, 2000)), "host_pause")
    assert finding.confidence == "inconclusive"
    assert finding.recoverable_ms == pytest.approx(7 * 2.0, rel=0.02)
    assert (
        "for 99.5 % of the idle time, the host is in no CUDA call, and what it does is not recorded"
    ) in finding.sentence


@pytest.mark.parametrize(
    ("idle_us", "call_us", "words"),
    [
        (2_000, 180, "; cause not found: for 90.5 % of the idle time, the host is in no CUDA call"),
        (
            2_000,
            480,
            (
                "the host is in no CUDA call, and what it does is not recorded; the largest "
                "recorded share is in cudaEventQuery (24 % of the idle time)"
            ),
        ),
        (1_200, 900, " while the host works, 75 % of the idle time inside cudaEventQuery"),
    ],
)
def test_cuda_calls_are_named_where_nothing_else_is_recorded_of_the_host(
    tmp_path, idle_us, call_us, words
):
    """Launches take 0.5 % of the idle time, too."""
    path = launched_late_without_operators(tmp_path, idle_us, call_us=call_us)
    assert words in diagnosed(path)[0].sentence


def test_a_call_is_no_larger_share_than_code_outside_all_calls(tmp_path):
    """12.4 % in cudaLaunchKernel was named, and the 87.6 % in no call at all were not."""
    path = launched_late_without_operators(tmp_path, 2_000, call_us=900)
    sentence = diagnosed(path)[0].sentence
    assert "for 54.5 % of the idle time, the host is in no CUDA call" in sentence
    path = launched_late_without_operators(tmp_path, 2_000, call_us=990, os_call=("write", 300))
    assert "; the largest share is in cudaEventQuery (49.5 %" in diagnosed(path)[0].sentence


def test_no_more_is_to_gain_than_the_time_that_is_left(tmp_path):
    """Of 17.7 ms that a finding left, at most 24.9 ms were said to be to gain beyond it."""
    one = Host()
    for _ in range(200):
        for _ in range(2):
            one.queue(7)
            one.now += 6
        one.reads("", 5)
        del one.events[-3]  # there are no operators
        one.now -= 4
    made = scripted(tmp_path, one)
    left, explained = found(made, "host_pause"), found(made, "blocking_sync")
    assert left.recoverable_ms > explained.recoverable_ms  # or else a notice would say it
    prices_ms = left.recoverable_ms + explained.recoverable_ms
    assert prices_ms <= made.steps["idle_ns"].sum() / 1e6
    assert made.joint_ms == pytest.approx(prices_ms)
    assert made.together([left]).gain_ms == pytest.approx(left.recoverable_ms)


def copies_and_waits(folder, part, names=("cudaMemcpyAsync",)):
    """The GPU computes for 100 µs, copies for 790, and is idle for 1,100.

    The host is in the call that copies for this part of 1 ms of that time.
    """
    events = [host(900, 7_000, "main", cat="user_annotation")]
    for number in range(4):
        begin, name = 2_000 * number, names[number % len(names)]
        events += [
            call(begin + 990, 5, 3 * number),
            kernel(begin + 1_000, 100, correlation=3 * number),
            call(begin + 1_100, 805 + 1000 * part, 3 * number + 1, name=name),
            kernel(
                begin + 1_110,
                790,
                correlation=3 * number + 1,
                cat="gpu_memcpy",
                name="Memcpy DtoH (Device -> Pageable)",
            ),
        ]
    return diagnosed(write(folder / "rank-0.json", events))


def test_idle_time_in_the_call_that_copies_is_no_other_cause(tmp_path):
    made = copies_and_waits(tmp_path, 0.9)
    assert [each.cause for each in made] == ["slow_host_copies"]
    assert (
        "the GPU is idle; for 83.2 % of the idle time, the host is in CUDA calls: at most 600 µs "
        "to gain beyond the findings"
    ) in " ".join(made.notices)


def test_a_range_around_everything_is_no_call_that_copies(tmp_path):
    made = copies_and_waits(tmp_path, 0.9, names=("cudaMemcpyAsync", "cudaMemcpy"))
    assert "all of this time inside main: " in made[0].sentence
    (said,) = (each for each in made.notices if "the GPU is idle" in each)
    assert "the largest share is in cudaMemcpyAsync (54.8 % of the idle time)" in said


@pytest.mark.parametrize(("part", "found"), [(0.5, True), (0.8, False)])
def test_most_of_the_idle_time_has_to_be_in_that_call(tmp_path, part, found):
    made = copies_and_waits(tmp_path, part)
    assert ("host_pause" in [each.cause for each in made]) == found


def test_what_a_finding_explains_does_not_own_what_it_leaves(tmp_path):
    """``aten::conv1d`` held the 1.34 s of a warm-up, and nothing of the 372 ms beyond it."""
    one = Host()
    one.launch(100)
    with one.inside("aten::conv1d", cat="cpu_op"):
        one.calls("cuModuleLoadData", 1_300_000)
        one.queue(100)
    one.now += 370_000
    for _ in range(20):
        one.launch(5_000)
    made = scripted(tmp_path, one)
    assert [each.cause for each in made] == ["warm_up"]
    assert (
        "in a further 21 % of the GPU span, the GPU is idle; the trace does not show what the host "
        "does meanwhile: at most 370 ms to gain beyond the findings"
    ) in made.notices


def without_operators(ranks, pause_us):
    """Steps of 8.5 ms in which rank 1 launches nothing for a time, and the others wait for it."""
    hosts = [Host() for _ in range(ranks)]
    for number in range(3):
        begin = [each.now for each in hosts]
        for part in range(10):
            for rank, each in enumerate(hosts):
                for _ in range(4):
                    each.queue(200)
                    each.now += 10
                if rank == 1 and part == 5:
                    each.now = max(each.now, each.free) + pause_us
            all_reduce(hosts)
        for each, since in zip(hosts, begin, strict=True):
            each.events.append(step(number, since, each.now - since))
    return hosts


@pytest.mark.parametrize(("pause_us", "percent"), [(0, None), (1_450, None), (1_520, 15)])
def test_a_pause_of_one_rank_of_eight_is_not_hidden_by_the_others(tmp_path, pause_us, percent):
    made = scripted(tmp_path, *without_operators(8, pause_us))
    assert [(each.cause, each.ranks) for each in made] == (
        [("host_pause", (1,))] if percent else []
    )
    assert [each.percent for each in made] == pytest.approx([percent] if percent else [], abs=0.5)


def test_a_host_that_is_hardly_late_is_not(tmp_path):
    assert not diagnosed(launched_late_without_operators(tmp_path, 11))


def late_without_a_finding(folder, part):
    """The host is late for this part of the time, and nothing recorded says what it does.

    That is 7 times 2 ms, until 10 µs before the next kernel starts.
    """
    kernel_us = (7 * 2_000 / part - 7 * 2_010) / 8
    file = launched_late_without_operators(folder, 2_010, kernel_us)
    return diagnosed(file, limits=Limits(least_percent_unexplained=50)).status


def held_back(folder, percent):
    """The GPU waits this part of the time for work that was launched before, and 4 µs to start."""
    idle_us = 10 * percent + 4
    events = [call(0, 5, 1), call(10, 5, 2), kernel(20, 500 - idle_us / 2, correlation=1)]
    last = kernel(1020 - (500 - idle_us / 2), 500 - idle_us / 2, correlation=2)
    return diagnosed(write(folder / "rank-0.json", [*events, last])).status


def lost(folder, percent):
    """One rank of two communicates this part of each step."""

    def program(rank, step):
        del rank, step
        transfer = Meet((0, 1), round(50 * US * percent))
        return [
            *layers(3, 1000 * US),
            transfer,
            *layers(1, round(2000 * US - transfer.transfer_ns)),
        ]

    made = diagnosed(write_training(folder, 2, program, only=[0], steps=2))
    return share(made, "exposed_communication")


test_thresholds = cases(
    Case(
        "device_steps.TOLD_BY_OS_CALLS", is_told_by_the_operating_system, {0.48: False, 0.52: True}
    ),
    Case("cause_not_found.MOSTLY_OUTSIDE", is_outside_calls, {0.49: False, 0.51: True}),
    Case("cause_not_found.WORTH_NAMING", says_mpi, {0.098: False, 0.102: True}),
    Case(
        "cause_not_found.FEWEST_REPEATS",
        lambda folder, steps: is_said_of_steps(folder, *range(500, 500 * steps + 1, 500)),
        {2: False, 3: True},
    ),
    Case("cause_not_found.AS_LONG", is_short_enough, {0.89: True, 0.91: False}),
    Case(
        "cause_not_found.FEWEST_GRADIENTS",
        lambda folder, count: is_one_each(folder, count, count),
        {19: False, 20: True},
    ),
    Case(
        "cause_not_found.MORE_GRADIENTS",
        lambda folder, each: is_one_each(folder, round(20 * each), 20),
        {1.1: True, 1.15: False},
    ),
    Case("Limits.least_percent_unexplained", lost, {14.9: None, 15.1: 15.1}),
    Case(
        "cause_not_found.WORTH_A_NOTICE",
        late_without_a_finding,
        {0.149: "healthy", 0.151: "cannot_tell"},
    ),
    Case("replay.MOST_UNEXPLAINED", held_back, {9.9: "healthy", 10.1: "cannot_tell"}),
)
