"""Simulate a planned job, and write what its profilers record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from hta_widgets.sample.cluster import run_programs
from hta_widgets.sample.communication import Communication, Meetings
from hta_widgets.sample.execution import Meeting
from hta_widgets.sample.kineto_file import EventSink, KinetoFile, footer, header
from hta_widgets.sample.layouts import WORKERS
from hta_widgets.sample.noise import MachineNoise
from hta_widgets.sample.plan import Plan
from hta_widgets.sample.process import Process
from hta_widgets.sample.recorder import Recorder, SilentRecorder

FIRST_MOMENT_NS = 1_365_627_862_757_064
STACKS_FACTOR = 1.7
"""How many times longer the CPU takes when Python functions are recorded."""


@dataclass(frozen=True)
class Simulation:
    """What happened in a job, in true time.

    Attributes
    ----------
    meetings
        Every meeting with the communication of one of its members, if they were kept.
    """

    plan: Plan
    processes: Sequence[Process]
    meetings: Sequence[tuple[Communication, Meeting]]

    @property
    def step_ns(self) -> float:
        """Mean duration of a step, over the steps of all ranks, in ns."""
        spans = [span for process in self.processes for span in process.step_spans_ns]
        return sum(end_ns - start_ns for start_ns, end_ns in spans) / len(spans)


def simulate_plan(
    plan: Plan, sinks: Mapping[int, EventSink] | None = None, *, keep_meetings: bool = False
) -> Simulation:
    """Run all ranks of a job; those with a sink are recorded."""
    meetings = Meetings(keep=keep_meetings)
    processes = []
    for rank in range(plan.ranks):
        process = Process(
            _recorder(plan, rank, (sinks or {}).get(rank)),
            start_ns=FIRST_MOMENT_NS,
            noise=MachineNoise(plan.seed, rank),
            hardware=plan,
            meetings=meetings,
        )
        if plan.recording.stacks:
            process.python_factor = STACKS_FACTOR
        processes.append(process)
    worker = WORKERS[plan.layout]
    run_programs([worker(plan, process).run() for process in processes])
    return Simulation(plan, processes, meetings.kept)


def _recorder(plan: Plan, rank: int, sink: EventSink | None) -> Recorder:
    if sink is None:
        return SilentRecorder(rank, plan.recording)
    return Recorder(rank, sink, plan.recording, plan.clocks.get(rank))


def write_plan(plan: Plan, paths: Mapping[int, Path]) -> Simulation:
    """Simulate a job and write the trace of each rank that has a path."""
    with ExitStack() as stack:
        files = {
            rank: stack.enter_context(KinetoFile.writing(path, _header(plan, rank)))
            for rank, path in paths.items()
        }
        simulation = simulate_plan(plan, files)
        for rank, file in files.items():
            file.finish(recording_footer(simulation.processes[rank]))
    return simulation


def _header(plan: Plan, rank: int) -> str:
    recording = plan.recording
    groups = plan.groups_of(rank) if recording.collective_fields else ()
    parameters = {
        "layout": plan.layout,
        "ranks": plan.ranks,
        "steps": plan.steps,
        "seed": plan.seed,
    }
    return header(
        rank,
        [group.as_recorded() for group in groups],
        plan.ranks,
        parameters,
        recording.flags,
    )


def recording_footer(process: Process) -> str:
    """Write the names of rows, and the window of the recording."""
    recorder = process.recorder
    threads = {recorder.pid: "python", process.autograd_tid: "pt_autograd_0"}
    span_ns = (recorder.clock.read(FIRST_MOMENT_NS), recorder.clock.read(process.now_ns))
    return footer(recorder.pid, recorder.device, process.streams, threads, span_ns)
