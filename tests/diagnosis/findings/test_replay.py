"""From when on a replay takes one thing for what another waits for."""

from __future__ import annotations

import json

import numpy as np
import pytest

from hta_widgets.diagnosis import diagnosis
from hta_widgets.diagnosis.job.steps import Steps
from hta_widgets.diagnosis.rank_answers import replay
from hta_widgets.diagnosis.replay.edits import WithoutStarts
from hta_widgets.diagnosis.replay.waiting_calls import Wait
from hta_widgets.trace.opening.open import open_trace
from tests.diagnosis.findings.thresholds import Case, cases
from tests.diagnosis.findings.training_jobs import US, Compute, Meet, write_training
from tests.kineto_text import call, kernel, step, write

SYNCHRONISE = "cudaDeviceSynchronize"
WAIT = "cudaStreamWaitEvent"
TO_HOST = {"cat": "gpu_memcpy", "name": "Memcpy DtoH (Device -> Pinned)"}


def asked(folder, *events):
    """The replay of one rank; times of events are µs."""
    return replay(write(folder / "rank-0.json", [*events]))


def launched(number, at, start, length, **work):
    """A launch call of 5 µs and its kernel."""
    return [call(at, 5, number), kernel(start, length, correlation=number, **work)]


FIRST = launched(1, 0, 10, 10)


def is_explained(asked_for):
    return not asked_for.job.parts[0].column("starts.unexplained_ns").any()


def test_communication_is_a_part_of_the_time_of_the_steps(tmp_path):
    """The step is of 1,000 µs: 900 ran before it, and of 400 and 600 at once, 600 is the time."""
    reduces = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"
    made = asked(
        tmp_path,
        step(3, 0, 3000),
        kernel(10, 990, name="gemm"),
        kernel(10, 900, name=reduces, stream=20),
        *launched(1, 500, 1000, 1000, name="gemm"),
        *launched(2, 510, 1000, 400, name=reduces, stream=20),
        *launched(3, 520, 1000, 600, name=reduces, stream=21),
    )
    assert made.step_ms == 1
    assert made.unmatched_percent == 60


def late_after_launch(folder, ns):
    return is_explained(asked(folder, *FIRST, *launched(2, 100, 100 + ns / 1000, 10)))


def late_after_kernel(folder, ns):
    return is_explained(asked(folder, *FIRST, *launched(2, 6, 20 + ns / 1000, 10)))


def usual_latency_ns(folder, count):
    """What a kernel takes to start that waits for its stream, after so many that waited 10 µs."""
    alone = [
        event
        for number in range(count - 1)
        for event in launched(number, 100 * number, 100 * number + 10, 10)
    ]
    last = 100 * count
    queued = [*launched(98, last, last + 10, 50), *launched(99, last + 6, last + 61, 10)]
    # the one before the last waited for its launch, too
    return float(asked(folder, *alone, *queued).job.weights.latency[-1])


def usual_gap_ns(folder, _ns):
    """What a kernel takes to start after the one before where no kernel tells."""
    return float(asked(folder, *FIRST, *launched(2, 100, 110, 10)).job.weights.gap[-1])


def follows(folder, ns, *, calls=(), begins=10):
    """A kernel that starts so long after one of another stream, and was launched long before."""
    other = launched(1, begins - 10, begins, 110 - begins)
    last = launched(2, 6, 110 + ns / 1000, 10, stream=9)
    return is_explained(asked(folder, *launched(0, -20, -10, 1, stream=9), *other, *calls, *last))


def waits_for_room(folder, part):
    """A kernel that begins 100 µs late while one of another stream runs for this part of them."""
    begins = 131 - 100 * part
    other = launched(1, begins - 10, begins, 200)
    last = launched(2, 6, 131, 10, stream=9)
    return is_explained(asked(folder, *launched(0, -20, -10, 1, stream=9), *other, *last))


def usual_delay_ns(folder, _ns):
    """A kernel that is asked to wait for one that is long done."""
    wait = call(150, 1, 50, name=WAIT)
    last = launched(2, 200, 210, 10, stream=9)
    return float(asked(folder, *launched(1, 0, 10, 100), wait, *last).job.weights.delay[0])


