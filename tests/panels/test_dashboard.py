from __future__ import annotations

import gzip
from collections.abc import Iterator
from dataclasses import replace
from html import escape

import pytest
from IPython.core.formatters import DisplayFormatter
from traitlets import TraitError

from hta_widgets import open_trace
from hta_widgets.analyses.timeline import window_budget as window_budgets
from hta_widgets.analyses.timeline.window_budget import window_budget
from hta_widgets.diagnosis import budget, diagnosis
from hta_widgets.diagnosis.budget_table import class_of
from hta_widgets.diagnosis.facts.not_recorded import UNTOLD_OF_GPU
from hta_widgets.diagnosis.rank_answers import replay_of_ranks
from hta_widgets.errors import ParameterError
from hta_widgets.names.readable import distinct_labels
from hta_widgets.panels import Dashboard, Panel, Selection
from hta_widgets.panels.bands import bands as bands_module
from hta_widgets.panels.bands.bands import LEAST_OUTSIDE, MOSTLY, headline, verdict
from hta_widgets.panels.bands.budget import budget_band
from hta_widgets.panels.bands.messages import BudgetBand
from hta_widgets.panels.bands.search import kernel_times
from hta_widgets.panels.bands.tabs import answering_panel, order, tabs_of
from hta_widgets.panels.base.finding_rows import shown_rows
from hta_widgets.panels.dashboard import OF_DIAGNOSIS, OF_TWO_JOBS, PANELS
from hta_widgets.quantities import NS_PER_MS, duration
from hta_widgets.trace.job import Job
from tests.kineto_text import call, host, kernel, step, write
from tests.nsys_export import NVTX, nvtx, write_sqlite
from tests.panels.fakes import FakePanel


def test_all_panels_share_the_selection_of_the_job(loaded: Job):
    board = Dashboard(loaded)
    assert board.selection is Selection.of(loaded)
    assert all(panel.selection is board.selection for panel in board.panels.values())
    board.selection.ranks = [1]
    assert all(panel.ranks == [1] for panel in board.panels.values())
    board.selection.ranks = []


def test_the_header_names_the_job_its_ranks_and_its_files(loaded: Job):
    header = Dashboard(loaded).header
    assert header._spec["title"] == loaded.name
    assert header.result.finding == "4 ranks: 0-3."
    assert header.table["rank"].tolist() == [0, 1, 2, 3]
    assert header.figures == {}


def test_notices_on_the_job_are_said_once(loaded: Job):
    board = Dashboard(loaded)
    assert any("ProfilerStep" in notice for notice in board.header._view["notices"])
    for panel in board.panels.values():
        assert any("ProfilerStep" in notice for notice in panel.result.notices)
        assert not any("ProfilerStep" in notice for notice in panel._view["notices"])


@pytest.mark.parametrize("name", ["more/dlrm_8rank", "kineto/cpu_only", "kineto/b200_eager"])
def test_all_that_is_noticed_of_the_verdict_is_said_once(real_traces, name):
    """That ranks began apart stood in the terminal alone, as all that limits a verdict."""
    board = Dashboard(real_traces / name)
    board.compute_all()
    bands, found = board._bands, board.findings
    rows = [
        f"{row['sentence']} {each['do']}" for row in bands["findings"] for each in row["advice"]
    ]
    said = [*board.header._view["notices"], *bands["notices"], *found.unexplained, *rows]
    of_gpu = [each.sentence for each in found.not_recorded if each.untold == UNTOLD_OF_GPU]
    assert {*found.notices} <= {*said, *of_gpu}  # which the first line of such a job says
    assert len({*said}) == len(said)
    assert bands["notices"] or found.cpu_work


def test_ranges_alone_open_the_panel_that_lists_them(tmp_path):
    """That of the operators opened, at first and by *Show*, and was empty."""
    ranges = [nvtx(0, 900, "forward"), nvtx(100, 700, "find")]
    board = Dashboard(open_trace(write_sqlite(tmp_path / "a.sqlite", {NVTX: ranges})))
    board.compute_all()
    (row,) = board._bands["findings"]
    assert row["panel"] == answering_panel(board.findings) == "gpu_annotations"
    board.panels["gpu_annotations"].compute_all()
    assert board.panels["gpu_annotations"].table["annotation"].tolist() == ["forward", "find"]


