"""What a recording can have otherwise without another verdict: same causes, ranks and prices.

Each job is written with one `Change`. What a change takes away may make findings vaguer: fewer,
`inconclusive`, or with fewer words, but never other ones.
"""

from __future__ import annotations

import functools
import random
from bisect import bisect_left
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from hta_widgets.diagnosis import Diagnosis, diagnosis
from hta_widgets.sample import write_sample
from hta_widgets.trace.opening.open import open_trace
from tests.conftest import REAL_TRACES
from tests.diagnosis.recorder_faults.recording import (
    CALLS,
    Event,
    Recording,
    end_of,
    is_gpu_work,
    is_step,
    is_timed,
)
from tests.diagnosis.test_properties import renumbered
from tests.simulator import write_job

POINTS: Final = 2.0
"""Percent of a step by which a price may differ."""

JITTER_NS: Final = 100
SHORT_NS: Final = 5_000
SHORT_CALLS: Final = (
    ("cuda_runtime", "cudaStreamGetCaptureInfo_v2"),
    ("cuda_runtime", "cudaEventQuery"),
    ("cpu_op", "aten::detach"),
)
"""Kinds and names of calls that change nothing, and may come at any time."""

EVENT: Final = ("ph", "cat", "name", "pid", "tid", "ts", "dur", "args")

Job = Mapping[int, Recording]
"""Recordings by rank."""

SIMULATED: Final = ("slow_gpu", "host_pause", "input_starvation", "blocking_sync")
REAL: Final = (
    *("kineto/alexnet", "kineto/event_sync_multi_stream"),
    *("kineto/h100_bert", "kineto/mi210_gpu_only"),
)

JOBS: Final = ("sample", *SIMULATED, *REAL)

IN_ALL_STEPS: Final = ("slow_gpu", "input_starvation", "blocking_sync")
"""A pause in one of three steps would cost more in one of two."""


class Said(NamedTuple):
    """A finding."""

    ranks: tuple[int, ...]
    percent: float
    is_measured: bool


Verdict = Mapping[str, Said]
"""Findings by cause."""

Jobs = Callable[[str], tuple[Job, Verdict]]
"""A job by its name, and what is said of it."""


def write(folder: Path, job: Job) -> None:
    for rank, recording in job.items():
        (folder / f"rank-{rank}.json").write_text(recording.text(), encoding="utf-8")


def verdict_of(folder: Path, job: Job) -> Verdict:
    write(folder, job)
    return verdict_on(folder)


def verdict_on(folder: Path) -> Verdict:
    return said(diagnosis(open_trace(folder, progress=False)))


def said(found: Diagnosis) -> Verdict:
    return {
        each.cause: Said(each.ranks, each.percent, each.confidence == "measured") for each in found
    }


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Jobs:
    @functools.cache
    def read(name: str) -> tuple[Job, Verdict]:
        folder = tmp_path_factory.mktemp("job")
        if name == "sample":
            write_sample(folder, ranks=2, steps=3, progress=False)
        elif name in SIMULATED:
            write_job(folder, name, ranks=2, steps=4)
        elif not REAL_TRACES.is_dir():
            pytest.skip(f"no real traces at {REAL_TRACES}")
        else:
            folder = REAL_TRACES / name
        opened = open_trace(folder, progress=False)
        job = {rank: Recording.read(opened.sources[rank].path) for rank in opened.ranks}
        return job, verdict_on(folder)

    return read


# Changes


def _each(change: Callable[[Recording, random.Random], Recording | None]) -> Callable[[Job], Job]:
    """Change every recording."""

    def changed(job: Job) -> Job:
        chance = random.Random(7)  # noqa: S311
        return {rank: change(recording, chance) or recording for rank, recording in job.items()}

    return changed


