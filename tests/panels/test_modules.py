from __future__ import annotations

import pandas as pd

from hta_widgets.analyses.modules import module_totals, modules
from hta_widgets.analyses.modules.rank_sums import COSTS
from hta_widgets.panels import ModulesPanel
from hta_widgets.panels.base.selection import MODULE_SEPARATOR
from tests.analyses.generated_jobs import open_job
from tests.analyses.test_modules import NET, REGIONS
from tests.kineto_text import kernel
from tests.panels.fakes import send

GPU = "GPU time of modules"


def test_the_result_is_that_of_the_analysis(tmp_path):
    job = open_job(tmp_path, [NET, NET])
    panel = ModulesPanel(job, ranks=[1], merge="instance")
    expected = modules(job, [1])
    pd.testing.assert_frame_equal(panel.result.modules, expected.modules)
    totals = module_totals(expected.modules).drop(columns=["parent", "name", *COSTS])
    pd.testing.assert_frame_equal(panel.table, totals)
    assert list(panel.figures) == [GPU]


def test_parameters(tmp_path):
    panel = ModulesPanel(open_job(tmp_path, [NET]))
    assert list(panel.figures[GPU].layout.yaxis.ticktext) == ["Net", "› Linear"]
    send(panel, merge="instance", weight="cpu")
    (figure,) = panel.figures.values()
    assert list(figure.layout.yaxis.ticktext) == ["Net_0", "› Linear_0", "› Linear_1"]
    assert figure.layout.xaxis.title.text == "CPU time (µs)"
    assert panel._view["finding"] == ""
    send(panel, weight="idle")
    assert " of the idle time belongs to " in panel._view["finding"]
    send(panel, weight="exposed")
    assert panel._view["empty"] == "No exposed communication belongs to a module."
    send(panel, weight="gpu", levels=1)
    assert len(panel.figures[GPU].layout.yaxis.ticktext) == 1


def test_a_selected_module_is_opened(tmp_path):
    panel = ModulesPanel(open_job(tmp_path, [NET]), levels=1, merge="instance")
    path = panel.figures[GPU].data[0].customdata[0][0]
    panel.selection.modules = [path]
    assert len(panel.figures[GPU].layout.yaxis.ticktext) == 3
    inner = panel.figures[GPU].data[0].customdata[1][0]
    assert inner == f"{path}{MODULE_SEPARATOR}Linear_0"


def test_regions_are_called_so(tmp_path):
    panel = ModulesPanel(open_job(tmp_path, [REGIONS]))
    assert list(panel.figures) == ["GPU time of regions"]
    send(panel, module_source="modules")
    assert panel._view["empty"] == "No modules were recorded on the selected ranks."


def test_nothing_recorded_is_said(tmp_path):
    panel = ModulesPanel(open_job(tmp_path, [[kernel(0, 1)]]))
    assert panel._view["empty"] == "No modules or annotations were recorded on the selected ranks."