def test_collectives_on_the_cpu_open_the_panel_that_shows_them(tmp_path):
    """For 1.1 s in collectives, the first panel said that aten::empty takes the most: 3.96 µs."""
    gloo = host(0, 900, "gloo:all_reduce", cat="user_annotation")
    board = Dashboard(write(tmp_path / "trace.json", [gloo, host(990, 1, "aten::empty")]))
    board.compute_all()
    (first, *_) = board._bands["findings"]
    assert first["panel"] == board.panel == "gpu_annotations"


def test_counters_of_kernels_open_their_panel(tmp_path):
    """*Show* opened the times of operators, which are those of replays."""
    measured = kernel(20, 1, cat="cuda_profiler_range", **{"inst.sum": 10})
    events = [host(0, 50, "aten::mm"), call(10, 5, 1), measured]
    board = Dashboard(write(tmp_path / "trace.json", events))
    board.compute_all()
    (first, *_) = board._bands["findings"]
    assert first["panel"] == board.panel == "cupti_counters"
    assert first["advice"][0]["do"].startswith("The tab CUPTI counters shows what was measured")
    assert "no times of GPU work" in board._bands["facts"]
    assert board.header._view["notices"] == [
        "the trace has counters of kernels, and not when they ran"
    ]


def test_without_gpu_work_nothing_is_offered_or_said_of_it(tmp_path):
    """A CPU-only page had buttons for GPU time, and said what "launches no selected GPU work"."""
    board = Dashboard(write(tmp_path / "trace.json", [host(0, 50, "aten::mm")]))
    board.compute_all()
    controls = board.panels["operators"]._spec["controls"]
    assert "Show" not in [each["label"] for each in controls]
    board.selection.set(operators=("aten::mm",))
    board.compute_all()
    assert board._bands["detail"]["about"] == ""


def test_how_to_record_the_work_of_launches_is_on_the_page(tmp_path):
    events = [host(0, 90, "aten::mm"), *(call(10 * number, 5, number + 1) for number in range(9))]
    board = Dashboard(write(tmp_path / "trace.json", events))
    board.compute_all()
    (first, *_) = board._bands["findings"]
    assert first["sentence"].startswith("Launched GPU work is not recorded")
    assert first["advice"][0]["do"].startswith("Wait for the GPU before the recording ends")


def test_panels_are_found_by_the_name_of_their_analysis(loaded: Job):
    board = Dashboard(loaded)
    assert {"temporal_breakdown", "overlap", "kernel_breakdown"} <= set(board.panels)
    assert all(isinstance(panel, Panel) for panel in board.panels.values())
    assert "kernel_breakdown" in repr(board)


def test_counters_have_a_panel_only_where_there_are_any(loaded: Job, tmp_path):
    counted = kernel(0, 1, cat="cuda_profiler_range", **{"inst.sum": 10})
    path = write(tmp_path / "trace.json", [call(0, 1, 1), counted])
    assert "cupti_counters" not in Dashboard(loaded).panels
    assert "cupti_counters" in Dashboard(path).panels


def test_its_panels_are_references_for_the_browser(loaded: Job):
    board = Dashboard(loaded)
    shown = [board.header, *board.panels.values()]
    assert board.get_state()["_panels"] == [f"anywidget:{panel.model_id}" for panel in shown]
    assert board._spec["titles"] == [panel.title for panel in board.panels.values()]
    follows = dict(zip(board.panels, board._spec["follows"], strict=True))
    assert follows["idle_time"] == ["steps", "phase", "window_ns", "streams"]
    assert follows["queue_length"] == ["streams"]
    assert follows["kernel_breakdown"] == ["steps", "phase", "window_ns"]


def test_its_own_panels_have_a_static_picture(loaded: Job):
    panels = Dashboard(loaded).panels
    for name, charts in (("ranks", 1), ("steps", 2)):
        assert panels[name].summary().count('<img alt="Chart: ') == charts


