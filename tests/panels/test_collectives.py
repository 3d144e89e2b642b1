from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from hta_widgets.analyses.collectives import collectives
from hta_widgets.figures.collectives import MOST_POINTS, bandwidth_by_size, lateness_by_rank
from hta_widgets.panels import CollectivesPanel
from hta_widgets.trace.job import Job
from hta_widgets.trace.opening.open import open_trace
from tests.analyses.collective_jobs import (
    all_fields,
    ddp,
    no_fields,
    open_job,
    pipeline,
    write_job,
)
from tests.kineto_text import kernel, write
from tests.panels.fakes import EVIL, send

TIMES = "Time by collective, size and group"
SPEEDS = "Bandwidth by size"
LATE = "Straggler delay: last arrival minus median"


@pytest.fixture
def slow(tmp_path) -> Job:
    """Rank 2 comes last to every all-reduce."""
    return open_job(write_job(tmp_path, ddp(slow=2, operations=12)))


def test_the_tables_are_those_of_the_analysis(loaded: Job):
    panel = CollectivesPanel(loaded, ranks=[1, 3])
    expected = collectives(loaded, [1, 3])
    pd.testing.assert_frame_equal(panel.table, expected.groups)
    panel.listed = "kernels"
    pd.testing.assert_frame_equal(panel.table, expected.kernels)
    panel.listed = "matched"
    pd.testing.assert_frame_equal(panel.table, expected.matched)


def test_parts_of_a_bar_add_up_to_its_time(slow: Job):
    panel = CollectivesPanel(slow, num_groups=40)
    bars = panel.figures[TIMES].data
    assert {bar.name for bar in bars} == {"Transfer", "Waiting for ranks"}
    drawn = sum(np.asarray(bar.x) for bar in bars)
    total_ns = panel.result.groups["total_ns"].to_numpy(dtype=float)
    np.testing.assert_allclose(drawn / drawn[0], total_ns / total_ns[0])
    send(panel, num_groups=2)
    assert all(len(bar.x) == 2 for bar in panel.figures[TIMES].data)


def test_what_cannot_be_told_apart_is_a_part_of_its_own(tmp_path):
    job = open_job(write_job(tmp_path, pipeline(), fields=no_fields))
    panel = CollectivesPanel(job)
    assert [bar.name for bar in panel.figures[TIMES].data] == ["Transfer or waiting"]
    assert panel.figures.keys() == {TIMES}


def test_the_late_rank_is_drawn_and_selected_by_a_click(slow: Job):
    panel = CollectivesPanel(slow)
    (bar,) = panel.figures[LATE].data
    assert np.flatnonzero(bar.y).tolist() == [2]
    assert bar.meta == {"select": "ranks"}
    assert [each[0] for each in bar.customdata] == [0, 1, 2, 3]
    matched = panel.result.matched
    late = lateness_by_rank(panel.result)
    assert late["lateness_ns"].sum() == matched["lateness_ns"].sum()
    assert late["count"].tolist() == [0, 0, len(matched), 0]
    panel.ranks = [1]
    (bar,) = panel.figures[LATE].data
    assert np.flatnonzero(bar.y).tolist() == [2]
    assert tuple(bar.selectedpoints) == (1,)


def test_open_marks_are_bandwidths_with_waiting_in_them(tmp_path):
    folder = write_job(tmp_path, ddp(operations=5))
    whole, alone = open_job(folder), open_job(folder, ranks=[0])
    for job, symbol, said in ((whole, "circle", ""), (alone, "circle-open", "waiting included")):
        result = collectives(job)
        (points,) = bandwidth_by_size(result).data
        assert points["marker"]["symbol"] == symbol
        assert said in points["name"]
        assert all(said in text for text in points["hovertext"])
        known = result.kernels["busbw_gb_per_s"].dropna()
        np.testing.assert_allclose(np.sort(points["y"]), np.sort(known))


def test_kernels_that_would_lie_on_one_another_are_one_mark(slow: Job):
    result = collectives(slow)
    times = -(-(MOST_POINTS + 1) // len(result.kernels))
    kernels = pd.concat([result.kernels] * times, ignore_index=True)
    kernels.loc[7, ["busbw_gb_per_s", "algbw_gb_per_s"]] *= 9
    drawn = bandwidth_by_size(replace(result, kernels=kernels)).data
    assert sum(len(each["x"]) for each in drawn) < len(result.kernels)
    assert max(max(each["y"]) for each in drawn) == kernels.loc[7, "busbw_gb_per_s"]
    said = [re.search(r"and ([\d,]+) kernel", text) for each in drawn for text in each["hovertext"]]
    others = sum(int(each[1].replace(",", "")) for each in said if each)
    assert others + len(said) == kernels["busbw_gb_per_s"].notna().sum()


def test_scales_of_bandwidths_are_whole_decades(slow: Job):
    layout = bandwidth_by_size(collectives(slow)).layout
    for name in ("xaxis", "yaxis"):
        first, last = layout[name]["range"]
        assert (first, last) == (int(first), int(last))
        assert last > first
        assert layout[name]["tickvals"][0] == 10.0**first
        assert layout[name]["tickvals"][-1] == 10.0**last


def test_sizes_that_look_alike_are_written_in_bytes(loaded: Job):
    labels = CollectivesPanel(loaded).figures[TIMES].layout.yaxis.ticktext
    assert len(set(labels)) == len(labels) == 2
    assert all(" B, " in label for label in labels)


def test_hostile_names_are_text(tmp_path):
    def fields(operation, rank):
        return all_fields(operation, rank) | {
            "dtype": EVIL,
            "Process Group Description": EVIL,
        }

    panel = CollectivesPanel(open_job(write_job(tmp_path, ddp(operations=3), fields=fields)))
    assert panel._view["error"] is None
    figure = str(panel._view["figures"])
    assert "<img" not in figure
    assert "&lt;img" in figure


def test_a_job_without_communication_says_so(tmp_path):
    job = open_trace(write(tmp_path / "rank-0.json", [kernel(0, 10)]), progress=False)
    panel = CollectivesPanel(job)
    assert panel._view["empty"].startswith("No communication kernels were recognised")
    assert panel._view["figures"] == []
