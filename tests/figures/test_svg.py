"""Pictures say what the figures say: their boxes, lines and texts are read back and measured."""

from __future__ import annotations

from math import atan2, pi

import numpy as np
import pytest

from hta_widgets.figures.base.drawing import Drawing, trace
from hta_widgets.figures.base.style import axis, drawing, names_axis
from hta_widgets.figures.base.text import plot_text
from hta_widgets.figures.svg.elements import lines_of, text_width
from hta_widgets.figures.svg.frame import WIDTH
from hta_widgets.figures.svg.picture import svg
from tests.figures.svg_geometry import (
    SVG,
    boxes,
    coordinates,
    parsed,
    paths,
    placed_texts,
    steps,
    texts,
)

EVIL = [
    "</text></svg><script>alert(1)</script>",
    '" onload="alert(1)',
    "&lt;b&gt; &amp; ]]>",
    "a<br>b",
    "\x00\x1b[31m\ufffe\ud800",
    "𝕏" * 30 + "漢字",
]


def bars(**attributes):
    return trace("bar", marker={"color": "#123456"}, **attributes)


def horizontal(values, names, **layout):
    bar = bars(x=np.array(values, dtype=float), y=np.arange(len(values)), orientation="h")
    return drawing(
        [bar], xaxis=axis("Time (ms)", rangemode="tozero"), yaxis=names_axis(names), **layout
    )


def line(x, y, **look):
    look = {"color": "#abcdef", "width": 2, **look}
    return trace("scatter", x=np.array(x), y=np.array(y), mode="lines", line=look)


class TestBars:
    def test_their_lengths_are_their_values(self):
        values = [8.0, 4.0, 1.0]
        found = boxes(svg(horizontal(values, ["a", "b", "c"])))
        scale = found[0].width / values[0]
        assert [box.width for box in found] == pytest.approx(np.array(values) * scale, abs=0.2)
        assert len({box.left for box in found}) == 1
        assert [box.top for box in found] == sorted(box.top for box in found)
        assert all(box.height > 0 and box.right < WIDTH for box in found)

    def test_their_ends_are_at_the_ticks_of_their_values(self):
        picture = svg(horizontal([0.4, 0.2], ["a", "b"]))
        found, places = boxes(picture), placed_texts(picture)
        assert found[0].right == pytest.approx(places["0.4"][0], abs=0.2)
        assert found[1].right == pytest.approx(places["0.2"][0], abs=0.2)
        assert found[0].left == pytest.approx(places["0.0"][0], abs=0.2)

    def test_names_are_beside_them(self):
        picture = svg(horizontal([1, 2], ["first", "second"]))
        for box, name in zip(boxes(picture), ("first", "second"), strict=True):
            x, y = placed_texts(picture)[name]
            assert x < box.left
            assert box.top < y < box.bottom

    def test_stacked_parts_touch_and_fill_the_whole(self):
        parts = [bars(x=np.arange(2), y=np.array(y)) for y in ([25.0, 50], [75.0, 50])]
        layout = {"xaxis": axis(range=[-0.5, 1.5]), "yaxis": axis(range=[0, 100])}
        found = boxes(svg(drawing(parts, barmode="stack", **layout)))
        below, above = found[:2], found[2:]
        for lower, upper in zip(below, above, strict=True):
            assert upper.bottom == pytest.approx(lower.top, abs=0.2)
        assert found[0].height / (found[0].height + found[2].height) == pytest.approx(
            0.25, abs=0.01
        )
        assert [box.left for box in below] == [box.left for box in above]

    def test_groups_stand_side_by_side(self):
        pair = [bars(x=np.array([3.0]), y=np.array([0]), orientation="h", name=n) for n in "ab"]
        first, second = boxes(svg(drawing(pair, barmode="group", yaxis=axis(range=[0.5, -0.5]))))
        assert first.bottom == pytest.approx(second.top, abs=0.2)
        assert first.width == second.width

    def test_a_change_down_goes_to_the_left_of_zero(self):
        bar = bars(x=np.array([-1.0, 2]), y=np.arange(2), orientation="h", width=0.5)
        picture = svg(drawing([bar], barmode="overlay", yaxis=names_axis(["a", "b"])))
        less, more = boxes(picture)
        assert less.right == pytest.approx(more.left, abs=0.2)
        assert less.width == pytest.approx(more.width / 2, abs=0.2)

    def test_what_is_not_selected_is_faint(self):
        bar = bars(x=np.arange(3), y=np.ones(3), selectedpoints=[1])
        assert sorted(box.opacity for box in boxes(svg(drawing([bar])))) == [0.6, 0.6, 1]

    def test_undefined_shares_are_left_out(self):
        bar = bars(x=np.arange(3), y=np.array([1, np.nan, 3.0]))
        assert len(boxes(svg(drawing([bar])))) == 2

    def test_an_error_bar_goes_from_min_to_max(self):
        error = {"type": "data", "symmetric": False, "array": [2.0], "arrayminus": [1.0]}
        bar = bars(x=np.array([0]), y=np.array([4.0]), error_y=error)
        picture = svg(drawing([bar], yaxis=axis(range=[0, 8])))
        (box,) = boxes(picture)
        (whisker,) = [
            path
            for path in paths(picture)
            if path.get("stroke-opacity") is None and path.get("stroke")
        ]
        (_, low), (_, high) = steps(whisker.get("d"))
        unit = box.height / 4
        assert box.bottom - low == pytest.approx(3 * unit, abs=0.2)
        assert box.bottom - high == pytest.approx(6 * unit, abs=0.2)

    def test_texts_are_at_their_ends(self):
        bar = bars(x=np.array([1.0, 100]), y=np.arange(2), orientation="h", text=["1 %", "100 %"])
        picture = svg(drawing([bar], yaxis=names_axis(["a", "b"])))
        short, _ = boxes(picture)
        places = placed_texts(picture)
        assert places["1 %"][0] > short.right
        assert places["100 %"][0] < WIDTH


