"""What a panel leaves in a saved notebook: words, pictures and rows, escaped and small."""

from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser
from urllib.parse import unquote
from xml.etree import ElementTree as ET

import pytest

from hta_widgets.panels import Dashboard
from hta_widgets.panels.base import summary
from hta_widgets.panels.base.summary import html_summary
from hta_widgets.panels.dashboard import PANELS
from hta_widgets.trace.job import Job
from hta_widgets.trace.opening.open import open_trace
from tests.figures.svg_geometry import coordinates
from tests.kineto_text import call, kernel, write
from tests.panels.fakes import EVIL, FakePanel, fake_job
from tests.panels.test_drawings import steps

ALLOWED = {"b", "p", "img", "table", "thead", "tbody", "tr", "th", "td"}
ADDRESS = "data:image/svg+xml,"


class Reader(HTMLParser):
    """Tags, pictures and text of a page, as a browser sees them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.pictures: list[str] = []
        self.names: list[str] = []
        self.words = ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag == "img":
            attributes = dict(attrs)
            assert attributes.keys() == {"alt", "src"}
            assert attributes["src"].startswith(ADDRESS)
            self.pictures.append(unquote(attributes["src"].removeprefix(ADDRESS)))
            self.names.append(attributes["alt"])

    def handle_data(self, data):
        self.words += data


def displayed(widget) -> Reader:
    page = widget._repr_mimebundle_()[0]["text/html"]
    assert len(page.encode()) <= 60_000
    read = Reader(page)
    assert set(read.tags) <= ALLOWED
    for picture in read.pictures:
        assert ET.fromstring(picture).tag.endswith("svg")  # noqa: S314
        assert not re.search(r"\b(nan|inf|None)\b", picture)
    return read


HATCHES = ("defs", "pattern")


@pytest.mark.parametrize("name", sorted(PANELS.keys() - {"cupti_counters"}))
def test_every_panel_has_its_finding_charts_and_rows(loaded: Job, name):
    panel = PANELS[name](loaded)
    for _ in steps(panel):
        read = displayed(panel)
        if panel._view["error"] is None:
            assert panel._view["finding"] in read.words
        has_boxes = name == "flame" and panel._view["empty"] is None
        drawn = [*(["Flame graph"] if has_boxes else []), *panel.figures]
        assert len(read.pictures) == len(drawn)
        assert read.names == [f"Chart: {each}" for each in drawn]
        for picture in read.pictures:
            height = float(ET.fromstring(picture).get("height"))  # noqa: S314
            assert all(-1 <= x <= 761 and -1 <= y <= height + 1 for x, y in coordinates(picture))


@pytest.mark.parametrize("ranks", [[0], None])
def test_a_dashboard_has_its_findings_and_budget(sample_traces, ranks):
    board = Dashboard(open_trace(sample_traces, ranks=ranks, progress=False))
    read = displayed(board)
    assert read.names[0] == "Chart: Where a step goes"
    assert len(board.findings) > 0
    assert all(found.sentence in read.words for found in board.findings)


def test_hostile_names_stay_text(tmp_path):
    names = [
        '"><script>alert(1)</script>',
        "'><img src=x onerror=alert(1)>",
        "%3Cscript%3Ealert(1)%3C/script%3E#?&",
        "</text></svg><script>alert(1)</script>",
        "\u202egnp.exe",
        "￾ nonsense",
    ]
    calls = [call(10 * place, 1, place) for place in range(len(names))]
    kernels = [kernel(10 * i + 2, 5, name=name, correlation=i) for i, name in enumerate(names)]
    board = Dashboard(write(tmp_path / "trace.json", [*calls, *kernels]))
    for widget in (board, *board.panels.values()):
        for picture in displayed(widget).pictures:
            tags = {each.tag.rpartition("}")[2] for each in ET.fromstring(picture).iter()}  # noqa: S314
            assert tags <= {*("svg", "style", "g", "path", "rect", "text", "circle"), *HATCHES}
    kernel_chart = displayed(board.panels["kernel_breakdown"]).pictures[1]
    shown = "".join(ET.fromstring(kernel_chart).itertext())  # noqa: S314
    for name in names[:4]:
        assert name in unescape(shown)


class TestRoom:
    @pytest.fixture
    def panel(self) -> FakePanel:
        return FakePanel(fake_job(), bars=30)

    def test_all_of_it_where_there_is_room(self, panel):
        read = Reader(panel.summary())
        assert len(read.pictures) == 1
        assert read.tags.count("tr") == 1 + 10

    def test_few_rows_beside_the_chart_where_there_is_little(self, panel):
        whole = len(panel.summary())
        read = Reader(panel.summary(limit=whole - 1))
        assert (len(read.pictures), read.tags.count("tr")) == (1, 1 + 3)

    def test_the_chart_goes_before_the_rows(self, panel):
        read = Reader(panel.summary(limit=1_300))
        assert len(read.pictures) == 1
        assert read.tags.count("tr") == 0

    def test_the_words_stay(self, panel):
        read = Reader(panel.summary(limit=100))
        assert read.words == "Fake30 bars on 4 ranks."
        assert panel.summary(limit=20) == ""

    @pytest.mark.parametrize("limit", range(0, 3_000, 50))
    def test_it_is_never_larger(self, panel, limit):
        assert len(panel.summary(limit).encode()) <= limit

    def test_long_errors_and_names_are_cut(self, panel):
        view = {**panel._view, "error": EVIL * 9_000}
        page = html_summary("Fake", view, {})
        assert len(page) < 10_000
        assert EVIL not in page


class TestCost:
    def test_nothing_is_drawn_until_it_is_displayed(self, monkeypatch):
        drawn = []
        monkeypatch.setattr(summary, "svg", lambda figure, **_: drawn.append(figure) or "<svg/>")
        panel = FakePanel(fake_job())
        panel.bars = 5
        assert drawn == []
        panel._repr_mimebundle_()
        assert len(drawn) == 1

    def test_displaying_computes_nothing(self):
        panel = FakePanel(fake_job())
        panel._repr_mimebundle_()
        assert panel.runs == 1

    def test_a_figure_that_cannot_be_drawn_leaves_the_rest(self, monkeypatch):
        def fail(_, **_points):
            raise KeyError

        monkeypatch.setattr(summary, "svg", fail)
        panel = FakePanel(fake_job())
        data, _ = panel._repr_mimebundle_()
        assert "3 bars on 4 ranks." in data["text/html"]
        assert "application/vnd.jupyter.widget-view+json" in data
