"""Reports: what is in the file, what is not, and when none is written."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from hta_widgets.errors import ParameterError, WriteError
from hta_widgets.panels import ComparePanel, Dashboard, OverlapPanel
from hta_widgets.panels.base.front_end import static_file
from hta_widgets.panels.base.report.graph import reachable, saved_models
from hta_widgets.panels.base.report.page import MARK, MARKED_BYTES, page
from hta_widgets.sample import write_sample
from hta_widgets.trace.job import Job
from hta_widgets.trace.opening.open import open_trace
from tests.kineto_text import call, kernel, write
from tests.panels.fakes import FakePanel, fake_job, send
from tests.report_models import models_in, models_of

HOSTILE = (
    "</script></title></style><img src=x onerror=alert(1)><svg/onload=alert(1)>"
    "-->\"'`{{}}\u2028\u2029\u202e\x00\x0b&lt;anywidget:0"
)
ALLOWED = {
    *("html", "head", "meta", "title", "style", "script", "body", "header", "main", "div", "h1"),
    *("h2", "p", "b", "img", "table", "thead", "tbody", "tr", "th", "td"),
}


class Reader(HTMLParser):
    """A page as a browser sees it."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.words = ""
        self.html = html
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1][0] == "script" and data.strip():
            self.scripts.append(data)
        self.words += data

    @property
    def models(self) -> list[dict[str, Any]]:
        """The saved widgets."""
        return models_in(self.html)

    @property
    def policy(self) -> dict[str, str]:
        """Rules of the Content-Security-Policy."""
        given = next(
            attrs["content"] or ""
            for tag, attrs in self.tags
            if tag == "meta" and attrs.get("http-equiv") == "Content-Security-Policy"
        )
        return dict(rule.strip().split(" ", 1) for rule in given.split(";"))


