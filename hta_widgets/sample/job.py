"""Write the trace files of the sample job."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

from tqdm import tqdm

from hta_widgets.errors import HtaWidgetsError, ParameterError
from hta_widgets.sample.causes import CAUSES, cause_named
from hta_widgets.sample.cluster import run_programs
from hta_widgets.sample.communication import Meetings
from hta_widgets.sample.kineto_file import (
    EntryCounter,
    EventSink,
    KinetoFile,
    header,
    is_sample_file,
)
from hta_widgets.sample.noise import UniformNoise
from hta_widgets.sample.plan import Layout, Plan
from hta_widgets.sample.process import Process
from hta_widgets.sample.recorder import Recorder
from hta_widgets.sample.recording import EVERYTHING, Recording
from hta_widgets.sample.simulation import FIRST_MOMENT_NS, recording_footer, write_plan
from hta_widgets.sample.training import SampleJob, Training

FEWEST_LAYERS = 2
FEWEST_RANKS_WITH_CAUSE = 2


def write_sample(
    folder: str | Path,
    *,
    ranks: int = 4,
    steps: int = 5,
    events: int | None = None,
    seed: int = 0,
    cause: str | None = None,
    layout: Layout | None = None,
    healthy: bool = False,
    recording: Recording | None = None,
    progress: bool = True,
) -> list[Path]:
    """Write the traces of a simulated training job with known bottlenecks.

    The same arguments give the same bytes. `hta_widgets.sample` says what is planted.

    Parameters
    ----------
    folder
        Where to write ``rank-0.json.gz``, ``rank-1.json.gz``, ...; created if it does not exist.
        Sample files of an earlier call are replaced; any other file is left alone.
    ranks
        Number of GPUs.
    steps
        Number of training steps (``ProfilerStep#N``).
    events
        Approximate number of entries of ``traceEvents`` per rank, which sets the number of layers
        of the network; at least two, the default. Not with a cause.
    seed
        Seed of the random variation of all durations; with a cause, also of its place and size.
    cause
        Plant only this one (a key of `CAUSES`), in another job than the usual one.
    layout
        ``data_parallel``, ``sharded``, ``pipeline``, ``experts`` or ``decode``: how the work of a
        job with a cause is laid out over the ranks; by default, as suits the cause.
    healthy
        Leave the cause out of the job that it would be planted in.
    recording
        What the profiler of the usual job writes: all that it can when not given, with shapes,
        stacks, modules and memory. What that of a job with a cause writes belongs to the cause.
    progress
        Show a progress bar.

    Returns
    -------
    list of Path
        The file of each rank that is recorded: with ``cause="missing_rank"``, all but one.

    Raises
    ------
    ParameterError
        If an argument is outside its range, or does not go with the others.
    HtaWidgetsError
        If a file of that name exists that `write_sample` did not write.
    """
    for name, value in (("ranks", ranks), ("steps", steps), ("events", events)):
        if value is not None and value < 1:
            msg = f"{name} must be 1 or more, got {value}"
            raise ParameterError(msg)
    if recording is not None and cause is not None:
        msg = "recording goes with the job without a cause"
        raise ParameterError(msg)
    folder = Path(folder)
    if cause is not None:
        plan = _plan(cause, layout, ranks=ranks, steps=steps, events=events, seed=seed)
        if not healthy:
            plan = CAUSES[cause].plant(plan)
        _make_room(folder, ranks)
        paths = {rank: folder / _file_name(rank) for rank in plan.files}
        write_plan(plan, paths)
        return list(paths.values())
    if layout is not None or healthy:
        msg = "layout and healthy go with a cause; give cause="
        raise ParameterError(msg)
    _make_room(folder, ranks)
    recording = recording or EVERYTHING
    job = SampleJob(ranks, steps, _layers(events, steps, recording), seed)
    files = [folder / _file_name(rank) for rank in range(ranks)]
    _write(job, files, recording, progress=progress)
    return files


def _write(job: SampleJob, paths: Sequence[Path], recording: Recording, *, progress: bool) -> None:
    """Write the file of each rank while all of them run."""
    with ExitStack() as stack:
        files = [
            stack.enter_context(KinetoFile.writing(path, _header(job, rank, recording)))
            for rank, path in enumerate(paths)
        ]
        processes = simulate(job, files, recording, progress=progress)
        for file, process in zip(files, processes, strict=True):
            file.finish(recording_footer(process))


def _plan(
    name: str, layout: Layout | None, *, ranks: int, steps: int, events: int | None, seed: int
) -> Plan:
    """Return the healthy job for a cause."""
    cause = cause_named(name)
    if ranks < FEWEST_RANKS_WITH_CAUSE:
        msg = f"ranks must be {FEWEST_RANKS_WITH_CAUSE} or more with a cause, got {ranks}"
        raise ParameterError(msg)
    if events is not None:
        msg = f"events sets the size of the sample job without a cause, got cause={name!r} too"
        raise ParameterError(msg)
    return cause.healthy_plan(layout, ranks=ranks, steps=steps, seed=seed)


def simulate(
    job: SampleJob, sinks: Sequence[EventSink], recording: Recording, *, progress: bool = False
) -> list[Process]:
    """Run all ranks side by side, letting each all-reduce wait for its last rank."""
    meetings = Meetings()
    processes = [
        Process(
            Recorder(rank, sink, recording),
            start_ns=FIRST_MOMENT_NS,
            noise=UniformNoise(job.seed, rank),
            hardware=job,
            meetings=meetings,
        )
        for rank, sink in enumerate(sinks)
    ]
    all_reduces = job.steps * job.layers
    with tqdm(total=all_reduces, desc="sample job", unit="all-reduce", disable=not progress) as bar:
        programs = [Training(job, process).run() for process in processes]
        run_programs(programs, lambda: bar.update(bar.n < all_reduces))
    return processes


def _header(job: SampleJob, rank: int, recording: Recording) -> str:
    groups = [job.group.as_recorded()] if recording.collective_fields else []
    return header(rank, groups, job.ranks, asdict(job), recording.flags)


def _layers(events: int | None, steps: int, recording: Recording) -> int:
    if events is None:
        return FEWEST_LAYERS
    fewest, one_more = (_entries_per_step(FEWEST_LAYERS + extra, recording) for extra in (0, 1))
    extra = round((events / steps - fewest) / (one_more - fewest))
    return FEWEST_LAYERS + max(0, extra)


def _entries_per_step(layers: int, recording: Recording) -> int:
    counter = EntryCounter()
    simulate(SampleJob(ranks=1, steps=1, layers=layers, seed=0), [counter], recording)
    return counter.entries


def _make_room(folder: Path, ranks: int) -> None:
    """Remove older sample files; refuse if another file has one of the names."""
    folder.mkdir(parents=True, exist_ok=True)
    ours = [path for path in folder.glob("rank-*.json.gz") if is_sample_file(path)]
    for path in (folder / _file_name(rank) for rank in range(ranks)):
        if path.exists() and path not in ours:
            msg = f"{path} exists and is not a sample trace; choose another folder"
            raise HtaWidgetsError(msg)
    for path in ours:
        path.unlink()


def _file_name(rank: int) -> str:
    return f"rank-{rank}.json.gz"
