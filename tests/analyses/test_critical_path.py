"""The tables of the critical path add up, and agree with the plain rules of a replay."""

from __future__ import annotations

import math
import re

import pytest

from hta_widgets import open_trace
from hta_widgets.diagnosis.critical_path import critical_path
from hta_widgets.errors import UnknownRankError, UnknownStepError
from hta_widgets.figures.base.style import CLASS_COLORS
from hta_widgets.figures.critical_path import kernel_drags, path_classes
from hta_widgets.sample import write_sample
from tests.diagnosis.replay.brute_force import drag, graph, slack
from tests.diagnosis.replay.random_jobs import open_random


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    folder = write_sample(tmp_path_factory.mktemp("sample"))
    return critical_path(open_trace(folder, progress=False))


def test_every_table_adds_up_to_the_path(result):
    whole_ns = result.path.length_ns
    assert whole_ns > 0
    for table in (result.classes, result.operators, result.ranks, result.pieces):
        assert table["ns"].sum() == whole_ns
        assert table["percent"].sum() == pytest.approx(100)


def test_the_figure_says_of_which_bars_the_share_of_the_header_is_the_sum(result):
    title = path_classes(result).layout["xaxis"]["title"]["text"]
    said = re.fullmatch(r"Critical path \(ms\)<br>the GPU: (.*) % \((.*)\)", title)
    assert f"the GPU ({said[1]} % of the critical path)" in result.finding
    named, _, more = said[2].partition(" and ")
    shares = result.classes.set_index("class")["percent"]
    others = {"compute", "graph", "other GPU work", "kernel start", "dependency", "room on the GPU"}
    bars = others & {*shares.index[shares >= 0.01]}
    assert {*named.split(", ")} <= bars
    assert len(bars) == len(named.split(", ")) + int(more.partition(" ")[0] or 0)
    assert sum(shares[each] for each in bars) == pytest.approx(float(said[1]), abs=0.05)


def test_a_kernel_has_the_colour_of_what_the_path_does_in_it(real_traces):
    found = critical_path(open_trace(real_traces / "kineto" / "compare_control", progress=False))
    (bars,) = kernel_drags(found).data
    colors = {True: CLASS_COLORS["communication"], False: CLASS_COLORS["compute"]}
    communicates = ["nccl" in each[0] for each in bars["customdata"]]
    assert {*communicates} == {True, False}
    assert [*bars["marker"]["color"]] == [colors[each] for each in communicates]


def test_pieces_follow_each_other(result):
    pieces = result.pieces
    assert (pieces["start_ns"].to_numpy()[1:] == pieces["end_ns"].to_numpy()[:-1]).all()
    assert pieces["end_ns"].iloc[-1] - pieces["start_ns"].iloc[0] == result.path.length_ns


def test_kernels_are_sorted_by_what_they_are_worth(result):
    drags = result.kernels["drag_ns"].tolist()
    assert drags == sorted(drags, reverse=True)
    known = result.kernels.dropna(subset=["together_ns"])
    assert (known["together_ns"] >= known["drag_ns"] - 1e-3).all()
    assert (result.kernels["drag_ns"] <= result.path.length_ns).all()


@pytest.mark.parametrize("seed", range(0, 48, 6))
def test_slack_and_drag_are_those_of_the_plain_rules(seed, tmp_path):
    job = open_random(tmp_path, seed)
    plain, found = graph(job), critical_path(job).path
    engine = found.job
    if engine.steps != (-1,):
        return  # what a step ends with is tested elsewhere
    slacks = slack(plain)
    compared = 0
    for at in range(engine.stream.size):
        place = int(engine.operation_rank[at])
        key = engine.ranks[place], int(engine.parts[place].column("row")[engine.operation[at]])
        if key not in slacks or engine.is_finish[at] or at in engine.arrival:
            continue
        compared += 1
        if math.isfinite(slacks[key]):  # the plain rules end with one stream, the engine with all
            assert found.slack.operations_ns[at] == pytest.approx(slacks[key], abs=1e-3)
        assert found.slack.drag_ns[at] == pytest.approx(drag(plain, key), abs=1e-3)
    assert compared


def test_some_ranks_and_steps(tmp_path):
    job = open_trace(write_sample(tmp_path), progress=False)
    one = critical_path(job, [0], steps=[11])
    assert one.path.steps == (11,)
    assert one.pieces["step"].unique().tolist() == [11]
    with pytest.raises(UnknownRankError):
        critical_path(job, [99])
    with pytest.raises(UnknownStepError):
        critical_path(job, steps=[999])
