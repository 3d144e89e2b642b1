from __future__ import annotations

import pytest
from traitlets import Bool, Float, Int, List, Unicode

from hta_widgets.panels.base.controls import (
    RANK_PICKER,
    SHARE_OR_TIME,
    STREAM_PICKER,
    Choice,
    Control,
    Search,
    Slider,
    Toggle,
)
from hta_widgets.panels.base.traits import LabelledEnum
from hta_widgets.trace.opening.open import open_trace
from tests.kineto_text import host, kernel, write
from tests.panels.fakes import fake_job


def test_a_slider_ends_where_it_says_if_its_trait_has_no_upper_bound():
    assert Slider("N", unit="µs", max=9).spec("n", Int(2, min=1), fake_job()) == {
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


def test_a_slider_ends_at_the_upper_bound_of_its_trait():
    spec = Slider("N", step=0.1, log=True).spec("n", Float(1, min=0.1, max=5), fake_job())
    assert (spec["min"], spec["max"], spec["open_ended"], spec["log"]) == (0.1, 5, False, True)


def test_a_toggle():
    spec = Toggle("T").spec("t", Bool(), fake_job())
    assert spec == {"kind": "toggle", "name": "t", "label": "T"}


def test_the_labels_of_a_choice_are_given_or_those_of_the_trait_or_found_in_the_job():
    given = SHARE_OR_TIME.spec("as_percent", Bool(True), fake_job())
    assert given["options"] == [("Share", True), ("Time", False)]
    enum = LabelledEnum({"one": "One", "two": "Two"})
    assert Choice("C").spec("c", enum, fake_job())["options"] == [("One", "one"), ("Two", "two")]
    found = Choice("C", lambda job: {f"r{rank}": f"rank {rank}" for rank in job.ranks})
    options = found.spec("c", Unicode(), fake_job(2))["options"]
    assert options == [("rank 0", "r0"), ("rank 1", "r1")]


def test_the_rank_picker_lists_the_ranks_of_the_job():
    spec = RANK_PICKER.spec("ranks", List(), fake_job(3))
    assert (spec["noun"], spec["options"]) == ("rank", [0, 1, 2])


def test_the_stream_picker_lists_the_streams_that_any_rank_works_on(tmp_path):
    write(tmp_path / "rank-0.json", [kernel(0, 1, stream=20), kernel(1, 1, stream=7)])
    write(tmp_path / "rank-1.json", [kernel(0, 1, stream=7), kernel(1, 1, stream=9)])
    write(tmp_path / "rank-2.json", [host(0, 1, "op")])
    assert STREAM_PICKER.spec("streams", List(), open_trace(tmp_path, progress=False)) == {
        "kind": "picker",
        "name": "streams",
        "label": "Streams",
        "noun": "stream",
        "options": [7, 9, 20],
    }


def test_a_search_has_options_with_details():
    control = Search("Operator", lambda job: [("mm", "aten::mm", f"on {len(job.ranks)}")])
    assert control.spec("op", Unicode(), fake_job(2)) == {
        "kind": "search",
        "name": "op",
        "label": "Operator",
        "options": [("mm", "aten::mm", "on 2")],
        "free_text": False,
    }


@pytest.mark.parametrize(
    ("control", "trait", "reason"),
    [
        (Slider("N", max=9), Bool(), "of type Int or Float, not Bool"),
        (Slider("N", max=9), Int(), "needs a trait with a lower bound"),
        (Slider("N", max=9), Float(), "needs a trait with a lower bound"),
        (Slider("N"), Int(max=9), "needs a trait with a lower bound"),
        (Slider("N"), Int(min=0), "needs max=, unless"),
        (Slider("N", max=9), Int(min=0, max=9), "never both"),
        (Slider("N", max=9, log=True), Int(min=0), "a lower bound above 0"),
        (Toggle("T"), Int(), "of type Bool, not Int"),
        (Choice("C"), Int(), "needs a function"),
        (Choice("C"), Bool(), "needs labels for True and False"),
        (Choice("C", {True: "Yes"}), Bool(), "needs labels for True and False"),
        (Choice("C", {"a": "A"}), LabelledEnum({"a": "A"}), "takes no labels"),
        (Choice("C", {"a": "A"}), Unicode(), "needs a function"),
        (Choice("C"), Unicode(), "needs a function"),
        (Search("S", lambda _: []), Int(), "of type Unicode, not Int"),
        (RANK_PICKER, Int(), "of type List, not Int"),
    ],
)
def test_a_control_that_does_not_suit_its_trait_is_refused(control: Control, trait, reason):
    with pytest.raises(TypeError, match=reason):
        control.check(trait)
