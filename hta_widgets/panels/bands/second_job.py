"""What a job can be compared with: traces next to its own, offered and opened by a click."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import pandas as pd
from traitlets import Unicode

from hta_widgets.analyses.result import Result
from hta_widgets.diagnosis.change.baseline import (
    FOLDER,
    LARGEST_FILE,
    SUFFIX,
    BaselineError,
    parsed_baseline,
    read_baseline,
)
from hta_widgets.diagnosis.change.summary import Summary
from hta_widgets.errors import HtaWidgetsError, reason
from hta_widgets.names.shorten import in_common
from hta_widgets.panels.base.panel import Panel
from hta_widgets.panels.base.updates import locked
from hta_widgets.quantities import counted, data_size
from hta_widgets.trace.job import Job
from hta_widgets.trace.loaders.formats import FORMATS
from hta_widgets.trace.loaders.kineto.format import KINETO
from hta_widgets.trace.opening.find_captures import FOLDER as CAPTURES
from hta_widgets.trace.opening.find_captures import NAMED
from hta_widgets.trace.opening.open import open_trace
from hta_widgets.trace.ranks.cycle import descriptions

SECOND: Final = "second"
"""Key of the messages between page and panel about what to compare with."""

MOST_OFFERED: Final = 30
"""Maximum offers; names that start like the job's come first, then the most recently changed."""

MOST_READ: Final = 2_000
"""Maximum entries of a folder to list."""

MOST_IN_A_FOLDER: Final = 200
"""The same for a neighbouring folder, to see whether it holds traces."""

SMALL: Final = 65_536
"""Bytes of a JSON file up to which it is read to see whether it is a trace: most that lie next to
traces are settings or results."""

_TRACES: Final = (".json", ".json.gz", ".sqlite", ".parquet")
_TABLES: Final = ("conc_kernel.csv", "cuda_runtime.csv")


class Offer(NamedTuple):
    """Something that a job can be compared with."""

    label: str
    """Its name, without parent folders."""
    detail: str
    """What it is."""
    open: Callable[[], Job | Summary]


def offers(job: Job) -> list[Offer]:
    """List what a job can be compared with: its other cycles, neighbouring traces, baselines.

    Folders are listed but nothing is read except JSON files that are too small for most traces, so
    that traces nobody asked for stay closed.
    """
    cycles = [
        Offer(words, "cycle of the same run", lambda number=number: job.open_cycle(number))  # type: ignore[misc]
        for number, words in enumerate(descriptions(job.cycles))
        if len(job.cycles) > 1 and number != job.cycle
    ]
    own = [name for path in _own_files(job) for name in (path.name, path.parent.name)]

    def order(found: tuple[float, Offer]) -> tuple[int, float, str]:
        changed, offer = found
        alike = max((in_common(name, offer.label) for name in own), default=0)
        return -alike, -changed, offer.label

    found = sorted(_beside(job), key=order)
    return [*cycles, *(offer for _, offer in found[:MOST_OFFERED])]


def _own_files(job: Job) -> set[Path]:
    """The files of all cycles of a job."""
    of_all_cycles = [each.sources for each in job.cycles] or [job.sources]
    every = [source for sources in of_all_cycles for source in sources.values()]
    return {source.path.absolute() for source in every if source.remote is None}


def _beside(job: Job) -> Iterator[tuple[float, Offer]]:
    """Files and folders of traces near those of a job, with the time of their last change."""
    own = _own_files(job)
    folders = dict.fromkeys(path.parent for path in sorted(own))
    around = [*folders, *dict.fromkeys(each.parent for each in folders)]
    seen = own | {*folders}
    for folder in dict.fromkeys(around):
        for entry in _entries(folder, MOST_READ):
            if Path(entry.path) not in seen:
                yield from _offered(entry)
    here = Path.cwd().absolute() / FOLDER
    for folder in dict.fromkeys((here, *(each / FOLDER for each in around))):
        for entry in _entries(folder, MOST_READ):
            yield from _offered(entry)


def _entries(folder: Path, most: int) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return [entry for entry, _ in zip(found, range(most), strict=False)]
    except OSError:
        return []


def _offered(entry: os.DirEntry[str]) -> Iterator[tuple[float, Offer]]:
    if entry.name.startswith(".") or entry.name == CAPTURES or NAMED.match(entry.name):
        return  # recordings of graph captures belong to a job, and are none
    try:
        state = entry.stat()
        what = (
            _folder(Path(entry.path)) if entry.is_dir() else _file(Path(entry.path), state.st_size)
        )
    except OSError:
        return
    if what:
        changed = datetime.fromtimestamp(state.st_mtime).astimezone()
        detail = f"{what}, {changed:%Y-%m-%d %H:%M}"
        path = entry.path
        yield state.st_mtime, Offer(entry.name, detail, lambda: opened(path))


