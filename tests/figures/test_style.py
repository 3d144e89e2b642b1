"""What all figures share."""

from __future__ import annotations

from hta_widgets.figures.base.drawing import Drawing, trace
from hta_widgets.figures.base.style import drawing, titled


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
