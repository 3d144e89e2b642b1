"""Tasks of a worker: load a rank, then store it or answer questions about it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from hta_widgets.trace.cache.trace_file import LoadedTrace
from hta_widgets.trace.model.questions import Question
from hta_widgets.trace.ranks.loading import load_rank, with_links
from hta_widgets.trace.ranks.rank import Rank, RankSettings
from hta_widgets.trace.ranks.source import RankSource


class RankTask(NamedTuple):
    """One rank for a worker; small enough to be sent anywhere.

    Attributes
    ----------
    source : RankSource
    rank : int
    settings : RankSettings
    folder : Path
        Folder for the rank's Arrow file; a worker without this folder uses its own cache.
    """

    source: RankSource
    rank: int
    settings: RankSettings
    folder: Path | None


def store_rank(task: RankTask) -> None:
    """Load a rank to store its Arrow file in the folder."""
    load_rank(task.source, task.rank, folder=task.folder)


def hold_rank(task: RankTask) -> LoadedTrace:
    """Load a rank into this process, without storing a file outside the cache."""
    source = task.source.fetch()
    held = with_links(load_rank(source, task.rank))
    if held.derived is None:
        source.drop_copy()
    return held


def reduce_rank(task: RankTask, questions: tuple[Question, ...]) -> list[Any]:
    """Load a rank and answer questions about it."""
    loaded = load_rank(task.source, task.rank, folder=task.folder)
    rank = Rank(loaded, task.source.format, task.settings, task.source)
    return [question.asked_of(rank) for question in questions]