class TestLines:
    def test_they_go_through_their_points(self):
        shown = drawing(
            [line([0, 5, 10], [0.0, 1, 0.5])],
            xaxis=axis(range=[0, 10], tickvals=[0, 10], ticktext=["0", "10"]),
            yaxis=axis(range=[0, 1], tickvals=[0, 1]),
        )
        picture = svg(shown)
        (path,) = [each for each in paths(picture) if each.get("stroke") == "#abcdef"]
        points = [tuple(map(float, each.split())) for each in path.get("d")[1:].split("L")]
        (left, bottom), (middle, top), (right, half) = points
        assert middle == pytest.approx((left + right) / 2, abs=0.2)
        assert half == pytest.approx((top + bottom) / 2, abs=0.2)
        assert left == pytest.approx(placed_texts(picture)["0"][0], abs=0.2) or bottom > top

    def test_a_step_line_keeps_its_peak_in_little_text(self):
        values = np.zeros(100_000)
        values[77_777] = 9
        stepped = line(np.arange(100_000.0), values, shape="hv") | {"fill": "tozeroy"}
        picture = svg(drawing([stepped], yaxis=axis(rangemode="tozero", nticks=4)))
        (path,) = [each.get("d") for each in paths(picture) if each.get("fill") == "#abcdef"]
        *corners, _, start = steps(path)
        top = min(y for _, y in corners)
        bottom = max(y for _, y in corners)
        assert top == pytest.approx(bottom - (bottom - 8) / 1.05, abs=3)
        peak = next(x for x, y in corners if y == top)
        left, right = corners[0][0], corners[-1][0]
        assert (peak - left) / (right - left) == pytest.approx(0.77777, abs=0.01)
        assert start[0] == left
        assert len(picture) < 6_000

    def test_powers_of_ten_are_as_far_apart_on_a_logarithmic_axis(self):
        shown = drawing(
            [line([0.01, 1, 100], [0.0, 1, 2])], xaxis=axis(type="log"), yaxis=axis(range=[0, 2])
        )
        picture = svg(shown)
        (path,) = [each for each in paths(picture) if each.get("stroke") == "#abcdef"]
        x = [float(each.split()[0]) for each in path.get("d")[1:].split("L")]
        assert x[1] - x[0] == pytest.approx(x[2] - x[1], abs=0.2)
        assert {"0.01", "1", "100"} <= set(texts(picture))

    def test_a_shape_is_at_its_numbers(self):
        mark = {"type": "line", "x0": 5, "x1": 5, "y0": 0, "y1": 1, "yref": "paper"}
        mark["line"] = {"color": "#654321", "width": 1, "dash": "dash"}
        picture = svg(
            drawing(
                [line([0, 10], [0.0, 1])], shapes=[mark], xaxis=axis(tickvals=[5], ticktext=["5"])
            )
        )
        (found,) = [each for each in paths(picture) if each.get("stroke") == "#654321"]
        assert float(found.get("d")[1:].split()[0]) == pytest.approx(placed_texts(picture)["5"][0])

    def test_a_legend_ends_where_the_axes_do(self):
        """It was as wide as the picture, from the left end of the bars on, and cut at its edge."""
        names = [f"a class of time {number}" for number in range(9)]
        each = [
            bars(x=[1.0], y=[0], orientation="h", name=name) | {"showlegend": True}
            for name in names
        ]
        shown = drawing(each, yaxis=names_axis(["a job with a name that is rather long"]))
        places = {text: x for text, (x, _) in placed_texts(svg(shown)).items() if text in names}
        assert {*places} == {*names}
        assert max(x + text_width(text) for text, x in places.items()) <= WIDTH

    def test_a_shape_below_is_drawn_before_the_bars(self):
        box = {"type": "rect", "x0": -0.4, "x1": 0.4, "y0": 0, "y1": 9, "fillcolor": "#123456"}
        box["line"] = {"color": "#654321", "width": 1, "dash": "dot"}
        bar = trace("bar", x=[0], y=[5.0], marker={"color": "#ABCDEF"})
        for layer, comes_first in (("below", "#123456"), ("above", "#ABCDEF")):
            picture = svg(drawing([bar], shapes=[box | {"layer": layer}]))
            places = sorted((picture.index(color), color) for color in ("#123456", "#ABCDEF"))
            assert places[0][1] == comes_first
            assert 'stroke-dasharray="1 3"' in picture

    def test_strips_lie_below_each_other(self):
        first, second = (
            line([0.0, 1], [0.0, 1], shape="hv") | {"yaxis": name} for name in ("y", "y2")
        )
        layout = {"yaxis": axis(domain=[0.6, 1]), "yaxis2": axis(domain=[0, 0.4])}
        picture = svg(drawing([first, second], showlegend=False, **layout))
        upper, lower = [
            steps(each.get("d")) for each in paths(picture) if each.get("fill") == "none"
        ]
        assert max(y for _, y in upper) < min(y for _, y in lower)


