from __future__ import annotations

import json

import numpy as np

from hta_widgets.analyses.cupti_counters import cupti_counters
from hta_widgets.figures.cupti_counters import counter_by_operator
from tests.analyses.generated_jobs import open_job
from tests.analyses.test_cupti_counters import measured
from tests.kineto_text import call, host

HOSTILE = "<img src=x onerror=alert(1)>"


def test_one_counter_by_operator(tmp_path):
    events = [host(0, 9, HOSTILE), host(1, 7, "inner"), call(2, 1, 1), call(4, 1, 2)]
    events += [call(20, 1, 3), measured(50, inst=1), measured(60, inst=3), measured(70, inst=3)]
    result = cupti_counters(open_job(tmp_path, [events]))
    figure = counter_by_operator(result, "inst").figure()
    assert list(figure.data[0].x) == [4, 3]
    assert figure.layout.yaxis.ticktext[1] == "(no operator)"
    assert figure.data[0].hovertext[0].endswith("sum 4, mean 2 over 2 kernels")
    assert "<img" not in json.dumps(figure.to_plotly_json(), default=np.ndarray.tolist)
    mean = counter_by_operator(result, "inst", level="bottom_level_op", statistic="mean").figure()
    assert list(mean.data[0].x) == [3, 2]
    assert list(mean.layout.yaxis.ticktext) == ["(no operator)", "inner"]


def test_nothing_to_draw(tmp_path):
    result = cupti_counters(open_job(tmp_path, [[]]))
    assert len(counter_by_operator(result, "inst").figure().data) == 1
