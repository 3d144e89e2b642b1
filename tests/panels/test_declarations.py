"""Controls and buttons are where a panel declares them; a declaration without effect is refused."""

from __future__ import annotations

import pytest
from traitlets import Bool, Int, List

from hta_widgets.panels.base.controls import RANK_PICKER, Slider, Toggle
from hta_widgets.panels.base.declarations import button
from hta_widgets.panels.dashboard import PANELS
from hta_widgets.trace.job import Job
from tests.panels.fakes import FakePanel, StreamsPanel, fake_job


class ExtendedPanel(FakePanel):
    last = Bool().tag(sync=True, control=Toggle("Last"))
    bars = Int(5, min=2).tag(sync=True, control=Slider("More bars", max=50))

    @button("Second")
    def second(self): ...

    @button("First")
    def first(self): ...


def test_controls_are_in_the_order_of_declaration_inherited_ones_first():
    assert list(FakePanel.controls) == ["ranks", "bars", "ratio", "named"]
    assert list(ExtendedPanel.controls) == ["ranks", "bars", "ratio", "named", "last"]
    assert list(StreamsPanel.controls) == ["ranks", "bars", "ratio", "named", "streams"]


def test_buttons_are_in_the_order_of_declaration():
    assert list(ExtendedPanel.buttons) == ["second", "first"]
    assert not FakePanel.buttons


def test_a_trait_declared_again_has_its_own_control():
    controls = {each["name"]: each for each in ExtendedPanel(fake_job())._spec["controls"]}
    assert (controls["bars"]["label"], controls["bars"]["min"]) == ("More bars", 2)


def test_buttons_come_last_and_only_where_traces_can_be_written(loaded: Job):
    queue = PANELS["queue_length"](loaded)
    kinds = [control["kind"] for control in queue._spec["controls"]]
    assert kinds == ["picker", "picker", "button"]


def declare(**declarations):
    return type("Wrong", (FakePanel,), declarations)


@pytest.mark.parametrize(
    ("declarations", "reason"),
    [
        ({"n": Int(min=0).tag(sync=True, knob=Toggle("N"))}, r"the tag knob="),
        ({"n": Bool().tag(sync=True, control="N")}, r"the tag control='N' is not a control"),
        ({"n": Bool().tag(control=Toggle("N"))}, r".* is public and has the tag sync=True"),
        ({"_n": Bool().tag(sync=True, control=Toggle("N"))}, r".* is public"),
        ({"n": Int().tag(sync=True, control=Toggle("N"))}, r"Toggle\('N'\) sets a trait of"),
        ({"n": Toggle("N")}, r"a control is declared with its trait"),
        ({"add_class": Int().tag(sync=True)}, r"every widget has a method of this name"),
        ({"kernels": List().tag(sync=True, control=RANK_PICKER)}, r"ranks or streams"),
        ({"_write": button("W")(lambda self: self)}, r"a button is declared on a public"),
        ({"follows": ("kernelz",)}, r"follows .*kernelz"),
    ],
)
def test_a_declaration_without_effect_is_refused_with_its_class(declarations, reason):
    with pytest.raises(TypeError, match=rf"^Wrong[. ].*{reason}"):
        declare(**declarations)


def test_a_button_needs_a_label():
    with pytest.raises(TypeError, match="takes the label"):

        @button
        def write(): ...
