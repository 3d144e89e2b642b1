"""What every panel does: parameters, one view for each message, errors in words, laziness."""

from __future__ import annotations

import json

import ipywidgets
import pytest
from IPython.core.formatters import DisplayFormatter
from traitlets import TraitError

from hta_widgets.errors import HtaWidgetsError, UnknownRankError
from hta_widgets.panels import Selection
from tests.panels.fakes import EVIL, FakePanel, StreamsPanel, fake_job, send


@pytest.fixture
def panel() -> FakePanel:
    return FakePanel(fake_job())


class TestConstruction:
    def test_the_first_message_holds_the_picture(self, panel):
        assert panel.runs == 1
        assert panel._view["finding"] == "3 bars on 4 ranks."
        assert [figure["name"] for figure in panel._view["figures"]] == ["Bars"]

    def test_parameters_are_keywords(self):
        panel = FakePanel(fake_job(), bars=7, ratio=0.5)
        assert (panel.bars, panel.ratio, panel.runs) == (7, 0.5, 1)

    def test_an_unknown_keyword_names_those_there_are(self):
        with pytest.raises(TypeError, match=r"no parameter barz; it has bars, named, ranks, ratio"):
            FakePanel(fake_job(), barz=7)

    @pytest.mark.parametrize(
        ("slip", "meant"),
        [("bar", "bars"), ("rank", "ranks"), ("results", "result"), ("output_dirs", "output_dir")],
    )
    def test_a_slip_is_said_when_it_is_set(self, panel, slip, meant):
        with pytest.raises(AttributeError, match=f"FakePanel has no {slip}; did you mean {meant}"):
            setattr(panel, slip, 7)
        assert not hasattr(panel, slip)

    def test_other_attributes_are_kept_as_on_any_object(self, panel):
        panel.remark = panel._bar = 7
        assert (panel.remark, panel._bar) == (7, 7)
        panel.remark = 8
        assert panel.remark == 8

    def test_a_value_out_of_range_is_refused(self):
        with pytest.raises(TraitError, match="bars"):
            FakePanel(fake_job(), bars=0)

    def test_layout_is_ipywidgets_own(self):
        panel = FakePanel(fake_job(), layout=ipywidgets.Layout(width="50%"))
        assert panel.layout.width == "50%"

    def test_it_sits_in_containers(self, panel):
        for container in (ipywidgets.HBox, ipywidgets.Tab, ipywidgets.Accordion):
            assert container([panel]).children == (panel,)

    def test_the_spec_describes_the_controls(self, panel):
        assert panel._spec["title"] == "Fake"
        assert [control["kind"] for control in panel._spec["controls"]] == [
            "picker",
            "slider",
            "slider",
            "toggle",
        ]

    def test_twelve_panels_share_one_model_of_plotly(self):
        job = fake_job()
        panels = [FakePanel(job) for _ in range(12)]
        assert len({id(panel._assets) for panel in panels}) == 1
        assert panels[0].get_state("_assets")["_assets"].startswith("anywidget:")

    def test_repr_is_cheap_and_tells_the_parameters(self, panel):
        assert repr(panel) == "FakePanel('fake', bars=3, named=True, ranks=[], ratio=0.8)"
        assert panel.runs == 1


class TestParameters:
    def test_setting_one_recomputes(self, panel):
        panel.bars = 5
        assert panel._view["finding"] == "5 bars on 4 ranks."
        assert len(panel.result.bars) == len(panel.table) == 5
        assert list(panel.figures) == ["Bars"]
        assert panel.runs == 2

    def test_the_same_value_does_not(self, panel):
        panel.bars = 3
        assert panel.runs == 1

    def test_hold_recomputes_once(self, panel):
        with panel.hold():
            panel.bars = 5
            panel.ratio = 0.5
            panel.ranks = [1]
        assert panel.runs == 2
        assert panel._view["finding"] == "5 bars on 1 ranks."

    def test_they_are_observable_and_linkable(self, panel):
        slider = ipywidgets.IntSlider(value=9)
        ipywidgets.link((slider, "value"), (panel, "bars"))
        assert panel.bars == 9
        send(panel, bars=4)
        assert slider.value == 4


