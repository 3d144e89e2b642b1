from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest

from hta_widgets.analyses.flame import flame
from hta_widgets.figures.flame import PICTURE_BYTES, flame_picture
from hta_widgets.figures.flame import flame as boxes
from hta_widgets.figures.svg.frame import WIDTH
from tests.analyses.generated_jobs import open_job
from tests.analyses.test_modules import NET
from tests.kineto_text import host


@pytest.mark.parametrize("weight", ["gpu", "cpu", "idle"])
@pytest.mark.parametrize("order", ["merged", "time"])
def test_boxes_lie_inside_their_parents_and_beside_each_other(tmp_path, weight, order):
    drawn = boxes(flame(open_job(tmp_path, [NET]), 0, weight=weight, order=order))
    parents, starts = drawn["parent"].tolist(), drawn["start"].tolist()
    ends = [start + total for start, total in zip(starts, drawn["total"], strict=True)]
    reached = {}
    for node, parent in enumerate(parents):
        if parent >= 0:
            assert starts[node] == reached.get(parent, starts[parent])
            assert ends[node] <= ends[parent]
            reached[parent] = ends[node]
    assert (parents[0], starts[0]) == (-1, 0)


def test_callers_stand_above_the_root_and_share_its_width(tmp_path):
    result = flame(open_job(tmp_path, [NET]), 0, sandwich="cudaLaunchKernel")
    drawn = boxes(result)
    depth, total = drawn["depth"], drawn["total"]
    assert len(depth) == len(result.nodes) + len(result.callers) - 1
    assert total[depth == -1].sum() == total[0]
    inside = drawn["start"] + total <= drawn["start"][drawn["parent"]] + total[drawn["parent"]]
    assert inside[1:].all()
    rows = boxes_of(flame_picture(result))
    assert len(rows) == result.nodes["depth"].max() + result.callers["depth"].max() + 1


def boxes_of(picture):
    """Places and widths (px) of the boxes of each row."""
    rows = {}
    for x, y, width in re.findall(r"M([\d.]+) (\d+)h([\d.]+)v", picture):
        rows.setdefault(int(y), []).append((float(x), float(width)))
    return rows


def test_the_picture_shows_the_shares_of_each_row(tmp_path):
    result = flame(open_job(tmp_path, [NET]), 0)
    rows = boxes_of(flame_picture(result))
    widths = result.nodes.groupby("depth")["total_ns"].sum() / result.total_ns
    assert len(rows) == result.nodes["depth"].max() + 1
    for (_, row), share in zip(sorted(rows.items()), widths.tolist(), strict=True):
        assert sum(width + 0.6 for _, width in row) == pytest.approx(share * WIDTH, abs=1)
        ends = [x + width for x, width in row]
        assert all(end <= x for end, (x, _) in zip(sorted(ends)[:-1], sorted(row)[1:], strict=True))


def test_a_picture_of_many_boxes_stays_small_and_names_are_text(tmp_path):
    hostile = '</text><script>"&lt;b>'
    events = [host(100 * each, 90, f"{hostile}{each}") for each in range(600)]
    drawn = flame_picture(
        flame(open_job(tmp_path, [[*events, host(60_000, 70_000, hostile)]]), 0, weight="cpu")
    )
    assert 500 < len(drawn) <= PICTURE_BYTES
    picture = ET.fromstring(drawn)  # noqa: S314
    texts = [each.text for each in picture.iter() if each.tag.endswith("text")]
    assert hostile in texts


def test_nothing_to_draw(tmp_path):
    assert flame_picture(flame(open_job(tmp_path, [NET[:2]]), 0)) == ""


def test_names_are_sent_once(tmp_path):
    drawn = boxes(flame(open_job(tmp_path, [NET]), 0, root=["nn.Module: Net_0"]))
    assert len({*drawn["names"]}) == len(drawn["names"])
    assert drawn["names"][drawn["name"][0]] == "nn.Module: Net_0"
    assert drawn["kinds"][drawn["kind"][0]] == "python"
    assert (drawn["root"], drawn["all"]) == (["nn.Module: Net_0"], 71_000)
