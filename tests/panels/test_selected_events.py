"""The events that a selection selects, counted again event by event."""

from __future__ import annotations

import json
from inspect import unwrap

import numpy as np
import pandas as pd
import pytest

from hta_widgets.analyses.clocks import clocks
from hta_widgets.analyses.launch_facts import launch_facts
from hta_widgets.analyses.operators import operators
from hta_widgets.analyses.time.calls import operators_of_work
from hta_widgets.panels import Dashboard, Selection
from hta_widgets.panels.bands import bands
from hta_widgets.panels.bands.detail import Windows
from hta_widgets.panels.bands.events import count_events, selected_events
from hta_widgets.quantities import duration
from hta_widgets.trace.job import Job
from tests.analyses.generated_jobs import open_job
from tests.analyses.test_modules import NET

TIMES = ["start_ns", "duration_ns", "launch_start_ns", "launch_duration_ns"]


@pytest.fixture
def board(loaded: Job):
    board = Dashboard(loaded)
    board.selection.set()
    yield board
    board.selection.set()


def test_the_operators_around_launches_are_found_once(board):
    rank = board.job.rank(0)
    board.job.forget(operators_of_work)
    board.selection.kernel = rank.gpu_work.names[rank.gpu_work.name[0]]
    assert board.events["operator"].any()
    assert unwrap(operators_of_work) in {question.function for question in rank.remembered}


def slowly(job: Job, ranks: list[int]) -> pd.DataFrame:
    """All analysed GPU work with everything around its launch call, one by one."""
    offsets = clocks(job).ranks.set_index("rank")
    rows = []
    for number in ranks:
        rank = job.rank(number)
        events, work = rank.trace.events, rank.gpu_work
        names, table = events.name.values, events.side["operators"]
        dims = table.columns["input_dims"]
        texts = [json.dumps(json.loads(text or "[]")) for text in dims.values]
        shape = {row: texts[code] for row, code in zip(table.rows, dims.codes, strict=True)}
        start, length = events.start_ns.tolist(), events.duration_ns.tolist()
        steps = rank.steps.to_frame().sort_values("start_ns")
        for place, row in enumerate(work.rows.tolist()):
            launch = int(rank.launches[row])
            around, above = [], launch
            while above >= 0:
                around.append((names[events.name.codes[above]], shape.get(above, "")))
                above = int(rank.parents[above])
            asked = start[launch] if launch >= 0 else start[row]
            begun = steps[steps["start_ns"] <= asked]
            rows.append(
                {
                    "rank": number,
                    "stream": int(work.stream[place]),
                    "step": int((begun if len(begun) else steps.head(1))["step"].iloc[-1]),
                    "name": names[events.name.codes[row]],
                    "own_start_ns": start[row],
                    "duration_ns": length[row],
                    "own_launch_ns": start[launch] if launch >= 0 else None,
                    "around": tuple(name for name, _ in around),
                    "inputs": tuple(around),
                }
            )
    assert len(offsets) == len(job.ranks)
    return pd.DataFrame(rows)


def ask(board: Dashboard, name: object) -> None:
    """What a page sends when somebody presses a button or a key."""
    data = {"method": "custom", "content": {"act": name}}
    board._handle_msg({"content": {"data": data}, "buffers": []})


@pytest.fixture(scope="module")
def everything(loaded: Job) -> pd.DataFrame:
    return slowly(loaded, list(loaded.ranks))


def test_all_of_it(board, everything):
    found = board.events
    for column in ("rank", "stream", "step", "name", "duration_ns"):
        assert found[column].tolist() == everything[column].tolist(), column
    assert all(found[column].dtype == np.int64 for column in ("rank", "step", *TIMES))
    shift = (found["start_ns"] - everything["own_start_ns"]).groupby(found["rank"]).unique()
    launched = found["launch_start_ns"] >= 0
    assert launched.tolist() == everything["own_launch_ns"].notna().tolist()
    by_launch = (found["launch_start_ns"] - everything["own_launch_ns"])[launched]
    for rank, shifts in shift.items():
        assert len(shifts) == 1
        assert set(by_launch[found["rank"] == rank]) == set(shifts)