class TestMessages:
    def test_several_values_are_one_recomputation_and_one_answer(self, panel):
        view = send(panel, bars=5, ratio=0.5, named=False)
        assert panel.runs == 2
        assert view["rev"] == panel._req == 1
        assert view["table"]["rows"][0] == ["0", 0]

    def test_a_number_alone_is_answered_too(self, panel):
        assert send(panel)["rev"] == 1
        assert panel.runs == 1

    def test_a_refused_value_is_answered_in_words_and_taken_back(self, panel):
        view = send(panel, ratio=0.5, bars=0)
        assert view["rev"] == 1
        assert "should not be less than 1" in view["error"]
        assert view["figures"]
        assert (panel.bars, panel.ratio) == (3, 0.8)

    def test_the_next_good_value_clears_the_words(self, panel):
        send(panel, bars=0)
        assert send(panel, bars=4)["error"] is None

    def test_a_change_in_a_cell_keeps_the_number(self, panel):
        send(panel, bars=5)
        panel.bars = 6
        assert panel._view["rev"] == 1


class TestErrors:
    def test_ours_are_shown_as_they_are(self, panel):
        panel.ratio = 0.13
        assert panel._view["error"] == "13 brings bad luck; choose another ratio"
        with pytest.raises(HtaWidgetsError, match="bad luck"):
            _ = panel.result

    def test_others_are_named(self, panel):
        panel.ratio = 0.66
        assert panel._view["error"] == "KeyError: 'a mistake of ours'"

    def test_the_last_good_picture_stays(self, panel):
        good = panel._view["figures"]
        panel.ratio = 0.13
        assert panel._view["figures"] == good

    def test_they_go_when_the_cause_goes(self, panel):
        panel.ratio = 0.13
        panel.ratio = 0.5
        assert panel._view["error"] is None
        assert panel.result.finding == "3 bars on 4 ranks."

    def test_a_panel_may_begin_with_one(self):
        panel = FakePanel(fake_job(), ratio=0.13)
        assert panel._view["error"]
        assert panel._view["figures"] == []

    def test_an_unknown_rank_of_a_page_is_one(self, panel):
        view = send(panel, ranks=[9])
        assert view["error"] == "rank 9 is not in this job; its ranks are 0-3"
        assert (panel.ranks, panel.selection.ranks) == ([], [])
        assert send(panel, ranks=[1])["error"] is None
        assert panel.selection.ranks == [1]

    def test_nothing_to_show_is_none(self, panel):
        panel.ratio = 0
        assert panel._view["empty"] == "No bars at a ratio of 0."
        assert panel._view["error"] is None
        assert panel.figures == {}


class TestVisibility:
    def test_an_unseen_panel_waits(self, panel):
        panel.set_state({"_visible": False})
        panel.bars = 5
        panel.bars = 6
        assert panel.runs == 1
        panel.set_state({"_visible": True})
        assert panel.runs == 2
        assert panel._view["finding"] == "6 bars on 4 ranks."

    def test_but_not_when_it_is_read(self, panel):
        panel.set_state({"_visible": False})
        panel.bars = 5
        assert len(panel.result.bars) == 5
        assert panel.runs == 2

    def test_nor_when_the_browser_asks(self, panel):
        panel.set_state({"_visible": False})
        assert send(panel, bars=5)["finding"] == "5 bars on 4 ranks."

    def test_of_forty_only_those_on_the_page_compute_at_once(self):
        job = fake_job()
        panels = [FakePanel(job) for _ in range(40)]
        panels[0].selection.ranks = [1]
        assert {panel.runs for panel in panels} == {2}
        for panel in panels[3:5]:
            panel.set_state({"_visible": True})
        panels[0].set_state({"_visible": False})
        panels[0].selection.ranks = [2]
        assert [panel.runs for panel in panels] == [2] * 3 + [3] * 2 + [2] * 35
        assert {panel.result.finding for panel in panels} == {"3 bars on 1 ranks."}

    def test_a_panel_is_computed_when_it_is_displayed(self):
        job = fake_job()
        shown, other = FakePanel(job), FakePanel(job)
        shown.set_state({"_visible": True})
        other.bars = 5
        assert other.runs == 1
        assert "5 bars" in other._repr_mimebundle_()[0]["text/html"]
        other.ratio = 0.13
        assert "bad luck" in other._repr_mimebundle_()[0]["text/plain"]

    def test_becoming_visible_costs_nothing_by_itself(self, panel):
        panel.set_state({"_visible": False})
        panel.set_state({"_visible": True})
        assert panel.runs == 1


