"""Messages between the timeline and its page.

js/src/timeline/types.ts declares the same types, and a test compares the two.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, TypedDict

from hta_widgets.analyses.timeline.event import EventPick, EventPlace
from hta_widgets.analyses.timeline.tracks import LaneName
from hta_widgets.figures.timeline import ClassLook


class Plane(TypedDict):
    """Coverage of one class in one lane: `bins` bytes from `at`, 255 for a covered pixel."""

    code: int
    at: int


Step: TypeAlias = tuple[int, int, int]
"""Number, start and end (ns on the common clock) of a step."""


class StackedStep(TypedDict):
    """A step of one of two jobs that are shown one below the other.

    `second` is true for the job that is not the dashboard's. `typical` is the step shown by
    default. `seen` has alternating starts and ends (ns since the start of the step) of the pieces
    of the open row, and `said` is their total in words.
    """

    second: bool
    job: str
    rank: int
    step: int
    typical: int
    seen: list[int]
    said: str


class Band(TypedDict):
    """A class over all ranks: three planes from `at`, for minimum, median and maximum."""

    code: int
    at: int


class RankRow(TypedDict):
    """The lane of a rank.

    `waiting` is the share of the analysed time in which the rank waits for others.
    """

    rank: int
    steps: list[Step]
    planes: list[Plane]
    waiting: float


class WindowLane(TypedDict):
    """The lane at this position in the request: its planes, and where its events are in the arrays.

    `found` is the offset of the plane of search hits, or None. `curves` has an offset per curve, at
    which the minimum of each pixel starts, followed by the maximum of each pixel.
    """

    lane: int
    found: int | None
    curves: list[int]
    planes: list[Plane]
    first: int
    count: int
    complete: bool


class TimelineLayout(TypedDict):
    """What the browser draws before it asks for anything.

    All times are ns since the first event of all ranks. `home` is the analysed time, `span` the
    whole recording. The planes of `ranks` are in `_overview`, which divides `home` into `bins`
    equal bins. Many ranks also have `bands`, whose planes divide it into `band_bins`. `held` says
    whether windows of all ranks can be answered without loading any rank. Windows of bands have at
    most `band_pixels` pixels, 0 if there are no bands.
    """

    classes: list[ClassLook]
    ranks: list[RankRow]
    span: tuple[int, int]
    home: tuple[int, int]
    bins: int
    held: bool
    bands: list[Band]
    band_bins: int
    band_pixels: int


class WindowAnswer(TypedDict):
    """Lanes in a window of `bins` pixels; `labels` are short forms of the events' `names`."""

    kind: Literal["window"]
    id: int
    start: int
    end: int
    bins: int
    lanes: list[WindowLane]
    names: list[str]
    labels: list[str]


class BandsAnswer(TypedDict):
    """Bands of the requested ranks in a window of `bins` pixels; the planes follow as bytes."""

    kind: Literal["bands"]
    id: int
    start: int
    end: int
    bins: int
    bands: list[Band]


class LanesAnswer(TypedDict):
    """All lanes of a rank."""

    kind: Literal["lanes"]
    id: int
    rank: int
    lanes: list[LaneName]


class AddedAnswer(TypedDict):
    """The added lanes of a rank, and the reason for each kind that it has none of."""

    kind: Literal["added"]
    id: int
    rank: int
    lanes: list[LaneName]
    none: list[str]


class KindOfLane(TypedDict):
    """A kind of lane that can be added, and why there are none; empty if there may be some."""

    name: str
    label: str
    why_none: str


class KindsAnswer(TypedDict):
    """All kinds of lanes that can be added."""

    kind: Literal["kinds"]
    id: int
    kinds: list[KindOfLane]


class EventAnswer(TypedDict):
    """An event, what its launch links it to, and its operator in the capture of its graph."""

    kind: Literal["event"]
    id: int
    rank: int
    event: EventPlace
    launch: EventPlace | None
    launched: list[EventPlace]
    captured: str
    pick: EventPick | None


class NoneAnswer(TypedDict):
    """There is no such event."""

    kind: Literal["none"]
    id: int


class RefusedAnswer(TypedDict):
    """The request was malformed."""

    kind: Literal["refused"]
    id: int
    error: str


class RecordedWindow(TypedDict):
    """The answer for the lane with this key, over all of the analysed time."""

    key: str
    content: WindowAnswer
    buffers: list[bytes]


class RecordedRank(TypedDict):
    """Answers about a rank, stored in a report."""

    rank: int
    lanes: list[LaneName]
    windows: list[RecordedWindow]
