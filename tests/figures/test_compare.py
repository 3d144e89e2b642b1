from __future__ import annotations

import pytest

from hta_widgets.analyses.compare import Compare, compare
from hta_widgets.figures.compare import FIRST_COLOR, SECOND_COLOR, kernel_changes, tails, times
from hta_widgets.trace.opening.open import open_trace
from tests.kineto_text import call, kernel, write


@pytest.fixture(scope="module")
def compared(tmp_path_factory) -> Compare:
    folder = tmp_path_factory.mktemp("jobs")
    before = [
        *(kernel(0, 10, name="slower"), kernel(10, 40, name="faster"), kernel(50, 5, name="gone")),
        *(kernel(60 + number, 1, name="same") for number in range(20)),
        call(0, 5, 1),
    ]
    after = [
        *(
            kernel(0, 30, name="slower"),
            kernel(30, 10, name="faster"),
            kernel(40, 6, name="new<b>"),
        ),
        *(kernel(60 + number, 1, name="same") for number in range(20)),
        kernel(80, 1, name="faster"),
    ]
    paths = [
        write(folder / f"{name}.json", events)
        for name, events in (("before", before), ("<i>after", after))
    ]
    return compare(*(open_trace(path, progress=False) for path in paths), per="job")


def bars(figure):
    return {
        bar.name: dict(
            zip([figure.layout.yaxis.ticktext[row] for row in bar.y], bar.x, strict=True)
        )
        for bar in figure.data
    }


def test_kernels_by_total_time(compared):
    figure = kernel_changes(compared).figure()
    assert bars(figure) == {
        "In both": {"faster": -29, "slower": 20},
        "Only in before.json": {"gone": -5},
        "Only in &lt;i&gt;after.json": {"new&lt;b&gt;": 6},
    }
    assert list(figure.layout.yaxis.ticktext) == ["faster", "slower", "new&lt;b&gt;", "gone"]
    assert figure.layout.xaxis.title.text == "Change in total time (µs)"
    patterns = {bar.name[:7]: bar.marker.pattern.shape for bar in figure.data}
    assert patterns == {"In both": "", "Only in": "\\"}
    assert [bar.marker.color for bar in figure.data][1:] == [FIRST_COLOR, SECOND_COLOR]


def test_kernels_by_mean_and_launches(compared):
    assert bars(kernel_changes(compared, sort_by="mean").figure()) == {
        "In both": {"faster": -34.5, "slower": 20}
    }
    figure = kernel_changes(compared, sort_by="count", num_kernels=2).figure()
    assert bars(figure) == {"In both": {"faster": 1}, "Only in before.json": {"gone": -1}}
    assert figure.layout.xaxis.title.text == "Change in launches"


def test_a_click_selects_the_kernel_of_the_first_job(compared):
    figure = kernel_changes(compared).figure()
    assert {bar.meta["select"] for bar in figure.data} == {"kernel"}
    assert [list(bar.customdata) for bar in figure.data] == [
        [["faster"], ["slower"]],
        [["gone"]],
        [[None]],
    ]


def test_the_selected_kernel_stands_out(compared):
    figure = kernel_changes(compared, selected="slower").figure()
    assert [tuple(bar.selectedpoints) for bar in figure.data] == [(1,), (), ()]
    assert kernel_changes(compared, selected="same").figure().data[0].selectedpoints is None


def test_hover_escapes_names(compared):
    hover = kernel_changes(compared).figure().data[2].hovertext[0]
    assert hover.startswith("new&lt;b&gt;<br>compute<br>total: 0 ns → 6 µs (+6 µs)")


def test_times_share_a_scale(compared):
    figure = times(compared).figure()
    assert [bar.name for bar in figure.data] == ["before.json", "&lt;i&gt;after.json"]
    assert [bar.x[0] for bar in figure.data] == [80, 81]
    assert figure.layout.xaxis.title.text == "Time (µs)"
    assert "100 % of the span<br>change: +1 µs, 0 percentage points" in figure.data[1].hovertext[0]


def test_times_that_neither_job_has_get_no_row(compared):
    assert "Communication" not in times(compared).figure().layout.yaxis.ticktext


def test_tails_have_ticks_that_can_be_read_alone(compared):
    """The ticks of 0.5 and 5 were both called 5."""
    assert list(tails(compared).figure().layout.yaxis.ticktext) == ["0.1", "0.2", "0.5", "1"]


def test_tails_show_what_is_defined(compared):
    figure = tails(compared).figure()
    assert list(figure.layout.xaxis.ticktext) == [
        "Kernels"
    ]  # no runtime call is among the longest of both
    assert [len(marks.x) for marks in figure.data] == [0, 1, 1]
    assert figure.data[1].y[0] == 30 / 40
    assert figure.data[2].hovertext[0] == (
        "Kernels, longest 10 %<br>20 µs (2 of 24) ÷ 25 µs (2 of 23) = 0.8"
    )
