"""What a worker does with one rank: load it, and keep it or send back what is asked of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from hta_widgets.trace.cache.trace_file import StoredTrace
from hta_widgets.trace.model.questions import Question
from hta_widgets.trace.ranks.loading import load_rank, with_links
from hta_widgets.trace.ranks.rank import Rank, RankSettings
from hta_widgets.trace.ranks.source import RankSource


class RankTask(NamedTuple):
    """One rank for a worker; small, so that it can be sent anywhere.

    Attributes
    ----------
    source : RankSource
    rank : int
    settings : RankSettings
    folder : Path
        Where the rank's Arrow file is kept; a worker that has no such folder uses its own cache.
    """

    source: RankSource
    rank: int
    settings: RankSettings
    folder: Path | None


def keep_rank(task: RankTask) -> None:
    """Load a rank, so that its Arrow file lies in the folder."""
    load_rank(task.source, task.rank, folder=task.folder)


def hold_rank(task: RankTask) -> StoredTrace:
    """Load a rank for this process, which needs no file of it but that of the cache."""
    source = task.source.here()
    held = with_links(load_rank(source, task.rank))
    if held.derived is None:
        source.drop_copy()
    return held


def reduce_rank(task: RankTask, questions: tuple[Question, ...]) -> list[Any]:
    """Load a rank and answer questions about it."""
    loaded = load_rank(task.source, task.rank, folder=task.folder)
    rank = Rank(loaded, task.source.format, task.settings)
    return [question.asked_of(rank) for question in questions]
