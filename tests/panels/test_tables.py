"""The rows that a page asks for are those that pandas would give, of the whole table."""

from __future__ import annotations

import gzip
import io
import re
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hta_widgets.errors import ParameterError
from hta_widgets.panels import (
    OverlapPanel,
    Panel,
    RankOverlapPanel,
    Selection,
    TemporalBreakdownPanel,
)
from hta_widgets.panels.base.table import (
    CHUNK_BYTES,
    MOST_ROWS,
    Order,
    TableLook,
    cell_text,
    heading_text,
    matching,
    positions,
    shown_cells,
    table_view,
)
from hta_widgets.trace.job import Job
from tests.panels.fakes import FakePanel, fake_job

TABLE = pd.DataFrame(
    {
        "name": ["a", "b"],
        "sum_ns": [1234567, 2],
        "ratio": [0.123456, np.nan],
        "ok": [True, False],
        "known": pd.array([1234, None], dtype="Int64"),
        "rank": [1000, 2],
    }
)


def test_a_table_travels_as_values_with_headings_in_words():
    view = table_view(TABLE, TableLook({"rank": "ranks"}, {"known": "what is known"}))
    assert view["rows"] == [
        ["a", 1234567, 0.123456, True, 1234, 1000],
        ["b", 2, None, False, None, 2],
    ]
    assert view["total"] == 2
    shown = [(heading_text(column), column["kind"], column["select"]) for column in view["columns"]]
    assert shown == [
        ("name", "text", ""),
        ("sum (ms)", "number", ""),
        ("ratio", "number", ""),
        ("ok", "text", ""),
        ("what is known", "number", ""),
        ("rank", "id", "ranks"),
    ]
    first = [cell_text(*each) for each in zip(view["rows"][0], view["columns"], strict=True)]
    assert first == ["a", "1.23", "0.123", "yes", "1,234", "1000"]


@pytest.mark.parametrize(
    ("name", "largest", "heading"),
    [
        ("idle_time_ns", 2_500, "idle time (µs)"),
        ("idle_ns", 3 * 10**9, "idle (s)"),
        ("bytes", 4_100_000, "bytes (MB)"),
        ("moved_bytes", 12, "moved (B)"),
        ("bytes_allocated", 4_100_000, "allocated (MB)"),
        ("flop", 4_100_000, "computed (MFLOP)"),
        ("cuda_graph_time_ns", 0, "CUDA graph time (ms)"),
        ("overlap_percent", 40, "overlap (%)"),
        ("mean_gb_per_s", 40, "mean (GB/s)"),
        ("pieces", 40, "pieces"),
    ],
)
def test_a_unit_is_in_the_heading(name, largest, heading):
    (column,) = table_view(pd.DataFrame({name: [0, largest]}))["columns"]
    assert heading_text(column) == heading


def test_only_the_first_rows_come_with_the_view():
    view = table_view(pd.DataFrame({"n": range(1000)}))
    assert (len(view["rows"]), view["total"]) == (20, 1000)


def test_an_empty_table_keeps_its_columns():
    view = table_view(pd.DataFrame({"n": pd.Series(dtype=float)}))
    assert [column["label"] for column in view["columns"]] == ["n"]
    assert view["rows"] == []


values = st.one_of(st.none(), st.integers(-5, 5), st.floats(-9, 9))
rows = st.lists(st.tuples(values, st.sampled_from(["gemm", "Add", "add", "", "ä"])), max_size=40)


@given(rows, st.sampled_from(["number", "name"]), st.booleans())
def test_order_is_that_of_a_stable_sort(given_rows, column, descending):
    table = pd.DataFrame(given_rows, columns=["number", "name"])
    table["number"] = table["number"].astype("Float64")
    place = table.columns.get_loc(column)
    keys = [row[place].lower() if column == "name" else row[place] for row in given_rows]
    known = [at for at, key in enumerate(keys) if key is not None]
    expected = sorted(known, key=keys.__getitem__, reverse=descending)
    expected += [at for at, key in enumerate(keys) if key is None]
    assert positions(table, Order(column, descending), {}).tolist() == expected


