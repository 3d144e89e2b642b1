from __future__ import annotations

from math import isnan

import pandas as pd
import pytest
from traitlets import TraitError

from hta_widgets.analyses.kernel_breakdown import kernel_breakdown
from hta_widgets.analyses.launch_facts import SHOWN, launch_facts
from hta_widgets.defaults import DefaultNumber
from hta_widgets.panels import KernelBreakdownPanel, Selection
from hta_widgets.trace.job import Job
from hta_widgets.trace.opening.open import open_trace
from tests.analyses.generated_jobs import open_job
from tests.diagnosis.findings.training_jobs import US, Compute, diagnosed, found, write_training
from tests.kineto_text import kernel


@pytest.fixture
def panel(loaded: Job) -> KernelBreakdownPanel:
    panel = KernelBreakdownPanel(loaded)
    panel.selection.kernel = ""
    return panel


def names(panel: KernelBreakdownPanel) -> list[str]:
    return list(panel.figures)


def test_the_result_is_that_of_the_analysis(loaded: Job, panel: KernelBreakdownPanel):
    with panel.hold():
        panel.num_kernels = 3
        panel.duration_ratio = 0.5
        panel.include_memory_kernels = False
    expected = kernel_breakdown(
        loaded, num_kernels=DefaultNumber(3), duration_ratio=0.5, include_memory_kernels=False
    )
    pd.testing.assert_frame_equal(panel.result.kernels, expected.kernels)
    rows = panel.table
    pd.testing.assert_frame_equal(rows.sort_index(), expected.kernels)
    assert rows["folded"].astype(bool).is_monotonic_increasing
    assert all(
        times.is_monotonic_decreasing for _, times in rows.groupby(rows["folded"] > 0)["sum_ns"]
    )


def test_one_type_only(panel: KernelBreakdownPanel):
    panel.kernel_type = "COMMUNICATION"
    assert set(panel.table["kernel_type"]) == {"COMMUNICATION"}


def test_a_type_that_is_left_out_is_said(panel: KernelBreakdownPanel):
    with panel.hold():
        panel.kernel_type = "MEMORY"
        panel.include_memory_kernels = False
    assert (
        panel._view["empty"]
        == "Copies and memsets are hidden; tick “Copies and memsets” to show them."
    )


def test_pies_of_up_to_four_ranks(panel: KernelBreakdownPanel):
    panel.view = "pies"
    assert names(panel) == ["Kernel types", *(f"Top kernels of rank {rank}" for rank in range(4))]
    assert {trace.type for figure in panel.figures.values() for trace in figure.data} == {"pie"}


def test_pies_say_of_which_ranks_they_are(tmp_path):
    gemm = "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x192x64_MI16x16x1_SN_LDSB1_WG32_8_1"
    job = open_job(tmp_path, [[kernel(0, 5, name=gemm)] for _ in range(6)])
    panel = KernelBreakdownPanel(job, view="pies")
    assert names(panel)[1:] == [
        f"Top kernels of rank {rank} (first 4 of 6 ranks)" for rank in range(4)
    ]
    assert panel.figures[names(panel)[1]].data[0].labels[0] == "GEMM 256×192×64 bf16 tn · tensile"


def test_a_selected_kernel_shows_its_durations(panel: KernelBreakdownPanel):
    assert names(panel) == ["Kernel types", "Top kernels"]
    kernel = panel.result.kernels["name"][0]
    panel.selection.kernel = kernel
    durations = list(panel.figures.values())[-1]
    assert len(panel.figures) == 3
    assert len(durations.data[0].x) == 4
    assert durations.data[0].meta == {"select": "ranks"}


def test_a_kernel_that_is_not_there_shows_nothing(panel: KernelBreakdownPanel):
    panel.selection.kernel = "no such kernel"
    assert len(panel.figures) == 2


@pytest.mark.parametrize(
    ("name", "value"),
    [("num_kernels", 0), ("duration_ratio", 1.1), ("kernel_type", "gemm"), ("view", "lines")],
)
def test_values_out_of_range_are_refused(panel: KernelBreakdownPanel, name: str, value: object):
    with pytest.raises(TraitError, match=name):
        setattr(panel, name, value)


def test_how_kernels_are_launched(panel: KernelBreakdownPanel):
    before = panel.table
    panel.launch_facts = True
    listed = {each["name"] for each in panel._view["table"]["columns"]}
    assert {*SHOWN} - {"module"} <= listed
    pd.testing.assert_frame_equal(panel.table[list(before)], before)
    facts = launch_facts(panel.job).kernels.set_index(["rank", "name"])
    for row in panel.table.to_dict("records"):
        if row["folded"] or row["kernel_type"] == "MEMORY":
            assert (row["grid"], row["operator"]) == ("", "")
            assert isnan(row["registers"])
        else:
            expected = facts.loc[(row["rank"], row["name"])]
            assert {name: row[name] for name in ("grid", "waves", "operator", "registers")} == {
                name: expected[name] for name in ("grid", "waves", "operator", "registers")
            }


def test_launches_that_are_not_recorded_are_said_once(tmp_path):
    job = open_job(tmp_path, [[kernel(0, 5)]])
    panel = KernelBreakdownPanel(job, launch_facts=True)
    notices = panel.result.notices
    assert notices.count("no grids and blocks of kernels were recorded") == 1
    assert len({*notices}) == len(notices)
    assert not {*SHOWN[:8]} & {*panel.table}


@pytest.mark.parametrize(
    ("names", "kernel"),
    [
        (["ampere_sgemm_64x64_nn"], "ampere_sgemm_64x64_nn"),
        (["ampere_sgemm_64x64_nn", "ampere_sgemm_32x32_nt"], ""),
    ],
)
def test_all_kernels_of_the_selected_finding_are_marked(tmp_path, names, kernel):
    """*Show* of products without tensor cores opened a list in which none of them was marked."""

    def program(rank, step):
        del rank, step
        products = [Compute(500 * US, name) for name in names for _ in range(4)]
        return [*products, Compute(500 * US, "reduce")]

    properties = [{"id": 0, "name": "NVIDIA A100", "computeMajor": 8}]
    folder = write_training(tmp_path, 1, program, deviceProperties=properties)
    (link,) = found(diagnosed(folder), "no_tensor_cores").links
    assert (link.kernel, link.names) == (kernel, tuple(sorted(names)))
    panel = KernelBreakdownPanel(open_trace(folder), selection=Selection())

    def marked() -> set[str]:
        (bar,) = panel.figures["Top kernels"].data
        return {bar.customdata[place][0] for place in bar.selectedpoints or ()}

    assert marked() == set()
    panel.selection.finding = 0
    assert marked() == set(names)
    panel.selection.kernel = "reduce"
    assert marked() == {"reduce"}
