from __future__ import annotations

from hta_widgets.panels.controls import Choice, Number, RankPicker, Slider, Toggle
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