def _file(path: Path, size: int) -> str:
    name = path.name
    if any(each.is_part(name) for each in FORMATS):
        return ""  # part of a trace that is a folder
    if name.endswith(KINETO.suffixes) and size <= SMALL and not KINETO.matches(path):
        return ""
    if name.endswith(SUFFIX):
        return f"baseline, {data_size(size)}"
    return f"file, {data_size(size)}" if name.endswith(_TRACES) else ""


def _folder(path: Path) -> str:
    names = [entry.name for entry in _entries(path, MOST_IN_A_FOLDER)]
    count = sum(name.endswith(_TRACES) for name in names)
    if not count and not {*names} & {*_TABLES}:
        return ""
    return f"folder, {counted(count, 'trace file')}" if count else "folder of CUPTI tables"


def opened(path: str) -> Job | Summary:
    """Open traces, or a baseline if the name is that of one."""
    path = path.strip()
    if path.endswith(SUFFIX):
        return read_baseline(str(Path(path).expanduser()))
    return open_trace(path, progress=False)


class SecondJobPanel(Panel[Result]):
    """What to compare a job with: neighbouring traces, any path, or a baseline.

    Its offers are sent when a page asks, and never saved in a notebook. Nothing is opened without
    a click.
    """

    name = "second_job"
    tab = "compare"
    place = 3
    title = "Compare with…"
    any_number_of_ranks = True

    _second = Unicode().tag(sync=True)
    """Name of what the job is compared with now; empty for nothing."""

    def __init__(
        self,
        job: Job,
        taken: Callable[[Job | Summary | None], None],
        **parameters: Any,  # noqa: ANN401
    ) -> None:
        self._taken = taken
        self._offers: list[Offer] = []
        super().__init__(job, **parameters)

    def say(self, second: Job | Summary | None) -> None:
        """Tell the page what the job is compared with."""
        self._second = second.name if second else ""

    def analyse(self, ranks: list[int]) -> Result:
        """Say what there is to do."""
        return Result(
            finding="Pick a job to compare with, or set dash.compare = path.",
            notices=self.job.notices_for(ranks or self.job.ranks),
        )

    def tabulate(self, result: Result) -> pd.DataFrame:  # noqa: ARG002
        """List nothing, as folder names would be saved with a notebook."""
        return pd.DataFrame()

    def _handle_custom_msg(self, content: Any, buffers: Any) -> None:  # noqa: ANN401
        asked = content.get(SECOND) if isinstance(content, dict) else None
        if asked is None:
            super()._handle_custom_msg(content, buffers)
        elif asked == "offers":
            self._offers = offers(self.job)
            shown = [[each.label, each.detail] for each in self._offers]
            self.send({SECOND: "offers", "offers": shown})
        else:
            self._answer_pick(content, buffers)

    @locked
    def _answer_pick(self, content: dict[str, Any], buffers: Any) -> None:  # noqa: ANN401
        """Open what was picked, or say why that failed."""
        error = ""
        try:
            self._taken(self._picked(content, buffers))
        except Exception as failure:  # noqa: BLE001  # it is shown in the panel
            error = self._shortening()(reason(failure))
        self.send({SECOND: "picked", "error": error})

    def _picked(self, content: dict[str, Any], buffers: Any) -> Job | Summary | None:  # noqa: ANN401
        asked, value = content[SECOND], content.get("value")
        if asked == "nothing":
            return None
        if asked == "offer" and type(value) is int and 0 <= value < len(self._offers):
            return self._offers[value].open()
        if asked == "path" and isinstance(value, str) and value.strip():
            return opened(value)
        if asked == "file" and isinstance(value, str) and len(buffers) == 1:
            data = bytes(buffers[0])
            if not value.endswith(SUFFIX) or len(data) > LARGEST_FILE:
                msg = (
                    f"{Path(value).name[:80]} is not a baseline: drop a {SUFFIX} file written by "
                    "hta-widgets baseline save, or type the path of traces"
                )
                raise BaselineError(msg)
            return parsed_baseline(data, Path(value).name[:80])
        msg = "there is nothing to open: pick an entry, or type a path"
        raise HtaWidgetsError(msg)