def copied(folder, call_us, copy_start, copy_us, name="cudaMemcpyAsync"):
    """Whether a call waits for the copy that it launches."""
    events = [*FIRST, call(100, call_us, 2, name=name)]
    events.append(kernel(copy_start, copy_us, correlation=2, **TO_HOST))
    return asked(folder, *events, *launched(3, 500, 510, 10)).job.wait_kind.size > 0


def early(folder, call_us, copy_us, early_us):
    """A call that returns so long before its copy is done."""
    return copied(folder, call_us, 100 + call_us + early_us - copy_us, copy_us)


def held_up(folder, ns, in_flight=600):
    """A launch call that takes so long while so many kernels are in flight."""
    queued = [
        event
        for number in range(in_flight)
        for event in launched(number, 0.01 * number, 1000 + number, 1)
    ]
    last = in_flight + 1000
    waits = [call(1000 - ns / 1000 + 0.5, ns / 1000, last), kernel(last + 500, 5, correlation=last)]
    begins = [call(-20, 5, 5000), kernel(-10, 5, correlation=5000)]
    held = asked(folder, *begins, *queued, *waits)
    return held.job.wait_kind.size > 0


def loads(folder, ns):
    """A call that loads code for so long, until the GPU is done."""
    load = call(3006 - ns / 1000, ns / 1000, 3, name="cuModuleLoadData")
    found = asked(folder, *FIRST, *launched(2, 6, 20, 2980), load, *launched(4, 3100, 3110, 10))
    return found.job.wait_kind.tolist() == [Wait.LOADED]


def before_allocating(folder, ns, name="cudaMalloc"):
    waits = [call(6, 16, 2, name=SYNCHRONISE), call(22 + ns / 1000, 5, 3, name=name)]
    found = asked(folder, *FIRST, *waits, *launched(4, 300, 310, 10))
    return found.job.waits_to_allocate.tolist() == [True]


@pytest.mark.parametrize("name", ["cudaMallocAsync", "cudaFreeAsync", "cudaMallocFromPoolAsync"])
def test_a_pool_that_follows_its_stream_asks_for_no_wait(tmp_path, name):
    """Of 83 ms that memory cost a solver by this, 60 were waits at the end of its levels."""
    assert before_allocating(tmp_path, 1_000)
    assert not before_allocating(tmp_path, 1_000, name)


def own_ns(folder, lengths_us):
    """What a waiting call takes without waiting, 6 µs after a launch.

    Some others did not wait, and took so long.
    """
    prompt = [
        call(30 + 10 * place, length, 10 + place, name=SYNCHRONISE)
        for place, length in enumerate(lengths_us)
    ]
    waits = [*launched(2, 100, 110, 100), call(106, 106, 3, name=SYNCHRONISE)]
    job = asked(folder, *FIRST, *prompt, *waits, *launched(4, 300, 310, 10)).job
    return float(job.weights.own[job.waiter.max()]) - 6000


def returns_after_ns(folder, _ns):
    """A call that did not wait, where none did, returns at least so long after."""
    prompt = call(60, 5, 2, name=SYNCHRONISE)
    return float(asked(folder, *FIRST, prompt, *launched(3, 100, 110, 10)).job.weights.returning[0])


def ends_before(folder, ns):
    """A call that ends so long before what it waits for is an error of the clocks, or no wait."""
    ends = call(6, 14 - ns / 1000, 2, name=SYNCHRONISE)
    return asked(folder, *FIRST, ends, *launched(3, 100, 110, 10)).job.wait_kind.size > 0


def ends_before_its_stream(folder, ns):
    """The same beyond the rounding, where the trace says which stream it waits for."""
    names = {"correlation": 2, "cat": "cuda_sync", "name": "Stream Sync"}
    ends = [call(6, 13 - ns / 1000, 2, name="cudaStreamSynchronize"), kernel(6, 2, **names)]
    return asked(folder, *FIRST, *ends, *launched(3, 100, 110, 10)).job.wait_kind.size > 0


