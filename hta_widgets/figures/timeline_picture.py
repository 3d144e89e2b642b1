"""Lanes of all ranks, or one step of each of two jobs, as a small SVG for pages with no kernel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final

import numpy as np

from hta_widgets.analyses.timeline import Timeline
from hta_widgets.analyses.timeline.classes import CODE, HIDDEN
from hta_widgets.analyses.timeline.overview import OVERVIEW_CLASSES, RankOverview
from hta_widgets.arrays import Int64Array, IntArray
from hta_widgets.diagnosis.change.one_step import OneStep
from hta_widgets.figures.svg.elements import decimal, element, label, text_width
from hta_widgets.figures.svg.frame import WIDTH
from hta_widgets.figures.svg.picture import whole
from hta_widgets.figures.timeline import ClassLook, class_looks
from hta_widgets.intervals import Intervals
from hta_widgets.quantities import duration

PICTURE_BYTES: Final = 20_000
"""Maximum size of the picture."""

MOST_LANES: Final = 16
"""Maximum number of ranks drawn, from the first one on."""

_LEFT, _HEAD, _GAP = 64, 18, 4
_LANE, _RAIL = 16, 2
_NARROWEST: Final = 2
"""Least mean width (px) of steps that are drawn one by one: 20,000 time steps of a simulation took
all of the picture's bytes, and it was left out."""

_COLUMNS: Final = (348, 232, 116, 58)
"""Numbers of columns, tried in turn until the picture is small enough."""

_IDLE_OPACITY: Final = ".42"
_HATCH: Final = (
    '<pattern id="hatch-{0}" width="5" height="5" patternTransform="rotate(45)" '
    'patternUnits="userSpaceOnUse"><path d="M0 0H5V5H0z" fill="{1}" fill-opacity=".4"/>'
    '<path d="M0 0H2.5V5H0z" fill="{1}"/></pattern>'
)


def timeline_picture(result: Timeline) -> str:
    """Draw the lane of each rank as SVG of at most `PICTURE_BYTES`; empty if there are none.

    Each column is filled in proportion to the time covered, to a pixel.
    """
    overviews = dict([*result.overviews.items()][:MOST_LANES])
    if not any(each.by_step_ns.any() for each in overviews.values()):
        return ""
    drawn = (_picture(result, overviews, columns) for columns in _COLUMNS)
    return next((each for each in drawn if len(each.encode()) <= PICTURE_BYTES), "")


def _picture(result: Timeline, overviews: dict[int, RankOverview], columns: int) -> str:
    looks = class_looks()
    steps = "".join(_steps(result, next(iter(overviews))))
    content = [steps]
    top = _HEAD + _GAP
    boxes: dict[int, list[str]] = {}
    for rank, overview in overviews.items():
        content.append(label(f"rank {rank}", 0, top + _LANE / 2))
        for code, box in _boxes(overview.covered_ns, looks, columns, top):
            boxes.setdefault(code, []).append(box)
        top += _LANE + _GAP
    return _drawn(content, boxes, looks, top)


def steps_picture(shown: Sequence[tuple[OneStep, str]]) -> str:
    """Draw one step of each of two jobs, one below the other, on one axis from the steps' starts.

    Each has a lane that shows what the GPU does and waits for. Below it are the pieces that belong
    to the open row of the waterfall; the text next to them says how much time they take.
    """
    looks = class_looks()
    longest_ns = max((each.length_ns for each, _ in shown), default=0)
    if not longest_ns:
        return ""
    content: list[str] = []
    boxes: dict[int, list[str]] = {}
    top = _GAP
    for step, said in shown:
        which = f"step {step.step}" if step.step >= 0 else "GPU span"
        texts = [f"{step.job}, rank {step.rank}, {which}: {duration(step.length_ns)}", said]
        content.append(
            label(" · ".join(each for each in texts if each), 0, top + _HEAD / 2, at_most=WIDTH)
        )
        top += _HEAD
        width = WIDTH * step.length_ns / longest_ns
        columns = step.covered_ns.shape[1]
        for code, box in _boxes(step.covered_ns, looks, columns, top, left=0, width=width):
            boxes.setdefault(code, []).append(box)
        top += _LANE + _RAIL
        scale = WIDTH / longest_ns
        pieces = [
            (round(first * scale), max(round(last * scale), round(first * scale) + 1))
            for first, last in step.seen[["start_ns", "end_ns"]].itertuples(index=False)
        ]
        marks = Intervals.union([first for first, _ in pieces], [last for _, last in pieces])
        lit = "".join(
            _box(first, top, last - first, 2 * _RAIL)
            for first, last in zip(marks.starts.tolist(), marks.ends.tolist(), strict=True)
        )
        content.append(element("path", d=lit) if lit else "")
        top += 2 * (_RAIL + _GAP)
    return _drawn(content, boxes, looks, top)


