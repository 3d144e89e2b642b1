"""The command ``table``: the rows of an analysis, for another program."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pandas as pd
import pytest

from hta_widgets import cli
from hta_widgets.analyses import collectives, operators
from hta_widgets.trace.opening.open import open_trace
from tests.kineto_text import call, kernel, write


def printed(
    capsys: pytest.CaptureFixture[str], *arguments: str | Path
) -> tuple[pd.DataFrame, list[str]]:
    assert cli.main(["table", *map(str, arguments)]) == 0
    out, err = capsys.readouterr()
    return pd.read_csv(StringIO(out)), err.splitlines()


def test_it_is_the_table_of_the_analysis(sample_traces: Path, capsys) -> None:
    table, said = printed(capsys, "operators", sample_traces, "--sort", "gpu_self_ns")
    expected = operators(open_trace(sample_traces, progress=False))
    rows = expected.operators.sort_values("gpu_self_ns", ascending=False, kind="stable")
    assert table["gpu_self_ns"].tolist() == rows["gpu_self_ns"].tolist()
    assert table["operator"].tolist() == rows["operator"].tolist()
    assert said[0] == expected.finding
    assert f"operators: {len(rows):,} of {len(rows):,} rows" in said
    assert said[-1] == "Other tables: launch_calls, ranks"


def test_some_rows_and_columns_of_some_ranks_of_another_table(sample_traces: Path, capsys) -> None:
    choice = ("--table", "groups", "--columns", "collective,count", "--rows", "2", "--ranks", "1-2")
    table, said = printed(capsys, "collectives", sample_traces, *choice)
    rows = collectives(open_trace(sample_traces, progress=False), [1, 2]).groups
    assert table.to_dict("list") == rows[["collective", "count"]].head(2).to_dict("list")
    assert f"groups: 2 of {len(rows)} rows" in said


def test_what_is_not_recorded_is_empty_and_names_are_printable(tmp_path: Path, capsys) -> None:
    name = 'gemm\x1b[31m,"x"\n=1'
    write(tmp_path / "rank-0.json", [call(0, 1, 1), kernel(5, 10, name=name, correlation=1)])
    (text,) = printed(capsys, "launch_facts", tmp_path)[0]["name"]
    assert text == 'gemm?[31m,"x"?=1'
    assert printed(capsys, "launch_facts", tmp_path)[0]["grid"].isna().all()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("magic",), "no analysis is called 'magic'; the analyses are clocks, collectives, "),
        (("overlap", "--table", "x"), "overlap has no table 'x'; it has ranks"),
        (("overlap", "--columns", "rank,x"), "table ranks has no column 'x'; it has rank, "),
        (("overlap", "--ranks", "9"), "rank 9"),
        (("overlap", "--rows", "-1"), "--rows must be at least 1, got -1"),
        (("server_steps", "--rows", "3", "--cycle", "5"), "cycle 5"),
    ],
)
def test_errors_say_what_there_is(sample_traces: Path, capsys, arguments, said: str) -> None:
    analysis, *options = arguments
    assert cli.main(["table", analysis, str(sample_traces), *options]) == cli.USER_ERROR
    assert said in capsys.readouterr().err
