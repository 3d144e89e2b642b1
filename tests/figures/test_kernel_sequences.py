from __future__ import annotations

import json

import numpy as np
import pytest

from hta_widgets.analyses.kernel_sequences import kernel_sequences
from hta_widgets.figures.kernel_sequences import TABLE_WIDTH, readable_patterns
from hta_widgets.figures.kernel_sequences import kernel_sequences as draw
from tests.analyses.generated_jobs import open_job
from tests.kineto_text import call, host, kernel

HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture
def result(tmp_path):
    events = []
    for number, name in enumerate([HOSTILE, HOSTILE, "long_kernel"]):
        ts = 20 * number
        events += [host(ts, 9, "op"), call(ts + 1, 1, number + 1)]
        dur = 100 if name == "long_kernel" else 1
        events += [kernel(ts + 5, dur, name=name, correlation=number + 1)]
    return kernel_sequences(open_job(tmp_path, [events]), operator_name="op", min_pattern_len=1)


def test_a_bar_for_each_of_the_top_sequences(result):
    figure = draw(result).figure()
    assert list(figure.data[0].x) == [2, 1]
    assert figure.layout.xaxis.dtick == 1  # there are no half occurrences
    assert figure.layout.yaxis.ticktext[1] == "long_kernel"
    assert figure.data[0].hovertext[1] == (
        "1 occurrence, 100 µs GPU time, 9 µs CPU time<br>long_kernel"
    )
    assert list(draw(result, top_k=1).figure().data[0].x) == [2]
    assert list(draw(result, as_time=True).figure().data[0].x) == [2, 100]


def test_no_markup_of_a_trace_reaches_the_figure(result):
    assert "<img" not in json.dumps(
        draw(result).figure().to_plotly_json(), default=np.ndarray.tolist
    )


def test_a_table_to_read(tmp_path, result):
    table = readable_patterns(result)
    assert table.columns[0] == "sequence"
    assert table["sequence"][1] == "long_kernel"
    assert table["pattern"].tolist() == [f"op|{HOSTILE}", "op|long_kernel"]
    events = [host(0, 9, "op"), call(1, 1, 1), kernel(5, 1, name="k" * 9000, correlation=1)]
    job = open_job(tmp_path, [events])
    long = readable_patterns(kernel_sequences(job, operator_name="op", min_pattern_len=1))
    assert len(long["pattern"][0]) == TABLE_WIDTH


def test_nothing_to_draw(tmp_path):
    result = kernel_sequences(open_job(tmp_path, [[]]), operator_name="op")
    assert len(draw(result).figure().data) == 1
    assert readable_patterns(result).empty
