"""Read a picture back: its boxes, lines and texts, in pixels."""

from __future__ import annotations

import re
from dataclasses import dataclass
from xml.etree import ElementTree as ET

SVG = "{http://www.w3.org/2000/svg}"
NUMBER = r"-?\d+(?:\.\d+)?"
BOX = re.compile(rf"M({NUMBER}) ({NUMBER})h({NUMBER})v({NUMBER})h-{NUMBER}z")


@dataclass(frozen=True)
class Box:
    left: float
    top: float
    width: float
    height: float
    color: str
    opacity: float

    @property
    def right(self) -> float:
        return self.left + self.width

    @property
    def bottom(self) -> float:
        return self.top + self.height


def parsed(picture: str) -> ET.Element:
    return ET.fromstring(picture)  # noqa: S314  # ours


def paths(picture: str) -> list[ET.Element]:
    return list(parsed(picture).iter(f"{SVG}path"))


def boxes(picture: str) -> list[Box]:
    return [
        Box(*map(float, found), path.get("fill", ""), float(path.get("fill-opacity", 1)))
        for path in paths(picture)
        for found in BOX.findall(path.get("d", ""))
    ]


def texts(picture: str) -> list[str]:
    return [str(each.text) for each in parsed(picture).iter(f"{SVG}text")]


def placed_texts(picture: str) -> dict[str, tuple[float, float]]:
    found = parsed(picture).iter(f"{SVG}text")
    return {str(each.text): (float(each.get("x", 0)), float(each.get("y", 0))) for each in found}


def steps(path: str) -> list[tuple[float, float]]:
    """Corners of a path of M, H and V."""
    x = y = 0.0
    corners = []
    for command, numbers in re.findall(rf"([MHV])((?:{NUMBER} ?)+)", path):
        values = [float(each) for each in numbers.split()]
        x = values[0] if command in "MH" else x
        y = values[-1] if command in "MV" else y
        corners.append((x, y))
    return corners


def coordinates(picture: str) -> list[tuple[float, float]]:
    """Every absolute place that a path goes to, without arcs."""
    return [
        (float(x), float(y))
        for path in paths(picture)
        for x, y in re.findall(rf"[ML]({NUMBER}) ({NUMBER})", path.get("d", ""))
    ]