def test_pages_that_move_do_not_wait_for_each_other(tmp_path):
    """Managed memory: a kernel for 99 % of the time was waiting that nothing explains."""
    copies = {"cat": "gpu_memcpy", "stream": 0, "name": "Memcpy Unknown"}
    moved = [kernel(12, 1, **copies), kernel(10_170, 1, **copies)]
    wait = call(106, 10_010, 3, name=SYNCHRONISE)
    events = [*FIRST, *launched(2, 100, 110, 10_000), wait, *moved]
    found = diagnosis(open_trace(write(tmp_path / "rank-0.json", events), progress=False))
    assert found.bound_by.startswith("bound by the GPU (9")


def lines(folder, overlap_us, overlaps, calls=8):
    """Lines of a host with two threads, whose calls overlap so often."""
    events = []
    for number in range(calls):
        at = 20 * number
        events += [call(at, 5, number), kernel(at + 8, 1, correlation=number)]
        begin = at + 5 - overlap_us if number < overlaps else at + 6
        events += [
            call(begin, 5, 10_000 + number, tid=200),
            kernel(at + 15, 1, correlation=10_000 + number),
        ]
    return np.unique(asked(folder, *events).job.line).size


def long_copies(folder, ns):
    events = [*FIRST, call(100, 5, 2, name="cudaMemcpyAsync")]
    events.append(kernel(110, ns / 1000, correlation=2, **TO_HOST))
    return int(asked(folder, *events).job.is_host_copy.sum())


def starts(folder, ns):
    """What is gained if kernels start without the time between them."""
    found = asked(folder, *FIRST, *launched(2, 6, 20 + ns / 1000, 10))
    return found.what_if(WithoutStarts()).gain_ms


def broadcasts(folder, apart_ns, *, length_us=100, count=6, far_apart=0):
    """Whether kernels meet that nothing but their name and their ends says belong together."""

    def program(rank, step):
        del rank, step
        return [Compute(1000 * US), Meet((0, 1)), Compute(1000 * US)] * 5

    write_training(folder, 2, program, steps=2)
    for rank in range(2):
        file = folder / f"rank-{rank}.json"
        trace = json.loads(file.read_text())
        gemms = [each for each in trace["traceEvents"] if each["name"] == "gemm"]
        for place, each in enumerate(gemms[: 2 * count : 2]):
            late = 200 if place < far_apart else apart_ns / 1000
            length = length_us if rank else length_us + 10 - late
            name, number = "ncclDevKernel_Broadcast", each["args"]["correlation"]
            trace["traceEvents"].append(
                kernel(each["ts"] + 10 * rank, length, name=name, stream=30, correlation=number)
            )
        file.write_text(json.dumps(trace))
    return not replay(open_trace(folder, progress=False)).job.is_alone.any()


def starting_counts(_folder, part):
    """Hosts of which so many steps are behind even without the time between kernels."""
    steps, behind = {0.5: (8, 4), 0.538: (13, 7)}[part]
    nothing = np.zeros((1, steps))
    busy = ("compute", "memory", "transfer", "transfer_p2p")
    gaps = ("gap_sync", "gap_op", "gap_step", "gap_pause", "gap_alloc", "gap_init")
    host = np.where(np.arange(steps) < behind, 10.0, 0.0)[np.newaxis]
    columns = dict.fromkeys((*busy, *gaps), nothing) | {"host": host, "starting": nothing + 10}
    return Steps((0,), tuple(range(steps)), columns).starts_count