def test_its_summary_has_the_findings_the_budget_and_the_kernels(loaded: Job):
    board = Dashboard(loaded)
    data, _ = DisplayFormatter().format(board)
    page = data["text/html"]
    assert data["text/plain"] == repr(board)
    assert data["application/vnd.jupyter.widget-view+json"]["model_id"] == board.model_id
    assert escape(board.header.result.finding.removesuffix(".")) in page
    for found in board.findings:
        assert escape(found.sentence) in page
    assert 'alt="Chart: Where a step goes"' in page
    for label in distinct_labels(kernel_times(loaded)["name"][:10].tolist(), 80):
        assert escape(label) in page


def test_only_the_panel_on_show_is_computed(loaded: Job):
    board = Dashboard(loaded)
    assert all(panel._computed is None for panel in board.panels.values())
    board._repr_mimebundle_()
    computed = {name for name, panel in board.panels.items() if panel._computed is not None}
    assert computed == {"idle_owners", "timeline"}
    assert board.panels["idle_time"].result.finding


def test_nothing_is_computed_for_a_page_that_does_not_show_it(loaded: Job):
    board = Dashboard(loaded)
    board.selection.ranks = [1]
    assert not board._bands["ready"]
    board.set_state({"_visible": True})
    assert board._bands["ready"]
    assert board._bands["budget"]["whose"].startswith("rank 1,")
    board.set_state({"_visible": False})
    board.selection.ranks = []
    assert board._bands["budget"]["whose"].startswith("rank 1,")
    board.set_state({"_visible": True})
    assert board._bands["budget"]["whose"].startswith("mean of 4 ranks,")


ALL_KINDS = {**PANELS, **OF_DIAGNOSIS}


def kinds(*names):
    return {name: ALL_KINDS[name] for name in names}


class TestTabs:
    def test_each_panel_but_the_bands_is_in_a_tab(self, loaded: Job):
        spec = Dashboard(loaded)._spec
        shown = {place for tab in spec["tabs"] for place in tab["panels"]}
        names = {spec["names"][place - 1] for place in shown}
        assert names == {*spec["names"]} - {"diagnosis", "timeline", "what_if"}

    def test_each_has_its_panels_in_this_order(self):
        names = [*ALL_KINDS, *OF_TWO_JOBS]
        tabs = tabs_of({**ALL_KINDS, **OF_TWO_JOBS})
        shown = {tab["label"]: [names[place - 1] for place in tab["panels"]] for tab in tabs}
        assert list(shown.items()) == [
            ("Ranks", ["ranks", "rank_overlap", "temporal_breakdown"]),
            ("Steps", ["server_steps", "steps"]),
            ("Critical path", ["critical_path"]),
            (
                "Kernels",
                ["kernel_breakdown", "duration_tails", "kernel_sequences", "fusable_kernels"],
            ),
            ("Operators", ["operators", "flame", "modules", "gpu_annotations", "roofline"]),
            ("Communication", ["collectives", "overlap"]),
            (
                "Idle & launch",
                ["idle_owners", "idle_time", "launch_stats", "launch_overlap", "queue_length"],
            ),
            ("Memory", ["memory_use", "memory_bandwidth"]),
            ("Compare", ["change", "compare"]),
            ("CUPTI counters", ["cupti_counters"]),
        ]

    def test_a_panel_that_names_no_tab_is_in_the_last_one(self):
        tab = tabs_of({"diagnosis": PANELS["diagnosis"], "of_a_user": FakePanel})[-1]
        assert (tab["label"], tab["panels"]) == ("More", [2])

    def test_a_panel_names_a_tab_that_there_is(self):
        wrong = type("Wrong", (FakePanel,), {"tab": "sleep"})
        with pytest.raises(TypeError, match=r"^Wrong.tab is 'sleep'; a dashboard has .*'idle'"):
            order(wrong)

    def test_a_tab_without_panels_is_left_out(self):
        names = [tab["name"] for tab in tabs_of(kinds("memory_use", "ranks"))]
        assert names == ["ranks", "memory"]

    def test_one_is_opened_from_python_and_from_a_page(self, loaded: Job):
        board = Dashboard(loaded)
        assert (board.tab, board.panel) == ("ranks", "ranks")
        board.set_state({"panel": "duration_tails"})
        assert (board.tab, board.panel) == ("kernels", "duration_tails")
        assert board.table is board.panels["duration_tails"].table
        board.tab = "kernels"
        assert board.panel == "kernel_breakdown"
        with pytest.raises(ParameterError, match=r"tab must be one of 'ranks', .*, got 'none'"):
            board.tab = "none"
        with pytest.raises(TraitError, match=r"panel must be one of ranks, .*, got 'timeline'"):
            board.panel = "timeline"
        with pytest.raises(TypeError, match=r"^Dashboard has no parameter tabs; help\("):
            Dashboard(loaded, tabs="kernels")
        board.set_state({"panel": "none"})
        assert board.tab == "kernels"
        assert Dashboard(loaded, tab="memory").panel == "memory_use"
        assert Dashboard(loaded, panel="flame").tab == "operators"

    def test_that_of_the_first_finding_is_open_unless_one_was_chosen(self, loaded: Job):
        board, chosen = Dashboard(loaded), Dashboard(loaded, tab="memory")
        board.compute_all()
        chosen.compute_all()
        assert board.panel == board.findings[0].links[0].panel == "idle_owners"
        assert chosen.tab == "memory"
        board.tab = "ranks"
        board.selection.ranks = [1]
        board.compute_all()
        assert board.panel == "ranks"
        board.selection.ranks = []

    def test_that_of_the_kernels_is_open_where_nothing_stands_out(self, tmp_path):
        works = [
            each
            for place in range(50)
            for each in (call(place, 1, place), kernel(100 * place + 5, 99.9, correlation=place))
        ]
        board = Dashboard(write(tmp_path / "rank-0.json", works))
        board.compute_all()
        assert (len(board.findings), board.panel) == (0, "kernel_breakdown")


