"""Tell what a recording is of: training, a server, a request, graph captures, compilation.

Only the distinct names of the events decide. The kind determines words, and whether anything is
priced, but never a number of an analysis.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Literal, NamedTuple, get_args

import numpy as np

from hta_widgets.grouping import distinct
from hta_widgets.intervals import Intervals
from hta_widgets.quantities import named_numbers
from hta_widgets.trace.model.captures import Captures, captures_of
from hta_widgets.trace.model.events import GPU_WORK, LAUNCH_CALLS, Events, Kind
from hta_widgets.trace.model.questions import asked_once
from hta_widgets.trace.model.server_steps import ENGINES
from hta_widgets.trace.model.steps import REQUEST_SPAN
from hta_widgets.trace.model.training import trains
from hta_widgets.trace.ranks.rank import Rank

KindName = Literal[
    "training",
    "server",
    "rollout + training",
    "request",
    "inference steps",
    "inference without marks",
    "graph capture",
    "compilation",
    "CPU only",
    "unknown",
]
"""Everything that a recording may be of."""

KIND_NAMES: Final[tuple[KindName, ...]] = get_args(KindName)

LEAST_CAPTURED: Final = 0.2
"""Smallest share of launches inside captures for a recording of captures. Real ones have 0.39 to
1.00, those that only replay have 0, and a long one that happens to capture a graph stays below."""

LEAST_COMPILING: Final = 0.2
"""Smallest share of the time inside compilation for a recording of compilation."""

CAPTURE: Final = "CAPTURE"
"""Stands for the path of a recording of captures in a command."""

_CAPTURE: Final = re.compile(r"capture_\d{1,18}_\w{1,40}", re.ASCII)
_ASKS_LOADER: Final = "enumerate(DataLoader)"
_PIPELINE: Final = "transformers/pipelines/"
"""Code that wraps even the single image of a request in a DataLoader."""
_COMPILING: Final = re.compile(
    r"torch/_dynamo/convert_frame|torch/_inductor/(compile_fx|async_compile|select_algorithm)"
    r"|compile_inner|triton/compiler/|do_bench|CUDAGraphNode\.record|\bNVRTC\b"
)


class RecordedKind(NamedTuple):
    """What one rank's recording is of."""

    name: KindName
    """One of `KIND_NAMES`."""
    engine: str = ""
    """Inference engine whose spans are recorded; empty for none."""
    captures: Captures = Captures((), 0)
    """Captured graphs."""
    capture_name: str = ""
    """First annotation ``capture_<n>_<MODE>`` of a server; empty for none."""
    compiling_percent: float = 0.0
    """Share (%) of the recording in which code is compiled."""

    @property
    def words(self) -> str:
        """Name for a header, such as ``vLLM server``; empty if the kind is not known."""
        if self.name == "server":
            return f"{self.engine} server"
        if self.name == "inference without marks":
            return "inference, steps not marked"
        if self.name == "CPU only":  # what was recorded, not where the job ran
            return "CPU side only"
        return "" if self.name == "unknown" else self.name

    @property
    def why_not_priced(self) -> str:
        """Why there is nothing to price, in sentences; empty if there is something."""
        if self.name == "graph capture":
            these = "this graph" if len(self.captures.operations) == 1 else "these graphs"
            return (
                f"This recording captures {self._graphs}: captured work does not run, so nothing "
                f"is priced. Open it with the trace that replays {these}: hta-widgets open REPLAY "
                f"--captures {CAPTURE}."
            )
        if self.name == "compilation":
            return (
                f"This recording compiles code in {self.compiling_percent:.0f} % of its time. "
                "Later steps do not repeat that, so nothing is priced. Record after compilation."
            )
        return ""

    @property
    def _graphs(self) -> str:
        sizes = sorted(self.captures.operations)
        least, most = sizes[0], sizes[-1]
        size = f"{least:,}" if least == most else f"{least:,} to {most:,}"
        named = f" ({self.capture_name})" if self.capture_name else ""
        graphs = f"{len(sizes):,} CUDA {'graph' if len(sizes) == 1 else 'graphs'}"
        return f"{graphs} of {size} {'operation' if most == 1 else 'operations'}{named}"