@given(rows, st.sampled_from(["a", "AD", "/^a/", "/m+$/", "3", "-2", " ", "gemm", "zz"]))
def test_a_filter_finds_texts_in_any_case_and_whole_numbers(given_rows, wanted):
    table = pd.DataFrame(given_rows, columns=["number", "name"])
    table["number"] = table["number"].astype("Float64")
    names = {"gemm": "Matrix zz"}

    def found(number: float | None, name: str) -> bool:
        if not wanted.strip():
            return True
        texts = [name, names.get(name, name)]
        if wanted.startswith("/"):
            return any(re.search(wanted[1:-1], text, re.IGNORECASE) for text in texts)
        whole = re.fullmatch(r"-?\d", wanted) is not None and number == float(wanted)
        return whole or any(wanted.lower() in text.lower() for text in texts)

    assert matching(table, wanted, names).tolist() == [found(*row) for row in given_rows]


def test_texts_that_are_missing_are_found_by_nothing():
    table = pd.DataFrame({"note": ["one", None, pd.NA]})
    assert matching(table, "n", {}).tolist() == [True, False, False]
    assert positions(table, Order("note", descending=True), {}).tolist() == [0, 1, 2]


def test_a_regular_expression_takes_bounded_time():
    table = pd.DataFrame({"name": ["a" * 5_000 + "!"]})
    assert not matching(table, "/^(a+)+$/", {}).any()


@pytest.mark.parametrize("order", [Order(filter="/(/"), Order("nothing")])
def test_an_order_that_makes_no_sense_is_refused(order):
    with pytest.raises(ParameterError, match=r"expression|has no column 'nothing'; it has"):
        positions(TABLE, order, {})


QUESTION = {"id": "7", "sort": "", "descending": False, "filter": ""}
ROWS = {**QUESTION, "kind": "table-rows", "first": 0, "count": 10}
TEXT = {**QUESTION, "kind": "table-text", "style": "csv", "offset": 0}


class Page:
    """What a browser does with a panel's table."""

    def __init__(self, panel: Panel) -> None:
        self.panel = panel
        self.answers: list[tuple[dict[str, Any], list[bytes]]] = []
        panel.send = lambda content, buffers=None: self.answers.append((content, buffers or []))

    def ask(self, content: object) -> tuple[dict[str, Any], list[bytes]]:
        data = {"method": "custom", "content": content}
        self.panel._handle_msg({"content": {"data": data}, "buffers": []})
        return self.answers.pop()


@pytest.fixture
def page() -> Page:
    return Page(FakePanel(fake_job(), bars=3000, named=False))


def test_rows_that_did_not_come_with_the_view(page):
    content, _ = page.ask({**ROWS, "first": 2990, "count": 20})
    assert [row[0] for row in content["rows"]] == [str(n) for n in range(2990, 3000)]
    assert (content["id"], content["first"], content["total"]) == ("7", 2990, 3000)
    assert content["columns"] == ["name", "sum_ns"]


def test_rows_in_another_order(page):
    content, _ = page.ask({**ROWS, "sort": "sum_ns", "descending": True, "filter": "/^1..$/"})
    assert content["rows"][0] == ["199", 199_000_000]
    assert content["total"] == 100


def test_all_rows_as_a_file_in_parts(page, monkeypatch):
    monkeypatch.setattr("hta_widgets.panels.base.table.CHUNK_BYTES", 1000)
    text, size = b"", 1
    while len(text) < size:
        content, (chunk,) = page.ask({**TEXT, "sort": "sum_ns", "offset": len(text)})
        text, size = text + chunk, content["bytes"]
        assert 0 < len(chunk) <= 1000 < CHUNK_BYTES
    pd.testing.assert_frame_equal(
        pd.read_csv(io.BytesIO(gzip.decompress(text)), dtype={"name": object}),
        page.panel.table,
        check_dtype=False,
    )