def bar_of(board: Dashboard) -> BudgetBand:
    rows = shown_rows(board.findings, board.selection)
    bar = budget_band(board.findings, board.selection, rows)
    assert bar is not None
    return bar


class TestBudget:
    @pytest.fixture
    def board(self, loaded: Job) -> Iterator[Dashboard]:
        board = Dashboard(loaded)
        yield board
        board.selection.set()

    def test_its_parts_are_the_mean_step(self, board):
        table = budget(board.findings.steps)
        parts = bar_of(board)["parts"]
        assert sum(part["share"] for part in parts) == pytest.approx(1)
        for part in parts:
            ns = table[f"{part['name']}_ns"].mean()
            assert part["share"] == pytest.approx(ns / table["period_ns"].mean())
            assert part["share"] == part["all_share"]

    def test_selected_ranks_stand_before_all_ranks_on_one_scale(self, board):
        whole = bar_of(board)
        board.selection.set(ranks=[3], steps=(10,))
        chosen = bar_of(board)
        assert (whole["compared"], chosen["compared"]) == (False, True)
        assert chosen["whose"].startswith("rank 3, 1 step, in ms; ")
        table = budget(board.findings.steps)
        own = table[(table["rank"] == 3) & (table["step"] == 10)].iloc[0]
        longest = max(table["period_ns"].mean(), own["period_ns"])
        for part in chosen["parts"]:
            assert part["share"] == pytest.approx(own[f"{part['name']}_ns"] / longest)
            assert part["all_share"] == pytest.approx(table[f"{part['name']}_ns"].mean() / longest)

    def test_a_window_stands_before_all_drawn_as_long(self, board):
        steps = board.findings.steps
        window = int(steps["start_ns"].max()) + 2_000_000, int(steps["end_ns"].max()) - 1_000_000
        whole = bar_of(board)
        board.selection.set(ranks=[1, 3], window_ns=window)
        chosen = bar_of(board)
        table = window_budget(board.job, [1, 3], window).groupby("rank").sum()
        assert chosen["title"] == "Where the window goes"
        assert chosen["whose"].startswith("mean of ranks 1, 3 in ")
        assert (chosen["compared"], chosen["behind"].endswith("scaled to the window")) == (
            True,
        ) * 2
        all_shares = {part["name"]: part["share"] for part in whole["parts"]}
        for part in chosen["parts"]:
            ns = table[f"{part['name']}_ns"].mean()
            assert part["share"] == pytest.approx(ns / table["period_ns"].mean())
            assert part["all_share"] == pytest.approx(all_shares[part["name"]])
        ranks = board.panels["ranks"]
        own = ranks.table.set_index("rank")
        assert own.loc[3, "compute_ms"] == pytest.approx(table.loc[3, "compute_ns"] / 1e6)
        (drawn,) = ranks.figures.values()
        assert drawn.layout.xaxis.title.text == "ms in the window"

    @pytest.mark.parametrize(("beyond_ns", "is_said"), [(20_000, False), (40_000, True)])
    def test_it_says_how_much_of_a_window_is_not_analysed(self, board, beyond_ns, is_said):
        last = board.findings.steps.nlargest(1, "end_ns")
        end = int(last["end_ns"].iloc[0])
        board.selection.set(ranks=last["rank"].tolist(), window_ns=(end - 3_000_000, end))
        whose = bar_of(board)["whose"]
        assert whose.endswith("total 3 ms")
        board.selection.set(
            ranks=last["rank"].tolist(), window_ns=(end - 3_000_000, end + beyond_ns)
        )
        said = bar_of(board)["whose"].removeprefix(whose.partition(" in ")[0])
        assert said.endswith(", the other 40 µs is not analysed") is is_said

    def test_its_steps_add_up_to_a_window_to_the_nanosecond(self, board):
        """Means of ranks, of which one may have a step in the window that another has not."""
        table = board.findings.steps
        window = int(table["start_ns"].min()) + 3_000_001, int(table["end_ns"].max()) - 1_000_003
        whole = board.panels["steps"].table.set_index("step")
        board.selection.set(ranks=[1, 3], window_ns=window)
        panel = board.panels["steps"]
        rows = panel.table.set_index("step")
        inside = window_budget(board.job, [1, 3], window)
        names = [name for name in rows if name != "whole_step_ms"]
        for name in names:
            ns = inside[name.replace("_ms", "_ns")].sum()
            assert round(2e6 * rows[name].sum()) == ns > 0
        assert {f"{part['name']}_ms" for part in bar_of(board)["parts"]} >= {*names} - {"period_ms"}
        assert rows.index.tolist() == whole.index.tolist() == [10, 11]
        own = budget(table[table["rank"].isin([1, 3])]).groupby("step")["period_ns"].mean() / 1e6
        assert rows["whole_step_ms"].tolist() == pytest.approx(own.tolist())
        assert (rows["period_ms"] < rows["whole_step_ms"]).all()

    def test_bands_and_tabs_count_a_window_once(self, board, monkeypatch):
        asked = []

        def counting(job, ranks, window_ns):
            asked.extend(ranks)
            return counted(job, ranks, window_ns)

        counted = window_budgets._budgets
        monkeypatch.setattr(window_budgets, "_budgets", counting)
        board.selection.set(ranks=[2], window_ns=(3_000_007, 31_000_000))
        assert bar_of(board)["compared"]
        assert board.panels["ranks"].table["rank"].size == 4
        assert "whole_step_ms" in board.panels["steps"].table
        assert sorted(asked) == [0, 1, 2, 3]

    def test_a_step_that_a_window_cuts_stands_before_all_of_it(self, board):
        steps = board.findings.steps.set_index("step")
        last = steps.loc[11]
        board.selection.window_ns = int(last["start_ns"].max()) + 2_000_000, 10**12
        panel = board.panels["steps"]
        figure = panel.figures["Where each step goes"]
        (box,) = figure.layout.shapes
        (row,) = panel.table.to_dict("records")
        assert (row["step"], row["period_ms"] < row["whole_step_ms"]) == (11, True)
        assert (box.layer, box.y0, box.y1) == ("below", 0, row["whole_step_ms"])
        assert figure.layout.yaxis.title.text == "ms in the window"
        assert figure.layout.yaxis.range[1] > box.y1
        assert panel._view["time"] == board.selection.time_in_words()
        board.selection.window_ns = None
        assert not panel.figures["Where each step goes"].layout.shapes

    def test_a_window_outside_of_all_that_is_analysed_holds_nothing(self, board):
        """Before the first step, the whole job was shown, as if nothing were selected."""
        board.selection.window_ns = (-1_000, -500)
        chosen = bar_of(board)
        assert chosen["whose"] == f"no analysed time in {board.selection.time_in_words()}"
        assert chosen["compared"]
        assert not any(part["share"] for part in chosen["parts"])
        assert sum(part["all_share"] for part in chosen["parts"]) == pytest.approx(1)
        for name in ("ranks", "steps"):
            panel = board.panels[name]
            panel.compute_all()
            said = "The selected window contains no analysed time."
            assert panel.nothing_to_show(panel.result) == said
            assert panel._view["empty"] == said

    def test_a_class_selects_the_finding_that_is_seen_in_it(self, board):
        rows = shown_rows(board.findings, board.selection)
        parts = {part["name"]: part for part in bar_of(board)["parts"]}
        causes = [each.cause for each in board.findings]
        loading = rows[causes.index("input_starvation")]
        assert loading["occurrences"]
        assert parts["data_loading"]["show"] == loading["show"]
        assert parts["other_idle"]["show"] is None

    def test_steps_that_are_not_analysed_select_nothing(self, board):
        board.selection.steps = (99,)
        assert not bar_of(board)["compared"]


