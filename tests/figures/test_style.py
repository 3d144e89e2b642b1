"""What all figures share."""

from __future__ import annotations

import re
from importlib import import_module
from itertools import combinations
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType

import pytest

from hta_widgets import figures
from hta_widgets.figures import base, idle_time
from hta_widgets.figures.base.drawing import Drawing, trace
from hta_widgets.figures.base.style import (
    ACCENT,
    CLASS_COLORS,
    CLASS_INK,
    CLASS_PATTERNS,
    OVERLAPPED,
    TYPE_COLORS,
    class_fill,
    class_marker,
    count_axis,
    drawing,
    titled,
)
from hta_widgets.figures.idle_owners import LOOKS

DRAWING = [
    import_module(f"{package.__name__}.{found.name}")
    for package in (figures, base)
    for found in iter_modules(package.__path__)
    if not found.ispkg
]
PAGES = {"light": "#FFFFFF", "dark": "#111111"}  # JupyterLab's
LEAST_CONTRAST = 3.0  # WCAG 2.2, 1.4.11: what is needed to understand a graphic


def luminance(color: str) -> float:
    parts = (int(color[place : place + 2], 16) / 255 for place in (1, 3, 5))
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    dark, light = sorted(map(luminance, (one, other)))
    return (light + 0.05) / (dark + 0.05)


def colors_of(module: ModuleType) -> set[str]:
    """All colours that the source of a module names."""
    return set(re.findall(r"#[0-9A-Fa-f]{6}\b", Path(module.__file__).read_text()))


INK = {"#000000", "#FFFFFF"}
COLORS = sorted({each for module in DRAWING for each in colors_of(module)} - INK)


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
@pytest.mark.parametrize("color", COLORS)
def test_every_colour_stands_out_from_the_page(color, page):
    assert contrast(color, page) >= LEAST_CONTRAST


def test_the_colours_of_classes_and_types_are_among_them():
    assert {*CLASS_COLORS.values(), *TYPE_COLORS.values(), OVERLAPPED, ACCENT} <= set(COLORS)


def test_a_type_of_kernels_has_the_colour_of_its_class():
    assert TYPE_COLORS["COMPUTATION"] == CLASS_COLORS["compute"]
    assert TYPE_COLORS["COMMUNICATION"] == CLASS_COLORS["transfer"]
    assert TYPE_COLORS["MEMORY"] == CLASS_COLORS["copies"]


@pytest.mark.parametrize("looks", [LOOKS.values(), [part[2:] for part in idle_time._SERIES]])
def test_causes_of_idle_time_differ_in_colour_or_pattern(looks):
    assert len({*looks}) == len(looks)


@pytest.mark.parametrize("name", CLASS_COLORS)
def test_text_on_a_class_is_legible(name):
    assert contrast(CLASS_INK.get(name, "#FFFFFF"), CLASS_COLORS[name]) >= LEAST_CONTRAST


@pytest.mark.parametrize(("one", "other"), [*combinations(CLASS_COLORS, 2)])
def test_classes_differ_in_colour_or_pattern(one, other):
    looks = [(CLASS_COLORS[name], CLASS_PATTERNS.get(name)) for name in (one, other)]
    assert looks[0] != looks[1]


def test_a_class_is_filled_in_the_legend_as_in_the_chart():
    fills = {name: class_fill(name) for name in CLASS_COLORS}
    assert fills["compute"] == "solid"
    assert fills["waiting"] == "hatched"
    assert fills["communication"] == "dotted"
    assert fills["other_idle"] == "outline"
    for name, fill in fills.items():
        marker = class_marker(name)
        assert ("pattern" in marker) == (fill in ("hatched", "dotted"))
        assert (marker["color"] == CLASS_COLORS[name]) == (fill != "outline")


def test_a_title_takes_no_room_from_the_chart():
    def chart_height(drawn: Drawing) -> int:
        layout = drawn.figure().layout
        return layout.height - layout.margin.t - layout.margin.b

    before = chart_height(drawing([trace("bar", y=[1])]))
    drawn = titled(drawing([trace("bar", y=[1])]), "Idle time")
    assert drawn.figure().layout.title.text == "Idle time"
    assert chart_height(drawn) == before


def test_a_title_stands_above_the_legend():
    one, two = (
        titled(drawing([trace("bar", y=[1])] * count), "Idle time").figure() for count in (1, 2)
    )
    assert two.layout.margin.t > one.layout.margin.t


def test_few_counts_are_ticked_one_by_one():
    assert count_axis("Calls", 3)["dtick"] == 1
    assert "dtick" not in count_axis("Calls", 300)