def _jitter(recording: Recording, chance: random.Random) -> Recording:
    """Every start and every end is up to 100 ns off."""

    def off() -> int:
        return chance.randint(-JITTER_NS, JITTER_NS)

    def move(event: Event) -> Event:
        if "ts" not in event:
            return event
        start = max(0, event["ts"] + off())
        if "dur" not in event:
            return event | {"ts": start}
        return event | {"ts": start, "dur": max(0, end_of(event) + off() - start)}

    return recording.with_each(move)


def _short_calls(recording: Recording, chance: random.Random) -> Recording:
    """Calls of at most 5 µs, anywhere on the thread with most calls, inside of what runs then."""
    of_cpu = CALLS | {"cpu_op", "user_annotation", "python_function"}
    calls = [event for event in recording.events if is_timed(event) and event.get("cat") in of_cpu]
    threads = [(event["pid"], event["tid"]) for event in calls]
    thread = max({*threads}, key=threads.count)
    own = [event for event, its in zip(calls, threads, strict=True) if its == thread]
    edges = sorted({event["ts"] for event in own} | {end_of(event) for event in own})
    inserted = []
    for kind, name in SHORT_CALLS * 4:
        start = chance.randint(edges[0], edges[-1] - 1)
        end = min(start + SHORT_NS, edges[bisect_left(edges, start + 1)])
        inserted.append(
            dict(zip(EVENT, ("X", kind, name, *thread, start, end - start, {}), strict=True))
        )
    return recording.having([*recording.events, *inserted])


def _without_flows(recording: Recording, _: random.Random) -> Recording:
    return recording.having(e for e in recording.events if e.get("ph") not in ("s", "f"))


def _shuffled(recording: Recording, chance: random.Random) -> Recording:
    return recording.having(chance.sample(recording.events, len(recording.events)))


def _shifted_clocks(job: Job) -> Job:
    def shift(recording: Recording, by_ns: int) -> Recording:
        return recording.with_each(
            lambda event: event | {"ts": event["ts"] + by_ns} if "ts" in event else event
        )

    shifts = (0, 7_000_000_123, 3_000_000_456, 42)
    return {rank: shift(each, shifts[rank % 4]) for rank, each in job.items()}


def _without_step(place: int) -> Callable[[Job], Job]:
    """A recording that begins a step later, or ends a step earlier."""

    def cut(recording: Recording, _: random.Random) -> Recording | None:
        steps = recording.steps
        if len(steps) < 4:
            return None
        lost = steps[place]
        begin, end = (0, end_of(lost)) if place == 0 else (lost["ts"], end_of(lost) + 10**12)

        def is_lost(event: Event) -> bool:
            return begin <= int(event["ts"]) < end

        gone = {
            event["args"]["correlation"]
            for event in recording.events
            if event.get("cat") in CALLS and is_lost(event) and "correlation" in event["args"]
        }

        def is_kept(event: Event) -> bool:
            if "ts" not in event:
                return True
            if is_gpu_work(event):
                return not {event["args"].get("correlation")} & gone
            if is_step(event) and event.get("cat") == "gpu_user_annotation":
                return str(event["name"]) != lost["name"]
            return event.get("ph") in ("s", "f") or not is_lost(event)

        return recording.having(filter(is_kept, recording.events))

    return _each(cut)


def _without(*categories: str) -> Callable[[Job], Job]:
    return _each(
        lambda recording, _: recording.having(
            event for event in recording.events if event.get("cat") not in categories
        )
    )


SHAPES: Final = ("Input Dims", "Input type", "Input Strides", "Concrete Inputs")


def _without_shapes(recording: Recording, _: random.Random) -> Recording:
    def change(event: Event) -> Event:
        args = event.get("args")
        if not isinstance(args, dict) or not any(name in args for name in SHAPES):
            return event
        return event | {"args": {k: v for k, v in args.items() if k not in SHAPES}}

    return recording.with_each(change)