def read(file: Path) -> Reader:
    return Reader(file.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def board(loaded: Job) -> Dashboard:
    return Dashboard(loaded)


@pytest.fixture(scope="module")
def saved(board: Dashboard, tmp_path_factory: pytest.TempPathFactory) -> Reader:
    return read(board.to_html(tmp_path_factory.mktemp("report") / "report.html"))


def views(report: Reader) -> list[dict[str, Any]]:
    return [
        json.loads(each["state"]["_view"]) for each in report.models if "_view" in each["state"]
    ]


def test_every_panel_is_in_it_also_those_that_no_page_shows(board: Dashboard, tmp_path: Path):
    shown, hidden = list(board.panels.values())[:2]
    send(shown, _visible=True)
    send(hidden, _visible=False)
    board.selection.ranks = [1, 2]
    assert hidden._outdated
    report = read(board.to_html(tmp_path / "report.html"))
    by_finding = {view["finding"]: view for view in views(report)}
    for panel in board.panels.values():
        assert by_finding[panel.sentence(panel.result)]["error"] is None
    board.selection.ranks = []


def test_the_bands_of_a_dashboard_are_in_it(board: Dashboard, saved: Reader):
    bands = json.loads(saved.models[0]["state"]["_bands"])
    assert bands["error"] is None
    assert [row["sentence"] for row in bands["findings"]] == [
        each.sentence for each in board.findings
    ]


def test_models_refer_to_each_other_by_their_place(board: Dashboard, saved: Reader):
    states = [each["state"] for each in saved.models]
    assert all(state["_saved"] for state in states)
    text = json.dumps(states)
    places = {int(place) for place in re.findall(r"anywidget:(\d+)", text)}
    assert places == set(range(1, len(states)))
    assert not any(widget.model_id in text for widget in reachable(board))
    assert "IPY_MODEL_" not in text


def test_the_front_end_is_in_it_once(saved: Reader):
    files = {path: content for model in saved.models for path, content in model["bytes"].items()}
    for name in ("panel", "plotly"):
        assert files["files", name] == static_file(f"{name}.js.gz").read_bytes()
    assert sum(len(model["bytes"]) for model in saved.models) == len(files)


def test_a_report_of_the_sample_job_is_small(saved: Reader):
    assert len(saved.html.encode()) < 1_100_000  # each panel of a tab takes some 20 kB of it


def test_the_page_may_run_its_script_and_reach_no_address(saved: Reader):
    script = static_file("report.js").read_text(encoding="utf-8").strip()
    assert saved.scripts[0] == script
    sum_ = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert saved.policy == {
        "default-src": "'none'",
        "script-src": f"'sha256-{sum_}' blob:",
        "style-src": "'unsafe-inline'",
        "img-src": "data: blob:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    first = [tag for tag, _ in saved.tags].index("script")
    assert {"http-equiv": "Content-Security-Policy"}.items() <= saved.tags[3][1].items()
    assert first > 3


def test_what_no_policy_forbids_is_not_in_the_front_end():
    packed = [static_file(f"{name}.js.gz").read_bytes() for name in ("panel", "plotly")]
    scripts = [static_file(f"{name}.js").read_bytes() for name in ("loader", "report")]
    for each in (*map(gzip.decompress, packed), *scripts):
        assert each
        assert not re.search(rb"RTC(Peer|Data|Ice)|WebTransport|EventSource", each)


def test_the_script_is_plain_text_for_an_html_parser():
    script = static_file("report.js").read_text(encoding="utf-8")
    assert not re.search(r"</script|<!--|\r", script, re.IGNORECASE)
    assert "eval" not in script


def test_nothing_in_the_page_names_an_address(saved: Reader):
    for tag, attrs in saved.tags:
        assert tag in ALLOWED
        assert attrs.keys().isdisjoint({"href", "srcset", "action", "style"})
        assert not [name for name in attrs if name.startswith("on")]
        assert tag != "img" or (attrs["src"] or "").startswith("data:image/svg+xml,")
        assert tag == "img" or "src" not in attrs


def test_it_reads_without_scripts(board: Dashboard, saved: Reader):
    for panel in board.panels.values():
        for finding in panel.result.finding, panel.title:
            assert finding in saved.words
    assert sum(tag == "img" for tag, _ in saved.tags) > 5


def test_the_same_values_make_the_same_file(loaded: Job, tmp_path: Path):
    files = [OverlapPanel(loaded).to_html(tmp_path / f"{n}.html").read_bytes() for n in range(2)]
    assert files[0] == files[1]


def test_hostile_names_are_text(tmp_path: Path):
    name = HOSTILE.replace("\x00", "")
    folder = tmp_path / name.replace("/", "|").replace("\x0b", "")
    folder.mkdir()
    events = [call(0, 1, 1, name=name), kernel(5, 10, name=name, correlation=1)]
    write(folder / "rank-0.json", events)
    board = Dashboard(open_trace(folder, progress=False))
    board.selection.kernel = name
    file = board.to_html(tmp_path / "report.html")
    report = read(file)
    assert {tag for tag, _ in report.tags} <= ALLOWED
    assert len(report.scripts) == 2
    assert sum(tag == "script" for tag, _ in report.tags) == 2
    assert name in {model["state"].get("kernel") for model in report.models}
    assert folder.name in report.words


def test_a_hostile_title_is_text():
    report = Reader(page(HOSTILE, ["<p>summary</p>"], b"[]\0"))
    assert {tag for tag, _ in report.tags} <= ALLOWED
    assert report.words.count("onerror=alert(1)") == 2


def test_names_that_look_like_references_stay_names():
    panel = FakePanel(fake_job(name="anywidget:0"))
    panel.selection.kernel = "anywidget:1"
    models = models_of(saved_models(reachable(panel)))
    assert "anywidget:1" in {model["state"].get("kernel") for model in models}


def test_it_names_no_folder_of_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = tmp_path / "of a user" / "run 7"
    write_sample(folder, ranks=2, steps=2, progress=False)
    monkeypatch.chdir(folder.parent)
    job = open_trace(folder, progress=False)
    for widget in Dashboard(job, output_dir=tmp_path), ComparePanel(job, folder / "rank-1.json.gz"):
        file = widget.to_html(tmp_path / "report.html")
        report = read(file)
        for text in (
            file.read_text(encoding="utf-8"),
            json.dumps([each["state"] for each in report.models]),
        ):
            for part in (folder, folder.parent, tmp_path, Path.home()):
                assert str(part) not in text


def test_a_panel_that_fails_says_so_in_its_report(tmp_path: Path):
    report = read(FakePanel(fake_job(), ratio=0.13).to_html(tmp_path / "a.html"))
    assert views(report)[0]["error"] == "13 brings bad luck; choose another ratio"
    assert "13 brings bad luck" in report.words


def test_an_earlier_report_is_replaced_and_nothing_else(tmp_path: Path):
    panel, file = FakePanel(fake_job()), tmp_path / "report.html"
    assert panel.to_html(str(file)) == file
    before = file.read_bytes()
    panel.bars = 7
    panel.to_html(file)
    assert file.read_bytes() != before
    assert list(tmp_path.iterdir()) == [file]
    for content in (b"", b"<html>mine</html>", b" " * MARKED_BYTES + MARK.encode()):
        file.write_bytes(content)
        with pytest.raises(ParameterError, match="is not an hta_widgets report"):
            panel.to_html(file)
        assert file.read_bytes() == content


def test_a_place_that_does_not_suit_is_refused_before_anything_is_computed(tmp_path: Path):
    panel = FakePanel(fake_job())
    send(panel, _visible=False)
    panel.bars, runs = 9, panel.runs
    with pytest.raises(ParameterError, match=r"must end in \.html, got 'trace\.json'"):
        panel.to_html(tmp_path / "trace.json")
    with pytest.raises(ParameterError, match="is not a folder"):
        panel.to_html(tmp_path / "none" / "a.html")
    (tmp_path / "b.html").mkdir()
    with pytest.raises(ParameterError, match="is not an hta_widgets report"):
        panel.to_html(tmp_path / "b.html")
    assert panel.runs == runs


def test_a_full_disk_leaves_the_earlier_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    panel, file = FakePanel(fake_job()), tmp_path / "report.html"
    panel.to_html(file)
    before = file.read_bytes()

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(WriteError, match="No space left"):
        panel.to_html(file)
    assert file.read_bytes() == before
    assert list(tmp_path.iterdir()) == [file]


def test_the_mark_is_where_it_is_looked_for(saved: Reader, board: Dashboard, tmp_path: Path):
    content = board.to_html(tmp_path / "report.html").read_bytes()
    assert MARK.encode() in content[:MARKED_BYTES]
    assert saved.tags[0][0] == "html"
