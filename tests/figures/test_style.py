"""What all figures share."""

from __future__ import annotations

import plotly.graph_objects as go

from hta_widgets.figures.style import figure, titled


def test_a_title_takes_no_room_from_the_chart():
    def chart_height(drawn: go.Figure) -> int:
        margin = drawn.layout.margin
        return drawn.layout.height - margin.t - margin.b

    before = chart_height(figure([go.Bar(y=[1])]))
    drawn = titled(figure([go.Bar(y=[1])]), "Idle time")
    assert drawn.layout.title.text == "Idle time"
    assert chart_height(drawn) == before


def test_a_title_stands_above_the_legend():
    one, two = (titled(figure([go.Bar(y=[1])] * count), "Idle time") for count in (1, 2))
    assert two.layout.margin.t > one.layout.margin.t
