"""What travels between the timeline and its page; js/src/timeline/types.ts has the same types.

A test compares the two.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, TypedDict

from hta_widgets.analyses.timeline.event import EventPick, EventPlace
from hta_widgets.analyses.timeline.lane_name import LaneName
from hta_widgets.figures.timeline import ClassLook


class Plane(TypedDict):
    """Coverage of one class of one lane: `bins` bytes from `at`, 255 for a covered pixel."""

    code: int
    at: int


Step: TypeAlias = tuple[int, int, int]
"""Number, start and end (ns on the common clock)."""


class StackedStep(TypedDict):
    """A step of one of two jobs, of which one is shown below the other.

    `second` is whether it is of the job that the dashboard is not of. `typical` is the step that is
    shown where none is chosen. `seen` has start and end (ns since the step began) of each piece of
    what is open in turn, and `said` how much that is.
    """

    second: bool
    job: str
    rank: int
    step: int
    typical: int
    seen: list[int]
    said: str


class Band(TypedDict):
    """A class over all ranks: three planes from `at`, of the least, the median and the most."""

    code: int
    at: int


class RankRow(TypedDict):
    """A rank's own lane.

    `waiting` is the share of the analysed time that it waits for others.
    """

    rank: int
    steps: list[Step]
    planes: list[Plane]
    waiting: float


class WindowLane(TypedDict):
    """The lane at that place of the request: its planes, and where its events are in the arrays.

    `found` is where the plane of what is looked for begins, None without any. Each curve has the
    least value of each pixel from one of `curves` on, and the largest ones behind.
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

    All times are ns since the first event of all ranks. The planes of `ranks` are bytes of
    `_overview`, which has `bins` equal bins of `home`, the time that is analysed; `span` is all of
    the recording. Many ranks also have `bands`, whose planes have `band_bins` equal bins of `home`.
    `held` tells whether windows of all ranks are answered without loading any. Windows of bands
    have at most `band_pixels`, 0 where there are none.
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
    """Lanes in a window of `bins` pixels; `labels` are the `names` of events in short."""

    kind: Literal["window"]
    id: int
    start: int
    end: int
    bins: int
    lanes: list[WindowLane]
    names: list[str]
    labels: list[str]


class BandsAnswer(TypedDict):
    """Bands of the ranks that were asked for in a window of `bins` pixels; their planes follow."""

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
    """The added lanes of a rank, and for each kind of which it has none, why."""

    kind: Literal["added"]
    id: int
    rank: int
    lanes: list[LaneName]
    none: list[str]


class KindOfLane(TypedDict):
    """A kind of lane that can be added, and why there are none of it, empty if there may be."""

    name: str
    label: str
    why_none: str


class KindsAnswer(TypedDict):
    """All kinds of lanes that can be added."""

    kind: Literal["kinds"]
    id: int
    kinds: list[KindOfLane]


class EventAnswer(TypedDict):
    """An event, what it is tied to by its launch, and its operator in the capture of its graph."""

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
    """What was asked makes no sense."""

    kind: Literal["refused"]
    id: int
    error: str


class RecordedWindow(TypedDict):
    """The answer about all of the analysed time of the lane with that key."""

    key: str
    content: WindowAnswer
    buffers: list[bytes]


class RecordedRank(TypedDict):
    """Answers about a rank that a report holds."""

    rank: int
    lanes: list[LaneName]
    windows: list[RecordedWindow]