def test_the_selected_events_are_sent_as_a_file(loaded: Job, monkeypatch):
    board, sent = Dashboard(loaded), []
    monkeypatch.setattr(board, "send", lambda content, buffers: sent.append((content, buffers)))
    board.selection.set(kernel=board.events["name"][0], ranks=[2], steps=(11,))
    order = {"sort": "", "descending": False, "filter": ""}
    asked = {"kind": "table-text", "id": "7", "style": "csv", "offset": 0, **order}
    board._handle_custom_msg(asked, [])
    ((content, (packed,)),) = sent
    assert (content["id"], content["bytes"]) == ("7", len(packed))
    lines = gzip.decompress(packed).decode().splitlines()
    assert len(lines) == 1 + len(board.events)
    assert lines[0].lstrip("\ufeff").replace('"', "").split(",") == [*board.events]
    board.compute_all()
    assert board._bands["detail"]["about"].endswith(" · on rank 2 · in step 11")
    board.selection.set()


def test_what_a_step_takes_without_the_ticked_findings_is_replayed_together(loaded: Job):
    board = Dashboard(loaded)
    board.compute_all()
    found = board.findings
    assert board._bands["replayed"] == [*range(len(found))]
    left = duration(found.step_ns - found.joint_ms * 1e6)
    assert f"Without {len(found)} findings, at best: 23.5 ms → {left}" in board._together
    board.set_state({"_visible": True, "unticked": [*range(1, len(found))]})
    alone = found.together(found[:1])
    assert alone.gain_ms == pytest.approx(found[0].recoverable_ms)
    assert f"{duration(found.step_ns - alone.gain_ms * 1e6)} (" in board._together
    board.unticked = [*range(len(found))]
    assert board._together.startswith("Tick findings")


