from __future__ import annotations

from hta_widgets.panels.base.controls import (
    Button,
    Choice,
    Number,
    RankPicker,
    Search,
    Slider,
    StreamPicker,
    Toggle,
)
from hta_widgets.trace.opening.open import open_trace
from tests.kineto_text import host, kernel, write
from tests.panels.fakes import fake_job


def test_a_slider():
    assert Slider("n", "N", min=1, max=9, unit="µs", open_ended=True).spec(fake_job()) == {
        "kind": "slider",
        "name": "n",
        "label": "N",
        "min": 1,
        "max": 9,
        "step": 1,
        "unit": "µs",
        "log": False,
        "open_ended": True,
    }


def test_a_field():
    spec = Number("n", "N", step=0.5).spec(fake_job())
    assert (spec["kind"], spec["max"], spec["step"]) == ("number", None, 0.5)


def test_a_toggle():
    assert Toggle("t", "T").spec(fake_job()) == {"kind": "toggle", "name": "t", "label": "T"}


def test_options_are_given_or_found_in_the_job():
    given = Choice("c", "C", (("One", 1), ("Two", 2)))
    assert given.spec(fake_job())["options"] == [["One", 1], ["Two", 2]]
    found = Choice("c", "C", lambda job: [(f"rank {rank}", rank) for rank in job.ranks])
    assert found.spec(fake_job(2))["options"] == [["rank 0", 0], ["rank 1", 1]]


def test_the_rank_picker_lists_the_ranks_of_the_job():
    assert RankPicker().spec(fake_job(3))["options"] == [0, 1, 2]
    assert RankPicker().spec(fake_job(1))["noun"] == "rank"


def test_the_stream_picker_lists_the_streams_that_any_rank_works_on(tmp_path):
    write(tmp_path / "rank-0.json", [kernel(0, 1, stream=20), kernel(1, 1, stream=7)])
    write(tmp_path / "rank-1.json", [kernel(0, 1, stream=7), kernel(1, 1, stream=9)])
    write(tmp_path / "rank-2.json", [host(0, 1, "op")])
    assert StreamPicker().spec(open_trace(tmp_path, progress=False)) == {
        "kind": "picker",
        "name": "streams",
        "label": "Streams",
        "noun": "stream",
        "options": [7, 9, 20],
    }


def test_a_search_has_options_with_details():
    control = Search("op", "Operator", lambda job: [("mm", "aten::mm", f"on {len(job.ranks)}")])
    assert control.spec(fake_job(2)) == {
        "kind": "search",
        "name": "op",
        "label": "Operator",
        "options": [["mm", "aten::mm", "on 2"]],
        "free_text": False,
    }


def test_a_button():
    assert Button("write", "Write").spec(fake_job()) == {
        "kind": "button",
        "name": "write",
        "label": "Write",
    }