SAME: Final[Mapping[str, Callable[[Job], Job]]] = {
    "jitter": _each(_jitter),
    "short calls": _each(_short_calls),
    "no flows": _each(_without_flows),
    "shuffled": _each(_shuffled),
    "shifted clocks": _shifted_clocks,
}

CUT: Final[Mapping[str, Callable[[Job], Job]]] = {
    "no first step": _without_step(0),
    "no last step": _without_step(-1),
}

VAGUER: Final[Mapping[str, Callable[[Job], Job]]] = {
    "no stacks": _without("python_function"),
    "no shapes": _each(_without_shapes),
    "no operators": _without("cpu_op", "python_function"),
}


def assert_same(now: Verdict, before: Verdict) -> None:
    assert before
    assert {cause: each.ranks for cause, each in now.items()} == {
        cause: each.ranks for cause, each in before.items()
    }
    for cause, each in now.items():
        assert each.is_measured == before[cause].is_measured, cause
        assert each.percent == pytest.approx(before[cause].percent, abs=POINTS), cause


@pytest.mark.parametrize("change", SAME)
@pytest.mark.parametrize("name", JOBS)
def test_the_verdict_stays(jobs: Jobs, tmp_path: Path, name: str, change: str) -> None:
    job, before = jobs(name)
    assert_same(verdict_of(tmp_path, SAME[change](job)), before)


@pytest.mark.parametrize("change", CUT)
@pytest.mark.parametrize("name", IN_ALL_STEPS)
def test_a_step_more_or_less_is_the_same_verdict(
    jobs: Jobs, tmp_path: Path, name: str, change: str
) -> None:
    job, before = jobs(name)
    assert_same(verdict_of(tmp_path, CUT[change](job)), before)


@pytest.mark.parametrize("change", VAGUER)
@pytest.mark.parametrize("name", JOBS)
def test_the_verdict_gets_vaguer_only(jobs: Jobs, tmp_path: Path, name: str, change: str) -> None:
    job, before = jobs(name)
    for cause, each in verdict_of(tmp_path, VAGUER[change](job)).items():
        if each.is_measured:
            assert cause in before
            assert {*each.ranks} <= {*before[cause].ranks}
            assert each.percent <= before[cause].percent + POINTS


@pytest.mark.parametrize("name", ["sample", "slow_gpu", "kineto/h100_bert"])
def test_the_cache_has_the_same_verdict(
    jobs: Jobs, tmp_path: Path, cached: Path, name: str
) -> None:
    job, before = jobs(name)
    folder = tmp_path / "job"
    folder.mkdir()
    first = verdict_of(folder, job)
    assert [*cached.rglob("*")]
    assert verdict_on(folder) == first
    assert_same(first, before)


@pytest.mark.parametrize("name", [*SIMULATED, "more/dlrm_8rank"])
def test_chosen_ranks_have_the_same_verdict(jobs: Jobs, tmp_path: Path, name: str) -> None:
    job, before = jobs(name)
    write(tmp_path, job)
    opened = open_trace(tmp_path, progress=False)
    for rank in opened.ranks:
        found = diagnosis(opened, [rank])
        assert said(found) == {
            cause: each for cause, each in before.items() if not each.ranks or rank in each.ranks
        }
        assert "Record all ranks" not in {each.how for each in found.not_recorded}


@pytest.mark.parametrize("name", SIMULATED)
def test_names_and_numbers_of_files(jobs: Jobs, tmp_path: Path, name: str) -> None:
    """Ranks are those that the files state, and others if all state others."""
    job, before = jobs(name)
    last = max(job)
    for rank, recording in job.items():
        text = renumbered(recording.text(), lambda each: last - each)
        (tmp_path / f"part-{rank}.json").write_text(text, encoding="utf-8")
    assert_same(
        verdict_on(tmp_path),
        {
            cause: each._replace(ranks=tuple(sorted(last - rank for rank in each.ranks)))
            for cause, each in before.items()
        },
    )