def test_the_replay_is_not_kept_and_says_the_same_when_it_is_made_again(loaded: Job):
    board = Dashboard(loaded)
    before = board.findings.together(board.findings)
    board._repr_mimebundle_()
    assert replay_of_ranks not in {each.function for each in loaded._remembered}
    assert board.findings.together(board.findings) == before


def test_a_failure_is_said_in_the_bands(loaded: Job, monkeypatch):
    def fail(*_):
        msg = "a mistake of ours"
        raise KeyError(msg)

    monkeypatch.setattr(bands_module, "bands_of", fail)
    board = Dashboard(loaded.only(loaded.ranks))  # which nobody has asked yet
    page = board._repr_mimebundle_()[0]["text/html"]
    assert "a mistake of ours" in board._bands["error"]
    assert "a mistake of ours" in page


def test_its_summary_is_escaped_and_stays_small(tmp_path):
    evil = "<img src=x onerror=alert(1)>"
    names = [f"{place} {evil * 999}" for place in range(40)]
    calls = [call(10 * place, 1, place) for place in range(40)]
    kernels = [kernel(10 * i + 2, 5, name=name, correlation=i) for i, name in enumerate(names)]
    path = write(tmp_path / "trace.json", [*calls, *kernels])
    page = Dashboard(path)._repr_mimebundle_()[0]["text/html"]
    assert evil not in page
    assert escape(evil) in page
    assert len(page.encode()) <= 60_000


def test_closing_it_closes_its_panels(loaded: Job):
    board = Dashboard(loaded)
    board.close()
    assert all(each.comm is None for each in (board, board.header, *board.panels.values()))
    assert board.selection.comm is not None


