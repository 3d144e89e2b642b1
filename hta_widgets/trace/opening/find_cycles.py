"""Find the cycles of files that state, or have in their names, which rank recorded them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from hta_widgets.trace.model.formats import Metadata
from hta_widgets.trace.opening.fetch import FetchedSource
from hta_widgets.trace.opening.rank_numbers import rank_in_file_name
from hta_widgets.trace.opening.recordings import Recording
from hta_widgets.trace.opening.run_choices import SeveralRunsError
from hta_widgets.trace.opening.runs import Run, runs_of
from hta_widgets.trace.ranks import cache
from hta_widgets.trace.ranks.cycle import Cycle
from hta_widgets.trace.ranks.source import RankSource

_MOST_READ: Final = 16
"""Processes without a rank that are searched for GPU work, each up to the first of it."""

_MAX_NAMES: Final = 5


def cycles_of_files(
    sources: Mapping[Path, RankSource], fetched: FetchedSource, notices: list[str]
) -> list[Cycle]:
    """Sort files into the cycles of one run, in order of time.

    Parameters
    ----------
    sources : mapping of Path to RankSource
        Of a format that states ranks, by the path of the file, or of its first bytes.
    fetched : FetchedSource
    notices : list of str
        What was left out is added.

    Raises
    ------
    SeveralRunsError
        If they are of several runs, or it is not known which go together.
    """
    runs = runs_of([_recording(file, source, fetched) for file, source in sources.items()])
    if len(runs) > 1:
        runs = _with_gpu_work(runs, fetched, notices)
    if len(runs) > 1 or runs[0].cycles is None:
        raise SeveralRunsError(runs)
    return [_cycle(recordings) for recordings in runs[0].cycles]


def _recording(file: Path, source: RankSource, fetched: FetchedSource) -> Recording:
    """What is known of a file: what it states, and then what its name does.

    Metadata after the events comes from the cache if the trace is cached, without fetching it.
    """
    named = rank_in_file_name(file.name)

    def read_metadata() -> Metadata:
        cached = cache.load(source, named or 0)
        return cached.trace.metadata if cached else fetched.read_metadata(source)

    form = source.format
    if form.stated_in is None:
        raise AssertionError(form)
    stated = form.stated_in(file, read_metadata)
    return Recording.of(source, named if stated.rank is None else stated.rank, stated)


def _with_gpu_work(runs: list[Run], fetched: FetchedSource, notices: list[str]) -> list[Run]:
    """Leave out processes without a rank and without GPU work, unless nothing else is there.

    vLLM records its front end, which is no rank, beside its workers.
    """
    unclear = [run for run in runs if run.recordings[0].rank is None]
    if len(unclear) > _MOST_READ:
        return runs
    idle = [run for run in unclear if not _has_gpu_work(run.recordings[-1], fetched)]
    if not idle or len(idle) == len(runs):
        return runs
    names = [each.name for run in idle for each in run.recordings]
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    have, are = ("has", "is") if len(names) == 1 else ("have", "are")
    some = ", ".join(names[:_MAX_NAMES])
    notices.append(f"{some}{more} {have} no rank and no GPU work and {are} left out")
    return [run for run in runs if run not in idle]


def _has_gpu_work(recording: Recording, fetched: FetchedSource) -> bool:
    has_gpu_work = recording.source.format.has_gpu_work
    if recording.is_of_front_end or has_gpu_work is None:
        return False
    return has_gpu_work(recording.source.fetch(progress=fetched.progress).path)


def _cycle(recordings: Sequence[Recording]) -> Cycle:
    times = [each.time_ns for each in recordings if each.time_ns is not None]
    steps = [each.step for each in recordings if each.step is not None]
    stages = {each.stage for each in recordings}
    return Cycle(
        {each.rank or 0: each.source for each in recordings},
        time_ns=min(times, default=None),
        step=min(steps, default=None),
        stage=stages.pop() if len(stages) == 1 else "",
    )