class TestLinking:
    def test_panels_of_a_job_follow_each_other(self):
        job = fake_job()
        first, second = FakePanel(job), FakePanel(job)
        first.ranks = [3, 1]
        assert first.ranks == second.ranks == first.selection.ranks == [1, 3]
        assert second._view["finding"] == "3 bars on 2 ranks."
        assert first.linked

    def test_panels_of_two_jobs_do_not(self):
        first, second = FakePanel(fake_job()), FakePanel(fake_job())
        first.ranks = [1]
        assert second.ranks == []

    def test_ranks_of_its_own_take_a_panel_out(self):
        job = fake_job()
        shared, own = FakePanel(job), FakePanel(job, ranks=[2])
        shared.ranks = [1]
        assert own.ranks == [2]
        assert shared.ranks == [1]
        assert not own.linked

    def test_streams_are_shared_like_ranks_by_panels_that_have_them(self):
        job = fake_job()
        first, second, without = StreamsPanel(job), StreamsPanel(job), FakePanel(job)
        first.streams = [20, 7]
        assert first.streams == second.streams == first.selection.streams == [7, 20]
        assert "streams" not in without.parameters()
        assert without.runs == 1
        own = StreamsPanel(job, streams=[9])
        assert (own.streams, own.linked, second.streams) == ([9], False, [7, 20])

    def test_a_selection_can_be_given(self):
        job, selection = fake_job(), Selection()
        panel = FakePanel(job, selection=selection, ranks=[2])
        selection.ranks = [0]
        assert panel.ranks == [0]
        assert panel.selection is selection

    @pytest.mark.parametrize("ranks", [[9], [1, 9], [-1]])
    def test_a_rank_that_the_job_lacks_is_refused(self, ranks):
        job = fake_job()
        panel = FakePanel(job)
        panel.ranks = [1]
        missing = next(rank for rank in ranks if rank != 1)
        said = f"rank {missing} is not in this job; its ranks are 0-3"
        for holder in (panel, panel.selection):
            with pytest.raises(TraitError, match=said):
                holder.ranks = ranks
        with pytest.raises(TraitError, match=said):
            panel.selection.set(ranks=ranks, kernel="gemm")
        with pytest.raises(TraitError, match=said):
            FakePanel(job, ranks=ranks)
        with pytest.raises(UnknownRankError, match=said):
            FakePanel(job, selection=Selection(ranks=ranks))
        assert (panel.ranks, panel.selection.ranks, panel.selection.kernel) == ([1], [1], "")

    def test_panels_of_two_jobs_take_the_ranks_of_both(self):
        selection = Selection()
        few, many = (FakePanel(fake_job(ranks), selection=selection) for ranks in (2, 4))
        selection.ranks = [3]
        assert few._view["error"] == "rank 3 is not in this job; its ranks are 0-1"
        assert (many._view["error"], many._view["finding"]) == (None, "3 bars on 1 ranks.")
        with pytest.raises(TraitError, match="rank 4 is not in this job; its ranks are 0-3"):
            selection.ranks = [4]
        many.close()
        selection.ranks = []
        selection.undo()
        assert selection.ranks == [3]

    def test_a_change_of_the_selection_recomputes_each_panel_once(self):
        job = fake_job()
        panels = [FakePanel(job) for _ in range(3)]
        panels[0].selection.set_state({"ranks": [1]})
        assert [panel.runs for panel in panels] == [2, 2, 2]

    def test_a_panel_that_follows_nothing_minds_its_ranks_alone(self):
        class Unlinked(FakePanel):
            follows = ()

        panel = Unlinked(fake_job())
        runs = panel.runs
        panel.selection.kernel, panel.selection.streams = "gemm", [7]
        assert panel.runs == runs
        panel.selection.ranks = [1]
        assert panel.runs == runs + 1

    def test_followed_fields_recompute(self, panel):
        panel.selection.kernel = "gemm"
        assert panel.runs == 2


class TestDisplay:
    def test_where_widgets_do_not_run_there_are_words_and_a_table(self, panel):
        panel.bars = 30
        data, _ = DisplayFormatter().format(panel)
        assert "application/vnd.jupyter.widget-view+json" in data
        assert "30 bars on 4 ranks." in data["text/plain"]
        assert data["text/html"].count("<tr>") == 1 + 10

    def test_names_from_a_trace_are_escaped(self, panel):
        page = panel._repr_mimebundle_()[0]["text/html"]
        assert EVIL not in page
        assert "&lt;img src=x" in page

    def test_the_view_is_json(self, panel):
        assert json.loads(json.dumps(panel._view)) == panel._view

    def test_a_closed_panel_no_longer_follows(self, panel):
        panel.close()
        panel.selection.ranks = [1]
        panel.selection.kernel = "gemm"
        assert panel.comm is None
        assert panel.runs == 1