class TestCells:
    @pytest.fixture
    def shown(self) -> Drawing:
        cells = trace(
            "heatmap",
            z=np.array([[0.0], [5.0], [10.0], [10.0], [np.nan]]),
            x=[0],
            y=list("abcde"),
            zmin=0,
            zmax=10,
            colorscale=[[0, "rgba(1, 2, 3, 0.05)"], [1, "#010203"]],
            colorbar={"ticksuffix": " %"},
        )
        y = axis(type="category", tickvals=list("abcde"), range=[4.5, -0.5])
        return drawing([cells], xaxis=axis(tickvals=[], range=[-0.5, 0.5]), yaxis=y)

    def test_they_are_as_strong_as_their_values(self, shown):
        found = sorted(boxes(svg(shown)), key=lambda box: box.top)
        assert [box.opacity for box in found] == pytest.approx([0.05, 0.525, 1], abs=0.03)
        assert found[2].height == pytest.approx(2 * found[1].height, abs=0.2)

    def test_they_stand_beside_their_names(self, shown):
        picture = svg(shown)
        first = min(boxes(picture), key=lambda box: box.top)
        assert first.top < placed_texts(picture)["a"][1] < first.bottom

    def test_the_ends_of_the_scale_are_named(self, shown):
        assert "0 to 10 %" in texts(svg(shown))