@pytest.mark.parametrize(
    ("fields", "holds"),
    [
        ({"ranks": [1, 3]}, lambda row: row["rank"] in (1, 3)),
        ({"streams": [7]}, lambda row: row["stream"] == 7),
        ({"steps": (11,)}, lambda row: row["step"] == 11),
        ({"operators": ("aten::mul",)}, lambda row: "aten::mul" in row["around"]),
        (
            {"operators": ("aten::mul", "aten::copy_"), "ranks": [0], "steps": (10, 12)},
            lambda row: (
                row["rank"] == 0
                and row["step"] in (10, 12)
                and bool({"aten::mul", "aten::copy_"} & {*row["around"]})
            ),
        ),
    ],
)
def test_some_of_it(board, everything, fields, holds):
    board.selection.set(**fields)
    found = board.events
    expected = everything[[holds(row) for _, row in everything.iterrows()]]
    assert len(found) == count_events(board.job, board.selection) == len(expected) > 0
    for column in ("rank", "stream", "step", "name", "duration_ns"):
        assert found[column].tolist() == expected[column].tolist(), column


def test_those_of_an_operator_of_a_shape(board, everything):
    inputs = pd.Series([each for row in everything["inputs"] for each in row])
    name, shape = next(each for each in inputs.value_counts().index if "[" in each[1][1:])
    for fields, wanted in (
        ({"operators": (name,), "shapes": (shape,)}, lambda each: each == (name, shape)),
        ({"shapes": (shape,)}, lambda each: each[1] == shape),
        ({"shapes": ("[[7]]",)}, lambda _: False),
    ):
        board.selection.set(**fields)
        is_one = everything["inputs"].map(lambda row, wanted=wanted: any(map(wanted, row)))
        expected = everything[is_one]
        assert board.events["name"].tolist() == expected["name"].tolist()
        assert count_events(board.job, board.selection) == len(expected)
        assert (len(expected) > 0) == (fields["shapes"] == (shape,))
    board.selection.set(operators=(name,))
    assert len(board.events) > 0


def test_those_of_a_window_reach_into_it(board):
    every = board.events
    start, end = 12_400_000, 18_000_000
    board.selection.window_ns = (start, end)
    inside = (every["start_ns"] < end) & (every["start_ns"] + every["duration_ns"] > start)
    pd.testing.assert_frame_equal(board.events, every[inside].reset_index(drop=True))
    assert 0 < inside.sum() < len(every)


def test_those_of_a_kernel_and_a_phase(board):
    every = board.events
    name = every["name"].mode()[0]
    board.selection.set(kernel=name)
    assert (board.events["name"] == name).all()
    assert len(board.events) == (every["name"] == name).sum()
    parts = []
    for phase in ("forward", "backward", "optimizer", "other"):
        board.selection.set(phase=phase)
        parts.append(count_events(board.job, board.selection))
    assert sum(parts) == (every["launch_start_ns"] >= 0).sum()