def _drawn(
    content: list[str], boxes: Mapping[int, list[str]], looks: Sequence[ClassLook], top: int
) -> str:
    """The picture of lanes that end at a given height, with the legend of their classes."""
    shown = [looks[code] for code in sorted(boxes)]
    content += [_filled(looks[code], "".join(boxes[code])) for code in sorted(boxes)]
    rows = list(_legend(shown, top + _GAP + 6))
    patterns = "".join(
        _HATCH.format(look["name"], look["color"])
        for look in shown
        if look["fill"] in ("hatched", "dotted")
    )
    drawn = [f"<defs>{patterns}</defs>", *content, *rows]
    return whole(top + _GAP + 16 * len(rows) + 4, "".join(drawn))


def _steps(result: Timeline, rank: int) -> Iterator[str]:
    """Bounds, numbers and durations of the steps of the first rank."""
    start, end = result.lanes.analysed
    scale = (WIDTH - _LEFT) / (end - start)
    rows = result.steps[result.steps["rank"] == rank]
    if len(rows) * _NARROWEST > WIDTH - _LEFT:
        ends = _LEFT + (rows[["start_ns", "end_ns"]].iloc[[0, -1]].to_numpy() - start) * scale
        x, width = float(ends.min()), float(np.ptp(ends))
        yield element("path", d=_box(x, 0, width, _HEAD), fill_opacity=".08")
        yield label(f"{len(rows):,} steps", x + 4, _HEAD / 2)
        return
    for place, (step, first, last) in enumerate(
        rows[["step", "start_ns", "end_ns"]].itertuples(index=False)
    ):
        x, width = _LEFT + (first - start) * scale, (last - first) * scale
        yield element(
            "path",
            d=_box(x, 0, max(width - 1, 0.5), _HEAD),
            fill_opacity=".16" if place % 2 else ".08",
        )
        length = duration(int(last - first))
        texts = [length] if step < 0 else [f"step {step}  {length}", f"step {step}", f"{step}"]
        fits = [text for text in texts if text_width(text) < width - 6]
        if fits:
            yield label(fits[0], x + 4, _HEAD / 2)


def _boxes(
    covered_ns: IntArray,
    looks: Sequence[ClassLook],
    columns: int,
    top: int,
    *,
    left: int = _LEFT,
    width: float = WIDTH - _LEFT,
) -> Iterator[tuple[int, str]]:
    """Class and outline of each filled part of one lane."""
    heights = _heights(covered_ns, columns)
    step = width / columns
    reached = np.zeros(columns, dtype=np.int64)
    for code, height in zip(OVERVIEW_CLASSES, heights, strict=True):
        if code == CODE[HIDDEN]:
            low, tall = np.zeros(columns, dtype=np.int64), np.where(height > 0, _RAIL, 0)
        else:
            low, tall = reached, np.minimum(height, _LANE - reached)
            reached = reached + tall
        if looks[code]["fill"] == "outline":
            continue
        first = 0
        pairs = zip(low.tolist(), tall.tolist(), strict=True)
        for (below, own), run in groupby(pairs):
            count = sum(1 for _ in run)
            if own:
                y = top + _LANE - below - own
                yield code, _box(left + first * step, y, count * step, own)
            first += count


def _heights(covered_ns: IntArray, columns: int) -> Int64Array:
    """Height (px) of each class in each column; the heights add up to the covered time."""
    bins = covered_ns.shape[1]
    edges = np.arange(columns) * bins // columns
    summed = np.add.reduceat(covered_ns, edges, axis=1)
    whole = max(int(summed[:-1].sum(axis=0).max(initial=1)), 1)
    return np.rint(summed * (_LANE / whole)).astype(np.int64)


def _box(x: float, y: float, width: float, height: float) -> str:
    return f"M{decimal(x)} {decimal(y)}h{decimal(width)}v{decimal(height)}h-{decimal(width)}z"


def _filled(look: ClassLook, path: str) -> str:
    is_plain = look["fill"] not in ("hatched", "dotted")
    fill = look["color"] if is_plain else f"url(#hatch-{look['name']})"
    opacity = {"fill_opacity": _IDLE_OPACITY} if look["group"] == "idle" else {}
    return element("path", d=path, fill=fill, **opacity)


def _legend(looks: Sequence[ClassLook], top: float) -> Iterator[str]:
    """Rows of colour squares with the names of the classes."""
    row, x, y = "", float(_LEFT), top
    for look in looks:
        width = text_width(look["label"]) + 30
        if x + width > WIDTH and row:
            yield row
            row, x, y = "", float(_LEFT), y + 16
        row += _filled(look, _box(x, y - 5, 10, 10)) + label(look["label"], x + 14, y)
        x += width
    yield row