class TestPies:
    def test_a_slice_has_the_angle_of_its_share(self):
        pie = trace(
            "pie",
            labels=["a", "b", "c"],
            values=np.array([1.0, 2, 1]),
            marker={"colors": ["#111111", "#222222", "#333333"]},
        )
        picture = svg(drawing([pie], height=340))
        slices = [path.get("d") for path in paths(picture)]
        middle = np.array(slices[0][1:].split("L")[0].split(), dtype=float)
        ends = [np.array(each.rstrip("z").split()[-2:], dtype=float) for each in slices]
        angles = [atan2(x, -y) % (2 * pi) for x, y in (end - middle for end in ends)]
        assert angles == pytest.approx([pi / 2, 3 * pi / 2, 2 * pi], abs=0.01) or angles[
            2
        ] == pytest.approx(0, abs=0.01)
        assert {"a", "b", "c", "25 %", "50 %"} <= set(texts(picture))

    def test_a_single_slice_is_a_circle(self):
        pie = trace("pie", labels=["a"], values=np.array([3.0]), marker={"colors": ["#111111"]})
        assert len(list(parsed(svg(drawing([pie]))).iter(f"{SVG}circle"))) == 1


class TestText:
    @pytest.mark.parametrize("name", EVIL)
    def test_names_are_text_and_nothing_else(self, name):
        picture = svg(horizontal([1.0], [plot_text(name)]))
        tags = {each.tag.removeprefix(SVG) for each in parsed(picture).iter()}
        assert tags <= {"svg", "style", "g", "path", "text"}
        (shown,) = [
            each for each in texts(picture) if each != "Time (ms)" and not each[0].isdigit()
        ]
        assert shown == "".join("�" if each in "\x00\x1b\ufffe\ud800" else each for each in name)

    def test_lines_are_separated_before_text_is_read(self):
        assert lines_of(f"{plot_text('a<br>b')}<br>c") == ["a<br>b", "c"]

    def test_a_note_in_an_empty_figure_is_in_its_middle(self):
        note = {"text": "No calls<br>at all", "showarrow": False, "x": 0.5, "y": 0.5}
        note |= {"xref": "paper", "yref": "paper"}
        empty = bars(x=np.array([]), y=np.array([]))
        picture = svg(drawing([empty], annotations=[note], height=260))
        (x, first), (_, second) = (placed_texts(picture)[each] for each in ("No calls", "at all"))
        assert WIDTH / 3 < x < WIDTH * 2 / 3
        assert 80 < first < second < 180

    def test_titles_of_axes_and_names_of_traces_are_there(self):
        pair = [bars(x=np.arange(1), y=np.ones(1), name=name) for name in ("one", "two")]
        shown = drawing(pair, barmode="stack", xaxis=axis("Rank"), yaxis=axis("Share (%)"))
        assert {"one", "two", "Rank", "Share (%)"} <= set(texts(svg(shown)))

    def test_labels_without_room_are_thinned_out(self):
        labels = [f"{rank} · GPU {rank}" for rank in range(24)]
        x = axis("Rank", tickvals=list(range(24)), ticktext=labels, range=[-0.5, 23.5])
        shown = set(texts(svg(drawing([bars(x=np.arange(24), y=np.ones(24))], xaxis=x))))
        assert 5 < len(shown & set(labels)) < 24


def test_everything_is_inside_the_picture():
    picture = svg(horizontal([3.0, 2], ["a" * 90, "b"], height=200))
    assert all(0 <= x <= WIDTH and 0 <= y <= 200 for x, y in coordinates(picture))