test_thresholds = cases(
    Case("starts.LATENCY_NS", late_after_launch, {25_000: True, 25_001: False}),
    Case("starts.GAP_NS", late_after_kernel, {4000: True, 4001: False}),
    Case("starts.FEWEST", usual_latency_ns, {4: 5000.0, 5: 10_000.0}),
    Case("starts.USUAL_LATENCY_NS", lambda f, _: usual_latency_ns(f, 3), {5000: 5000.0}),
    Case("starts.USUAL_GAP_NS", usual_gap_ns, {1000: 1000.0}),
    Case(
        "starts.ASKED_NS",
        lambda folder, ns: follows(folder, ns, calls=[call(5.5, 0.4, 50, name=WAIT)]),
        {100_000: True, 100_001: False},
    ),
    Case("starts.FOLLOWED_NS", follows, {40_000: True, 40_001: False}),
    Case("starts.TOUCHING_NS", lambda f, ns: follows(f, -ns, begins=60), {500: True, 501: False}),
    Case("starts.FILLED", waits_for_room, {0.9: True, 0.899: False}),
    Case("starts.DEPENDENCY_NS", usual_delay_ns, {1500: 1500.0}),
    Case(
        "waiting_calls.SHORT_COPY_NS",
        lambda folder, ns: copied(folder, ns / 1000, 101, 5),
        {15_000: False, 15_001: True},
    ),
    Case("waiting_calls.LONG_CALL_NS", held_up, {50_000: False, 50_001: True}),
    Case(
        "waiting_calls.FULL_QUEUE",
        lambda folder, count: held_up(folder, 60_000, count),
        {499: False, 500: True},
    ),
    Case(
        "waiting_calls.EARLY_NS",
        lambda folder, ns: early(folder, 48, 55, ns / 1000),
        {10_000: True, 10_001: False},
    ),
    Case(
        "waiting_calls.EARLY_SHARE",
        lambda folder, part: early(folder, 40, 30, 30 * part),
        {0.199: True, 0.201: False},
    ),
    Case(
        "waiting_calls.EARLY_SHARE_STAGED",
        lambda folder, part: early(folder, 60, 100, 100 * part),
        {0.499: True, 0.501: False},
    ),
    Case("waiting_calls.LONG_LOAD_NS", loads, {1_000_000: False, 1_000_010: True}),
    Case("waiting_calls.SOON_NS", before_allocating, {100_000: True, 100_001: False}),
    Case(
        "waiting_calls.FEWEST",
        lambda folder, count: own_ns(folder, [2] * count),
        {2: 4000.0, 3: 2000.0},
    ),
    Case("waiting_calls.OWN_NS", lambda folder, _: own_ns(folder, []), {4000: 4000.0}),
    Case("waiting_calls.RETURN_NS", returns_after_ns, {3000: 3000.0}),
    Case("waiting_calls._USUAL_PERCENT", lambda f, _: own_ns(f, [2, 4, 6]), {10: 2400.0}),
    Case("waiting_calls.CLOCKS_NS", ends_before_its_stream, {10_000: True, 10_010: False}),
    Case("operations.ROUNDING_NS", ends_before, {1000: True, 1010: False}),
    Case("host_line.OVERLAP_NS", lambda f, ns: lines(f, ns / 1000, 4), {1000: 1, 1001: 2}),
    Case("host_line.MOST_OVERLAPS", lambda f, count: lines(f, 2, count), {3: 1, 4: 2}),
    Case(
        "host_line.MOST_OVERLAPS_SHARE",
        lambda folder, part: lines(folder, 2, round(1000 * part), 1000),
        {0.01: 1, 0.011: 2},
    ),
    Case("recorded_job.SHORT_COPY_NS", long_copies, {20_000: 0, 20_001: 1}),
    Case("edits.START_NS", starts, {4000: 0.004, 4001: 0.0}),
    Case("meetings.TOGETHER_NS", broadcasts, {20_000: True, 20_001: False}),
    Case(
        "meetings.TOGETHER_SHARE",
        lambda folder, part: broadcasts(folder, 1_500_000 * part, length_us=1500),
        {0.0199: True, 0.0201: False},
    ),
    Case(
        "meetings.MOST_APART",
        lambda folder, part: broadcasts(
            folder, 1000, length_us=500, count=round(1 / part), far_apart=1
        ),
        {0.1: True, 0.111: False},
    ),
    Case("steps.HALF", starting_counts, {0.5: False, 0.538: True}),
)