class _Named(NamedTuple):
    """What the names of operators and annotations say."""

    is_request: bool = False
    capture_name: str = ""
    loads: bool = False


@asked_once
def recorded_kind(rank: Rank) -> RecordedKind:
    """Find out what a recording is of; the first kind that fits counts."""
    events = rank.trace.events
    has_work = bool(events.rows_of(*GPU_WORK).size)
    captures = captures_of(events)
    engines = {span.engine for span in rank.server_steps.spans}
    engine = next((each for each in ENGINES if each in engines), "")
    if not has_work and not captures.launches:
        return RecordedKind("CPU only", engine)
    named, trained = _named(events), trains(events)
    if captures.operations and (captures.share >= LEAST_CAPTURED or named.capture_name):
        kind = RecordedKind("graph capture", engine, captures)
        return kind._replace(capture_name=named.capture_name)
    if engine:
        return RecordedKind("rollout + training" if trained else "server", engine)
    if trained:
        return RecordedKind("training")
    compiling = _compiling_share(events)
    if compiling >= LEAST_COMPILING:
        return RecordedKind("compilation", compiling_percent=100 * compiling)
    return RecordedKind(_of_inference(rank, named))


def _of_inference(rank: Rank, named: _Named) -> KindName:
    """Kind of inference, judging by the marks in it."""
    steps = len(rank.steps.distinct)
    if named.is_request or (steps == 1 and not named.loads):
        return "request"
    if not rank.trace.events.rows_of(Kind.CPU_OP).size:
        return "unknown"  # training, too, may have no ranges or kernels whose names show it
    return "inference steps" if steps else "inference without marks"


def by_rank(words: Mapping[int, str]) -> str:
    """The word that all ranks share, or else a list of the ranks with each word.

    Examples
    --------
    >>> by_rank({0: "server", 1: "server"}), by_rank({0: "server", 1: "training", 2: "training"})
    ('server', 'rank 0: server; ranks 1-2: training')
    >>> by_rank({0: "", 1: ""}), by_rank({0: "", 1: "training"})
    ('', 'rank 0: unknown; rank 1: training')
    """
    ranks: dict[str, list[int]] = {}
    for rank, word in words.items():
        ranks.setdefault(word, []).append(rank)
    if len(ranks) < 2:  # noqa: PLR2004
        return "".join(ranks)
    return "; ".join(
        f"{named_numbers('rank', each)}: {word or 'unknown'}" for word, each in ranks.items()
    )


def _named(events: Events) -> _Named:
    rows = events.rows_of(Kind.CPU_OP, Kind.ANNOTATION)
    codes, names = events.name.codes[rows], events.name.values
    is_request, captures, loads = False, [], False
    for code in distinct(codes).tolist():
        name = names[code]
        is_request |= bool(REQUEST_SPAN.fullmatch(name))
        loads |= name.startswith(_ASKS_LOADER)
        if _CAPTURE.fullmatch(name):
            captures.append(code)
    first = codes[np.isin(codes, captures)][:1].tolist()
    return _Named(
        is_request=is_request,
        capture_name="".join(names[code] for code in first),
        loads=loads and not any(_PIPELINE in name for name in names),
    )


def _compiling_share(events: Events) -> float:
    """Share of the recording, from 0 to 1, inside calls that compile."""
    rows = events.rows_of(Kind.CPU_OP, Kind.ANNOTATION, Kind.PYTHON, *LAUNCH_CALLS, *GPU_WORK)
    compiling = rows[events.named(rows, _COMPILING)]
    if not compiling.size:
        return 0.0
    span_ns = int(events.end_ns[rows].max() - events.start_ns[rows].min())
    covered = Intervals.union(events.start_ns[compiling], events.end_ns[compiling])
    return covered.length / span_ns if span_ns else 0.0
