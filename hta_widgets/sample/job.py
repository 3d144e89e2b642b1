"""Write the trace files of the sample job."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict
from pathlib import Path

from tqdm import tqdm

from hta_widgets.errors import HtaWidgetsError, ParameterError
from hta_widgets.sample.kineto_file import (
    EntryCounter,
    EventSink,
    KinetoFile,
    footer,
    header,
    is_sample_file,
)
from hta_widgets.sample.process import Process
from hta_widgets.sample.training import SampleJob, Training

FIRST_MOMENT_NS = 1_365_627_862_757_064
FEWEST_LAYERS = 2


def write_sample(
    folder: str | Path,
    *,
    ranks: int = 4,
    steps: int = 5,
    events: int | None = None,
    seed: int = 0,
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
        of the network; at least two, the default.
    seed
        Seed of the random variation of all durations.
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
    """
    for name, value in (("ranks", ranks), ("steps", steps), ("events", events)):
        if value is not None and value < 1:
            msg = f"{name} must be 1 or more, got {value}"
            raise ParameterError(msg)
    folder = Path(folder)
    _make_room(folder, ranks)
    job = SampleJob(ranks, steps, _layers(events, steps), seed)
    paths = [folder / _file_name(rank) for rank in range(ranks)]
    with ExitStack() as stack:
        files = [
            stack.enter_context(KinetoFile.writing(path, header(rank, ranks, asdict(job))))
            for rank, path in enumerate(paths)
        ]
        processes = simulate(job, files, progress=progress)
        for file, process in zip(files, processes, strict=True):
            file.finish(_footer(process))
    return paths


def simulate(
    job: SampleJob, sinks: Sequence[EventSink], *, progress: bool = False
) -> list[Process]:
    """Run all ranks side by side, letting each all-reduce wait for its last rank."""
    processes = [
        Process(
            rank,
            seed=job.seed,
            start_ns=FIRST_MOMENT_NS,
            slowdown=job.slowdown(rank),
            sink=sink,
        )
        for rank, sink in enumerate(sinks)
    ]
    runs = [Training(job, rank, process).run() for rank, process in enumerate(processes)]
    arrivals = [next(run) for run in runs]
    for _ in tqdm(
        range(job.steps * job.layers), desc="sample job", unit="all-reduce", disable=not progress
    ):
        arrivals = _resume(runs, max(arrivals))
    return processes


def _resume(runs: Sequence[Generator[int, int, None]], last_arrival_ns: int) -> list[int]:
    """Finish a collective on all ranks and run them to the next one, or to their end."""
    arrivals = []
    for run in runs:
        with suppress(StopIteration):
            arrivals.append(run.send(last_arrival_ns))
    return arrivals


def _layers(events: int | None, steps: int) -> int:
    if events is None:
        return FEWEST_LAYERS
    fewest, one_more = (_entries_per_step(FEWEST_LAYERS + extra) for extra in (0, 1))
    extra = round((events / steps - fewest) / (one_more - fewest))
    return FEWEST_LAYERS + max(0, extra)


def _entries_per_step(layers: int) -> int:
    counter = EntryCounter()
    simulate(SampleJob(ranks=1, steps=1, layers=layers, seed=0), [counter])
    return counter.entries


def _footer(process: Process) -> str:
    threads = {process.pid: "python", process.autograd_tid: "pt_autograd_0"}
    span_ns = (FIRST_MOMENT_NS, process.now_ns)
    return footer(process.pid, process.device, process.stream_end_ns, threads, span_ns)


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