@pytest.mark.parametrize(
    ("module", "durations"),
    [("Net_0", [10, 20, 30]), ("Net_0 › Linear_1", [20]), ("Net › Linear", [10, 20, 30])],
)
def test_those_of_a_module_or_of_all_of_a_class(tmp_path, module, durations):
    board = Dashboard(open_job(tmp_path, [NET]))
    board.selection.set(modules=[module])
    assert (board.events["duration_ns"] // 1000).tolist() == durations
    board.close()


def test_nothing_is_a_table_too(board):
    board.selection.kernel = "no such kernel"
    assert len(board.events) == 0
    assert list(board.events) == list(selected_events(board.job, Selection()))


class TestTurns:
    def test_each_event_is_shown_once(self):
        table = pd.DataFrame({"start_ns": [50, 10, 10], "duration_ns": [4, 20, 20]})
        windows = Windows.of(table)
        assert windows.neighbour(None, 1) == (0, 40)
        assert windows.neighbour((0, 40), 1) == (48, 56)
        assert windows.neighbour((48, 56), 1) == (0, 40)
        assert windows.neighbour(None, -1) == (48, 56)
        assert [windows.place(each) for each in (None, (0, 40), (48, 56), (1, 2))] == [0, 1, 2, 0]
        assert Windows.of(table.head(0)).neighbour(None, 1) is None

    def test_a_page_goes_through_them(self, board):
        name = board.events["name"].mode()[0]
        board.set_state({"_visible": True})
        board.selection.set(kernel=name, ranks=[0])
        count = board._bands["detail"]["count"]
        seen = []
        for _ in range(3):
            ask(board, "next")
            seen.append(board._bands["detail"]["place"])
        assert seen == [1, 2, 3]
        assert count > 3
        assert name in set(board.events["name"])
        ask(board, "previous")
        assert board._bands["detail"]["place"] == 2
        ask(board, "undo")
        assert board._bands["detail"]["place"] == 3

    def test_of_nothing_there_is_no_next(self, board):
        ask(board, "next")
        assert board.selection.window_ns is None


def test_details_of_a_kernel_are_those_of_its_events(board):
    name = board.events["name"].mode()[0]
    board.selection.set(kernel=name)
    events = board.events
    board.compute_all()
    detail = board._bands["detail"]
    assert detail["name"] == name
    assert [bar["rank"] for bar in detail["bars"]] == [0, 1, 2, 3]
    means = events.groupby("rank")["duration_ns"].mean()
    assert [bar["share"] for bar in detail["bars"]] == pytest.approx((means / means.max()).tolist())
    facts = {fact["label"]: fact["text"] for fact in detail["facts"]}
    assert facts["recorded"] == f"{len(events):,} times"


def test_details_have_a_name_of_one_line(real_traces):
    board = Dashboard(real_traces / "kineto" / "compare_test")
    longest = max(board.events["name"], key=len)
    assert len(longest) > 1_000
    board.selection.set(kernel=longest)
    board.compute_all()
    detail = board._bands["detail"]
    assert (detail["name"], len(detail["label"]) <= 96) == (longest, True)
    assert not detail["label"].startswith(("void", "_Z"))


def test_details_tell_the_part_of_a_kernel_in_the_window(board):
    name = board.events["name"].mode()[0]
    board.selection.set(kernel=name)
    events = board.events
    first, second = (events.iloc[place] for place in (0, 1))
    middle_ns = int(first["start_ns"] + first["duration_ns"] // 2)
    board.selection.set(kernel=name, ranks=[0], window_ns=(middle_ns, int(second["start_ns"])))
    board.compute_all()
    facts = {fact["label"]: fact["text"] for fact in board._bands["detail"]["facts"]}
    half_ns = int(first["duration_ns"] - first["duration_ns"] // 2)
    assert facts["in the window"] == f"{duration(half_ns)}, 1 time"
    assert facts["recorded"] != "1 time"


def test_details_of_an_operator_without_gpu_work_are_those_of_its_calls(real_traces):
    board = Dashboard(real_traces / "kineto" / "no_rank")
    (row,) = (each for each in board.findings.cpu_work.operators if each.name == "aten::copy_")
    board.selection.set(operators=["aten::copy_"])
    board.compute_all()
    facts = {fact["label"]: fact["text"] for fact in board._bands["detail"]["facts"]}
    assert facts["calls"] == f"{row.calls} calls"
    assert facts["self CPU time"] == duration(row.own_ns)


def test_how_a_kernel_is_launched_is_known_without_reading_more(board, monkeypatch):
    computing = board.events[board.events["type"] == "COMPUTATION"]
    name = computing["name"].mode()[0]
    events = computing[computing["name"] == name]
    slowest = int(events.groupby("rank")["duration_ns"].sum().idxmax())
    monkeypatch.setattr(bands, "MOST_EVENTS", 10)
    monkeypatch.setattr("hta_widgets.trace.ranks.source.RankSource.details", None)
    facts = {fact["label"]: fact["text"] for fact in bands.launch_of(board.job, name, events)}
    row = launch_facts(board.job, [slowest], kernel=name, by="configuration").kernels.iloc[0]
    assert facts["grid"].startswith(f"{row['grid']} blocks of {row['block']} threads")


def test_the_search_finds_what_there_is(board):
    ask(board, "search")
    labels = [label for label, _, _ in board._options]
    assert {"rank 3", "step 11", "stream 7", "aten::mul"} <= {*labels}
    kernels = [value for _, value, detail in board._options if detail.startswith("kernel")]
    assert len(kernels) == board.events["name"].nunique()
    assert len(labels) == len({*labels})


def test_the_search_tells_the_gpu_time_of_operators_largest_first(board):
    ask(board, "search")
    found = [(label, words) for label, _, words in board._options if words.startswith("operator")]
    times = operators(board.job).operators.groupby("operator")["gpu_total_ns"].sum()
    shown = [label for label, words in found if "GPU time" in words]
    assert {*shown} == {*times.index[times > 0]}
    assert [label for label, _ in found[: len(shown)]] == shown
    assert times[shown].is_monotonic_decreasing
    assert [words.rsplit(", ", 1)[0] for _, words in found[: len(shown)]] == [
        f"operator, {duration(ns)} of GPU time" for ns in times[shown]
    ]


def test_a_page_can_ask_for_nothing_else(board):
    ask(board, "close")
    ask(board, "compute_all")
    ask(board, ["undo"])
    ask(board, None)
    assert board.comm is not None
