"""Figures of the launch overlap."""

from __future__ import annotations

import json

import numpy as np
import pytest

from hta_widgets.analyses.launch_overlap import launch_overlap
from hta_widgets.figures.launch_overlap import (
    hidden_launch_time,
    kernel_time_by_api,
    overlapping_launches,
)
from hta_widgets.trace.opening.open import open_trace
from tests.kineto_text import call, host, kernel, write

HOSTILE = '<img src=x onerror="alert(1)">'


@pytest.fixture
def result(tmp_path):
    events = [
        *(call(0, 4, 1), kernel(5, 10, correlation=1)),
        *(call(12, 6, 2), kernel(30, 2, correlation=2)),
        *(call(50, 10, 3, name=HOSTILE), kernel(70, 28, correlation=3)),
    ]
    write(tmp_path / "rank-0.json", events)
    write(tmp_path / "rank-1.json", events[:2])
    write(tmp_path / "rank-2.json", [host(0, 1, "op")])
    return launch_overlap(open_trace(tmp_path, progress=False))


def test_hidden_and_exposed_time_of_each_rank(result):
    figure = hidden_launch_time(result, selected=[1], as_percent=False).figure()
    hidden, exposed = figure.data
    assert [list(bar.y) for bar in figure.data] == [[3, 0, 0], [17, 4, 0]]
    assert figure.layout.yaxis.title.text == "Time (µs)"
    assert hidden.meta == exposed.meta == {"select": "ranks"}
    assert [list(each) for each in exposed.customdata] == [[0], [1], [2]]
    assert list(exposed.selectedpoints) == [1]
    assert hidden.hovertext[0] == "Rank 0<br>Hidden behind kernels: 3 µs, 15 % of 20 µs launch time"
    assert hidden.hovertext[2] == "Rank 2: no launch time"


def test_shares_of_the_launch_time(result):
    figure = hidden_launch_time(result).figure()
    assert list(figure.data[0].y[:2]) == [15, 0]


def test_overlapping_launches(result):
    (bar,) = overlapping_launches(result).figure().data
    assert list(bar.y[:2]) == pytest.approx([100 / 3, 0])
    assert bar.meta == {"select": "ranks"}
    assert bar.hovertext[0] == "Rank 0<br>1 of 3 launches (33.3 %)"
    assert bar.hovertext[2] == "Rank 2: no launches"


def test_kernel_time_by_api(result):
    figure = kernel_time_by_api(result, as_percent=False).figure()
    (bar,) = figure.data
    assert list(bar.x) == [28, 22]
    assert list(kernel_time_by_api(result).figure().data[0].x) == [56, 44]
    assert figure.layout.yaxis.ticktext[1] == "cudaLaunchKernel"
    assert bar.hovertext[1] == (
        "cudaLaunchKernel<br>3 calls, 3 kernels, 22 µs (44 % of the kernel time)"
    )
    assert "<img" not in json.dumps(figure.to_plotly_json(), default=np.ndarray.tolist)


def test_nothing_to_draw(tmp_path):
    job = open_trace(write(tmp_path / "rank-0.json", [host(0, 1, "op")]), progress=False)
    result = launch_overlap(job)
    assert len(kernel_time_by_api(result).figure().data[0].x) == 0
    assert len(hidden_launch_time(result).figure().data[0].x) == 1