def test_kernels_are_shown_by_labels_and_saved_by_names():
    name = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x)"
    other = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(y)"
    page = Page(FakePanel(fake_job()))
    page.panel.tabulate = lambda _: pd.DataFrame({"kernel": [name, other, "mine"]})
    page.panel.bars = 4
    sent = page.panel._view["table"]
    assert [row[0] for row in sent["rows"]] == [name, other, "mine"]
    label = "all-reduce ring LL bf16 · nccl"
    assert sent["names"] == {name: f"{label} (x)", other: f"{label} (y)"}
    assert shown_cells([name], sent) == [f"{label} (x)"]
    found, _ = page.ask({**ROWS, "filter": "ring LL bf16"})
    assert (found["total"], found["names"]) == (2, sent["names"])
    _, (chunk,) = page.ask(TEXT)
    assert name in gzip.decompress(chunk).decode()


@pytest.mark.parametrize("style", ["csv", "tsv"])
def test_no_text_of_a_file_is_a_formula(style):
    page = Page(FakePanel(fake_job()))
    page.panel.tabulate = lambda _: pd.DataFrame({"name": ["=cmd()", "a\tb"], "n": [-1, 2]})
    page.panel.bars = 4
    _, (chunk,) = page.ask({**TEXT, "style": style})
    text = gzip.decompress(chunk).decode()
    mark = '"' if style == "csv" else ""
    assert text.splitlines()[1].startswith(f"{mark}'=cmd(){mark}")
    assert '"a\tb"' in text
    assert "-1" in text


@pytest.mark.parametrize(
    "change",
    [
        {"sort": 5},
        {"sort": "nothing"},
        {"descending": 1},
        {"filter": None},
        {"filter": "x" * 501},
        {"filter": "/[/"},
        {"first": -1},
        {"first": 1.5},
        {"count": 0},
        {"count": MOST_ROWS + 1},
        {"count": True},
        {"kind": "table-text"},
        {"kind": "table-text", "style": "xml", "offset": 0},
        {"kind": "table-text", "style": "csv", "offset": -1},
    ],
    ids=str,
)
def test_a_malformed_question_is_refused_in_words(page, change, capsys):
    content, buffers = page.ask({**ROWS, **change})
    assert content["id"] == "7"
    assert content["problem"]
    assert "rows" not in content
    assert not buffers
    assert "Traceback" not in "".join(capsys.readouterr())


@pytest.mark.parametrize("content", [None, [], "table-rows", {"kind": ["table-rows"]}, {"kind": 3}])
def test_other_messages_are_for_others(page, content):
    heard = []
    page.panel.on_msg(lambda *given: heard.append(given[1]))
    data = {"method": "custom", "content": content}
    page.panel._handle_msg({"content": {"data": data}, "buffers": []})
    assert heard == [content]
    assert not page.answers


def test_rows_are_of_what_is_shown_after_a_change(page):
    page.panel.bars = 4
    assert page.ask(ROWS)[0]["total"] == 4


@pytest.mark.parametrize("panel", [TemporalBreakdownPanel, OverlapPanel, RankOverlapPanel])
def test_ranks_that_are_not_selected_stay_in_the_list(loaded: Job, panel):
    shown = panel(loaded, selection=Selection(ranks=[1]))
    assert set(shown.table["rank"]) == {1}
    listed = shown._view["table"]
    assert {row[0] for row in listed["rows"]} == set(loaded.ranks)
    assert len(Page(shown).ask(ROWS)[0]["rows"]) == listed["total"]


def test_a_panel_says_which_fields_its_rows_select():
    class Selecting(FakePanel):
        table_selects: ClassVar = {"name": "kernel"}
        table_labels: ClassVar = {"sum_ns": "total"}

    columns = Selecting(fake_job())._view["table"]["columns"]
    assert [(each["label"], each["select"]) for each in columns] == [
        ("name", "kernel"),
        ("total", ""),
    ]
    with pytest.raises(TypeError, match=r"Wrong follows or selects \['nothing'\]; a selection"):
        type("Wrong", (FakePanel,), {"table_selects": {"name": "nothing"}})
    assert "kernel" in Selection.fields()