def test_the_budget_of_the_ranks_says_what_it_counts(loaded: Job, tmp_path):
    for rank in (0, 1):
        write(tmp_path / f"rank-{rank}.json", [call(0, 1, 1), kernel(5, 10, correlation=1)])
    boards = Dashboard(loaded), Dashboard(tmp_path)
    titles = [
        figure.layout.xaxis.title.text
        for board in boards
        for figure in board.panels["ranks"].figures.values()
    ]
    assert titles == ["ms per step", "ms of the GPU span"]


def test_one_rank_is_compared_with_nothing(tmp_path):
    board = Dashboard(
        write(tmp_path / "rank-0.json", [call(0, 1, 1), kernel(5, 10, correlation=1)])
    )
    assert not {"ranks", "temporal_breakdown"} & set(board.panels)
    assert "ranks" not in [tab["name"] for tab in board._spec["tabs"]]


def test_classes_are_listed_from_that_of_the_first_finding_on_by_their_time(loaded: Job):
    board = Dashboard(loaded)
    first = class_of(board.findings[0].cause).name
    for name, head in (("ranks", 2), ("steps", 2)):
        table = board.panels[name].table
        classes = [*table][head:]
        assert classes[0] == f"{first}_ms"
        times = table[classes[1:]].sum().tolist()
        assert times == sorted(times, reverse=True)


def test_ranks_and_steps_say_what_their_tables_show(loaded: Job):
    board = Dashboard(loaded)
    for name, told in (("ranks", "waiting_ms"), ("steps", "period_ms")):
        panel = board.panels[name]
        table, said = panel.table, panel.sentence(panel.result)
        if name == "ranks":
            own = table[[each for each in table if each in panel.table_labels and each != told]]
            most = panel.table_labels[own.sum().idxmax()]
            assert said.startswith(f"Largest part of the mean rank apart from waiting: {most} (")
        for end in (table[told].min(), table[told].max()):
            assert duration(end * NS_PER_MS) in said
    steps = diagnosis(loaded).steps
    start = int(steps["start_ns"].min())
    board.selection.window_ns = start, start + int(steps["period_ns"].min()) // 2
    assert panel.sentence(panel.result).startswith("Most of the window goes to ")
    board.selection.window_ns = None


def test_the_longest_step_is_told_with_what_it_has_more_of(real_traces):
    panel = Dashboard(real_traces / "kineto" / "ddp_rank1of2").panels["steps"]
    table = panel.table.set_index("step")
    longest = table["period_ms"].idxmax()
    more = (table.loc[longest] - table.median()).drop("period_ms")
    said = f"Step {longest} is the longest: {panel.table_labels[more.idxmax()]} +"
    assert f"{said}{duration(more.max() * NS_PER_MS)} compared" in panel.sentence(panel.result)


@pytest.mark.parametrize(
    "recording",
    ["kineto/ddp_rank1of2", "kineto/h100_qwen", "kineto/simple_add", "kineto/triton"],
)
def test_no_view_of_calls_is_listed_that_would_be_empty(real_traces, recording):
    board = Dashboard(real_traces / recording)
    for name in ("modules", "gpu_annotations", "roofline"):
        result = PANELS[name](board.job).result
        of = {"roofline": "operators", "gpu_annotations": "annotations"}
        table = getattr(result, of.get(name, name))
        assert (name in board.panels) == (not table.empty), name


def test_the_header_says_where_a_recording_is_not_sound(tmp_path):
    sound = [call(0, 1, 1), kernel(5, 10, correlation=1)]
    faulty = "recording faults, see notices"
    early = [sound[0], kernel(-200, 10, correlation=1)]
    for events, facts in (
        (sound, []),
        ([*sound, *sound], [faulty]),
        (early, ["⚠ recording unreliable"]),  # findings are doubted
    ):
        write(tmp_path / "rank-0.json", events)
        board = Dashboard(tmp_path)
        page = board._repr_mimebundle_()[0]["text/html"]
        assert board._bands["facts"] == [*facts, "1 GPU", "GPU span of 10 µs"]
        assert all(each in page for each in facts)
        twice = [each for each in board.header.result.notices if "in the file twice" in each]
        assert len(twice) == (faulty in facts)


