"""Write the trace files of the sample job."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

from hta_widgets.errors import HtaWidgetsError, ParameterError, write_errors
from hta_widgets.progress import counted_bar
from hta_widgets.sample.communication import Meetings
from hta_widgets.sample.execution import run_programs
from hta_widgets.sample.kineto_file import (
    EntryCounter,
    EventSink,
    KinetoFile,
    footer,
    header,
    is_sample_file,
)
from hta_widgets.sample.process import FIRST_MOMENT_NS, Noise, Process
from hta_widgets.sample.recorder import EVERYTHING, Recorder, Recording
from hta_widgets.sample.training import SampleJob, Training

FEWEST_LAYERS = 2


def write_sample(
    folder: str | Path,
    *,
    ranks: int = 4,
    steps: int = 5,
    events: int | None = None,
    seed: int = 0,
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
        of the network (at least two, which is the default).
    seed
        Seed of the random variation of all durations.
    recording
        What the profiler writes; by default, shapes, stacks, modules and memory.
    progress
        Show a progress bar.

    Returns
    -------
    list of Path
        The file of each rank.

    Raises
    ------
    ParameterError
        If an argument is outside its range.
    HtaWidgetsError
        If a file of that name exists that `write_sample` did not write.
    WriteError
        If the system refuses to write.
    """
    for name, value in (("ranks", ranks), ("steps", steps), ("events", events)):
        if value is not None and value < 1:
            msg = f"{name} must be 1 or more, got {value}"
            raise ParameterError(msg)
    recording = recording or EVERYTHING
    job = SampleJob(ranks, steps, _layers(events, steps, recording), seed)
    with write_errors(folder):
        files = make_room(Path(folder), ranks)
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


def simulate(
    job: SampleJob, sinks: Sequence[EventSink], recording: Recording, *, progress: bool = False
) -> list[Process]:
    """Run all ranks side by side, letting each all-reduce wait for its last rank."""
    meetings = Meetings()
    processes = [
        Process(
            Recorder(rank, sink, recording),
            noise=Noise(job.seed, rank),
            hardware=job,
            meetings=meetings,
        )
        for rank, sink in enumerate(sinks)
    ]
    all_reduces = job.steps * job.layers
    with counted_bar("sample job", all_reduces, show=progress) as advance:
        programs = [Training(job, process).run() for process in processes]
        turns = iter([1] * all_reduces)  # the last turns end programs
        run_programs(programs, lambda: advance(next(turns, 0)))
    return processes


def recording_footer(process: Process) -> str:
    """Write the names of rows, and the window of the recording."""
    recorder = process.recorder
    threads = {recorder.pid: "python", process.autograd_tid: "pt_autograd_0"}
    span_ns = (recorder.clock.read(FIRST_MOMENT_NS), recorder.clock.read(process.now_ns))
    return footer(recorder.pid, recorder.device, process.streams, threads, span_ns)


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


def make_room(folder: Path, ranks: int) -> list[Path]:
    """Remove the files of an earlier sample, and return the paths for all ranks.

    Raises `HtaWidgetsError` if a file with such a name exists that is not a sample.
    """
    folder.mkdir(parents=True, exist_ok=True)
    ours = [path for path in folder.glob("rank-*.json.gz") if is_sample_file(path)]
    paths = [folder / f"rank-{rank}.json.gz" for rank in range(ranks)]
    for path in paths:
        if path.exists() and path not in ours:
            msg = f"{path} exists and is not a sample trace; choose another folder"
            raise HtaWidgetsError(msg)
    for path in ours:
        path.unlink()
    return paths
