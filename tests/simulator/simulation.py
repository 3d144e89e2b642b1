"""Simulate a planned job, and write what its profilers record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from hta_widgets.errors import ParameterError
from hta_widgets.sample.communication import Communication
from hta_widgets.sample.execution import Meeting, run_programs
from hta_widgets.sample.job import make_room, recording_footer
from hta_widgets.sample.kineto_file import EventSink, KinetoFile, header
from tests.simulator.causes import cause_named
from tests.simulator.communication import KeptMeetings
from tests.simulator.layouts import WORKERS
from tests.simulator.plan import Layout, Plan
from tests.simulator.process import PlannedProcess, PlannedRecorder, SilentRecorder

FEWEST_RANKS = 2


@dataclass(frozen=True)
class Simulation:
    """What happened in a job, in true time.

    Attributes
    ----------
    meetings
        Every meeting, with the communication of one of its members.
    """

    plan: Plan
    processes: Sequence[PlannedProcess]
    meetings: Sequence[tuple[Communication, Meeting]]


def write_job(
    folder: str | Path,
    cause: str,
    *,
    layout: Layout | None = None,
    healthy: bool = False,
    ranks: int = 4,
    steps: int = 5,
    seed: int = 0,
) -> list[Path]:
    """Write the traces of a job with one cause.

    The same arguments give the same bytes.

    Parameters
    ----------
    folder
        As in `hta_widgets.sample.write_sample`.
    cause
        A key of `CAUSES`.
    layout
        How the work is laid out over the ranks; by default, as suits the cause.
    healthy
        Leave the cause out of the job that it would be planted in.
    ranks, steps
        Number of GPUs and of training steps.
    seed
        Of the random variation of all durations, and of the place and size of the cause.

    Returns
    -------
    list of Path
        The file of each rank that is recorded: with ``missing_rank``, all but one.

    Raises
    ------
    ParameterError
        If an argument is outside its range, or the cause makes no sense in the layout.
    HtaWidgetsError
        If a file of that name exists that is no sample.
    """
    if ranks < FEWEST_RANKS:
        msg = f"ranks must be {FEWEST_RANKS} or more, got {ranks}"
        raise ParameterError(msg)
    if steps < 1:
        msg = f"steps must be 1 or more, got {steps}"
        raise ParameterError(msg)
    planted = cause_named(cause)
    plan = planted.healthy_plan(layout, ranks=ranks, steps=steps, seed=seed)
    if not healthy:
        plan = planted.plant(plan)
    files = make_room(Path(folder), ranks)
    paths = {rank: files[rank] for rank in plan.files}
    write_plan(plan, paths)
    return list(paths.values())


def simulate_plan(plan: Plan, sinks: Mapping[int, EventSink] | None = None) -> Simulation:
    """Run all ranks of a job; those with a sink are recorded."""
    meetings = KeptMeetings()
    processes = [
        PlannedProcess(plan, _recorder(plan, rank, (sinks or {}).get(rank)), meetings)
        for rank in range(plan.ranks)
    ]
    worker = WORKERS[plan.layout]
    run_programs([worker(plan, process).run() for process in processes])
    return Simulation(plan, processes, meetings.kept)


def _recorder(plan: Plan, rank: int, sink: EventSink | None) -> PlannedRecorder:
    if sink is None:
        return SilentRecorder(rank, plan.recording)
    return PlannedRecorder(rank, sink, plan.recording, plan.clocks.get(rank))


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