def test_what_captures_of_graphs_add_is_said(real_traces):
    trace = real_traces / "kineto/vllm_piecewise"
    plain = Dashboard(trace)
    plain.set_state({"_visible": True})
    assert not any("capture" in each for each in plain._bands["facts"])
    captures = real_traces / "kineto/vllm_piecewise_capture"
    board = Dashboard(open_trace(trace, captures=captures))
    board.set_state({"_visible": True})
    assert "25 of 25 graph replays matched to captures" in board._bands["facts"]
    assert any(
        "have the operators of their captures" in each for each in board.header.result.notices
    )
    joined = board.events[board.events["launch"].str.contains("GraphLaunch")].iloc[0]
    for field, name in (("operators", [joined["operator"]]), ("kernel", joined["name"])):
        board.selection.set(**{field: name})
        assert "as recorded in the graph's capture" in board._bands["detail"]["about"]
    plain.selection.set(kernel=joined["name"])
    assert "capture" not in plain._bands["detail"]["about"]


@pytest.mark.parametrize(
    ("outside_us", "said"),
    [
        (0, "everything"),
        (9.9, "everything"),
        (10, f"everything ({LEAST_OUTSIDE} % of the GPU time is outside the steps of the verdict)"),
    ],
)
def test_gpu_time_that_the_verdict_does_not_count_is_said(tmp_path, outside_us, said):
    """A kernel breakdown had 241 launches of a kernel, and the verdict above it 168."""
    inside_us = 1000 - outside_us
    events = [step(1, 90, 2000), call(100, 5, 1), kernel(110, inside_us, correlation=1)]
    write(tmp_path / "rank-0.json", [kernel(20, outside_us), *events])
    board = Dashboard(tmp_path)
    board.compute_all()
    assert board._bands["everything"] == said


def test_the_budget_is_of_the_mean_step_of_the_ranks_in_all_bands(tmp_path):
    """Three ranks of 10, 20 and 90 ms: a job of 90 ms, 40 ms in the mean, which the bars are of."""
    for rank, ends in enumerate((10_000, 20_000, 90_000)):
        gap = [call(ends - 1_010, 5, 2), kernel(ends - 1_000, 1_000, correlation=2)]
        write(tmp_path / f"rank-{rank}.json", [call(-1, 1, 1), kernel(0, 500, correlation=1), *gap])
    board = Dashboard(tmp_path)
    page = board._repr_mimebundle_()[0]["text/html"]
    bands = board._bands
    assert bands["facts"][-1] == "GPU span of 90 ms"
    assert bands["verdict"].startswith(board.findings.bound_by)
    assert verdict(board.findings).endswith(" of a rank's 40 ms GPU span")
    assert bands["budget"]["whose"].endswith(
        "total 40 ms of the 90 ms from the first rank's start to the last one's end"
    )
    assert "GPU span of 90 ms" in page
    assert "40 ms in the mean GPU span" in page
    assert bands["budget"]["title"] == "Where the GPU span goes"
    assert "steps" not in board.panels  # of one, the budget says it
    assert 'alt="Chart: Where the GPU span goes"' in page


@pytest.mark.parametrize(("gap", "is_said"), [(0, False), (1, True)])
def test_a_gpu_that_always_computes_does_not_wait_for_0_ns(tmp_path, gap, is_said):
    work = [kernel(0, 500, correlation=1), kernel(500 + gap, 500, correlation=2)]
    file = write(tmp_path / "rank-0.json", [call(-9, 1, 1), call(-5, 1, 2), *work])
    assert bool(verdict(diagnosis(open_trace(file)))) == is_said


@pytest.mark.parametrize("percent", [59.0, 61.0])
def test_what_sets_most_of_the_rest_of_the_pace_is_said_where_it_is_much(loaded: Job, percent):
    shares = {"the GPU": percent, "the host": 30.0, "copying": 9.0}
    bound_by = f"bound by the GPU ({percent:.0f} % of the critical path)"
    said = headline(replace(diagnosis(loaded), findings=(), bound_by=bound_by, shares=shares))
    assert (", the host 30 %)" in said) == (percent < MOSTLY)
    assert bound_by[:-1] in said
