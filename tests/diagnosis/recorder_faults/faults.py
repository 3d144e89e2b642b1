"""What can be wrong with a recording, each fault as a function; the job itself is always the same.

Faults of one recording hit all ranks of a job, or one.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping
from typing import Final, NamedTuple

from tests.diagnosis.recorder_faults.recording import (
    CALLS,
    Event,
    Recording,
    end_of,
    is_gpu_work,
    is_step,
    is_timed,
)

MS: Final = 1_000_000
SECOND: Final = 1_000 * MS
YEAR: Final = 365 * 86_400 * SECOND

Job = Mapping[int, Recording]
"""Recordings by rank."""

Hit = Collection[int]
"""Ranks whose recordings are broken."""

_Texts = Mapping[int, str] | None
Broken = Callable[[Job, Hit], _Texts]


class Fault(NamedTuple):
    """One way to break a job.

    Attributes
    ----------
    name : str
    seen : str
        Where it comes from.
    broken : function
        From a sound job, and the ranks that are hit, to the texts of the files of a broken one, or
        to None where it has no place for the fault.
    """

    name: str
    seen: str
    broken: Broken


def _recording(change: Callable[[Recording], Recording | None]) -> Broken:
    """A fault of one recording."""

    def broken(job: Job, hit: Hit) -> _Texts:
        changed = {rank: change(job[rank]) for rank in hit}
        found = {rank: each for rank, each in changed.items() if each is not None}
        return _texts_of({**job, **found}) if found else None

    return broken


def _ranks(change: Callable[[Job], Job | None]) -> Broken:
    """A fault of a job with several ranks, whichever are hit."""

    def broken(job: Job, hit: Hit) -> _Texts:
        changed = change(job) if 1 < len(job) == len(hit) else None
        return None if changed is None else _texts_of(changed)

    return broken


def _texts_of(job: Job) -> dict[int, str]:
    return {rank: recording.text() for rank, recording in job.items()}


# GPU work that was not recorded, or twice


def _without_work(recording: Recording, lost: Callable[[Event], bool]) -> Recording:
    """Without some GPU work, and the arrows to it, which the recorder makes of it."""
    gone = [event for event in recording.events if is_gpu_work(event) and lost(event)]
    heads = {(event["pid"], event["tid"], event["ts"]) for event in gone}
    without = {id(event) for event in gone}

    def is_kept(event: Event) -> bool:
        if event.get("ph") in ("s", "f"):
            return (event.get("pid"), event.get("tid"), event.get("ts")) not in heads
        return id(event) not in without

    return recording.having(filter(is_kept, recording.events))


def _in_first_step(percent: int) -> Callable[[Recording], Recording]:
    """Without steps, this part of the GPU span."""

    def lost(recording: Recording) -> Recording:
        steps = recording.steps
        start, end = (steps[0]["ts"], end_of(steps[0])) if steps else recording.span(is_gpu_work)
        until = start + (end - start) * percent // 100
        return _without_work(recording, lambda event: start <= event["ts"] < until)

    return lost


def _hole(recording: Recording) -> Recording:
    start, end = recording.span(is_gpu_work)
    first, last = (start + (end - start) * percent // 100 for percent in (42, 58))
    return _without_work(recording, lambda event: first <= event["ts"] < last)


def _longest(recording: Recording) -> Recording:
    kernels = sorted(recording.gpu_work, key=lambda event: event["dur"])
    least_ns = kernels[-max(1, len(kernels) // 100)]["dur"]
    return _without_work(recording, lambda event: event["dur"] >= least_ns)


def _at_random(percent: int) -> Callable[[Recording], Recording]:
    def lost(recording: Recording) -> Recording:
        chance = random.Random(0)  # noqa: S311
        return _without_work(recording, lambda _: chance.random() < percent / 100)

    return lost


def _twice(chosen: Callable[[Event], bool]) -> Callable[[Recording], Recording]:
    return lambda recording: recording.having(
        [*recording.events, *filter(chosen, recording.events)]
    )


# Times of the GPU that cannot be


def _overlapping(recording: Recording) -> Recording:
    """Every second kernel ends in the middle of the next one of its stream."""
    longer: dict[int, int] = {}
    waiting: dict[tuple[object, object], Event] = {}
    for event in recording.gpu_work:
        before = waiting.pop((event["pid"], event["tid"]), None)
        if before is None:
            waiting[event["pid"], event["tid"]] = event
        elif 0 <= event["ts"] - end_of(before) < MS // 100:
            longer[id(before)] = event["ts"] + event["dur"] // 2 - before["ts"]
    return recording.with_each(
        lambda event: event | {"dur": longer[id(event)]} if id(event) in longer else event
    )


def _middle_kernel(change: Callable[[Event], Event]) -> Callable[[Recording], Recording]:
    def changed(recording: Recording) -> Recording:
        work = recording.gpu_work
        middle = work[len(work) // 2]
        return recording.with_each(lambda event: change(event) if event is middle else event)

    return changed


def _negative(recording: Recording) -> Recording:
    chance = random.Random(0)  # noqa: S311
    return recording.with_each(
        lambda event: (
            event | {"dur": -event["dur"] - 1}
            if is_gpu_work(event) and chance.random() < 0.05
            else event
        )
    )


# Clocks


def _moved(recording: Recording, when: Callable[[Event, int], int]) -> Recording:
    """All times of events go through a function; so do their ends."""

    def move(event: Event) -> Event:
        if "ts" not in event:
            return event
        start = when(event, event["ts"])
        if "dur" not in event:
            return event | {"ts": start}
        return event | {"ts": start, "dur": when(event, end_of(event)) - start}

    return recording.with_each(move)


def _is_of_gpu(event: Event) -> bool:
    """GPU work, its annotations, and the arrows to it."""
    return is_gpu_work(event) or event.get("cat") == "gpu_user_annotation" or event["ph"] == "f"


def _step_of_clock(percent: int, of: Callable[[Event], bool]) -> Callable[[Recording], Recording]:
    """In the middle of the recording, a clock is set forward by a part of its length."""

    def stepped(recording: Recording) -> Recording:
        start, end = recording.span(is_timed)
        middle, by = (start + end) // 2, (end - start) * percent // 100
        return _moved(
            recording,
            lambda event, time: time + by if time > middle and of(event) else time,
        )

    return stepped


def _gpu_clock(change: Callable[[int], int]) -> Callable[[Recording], Recording]:
    """The clock of the GPU is off by a function of the time since the first work."""

    def off(recording: Recording) -> Recording:
        start, _ = recording.span(is_gpu_work)
        return _moved(
            recording,
            lambda event, time: time + change(time - start) if _is_of_gpu(event) else time,
        )

    return off


# Host side


def _without_operators(recording: Recording) -> Recording:
    """A ring buffer has kept the second half."""
    start, end = recording.span(is_timed)
    middle = (start + end) // 2
    lost = ("cpu_op", "python_function")
    return recording.having(
        event for event in recording.events if event.get("cat") not in lost or event["ts"] >= middle
    )


def _without_calls(recording: Recording) -> Recording:
    chance = random.Random(0)  # noqa: S311
    return recording.having(
        event
        for event in recording.events
        if event.get("cat") not in CALLS or chance.random() >= 0.1
    )


def _correlation(number: Callable[[int, int], int]) -> Callable[[Recording], Recording]:
    """Correlation ids become others, which depend on how many pieces of work there are."""

    def renumbered(recording: Recording) -> Recording:
        count = len(recording.gpu_work)

        def change(event: Event) -> Event:
            args = event.get("args")
            if not isinstance(args, dict) or "correlation" not in args:
                return event
            return event | {"args": args | {"correlation": number(int(args["correlation"]), count)}}

        return recording.with_each(change)

    return renumbered


# Steps


def _end_lost(recording: Recording) -> Recording | None:
    """The recorder is stopped in the middle of the last step: what had not ended is lost."""
    if not recording.steps:
        return None  # a shorter recording of something else
    last = recording.steps[-1]
    stopped = (last["ts"] + end_of(last)) // 2
    return recording.having(
        event for event in recording.events if "ts" not in event or end_of(event) <= stopped
    )


def _without_steps(recording: Recording) -> Recording | None:
    if not recording.steps:
        return None
    return recording.having(event for event in recording.events if not is_step(event))


def _other_numbers(recording: Recording) -> Recording | None:
    if not recording.steps:
        return None

    def change(event: Event) -> Event:
        if not is_step(event):
            return event
        name, _, number = event["name"].partition("#")
        return event | {"name": f"{name}#{int(number) + 1000}"}

    return recording.with_each(change)


# Files


def _cut(percent: int) -> Broken:
    def broken(job: Job, hit: Hit) -> _Texts:
        texts = _texts_of(job)
        return texts | {rank: texts[rank][: len(texts[rank]) * percent // 100] for rank in hit}

    return broken


# Ranks that do not belong together


def _info(recording: Recording, **values: object) -> Recording:
    return recording.with_values(
        distributedInfo=recording.document.get("distributedInfo", {}) | values
    )


def _years_apart(recording: Recording) -> Recording:
    return _moved(recording, lambda _, time: time + 3 * YEAR)


def _of_another_run(job: Job) -> Job:
    """It began seven minutes later, and everything took 15 % longer."""
    last = max(job)
    start, _ = job[last].span(is_timed)
    return {
        **job,
        last: _moved(
            job[last],
            lambda _, time: start + (time - start) * 115 // 100 + 7 * 60 * SECOND,
        ),
    }


def _copied(job: Job) -> Job:
    first, last = min(job), max(job)
    return {**job, last: _info(job[first], rank=last)}


def _other_world(job: Job) -> Job:
    last = max(job)
    return {**job, last: _info(job[last], world_size=8 * len(job))}


def _one_without_steps(job: Job) -> Job | None:
    last = max(job)
    changed = _without_steps(job[last])
    return None if changed is None else {**job, last: changed}


CUPTI = "pytorch#192021, full CUPTI buffers"
CLOCK = "NTP, a suspended machine, AMD GPUs"
RING = "ring buffers that wrap"

FAULTS: Final[tuple[Fault, ...]] = (
    *(
        Fault(
            f"GPU work of the first {percent} % of a step is lost",
            CUPTI,
            _recording(_in_first_step(percent)),
        )
        for percent in (90, 30)
    ),
    Fault("GPU work in the middle 16 % of the span is lost", CUPTI, _recording(_hole)),
    Fault("the longest 1 % of the GPU work is lost", CUPTI, _recording(_longest)),
    *(
        Fault(
            f"{percent} % of the GPU work is lost at random",
            CUPTI,
            _recording(_at_random(percent)),
        )
        for percent in (10, 30, 50)
    ),
    Fault("all GPU work is recorded twice", "merged files", _recording(_twice(is_gpu_work))),
    Fault("all events are recorded twice", "merged files", _recording(_twice(lambda _: True))),
    Fault(
        "kernels overlap on their stream",
        "AMD GPUs, profilers",
        _recording(_overlapping),
    ),
    Fault(
        "a kernel starts at 0 and ends when it did",
        "“unknown” in CUPTI",
        _recording(_middle_kernel(lambda event: event | {"ts": 0, "dur": end_of(event)})),
    ),
    Fault(
        "a kernel takes 10 s",
        "“unknown” in CUPTI",
        _recording(_middle_kernel(lambda event: event | {"dur": 10 * SECOND})),
    ),
    Fault("5 % of the durations are negative", "profilers", _recording(_negative)),
    Fault(
        "both clocks are set forward by 30 % of the recording",
        CLOCK,
        _recording(_step_of_clock(30, lambda _: True)),
    ),
    Fault(
        "the clock of the host is set forward by 5 % of the recording",
        CLOCK,
        _recording(_step_of_clock(5, lambda event: not _is_of_gpu(event))),
    ),
    Fault("the GPU is 1 ms early", CLOCK, _recording(_gpu_clock(lambda _: -MS))),
    Fault("the GPU is 1 ms late", CLOCK, _recording(_gpu_clock(lambda _: MS))),
    Fault(
        "the GPU's clock is 1 % slow",
        CLOCK,
        _recording(_gpu_clock(lambda since: -since // 100)),
    ),
    Fault("operators of the first half are lost", RING, _recording(_without_operators)),
    Fault("10 % of the launches are lost at random", RING, _recording(_without_calls)),
    Fault("all correlation ids are 0", "merged files", _recording(_correlation(lambda *_: 0))),
    Fault(
        "each correlation id is used four times",
        "ids that wrap, merged files",
        _recording(_correlation(lambda number, count: number % max(1, count // 4) + 1)),
    ),
    *(
        Fault(f"the file is cut at {percent} % of its bytes", "full disks, copies", _cut(percent))
        for percent in (98, 90, 70)
    ),
    Fault(
        "the second half of the last step is lost", "a profiler that stops", _recording(_end_lost)
    ),
    Fault("no steps", "no `profiler.step()`", _recording(_without_steps)),
    Fault("steps have other numbers", "restarts", _recording(_other_numbers)),
    Fault("a clock is years ahead", "no clock after a boot", _recording(_years_apart)),
    Fault("a rank of another run", "by hand", _ranks(_of_another_run)),
    Fault("a rank that is a copy of another", "by hand", _ranks(_copied)),
    Fault("a rank with another world size", "by hand", _ranks(_other_world)),
    Fault("a rank without steps", "by hand", _ranks(_one_without_steps)),
)
