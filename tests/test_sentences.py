"""Each number in a sentence of a dashboard is that of its table, and equal names are equal numbers.

One screen once gave one step 33.8 and 46.9 ms, and one wait two prices.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing

import pytest

from hta_widgets import Dashboard, open_trace
from hta_widgets.analyses import step_table
from hta_widgets.cli.diagnose.document import document
from hta_widgets.cli.diagnose.report import report
from hta_widgets.quantities import duration, percent
from hta_widgets.sample import write_sample
from tests.conftest import KINETO_FOLDERS, REAL_TRACES
from tests.explained import FORMS, OF_DIAGNOSIS, explain

SAMPLE = "sample job"
REAL = {
    path.name: path for each in KINETO_FOLDERS for path in sorted(REAL_TRACES.glob(f"{each}/*"))
}

PRICE = re.compile(
    r": (?P<least>at least )?(?P<price>\S+ \S+) of (?:each|the) (?P<period>\S+ \S+) "
    r"(?P<noun>step|GPU span) \((?P<percent>(?:under )?\S+ %)\)\.$"
)
NS_PER_MS = 1e6


@pytest.fixture(scope="module", params=[SAMPLE, *REAL])
def board(request, tmp_path_factory) -> Iterator[Dashboard]:
    if request.param == SAMPLE:
        folder = write_sample(tmp_path_factory.mktemp("sample"), ranks=2, steps=4, progress=False)
    else:
        folder = REAL[request.param]
    with closing(Dashboard(open_trace(folder, progress=False))) as board:
        board.compute_all()
        for panel in board.panels.values():
            panel.compute_all()
        yield board


def test_each_sentence_is_explained_by_its_tables(board):
    check_sentences(board)


def test_each_sentence_of_one_step_and_of_a_window(board):
    table = step_table(board.job).steps
    if table.empty:
        return
    followers = [name for name, each in board.panels.items() if "window_ns" in each.follows]
    third_ns = int(table["end_ns"].max()) // 3
    numbers = sorted({*table["step"]} - {-1})
    times = [{"steps": (number,)} for number in numbers[-1:]]
    for time in (*times, {"window_ns": (third_ns, 2 * third_ns)}):
        selected = {"steps": (), "window_ns": None} | time
        board.selection.set_trait("steps", selected["steps"])
        board.selection.set_trait("window_ns", selected["window_ns"])
        check_sentences(board, followers)
    board.selection.steps, board.selection.window_ns = (), None


def check_sentences(board, names=None):
    wrong = []
    for name, panel in board.panels.items():
        if name in OF_DIAGNOSIS or (names is not None and name not in names):
            continue
        assert panel.result is not None
        wrong.append(explain(panel, name, panel.result.finding))
    assert not [*filter(None, wrong)], "\n".join(filter(None, wrong))
